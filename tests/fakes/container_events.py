"""What became of a cluster's containers, out of the Engine's own events: nothing that ran for a moment is missed."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.fakes.reconcile_command import Lab

VERBS = frozenset({"create", "start", "die", "destroy"})


@dataclass(frozen=True, slots=True)
class Moment:
    """One event. ``cards`` are those that the container was given at birth."""

    verb: str
    container: str
    instance: str
    generation: int
    cards: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """``VERB gN``."""
        return f"{self.verb} g{self.generation}"


def moments(lab: Lab, since: float) -> Iterator[Moment]:
    """Everything that became of our containers since a time, in order."""
    with lab.client() as client:
        events = client.events(since=int(since), until=int(time.time()) + 1, decode=True, filters={"type": "container"})
        for event in events:
            labels = event["Actor"]["Attributes"]
            if event["Action"] in VERBS and event["timeNano"] >= since * 1e9 and "io.reconciler.name" in labels:
                yield _moment(event["Action"], event["Actor"]["ID"], labels)


def _moment(verb: str, container: str, labels: Mapping[str, str]) -> Moment:
    kind, name, index = (labels[f"io.reconciler.{key}"] for key in ("kind", "name", "index"))
    given = json.loads(labels["io.reconciler.allocation"])
    cards = frozenset([*given.get("gpus", ()), *(piece["uuid"] for piece in given.get("mig", ()))])
    return Moment(verb, container, f"{kind}.{name}.{index}", int(labels["io.reconciler.generation"]), cards)


@dataclass(slots=True)
class Replay:
    """Our containers as they come and go, with what must never happen."""

    running: dict[str, Moment] = field(default_factory=dict)

    def go_on(self, events: Iterable[Moment], *, never_down: frozenset[str], never_lost: frozenset[str]) -> None:
        """Follow the events. No card is ever held by two that run, and no instance runs twice on its cards.

        Of an instance in ``never_down`` one container runs at any time; one of ``never_lost`` may be down, but nothing
        of it is destroyed unless another container of it runs.
        """
        for event in events:
            if event.verb == "start":
                for other in self.running.values():
                    assert not event.cards & other.cards, f"{event.instance} {event} while {other.instance} runs"
                self.running[event.container] = event
            elif event.verb == "die":
                self.running.pop(event.container, None)
                if event.instance in never_down:
                    assert self.lives(event.instance), f"{event.instance} is down: {event}"
            elif event.verb == "destroy" and event.instance in never_lost and event.generation > 0:
                assert self.lives(event.instance), f"{event.instance} is lost: {event}"

    def lives(self, instance: str) -> bool:
        """Whether a container of the instance runs."""
        return any(one.instance == instance for one in self.running.values())
