"""Hints for local sources, on the real file system and with the real watchfiles."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import watchfiles

from reconciler.desired import watch as watching
from reconciler.desired.repository import Repository
from reconciler.desired.source import Source
from reconciler.desired.watch import Watched, watch
from tests.fakes.git_repository import ENVIRONMENT, commit, git, write
from tests.fakes.waiting import wait_for

Start = Callable[[Sequence[Watched]], "Hints"]


class Hints:
    """Counts hints and keeps warnings."""

    def __init__(self) -> None:
        self.count = 0
        self.warnings: list[str] = []

    def add(self) -> None:
        """One more hint."""
        self.count += 1


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pauses, and a git of our own."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for name in ("_STEP", "_CHECK", "_POLL", "_LONGEST_BURST"):
        monkeypatch.setattr(watching, name, 50)
    monkeypatch.setattr(watching, "_ABSENT", 0.05)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start watching, and hold the watcher to ending at once when it is stopped."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def begin(watched: Sequence[Watched]) -> Hints:
        hints = Hints()
        threads.extend(watch(watched, stop, hints.add, hints.warnings.append))
        return hints

    yield begin
    stop.set()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def until_hinted(hints: Hints, change: Callable[[int], None]) -> None:
    """Make changes until a hint comes: the first ones may happen before the kernel watches."""
    attempts = iter(range(1_000))

    def try_again() -> bool:
        change(next(attempts))
        return hints.count > 0

    wait_for(try_again, "a hint")


@pytest.mark.parametrize("name", ["a.yaml", "new/deep/b.yaml", ".reconcileignore"])
def test_changes_in_a_folder(tmp_path: Path, start: Start, name: str) -> None:
    """A file that is written anywhere below gives a hint, hidden ones and new folders too."""
    hints = start([Watched(tmp_path, recursive=True)])
    until_hinted(hints, lambda number: write(tmp_path, name, str(number)))
    assert hints.warnings == []


@pytest.mark.parametrize("how", ["commit", "update-ref", "pack-refs", "checkout", "branch", "tag"])
def test_changes_of_refs(tmp_path: Path, start: Start, how: str) -> None:
    """Whatever moves a ref of a repository gives a hint, bare or not."""
    repo = tmp_path / "repo"
    commit(repo, {"a": "1"})
    repository = Repository(Source(str(repo), tmp_path))
    repository.read()
    hints = start(repository.watched())

    def change(number: int) -> None:
        made = git(repo, "commit-tree", "HEAD^{tree}", "-m", str(number))
        moves = {
            "commit": ["commit", "-q", "--allow-empty", "-m", "x"],
            "update-ref": ["update-ref", "HEAD", made],
            "pack-refs": ["pack-refs", "--all"],
            "checkout": ["checkout", "-q", "--detach", made],
            "branch": ["branch", f"team/{number}"],
            "tag": ["tag", f"v{number}"],
        }
        git(repo, *moves[how])

    until_hinted(hints, change)


def test_noise_of_a_repository_is_no_news(tmp_path: Path) -> None:
    """Of all that git and users write, only HEAD, packed refs and refs are news when commits are read."""
    commit(tmp_path, {"a": "1"})
    repository = Repository(Source(str(tmp_path), tmp_path))
    repository.read()
    watchers = [
        watching._Watcher([one], threading.Event(), Hints().add, lambda _: None) for one in repository.watched()
    ]
    noise = (
        "a",
        "b.yaml",
        ".git/index",
        ".git/HEAD.lock",
        ".git/refs/heads/main.lock",
        ".git/COMMIT_EDITMSG",
        ".git/x/HEAD",
    )
    news = (".git/HEAD", ".git/packed-refs", ".git/refs/heads/main", ".git/refs/heads/team/x", ".git/refs/tags/v1")
    matters = [name for name in (*noise, *news) if any(one._matters(None, str(tmp_path / name)) for one in watchers)]
    assert matters == list(news)


def test_scratch_files_and_git_in_a_folder(tmp_path: Path) -> None:
    """What editors write beside a file, and a ``.git`` below, is left out; all else is told."""
    one = watching._Watcher([Watched(tmp_path, recursive=True)], threading.Event(), Hints().add, lambda _: None)
    names = ("a.yaml", "a.yaml~", ".a.yaml.swp", "4913", "x.lock", ".git/HEAD", "git/a.yaml", "sub/.git/refs/x")
    assert [name for name in names if one._matters(None, str(tmp_path / name))] == ["a.yaml", "git/a.yaml"]


def test_a_swapped_link(tmp_path: Path, start: Start) -> None:
    """A link to a release is watched through its parent: the swap gives a hint, and so do later changes."""
    for release in ("1", "2"):
        write(tmp_path, f"releases/{release}/a.yaml", release)
    place = tmp_path / "now"
    place.symlink_to("releases/1")
    repository = Repository(Source(str(place), tmp_path))
    assert repository.read().blobs.read("a.yaml") == b"1"
    hints = start(repository.watched())
    targets = {0: "releases/1", 1: "releases/2"}

    def swap(number: int) -> None:
        (tmp_path / "new").symlink_to(targets[number % 2])
        (tmp_path / "new").replace(place)

    until_hinted(hints, swap)
    hints.count = 0
    until_hinted(hints, lambda number: write(place, "a.yaml", str(number)))


def test_a_folder_that_goes_and_comes_back(tmp_path: Path, start: Start) -> None:
    """Watching survives its folder: going, coming back and the first change after that all give hints."""
    place = tmp_path / "fleet"
    place.mkdir()
    hints = start([Watched(place, recursive=True)])
    until_hinted(hints, lambda number: write(place, f"warm-up-{number}", "x"))
    place.rename(tmp_path / "old")
    before = hints.count
    wait_for(lambda: hints.count > before, "the hint that it went")
    before = hints.count
    place.mkdir()
    wait_for(lambda: hints.count > before, "the hint that it is back")
    hints.count = 0
    until_hinted(hints, lambda number: write(place, "a.yaml", str(number)))


@pytest.mark.parametrize("error", [OSError("OS file watch limit reached."), RuntimeError("too many instances")])
def test_the_kernel_s_limit(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Where the kernel has no watches left, the folder is polled: one warning with the setting to raise, and hints."""
    real = watchfiles.watch

    def limited(*paths: Path, force_polling: bool | None = None, **more: object) -> object:
        if not force_polling:
            raise error
        return real(*paths, force_polling=True, **more)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(watchfiles, "watch", limited)
    hints = start([Watched(tmp_path, recursive=True)])
    until_hinted(hints, lambda number: write(tmp_path, "a.yaml", "x" * number))
    assert len(hints.warnings) == 1
    assert f"{tmp_path}: changes cannot be watched ({error})" in hints.warnings[0]
    assert "fs.inotify.max_user_watches" in hints.warnings[0]


def test_remotes_are_not_watched(tmp_path: Path) -> None:
    """A remote gives no hints: it is polled."""
    assert Repository(Source("https://git.example/a", tmp_path)).watched() == ()
