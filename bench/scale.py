"""Speed and quality of placing whole batches on large fleets: ``python -m bench.scale [CASE...] [--plot FILE.svg]``.

Each case runs in a process of its own, so that its peak memory is its own. ``in counts`` is the planning core: which of
the batch are placed on which hosts, once they have been read (best of three). ``with names`` is all of it: hosts read,
and cards, CPUs, ports and reasons of every placement. Seconds are CPU seconds. ``local`` is the part of the work with
cards that could be on one NUMA node and is; ``free hosts`` have all eight cards left. Beside it, on the same requests
in random order: the rules of Drove and Kubernetes.
"""

import argparse
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import fleets, rules
from bench.fleets import CARDS, Load
from bench.machine import machine, peak_rss, timed, verdict
from reconciler.model.workload import Workload
from reconciler.planner.ask import Ask, Placement
from reconciler.planner.batch import admit
from reconciler.planner.board import Board
from reconciler.planner.conditions import Conditions
from reconciler.planner.gates import Gates
from reconciler.planner.place import Fleet
from reconciler.planner.policies import Policies
from reconciler.planner.together import Together
from reconciler.rules import compile_rule

RUNS = 3  # of the planning core, each on hosts read anew; the fastest counts


class Case(NamedTuple):
    """One case and its figures: placed a second, seconds and MB at most; percent placed and local are 100 in all."""

    hosts: int
    load: Callable[[int], Load]
    rate: float | None = None
    seconds: float | None = None
    megabytes: float | None = None


class Row(NamedTuple):
    """What came of one way to place."""

    name: str
    placed: int
    seconds: float
    local: float | None = None
    free: int | None = None


CASES = {
    "whole": Case(5_000, fleets.singles, rate=120_000),
    "mix": Case(5_000, fleets.mix, rate=120_000),
    "crowd": Case(10_000, fleets.crowd, seconds=2, megabytes=500),
    "diverse": Case(5_000, fleets.diverse, rate=60_000),
    "half": Case(5_000, fleets.small),
}


def main() -> int:
    """Run the cases in turn, or the one that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)} (all)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw placed a second against hosts instead")
    options = parser.parse_args()
    if unknown := [name for name in options.cases if name not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)}")
    if options.plot:
        from bench import scale_plot  # noqa: PLC0415 -- a plotting library is no part of what is measured

        scale_plot.draw(scale_plot.measure(), options.plot)
    elif len(options.cases) == 1:
        report(options.cases[0])
    else:
        print(machine(), flush=True)
        for name in options.cases or CASES:
            subprocess.run([sys.executable, "-m", "bench.scale", name], check=True)
    return 0


def report(name: str) -> None:
    """Measure one case and print it."""
    case = CASES[name]
    load = case.load(case.hosts)
    asked = sum(one.instances for one in load.workloads)
    milli = sum(one.instances * fleets.milli_of(one.request) for one in load.workloads)
    demand = milli / (case.hosts * CARDS * 10)
    print(f"{name}: {case.hosts:,} hosts, {asked:,} requests of {len(kinds(load))} kinds, {demand:.1f} % of the cards")
    opened, counts = min((in_counts(load) for _ in range(RUNS)), key=lambda pair: pair[1].seconds)
    show(counts, asked)
    after_counts = peak_rss()
    names = with_names(load)
    show(names, asked)
    print(f"  reading the hosts first, which both do: {opened:.2f} s")
    print(f"  peak RSS {after_counts:,.0f} MB in counts, {peak_rss():,.0f} MB with names")
    for rule in rules.RULES:
        show(peer(rule, load), asked)
    print(*(f"  {line}" for line in figures(case, counts, names, asked, after_counts)), sep="\n", flush=True)


def in_counts(load: Load) -> tuple[float, Row]:
    """The planning core, and before it the seconds of reading the hosts into free states."""
    board = Board(load.views, load.workloads)
    conditions = Conditions(board.views, Policies(board.views, compile_rule), load.workloads)
    gates = Gates(board.views, conditions)
    asks = in_order(load)
    opened, pack = timed(lambda: board.pack)
    together = Together(gates, conditions, board.states, lambda _ports, _hosts: 0, board.having)
    seconds, chosen = timed(lambda: admit(pack, *together.items(asks)))
    return opened, Row("in counts", len(chosen), seconds)


def with_names(load: Load) -> Row:
    """All of placing."""
    fleet, asks = Fleet(load.views, compile_rule, load.workloads), load.asks()
    seconds, answers = timed(lambda: fleet.place_all(asks))
    wanted = {ask.instance: ask.workload for ask in asks}
    placed = {one: answer for one, answer in answers.items() if isinstance(answer, Placement)}
    local = [is_local(answer) for one, answer in placed.items() if could_be_local(wanted[one])]
    used = {answer.host for one, answer in placed.items() if wanted[one].request.gpus}
    return Row("with names", len(placed), seconds, percent(local), len(whole_hosts(load) - used))


def peer(name: str, load: Load) -> Row:
    """Another scheduler's rule, on the requests as they come."""
    rule = rules.RULES[name](rules.empty(load.views))
    wants = {one.name: rules.want_of(one.request) for one in load.workloads}
    arriving = load.asks()
    random.Random(42).shuffle(arriving)  # noqa: S311 -- repeatable, not secret
    seconds, answers = timed(lambda: [rule.place(wants[ask.workload.name]) for ask in arriving])
    pairs = zip(arriving, answers, strict=True)
    local = [answer[1].local for ask, answer in pairs if answer and could_be_local(ask.workload)]
    free = sum(all(card == rules.CARD for card in host.cards) for host in rule.hosts())
    return Row(name, sum(answer is not None for answer in answers), seconds, percent(local), free)


def in_order(load: Load) -> list[Ask]:
    """What is to be placed, in the order of identities."""
    return sorted(load.asks(), key=lambda ask: ask.instance.sort_key)


def kinds(load: Load) -> set[object]:
    """Different requests."""
    return {one.request for one in load.workloads}


def whole_hosts(load: Load) -> set[str]:
    """Hosts that can give eight whole cards."""
    return {
        view.spec.name for view in load.views if view.facts and not any(card.mig_enabled for card in view.facts.gpus)
    }


def could_be_local(workload: Workload) -> bool:
    """Whether it has cards, and one empty node has all that it asks."""
    return 0 < rules.want_of(workload.request).pieces <= CARDS // 2


def is_local(placement: Placement) -> bool:
    """Cards and CPUs on one node."""
    return len({*placement.allocation.gpu_nodes, *placement.allocation.cpu_nodes}) == 1


def percent(local: Sequence[bool]) -> float:
    """Of those that are local."""
    return 100 * sum(local) / len(local) if local else 100.0


def show(row: Row, asked: int) -> None:
    """One row."""
    rate = row.placed / row.seconds
    rest = "" if row.local is None else f", {row.local:6.2f} % local, {row.free:5,} free hosts"
    print(
        f"  {row.name:<11} {row.seconds:7.2f} s, {rate:9,.0f} placed/s, {100 * row.placed / asked:6.2f} % placed{rest}",
        flush=True,
    )


def figures(case: Case, counts: Row, names: Row, asked: int, megabytes: float) -> list[str]:
    """Whether the figures of a case are reached."""
    lines = [verdict("placed with names, %", 100 * names.placed / asked, 100)]
    lines.append(verdict("local, %", names.local or 0.0, 100))
    for row in (counts, names):
        if case.rate:
            lines.append(verdict(f"placed/s {row.name}", row.placed / row.seconds, case.rate))
        if case.seconds:
            lines.append(verdict(f"seconds {row.name}", row.seconds, case.seconds, most=True))
    if case.megabytes:
        lines.append(verdict("peak RSS in counts, MB", megabytes, case.megabytes, most=True))
    return lines


if __name__ == "__main__":
    sys.exit(main())
