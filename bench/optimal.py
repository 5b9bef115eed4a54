"""How far a batch is from the best one there is: ``python -m bench.optimal [FLEETS]``.

Small fleets whose optimum an integer program finds: hosts of one NUMA node with 2 to 8 cards, up to 20 asks of equal
priority for cards or shares with cores and memory. The batch is to allocate as many thousandths of cards as it can.
``optimal`` is the part of the fleets where it allocates the most there can be; the gaps are of that most.
"""

import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import highspy
import numpy as np
from highspy._core import _Highs  # the public class prints a banner when it is made, which nothing turns off

from reconciler.model.host import Gpu, HostFacts, HostSpec, NumaNode
from reconciler.model.resources import GpuRequest, GpuShare, Request, WholeGpus
from reconciler.model.snapshot import HostView, Reach
from reconciler.model.workload import ContainerSpec, InstanceId, Kind, Workload
from reconciler.planner.place import Ask, Fleet, Placement

FLEETS = 40
MOST_HOSTS, MOST_ASKS = 6, 20
GIB = 1024**3
CARD = 1000  # thousandths
LOADS = (0.8, 1.0, 1.3)  # thousandths asked for, of those there are
SIZES = (100, 200, 300, 400, 500, 600, 750, 810)


class Host(NamedTuple):
    """CPUs, GiB of memory, cards."""

    cpus: int
    memory: int
    cards: int


class Size(NamedTuple):
    """What one ask takes: CPUs, GiB of memory, whole cards, thousandths of one card."""

    cpus: int
    memory: int
    cards: int
    milli: int

    @property
    def worth(self) -> int:
        """Thousandths of cards."""
        return self.cards * CARD + self.milli


class Mix(NamedTuple):
    """What is asked for: parts of whole cards and of shares in all asks, and CPUs and GiB of a card on a host."""

    name: str
    whole: float
    shares: float
    cpus: int
    memory: int


MIXES = (
    Mix("whole cards", 1.0, 0.0, 12, 64),
    Mix("shares", 0.0, 1.0, 12, 64),
    Mix("cards, shares, no cards", 0.4, 0.4, 12, 64),
    Mix("few cores", 0.4, 0.4, 6, 64),
    Mix("few cores, little memory", 0.4, 0.4, 6, 24),
)


def main() -> int:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else FLEETS
    print(f"{count} fleets a row; gaps in % of the most thousandths of cards that can be allocated")
    print(f"{'mix':<26}{'asked':>6}{'optimal':>9}{'mean gap':>10}{'worst gap':>11}")
    for mix in MIXES:
        for load in LOADS:
            gaps = [gap(*fleet(seed, mix, load)) for seed in range(count)]
            share = sum(one == 0 for one in gaps) / count
            print(
                f"{mix.name:<26}{load:>6.0%}{share:>9.0%}{100 * statistics.mean(gaps):>9.2f} {100 * max(gaps):>10.2f}"
            )
    return 0


def fleet(seed: int, mix: Mix, load: float) -> tuple[list[Host], list[Size]]:
    """Hosts, and asks for about ``load`` of their cards."""
    rng = random.Random(f"{seed} {mix.name}")  # noqa: S311 -- the same fleets each time
    hosts = []
    for _ in range(rng.randint(2, MOST_HOSTS)):
        cards = rng.choice([2, 2, 4, 8])
        hosts.append(
            Host(cards * rng.randint(mix.cpus // 2, mix.cpus), cards * rng.randint(mix.memory // 2, mix.memory), cards)
        )
    wanted = load * CARD * sum(host.cards for host in hosts)
    asks: list[Size] = []
    while sum(one.worth for one in asks) < wanted and len(asks) < MOST_ASKS:
        asks.append(_size(rng, mix))
    return hosts, asks


def _size(rng: random.Random, mix: Mix) -> Size:
    kind = rng.random()
    cards = rng.choice([1, 1, 2, 2, 4, 8]) if kind < mix.whole else 0
    milli = rng.choice(SIZES) if mix.whole <= kind < mix.whole + mix.shares else 0
    per = cards or 1
    return Size(per * rng.randint(1, 8), per * rng.randint(1, 32), cards, milli)


def gap(hosts: Sequence[Host], asks: Sequence[Size]) -> float:
    """By how much the batch misses the optimum, of the optimum."""
    best = optimum(hosts, Counter(asks))
    return (best - allocated(hosts, asks)) / best if best else 0.0


# -- the batch


def allocated(hosts: Sequence[Host], asks: Sequence[Size]) -> int:
    """Thousandths of cards that the planner allocates in one batch."""
    planned = Fleet([_view(f"h{at}", host) for at, host in enumerate(hosts)], _no_rules)
    found = planned.place_all(_ask(at, size) for at, size in enumerate(asks))
    return sum(asks[int(instance.index)].worth for instance, one in found.items() if isinstance(one, Placement))


def _no_rules(text: str) -> "_Never":
    raise AssertionError(text)


class _Never:
    def matches(self, variables: object) -> bool:
        """It is never made."""
        raise AssertionError(variables)


def _view(name: str, host: Host) -> HostView:
    nodes = (NumaNode(0, tuple(range(host.cpus)), host.memory * GIB),)
    gpus = tuple(Gpu(f"GPU-{name}-{at}", "X", 80 * GIB, index=at, numa_node=0) for at in range(host.cards))
    return HostView(HostSpec(name, "sim://"), Reach.KNOWN, HostFacts(name, nodes, gpus))


def _ask(at: int, size: Size) -> Ask:
    gpus: GpuRequest | None = WholeGpus(size.cards) if size.cards else GpuShare(size.milli) if size.milli else None
    request = Request(1000 * size.cpus, exclusive=True, memory=size.memory * GIB, gpus=gpus)
    work = Workload(Kind.APP, "x", ContainerSpec("a:1", gpus=gpus), request)
    return Ask(InstanceId(Kind.APP, "x", str(at)), work)


# -- the optimum


def optimum(hosts: Sequence[Host], asks: Counter[Size]) -> int:
    """The most thousandths of cards that any choice of asks and hosts allocates: an integer program."""
    program = _Program()
    sizes = sorted(asks)
    fills = list(_fills(sorted({size.milli for size in sizes if size.milli}), CARD))
    here = [[program.column(size.worth, asks[size]) for size in sizes] for _ in hosts]
    for at, size in enumerate(sizes):
        program.row(asks[size], [(columns[at], 1) for columns in here])
    for host, columns in zip(hosts, here, strict=True):
        cards = [program.column(0, host.cards) for _ in fills]
        pairs = list(zip(columns, sizes, strict=True))
        program.row(host.cpus, [(column, size.cpus) for column, size in pairs])
        program.row(host.memory, [(column, size.memory) for column, size in pairs])
        program.row(host.cards, [(column, size.cards) for column, size in pairs] + [(column, 1) for column in cards])
        for milli in {size.milli for size in sizes if size.milli}:
            shares = [(column, 1) for column, size in pairs if size.milli == milli]
            program.row(0, shares + [(card, -fill.count(milli)) for card, fill in zip(cards, fills, strict=True)])
    return program.most()


def _fills(sizes: Sequence[int], room: int) -> Iterator[tuple[int, ...]]:
    """Every multiset of shares that fits a card, the empty one left out."""
    for at, size in enumerate(sizes):
        if size <= room:
            yield (size,)
            for rest in _fills(sizes[at:], room - size):
                yield (size, *rest)


class _Program:
    """Maximise over whole numbers of columns under upper limits of rows."""

    def __init__(self) -> None:
        self._solver = _Highs()
        for option, value in (("output_flag", False), ("mip_rel_gap", 0.0), ("mip_abs_gap", 0.5)):
            self._solver.setOptionValue(option, value)
        self._solver.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def column(self, worth: int, most: int) -> int:
        """A whole number from 0 to ``most``."""
        column = int(self._solver.getNumCol())
        self._solver.addCol(float(worth), 0.0, float(most), 0, np.array([], dtype=np.int32), np.array([]))
        self._solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        return column

    def row(self, limit: int, parts: Sequence[tuple[int, int]]) -> None:
        """The sum of (column, factor) is at most ``limit``."""
        kept = [(column, factor) for column, factor in parts if factor]
        columns = np.array([column for column, _ in kept], dtype=np.int32)
        factors = np.array([float(factor) for _, factor in kept])
        self._solver.addRow(-highspy.kHighsInf, float(limit), len(kept), columns, factors)

    def most(self) -> int:
        """The best sum of worth. Raises RuntimeError where it is not proved."""
        self._solver.run()
        status = self._solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(f"HiGHS: {self._solver.modelStatusToString(status)}")
        return round(self._solver.getInfo().objective_function_value)


if __name__ == "__main__":
    sys.exit(main())
