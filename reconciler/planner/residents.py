"""Who holds what once a plan is carried out, and what of it may be started again elsewhere."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from reconciler.model.plan import ActionKind, Plan
from reconciler.model.snapshot import Reach, Snapshot
from reconciler.model.workload import Allocation, InstanceId, Kind, Workload
from reconciler.planner.found import found_by_instance
from reconciler.planner.live import live_allocation

GOING = {ActionKind.STOP, ActionKind.REMOVE}


class Resident(NamedTuple):
    """Something that holds: its key in the fleet, where, what; ``work`` is set where it may be moved."""

    key: str
    instance: InstanceId
    host: str
    allocation: Allocation
    work: Workload | None


def residents_of(snapshot: Snapshot, plan: Plan, workloads: Mapping[str, Workload]) -> Iterator[Resident]:
    """Everything of ours that holds once the plan is carried out."""
    going = {one.instance for one in plan.actions if one.kind in GOING or (one.generation and one.allocation)}
    unsettled = {one.instance for part in (plan.actions, plan.waiting, plan.pending) for one in part if one.instance}
    leaned_on = _leaned_on(workloads.values())
    for instance, group in sorted(found_by_instance(snapshot).items(), key=lambda one: one[0].sort_key):
        settled = len(group) == 1 and instance not in unsettled and instance.workload not in leaned_on
        for one in group:
            if one.container.holds and instance not in going:
                free = settled and one.container.state == "running" and one.view.reach is Reach.KNOWN
                work = _restartable(workloads.get(instance.workload)) if free else None
                yield Resident(one.container.id, instance, one.host, live_allocation(one), work)
    for action in plan.actions:
        if action.kind not in GOING and action.generation and action.allocation:
            yield Resident(str(action.instance), action.instance, action.host, action.allocation, None)


def _leaned_on(workloads: Iterable[Workload]) -> set[str]:
    """Workloads that others must be near: to move them would leave those behind."""
    return {
        one.workload
        for work in workloads
        for one in work.affinity
        if one.required and not one.apart and one.workload != work.identity
    }


def _restartable(work: Workload | None) -> Workload | None:
    """The workload, if its instances may be stopped here and started there."""
    if work is None or work.kind is not Kind.APP or work.suspend:
        return None
    return None if any(volume.volume for volume in work.container.volumes) else work
