"""The one file that holds every simulated host of a cluster."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

FORMAT = "reconciler.simulated/v1"


@lru_cache(maxsize=16)
def shared_file(path: Path) -> "StateFile":
    """One ``StateFile`` for all hosts of a state directory, so that it is parsed once and not once per host."""
    return StateFile(path)


class StateFile:
    """A JSON document, replaced whole. Readers take no lock; writers of all threads and processes take turns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = path.with_suffix(".lock")
        self._seen: tuple[tuple[int, int, int], dict[str, Any]] | None = None

    def read(self) -> dict[str, Any]:
        """The document, to look at only; empty when there is no file. Raises OSError, ValueError."""
        try:
            status = self.path.stat()
            mark = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._seen is None or self._seen[0] != mark:
                self._seen = (mark, self._parse(self.path.read_bytes()))
        except FileNotFoundError:
            return {"format": FORMAT, "hosts": {}}
        return self._seen[1]

    @contextmanager
    def change(self) -> Iterator[dict[str, Any]]:
        """The document, to change; it is written when the block ends without an error, and only then."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of this open file, so it keeps threads apart as well
            before = self.path.stat().st_mtime_ns if self.path.exists() else 0
            document = self._parse(self.path.read_bytes()) if before else {"format": FORMAT, "hosts": {}}
            yield document
            self._replace(json.dumps(document).encode(), before)

    def _parse(self, content: bytes) -> dict[str, Any]:
        document = json.loads(content)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        return document

    def _replace(self, content: bytes, before: int) -> None:
        new = self.path.with_suffix(".new")  # one name will do: the lock is held
        new.write_bytes(content)
        status = new.stat()
        if status.st_mtime_ns <= before:  # two writes within one tick of the clock must not look alike to a reader
            os.utime(new, ns=(status.st_atime_ns, before + 1))
        new.replace(self.path)
