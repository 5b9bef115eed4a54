"""One writer per cluster and state directory: a lock that the kernel gives back when its holder dies."""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from reconciler.errors import LockHeldError, SourceError


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock. ``since`` is a time for people; the holder's own clock wrote it."""

    pid: int
    host: str
    since: str
    command: str

    def __str__(self) -> str:
        """For a message: who, where, since when, doing what."""
        return f"process {self.pid} on {self.host} since {self.since} ({self.command})"


class Lock:
    """An exclusive lock on one file; the file stays, and names its last holder."""

    def __init__(self, path: Path, holder: Holder, descriptor: int) -> None:
        self.path = path
        self.holder = holder
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path, holder: Holder) -> "Lock":
        """Take the lock now. Raises LockHeldError that names the holder, SourceError when the file cannot be made."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise SourceError(f"{path}: cannot be made: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise LockHeldError(f"{path.parent.name}: another reconciler is at work: {_read(path)}") from None
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise SourceError(f"{path}: cannot be written: {error.strerror}") from None
        return cls(path, holder, descriptor)

    def release(self) -> None:
        """Give it back; a second call does nothing. The file is kept: removing it would race with who waits for it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _read(path: Path) -> str:
    """The holder in words; a holder that is just writing its name is nobody yet."""
    with suppress(OSError, ValueError, TypeError):
        return str(Holder(**json.loads(path.read_text())))
    return f"its name is not in {path} yet"
