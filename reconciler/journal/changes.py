"""What is worth a line: changes of state between two passes, and what was done. Pure functions of values."""

from collections.abc import Iterable, Mapping

from reconciler.journal.journal import Event
from reconciler.model.desired import Desired
from reconciler.model.plan import Outcome, Plan
from reconciler.model.snapshot import Reach, Snapshot

State = Mapping[tuple[str, str], str]


def state_of(desired: Desired, snapshot: Snapshot, plan: Plan) -> State:
    """How things stand, by (what, which): one value per thing, so that only a change is a difference.

    Nothing in a value may change by itself from pass to pass (times, counters).
    """
    state: dict[tuple[str, str], str] = {("source", desired.source): desired.commit or "uncommitted files"}
    for view in snapshot.hosts:
        known = "answers" if view.reach is Reach.KNOWN else f"{view.reach}"
        state["host", view.spec.name] = f"{known}: {view.reason}" if view.reason else known
    for kept in plan.kept:
        state["instance", str(kept.instance)] = f"{kept.state} on {kept.host}"
    for pending in plan.pending:
        state["instance", str(pending.instance)] = f"pending: {pending.reason}"
    for waiting in plan.waiting:
        if waiting.instance:
            state["instance", str(waiting.instance)] = f"{'failing' if waiting.failed else 'waiting'}: {waiting.reason}"
    if plan.guard:
        state["guard", plan.cluster] = plan.guard
    return state


def changes(before: State, after: State, at: float) -> list[Event]:
    """An event for each thing whose state is another than before; what is gone has ended."""
    out = []
    for key in sorted({*before, *after}):
        what, which = key
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        message = new or "gone"
        instance, host = (which if what == "instance" else ""), (which if what == "host" else "")
        out.append(Event(at, what, instance, host, message if what in {"instance", "host"} else f"{which}: {message}"))
    return out


def acted(outcomes: Iterable[Outcome], at: float) -> list[Event]:
    """An event for each action that was carried on or failed in this pass."""
    out = []
    for outcome in outcomes:
        action = outcome.action
        if outcome.error:
            out.append(Event(at, "failed", str(action.instance), action.host, f"{action.kind}: {outcome.error}"))
        elif outcome.done:
            steps = ", ".join(outcome.done)
            message = f"{action.kind} ({action.reason}): {steps}"
            out.append(Event(at, "acted", str(action.instance), action.host, message))
    return out
