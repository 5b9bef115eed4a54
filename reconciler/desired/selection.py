"""Which files of a tree hold documents, and what a path in a document refers to."""

import posixpath
from collections.abc import Mapping

from reconciler.desired.documents import Path
from reconciler.desired.tree import Tree
from reconciler.errors import Problem

SUFFIXES = (".yaml", ".yml", ".json")
IGNORE_FILE = ".reconcileignore"


def candidates(tree: Tree) -> tuple[list[str], list[Problem]]:
    """Paths that may hold documents, YAML before JSON (which is more often referred to), and faults in the ignore file.

    Hidden files and folders and what ``.reconcileignore`` matches are left out.
    """
    found = [path for path in [*tree.files, *tree.bad] if path.endswith(SUFFIXES) and not _hidden(path)]
    problems: list[Problem] = []
    if found and IGNORE_FILE in tree.files:
        found, problems = _without_ignored(tree, found)
    return sorted(set(found), key=lambda path: (path.endswith(".json"), path)), problems


def _hidden(path: str) -> bool:
    return path.startswith(".") or "/." in path


def _without_ignored(tree: Tree, paths: list[str]) -> tuple[list[str], list[Problem]]:
    import pathspec  # noqa: PLC0415 - costs 20 ms, and few repositories have the file

    name = tree.prefix + IGNORE_FILE
    try:
        lines = tree.blobs.read(IGNORE_FILE).decode().splitlines()
    except UnicodeDecodeError as error:
        return paths, [Problem(name, 0, 0, f"not UTF-8 at offset {error.start}")]
    try:
        spec = pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        return paths, [Problem(name, 0, 0, f"not in gitignore syntax: {error}")]
    return [path for path in paths if not spec.match_file(path)], []


def beside(file: str, relative: str) -> str | None:
    """The tree path that ``relative`` means in ``file``; None when it leaves the tree.

    >>> beside("apps/web.yaml", "../config/web.conf")
    'config/web.conf'
    """
    path = posixpath.normpath(posixpath.join(posixpath.dirname(file), relative))
    return None if path.startswith(("../", "/")) or path in {"..", "."} else path


def referred(file: str, value: Mapping[str, object]) -> dict[str, Path]:
    """Tree paths of the files that a document names under ``facts`` and ``configs``, and where it names them."""
    named: list[tuple[Path, object]] = []
    if value.get("kind") == "Host":
        named.append((("facts",), value.get("facts")))
    configs = value.get("configs")
    if isinstance(configs, list):
        named += [
            (("configs", i, "file"), part.get("file")) for i, part in enumerate(configs) if isinstance(part, dict)
        ]
    found = {beside(file, name): path for path, name in named if isinstance(name, str) and name}
    return {target: path for target, path in found.items() if target is not None}
