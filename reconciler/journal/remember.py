"""What one pass adds to memory, and what memory may forget. A pure function of values."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reconciler.model.desired import Desired
from reconciler.model.memory import Failure, Memory, Place, Watch
from reconciler.model.plan import Action, ActionKind, Outcome, Plan, StepKind
from reconciler.model.readiness import is_good
from reconciler.model.snapshot import Container, HostView, Ours, Reach, Snapshot
from reconciler.model.workload import InstanceId, Kind, Workload, digest_of, spec_on_host

BACK_OFF_FIRST = 10.0
BACK_OFF_MAX = 600.0
FINISHED_KEPT = 10_000

Key = tuple[InstanceId, str]


def remember(
    memory: Memory, snapshot: Snapshot, plan: Plan, outcomes: Sequence[Outcome], now: float, *, desired: Desired
) -> Memory:
    """The memory after a pass that saw ``snapshot``, decided ``plan`` and got ``outcomes``.

    ``now`` is the pass's own time, in seconds. Nothing here grows with the number of passes: what is about containers,
    instances or hosts that are gone is forgotten, and finished runs are kept to a number.
    """
    watches, healthy = _watch(memory, snapshot, plan, outcomes, now)
    failures = _failures(memory, outcomes, now) | _failing_by_themselves(memory, plan, now)
    for key in healthy.items():
        failures.pop(key, None)
    wanted = {workload.identity: workload for workload in desired.workloads}
    return Memory(
        failures={key: one for key, one in failures.items() if _can_recur(key, wanted, snapshot)},
        watches=watches,
        healthy={key: digest for key, digest in (dict(memory.healthy) | healthy).items() if _exists(key, wanted)},
        finished=_finished(memory, snapshot, plan),
        last_seen=_last_seen(memory, snapshot, now),
        placed=_placed(memory, snapshot, wanted),
        guarded={desired.revision: memory.guarded.get(desired.revision, now)} if plan.guard else {},
    )


def back_off(count: int) -> float:
    """Seconds to wait after the ``count``-th failure in a row: 10, 20, 40 ... 600."""
    return min(BACK_OFF_MAX, BACK_OFF_FIRST * 2.0 ** min(count - 1, 16))


def _containers(snapshot: Snapshot) -> Iterator[tuple[HostView, Container]]:
    return ((view, container) for view in snapshot.hosts for container in view.containers)


def _ours(snapshot: Snapshot) -> list[tuple[HostView, Container, Ours]]:
    """Containers of ours, oldest generation first."""
    found = [(view, one, one.ours) for view, one in _containers(snapshot) if one.ours]
    return sorted(found, key=lambda each: (each[2].generation, each[0].spec.name, each[1].id))


# -- becoming ready


def _watch(
    memory: Memory, snapshot: Snapshot, plan: Plan, outcomes: Iterable[Outcome], now: float
) -> tuple[dict[str, Watch], dict[InstanceId, str]]:
    """The watches to go on with, and the digests that have just been found healthy.

    A watch ends when the plan keeps its container, no longer lists it as becoming ready, and is done with the one that
    it replaces: until then it says again in each pass that the new one is good.
    """
    started = {_started(outcome): Watch(now) for outcome in outcomes if _started(outcome)}
    becoming = {step.container for action in plan.actions for step in action.steps if step.kind is StepKind.READY}
    replacing = {action.instance for action in plan.actions if action.kind is ActionKind.REPLACE}
    settled = {placed.container for placed in plan.kept if placed.instance not in replacing} - becoming
    watches: dict[str, Watch] = {}
    healthy: dict[InstanceId, str] = {}
    for view, container in _containers(snapshot):
        watch = memory.watches.get(container.id)
        if watch is None and container.id in becoming:
            watch = Watch(now, None, container.restart_count)
        if watch is None or container.id in started:
            continue
        watch = _look(watch, view, container, now)
        if container.ours and watch.good_since is not None and container.id in settled:
            healthy[container.ours.instance] = container.ours.digest
        else:
            watches[container.id] = watch
    return watches | started, healthy


def _started(outcome: Outcome) -> str:
    """Id of the container that this outcome started and that is to become ready: a task is never watched."""
    if StepKind.START not in outcome.done or outcome.action.instance.kind is Kind.TASK:
        return ""
    steps = (step.container for step in outcome.action.steps if step.kind is StepKind.START)
    return next(filter(None, steps), outcome.created)


def _look(watch: Watch, view: HostView, container: Container, now: float) -> Watch:
    """The watch after one more look. Time in which nobody could look counts for nothing, good or bad."""
    if view.reach is Reach.UNREACHABLE:
        return Watch(now, None, watch.restart_count)
    if is_good(container, watch.restart_count):
        return replace(watch, good_since=now if watch.good_since is None else watch.good_since)
    return replace(watch, good_since=None, restart_count=container.restart_count)


# -- failures


def _failures(memory: Memory, outcomes: Iterable[Outcome], now: float) -> dict[Key, Failure]:
    failures = dict(memory.failures)
    for outcome in outcomes:
        key = (outcome.action.instance, outcome.action.digest)
        message = outcome.error or (outcome.action.failure if _all_done(outcome) else "")
        if message and not outcome.unreachable:
            before = failures[key].count if key in failures else 0
            count = max(1, before) if outcome.raced else before + 1
            failures[key] = Failure(count, now, now + back_off(1 if outcome.raced else count), message)
        elif _all_done(outcome) and not _makes_container(outcome.action):
            failures.pop(key, None)
    return failures


def _failing_by_themselves(memory: Memory, plan: Plan, now: float) -> dict[Key, Failure]:
    """Containers that were started well and do not stay up: remembered once, so that what comes after is held back."""
    digests = {placed.instance: placed.digest for placed in plan.kept}
    found = {
        (one.instance, digests[one.instance]): Failure(1, now, now + back_off(1), one.reason)
        for one in plan.waiting
        if one.failed and one.until is None and one.instance in digests
    }
    return {key: failure for key, failure in found.items() if key not in memory.failures}


def _all_done(outcome: Outcome) -> bool:
    due = {step.kind for step in outcome.action.steps if step.due}
    return not outcome.error and not outcome.in_motion and due <= set(outcome.done)


def _makes_container(action: Action) -> bool:
    """Whether success shows only when the container has become healthy."""
    return action.kind in {ActionKind.START, ActionKind.REPLACE, ActionKind.ADOPT}


def _can_recur(key: Key, wanted: dict[str, Workload], snapshot: Snapshot) -> bool:
    """Whether the instance still exists and git still wants that digest on some host; stops have no digest."""
    instance, digest = key
    if not digest:
        return any(one.instance == instance for _, _, one in _ours(snapshot))
    workload = wanted.get(instance.workload)
    if workload is None or not _exists(instance, wanted):
        return False
    return any(digest == digest_of(spec_on_host(workload.container, view.spec.env)) for view in snapshot.hosts)


def _exists(instance: InstanceId, wanted: dict[str, Workload]) -> bool:
    """Whether git wants this very instance."""
    workload = wanted.get(instance.workload)
    if workload is None:
        return False
    if instance.kind is Kind.TASK:
        return instance.run == workload.run
    return instance.kind is Kind.LOCAL_SERVICE or int(instance.index) < workload.instances


# -- runs and hosts


def _finished(memory: Memory, snapshot: Snapshot, plan: Plan) -> dict[InstanceId, int]:
    """Exit codes of finished runs. A run that we stopped ourselves, to move or to replace it, has not finished."""
    newest = {ours.instance: container for _, container, ours in _ours(snapshot) if ours.instance.kind is Kind.TASK}
    stopped = _stopped_by_us(plan)
    over = {
        instance: container.exit_code
        for instance, container in newest.items()
        if container.state == "exited" and container.id not in stopped
    }
    # Also of tasks that left git: one that comes back, by a revert say, is not run again. The oldest go at some number.
    finished = dict(memory.finished) | over
    return dict(list(finished.items())[-FINISHED_KEPT:])


def _stopped_by_us(plan: Plan) -> set[str]:
    replaced = {action.old.id for action in plan.actions if action.old and action.kind is ActionKind.REPLACE}
    stops = {step.container for action in plan.actions for step in action.steps if step.kind is StepKind.STOP}
    return replaced | stops


def _last_seen(memory: Memory, snapshot: Snapshot, now: float) -> dict[str, float]:
    seen = {view.spec.name: now for view in snapshot.hosts if view.reach is Reach.KNOWN}
    hosts = {view.spec.name for view in snapshot.hosts}
    return {host: at for host, at in (dict(memory.last_seen) | seen).items() if host in hosts}


def _placed(memory: Memory, snapshot: Snapshot, wanted: dict[str, Workload]) -> dict[InstanceId, Place]:
    """Where each instance was last seen, and what it had there.

    What is on a host that does not answer may still be there; what vanished goes back to its cards and volumes.
    """
    hosts = {view.spec.name: view.reach for view in snapshot.hosts}
    remembered = {
        instance: place
        for instance, place in memory.placed.items()
        if hosts.get(place.host) is Reach.UNREACHABLE or _exists(instance, wanted)
    }
    return remembered | {ours.instance: Place(view.spec.name, ours.allocation) for view, _, ours in _ours(snapshot)}
