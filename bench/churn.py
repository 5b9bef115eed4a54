"""A busy fleet where work comes and goes: ``python -m bench.churn [--hosts N] [--rounds N]``.

In each round work ends and new work comes until as many cards are asked for as the load says; then one plan is made
with all that runs on its hosts, and carried out. Work asks for 1, 2, 4 or 8 cards (a quarter of the cards each) and
ends in a round that is drawn when it comes, whether it has been started by then or not: so the demand is the same for
every rule. Nothing that runs is ever moved. The first rounds, until the first work has ended everywhere, do not count.
"""

import argparse
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bench import rules
from bench.fleets import CARDS, app, host, whole
from bench.machine import machine, timed, verdict
from reconciler.model.plan import ActionKind, Plan, StepKind
from reconciler.model.snapshot import HostView
from tests.fakes.world import World, desired

if TYPE_CHECKING:
    from reconciler.model.workload import Workload

HOSTS, ROUNDS, LOAD = 1_000, 200, 0.95
SIZES = (1, 2, 4, 8)
STAYS = 20  # rounds, on average
WARM = 40  # rounds that do not count


class Work(NamedTuple):
    """One piece of work: cards, the round in which it comes, and the first one without it."""

    name: str
    cards: int
    comes: int
    ends: int


class Scheduler(Protocol):
    """What is measured."""

    def round(self, gone: Sequence[Work], waiting: Sequence[Work]) -> Mapping[str, bool]:
        """Take away what has gone, start what can be started: names, each with whether it is on one NUMA node."""


@dataclass(slots=True)
class Told:
    """What came of one scheduler. Percent of all cards, by round."""

    missing: list[float] = field(default_factory=list)
    allocated: list[float] = field(default_factory=list)
    local: list[bool] = field(default_factory=list)
    waits: dict[int, list[int]] = field(default_factory=lambda: {size: [] for size in SIZES})
    seconds: list[float] = field(default_factory=list)


class Ours:
    """The planner, on hosts that carry out its plans at once."""

    def __init__(self, views: Sequence[HostView]) -> None:
        self._world = World.of(*views)
        self._views = views
        self._wanted: dict[str, Workload] = {}
        self._at: dict[str, tuple[str, str]] = {}  # host and container of what runs

    def round(self, gone: Sequence[Work], waiting: Sequence[Work]) -> Mapping[str, bool]:
        """Work that has gone has left git, and its container with it."""
        for work in gone:
            del self._wanted[work.name]
            if work.name in self._at:
                self._world.drop(*self._at.pop(work.name))
        for work in waiting:
            self._wanted.setdefault(work.name, app(work.name, 1, whole(work.cards)))
        return dict(self._carry_out(self._world.step(desired(self._wanted.values(), self._views))))

    def _carry_out(self, made: Plan) -> Iterable[tuple[str, bool]]:
        for action in made.actions:
            if action.kind is not ActionKind.START or action.allocation is None:
                raise ValueError(f"{action.kind} of {action.instance}: {action.reason}")
            for step in action.steps:
                if step.kind is StepKind.CREATE and step.due:  # else it is watched until it is ready
                    self._at[action.instance.name] = (step.host, step.name)
                    yield action.instance.name, len({*action.allocation.gpu_nodes, *action.allocation.cpu_nodes}) == 1


class Peer:
    """Another rule; who waits longer is tried first."""

    def __init__(self, rule: rules.Rule) -> None:
        self._rule = rule
        self._at: dict[str, tuple[int, rules.Taken]] = {}

    def round(self, gone: Sequence[Work], waiting: Sequence[Work]) -> Mapping[str, bool]:
        """One after another."""
        for work in gone:
            if work.name in self._at:
                self._rule.release(*self._at.pop(work.name))
        started = {}
        for work in waiting:
            placed = self._rule.place(rules.want_of(whole(work.cards)))
            if placed:
                self._at[work.name] = placed
                started[work.name] = placed[1].local
        return started


def main() -> int:
    """Measure and print; 1 when a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    views = tuple(map(host, range(options.hosts)))
    works = arrivals(options.hosts * CARDS, options.rounds)
    print(f"{machine()}\n{options.hosts:,} hosts, {options.rounds} rounds, {len(works):,} pieces of work, load {LOAD}")
    told = run(Ours(views), works, options.hosts * CARDS, options.rounds)
    show("reconciler", told)
    for name, rule in rules.RULES.items():
        show(name, run(Peer(rule(rules.empty(views))), works, options.hosts * CARDS, options.rounds))
    lines = [
        verdict("demand that is not allocated, points", fmean(told.missing), 0.5, most=True),
        verdict("local, %", percent(told.local), 100),
        verdict("longest wait of 8-card work, rounds", max(told.waits[8]), 2, most=True),
    ]
    print(*lines, sep="\n")
    return int(any("missed" in line for line in lines))


def arrivals(cards: int, rounds: int, seed: int = 42) -> list[Work]:
    """All work, in the order in which it comes; the demand is the load in every round, less than the next work."""
    draw = random.Random(seed)  # noqa: S311 -- repeatable, not secret
    works: list[Work] = []
    here: list[Work] = []
    for now in range(rounds):
        here = [work for work in here if work.ends > now]
        demand = sum(work.cards for work in here)
        while True:
            size = draw.choices(SIZES, weights=[1 / size for size in SIZES])[0]
            if demand + size > LOAD * cards:
                break
            stays = 1 + int(draw.expovariate(1 / STAYS))
            works.append(Work(f"work-{len(works):06}", size, now, now + stays))
            here.append(works[-1])
            demand += size
    return works


def run(scheduler: Scheduler, works: Sequence[Work], cards: int, rounds: int) -> Told:
    """All rounds."""
    told = Told()
    started: dict[str, int] = {}
    for now in range(rounds):
        here = [work for work in works if work.comes <= now < work.ends]
        gone = [work for work in works if work.ends == now]
        waiting = [work for work in here if work.name not in started]
        seconds, new = timed(_bound(scheduler, gone, waiting))
        started |= dict.fromkeys(new, now)
        if now >= WARM:
            told.seconds.append(seconds)
            told.local += [new[work.name] for work in waiting if work.name in new and work.cards <= CARDS // 2]
            running = sum(work.cards for work in here if work.name in started)
            told.allocated.append(100 * running / cards)
            told.missing.append(100 * (sum(work.cards for work in here) - running) / cards)
    for work in works:
        if work.comes >= WARM:
            told.waits[work.cards].append(started.get(work.name, min(work.ends, rounds)) - work.comes)
    return told


def percent(local: Sequence[bool]) -> float:
    """Of those that are local."""
    return 100 * sum(local) / len(local) if local else 100.0


def show(name: str, told: Told) -> None:
    """One row."""
    waits = ", ".join(f"{size}: {fmean(told.waits[size]):.2f} (longest {max(told.waits[size])})" for size in SIZES)
    print(
        f"  {name:<11} allocated {fmean(told.allocated):6.2f} % of {fmean(told.allocated) + fmean(told.missing):6.2f},"
        f" local {percent(told.local):6.2f} %, {fmean(told.seconds):.3f} s a round; rounds waited by cards: {waits}",
        flush=True,
    )


def _bound(scheduler: Scheduler, gone: Sequence[Work], waiting: Sequence[Work]) -> Callable[[], Mapping[str, bool]]:
    return lambda: scheduler.round(gone, waiting)


if __name__ == "__main__":
    sys.exit(main())
