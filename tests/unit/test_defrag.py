"""Which moves free whole hosts and cards: fleets small enough to be worked out by hand."""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.desired import Desired
from reconciler.model.host import HostState
from reconciler.model.placement import Affinity, LocalHost, MatchTag
from reconciler.model.resources import GpuShare, Request
from reconciler.model.snapshot import HostView
from reconciler.model.workload import ContainerSpec, Kind, Volume, Workload
from reconciler.planner.defrag import Proposal, defrag
from tests.fakes.world import GIB, World, app, desired, foreign, host, ident

Pinned = Mapping[str, tuple[str, dict[str, Any]]]


def share(milli: int) -> dict[str, Any]:
    """A part of a card, as fields of an App."""
    gpus = GpuShare(milli=milli)
    return {
        "request": Request(500, exclusive=False, memory=GIB, gpus=gpus),
        "container": ContainerSpec("a:1", gpus=gpus),
    }


def lab(
    views: Sequence[HostView], pinned: Pinned, *more: Workload, bound: Collection[str] = ()
) -> tuple[World, Desired]:
    """A world in which each App of ``pinned`` runs on a given host, and what git wants now.

    Git has let go of all hosts but those of ``bound``, and wants ``more``.
    """
    world, tied = World.of(*views), {name: MatchTag(where) for name, (where, _) in pinned.items()}
    world.settle(desired([app(name, policy=tied[name], **fields) for name, (_, fields) in pinned.items()], views))
    now = (app(name, **fields) for name, (_, fields) in pinned.items())
    held = [replace(work, policy=tied[work.name]) if work.name in bound else work for work in now]
    return world, desired([*held, *more], views)


def proposed(world: World, want: Desired, most: int | None = None) -> Proposal:
    """The proposal of this moment."""
    return defrag(want, world.snapshot(), world.memory, world.plan(want), most)


def told(found: Proposal) -> list[tuple[str, list[str]]]:
    """Of each gain its host and its moves."""
    return [
        (gain.host, [f"{move.instance.name}: {move.host} to {move.to}" for move in gain.moves]) for gain in found.gains
    ]


def test_a_host_is_freed_into_the_gap_of_another() -> None:
    """Two cards fit exactly into the two that are free elsewhere: one move, and a job of eight fits."""
    pinned = {"x": ("a", {"gpus": 6}), "y": ("b", {"gpus": 7}), "z": ("c", {"gpus": 2})}
    world, want = lab([host("a"), host("b"), host("c")], pinned, app("big", gpus=8))
    found = proposed(world, want)
    assert told(found) == [("c", ["z: c to a"])]
    assert (found.gains[0].cards, found.fits, found.pending) == (8, ((ident("app/big/0"), "c"),), 1)


def test_nothing_is_moved_to_an_idle_host() -> None:
    """To fill one host in order to free another gains nothing, and pending work stays pending."""
    world, want = lab([host("a"), host("b")], {"x": ("a", {"gpus": 2})}, app("big", gpus=9))
    assert proposed(world, want) == Proposal((), (), 1)


def test_cards_that_are_as_free_afterwards_as_before_are_no_gain() -> None:
    """One free card on this host is no more than one free card on that host."""
    views = [host("a", [(4, 32, 1)]), host("b", [(8, 64, 2)])]
    world, want = lab(views, {"x": ("a", {"gpus": 1}), "y": ("b", {"gpus": 1})})
    assert proposed(world, want).gains == ()


FOUR = [host("a"), host("b"), host("c"), host("d")]
SPREAD = {
    "a1": ("a", {"gpus": 1}),
    "a2": ("a", {"gpus": 1}),
    "b1": ("b", {"gpus": 1}),
    "c1": ("c", {"gpus": 6}),
    "d1": ("d", {"gpus": 7}),
}


def test_the_best_ratio_comes_first_and_later_moves_see_earlier_ones() -> None:
    """The card of b fills d, so that the six of c find room only on a, which is then not freed."""
    world, want = lab(FOUR, SPREAD, bound=["d1"])
    assert told(proposed(world, want)) == [("b", ["b1: b to d"]), ("c", ["c1: c to a"])]


def test_so_many_hosts_as_were_asked_for() -> None:
    """The best of them."""
    world, want = lab(FOUR, SPREAD, bound=["d1"])
    assert told(proposed(world, want, 1)) == [("b", ["b1: b to d"])]


def test_a_card_is_freed_by_moving_its_part_to_a_card_that_is_shared() -> None:
    """Two halves become one full card and one whole card, on hosts that cannot be left altogether."""
    two = [(8, 64, 2)]
    pinned = {"v": ("a", {"gpus": 1}), "x": ("a", share(500)), "w": ("b", {"gpus": 1}), "y": ("b", share(500))}
    world, want = lab([host("a", two), host("b", two)], pinned, bound=["v", "w"])
    ours = world.running()["app/x/0"].ours
    assert ours
    assert ours.allocation.share
    (gain,) = proposed(world, want).gains
    assert (gain.host, gain.card, gain.cards) == ("a", ours.allocation.share.gpu, 1)
    assert [(move.instance, move.to) for move in gain.moves] == [(ident("app/x/0"), "b")]


def test_no_whole_card_is_opened_to_free_another() -> None:
    """A half that could only go to a whole card stays."""
    pinned = {"v": ("a", {"gpus": 1}), "x": ("a", share(500)), "w": ("b", {"gpus": 1})}
    world, want = lab([host("a", [(8, 64, 2)]), host("b", [(8, 64, 2)])], pinned, bound=["v", "w"])
    assert proposed(world, want).gains == ()


def test_work_without_cards_leaves_a_gpu_host() -> None:
    """It goes to a host without cards, and the cards have all their cores."""
    world, want = lab([host("a"), host("c", [(16, 64, 0)])], {"web": ("a", {})})
    assert told(proposed(world, want)) == [("a", ["web: a to c"])]


def test_cards_that_others_hold_are_not_counted_as_freed() -> None:
    """A foreign container keeps its card."""
    world, want = lab([host("a"), host("b")], {"z": ("a", {"gpus": 2}), "y": ("b", {"gpus": 4})}, bound=["y"])
    world.put("a", foreign("jupyter", gpus=["GPU-a-7"]))
    (gain,) = proposed(world, want).gains
    assert (gain.host, gain.cards) == ("a", 7)


def test_no_move_makes_work_less_local() -> None:
    """Two cards of one node are not moved to one card on each of two nodes."""
    pinned = {"z": ("a", {"gpus": 2}), "y1": ("b", {"gpus": 3}), "y2": ("b", {"gpus": 3})}
    world, want = lab([host("a"), host("b")], pinned, bound=["y1", "y2"])
    assert proposed(world, want).gains == ()


def one_move(**change: Any) -> tuple[World, Desired]:
    """A host that one move would free; ``change`` are other fields of the work on it."""
    views = [host("a"), host("b")]
    world, want = lab(views, {"y": ("b", {"gpus": 4})}, bound=["y"])
    work = replace(app("z", gpus=2), **change)
    world.settle(replace(want, workloads=(*want.workloads, replace(work, policy=MatchTag("a")))))
    return world, replace(want, workloads=(*want.workloads, work))


def test_the_host_of_these_tests_is_freed_where_nothing_stands_against_it() -> None:
    """What the next tests change is what decides."""
    assert told(proposed(*one_move())) == [("a", ["z: a to b"])]


@pytest.mark.parametrize(
    "change",
    [
        {"container": ContainerSpec("a:1", gpus=app("z", gpus=2).request.gpus, volumes=(Volume("/d", volume="d"),))},
        {"kind": Kind.TASK, "run": "r1", "restart": "no"},
        {"policy": MatchTag("a")},
    ],
    ids=["named volume", "task", "policy"],
)
def test_work_that_cannot_go_elsewhere_stays(change: dict[str, Any]) -> None:
    """Its host is not freed."""
    assert proposed(*one_move(**change)).gains == ()


def test_work_that_others_must_be_near_stays() -> None:
    """To move it would leave them behind."""
    world, want = one_move()
    near = app("near", instances=0, affinity=(Affinity("app/z"),))
    assert proposed(world, replace(want, workloads=(*want.workloads, near))).gains == ()


def test_a_local_service_without_cards_does_not_keep_a_host_from_being_free() -> None:
    """It is on every host, and goes nowhere."""
    world, want = one_move()
    exporter = replace(app("exporter"), kind=Kind.LOCAL_SERVICE, policy=LocalHost())
    want = replace(want, workloads=(*want.workloads, exporter))
    world.settle(want)
    assert told(proposed(world, want)) == [("a", ["z: a to b"])]


def test_work_that_the_plan_changes_anyway_stays() -> None:
    """Its place is chosen anew by the plan, not here."""
    world, want = one_move()
    newer = [replace(one, container=replace(one.container, image="a:2")) for one in want.workloads if one.name == "z"]
    others = [one for one in want.workloads if one.name != "z"]
    assert proposed(world, replace(want, workloads=(*others, *newer))).gains == ()


@pytest.mark.parametrize("state", [HostState.CORDONED, HostState.DRAINED])
def test_a_closed_host_is_not_freed(state: HostState) -> None:
    """Nothing new would be placed there."""
    world, want = one_move()
    world.views["a"] = replace(world.views["a"], spec=replace(world.views["a"].spec, state=state))
    assert all(gain.host != "a" for gain in proposed(world, want).gains)


@pytest.mark.parametrize("seed", range(8))
def test_a_proposal_can_be_carried_out(seed: int) -> None:
    """Carried out move by move, no card is held twice; each instance moves once, and what is freed stays free."""
    dice = random.Random(seed)  # noqa: S311 - a fleet, not a secret
    views = [host(f"h{number}") for number in range(8)]
    pinned = {
        f"x{number}": (
            f"h{dice.randrange(7)}",
            {"gpus": dice.choice([1, 1, 2, 4])} if dice.random() < 0.6 else share(dice.choice([250, 500])),
        )
        for number in range(16)
    }
    world, want = lab(views, pinned)
    held = {name: one.ours.allocation for name, one in world.running().items() if one.ours}
    where = {str(one.ours.instance): at for at, one in world.containers() if one.ours}
    found = proposed(world, want)
    assert found == proposed(world, want)
    moves = [move for gain in found.gains for move in gain.moves]
    assert len({move.instance for move in moves}) == len(moves)
    for move in moves:
        name = str(move.instance)
        assert (where[name], held[name]) == (move.host, move.old)
        where[name], held[name] = move.to, move.new
        parts: dict[str, int] = {}
        for one in held.values():
            for card, milli in [
                *((card, 1000) for card in one.gpus),
                *([(one.share.gpu, one.share.milli)] if one.share else []),
            ]:
                parts[card] = parts.get(card, 0) + milli
        assert max(parts.values()) <= 1000
    freed = {gain.host for gain in found.gains if not gain.card}
    assert not freed & set(where.values())
