"""The order in which a batch is packed: what is hardest to place first, shares in bundles that fill a card."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

CARD = 1000  # thousandths of a whole card
SLIVER = 200  # smaller shares than this fill what the others leave of their cards
SHARE = 1  # the class of shares that are bundled
RHO = 10  # cores per card at which cores and cards weigh the same


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of one want: cards or slices, thousandths of cards in all, millicpus, bytes of memory."""

    pieces: int
    milli: int
    millicpus: int
    memory: int
    slices: bool = False  # parts with places of their own on the card (MIG), which no sums can bundle

    @property
    def share(self) -> bool:
        """Whether it takes a part of one card, of any size."""
        return self.pieces == 1 and 0 < self.milli < CARD and not self.slices


def angle(millicpus: int, milli: int) -> int:
    """How much of a vector is cores, against cards: 0 is cards only, 1000 cores only."""
    return CARD * millicpus // (millicpus + RHO * milli) if millicpus else 0


def scarcity(fitting: int, hosts: int) -> int:
    """Steps of √2 by which the hosts that can take a want are fewer than all; 0 down to half of them."""
    if 2 * fitting >= hosts:
        return 0
    return (hosts * hosts // max(1, fitting * fitting)).bit_length() - 1


Rank = tuple[int, int, int, int, int, int]


def rank(shape: Shape, scarce: int) -> Rank:
    """Constrained first, then several cards, shares from large to small, one card, slivers, no card; hungriest first.

    The second number is the class that is packed together: shares of class 1 are bundled.
    """
    milli = -shape.milli
    hungry = (-angle(shape.millicpus, shape.milli), -shape.millicpus, -shape.memory)
    if shape.pieces == 0:
        return (0, 4, 0, *hungry)
    if shape.pieces > 1 or shape.slices:
        return (-scarce, 0, milli, *hungry)
    if shape.milli >= CARD:
        return (-scarce, 2, 0, *hungry)
    return (-scarce, SHARE if shape.milli >= SLIVER else 3, milli, *hungry)


def subset(sizes: Sequence[int], counts: Mapping[int, int], room: int) -> tuple[int, ...]:
    """The multiset of sizes with the largest sum within ``room``; among equals the earliest sizes as often as can be.

    Subset sums as bit masks: bit S of ``sums[i]`` says that the sizes from i on can make S.
    """
    limit = (2 << room) - 1
    sums = [1]
    for size in reversed(sizes):
        reach = sums[-1]
        for _ in range(min(counts[size], room // size)):
            reach |= reach << size & limit
        sums.append(reach)
    sums.reverse()
    left = sums[0].bit_length() - 1
    chosen: list[int] = []
    for size, rest in zip(sizes, sums[1:], strict=True):
        most = min(counts[size], left // size)
        times = next(times for times in range(most, -1, -1) if rest >> left - times * size & 1)
        chosen += [size] * times
        left -= times * size
    return tuple(chosen)


def units(
    ranked: Sequence[int], ranks: Sequence[Rank], places: Sequence[int], masks: Sequence[int]
) -> list[tuple[int, ...]]:
    """Ranked items as units to place together: shares in bundles that fill a card, all else one by one.

    ``masks[places[item]]`` are the hosts where an item may go. A bundle goes where its first item may go, so it takes
    the others from those that may go there too; they come at the first one's turn.
    """
    shares = _Shares(ranked, ranks, places, masks)
    out: list[tuple[int, ...]] = []
    for item in ranked:
        if ranks[item][1] != SHARE:
            out.append((item,))
        elif item in shares.left:
            out.extend(shares.bundles(item))
    return out


class _Shares:
    """The shares of a batch that are in no bundle yet."""

    def __init__(
        self, ranked: Iterable[int], ranks: Sequence[Rank], places: Sequence[int], masks: Sequence[int]
    ) -> None:
        self.ranks, self.places = ranks, places
        self.queues: dict[int, dict[int, deque[int]]] = {}  # by place and size, hungry ones first
        for item in ranked:
            if ranks[item][1] == SHARE:
                self.queues.setdefault(places[item], {}).setdefault(-ranks[item][2], deque()).append(item)
        self.left = {item for sizes in self.queues.values() for queue in sizes.values() for item in queue}
        narrow = sorted(self.queues, key=lambda place: (masks[place].bit_count(), masks[place], place))
        self.partners = {
            place: [other for other in narrow if masks[other] & masks[place] == masks[place]] for place in narrow
        }

    def bundles(self, lead: int) -> list[tuple[int, ...]]:
        """As many bundles as can be like the best one that ``lead`` can head; it heads the first."""
        size, place = -self.ranks[lead][2], self.places[lead]
        counts = self._counts(place)
        counts[size] -= 1
        others = subset(sorted((size for size in counts if counts[size]), reverse=True), counts, CARD - size)
        counts[size] += 1
        times = min(counts[other] // (others.count(other) + (other == size)) for other in (*others, size))
        out = [self._take(place, size, others)]
        heads = self.queues[place][size]  # partners come out of it too
        while len(out) < times and heads and self.ranks[heads[0]][0] == self.ranks[lead][0]:
            out.append(self._take(place, size, others))
        return out

    def _counts(self, place: int) -> dict[int, int]:
        counts: dict[int, int] = {}
        for other in self.partners[place]:
            for size, queue in self.queues[other].items():
                counts[size] = counts.get(size, 0) + len(queue)
        return counts

    def _take(self, place: int, size: int, others: Iterable[int]) -> tuple[int, ...]:
        items = [self.queues[place][size].popleft()]
        for other in others:
            queue = next(queues[other] for at in self.partners[place] if (queues := self.queues[at]).get(other))
            items.append(queue.pop())
        self.left.difference_update(items)
        return tuple(items)
