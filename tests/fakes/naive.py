"""A planner that looks at every host and every node each time: the oracle that the real one is held to.

It decides for work that fits one planning node, by the rules as they are written down and not as they are coded: plain
numbers and lists, nothing kept between decisions, every slice of a MIG card a set of numbers. It knows no NVLinks.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from reconciler.model.host import GpuMode, HostState, NumaNode
from reconciler.model.placement import MatchTag, MaxPerHost, Numa
from reconciler.model.resources import GpuShare, MigSlices, WholeGpus
from reconciler.model.snapshot import HostView, Reach
from reconciler.model.workload import Workload
from reconciler.planner.ask import want_of
from reconciler.planner.free import HostKind
from reconciler.planner.score import Taken, Totals, cap_of, score

GIB = 1024**3
MEDIA = 8  # beside memory slices 0-7: the media engines, of which one slice of a card can have the use

# NVIDIA's table for cards of 40 GB: memory slices taken, and where a slice may start.
TABLE = {
    "1g.5gb": (1, (0, 1, 2, 3, 4, 5, 6)),
    "1g.10gb": (2, (0, 2, 4, 6)),
    "2g.10gb": (2, (0, 2, 4)),
    "3g.20gb": (4, (0, 4)),
    "4g.20gb": (4, (0,)),
    "7g.40gb": (8, (0,)),
    "1g.5gb+me": (1, (0, 1, 2, 3, 4, 5, 6)),
}

AREAS = {
    (profile, start): {*range(start, start + width), *([MEDIA] if profile.endswith("+me") else [])}
    for profile, (width, starts) in TABLE.items()
    for start in starts
}

Card = dict[str, Any]
Node = dict[str, Any]
Host = dict[str, Any]


def fleet_of(views: Sequence[HostView], works: Sequence[Workload] = ()) -> list[Host]:
    """What is free on every host; ``views`` are in the order of names."""
    cards = [gpu for view in views if view.facts for gpu in view.facts.gpus]
    counts = Counter((gpu.model, gpu.memory) for gpu in cards)
    common = sorted(counts, key=lambda kind: (-counts[kind], kind[1], kind[0]))
    carried = Counter(tag for view in views for tag in view.spec.tags if tag != view.spec.name)
    asked = [glob for work in works for glob in getattr(work.request.gpus, "models", ())]
    named = {model for model, _ in counts if any(fnmatchcase(model, glob) for glob in asked)}
    weights = {tag: math.ceil(len(views) / number) for tag, number in carried.items()}
    return [_host(view, common, weights, named) for view in views]


def _host(view: HostView, common: list[tuple[str, int]], weights: dict[str, int], named: set[str]) -> Host:
    spec, facts = view.spec, view.facts
    out: Host = {"view": view, "nodes": [], "memory": 0, "tags": [], "total": 0, "held": [], "ports": []}
    if facts is None:
        return out
    numa = sorted((node for node in facts.numa_nodes if node.cpus), key=lambda node: node.id)
    merged = len(numa) > 1 and any(gpu.numa_node is None for gpu in facts.gpus)
    groups = [numa] if merged else [[node] for node in numa]
    foreign = [box.holding for box in view.containers]
    off = {*spec.reserved_cpus, *(cpu for holding in foreign for cpu in holding.cpus)}
    for place, group in enumerate(groups):
        ids = [node.id for node in group]
        out["nodes"].append({
            "ids": ids,
            "idle": sum(cpu not in off for node in group for cpu in node.cpus),
            "quota": 0,
            "sharers": False,
            "memory": sum(node.memory for node in group),
            "home": place if merged else _home(place, numa),
            "nic": any(nic.rdma and (merged or nic.numa_node in ids) for nic in facts.nics),
            "cards": [],
        })  # fmt: skip
    gone = {uuid for holding in foreign for uuid in holding.gpus}
    for gpu in sorted(facts.gpus, key=lambda gpu: (gpu.pci, -1 if gpu.index is None else gpu.index, gpu.uuid)):
        at = next((node for node in out["nodes"] if gpu.numa_node in node["ids"]), out["nodes"][0])
        fit = spec.gpu_mode is GpuMode.MANAGED and gpu.health == "ok" and gpu.uuid not in gone
        busy: set[int] = set()
        for piece in gpu.mig_slices:
            busy |= AREAS[piece.profile, piece.start]
        at["cards"].append({
            "uuid": gpu.uuid,
            "kind": (common.index((gpu.model, gpu.memory)), gpu.model, gpu.memory, gpu.model in named),
            "milli": 1000 if fit and not gpu.mig_enabled else 0,
            "busy": busy,
            "idle": sorted((piece.profile, piece.start) for piece in gpu.mig_slices) if fit else [],
            "cut": fit and gpu.mig_enabled and spec.mig_create,
        })  # fmt: skip
    out["memory"] = facts.memory - spec.reserved_memory - sum(holding.memory for holding in foreign)
    out["tags"] = sorted((tag, weights[tag]) for tag in set(spec.tags) - {spec.name})
    out["total"] = len(facts.gpus)
    out["nics"] = any(nic.rdma for nic in facts.nics)
    return out


def _home(place: int, numa: Sequence[NumaNode]) -> int | None:
    """Where the memory of a node comes from: itself, or the nearest node that has some."""
    own = numa[place]
    far = dict(own.distances)

    def key(other: int) -> tuple[bool, bool, int, int, int]:
        there = numa[other]
        near = own.socket is not None and own.socket == there.socket
        return other != place, not near, far.get(there.id, 255), abs(other - place), other

    return min((other for other in range(len(numa)) if numa[other].memory), key=key, default=None)


# -- one decision


def decide(hosts: Sequence[Host], work: Workload, cap: int) -> dict[str, Any] | None:
    """The best place on one node: ``host``, ``node``, ``takes``, ``score``; None when there is none."""
    found = []
    for number, host in enumerate(hosts):
        if _admits(host, work) and (inside := _inside(host, work)):
            place, takes = inside
            found.append((_score(host, work, place, takes, cap), number, place, takes))
    if not found:
        return None
    value, number, place, takes = min(found, key=lambda one: one[:2])
    return {"score": value, "host": number, "node": place, "takes": takes}


def sums_suffice(hosts: Sequence[Host], work: Workload) -> bool:
    """Whether some host has enough of everything, wherever on it."""
    return any(
        _admits(host, work)
        and work.request.memory <= host["memory"]
        and sum(_room(node, work) for node in host["nodes"]) >= _units(work)
        and sum(_stock(node, work) for node in host["nodes"]) >= want_of(work).pieces
        and any(node["idle"] for node in host["nodes"])
        for host in hosts
    )


def take(host: Host, work: Workload, place: int, takes: Sequence[dict[str, Any]]) -> None:
    """Give a decision: the host has less of everything then."""
    node = host["nodes"][place]
    for one in takes:
        card = next(card for card in node["cards"] if card["uuid"] == one["uuid"])
        card.update(one["after"])
    if work.request.exclusive:
        node["idle"] -= _units(work)
    else:
        node["quota"] += _units(work)
        node["sharers"] = True
    host["memory"] -= work.request.memory
    if node["home"] is not None:
        home = host["nodes"][node["home"]]
        home["memory"] = max(0, home["memory"] - work.request.memory)
    host["held"].append(work.identity)
    host["ports"] += [port.host for port in work.container.ports]


def cap(views: Sequence[HostView], works: Sequence[Workload]) -> int:
    """How rich in CPUs beside its cards a host may be: all that is wanted against all that the GPU hosts have."""
    hosts = [host for host in fleet_of(views) if host["total"]]
    wanted = sum(work.instances * work.request.millicpus for work in works)
    wanted_milli = sum(work.instances * _whole_milli(work) for work in works)
    there = sum(1000 * node["idle"] for host in hosts for node in host["nodes"])
    return cap_of((wanted, wanted_milli), (there, sum(1000 * host["total"] for host in hosts)))


def _whole_milli(work: Workload) -> int:
    gpus = work.request.gpus
    if isinstance(gpus, GpuShare):
        return gpus.milli or 1
    return 1000 * gpus.count if isinstance(gpus, WholeGpus) else 0


def _admits(host: Host, work: Workload) -> bool:
    view, policy = host["view"], work.policy
    tags = {*view.spec.tags, view.spec.name}
    if view.reach is Reach.UNREACHABLE or view.facts is None or view.spec.state is not HostState.ACTIVE:
        return False
    if view.reach is Reach.STALE and work.request.gpus is not None:
        return False
    allowed = policy.tag in tags if isinstance(policy, MatchTag) else not host["tags"]
    if isinstance(policy, MaxPerHost):
        allowed = allowed and host["held"].count(work.identity) < policy.max
    if work.container.rdma and not host["nics"]:
        return False
    return allowed and not {port.host for port in work.container.ports} & set(host["ports"])


def _units(work: Workload) -> int:
    return work.request.millicpus // 1000 if work.request.exclusive else work.request.millicpus


def _room(node: Node, work: Workload) -> int:
    if not work.request.exclusive:
        return int(max(0, 1000 * node["idle"] - node["quota"]))
    kept = max(1, math.ceil(node["quota"] / 1000)) if node["sharers"] else 0
    return int(max(0, node["idle"] - kept))


def _inside(host: Host, work: Workload) -> tuple[int, list[dict[str, Any]]] | None:
    """The best node of a host with its cards: of one kind on any node, before a mixture on any."""
    if work.request.memory > host["memory"]:
        return None
    bound = work.numa in {Numa.REQUIRE, Numa.REQUIRE_SOCKET}
    for mixed in (False, True):
        found = []
        for place, node in enumerate(host["nodes"]):
            memory = host["nodes"][node["home"]]["memory"] if node["home"] is not None else 0
            poor = memory < work.request.memory
            takes = _takes(node, work, mixed=mixed)
            if takes is None or _room(node, work) < _units(work) or not node["idle"] or (bound and poor):
                continue
            rank = max((one["kind"][0] for one in takes), default=0)
            milli = sum(card["milli"] for card in node["cards"])
            far = work.container.rdma and not node["nic"]
            key = (rank, -_stock(node, work)) if takes else (milli, _room(node, work))
            found.append(((far and not mixed, poor, *(key[1:] if mixed else key), place), place, takes))
        if found:
            _, place, takes = min(found, key=lambda one: one[0])
            return place, takes
        if not isinstance(work.request.gpus, WholeGpus):
            return None
    return None


# -- cards


def _takes(node: Node, work: Workload, *, mixed: bool) -> list[dict[str, Any]] | None:
    gpus = work.request.gpus
    if isinstance(gpus, WholeGpus):
        free = sorted((card for card in node["cards"] if _whole(card, gpus)), key=lambda card: card["kind"][0])
        kinds = sorted({card["kind"] for card in free})
        for sets in [free] if mixed else [[card for card in free if card["kind"] == kind] for kind in kinds]:
            if len(sets) >= gpus.count:
                return [_change(card, milli=0) | {"milli": 1000} for card in sets[: gpus.count]]
        return None
    if isinstance(gpus, GpuShare):
        shares = [
            (card["milli"] - part, card["kind"], part, card) for card in node["cards"] if (part := _part(card, gpus))
        ]
        if not shares:
            return None
        rest, _, part, card = min(shares, key=lambda one: one[:3])
        return [_change(card, milli=rest) | {"milli": part, "waste": rest}]
    if isinstance(gpus, MigSlices):
        return _slices(node, gpus)
    return []


def _change(card: Card, **after: Any) -> dict[str, Any]:
    return {"uuid": card["uuid"], "kind": card["kind"], "after": after, "waste": 0, "slice": None}


def _sold(card: Card) -> int:
    return int(-(-card["kind"][2] // GIB)) * GIB


def _named(card: Card, models: Sequence[str]) -> bool:
    return not models or any(fnmatchcase(card["kind"][1], model) for model in models)


def _whole(card: Card, gpus: WholeGpus) -> bool:
    return bool(card["milli"] == 1000 and _named(card, gpus.models) and _sold(card) >= gpus.min_memory)


def _part(card: Card, gpus: GpuShare) -> int:
    """Thousandths of a card that a share takes; 0 when it cannot be had of it."""
    exact = Fraction(1000 * gpus.memory, _sold(card))
    even = not gpus.milli and _sold(card) % gpus.memory == 0  # then as many fit as the memory has room for
    part = gpus.milli or (math.floor(exact) if even else math.ceil(exact))
    return part if _named(card, gpus.models) and part <= card["milli"] else 0


def _stock(node: Node, work: Workload) -> int:
    gpus = work.request.gpus
    if isinstance(gpus, WholeGpus):
        return sum(_whole(card, gpus) for card in node["cards"])
    if isinstance(gpus, GpuShare):
        return sum(card["milli"] // part for card in node["cards"] if (part := _part(card, gpus)))
    if isinstance(gpus, MigSlices):
        count = 0
        left = {**node, "cards": [{**card} for card in node["cards"]]}
        while pieces := _slices(left, MigSlices(gpus.profile)):
            count += 1
            next(card for card in left["cards"] if card["uuid"] == pieces[0]["uuid"]).update(pieces[0]["after"])
        return count
    return 0


def _possible(busy: set[int]) -> int:
    """How many placements of any profile are still possible."""
    return sum(area.isdisjoint(busy) for area in AREAS.values())


def _slices(node: Node, gpus: MigSlices) -> list[dict[str, Any]] | None:
    """Slices one by one: one that exists on the card with the fewest, else one to be cut where that costs least."""
    cards = [{**card} for card in node["cards"]]
    out = []
    for _ in range(gpus.count):
        options = [option for at, card in enumerate(cards) for option in _options(at, card, gpus.profile)]
        if not options:
            return None
        cost, _, at, start, after = min(options, key=lambda one: one[:3])
        cards[at].update(after)
        out.append(_change(cards[at], **after) | {"slice": (gpus.profile, start), "waste": cost[0]})
    return out


def _options(at: int, card: Card, profile: str) -> Iterator[tuple[Any, ...]]:
    busy: set[int] = card["busy"]
    state = (card["kind"], sorted(busy, reverse=True), card["idle"], card["cut"])
    starts = [start for name, start in card["idle"] if name == profile]
    if starts:
        rest = [one for one in card["idle"] if one != (profile, min(starts))]
        yield (0, len(card["idle"]), min(starts)), state, at, min(starts), {"idle": rest}
        return
    if not card["cut"]:
        return
    cuts = []
    for start in TABLE[profile][1]:
        area = AREAS[profile, start]
        if not area & busy:
            cuts.append((_possible(busy) - _possible(busy | area), -start, busy | area))
    if cuts:
        lost, start, after = min(cuts, key=lambda cut: cut[:2])
        yield (100 + lost, _possible(busy), start), state, at, -start, {"busy": after}


# -- score


def _score(host: Host, work: Workload, place: int, takes: Sequence[dict[str, Any]], cap: int) -> tuple[int, ...]:
    """The comparison itself is the planner's; what it compares is counted here."""
    after = {**host, "nodes": [{**node, "cards": [{**card} for card in node["cards"]]} for node in host["nodes"]],
             "held": [], "ports": []}  # fmt: skip
    take(after, work, place, takes)
    kind = HostKind((), tuple(host["tags"]), host["total"], (), GpuMode.MANAGED)
    rank = max((one["kind"][0] for one in takes), default=0)
    waste = sum(one["waste"] for one in takes)
    scarce = max((one["kind"][0] + 1 for one in takes if one["kind"][3]), default=0)
    taken = Taken(0, scarce, rank, waste)
    return score(kind, want_of(work), _totals(host), _totals(after), host["memory"], taken, cap)


def _totals(host: Host) -> Totals:
    nodes = host["nodes"]
    cards = [card for node in nodes for card in node["cards"]]
    return Totals(
        millicpus=sum(1000 * node["idle"] - node["quota"] for node in nodes),
        idle=sum(node["idle"] for node in nodes),
        milli=sum(card["milli"] for card in cards),
        cards=sum(card["milli"] == 1000 for card in cards),
        pieces=0,
    )
