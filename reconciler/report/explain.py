"""Why an instance is where it is, goes where it goes, or can go nowhere."""

from typing import Any

from reconciler.model.plan import Action, Placed, Plan
from reconciler.model.resources import format_memory
from reconciler.model.snapshot import Snapshot
from reconciler.model.workload import Allocation, InstanceId
from reconciler.planner.explain import Explanation, Offered, Room
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
        _removed(page, found, wide=wide)
        _offers(page, found, cards)
        _choice(page, found, _actions(plan, found.instance))
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


def _removed(page: Page, found: Explanation, *, wide: bool) -> None:
    """What each filter removed of all hosts."""
    page.add(f"{count_name(found.hosts, 'host')} looked at")
    for name, hosts in found.removed:
        shown = hosts if wide else hosts[:FEW]
        more = f" and {len(hosts) - len(shown)} more" if len(shown) < len(hosts) else ""
        page.field("removed", f"{removed_words(name, len(hosts))}: {', '.join(shown)}{more}", indent=2)


def _offers(page: Page, found: Explanation, cards: Cards) -> None:
    """What the best of the rest would give, and what each leaves."""
    if not found.offers:
        return
    best = f", the best {len(found.offers)}" if found.fitting > len(found.offers) else ""
    page.field("fit", f"{found.fitting}{best}:", indent=2)
    given = [cards.labels(one.allocation) for one in found.offers]
    names = ["HOST", "NODES", *(["CARDS"] if any(given) else []), "SCORE"]
    head: list[Part] = [Span(name, Style.DIM) for name in names]
    rows = [
        [one.host, one.nodes, *([held] if any(given) else []), _score(one)]
        for one, held in zip(found.offers, given, strict=True)
    ]
    page.table([head, *rows], indent=4)


def _score(offer: Offered) -> str:
    return ", ".join([offer.score, *(f"meets {wish}" for wish in offer.wishes)])


def _choice(page: Page, found: Explanation, actions: list[Action]) -> None:
    """The choice and what decided; or what is short."""
    if found.winner:
        page.field("choice", Span(found.winner, Style.ADD), f": {found.why}", indent=2)
        _decided(page, found, actions)
    if found.pending:
        page.field("pending", Span(found.pending.reason, Style.WARN), indent=2)
        if found.pending.nearest:
            page.field("nearest", found.pending.nearest.words, indent=2)
        _rooms(page, found.rooms)
    for warning in found.warnings:
        page.field("warning", Span(warning, Style.WARN), indent=2)


def _decided(page: Page, found: Explanation, actions: list[Action]) -> None:
    rival = found.rival
    if rival and rival.better:
        page.field("though", f"{rival.host} {rival.words}: it would be chosen for something new", indent=2)
    elif rival:
        page.field("beats", f"{rival.host}: {rival.words}", indent=2)
    for action in actions:
        if action.allocation and action.host != found.winner:
            page.field("plan", f"on {action.host}, since it is placed together with other work", indent=2)


def _rooms(page: Page, rooms: tuple[Room, ...]) -> None:
    """What is asked beside what is free; a host of one node is told once."""
    if not rooms:
        return
    asked, host, *nodes = rooms
    shown = [asked, host, *(nodes if len(nodes) > 1 else [])]
    heads = ["FREE ON", *(["CARDS"] if asked.pieces else []), "CPUS", "MEMORY"]
    head: list[Part] = [Span(name, Style.DIM) for name in heads]
    rows = [
        [
            one.name,
            *([str(one.pieces)] if asked.pieces else []),
            f"{one.millicpus / 1000:g}",
            format_memory(one.memory),
        ]
        for one in shown
    ]
    page.table([head, *rows], indent=4)


def explain_json(found: Explanation, plan: Plan) -> dict[str, Any]:
    """The same as JSON."""
    pending, rival = found.pending, found.rival
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
        "offers": [
            {
                "host": one.host,
                "nodes": one.nodes,
                "score": one.score,
                "wishes": list(one.wishes),
                "allocation": allocation_json(one.allocation),
            }
            for one in found.offers
        ],
        "choice": {"host": found.winner, "why": found.why} if found.winner else None,
        "rival": {"host": rival.host, "better": rival.better, "words": rival.words} if rival else None,
        "pending": {
            "reason": pending.reason,
            "nearest": {"host": pending.nearest.host, "lacks": pending.nearest.lacks} if pending.nearest else None,
            "free": [
                {"of": one.name, "cards": one.pieces, "cpus": one.millicpus / 1000, "memory": one.memory}
                for one in found.rooms
            ],
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
