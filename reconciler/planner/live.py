"""What a running container really has now."""

from dataclasses import replace

from reconciler.model.plan import Existing
from reconciler.model.snapshot import HostView
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


def existing(one: Found | None) -> Existing | None:
    """What a plan tells of a container that is there."""
    if one is None:
        return None
    box = one.container
    return Existing(
        box.id,
        box.name,
        one.host,
        one.ours.generation,
        live_allocation(one),
        one.ours.owner,
        box.started_at,
        box.state,
        one.ours.commit,
    )
