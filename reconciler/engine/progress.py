"""The Engine's stream of pull messages, as a few short lines for people."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.model.resources import format_memory

_FINISHED = {"Pull complete", "Already exists"}


class PullProgress:
    """Feeds on messages of ``POST /images/create``; says one line whenever a layer ends or a tenth more has come."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._finished: dict[str, bool] = {}
        self._bytes: dict[str, tuple[int, int]] = {}
        self._last: tuple[int, int] = (0, 0)

    def feed(self, message: Mapping[str, Any]) -> None:
        """Take in one message."""
        status = str(message.get("status", ""))
        layer = message.get("id")
        if status.startswith(("Digest:", "Status:")):
            self._say(status.removeprefix("Status: "))
        elif layer and not status.startswith("Pulling from"):
            self._layer(str(layer), status, message.get("progressDetail") or {})

    def _layer(self, layer: str, status: str, detail: Mapping[str, Any]) -> None:
        self._finished[layer] = status in _FINISHED
        if status == "Downloading" and detail.get("total"):
            self._bytes[layer] = (int(detail.get("current", 0)), int(detail["total"]))
        elif layer in self._bytes and status not in {"Downloading", "Waiting"}:
            self._bytes[layer] = (self._bytes[layer][1],) * 2
        done = sum(self._finished.values())
        current, total = (sum(side) for side in zip(*self._bytes.values(), strict=True)) if self._bytes else (0, 0)
        mark = (done, current * 10 // total if total else 0)
        if mark != self._last and (done or total):
            self._last = mark
            size = f", {format_memory(current)} of {format_memory(total)}" if total else ""
            self._say(f"{done} of {len(self._finished)} layers{size}")
