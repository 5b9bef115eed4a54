"""``reconcile status`` and ``reconcile explain``: instances, as they stand and why."""

from dataclasses import replace
from fnmatch import fnmatchcase

from reconciler.cli.output import print_json, print_text, screen, shown_source
from reconciler.cli.selection import check_selection, chosen, hint_of, listed, meant_by
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings, covers
from reconciler.cycle import Pass
from reconciler.errors import UsageError
from reconciler.model.plan import Plan
from reconciler.model.snapshot import Reach
from reconciler.model.workload import InstanceId, Kind, Workload
from reconciler.planner.ask import Ask
from reconciler.planner.expand import bound_to
from reconciler.planner.explain import Explanation
from reconciler.planner.found import found_by_instance
from reconciler.planner.live import live_allocation
from reconciler.planner.place import Fleet
from reconciler.report.explain import explain_json, explain_text
from reconciler.report.names import count_name
from reconciler.report.status import status_json, status_text
from reconciler.rules import compile_rule

DONE, ERROR = 0, 1
ENDED = "finished: it does not run again"


def status(settings: Settings) -> int:
    """What runs, changes, is pending and waits; 1 when a host could not be looked at or work has failed."""
    seen = Wiring(settings).cycle().look()
    check_selection(settings, seen)
    views = tuple(
        view
        for view in seen.snapshot.hosts
        if not settings.host or any(fnmatchcase(view.spec.name, glob) for glob in settings.host)
    )
    there, suspended = replace(seen.snapshot, hosts=views), _suspended(settings, seen)
    if settings.json:
        print_json(status_json(seen.plan, there, settings.selects, suspended))
    else:
        where = screen(settings)
        print_text(
            status_text(
                shown_source(settings, seen.plan),
                there,
                settings.selects,
                width=where.width,
                color=where.color,
                wide=settings.wide,
                suspended=suspended,
            )
        )
    silent = any(view.reach is Reach.UNREACHABLE for view in views)
    return ERROR if silent or chosen(settings, seen).errors else DONE


def _suspended(settings: Settings, seen: Pass) -> list[str]:
    """The workloads that git has stopped, where ``--only`` lets them through."""
    names = [workload.identity for workload in seen.desired.workloads if workload.suspend]
    return [name for name in names if not settings.only or any(covers(one, name) for one in settings.only)]


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
    argument = argument.rstrip("/")
    names, planned = instances_of(seen), _moving(seen.plan) | {one.instance for one in seen.plan.kept}
    below = [one for one in names if str(one) == argument]
    below += [one for one in names if str(one).startswith(f"{argument}/") and _is_due(seen, one, planned)]
    if below:
        return below
    workload = _workload(seen, "/".join(argument.split("/")[:2]))
    if workload is None:
        meant = meant_by(argument, {name for one in names for name in (str(one), one.workload)})
        raise UsageError(f"git names no {'/'.join(argument.split('/')[:2])}{meant}")
    raise UsageError(_none_such(workload, argument, [one for one in names if one.workload == workload.identity]))


def _is_due(seen: Pass, instance: InstanceId, planned: set[InstanceId]) -> bool:
    """Whether it is meant with its workload: of a local service only hosts that it is for, or was."""
    workload = _workload(seen, instance.workload)
    return instance.kind is not Kind.LOCAL_SERVICE or instance in planned or bool(workload and workload.suspend)


def _none_such(workload: Workload, argument: str, there: list[InstanceId]) -> str:
    """That a workload has no such instance, and which it has."""
    if workload.kind is Kind.APP:
        most = workload.instances
        which = {0: "", 1: ": 0", 2: ": 0 and 1"}.get(most, f": 0 to {most - 1}")
        return f"{workload.identity} has {count_name(most, 'instance')}{which}"
    hint = hint_of(argument, map(str, there)) or listed([str(one) for one in there])
    return f"{workload.identity} has no instance {argument}{hint}"


def instances_of(seen: Pass) -> list[InstanceId]:
    """Every instance that can be asked about, sorted: those of the plan, those of git, and runs that have ended."""
    found = _moving(seen.plan) | {one.instance for one in seen.plan.kept} | set(seen.memory.finished)
    for workload in seen.desired.workloads:
        if workload.kind is Kind.APP:
            found |= {InstanceId(Kind.APP, workload.name, str(index)) for index in range(workload.instances)}
        elif workload.kind is Kind.TASK:
            found.add(InstanceId(Kind.TASK, workload.name, "0", workload.run))
        else:
            found |= {InstanceId(workload.kind, workload.name, view.spec.name) for view in seen.snapshot.hosts}
    return sorted(found, key=lambda one: one.sort_key)


def explanation(seen: Pass, instance: InstanceId) -> Explanation:
    """The choice of a place for ``instance``, beside everything else that runs or is about to; or why there is none."""
    workload = _workload(seen, instance.workload)
    note = _settled(seen, instance, workload)
    if note or workload is None:
        return Explanation(instance, 0, (), (), 0, note=note)
    fleet = Fleet(seen.snapshot.hosts, compile_rule, seen.desired.workloads)
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
    only = bound_to(instance, workload, seen.memory.placed.get(instance))
    current = next((one for one in found.get(instance, ()) if one.container.holds), None)
    prefer, near = (current.host, live_allocation(current)) if current else (None, None)
    return fleet.explain(Ask(instance, workload, only=only, prefer=prefer, in_place=current is not None, near=near))


def _workload(seen: Pass, identity: str) -> Workload | None:
    return next((one for one in seen.desired.workloads if one.identity == identity), None)


def _moving(plan: Plan) -> set[InstanceId]:
    """What a plan acts on, cannot place, or holds back."""
    waiting = {one.instance for one in plan.waiting if one.instance}
    return {one.instance for one in plan.actions} | {one.instance for one in plan.pending} | waiting


def _settled(seen: Pass, instance: InstanceId, workload: Workload | None) -> str:
    """Why no place is looked for: it has finished, it is stopped on purpose, or git does not want it."""
    placed = next((one for one in seen.plan.kept if one.instance == instance), None)
    code = seen.memory.finished.get(instance)
    if workload is None:
        return f"not in git: git names no {instance.workload}"
    if instance.kind is Kind.TASK and placed is None and code is not None:
        return f"it ran and exited with code {code}; its container is gone, and it does not run again"
    if instance.kind is Kind.TASK and placed is not None and placed.state in {"exited", "dead"}:
        return "" if instance in _moving(seen.plan) else ENDED
    if instance.kind is Kind.TASK and instance.run != workload.run:
        return f"an earlier run; git wants run {workload.run} now"
    if workload.suspend and placed is None:
        return "suspended: stopped on purpose"
    if instance.kind is Kind.APP and instance.index.isdigit() and int(instance.index) >= workload.instances:
        return f"scaled down: git wants {count_name(workload.instances, 'instance')}"
    return ""
