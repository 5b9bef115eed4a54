"""The rules of other schedulers on the fleets of the benches, in counts.

Drove takes the first host that fits in an order drawn for each instance, and on it the NUMA node with the most free
cards. Kubernetes is the default profile of kube-scheduler: it looks in turn for hosts that fit until it has a share of
all (``percentageOfNodesToScore``), and takes the one with the most left by cores and memory; it sees neither cards nor
NUMA, and on the host the free cards with the lowest numbers are given. Neither knows shares or MIG: both
get the first card that holds them. Work is placed one by one, as it comes.
"""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from bench.fleets import CARDS, CPUS, KIND, MEMORY
from reconciler.model.resources import GpuShare, MigSlices, Request, WholeGpus
from reconciler.model.snapshot import HostView
from reconciler.planner.mig import profiles

CARD = 1000
NODE = CARDS // 2  # cards of one NUMA node
REMEMBERED = 1 << 20  # scores that are kept


class Want(NamedTuple):
    """What is asked: ``pieces`` of ``milli`` thousandths or one of the placements ``masks``; memory in bytes."""

    pieces: int
    milli: int
    masks: tuple[int, ...]
    millicpus: int
    memory: int


class Host(NamedTuple):
    """What is free: millicpus by NUMA node, bytes, and for each card its milli, or -1 - (mask of busy MIG slices)."""

    millicpus: tuple[int, int]
    memory: int
    cards: tuple[int, ...]


class Taken(NamedTuple):
    """What one request took of a host; adding it up gives it back.

    ``local``: its cards are on one node, and its CPUs too where the rule pins them.
    """

    millicpus: tuple[int, int]
    memory: int
    cards: tuple[int, ...]
    local: bool


class Rule(Protocol):
    """Places one request at a time and takes it back."""

    def place(self, want: Want) -> tuple[int, Taken] | None:
        """The host and what it gave; None where no host fits."""

    def release(self, host: int, taken: Taken) -> None:
        """Give it back."""

    def hosts(self) -> list[Host]:
        """What is free."""


def want_of(request: Request) -> Want:
    """The same in these terms."""
    gpus = request.gpus
    pieces, milli, masks = 0, 0, tuple[int, ...]()
    if isinstance(gpus, WholeGpus):
        pieces, milli = gpus.count, CARD
    elif isinstance(gpus, GpuShare):
        pieces, milli = 1, gpus.milli
    elif isinstance(gpus, MigSlices):
        pieces, masks = gpus.count, tuple(mask for _, mask in profiles(KIND)[gpus.profile])
    return Want(pieces, milli, masks, request.millicpus, request.memory)


def empty(views: Sequence[HostView]) -> list[Host]:
    """Hosts of ``bench.fleets`` with nothing on them."""
    half = CPUS // 2 * 1000
    return [
        Host((half, half), MEMORY, tuple(-1 if card.mig_enabled else CARD for card in view.facts.gpus))
        for view in views
        if view.facts
    ]


class _Known:
    """Free states as numbers, and what each gives to each want."""

    def __init__(self, take: Callable[[Host, Want], Taken | None]) -> None:
        self._take = take
        self._numbers: dict[Host, int] = {}
        self.states: list[Host] = []
        self._wants: dict[Want, int] = {}
        self.wants: list[Want] = []
        self._given: dict[tuple[int, int], tuple[Taken, int] | None] = {}

    def number(self, host: Host) -> int:
        """The number of a free state."""
        if self._numbers.setdefault(host, len(self.states)) == len(self.states):
            self.states.append(host)
        return self._numbers[host]

    def want(self, want: Want) -> int:
        """The number of a want."""
        if self._wants.setdefault(want, len(self.wants)) == len(self.wants):
            self.wants.append(want)
        return self._wants[want]

    def given(self, state: int, want: int) -> tuple[Taken, int] | None:
        """What a host in that state would give, and its state after."""
        key = (state, want)
        if key not in self._given:
            host = self.states[state]
            taken = self._take(host, self.wants[want])
            self._given[key] = (taken, self.number(_moved(host, taken, -1))) if taken else None
        return self._given[key]


class Drove:
    """First fit in an order that is drawn for each request."""

    def __init__(self, hosts: Sequence[Host], seed: int = 42) -> None:
        self._known = _Known(_local)
        self._states = [self._known.number(host) for host in hosts]
        self._order = list(range(len(hosts)))
        self._draw = random.Random(seed)  # noqa: S311 -- repeatable, not secret
        self._hopeless: set[int] = set()  # wants that nothing fits until something is given back

    def place(self, want: Want) -> tuple[int, Taken] | None:
        """The first host that fits."""
        number, order, size = self._known.want(want), self._order, len(self._order)
        if number in self._hopeless:
            return None
        for at in range(size):
            other = at + int(self._draw.random() * (size - at))
            order[at], order[other] = order[other], order[at]
            host = order[at]
            given = self._known.given(self._states[host], number)
            if given:
                self._states[host] = given[1]
                return host, given[0]
        self._hopeless.add(number)
        return None

    def release(self, host: int, taken: Taken) -> None:
        """Give it back."""
        self._hopeless.clear()
        self._states[host] = self._known.number(_moved(self._known.states[self._states[host]], taken, 1))

    def hosts(self) -> list[Host]:
        """What is free."""
        return [self._known.states[state] for state in self._states]


class Kubernetes:
    """The host with the most left, by cores and memory, of those that are looked at."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._known = _Known(_blind)
        self._states = [self._known.number(host) for host in hosts]
        size = len(hosts)
        self._enough = max(100, size * max(5, 50 - size // 125) // 100)  # hosts that fit, as kube-scheduler has it
        self._next = 0
        self._scores: dict[tuple[int, int], int] = {}
        self._hopeless: set[int] = set()

    def place(self, want: Want) -> tuple[int, Taken] | None:
        """The best host; of equals the first."""
        number = self._known.want(want)
        best = self._best(number) if number not in self._hopeless else None
        given = self._known.given(self._states[best], number) if best is not None else None
        if best is None or given is None:
            self._hopeless.add(number)
            return None
        self._states[best] = given[1]
        return best, given[0]

    def release(self, host: int, taken: Taken) -> None:
        """Give it back."""
        self._hopeless.clear()
        self._states[host] = self._known.number(_moved(self._known.states[self._states[host]], taken, 1))

    def hosts(self) -> list[Host]:
        """What is free."""
        return [self._known.states[state] for state in self._states]

    def _best(self, want: int) -> int | None:
        best, top = None, -1
        found, size = 0, len(self._states)
        for host in (*range(self._next, size), *range(self._next)):
            self._next = host
            score = self._score(self._states[host], want)
            if score > top:
                best, top = host, score
            found += score >= 0
            if found == self._enough:
                break
        return best

    def _score(self, state: int, want: int) -> int:
        """LeastAllocated plus BalancedAllocation, weight 1 each; -1 where it does not fit."""
        key = (state, want)
        if key not in self._scores:
            if len(self._scores) > REMEMBERED:
                self._scores.clear()
            self._scores[key] = _left(self._known.states[state], self._known.wants[want])
        return self._scores[key]


RULES: dict[str, Callable[[Sequence[Host]], Rule]] = {"Drove": Drove, "Kubernetes": Kubernetes}


def _left(host: Host, want: Want) -> int:
    """How empty a host would be, 0 to 200; -1 where the want does not fit."""
    millicpus, memory = sum(host.millicpus) - want.millicpus, host.memory - want.memory
    if millicpus < 0 or memory < 0 or sum(_amount(card, want) > 0 for card in host.cards) < want.pieces:
        return -1
    cores, bytes_ = millicpus / (CPUS * 1000), memory / MEMORY
    return int((cores + bytes_) * 50) + int((1 - abs(cores - bytes_) / 2) * 100)


def _moved(host: Host, taken: Taken, sign: int) -> Host:
    first, second = (have + sign * part for have, part in zip(host.millicpus, taken.millicpus, strict=True))
    cards = tuple(have + sign * part for have, part in zip(host.cards, taken.cards, strict=True))
    return Host((first, second), host.memory + sign * taken.memory, cards)


def _amount(card: int, want: Want) -> int:
    """What the want takes of a card: its milli, or the mask of its slice; 0 where the card cannot give it."""
    if want.masks:
        return next((mask for mask in want.masks if card < 0 and not mask & (-1 - card)), 0)
    return want.milli if card >= want.milli else 0


def _blind(host: Host, want: Want) -> Taken | None:
    """The first cards that fit; the CPUs are not pinned, so they count where there are some."""
    return _over(host, want, range(CARDS), pinned=False)


def _local(host: Host, want: Want) -> Taken | None:
    """All of one node where that can be, the one with the most free cards first; else of both."""
    fits = [sum(1 for card in host.cards[node * NODE : (node + 1) * NODE] if _amount(card, want)) for node in (0, 1)]
    first = int(fits[1] > fits[0])
    for node in (first, 1 - first):
        if fits[node] >= want.pieces and host.millicpus[node] >= want.millicpus:
            return _over(host, want, range(node * NODE, (node + 1) * NODE), pinned=True)
    return _over(host, want, [*range(first * NODE, (first + 1) * NODE), *range((1 - first) * NODE, (2 - first) * NODE)])


def _over(host: Host, want: Want, cards: Sequence[int], *, pinned: bool = True) -> Taken | None:
    """The first of ``cards`` that fit, and CPUs of the node of the first of them, then of the other."""
    if sum(host.millicpus) < want.millicpus or host.memory < want.memory:
        return None
    given = [0] * CARDS
    left = want.pieces
    for at in cards:
        if left and (amount := _amount(host.cards[at], want)):
            given[at] = amount
            left -= 1
    if left:
        return None
    home = next((at for at, amount in enumerate(given) if amount), cards[0]) // NODE if pinned else 0
    here = min(want.millicpus, host.millicpus[home])
    rest = want.millicpus - here
    apart = (any(given[:NODE]) and any(given[NODE:])) or (pinned and rest > 0)
    return Taken((rest, here) if home else (here, rest), want.memory, tuple(given), not apart)
