"""The journal of one cluster: memory and history in one SQLite file of the state directory.

It is history only: a journal that is gone or damaged costs back-offs and outcomes, never running work. A process killed
while writing leaves the state before that write.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.errors import SourceError
from reconciler.journal import tables
from reconciler.journal.lock import Holder, Lock
from reconciler.model.memory import Memory

HISTORY = 10_000
SEEN_RESOLUTION = 15.0
BUSY_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, on our clock: what kind of thing, to which instance on which host, in one line."""

    at: float
    kind: str
    instance: str = ""
    host: str = ""
    message: str = ""


def cluster_dir(state_dir: Path, cluster: str) -> Path:
    """Where everything about one cluster is kept."""
    return state_dir / "clusters" / cluster


class Journal:
    """Memory and history of one cluster. Not to be shared between threads.

    ``warnings`` says what was found damaged when it was opened.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection | None, memory: Memory, warnings: tuple[str, ...]
    ) -> None:
        self.path = path
        self.warnings = warnings
        self._connection = connection
        self._memory = self._written = memory

    @classmethod
    def open(cls, state_dir: Path, cluster: str, *, read_only: bool = False) -> "Journal":
        """The cluster's journal, made when it is missing; a damaged one is set aside with a warning.

        ``read_only`` makes and changes nothing: a missing or damaged journal is an empty one. Raises SourceError when
        the state directory cannot be used, or when a newer release wrote the journal.
        """
        path = cluster_dir(state_dir, cluster) / "journal.sqlite"
        try:
            return cls._peek(path) if read_only else cls._open(path)
        except (OSError, sqlite3.OperationalError) as error:
            raise SourceError(f"{path}: cannot be used: {error}") from None

    @classmethod
    def _peek(cls, path: Path) -> "Journal":
        if not path.exists():
            return cls(path, None, Memory(), ())
        try:
            return cls(path, None, _read_only(path), ())
        except (sqlite3.DatabaseError, ValueError) as error:
            return cls(path, None, Memory(), (f"{path}: damaged ({error}): planned without memory",))

    @classmethod
    def _open(cls, path: Path) -> "Journal":
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            connection, memory = _read_write(path)
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, ValueError) as error:
            aside = path.with_suffix(".damaged")
            path.replace(aside)
            path.with_name(path.name + "-journal").unlink(missing_ok=True)
            connection, memory = _read_write(path)
            return cls(path, connection, memory, (f"{path}: damaged ({error}): set aside as {aside.name}",))
        return cls(path, connection, memory, ())

    def load(self) -> Memory:
        """The memory as it was last saved (or found)."""
        return self._memory

    def save(self, memory: Memory) -> None:
        """Make ``memory`` the one that lasts. Nothing is written when nothing changed.

        When hosts were last seen is written every ``SEEN_RESOLUTION`` seconds of it: a lost entry only makes a host
        look that much longer gone. Raises SourceError when it cannot be written.
        """
        self._memory, written = memory, self._written
        ahead = max(memory.last_seen.values(), default=0.0) - max(written.last_seen.values(), default=0.0)
        if memory.last_seen.keys() == written.last_seen.keys() and ahead < SEEN_RESOLUTION:
            memory = replace(memory, last_seen=written.last_seen)
        if memory == written:
            return
        with self._writing() as connection:
            tables.write(connection, memory, written)
        self._written = memory

    def record(self, events: Iterable[Event]) -> None:
        """Add to the history; only the newest ``HISTORY`` events are kept. Raises SourceError."""
        rows = [(one.at, one.kind, one.instance, one.host, one.message) for one in events]
        if not rows:
            return
        with self._writing() as connection:
            connection.executemany(
                "INSERT INTO events (at, kind, instance, host, message) VALUES (?, ?, ?, ?, ?)", rows
            )
            connection.execute("DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (HISTORY,))

    def history(self, limit: int = HISTORY) -> list[Event]:
        """The newest events, oldest first."""
        if self._connection is None:
            return []
        query = "SELECT at, kind, instance, host, message FROM events ORDER BY id DESC LIMIT ?"
        return [Event(*row) for row in self._connection.execute(query, (limit,))][::-1]

    def lock(self, holder: Holder) -> Lock:
        """The cluster's lock, held until it is released or the process ends. Raises LockHeldError, SourceError."""
        return Lock.acquire(self.path.with_name("lock"), holder)

    def close(self) -> None:
        """Give back the file."""
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction whose errors are ours."""
        if self._connection is None:
            raise SourceError(f"{self.path}: opened to be read only")
        try:
            with self._connection:
                yield self._connection
        except sqlite3.Error as error:
            raise SourceError(f"{self.path}: cannot be written: {error}") from None


def _read_write(path: Path) -> tuple[sqlite3.Connection, Memory]:
    """An open journal and what is in it. A rollback journal, not WAL: a reader then needs to make no file."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT)
    try:
        _check_version(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
        tables.create(connection)
        connection.commit()
        return connection, tables.read(connection)
    except BaseException:
        connection.close()
        raise


def _read_only(path: Path) -> Memory:
    """What is in a journal, changing nothing. What a killed writer left half done is undone in a copy."""
    try:
        return _read_from(path, f"{path.resolve().as_uri()}?mode=ro")
    except sqlite3.OperationalError:
        with tempfile.TemporaryDirectory(prefix="reconciler-") as folder:
            copy = Path(folder) / path.name
            shutil.copy(path, copy)
            rollback = path.with_name(path.name + "-journal")
            if rollback.exists():
                shutil.copy(rollback, copy.with_name(rollback.name))
            return _read_from(path, copy.as_uri())


def _read_from(path: Path, uri: str) -> Memory:
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT)) as connection:
        return tables.read(connection) if _check_version(connection, path) else Memory()


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of what is in the file, 0 for nothing. Raises SourceError for a newer one than ours."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > tables.VERSION:
        raise SourceError(f"{path}: written by a newer release (format {version}): upgrade, or move it away")
    return int(version)
