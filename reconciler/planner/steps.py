"""Which Engine calls an action takes, in which order, and which of them are due now."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from reconciler.model.plan import Step, StepKind
from reconciler.model.workload import Allocation, Kind, Workload
from reconciler.planner.found import Found

RESTART_NO = (("RestartPolicy", {"Name": "no", "MaximumRetryCount": 0}),)


def make(workload: Workload, host: str, name: str) -> list[Step]:
    """Bring a new container up: pull, create, put files, start, and see it become ready (a task only starts)."""
    kinds = [StepKind.PULL] if workload.pull != "never" else []
    kinds.append(StepKind.CREATE)
    kinds += bring_up_kinds(workload)
    return [Step(kind, host, name, due=kind is not StepKind.READY) for kind in kinds]


def bring_up_kinds(workload: Workload) -> list[StepKind]:
    """What follows a create."""
    kinds = [StepKind.FILES] if workload.container.configs or workload.container.secret_files else []
    kinds.append(StepKind.START)
    if workload.kind is not Kind.TASK:
        kinds.append(StepKind.READY)
    return kinds


def bring_up(workload: Workload, one: Found) -> list[Step]:
    """Go on with a container that was created and not started."""
    return [_on(kind, one, due=kind is not StepKind.READY) for kind in bring_up_kinds(workload)]


def revive(workload: Workload, one: Found) -> list[Step]:
    """Start an exited container again, with the restart policy that a stop-first replacement took from it."""
    fields = restart_policy(workload, one)
    steps = [update(one, fields)] if fields else []
    steps.append(_on(StepKind.START, one))
    if workload.kind is not Kind.TASK:
        steps.append(_on(StepKind.READY, one, due=False))
    return steps


def restart_policy(workload: Workload, one: Found) -> tuple[tuple[str, Any], ...]:
    """What gives a container the restart policy of git (back); empty when it has it."""
    right = one.container.limits.restart == workload.restart
    return () if right else (("RestartPolicy", {"Name": workload.restart, "MaximumRetryCount": 0}),)


def update(one: Found, fields: tuple[tuple[str, Any], ...]) -> Step:
    """Change limits in place."""
    return replace(_on(StepKind.UPDATE, one), fields=fields)


def keep_down(one: Found) -> list[Step]:
    """Stop a container that is kept. Told not to, a restarted dockerd does not revive it and its hold on the cards."""
    steps = [] if one.container.limits.restart == "no" else [update(one, RESTART_NO)]
    return [*steps, _on(StepKind.STOP, one)]


def stop_first(make: list[Step], old: Found) -> list[Step]:
    """Pull and create the new one, stop and keep the old one, and start the new one when the old one is seen down.

    What can fail before the stop has then failed before it; and a task that was stopped to be moved has a newer
    container beside it, so that it is not taken for finished.
    """
    before = [step for step in make if step.kind in {StepKind.PULL, StepKind.CREATE}]
    down = keep_down(old)
    return [*before[:-1], *down[:-1], before[-1], down[-1], *later(make[len(before) :])]


def ready(one: Found) -> Step:
    """Wait until later passes have seen it ready."""
    return _on(StepKind.READY, one, due=False)


def clear(found: Iterable[Found]) -> list[Step]:
    """Stop what runs and remove it. A container that was told to stop is removed when a later pass sees it exited."""
    steps: list[Step] = []
    for one in found:
        if one.up:
            steps.append(_on(StepKind.STOP, one))
        steps.append(_on(StepKind.REMOVE, one, due=not one.up))
    return steps


def later(steps: Iterable[Step]) -> list[Step]:
    """The same steps, not due yet."""
    return [replace(step, due=False) for step in steps]


def only_pull(steps: Iterable[Step]) -> list[Step]:
    """The same steps with the pull alone due: what it needs is still held."""
    return [replace(step, due=step.due and step.kind is StepKind.PULL) for step in steps]


def uncut(allocation: Allocation) -> bool:
    """Whether it waits for a MIG slice that somebody has to cut."""
    return any(not piece.uuid for piece in allocation.mig)


def after_cut(make: list[Step]) -> list[Step]:
    """The same steps after the slice is cut, which is not the reconciler's to do: a later pass sees it there."""
    return [replace(make[0], kind=StepKind.CUT, due=False), *later(make)]


def rename(one: Found, name: str) -> Step:
    """Give a container the name that is its lock."""
    return replace(_on(StepKind.RENAME, one), fields=(("name", name),))


def _on(kind: StepKind, one: Found, *, due: bool = True) -> Step:
    return Step(kind, one.host, one.container.name, one.container.id, due=due)
