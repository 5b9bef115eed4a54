"""Why an instance is where it is, goes where it goes, or can go nowhere."""

from typing import Any

from reconciler.model.plan import Action, Placed, Plan
from reconciler.model.snapshot import Snapshot
from reconciler.model.workload import Allocation, InstanceId
from reconciler.planner.explain import Explanation
from reconciler.planner.gates import removed_words
from reconciler.report.document import allocation_json
from reconciler.report.lines import Page, Part, Span, Style
from reconciler.report.names import Cards, count_name, cpus_name, memory_name, since_name
from reconciler.report.text import steps_text, symbol_of, waiting_text

FEW = 6


def explain_text(
    found: Explanation, plan: Plan, snapshot: Snapshot, *, width: int | None, color: bool, wide: bool
) -> str:
    """Where it is now, what the plan does about it, and how the hosts were chosen from."""
    page = Page(width)
    cards = Cards(snapshot)
    page.add(Span(str(found.instance), Style.BOLD))
    codes = {one.id: one.exit_code for view in snapshot.hosts for one in view.containers}
    for placed in _placed(plan, found.instance):
        label, where = _where(placed, codes.get(placed.container))
        page.field(label, where, indent=2)
        _given(page, placed.allocation, cards)
    for action in _actions(plan, found.instance):
        page.field("plan", f"{symbol_of(action)[1]} on {action.host}: {action.reason} ({steps_text(action)})", indent=2)
        if action.allocation:
            _given(page, action.allocation, cards)
    for waiting in plan.waiting:
        if waiting.instance == found.instance:
            page.field("waits", Span(waiting_text(waiting), Style.WARN), indent=2)
    if found.note:
        page.field("note", found.note, indent=2)
    else:
        page.blank()
        _choice(page, found, wide=wide)
    return page.text(color=color)


def _where(placed: Placed, code: int | None) -> tuple[str, str]:
    """Its label and where it is: how long it has run, how it ended, or that it never started."""
    since = since_name(placed.since)
    owner = f"owner {placed.owner}" if placed.owner else "no owner"
    match placed.state:
        case "exited" | "dead":
            how = "exited" if code is None else f"exited with code {code}"
            return "ran", f"on {placed.host}, {how}{f', ended {since}' if since else ''}, {owner}"
        case "created":
            return "is", f"on {placed.host}, created, not started, {owner}"
    return "runs", f"on {placed.host}, {placed.state}{f' since {since}' if since else ''}, {owner}"


def _given(page: Page, allocation: Allocation, cards: Cards) -> None:
    rows = (
        ("cards", cards.whole(allocation.gpus)),
        ("slices", cards.slices(allocation.mig)),
        ("share", cards.share(allocation.share)),
        ("cpus", cpus_name(allocation)),
        ("memory", memory_name(allocation)),
    )
    for label, value in rows:
        if value:
            page.field(label, value, indent=4)


def _choice(page: Page, found: Explanation, *, wide: bool) -> None:
    """From all hosts to one: what each filter removed, what the rest offered, and the choice."""
    page.add(f"{count_name(found.hosts, 'host')} looked at")
    for name, hosts in found.removed:
        shown = hosts if wide else hosts[:FEW]
        more = f" and {len(hosts) - len(shown)} more" if len(shown) < len(hosts) else ""
        page.field("removed", f"{removed_words(name, len(hosts))}: {', '.join(shown)}{more}", indent=2)
    if found.offers:
        best = f", the best {len(found.offers)}" if found.fitting > len(found.offers) else ""
        page.field("fit", f"{found.fitting}{best}:", indent=2)
        head: list[Part] = [Span(name, Style.DIM) for name in ("HOST", "NODES", "SCORE")]
        page.table([head, *([one.host, one.nodes, one.score] for one in found.offers)], indent=4)
    if found.winner:
        page.field("choice", Span(found.winner, Style.ADD), f": {found.why}", indent=2)
    if found.pending:
        page.field("pending", Span(found.pending.reason, Style.WARN), indent=2)
        if found.pending.nearest:
            page.field("nearest", found.pending.nearest.words, indent=2)
    for warning in found.warnings:
        page.field("warning", Span(warning, Style.WARN), indent=2)


def explain_json(found: Explanation, plan: Plan) -> dict[str, Any]:
    """The same as JSON."""
    pending = found.pending
    return {
        "instance": str(found.instance),
        "running": [
            {"host": one.host, "state": one.state, "allocation": allocation_json(one.allocation)}
            for one in _placed(plan, found.instance)
        ],
        "actions": [
            {"action": one.kind.value, "host": one.host, "reason": one.reason} for one in _actions(plan, found.instance)
        ],
        "waiting": [one.reason for one in plan.waiting if one.instance == found.instance],
        "hosts": found.hosts,
        "removed": [{"filter": name, "hosts": list(hosts)} for name, hosts in found.removed],
        "fitting": found.fitting,
        "offers": [{"host": one.host, "nodes": one.nodes, "score": one.score} for one in found.offers],
        "choice": {"host": found.winner, "why": found.why} if found.winner else None,
        "pending": {
            "reason": pending.reason,
            "nearest": {"host": pending.nearest.host, "lacks": pending.nearest.lacks} if pending.nearest else None,
        }
        if pending
        else None,
        "warnings": list(found.warnings),
        "note": found.note or None,
    }


def _placed(plan: Plan, instance: InstanceId) -> list[Placed]:
    return [one for one in plan.kept if one.instance == instance]


def _actions(plan: Plan, instance: InstanceId) -> list[Action]:
    return [one for one in plan.actions if one.instance == instance]
