"""Remotes over file://: mirrors that follow force-pushes, heal, and leave nothing behind."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.desired import mirror as mirrors
from reconciler.desired import plumbing
from reconciler.desired.mirror import Mirror
from reconciler.desired.remote import Access
from reconciler.desired.repository import Repository, open_tree
from reconciler.desired.source import Source
from reconciler.errors import SourceError
from tests.fakes.git_repository import ENVIRONMENT, commit, git
from tests.fakes.waiting import wait_for


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Git reads nothing of the machine's user."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """The remote, as its owner sees it."""
    commit(tmp_path / "repo", {"fleet/app.yaml": "one"})
    return tmp_path / "repo"


@pytest.fixture
def source(repo: Path, tmp_path: Path) -> Source:
    """The remote, as we see it."""
    return Source(f"file://{repo}", tmp_path / "state", path="fleet")


def with_ref(source: Source, ref: str) -> Source:
    """The same source at another ref."""
    return Source(source.location, source.state_dir, ref=ref, path=source.path)


def test_a_remote(source: Source, repo: Path) -> None:
    """The tip is read, the prefix is the path in the repository, and no history is fetched."""
    first = git(repo, "rev-parse", "HEAD")
    second = commit(repo, {"fleet/app.yaml": "two"})
    tree = open_tree(source)
    assert (tree.commit, tree.source, tree.prefix) == (second, source.location, "fleet/")
    assert tree.blobs.read("app.yaml") == b"two"
    with pytest.raises(subprocess.CalledProcessError):
        git(source.mirror, "cat-file", "-e", first)


def test_new_commits_and_force_pushes(source: Source, repo: Path) -> None:
    """Whatever the branch becomes is read next; an unchanged one gives the same tree object."""
    repository = Repository(source)
    first = repository.read()
    assert repository.read() is first
    second = commit(repo, {"fleet/app.yaml": "two"})
    assert repository.read().commit == second
    git(repo, "reset", "-q", "--hard", first.commit or "")
    third = commit(repo, {"fleet/app.yaml": "three"}, "another history")
    tree = repository.read()
    assert (tree.commit, tree.blobs.read("app.yaml")) == (third, b"three")


def test_unrelated_history(source: Source, repo: Path) -> None:
    """A branch that was replaced by an orphan is a tip like any other."""
    repository = Repository(source)
    repository.read()
    git(repo, "checkout", "-q", "--orphan", "fresh")
    made = commit(repo, {"fleet/only.yaml": "o"})
    git(repo, "branch", "-f", "main", "fresh")
    assert repository.read().commit == made


def test_without_a_fetch_the_mirror_is_read(source: Source, repo: Path) -> None:
    """``fetch=False`` reads what is here, also in a new process, and asks the remote only when nothing is."""
    first = Repository(source).read(fetch=False).commit
    commit(repo, {"fleet/app.yaml": "two"})
    assert Repository(source).read(fetch=False).commit == first
    repo.rename(repo.parent / "away")
    assert Repository(source).read(fetch=False).commit == first


@pytest.mark.parametrize("ref", ["main", "refs/heads/main", "v1", "light", "team/x", "HASH"])
def test_refs_of_a_remote(source: Source, repo: Path, ref: str) -> None:
    """Branches, both kinds of tags and a full hash, each kept apart from the others in one mirror."""
    first = git(repo, "rev-parse", "HEAD")
    for arguments in (["tag", "-a", "v1", "-m", "one"], ["tag", "light"], ["branch", "team/x"]):
        git(repo, *arguments)
    second = commit(repo, {"fleet/app.yaml": "two"})
    wanted = first if ref == "HASH" else ref
    assert open_tree(with_ref(source, wanted)).commit == (second if ref.endswith("main") else first)
    assert open_tree(source).commit == second
    assert len([path for path in source.mirror.parent.iterdir() if path.is_dir()]) == 1


def test_a_full_hash_is_fetched_once(source: Source, repo: Path) -> None:
    """What can never move is not asked for again, so a pinned source works while the remote is away."""
    pinned = with_ref(source, git(repo, "rev-parse", "HEAD"))
    repository = Repository(pinned)
    tree = repository.read()
    repo.rename(repo.parent / "away")
    assert repository.read() is tree
    assert Repository(pinned).read().commit == tree.commit


def test_a_moved_tag_is_followed(source: Source, repo: Path) -> None:
    """Tags that are moved by force are read where they are now."""
    git(repo, "tag", "live")
    repository = Repository(with_ref(source, "live"))
    repository.read()
    second = commit(repo, {"fleet/app.yaml": "two"})
    git(repo, "tag", "-f", "live")
    assert repository.read().commit == second


def test_what_a_remote_lacks(source: Source, repo: Path, tmp_path: Path) -> None:
    """A branch, commit, path or repository that is missing is one clear line; what was read before stays readable."""
    git(tmp_path, "init", "-q", "--bare", "empty.git")
    state = source.state_dir
    for bad, message in (
        (with_ref(source, "gone"), "no branch or tag 'gone'"),
        (with_ref(source, "1" * 40), "no commit 1111"),
        (Source(source.location, state, path="gone"), r"gone: no such folder$"),
        (Source(f"file://{tmp_path}/none.git", state), "no repository there"),
        (Source(f"file://{tmp_path}/empty.git", state), "no commit yet"),
    ):
        with pytest.raises(SourceError, match=message) as caught:
            open_tree(bad)
        assert "\n" not in str(caught.value)
    assert open_tree(source).commit == git(repo, "rev-parse", "HEAD")


def test_a_deleted_branch(source: Source, repo: Path) -> None:
    """When the branch goes away, reading fails and says so, again and again, until it is back."""
    git(repo, "branch", "live")
    repository = Repository(with_ref(source, "live"))
    tree = repository.read()
    git(repo, "branch", "-D", "live")
    for _ in range(2):
        with pytest.raises(SourceError, match="no branch or tag 'live'"):
            repository.read()
    git(repo, "branch", "live")
    assert repository.read() is tree


def test_a_path_that_goes_away_from_a_remote(source: Source, repo: Path) -> None:
    """A commit without the path is an error at every read, with and without a fetch, never the old tree."""
    repository = Repository(source)
    for _ in range(3):
        repository.read()
    commit(repo, {"fleet/app.yaml": None, "other.yaml": "o"})
    for fetch in (True, True, False):
        with pytest.raises(SourceError, match="fleet: no such folder"):
            repository.read(fetch=fetch)


def _break(mirror: Path, how: str) -> None:
    """Leave a mirror as a crash or a bad disk could."""
    objects = [path for path in (mirror / "objects").rglob("*") if path.is_file()]
    if how == "no HEAD":
        (mirror / "HEAD").unlink()
    elif how == "empty":
        subprocess.run(["rm", "-rf", mirror], check=True)
        mirror.mkdir()
    elif how == "file":
        subprocess.run(["rm", "-rf", mirror], check=True)
        mirror.write_text("?")
    elif how == "config":
        (mirror / "config").write_text("[core\n")
    else:
        for path in objects:
            path.chmod(0o644)
            path.unlink() if how == "objects gone" else path.write_bytes(b"")


@pytest.mark.parametrize("how", ["no HEAD", "empty", "file", "config", "objects gone", "objects empty"])
@pytest.mark.parametrize("same_process", [True, False])
def test_a_broken_mirror_is_replaced(source: Source, repo: Path, how: str, same_process: bool) -> None:
    """Half-made and damaged mirrors are made anew, without a word to the user."""
    repository = Repository(source)
    repository.read()
    second = commit(repo, {"fleet/app.yaml": "two"})
    _break(source.mirror, how)
    tree = (repository if same_process else Repository(source)).read()
    assert (tree.commit, tree.blobs.read("app.yaml")) == (second, b"two")


@pytest.mark.parametrize("how", ["no HEAD", "config", "objects gone", "objects empty"])
@pytest.mark.parametrize("fetch", [True, False])
def test_a_broken_mirror_of_an_unchanged_remote(source: Source, how: str, fetch: bool) -> None:
    """Damage is also healed when the remote has nothing new, and when it need not be asked."""
    tree = open_tree(source)
    _break(source.mirror, how)
    assert Repository(source).read(fetch=fetch).files == tree.files


def test_nothing_is_left_beside_a_mirror(source: Source) -> None:
    """Folders of a first fetch that was killed are removed by the next one."""
    left = source.mirror.parent / f"{source.mirror.name}.new-killed"
    (left / "objects").mkdir(parents=True)
    open_tree(source)
    assert sorted(path.name for path in source.mirror.parent.iterdir()) == [
        source.mirror.name,
        f"{source.mirror.name}.lock",
    ]


@pytest.mark.parametrize("lock", ["shallow.lock", "REF.lock"])
def test_a_lock_left_behind_is_removed(source: Source, repo: Path, lock: str) -> None:
    """A lock file that a killed git left in the mirror does not stop the next fetch."""
    open_tree(source)
    name = lock.replace("REF", Mirror(source, _refuse).ref)
    (source.mirror / name).touch()
    marker = source.mirror / "marker"
    marker.touch()
    second = commit(repo, {"fleet/app.yaml": "two"})
    assert open_tree(source).commit == second
    assert not (source.mirror / name).exists()
    assert marker.exists(), "the mirror was replaced instead"


def _refuse(arguments: Sequence[str], path: Path, way: Access, lock: int) -> None:
    raise AssertionError((arguments, path, way, lock))


def test_locks_elsewhere_are_never_removed(source: Source, tmp_path: Path) -> None:
    """A lock file outside the mirror is not ours, whatever git prints."""
    open_tree(source)
    foreign = tmp_path / "index.lock"
    foreign.touch()

    def run(arguments: Sequence[str], path: Path, way: Access, lock: int) -> None:
        assert path.is_dir(), (way, lock)
        raise plumbing.GitError(arguments[0], f"fatal: Unable to create '{foreign}': File exists.")

    with pytest.raises(SourceError):
        Mirror(source, run).fetch()
    assert foreign.exists()


def test_two_processes_take_turns(source: Source) -> None:
    """While another process holds the mirror's lock we wait, and say so when it takes too long."""
    open_tree(source)
    impatient = Source(source.location, source.state_dir, path="fleet", timeout=0.2)
    with Path(f"{source.mirror}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SourceError, match="another process"):
            open_tree(impatient)
        timer = threading.Timer(0.2, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
        timer.start()
        assert open_tree(source).commit
        timer.join()


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that starts a child, writes both process ids to the returned file, and never answers."""
    program = tmp_path / "bin/ssh"
    program.parent.mkdir()
    pids = tmp_path / "pids"
    program.write_text(f"#!/bin/sh\ntrap '' TERM\nsleep 1000 &\necho $$ $! > {pids}.new\nmv {pids}.new {pids}\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return pids


def _running(pid: str) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_time_out_kills_everything(hanging: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remote that never answers is given up in time, and git, ssh and its children are gone, even deaf ones."""
    monkeypatch.setattr(plumbing, "_GRACE", 0.1)
    with pytest.raises(SourceError, match=r"fetch took more than 1 s"):
        open_tree(Source("git@host:a", tmp_path / "state", timeout=1))
    for pid in hanging.read_text().split():
        wait_for(lambda pid=pid: not _running(pid), f"the end of {pid}")  # type: ignore[misc]  # bound in the loop


def test_a_killed_reconciler_leaves_the_lock_to_git(hanging: Path, tmp_path: Path) -> None:
    """While git lives on after its reconciler was killed, the mirror stays locked; then it is free."""
    state = tmp_path / "state"
    code = (
        "import sys; from pathlib import Path; from reconciler.desired.repository import open_tree;"
        "from reconciler.desired.source import Source; open_tree(Source('git@host:a', Path(sys.argv[1])))"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(state)], cwd=Path(__file__).parents[2])
    wait_for(hanging.exists, "ssh to start")
    child.send_signal(signal.SIGKILL)
    child.wait()
    with Path(f"{Source('git@host:a', state).mirror}.lock").open("w") as lock:
        assert not mirrors._try_lock(lock.fileno())
        leader = _session(hanging.read_text().split()[0])
        os.killpg(leader, signal.SIGKILL)
        assert wait_for(lambda: mirrors._try_lock(lock.fileno()), "the lock")


def _session(pid: str) -> int:
    return os.getsid(int(pid))


def test_nothing_of_the_user_s_configuration_runs(
    source: Source, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks of a global configuration and variables of a calling hook have no effect on a fetch."""
    hook = tmp_path / "hooks/reference-transaction"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    hook.chmod(0o755)
    (tmp_path / "config").write_text(f"[core]\n\thooksPath = {hook.parent}\n[fetch]\n\tprune = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", str(repo / ".git"))
    monkeypatch.setenv("GIT_TRACE", "1")
    assert list(open_tree(source).files) == ["app.yaml"]
    assert not (tmp_path / "sprung").exists()


def test_unwritable_state(source: Source, tmp_path: Path) -> None:
    """A state directory that cannot be made is one line."""
    (tmp_path / "state").write_text("a file")
    with pytest.raises(SourceError, match="mirrors cannot be kept there"):
        open_tree(source)


def test_git_is_missing_for_a_remote(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git the line says how to get it."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceError, match="git is not installed"):
        open_tree(source)


def test_another_user_s_remote(source: Source, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git's refusal to serve a repository of another user is told with what to do about it."""
    monkeypatch.setattr(plumbing, "_KEPT", plumbing._KEPT | {"GIT_TEST_ASSUME_DIFFERENT_OWNER"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # of git's own test-suite
    with pytest.raises(SourceError, match=rf"belongs to another user.*safe\.directory {repo}"):
        open_tree(source)


def test_ssh_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ssh the line says how to get it."""
    (tmp_path / "bin").mkdir()
    for name in ("git", "sh", "env"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(SourceError, match="ssh is not installed"):
        open_tree(Source("git@host:a", tmp_path / "state"))


def _descriptors() -> tuple[int, str]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return len(list(Path("/proc/self/fd").iterdir())), children


def test_fifty_fetches_leave_nothing_behind(source: Source, repo: Path) -> None:
    """Fifty fetches, each of a new commit, leave no process, no open file and no new folder."""
    repository = Repository(source)
    repository.read()
    before = _descriptors()
    names = sorted(path.name for path in source.mirror.iterdir())
    for number in range(50):
        made = git(repo, "commit-tree", "HEAD^{tree}", "-m", str(number))
        (repo / ".git/refs/heads/main").write_text(f"{made}\n")
        assert repository.read().commit == made
    assert _descriptors() == before
    assert sorted(path.name for path in source.mirror.iterdir()) == names
