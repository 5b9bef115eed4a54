"""Hints that a local source may have changed: the only user of watchfiles.

A hint means "look again" and nothing more; a lost one costs the time to the next poll. Editors, git and Kubernetes all
replace files by renaming, so folders are watched, never files.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_STEP = 200  # milliseconds without a change that end a burst
_LONGEST_BURST = 2_000  # milliseconds after which a burst is told even if it goes on
_CHECK = 5_000  # milliseconds between two looks whether a watched folder was itself replaced
_POLL = 2_000  # milliseconds between two looks where the kernel cannot watch
_SCRATCH = (".lock", ".swp", ".swx", "~", "/4913")  # git's locks, and what editors write beside a file
_ABSENT = 1.0  # seconds between two looks for a folder that is not there


@dataclass(frozen=True, slots=True)
class Watched:
    """A folder to watch. ``names``, when given, are the only names in it that matter."""

    path: Path
    recursive: bool = False
    names: frozenset[str] | None = None


def watch(
    watched: Iterable[Watched],
    stop: threading.Event,
    on_change: Callable[[], None],
    on_warning: Callable[[str], None],
) -> tuple[threading.Thread, ...]:
    """Call ``on_change`` after each burst of changes until ``stop`` is set. Returns the threads, started.

    ``on_change`` and ``on_warning`` are called from these threads. Where the kernel's limit of watches is reached, the
    folders are polled, and ``on_warning`` is told so once.
    """
    everything = tuple(watched)
    groups = [tuple(one for one in everything if one.recursive is deep) for deep in (False, True)]
    watchers = [_Watcher(group, stop, on_change, on_warning) for group in groups if group]
    threads = tuple(threading.Thread(target=one.run, name=f"watch-{n}", daemon=True) for n, one in enumerate(watchers))
    for thread in threads:
        thread.start()
    return threads


@dataclass(slots=True)
class _Watcher:
    """One thread's folders, all watched deep or all shallow."""

    watched: Sequence[Watched]
    stop: threading.Event
    on_change: Callable[[], None]
    on_warning: Callable[[str], None]
    polling: bool = False

    def run(self) -> None:
        """Watch; when a folder comes, goes or is replaced, give the hint and watch what is there then."""
        while not self.stop.is_set():
            identity = self._identity()
            present = [one.path.resolve() for one, mark in zip(self.watched, identity, strict=True) if mark]
            with closing(self._bursts(present)) as bursts:
                for changed in bursts:
                    replaced = self._identity() != identity
                    if changed or replaced:
                        self.on_change()
                    if replaced:
                        break

    def _identity(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_identity(one.path) for one in self.watched)

    def _bursts(self, present: Sequence[Path]) -> Generator[bool, None, None]:
        """True after a burst of changes, False from time to time. Ends when stopped, or to be begun again."""
        if not present:
            self.stop.wait(_ABSENT)
            yield False
            return
        import watchfiles  # noqa: PLC0415  (60 ms, and only a daemon with a local source needs it)

        try:
            for changes in watchfiles.watch(
                *present,
                watch_filter=self._matters,
                step=_STEP,
                debounce=_LONGEST_BURST,
                stop_event=self.stop,
                rust_timeout=_CHECK,
                yield_on_timeout=True,
                raise_interrupt=False,
                force_polling=self.polling or None,  # None leaves the choice to WATCHFILES_FORCE_POLLING
                poll_delay_ms=_POLL,
                recursive=self.watched[0].recursive,
            ):
                yield bool(changes)
        except FileNotFoundError:
            self.stop.wait(_ABSENT)  # gone since we looked
        except (OSError, RuntimeError) as error:  # RuntimeError is the root of what watchfiles itself raises
            self._poll_instead(present, error)

    def _poll_instead(self, present: Sequence[Path], error: Exception) -> None:
        if self.polling:
            self.stop.wait(_POLL / 1000)
            return
        self.polling = True
        self.on_warning(
            f"{', '.join(map(str, present))}: changes cannot be watched ({error}), so files are looked at every"
            f" {_POLL / 1000:g} s; raising fs.inotify.max_user_watches and fs.inotify.max_user_instances helps"
        )

    def _matters(self, _change: object, path: str) -> bool:
        """Whether a change at ``path`` may change what is read."""
        if path.endswith(_SCRATCH):
            return False
        for one in self.watched:
            top = f"{one.path.resolve()}/"
            if path.startswith(top):
                rest = path.removeprefix(top)
                if rest in one.names if one.names is not None else ".git" not in rest.split("/"):
                    return True
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    """Which folder stands at ``path``; None for none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
