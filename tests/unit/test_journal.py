"""The journal: what it keeps, what it survives, and that a reader changes nothing."""

import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from reconciler.errors import LockHeldError, SourceError
from reconciler.journal.journal import HISTORY, Event, Journal
from reconciler.journal.lock import Holder, Lock
from reconciler.model.memory import Failure, Memory, Place, Watch
from reconciler.model.workload import Allocation, InstanceId

APP = InstanceId.parse("app/web/0")
TASK = InstanceId.parse("task/train/4e1d/0/1")
MEMORY = Memory(
    failures={(APP, "v1:aa"): Failure(2, 10.0, 30.5, "exited with code 3")},
    watches={"c1": Watch(5.0, None, 1), "c2": Watch(5.0, 6.25, 0)},
    healthy={APP: "v1:bb"},
    finished={TASK: 137},
    last_seen={"gpu-01": 100.0},
    placed={APP: Place("gpu-01", Allocation(gpus=("GPU-1",), cpus=(0, 1), ports=((80, "tcp", 30000),)))},
)
HOLDER = Holder(4121, "ops-1", "2026-11-30 10:00:00 UTC", "reconcile daemon")


def everything(folder: Path) -> dict[str, bytes]:
    """Every file under a folder and its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("read_only", [False, True])
def test_memory_comes_back_as_it_was_saved(tmp_path: Path, read_only: bool) -> None:
    """Every kind of fact outlives the process, for writers and readers."""
    journal = Journal.open(tmp_path, "lab")
    assert journal.load() == Memory()
    journal.save(MEMORY)
    journal.close()
    assert Journal.open(tmp_path, "lab", read_only=read_only).load() == MEMORY


def test_clusters_do_not_share_memory(tmp_path: Path) -> None:
    """Each cluster has a file of its own."""
    journal = Journal.open(tmp_path, "lab")
    journal.save(MEMORY)
    journal.close()
    assert Journal.open(tmp_path, "other").load() == Memory()


def test_what_is_forgotten_is_gone(tmp_path: Path) -> None:
    """Saving a smaller memory removes the rows of the larger one."""
    journal = Journal.open(tmp_path, "lab")
    journal.save(MEMORY)
    journal.save(Memory(healthy={APP: "v1:cc"}))
    journal.close()
    assert Journal.open(tmp_path, "lab").load() == Memory(healthy={APP: "v1:cc"})


def test_a_reader_makes_and_changes_no_file(tmp_path: Path) -> None:
    """A dry run leaves the state directory as it found it, with a journal and without one."""
    Journal.open(tmp_path / "empty", "lab", read_only=True).close()
    assert not (tmp_path / "empty").exists()
    journal = Journal.open(tmp_path, "lab")
    journal.save(MEMORY)
    journal.close()
    before = everything(tmp_path)
    reader = Journal.open(tmp_path, "lab", read_only=True)
    assert reader.load() == MEMORY
    reader.close()
    assert everything(tmp_path) == before


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    """A journal that was opened to be read refuses a save."""
    with pytest.raises(SourceError, match="opened to be read only"):
        Journal.open(tmp_path, "lab", read_only=True).save(MEMORY)


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    """An idle pass costs no write; a host seen a moment later is no change worth one."""
    journal = Journal.open(tmp_path, "lab")
    journal.save(MEMORY)
    path = journal.path
    before = path.read_bytes()
    changes = sqlite3.connect(path)
    count = changes.execute("PRAGMA data_version").fetchone()
    journal.save(Memory(**{name: getattr(MEMORY, name) for name in MEMORY.__slots__}))
    seen = {name: getattr(MEMORY, name) for name in MEMORY.__slots__} | {"last_seen": {"gpu-01": 114.0}}
    journal.save(Memory(**seen))
    assert changes.execute("PRAGMA data_version").fetchone() == count
    assert path.read_bytes() == before
    assert journal.load().last_seen == {"gpu-01": 114.0}
    journal.save(Memory(**seen | {"last_seen": {"gpu-01": 116.0}}))
    assert changes.execute("PRAGMA data_version").fetchone() != count
    changes.close()
    journal.close()


@pytest.mark.parametrize(
    "damage", [b"not a database at all, but long enough to be taken for one" * 9, b"SQLite format 3\0"]
)
def test_a_damaged_journal_is_set_aside_and_said(tmp_path: Path, damage: bytes) -> None:
    """Memory is only history: a writer starts anew and keeps the damaged file, a reader leaves it where it is."""
    path = tmp_path / "clusters" / "lab" / "journal.sqlite"
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    reader = Journal.open(tmp_path, "lab", read_only=True)
    assert reader.load() == Memory()
    assert "damaged" in reader.warnings[0]
    assert everything(tmp_path) == {"clusters/lab/journal.sqlite": damage}
    writer = Journal.open(tmp_path, "lab")
    assert "set aside as journal.damaged" in writer.warnings[0]
    assert path.with_suffix(".damaged").read_bytes() == damage
    writer.save(MEMORY)
    writer.close()
    assert Journal.open(tmp_path, "lab").load() == MEMORY


def test_a_row_that_makes_no_sense_is_damage(tmp_path: Path) -> None:
    """An identity that cannot be read does not end in a traceback."""
    journal = Journal.open(tmp_path, "lab")
    journal.close()
    with sqlite3.connect(journal.path) as connection:
        connection.execute("INSERT INTO healthy VALUES ('nonsense', 'v1:aa')")
    connection.close()
    assert "nonsense" in Journal.open(tmp_path, "lab", read_only=True).warnings[0]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_journal_is_refused(tmp_path: Path, read_only: bool) -> None:
    """A release does not throw away what a newer one wrote."""
    journal = Journal.open(tmp_path, "lab")
    journal.close()
    with sqlite3.connect(journal.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SourceError, match="written by a newer release"):
        Journal.open(tmp_path, "lab", read_only=read_only)


def test_a_state_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A file where the folder should be is said, with its path."""
    (tmp_path / "state").write_text("a file")
    with pytest.raises(SourceError, match=r"journal\.sqlite: cannot be used"):
        Journal.open(tmp_path / "state", "lab")


def test_history_is_bounded_in_number(tmp_path: Path) -> None:
    """The newest events stay, in order."""
    journal = Journal.open(tmp_path, "lab")
    journal.record(Event(float(at), "acted", "app/web/0", "gpu-01", f"event {at}") for at in range(HISTORY + 5))
    journal.record([])
    history = journal.history()
    assert len(history) == HISTORY
    assert [one.message for one in (history[0], history[-1])] == ["event 5", f"event {HISTORY + 4}"]
    assert journal.history(2) == history[-2:]
    journal.close()


KILLED = """
    import os, signal, sqlite3, sys
    from pathlib import Path
    from reconciler.journal.journal import Journal
    from reconciler.journal import tables
    from reconciler.model.memory import Memory
    journal = Journal.open(Path(sys.argv[1]), "lab")
    connection = journal._connection
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("PRAGMA cache_spill = 1")
    tables.write(connection, Memory(last_seen={f"host-{n}": 1.0 for n in range(5000)}), Memory())
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_killed_while_writing_leaves_the_state_before(tmp_path: Path) -> None:
    """SIGKILL in the middle of a transaction: a reader sees the old memory and touches nothing, a writer goes on."""
    journal = Journal.open(tmp_path, "lab")
    journal.save(MEMORY)
    journal.close()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    before = everything(tmp_path)
    assert "clusters/lab/journal.sqlite-journal" in before, "the kill came too early to leave anything behind"
    assert Journal.open(tmp_path, "lab", read_only=True).load() == MEMORY
    assert everything(tmp_path) == before
    writer = Journal.open(tmp_path, "lab")
    assert (writer.load(), writer.warnings) == (MEMORY, ())
    writer.close()


def test_the_lock_keeps_a_second_one_out_and_names_the_holder(tmp_path: Path) -> None:
    """Who holds it, where, since when, doing what."""
    journal = Journal.open(tmp_path, "lab")
    with journal.lock(HOLDER), pytest.raises(LockHeldError) as raised:
        journal.lock(HOLDER)
    assert str(raised.value) == (
        "lab: another reconciler is at work: process 4121 on ops-1 since 2026-11-30 10:00:00 UTC (reconcile daemon)"
    )
    journal.lock(HOLDER).release()
    journal.close()


def test_a_lock_whose_holder_was_killed_is_free(tmp_path: Path) -> None:
    """The kernel gives it back: no file has to be removed by hand."""
    path = tmp_path / "lab" / "lock"
    code = (
        "import os, signal, sys; from pathlib import Path; from reconciler.journal.lock import Holder, Lock\n"
        "lock = Lock.acquire(Path(sys.argv[1]), Holder(1, 'h', 's', 'c')); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.exists()
    lock = Lock.acquire(path, HOLDER)
    lock.release()
    lock.release()


def test_a_lock_is_not_handed_to_children(tmp_path: Path) -> None:
    """A child process (git, ssh) that outlives the daemon does not keep the cluster locked."""
    lock = Lock.acquire(tmp_path / "lock", HOLDER)
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        lock.release()
        Lock.acquire(tmp_path / "lock", HOLDER).release()
    finally:
        child.kill()
        child.wait()
