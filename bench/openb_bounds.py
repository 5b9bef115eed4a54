"""What no scheduler can pass on openb: linear programs over host types and pod types, solved by HiGHS.

A variable says how many pods of a type stand on hosts of a type. Cores, memory and cards hold per host type, models per
pair. Shares are bounded exactly: each card that serves them takes a pattern, a set of share sizes that fits one card;
patterns are priced in by a knapsack as they pay (Gilmore and Gomory). What is relaxed is that a pod stands on one host.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import gcd

import highspy
import numpy as np
from highspy._core import _Highs  # the public class prints a banner when it is made, which nothing turns off

from bench.openb_fleet import Kind
from bench.openb_trace import MILLI, Node, Pod

CORE, GIB = 1000, 1024  # rows are in cores and GiB, so that the numbers of one LP are of one size
PAYS = 1e-6  # a pattern is priced in when a card of it is worth that much more than a card costs
MISSING = 1e-3  # pods that may be short where all are said to fit: above the solver's tolerances

Pattern = tuple[tuple[int, int], ...]  # (share size in milli, how often)


class Program:
    """The LP of one fleet and the types of one workload; solved again and again for other numbers of pods."""

    def __init__(self, nodes: Sequence[Node], pods: Iterable[Pod]) -> None:
        """Build the rows and the columns of pods; patterns begin with one size each."""
        kinds = Counter(Kind(node.millicpus, node.memory, node.gpus, node.model) for node in nodes)
        self._kinds = sorted(kinds, key=repr)
        self._pods = sorted(set(pods))
        self._sizes = sorted({pod.milli for pod in self._pods if pod.share})
        self._solver = _Highs()
        self._solver.setOptionValue("output_flag", False)  # noqa: FBT003 - the solver's own form
        self._costs: list[tuple[int, Pod]] = []  # (column, its pod)
        self._known: set[tuple[int, Pattern]] = set()
        self._rows(kinds)
        for at, kind in enumerate(self._kinds):
            for number, pod in enumerate(self._pods):
                self._add_pod(at, kind, number, pod)
            for size in self._sizes:
                self._add_pattern(at, ((size, MILLI // size),))

    def most(self, arrived: Mapping[Pod, int]) -> float:
        """Thousandths of a card that any choice among these pods can hold at most."""
        return self._solve(arrived, {pod: pod.asked / MILLI for pod in self._pods}) * MILLI

    def fit(self, wanted: Mapping[Pod, int]) -> bool:
        """Whether the LP places all of these pods (which real hosts may still not)."""
        placed = self._solve(wanted, dict.fromkeys(self._pods, 1.0))
        return placed >= sum(wanted.values()) - MISSING

    def _rows(self, kinds: Mapping[Kind, int]) -> None:
        """For each pod type its number; for each host type cores, GiB, cards and one row per share size."""
        limits = [0.0] * len(self._pods)
        for kind in self._kinds:
            count = kinds[kind]
            limits += [count * kind.millicpus / CORE, count * kind.memory / GIB, count * kind.gpus]
            limits += [0.0] * len(self._sizes)
        for limit in limits:
            self._solver.addRow(-highspy.kHighsInf, limit, 0, np.array([], dtype=np.int32), np.array([]))

    def _row(self, at: int) -> int:
        """The first row of a host type: cores; then GiB, cards and shares."""
        return len(self._pods) + at * (3 + len(self._sizes))

    def _add_pod(self, at: int, kind: Kind, number: int, pod: Pod) -> None:
        allowed = not pod.gpus or not pod.models or kind.model in pod.models
        if not allowed or pod.gpus > kind.gpus or pod.millicpus > kind.millicpus or pod.memory > kind.memory:
            return
        row = self._row(at)
        values = {number: 1.0, row: pod.millicpus / CORE, row + 1: pod.memory / GIB}
        if pod.share:
            values[row + 3 + self._sizes.index(pod.milli)] = 1.0
        elif pod.gpus:
            values[row + 2] = float(pod.gpus)
        self._costs.append((self._add_column(values), pod))

    def _add_pattern(self, at: int, pattern: Pattern) -> bool:
        """One more kind of card on hosts of a type; false where it is there already."""
        if (at, pattern) in self._known:
            return False
        self._known.add((at, pattern))
        row = self._row(at)
        shares = {row + 3 + self._sizes.index(size): -float(count) for size, count in pattern}
        self._add_column({row + 2: 1.0} | shares)
        return True

    def _add_column(self, values: Mapping[int, float]) -> int:
        rows = np.array(sorted(values), dtype=np.int32)
        numbers = np.array([values[row] for row in sorted(values)])
        self._solver.addCol(0.0, 0.0, highspy.kHighsInf, len(rows), rows, numbers)
        return int(self._solver.getNumCol()) - 1

    def _solve(self, counts: Mapping[Pod, int], worth: Mapping[Pod, float]) -> float:
        """The most worth of at most so many pods; patterns are added until none pays."""
        for number, pod in enumerate(self._pods):
            self._solver.changeRowBounds(number, -highspy.kHighsInf, float(counts.get(pod, 0)))
        for column, pod in self._costs:
            self._solver.changeColCost(column, -worth[pod])
        while True:
            self._solver.run()
            if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                raise RuntimeError(f"HiGHS: {self._solver.modelStatusToString(self._solver.getModelStatus())}")
            if not self._price():
                return -float(self._solver.getInfo().objective_function_value)

    def _price(self) -> bool:
        """Add for each host type the pattern that is worth most, where it pays."""
        duals = self._solver.getSolution().row_dual
        added = False
        for at in range(len(self._kinds)):
            first = self._row(at) + 2
            worth = [-duals[first + 1 + number] for number in range(len(self._sizes))]
            value, pattern = best_pattern(self._sizes, worth)
            if value > -duals[first] + PAYS:
                added |= self._add_pattern(at, pattern)
        return added


def best_pattern(sizes: Sequence[int], worth: Sequence[float]) -> tuple[float, Pattern]:
    """The set of share sizes (milli, each any number of times) that fits one card and is worth most."""
    unit = gcd(MILLI, *sizes)
    best = [(0.0, -1)] * (MILLI // unit + 1)  # worth within so many units, and the size added last
    for room in range(1, len(best)):
        options = [
            (best[room - size // unit][0] + value, number)
            for number, (size, value) in enumerate(zip(sizes, worth, strict=True))
            if size <= room * unit and value > 0
        ]
        best[room] = max(options, default=(0.0, -1))
    chosen: Counter[int] = Counter()
    room = len(best) - 1
    while best[room][1] >= 0:
        size = sizes[best[room][1]]
        chosen[size] += 1
        room -= size // unit
    return best[-1][0], tuple(sorted(chosen.items()))


def in_order(program: Program, sequence: Sequence[Pod]) -> list[int]:
    """Thousandths of a card held after each arrival, where a pod is left out only if the LP cannot add it.

    The LP stands for a perfect scheduler that may still move what it admitted. What was refused once is refused
    for good, since more is admitted since; so is what asks for as much or more.
    """
    admitted: Counter[Pod] = Counter()
    kinds, refused = set(sequence), set[Pod]()
    kept = [False] * len(sequence)
    start = 0
    while start < len(sequence):
        rest = [at for at in range(start, len(sequence)) if sequence[at] not in refused]
        fit = _longest(program, admitted, [sequence[at] for at in rest])
        for at in rest[:fit]:
            kept[at] = True
            admitted[sequence[at]] += 1
        if fit == len(rest):
            break
        out = sequence[rest[fit]]
        refused |= {pod for pod in kinds if _covers(pod, out)}
        start = rest[fit] + 1
    return list(accumulate(pod.asked if kept[at] else 0 for at, pod in enumerate(sequence)))


def _longest(program: Program, admitted: Counter[Pod], rest: Sequence[Pod]) -> int:
    """How many of the first of ``rest`` fit beside what was admitted: by doubling, then by bisection."""
    low, high, step = 0, len(rest) + 1, 1
    while low < high - 1:
        middle = min(low + step, (low + high) // 2) if high > len(rest) else (low + high) // 2
        if program.fit(admitted + Counter(rest[:middle])):
            low, step = middle, step * 2
        else:
            high = middle
    return low


def _covers(pod: Pod, other: Pod) -> bool:
    """Whether a host that takes ``pod`` would also take ``other`` in its place."""
    models = not other.models or (bool(pod.models) and set(pod.models) <= set(other.models))
    return (
        models
        and pod.millicpus >= other.millicpus
        and pod.memory >= other.memory
        and pod.gpus >= other.gpus
        and pod.milli >= other.milli
    )
