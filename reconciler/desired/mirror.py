"""A bare mirror of a remote: the wanted ref is fetched by force, one commit deep.

Nothing is pulled, merged or checked out, so a force-push is a fetch like any other, and no interrupted fetch can leave
a half-done state: a new mirror is made beside its place and renamed.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from reconciler.desired.plumbing import GitError
from reconciler.desired.remote import Access, access, explain, stale_lock
from reconciler.desired.source import Source, redact
from reconciler.errors import SourceError

_LOCK_PAUSE = 0.05  # seconds between two looks at a lock that another process holds


class Run(Protocol):
    """Runs git on the repository at ``path``; the process inherits the descriptor ``lock``."""

    def __call__(self, arguments: Sequence[str], path: Path, way: Access, lock: int) -> None:
        """Raises GitError when git refuses, SourceError when it takes too long."""


class Mirror:
    """A bare repository under the state directory that holds one commit of each wanted ref of one remote."""

    def __init__(self, source: Source, run: Run) -> None:
        self.source = source
        self._run = run
        self.path = source.mirror
        wanted = source.ref or "HEAD"
        self.ref = f"refs/reconciler/{hashlib.sha256(wanted.encode()).hexdigest()[:24]}"
        self._refspec = f"+{wanted}:{self.ref}"

    def needs_fetch(self, *, fetch: bool) -> bool:
        """Whether the remote must be asked: a fetched hash can never move, and what is not here must come."""
        here = self.complete(self.path) and (self.path / self.ref).exists()
        return not here or (fetch and not self.source.pinned)

    @staticmethod
    def complete(path: Path) -> bool:
        """Whether a repository stands at ``path``, as far as a look at its parts tells."""
        return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()

    def fetch(self) -> None:
        """Make the mirror's ref the remote's tip. A broken or half-made mirror is replaced. Raises SourceError."""
        way = self._access()
        with self._locked() as lock:
            if not self.complete(self.path):
                self._build(way, lock)
                return
            try:
                self._fetch_unlocked(self.path, way, lock)
            except GitError as failed:
                meaning = explain(failed.stderr, self.source, way.secret)
                if meaning:
                    raise SourceError(meaning) from None
                self._build(way, lock)  # the remote gave no reason, so the mirror is the suspect

    def rebuild(self) -> None:
        """Replace the mirror: its objects cannot be read."""
        with self._locked() as lock:
            self._build(self._access(), lock)

    def _access(self) -> Access:
        address = self.source.address
        if address is None:
            raise SourceError(f"{self.source.display}: a folder needs no mirror")
        return access(address, self.source.credentials)

    def _build(self, way: Access, lock: int) -> None:
        """Fetch into a new folder, then put it in place: whoever looks finds the old mirror or a complete new one."""
        for left in self.path.parent.glob(f"{self.path.name}.*-*"):
            shutil.rmtree(left)  # by a process that was killed: the lock is ours, so nobody works there
        fresh = Path(tempfile.mkdtemp(prefix=f"{self.path.name}.new-", dir=self.path.parent))
        try:
            self._run(["init", "--bare", "--quiet", "--template=", "."], fresh, way, lock)
            self._fetch(fresh, way, lock)
            if self.path.exists():
                self.path.rename(f"{fresh}-old")
            fresh.rename(self.path)
            shutil.rmtree(f"{fresh}-old", ignore_errors=True)
        except GitError as failed:
            meaning = explain(failed.stderr, self.source, way.secret)
            raise SourceError(meaning or f"{self.source.display}: {redact(str(failed), way.secret)}") from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _fetch_unlocked(self, path: Path, way: Access, lock: int) -> None:
        """Fetch; a lock file in the way is removed once. Our own lock is held, so no process owns it."""
        try:
            self._fetch(path, way, lock)
        except GitError as failed:
            left = stale_lock(failed.stderr)
            if left is None or not left.is_relative_to(path):
                raise
            left.unlink(missing_ok=True)
            self._fetch(path, way, lock)

    def _fetch(self, path: Path, way: Access, lock: int) -> None:
        flags = ["--quiet", "--no-tags", "--no-prune", "--no-recurse-submodules", "--no-write-fetch-head"]
        where = ["--", self.source.display, self._refspec]
        try:
            self._run(["fetch", *flags, "--depth=1", *where], path, way, lock)
        except GitError as failed:
            if "shallow capabilities" not in failed.stderr:
                raise
            self._run(["fetch", *flags, *where], path, way, lock)  # a plain web server cannot cut history off

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold this mirror's lock; its descriptor. Raises SourceError when another process keeps it too long."""
        deadline = time.monotonic() + self.source.timeout
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SourceError(f"{self.path.parent}: mirrors cannot be kept there: {error.strerror}") from None
        try:
            while not _try_lock(descriptor):
                if time.monotonic() > deadline:
                    raise SourceError(f"{self.source.display}: another process has been fetching it for too long")
                time.sleep(_LOCK_PAUSE)
            yield descriptor
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
