"""Which of several equally local cards: the set that leaves the best sets behind, by NVLink and PCIe.

Pair score, as in go-gpuallocator: 100 per NVLink, plus the PCIe level. Sets of cards are bit masks: bit N is the card
at position N of the sequence that was asked about.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import combinations

from reconciler.model.host import Gpu
from reconciler.planner.topology import bits, mask_of

NVLINK_SCORE = 100
PCIE_SCORE = {"board": 60, "switch": 50, "switches": 40, "bridge": 30, "node": 20, "system": 10}
EXACT_UP_TO = 8  # cards; beyond that divisions are grown greedily and bettered by swaps
NOT_JOINED = -(1 << 62)  # worth of a set that links do not join: no sum of others makes up for it

Rows = tuple[tuple[int, ...], ...]
"""Score of each pair of positions, symmetric; 0 on the diagonal."""


def best_set(cards: Sequence[Gpu], size: int) -> tuple[Gpu, ...]:
    """``size`` of ``cards`` (in their fixed order); of sets that are equally good, the first.

    It is the first set of the division of ``cards`` into sets of ``size`` (a rest may stay) with the best total score.
    Exact for up to 8 cards; beyond that, at least as good as the division in order.
    """
    chosen = _choice(_scores(cards), size, linked=False) if 0 < size < len(cards) else None
    return tuple(cards[:size]) if chosen is None else tuple(cards[place] for place in chosen)


def _scores(cards: Sequence[Gpu]) -> Rows:
    """Pairs may be listed by either card, or by both; a card cut by MIG has no use of its NVLinks."""
    places = {card.uuid: place for place, card in enumerate(cards)}
    rows = [[0] * len(cards) for _ in cards]
    whole = [not card.mig_enabled for card in cards]
    for one, card in enumerate(cards):
        for link in card.links:
            other = places.get(link.peer, one)
            if other != one:
                score = PCIE_SCORE.get(link.pcie, 0)
                if link.nvlinks and whole[one] and whole[other]:
                    score += NVLINK_SCORE * link.nvlinks
                if score > rows[one][other]:
                    rows[one][other] = rows[other][one] = score
    return tuple(map(tuple, rows))


def _near(scores: Rows) -> tuple[int, ...]:
    """Masks of the NVLink neighbours of each position."""
    return tuple(mask_of(place for place, score in enumerate(row) if score >= NVLINK_SCORE) for row in scores)


def _spread(near: Sequence[int], free: int, size: int) -> int:
    """Up to ``size`` positions that links join to the lowest of ``free``, the lowest next."""
    found, edge = 0, free & -free
    while edge and found.bit_count() < size:
        low = edge & -edge
        found |= low
        edge = (edge | near[low.bit_length() - 1] & free) & ~found
    return found


def _connected(near: Sequence[int], free: int, size: int) -> int | None:
    """Mask of ``size`` positions of ``free`` that links among themselves join; None when there are none.

    ``near`` holds the mask of neighbours of each position. Of the part with the lowest position that is large enough.
    """
    while free:
        found = _spread(near, free, size)
        if found.bit_count() == size:
            return found
        free &= ~found
    return 0 if size == 0 else None


@lru_cache(maxsize=2048)  # the same few kinds of machine, with the same cards free, come again and again
def _choice(scores: Rows, size: int, *, linked: bool) -> tuple[int, ...] | None:
    """Positions of the best set; None when no set is admitted. ``size`` is 1 to the number of rows."""
    if size == 1:
        # A single card is best taken where it tears the least.
        return (min(range(len(scores)), key=lambda place: (sum(scores[place]), place)),)
    every = (1 << len(scores)) - 1
    near = _near(scores) if linked else tuple(every ^ 1 << place for place in range(len(scores)))
    if len({score for one, row in enumerate(scores) for score in row[:one]}) == 1:
        first = _connected(near, every, size)
    elif len(scores) <= EXACT_UP_TO:
        first = _exact(scores, near, size)
    else:
        first = _near_exact(scores, near, size)
    return None if first is None else bits(first)


def _worth(scores: Rows, chosen: int) -> int:
    return sum(scores[one][other] for one, other in combinations(bits(chosen), 2))


def _exact(scores: Rows, near: Sequence[int], size: int) -> int | None:
    """The first set of the best division, of those the lexicographically first: a search over the cards left."""
    count = len(scores)
    starting: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for places in combinations(range(count), size):
        chosen = mask_of(places)
        if _spread(near, chosen, size) == chosen:
            starting[places[0]].append((chosen, _worth(scores, chosen)))

    @cache
    def most(free: int) -> int:
        """The best total that ``free`` can still give."""
        if free.bit_count() < size:
            return 0
        low = free & -free
        best = most(free ^ low)
        for chosen, worth in starting[low.bit_length() - 1]:
            if chosen & free == chosen:
                best = max(best, worth + most(free ^ chosen))
        return best

    free = (1 << count) - 1
    for place in range(count):
        for chosen, worth in starting[place]:
            if worth + most(free ^ chosen) == most(free):
                return chosen
        free ^= 1 << place
    return None


def _near_exact(scores: Rows, near: Sequence[int], size: int) -> int | None:
    """The first set of a good division: of that in order and a greedy one, both bettered by swaps."""

    @cache
    def worth(chosen: int) -> int:
        return _worth(scores, chosen) if _spread(near, chosen, size) == chosen else NOT_JOINED

    every = range(len(scores))
    chunks = [mask_of(every[at : at + size]) for at in range(0, len(every) - size + 1, size)]
    starts: tuple[list[int], ...] = ([chunk for chunk in chunks if worth(chunk) >= 0], [])
    ends = [_swapped(_filled(start, scores, near, size, worth), (1 << len(scores)) - 1, worth) for start in starts]
    best = min(ends, key=lambda sets: (-sum(map(worth, sets)), [bits(chosen) for chosen in sets]))
    return best[0] if best else None


def _filled(
    sets: Sequence[int], scores: Rows, near: Sequence[int], size: int, worth: Callable[[int], int]
) -> list[int]:
    """``sets`` and, while there are any, the strongest set that grows from a card that is left."""
    out, free = list(sets), (1 << len(scores)) - 1 & ~sum(sets)
    while grown := {chosen for seed in bits(free) if (chosen := _grown(seed, free, scores, near, size))}:
        out.append(min(grown, key=lambda chosen: (-worth(chosen), bits(chosen))))
        free &= ~out[-1]
    return sorted(out, key=_low)


def _grown(seed: int, free: int, scores: Rows, near: Sequence[int], size: int) -> int:
    """A set around ``seed``, each card the one with the best scores to those before; 0 when it stays too small."""
    chosen, edge, pull = 1 << seed, near[seed] & free, scores[seed]
    for _ in range(size - 1):
        if not edge:
            return 0
        place = max(bits(edge), key=pull.__getitem__)
        chosen |= 1 << place
        edge = (edge | near[place] & free) & ~chosen
        pull = tuple(map(int.__add__, pull, scores[place]))
    return chosen


def _low(chosen: int) -> int:
    return chosen & -chosen


def _swapped(sets: list[int], every: int, worth: Callable[[int], int]) -> list[int]:
    """``sets`` after swaps of two cards, one by one, while the total rises or an earlier set gets a lower card."""
    while (better := next(_swaps(sets, every & ~sum(sets), worth), None)) is not None:
        sets = better
    return sets


def _swaps(sets: Sequence[int], rest: int, worth: Callable[[int], int]) -> Iterator[list[int]]:
    """Each swap that betters the division; the rest is worth nothing."""
    for (at, one), (to, other) in combinations(enumerate([*sets, rest]), 2):
        kept = to < len(sets)
        before = worth(one) + (worth(other) if kept else 0)
        for place in bits(one):
            for peer in bits(other):
                both = 1 << place | 1 << peer
                gain = worth(one ^ both) + (worth(other ^ both) if kept else 0) - before
                if gain > 0 or (gain == 0 and peer < place):
                    after = {at: one ^ both, to: other ^ both}
                    yield sorted((after.get(number, chosen) for number, chosen in enumerate(sets)), key=_low)


def uneven(cards: Sequence[Gpu]) -> Rows | None:
    """The pair scores of cards by position, where NVLinks join some and not all alike; None elsewhere."""
    near = _near(_scores(cards))
    every = (1 << len(cards)) - 1
    alike = not any(near) or all(mask | 1 << place == every for place, mask in enumerate(near))
    return None if alike else _scores(cards)


def nvlinked(cards: Sequence[Gpu]) -> bool:
    """Whether any two of them are joined."""
    return any(_near(_scores(cards)))


def best_of(scores: Rows, free: Sequence[int], size: int, *, linked: bool) -> tuple[int, ...] | None:
    """The best ``size`` of the ``free`` positions of a host, joined by NVLinks if ``linked``; None without any."""
    if size > len(free):
        return None
    part = tuple(tuple(scores[one][other] for other in free) for one in free)
    chosen = tuple(range(size)) if size == len(free) and not linked else _choice(part, size, linked=linked)
    return None if chosen is None else tuple(free[place] for place in chosen)
