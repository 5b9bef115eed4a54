"""What a host lacks, in words and as a number by which hosts are compared."""

from dataclasses import dataclass

from reconciler.model.host import GpuMode
from reconciler.model.placement import Numa
from reconciler.model.resources import AllGpus, MigSlices, format_memory
from reconciler.planner.free import Free, HostKind, Want

STAGES = ("gpuMode passthrough", "gpus", "cpus", "memory", "numa", "ports")
"""The filters that a host can fail once policy admits it, in order."""

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")


@dataclass(frozen=True, slots=True)
class Lack:
    """The first filter that a host fails, how much is missing there, and all that is missing in words."""

    stage: str
    missing: int
    words: str


def lack_of(free: Free, kind: HostKind, want: Want) -> Lack | None:
    """What the host as a whole lacks; None when its sums suffice."""
    if isinstance(want.gpus, AllGpus) and (kind.gpu_mode is not GpuMode.PASSTHROUGH or not kind.cards):
        return Lack(STAGES[0], 1, "gpuMode: passthrough" if kind.cards else "any GPU")
    found: list[Lack] = []
    pieces = want.pieces - sum(want.available(node) for node in free.nodes)
    if pieces > 0:
        found.append(Lack("gpus", pieces, f"{pieces} more free {things(want, pieces)}"))
    units = want.units - sum(want.capacity(node) for node in free.nodes)
    if units > 0:
        found.append(Lack("cpus", units, f"{cores(want, units)} more free {'core' if units == 1 else 'cores'}"))
    memory = want.memory - free.memory
    if memory > 0:
        found.append(Lack("memory", memory, f"{format_memory(memory)} more free memory"))
    if not found:
        return None
    return Lack(found[0].stage, found[0].missing, ", ".join(lack.words for lack in found))


def numa_lack(free: Free, want: Want) -> Lack:
    """Why a host whose sums suffice has no set of nodes that does."""
    rule = f"numa is {want.numa}d" if want.numa is Numa.REQUIRE else "one socket is required"
    counts = [want.available(node) for node in free.nodes]
    holders = [count for count in counts if count]
    if want.pieces and max(counts) < want.pieces:
        over = f"{NUMBERS[len(holders)] if len(holders) < len(NUMBERS) else len(holders)} nodes"
        part = "socket" if want.numa is Numa.REQUIRE_SOCKET else "node"
        whole = f"{want.pieces} {things(want, want.pieces)} on one {part}"
        text = f"{whole}: {' + '.join(map(str, holders))} free over {over}, and {rule}"
        return Lack("numa", want.pieces - max(counts), text)
    parts = [f"{want.pieces} {things(want, want.pieces)}"] if want.pieces else []
    parts += [f"{cores(want, want.units)} cores", format_memory(want.memory)]
    most = max((want.capacity(node) for node in free.nodes), default=0)
    return Lack("numa", max(1, want.units - most), f"a NUMA node with {', '.join(parts)} free at once, and {rule}")


def things(want: Want, count: int) -> str:
    """``GPU``, ``GPUs`` or ``1g.10gb slices``."""
    noun = f"{want.gpus.profile} slice" if isinstance(want.gpus, MigSlices) else "GPU"
    return noun if count == 1 else f"{noun}s"


def cores(want: Want, units: int) -> str:
    """CPU units as a number of cores."""
    return str(units) if want.exclusive else f"{units / 1000:g}"
