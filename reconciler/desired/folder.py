"""Files as they lie on disk: a folder that is no repository, or the uncommitted files of a work tree."""

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.desired.links import View, look
from reconciler.desired.objects import is_document, lfs_fault
from reconciler.desired.plumbing import Entry, list_worktree
from reconciler.errors import SourceError

_KEPT_IN_MEMORY = 1 << 20  # bytes; larger files are no documents, and are read when asked for
_SETTLED = 2_000_000_000  # nanoseconds: a file changed later than this before the read may change again unseen

Stamp = frozenset[tuple[str, int, int, int]]


@dataclass(frozen=True, slots=True)
class FolderBlobs:
    """Bytes from disk. ``real`` maps visible to real paths under ``top``; small files were read when the tree was."""

    top: Path
    real: Mapping[str, str]
    contents: Mapping[str, bytes] = field(repr=False)

    def read(self, path: str) -> bytes:
        """Bytes of one file. Raises SourceError when it is gone or stands for an LFS object."""
        if path not in self.real:
            raise SourceError(f"{path}: no such file")
        data = self.contents.get(self.real[path])
        if data is None:
            data = _read(self.top, self.real[path])
        fault = lfs_fault(data)
        if fault:
            raise SourceError(f"{path}: {fault}")
        return data


@dataclass(frozen=True, slots=True)
class Files:
    """What was found: the visible files with their ids, and all else that a Tree says.

    ``stamp`` is None when files were too young for their times to be trusted.
    """

    ids: Mapping[str, str]
    bad: Mapping[str, str]
    modules: tuple[str, ...]
    blobs: FolderBlobs
    stamp: Stamp | None


def read_folder(top: Path, base: str, *, worktree: bool) -> Files:
    """Read the files under ``top/base``; links may lead anywhere inside ``top``.

    With ``worktree`` only what git tracks or would add is seen. Raises SourceError.
    """
    began = time.time_ns()
    listed = _Listing(top, worktree=worktree)
    seen = look(listed.entries, listed.targets, base)
    if isinstance(seen, str):
        if not (top / base).is_dir():
            raise SourceError(f"{top / base}: {seen}")
        seen = View()  # a folder with nothing in it that git would take
    ids: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    bad = dict(seen.bad)
    for name, real in seen.files.items():
        try:
            ids[name] = _identify(top, real, contents)
        except SourceError as error:
            bad[name] = str(error)
            continue
        fault = lfs_fault(contents.get(real, b"")) if is_document(name) else ""
        if fault:
            bad[name] = fault
            del ids[name]
    visible = {name: seen.files[name] for name in ids}
    newest = max((mark[1] for mark in listed.marks), default=0)
    stamp = frozenset(listed.marks) if newest < began - _SETTLED else None
    return Files(ids, bad, tuple(seen.modules), FolderBlobs(top, visible, contents), stamp)


def stamp_of(top: Path) -> Stamp:
    """Times and sizes of everything in a plain folder: equal stamps, equal content."""
    listed = _Listing(top, worktree=False)
    listed.entries("")
    return frozenset(listed.marks)


class _Listing:
    """Entries below ``top``, with a mark (path, ctime in ns, size in bytes, inode) for each one looked at."""

    def __init__(self, top: Path, *, worktree: bool) -> None:
        self.top = top
        self.worktree = worktree
        self.marks: set[tuple[str, int, int, int]] = set()

    def entries(self, base: str) -> Mapping[str, Entry]:
        """Every path under ``base``, from ``top``."""
        if self.worktree:
            return self._tracked(base)
        return dict(self._walk(self.top))

    def targets(self, paths: Iterable[str]) -> Mapping[str, str]:
        """What links point to; absolute targets inside ``top`` are made relative."""
        return {path: self._target(path) for path in paths}

    def _target(self, path: str) -> str:
        target = str((self.top / path).readlink())
        if not target.startswith("/"):
            return target
        inside = os.path.relpath(target, self.top)
        up = "../" * path.count("/")
        return target if inside.split("/")[0] == ".." else up + inside

    def _tracked(self, base: str) -> dict[str, Entry]:
        found = {}
        for path in list_worktree(self.top, base):
            entry = self._entry(path.rstrip("/"))
            if entry:
                found[path.rstrip("/")] = entry
        return found

    def _entry(self, path: str) -> Entry | None:
        """What lies at a path that git named; None for a deleted file. A folder there is a repository of its own."""
        try:
            status = os.lstat(self.top / path)
        except OSError:
            return None
        if stat.S_ISDIR(status.st_mode):
            return Entry("module")
        return self._marked(path, status)

    def _marked(self, path: str, status: os.stat_result) -> Entry:
        # ctime, not mtime: rsync and tar set mtime back, and a change of permissions leaves it.
        self.marks.add((path, status.st_ctime_ns, status.st_size, status.st_ino))
        if stat.S_ISLNK(status.st_mode):
            return Entry("link")
        # A pipe or a device would block the reader for ever.
        return Entry("file" if stat.S_ISREG(status.st_mode) else "other", "", status.st_size)

    def _walk(self, folder: Path) -> Iterator[tuple[str, Entry]]:
        """Everything below ``folder`` but ``.git``; links are not followed here."""
        todo = [(folder, "")]
        while todo:
            here, start = todo.pop()
            for item in _scan(here):
                path = start + item.name
                if not item.is_dir(follow_symlinks=False):
                    yield path, self._marked(path, item.stat(follow_symlinks=False))
                elif item.name != ".git":
                    todo.append((here / item.name, f"{path}/"))


def _scan(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as items:
            return list(items)
    except OSError as error:
        raise SourceError(f"{folder}: {_why(error)}") from None


def _identify(top: Path, real: str, contents: dict[str, bytes]) -> str:
    """The sha256 of a file's bytes, which are kept; of a large file, of its place, time and size, which are cheap."""
    if real not in contents:
        try:
            status = (top / real).stat()
        except OSError as error:
            raise SourceError(f"it cannot be read: {_why(error)}") from None
        if status.st_size > _KEPT_IN_MEMORY:
            mark = f"{top / real}\0{status.st_ino}\0{status.st_mtime_ns}\0{status.st_size}"
            return hashlib.sha256(mark.encode("utf-8", "surrogateescape")).hexdigest()
        contents[real] = _read(top, real)
    return hashlib.sha256(contents[real]).hexdigest()


def _read(top: Path, real: str) -> bytes:
    try:
        return (top / real).read_bytes()
    except OSError as error:
        raise SourceError(f"it cannot be read: {_why(error)}") from None


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
