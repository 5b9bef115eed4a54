"""Workloads → the instances that should exist."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reconciler.model.desired import Desired
from reconciler.model.host import HostState
from reconciler.model.memory import Place
from reconciler.model.snapshot import HostView, Snapshot
from reconciler.model.workload import InstanceId, Kind, Workload
from reconciler.planner.memo import Memo

Admits = Callable[[Workload, HostView], bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Every wanted instance with its workload, and every workload of git by identity."""

    instances: Mapping[InstanceId, Workload]
    workloads: Mapping[str, Workload]


def expand(desired: Desired, snapshot: Snapshot, admits: Admits) -> Wanted:
    """The instances of a commit. ``admits`` says whether a local service's policy wants a host."""
    instances: dict[InstanceId, Workload] = {}
    for workload in desired.workloads:
        for instance in _instances(workload, snapshot, admits):
            instances[instance] = workload
    return Wanted(instances, {workload.identity: workload for workload in desired.workloads})


def _instances(workload: Workload, snapshot: Snapshot, admits: Admits) -> list[InstanceId]:
    if workload.kind is Kind.TASK:
        # A suspended task stays wanted: what runs goes on, and what does not run is not started (see diff).
        return [InstanceId(Kind.TASK, workload.name, "0", workload.run)]
    if workload.suspend:
        return []
    if workload.kind is Kind.APP:
        return _copies(workload)
    return [
        InstanceId(Kind.LOCAL_SERVICE, workload.name, view.spec.name)
        for view in snapshot.hosts
        if admits(workload, view) and not _drained_empty(view)
    ]


def _app_instances(workload: Workload) -> list[InstanceId]:
    return [InstanceId(Kind.APP, workload.name, str(index)) for index in range(workload.instances)]


_copies = Memo(_app_instances)


def _drained_empty(view: HostView) -> bool:
    """Whether a drained host has been left by everything else: local services stop last."""
    if view.spec.state is not HostState.DRAINED:
        return False
    return not any(
        container.ours and container.ours.instance.kind is not Kind.LOCAL_SERVICE and container.running
        for container in view.containers
    )


def bound_to(instance: InstanceId, workload: Workload, last: Place | None) -> str | None:
    """The only host an instance may be on: that of a local service, or the one where its named volume is."""
    if instance.kind is Kind.LOCAL_SERVICE:
        return instance.index
    return last.host if last and any(volume.volume for volume in workload.container.volumes) else None
