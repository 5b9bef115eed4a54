"""Why here, why not there: the filters that removed hosts, the best offers, the nearest host. All of it is data."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from reconciler.model.placement import Numa
from reconciler.model.plan import Nearest, Pending
from reconciler.model.resources import GpuShare, MigSlices, WholeGpus, format_memory
from reconciler.model.workload import Allocation, InstanceId
from reconciler.planner.ask import Ask, Placement
from reconciler.planner.cards import stock
from reconciler.planner.free import HostKind, Want
from reconciler.planner.gates import closed, gate_words, turned_away
from reconciler.planner.lacks import STAGES, Lack, cpus_name, share_name, things
from reconciler.planner.machine import Machine
from reconciler.planner.pin import named, pin
from reconciler.planner.policies import Filter, own_tags
from reconciler.planner.ports import fixed_ports
from reconciler.planner.score import Score, words
from reconciler.planner.states import Offer
from reconciler.planner.topology import bits
from reconciler.planner.versus import ahead, remarks

COUNT_TO = 100  # hosts that fit are counted so far in a line of a plan


@dataclass(frozen=True, slots=True)
class Offered:
    """One host that fits: the NUMA nodes it would use, its score in words, and what it would give.

    ``wishes`` are the soft wishes that it meets and that not every host meets.
    """

    host: str
    nodes: str
    score: str
    allocation: Allocation = field(default_factory=Allocation)
    wishes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rival:
    """The host that came second, and what the winner has before it; with ``better``, what it has before the winner."""

    host: str
    words: str
    better: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """What is asked, or what a host or one of its planning nodes has free. ``pieces`` are matching cards, or parts."""

    name: str
    pieces: int
    millicpus: int
    memory: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an instance goes where it goes.

    ``removed`` names the hosts that each filter removed, in filter order. ``offers`` are the best hosts that fit, best
    first, five at most of ``fitting``. Either ``winner`` and ``why`` say where it goes and ``rival`` what decided, or
    ``pending`` says why nowhere and ``rooms`` what was asked and what the nearest host has (the whole host, then its
    nodes), or ``note`` why no host was looked for.
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
    note: str = ""
    rival: Rival | None = None
    rooms: tuple[Room, ...] = ()


Short = tuple[str, int]
"""The filter that a host fails, and how much is missing there."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Hosts by the filter that removed them (masks, in filter order), and the nearest of them.

    ``closed`` are the hosts that the policy wants and that take no work now, where there is no other.
    """

    removed: tuple[Filter, ...]
    nearest: tuple[int, Lack] | None
    closed: tuple[Filter, ...] = ()


def diagnose(
    gates: Sequence[Filter],
    hosts: int,
    answers: Iterable[tuple[int, Short | None]],
    lack_at: Callable[[int], Lack],
    asked_port: Lack | None,
) -> Diagnosis:
    """Sort every host of ``hosts`` by what removed it. ``answers`` are of the hosts that passed all gates.

    ``lack_at`` tells in full what one host lacks. A host that lacks nothing and yet is asked about failed on its ports.
    """
    removed: list[Filter] = []
    shut = closed(gates, hosts)
    for name, passing in gates:
        if gone := hosts & ~passing:
            removed.append((name, gone))
        hosts &= passing
    stages = dict.fromkeys(STAGES, 0)
    nearest: tuple[int, int, int] | None = None
    for among, answer in answers:
        short = answer or ((asked_port.stage, asked_port.missing) if asked_port else None)
        if short is None:
            continue
        stages[short[0]] |= among
        key = (-STAGES.index(short[0]), short[1], (among & -among).bit_length() - 1)
        if nearest is None or key < nearest:
            nearest = key
    removed += [(stage, gone) for stage, gone in stages.items() if gone]
    if nearest:
        at_ports = asked_port is not None and -nearest[0] == STAGES.index("ports")
        return Diagnosis(tuple(removed), (nearest[2], asked_port if at_ports and asked_port else lack_at(nearest[2])))
    if not removed:
        return Diagnosis((), None)
    name, gone = (shut or removed)[-1]
    return Diagnosis(tuple(removed), ((gone & -gone).bit_length() - 1, Lack(name, 1, gate_words(name))), shut)


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
        return f" ({', '.join(own_tags(machine.view))})"
    if lack.stage != "gpus":
        return ""
    held = machine.base.withheld if isinstance(want.gpus, WholeGpus | GpuShare) else {}
    if isinstance(want.gpus, MigSlices):
        held = machine.slices_full()
    notes = [
        _card_note(card.gpu.index, held[card.gpu.uuid]) for card in machine.topology.cards if card.gpu.uuid in held
    ]
    if error := machine.facts.driver_error:
        notes.append(f"driver: {error}")
    return f" ({'; '.join(notes)})" if notes else ""


def _card_note(index: int | None, reason: str) -> str:
    return reason if index is None else f"GPU {index}: {reason}"


def _reason(ask: Ask, want: Want, kinds: Sequence[HostKind], diagnosis: Diagnosis, nearest: Nearest | None) -> str:
    if ask.only:
        return nearest.sentence if nearest else f"there is no host {ask.only}"
    if not diagnosis.nearest:
        return "there are no hosts"
    return turned_away(diagnosis.closed) or _lacking(want, kinds, diagnosis.nearest[1])


def _lacking(want: Want, kinds: Sequence[HostKind], lack: Lack) -> str:
    """What no host has, by what the nearest lacks."""
    match lack.stage:
        case "gpuMode passthrough":
            return "no host has GPUs and gpuMode: passthrough"
        case "rdma":
            return "no host that may take it has an RDMA network card"
        case "gpus":
            return _gpus_reason(want)
        case "cpus":
            return f"no host has {cpus_name(want)} free: {_kept(lack) or _largest(kinds)}"
        case "memory":
            return f"no host has {format_memory(want.memory)} of free memory"
        case "numa":
            return _numa_reason(want, kinds, lack)
        case "ports":
            return f"no host that fits has {lack.words} free"
        case gate:
            return f"no host passes {gate}"


def _gpus_reason(want: Want) -> str:
    if isinstance(want.gpus, GpuShare):
        return f"no host has a {share_name(want.gpus)}"
    matching = isinstance(want.gpus, WholeGpus) and (want.gpus.models or want.gpus.min_memory)
    which = " on matching cards" if matching else ""
    return f"no host has {want.pieces} free {things(want, want.pieces)}{which}"


def _kept(lack: Lack) -> str:
    """That idle CPUs are there, and why they are not given away."""
    if not lack.kept:
        return ""
    return "the last one stays for shared work" if lack.kept == 1 else f"the last {lack.kept} stay for shared work"


def _largest(kinds: Sequence[HostKind]) -> str:
    host = max((sum(kind.cpus) for kind in kinds), default=0)
    node = max((count for kind in kinds for count in kind.cpus), default=0)
    return f"the largest host has {host}, the largest NUMA node {node}"


def _numa_reason(want: Want, kinds: Sequence[HostKind], lack: Lack) -> str:
    node = max((count for kind in kinds for count in kind.cpus), default=0)
    if want.numa is Numa.REQUIRE and want.exclusive and want.units > node:
        are = "is" if want.units == 1 else "are"
        return f"{cpus_name(want)} {are} asked of one NUMA node, and the largest has {node}"
    pieces = f"{want.pieces} {things(want, want.pieces)}, " if want.pieces else ""
    where = "NUMA node" if want.numa is Numa.REQUIRE else "socket"
    kept = f": {_kept(lack)}" if lack.kept else ""
    return f"no {where} has {pieces}{cpus_name(want)} and {format_memory(want.memory)} free at once{kept}"


def offered(machine: Machine, offer: Offer, want: Want, wishes: tuple[str, ...] = ()) -> Offered:
    """One line of an explanation."""
    ids = [node for place in offer.used for node in machine.topology.domains[place].ids]
    score = ", ".join([words(offer.score, want), *remarks(offer.score)])
    allocation, _ = pin(machine, offer, want, None)
    return Offered(machine.name, named(tuple(sorted(ids))) if ids else "", score, allocation, wishes)


def rival_of(winner: str | None, offers: Sequence[tuple[Offered, int, Score]]) -> Rival | None:
    """What decided between the winner and the next best; None where there was no other.

    ``offers`` are best first, each with how far it is behind in soft wishes, and its score.
    """
    own = next((one for one in offers if one[0].host == winner), None)
    if own is None or len(offers) < 2:
        return None
    better = offers[0] is not own
    first, then = (offers[0], own) if better else (own, offers[1])
    words = ahead(first[2], then[2]) if first[1] == then[1] else _wished(first[0], then[0])
    return Rival(first[0].host if better else then[0].host, words, better)


def _wished(first: Offered, then: Offered) -> str:
    more = [wish for wish in first.wishes if wish not in then.wishes]
    return f"meets {', '.join(more)}" if more else "meets more of its soft wishes"


def rooms(machines: Sequence[Machine], hosts: int, outcome: Placement | Pending, want: Want) -> tuple[Room, ...]:
    """What is asked, what the nearest host has of it, and what each of its nodes has.

    Nothing where there is no such host, or it is not of ``hosts``, those that passed every gate.
    """
    nearest = outcome.nearest.host if isinstance(outcome, Pending) and outcome.nearest else None
    machine = next((machines[place] for place in bits(hosts) if machines[place].name == nearest), None)
    if machine is None:
        return ()
    unit = 1000 if want.exclusive else 1
    nodes = [
        Room(named(domain.ids), stock(node.cards, want), want.capacity(node) * unit, node.memory)
        for domain, node in zip(machine.topology.domains, machine.nodes_free(), strict=True)
    ]
    pieces, millicpus = sum(one.pieces for one in nodes), sum(one.millicpus for one in nodes)
    asked = Room("asked", want.pieces, want.millicpus, want.memory)
    return (asked, Room(machine.name, pieces, millicpus, max(0, machine.memory)), *nodes)


def names(machines: Sequence[Machine], hosts: int) -> tuple[str, ...]:
    """Names of a set of hosts, in order."""
    return tuple(machines[place].name for place in bits(hosts))


def why(offer: Offer, want: Want, fitting: int, kept: str) -> str:
    """One line: why this host."""
    several = f"best of {fitting}{'+' if fitting == COUNT_TO else ''} hosts that fit"
    best = kept or ("the only host that fits" if fitting == 1 else several)
    return f"{best}: {words(offer.score, want)}"
