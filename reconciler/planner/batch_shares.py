"""Shares of cards in bundles that fill a card: cutting stock by subset sums, largest share first."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.model.claims import WHOLE


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


class Shares:
    """The shares of a batch that are in no bundle yet.

    A bundle goes where its first item may go, so it takes the others from those that may go there too: those whose
    hosts are the fewest first, then the most modest ones, since the first item is the hungriest of its size.
    """

    def __init__(
        self, ranked: Iterable[int], sizes: Mapping[int, int], places: Sequence[int], partners: Sequence[Sequence[int]]
    ) -> None:
        """``sizes`` gives the milli of each item; ``partners[place]`` the places that include a place, narrow first."""
        self._sizes, self._places, self._partners = sizes, places, partners
        self._queues: dict[int, dict[int, deque[int]]] = {}
        self._left: set[int] = set()
        for item in ranked:
            self._queues.setdefault(places[item], {}).setdefault(sizes[item], deque()).append(item)
            self._left.add(item)

    def __contains__(self, item: int) -> bool:
        """Whether the item is in no bundle yet."""
        return item in self._left

    def bundles(self, lead: int, waste: int = WHOLE) -> Iterator[tuple[int, ...]]:
        """Bundles like the best one that ``lead`` can head, which heads the first; none that leaves more ``waste``."""
        size, place = self._sizes[lead], self._places[lead]
        counts = self._counts(place)
        counts[size] -= 1
        others = subset(sorted((size for size in counts if counts[size]), reverse=True), counts, WHOLE - size)
        counts[size] += 1
        if WHOLE - size - sum(others) > waste:
            return
        times = min(counts[other] // (others.count(other) + (other == size)) for other in (size, *others))
        heads = self._queues[place][size]
        while times and heads:  # partners may come out of the same queue
            yield self._take(place, size, others)
            times -= 1

    def _counts(self, place: int) -> dict[int, int]:
        counts: dict[int, int] = {}
        for other in self._partners[place]:
            for size, queue in self._queues.get(other, {}).items():
                counts[size] = counts.get(size, 0) + len(queue)
        return counts

    def _take(self, place: int, size: int, others: Iterable[int]) -> tuple[int, ...]:
        items = [self._queues[place][size].popleft()]
        for other in others:
            queues = (self._queues.get(partner, {}).get(other) for partner in self._partners[place])
            items.append(next(queue for queue in queues if queue).pop())
        self._left.difference_update(items)
        return tuple(items)
