"""Which moves are proposed, and what each buys."""

from typing import Any

from reconciler.model.plan import Plan
from reconciler.model.snapshot import Snapshot
from reconciler.planner.defrag import Gain, Proposal
from reconciler.report.document import allocation_json
from reconciler.report.lines import Page, Part, Span, Style
from reconciler.report.names import Cards, count_name
from reconciler.report.text import title
from reconciler.report.whatif import listing

HEAD = ("instance", "from", "cards", "to", "cards")
NOTHING = "No moves: no whole host and no whole card can be freed by moving what may be moved."


def defrag_text(found: Proposal, plan: Plan, snapshot: Snapshot, *, width: int | None, color: bool, wide: bool) -> str:
    """The gains in order, each with its moves, what would fit then, and a line that counts."""
    page, cards = Page(width), Cards(snapshot)
    page.add(Span(f"Defragmentation of {title(plan)}", Style.BOLD))
    page.add("proposed only: nothing is moved")
    if plan.actions:
        page.add(f"{count_name(len(plan.actions), 'planned change')} counted as carried out")
    for gain in found.gains:
        page.blank()
        moves = f"{count_name(len(gain.moves), 'move')} {'frees' if len(gain.moves) == 1 else 'free'} "
        page.add(moves, Span(_freed(gain, cards), Style.ADD), indent=2)
        rows = [[str(one.instance), one.host, cards.brief(one.old), one.to, cards.brief(one.new)] for one in gain.moves]
        head: list[Part] = [Span(name.upper(), Style.DIM) for name in HEAD]
        page.table([head, *rows], indent=4)
    if found.fits:
        page.blank()
        page.add(f"Pending work that would fit then: {listing(_fits(found), wide=wide)}", indent=2)
    page.blank()
    page.add(Span(summary_line(found), Style.BOLD))
    return page.text(color=color)


def summary_line(found: Proposal) -> str:
    """``Defrag: 3 moves free 1 host (8 GPUs) and 1 card; 1 of 2 pending would fit.``."""
    if not found.gains:
        return NOTHING
    hosts = [gain for gain in found.gains if not gain.card]
    cards = len(found.gains) - len(hosts)
    gpus = sum(gain.cards for gain in hosts)
    parts = [f"{count_name(len(hosts), 'host')} ({count_name(gpus, 'GPU')})"] if hosts else []
    parts += [count_name(cards, "card")] if cards else []
    fits = f"; {len(found.fits)} of {found.pending} pending would fit" if found.pending else ""
    verb = "frees" if found.moves == 1 else "free"
    return f"Defrag: {count_name(found.moves, 'move')} {verb} {' and '.join(parts)}{fits}."


def _freed(gain: Gain, cards: Cards) -> str:
    if gain.card:
        return f"card {cards.label(gain.card)} of {gain.host}"
    return f"{gain.host} ({count_name(gain.cards, 'GPU')})"


def _fits(found: Proposal) -> list[str]:
    return [f"{instance} on {host}" for instance, host in found.fits]


def defrag_json(found: Proposal, plan: Plan) -> dict[str, Any]:
    """The same as JSON; ``card`` is a UUID, or null where a whole host is freed."""
    return {
        "commit": plan.commit,
        "cluster": plan.cluster,
        "gains": [
            {
                "host": gain.host,
                "card": gain.card or None,
                "cards": gain.cards,
                "moves": [
                    {
                        "instance": str(one.instance),
                        "from": one.host,
                        "to": one.to,
                        "old": allocation_json(one.old),
                        "new": allocation_json(one.new),
                    }
                    for one in gain.moves
                ],
            }
            for gain in found.gains
        ],
        "fits": [{"instance": str(instance), "host": host} for instance, host in found.fits],
        "pending": found.pending,
    }
