"""Which conditions of a running instance no longer hold. Only reported: policies bind when placing."""

from collections.abc import Iterator, Sequence

from reconciler.model.host import GpuMode
from reconciler.model.placement import Numa
from reconciler.model.resources import WholeGpus
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Allocation, Workload
from reconciler.planner.free import CardKind, matches
from reconciler.planner.holdings import excluded
from reconciler.planner.memo import Memo
from reconciler.planner.pin import gpu_nodes, named
from reconciler.planner.topology import known_topology, places_of


def unmet(view: HostView, conditions: Sequence[str]) -> tuple[str, ...]:
    """The conditions of a policy, by name, that a host no longer meets."""
    return tuple(f"{name} no longer holds on {view.spec.name}" for name in conditions)


def _broken(view: HostView, workload: Workload, allocation: Allocation) -> tuple[str, ...]:
    if view.facts is None:
        return ()
    return (*_cards(view, workload, allocation), *_numa(view, workload, allocation))


broken = Memo(_broken)
"""What of its cards and nodes no longer is as asked, in a fixed order: (view, workload, allocation) → lines."""


def _cards(view: HostView, workload: Workload, allocation: Allocation) -> Iterator[str]:
    held, name = cards_of(allocation), view.spec.name
    there = {card.gpu.uuid: card.gpu for card in known_topology(view.facts).cards}
    if held and view.spec.gpu_mode is not GpuMode.MANAGED:
        yield f"{name} has gpuMode {view.spec.gpu_mode}"
    for uuid in sorted(held):
        gpu, asked = there.get(uuid), workload.request.gpus
        if gpu is None:
            yield f"{uuid} is no longer there"
        elif gpu.health != "ok":
            yield f"{uuid} is unhealthy: {gpu.health}"
        elif excluded(gpu, view.spec):
            yield f"{uuid} is excluded"
        elif isinstance(asked, WholeGpus) and not matches(CardKind(0, gpu.model, gpu.memory), asked):
            yield f"{uuid} ({gpu.model}) is not what is asked"


def cards_of(allocation: Allocation) -> set[str]:
    """Every card that an allocation has something of."""
    shared = {allocation.share.gpu} if allocation.share else set()
    return {*allocation.gpus, *(piece.gpu for piece in allocation.mig), *shared}


def _numa(view: HostView, workload: Workload, allocation: Allocation) -> Iterator[str]:
    if workload.numa not in {Numa.REQUIRE, Numa.REQUIRE_SOCKET}:
        return
    held, topology = cards_of(allocation), known_topology(view.facts)
    cards = tuple(card for card in topology.cards if card.gpu.uuid in held)
    places = places_of(topology, (*gpu_nodes(topology, cards), *allocation.cpu_nodes))
    if len(places) < 2:
        return
    domains = topology.domains
    sockets = {domains[place].socket for place in places}
    if workload.numa is Numa.REQUIRE or len(sockets) > 1 or None in sockets:
        nodes = tuple(sorted(node for place in places for node in domains[place].ids))
        yield f"numa: {workload.numa} no longer holds: it is on {named(nodes)}"
