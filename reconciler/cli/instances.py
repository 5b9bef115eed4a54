"""``reconcile status`` and ``reconcile explain``: instances, as they stand and why."""

from difflib import get_close_matches

from reconciler.cli.output import print_json, print_text, screen
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings
from reconciler.cycle import Pass
from reconciler.errors import UsageError
from reconciler.model.snapshot import Reach
from reconciler.model.workload import InstanceId, Kind, Workload
from reconciler.planner.ask import Ask
from reconciler.planner.diff import found_by_instance
from reconciler.planner.explain import Explanation
from reconciler.planner.live import live_allocation
from reconciler.planner.place import Fleet
from reconciler.report.explain import explain_json, explain_text
from reconciler.report.status import status_json, status_text
from reconciler.rules import compile_rule

DONE, ERROR = 0, 1


def status(settings: Settings) -> int:
    """What runs, changes, is pending and waits; 1 when a host could not be looked at or work has failed."""
    seen = Wiring(settings).cycle().look()
    if settings.json:
        print_json(status_json(seen.plan, seen.snapshot, settings.selects))
    else:
        where = screen(settings)
        print_text(
            status_text(
                seen.plan,
                seen.snapshot,
                settings.selects,
                width=where.width,
                color=where.color,
                wide=settings.wide,
            )
        )
    silent = any(view.reach is Reach.UNREACHABLE for view in seen.snapshot.hosts)
    return ERROR if silent or seen.errors else DONE


def explain(settings: Settings, argument: str) -> int:
    """Why here, or why nowhere, of an instance or of all of a workload; chosen again with everything else in place."""
    if argument.partition("/")[0] not in set(Kind) or "/" not in argument:
        raise UsageError(f"not an instance or a workload: {argument!r} (write app/NAME or app/NAME/INDEX)")
    seen = Wiring(settings).cycle().look()
    found = [explanation(seen, instance) for instance in _meant(seen, argument)]
    if settings.json:
        documents = [explain_json(one, seen.plan) for one in found]
        print_json(documents[0] if len(documents) == 1 else documents)
        return DONE
    where = screen(settings)
    pages = [
        explain_text(one, seen.plan, seen.snapshot, width=where.width, color=where.color, wide=settings.wide)
        for one in found
    ]
    print_text("\n".join(pages))
    return DONE


def _meant(seen: Pass, argument: str) -> list[InstanceId]:
    """The instance that was named, or those of a workload (or of a run) that were. Raises UsageError."""
    parts = (seen.plan.kept, seen.plan.actions, seen.plan.pending, seen.plan.waiting)
    known = sorted({one.instance for part in parts for one in part if one.instance}, key=lambda one: one.sort_key)
    below = [one for one in known if str(one).startswith(argument.rstrip("/") + "/")]
    if below:
        return below
    try:
        return [InstanceId.parse(argument)]
    except ValueError as error:
        close = get_close_matches(argument, [*map(str, known), *(one.workload for one in known)], 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"{error}{hint}") from None


def explanation(seen: Pass, instance: InstanceId) -> Explanation:
    """The choice of a place for ``instance``, beside everything else that runs or is about to.

    Raises UsageError when git does not want that instance.
    """
    workload = _workload(seen, instance)
    fleet = Fleet.of(seen.snapshot.hosts, compile_rule)
    found = found_by_instance(seen.snapshot)
    for other, group in found.items():
        for one in group:
            if other != instance and one.container.holds:
                fleet.occupy(one.host, one.container.id, other, other.workload, live_allocation(one))
    for action in seen.plan.actions:
        if action.generation and action.allocation and action.instance != instance:
            fleet.occupy(
                action.host, str(action.instance), action.instance, action.instance.workload, action.allocation
            )
    only = instance.index if instance.kind is Kind.LOCAL_SERVICE else None
    current = next((one for one in found.get(instance, ()) if one.container.holds), None)
    prefer, near = (current.host, live_allocation(current)) if current else (None, None)
    return fleet.explain(Ask(instance, workload, only=only, prefer=prefer, in_place=current is not None, near=near))


def _workload(seen: Pass, instance: InstanceId) -> Workload:
    for workload in seen.desired.workloads:
        if workload.identity == instance.workload:
            return workload
    known = [str(one.instance) for part in (seen.plan.kept, seen.plan.actions, seen.plan.pending) for one in part]
    close = get_close_matches(str(instance), known, 1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise UsageError(f"git names no {instance.workload}{hint}")
