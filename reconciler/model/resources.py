"""Quantities and what a workload asks of a host."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

MEMORY_UNITS = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate(("k", "M", "G", "T"), 1)},
    **{unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
}
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(k|K|M|G|T|Ki|Mi|Gi|Ti|)B?", re.ASCII)
_DURATION = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m(?!s))?(?:([0-9]+(?:\.[0-9]+)?)s)?(?:([0-9]+)ms)?", re.ASCII)


def parse_memory(text: str | int) -> int:
    """Bytes of ``64Gi``, ``64GiB``, ``512M``, ``1.5G`` or a plain number of bytes.

    >>> parse_memory("64Gi")
    68719476736

    Raises ValueError with a message for people.
    """
    match = _MEMORY.fullmatch(str(text))
    if not match:
        raise ValueError(f"not an amount of memory: {text!r} (write 64Gi, 512M or bytes)")
    return int(Decimal(match[1]) * MEMORY_UNITS["k" if match[2] == "K" else match[2]])


def format_memory(size: int) -> str:
    """Shortest binary form that loses nothing above a tenth: ``64Gi``, ``1.5Gi``, ``512Mi``, ``100``.

    >>> format_memory(68719476736)
    '64Gi'
    """
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        scale = MEMORY_UNITS[unit]
        if size >= scale:
            value = f"{size / scale:.1f}".removesuffix(".0")
            return f"{value}{unit}"
    return str(size)


def parse_duration(text: str | float) -> float:
    """Seconds of ``90``, ``10s``, ``1h30m``, ``500ms``. Raises ValueError with a message for people."""
    match = _DURATION.fullmatch(str(text))
    if match and any(match.groups()):
        hours, minutes, seconds, millis = (Decimal(part or 0) for part in match.groups())
        return float(hours * 3600 + minutes * 60 + seconds + millis / 1000)
    try:
        value = Decimal(str(text))
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0:
        raise ValueError(f"not a duration: {text!r} (write 10s, 1h30m or 500ms)")
    return float(value)


def parse_cpus(text: str) -> tuple[int, ...]:
    """Sorted CPU numbers of a kernel list such as ``0-3,8``. Raises ValueError.

    >>> parse_cpus("8,0-3")
    (0, 1, 2, 3, 8)
    """
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit()))):
            raise ValueError(f"not a list of CPUs: {text!r} (write 0-3,8)")
        low, high = int(first), int(last or first)
        if high < low or high > 65535:
            raise ValueError(f"not a list of CPUs: {text!r} (write 0-3,8)")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


def format_cpus(cpus: Iterable[int]) -> str:
    """Kernel list of CPU numbers (or node ids), sorted, ranges joined.

    >>> format_cpus([3, 0, 1, 2, 8])
    '0-3,8'
    """
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


@dataclass(frozen=True, slots=True)
class WholeGpus:
    """Whole cards. ``models`` are globs (empty: any model), ``min_memory`` is bytes per card.

    ``link`` is ``nvlink`` where the cards must be joined to one another by NVLinks.
    """

    count: int
    models: tuple[str, ...] = ()
    min_memory: int = 0
    link: str = ""


@dataclass(frozen=True, slots=True)
class MigSlices:
    """MIG slices of one profile, such as ``1g.10gb``."""

    profile: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class GpuShare:
    """Part of one card: ``milli`` thousandths of it, or (with ``milli`` 0) ``memory`` bytes. ``models`` are globs."""

    milli: int = 0
    memory: int = 0
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObserveGpus:
    """Sees every card and holds none: exporters."""


@dataclass(frozen=True, slots=True)
class AllGpus:
    """Every card, on a host with ``gpuMode: passthrough`` only; nothing is rationed there."""


GpuRequest = WholeGpus | MigSlices | GpuShare | ObserveGpus | AllGpus


@dataclass(frozen=True, slots=True)
class Request:
    """What one instance asks of one host.

    ``millicpus`` are thousandths of a core. With ``exclusive`` they are a whole number of logical CPUs that belong to
    this instance alone; else a quota on cores that nobody owns. ``memory`` is bytes.
    """

    millicpus: int = 1000
    exclusive: bool = True
    memory: int = 512 * 1024**2
    gpus: GpuRequest | None = None

    @property
    def cores(self) -> int:
        """Exclusive logical CPUs; 0 for shared work."""
        return self.millicpus // 1000 if self.exclusive else 0
