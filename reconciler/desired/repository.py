"""The repository behind a Source: the only user of GitPython, which runs what talks to a remote.

A remote is read from its mirror, a local repository where it lies: always the tree of one commit, from git's objects.
No process and no descriptor stays open between two reads.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from reconciler.desired import folder, local, objects
from reconciler.desired.mirror import Mirror
from reconciler.desired.plumbing import GitError, finish, list_changed, missing_git, unwanted
from reconciler.desired.remote import Access
from reconciler.desired.source import Source, redact
from reconciler.desired.tree import Tree
from reconciler.desired.watch import Watched
from reconciler.errors import SourceError


def open_tree(source: Source) -> Tree:
    """Read a source once. Raises SourceError."""
    return Repository(source).read()


class Repository:
    """Reads a source again and again. An unchanged source gives the same Tree object. Not for use by two threads."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._mirror = Mirror(source, partial(_run_remote, source.timeout)) if source.address else None
        named = os.path.expanduser(source.location)  # noqa: PTH111  (Path's own fails for an unknown user)
        self._folder = self._mirror.path if self._mirror else Path(named)
        self._place: local.Place | None = None
        self._stamp: local.Stamp | folder.Stamp | None = None
        self._tree: Tree | None = None

    def read(self, fetch: bool = True) -> Tree:
        """The tree of the ref as it is now. Raises SourceError; nothing is then known about the desired state.

        A remote is fetched first unless ``fetch`` is false, or the ref is a full hash that is there already.
        """
        if self._mirror is None:
            return self._read_local(self.source.ref or "HEAD")
        if self.source.pinned and self._tree is not None:
            return self._tree
        if self._mirror.needs_fetch(fetch=fetch):
            self._mirror.fetch()
        try:
            return self._read_local(self._mirror.ref)
        except (GitError, local.UnreadableError):
            self._mirror.rebuild()  # a ref or an object that was fetched cannot be read
        return self._read_local(self._mirror.ref)

    def on_disk(self) -> bool:
        """Whether there are files beside the commits: not of a remote, and not of a bare repository."""
        if self._mirror is not None:
            return False
        found = local.locate(self._folder, "HEAD")
        return found is None or not found.place.bare

    def uncommitted(self) -> int:
        """How many files under the path differ from the commit that is checked out, or are not in it."""
        found = local.locate(self._folder, "HEAD") if self._mirror is None else None
        if found is None or found.place.bare:
            return 0
        return len(list_changed(self._folder, self.source.path))

    def watched(self) -> tuple[Watched, ...]:
        """What to watch for hints that a local source changed; nothing for a remote. Known after the first read."""
        if self._mirror is not None:
            return ()
        above = (
            (Watched(self._folder.parent, names=frozenset({self._folder.name})),) if self._folder.is_symlink() else ()
        )
        if self._place is None or self.source.worktree:
            return (*above, Watched(self._folder, recursive=True))
        place = self._place
        heads = {Watched(at, names=frozenset({"HEAD", "packed-refs"})) for at in (place.git_dir, place.common_dir)}
        tables = [place.common_dir / name for name in ("refs", "reftable")]
        deep = (Watched(table, recursive=True) for table in tables if table.is_dir())
        return (*above, *sorted(heads, key=lambda one: one.path), *deep)

    def _read_local(self, ref: str) -> Tree:
        if self.source.worktree:
            return self._read_worktree()
        before = self._look(ref)
        if before is not None and before == self._stamp and self._tree is not None:
            return self._tree
        found = local.locate(self._folder, ref)
        if self._mirror and (found is None or found.commit is None):
            raise local.UnreadableError(found.why if found else f"{self._folder}: it is no git repository")
        if found is None:
            return self._read_plain()
        if found.commit is None:
            raise SourceError(found.why)
        moved = found.place != self._place
        self._place, self._stamp = found.place, None
        if moved or self._tree is None or self._tree.commit != found.commit:
            self._tree = self._read_commit(found, found.commit)
        # Only now, and the stamp from before the commit was read: after a failure, or a move in between, the next
        # read looks again.
        self._stamp = None if moved else before
        return self._tree

    def _look(self, ref: str) -> "local.Stamp | folder.Stamp | None":
        if self._place is not None:
            return self._place.stamp(ref)
        if self._tree is not None and not (self._folder / ".git").exists():
            return folder.stamp_of(self._folder)
        return None

    def _read_commit(self, found: local.Found, commit: str) -> Tree:
        base = "/".join(part for part in (found.place.prefix, self.source.path) if part)
        old = self._tree.blobs if self._tree else None
        known = old.contents if isinstance(old, objects.CommitBlobs) else {}
        files = objects.read_commit(found.place.git_dir, commit, base, known)
        if isinstance(files, str):
            hint = "" if self._mirror else " (--worktree reads files that are not committed)"
            raise SourceError(f"{self.source.display} at {commit[:7]}: {base}: {files}{hint}")
        prefix = self._prefix() if self._mirror is None and not found.place.bare else f"{base}/" if base else ""
        warnings = (*found.warnings, *_unread(files))
        return Tree(commit, self.source.display, files.ids, files.blobs, prefix, files.bad, warnings)

    def _read_worktree(self) -> Tree:
        found = local.locate(self._folder, "HEAD")
        if found is None:
            return self._read_plain()
        place = found.place
        if place.bare:
            raise SourceError(f"{self.source.display}: a bare repository has no uncommitted files")
        top = Path(os.path.realpath(self._folder))
        top = top.parents[place.prefix.count("/")] if place.prefix else top
        base = "/".join(part for part in (place.prefix, self.source.path) if part)
        at = f"at {found.commit[:7]}" if found.commit else "(no commit yet)"
        files = folder.read_folder(top, base, worktree=True)
        return self._on_disk(files, f"uncommitted files of {self.source.display} {at}", ())

    def _read_plain(self) -> Tree:
        if self.source.ref not in (None, "HEAD"):
            raise SourceError(f"{self.source.display} is no git repository: it has no ref {self.source.ref!r}")
        self._place, self._stamp = None, None
        files = folder.read_folder(Path(os.path.realpath(self._folder)), self.source.path, worktree=False)
        self._stamp = files.stamp
        return self._on_disk(
            files, self.source.display, (f"{self.source.display} is no git repository: it has no commit",)
        )

    def _on_disk(self, files: folder.Files, source: str, warnings: tuple[str, ...]) -> Tree:
        """A Tree without a commit; the old object if nothing in it changed."""
        warnings = (*warnings, *_unread(files))
        tree = Tree(None, source, files.ids, files.blobs, self._prefix(), files.bad, warnings)
        old = self._tree
        same = old is not None and (old.commit, old.source, old.files, old.bad, old.warnings) == (
            (None, source, tree.files, tree.bad, warnings)
        )
        self._tree = old if old is not None and same else tree
        return self._tree

    def _prefix(self) -> str:
        """What to put before a path so that an editor started here can open it."""
        folder = Path(os.path.abspath(self._folder / self.source.path))  # noqa: PTH100  (links keep their names)
        here = Path.cwd()
        shown = folder.relative_to(here) if folder.is_relative_to(here) else folder
        return "" if shown == Path() else f"{shown}/"


def _unread(files: objects.CommitFiles | folder.Files) -> Iterator[str]:
    """Warnings for what might hold documents and is not read. Bad documents need none: they are errors of their own."""
    for path in files.modules:
        yield f"{path} is a repository of its own (a submodule): its files are not read"
    for path, why in sorted(files.bad.items()):
        if not objects.is_document(path):
            yield f"{path} is not read: {why}"


def _run_remote(timeout: float, arguments: Sequence[str], path: Path, way: Access, lock: int) -> None:
    """Run git through GitPython on the repository at ``path``, in a session that ends after ``timeout`` seconds.

    GitPython's own ``kill_after_timeout`` is not used: it finds children by ``ps``, and misses those that start later.
    Git inherits the lock's descriptor: should we be killed, the lock stays held until git has ended as well.
    """
    if shutil.which("git") is None:
        raise missing_git(path)
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # else the import fails where git is missing
    from git import Git  # noqa: PLC0415  (170 ms, and only remotes need it)

    # GitPython hands the whole environment on and can only add to it.
    drop = [part for name in unwanted(os.environ) if name not in way.environment for part in ("-u", name)]
    command = [*(["env", *drop] if drop else []), "git", *way.options, f"--git-dir={path}", *arguments]
    process = Git(path).execute(
        command, as_process=True, env=dict(way.environment), start_new_session=True, pass_fds=(lock,)
    )
    popen = process.proc
    if popen is None:
        raise SourceError(f"git {arguments[0]} did not start")
    _, err = finish(popen, None, timeout, arguments[0])
    if popen.returncode:
        raise GitError(arguments[0], redact(err, way.secret))
