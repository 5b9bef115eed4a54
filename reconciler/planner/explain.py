"""Why here, why not there: the filters that removed hosts, the best offers, the nearest host. All of it is data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.model.placement import Numa
from reconciler.model.plan import Nearest, Pending
from reconciler.model.resources import WholeGpus, format_memory
from reconciler.model.workload import InstanceId
from reconciler.planner.ask import Ask
from reconciler.planner.fit import Offer
from reconciler.planner.free import HostKind, Want
from reconciler.planner.lacks import STAGES, Lack, cores, things
from reconciler.planner.machine import Machine
from reconciler.planner.pin import named
from reconciler.planner.policies import Filter, own_tags
from reconciler.planner.ports import fixed_ports
from reconciler.planner.score import words
from reconciler.planner.topology import bits


@dataclass(frozen=True, slots=True)
class Offered:
    """One host that fits: the NUMA nodes it would use, and its score in words."""

    host: str
    nodes: str
    score: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an instance goes where it goes.

    ``removed`` names the hosts that each filter removed, in filter order. ``offers`` are the best hosts that fit, best
    first, five at most of ``fitting``. Either ``winner`` and ``why`` say where it goes, or ``pending`` why nowhere.
    """

    instance: InstanceId
    hosts: int
    removed: tuple[tuple[str, tuple[str, ...]], ...]
    offers: tuple[Offered, ...]
    fitting: int
    winner: str | None = None
    why: str = ""
    warnings: tuple[str, ...] = ()
    pending: Pending | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Hosts by the filter that removed them (masks, in filter order), and the nearest of them."""

    removed: tuple[Filter, ...]
    nearest: tuple[int, Lack] | None


def diagnose(
    gates: Sequence[Filter], hosts: int, answers: Iterable[tuple[int, Offer | Lack]], asked_port: Lack | None
) -> Diagnosis:
    """Sort every host of ``hosts`` by what removed it. ``answers`` are of the hosts that passed all gates.

    A host that makes an offer and yet is asked about here failed on its ports.
    """
    removed: list[Filter] = []
    for name, passing in gates:
        if gone := hosts & ~passing:
            removed.append((name, gone))
        hosts &= passing
    stages = dict.fromkeys(STAGES, 0)
    nearest: tuple[tuple[int, int, int], Lack] | None = None
    for among, answer in answers:
        lack = answer if isinstance(answer, Lack) else asked_port
        if lack is None:
            continue
        stages[lack.stage] |= among
        key = (-STAGES.index(lack.stage), lack.missing, (among & -among).bit_length() - 1)
        if nearest is None or key < nearest[0]:
            nearest = (key, lack)
    removed += [(stage, gone) for stage, gone in stages.items() if gone]
    if nearest:
        return Diagnosis(tuple(removed), (nearest[0][2], nearest[1]))
    if not removed:
        return Diagnosis((), None)
    name, gone = removed[-1]
    return Diagnosis(tuple(removed), ((gone & -gone).bit_length() - 1, Lack(name, 1, _gate_words(name))))


def _gate_words(name: str) -> str:
    known = {
        "unreachable": "an answer from its Engine",
        "no facts yet": "facts",
        "drained": "state: active (it is drained)",
        "cordoned": "state: active (it is cordoned)",
        "stale facts": "fresh facts",
        "NO_TAG": "freedom from tags",
    }
    if name.startswith("MATCH_TAG "):
        return f"the tag {name.removeprefix('MATCH_TAG ')}"
    if name == "ONE_PER_HOST" or name.startswith("MAX_N_PER_HOST"):
        return f"room under {name}"
    return known.get(name, f"what {name} asks")


def port_lack(ask: Ask) -> Lack | None:
    """What a host lacks that fits but for its ports."""
    fixed = fixed_ports(ask.workload.container)
    if fixed:
        names = ", ".join(str(port) for _, port, _ in fixed)
        return Lack("ports", len(fixed), f"host port {names}" if len(fixed) == 1 else f"host ports {names}")
    return Lack("ports", 1, "a free host port") if ask.workload.container.ports else None


def pending(
    ask: Ask, want: Want, machines: Sequence[Machine], kinds: Sequence[HostKind], diagnosis: Diagnosis
) -> Pending:
    """The answer to an ask that fits nowhere. ``kinds`` are those of the hosts that passed every gate."""
    nearest = None
    if diagnosis.nearest:
        place, lack = diagnosis.nearest
        machine = machines[place]
        nearest = Nearest(machine.name, lack.words + _remarks(machine, lack, want))
    return Pending(
        instance=ask.instance,
        reason=_reason(ask, want, kinds, diagnosis, nearest),
        removed=tuple((name, hosts.bit_count()) for name, hosts in diagnosis.removed),
        nearest=nearest,
    )


def _remarks(machine: Machine, lack: Lack, want: Want) -> str:
    """Why cards that are there cannot be had; which tags close a host."""
    if lack.stage == "NO_TAG":
        return f" (it has {', '.join(own_tags(machine.view))})"
    if lack.stage != "gpus":
        return ""
    held = machine.base.withheld if isinstance(want.gpus, WholeGpus) else {}
    notes = [
        _card_note(card.gpu.index, held[card.gpu.uuid]) for card in machine.topology.cards if card.gpu.uuid in held
    ]
    if error := machine.facts.driver_error:
        notes.append(f"driver: {error}")
    return f" ({'; '.join(notes)})" if notes else ""


def _card_note(index: int | None, reason: str) -> str:
    return reason if index is None else f"GPU {index}: {reason}"


def _reason(ask: Ask, want: Want, kinds: Sequence[HostKind], diagnosis: Diagnosis, nearest: Nearest | None) -> str:
    if ask.only and nearest:
        return f"{ask.only} lacks {nearest.lacks}"
    if ask.only:
        return f"there is no host {ask.only}"
    if not diagnosis.nearest:
        return "there are no hosts"
    match diagnosis.nearest[1].stage:
        case "gpuMode passthrough":
            return "no host has GPUs and gpuMode: passthrough"
        case "gpus":
            matching = isinstance(want.gpus, WholeGpus) and (want.gpus.models or want.gpus.min_memory)
            which = " on matching cards" if matching else ""
            return f"no host has {want.pieces} free {things(want, want.pieces)}{which}"
        case "cpus":
            return f"no host has {_cores(want)} free: {_largest(kinds)}"
        case "memory":
            return f"no host has {format_memory(want.memory)} of free memory"
        case "numa":
            return _numa_reason(want, kinds)
        case "ports":
            return f"no host that fits has {diagnosis.nearest[1].words} free"
        case gate:
            return f"no host passes {gate}"


def _cores(want: Want) -> str:
    number = cores(want, want.units)
    return f"{number} core" if number == "1" else f"{number} cores"


def _largest(kinds: Sequence[HostKind]) -> str:
    host = max((sum(kind.cpus) for kind in kinds), default=0)
    node = max((count for kind in kinds for count in kind.cpus), default=0)
    return f"the largest host has {host}, the largest NUMA node {node}"


def _numa_reason(want: Want, kinds: Sequence[HostKind]) -> str:
    node = max((count for kind in kinds for count in kind.cpus), default=0)
    if want.numa is Numa.REQUIRE and want.exclusive and want.units > node:
        return f"{_cores(want)} are asked of one NUMA node, and the largest has {node}"
    pieces = f"{want.pieces} {things(want, want.pieces)}, " if want.pieces else ""
    where = "NUMA node" if want.numa is Numa.REQUIRE else "socket"
    return f"no {where} has {pieces}{_cores(want)} and {format_memory(want.memory)} free at once"


def offered(machine: Machine, offer: Offer, want: Want) -> Offered:
    """One line of an explanation."""
    ids = [node for place in offer.used for node in machine.topology.domains[place].ids]
    return Offered(machine.name, named(tuple(sorted(ids))) if ids else "", words(offer.score, want))


def names(machines: Sequence[Machine], hosts: int) -> tuple[str, ...]:
    """Names of a set of hosts, in order."""
    return tuple(machines[place].name for place in bits(hosts))


def why(offer: Offer, want: Want, fitting: int, kept: str) -> str:
    """One line: why this host."""
    best = kept or ("the only host that fits" if fitting == 1 else f"best of {fitting} hosts that fit")
    return f"{best}: {words(offer.score, want)}"
