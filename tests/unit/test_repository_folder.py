"""Reading files as they lie on disk: plain folders, and uncommitted files of a work tree."""

import hashlib
import os
from pathlib import Path

import pytest

from reconciler.desired import folder as folders
from reconciler.desired.repository import Repository, open_tree
from reconciler.desired.source import Source
from reconciler.errors import SourceError
from tests.fakes.git_repository import ENVIRONMENT, commit, git, write

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
STATE = Path("/nowhere")


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Git reads nothing of the machine's user, and finds no repository above the test's folder."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder that is no repository."""
    for name, content in {"a.yaml": "a", "sub/b.yaml": "b", ".reconcileignore": "x"}.items():
        write(tmp_path / "plain", name, content)
    return tmp_path / "plain"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with committed, edited, deleted, new and ignored files."""
    place = tmp_path / "repo"
    commit(
        place, {"kept.yaml": "k", "edited.yaml": "old", "deleted.yaml": "d", ".gitignore": "*.log\n", "in/x.yaml": "x"}
    )
    for name, content in {"edited.yaml": "new", "deleted.yaml": None, "new/n.yaml": "n", "a.log": "noise"}.items():
        write(place, name, content)
    return place


def test_a_plain_folder(plain: Path) -> None:
    """Every file is read with its sha256, there is no commit, and the tree says so."""
    tree = open_tree(Source(str(plain), STATE))
    assert tree.files == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in {"a.yaml": b"a", "sub/b.yaml": b"b", ".reconcileignore": b"x"}.items()
    }
    assert tree.blobs.read("sub/b.yaml") == b"b"
    assert (tree.commit, tree.source, tree.prefix) == (None, str(plain), f"{plain}/")
    assert tree.warnings == (f"{plain} is no git repository: it has no commit",)


def test_a_path_in_a_plain_folder(plain: Path) -> None:
    """``--path`` works without git."""
    tree = open_tree(Source(str(plain), STATE, path="sub"))
    assert (list(tree.files), tree.prefix) == (["b.yaml"], f"{plain}/sub/")


def test_an_empty_folder(tmp_path: Path) -> None:
    """A folder with nothing in it is a tree without files, not an error: a plain folder has no history to lose."""
    (tmp_path / "empty/sub").mkdir(parents=True)
    assert not open_tree(Source(str(tmp_path / "empty"), STATE)).files
    assert not open_tree(Source(str(tmp_path / "empty"), STATE, path="sub")).files


@pytest.mark.parametrize(
    ("ref", "path", "message"),
    [
        ("main", "", "no git repository: it has no ref 'main'"),
        (None, "gone", "no such folder"),
        (None, "a.yaml", "a file"),
    ],
)
def test_what_a_plain_folder_lacks(plain: Path, ref: str | None, path: str, message: str) -> None:
    """A ref or a missing path of a plain folder is a clear line."""
    with pytest.raises(SourceError, match=message):
        open_tree(Source(str(plain), STATE, ref=ref, path=path))


def test_what_cannot_be_read_in_a_folder(plain: Path) -> None:
    """Pipes, escaping links and LFS pointers are listed with why; reading never blocks; all else is still there."""
    os.mkfifo(plain / "pipe.yaml")
    write(plain, "out.yaml", Path("/etc/passwd"))
    write(plain, "lfs.yaml", POINTER)
    write(plain, "abs.yaml", plain / "a.yaml")
    tree = open_tree(Source(str(plain), STATE))
    assert {name: why.split(":")[0] for name, why in tree.bad.items()} == {
        "pipe.yaml": "neither a file nor a folder",
        "out.yaml": "a link that leaves the repository (/etc/passwd)",
        "lfs.yaml": "LFS object missing",
    }
    assert tree.blobs.read("abs.yaml") == b"a"
    with pytest.raises(SourceError, match=r"out\.yaml: no such file"):
        tree.blobs.read("out.yaml")


def test_a_kubernetes_style_folder(tmp_path: Path) -> None:
    """Files that are links through a swapped ``..data`` link are read, and a swap is a new tree."""
    place = tmp_path / "mount"
    write(place, "..1/a.yaml", "one")
    write(place, "..2/a.yaml", "two")
    write(place, "..data", Path("..1"))
    write(place, "a.yaml", Path("..data/a.yaml"))
    repository = Repository(Source(str(place), STATE))
    assert repository.read().blobs.read("a.yaml") == b"one"
    write(place, "..new", Path("..2"))
    (place / "..new").replace(place / "..data")
    assert repository.read().blobs.read("a.yaml") == b"two"


def test_a_folder_s_own_git_files_are_not_read(plain: Path) -> None:
    """A broken ``.git`` makes no repository, and nothing in it is a spec."""
    write(plain, ".git/x.yaml", "x")
    assert ".git/x.yaml" not in open_tree(Source(str(plain), STATE)).files


@pytest.mark.parametrize("settled", [True, False])
def test_changes_in_a_folder_are_seen(plain: Path, monkeypatch: pytest.MonkeyPatch, settled: bool) -> None:
    """An unchanged folder gives the same tree object; an edit of the same length, a new and a deleted file do not."""
    if settled:
        monkeypatch.setattr(folders, "_SETTLED", 0)  # as if the files had been written long ago
    repository = Repository(Source(str(plain), STATE))
    seen = [repository.read()]
    assert repository.read() is repository.read() is seen[0]
    for name, content in (("a.yaml", "z"), ("new.yaml", "n"), ("sub/b.yaml", None)):
        write(plain, name, content)
        seen.append(repository.read())
        assert repository.read() is seen[-1]
    assert [sorted(tree.files) for tree in seen[2:]] == [
        [".reconcileignore", "a.yaml", "new.yaml", "sub/b.yaml"],
        [".reconcileignore", "a.yaml", "new.yaml"],
    ]
    assert seen[1].blobs.read("a.yaml") == b"z"
    assert len({id(tree) for tree in seen}) == 4


def test_young_files_are_not_trusted(plain: Path) -> None:
    """A file written just now may change again within one tick of its clock, so its times prove nothing yet."""
    assert folders.read_folder(plain, "", worktree=False).stamp is None


def test_a_path_that_goes_away_from_a_folder(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that lost the path is an error at every read, never the old tree."""
    monkeypatch.setattr(folders, "_SETTLED", 0)
    repository = Repository(Source(str(plain), STATE, path="sub"))
    for _ in range(3):
        repository.read()
    (plain / "sub").rename(plain / "bus")
    for _ in range(3):
        with pytest.raises(SourceError, match="sub: no such folder"):
            repository.read()


def test_large_files_are_known_by_time_and_size(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file too large to keep is read when asked for, and a change of it changes its id."""
    monkeypatch.setattr(folders, "_KEPT_IN_MEMORY", 4)
    write(plain, "model.bin", b"12345")
    first = open_tree(Source(str(plain), STATE))
    assert first.blobs.read("model.bin") == b"12345"
    write(plain, "model.bin", b"123456")
    assert open_tree(Source(str(plain), STATE)).files["model.bin"] != first.files["model.bin"]


def test_a_folder_that_becomes_a_repository(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After ``git init`` and a commit the next read is of the commit."""
    monkeypatch.setattr(folders, "_SETTLED", 0)
    repository = Repository(Source(str(plain), STATE))
    repository.read()
    made = commit(plain, {})
    assert repository.read().commit == made


def test_uncommitted_files(repo: Path) -> None:
    """``--worktree`` sees edits, deletions and new files, and leaves out what git ignores."""
    tree = open_tree(Source(str(repo), STATE, worktree=True))
    found = {name: tree.blobs.read(name).decode() for name in tree.files if name != ".gitignore"}
    assert found == {"kept.yaml": "k", "edited.yaml": "new", "new/n.yaml": "n", "in/x.yaml": "x"}
    short = git(repo, "rev-parse", "HEAD")[:7]
    assert (tree.commit, tree.source) == (None, f"uncommitted files of {repo} at {short}")
    assert tree.warnings == ()


@pytest.mark.parametrize(("place", "path"), [("new", ""), (".", "new")])
def test_uncommitted_files_of_a_folder(repo: Path, monkeypatch: pytest.MonkeyPatch, place: str, path: str) -> None:
    """A folder inside the repository works as it does for commits, also when nothing in it was ever committed."""
    monkeypatch.chdir(repo)
    tree = open_tree(Source(place, STATE, path=path, worktree=True))
    assert (list(tree.files), tree.prefix) == (["n.yaml"], "new/")


def test_links_in_a_worktree(repo: Path) -> None:
    """Links may lead anywhere inside the repository, also out of the path, and not to what git ignores."""
    write(repo, "in/up.yaml", Path("../kept.yaml"))
    write(repo, "in/log.yaml", Path("../a.log"))
    write(repo, "in/dir", Path("../new"))
    tree = open_tree(Source(str(repo / "in"), STATE, worktree=True))
    assert sorted(tree.files) == ["dir/n.yaml", "up.yaml", "x.yaml"]
    assert dict(tree.bad) == {"log.yaml": "a link to nothing (../a.log)"}


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    """Before the first commit the files can be planned all the same."""
    git(tmp_path, "init", "-q", "fresh")
    write(tmp_path / "fresh", "a.yaml", "a")
    tree = open_tree(Source(str(tmp_path / "fresh"), STATE, worktree=True))
    assert list(tree.files) == ["a.yaml"]
    assert tree.source.endswith("fresh (no commit yet)")


def test_a_repository_inside_the_worktree(repo: Path) -> None:
    """Another repository's files are not read, and a warning says so."""
    commit(repo / "vendor", {"v.yaml": "v"})
    tree = open_tree(Source(str(repo), STATE, worktree=True))
    assert not any(name.startswith("vendor") for name in tree.files)
    assert tree.warnings == ("vendor is a repository of its own (a submodule): its files are not read",)


def test_a_bare_repository_has_no_uncommitted_files(repo: Path, tmp_path: Path) -> None:
    """``--worktree`` on a bare repository says why it cannot work."""
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    with pytest.raises(SourceError, match="bare repository has no uncommitted files"):
        open_tree(Source(str(tmp_path / "bare.git"), STATE, worktree=True))


def test_no_program_of_the_repository_is_run(repo: Path, tmp_path: Path) -> None:
    """A repository's configuration may name a file monitor; listing its files does not start it."""
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(trap))
    open_tree(Source(str(repo), STATE, worktree=True))
    assert not (tmp_path / "sprung").exists()
