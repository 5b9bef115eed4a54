"""What holds for every batch: nothing exceeded, nothing left out that fits, and no order that matters."""

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from reconciler.model.desired import Cluster, Desired
from reconciler.model.memory import Memory
from reconciler.model.placement import Affinity, AnyHost, MaxPerHost, Numa, Spread
from reconciler.model.plan import Pending, Plan
from reconciler.model.resources import Request, WholeGpus
from reconciler.model.snapshot import HostView, Snapshot
from reconciler.model.workload import ContainerSpec, InstanceId, Kind, Workload
from reconciler.planner import plan
from reconciler.planner.place import Ask, Fleet, Placement
from tests.fakes.world import app, host
from tests.properties.test_place_properties import (
    QUICK,
    Ledger,
    check_one,
    fleets,
    hosts,
    no_rules,
    nodeless,
    workloads,
)

GIB = 1024**3


def fleet_of(views: Sequence[HostView]) -> Fleet:
    """A fleet whose work has no rules."""
    return Fleet.of(views, no_rules)  # type: ignore[arg-type] # it raises: no rule is ever compiled


@st.composite
def batches(draw: st.DrawFn, *, conditions: bool = True) -> list[Ask]:
    """Several apps with some instances each; with ``conditions`` some depend on where others are."""
    asks = []
    for number in range(draw(st.integers(1, 5))):
        work = replace(draw(workloads()), name=f"w{number}", priority=draw(st.sampled_from([0, 0, 0, 5, -5])))
        if conditions:
            spread = draw(st.sampled_from([(), (), (Spread("rack", required=True),), (Spread("host"),)]))
            near = draw(st.sampled_from([(), (), (Affinity("app/w0", apart=True),), (Affinity("app/w0", "rack"),)]))
            work = replace(work, spread=spread, affinity=near)
        else:
            policy = AnyHost() if isinstance(work.policy, MaxPerHost) else work.policy
            work = replace(work, policy=policy, container=replace(work.container, ports=()))
        asks += [Ask(InstanceId.parse(f"app/{work.name}/{index}"), work) for index in range(draw(st.integers(1, 4)))]
    return asks


def placed(found: dict[InstanceId, Placement | Pending]) -> dict[InstanceId, Placement]:
    """Those that have a place."""
    return {instance: one for instance, one in found.items() if isinstance(one, Placement)}


@QUICK
@given(fleets, batches())
def test_a_batch_gives_nothing_twice_and_exceeds_nothing(views: tuple[HostView, ...], asks: list[Ask]) -> None:
    """Every ask has one answer; an independent account of what was given adds up, and `require` never spans nodes."""
    fleet = fleet_of(views)
    found = fleet.place_all(asks)
    assert set(found) == {ask.instance for ask in asks}
    ledger = Ledger({view.spec.name: view for view in views})
    for ask in asks:
        one = found[ask.instance]
        if isinstance(one, Placement):
            check_one(ledger.views[one.host], ask.workload, one.allocation)
            ledger.held[str(ask.instance)] = (one.host, ask.workload, one.allocation)
    ledger.check(fleet)


@QUICK
@given(fleets, batches())
def test_conditions_hold_in_the_end(views: tuple[HostView, ...], asks: list[Ask]) -> None:
    """At most so many on a host, apart where that is asked in either direction, beside the other where that is asked."""
    homes = {instance: one.host for instance, one in placed(fleet_of(views).place_all(asks)).items()}
    rack = {view.spec.name: dict(view.spec.labels)["rack"] for view in views}
    by_name: dict[str, list[str]] = {}
    for instance, there in homes.items():
        by_name.setdefault(instance.name, []).append(there)
    for ask in asks:
        mine, work = by_name.get(ask.instance.name, []), ask.workload
        if isinstance(work.policy, MaxPerHost):
            assert all(mine.count(there) <= work.policy.max for there in mine)
        for one in work.affinity:
            others = by_name.get("w0", []) if work.name != "w0" else []
            if one.apart:
                assert not set(mine) & set(others)
                assert work.name != "w0" or len(mine) == len(set(mine))
            elif work.name != "w0":
                assert {rack[there] for there in mine} <= {rack[there] for there in others}


@QUICK
@given(fleets, batches(), st.randoms(use_true_random=False))
def test_neither_the_order_of_asks_nor_that_of_hosts_matters(
    views: tuple[HostView, ...], asks: list[Ask], dice: random.Random
) -> None:
    """The same batch on the same hosts, shuffled, has the same answers."""
    first = fleet_of(views).place_all(asks)
    shuffled, turned = list(asks), list(views)
    dice.shuffle(shuffled)
    dice.shuffle(turned)
    assert fleet_of(turned).place_all(shuffled) == first


@QUICK
@given(fleets, batches())
def test_what_is_left_out_fits_nowhere(views: tuple[HostView, ...], asks: list[Ask]) -> None:
    """Asked for again beside all that was placed, what is pending is still pending."""
    fleet = fleet_of(views)
    found = fleet.place_all(asks)
    left = [ask for ask in asks if isinstance(found[ask.instance], Pending)]
    for ask in left:
        assert isinstance(fleet.place(ask, "again"), Pending), ask


@QUICK
@given(fleets, batches(conditions=False))
def test_lower_priority_keeps_nothing_out(views: tuple[HostView, ...], asks: list[Ask]) -> None:
    """What is pending has no place either on a fleet that holds only what was placed of higher or equal priority."""
    found = fleet_of(views).place_all(asks)
    for ask in asks:
        if isinstance(found[ask.instance], Pending):
            fleet = fleet_of(views)
            for other in asks:
                one = found[other.instance]
                if isinstance(one, Placement) and other.workload.priority >= ask.workload.priority:
                    fleet.occupy(one.host, str(other.instance), other.instance, other.workload.identity, one.allocation)
            assert isinstance(fleet.place(ask, "again"), Pending)


@QUICK
@given(fleets, batches())
def test_a_batch_that_is_taken_back_leaves_nothing(views: tuple[HostView, ...], asks: list[Ask]) -> None:
    """After all is vacated the same batch gets the same places."""
    fleet = fleet_of(views)
    first = fleet.place_all(asks)
    for instance in placed(first):
        fleet.vacate(str(instance))
    assert fleet.place_all(asks) == first
