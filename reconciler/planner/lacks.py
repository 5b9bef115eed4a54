"""What a host lacks, in words and as a number by which hosts are compared."""

from dataclasses import dataclass

from reconciler.model.claims import WHOLE
from reconciler.model.host import GpuMode
from reconciler.model.placement import Numa
from reconciler.model.resources import AllGpus, GpuShare, MigSlices, WholeGpus, format_memory
from reconciler.planner.cards import stock
from reconciler.planner.free import Free, HostKind, Want, admits

STAGES = ("gpuMode passthrough", "rdma", "gpus", "cpus", "memory", "numa", "ports")
"""The filters that a host can fail once policy admits it, in order."""

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")


@dataclass(frozen=True, slots=True)
class Lack:
    """The first filter that a host fails, how much is missing there, and all that is missing in words.

    ``kept`` counts the CPUs that are idle and stay for shared work, where they alone would have sufficed.
    """

    stage: str
    missing: int
    words: str
    kept: int = 0


def lack_of(free: Free, kind: HostKind, want: Want) -> Lack | None:
    """What the host as a whole lacks; None when its sums suffice."""
    if not admits(kind, want):
        if isinstance(want.gpus, AllGpus) and (kind.gpu_mode is not GpuMode.PASSTHROUGH or not kind.cards):
            return Lack(STAGES[0], 1, "gpuMode: passthrough" if kind.cards else "any GPU")
        return Lack(STAGES[1], 1, "an RDMA network card")
    found: list[Lack] = []
    pieces = want.pieces - sum(stock(node.cards, want) for node in free.nodes)
    if pieces > 0:
        found.append(Lack("gpus", pieces, _more(want, pieces)))
    units = want.units - sum(want.capacity(node) for node in free.nodes)
    if units > 0:
        kept = _kept(want, sum(node.idle for node in free.nodes), want.units - units)
        one = cpus(want, units) == "1"
        words = f"{cpus(want, units)} more free {'CPU' if one else 'CPUs'}{_kept_words(kept)}"
        found.append(Lack("cpus", units, words, kept))
    memory = want.memory - free.memory
    if memory > 0:
        found.append(Lack("memory", memory, f"{format_memory(memory)} more free memory"))
    if not found:
        return None
    kept = found[0].kept if len(found) == 1 else 0
    return Lack(found[0].stage, found[0].missing, ", ".join(lack.words for lack in found), kept)


def numa_lack(free: Free, want: Want) -> Lack:
    """Why a host whose sums suffice has no set of nodes that does."""
    rule = f"numa is {want.numa}d" if want.numa is Numa.REQUIRE else "one socket is required"
    counts = [stock(node.cards, want) for node in free.nodes]
    holders = [count for count in counts if count]
    if isinstance(want.gpus, WholeGpus) and want.gpus.link and max(counts) >= want.pieces:
        return Lack("numa", 1, f"{want.pieces} free GPUs joined by NVLink{' on one node' if want.bound else ''}")
    if want.pieces and max(counts) < want.pieces:
        over = f"{NUMBERS[len(holders)] if len(holders) < len(NUMBERS) else len(holders)} nodes"
        part = "socket" if want.numa is Numa.REQUIRE_SOCKET else "node"
        whole = f"{want.pieces} {things(want, want.pieces)} on one {part}"
        text = f"{whole}: {' + '.join(map(str, holders))} free over {over}, and {rule}"
        return Lack("numa", want.pieces - max(counts), text)
    parts = [f"{want.pieces} {things(want, want.pieces)}"] if want.pieces else []
    parts += [cpus_name(want), format_memory(want.memory)]
    most = max((want.capacity(node) for node in free.nodes), default=0)
    kept = 0
    if want.numa is Numa.REQUIRE:
        kept = min(filter(None, (_kept(want, node.idle, node.exclusive) for node in free.nodes)), default=0)
    words = f"a NUMA node with {', '.join(parts)} free at once{_kept_words(kept)}, and {rule}"
    return Lack("numa", max(1, want.units - most), words, kept)


def _kept(want: Want, idle: int, given: int) -> int:
    """The idle CPUs that stay for shared work, where exclusive work would fit with them and does not without."""
    return idle - given if want.exclusive and given < want.units <= idle else 0


def _kept_words(kept: int) -> str:
    return f" ({kept} {'stays' if kept == 1 else 'stay'} for shared work)" if kept else ""


def _more(want: Want, pieces: int) -> str:
    return (
        f"a {share_name(want.gpus)}"
        if isinstance(want.gpus, GpuShare)
        else f"{pieces} more free {things(want, pieces)}"
    )


def share_name(share: GpuShare) -> str:
    """``GPU with 0.5 of it free``, ``GPU with 10Gi of its memory free``."""
    part = f"{share.milli / WHOLE:g} of it" if share.milli else f"{format_memory(share.memory)} of its memory"
    return f"{'matching ' if share.models else ''}GPU with {part} free"


def things(want: Want, count: int) -> str:
    """``GPU``, ``GPUs``, ``1g.10gb slices`` or ``share of a GPU``."""
    if isinstance(want.gpus, GpuShare):
        return "share of a GPU"
    noun = f"{want.gpus.profile} slice" if isinstance(want.gpus, MigSlices) else "GPU"
    return noun if count == 1 else f"{noun}s"


def cpus(want: Want, units: int) -> str:
    """CPU units as a number of logical CPUs."""
    return str(units) if want.exclusive else f"{units / 1000:g}"


def cpus_name(want: Want) -> str:
    """All that is asked: ``1 CPU``, ``0.5 CPUs``."""
    number = cpus(want, want.units)
    return f"{number} CPU" if number == "1" else f"{number} CPUs"
