"""``reconcile defrag``: which moves would free whole hosts and cards. It proposes; it moves nothing."""

from reconciler.cli.output import print_json, print_text, screen, shown_source
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings
from reconciler.errors import UsageError
from reconciler.model.snapshot import Reach
from reconciler.planner.defrag import defrag as propose
from reconciler.report.defrag import defrag_json, defrag_text

DONE, ERROR = 0, 1


def defrag(settings: Settings) -> int:
    """Print the proposal; 1 when a host did not answer. Raises UsageError without ``--dry-run``."""
    if not settings.dry_run:
        raise UsageError("defrag: moving work is not supported yet: add --dry-run to see what it proposes")
    seen = Wiring(settings).cycle().look()
    found = propose(seen.desired, seen.snapshot, seen.memory, seen.plan, settings.hosts)
    if settings.json:
        print_json(defrag_json(found, seen.plan))
    else:
        where, plan = screen(settings), shown_source(settings, seen.plan)
        print_text(defrag_text(found, plan, seen.snapshot, width=where.width, color=where.color, wide=settings.wide))
    return ERROR if any(view.reach is Reach.UNREACHABLE for view in seen.snapshot.hosts) else DONE
