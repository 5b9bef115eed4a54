"""The orders of a batch: the one that packs best, and the one in which items of equal priority are admitted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.model.claims import WHOLE
from reconciler.planner.batch_shares import Shares

SLIVER = 200  # smaller shares than this fill what the others leave of their cards
SCALE = 10**15  # so that parts of a batch stay whole numbers
RHO = 10  # cores per card at which cores and cards weigh the same
RHO_MEMORY = 48 * 2**30 // 1000  # bytes of memory for each thousandth of a card, likewise
WASTES = (0, 10, 20, 30, 50, 100, 200, WHOLE)  # steps in which bundles that waste more of a card come later

SEVERAL, SHARE, SINGLE, REST, NONE = range(5)  # classes of items, in packing order

Rank = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of one want: cards or slices, thousandths of cards in all, millicpus, bytes of memory."""

    pieces: int
    milli: int
    millicpus: int
    memory: int
    slices: bool = False  # parts with places of their own on the card (MIG), which no sums can bundle


def angle(amount: int, milli: int, even: int = RHO) -> int:
    """How much of a vector is cores (in thousandths), against cards: 0 is cards only, 1000 cores only.

    Memory with ``even=RHO_MEMORY``: the amount for a thousandth of a card at which both weigh the same.
    """
    return 1000 * amount // (amount + even * milli) if amount else 0


def scarcity(fitting: int, hosts: int) -> int:
    """Steps of √2 by which the hosts that can take a want are fewer than all; 0 down to half of them."""
    if 2 * fitting >= hosts:
        return 0
    return (hosts * hosts // max(1, fitting * fitting)).bit_length() - 1


def rank(shape: Shape, scarce: int) -> Rank:
    """Constrained first, then several cards, shares from large to small, one card, slivers, no card; hungriest first.

    The second number is the class.
    """
    most = max(angle(shape.millicpus, shape.milli), angle(shape.memory, shape.milli, RHO_MEMORY))
    hungry = (-most, -shape.millicpus, -shape.memory)
    if shape.pieces == 0:
        return (0, NONE, 0, *hungry)
    if shape.pieces > 1 or shape.slices:
        return (-scarce, SEVERAL, -shape.milli, *hungry)
    if shape.milli >= WHOLE:
        return (-scarce, SINGLE, 0, *hungry)
    return (-scarce, SHARE if shape.milli >= SLIVER else REST, -shape.milli, *hungry)


class Order:
    """The shapes and ranks of the items of a batch, by position, and where each may go.

    ``masks[places[item]]`` are the hosts where an item may go.
    """

    def __init__(
        self, shapes: Sequence[Shape], ranks: Sequence[Rank], places: Sequence[int], masks: Sequence[int]
    ) -> None:
        self.shapes, self.ranks, self.places = shapes, ranks, places
        self._millicpus = max(1, sum(shape.millicpus for shape in shapes))
        self._memory = max(1, sum(shape.memory for shape in shapes))
        narrow = sorted(range(len(masks)), key=lambda place: (masks[place].bit_count(), masks[place], place))
        self._partners = [[other for other in narrow if masks[other] & mask == mask] for mask in masks]

    def units(self, ranked: Sequence[int]) -> list[tuple[int, ...]]:
        """Items in ranked order as units to place together: shares in bundles that fill a card, all else alone.

        A bundle comes at the turn of its first item.
        """
        shares = self._shares(ranked, (SHARE,))
        out: list[tuple[int, ...]] = []
        for item in ranked:
            if self.ranks[item][1] != SHARE:
                out.append((item,))
            elif item in shares:
                out.extend(shares.bundles(item))
        return out

    def wishes(self, ranked: Sequence[int]) -> list[int]:
        """Items of equal priority from the best use of cards to the worst: little waste, then little thirst."""
        shares = self._shares(ranked, (SHARE, REST))
        found: list[tuple[int, int, tuple[int, ...]]] = [
            (0, self._thirst((item,)), (item,)) for item in ranked if item not in shares
        ]
        for waste in WASTES:
            for item in ranked:
                if item in shares:
                    found += [(waste, self._thirst(unit), unit) for unit in shares.bundles(item, waste)]
        turn = {item: at for at, item in enumerate(ranked)}
        found.sort(key=lambda unit: (self.ranks[unit[2][0]][1] == NONE, unit[0], unit[1], turn[unit[2][0]]))
        return [item for _, _, unit in found for item in unit]

    def _shares(self, ranked: Iterable[int], classes: tuple[int, ...]) -> Shares:
        sizes: Mapping[int, int] = {item: self.shapes[item].milli for item in ranked if self.ranks[item][1] in classes}
        return Shares(sizes, sizes, self.places, self._partners)

    def _thirst(self, unit: Iterable[int]) -> int:
        """Cores and memory for each thousandth of a card, each in parts of what the whole batch asks."""
        shapes = [self.shapes[item] for item in unit]
        cores = sum(shape.millicpus for shape in shapes) * SCALE // self._millicpus
        memory = sum(shape.memory for shape in shapes) * SCALE // self._memory
        return (cores + memory) // max(1, sum(shape.milli for shape in shapes))
