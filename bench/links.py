"""Time of one choice of cards beside an exhaustive search, on real kinds of machine: ``python -m bench.links [RUNS]``.

``cold`` is the first choice on a pattern of links, ``warm`` a later one. The search is over all divisions into sets of
that size, memoised on the cards left. ``reached`` is the total score of the sets handed out in turn, of the best total.
Fails where 8 cards miss the best total, where 16 miss more than 1 % of it, or where a choice takes too long.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

from reconciler.actual.facts import facts_from_json
from reconciler.model.host import Gpu, Link
from reconciler.planner import links

RUNS = 9
MACHINES = Path(__file__).parent.parent / "tests" / "fixtures" / "machines"
EIGHTS = ("dgx1-v100", "hgx-h100", "dgx-a100-nps4", "h100-nvl-8", "l40s-8")
SIZES = {8: (2, 3, 4), 16: (2, 3, 4, 5, 8)}
MOST_MS = {8: 1.0, 16: 5.0}  # of a cold choice, at the median
LEAST = {8: 1.0, 16: 0.99}  # of the best total


def main() -> int:
    """Measure and print; 1 when a limit is missed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    kinds = {name: list(facts_from_json((MACHINES / f"{name}.json").read_text(), name).gpus) for name in EIGHTS}
    kinds |= {"dgx-2": tree(6, "switch"), "p2.16xlarge": tree(0, "board"), "16 in bridged pairs": bridged()}
    print(f"median of {runs} runs, wall time of best_set")
    late = [
        f"{name}, sets of {size}"
        for name, cards in kinds.items()
        for size in SIZES[len(cards)]
        if not measure(name, cards, size, runs)
    ]
    print(*(f"limit missed: {what}" for what in late), sep="\n")
    return int(bool(late))


def measure(name: str, cards: Sequence[Gpu], size: int, runs: int) -> bool:
    """One row; whether it is within the limits."""
    cold = statistics.median(timed(lambda: links.best_set(cards, size), clear=True) for _ in range(runs))
    warm = statistics.median(timed(lambda: links.best_set(cards, size)) for _ in range(runs))
    scores = scores_of(cards)
    search = timed(lambda: exhaustive(scores, size))
    best = exhaustive(scores, size)
    share = in_turn(cards, scores, size) / best
    print(
        f"  {name:<20} {len(cards):2} cards, sets of {size}: cold {cold:6.2f} ms = {cold / search:7.4f} x search,"
        f" warm {warm:5.3f} ms = {warm / search:7.4f} x search, reached {share:.4f}"
    )
    return cold <= MOST_MS[len(cards)] and share >= LEAST[len(cards)]


def timed(call: Callable[[], object], *, clear: bool = False) -> float:
    """Milliseconds of one call, with nothing remembered from earlier ones where ``clear`` is set."""
    if clear:
        links._choice.cache_clear()  # noqa: SLF001 - a cold choice is what is measured
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def tree(nvlinks: int, pair: str) -> list[Gpu]:
    """Sixteen cards: ``pair`` joins two, switches four, a node eight; so many NVLinks between any two."""

    def level(one: int, other: int) -> str:
        local = "switches" if one // 4 == other // 4 else "node" if one // 8 == other // 8 else "system"
        return pair if one // 2 == other // 2 else local

    return cards_of(lambda one, other: (nvlinks, level(one, other)))


def bridged() -> list[Gpu]:
    """Sixteen cards, eight to a socket, in pairs with an NVLink bridge between cards that are two apart."""
    return cards_of(lambda one, other: (12 * (other == one ^ 2), "node" if one // 8 == other // 8 else "system"))


def cards_of(joined: Callable[[int, int], tuple[int, str]]) -> list[Gpu]:
    """Sixteen cards with the NVLinks and the PCIe level that ``joined`` tells of each two."""
    return [
        Gpu(f"GPU-{one}", "X", 1, links=tuple(Link(f"GPU-{other}", *joined(one, other)) for other in range(16)))
        for one in range(16)
    ]


def scores_of(cards: Sequence[Gpu]) -> dict[tuple[int, int], int]:
    """Score of each pair of positions, both ways."""
    places = {card.uuid: place for place, card in enumerate(cards)}
    return {
        (place, places[link.peer]): 100 * link.nvlinks + links.PCIE_SCORE[link.pcie]
        for place, card in enumerate(cards)
        for link in card.links
    }


def exhaustive(scores: dict[tuple[int, int], int], size: int) -> int:
    """The best total of any division into sets of ``size``."""

    @cache
    def most(free: tuple[int, ...]) -> int:
        if len(free) < size:
            return 0
        first, *others = free
        best = most(tuple(others)) if len(free) % size else 0
        for chosen in combinations(others, size - 1):
            rest = tuple(place for place in others if place not in chosen)
            total = sum(scores[pair] for pair in combinations((first, *chosen), 2))
            best = max(best, total + most(rest))
        return best

    return most(tuple(sorted({place for pair in scores for place in pair})))


def in_turn(cards: Sequence[Gpu], scores: dict[tuple[int, int], int], size: int) -> int:
    """Total score of the sets that requests of ``size`` get until no more are left."""
    free, total = list(range(len(cards))), 0
    while len(free) >= size:
        given = {card.uuid for card in links.best_set([cards[place] for place in free], size)}
        chosen = [place for place in free if cards[place].uuid in given]
        total += sum(scores[pair] for pair in combinations(chosen, 2))
        free = [place for place in free if place not in chosen]
    return total


if __name__ == "__main__":
    sys.exit(main())
