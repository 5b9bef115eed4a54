"""``reconcile``, ``reconcile apply`` and ``reconcile daemon``: plan, and carry it out."""

from reconciler.cli.output import Screen, print_text, screen, write_file
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings, check_writes
from reconciler.cycle import Pass
from reconciler.model.snapshot import Reach
from reconciler.report.document import plan_json_text
from reconciler.report.markdown import plan_markdown
from reconciler.report.text import plan_text

DONE, ERROR, CHANGES = 0, 1, 2


def reconcile(settings: Settings) -> int:
    """Plan and apply until settled; with ``--dry-run`` plan only."""
    check_writes(settings)
    wiring = Wiring(settings)
    seen = wiring.cycle().look()
    show(settings, seen, screen(settings))
    if settings.out:
        write_file(settings.out, plan_json_text(seen.plan, full=True))
    return planned_code(settings, seen)


def show(settings: Settings, seen: Pass, where: Screen) -> None:
    """The plan in the form that was asked for."""
    if settings.json:
        print_text(plan_json_text(seen.plan))
    elif settings.markdown:
        print_text(plan_markdown(seen.plan, seen.snapshot, wide=settings.wide))
    else:
        print_text(plan_text(seen.plan, seen.snapshot, width=where.width, color=where.color, wide=settings.wide))


def planned_code(settings: Settings, seen: Pass) -> int:
    """Exit code of a dry run: a host that did not answer is an error, and so is pending work when that was asked."""
    if any(view.reach is Reach.UNREACHABLE for view in seen.snapshot.hosts):
        return ERROR
    if settings.fail_on_pending and seen.plan.pending:
        return ERROR
    return CHANGES if settings.detailed_exitcode and seen.plan.actions else DONE
