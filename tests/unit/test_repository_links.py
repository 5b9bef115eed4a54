"""What is seen through symbolic links, without any file or git."""

from collections.abc import Iterable, Mapping

import pytest

from reconciler.desired import links
from reconciler.desired.links import View, look
from reconciler.desired.plumbing import Entry
from reconciler.errors import SourceError

Spec = Mapping[str, str]


def seen(spec: Spec, base: str = "") -> View | str:
    """Look at a listing in short form: ``""`` a file, ``"module"`` a submodule, ``"> x"`` a link to x."""

    def entry(value: str) -> Entry:
        return Entry("link" if value.startswith("> ") else "module" if value == "module" else "file")

    def listing(part: str) -> Mapping[str, Entry]:
        return {path: entry(value) for path, value in spec.items() if not part or path.startswith(f"{part}/")}

    def targets(paths: Iterable[str]) -> Mapping[str, str]:
        return {path: spec[path].removeprefix("> ") for path in paths}

    return look(listing, targets, base)


def view(spec: Spec, base: str = "") -> View:
    """As ``seen``, where a folder is expected."""
    found = seen(spec, base)
    assert isinstance(found, View), found
    return found


@pytest.mark.parametrize(
    ("spec", "base", "files"),
    [
        ({"a": "", "b/c": ""}, "", {"a": "a", "b/c": "b/c"}),
        ({"a": "", "b/c": "", "b.x": "", "b0": ""}, "b", {"c": "b/c"}),
        ({"a": "> b/c", "b/c": ""}, "", {"a": "b/c", "b/c": "b/c"}),
        ({"p/a": "> ../b/c", "b/c": ""}, "p", {"a": "b/c"}),
        ({"p/d": "> ../b", "b/c": "", "b/e/f": ""}, "p", {"d/c": "b/c", "d/e/f": "b/e/f"}),
        ({"p/a": "> ./x/../p/x/y", "p/x": "> ../b", "b/y": ""}, "p", {"a": "b/y", "x/y": "b/y"}),
        ({"now": "> releases/2", "releases/2/a": ""}, "now", {"a": "releases/2/a"}),
        ({"now": "> releases", "releases/2/a": ""}, "now/2", {"a": "releases/2/a"}),
        ({"a": "> b", "b": "> c", "c": ""}, "", {"a": "c", "b": "c", "c": "c"}),
    ],
)
def test_links_inside_are_followed(spec: Spec, base: str, files: Mapping[str, str]) -> None:
    """Files are seen under the link's name, through links to files, to folders and to links."""
    found = view(spec, base)
    assert (found.files, found.bad) == (files, {})


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"x": "> /etc/passwd"}, "leaves the repository"),
        ({"x": "> ../y"}, "leaves the repository"),
        ({"x": "> a/../../y", "a/b": ""}, "leaves the repository"),
        ({"x": "> y", "y": "> ../z"}, "leaves the repository"),
        ({"x": "> nothing"}, "link to nothing (nothing)"),
        ({"x": "> x"}, "leads to itself"),
        ({"x": "> y", "y": "> x"}, "leads to itself"),
        ({"x": "> ."}, "folder that it is in"),
        ({"x": "> sub", "sub": "module"}, "into the submodule sub"),
        ({"x": "> sub/a", "sub": "module"}, "into the submodule sub"),
        ({"x": "> ab", "a": ""}, "link to nothing"),
    ],
)
def test_links_that_lead_nowhere(spec: Spec, why: str) -> None:
    """A link that leaves, loops or ends nowhere is listed with why, and the others are still read."""
    found = view({**spec, "good": ""})
    assert why in found.bad["x"]
    assert found.files["good"] == "good"


def test_a_link_cannot_borrow_a_longer_name() -> None:
    """Folders are compared by component: ``ab`` is not inside ``a``."""
    assert view({"a/x": "", "ab/y": "", "l": "> a"}).files == {"a/x": "a/x", "ab/y": "ab/y", "l/x": "a/x"}


def test_links_to_folders_that_hold_each_other_end() -> None:
    """Two folders that link to one another are each seen once inside the other, then the circle is named."""
    found = view({"a/1": "", "a/to": "> ../b", "b/2": "", "b/to": "> ../a"})
    assert found.files["a/to/2"] == "b/2"
    assert all("folder that it is in" in why for why in found.bad.values())
    assert found.bad


def test_links_that_multiply_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten folders that all link to one another would be millions of files: reading stops with a clear line."""
    monkeypatch.setattr(links, "_MOST_FILES", 1_000)
    spec = {f"d{a}/l{b}": f"> ../d{b}" for a in range(10) for b in range(10)} | {f"d{a}/f": "" for a in range(10)}
    with pytest.raises(SourceError, match="more than 1,000 files"):
        seen(spec)


def test_a_long_chain_of_folders_is_cut() -> None:
    """A chain of a hundred folders, each linked from the one before, ends in words and not in a crash."""
    found = view({f"d{n}/next": f"> ../d{n + 1}" for n in range(100)} | {"d100/f": ""})
    assert any("more than 40 links" in why for why in found.bad.values())


@pytest.mark.parametrize(
    ("base", "why"),
    [
        ("none", "no such folder"),
        ("file", "it is a file, not a folder"),
        ("sub", "it is a submodule"),
        ("sub/deep", "inside the submodule sub"),
        ("out", "leaves the repository"),
        ("to-sub/deep", "inside the submodule sub"),
    ],
)
def test_paths_that_are_no_folder(base: str, why: str) -> None:
    """A path that cannot be read says why."""
    found = seen({"file": "", "sub": "module", "out": "> /etc", "to-sub": "> sub"}, base)
    assert isinstance(found, str)
    assert why in found


def test_submodules_are_named() -> None:
    """A submodule below the path is not read, and is told."""
    assert view({"p/sub": "module", "p/a": ""}, "p").modules == ["sub"]


@pytest.mark.parametrize(("name", "shown"), [("a\nb.yaml", "a\\x0ab.yaml"), ("a\udcff.yaml", "a\\xff.yaml")])
def test_names_that_cannot_be_printed(name: str, shown: str) -> None:
    """A name with control characters or undecodable bytes is listed in a form that fits on one line."""
    found = view({name: ""})
    assert (dict(found.files), list(found.bad)) == ({}, [shown])


def test_the_whole_is_listed_only_for_links() -> None:
    """A folder without links is read with one listing of that folder alone."""
    asked: list[str] = []

    def listing(part: str) -> Mapping[str, Entry]:
        asked.append(part)
        return {"p/a": Entry("file")}

    look(listing, lambda paths: dict.fromkeys(paths, ""), "p")
    assert asked == ["p"]
