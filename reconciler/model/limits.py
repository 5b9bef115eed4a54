"""The *update* fields: what a container's limits should be, and the Engine's update call that makes them so."""

from typing import Any

from reconciler.model.resources import format_cpus
from reconciler.model.snapshot import Limits
from reconciler.model.workload import Allocation, Workload


def limits_for(workload: Workload, allocation: Allocation) -> Limits:
    """What inspect should show of a container of ``workload`` that was given ``allocation``."""
    request = workload.request
    return Limits(
        cpus=allocation.cpus,
        memory_nodes=allocation.memory_nodes,
        memory=request.memory,
        nano_cpus=0 if request.exclusive else request.millicpus * 1_000_000,
        pids=workload.pids,
        restart=workload.restart,
    )


def update_fields(want: Limits, have: Limits) -> tuple[tuple[str, Any], ...]:
    """Arguments of the Engine's update call, in its own names, that turn ``have`` into ``want``; empty when equal.

    A cpuset or a memory binding that nobody wants any more is left alone: the Engine ignores its clearing.
    """
    fields: list[tuple[str, Any]] = []
    if want.cpus and want.cpus != have.cpus:
        fields.append(("CpusetCpus", format_cpus(want.cpus)))
    if want.memory_nodes and want.memory_nodes != have.memory_nodes:
        fields.append(("CpusetMems", format_cpus(want.memory_nodes)))
    if want.memory != have.memory:
        fields += [("Memory", want.memory), ("MemorySwap", 2 * want.memory)]
    if want.nano_cpus != have.nano_cpus:
        fields.append(("NanoCpus", want.nano_cpus))
    if want.pids != have.pids:
        fields.append(("PidsLimit", -1 if want.pids is None else want.pids))
    if want.restart != have.restart:
        fields.append(("RestartPolicy", {"Name": want.restart, "MaximumRetryCount": 0}))
    return tuple(fields)
