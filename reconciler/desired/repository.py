"""The repository behind a Source: the only user of GitPython, which runs what talks to a remote.

A remote is kept as a bare mirror: the wanted ref is fetched by force, and the tree of that commit is read from git's
objects. Nothing is pulled, merged or checked out, so a force-push is a fetch like any other. A local repository is read
where it lies. No process and no descriptor stays open between two reads.
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

from reconciler.desired import folder, local, objects
from reconciler.desired.plumbing import GitFailed, finish, missing_git, unwanted
from reconciler.desired.remote import Access, access, explain, stale_lock
from reconciler.desired.source import Source, redact
from reconciler.desired.tree import Tree
from reconciler.desired.watch import Watched
from reconciler.errors import SourceError

_LOCK_PAUSE = 0.05  # seconds between two looks at a lock that another process holds


def open_tree(source: Source) -> Tree:
    """Read a source once. Raises SourceError."""
    return Repository(source).read()


class Repository:
    """Reads a source again and again. An unchanged source gives the same Tree object. Not for use by two threads."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._mirror = Mirror(source) if source.address else None
        self._folder = self._mirror.path if self._mirror else Path(source.location).expanduser()
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
        except SourceError:
            if self._mirror.complete(self._folder):
                raise
        self._mirror.rebuild()
        return self._read_local(self._mirror.ref)

    def watched(self) -> tuple[Watched, ...]:
        """What to watch for hints that a local source changed; nothing for a remote. Known after the first read."""
        if self._mirror is not None:
            return ()
        above = (Watched(self._folder.parent, names=frozenset({self._folder.name})),) if self._folder.is_symlink() else ()
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
        if found is None:
            return self._read_plain()
        if found.commit is None:
            raise SourceError(found.why)
        moved = found.place != self._place
        self._place = found.place
        # The stamp from before the commit was read: a move in between is then seen at the next read.
        self._stamp = None if moved else before
        if moved or self._tree is None or self._tree.commit != found.commit:
            self._tree = self._read_commit(found, found.commit)
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
            hint = "" if self._mirror else "; --worktree reads files that are not committed"
            raise SourceError(f"{self.source.display}: no folder {base!r} in commit {commit[:7]}: {files}{hint}")
        prefix = self._prefix() if self._mirror is None and not found.place.bare else f"{base}/" if base else ""
        warnings = (*found.warnings, *map(_unread_module, files.modules))
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
        files = folder.read_folder(Path(os.path.realpath(self._folder)), self.source.path, worktree=False)
        self._place, self._stamp = None, files.stamp
        return self._on_disk(files, self.source.display, (f"{self.source.display} is no git repository: it has no commit",))

    def _on_disk(self, files: folder.Files, source: str, warnings: tuple[str, ...]) -> Tree:
        """A Tree without a commit; the old object if nothing in it changed."""
        warnings = (*warnings, *map(_unread_module, files.modules))
        tree = Tree(None, source, files.ids, files.blobs, self._prefix(), files.bad, warnings)
        old = self._tree
        same = old is not None and (old.commit, old.source, old.files, old.bad, old.warnings) == (
            (None, source, tree.files, tree.bad, warnings)
        )
        self._tree = old if old is not None and same else tree
        return self._tree

    def _prefix(self) -> str:
        """What to put before a path so that an editor started here can open it."""
        here = os.path.relpath(self._folder / self.source.path)
        if here == ".":
            return ""
        return f"{os.path.abspath(here) if here.split(os.sep)[0] == '..' else here}/"


def _unread_module(path: str) -> str:
    return f"{path} is a submodule: its files are not read"


class Mirror:
    """A bare repository under the state directory that holds one commit of each wanted ref of one remote."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.path = source.mirror
        wanted = source.ref or "HEAD"
        self.ref = f"refs/reconciler/{hashlib.sha256(wanted.encode()).hexdigest()[:24]}"
        self._refspec = f"+{wanted}:{self.ref}"

    def needs_fetch(self, *, fetch: bool) -> bool:
        """Whether the remote must be asked: on demand, unless what was fetched can never move; and when nothing is here."""
        here = self.complete(self.path) and (self.path / self.ref).exists()
        return not here or (fetch and not self.source.pinned)

    @staticmethod
    def complete(path: Path) -> bool:
        """Whether a repository stands at ``path``, as far as a look at its parts tells."""
        return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()

    def fetch(self) -> None:
        """Make the mirror's ref the remote's tip. A mirror that is broken or half made is replaced. Raises SourceError."""
        way = self._access()
        with self._locked() as lock:
            if not self.complete(self.path):
                self._build(way, lock)
                return
            try:
                self._fetch_unlocked(self.path, way, lock)
            except GitFailed as failed:
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
            self._git(["init", "--bare", "--quiet", "--template=", "."], fresh, way, lock)
            self._fetch(fresh, way, lock)
            if self.path.exists():
                self.path.rename(f"{fresh}-old")
            fresh.rename(self.path)
            shutil.rmtree(f"{fresh}-old", ignore_errors=True)
        except GitFailed as failed:
            meaning = explain(failed.stderr, self.source, way.secret)
            raise SourceError(meaning or f"{self.source.display}: {redact(str(failed), way.secret)}") from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _fetch_unlocked(self, path: Path, way: Access, lock: int) -> None:
        """Fetch; a lock file in the way is removed once. Our own lock is held, so no process owns it."""
        try:
            self._fetch(path, way, lock)
        except GitFailed as failed:
            left = stale_lock(failed.stderr)
            if left is None or not left.is_relative_to(path):
                raise
            left.unlink(missing_ok=True)
            self._fetch(path, way, lock)

    def _fetch(self, path: Path, way: Access, lock: int) -> None:
        flags = ["--quiet", "--force", "--no-tags", "--no-prune", "--no-recurse-submodules", "--no-write-fetch-head"]
        where = ["--", self.source.display, self._refspec]
        try:
            self._git(["fetch", *flags, "--depth=1", *where], path, way, lock)
        except GitFailed as failed:
            if "shallow capabilities" not in failed.stderr:
                raise
            self._git(["fetch", *flags, *where], path, way, lock)  # a plain web server cannot cut history off

    def _git(self, arguments: Sequence[str], path: Path, way: Access, lock: int) -> None:
        """Run git through GitPython, in a session of its own that ends with the time-out.

        Its own ``kill_after_timeout`` is not used: it signals children that it finds by ``ps``, and misses some.
        Git inherits the lock's descriptor: should we be killed, the lock stays held until git has ended as well.
        """
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # else the import fails where git is missing
        from git import Git, GitCommandNotFound  # noqa: PLC0415  (170 ms, and only remotes need it)

        drop = [part for name in unwanted(os.environ) if name not in way.environment for part in ("-u", name)]
        command = [*(["env", *drop] if drop else []), "git", *way.options, f"--git-dir={path}", *arguments]
        try:
            process = Git(path).execute(
                command, as_process=True, env=dict(way.environment), start_new_session=True, pass_fds=(lock,)
            )
        except GitCommandNotFound:
            raise missing_git(path) from None
        popen = process.proc
        if popen is None:
            raise SourceError(f"git {arguments[0]} did not start")
        _, err = finish(popen, None, self.source.timeout, arguments[0])
        if popen.returncode:
            raise GitFailed(arguments[0], redact(err, way.secret))

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
