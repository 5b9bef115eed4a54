"""Which items of a batch are placed, and where, when perhaps not everything fits.

Nothing of a batch has started, so what was admitted may still sit anywhere: whole prefixes of the priority order are
packed again and again, each time in the order that packs best, and the longest one that fits is kept. A lower
priority never keeps a higher one out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from reconciler.planner.batch_order import Order, Rank, Shape, rank, scarcity
from reconciler.planner.pack import Pack

SMALL = 400  # items, up to which several orders of admission are tried
GROUPS = 64  # closed groups of hosts that are looked at on their own
LOOK = 32  # classes of hosts that are asked whether they take a whole bundle
WORK = 400_000  # placements after which no further prefix is tried


class Item(NamedTuple):
    """One thing to place: ``levels`` are masks of hosts, tried in turn; a higher ``priority`` goes first.

    ``key`` is its position in the caller's total order of identities: items differ in it, and it decides last.
    """

    key: int
    want: int
    levels: tuple[int, ...]
    priority: int = 0
    room: "Room | None" = None


class Room(Protocol):
    """A condition that depends on where other items went, such as at most N on a host; shared by those it concerns."""

    def levels(self, levels: Sequence[int], item: Item, /) -> Sequence[int]:
        """The levels, narrowed to the hosts that the item may go to now."""

    def take(self, host: int, item: Item, /) -> None:
        """Note that the item went to the host."""

    def give(self, host: int, item: Item, /) -> None:
        """Undo ``take``."""


def admit(pack: Pack, items: Sequence[Item], shapes: Mapping[int, Shape]) -> list[tuple[int, int]]:
    """The (item index, host) pairs to commit, in that order; ``pack`` is left with them placed.

    Items that are not named stay pending. If everything fits, priorities play no part. Otherwise an item is left out
    only if no place was found for it beside all admitted ones of higher priority; among items of equal priority those
    are chosen that allocate the most. ``shapes`` says the size of each want; the order of ``items`` never matters.
    """
    return list(_Batch(pack, items, shapes).admit().items())


class _Batch:
    """The state of one admission. A queue is a list of items (positions in ``items``) in order of admission."""

    def __init__(self, pack: Pack, items: Sequence[Item], shapes: Mapping[int, Shape]) -> None:
        self.pack = pack
        self.items = items
        self.shapes = shapes
        self.start = pack.mark()
        self.homes: dict[int, int] = {}  # host of each placed item, in the order of placing
        self.work = 0  # items handed to complete packs
        self.hopeless: set[tuple[int, int]] = set()  # (want, place) that fit no more
        levels = sorted({item.levels for item in items})
        self.masks = [_union(masks) for masks in levels]
        place = {masks: at for at, masks in enumerate(levels)}
        self.places = [place[item.levels] for item in items]
        ranks = self._ranks(shapes)
        self.order = Order([shapes[item.want] for item in items], ranks, self.places, self.masks)
        self.ranked = sorted(range(len(items)), key=lambda at: (ranks[at], items[at].key))
        self.turn = {at: turn for turn, at in enumerate(self.ranked)}

    def _ranks(self, shapes: Mapping[int, Shape]) -> list[Rank]:
        known: dict[tuple[int, int], Rank] = {}
        kinds = [(item.want, place) for item, place in zip(self.items, self.places, strict=True)]
        for want, place in dict.fromkeys(kinds):
            mask = self.masks[place]
            scarce = scarcity(self.pack.fitting(want, mask).bit_count(), self.pack.hosts)
            known[want, place] = rank(shapes[want], max(scarce, int(mask != self.pack.every)))
        return [known[kind] for kind in kinds]

    def admit(self) -> dict[int, int]:
        """All items, or the longest prefix of the queue that fits together and then what still fits, one by one."""
        if self._pack(self.ranked):
            return self.homes
        queues = self._queues()
        worths = [self._worth(self._admit(queue)) for queue in queues]
        best = worths.index(max(worths))
        return self.homes if best == len(queues) - 1 else self._admit(queues[best])

    def _worth(self, homes: Iterable[int]) -> list[tuple[int, int]]:
        """What is allocated of each priority, highest first: thousandths of cards, and millicpus."""
        sums = {item.priority: (0, 0) for item in sorted(self.items, key=lambda item: -item.priority)}
        for at in homes:
            shape, (milli, millicpus) = self.shapes[self.items[at].want], sums[self.items[at].priority]
            sums[self.items[at].priority] = milli + shape.milli, millicpus + shape.millicpus
        return list(sums.values())

    def _admit(self, queue: list[int]) -> dict[int, int]:
        """As many of a queue as fit, in its order."""
        self.work = 0
        queue = self._reject_in_groups(queue)
        fit = self._longest(queue, 0)
        while fit < len(queue) and self.work < WORK:
            mask = self.masks[self.places[queue[fit]]]
            if mask == self.pack.every:
                break
            shorter = self._reject(queue, fit, mask)
            if len(shorter) == len(queue):  # one by one all of them fit, though not in the order that packs best
                break
            queue = shorter
            fit = self._longest(queue, fit)
        self._pack(queue[:fit])
        self._add(queue[fit:])
        return self.homes

    def _queues(self) -> list[list[int]]:
        """All items by priority; those of equal priority by what allocates the most.

        On a small batch no one order is the best of all: others are tried too, in packing order and the largest first.
        """
        by_priority = sorted(self.ranked, key=lambda at: -self.items[at].priority)
        levels = [list(level) for _, level in groupby(by_priority, key=lambda at: self.items[at].priority)]
        queue = [at for level in levels for at in (self.order.wishes(level) if len(level) > 1 else level)]
        if len(levels) == len(queue) or len(queue) > SMALL:
            return [queue]
        largest = [sorted(level, key=lambda at: -self.shapes[self.items[at].want].milli) for level in levels]
        return [queue, by_priority, [at for level in largest for at in level]]

    def _reject_in_groups(self, queue: list[int]) -> list[int]:
        """Leave out what does not fit even when hosts that only some items may use are kept for them alone."""
        masks = sorted(set(self.masks) - {self.pack.every}, key=lambda mask: (mask.bit_count(), mask))
        for mask in masks[:GROUPS]:
            group = list(self._inside(queue, mask))
            if not self._pack(group):
                kept = set(self._reject(group, self._longest(group, 0), mask))
                rejected = set(group) - kept
                queue = [at for at in queue if at not in rejected]
        return queue

    def _reject(self, queue: Sequence[int], fit: int, mask: int) -> list[int]:
        """The queue without what, from ``fit`` on, goes only within a mask and does not fit there any more."""
        self._pack(queue[:fit])
        late = list(self._inside(queue[fit:], mask))
        self._add(late)
        rejected = {at for at in late if at not in self.homes}
        return [at for at in queue if at not in rejected]

    def _inside(self, queue: Iterable[int], mask: int) -> Iterator[int]:
        """The items of a queue that may only go to hosts of a mask."""
        inside = {place for place, hosts in enumerate(self.masks) if hosts & mask == hosts}
        return (at for at in queue if self.places[at] in inside)

    def _longest(self, queue: Sequence[int], low: int) -> int:
        """The length of the longest prefix of a queue that packs completely, at least ``low``, by bisection."""
        high = len(queue) + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._pack(queue[:middle]):
                low = middle
            else:
                high = middle
        return low

    def _pack(self, queue: Iterable[int]) -> bool:
        """Place all of these and nothing else, in the order that packs best; False if not all fit."""
        self._clear()
        ranked = sorted(queue, key=self.turn.__getitem__)
        self.work += len(ranked)
        return all(self._put_unit(unit) for unit in self.order.units(ranked))

    def _add(self, queue: Iterable[int]) -> None:
        """Place what fits of a queue beside all that is placed."""
        self.hopeless.clear()
        for at in queue:
            kind = (self.items[at].want, self.places[at])
            if kind not in self.hopeless and not self._put(at) and self.items[at].room is None:
                self.hopeless.add(kind)

    def _put_unit(self, unit: Sequence[int]) -> bool:
        """Place a bundle on one host where one takes it, else each item where it fits best."""
        if len(unit) == 1:
            return self._put(unit[0])
        if all(self.items[at].room is None for at in unit):
            lead = self.items[unit[0]]
            host = self.pack.together([self.items[at].want for at in unit], lead.levels, LOOK)
            if host is not None:
                self.homes.update((at, host) for at in unit)
                return True
        return all(self._put(at) for at in unit)

    def _put(self, at: int) -> bool:
        item = self.items[at]
        levels = item.levels if item.room is None else item.room.levels(item.levels, item)
        host = self.pack.place(item.want, levels)
        if host is None:
            return False
        self.homes[at] = host
        if item.room is not None:
            item.room.take(host, item)
        return True

    def _clear(self) -> None:
        """Take back everything placed."""
        for at, host in reversed(self.homes.items()):
            room = self.items[at].room
            if room is not None:
                room.give(host, self.items[at])
        self.homes.clear()
        self.pack.undo(self.start)


def _union(levels: Iterable[int]) -> int:
    union = 0
    for mask in levels:
        union |= mask
    return union
