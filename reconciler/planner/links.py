"""Which of several equally local cards: the set that leaves the best sets behind, by NVLink and PCIe.

Pair score, as in go-gpuallocator: 100 per NVLink, plus the PCIe level.
"""

from collections.abc import Sequence
from itertools import combinations

from reconciler.model.host import Gpu

PCIE_SCORE = {"board": 60, "switch": 50, "switches": 40, "bridge": 30, "node": 20, "system": 10}
EXACT_UP_TO = 8  # cards; 280 partitions at most. Beyond that the first cards in order are taken.


def best_set(cards: Sequence[Gpu], size: int) -> tuple[Gpu, ...]:
    """``size`` of ``cards`` (in their fixed order); of sets that are equally good, the first."""
    if size >= len(cards) or size == 0:
        return tuple(cards[:size])
    scores = _pairs(cards)
    if len(set(scores.values())) == 1 or len(cards) > EXACT_UP_TO:
        return tuple(cards[:size])
    places = range(len(cards))
    if size == 1:
        # A single card is best taken where it tears the least.
        torn = {one: sum(score for pair, score in scores.items() if one in pair) for one in places}
        return (cards[min(places, key=lambda one: (torn[one], one))],)
    _, chosen = _partition(tuple(places), size, scores, {})
    return tuple(cards[place] for place in chosen[0])


def _pairs(cards: Sequence[Gpu]) -> dict[tuple[int, int], int]:
    scores = {}
    for one, other in combinations(range(len(cards)), 2):
        link = next((link for link in cards[one].links if link.peer == cards[other].uuid), None)
        scores[one, other] = 100 * link.nvlinks + PCIE_SCORE.get(link.pcie, 0) if link else 0
    return scores


Sets = tuple[tuple[int, ...], ...]


def _partition(
    free: tuple[int, ...], size: int, scores: dict[tuple[int, int], int], known: dict[tuple[int, ...], tuple[int, Sets]]
) -> tuple[int, Sets]:
    """The division of ``free`` into sets of ``size`` (a rest may stay) with the best total; ties: the first."""
    if len(free) < size:
        return 0, ()
    if free in known:
        return known[free]
    best: tuple[int, Sets] = (-1, ())
    for chosen in combinations(free, size):
        rest = tuple(place for place in free if place not in chosen)
        if len(free) % size == 0 and chosen[0] != free[0]:
            break  # every card is in some set: begin with the one that holds the first card
        after = tuple(place for place in rest if place > chosen[0])
        total, sets = _partition(after, size, scores, known)
        total += sum(scores[pair] for pair in combinations(chosen, 2))
        if total > best[0]:
            best = (total, (chosen, *sets))
    known[free] = best
    return best
