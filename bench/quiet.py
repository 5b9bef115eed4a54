"""CPU of planning when nothing is to be done: ``python -m bench.quiet [--hosts N] [--passes N] [--profile]``.

Every card of the fleet has a container that is as git wants it. ``first`` is the first plan of the process; ``same``
are later ones on the same snapshot; ``equal`` are on one that was made anew and says the same; ``one changed`` are on
one in which a container has been restarted. ``daemon`` is the pass of a daemon that sees a snapshot made anew: its last
plan holds while what it was made from is equal. Fails where a pass takes longer than the figure allows.
"""

import argparse
import cProfile
import gc
import pstats
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace

from bench.fleets import CARDS, Load, singles
from bench.machine import machine, peak_rss, timed, verdict
from reconciler.cli.main import COLLECT
from reconciler.cycle import Cycle
from reconciler.model.desired import Cluster, Desired
from reconciler.model.limits import limits_for
from reconciler.model.memory import Memory
from reconciler.model.plan import Plan
from reconciler.model.snapshot import Container, Holding, HostView, Ours, Snapshot
from reconciler.model.workload import Allocation, Workload, digest_of, spec_on_host
from reconciler.planner import plan
from reconciler.planner.ask import Ask

HOSTS, PASSES = 5_000, 5
MOST_SECONDS = 0.5


def main() -> int:
    """Measure and print; 1 when the figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--passes", type=int, default=PASSES, help="of each sort")
    parser.add_argument("--profile", action="store_true", help="print where the time of one pass goes")
    options = parser.parse_args()
    gc.set_threshold(*COLLECT)  # as the command does
    load = singles(options.hosts)
    git = desired(load)
    seen = running(load)
    print(f"{machine()}\n{options.hosts:,} hosts, {options.hosts * CARDS:,} containers, CPU seconds of a plan")
    first = show("first", [quiet(git, seen)])
    same = show("same", [quiet(git, seen) for _ in range(options.passes)])
    show("equal", [quiet(desired(again := singles(options.hosts)), running(again)) for _ in range(options.passes)])
    show("one changed", [quiet(git, restarted(seen, at)) for at in range(options.passes)])
    daemon = show("daemon", [second_pass(git, seen, running(singles(options.hosts))) for _ in range(options.passes)])
    print(f"  peak RSS {peak_rss():,.0f} MB")
    for name, seconds in (("first", first), ("same", same), ("daemon", daemon)):
        print(verdict(f"{name} pass, s", seconds, MOST_SECONDS, most=True))
    if options.profile:
        profile(lambda: plan(git, seen, Memory(), 0.0))
    return int(max(first, same) > MOST_SECONDS)


def quiet(git: Desired, seen: Snapshot) -> float:
    """Seconds of one plan, which must have found nothing to do."""
    seconds, made = timed(lambda: plan(git, seen, Memory(), 0.0))
    check(made, sum(len(view.containers) for view in seen.hosts))
    return seconds


class Still:
    """Keeps no memory: nothing has happened."""

    def load(self) -> Memory:
        """Nothing is remembered."""
        return Memory()

    def save(self, memory: Memory) -> None:
        """Nothing to remember."""


def second_pass(git: Desired, seen: Snapshot, anew: Snapshot) -> float:
    """Seconds of a daemon's second pass, without the reading and the observing."""
    looks = iter((seen, anew))
    cycle = Cycle(
        lambda: git,
        lambda _: next(looks),
        lambda _: Still(),
        clock=lambda: 0.0,
        secrets=lambda _: {},
        allow_prune=lambda _: False,
    )
    first = cycle.look()
    seconds, second = timed(cycle.look)
    if second.plan is not first.plan:
        raise ValueError("the plan was made again")
    return seconds


def check(made: Plan, containers: int) -> None:
    """Raises ValueError for a plan that does something."""
    if made.actions or made.pending or made.drift or made.waiting or made.unchanged != containers:
        raise ValueError(f"not quiet: {made.actions[:1]} {made.pending[:1]} {made.drift[:1]} {made.waiting[:1]}")


def show(name: str, seconds: list[float]) -> float:
    """One row; the median."""
    middle = statistics.median(seconds)
    print(f"  {name:<12} min {min(seconds):6.2f}  median {middle:6.2f}  max {max(seconds):6.2f}", flush=True)
    return middle


def desired(load: Load) -> Desired:
    """What git wants."""
    return Desired(Cluster("bench"), load.workloads, tuple(view.spec for view in load.views), commit="c" * 40)


def running(load: Load) -> Snapshot:
    """The fleet with an instance on each card, in the order of both."""
    asks = load.asks()
    return Snapshot(
        tuple(
            replace(view, containers=tuple(container(view, at, asks[number * CARDS + at]) for at in range(CARDS)))
            for number, view in enumerate(load.views)
        )
    )


def container(view: HostView, card: int, ask: Ask) -> Container:
    """One that runs as git wants it, with one card of the host and CPUs and memory of its node."""
    workload, given = ask.workload, allocation(view, card, ask.workload)
    spec = spec_on_host(workload.container, view.spec.env)
    limits = limits_for(workload, given)
    return Container(
        id=f"{view.spec.name}-{card}",
        name=ask.instance.container_name("bench", 1),
        state="running",
        image=workload.container.image,
        ours=Ours(ask.instance, 1, digest_of(spec), spec, given),
        holding=Holding(frozenset(given.gpus), cpus=limits.cpus, memory=limits.memory),
        limits=limits,
        started_at="2026-01-01T00:00:00Z",
    )


def allocation(view: HostView, card: int, workload: Workload) -> Allocation:
    """One card, with the next free CPUs of its node."""
    assert view.facts is not None
    gpu, cores = view.facts.gpus[card], workload.request.cores
    node = view.facts.numa_nodes[gpu.numa_node or 0]
    first = card % (CARDS // 2) * cores
    return Allocation(
        gpus=(gpu.uuid,),
        gpu_nodes=(node.id,),
        cpu_nodes=(node.id,),
        cpus=node.cpus[first : first + cores],
        exclusive=True,
        memory=workload.request.memory,
    )


def restarted(seen: Snapshot, host: int) -> Snapshot:
    """The same with one container started later."""
    view = seen.hosts[host]
    first, *rest = view.containers
    later = replace(view, containers=(replace(first, started_at="2026-01-02T00:00:00Z", restart_count=1), *rest))
    return Snapshot((*seen.hosts[:host], later, *seen.hosts[host + 1 :]))


def profile(call: Callable[[], object]) -> None:
    """Where the time goes, the most first."""
    profiler = cProfile.Profile()
    profiler.runcall(call)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    sys.exit(main())
