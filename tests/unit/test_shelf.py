"""A commit that was resolved once is not parsed again, and a cache that cannot be believed is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.desired.repository import open_tree
from reconciler.desired.resolve import Cache, resolve
from reconciler.desired.shelf import KEPT, Shelf
from reconciler.desired.source import Source
from reconciler.desired.tree import Tree
from tests.fakes.git_repository import commit, git

EXAMPLES = Path(__file__).parents[2] / "examples" / "repo"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """The example repository, committed."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    files = {str(path.relative_to(EXAMPLES)): path.read_bytes() for path in EXAMPLES.rglob("*") if path.is_file()}
    commit(folder, files)
    return open_tree(Source(location=str(folder), state_dir=tmp_path / "state"))


def test_what_is_kept_is_what_was_resolved(tree: Tree, tmp_path: Path) -> None:
    """Every field of every workload and host, the bytes of config files too."""
    shelf, desired = Shelf(tmp_path / "shelf"), resolve(tree, Cache())
    assert shelf.find(tree) is None
    shelf.keep(tree, desired)
    found = shelf.find(tree)
    assert found == desired
    assert repr(found) == repr(desired)
    contents = [config.content for one in desired.workloads for config in one.container.configs]
    assert [config.content for one in found.workloads for config in one.container.configs] == contents
    assert any(contents)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"workloads": 7}', b"\xff"])
def test_a_damaged_file_is_none(tree: Tree, tmp_path: Path, damage: bytes) -> None:
    """Whatever happened to the file, the commit is simply resolved again."""
    shelf = Shelf(tmp_path / "shelf")
    shelf.keep(tree, resolve(tree, Cache()))
    (kept,) = (tmp_path / "shelf").iterdir()
    kept.write_bytes(damage)
    assert shelf.find(tree) is None


def test_another_commit_other_files_and_no_commit_are_not_known(tree: Tree, tmp_path: Path) -> None:
    """The key is everything that a result depends on."""
    shelf = Shelf(tmp_path / "shelf")
    desired = resolve(tree, Cache())
    shelf.keep(tree, desired)
    assert shelf.find(replace(tree, commit="f" * 40)) is None
    assert shelf.find(replace(tree, files={**tree.files, "cluster.yaml": "0" * 40})) is None
    uncommitted = replace(tree, commit=None)
    shelf.keep(uncommitted, desired)
    assert shelf.find(uncommitted) is None


def test_the_shelf_is_private_bounded_and_optional(tree: Tree, tmp_path: Path) -> None:
    """Only the owner reads it, only the newest are kept, and where it cannot be written nothing breaks."""
    shelf, desired = Shelf(tmp_path / "shelf"), resolve(tree, Cache())
    for number in range(KEPT + 5):
        shelf.keep(replace(tree, commit=f"{number:040}"), desired)
    kept = list((tmp_path / "shelf").iterdir())
    assert len(kept) == KEPT
    assert {path.stat().st_mode & 0o777 for path in [*kept]} == {0o600}
    assert (tmp_path / "shelf").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").write_text("")
    Shelf(tmp_path / "file" / "shelf").keep(tree, desired)
