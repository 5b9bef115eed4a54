"""Reading local repositories: any ref, bare or not, a folder in a larger one, and nothing left behind."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.desired import local, objects, plumbing
from reconciler.desired.repository import Repository, open_tree
from reconciler.desired.source import Source
from reconciler.errors import SourceError
from tests.fakes.git_repository import ENVIRONMENT, commit, git

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git reads nothing of the machine's user."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one file at its top and two in a folder."""
    folder = tmp_path / "repo"
    commit(folder, {"top.yaml": "t", "fleet/app.yaml": "a", "fleet/deep/é.conf": "é"})
    return folder


def source(place: Path | str, **more: object) -> Source:
    """A source whose mirrors would go nowhere."""
    return Source(str(place), Path("/nowhere"), **more)  # type: ignore[arg-type]  # keywords as the test gives them


def contents(place: Path | str, **more: object) -> Mapping[str, bytes]:
    """Every file and its bytes."""
    tree = open_tree(source(place, **more))
    return {path: tree.blobs.read(path) for path in tree.files}


def test_the_top(repo: Path) -> None:
    """Files, bytes, ids, commit, source and prefix of a whole repository."""
    tree = open_tree(source(repo))
    assert tree.files == {
        path: git(repo, "rev-parse", f"HEAD:{path}") for path in ("top.yaml", "fleet/app.yaml", "fleet/deep/é.conf")
    }
    assert tree.blobs.read("fleet/deep/é.conf") == "é".encode()
    assert (tree.commit, tree.source, tree.prefix) == (git(repo, "rev-parse", "HEAD"), str(repo), f"{repo}/")
    assert (dict(tree.bad), tree.warnings) == ({}, ())


@pytest.mark.parametrize(
    ("place", "path", "prefix"),
    [
        ("repo/fleet", "", "repo/fleet/"),
        ("repo", "fleet", "repo/fleet/"),
        ("repo/fleet", ".", "repo/fleet/"),
        ("./repo/../repo/fleet", "", "repo/fleet/"),
    ],
)
def test_a_folder_inside(repo: Path, monkeypatch: pytest.MonkeyPatch, place: str, path: str, prefix: str) -> None:
    """A folder named directly or by path is the top of the tree, and the prefix leads an editor to its files."""
    monkeypatch.chdir(repo.parent)
    tree = open_tree(source(place, path=path))
    assert sorted(tree.files) == ["app.yaml", "deep/é.conf"]
    assert tree.prefix == prefix
    assert (Path(tree.prefix) / "app.yaml").exists()


def test_the_current_folder_needs_no_prefix(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are printed as they stand when the repository is where we are."""
    monkeypatch.chdir(repo)
    assert open_tree(source(".")).prefix == ""


@pytest.mark.parametrize("ref", [None, "HEAD", "main", "refs/heads/main", "v1", "light", "team/x", "HASH"])
def test_refs(repo: Path, ref: str | None) -> None:
    """HEAD, branches, both kinds of tags and a full hash name a commit; a later one is not read."""
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "-a", "v1", "-m", "one")
    git(repo, "tag", "light")
    git(repo, "branch", "team/x")
    moving = ref in (None, "HEAD", "main", "refs/heads/main")
    second = commit(repo, {"top.yaml": "new"})
    tree = open_tree(source(repo, ref=first if ref == "HASH" else ref))
    assert tree.commit == (second if moving else first)
    assert tree.blobs.read("top.yaml") == (b"new" if moving else b"t")


def test_bare_and_linked_repositories(repo: Path, tmp_path: Path) -> None:
    """A bare clone and a linked work tree hold the same files; a bare one has nothing an editor could open."""
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    assert contents(tmp_path / "bare.git") == contents(tmp_path / "linked") == contents(repo)
    assert open_tree(source(tmp_path / "bare.git", path="fleet")).prefix == "fleet/"


def test_objects_are_read_and_not_the_work_tree(repo: Path) -> None:
    """Edited, deleted and new files count only once they are committed."""
    before = contents(repo)
    (repo / "top.yaml").write_text("edited")
    (repo / "fleet/app.yaml").unlink()
    (repo / "new.yaml").write_text("new")
    assert contents(repo) == before


def test_a_hook_s_environment_changes_nothing(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started from a hook of another repository, the named repository is read all the same."""
    other = tmp_path / "other"
    commit(other, {"other.yaml": "o"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert "top.yaml" in contents(repo)


def test_replaced_objects_are_not_believed(repo: Path) -> None:
    """The content is that of the commit's own hash, whatever ``git replace`` says."""
    first = git(repo, "rev-parse", "HEAD")
    second = commit(repo, {"top.yaml": "evil"})
    git(repo, "replace", first, second)
    assert contents(repo, ref=first)["top.yaml"] == b"t"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ref": "gone"}, "no branch, tag or commit 'gone'"),
        ({"ref": "1" * 40}, "no branch, tag or commit"),
        ({"ref": "blob"}, "blob"),
        ({"path": "gone"}, "gone: no such folder"),
        ({"path": "top.yaml"}, "top.yaml: it is a file"),
        ({"path": "fleet/ap"}, "no such folder"),
    ],
)
def test_what_is_missing_is_a_source_error(repo: Path, more: Mapping[str, str], message: str) -> None:
    """A ref or path that is not there is one clear line, never a tree without files."""
    git(repo, "tag", "blob", "HEAD:top.yaml")
    with pytest.raises(SourceError, match=message) as caught:
        open_tree(source(repo, **more))
    assert "\n" not in str(caught.value)


def test_places_that_are_no_folder(tmp_path: Path) -> None:
    """A folder that is not there, a file, and a repository without a commit."""
    git(tmp_path, "init", "-q", "empty")
    (tmp_path / "file").touch()
    for name, message in {"none": "no such folder", "file": "it is a file", "empty": "no commit yet"}.items():
        with pytest.raises(SourceError, match=message):
            open_tree(source(tmp_path / name))


def test_another_user_s_repository(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git's refusal to open a repository of another user is told with what to do about it."""
    monkeypatch.setattr(plumbing, "_KEPT", plumbing._KEPT | {"GIT_TEST_ASSUME_DIFFERENT_OWNER"})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # of git's own test-suite
    with pytest.raises(SourceError, match=r"belongs to another user.*safe\.directory"):
        open_tree(source(repo))


def test_git_is_missing(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git the line says how to get it."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceError, match="git is not installed"):
        open_tree(source(repo))


def test_links_in_a_commit(repo: Path) -> None:
    """Links inside the repository are followed, also out of the path; others are listed and nothing else is lost."""
    links = {"fleet/inside.yaml": Path("../top.yaml"), "fleet/out.yaml": Path("/etc/passwd"), "fleet/all": Path("../x")}
    commit(repo, {**links, "x/y.yaml": "y", "fleet/gone": Path("nothing")})
    tree = open_tree(source(repo, path="fleet"))
    assert tree.blobs.read("inside.yaml") == b"t"
    assert tree.blobs.read("all/y.yaml") == b"y"
    assert dict(tree.bad) == {
        "out.yaml": "a link that leaves the repository (/etc/passwd)",
        "gone": "a link to nothing (nothing)",
    }
    assert tree.warnings == ("gone is not read: a link to nothing (nothing)",)
    with pytest.raises(SourceError, match=r"out\.yaml"):
        tree.blobs.read("out.yaml")


def test_lfs_pointers(repo: Path) -> None:
    """A pointer is no document, and a config that is one is not handed out as if it were the content."""
    commit(repo, {"big.yaml": POINTER, "model.bin": POINTER, "like.yaml": f"# {POINTER}"})
    tree = open_tree(source(repo))
    assert "LFS object missing" in tree.bad["big.yaml"]
    assert "big.yaml" not in tree.files
    assert "like.yaml" in tree.files
    with pytest.raises(SourceError, match=r"model\.bin: LFS object missing"):
        tree.blobs.read("model.bin")


def test_submodules(repo: Path, tmp_path: Path) -> None:
    """A submodule is named in a warning; a path inside one is an error that says so."""
    commit(tmp_path / "lib", {"l.yaml": "l"})
    git(repo, "submodule", "add", "-q", str(tmp_path / "lib"), "fleet/lib")
    commit(repo, {})
    assert open_tree(source(repo, path="fleet")).warnings == (
        "lib is a repository of its own (a submodule): its files are not read",
    )
    with pytest.raises(SourceError, match="inside the submodule fleet/lib"):
        open_tree(source(repo, path="fleet/lib/deep"))


def test_large_and_binary_files(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are not read ahead come when asked for, byte for byte."""
    monkeypatch.setattr(objects, "_LARGEST_OTHER", 10)
    data = bytes(range(256)) * 50
    commit(repo, {"data.bin": data, "empty": "", "newlines": "\n\n", "a": "x"})
    tree = open_tree(source(repo))
    blobs = tree.blobs
    assert isinstance(blobs, objects.CommitBlobs)
    assert tree.files["data.bin"] not in blobs.contents
    assert [blobs.read(path) for path in ("data.bin", "empty", "newlines", "a")] == [data, b"", b"\n\n", b"x"]


def test_a_missing_object_is_a_source_error(repo: Path) -> None:
    """A damaged repository is one line, not half a tree."""
    blob = git(repo, "rev-parse", "HEAD:top.yaml")
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(SourceError, match="missing"):
        open_tree(source(repo))


def test_a_name_that_is_tag_and_branch(repo: Path) -> None:
    """Git prefers the tag, and the tree carries git's warning."""
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "v1")
    git(repo, "checkout", "-q", "-b", "v1")
    commit(repo, {"top.yaml": "branch"})
    tree = open_tree(source(repo, ref="v1"))
    assert tree.commit == first
    assert any("ambiguous" in warning for warning in tree.warnings)


def _move(repo: Path, how: str) -> None:
    """Make ``main`` point at a new commit in one of the ways that git has."""
    if how == "commit":
        commit(repo, {"top.yaml": how})
    elif how == "amend":
        git(repo, "commit", "-q", "--amend", "--allow-empty", "-m", how)
    elif how == "update-ref":
        made = git(repo, "commit-tree", "HEAD^{tree}", "-m", how)
        git(repo, "update-ref", "refs/heads/main", made)
    elif how == "packed":
        commit(repo, {"top.yaml": how})
        git(repo, "pack-refs", "--all")
    else:
        git(repo, "checkout", "-q", "-b", "other")
        commit(repo, {"top.yaml": how})


@pytest.mark.parametrize("how", ["commit", "amend", "update-ref", "packed", "checkout"])
def test_each_move_of_head_is_seen(repo: Path, how: str) -> None:
    """However the commit changes, the next read has it; and then the tree is the same object again."""
    if how == "packed":
        git(repo, "pack-refs", "--all")  # before and after, so that no loose ref tells
    repository = Repository(source(repo))
    for _ in range(3):
        repository.read()
    _move(repo, how)
    tree = repository.read()
    assert tree.commit == git(repo, "rev-parse", "HEAD")
    assert repository.read() is repository.read() is tree


def test_each_move_in_a_linked_worktree_is_seen(repo: Path, tmp_path: Path) -> None:
    """A linked work tree has a HEAD of its own and shares the branches."""
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", "-b", "side", str(linked))
    repository = Repository(source(linked))
    for _ in range(3):
        repository.read()
    made = git(repo, "commit-tree", "HEAD^{tree}", "-m", "elsewhere")
    git(repo, "update-ref", "refs/heads/side", made)
    assert repository.read().commit == made
    git(linked, "checkout", "-q", "--detach", "main")
    assert repository.read().commit == git(repo, "rev-parse", "main") != made


def test_another_branch_s_commits_change_nothing(repo: Path) -> None:
    """A tree at a branch stays the same object while other branches and the checkout move."""
    repository = Repository(source(repo, ref="main"))
    tree = repository.read()
    _move(repo, "checkout")
    assert repository.read() is tree


def test_unchanged_reads_start_no_process(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After two reads an unchanged repository is known by a look at its refs."""
    repository = Repository(source(repo))
    tree = repository.read()
    assert repository.read() is tree

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert repository.read() is tree


def test_a_new_commit_reads_only_new_files(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blobs that the last tree had are not read again."""
    repository = Repository(source(repo))
    repository.read()
    commit(repo, {"more.yaml": "m"})
    asked: list[str] = []
    read = plumbing.read_blobs

    def count(folder: Path, ids: list[str]) -> dict[str, bytes]:
        asked.extend(ids)
        return read(folder, ids)

    monkeypatch.setattr(objects, "read_blobs", count)
    tree = repository.read()
    assert asked == [tree.files["more.yaml"]]
    assert tree.blobs.read("top.yaml") == b"t"


def test_a_move_between_look_and_read_is_not_lost(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that lands right after git was asked is found by the next read."""
    repository = Repository(source(repo))
    repository.read()
    commit(repo, {"top.yaml": "second"})
    locate = local.locate

    def late(folder: Path, ref: str) -> local.Found | None:
        found = locate(folder, ref)
        commit(repo, {"top.yaml": "third"})
        return found

    monkeypatch.setattr(local, "locate", late)
    assert repository.read().blobs.read("top.yaml") == b"second"
    monkeypatch.setattr(local, "locate", locate)
    assert repository.read().blobs.read("top.yaml") == b"third"


def test_a_path_that_goes_away_stays_an_error(repo: Path) -> None:
    """A commit without the path is an error at every read, never the old tree, until the path is back."""
    repository = Repository(source(repo, path="fleet"))
    for _ in range(3):
        repository.read()
    commit(repo, {"fleet/app.yaml": None, "fleet/deep/é.conf": None})
    for _ in range(3):
        with pytest.raises(SourceError, match="fleet: no such folder"):
            repository.read()
    git(repo, "revert", "--no-edit", "HEAD")
    assert repository.read().commit == git(repo, "rev-parse", "HEAD")


def test_a_repository_that_was_replaced(repo: Path) -> None:
    """Deleted and made anew in the same place, the new one is read."""
    repository = Repository(source(repo))
    for _ in range(2):
        repository.read()
    repo.rename(repo.parent / "old")
    with pytest.raises(SourceError, match="no such folder"):
        repository.read()
    commit(repo, {"only.yaml": "o"})
    assert list(repository.read().files) == ["only.yaml"]


def _children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_nothing_is_left_behind(repo: Path) -> None:
    """Fifty reads, each of a new commit, leave no process and no open file."""
    repository = Repository(source(repo))
    repository.read()
    before = len(list(Path("/proc/self/fd").iterdir())), _children()
    for number in range(50):
        made = git(repo, "commit-tree", "HEAD^{tree}", "-m", str(number))
        (repo / ".git/refs/heads/main").write_text(f"{made}\n")
        assert repository.read().commit == made
    assert (len(list(Path("/proc/self/fd").iterdir())), _children()) == before
