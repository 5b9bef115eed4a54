"""What a commit was resolved to, kept in the state directory: a second run need not parse and validate it again.

Parsing needs pydantic, YAML and the schema, whose loading costs more than everything else in a dry run. What is kept is
a cache: it may be removed at any time, and is not believed when the commit, its files, or our own code is another.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path

import reconciler
from reconciler.desired.tree import Tree
from reconciler.model.codec import CodecError, from_json, to_json
from reconciler.model.desired import Desired

KEPT = 16
"""Commits whose result is kept; the oldest go first."""


class Shelf:
    """Resolved commits in one folder, readable by their owner only: config files from git are in them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, tree: Tree) -> Desired | None:
        """What this tree was resolved to by this very code, if that is known. A damaged file is none."""
        if tree.commit is None:
            return None
        try:
            return from_json(Desired, json.loads(self._path(tree).read_bytes()))
        except (OSError, ValueError, CodecError):
            return None

    def keep(self, tree: Tree, desired: Desired) -> None:
        """Keep what a commit was resolved to; uncommitted files are not kept."""
        if tree.commit is None:
            return
        path = self._path(tree)
        with contextlib.suppress(OSError):  # a state directory that cannot be written costs time, and nothing else
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            try:
                fresh.touch(mode=0o600)
                fresh.write_text(json.dumps(to_json(desired), ensure_ascii=False), encoding="utf-8")
                fresh.replace(path)
            finally:
                fresh.unlink(missing_ok=True)
            kept = sorted(self._folder.iterdir(), key=lambda one: one.stat().st_mtime_ns)
            for old in kept[:-KEPT]:
                old.unlink(missing_ok=True)

    def _path(self, tree: Tree) -> Path:
        what = [
            _code(),
            tree.commit,
            tree.source,
            tree.prefix,
            tree.warnings,
            [*tree.files.items()],
            [*tree.bad.items()],
        ]
        return self._folder / hashlib.sha256(json.dumps(what).encode()).hexdigest()


def _code() -> list[tuple[str, int, int]]:
    """Release and state of the code that resolves."""
    root = Path(__file__).parent.parent
    files = sorted(path for part in ("desired", "model") for path in (root / part).glob("*.py"))
    return [(reconciler.__version__, 0, 0), *((p.name, p.stat().st_mtime_ns, p.stat().st_size) for p in files)]
