"""``reconcile`` and ``reconcile apply``: plan, and carry it out until the fleet has settled."""

import time
from dataclasses import replace

from reconciler.cli.output import Screen, complain, print_json, print_text, read_file, screen, shown_source, write_file
from reconciler.cli.selection import check_selection, chosen, options_of
from reconciler.cli.whatif import Assumed, assumed
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings, check_writes
from reconciler.cycle import Pass, settle
from reconciler.errors import StalePlanError, UsageError
from reconciler.journal.changes import acted
from reconciler.journal.journal import Journal
from reconciler.model.plan import Plan, StepKind
from reconciler.model.snapshot import Reach
from reconciler.model.workload import Kind
from reconciler.report.document import plan_json, plan_json_text, read_saved_plan
from reconciler.report.markdown import plan_markdown
from reconciler.report.text import GONE, plan_text
from reconciler.report.whatif import assumed_text, comparison_json, comparison_text

DONE, ERROR, CHANGES = 0, 1, 2
PAUSE = 0.5


def reconcile(settings: Settings) -> int:
    """Plan and apply until settled; with ``--dry-run`` plan only."""
    check_writes(settings)
    wiring = Wiring(settings, impatient=True)
    if settings.dry_run:
        return _dry_run(wiring)
    if settings.out or settings.detailed_exitcode:
        raise UsageError(f"--{'out' if settings.out else 'detailed-exitcode'} is about a plan: add --dry-run")
    with wiring.writing() as journal:
        return _carry_out(wiring, journal, wiring.cycle().look())


def apply(settings: Settings, name: str) -> int:
    """Carry out a saved plan at its own commit, if nothing that it depends on has changed. Raises StalePlanError."""
    saved = read_saved_plan(read_file(name), name)
    if settings.dry_run:
        raise UsageError("apply has no dry run: leave out --dry-run (RECONCILE_DRY_RUN)")
    wiring = Wiring(replace(settings, ref=saved.commit or settings.ref), impatient=True)
    with wiring.writing() as journal:
        seen = wiring.cycle().look()
        if (seen.plan.cluster, seen.plan.fingerprint) != (saved.cluster, saved.fingerprint):
            raise StalePlanError(f"{name}: specs, hosts or containers have changed since it was made: plan again")
        return _carry_out(wiring, journal, seen)


def _dry_run(wiring: Wiring) -> int:
    settings = wiring.settings
    seen = wiring.cycle().look()
    if settings.whatif:
        return _what_if(settings, assumed(wiring, seen))
    check_selection(settings, seen)
    seen = chosen(settings, seen)
    show(settings, seen, screen(settings))
    if settings.out:
        write_file(settings.out, plan_json_text(seen.plan, full=True))
    return planned_code(settings, seen)


def _what_if(settings: Settings, made: Assumed) -> int:
    check_selection(settings, made.seen)
    seen, where, wide = chosen(settings, made.seen), screen(settings), settings.wide
    if settings.json:
        about = {"whatif": list(made.words), "comparison": comparison_json(made.comparison)}
        print_json(plan_json(seen.plan) | about)
        return planned_code(settings, seen)
    fence = "```\n" if settings.markdown else ""
    print_text(f"{fence}{assumed_text(made.words, width=where.width, color=where.color)}{fence}\n")
    show(settings, seen, where)
    told = comparison_text(made.comparison, width=where.width, color=where.color, wide=wide)
    print_text(f"\n{fence}{told}{fence}")
    return planned_code(settings, seen)


def _carry_out(wiring: Wiring, journal: Journal, seen: Pass) -> int:
    """Act on what was seen, and go on until nothing is due or in motion, or the deadline passes."""
    settings = wiring.settings
    check_selection(settings, seen)
    show(settings, chosen(settings, seen), screen(settings))
    hands, cycle = wiring.hands, wiring.cycle()
    ends = time.monotonic() + settings.deadline

    def tell(done: Pass) -> None:
        events = acted(done.outcomes, wiring.clock())
        journal.record(events)
        for event in events:
            complain(f"{event.instance} on {event.host}: {event.message}")

    def expired() -> bool:
        return time.monotonic() >= ends

    try:
        tell(cycle.act(seen, hands, wiring.selects))
        last = settle(cycle, hands, wiring.selects, pause=lambda: time.sleep(PAUSE), expired=expired, tell=tell)
    finally:
        hands.shutdown()
        hands.close()
    last = chosen(settings, last)
    code = settled_code(settings, last, late=expired() and (last.plan.moving or hands.busy))
    if code == DONE and seen.plan.actions and not (settings.json or settings.markdown):
        print_text(f"{settled_line(last.plan)}\n")
    return code


def show(settings: Settings, seen: Pass, where: Screen) -> None:
    """The plan in the form that was asked for."""
    if settings.json:
        print_text(plan_json_text(seen.plan))
        return
    plan, options, wide = shown_source(settings, seen.plan), options_of(settings), settings.wide
    if settings.markdown:
        print_text(plan_markdown(plan, seen.snapshot, wide=wide, chosen=options))
    else:
        print_text(plan_text(plan, seen.snapshot, width=where.width, color=where.color, wide=wide, chosen=options))


def settled_line(plan: Plan) -> str:
    """``Settled: 2 as git wants them, 1 finished, 0 pending.``; each instance is counted once."""
    failed = {one.instance for one in plan.waiting if one.failed} | {one.instance for one in plan.drift if one.failed}
    uncut = {one.instance for one in plan.actions if any(step.kind is StepKind.CUT for step in one.steps)}
    waiting = ({one.instance for one in plan.waiting if one.instance} | uncut) - failed
    ended = {one.instance for one in plan.kept if one.instance.kind is Kind.TASK and one.state in GONE} - failed
    apart = failed | waiting | ended | {one.instance for one in plan.actions} | {one.instance for one in plan.pending}
    good = sum(one.instance not in apart for one in plan.kept)
    counts = {"finished": len(ended - waiting), "failed": len(failed), "waiting": len(waiting)}
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    return f"Settled: {', '.join([f'{good} as git wants them', *parts, f'{len(plan.pending)} pending'])}."


def planned_code(settings: Settings, seen: Pass) -> int:
    """Exit code of a dry run: a host that did not answer is an error, and so is pending work when that was asked."""
    if any(view.reach is Reach.UNREACHABLE for view in seen.snapshot.hosts):
        return ERROR
    if settings.fail_on_pending and seen.plan.pending:
        return ERROR
    return CHANGES if settings.detailed_exitcode and seen.plan.actions else DONE


def settled_code(settings: Settings, last: Pass, *, late: bool) -> int:
    """Exit code of a run that applied; what went wrong is said, a line each."""
    wrong = list(last.errors)
    wrong += [f"{view.spec.name}: {view.reason}" for view in last.snapshot.hosts if view.reach is Reach.UNREACHABLE]
    if last.plan.guard:
        wrong.append(last.plan.guard)
    if late:
        wrong.append(f"not settled within {settings.deadline:g} s (--deadline)")
    if settings.fail_on_pending:
        wrong += [f"{pending.instance}: pending: {pending.reason}" for pending in last.plan.pending]
    for line in wrong:
        complain(f"reconcile: {line}")
    return ERROR if wrong else DONE
