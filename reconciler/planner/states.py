"""Free states and wants as small numbers, and the one step between them: how a host meets a want, and what is left.

Equal nodes recur on many hosts, so what one node gives to one want is worked out once for all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model.claims import WHOLE
from reconciler.model.placement import Numa
from reconciler.model.resources import GpuRequest, GpuShare, WholeGpus
from reconciler.planner.cards import Cards, Take, stock, waste_of
from reconciler.planner.fit import (
    Local,
    Picked,
    Split,
    after_split,
    bind_of,
    local,
    memory_fits,
    pick,
    prefer_local,
    rank_of,
    scarcity_of,
    sets_of,
    split,
    split_cpus,
)
from reconciler.planner.free import Free, HostKind, NodeFree, Want, admits, could
from reconciler.planner.lacks import Lack, lack_of, numa_lack
from reconciler.planner.score import Score, Taken, Totals, score, sum_of, totals_of


@dataclass(frozen=True, slots=True)
class Offer:
    """How a host would meet a request. ``cpus`` are (domain, units), ``bind`` the NUMA nodes of its memory."""

    score: Score
    takes: tuple[Take, ...]
    cpus: tuple[tuple[int, int], ...]
    bind: tuple[int, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of the domains that give cards or cores."""
        return tuple(sorted({take.place for take in self.takes} | {place for place, _ in self.cpus}))


class _Host(NamedTuple):
    kind_id: int
    memory: int
    nodes: tuple[int, ...]
    totals: Totals


class _Floor(NamedTuple):
    """What a host must have in all, or the want cannot be met there: a quick no for most."""

    millicpus: int
    memory: int
    cards: int
    milli: int


class _Choice(NamedTuple):
    """One domain (``place``, ``local``) or a split over several."""

    place: int
    local: Local | None
    split: Split | None


class States:
    """Interns free states and wants. ``cap`` is what ``score.cap_of`` says; it is set before the first step."""

    def __init__(self, kinds: Sequence[HostKind]) -> None:
        self.kinds = list(dict.fromkeys(kinds))
        self.kind_ids = {kind: number for number, kind in enumerate(self.kinds)}
        self._nodes: list[NodeFree] = []
        self._totals: list[Totals] = []  # of each node
        self._cards: list[int] = []  # of each node, the number of its set of cards
        self._card_sets: list[Cards] = []
        self._card_ids: dict[Cards, int] = {}
        self._picked: dict[tuple[int, int, int], Picked | None] = {}
        self._node_ids: dict[NodeFree, int] = {}
        self._hosts: list[_Host] = []
        self._host_ids: dict[tuple[int, int, tuple[int, ...]], int] = {}
        self._wants: list[Want] = []
        self._floors: list[_Floor] = []
        self._gpus: list[int] = []  # of each want, the number of its request for cards
        self._gpu_ids: dict[GpuRequest | None, int] = {}
        self._possible: dict[tuple[int, int], bool] = {}
        self._want_ids: dict[Want, int] = {}
        self._sums_of: dict[tuple[int, int], tuple[int, int]] = {}
        self._offers: dict[tuple[int, int], Offer | Lack] = {}
        self.cap = 0
        self._locals: dict[tuple[int, int, int], tuple[Local, int] | None] = {}

    # -- numbers

    def state_of(self, kind: HostKind, memory: int, nodes: Sequence[NodeFree]) -> int:
        """The number of a free state; equal states have one number."""
        return self._intern(self.kind_ids[kind], memory, tuple(self._node(node) for node in nodes))

    def want_of(self, want: Want) -> int:
        """The number of a want."""
        number = self._want_ids.setdefault(want, len(self._wants))
        if number == len(self._wants):
            self._wants.append(want)
            self._floors.append(_floor(want))
            self._gpus.append(self._gpu_ids.setdefault(want.gpus, len(self._gpu_ids)))
        return number

    def kind(self, state: int) -> HostKind:
        """The kind of a host in that state."""
        return self.kinds[self._hosts[state].kind_id]

    def kinds_of(self, states: Iterable[int]) -> tuple[HostKind, ...]:
        """The kinds of hosts in those states, each once."""
        return tuple(self.kinds[number] for number in sorted({self._hosts[state].kind_id for state in states}))

    def free(self, state: int) -> Free:
        """The state as a value."""
        host = self._hosts[state]
        return Free(host.kind_id, host.memory, tuple(self._nodes[node] for node in host.nodes))

    def _node(self, node: NodeFree) -> int:
        number = self._node_ids.setdefault(node, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
            self._totals.append(totals_of(node))
            cards = self._card_ids.setdefault(node.cards, len(self._card_sets))
            if cards == len(self._card_sets):
                self._card_sets.append(node.cards)
            self._cards.append(cards)
        return number

    def _intern(self, kind_id: int, memory: int, nodes: tuple[int, ...]) -> int:
        number = self._host_ids.setdefault((kind_id, memory, nodes), len(self._hosts))
        if number == len(self._hosts):
            totals = self._totals[nodes[0]] if len(nodes) == 1 else sum_of([self._totals[node] for node in nodes])
            self._hosts.append(_Host(kind_id, memory, nodes, totals))
        return number

    # -- steps

    def step(self, state: int, want: int) -> tuple[Score, int] | None:
        """What the best way to meet ``want`` scores, and the state after; None when there is none."""
        host, asked = self._hosts[state], self._wants[want]
        choice = self._choose(host, want)
        if choice is None:
            return None
        after = self._after(host, want, choice)
        return self._score(host, asked, choice, self._hosts[after].totals), after

    def offer(self, state: int, want: int) -> Offer | Lack:
        """The same decision in full: which domains give what, or what is lacking."""
        known = self._offers.get((state, want))
        if known is None:
            known = self._offers[state, want] = self._worked_out(state, want)
        return known

    def _worked_out(self, state: int, want: int) -> Offer | Lack:
        host, asked = self._hosts[state], self._wants[want]
        choice = self._choose(host, want)
        if choice is None:
            free, kind = self.free(state), self.kinds[host.kind_id]
            return lack_of(free, kind, asked) or numa_lack(free, asked)
        after = self._after(host, want, choice)
        return self._offer(host, asked, choice, self._hosts[after].totals)

    def shortage(self, state: int, want: int) -> tuple[str, int] | None:
        """The first filter that a host in that state fails, and how much is missing; None when it fits."""
        host, asked = self._hosts[state], self._wants[want]
        if not admits(self.kinds[host.kind_id], asked):
            lack = lack_of(self.free(state), self.kinds[host.kind_id], asked)
            return (lack.stage, lack.missing) if lack else None
        sums = [self._sums(node, want) for node in host.nodes]
        missing = asked.pieces - sum(pieces for pieces, _ in sums)
        if missing > 0:
            return "gpus", missing
        missing = asked.units - sum(units for _, units in sums)
        if missing > 0:
            return "cpus", missing
        if asked.memory > host.memory:
            return "memory", asked.memory - host.memory
        if self._choose(host, want) is not None:
            return None
        lack = numa_lack(self.free(state), asked)
        return lack.stage, lack.missing

    def _sums(self, node: int, want: int) -> tuple[int, int]:
        """Matching pieces and CPU units that one node has."""
        known = self._sums_of.get((node, want))
        if known is None:
            free, asked = self._nodes[node], self._wants[want]
            known = self._sums_of[node, want] = (stock(free.cards, asked), asked.capacity(free))
        return known

    def keep(self, state: int, want: int, near: Split) -> Offer | None:
        """The offer with given cards (and cores, while their number holds); None when that breaks a condition."""
        host, asked = self._hosts[state], self._wants[want]
        kind, nodes = self.kinds[host.kind_id], [self._nodes[node] for node in host.nodes]
        if asked.memory > host.memory or len(near.takes) != asked.pieces:
            return None
        same = sum(units for _, units in near.cpus) == asked.units
        capable = all(asked.capacity(nodes[place]) >= units for place, units in near.cpus)
        for places in sets_of(kind, asked, starts=near.places):
            if not set(near.places) <= set(places):
                continue
            cpus = near.cpus if same and capable else split_cpus(nodes, asked, near.places, near.takes)
            cpus = cpus or split_cpus(nodes, asked, places, near.takes)
            if cpus is not None and memory_fits(kind, nodes, asked, places):
                choice = _Choice(0, None, Split(near.takes, cpus, places))
                return self._offer(host, asked, choice, self._hosts[self._after(host, want, choice)].totals)
        return None

    # -- inside

    def _choose(self, host: _Host, want_id: int) -> _Choice | None:
        totals, floor = host.totals, self._floors[want_id]
        if (
            totals.millicpus < floor.millicpus
            or host.memory < floor.memory
            or totals.cards < floor.cards
            or totals.milli < floor.milli
            or not self._may(host.kind_id, want_id)
        ):
            return None
        want, kind = self._wants[want_id], self.kinds[host.kind_id]
        if want.numa is not Numa.NONE or len(host.nodes) == 1:
            best = self._best_local(host, want_id)
            if best is not None:
                return best
            if (want.numa is Numa.REQUIRE or len(host.nodes) == 1) and len(kind.kinds) < 2:
                return None
        made = split(kind, [self._nodes[node] for node in host.nodes], want)
        return _Choice(0, None, made) if made else None

    def _may(self, kind_id: int, want_id: int) -> bool:
        """Whether hosts of a kind could ever meet a want."""
        known = self._possible.get((kind_id, want_id))
        if known is None:
            kind, want = self.kinds[kind_id], self._wants[want_id]
            known = self._possible[kind_id, want_id] = admits(kind, want) and could(kind, want)
        return known

    def _best_local(self, host: _Host, want_id: int) -> _Choice | None:
        want, kind = self._wants[want_id], self.kinds[host.kind_id]
        nodes: list[NodeFree] | None = None
        best: tuple[tuple[int, ...], int, Local] | None = None
        for place, node in enumerate(host.nodes):
            found = self._local(node, want_id, host.kind_id if kind.links else -1)
            if found is None:
                continue
            if nodes is None:
                nodes = [self._nodes[one] for one in host.nodes]
            if not memory_fits(kind, nodes, want, (place,)):
                continue
            key = prefer_local(kind, want, nodes, place, found[0])
            if best is None or key < best[0]:
                best = (key, place, found[0])
        return _Choice(best[1], best[2], None) if best else None

    def _local(self, node: int, want: int, kind_id: int) -> tuple[Local, int] | None:
        """What a node gives alone, and its number after; ``kind_id`` counts where links differ (else -1)."""
        key = (node, want, kind_id)
        if key in self._locals:
            return self._locals[key]
        picked = self._pick(self._cards[node], want, kind_id)
        found = local(self._nodes[node], self._wants[want], picked) if picked else None
        answer = (found, self._node(found.after)) if found else None
        self._locals[key] = answer
        return answer

    def _pick(self, cards: int, want: int, kind_id: int) -> Picked | None:
        key = (cards, self._gpus[want], kind_id)
        if key not in self._picked:
            links = self.kinds[kind_id].links if kind_id >= 0 else None
            self._picked[key] = pick(self._card_sets[cards], self._wants[want], links)
        return self._picked[key]

    def _after(self, host: _Host, want_id: int, choice: _Choice) -> int:
        want, kind = self._wants[want_id], self.kinds[host.kind_id]
        memory = host.memory - want.memory
        if choice.local is not None:
            place = choice.place
            homes = kind.domains[place].homes
            if homes == (place,):
                found = self._local(host.nodes[place], want_id, host.kind_id if kind.links else -1)
                assert found is not None  # noqa: S101 -- it was chosen from these
                nodes = (*host.nodes[:place], found[1], *host.nodes[place + 1 :])
                return self._intern(host.kind_id, memory, nodes)
            after = [self._nodes[node] for node in host.nodes]
            after[place] = choice.local.after._replace(memory=after[place].memory)
            for home in homes:
                after[home] = _own_memory(after[home], want)
            return self._intern(host.kind_id, memory, tuple(map(self._node, after)))
        assert choice.split is not None  # noqa: S101 -- one of the two is set
        left = after_split(kind, [self._nodes[node] for node in host.nodes], want, choice.split)
        return self._intern(host.kind_id, memory, tuple(map(self._node, left)))

    def _score(self, host: _Host, want: Want, choice: _Choice, after: Totals) -> Score:
        if choice.local is not None:
            picked = choice.local.picked
            taken = Taken(0, picked.scarce, picked.rank, picked.waste)
        else:
            assert choice.split is not None  # noqa: S101 -- one of the two is set
            takes, spread = choice.split.takes, len(choice.split.used) - 1
            taken = Taken(spread, scarcity_of(takes), rank_of(takes), waste_of(takes))
        return score(self.kinds[host.kind_id], want, host.totals, after, host.memory, taken, self.cap)

    def _offer(self, host: _Host, want: Want, choice: _Choice, after: Totals) -> Offer:
        kind, value = self.kinds[host.kind_id], self._score(host, want, choice, after)
        if choice.local is not None:
            place = choice.place
            takes = tuple(take._replace(place=place) for take in choice.local.picked.takes)
            return Offer(value, takes, ((place, want.units),), bind_of(kind, want, (place,)))
        assert choice.split is not None  # noqa: S101 -- one of the two is set
        return Offer(value, choice.split.takes, choice.split.cpus, bind_of(kind, want, choice.split.places))


def _floor(want: Want) -> _Floor:
    gpus = want.gpus
    whole = gpus.count if isinstance(gpus, WholeGpus) else 0
    part = max(1, gpus.milli) if isinstance(gpus, GpuShare) else whole * WHOLE
    return _Floor(want.millicpus, want.memory, whole, part)


def _own_memory(node: NodeFree, want: Want) -> NodeFree:
    return node._replace(memory=max(0, node.memory - want.memory))
