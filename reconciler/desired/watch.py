"""Hints that a local source may have changed: the only user of watchfiles.

A hint means "look again" and nothing more; a lost one costs the time to the next poll. Editors, git and Kubernetes all
replace files by renaming, so folders are watched, never files.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_STEP = 200  # milliseconds without a change that end a burst
_LONGEST_BURST = 2_000  # milliseconds after which a burst is told even if it goes on
_CHECK = 5_000  # milliseconds between two looks whether a watched folder was itself replaced
_POLL = 2_000  # milliseconds between two looks where the kernel cannot watch
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
            present = [one.path for one, mark in zip(self.watched, identity, strict=True) if mark]
            for changed in self._bursts(present):
                if changed:
                    self.on_change()
                if self._identity() != identity:
                    self.on_change()
                    break

    def _identity(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_identity(one.path) for one in self.watched)

    def _bursts(self, present: Sequence[Path]) -> Iterator[bool]:
        """True after a burst of changes that matter, False from time to time; ends when watching fails or stops."""
        if not present:
            self.stop.wait(_ABSENT)
            yield False
            return
        import watchfiles  # noqa: PLC0415  (60 ms, and only a daemon with a local source needs it)

        try:
            yield from self._kernel(present, watchfiles)
        except FileNotFoundError:
            return  # gone between the two looks: the next round sees it
        except (OSError, RuntimeError) as error:
            if self.polling:
                raise
            self.polling = True
            places = ", ".join(map(str, present))
            self.on_warning(
                f"{places}: cannot be watched ({error}); looking every {_POLL // 1000} s instead."
                " Raise fs.inotify.max_user_watches and fs.inotify.max_user_instances"
            )

    def _kernel(self, present: Sequence[Path], watchfiles: "object") -> Iterator[bool]:
        ...


def _identity(path: Path) -> tuple[int, int] | None:
    """Which folder stands at ``path``; None for none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
