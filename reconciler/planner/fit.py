"""One host, one request: which domains give the cards, the cores and the memory. Counts only; ``pin`` names them.

Locality rules are Drove's: the node with the most free matching cards wins, cores and memory come from the same node
when possible; what is wider than a node takes the nodes of its socket, then the nearest.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reconciler.model.placement import Numa
from reconciler.model.resources import GpuShare, MigSlices, WholeGpus
from reconciler.planner.cards import (
    Cards,
    Take,
    after_takes,
    stock,
    take_share,
    take_slices,
    take_whole,
    waste_of,
    whole_kinds,
)
from reconciler.planner.falls import memory_falls, quota_falls
from reconciler.planner.free import CardFree, CardKind, HostKind, NodeFree, Want
from reconciler.planner.links import Rows


class Picked(NamedTuple):
    """Cards that one domain gives to one want, wherever on a host it stands.

    ``after`` are the cards that are left, ``stock`` counts the matching pieces there were; the rest is as in ``Taken``.
    """

    takes: tuple[Take, ...]
    after: Cards
    stock: int
    rank: int
    scarce: int
    waste: int


class Local(NamedTuple):
    """How one domain alone would meet a request; ``after`` is what it has left, its own memory taken off too."""

    picked: Picked
    after: NodeFree


class Split(NamedTuple):
    """A division of one request over domains. ``cpus`` are (domain, units); ``places`` are the domains allowed."""

    takes: tuple[Take, ...]
    cpus: tuple[tuple[int, int], ...]
    places: tuple[int, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of the domains that give cards or cores."""
        return tuple(sorted({take.place for take in self.takes} | {place for place, _ in self.cpus}))


def pick(cards: Cards, want: Want, links: Rows | None) -> Picked | None:
    """The cards of one domain that a want would get there, one model only; None where there are too few."""
    takes = _local_takes(cards, want, links)
    if takes is None:
        return None
    after = after_takes(cards, takes) if takes else cards
    count = stock(cards, want) if takes else 0
    return Picked(takes, after, count, rank_of(takes), scarcity_of(takes), waste_of(takes))


def local(node: NodeFree, want: Want, picked: Picked) -> Local | None:
    """What a domain gives alone; its memory is looked at by the caller, who knows where it comes from."""
    if want.capacity(node) < want.units or not node.idle:
        return None
    memory = max(0, node.memory - want.memory)
    if want.exclusive:
        return Local(picked, NodeFree(node.idle - want.units, node.quota, node.sharers, memory, picked.after))
    return Local(picked, NodeFree(node.idle, node.quota + want.units, sharers=True, memory=memory, cards=picked.after))


def spend(node: NodeFree, want: Want, units: int) -> NodeFree:
    """A domain that has given ``units`` of CPU; its memory as it was."""
    if want.exclusive:
        return node._replace(idle=node.idle - units)
    return node._replace(quota=node.quota + units, sharers=True)


def rank_of(takes: Sequence[Take]) -> int:
    """The scarcest model among some cards."""
    return max((take.before.kind.rank for take in takes), default=0)


def scarcity_of(takes: Sequence[Take]) -> int:
    """The scarcest model among some cards that other work asks for by name; 0 is none."""
    return max((take.before.kind.rank + 1 for take in takes if take.before.kind.named), default=0)


def _local_takes(cards: Cards, want: Want, links: Rows | None) -> tuple[Take, ...] | None:
    gpus = want.gpus
    if isinstance(gpus, WholeGpus):
        for kind, count in whole_kinds((cards,), want).items():
            if count >= gpus.count and (takes := take_whole(0, cards, want, gpus.count, kind, links)):
                return takes
        return None
    if isinstance(gpus, GpuShare):
        share = take_share(0, cards, gpus)
        return (share,) if share else None
    if isinstance(gpus, MigSlices):
        return take_slices(0, cards, gpus, gpus.count)
    return ()


def prefer_local(kind: HostKind, want: Want, nodes: Sequence[NodeFree], place: int, found: Local) -> tuple[int, ...]:
    """Lower is better: near a network card, memory at home, most free cards (none asked: fewest), lowest node.

    Linked cards are taken where the fewest are left, so that whole islands stay for others.
    """
    home = sum(nodes[one].memory for one in kind.domains[place].homes)
    far = int(want.rdma and bool(kind.nics) and not kind.nics[place])
    if not want.pieces:
        return (far, int(home < want.memory), nodes[place].milli, want.capacity(nodes[place]), place)
    linked = isinstance(want.gpus, WholeGpus) and bool(want.gpus.link)
    left = found.picked.stock if linked else -found.picked.stock
    return (far, int(home < want.memory), found.picked.rank, left, place)


def split(kind: HostKind, nodes: Sequence[NodeFree], want: Want) -> Split | None:
    """The best division over several domains (or whatever there is, with ``numa: none``): one model if that can be."""
    kinds: list[CardKind | None] = [None]
    if isinstance(want.gpus, WholeGpus) and want.pieces > 1:
        counts = whole_kinds([node.cards for node in nodes], want)
        if len(counts) > 1:
            kinds = [one for one, count in counts.items() if count >= want.pieces]
    found = [best for one in kinds if (best := _best(kind, nodes, want, one))]
    if found:
        return min(found, key=lambda one: _locality(kind, one))
    return _best(kind, nodes, want, None) if kinds != [None] else None


def _best(kind: HostKind, nodes: Sequence[NodeFree], want: Want, only: CardKind | None) -> Split | None:
    """The best split over the smallest number of domains that works."""
    best: tuple[tuple[int, ...], Split] | None = None
    size = 0
    for places in sets_of(kind, want):
        if best is not None and len(places) > size:
            break
        made = _over(kind, nodes, want, places, only)
        if made is not None:
            key = _preference(kind, nodes, want, made)
            if best is None or key < best[0]:
                best, size = (key, made), len(places)
    return best[1] if best else None


def sets_of(kind: HostKind, want: Want, starts: Sequence[int] | None = None) -> Iterator[tuple[int, ...]]:
    """Sets of domains to try, smallest first: each domain with its nearest ones, as far as ``numa`` allows."""
    places = range(len(kind.domains))
    if want.numa is Numa.NONE:
        yield tuple(places)
        return
    widest = 1 if want.numa is Numa.REQUIRE else len(kind.domains)
    for size in range(1, widest + 1):
        for start in places if starts is None else starts:
            chosen = (start, *kind.domains[start].near[: size - 1])
            if len(chosen) == size and (want.numa is not Numa.REQUIRE_SOCKET or one_socket(kind, chosen)):
                yield chosen


def one_socket(kind: HostKind, places: Sequence[int]) -> bool:
    """Whether some domains are of one socket, as far as that is known."""
    sockets = {kind.domains[place].socket for place in places}
    return len(places) == 1 or (len(sockets) == 1 and None not in sockets)


def _over(
    kind: HostKind, nodes: Sequence[NodeFree], want: Want, places: tuple[int, ...], only: CardKind | None
) -> Split | None:
    takes = _takes_over(kind, nodes, want, places, only)
    if takes is None:
        return None
    cpus = split_cpus(nodes, want, places, takes)
    if cpus is None or not memory_fits(kind, nodes, want, places):
        return None
    return Split(takes, cpus, places)


def _takes_over(
    kind: HostKind, nodes: Sequence[NodeFree], want: Want, places: tuple[int, ...], only: CardKind | None
) -> tuple[Take, ...] | None:
    """Cards from the domain with the most first (the fewest, where locality does not matter)."""
    if not want.pieces:
        return ()
    if isinstance(want.gpus, WholeGpus) and want.gpus.link and want.pieces > 1:
        return _linked_over(kind, nodes, want, places, only)
    sign = 1 if want.numa is Numa.NONE else -1
    counts = {place: _count(nodes[place], want, only) for place in places}
    left = want.pieces
    out: list[Take] = []
    for place in sorted(places, key=lambda place: sign * counts[place]):
        here = min(counts[place], left)
        takes = _some(kind, place, nodes[place], want, here, only) if here else ()
        if takes is None:
            return None
        out += takes
        left -= here
    return None if left else tuple(out)


def _count(node: NodeFree, want: Want, only: CardKind | None) -> int:
    return whole_kinds((node.cards,), want).get(only, 0) if only else stock(node.cards, want)


def _some(
    kind: HostKind, place: int, node: NodeFree, want: Want, count: int, only: CardKind | None
) -> tuple[Take, ...] | None:
    match want.gpus:
        case GpuShare():
            share = take_share(place, node.cards, want.gpus)
            return (share,) if share else None
        case MigSlices():
            return take_slices(place, node.cards, want.gpus, count)
    return take_whole(place, node.cards, want, count, only, kind.links)


def _linked_over(
    kind: HostKind, nodes: Sequence[NodeFree], want: Want, places: tuple[int, ...], only: CardKind | None
) -> tuple[Take, ...] | None:
    """Linked cards of several domains: islands do not end where a NUMA node does."""
    left = {(place, card): number for place in places for card, number in nodes[place].cards}
    merged: dict[CardFree, int] = {}
    for (_, card), number in left.items():
        merged[card] = merged.get(card, 0) + number
    takes = take_whole(0, tuple(sorted(merged.items())), want, want.pieces, only, kind.links)
    if takes is None:
        return None
    out = []
    for take in takes:
        place = next(place for place in places if left.get((place, take.before)))
        left[place, take.before] -= 1
        out.append(take._replace(place=place))
    return tuple(sorted(out, key=lambda take: (take.place, take.before)))


def split_cpus(
    nodes: Sequence[NodeFree], want: Want, places: tuple[int, ...], takes: Sequence[Take]
) -> tuple[tuple[int, int], ...] | None:
    """CPU units in proportion to cards; what a domain lacks comes from those with cards, then from the nearest."""
    room = {place: want.capacity(nodes[place]) for place in places}
    give = dict.fromkeys(places, 0)
    held = dict.fromkeys(places, 0)
    for take in takes:
        held[take.place] += 1
    for place in places:
        part = want.units * held[place] // want.pieces if want.pieces else 0
        give[place] = min(part, room[place])
    order = sorted(places, key=lambda place: (-held[place], *_cpu_order(want, room[place], takes)))
    left = want.units - sum(give.values())
    for place in order:
        more = min(left, room[place] - give[place])
        give[place] += more
        left -= more
    if left or (not want.exclusive and not any(nodes[place].idle for place in places)):
        return None
    return tuple(sorted((place, units) for place, units in give.items() if units))


def _cpu_order(want: Want, room: int, takes: Sequence[Take]) -> tuple[int, ...]:
    """Without cards to be near to: the widest domain first, so that few are used (the fullest where it is all one)."""
    if takes:
        return ()
    return (room,) if want.numa is Numa.NONE else (-room,)


def memory_fits(kind: HostKind, nodes: Sequence[NodeFree], want: Want, places: Sequence[int]) -> bool:
    """Whether memory that is to be bound is there; unbound, the host as a whole has it."""
    if not want.bound:
        return True
    return sum(nodes[home].memory for home in _homes(kind, places)) >= want.memory


def _homes(kind: HostKind, places: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(home for place in places for home in kind.domains[place].homes))


def _locality(kind: HostKind, made: Split) -> tuple[int, ...]:
    used = made.used
    far = max(kind.domains[one].distances[other] for one in used for other in used)
    return (len(used), 0 if one_socket(kind, used) else 1, far, rank_of(made.takes))


def _preference(kind: HostKind, nodes: Sequence[NodeFree], want: Want, made: Split) -> tuple[int, ...]:
    """Lower is better: few near domains, memory at home, most free cards (none asked: fewest), lowest node."""
    misses = int(sum(nodes[home].memory for home in _homes(kind, made.places)) < want.memory)
    used = made.used
    if want.pieces:
        room: tuple[int, ...] = (-sum(stock(nodes[place].cards, want) for place in used),)
    else:
        room = (sum(nodes[place].milli for place in used), sum(want.capacity(nodes[place]) for place in used))
    return (*_locality(kind, made)[:3], misses, *room, *used)


def bind_of(kind: HostKind, want: Want, places: Sequence[int]) -> tuple[int, ...]:
    """NUMA node ids that memory is bound to; empty when it is not."""
    return tuple(sorted({node for place in places for node in kind.domains[place].bind})) if want.bound else ()


def after_split(kind: HostKind, nodes: Sequence[NodeFree], want: Want, made: Split) -> tuple[NodeFree, ...]:
    """What every domain has left, memory included."""
    out = list(nodes)
    for place in {take.place for take in made.takes}:
        mine = [take for take in made.takes if take.place == place]
        out[place] = out[place]._replace(cards=after_takes(out[place].cards, mine))
    places = tuple(place for place, _ in made.cpus)
    given = made.cpus
    if not want.exclusive:
        given = quota_falls([node.idle for node in nodes], [node.quota for node in nodes], places, want.units)
    for place, units in given:
        out[place] = spend(out[place], want, units)
    homes = made.places if want.bound else places
    for home, part in memory_falls(kind.domains, [node.memory for node in nodes], homes, want.memory):
        out[home] = out[home]._replace(memory=max(0, out[home].memory - part))
    return tuple(out)
