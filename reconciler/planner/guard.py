"""The prune guard: a commit that would stop very much at once waits for a word."""

from collections.abc import Sequence
from dataclasses import replace

from reconciler.model.desired import Prune
from reconciler.planner.diff import Case, Verdict

FREE_STOPS = 3


def guarded(cases: Sequence[Case], prune: Prune, *, held: bool, allowed: bool) -> tuple[list[Case], str]:
    """The cases with held-back stops turned into waits, and the guard's own line (empty when it let all pass).

    It holds when everything that runs would be stopped, or more than ``max_fraction`` of it and more than three.
    Stops that git asks for by name (``suspend``) are not counted. A revision that was ``held`` once stays so: what it
    starts meanwhile makes its stops no smaller.
    """
    if not prune.enabled:
        return [_held(case, "pruning is off") if _prunes(case) else case for case in cases], ""
    running = sum(1 for case in cases if case.current is not None and case.current.up)
    stops = sum(1 for case in cases if case.verdict is Verdict.STOP and case.prune)
    limit = max(FREE_STOPS, int(running * prune.max_fraction))
    if allowed or not stops or (not held and stops <= limit and stops < running):
        return list(cases), ""
    line = f"prune guard: this would stop {stops} of {running} running instances (limit {min(limit, running - 1)})"
    line += "; pass --allow-prune if that is meant"
    return [_held(case, "held by the prune guard") if _prunes(case) else case for case in cases], line


def _prunes(case: Case) -> bool:
    """Stops of what left git, and the removal of receipts: without its receipt a run would run again after a revert."""
    return case.prune or case.verdict is Verdict.REMOVE


def _held(case: Case, why: str) -> Case:
    return replace(case, verdict=Verdict.WAIT, reason=f"{case.reason}; {why}", prune=False)
