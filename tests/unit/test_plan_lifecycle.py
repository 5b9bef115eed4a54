"""What becomes of an instance over many passes, through the public planner."""

import itertools
from dataclasses import replace

import pytest

from reconciler.model.host import HostState
from reconciler.model.plan import ActionKind, Order, StepKind
from reconciler.model.snapshot import Reach
from reconciler.model.workload import ContainerSpec, Rollout, SecretRef, Volume
from tests.fakes.world import World, app, desired, foreign, host, ident, task


def kinds(world_log: list[tuple[str, str]], instance: str) -> list[str]:
    """The steps that an instance went through."""
    return [step for name, step in world_log if name == instance]


def test_an_app_is_started_and_then_nothing_is_left_to_do() -> None:
    """Two instances on two cards each start at once, and the next plan is empty."""
    world = World.of(host("gpu-01"))
    want = desired([app("llm", 2, gpus=2, cpus=4)])
    first = world.step(want)
    assert [str(one.instance) for one in first.actions] == ["app/llm/0", "app/llm/1"]
    assert first.actions[0].reason == "2 desired, 0 running"
    last = world.settle(want)
    assert last.actions == ()
    assert last.unchanged == 2
    cards = [sorted(one.holding.gpus) for one in world.running().values()]
    assert len({card for pair in cards for card in pair}) == 4


def test_an_instance_removed_by_hand_comes_back_on_the_same_cards() -> None:
    """What was removed behind our back is made again where its cards are free."""
    world = World.of(host("gpu-01"), host("gpu-02"))
    want = desired([app("llm", 2, gpus=2)])
    world.settle(want)
    before = {name: one.holding.gpus for name, one in world.running().items()}
    (where, box) = next(
        (name, one) for name, one in world.containers() if str(one.ours and one.ours.instance) == "app/llm/1"
    )
    world.drop(where, box.id)
    world.settle(want)
    assert {name: one.holding.gpus for name, one in world.running().items()} == before


def test_a_new_image_is_rolled_start_first_when_other_cards_are_free() -> None:
    """The old one runs until the new one is ready; then it is stopped and removed."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("llm", gpus=2)]))
    old = world.running()["app/llm/0"].holding.gpus
    want = desired([app("llm", gpus=2, image="a:2")])
    planned = world.step(want)
    assert planned.actions[0].kind is ActionKind.REPLACE
    assert planned.actions[0].order is Order.START_FIRST
    assert planned.actions[0].reason == "changed: image"
    assert [(one.old, one.new) for one in planned.actions[0].changes] == [("a:1", "a:2")]
    assert len([one for _, one in world.containers() if one.running]) == 2
    assert world.settle(want).actions == ()
    (only,) = world.containers()
    assert only[1].image == "a:2"
    assert not only[1].holding.gpus & old


def test_without_room_the_old_one_is_stopped_first_and_kept_until_the_new_one_is_ready() -> None:
    """All cards are in use by the old one: stop-first, with the reason, and pulled and created before the stop."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("llm", gpus=8, cpus=4)]))
    world.log.clear()
    want = desired([app("llm", gpus=8, cpus=4, image="a:2")])
    planned = world.plan(want)
    (action,) = planned.actions
    assert action.order is Order.STOP_FIRST
    assert "stop-first" in action.reason
    assert [step.kind for step in action.steps if step.due] == ["pull", "update", "create", "stop"]
    assert world.settle(want).actions == ()
    assert kinds(world.log, "app/llm/0") == ["pull", "update", "create", "stop", "start", "remove"]
    assert world.running()["app/llm/0"].image == "a:2"


@pytest.mark.parametrize("gpus", [2, 8], ids=["start-first", "stop-first"])
def test_a_failed_replacement_leaves_the_old_one_running(gpus: int) -> None:
    """The new one never becomes healthy: it is removed, and the old container runs on (or again), not a new one."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("llm", gpus=gpus)]))
    old = world.running()["app/llm/0"].id
    world.unhealthy.add("a:2")
    last = world.settle(desired([app("llm", gpus=gpus, image="a:2")]))
    assert world.running()["app/llm/0"].id == old
    assert world.running()["app/llm/0"].limits.restart == "always"
    assert [one.failed for one in last.waiting] == [True]
    assert "unhealthy" in last.waiting[0].reason
    assert len(world.containers()) == 1


def test_a_failed_replacement_is_tried_again_after_its_back_off_and_at_once_with_a_new_commit() -> None:
    """Back-off is per instance and digest: another image is tried at once."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("llm", gpus=2)]))
    world.unhealthy.add("a:2")
    bad = desired([app("llm", gpus=2, image="a:2")])
    waiting = world.settle(bad).waiting[0]
    assert waiting.until is not None
    world.now = waiting.until + 1
    assert world.plan(bad).due
    world.now = waiting.until - 1
    assert not world.plan(bad).due
    good = desired([app("llm", gpus=2, image="a:3")])
    assert world.settle(good).actions == ()
    assert world.running()["app/llm/0"].image == "a:3"


def test_instances_of_a_workload_are_replaced_one_at_a_time_and_a_failure_holds_the_rest() -> None:
    """Only the first instance meets the bad image."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("llm", 3, gpus=1)]))
    world.unhealthy.add("a:2")
    bad = desired([app("llm", 3, gpus=1, image="a:2")])
    first = world.step(bad)
    assert [str(one.instance) for one in first.actions if any(step.due for step in one.steps)] == ["app/llm/0"]
    assert len(first.actions) == 3
    world.settle(bad)
    assert {one.image for one in world.running().values()} == {"a:1"}
    assert max(one.ours.generation for _, one in world.containers() if one.ours) <= 2


def test_going_back_to_the_old_spec_in_mid_roll_abandons_the_new_one() -> None:
    """A revert finds the old container still there and keeps it."""
    world = World.of(host("gpu-01"))
    old = desired([app("llm", gpus=2, rollout=Rollout(healthy_for=30.0))])
    world.settle(old, passes=80)
    before = world.running()["app/llm/0"].id
    world.step(desired([app("llm", gpus=2, image="a:2", rollout=Rollout(healthy_for=30.0))]))
    world.settle(old)
    assert world.running()["app/llm/0"].id == before
    assert len(world.containers()) == 1


def test_a_removed_workload_is_stopped_with_its_reason() -> None:
    """Stopped and removed, and said why."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("a"), app("b"), app("c"), app("d")]))
    want = desired([app("b"), app("c"), app("d")])
    (action,) = world.plan(want).actions
    assert (action.kind, action.reason) == (ActionKind.STOP, "no longer in git")
    assert world.settle(want).actions == ()
    assert sorted(world.running()) == ["app/b/0", "app/c/0", "app/d/0"]


def test_scaling_down_stops_the_highest_indexes() -> None:
    """3 → 2 stops index 2."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("a", 3)]))
    want = desired([app("a", 2)])
    assert [(str(one.instance), one.reason) for one in world.plan(want).actions] == [("app/a/2", "scaled down to 2")]
    world.settle(want)
    assert sorted(world.running()) == ["app/a/0", "app/a/1"]


@pytest.mark.parametrize(
    ("before", "after", "held"),
    [(1, 0, True), (4, 1, False), (4, 0, True), (10, 7, False), (10, 6, True), (20, 14, False), (20, 13, True)],
)
def test_the_prune_guard_holds_what_would_stop_too_much(before: int, after: int, *, held: bool) -> None:
    """All of it, or more than 30 % and more than three: waits for a word, and does it with one."""
    world = World.of(host("gpu-01"))
    names = [f"w{number:02}" for number in range(before)]
    world.settle(desired([app(name) for name in names]))
    want = desired([app(name) for name in names[:after]])
    planned = world.plan(want)
    assert bool(planned.guard) is held
    assert planned.due is not held
    world.settle(want, allow_prune=True)
    assert len(world.running()) == after


def test_a_suspended_app_is_stopped_whatever_the_guard_says() -> None:
    """Suspending is asked for by name."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("a")]))
    world.settle(desired([app("a", suspend=True)]))
    assert world.running() == {}
    world.settle(desired([app("a")]))
    assert sorted(world.running()) == ["app/a/0"]


def test_cores_and_memory_are_changed_in_place() -> None:
    """More memory and fewer cores: the same container."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("a", cpus=4, memory=4, gpus=1)]))
    before = world.running()["app/a/0"]
    want = desired([app("a", cpus=2, memory=8, gpus=1)])
    (action,) = world.plan(want).actions
    assert action.kind is ActionKind.UPDATE
    assert [one.field for one in action.changes] == ["resources.cpus", "cpuset", "resources.memory"]
    assert world.settle(want).actions == ()
    after = world.running()["app/a/0"]
    assert after.id == before.id
    assert len(after.limits.cpus) == 2
    assert set(after.limits.cpus) < set(before.limits.cpus)


def test_an_exclusive_start_narrows_the_shared_ones_first() -> None:
    """The update of the shared container comes before the start, and there is nothing left to do after."""
    world = World.of(host("h", [(8, 64, 0)]))
    world.settle(desired([app("web", cpus=0.5)]))
    assert len(world.running()["app/web/0"].limits.cpus) == 8
    want = desired([app("web", cpus=0.5), app("db", cpus=4)])
    assert [one.kind for one in world.plan(want).actions] == [ActionKind.UPDATE, ActionKind.START]
    assert world.settle(want).actions == ()
    shared, owned = world.running()["app/web/0"].limits.cpus, world.running()["app/db/0"].limits.cpus
    assert len(shared) == 4
    assert not set(shared) & set(owned)


def test_a_drained_host_is_left() -> None:
    """Everything moves to the other host; when it comes back nothing moves again."""
    one, two = host("gpu-01"), host("gpu-02")
    world = World.of(one, two)
    want = desired([app("a", 2, gpus=1), task("t", gpus=1)])
    world.settle(want)
    drained = next(name for name, box in world.containers())
    world.views[drained] = replace(
        world.views[drained], spec=replace(world.views[drained].spec, state=HostState.DRAINED)
    )
    world.settle(want)
    assert sorted(world.running()) == ["app/a/0", "app/a/1", "task/t/r1/0/0"]
    assert not [box for name, box in world.containers() if name == drained and box.running]


def test_a_move_that_fails_is_not_tried_at_once_again() -> None:
    """Off a drained host, a replacement that never becomes healthy backs off; the old one goes on where it is."""
    one, two = host("gpu-01"), host("gpu-02")
    world = World.of(one, two)
    want = desired([app("web", gpus=1)])
    world.settle(want)
    ((drained, _),) = world.containers()
    spec = world.views[drained].spec
    world.views[drained] = replace(world.views[drained], spec=replace(spec, state=HostState.DRAINED))
    world.unhealthy.add("a:1")
    world.settle(want)
    waiting = world.plan(want).waiting
    assert [(name, box.running) for name, box in world.containers()] == [(drained, True)]
    assert [(one.failed, f"{drained} is drained; its replacement failed" in one.reason) for one in waiting] == [
        (True, True)
    ]


def test_a_task_runs_once_and_its_container_is_its_receipt() -> None:
    """Finished is finished, with the receipt or with the memory alone."""
    world = World.of(host("gpu-01"))
    want = desired([task("t", gpus=1)])
    world.settle(want)
    (where, box) = world.containers()[0]
    world.change(where, box.id, state="exited", exit_code=0, holds=False)
    assert world.settle(want).actions == ()
    world.drop(where, box.id)
    assert world.settle(want).actions == ()
    assert world.containers() == []


def test_a_new_run_waits_for_the_one_that_is_going_on_and_says_loudly_that_it_runs_again() -> None:
    """``onChange: finish``."""
    world = World.of(host("gpu-01"))
    world.settle(desired([task("t", "r1")]))
    again = desired([task("t", "r2", image="a:2")])
    assert world.plan(again).actions == ()
    (where, box) = world.containers()[0]
    world.change(where, box.id, state="exited", exit_code=0, holds=False)
    planned = world.plan(again)
    assert [str(one.instance) for one in planned.actions] == ["task/t/r2/0/0"]
    assert any("again" in line and "r1" in line for line in planned.warnings)
    world.settle(again)
    assert sorted(one.state for _, one in world.containers()) == ["exited", "running"]


def test_a_restarted_run_stops_the_one_that_is_going_on() -> None:
    """``onChange: restart``."""
    world = World.of(host("gpu-01"))
    world.settle(desired([task("t", "r1"), app("x", 4)]))
    world.settle(desired([task("t", "r2", image="a:2", on_change="restart"), app("x", 4)]))
    assert [one for one in world.running() if one.startswith("task")] == ["task/t/r2/0/0"]


def test_a_reconciler_killed_between_create_and_start_finishes_the_start() -> None:
    """A created container is found and started, not doubled."""
    world = World.of(host("gpu-01"))
    want = desired([app("a", gpus=1)])
    world.settle(want)
    (where, box) = world.containers()[0]
    world.change(where, box.id, state="created")
    assert [step.kind for step in world.plan(want).actions[0].steps] == [StepKind.START, StepKind.READY]
    world.settle(want)
    assert world.running()["app/a/0"].id == box.id


def test_a_container_stopped_by_hand_is_started_again_unless_its_card_was_taken() -> None:
    """It comes back as it was; or anew on another card when a foreign container sits on its own."""
    world = World.of(host("gpu-01"))
    want = desired([app("a", gpus=1)])
    world.settle(want)
    (where, box) = world.containers()[0]
    world.change(where, box.id, state="exited", exit_code=137)
    world.settle(want)
    assert world.running()["app/a/0"].id == box.id
    world.change(where, box.id, state="exited", exit_code=137)
    world.put(where, foreign("thief", gpus=box.holding.gpus))
    world.settle(want)
    again = world.running()["app/a/0"]
    assert again.id != box.id
    assert not again.holding.gpus & box.holding.gpus


def test_an_unreachable_host_counts_as_running_and_nothing_is_doubled() -> None:
    """Known from before, or after a restart with the memory lost: nothing starts that may still run there."""
    world = World.of(host("gpu-01"), host("gpu-02"))
    want = desired([app("a", 2, gpus=8)])
    world.settle(want)
    dark = replace(world.views["gpu-01"], reach=Reach.UNREACHABLE, reason="connection refused")
    world.views["gpu-01"] = dark
    assert world.plan(want).actions == ()
    world.views["gpu-01"] = replace(dark, containers=(), facts=None, seen=False)
    world.drop("gpu-02", world.views["gpu-02"].containers[0].id)
    remembering = world.plan(want)
    assert [str(one.instance) for one in remembering.actions] == ["app/a/1"] or [
        str(one.instance) for one in remembering.actions
    ] == ["app/a/0"]
    world.memory = replace(world.memory, last_seen={}, placed={})
    assert world.plan(want).actions == ()


def test_a_renamed_container_gets_its_name_back() -> None:
    """The name is the lock."""
    world = World.of(host("h"))
    want = desired([app("a")])
    world.settle(want)
    world.change("h", "lab.app.a.0.g1", name="something")
    assert [one.kind for one in world.plan(want).actions] == [ActionKind.ADOPT]
    world.settle(want)
    assert world.containers()[0][1].name == "lab.app.a.0.g1"


def test_what_leaves_is_waited_for_before_its_cards_are_used() -> None:
    """A start that needs the cards of a workload that leaves is due only when they are free."""
    world = World.of(host("h"))
    world.settle(desired([app("old", gpus=8), app("x", 4)]))
    want = desired([app("new", gpus=8), app("x", 4)])
    planned = world.plan(want)
    start = next(one for one in planned.actions if one.kind is ActionKind.START)
    assert [step.kind for step in start.steps if step.due] == [StepKind.PULL]
    world.settle(want)
    assert ident("app/new/0") in {one.ours.instance for _, one in world.containers() if one.ours}


def test_a_changed_secret_replaces_and_an_unknown_one_does_not() -> None:
    """Keyed hashes are compared where both are known."""
    world = World.of(host("h"))
    want = desired([app("a")])
    world.settle(want)
    (where, box) = world.containers()[0]
    assert box.ours
    world.change(where, box.id, ours=replace(box.ours, secrets="old"))
    assert world.plan(want).actions == ()
    (action,) = world.plan(want, secrets={"app/a": "new"}).actions
    assert (action.kind, action.reason.split(";")[0]) == (ActionKind.REPLACE, "a secret changed")


def test_a_quota_is_exchanged_for_cores_of_its_own_by_a_new_container() -> None:
    """The Engine cannot clear a quota in place, so shared → exclusive replaces; the other way round updates."""
    world = World.of(host("h"))
    world.settle(desired([app("a", cpus=0.5)]))
    want = desired([app("a", cpus=2)])
    (action,) = world.plan(want).actions
    assert action.kind is ActionKind.REPLACE
    assert world.settle(want).actions == ()
    back = desired([app("a", cpus=0.5)])
    assert [one.kind for one in world.plan(back).actions] == [ActionKind.UPDATE]
    assert world.settle(back).actions == ()


def test_a_fresh_start_that_does_not_stay_up_is_told_once_and_left_to_its_restart_policy() -> None:
    """Nothing is due any more; the failure is remembered, and forgotten when the container has become good."""
    world = World.of(host("h"))
    world.unhealthy.add("a:1")
    want = desired([app("a")])
    last = world.settle(want)
    assert [(one.failed, one.reason) for one in last.waiting] == [(True, "unhealthy")]
    assert [one.count for one in world.memory.failures.values()] == [1]
    (where, box) = world.containers()[0]
    world.change(where, box.id, health="healthy")
    world.settle(want)
    assert world.memory.failures == {}


def test_what_vanished_goes_back_to_its_own_cards_though_better_ones_are_free() -> None:
    """Where it was, and on which cards, is remembered; a failure there makes it free to go elsewhere."""
    world = World.of(host("gpu-01"), host("gpu-02"))
    world.settle(desired([app("a", gpus=3), app("b", gpus=1), app("c", gpus=1)]))
    world.settle(desired([app("b", gpus=1), app("c", gpus=1)]))
    want = desired([app("b", gpus=1), app("c", gpus=1)])
    (where, box) = next((name, one) for name, one in world.containers() if one.name.startswith("lab.app.c."))
    world.drop(where, box.id)
    world.settle(want)
    again = next(one for _, one in world.containers() if one.name.startswith("lab.app.c."))
    assert again.holding.gpus == box.holding.gpus


def test_an_instance_with_a_named_volume_stays_on_its_host() -> None:
    """Its data is there: when that host is drained it waits, with the reason, and goes on running."""
    world = World.of(host("h-1"), host("h-2"))
    spec = ContainerSpec("a:1", volumes=(Volume("/data", volume="data"),))
    want = desired([app("db", container=spec)])
    world.settle(want)
    (home, box) = world.containers()[0]
    world.drop(home, box.id)
    world.settle(want)
    assert world.containers()[0][0] == home
    view = world.views[home]
    world.views[home] = replace(view, spec=replace(view.spec, state=HostState.DRAINED))
    last = world.settle(want)
    assert [str(one.instance) for one in last.pending] == ["app/db/0"]
    assert list(world.running()) == ["app/db/0"]


def test_secrets_without_a_key_are_said_to_be_not_compared() -> None:
    """Said once, and no difference."""
    world = World.of(host("h"))
    spec = ContainerSpec("a:1", env=(("TOKEN", SecretRef("hf", "token")),))
    want = desired([app("a", container=spec)])
    last = world.settle(want)
    assert [line for line in last.warnings if "not compared" in line] == [
        "secrets are not compared: Cluster.secrets has no hashKey"
    ]


def test_an_app_that_ends_by_itself_is_started_again_ever_less_often() -> None:
    """``restart: on-failure`` and exit code 0: at once, then after 10, 20, 40 seconds."""
    world = World.of(host("h"))
    want = desired([app("a", restart="on-failure", rollout=Rollout(healthy_for=60.0))])
    world.step(want)
    starts = []
    for _ in range(90):
        (where, box) = world.containers()[0]
        world.change(where, box.id, state="exited", exit_code=0, holds=False)
        made = world.step(want)
        starts += [world.now for one in made.actions if one.kind is ActionKind.START]
    gaps = [round(after - before) for before, after in itertools.pairwise(starts)]
    assert gaps[:4] == sorted(gaps[:4])
    assert gaps[0] >= 10
    assert len(starts) <= 5


def test_work_on_a_host_that_left_git_is_not_started_a_second_time() -> None:
    """It may still run there; only a word that the host is gone for good frees it. When it is back, nothing moves."""
    one, two = host("gpu-01"), host("gpu-02")
    world = World.of(one, two)
    want = desired([task("t", gpus=1), app("a", gpus=1)])
    world.settle(want)
    (name,) = {name for name, _ in world.containers()}
    view = world.views.pop(name)
    last = world.settle(want)
    assert last.actions == ()
    assert sorted(str(one.instance) for one in last.waiting) == ["app/a/0", "task/t/r1/0/0"]
    assert all("Host document is gone" in one.reason for one in last.waiting)
    assert {str(one.instance) for one in world.plan(want, allow_prune=True).actions} == {"app/a/0", "task/t/r1/0/0"}
    world.views[name] = view
    assert world.settle(want).actions == ()


def test_a_copy_of_our_labels_never_takes_over_from_the_real_one() -> None:
    """Whatever generation it claims: the container that has its own name speaks for the instance."""
    world = World.of(host("h"))
    want = desired([app("a")])
    world.settle(want)
    (where, box) = world.containers()[0]
    assert box.ours
    world.put(where, replace(box, id="0copy", name="copy-of-a", ours=replace(box.ours, generation=7)))
    world.settle(want)
    assert [one.id for _, one in world.containers()] == [box.id]


def test_what_the_guard_held_stays_held_however_much_the_same_commit_has_started() -> None:
    """And a rollback to a commit whose containers run is judged by what runs."""
    world = World.of(host("h"))
    world.settle(desired([app("old")], commit="1" * 40))
    renamed = desired([app("new")], commit="2" * 40)
    last = world.settle(renamed)
    assert "stop 1 of" in last.guard
    assert sorted(world.running()) == ["app/new/0", "app/old/0"]
    scaled = World.of(host("h"))
    scaled.settle(desired([app("a", 6)], commit="3" * 40))
    assert scaled.settle(desired([app("a", 5)], commit="1" * 40)).guard == ""
    assert len(scaled.running()) == 5
