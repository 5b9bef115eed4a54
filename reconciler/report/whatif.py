"""What was assumed, and what it changes: the lines before and after the plan of an assumed world."""

from collections.abc import Sequence
from typing import Any

from reconciler.planner.whatif import Comparison
from reconciler.report.lines import Page, Span, Style

FEW = 6


def assumed_text(words: Sequence[str], *, width: int | None, color: bool) -> str:
    """The first line of the plan: ``What if: gpu-01 is lost. Only assumed: nothing is changed.``."""
    page = Page(width)
    page.add(Span("What if: ", Style.WARN), f"{', '.join(words)}. Only assumed: nothing is changed.")
    return page.text(color=color)


def comparison_text(found: Comparison, *, width: int | None, color: bool, wide: bool) -> str:
    """How the plan differs from the one without the assumption; ``wide`` names every instance."""
    page = Page(width)
    page.add(Span("Compared with the plan without it:", Style.BOLD))
    page.add(f"{_difference(found)}, {_pending(found)}", indent=2)
    rows = (
        ("more", [str(one) for one in found.placed]),
        ("fewer", [str(one) for one in found.unplaced]),
        ("moved", [f"{one}: {old} → {new}" for one, old, new in found.moved]),
        ("pending", [str(one) for one in found.pending]),
    )
    for label, names in rows:
        if names:
            page.field(label, listing(names, wide=wide), indent=2)
    return page.text(color=color)


def _difference(found: Comparison) -> str:
    parts = [f"{len(found.placed)} more placed"] if found.placed else []
    parts += [f"{len(found.unplaced)} fewer placed"] if found.unplaced else []
    parts += [f"{len(found.moved)} placed elsewhere"] if found.moved else []
    return ", ".join(parts) or "nothing is placed otherwise"


def _pending(found: Comparison) -> str:
    now, before = len(found.pending), found.pending_before
    return f"{now} pending as before" if now == before else f"{now} pending instead of {before}"


def listing(names: Sequence[str], *, wide: bool) -> str:
    """``app/a/0, app/a/1 and 3 more``."""
    shown = names if wide else names[:FEW]
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return f"{', '.join(shown)}{more}"


def comparison_json(found: Comparison) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "placed": [str(one) for one in found.placed],
        "unplaced": [str(one) for one in found.unplaced],
        "moved": [{"instance": str(one), "from": old, "to": new} for one, old, new in found.moved],
        "pending": [str(one) for one in found.pending],
        "pendingBefore": found.pending_before,
    }
