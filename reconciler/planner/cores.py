"""Which logical CPUs: whole cores first, broken ones for an odd rest, one last-level cache where it fits."""

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_

from reconciler.planner.topology import bits, mask_of

KEPT = 4096  # answers of one domain; then all are forgotten


class Cores:
    """The cores and last-level caches of one domain, as masks; equal machines share one, and what it was asked."""

    __slots__ = ("_picked", "caches", "cores")

    def __init__(self, cores: tuple[int, ...], caches: tuple[int, ...]) -> None:
        self.cores, self.caches = cores, caches
        self._picked: dict[tuple[int, int, int], int] = {}

    def pick(self, idle: int, count: int, near: int = 0) -> int:
        """See ``pick``."""
        key = (idle, count, near)
        if key not in self._picked:
            if len(self._picked) >= KEPT:
                self._picked.clear()
            self._picked[key] = pick(self.cores, self.caches, idle, count, near)
        return self._picked[key]


@lru_cache(maxsize=1024)
def cores_of(smt: tuple[tuple[int, ...], ...], caches: tuple[tuple[int, ...], ...], domain: int) -> Cores:
    """The cores of a domain (a mask) of a machine with those siblings and caches."""
    return Cores(core_masks(smt, domain), cache_masks(caches, domain))


def core_masks(smt: Sequence[Sequence[int]], domain: int) -> tuple[int, ...]:
    """The cores of a domain (a mask), each a mask of its online siblings, by lowest CPU."""
    grouped = [mask_of(group) & domain for group in smt]
    lone = domain & ~_union(grouped)
    masks = [mask for mask in grouped if mask] + [1 << cpu for cpu in bits(lone)]
    return tuple(sorted(masks, key=lambda mask: mask & -mask))


def cache_masks(caches: Sequence[Sequence[int]], domain: int) -> tuple[int, ...]:
    """The last-level caches of a domain; what lies under no known cache counts as one group."""
    groups = [mask_of(group) & domain for group in caches]
    rest = domain & ~_union(groups)
    return tuple(mask for mask in (*groups, rest) if mask)


def _union(masks: Sequence[int]) -> int:
    return reduce(or_, masks, 0)


def pick(cores: Sequence[int], caches: Sequence[int], idle: int, count: int, near: int = 0) -> int:
    """Mask of ``count`` CPUs out of ``idle``, which must hold that many; those of ``near`` first.

    The smallest cache that can give all of it is used, else the emptiest caches in turn.
    """
    kept = near & idle
    if kept.bit_count() > count:
        return pick(cores, caches, kept, count)
    chosen = kept
    while (want := count - chosen.bit_count()) > 0:
        group = _cache_for(cores, caches, idle & ~chosen, want)
        chosen |= _from(cores, group, min(want, group.bit_count()))
    return chosen


def _cache_for(cores: Sequence[int], caches: Sequence[int], idle: int, want: int) -> int:
    """The idle part of the cache to take from: one that gives all and breaks no core, the tightest; else the widest."""
    parts = [part for cache in caches if (part := cache & idle)]

    def key(part: int) -> tuple[bool, int, bool, int, int]:
        size = part.bit_count()
        fits = size >= want
        loose, breaks = _broken(cores, part, want) if fits else (0, False)
        return (not fits, loose, breaks, size if fits else -size, part & -part)

    return min(parts, key=key)


def _broken(cores: Sequence[int], part: int, want: int) -> tuple[int, bool]:
    """How many of ``want`` CPUs of ``part`` would not be in whole cores, and whether that breaks one that is whole."""
    pieces = part.bit_count()
    for core in cores:
        if core & part == core:
            pieces -= core.bit_count()
            if core.bit_count() <= want:
                want -= core.bit_count()
    return want, want > pieces


def _from(cores: Sequence[int], group: int, want: int) -> int:
    """Mask of ``want`` CPUs of ``group``: whole cores, then broken ones for the rest, then part of a whole one."""
    chosen = 0
    for core in cores:
        if core & group == core and core.bit_count() <= want:
            chosen |= core
            want -= core.bit_count()
    rest = [core & group & ~chosen for core in cores]
    broken = [part for part, core in zip(rest, cores, strict=True) if part and part != core]
    whole = [part for part, core in zip(rest, cores, strict=True) if part == core]
    for part in [*sorted(broken, key=lambda part: (part.bit_count(), part & -part)), *whole]:
        for cpu in bits(part)[:want]:
            chosen |= 1 << cpu
            want -= 1
    return chosen
