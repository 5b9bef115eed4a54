"""The inspect documents of one host, asked for again only where the list shows that something happened.

A list entry has no limits, cards, restart count or error, and an inspect costs 2 ms: documents are kept by id.
One is fetched again when the list entry changed (state, health, exit code, name), when its age shows that it was
started or stopped since the last look (the text ``Up 3 minutes`` itself changes all the time), while it is created or
restarting and ours, when ``forget`` was called for it, and in rotation, so that none grows old: somebody may have used
``docker update``.
"""

import math
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from reconciler.actual.containers import decode
from reconciler.engine.protocols import Reader
from reconciler.errors import NotFoundError
from reconciler.model.host import HostFacts
from reconciler.model.snapshot import Container

FRESH = 600.0
"""Seconds that a document is believed when nothing happened; each pass fetches its share, the oldest first."""

_MARK = re.compile(r"\(([^)]*)\)")
_AGE = re.compile(r"(?:(\d+)|About an?|Less than a) (second|minute|hour|day|week|month|year)")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2592000, "year": 31536000}


@dataclass(frozen=True, slots=True)
class Lens:
    """What a document is read with; another lens reads all documents again, without asking the Engine."""

    cluster: str | None
    ignore: tuple[str, ...] = ()
    facts: HostFacts | None = None
    default_runtime: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that changes what a document says; memory in use and processes do not."""
        cards = tuple((gpu.uuid, gpu.index, gpu.pci, gpu.mig_slices) for gpu in self.facts.gpus) if self.facts else None
        return self.cluster, self.ignore, self.default_runtime, cards


@dataclass(slots=True)
class _Known:
    mark: tuple[object, ...]
    looked_at: float
    document: dict[str, Any]
    container: Container


class Inspects:
    """The cache of one host; used by one thread at a time. Times are seconds of any clock that never goes back."""

    def __init__(self, fresh: float = FRESH) -> None:
        self._fresh = fresh
        self._last = -math.inf
        self._known: dict[str, _Known] = {}
        self._forgotten: deque[str] = deque()
        self._lens: tuple[object, ...] = ()
        self._changed = False
        self.containers: tuple[Container, ...] = ()

    def forget(self, container: str) -> None:
        """Look at this one again in the next pass: it was just changed. May be called from any thread."""
        self._forgotten.append(container)

    def refresh(self, reader: Reader, entries: list[dict[str, Any]], lens: Lens, now: float) -> tuple[Container, ...]:
        """Every listed container that is still there, sorted by name; ``now`` was read after the list.

        Raises EngineError; what was fetched until then is kept.
        """
        if lens.key != self._lens:
            self._read_again(lens)
        listed = {entry["Id"]: entry for entry in entries}
        for key in [key for key in self._known if key not in listed]:
            self._drop(key)
        for key in self._due(listed, now):
            self._look(reader, listed[key], lens, now)
        if self._changed:
            found = (known.container for known in self._known.values())
            self.containers = tuple(sorted(found, key=lambda one: (one.name, one.id)))
            self._changed = False
        return self.containers

    def _due(self, listed: Mapping[str, dict[str, Any]], now: float) -> list[str]:
        while self._forgotten:
            known = self._known.get(self._forgotten.popleft())
            if known is not None:
                known.mark = ()  # stands until it was really looked at, whatever fails in between
        due = [key for key, entry in listed.items() if self._stale(entry, now)]
        rest = sorted(self._known.keys() - set(due), key=lambda key: (self._known[key].looked_at, key))
        share = len(rest) * (now - self._last) / self._fresh if rest else 0.0
        self._last = now
        return due + rest[: math.ceil(min(share, len(rest)))]

    def _stale(self, entry: dict[str, Any], now: float) -> bool:
        known = self._known.get(entry["Id"])
        if known is None or known.mark != _mark(entry):
            return True
        if known.container.ours and known.container.state in {"created", "restarting", "removing"}:
            return True
        age = _read(entry.get("Status") or "")[1]
        return age is not None and age <= now - known.looked_at

    def _look(self, reader: Reader, entry: dict[str, Any], lens: Lens, now: float) -> None:
        key = entry["Id"]
        try:
            document = reader.inspect_container(key)
        except NotFoundError:
            self._drop(key)  # removed since the list was made
            return
        before = self._known.get(key)
        self._known[key] = after = _Known(_mark(entry), now, document, _decode(document, lens))
        self._changed |= before is None or before.container != after.container

    def _drop(self, key: str) -> None:
        self._changed |= self._known.pop(key, None) is not None

    def _read_again(self, lens: Lens) -> None:
        for known in self._known.values():
            known.container = _decode(known.document, lens)
        self._changed = True
        self._lens = lens.key


def least_age(status: str) -> int | None:
    """Seconds that have passed at least since the start or the end that a list entry's ``Status`` tells of.

    The Engine cuts seconds, minutes, days and longer, and rounds hours. None where the text tells no age.
    """
    match = _AGE.search(status)
    if not match:
        return None
    if status[match.start() :].startswith("Less"):
        return 0
    seconds = int(match[1] or 1) * _SECONDS[match[2]]
    return seconds - 1800 if match[2] not in {"second", "minute"} else seconds


@lru_cache(maxsize=4096)  # a pass over many hosts reads the same few texts over and over
def _read(status: str) -> tuple[tuple[str, ...], int | None]:
    return tuple(_MARK.findall(status)), least_age(status)


def _mark(entry: Mapping[str, Any]) -> tuple[object, ...]:
    """What of a list entry changes only when something happened."""
    return (
        entry.get("State"),
        _read(entry.get("Status") or "")[0],
        tuple(entry.get("Names") or ()),
        entry.get("ImageID"),
        entry.get("Created"),
    )


def _decode(document: Mapping[str, Any], lens: Lens) -> Container:
    return decode(document, lens.cluster, lens.ignore, lens.facts, lens.default_runtime)
