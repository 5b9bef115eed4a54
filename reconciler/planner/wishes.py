"""The soft wishes of a workload one by one: which hosts meet each of them."""

from collections.abc import Iterator
from dataclasses import replace

from reconciler.model.workload import InstanceId, Workload
from reconciler.planner.conditions import Conditions, affinity_name, spread_name
from reconciler.planner.policies import Filter, title


def wishes(conditions: Conditions, instance: InstanceId, workload: Workload, hosts: int) -> list[Filter]:
    """Each wish that tells some of ``hosts`` from others: its name, and those that meet it best."""
    found = []
    for name, alone in _alone(workload):
        best, *rest = conditions.levels(instance, alone, hosts) or (0,)
        if rest:
            found.append((name, best))
    return found


def _alone(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """The workload with one of its wishes at a time."""
    bare = replace(workload, prefer=(), affinity=(), spread=())
    for preference in workload.prefer:
        yield f"prefer {title(preference.policy)}", replace(bare, prefer=(preference,))
    for one in workload.affinity:
        if not one.required:
            yield affinity_name(one), replace(bare, affinity=(one,))
    for spread in workload.spread:
        if not spread.required:
            yield spread_name(spread), replace(bare, spread=(spread,))
