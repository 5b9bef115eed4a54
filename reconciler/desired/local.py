"""Where a local repository keeps its refs, and a stamp that tells without a process whether a ref may have moved."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from reconciler.desired.plumbing import GitError, git
from reconciler.errors import SourceError

# gitrevisions(7): where a short name is looked for, in this order.
_RULES = ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
_SYMBOLIC = "ref: "

Mark = str | tuple[int, int, int] | None
Stamp = tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A repository on disk. ``git_dir`` holds HEAD, ``common_dir`` the refs (they differ in a linked work tree).

    ``prefix`` is the folder that was named, from the repository's top; ``bare`` repositories have no work tree.
    """

    git_dir: Path
    common_dir: Path
    bare: bool
    prefix: str

    def stamp(self, ref: str) -> Stamp:
        """Everything that decides what ``ref`` is. Equal stamps: the same commit.

        Loose refs and HEAD are compared by content, which is exact. Packed refs and reftables, written as a whole under
        a new name each time, are compared by time, size and inode.
        """
        head = _content(self.git_dir / "HEAD")
        names = [rule.format(ref) for rule in _RULES] if ref != "HEAD" else []
        if head and head.startswith(_SYMBOLIC):
            names.append(head.removeprefix(_SYMBOLIC).strip())
        loose = tuple(_content(self.common_dir / name) for name in names)
        private = tuple(_content(self.git_dir / name) for name in names) if self.git_dir != self.common_dir else ()
        tables = ("packed-refs", "reftable/tables.list")
        return (head, *loose, *private, *(_mark(self.common_dir / name) for name in tables))


class UnreadableError(SourceError):
    """A repository is there, and git cannot or will not open it."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one ``git rev-parse``. ``commit`` is None when ``why`` says that the ref is no commit."""

    place: Place
    commit: str | None
    why: str
    warnings: tuple[str, ...]


def locate(folder: Path, ref: str) -> Found | None:
    """Find the repository that ``folder`` is in and the commit that ``ref`` is; None for no repository.

    Raises UnreadableError for one that git refuses to open.
    """
    check_folder(folder)
    questions = ["--absolute-git-dir", "--git-common-dir", "--is-bare-repository", "--show-prefix"]
    why = ""
    try:
        out, err = git(["rev-parse", *questions, f"{ref}^{{commit}}"], folder)
        text = os.fsdecode(out)
    except GitError as failed:
        if "not a git repository" in failed.stderr:
            return None
        text, err = failed.stdout, ""
        why = _no_commit(folder, ref, failed.stderr)
    lines = text.split("\n")
    # Git prints each answer as it finds it: the place is known even when the ref is not.
    if len(lines) < 5 or (len(lines) > 6 and not why):
        raise UnreadableError(why or f"{folder}: a folder with a line break in its name is not supported")
    warnings = tuple(line.removeprefix("warning: ") for line in err.splitlines() if line.startswith("warning: "))
    place = Place(Path(lines[0]), (folder / lines[1]).resolve(), lines[2] == "true", lines[3].rstrip("/"))
    return Found(place, None if why else lines[4], why, warnings)


def check_folder(folder: Path) -> None:
    """Raise SourceError when there is no folder at ``folder``."""
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        raise SourceError(f"{folder}: no such folder") from None
    except OSError as error:
        raise SourceError(f"{folder}: {(error.strerror or 'it cannot be read').lower()}") from None
    if not stat.S_ISDIR(mode):
        raise SourceError(f"{folder}: it is a file, not a folder")


def _no_commit(folder: Path, ref: str, stderr: str) -> str:
    """Why ``ref`` is no commit of the repository at ``folder``, or why git would not look."""
    if "dubious ownership" in stderr:
        return (
            f"{folder}: it belongs to another user; if you trust it: git config --global --add safe.directory {folder}"
        )
    if "unknown revision" in stderr or "bad revision" in stderr or "Needed a single revision" in stderr:
        return f"{folder}: it has no commit yet" if ref == "HEAD" else f"{folder}: no branch, tag or commit {ref!r}"
    return f"{folder}: {ref}: {GitError('rev-parse', stderr)}"


def _content(path: Path) -> str | None:
    """The text of a small file, None when there is none."""
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            return file.read(1024)
    except OSError:
        return None  # absent, or a folder of that name: both mean that git finds no ref here


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
