"""What a running container really has now, and whether two claims clash."""

from dataclasses import replace

from reconciler.model.snapshot import Container, HostView
from reconciler.model.workload import Allocation
from reconciler.planner.diff import Found


def live_allocation(found: Found) -> Allocation:
    """What it was given at birth, with what may have changed since (cores, memory, binding) read from the Engine."""
    limits, born = found.container.limits, found.ours.allocation
    exclusive = bool(limits.cpus) and not limits.nano_cpus
    return replace(
        born,
        cpus=limits.cpus,
        cpu_nodes=nodes_of(found.view, limits.cpus) or born.cpu_nodes,
        memory_nodes=limits.memory_nodes,
        exclusive=exclusive,
        millicpus=limits.nano_cpus // 1_000_000,
        memory=limits.memory,
    )


def nodes_of(view: HostView, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """Ids of the NUMA nodes that ``cpus`` lie on, sorted."""
    if view.facts is None or not cpus:
        return ()
    wanted = set(cpus)
    return tuple(sorted(node.id for node in view.facts.numa_nodes if wanted.intersection(node.cpus)))


def clash(allocation: Allocation, other: Container) -> str:
    """What of ``allocation`` another container holds now, in words; empty when nothing."""
    if not other.holds:
        return ""
    holding = other.holding
    cards = set(allocation.gpus) | {piece.uuid for piece in allocation.mig}
    if cards and (holding.all_gpus or cards & (holding.gpus | holding.mig)):
        return f"a card is held by {other.name}"
    pinned = other.limits.nano_cpus == 0 and other.ours is not None
    if allocation.exclusive and pinned and set(allocation.cpus) & set(holding.cpus):
        return f"a core is held by {other.name}"
    taken = {(port, protocol) for _, port, protocol in holding.ports}
    if any((host, protocol) in taken for _, protocol, host in allocation.ports):
        return f"a port is held by {other.name}"
    return ""
