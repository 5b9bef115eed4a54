"""What a running container really has now."""

from dataclasses import replace

from reconciler.model.host import HostFacts
from reconciler.model.limits import limits_for, update_fields
from reconciler.model.plan import Existing
from reconciler.model.snapshot import Container
from reconciler.model.workload import Allocation, Workload
from reconciler.planner.found import Found
from reconciler.planner.memo import Memo


def live_allocation(found: Found) -> Allocation:
    """What it was given at birth, with what may have changed since (cores, memory, binding) read from the Engine."""
    return _LIVE(found.container, found.view.facts)


def _live(container: Container, facts: HostFacts | None) -> Allocation:
    assert container.ours is not None  # noqa: S101 -- only ours are found
    limits, born = container.limits, container.ours.allocation
    exclusive = bool(limits.cpus) and not limits.nano_cpus
    return replace(
        born,
        cpus=limits.cpus,
        cpu_nodes=nodes_of(facts, limits.cpus) or born.cpu_nodes,
        memory_nodes=limits.memory_nodes,
        exclusive=exclusive,
        millicpus=limits.nano_cpus // 1_000_000,
        memory=limits.memory,
    )


_LIVE = Memo(_live)


def nodes_of(facts: HostFacts | None, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """Ids of the NUMA nodes that ``cpus`` lie on, sorted."""
    if facts is None or not cpus:
        return ()
    wanted = set(cpus)
    return tuple(sorted(node.id for node in facts.numa_nodes if wanted.intersection(node.cpus)))


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


limits_of = Memo(limits_for)
"""What inspect should show: (workload, allocation) → limits."""


def _settled(one: Found, workload: Workload, cluster: str) -> bool:
    """Whether a container has its name, and exactly the cores and limits of its own that git wants."""
    live, request = live_allocation(one), workload.request
    own = request.exclusive and live.exclusive and len(live.cpus) == request.cores and one.view.facts is not None
    named = one.container.name == one.ours.instance.container_name(cluster, one.ours.generation)
    return own and named and not update_fields(limits_for(workload, live), one.container.limits)


settled = Memo(_settled)
