"""A plan as people read it, with Terraform's symbols."""

from collections.abc import Callable, Iterable
from typing import Any

from reconciler.model.plan import Action, ActionKind, Change, Drift, Order, Pending, Placed, Plan, Waiting
from reconciler.model.snapshot import Snapshot
from reconciler.model.workload import Allocation, Share
from reconciler.planner.gates import removed_words
from reconciler.report.changes import change_text, expand
from reconciler.report.lines import Page, Part, Span, Style
from reconciler.report.names import Cards, cpus_name, memory_name, ports_name, short, since_name

Symbol = tuple[str, str, Style]
SYMBOLS: dict[ActionKind, Symbol] = {
    ActionKind.START: ("+", "start", Style.ADD),
    ActionKind.STOP: ("-", "stop", Style.REMOVE),
    ActionKind.UPDATE: ("~", "update in place", Style.CHANGE),
    ActionKind.ADOPT: ("~", "adopt", Style.CHANGE),
    ActionKind.REMOVE: ("-", "remove what has exited", Style.REMOVE),
}
REPLACEMENTS: dict[Order | None, Symbol] = {
    Order.START_FIRST: ("+/-", "replace, start first", Style.CHANGE),
    Order.STOP_FIRST: ("-/+", "replace, stop first", Style.CHANGE),
    None: ("-/+", "replace", Style.CHANGE),
}
PENDING: Symbol = ("!", "pending", Style.WARN)
INDENT, BODY = 2, 6
GONE = frozenset({"exited", "dead", "created"})
CHANGED = ("changed: ", "changed in place: ")
AGAIN = "it is tried again after a back-off, or at once by `reconcile`"


def plan_text(plan: Plan, snapshot: Snapshot, *, width: int | None, color: bool, wide: bool, chosen: str = "") -> str:
    """The plan, ending in its summary line, or in ``No changes.`` where nothing is to be done.

    ``width`` None wraps nothing; ``wide`` adds UUIDs; ``chosen`` names the options that leave out a part. No time and
    no random order.
    """
    page = Page(width)
    cards = Cards(snapshot)
    page.add(Span(f"Plan for {title(plan)}", Style.BOLD))
    if chosen:
        page.add(chosen_words(chosen))
    _legend(page, plan)
    for action in plan.actions:
        page.blank()
        action_lines(page, action, cards, wide=wide)
    for pending in plan.pending:
        page.blank()
        pending_lines(page, pending, running(plan, pending))
    _notes(page, plan)
    page.blank()
    page.add(Span(summary_line(plan), Style.BOLD))
    return page.text(color=color)


def title(plan: Plan) -> str:
    """Cluster, commit and source: ``lab at 3f2a1c9d0e1b (examples/repo)``."""
    commit = short(plan.commit) if plan.commit else "no commit"
    source = f" ({plan.source})" if plan.source else ""
    return f"{plan.cluster or 'no cluster'} at {commit}{source}"


def chosen_words(options: str) -> str:
    """What ``--host`` and ``--only`` mean for a plan."""
    return f"{options}: only what these select is shown and applied; everything is planned"


def summary(plan: Plan) -> dict[str, int]:
    """How many instances meet which end. An adopted one counts as started, a removed one as stopped."""
    kinds = [action.kind for action in plan.actions]
    return {
        "start": kinds.count(ActionKind.START) + kinds.count(ActionKind.ADOPT),
        "replace": kinds.count(ActionKind.REPLACE),
        "update": kinds.count(ActionKind.UPDATE),
        "stop": kinds.count(ActionKind.STOP) + kinds.count(ActionKind.REMOVE),
        "pending": len(plan.pending),
        "unchanged": plan.unchanged,
    }


def summary_line(plan: Plan) -> str:
    """``Plan: 2 to start, ...``; without actions ``No changes.``, since pending work alone changes nothing."""
    if not plan.actions:
        return "No changes."
    counts = summary(plan)
    parts = [f"{counts[name]} to {name}" for name in ("start", "replace", "update", "stop")]
    parts += [f"{counts[name]} {name}" for name in ("pending", "unchanged")]
    return f"Plan: {', '.join(parts)}."


def symbol_of(action: Action) -> Symbol:
    """Symbol, word and style of an action."""
    return REPLACEMENTS[action.order] if action.kind is ActionKind.REPLACE else SYMBOLS[action.kind]


def _legend(page: Page, plan: Plan) -> None:
    used = {symbol_of(action) for action in plan.actions} | ({PENDING} if plan.pending else set())
    known = [*SYMBOLS.values(), *REPLACEMENTS.values(), PENDING]
    parts: list[Part] = []
    for symbol, word, style in (one for one in known if one in used):
        parts += ["   " if parts else "", Span(symbol, style), f" {word}"]
    if parts:
        page.blank()
        page.add(*parts, indent=INDENT)


# -- actions


def action_lines(page: Page, action: Action, cards: Cards, *, wide: bool) -> None:
    """One action: what, where, why, with what, how."""
    symbol, _, style = symbol_of(action)
    place: list[Part] = [" on ", action.host] if action.host else []
    page.add(
        Span(symbol.rjust(3), style), " ", Span(str(action.instance), Style.BOLD), *place, indent=INDENT - 1, hang=BODY
    )
    changes = expand(action.changes)
    reason = _reason(action.reason, changes)
    if reason:
        page.add(reason, indent=BODY)
    for change in changes:
        page.add(change_text(change), indent=BODY)
    if action.old and action.kind is not ActionKind.START:
        page.field("runs" if action.old.state not in GONE else "was", existing_text(action), indent=BODY)
    if action.kind is ActionKind.START and action.workload:
        page.field("image", action.workload.container.image, indent=BODY)
    _given(page, action, cards, wide=wide)
    if action.why:
        page.field("chosen", action.why, indent=BODY)
    page.field("steps", steps_text(action), indent=BODY)
    for warning in action.warnings:
        page.field("warning", Span(warning, Style.WARN), indent=BODY)


def _reason(reason: str, changes: tuple[Change, ...]) -> str:
    """The reason, without what one line of change below it says itself."""
    if len(changes) != 1 or not reason.startswith(CHANGED):
        return reason
    return reason.partition("; ")[2]


def existing_text(action: Action) -> str:
    """Since when the old container runs, and whose it is; a host other than the new one is named."""
    old = action.old
    if old is None:
        return ""
    since = since_name(old.since)
    if old.state in GONE:
        when = f"{old.state}, started {since}" if since else f"{old.state}, never started"
    else:
        when = f"since {since}" if since else old.state
    where = f" on {old.host}" if old.host != action.host else ""
    return f"{when}{where}, {owner_text(action)}"


def owner_text(action: Action) -> str:
    """``owner chat-team``: the owner of what runs, else the one in git."""
    wanted = action.workload.owner if action.workload else ""
    owner = (action.old.owner if action.old else "") or wanted
    return f"owner {owner}" if owner else "no owner"


def _given(page: Page, action: Action, cards: Cards, *, wide: bool) -> None:
    """What the instance gets; beside it what it has now, where that differs."""
    new, old = action.allocation, _old_allocation(action)
    if new is None:
        new, old = old, None
    if new is None:
        return
    moved = old is not None and action.old is not None and action.old.host != action.host
    rows: tuple[tuple[str, Callable[[Any], str], str], ...] = (
        ("cards", cards.whole, "gpus"),
        ("slices", cards.slices, "mig"),
        ("share", cards.share, "share"),
    )
    for label, name, field in rows:
        after, before = getattr(new, field), getattr(old, field) if old else None
        _row(page, label, name(after), name(before) if before and (before != after or moved) else "")
        if wide and (ids := _ids(after)):
            page.field("", ", ".join(ids), indent=BODY)
    for label, name_of in (("cpus", cpus_name), ("memory", memory_name), ("ports", ports_name)):
        _row(page, label, name_of(new), name_of(old) if old and name_of(old) != name_of(new) else "")


def _ids(given: Any) -> list[str]:
    """UUIDs of cards, of slices that are cut, or of the card of a share."""
    if isinstance(given, Share):
        return [given.gpu]
    return [uuid for one in given or () if (uuid := one if isinstance(one, str) else one.uuid)]


def _old_allocation(action: Action) -> Allocation | None:
    return action.old.allocation if action.old else None


def _row(page: Page, label: str, new: str, old: str) -> None:
    if new or old:
        page.field(label, f"{old} → {new or 'none'}" if old else new, indent=BODY)


def steps_text(action: Action) -> str:
    """``pull, create, start; then ready``: what this pass issues, and what waits for later ones."""
    now = ", ".join(step.kind for step in action.steps if step.due)
    later = ", ".join(step.kind for step in action.steps if not step.due)
    if now and later:
        return f"{now}; then {later}"
    return now or (f"later: {later}" if later else "none")


# -- what is not done


def running(plan: Plan, pending: Pending) -> Placed | None:
    """Where a pending instance goes on meanwhile: what cannot move stays where it is."""
    up = (one for one in plan.kept if one.instance == pending.instance and one.state not in GONE)
    return next(up, None)


def pending_lines(page: Page, pending: Pending, placed: Placed | None = None) -> None:
    """One pending instance: why, where it goes on, what removed how many hosts, which host came closest."""
    symbol, _, style = PENDING
    page.add(Span(symbol.rjust(3), style), " ", Span(str(pending.instance), Style.BOLD), indent=INDENT - 1, hang=BODY)
    page.add(pending.reason, indent=BODY)
    if placed:
        page.field("still", f"running on {placed.host}", indent=BODY)
    if pending.gang:
        page.field("gang", pending.gang, indent=BODY)
    if pending.removed:
        page.field("removed", ", ".join(removed_words(name, count) for name, count in pending.removed), indent=BODY)
    if pending.nearest:
        page.field("nearest", pending.nearest.words, indent=BODY)


def waiting_text(waiting: Waiting) -> str:
    """Why it waits, and that what failed is tried again; no time, which would differ from run to run."""
    return f"{waiting.reason}; {AGAIN}" if waiting.failed and waiting.until is not None else waiting.reason


def subject_of(drift: Drift) -> str:
    """What a drift is about: an instance on a host, or the host."""
    return f"{drift.instance} on {drift.host}" if drift.instance else drift.host


def _notes(page: Page, plan: Plan) -> None:
    if plan.guard:
        page.blank()
        page.add(Span(plan.guard, Style.WARN), indent=INDENT)
    _section(page, "Waiting", ((str(one.instance or ""), waiting_text(one)) for one in plan.waiting))
    _section(page, "Failed", ((subject_of(one), one.message) for one in plan.drift if one.failed))
    _section(page, "Drift", ((subject_of(one), one.message) for one in plan.drift if not one.failed))
    _section(page, "Warnings", (("", warning) for warning in plan.warnings))


def _section(page: Page, name: str, notes: Iterable[tuple[str, str]]) -> None:
    notes = list(notes)
    if notes:
        page.blank()
        page.add(Span(f"{name}:", Style.WARN), indent=INDENT)
    for subject, note in notes:
        page.add(f"{subject}: {note}" if subject else note, indent=INDENT + 2, hang=INDENT + 4)
