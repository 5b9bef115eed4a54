"""A fleet that takes pods one at a time, each on the host that a rule scores best.

Hosts with equal free state form one class, so a rule scores a pod once for each class, and its scores are kept.
"""

import random
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.openb_trace import MILLI, Node, Pod, ranks


@dataclass(frozen=True, slots=True)
class State:
    """What is free on a host. ``kind`` is a position in ``Fleet.kinds``, ``cards`` are free milli, lowest first."""

    kind: int
    millicpus: int
    memory: int
    cards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """Hosts that are equal when empty."""

    millicpus: int
    memory: int
    gpus: int
    model: str


class Rule(Protocol):
    """Scores the host after a pod was put on it; the lowest score wins."""

    def __call__(self, kind: Kind, before: State, after: State, /) -> int:
        """The score of a host of this kind with this left after the pod."""
        ...


Fit = tuple[int, int]


class Fleet:
    """Hosts and what is free on them. Equal scores go to the first host in a permutation by the seed."""

    def __init__(self, nodes: Sequence[Node], rule: Rule | None, seed: int) -> None:
        """Empty hosts. Without a ``rule`` a pod goes to the first host that fits in an order drawn for each pod."""
        self.rule = rule
        self.kinds = sorted({_kind(node) for node in nodes}, key=repr)
        self._rng = random.Random(seed)  # noqa: S311 - a simulation
        self._states: list[State] = []
        self._ids: dict[State, int] = {}
        self._hosts: dict[int, list[int]] = {}
        self._fits: dict[Pod, dict[int, Fit | None]] = {}
        for node, rank in zip(nodes, ranks(nodes, seed), strict=True):
            kind = self.kinds.index(_kind(node))
            state = State(kind, node.millicpus, node.memory, (MILLI,) * node.gpus)
            insort(self._hosts.setdefault(self._intern(state), []), rank)

    def place(self, pod: Pod) -> bool:
        """Put one pod on a host; false where none fits."""
        fits = self._fits.setdefault(pod, {})
        for state in self._hosts:
            if state not in fits:
                fits[state] = self._fit(self._states[state], pod)
        found = self._best(fits) if self.rule else self._any(fits)
        if found is None:
            return False
        state, host = found
        fit = fits[state]
        assert fit is not None
        self._hosts[state].remove(host)
        if not self._hosts[state]:
            del self._hosts[state]
        insort(self._hosts.setdefault(fit[1], []), host)
        return True

    def _best(self, fits: dict[int, Fit | None]) -> tuple[int, int] | None:
        """State and host of the lowest score."""
        best: tuple[int, int, int] | None = None
        for state, hosts in self._hosts.items():
            fit = fits[state]
            if fit is not None and (best is None or (fit[0], hosts[0]) < best[:2]):
                best = (fit[0], hosts[0], state)
        return (best[2], best[1]) if best else None

    def _any(self, fits: dict[int, Fit | None]) -> tuple[int, int] | None:
        """The first host that fits in a random order of all is one drawn from those that fit."""
        fitting = [state for state in self._hosts if fits[state] is not None]
        count = sum(len(self._hosts[state]) for state in fitting)
        at = self._rng.randrange(count) if count else 0
        for state in fitting:
            hosts = self._hosts[state]
            if at < len(hosts):
                return state, hosts[at]
            at -= len(hosts)
        return None

    def _fit(self, state: State, pod: Pod) -> Fit | None:
        """The best way to put a pod on a host of this state: of equal scores the tightest card."""
        kind = self.kinds[state.kind]
        scored = [(self.rule(kind, state, after) if self.rule else 0, after) for after in options(kind, state, pod)]
        if not scored:
            return None
        score, after = min(scored, key=lambda pair: pair[0])
        return score, self._intern(after)

    def _intern(self, state: State) -> int:
        if state not in self._ids:
            self._ids[state] = len(self._states)
            self._states.append(state)
        return self._ids[state]


def options(kind: Kind, state: State, pod: Pod) -> list[State]:
    """The states after a pod: one for each card that could hold its share, tightest first; empty where none fits."""
    millicpus, memory = state.millicpus - pod.millicpus, state.memory - pod.memory
    if millicpus < 0 or memory < 0 or (pod.gpus and pod.models and kind.model not in pod.models):
        return []
    if pod.share:
        cards = [_take(state.cards, free, pod.milli) for free in sorted(set(state.cards)) if free >= pod.milli]
    else:
        whole = len(state.cards) - pod.gpus
        if pod.gpus and (whole < 0 or state.cards[whole] < MILLI):
            return []
        cards = [(0,) * pod.gpus + state.cards[:whole]]
    return [State(state.kind, millicpus, memory, after) for after in cards]


def allocate(fleet: Fleet, sequence: Sequence[Pod]) -> list[int]:
    """Thousandths of a card allocated after each arrival; what cannot be placed is dropped."""
    out, held = [], 0
    for pod in sequence:
        held += pod.asked if fleet.place(pod) else 0
        out.append(held)
    return out


def _take(cards: tuple[int, ...], free: int, milli: int) -> tuple[int, ...]:
    at = cards.index(free)
    return tuple(sorted((*cards[:at], free - milli, *cards[at + 1 :])))


def _kind(node: Node) -> Kind:
    return Kind(node.millicpus, node.memory, node.gpus, node.model)
