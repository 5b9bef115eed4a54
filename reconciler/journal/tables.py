"""Memory as rows: one table per kind of fact, so that any SQLite tool can read a journal."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.model.codec import from_json, to_json
from reconciler.model.memory import Failure, Memory, Place, Watch
from reconciler.model.workload import Allocation, InstanceId

VERSION = 1
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One field of Memory: its columns, and how an entry becomes a row and a row an entry."""

    field: str
    columns: str
    to_row: Callable[[Any, Any], Row]
    from_row: Callable[..., tuple[Any, Any]]

    @property
    def create(self) -> str:
        """The statement that makes the table."""
        return f"CREATE TABLE IF NOT EXISTS {self.field} ({self.columns})"

    def read(self, connection: sqlite3.Connection) -> dict[Any, Any]:
        """Every entry, in the order in which they were written."""
        rows = connection.execute(f"SELECT * FROM {self.field} ORDER BY rowid")  # noqa: S608  a name of ours
        return dict(self.from_row(*row) for row in rows)

    def write(self, connection: sqlite3.Connection, entries: Mapping[Any, Any]) -> None:
        """Replace the table's content."""
        connection.execute(f"DELETE FROM {self.field}")  # noqa: S608  a name of ours
        marks = ", ".join("?" * (self.columns.count(",") + 1))
        rows: Iterable[Row] = (self.to_row(key, value) for key, value in entries.items())
        connection.executemany(f"INSERT INTO {self.field} VALUES ({marks})", rows)  # noqa: S608  a name of ours


_instance = InstanceId.parse

TABLES = (
    Table(
        "failures",
        "instance TEXT, digest TEXT, count INTEGER, at REAL, retry_at REAL, message TEXT",
        lambda key, one: (str(key[0]), key[1], one.count, one.at, one.retry_at, one.message),
        lambda instance, digest, *rest: ((_instance(instance), digest), Failure(*rest)),
    ),
    Table(
        "watches",
        "container TEXT, first_seen REAL, good_since REAL, restart_count INTEGER",
        lambda key, one: (key, one.first_seen, one.good_since, one.restart_count),
        lambda container, *rest: (container, Watch(*rest)),
    ),
    Table(
        "healthy",
        "instance TEXT, digest TEXT",
        lambda key, digest: (str(key), digest),
        lambda instance, digest: (_instance(instance), digest),
    ),
    Table(
        "finished",
        "instance TEXT, code INTEGER",
        lambda key, code: (str(key), code),
        lambda instance, code: (_instance(instance), code),
    ),
    Table("guarded", "revision TEXT, at REAL", lambda key, at: (key, at), lambda revision, at: (revision, at)),
    Table("last_seen", "host TEXT, at REAL", lambda key, at: (key, at), lambda host, at: (host, at)),
    Table(
        "placed",
        "instance TEXT, host TEXT, allocation TEXT",
        lambda key, place: (str(key), place.host, json.dumps(to_json(place.allocation))),
        lambda instance, host, given: (_instance(instance), Place(host, from_json(Allocation, json.loads(given)))),
    ),
)

EVENTS = "id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, kind TEXT, instance TEXT, host TEXT, message TEXT"


def create(connection: sqlite3.Connection) -> None:
    """Make what is missing and write down the version."""
    for table in TABLES:
        connection.execute(table.create)
    connection.execute(f"CREATE TABLE IF NOT EXISTS events ({EVENTS})")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def read(connection: sqlite3.Connection) -> Memory:
    """The whole memory. Raises sqlite3.DatabaseError or ValueError when it makes no sense."""
    try:
        return Memory(**{table.field: table.read(connection) for table in TABLES})
    except TypeError as error:  # other columns than ours
        raise ValueError(str(error)) from None


def write(connection: sqlite3.Connection, memory: Memory, before: Memory) -> None:
    """Write what differs from ``before``, table by table."""
    for table in TABLES:
        entries = getattr(memory, table.field)
        if entries != getattr(before, table.field):
            table.write(connection, entries)
