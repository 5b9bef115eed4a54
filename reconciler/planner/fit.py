"""One host, one request: which domains give the cards, the cores and the memory. Counts only; ``pin`` names them.

Locality rules are Drove's: the node with the most free matching cards wins, cores and memory come from the same node
when possible; what is wider than a node takes the nodes of its socket, then the nearest.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reconciler.model.placement import Numa
from reconciler.model.resources import WholeGpus
from reconciler.planner.free import Free, HostKind, Piece, Want
from reconciler.planner.lacks import Lack, lack_of, numa_lack
from reconciler.planner.score import Score, score


class Offer(NamedTuple):
    """How a host would meet a request. ``cards`` are (domain, piece, count), ``cpus`` (domain, units)."""

    score: Score
    cards: tuple[tuple[int, Piece, int], ...]
    cpus: tuple[tuple[int, int], ...]
    bind: tuple[int, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """Positions of the domains that give cards or cores."""
        return tuple(sorted({place for place, _, _ in self.cards} | {place for place, _ in self.cpus}))


class Split(NamedTuple):
    """A division of one request over domains, before it is scored."""

    cards: tuple[tuple[int, Piece, int], ...]
    cpus: tuple[tuple[int, int], ...]
    places: tuple[int, ...]


def fit(free: Free, kind: HostKind, want: Want) -> Offer | Lack:
    """The best way to meet ``want`` on a host, or what it lacks."""
    lack = lack_of(free, kind, want)
    if lack:
        return lack
    found = [split for kinds in _kind_sets(free, want) if (split := _best_split(free, kind, want, kinds))]
    if not found:
        mixed = _best_split(free, kind, want, None)
        return _offer(free, kind, want, mixed) if mixed else numa_lack(free, want)
    return _offer(free, kind, want, min(found, key=lambda split: _locality(kind, split)))


def refit(free: Free, kind: HostKind, want: Want, keep: Split) -> Offer | None:
    """The offer that keeps given cards (and cores, when their number still holds); None when it breaks a condition.

    ``keep.places`` are the domains it used so far.
    """
    if lack_of(free, kind, want) or sum(count for _, _, count in keep.cards) != want.pieces:
        return None
    if any(want.available(free.nodes[place], frozenset({piece})) < count for place, piece, count in keep.cards):
        return None
    same = sum(units for _, units in keep.cpus) == want.units
    capable = all(want.capacity(free.nodes[place]) >= units for place, units in keep.cpus)
    for places in _sets(kind, want, starts=keep.places[:1]):
        if not set(keep.places) <= set(places):
            continue
        cpus = keep.cpus if same and capable else _split_cpus(free, want, places, keep.cards)
        if cpus is not None and _memory_fits(free, kind, want, places):
            return _offer(free, kind, want, Split(keep.cards, cpus, places))
    return None


def _offer(free: Free, kind: HostKind, want: Want, split: Split) -> Offer:
    bind = tuple(sorted({node for place in split.places for node in kind.domains[place].bind})) if want.bound else ()
    used = {place for place, _, _ in split.cards} | {place for place, _ in split.cpus}
    return Offer(score(free, kind, want, len(used) - 1, split.cards), split.cards, split.cpus, bind)


def _kind_sets(free: Free, want: Want) -> list[frozenset[Piece] | None]:
    """The kinds of card that could meet a request for several alone (None: any kind, where that changes nothing)."""
    if not isinstance(want.gpus, WholeGpus) or want.pieces < 2:
        return [None]
    counts: dict[Piece, int] = {}
    for node in free.nodes:
        for piece, count in want.stock(node):
            counts[piece] = counts.get(piece, 0) + count
    if len(counts) < 2:
        return [None]
    return [frozenset({piece}) for piece, count in counts.items() if count >= want.pieces]


def _best_split(free: Free, kind: HostKind, want: Want, kinds: frozenset[Piece] | None) -> Split | None:
    """The best split over the smallest number of domains that works."""
    best: tuple[tuple[int, ...], Split] | None = None
    size = 0
    for places in _sets(kind, want):
        if best is not None and len(places) > size:
            break
        split = _split(free, kind, want, places, kinds)
        if split is None:
            continue
        key = _preference(free, kind, want, split, kinds)
        if best is None or key < best[0]:
            best, size = (key, split), len(places)
    return best[1] if best else None


def _sets(kind: HostKind, want: Want, starts: Sequence[int] | None = None) -> Iterator[tuple[int, ...]]:
    """Sets of domains to try, smallest first: each domain with its nearest ones, as far as ``numa`` allows."""
    places = range(len(kind.domains))
    if want.numa is Numa.NONE:
        yield tuple(places)
        return
    widest = 1 if want.numa is Numa.REQUIRE else len(kind.domains)
    for size in range(1, widest + 1):
        for start in places if starts is None else starts:
            chosen = (start, *kind.domains[start].near[: size - 1])
            if len(chosen) == size and (want.numa is not Numa.REQUIRE_SOCKET or _one_socket(kind, chosen)):
                yield chosen


def _one_socket(kind: HostKind, places: Sequence[int]) -> bool:
    sockets = {kind.domains[place].socket for place in places}
    return len(places) == 1 or (len(sockets) == 1 and None not in sockets)


def _split(
    free: Free, kind: HostKind, want: Want, places: tuple[int, ...], kinds: frozenset[Piece] | None
) -> Split | None:
    cards = _split_cards(free, want, places, kinds)
    if cards is None:
        return None
    cpus = _split_cpus(free, want, places, cards)
    if cpus is None or not _memory_fits(free, kind, want, places):
        return None
    return Split(cards, cpus, places)


def _split_cards(
    free: Free, want: Want, places: tuple[int, ...], kinds: frozenset[Piece] | None
) -> tuple[tuple[int, Piece, int], ...] | None:
    """Cards from the domain with the most first (the fewest, where locality does not matter)."""
    sign = 1 if want.numa is Numa.NONE else -1
    left = want.pieces
    out: list[tuple[int, Piece, int]] = []
    for place in sorted(places, key=lambda place: sign * want.available(free.nodes[place], kinds)):
        for piece, count in want.stock(free.nodes[place]):
            take = min(count, left) if kinds is None or piece in kinds else 0
            if take:
                out.append((place, piece, take))
                left -= take
    return None if left else tuple(sorted(out))


def _split_cpus(
    free: Free, want: Want, places: tuple[int, ...], cards: tuple[tuple[int, Piece, int], ...]
) -> tuple[tuple[int, int], ...] | None:
    """CPU units in proportion to cards; what a domain lacks comes from those with cards, then from the nearest."""
    room = {place: want.capacity(free.nodes[place]) for place in places}
    give = dict.fromkeys(places, 0)
    held = dict.fromkeys(places, 0)
    for place, _, count in cards:
        held[place] += count
    for place in places:
        share = want.units * held[place] // want.pieces if want.pieces else 0
        give[place] = min(share, room[place])
    order = sorted(places, key=lambda place: (-held[place], *_cpu_order(want, room[place], cards)))
    left = want.units - sum(give.values())
    for place in order:
        more = min(left, room[place] - give[place])
        give[place] += more
        left -= more
    if left or (not want.exclusive and not any(free.nodes[place].idle for place in places)):
        return None
    return tuple(sorted((place, units) for place, units in give.items() if units))


def _cpu_order(want: Want, room: int, cards: tuple[tuple[int, Piece, int], ...]) -> tuple[int, ...]:
    """Without cards to be near to: the widest domain first, so that few are used (the fullest where it is all one)."""
    if cards:
        return ()
    return (room,) if want.numa is Numa.NONE else (-room,)


def _memory_fits(free: Free, kind: HostKind, want: Want, places: tuple[int, ...]) -> bool:
    if not want.bound:
        return True  # the host as a whole has it: see lack_of
    homes = {home for place in places for home in kind.domains[place].homes}
    return sum(free.nodes[home].memory for home in homes) >= want.memory


def _locality(kind: HostKind, split: Split) -> tuple[int, ...]:
    used = sorted({place for place, _, _ in split.cards} | {place for place, _ in split.cpus})
    far = max(kind.domains[one].distances[other] for one in used for other in used)
    ranks = max((piece.rank for _, piece, _ in split.cards if not isinstance(piece, str)), default=0)
    return (len(used), 0 if _one_socket(kind, used) else 1, far, ranks)


def _preference(
    free: Free, kind: HostKind, want: Want, split: Split, kinds: frozenset[Piece] | None
) -> tuple[int, ...]:
    """Lower is better: few near domains, memory at home, most free cards (none asked: fewest), lowest node."""
    homes = {home for place in split.places for home in kind.domains[place].homes}
    misses = int(sum(free.nodes[home].memory for home in homes) < want.memory)
    used = sorted({place for place, _, _ in split.cards} | {place for place, _ in split.cpus})
    if want.pieces:
        room: tuple[int, ...] = (-sum(want.available(free.nodes[place], kinds) for place in used),)
    else:
        room = (
            sum(free.nodes[place].card_count for place in used),
            sum(want.capacity(free.nodes[place]) for place in used),
        )
    return (*_locality(kind, split)[:3], misses, *room, *used)
