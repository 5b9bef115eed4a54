"""A plan as Markdown, for a comment on a merge request: the summary in sight, the rest folded."""

import html
from collections.abc import Iterable

from reconciler.model.plan import Action, Plan
from reconciler.model.snapshot import Snapshot
from reconciler.report.lines import Page, safe
from reconciler.report.names import Cards
from reconciler.report.text import (
    action_lines,
    chosen_words,
    pending_lines,
    running,
    subject_of,
    summary_line,
    symbol_of,
    title,
    waiting_text,
)

# GitHub refuses a comment of more than 65,536 characters.
LIMIT = 60_000
_ACTIVE = str.maketrans({char: f"\\{char}" for char in "\\`*_[]#!|~<>"})


def plan_markdown(plan: Plan, snapshot: Snapshot, *, wide: bool = False, chosen: str = "") -> str:
    """The plan, folded; what would not fit into a comment is left out and said to be."""
    cards = Cards(snapshot)
    head = [f"### Plan for {_escape(title(plan))}", "", f"**{_escape(summary_line(plan))}**", ""]
    head += [_escape(chosen_words(chosen)), ""] if chosen else []
    head += _table(plan, cards)
    blocks = [
        _details(f"{_symbol(action)} {action.instance}", _lines_of(action, cards, wide=wide)) for action in plan.actions
    ]
    for pending in plan.pending:
        page = Page()
        pending_lines(page, pending, running(plan, pending))
        blocks.append(_details(f"! {pending.instance}", page.text()))
    notes = _notes(plan)
    return "\n".join([*head, *_within(blocks, LIMIT - sum(map(len, [*head, *notes]))), *notes]).rstrip() + "\n"


def _symbol(action: Action) -> str:
    return symbol_of(action)[0]


def _table(plan: Plan, cards: Cards) -> list[str]:
    rows = [
        (
            _symbol(action),
            str(action.instance),
            action.host,
            cards.brief(action.allocation) if action.allocation else "",
            action.reason,
        )
        for action in plan.actions
    ]
    rows += [("!", str(pending.instance), "", "", pending.reason) for pending in plan.pending]
    if not rows:
        return []
    shown = rows[:200]
    lines = ["| | instance | host | cards | why |", "|---|---|---|---|---|"]
    lines += [f"| `{symbol}` | {' | '.join(map(_escape, rest))} |" for symbol, *rest in shown]
    if len(rows) > len(shown):
        lines.append(f"| | and {len(rows) - len(shown)} more | | | |")
    return [*lines, ""]


def _lines_of(action: Action, cards: Cards, *, wide: bool) -> str:
    page = Page()
    action_lines(page, action, cards, wide=wide)
    return page.text()


def _details(name: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"<details><summary>{html.escape(safe(name))}</summary>\n\n{fence}\n{text}{fence}\n\n</details>\n"


def _within(blocks: Iterable[str], room: int) -> list[str]:
    kept: list[str] = []
    blocks = list(blocks)
    for block in blocks:
        room -= len(block)
        if room < 0:
            return [
                *kept,
                f"*{len(blocks) - len(kept)} more left out: see the whole plan with `reconcile --dry-run`.*\n",
            ]
        kept.append(block)
    return kept


def _notes(plan: Plan) -> list[str]:
    lines = [f"- {_escape(plan.guard)}"] if plan.guard else []
    lines += [
        f"- waiting: {_escape(f'{one.instance}: {waiting_text(one)}' if one.instance else waiting_text(one))}"
        for one in plan.waiting
    ]
    lines += [
        f"- {'failed' if one.failed else 'drift'}: {_escape(f'{subject_of(one)}: {one.message}')}"
        for one in sorted(plan.drift, key=lambda one: not one.failed)
    ]
    return lines + [f"- warning: {_escape(warning)}" for warning in plan.warnings]


def _escape(text: str) -> str:
    """Text as text: no Markdown, no HTML, no mention of a user, one line."""
    return safe(text).translate(_ACTIVE).replace("@", "&#64;")
