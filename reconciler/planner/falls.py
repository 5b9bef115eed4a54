"""On which domains memory and shared CPU time fall: one rule for counting ahead and for counting what is there."""

from collections.abc import Sequence

from reconciler.planner.topology import Domain


def memory_falls(
    domains: Sequence[Domain], free: Sequence[int], places: Sequence[int], amount: int
) -> tuple[tuple[int, int], ...]:
    """(domain, bytes): memory is taken where it is bound, or where the work's cores are (``places``)."""
    homes = tuple(sorted({home for place in places for home in domains[place].homes}))
    parts = proportional(amount, [max(0, free[home]) for home in homes])
    return tuple(zip(homes, parts, strict=True))


def quota_falls(
    idle: Sequence[int], quota: Sequence[int], places: Sequence[int], millicpus: int
) -> tuple[tuple[int, int], ...]:
    """(domain, millicpus) of shared work on those of ``places`` that have idle CPUs."""
    usable = tuple(place for place in places if idle[place])
    rooms = [max(0, idle[place] * 1000 - quota[place]) for place in usable]
    return tuple(zip(usable, proportional(millicpus, rooms), strict=True))


def proportional(amount: int, rooms: list[int]) -> list[int]:
    """``amount`` divided by ``rooms``; it sums up exactly, and stays within them where it fits at all."""
    total = sum(rooms)
    if not rooms:
        return []
    if total == 0:
        return [amount, *[0] * (len(rooms) - 1)]
    parts = [amount * room // total for room in rooms]
    left = amount - sum(parts)
    for place, room in enumerate(rooms):
        more = min(left, max(0, room - parts[place]))
        parts[place] += more
        left -= more
    parts[0] += left
    return parts
