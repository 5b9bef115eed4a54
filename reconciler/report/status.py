"""Instances as they stand: where, in which state, with what, since when, whose."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.model.plan import Placed, Plan
from reconciler.model.snapshot import Container, Snapshot
from reconciler.model.workload import InstanceId
from reconciler.report.document import allocation_json
from reconciler.report.lines import Page, Part, Span, Style
from reconciler.report.names import Cards, clock_name, cores_name, short
from reconciler.report.text import steps_text, subject_of, symbol_of, title

Select = Callable[[str, InstanceId], bool]
HEAD = ("instance", "host", "state", "cards", "since (utc)", "owner")


def status_text(plan: Plan, snapshot: Snapshot, select: Select, *, width: int | None, color: bool, wide: bool) -> str:
    """A table of what runs, then what is changing, pending, waiting and drifting; only what ``select`` lets through."""
    page = Page(width)
    page.add(Span(title(plan), Style.BOLD))
    cards, boxes = Cards(snapshot), _containers(snapshot)
    rows = [_row(one, cards, boxes, wide=wide) for one in plan.kept if select(one.host, one.instance)]
    page.blank()
    if rows:
        head = [*HEAD, "cores", "container"] if wide else HEAD
        page.table([[Span(name.upper(), Style.DIM) for name in head], *rows], indent=2)
    else:
        page.add("nothing runs", indent=2)
    _sections(page, plan, select)
    return page.text(color=color)


def status_json(plan: Plan, snapshot: Snapshot, select: Select) -> dict[str, Any]:
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
        "pending": [
            {"instance": str(one.instance), "reason": one.reason} for one in plan.pending if select("", one.instance)
        ],
        "waiting": [
            {"instance": str(one.instance) if one.instance else None, "reason": one.reason, "failed": one.failed}
            for one in plan.waiting
            if one.instance is None or select("", one.instance)
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
        (cards.slices(given.mig) or cards.whole(given.gpus)) if wide else cards.brief(given),
        clock_name(placed.since),
        placed.owner,
    ]
    return [*row, cores_name(given), short(placed.container)] if wide else row


def _sections(page: Page, plan: Plan, select: Select) -> None:
    changing = [
        (f"{symbol_of(one)[0]} {one.instance} on {one.host}", f"{one.reason} ({steps_text(one)})")
        for one in plan.actions
        if select(one.host, one.instance)
    ]
    pending = [(str(one.instance), one.reason) for one in plan.pending if select("", one.instance)]
    waiting = [
        (str(one.instance or ""), one.reason)
        for one in plan.waiting
        if one.instance is None or select("", one.instance)
    ]
    drift = [(subject_of(one), one.message) for one in plan.drift]
    guard = [("", plan.guard)] if plan.guard else []
    for name, notes in (("Changing", changing), ("Pending", pending), ("Waiting", guard + waiting), ("Drift", drift)):
        if notes:
            page.blank()
            page.add(Span(f"{name}:", Style.WARN))
        for subject, note in notes:
            page.add(f"{subject}: {note}" if subject else note, indent=2, hang=4)
