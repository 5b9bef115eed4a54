"""Spread, affinity and its opposite, and soft wishes, through the whole planner; the answers are worked out by hand."""

from typing import Any

import pytest

from reconciler.model.host import HostState
from reconciler.model.placement import Affinity, MatchTag, MaxPerHost, Preference, Spread
from reconciler.model.plan import Plan
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Workload
from reconciler.planner.conditions import Conditions
from reconciler.planner.policies import Policies
from tests.fakes.world import World, app, desired, host, ident

ROOM = [(16, 64, 0)]


def no_rules(text: str) -> Any:
    """No rules are asked for here."""
    raise AssertionError(text)


def racks(sizes: str, **cores: int) -> list[HostView]:
    """Hosts a0, a1, b0 …, one for each letter of ``sizes``, which is its rack (``-``: none)."""
    out: list[HostView] = []
    for at, rack in enumerate(sizes):
        name = f"{rack if rack != '-' else 'x'}{sizes[:at].count(rack)}"
        labels = () if rack == "-" else (("rack", rack),)
        out.append(host(name, [(cores.get(name, 16), 64, 0)], labels=labels))
    return out


def planned(views: list[HostView], *work: Workload) -> Plan:
    """The first plan of an empty fleet."""
    return World.of(*views).plan(desired(work, views))


def homes(made: Plan, name: str = "x") -> list[str]:
    """The hosts that the instances of a workload start on, sorted."""
    return sorted(action.host for action in made.actions if action.instance.name == name)


def by_rack(made: Plan) -> dict[str, int]:
    """How many instances each rack is given."""
    hosts = [one[0] for one in homes(made)]
    return {rack: hosts.count(rack) for rack in sorted(set(hosts))}


# -- spread


@pytest.mark.parametrize(
    ("sizes", "skew", "ask", "expect"),
    [
        ("ab", 1, 4, {"a": 2, "b": 2}),
        ("aab", 1, 5, {"a": 3, "b": 2}),  # one more than the least is allowed; the lower host goes first
        ("abc", 1, 2, {"a": 1, "b": 1}),
        ("ab", 1, 20, {"a": 10, "b": 10}),
    ],
)
def test_required_spread_is_even(sizes: str, skew: int, ask: int, expect: dict[str, int]) -> None:
    """No rack has more than ``maxSkew`` instances more than the one with the fewest."""
    made = planned(racks(sizes), app("x", ask, spread=(Spread("rack", skew, required=True),)))
    assert by_rack(made) == expect
    assert not made.pending


@pytest.mark.parametrize(("skew", "expect"), [(1, {"a": 3, "b": 2}), (2, {"a": 4, "b": 2}), (9, {"a": 6, "b": 2})])
def test_a_full_rack_holds_the_others_back(skew: int, expect: dict[str, int]) -> None:
    """With two places in rack b, rack a may have two and the skew; what is more is pending, and the plan says why."""
    made = planned(racks("ab", b0=2), app("x", 8, spread=(Spread("rack", skew, required=True),)))
    assert by_rack(made) == expect
    assert len(made.pending) == 8 - sum(expect.values())
    assert all("spread by rack" in dict(one.removed) for one in made.pending)


def test_hosts_without_the_label_take_no_spread_work() -> None:
    """A host that has no value of the label is in no group, so required spread leaves it out."""
    made = planned(racks("a--"), app("x", 3, spread=(Spread("rack", required=True),)))
    assert homes(made) == ["a0", "a0", "a0"]


def test_a_closed_rack_does_not_count() -> None:
    """A rack whose only host is cordoned can take nothing, so it is not the one with the fewest."""
    views = [*racks("ab"), host("c0", ROOM, labels=(("rack", "c"),), state=HostState.CORDONED)]
    assert by_rack(planned(views, app("x", 4, spread=(Spread("rack", required=True),)))) == {"a": 2, "b": 2}


def test_spread_over_hosts() -> None:
    """``host`` is a label that every host has."""
    made = planned(racks("a-b"), app("x", 6, spread=(Spread("host", required=True),)))
    assert homes(made) == ["a0", "a0", "b0", "b0", "x0", "x0"]


@pytest.mark.parametrize(("cores", "expect"), [(16, {"a": 2, "b": 2}), (1, {"a": 3, "b": 1})])
def test_preferred_spread_is_even_as_far_as_there_is_room(cores: int, expect: dict[str, int]) -> None:
    """Where one rack is full the rest goes to the other; nothing is pending."""
    made = planned(racks("ab", b0=cores), app("x", 4, spread=(Spread("rack"),)))
    assert by_rack(made) == expect
    assert not made.pending


def test_without_spread_one_host_is_filled() -> None:
    """Best fit alone puts everything on one host: it is the spread that divides."""
    assert by_rack(planned(racks("ab"), app("x", 4))) == {"a": 4}


# -- affinity


@pytest.mark.parametrize(("first", "second"), [("x", "y"), ("y", "x")])
@pytest.mark.parametrize("keeper", ["x", "y"])
def test_what_keeps_apart_does_so_in_both_directions(keeper: str, first: str, second: str) -> None:
    """Whichever of the two says it, and whichever runs first, they share no host."""
    work = {
        name: app(name, affinity=(Affinity(f"app/{other}", apart=True),) if keeper == name else ())
        for name, other in (("x", "y"), ("y", "x"))
    }
    world = World.of(*racks("a-"))
    world.settle(desired([work[first]], world.views.values()))
    world.settle(desired(work.values(), world.views.values()))
    hosts = {name: place for place, box in world.containers() if box.ours for name in [box.ours.instance.name]}
    assert set(hosts) == {"x", "y"}
    assert hosts[first] != hosts[second]


@pytest.mark.parametrize("keeper", ["x", "y"])
def test_apart_on_one_host_is_pending(keeper: str) -> None:
    """With one host the second of them goes nowhere."""
    work = [app(name, affinity=(Affinity(f"app/{other}", apart=True),) if keeper == name else ())
            for name, other in (("x", "y"), ("y", "x"))]  # fmt: skip
    made = planned(racks("a"), *work)
    assert (len(made.actions), len(made.pending)) == (1, 1)


def test_apart_by_rack() -> None:
    """The other is kept out of the whole rack, not of one host of it."""
    made = planned(racks("aab"), app("x"), app("y", affinity=(Affinity("app/x", "rack", apart=True),)))
    assert {homes(made, "x")[0][0], homes(made, "y")[0][0]} == {"a", "b"}


def test_instances_apart_from_their_own_kind() -> None:
    """Against itself it means one on each rack."""
    made = planned(racks("aab"), app("x", 3, affinity=(Affinity("app/x", "rack", apart=True),)))
    assert by_rack(made) == {"a": 1, "b": 1}
    assert len(made.pending) == 1


def test_together_on_the_same_host() -> None:
    """Where the other is placed in the same plan, it comes first, wherever it goes."""
    cache = app("zcache", policy=MatchTag("fast"))
    views = [*racks("ab"), host("c0", ROOM, tags=("fast",))]
    near = app("x", 2, affinity=(Affinity("app/zcache"),), policy=MatchTag("fast"))
    assert homes(planned(views, near, cache)) == ["c0", "c0"]


def test_together_in_the_same_rack() -> None:
    """Any host of the rack will do, also where the host of the other is full."""
    views = racks("abb", b0=2)
    cache = app("cache", cpus=2, policy=MatchTag("b0"))
    made = planned(views, app("x", affinity=(Affinity("app/cache", "rack"),)), cache)
    assert (homes(made, "cache"), homes(made)) == (["b0"], ["b1"])


def test_together_with_what_is_nowhere_is_pending() -> None:
    """What must be near work that has no place has none either."""
    made = planned(racks("ab"), app("cache", cpus=17), app("x", affinity=(Affinity("app/cache"),)))
    assert not made.actions
    assert {one.instance.name: one.removed for one in made.pending}["x"] == (("affinity to app/cache by host", 2),)


def test_the_first_of_a_kind_that_keeps_together_goes_anywhere() -> None:
    """Then the others follow; what the host cannot take is pending."""
    made = planned(racks("ab", a0=3, b0=3), app("x", 4, affinity=(Affinity("app/x"),)))
    assert len(set(homes(made))) == 1
    assert (len(made.actions), len(made.pending)) == (3, 1)


@pytest.mark.parametrize(("room", "expect"), [(2, "a0"), (1, "b0")])
def test_preferred_affinity_gives_way(room: int, expect: str) -> None:
    """It goes beside the other where there is room, else elsewhere."""
    views = racks("ab", a0=room)
    cache = app("cache", policy=MatchTag("a0"))
    made = planned(views, cache, app("x", affinity=(Affinity("app/cache", required=False),)))
    assert homes(made) == [expect]


def test_preferred_distance_gives_way() -> None:
    """Instances that would rather be apart share a host when there is no other."""
    wish = (Affinity("app/x", apart=True, required=False),)
    assert homes(planned(racks("ab"), app("x", 2, affinity=wish))) == ["a0", "b0"]
    assert homes(planned(racks("a"), app("x", 2, affinity=wish))) == ["a0", "a0"]


# -- wishes


@pytest.mark.parametrize(
    ("wishes", "expect"),
    [
        ([], "a0"),
        ([("c0", 1)], "c0"),
        ([("a0", 3), ("left", 2), ("right", 2)], "b0"),  # 3 against 2 + 2 against 2
        ([("a0", 5), ("left", 2), ("right", 2)], "a0"),
        ([("a0", 1), ("c0", 1)], "a0"),  # equal worth: best fit, then the order of names
        ([("a0", -1), ("b0", -1)], "c0"),
    ],
)
def test_wishes_add_up(wishes: list[tuple[str, int]], expect: str) -> None:
    """The host whose wishes weigh most wins, before best fit."""
    views = [
        host("a0", ROOM, tags=("all",)),
        host("b0", ROOM, tags=("all", "left", "right")),
        host("c0", ROOM, tags=("all", "right")),
    ]
    prefer = tuple(Preference(MatchTag(what), weight) for what, weight in wishes)
    assert homes(planned(views, app("x", prefer=prefer, policy=MatchTag("all")))) == [expect]


def test_a_wish_rules_nothing_out() -> None:
    """Where the host that it wants is full, another is taken."""
    views = racks("ab", b0=1)
    made = planned(views, app("x", 3, prefer=(Preference(MatchTag("b0")),)))
    assert homes(made) == ["a0", "a0", "b0"]


# -- counts


def test_an_instance_does_not_stand_in_its_own_way() -> None:
    """At most one on a host: the host with the instance itself still counts as free for it, for others not."""
    views = racks("ab")
    work = app("x", 2, policy=MaxPerHost(1))
    conditions = Conditions(views, Policies(views, no_rules), [work])
    conditions.add("app/x", ident("app/x/0"), 0)
    masks = {index: dict(conditions.policy(ident(f"app/x/{index}"), work))["ONE_PER_HOST"] for index in (0, 1)}
    assert masks == {0: 0b11, 1: 0b10}


def test_counting_is_undone() -> None:
    """After two containers of one instance and one of another are taken off, every host is as it was."""
    views = racks("ab")
    work = app("x", 2, policy=MaxPerHost(1), spread=(Spread("rack", required=True),))
    conditions = Conditions(views, Policies(views, no_rules), [work])
    probe = ident("app/x/9")
    before = [conditions.policy(probe, work), conditions.required(probe, work, 0b11)]
    moves = [("app/x/0", 0), ("app/x/0", 1), ("app/x/1", 0), ("app/x/0", 0)]
    for name, place in moves:
        conditions.add("app/x", ident(name), place)
    assert dict(conditions.policy(probe, work))["ONE_PER_HOST"] == 0
    for name, place in reversed(moves):
        conditions.remove("app/x", ident(name), place)
    assert [conditions.policy(probe, work), conditions.required(probe, work, 0b11)] == before
