"""The schedulers that the planner is held to on openb, each as its authors define it.

BestFit and FGD follow "Beware of Fragmentation" (USENIX ATC'23) and its simulator, down to the whole numbers of the
score. Kubernetes is the default profile of kube-scheduler, whose scores see neither cards nor NUMA. Drove takes the
first host that fits in an order drawn for each instance. Beyond that a share takes the tightest card that holds it.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from bench.openb_fleet import Fleet, Kind, State
from bench.openb_trace import Node, Pod

MOST_MILLICPUS = 128_000  # the simulator's largest node
MOST_GPU_MILLI = 8_000
POPULAR = 0.95  # of the pods are covered by the types that FGD looks at


def best_fit(_kind: Kind, _before: State, after: State) -> int:
    """Least left over: cores and cards, each as a part of the largest node, weighted alike."""
    left = 0.5 * after.millicpus / MOST_MILLICPUS + 0.5 * sum(after.cards) / MOST_GPU_MILLI
    return -int((1 - left) * 100)


def kubernetes(kind: Kind, _before: State, after: State) -> int:
    """LeastAllocated plus BalancedAllocation, weight 1 each, over cores and memory: the default profile."""
    least = (after.millicpus * 100 // kind.millicpus + after.memory * 100 // kind.memory) // 2
    apart = abs(after.millicpus / kind.millicpus - after.memory / kind.memory)
    return -(least + int((1 - apart / 2) * 100))


class Fgd:
    """Fragmentation gradient descent: the least growth of the milli that the workload's pods could not use.

    Fragmentation of a host is the mean, over the types of pod, of the free milli that a pod of the type cannot use: all
    of it where the pod does not fit, else what is free on cards too full for it. Memory is not looked at.
    """

    def __init__(self, pods: Sequence[Pod]) -> None:
        """Learn the types of a workload: the most frequent ones, until they cover ``POPULAR`` of its pods."""
        self._types = _popular(pods)
        self._weights = cache(self._weigh)
        self._fragmentation = cache(self._fragment)

    def __call__(self, kind: Kind, before: State, after: State) -> int:
        """The simulator's score, a whole number from 0 to 100, negated."""
        growth = self.fragmentation(kind, after) - self.fragmentation(kind, before)
        return -int(100 / (1 + math.exp(growth / 1000)))

    def fragmentation(self, kind: Kind, state: State) -> float:
        """Free milli of a host that a pod of the workload cannot use, in expectation."""
        return self._fragmentation(kind.model, state.millicpus, state.cards)

    def _fragment(self, model: str, millicpus: int, cards: tuple[int, ...]) -> float:
        used = sum(weight * _usable(cards, gpus, milli) for gpus, milli, weight in self._weights(model, millicpus))
        return sum(cards) - used

    def _weigh(self, model: str, millicpus: int) -> list[tuple[int, int, float]]:
        """(cards, milli of each, how often) of the types that the model and the cores of a host allow."""
        found: dict[tuple[int, int], float] = {}
        for (cores, gpus, milli, models), share in self._types:
            if gpus and cores <= millicpus and (not models or model in models):
                found[gpus, milli] = found.get((gpus, milli), 0.0) + share
        return [(gpus, milli, weight) for (gpus, milli), weight in found.items()]


PEERS: dict[str, Callable[[Sequence[Node], Sequence[Pod], int], Fleet]] = {
    "Drove": lambda nodes, _pods, seed: Fleet(nodes, None, seed),
    "Kubernetes": lambda nodes, _pods, seed: Fleet(nodes, kubernetes, seed),
    "BestFit": lambda nodes, _pods, seed: Fleet(nodes, best_fit, seed),
    "FGD": lambda nodes, pods, seed: Fleet(nodes, Fgd(pods), seed),
}

_Type = tuple[int, int, int, tuple[str, ...]]


def _popular(pods: Sequence[Pod]) -> list[tuple[_Type, float]]:
    """The most frequent types, with their parts of the pods that these cover."""
    counts = Counter((pod.millicpus, pod.gpus, pod.milli, pod.models) for pod in pods)
    out: list[tuple[_Type, int]] = []
    covered = 0
    for count, kind in sorted(((count, kind) for kind, count in counts.items()), reverse=True):
        if covered >= POPULAR * len(pods):
            break
        covered += count
        out.append((kind, count))
    return [(kind, count / covered) for kind, count in out]


def _usable(cards: tuple[int, ...], gpus: int, milli: int) -> int:
    """Free milli on cards (lowest first) that can serve a pod, or 0 where too few can."""
    fit = [free for free in cards if free >= milli]
    return sum(fit) if len(fit) >= gpus else 0
