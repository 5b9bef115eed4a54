"""Replacements that do not go straight through: slow stops, cards lost on the way, deaths between two steps."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.desired import Desired
from reconciler.model.memory import Failure
from reconciler.model.plan import ActionKind, Plan, StepKind
from reconciler.model.snapshot import Container
from reconciler.model.workload import Rollout
from tests.fakes.world import World, app, desired, foreign, host, ident

ALL = desired([app("llm", gpus=8, cpus=4)])
NEXT = desired([app("llm", gpus=8, cpus=4, image="a:2")])


def due(plan: Plan) -> list[tuple[StepKind, str]]:
    """What is to be done now, and to which container."""
    return [(step.kind, step.name.rpartition(".")[2]) for action in plan.actions for step in action.steps if step.due]


def half_way(want: Desired = NEXT, before: Desired = ALL, **cards: Any) -> World:
    """A stop-first replacement whose new container was made and whose old one takes its time to stop."""
    world = World.of(host("gpu-01", **cards))
    world.settle(before)
    old = world.running()["app/llm/0"]
    world.step(want)
    world.change("gpu-01", old.id, state="running", holds=True, exit_code=0)
    return world


def box(world: World, generation: int) -> Container:
    """One of the app's containers."""
    return next(one for _, one in world.containers() if one.name.endswith(f".g{generation}"))


def test_a_slow_stop_is_waited_for() -> None:
    """The new one stays as it was made, pass after pass, and starts when the old one is seen down."""
    world = half_way()
    made = box(world, 2).id
    for _ in range(3):
        assert due(world.plan(NEXT)) == [(StepKind.STOP, "g1")]
        world.now += 1
    world.settle(NEXT)
    assert world.running()["app/llm/0"].id == made


def test_a_new_one_that_lost_its_card_is_cleared_away_and_the_old_one_goes_on() -> None:
    """What still runs is never stopped for a replacement that cannot start."""
    world = World.of(host("gpu-01"))
    world.settle(desired([app("llm", gpus=2)]))
    old = world.running()["app/llm/0"]
    want = desired([app("llm", gpus=2, image="a:2")])
    world.step(want)
    new = box(world, 2)
    assert not new.holding.gpus & old.holding.gpus
    world.change("gpu-01", new.id, state="created")
    world.put("gpu-01", foreign("thief", gpus=new.holding.gpus))
    assert due(world.plan(want)) == [(StepKind.REMOVE, "g2")]
    world.step(want)
    assert world.running()["app/llm/0"].id == old.id
    world.settle(want)
    again = world.running()["app/llm/0"]
    assert again.image == "a:2"
    assert not again.holding.gpus & new.holding.gpus


def test_a_stopped_old_one_is_kept_when_the_new_one_lost_its_card() -> None:
    """The new one is made again elsewhere; the old container goes only when that one is ready."""
    world = World.of(host("gpu-01"))
    want = desired([app("llm", gpus=4, image="a:2", rollout=Rollout("stop-first", healthy_for=0.0))])
    world.settle(desired([app("llm", gpus=4)]))
    world.step(want)
    new = box(world, 2)
    world.put("gpu-01", foreign("thief", gpus=sorted(new.holding.gpus)[:1]))
    planned = world.step(want)
    assert [(action.kind, action.instance) for action in planned.actions] == [(ActionKind.START, ident("app/llm/0"))]
    assert {one.name.rpartition(".")[2] for _, one in world.containers()} == {"g1", "g3", "thief"}
    world.settle(want)
    assert world.running()["app/llm/0"].id == "id0003"


def test_an_old_one_that_was_not_stopped_gets_its_restart_policy_back() -> None:
    """Its replacement failed before the stop: it must survive the next restart of its Engine."""
    world = World.of(host("gpu-01"))
    world.settle(ALL)
    old = world.running()["app/llm/0"]
    world.change("gpu-01", old.id, limits=replace(old.limits, restart="no"))
    action = world.plan(NEXT).actions[0]
    failed = {(action.instance, action.digest): Failure(1, world.now, world.now + 10, "no such image")}
    world.memory = replace(world.memory, failures=failed)
    planned = world.step(NEXT)
    assert due(planned) == [(StepKind.UPDATE, "g1")]
    assert [(one.field, one.old, one.new) for one in planned.actions[0].changes] == [("restart", "no", "always")]
    assert world.running()["app/llm/0"].limits.restart == "always"
    assert due(world.plan(NEXT)) == []


def test_a_new_one_that_was_ready_stays_ready_while_the_old_one_goes() -> None:
    """A slow stop after that is no reason to wait once more until the new one has been good for long enough."""
    world = World.of(host("gpu-01"))
    rollout = Rollout(healthy_for=5.0)
    world.settle(desired([app("llm", gpus=2, rollout=rollout)]))
    old = world.running()["app/llm/0"]
    want = desired([app("llm", gpus=2, image="a:2", rollout=rollout)])
    while (StepKind.STOP, "g1") not in due(world.plan(want)):
        world.step(want)
    world.step(want)
    world.change("gpu-01", old.id, state="running", holds=True)
    for _ in range(3):
        assert (StepKind.STOP, "g1") in due(world.step(want))
        world.change("gpu-01", old.id, state="running", holds=True)
    world.settle(want)
    assert world.running()["app/llm/0"].image == "a:2"


class Dying(World):
    """A world whose reconciler dies after some steps of a pass: what follows is not done, and nothing is remembered."""

    def die_after(self, want: Desired, steps: int) -> bool:
        """A pass that ends after that many steps; whether it had that many."""
        actions = list(self.plan(want).actions)
        left = steps
        for action in actions:
            todo = [step for step in action.steps if step.due]
            self._act(replace(action, steps=tuple(todo[:left])))
            left -= min(left, len(todo))
            if left == 0:
                return True
        return False


GOING = desired(
    [app("first", gpus=1), app("second", gpus=1, rollout=Rollout("stop-first", healthy_for=0.0)), app("gone", gpus=1)]
)
COMING = desired(
    [
        app("first", gpus=1, image="a:2"),
        app("second", gpus=1, image="a:2", rollout=Rollout("stop-first", healthy_for=0.0)),
        app("new", gpus=1),
    ]
)


@pytest.mark.parametrize("often", [1, 3])
@pytest.mark.parametrize("steps", range(1, 13))
@pytest.mark.parametrize("cards", [3, 4, 8])
def test_dying_after_any_step_loses_nothing(cards: int, steps: int, often: int) -> None:
    """Once or again and again, with and without room: old ones run until new ones do, and it ends as it should."""
    world = Dying.of(host("gpu-01", ((16, 128, cards),)))
    assert isinstance(world, Dying)
    world.settle(GOING)
    olds = {name: one.id for name, one in world.running().items()}
    for _ in range(often):
        world.die_after(COMING, steps)
        held = [card for _, one in world.containers() if one.running for card in one.holding.gpus]
        assert len(held) == len(set(held))
        there = {one.id for _, one in world.containers()}
        for name in ("app/first/0", "app/second/0"):
            assert olds[name] in there or world.running()[name].image == "a:2"
    world.settle(COMING)
    assert {name: one.image for name, one in world.running().items()} == {
        "app/first/0": "a:2",
        "app/second/0": "a:2",
        "app/new/0": "a:1",
    }
    assert len(world.containers()) == 3
    assert all(one.limits.restart == "always" for _, one in world.containers())
