"""A decision told in full: what the best hosts offer, what decided between two, what the nearest host lacks."""

from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.model.placement import MatchTag, Numa, Preference, Spread
from reconciler.model.resources import Request, WholeGpus
from reconciler.model.snapshot import HostView
from reconciler.model.workload import ContainerSpec
from reconciler.planner.explain import Explanation, Rival, Room
from reconciler.planner.place import Ask, Fleet, Placement
from reconciler.rules import compile_rule
from tests.fakes.world import GIB, app, host, ident


def ask(name: str = "x", only: str | None = None, home: str | None = None, **work: Any) -> Ask:
    """One instance of an App."""
    return Ask(ident(f"app/{name}/0"), app(name, **work), only=only, prefer=home)


def fleet_of(views: Sequence[HostView], **held: int) -> Fleet:
    """A fleet in which that many cards are held on some hosts."""
    fleet = Fleet(views, compile_rule)
    for name, gpus in held.items():
        placed = fleet.place(ask(f"on-{name}", only=name, gpus=gpus), f"on-{name}")
        assert isinstance(placed, Placement)
    return fleet


def rival(told: Explanation) -> Rival:
    """What it says of the second."""
    assert told.rival
    return told.rival


@pytest.mark.parametrize(
    ("views", "work", "expect"),
    [
        (
            [host("a", [(16, 64, 4)]), host("b", [(16, 64, 4)] * 2)],
            {"gpus": 4},
            ("a", "b", "leaves 0 GPUs free instead of 4"),
        ),
        (
            [host("a", [(16, 64, 2)] * 2), host("b", [(16, 64, 4)])],
            {"gpus": 4},
            ("b", "a", "on 1 NUMA node instead of 2"),
        ),
        ([host("a"), host("c", [(16, 64, 0)])], {}, ("c", "a", "has no GPUs, and none are asked for")),
        (
            [host("a", tags=("t", "u")), host("b", tags=("t",))],
            {"policy": MatchTag("t")},
            ("b", "a", "has no tags that are not needed"),
        ),
        (
            [host("a", model="H200"), host("b"), host("c")],
            {"gpus": 1},
            ("b", "c", "equal in everything: the first by name"),
        ),
        (
            [host("a", model="H200"), host("b", [(16, 128, 8)])],
            {"gpus": 8, "numa": Numa.NONE},
            ("b", "a", "on 1 NUMA node instead of 2"),
        ),
    ],
    ids=["best fit", "nodes", "no GPUs", "tags", "equal", "spread before model"],
)
def test_what_decided_between_the_first_two(
    views: list[HostView], work: dict[str, Any], expect: tuple[str, str, str]
) -> None:
    """The first difference of their scores, in words."""
    told = fleet_of(views).explain(ask(**work))
    assert (told.winner, rival(told).host, rival(told).words) == expect
    assert not rival(told).better


def test_a_scarce_model_is_kept_and_said_to_be() -> None:
    """The only H200, which other work asks for by name, comes after a host that it would leave less full."""
    views = [host("a", [(16, 64, 1)], model="H200"), host("b", [(16, 64, 2)])]
    named = WholeGpus(1, ("H200",))
    other = app("other", request=Request(gpus=named), container=ContainerSpec("a:1", gpus=named))
    told = Fleet(views, compile_rule, [other]).explain(ask(gpus=1))
    assert rival(told) == Rival("a", "takes a GPU of a model that nobody asks for by name")
    assert told.offers[1].score == "leaves 0 GPUs and 15 CPUs free, of a model that others ask for"


def test_soft_wishes_come_before_the_score() -> None:
    """A host that fits worse is chosen for what the work prefers, and each offer says what it meets."""
    views = [host("a", [(16, 64, 1)]), host("b")]
    told = fleet_of(views).explain(ask(gpus=1, prefer=(Preference(MatchTag("b")),)))
    assert [(one.host, one.wishes) for one in told.offers] == [("b", ("prefer MATCH_TAG b",)), ("a", ())]
    assert (told.winner, rival(told)) == ("b", Rival("a", "meets prefer MATCH_TAG b"))


def test_a_wish_that_every_host_meets_is_not_told() -> None:
    """It decides nothing."""
    told = fleet_of([host("a"), host("b")]).explain(ask(spread=(Spread("host"),)))
    assert [one.wishes for one in told.offers] == [(), ()]


def test_what_is_kept_where_it_is_says_who_would_be_chosen_now() -> None:
    """It is not moved for a better fit."""
    told = fleet_of([host("a", [(16, 64, 4)]), host("b", [(16, 64, 1)])]).explain(ask(gpus=1, home="a"))
    assert (told.winner, rival(told)) == ("a", Rival("b", "leaves 0 GPUs free instead of 3", better=True))


def test_one_host_has_no_rival() -> None:
    """Nothing was decided."""
    assert fleet_of([host("a")]).explain(ask(gpus=1)).rival is None


def test_an_offer_names_its_cards() -> None:
    """The cards that would be given, as if it were placed."""
    fleet = fleet_of([host("a")], a=1)
    (offer,) = fleet.explain(ask(gpus=2)).offers
    placed = fleet.place(ask(gpus=2), "x")
    assert isinstance(placed, Placement)
    assert offer.allocation.gpus == placed.allocation.gpus


def test_what_the_nearest_host_has_is_told_by_node() -> None:
    """What is asked, the whole host, and each of its nodes: three and four cards are not eight."""
    told = fleet_of([host("a", [(8, 64, 2)]), host("b")], b=1).explain(ask(gpus=8, cpus=8, memory=4))
    assert told.pending
    assert told.pending.nearest
    assert told.pending.nearest.host == "b"
    assert told.rooms == (
        Room("asked", 8, 8000, 4 * GIB),
        Room("b", 7, 31000, 255 * GIB),
        Room("node 0", 3, 15000, 127 * GIB),
        Room("node 1", 4, 16000, 128 * GIB),
    )


def test_a_host_that_is_closed_tells_no_numbers() -> None:
    """What it has free does not matter: it may not be used."""
    told = fleet_of([host("a", tags=("t",))]).explain(ask(gpus=1))
    assert told.pending
    assert told.rooms == ()
