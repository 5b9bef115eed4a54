"""Which items of a batch are placed, and where, when perhaps not everything fits.

Nothing of a batch has started, so what was admitted may still sit anywhere: whole prefixes of the priority order are
packed again and again, each time in the order that packs best, and the longest one that fits is kept. A lower
priority never keeps a higher one out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from reconciler.planner.batch_order import Rank, Shape, angle, rank, scarcity, units
from reconciler.planner.pack import Mark, Pack

GROUPS = 64  # closed groups of hosts that are looked at on their own
WORK = 300_000  # placements that may be spent on packing again what a first answer left out
LOOK=32

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

    def levels(self, levels: Sequence[int], item: Item) -> Sequence[int]:
        """The levels, narrowed to the hosts that the item may go to now."""

    def take(self, host: int, item: Item) -> None:
        """Note that the item went to the host."""

    def give(self, host: int, item: Item) -> None:
        """Undo ``take``."""


def admit(pack: Pack, items: Sequence[Item], shapes: Mapping[int, Shape]) -> list[tuple[int, int]]:
    """The (item index, host) pairs to commit, in that order; ``pack`` is left with them placed.

    Items that are not named stay pending. If everything fits, priorities play no part. Otherwise an item is left out
    only if it could not be placed beside all admitted ones of higher priority; among items of equal priority those
    are chosen that allocate the most. ``shapes`` says the size of each want; the order of ``items`` never matters.
    """
    return list(_Batch(pack, items, shapes).admit().items())


class _Batch:
    """The state of one admission."""

    def __init__(self, pack: Pack, items: Sequence[Item], shapes: Mapping[int, Shape]) -> None:
        self.pack = pack
        self.items = items
        self.start = pack.mark()
        self.homes: dict[int, int] = {}  # host of each placed item, in the order of placing
        self.milli = [shapes[item.want].milli for item in items]
        masks: dict[tuple[int, ...], int] = {}
        self.places = [masks.setdefault(item.levels, len(masks)) for item in items]
        self.masks = [_union(levels) for levels in masks]
        self.ranks = self._ranks(shapes)
        self.ranked = sorted(range(len(items)), key=lambda at: (self.ranks[at], items[at].key))
        by_priority = sorted(range(len(items)), key=lambda at: (-items[at].priority, items[at].key))
        self.tiers = [list(tier) for _, tier in groupby(by_priority, key=lambda at: items[at].priority)]
        self.tier_of = {at: number for number, tier in enumerate(self.tiers) for at in tier}
        self.work = 0  # items handed to complete packs
        self.rejected: set[int] = set()
        self.hopeless: set[tuple[int, int]] = set()  # (want, place) that no longer fit

    def _ranks(self, shapes: Mapping[int, Shape]) -> list[Rank]:
        hosts = self.pack.hosts
        known: dict[tuple[int, int], Rank] = {}
        for item, place in zip(self.items, self.places, strict=True):
            if (item.want, place) not in known:
                mask = self.masks[place]
                scarce = scarcity(self.pack.fitting(item.want, mask).bit_count(), hosts)
                known[item.want, place] = rank(shapes[item.want], max(scarce, mask != self.pack.every))
        return [known[item.want, place] for item, place in zip(self.items, self.places, strict=True)]

    def admit(self) -> dict[int, int]:
        """All of it, or as many tiers as fit together and then one by one."""
        if self._pack_all(self.ranked):
            return self.homes
        self._reject_in_groups()
        fit = self._longest(0, len(self.tiers))
        while fit < len(self.tiers) and self.work < WORK and self._narrow(fit):
            fit = self._longest(fit, len(self.tiers))
        self._pack_all(self._upto(fit))
        self.hopeless.clear()
        for tier in self.tiers[fit:]:
            self._add(tier)
        return self.homes

    def _narrow(self, fit: int) -> bool:
        """Reject what no longer fits where the first item left out may go; False if that is everywhere."""
        tier = self.tiers[fit]
        mask = self.masks[self.places[tier[0]]]
        if len(tier) > 1 or mask == self.pack.every:
            return False
        self._pack_all(self._upto(fit))
        self.hopeless.clear()
        inside = self._inside(mask)
        for later in self.tiers[fit:]:
            group = [at for at in later if self.places[at] in inside]
            self._add(group)
            self.rejected.update(at for at in group if at not in self.homes)
        self._clear()
        return True

    def _inside(self, mask: int) -> set[int]:
        """The places that lie within a mask."""
        return {place for place, hosts in enumerate(self.masks) if hosts & mask == hosts}

    def _upto(self, tiers: int) -> list[int]:
        """The ranked items of the first tiers that are not rejected."""
        return [at for at in self.ranked if self.tier_of[at] < tiers and at not in self.rejected]

    def _longest(self, low: int, high: int) -> int:
        """The largest number of tiers that pack completely, at least ``low``, by bisection; nothing stays placed."""
        high += 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._pack_all(self._upto(middle)):
                low = middle
            else:
                high = middle
            self._clear()
        return low

    def _pack_all(self, ranked: Sequence[int]) -> bool:
        """Place all of these on an empty copy, each unit in turn; on failure nothing stays placed."""
        self._clear()
        self.work += len(ranked)
        for unit in units(ranked, self.ranks, self.places, self.masks):
            if len(unit) > 1 and self._put_together(unit):
                continue
            for at in unit:
                if not self._put(at):
                    self._clear()
                    return False
        return True

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

    def _put_together(self, unit: Sequence[int]) -> bool:
        items = [self.items[at] for at in unit]
        if any(item.room is not None for item in items):
            return False
        host = self.pack.together([item.want for item in items], items[0].levels, LOOK)
        if host is None:
            return False
        self.homes.update((at, host) for at in unit)
        return True

    def _clear(self) -> None:
        """Take back everything placed."""
        for at, host in reversed(self.homes.items()):
            room = self.items[at].room
            if room is not None:
                room.give(host, self.items[at])
        self.homes.clear()
        self.pack.undo(self.start)

    def _add(self, tier: Sequence[int]) -> None:
        """Place what still fits of one tier beside all that is placed."""
        ranked = sorted(tier, key=lambda at: (self.ranks[at], self.items[at].key)) if len(tier) > 1 else tier
        for unit in units(ranked, self.ranks, self.places, self.masks) if len(tier) > 1 else [tuple(tier)]:
            for at in unit:
                self._try(at)

    def _try(self, at: int) -> None:
        item = self.items[at]
        kind = (item.want, self.places[at])
        if at in self.rejected or (item.room is None and kind in self.hopeless):
            return
        if not self._put(at) and item.room is None:
            self.hopeless.add(kind)

    def _reject_in_groups(self) -> None:
        """Leave out what does not fit even when hosts that only some items may use are kept for them alone."""
        every = self.pack.every
        masks = sorted({mask for mask in self.masks if mask != every}, key=lambda mask: (mask.bit_count(), mask))
        for mask in masks[:GROUPS]:
            inside = self._inside(mask)
            group = [at for at in self.ranked if self.places[at] in inside and at not in self.rejected]
            if not self._pack_all(group):
                self._reject_in(group)
            self._clear()

    def _reject_in(self, group: Sequence[int]) -> None:
        """Admit a group in order on its own hosts; the rest is rejected."""
        tiers = sorted({self.tier_of[at] for at in group})
        low, high = 0, len(tiers)
        while high - low > 1:
            middle = (low + high) // 2
            if self._pack_all([at for at in group if self.tier_of[at] < tiers[middle]]):
                low = middle
            else:
                high = middle
        self._pack_all([at for at in group if self.tier_of[at] < tiers[low]])
        self.hopeless.clear()
        for number in tiers[low:]:
            self._add([at for at in group if self.tier_of[at] == number])
        self.hopeless.clear()
        self.rejected.update(at for at in group if at not in self.homes)


def _union(levels: Iterable[int]) -> int:
    union = 0
    for mask in levels:
        union |= mask
    return union
