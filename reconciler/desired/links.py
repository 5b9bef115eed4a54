"""What is seen under a folder once symbolic links are followed, as far as they stay inside.

Pure: listings in, names out. Links are followed in the listing and never by the kernel, so a link cannot lead to a file
of this machine.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.desired.plumbing import Entry
from reconciler.errors import SourceError

_MOST_HOPS = 40  # as Linux does (path_resolution(7))
_MOST_FILES = 200_000  # links to folders multiply; this stops a repository made to explode

Targets = Callable[[Iterable[str]], Mapping[str, str]]


@dataclass(slots=True)
class View:
    """``files`` maps each visible path to the real one; ``bad`` says why one cannot be read."""

    files: dict[str, str] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)


class _DeadEndError(Exception):
    """A path that cannot be followed, with why."""


def look(listing: Callable[[str], Mapping[str, Entry]], targets: Targets, base: str) -> View | str:
    """See the folder ``base`` of a repository; or, when it is none, why not.

    ``listing`` gives the entries under a folder (empty: none), by path from the top; ``targets`` what links point to.
    The whole repository is listed only when a link, or a missing folder, makes that necessary.
    """
    entries = listing(base)
    if base and (not entries or any(entry.kind == "link" for entry in entries.values())):
        entries = listing("")
    links = targets(path for path, entry in entries.items() if entry.kind == "link")
    walk = _Walk(entries, sorted(entries), links)
    try:
        real = walk.real(base)
    except _DeadEndError as dead:
        return str(dead)
    why = walk.no_folder(real) if base else ""
    if why:
        return why
    walk.expand("", real, (real,))
    return walk.view


@dataclass(slots=True)
class _Walk:
    """One pass over a listing. ``order`` is its sorted paths, ``links`` the target of each link."""

    entries: Mapping[str, Entry]
    order: Sequence[str]
    links: Mapping[str, str]
    view: View = field(default_factory=View)

    def real(self, path: str) -> str:
        """``path`` with every link on it replaced. Raises _DeadEndError."""
        done: list[str] = []
        todo = path.split("/")[::-1]
        hops = 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    raise _DeadEndError("a link that leaves the repository")
                done.pop()
                continue
            done.append(part)
            target = self.links.get("/".join(done))
            if target is not None:
                hops += 1
                done.pop()
                todo.extend(_steps(target, hops))
        return "/".join(done)

    def under(self, folder: str) -> Sequence[str]:
        """Real paths below ``folder``."""
        if not folder:
            return self.order
        # "0" is the character after "/": the range holds the names that start with "folder/".
        return self.order[bisect_left(self.order, f"{folder}/") : bisect_left(self.order, f"{folder}0")]

    def no_folder(self, real: str) -> str:
        """Why ``real`` is no folder; empty if it is one."""
        entry = self.entries.get(real)
        if entry is not None:
            return (
                "it is a submodule, and submodules are not read"
                if entry.kind == "module"
                else "it is a file, not a folder"
            )
        module = self.module_above(real)
        if module:
            return f"it lies inside the submodule {module}, and submodules are not read"
        return "" if self.under(real) else "no such folder"

    def module_above(self, real: str) -> str:
        """The submodule that holds ``real``; empty if none does."""
        parts = real.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        return next((path for path in above if path in self.entries and self.entries[path].kind == "module"), "")

    def expand(self, visible: str, real: str, chain: tuple[str, ...]) -> None:
        """Add what lies below the real folder ``real`` as ``visible``; ``chain`` are the folders on the way."""
        for path in self.under(real):
            name = f"{visible}/{path[len(real) :].lstrip('/')}".lstrip("/")
            self.add(name, path, chain)

    def add(self, name: str, path: str, chain: tuple[str, ...]) -> None:
        """Add one entry of the listing under ``name``."""
        if len(self.view.files) + len(self.view.bad) >= _MOST_FILES:
            raise SourceError(f"more than {_MOST_FILES:,} files under one path: choose a smaller one with --path")
        safe = _printable(name)
        kind = self.entries[path].kind
        if safe != name:
            self.view.bad[safe] = "the name is not printable UTF-8"
        elif kind == "file":
            self.view.files[name] = path
        elif kind == "module":
            self.view.modules.append(name)
        elif kind == "link":
            self.follow(name, path, chain)
        else:
            self.view.bad[name] = "neither a file nor a folder"

    def follow(self, name: str, path: str, chain: tuple[str, ...]) -> None:
        """Add what the link at ``path`` leads to under ``name``."""
        try:
            real = self.real(path)
        except _DeadEndError as dead:
            self.view.bad[name] = str(dead)
            return
        entry = self.entries.get(real)
        if entry is not None and entry.kind == "file":
            self.view.files[name] = real
        elif any(_holds(real, folder) for folder in (*chain, path)):
            self.view.bad[name] = "a link to a folder that it is in"
        elif len(chain) > _MOST_HOPS:
            self.view.bad[name] = f"more than {_MOST_HOPS} links to folders inside one another"
        elif entry is not None or not self.under(real):
            module = real if entry is not None and entry.kind == "module" else self.module_above(real)
            why = f"a link into the submodule {module}, which is not read" if module else "a link to nothing"
            self.view.bad[name] = f"{why} ({self.links[path]})"
        else:
            self.expand(name, real, (*chain, real))


def _steps(target: str, hops: int) -> list[str]:
    """The components of a link's target, last first. Raises _DeadEndError for an absolute one and for too many hops."""
    if target.startswith("/"):
        raise _DeadEndError(f"a link that leaves the repository ({target})")
    if hops > _MOST_HOPS:
        raise _DeadEndError("a link that leads to itself")
    return target.split("/")[::-1]


def _holds(folder: str, path: str) -> bool:
    """Whether ``path`` is ``folder`` or lies inside it, by component."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def _printable(name: str) -> str:
    """``name`` as it can be shown: undecodable bytes and control characters escaped."""
    if name.isprintable():
        return name
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
