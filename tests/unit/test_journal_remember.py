"""What a pass adds to memory, and what is forgotten."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from reconciler.journal.remember import FINISHED_KEPT, _failures, back_off, remember
from reconciler.model.desired import Desired
from reconciler.model.host import HostSpec
from reconciler.model.memory import Failure, Memory, Place, Watch
from reconciler.model.plan import Action, ActionKind, Existing, Outcome, Placed, Plan, Step, StepKind
from reconciler.model.snapshot import Container, HostView, Ours, Reach, Snapshot
from reconciler.model.workload import Allocation, ContainerSpec, InstanceId, Kind, Workload, digest_of, spec_on_host

NOW = 1000.0
APP = InstanceId.parse("app/web/0")
TASK = InstanceId.parse("task/train/4e1d/0/0")
WEB = Workload(Kind.APP, "web", ContainerSpec("web:1"))
TRAIN = Workload(Kind.TASK, "train", ContainerSpec("train:1"), run="4e1d")
DIGEST = digest_of(spec_on_host(WEB.container, ()))
DESIRED = Desired(None, (WEB, TRAIN), ())
EMPTY = Plan("lab", "c0ffee", "repo", "sha256:0")


def box(
    instance: InstanceId = APP,
    name: str = "c1",
    *,
    state: str = "running",
    health: str = "none",
    restarts: int = 0,
    code: int = 0,
    generation: int = 1,
    digest: str = DIGEST,
) -> Container:
    """A container of ours."""
    ours = Ours(instance, generation, digest, {}, Allocation())
    return Container(name, name, state, ours=ours, health=health, restart_count=restarts, exit_code=code)


def seen(*containers: Container, reach: Reach = Reach.KNOWN, host: str = "gpu-01") -> HostView:
    """A host with these containers."""
    return HostView(HostSpec(host, "sim://"), reach, containers=containers)


def action(
    *steps: StepKind, kind: ActionKind = ActionKind.START, container: str = "", failure: str = "", digest: str = DIGEST
) -> Action:
    """An action about the app, every step due but READY."""
    made = tuple(Step(one, "gpu-01", "lab.app.web.0.g1", container, due=one is not StepKind.READY) for one in steps)
    return Action(kind, APP, "gpu-01", "why", made, WEB, digest=digest, failure=failure)


def after(
    memory: Memory,
    views: Sequence[HostView],
    *,
    plan: Plan = EMPTY,
    outcomes: Sequence[Outcome] = (),
    now: float = NOW,
    desired: Desired = DESIRED,
) -> Memory:
    """Memory after one pass."""
    return remember(memory, Snapshot(tuple(views)), plan, outcomes, now, desired=desired)


# -- watches

STARTED = action(StepKind.CREATE, StepKind.START, StepKind.READY)
AGAIN = action(StepKind.START, StepKind.READY, container="c1")
CREATED = action(StepKind.CREATE, StepKind.READY)


@pytest.mark.parametrize(
    ("outcome", "watches"),
    [
        (Outcome(STARTED, (StepKind.CREATE, StepKind.START), created="new"), {"new": Watch(NOW)}),
        (Outcome(AGAIN, (StepKind.START,)), {"c1": Watch(NOW)}),
        (Outcome(CREATED, (StepKind.CREATE,), created="new"), {}),
        (Outcome(STARTED, (StepKind.CREATE,), error="no such image", created="new"), {}),
        (Outcome(replace(STARTED, instance=TASK), (StepKind.START,), created="new"), {}),
    ],
)
def test_a_watch_begins_with_the_start(outcome: Outcome, watches: dict[str, Watch]) -> None:
    """The rollout's deadline runs from the start, pulls excluded; a task has nothing to become."""
    assert after(Memory(), [seen(box(state="exited"))], outcomes=[outcome]).watches == watches


def test_a_watch_begins_for_a_container_that_the_plan_waits_for() -> None:
    """With an empty memory the rollout goes on from what is seen."""
    plan = replace(EMPTY, actions=(action(StepKind.READY, container="c1"),))
    memory = after(Memory(), [seen(box(restarts=3))], plan=plan)
    assert memory.watches == {"c1": Watch(NOW, NOW, 3)}


@pytest.mark.parametrize(
    ("container", "watch"),
    [
        (box(), Watch(900.0, 950.0)),
        (box(health="healthy"), Watch(900.0, 950.0)),
        (box(health="starting"), Watch(900.0, None)),
        (box(health="unhealthy"), Watch(900.0, None)),
        (box(state="restarting"), Watch(900.0, None)),
        (box(state="exited"), Watch(900.0, None)),
        (box(restarts=1), Watch(900.0, None, 1)),
    ],
)
def test_a_watch_is_good_only_without_a_break(container: Container, watch: Watch) -> None:
    """A restart, a failed check or a stop ends what was good; the deadline goes on."""
    before = Memory(watches={"c1": Watch(900.0, 950.0)})
    assert after(before, [seen(container)]).watches == {"c1": watch}


def test_a_watch_becomes_good_when_it_is_first_seen_so() -> None:
    """Good since this pass, not since the start."""
    assert after(Memory(watches={"c1": Watch(900.0)}), [seen(box())]).watches == {"c1": Watch(900.0, NOW)}


def test_time_in_which_nobody_could_look_counts_for_nothing() -> None:
    """While its host is silent a watch starts over: neither ready nor late."""
    before = Memory(watches={"c1": Watch(900.0, 950.0, 2)})
    memory = after(before, [seen(box(restarts=2), reach=Reach.UNREACHABLE)])
    assert memory.watches == {"c1": Watch(NOW, None, 2)}


def test_the_watch_of_a_container_that_is_gone_is_dropped() -> None:
    """Nothing grows with the number of containers that came and went."""
    assert after(Memory(watches={"old": Watch(900.0)}), [seen(box())]).watches == {}


KEPT = replace(EMPTY, kept=(Placed(APP, "gpu-01", "c1", "running", Allocation()),))


def test_a_settled_container_is_healthy_and_its_failures_are_forgotten() -> None:
    """The watch ends when the plan keeps the container and waits for it no more."""
    other = (TASK, digest_of(spec_on_host(TRAIN.container, ())))
    failure = Failure(3, 900.0, 940.0, "exited")
    before = Memory(watches={"c1": Watch(900.0, 950.0)}, failures={(APP, DIGEST): failure, other: failure})
    memory = after(before, [seen(box())], plan=KEPT)
    assert (memory.watches, memory.healthy, memory.failures) == ({}, {APP: DIGEST}, {other: failure})


@pytest.mark.parametrize(
    ("plan", "container"),
    [
        (replace(KEPT, actions=(action(StepKind.READY, container="c1"),)), box()),
        (KEPT, box(health="unhealthy")),
        (EMPTY, box()),
    ],
)
def test_a_container_that_is_not_settled_stays_watched(plan: Plan, container: Container) -> None:
    """Still becoming ready, not good, or not kept."""
    memory = after(Memory(watches={"c1": Watch(900.0, 950.0)}), [seen(container)], plan=plan)
    assert ("c1" in memory.watches, memory.healthy) == (True, {})


def test_an_old_container_that_came_back_clears_no_failure_of_the_new_digest() -> None:
    """After a failed replacement the old one is healthy again, and the new one still backs off."""
    failure = Failure(1, 990.0, 1000.0, "exited")
    before = Memory(watches={"c1": Watch(900.0, 950.0)}, failures={(APP, DIGEST): failure})
    memory = after(before, [seen(box(digest="v1:old"))], plan=KEPT)
    assert (memory.healthy, memory.failures) == ({APP: "v1:old"}, {(APP, DIGEST): failure})


# -- failures


@pytest.mark.parametrize(
    ("count", "seconds"),
    [(1, 10.0), (2, 20.0), (3, 40.0), (6, 320.0), (7, 600.0), (8, 600.0), (10_000, 600.0)],
)
def test_back_off_doubles_up_to_ten_minutes(count: int, seconds: float) -> None:
    """10, 20, 40 ... 600 seconds."""
    assert back_off(count) == seconds


FAILED = replace(STARTED, failure="not ready within 60 s")


@pytest.mark.parametrize(
    ("outcome", "count"),
    [
        (Outcome(STARTED, error="pull failed"), 3),
        (Outcome(FAILED, (StepKind.CREATE, StepKind.START)), 3),
        (Outcome(FAILED, (StepKind.CREATE,)), 2),
        (Outcome(FAILED, (StepKind.CREATE, StepKind.START), in_motion=True), 2),
        (Outcome(STARTED, error="no answer", unreachable=True), 2),
        (Outcome(STARTED, (StepKind.CREATE, StepKind.START)), 2),
        (Outcome(STARTED, in_motion=True), 2),
    ],
)
def test_failures_count_in_a_row(outcome: Outcome, count: int) -> None:
    """An error counts, and a clean-up that is through; not a silent host, nor what has only begun."""
    before = Memory(failures={(APP, DIGEST): Failure(2, 900.0, 920.0, "before")})
    failure = after(before, [seen(box())], outcomes=[outcome]).failures[APP, DIGEST]
    assert failure.count == count
    if count == 3:
        message = outcome.error or "not ready within 60 s"
        assert failure == Failure(3, NOW, NOW + 40.0, message)


def test_a_first_failure_is_tried_again_after_ten_seconds() -> None:
    """The count starts at one."""
    memory = after(Memory(), [seen()], outcomes=[Outcome(STARTED, error="pull failed")])
    assert memory.failures == {(APP, DIGEST): Failure(1, NOW, NOW + 10.0, "pull failed")}


def test_an_update_that_works_clears_its_failure() -> None:
    """An update makes no container that would have to become healthy first."""
    before = Memory(failures={(APP, DIGEST): Failure(2, 900.0, 920.0, "refused")})
    update = action(StepKind.UPDATE, kind=ActionKind.UPDATE, container="c1")
    assert after(before, [seen(box())], outcomes=[Outcome(update, (StepKind.UPDATE,))]).failures == {}


@pytest.mark.parametrize(
    ("workloads", "kept"),
    [
        ((WEB,), True),
        ((replace(WEB, container=ContainerSpec("web:2")),), False),
        ((replace(WEB, instances=0),), False),
        ((), False),
    ],
)
def test_failures_of_what_git_no_longer_wants_are_forgotten(workloads: tuple[Workload, ...], kept: bool) -> None:
    """Another digest, fewer copies, or a workload that left git."""
    before = Memory(failures={(APP, DIGEST): Failure(1, 990.0, 1000.0, "exited")})
    memory = after(before, [seen()], desired=Desired(None, workloads, ()))
    assert ((APP, DIGEST) in memory.failures) is kept


@pytest.mark.parametrize(("containers", "kept"), [((box(),), True), ((), False)])
def test_a_failed_stop_is_remembered_while_there_is_something_to_stop(
    containers: tuple[Container, ...], kept: bool
) -> None:
    """A stop has no digest; it is about an instance that left git."""
    stop = action(StepKind.STOP, kind=ActionKind.STOP, container="c1", digest="")
    memory = after(
        Memory(), [seen(*containers)], outcomes=[Outcome(stop, error="refused")], desired=Desired(None, (), ())
    )
    assert ((APP, "") in memory.failures) is kept


# -- finished runs


@pytest.mark.parametrize(
    ("container", "finished"),
    [
        (box(TASK, state="exited", code=0), {TASK: 0}),
        (box(TASK, state="exited", code=3), {TASK: 3}),
        (box(TASK, state="running"), {}),
        (box(TASK, state="created"), {}),
        (box(APP, state="exited", code=1), {}),
    ],
)
def test_the_exit_code_of_a_task_is_kept(container: Container, finished: dict[InstanceId, int]) -> None:
    """Only tasks finish."""
    assert after(Memory(), [seen(container)]).finished == finished


def test_a_run_that_we_stopped_has_not_finished() -> None:
    """Moved away from a drained host, or replaced: its exit code is ours, not the task's."""
    old = Existing("c1", "n", "gpu-01", 1, Allocation())
    moving = replace(action(StepKind.CREATE, kind=ActionKind.REPLACE), instance=TASK, old=old)
    stopping = replace(action(StepKind.STOP, kind=ActionKind.STOP, container="c1"), instance=TASK)
    for one in (moving, stopping):
        plan = replace(EMPTY, actions=(one,))
        assert after(Memory(), [seen(box(TASK, state="exited", code=137))], plan=plan).finished == {}


def test_a_run_that_goes_on_in_a_newer_container_has_not_finished() -> None:
    """The newest generation speaks for the run."""
    old = box(TASK, "old", state="exited", code=137)
    assert after(Memory(), [seen(old), seen(box(TASK, "new", generation=2), host="gpu-02")]).finished == {}


@pytest.mark.parametrize(
    ("desired", "views"),
    [
        (DESIRED, [seen()]),
        (Desired(None, (replace(TRAIN, run="other"),), ()), [seen()]),
        (Desired(None, (WEB,), ()), [seen()]),
        (Desired(None, (WEB,), ()), [seen(box(TASK, state="exited"))]),
        (Desired(None, (WEB,), ()), [seen(), seen(reach=Reach.UNREACHABLE, host="gpu-02")]),
    ],
)
def test_a_run_that_finished_is_remembered_whatever_becomes_of_its_task_and_its_container(
    desired: Desired, views: list[HostView]
) -> None:
    """A task that left git and came back, by a revert say, does not run again."""
    assert after(Memory(finished={TASK: 0}), views, desired=desired).finished == {TASK: 0}


def test_finished_runs_are_kept_to_a_number() -> None:
    """The oldest go first."""
    runs = {InstanceId(Kind.TASK, "train", "0", f"r{at}"): 0 for at in range(FINISHED_KEPT)}
    memory = after(Memory(finished=runs), [seen(box(TASK, state="exited", code=7))])
    assert len(memory.finished) == FINISHED_KEPT
    assert (TASK in memory.finished, InstanceId(Kind.TASK, "train", "0", "r0") in memory.finished) == (True, False)


# -- hosts


@pytest.mark.parametrize(("reach", "at"), [(Reach.KNOWN, NOW), (Reach.STALE, 900.0), (Reach.UNREACHABLE, 900.0)])
def test_a_host_is_seen_when_all_of_it_answers(reach: Reach, at: float) -> None:
    """A silent host keeps the time at which it was last seen; one that left git is forgotten."""
    memory = after(Memory(last_seen={"gpu-01": 900.0, "gone": 900.0}), [seen(reach=reach)])
    assert memory.last_seen == {"gpu-01": at}


@pytest.mark.parametrize(
    ("views", "placed"),
    [
        ([seen(box())], {APP: "gpu-01"}),
        ([seen()], {APP: "gpu-01"}),
        ([seen(reach=Reach.UNREACHABLE)], {APP: "gpu-01"}),
        ([seen(reach=Reach.UNREACHABLE), seen(box(), host="gpu-02")], {APP: "gpu-02"}),
    ],
)
def test_where_an_instance_was_is_kept_while_git_wants_it(views: list[HostView], placed: dict[InstanceId, str]) -> None:
    """A silent host cannot hide it, and what vanished is known to have been there; where it is seen now counts more."""
    memory = after(Memory(placed={APP: Place("gpu-01", Allocation())}), views)
    assert {instance: place.host for instance, place in memory.placed.items()} == placed


def test_memory_does_not_grow_with_passes() -> None:
    """The same pass again and again ends in the same memory."""
    plan = replace(EMPTY, actions=(action(StepKind.READY, container="c1"),))
    views = [seen(box(), box(TASK, "c2", state="exited"))]
    first = after(Memory(), views, plan=plan)
    again = first
    for _ in range(50):
        again = after(again, views, plan=plan)
    assert again == first


def test_a_lost_race_does_not_lengthen_the_back_off() -> None:
    """Two reconcilers that meet try again after ten seconds each time: it says nothing about the workload."""
    action = Action(ActionKind.START, APP, "gpu-01", "", (Step(StepKind.CREATE, "gpu-01", "n"),), digest="d")
    lost = Outcome(action, error="GPU-1 is held by another", raced=True)
    memory = Memory()
    for now in (100.0, 200.0, 300.0):
        memory = Memory(failures=_failures(memory, [lost], now))
        assert memory.failures[APP, "d"] == Failure(1, now, now + 10.0, "GPU-1 is held by another")
