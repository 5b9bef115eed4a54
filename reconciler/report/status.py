"""Instances as they stand: where, in which state, with what, since when, whose."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconciler.model.plan import Pending, Placed, Plan, Waiting
from reconciler.model.snapshot import Container, HostView, Reach, Snapshot
from reconciler.model.workload import InstanceId, Kind
from reconciler.report.document import allocation_json
from reconciler.report.lines import Page, Part, Span, Style
from reconciler.report.names import Cards, clock_name, cpus_name, short
from reconciler.report.text import steps_text, subject_of, symbol_of, title, waiting_text

Select = Callable[[str, InstanceId], bool]
HEAD = ("instance", "host", "state", "cards", "since (utc)", "owner")


def status_text(
    plan: Plan,
    snapshot: Snapshot,
    select: Select,
    *,
    width: int | None,
    color: bool,
    wide: bool,
    suspended: Sequence[str] = (),
) -> str:
    """A table of what runs, then what is changing, pending, waiting, failed and drifting; only what ``select`` allows.

    ``suspended`` names workloads that git has stopped. A host that does not answer is told: what is there is unknown.
    """
    page = Page(width)
    page.add(Span(title(plan), Style.BOLD))
    cards, boxes = Cards(snapshot), _containers(snapshot)
    rows = [_row(one, cards, boxes, wide=wide) for one in plan.kept if select(one.host, one.instance)]
    page.blank()
    if rows:
        head = [*HEAD, "cpus", "container"] if wide else HEAD
        page.table([[Span(name.upper(), Style.DIM) for name in head], *rows], indent=2)
    else:
        silent = any(view.reach is Reach.UNREACHABLE for view in snapshot.hosts)
        page.add("nothing is known to run" if silent else "nothing runs", indent=2)
    _sections(page, plan, snapshot, select, suspended)
    return page.text(color=color)


def status_json(plan: Plan, snapshot: Snapshot, select: Select, suspended: Sequence[str] = ()) -> dict[str, Any]:
    """The same as JSON."""
    boxes = _containers(snapshot)
    return {
        "commit": plan.commit,
        "cluster": plan.cluster,
        "instances": [
            {
                "instance": str(one.instance),
                "host": one.host,
                "state": state_name(one, boxes.get(one.container)),
                "container": one.container,
                "since": one.since,
                "owner": one.owner,
                "allocation": allocation_json(one.allocation),
            }
            for one in plan.kept
            if select(one.host, one.instance)
        ],
        "changing": [
            {"instance": str(one.instance), "host": one.host, "action": one.kind.value, "reason": one.reason}
            for one in plan.actions
            if select(one.host, one.instance)
        ],
        "pending": [{"instance": str(one.instance), "reason": one.reason} for one in pending_of(plan, select)],
        "waiting": [
            {"instance": str(one.instance) if one.instance else None, "reason": one.reason, "failed": one.failed}
            for one in waiting_of(plan, select)
        ],
        "suspended": list(suspended),
        "unreachable": [
            {"host": view.spec.name, "reason": view.reason}
            for view in snapshot.hosts
            if view.reach is Reach.UNREACHABLE
        ],
    }


def state_name(placed: Placed, container: Container | None) -> str:
    """Docker's state with what matters beside it: health, restarts, the exit code."""
    if container is None:
        return placed.state
    notes = [] if container.health == "none" else [container.health]
    if container.restart_count:
        notes.append(f"{container.restart_count} restart{'s' * (container.restart_count != 1)}")
    if container.state in {"exited", "dead"}:
        notes.append(f"code {container.exit_code}")
    return f"{placed.state} ({', '.join(notes)})" if notes else placed.state


def _containers(snapshot: Snapshot) -> dict[str, Container]:
    return {one.id: one for view in snapshot.hosts for one in view.containers}


def _row(placed: Placed, cards: Cards, boxes: Mapping[str, Container], *, wide: bool) -> list[Part]:
    state = state_name(placed, boxes.get(placed.container))
    good = placed.state == "running" and "unhealthy" not in state
    given = placed.allocation
    row: list[Part] = [
        str(placed.instance),
        placed.host,
        Span(state, Style.PLAIN if good else Style.WARN),
        (cards.slices(given.mig) or cards.share(given.share) or cards.whole(given.gpus))
        if wide
        else cards.brief(given),
        clock_name(placed.since),
        placed.owner,
    ]
    return [*row, cpus_name(given), short(placed.container)] if wide else row


def pending_of(plan: Plan, select: Select) -> tuple[Pending, ...]:
    """The pending work that was selected: by the host that it is still on, where it is on one."""
    return tuple(one for one in plan.pending if select(_host_of(plan, one.instance), one.instance))


def waiting_of(plan: Plan, select: Select) -> tuple[Waiting, ...]:
    """The waiting work that was selected, and what waits as a whole."""
    return tuple(
        one for one in plan.waiting if one.instance is None or select(_host_of(plan, one.instance), one.instance)
    )


def _host_of(plan: Plan, instance: InstanceId) -> str:
    """Where an instance is, or must be; empty where it is nowhere."""
    bound = instance.index if instance.kind is Kind.LOCAL_SERVICE else ""
    return next((one.host for one in plan.kept if one.instance == instance), bound)


def _silent(view: HostView) -> str:
    known = "shown as last seen" if view.containers else "what runs there is unknown"
    return f"{view.reason or 'no answer'}; {known}"


def _sections(page: Page, plan: Plan, snapshot: Snapshot, select: Select, suspended: Sequence[str]) -> None:
    changing = [
        (f"{symbol_of(one)[0]} {one.instance} on {one.host}", f"{one.reason} ({steps_text(one)})")
        for one in plan.actions
        if select(one.host, one.instance)
    ]
    drift = [one for one in plan.drift if one.instance is None or select(one.host, one.instance)]
    sections = {
        "Unreachable": [(v.spec.name, _silent(v)) for v in snapshot.hosts if v.reach is Reach.UNREACHABLE],
        "Changing": changing,
        "Pending": [(str(one.instance), one.reason) for one in pending_of(plan, select)],
        "Waiting": [
            *([("", plan.guard)] if plan.guard else []),
            *((str(one.instance or ""), waiting_text(one)) for one in waiting_of(plan, select)),
        ],
        "Suspended": [(name, "stopped on purpose") for name in suspended],
        "Failed": [(subject_of(one), one.message) for one in drift if one.failed],
        "Drift": [(subject_of(one), one.message) for one in drift if not one.failed],
    }
    for name, notes in sections.items():
        if notes:
            page.blank()
            page.add(Span(f"{name}:", Style.WARN))
        for subject, note in notes:
            page.add(f"{subject}: {note}" if subject else note, indent=2, hang=4)
