"""MIG: which profiles a card has, where each may start, and what a choice costs the others.

Source: NVIDIA's table of placements on a grid of eight memory slices (A30: four). Memory slices alone keep compute
slices legal. Sizes in profile names are an eighth, a quarter, a half or all of the card's memory, rounded half up.
"""

import re
from functools import lru_cache

from reconciler.planner.free import GIB, CardFree, CardKind

EXTRA = 1 << 8  # beside the memory slices: the media engines, which one ``+me`` slice takes

# compute slices, eighths (or quarters) of memory in the name, memory slices taken, starts
_EIGHT = (
    (1, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    (1, 2, 2, (0, 2, 4, 6)),
    (2, 2, 2, (0, 2, 4)),
    (3, 4, 4, (0, 4)),
    (4, 4, 4, (0,)),
    (7, 8, 8, (0,)),
)
_FOUR = ((1, 1, 1, (0, 1, 2, 3)), (2, 2, 2, (0, 2)), (4, 4, 4, (0,)))
_PROFILE = re.compile(r"(?P<base>[0-9]+g\.[0-9]+gb)(?P<extra>\+me)?")


@lru_cache(maxsize=256)
def profiles(kind: CardKind) -> dict[str, tuple[tuple[int, int], ...]]:
    """Every profile of a card with its placements, as (start, mask of what it takes)."""
    size = -(-kind.memory // GIB)
    grid, parts = (_FOUR, 4) if "A30" in kind.model else (_EIGHT, 8)
    found = {}
    for compute, share, width, starts in grid:
        name = f"{compute}g.{(2 * size * share + parts) // (2 * parts)}gb"
        found[name] = tuple((start, ((1 << width) - 1) << start) for start in starts)
    first = next(iter(found))
    found[f"{first}+me"] = tuple((start, mask | EXTRA) for start, mask in found[first])
    return found


def compute_slices(kind: CardKind) -> int:
    """How many compute slices a card has: those of its largest profile."""
    return max(int(name.partition("g")[0]) for name in profiles(kind))


def mask_at(kind: CardKind, profile: str, start: int) -> int:
    """What a slice takes of its card; an unknown profile takes it all."""
    for at, mask in profiles(kind).get(profile, ()):
        if at == start:
            return mask
    found = _PROFILE.fullmatch(profile)
    base = profiles(kind).get(found["base"], ()) if found else ()
    return next((mask for at, mask in base if at == start), EXTRA - 1)


@lru_cache(maxsize=65536)
def legal(kind: CardKind, busy: int) -> int:
    """How many placements of any profile are still possible beside what is taken."""
    return sum(not mask & busy for placements in profiles(kind).values() for _, mask in placements)


def cut_at(card: CardFree, profile: str) -> tuple[int, int, int] | None:
    """Where a new slice costs the fewest other placements: (placements lost, start, mask); None where it cannot be.

    Of equal costs the highest start, which keeps the low half for a 4g.
    """
    options = [
        (legal(card.kind, card.busy) - legal(card.kind, card.busy | mask), -start, mask)
        for start, mask in profiles(card.kind).get(profile, ())
        if not mask & card.busy
    ]
    if not options:
        return None
    lost, start, mask = min(options)
    return lost, -start, mask
