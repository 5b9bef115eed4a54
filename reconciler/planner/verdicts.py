"""Which conditions of a running instance no longer hold. Only reported: policies bind when placing."""

from collections.abc import Iterator, Sequence

from reconciler.model.host import GpuMode
from reconciler.model.placement import Numa
from reconciler.model.resources import WholeGpus
from reconciler.model.workload import Allocation, Workload
from reconciler.planner.free import matches
from reconciler.planner.holdings import excluded
from reconciler.planner.machine import Machine
from reconciler.planner.pin import gpu_nodes, named
from reconciler.planner.policies import Filter


def violations(
    machine: Machine, bit: int, conditions: Sequence[Filter], workload: Workload, allocation: Allocation
) -> tuple[str, ...]:
    """In words, in a fixed order; ``conditions`` are those of the policy, ``bit`` the host's in them."""
    found = [f"{name} no longer holds on {machine.name}" for name, mask in conditions if not mask & bit]
    if machine.view.facts is None:
        return tuple(found)
    return (*found, *_cards(machine, workload, allocation), *_numa(machine, workload, allocation))


def _cards(machine: Machine, workload: Workload, allocation: Allocation) -> Iterator[str]:
    held = cards_of(allocation)
    there = {card.gpu.uuid: card for card in machine.topology.cards}
    if held and machine.view.spec.gpu_mode is not GpuMode.MANAGED:
        yield f"{machine.name} has gpuMode {machine.view.spec.gpu_mode}"
    for uuid in sorted(held):
        card = there.get(uuid)
        if card is None:
            yield f"{uuid} is no longer there"
        elif card.gpu.health != "ok":
            yield f"{uuid} is unhealthy: {card.gpu.health}"
        elif excluded(card.gpu, machine.view.spec):
            yield f"{uuid} is excluded"
        elif isinstance(workload.request.gpus, WholeGpus) and not matches(machine.kind_of(card), workload.request.gpus):
            yield f"{uuid} ({card.gpu.model}) is not what is asked"


def cards_of(allocation: Allocation) -> set[str]:
    """Every card that an allocation has something of."""
    shared = {allocation.share.gpu} if allocation.share else set()
    return {*allocation.gpus, *(piece.gpu for piece in allocation.mig), *shared}


def _numa(machine: Machine, workload: Workload, allocation: Allocation) -> Iterator[str]:
    if workload.numa not in {Numa.REQUIRE, Numa.REQUIRE_SOCKET}:
        return
    held = cards_of(allocation)
    cards = tuple(card for card in machine.topology.cards if card.gpu.uuid in held)
    places = machine.places_of((*gpu_nodes(machine, cards), *allocation.cpu_nodes))
    if len(places) < 2:
        return
    domains = machine.topology.domains
    sockets = {domains[place].socket for place in places}
    if workload.numa is Numa.REQUIRE or len(sockets) > 1 or None in sockets:
        nodes = tuple(sorted(node for place in places for node in domains[place].ids))
        yield f"numa: {workload.numa} no longer holds: it is on {named(nodes)}"
