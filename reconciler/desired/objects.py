"""The files of one commit, read from git's objects in two processes: one for the names, one for the bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.desired.links import look
from reconciler.desired.plumbing import Entry, GitError, list_commit, read_blobs
from reconciler.errors import SourceError

_LFS_MARK = b"version https://git-lfs.github.com/spec/"  # Git LFS specification, "the pointer"
_LFS_MOST = 1024  # bytes; the specification's limit for a pointer
_LARGEST_DOCUMENT = 8 << 20  # bytes read ahead; larger ones are read when asked for
_LARGEST_OTHER = 256 << 10
_ALL_OTHERS = 16 << 20


@dataclass(frozen=True, slots=True)
class CommitBlobs:
    """Bytes from a repository's objects. ``contents`` (by blob id) holds what was read ahead."""

    folder: Path
    ids: Mapping[str, str]
    contents: Mapping[str, bytes] = field(repr=False)

    def read(self, path: str) -> bytes:
        """Bytes of one file. Raises SourceError when the object is gone or stands for an LFS object."""
        blob = self.ids.get(path)
        if blob is None:
            raise SourceError(f"{path}: no such file in the commit")
        data = self.contents.get(blob)
        if data is None:
            data = read_blobs(self.folder, [blob])[blob]
        fault = lfs_fault(data)
        if fault:
            raise SourceError(f"{path}: {fault}")
        return data


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """What one commit holds under a path; as in Tree."""

    ids: Mapping[str, str]
    bad: Mapping[str, str]
    modules: tuple[str, ...]
    blobs: CommitBlobs


def read_commit(folder: Path, commit: str, base: str, known: Mapping[str, bytes]) -> CommitFiles | str:
    """Read the files under ``base``; or, when it is no folder of that commit, why not.

    ``known`` is the content of blobs read earlier. Raises SourceError when objects are missing.
    """
    found: dict[str, Entry] = {}

    def listing(part: str) -> Mapping[str, Entry]:
        try:
            found.update(list_commit(folder, commit, part))
        except GitError:
            if not part:
                raise
            return {}  # no folder of that name: the whole listing tells why
        return found

    def targets(paths: Iterable[str]) -> Mapping[str, str]:
        links = {path: found[path].id for path in paths}
        blobs = read_blobs(folder, links.values())
        return {path: blobs[blob].decode("utf-8", "surrogateescape") for path, blob in links.items()}

    seen = look(listing, targets, base)
    if isinstance(seen, str):
        return seen
    entries = {name: found[real] for name, real in seen.files.items()}
    wanted = _read_ahead(entries)
    contents = {blob: known[blob] for blob in wanted if blob in known}
    contents |= read_blobs(folder, [blob for blob in wanted if blob not in known])
    bad = dict(seen.bad)
    for name, entry in entries.items():
        fault = lfs_fault(contents.get(entry.id, b"")) if is_document(name) else ""
        if fault:
            bad[name] = fault
    ids = {name: entry.id for name, entry in entries.items() if name not in bad}
    return CommitFiles(ids, bad, tuple(seen.modules), CommitBlobs(folder, ids, contents))


def _read_ahead(entries: Mapping[str, Entry]) -> list[str]:
    """Ids of what will surely be asked for (documents) and probably (small files), so that one process reads it all."""
    wanted: dict[str, None] = {}
    room = _ALL_OTHERS
    for name, entry in sorted(entries.items()):
        if is_document(name):
            if entry.size <= _LARGEST_DOCUMENT:
                wanted[entry.id] = None
        elif entry.size <= min(_LARGEST_OTHER, room) and entry.id not in wanted:
            wanted[entry.id] = None
            room -= entry.size
    return list(wanted)


def is_document(name: str) -> bool:
    """Whether the repository's format reads this file as documents."""
    return name.endswith((".yaml", ".yml", ".json"))


def lfs_fault(data: bytes) -> str:
    """What to say of a Git LFS pointer that stands where the content should; empty for anything else."""
    if len(data) < _LFS_MOST and data.startswith(_LFS_MARK):
        return "LFS object missing: the repository holds only a pointer to it; keep specs and configs outside Git LFS"
    return ""
