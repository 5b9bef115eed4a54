"""The fleet: who is best, commit and undo, staying in place, ports, why and why not."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from reconciler.model.host import HostState, MigSlice
from reconciler.model.placement import Composite, MatchTag, MaxPerHost, Numa
from reconciler.model.plan import Nearest, Pending
from reconciler.model.resources import AllGpus, GpuShare, MigSlices, Request, WholeGpus
from reconciler.model.snapshot import Container, Holding, HostView, Ours, Reach
from reconciler.model.workload import Allocation, ContainerSpec, Port, Share, Slice
from reconciler.planner.place import Ask, Fleet, Placement
from tests.fakes.world import GIB, app, host, ident


def no_rules(text: str) -> Any:
    """For fleets whose work has no rules."""
    raise AssertionError(text)


def fleet_of(*views: HostView) -> Fleet:
    """A fleet without rules."""
    return Fleet(views, no_rules)


def ask(name: str = "x", index: int = 0, *, only: str | None = None, prefer: str | None = None,
        near: Allocation | None = None, **work: Any) -> Ask:  # fmt: skip
    """An ask for one instance of an app."""
    return Ask(ident(f"app/{name}/{index}"), app(name, **work), only=only, prefer=prefer, near=near)


def placed(fleet: Fleet, one: Ask) -> Placement:
    """Where it goes; it must go somewhere."""
    found = fleet.place(one, str(one.instance))
    assert isinstance(found, Placement), found
    return found


def pending(fleet: Fleet, one: Ask) -> Pending:
    """Why it goes nowhere; it must not go anywhere."""
    found = fleet.place(one, str(one.instance))
    assert isinstance(found, Pending), found
    return found


ONE = [(16, 128, 4)]
BIG = [(16, 128, 4), (16, 128, 4)]


# -- who is best


def test_best_fit_keeps_whole_hosts_free() -> None:
    """Single cards fill a host that is in use, so that an 8-card host stays whole."""
    fleet = fleet_of(host("a", BIG), host("b", BIG))
    fleet.occupy("b", "k", ident("app/y/0"), "app/y", Allocation(gpus=("GPU-b-0",), cpus=(0,), cpu_nodes=(0,)))
    hosts = [placed(fleet, ask(index=index, gpus=1)).host for index in range(7)]
    assert hosts == ["b"] * 7
    assert placed(fleet, ask("whole", gpus=8)).host == "a"


@pytest.mark.parametrize(
    ("views", "work", "expect"),
    [
        pytest.param(
            [host("a", ONE, tags=("ib", "train")), host("b", ONE, tags=("train",))],
            {"gpus": 1, "policy": MatchTag("train")},
            "b",
            id="a tag that nobody asked for is spared",
        ),
        pytest.param(
            [host("a", ONE, model="H100"), host("b", ONE, model="T4"), host("c", ONE, model="T4")],
            {"gpus": 1},
            "b",
            id="the common model goes first",
        ),
        pytest.param(
            [host("a", ONE), host("b", [(4, 8, 0)])], {"cpus": 2}, "b", id="work without GPUs stays off GPU hosts"
        ),
        pytest.param(
            [host("a", [(16, 128, 4)]), host("b", [(16, 128, 2)])],
            {"cpus": 2},
            "b",
            id="work without GPUs goes where fewest cards are free",
        ),
        pytest.param(
            [host("a", [(8, 64, 2), (8, 64, 2)]), host("b", [(8, 64, 4)])],
            {"gpus": 3},
            "b",
            id="a host where it is local comes first",
        ),
        pytest.param([host("gpu-10", ONE), host("gpu-9", ONE)], {"gpus": 1}, "gpu-9", id="ties go by natural order"),
        pytest.param([host("a", [(16, 64, 0)]), host("b", [(8, 64, 0)])], {"cpus": 4}, "b", id="tightest cores"),
        pytest.param([host("a", [(8, 64, 0)]), host("b", [(8, 32, 0)])], {"cpus": 4}, "b", id="tightest memory"),
        pytest.param(
            [host("a", [(4, 64, 4)]), host("b", [(64, 64, 4)])],
            {"gpus": 1, "cpus": 3},
            "b",
            id="cards keep the cores they need",
        ),
    ],
)
def test_choice_between_hosts(views: Sequence[HostView], work: dict[str, Any], expect: str) -> None:
    """The better host wins, in whatever order the hosts are given."""
    for order in permutations(views):
        assert placed(fleet_of(*order), ask(**work)).host == expect


@pytest.mark.parametrize(
    ("one", "expect"),
    [
        (ask(gpus=1), "best of 2 hosts that fit: leaves 3 GPUs and 15 CPUs free"),
        (ask(gpus=1, prefer="b"), "kept on its host: leaves 3 GPUs and 15 CPUs free"),
        (ask(gpus=1, only="b"), "the host it must be on: leaves 3 GPUs and 15 CPUs free"),
        (ask(cpus=2), "the only host that fits: leaves 6 CPUs free"),
        (
            ask(gpus=1, prefer="b", near=Allocation(gpus=("GPU-b-2",), cpus=(3,), cpu_nodes=(0,))),
            "kept where it is: leaves 3 GPUs and 15 CPUs free",
        ),
    ],
)
def test_why(one: Ask, expect: str) -> None:
    """Each placement says in one line why it is where it is."""
    fleet = fleet_of(host("a", ONE), host("b", ONE), host("c", [(8, 64, 0)]))
    if "only host" in expect:
        fleet = fleet_of(host("c", [(8, 64, 0)]))
    assert placed(fleet, one).why == expect


# -- commit and undo


def test_what_is_given_comes_back() -> None:
    """A card is given once, comes back when its key is vacated, and is given again."""
    fleet = fleet_of(host("a", [(4, 8, 1)]))
    first = placed(fleet, ask(gpus=1))
    assert pending(fleet, ask(index=1, gpus=1)).reason == "no host has 1 free GPU"
    fleet.vacate("app/x/0")
    assert placed(fleet, ask(index=1, gpus=1)).allocation == first.allocation


def test_vacating_nothing_is_nothing() -> None:
    """Stopping something that holds nothing, or that is on a host nobody knows, changes nothing."""
    fleet = fleet_of(host("a", [(4, 8, 1)]))
    fleet.occupy("elsewhere", "k", ident("app/y/0"), "app/y", Allocation(gpus=("GPU-a-0",)))
    fleet.vacate("k")
    fleet.vacate("never")
    assert placed(fleet, ask(gpus=1)).host == "a"


def test_a_card_that_two_hold_is_free_when_both_have_left() -> None:
    """Two containers on one card (it happens) keep it until the last is gone."""
    fleet = fleet_of(host("a", [(8, 8, 1)]))
    for key in ("k1", "k2"):
        fleet.occupy("a", key, ident(f"app/y/{key[1]}"), "app/y", Allocation(gpus=("GPU-a-0",)))
    fleet.vacate("k1")
    assert pending(fleet, ask(gpus=1)).removed == (("gpus", 1),)
    fleet.vacate("k2")
    assert placed(fleet, ask(gpus=1)).allocation.gpus == ("GPU-a-0",)


def test_a_claim_on_a_host_without_facts_is_kept() -> None:
    """An unreachable host still counts what runs there against ONE_PER_HOST."""
    fleet = fleet_of(replace(host("a"), facts=None))
    fleet.occupy("a", "k", ident("app/x/0"), "app/x", Allocation(memory=GIB, exclusive=False, millicpus=500))
    removed = dict(pending(fleet, ask(index=1, policy=MaxPerHost(1))).removed)
    assert removed == {"no facts yet": 1}
    fleet.vacate("k")


# -- staying in place

SMALL = [(8, 64, 4), (8, 64, 4)]


@pytest.mark.parametrize(
    ("cpus", "gpus", "kept"),
    [
        (2, 2, ((10, 13), ("GPU-a-5", "GPU-a-6"))),  # all of it
        (3, 2, ((8, 10, 13), ("GPU-a-5", "GPU-a-6"))),  # the cards, the cores, and one more beside them
        (1, 2, ((10,), ("GPU-a-5", "GPU-a-6"))),
    ],
)
def test_a_restart_keeps_its_cards(cpus: int, gpus: int, kept: tuple[tuple[int, ...], tuple[str, ...]]) -> None:
    """Cards and cores of before are given again where they are free, although others would be nearer to hand."""
    near = Allocation(gpus=("GPU-a-5", "GPU-a-6"), gpu_nodes=(1,), cpu_nodes=(1,), cpus=(10, 13), memory=GIB)
    one = ask(cpus=cpus, gpus=gpus, near=near)
    for where in (replace(one, only="a"), replace(one, prefer="a")):
        found = placed(fleet_of(host("a", SMALL), host("b", SMALL)), where)
        assert (found.allocation.cpus, found.allocation.gpus) == kept


@pytest.mark.parametrize("numa", [Numa.PREFER, Numa.REQUIRE])
def test_a_lost_card_is_replaced_and_the_rest_kept(numa: Numa) -> None:
    """Where one card of before is held by another now, the place is found anew; what can be kept there is."""
    fleet = fleet_of(host("a", SMALL))
    fleet.occupy("a", "k", ident("app/y/0"), "app/y", Allocation(gpus=("GPU-a-5",), cpus=(8,), cpu_nodes=(1,)))
    near = Allocation(gpus=("GPU-a-5", "GPU-a-6"), gpu_nodes=(1,), cpu_nodes=(1,), cpus=(10, 13), memory=GIB)
    found = placed(fleet, ask(cpus=2, gpus=2, only="a", near=near, numa=numa))
    assert found.allocation.gpus == ("GPU-a-0", "GPU-a-1"), "node 0 has the most free cards"


def test_near_means_nothing_on_another_host() -> None:
    """CPU numbers of one host say nothing about another."""
    near = Allocation(gpus=("GPU-a-5",), cpu_nodes=(1,), cpus=(10,), memory=GIB)
    fleet = fleet_of(host("a", SMALL, state=HostState.DRAINED), host("b", SMALL))
    found = placed(fleet, ask(gpus=1, prefer="a", near=near))
    assert (found.host, found.allocation.cpus) == ("b", (0,))


def test_slices_are_kept_over_a_restart() -> None:
    """A MIG slice of before is given again, though another of its profile comes first."""
    view = host("a", [(8, 64, 1)], mig=True, slices=["1g.5gb@0", "1g.5gb@1"])
    work: dict[str, Any] = {"request": Request(gpus=MigSlices("1g.5gb"))}
    first = placed(fleet_of(view), ask(**work)).allocation
    second = placed(fleet_of(view), ask(**work, only="a", near=replace(first, mig=())))
    assert [piece.uuid for piece in second.allocation.mig] == ["MIG-a-0"]
    held = replace(first, mig=(replace(first.mig[0], start=1, uuid="MIG-a-1"),))
    kept = placed(fleet_of(view), ask(**work, only="a", near=held))
    assert [piece.uuid for piece in kept.allocation.mig] == ["MIG-a-1"]
    assert kept.why.startswith("kept where it is")


@pytest.mark.parametrize(
    ("cpus", "memory", "expect"),
    [
        (4, 8, (0, 1, 2, 3)),
        (2, 8, (0, 1)),
        (6, 8, (0, 1, 2, 3, 4, 5)),
        (7, 8, None),  # two cores of the node are another's
        (4, 40, (0, 1, 2, 3)),
        (4, 128, None),
        (0.5, 8, (0, 1, 2, 3, 4, 5)),
    ],
)
def test_resize(cpus: float, memory: int, expect: tuple[int, ...] | None) -> None:
    """Other cores and memory on the same node with the same cards; None, and no change, if they are not there."""
    fleet = fleet_of(host("a", SMALL))
    other = Allocation(cpus=(6, 7), cpu_nodes=(0,), memory=GIB)
    fleet.occupy("a", "o", ident("app/o/0"), "app/o", other)
    current = Allocation(("GPU-a-1",), gpu_nodes=(0,), cpu_nodes=(0,), cpus=(0, 1, 2, 3), memory=8 * GIB)
    fleet.occupy("a", "k", ident("app/x/0"), "app/x", current)
    found = fleet.resize("k", app("x", cpus=cpus, memory=memory, gpus=1), current)
    pool = set(range(16)) - {6, 7}
    if expect is None:
        assert found is None
        assert set(fleet.shared_pool("a")) == pool - {0, 1, 2, 3}
        return
    assert found
    assert (found.cpus, found.gpus, found.cpu_nodes) == (expect, ("GPU-a-1",), (0,))
    assert (found.memory, found.exclusive) == (memory * GIB, cpus >= 1)
    assert set(fleet.shared_pool("a")) == (pool - set(expect) if cpus >= 1 else pool)


def test_resize_keeps_memory_where_it_is_bound() -> None:
    """Memory that is bound to a node must grow there, however much the host has."""
    fleet = fleet_of(host("a", SMALL))
    current = Allocation(cpu_nodes=(0,), memory_nodes=(0,), cpus=(0,), memory=GIB)
    fleet.occupy("a", "k", ident("app/x/0"), "app/x", current)
    assert fleet.resize("k", app("x", memory=65), current) is None
    assert fleet.resize("k", app("x", memory=64), current) == replace(current, memory=64 * GIB)


def test_what_shrinks_fits_on_a_full_host() -> None:
    """A host that holds more than it has (its facts changed) still lets work become smaller."""
    fleet = fleet_of(host("a", [(2, 4, 0)]))
    current = Allocation(cpu_nodes=(0,), cpus=(0, 1), memory=8 * GIB)
    fleet.occupy("a", "k", ident("app/x/0"), "app/x", current)
    found = fleet.resize("k", app("x", cpus=1, memory=6), current)
    assert found
    assert (found.cpus, found.memory) == ((0,), 6 * GIB)


# -- ports


def web(*ports: Port, network: str = "bridge") -> ContainerSpec:
    """A container with ports."""
    return ContainerSpec("a:1", ports=ports, network=network)


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        (web(Port(80, host=8000)), web(Port(81, host=8000)), True),
        (web(Port(80, host=8000)), web(Port(80, host=8001)), False),
        (web(Port(80, host=8000)), web(Port(80, host=8000, protocol="udp")), False),
        (web(Port(80, host=8000, host_ip="10.0.0.1")), web(Port(80, host=8000, host_ip="10.0.0.2")), False),
        (web(Port(80, host=8000, host_ip="10.0.0.1")), web(Port(80, host=8000, host_ip="10.0.0.1")), True),
        (web(Port(80, host=8000, host_ip="10.0.0.1")), web(Port(80, host=8000)), True),
        (web(Port(80, host=8000, host_ip="0.0.0.0")), web(Port(80, host=8000, host_ip="::1")), True),  # noqa: S104 - a port's address in a spec
        (web(Port(8000), network="host"), web(Port(80, host=8000)), True),
        (web(Port(8000), network="host"), web(Port(8000), network="host"), True),
        (web(Port(8000), network="host"), web(Port(8000)), False),
    ],
)
def test_fixed_ports(first: ContainerSpec, second: ContainerSpec, clash: bool) -> None:
    """One address and port has one owner; on the host's network a container holds its own ports."""
    fleet = fleet_of(host("a"))
    placed(fleet, ask("x", container=first))
    found = fleet.place(ask("y", container=second), "y")
    assert isinstance(found, Pending) is clash
    if isinstance(found, Pending):
        assert found.removed == (("ports", 1),)
        assert found.reason == "no host that fits has host port 8000 free"
        assert found.nearest == Nearest("a", "host port 8000")


def test_any_port_is_the_lowest_free_one() -> None:
    """Free ports are given from 30000 on, and recorded; what others hold is skipped."""
    held = Container("f", "f", "running", holding=Holding(ports=(("", 30001, "tcp"), ("10.0.0.1", 30003, "tcp"))))
    fleet = fleet_of(replace(host("a"), containers=(held,)))
    spec = web(Port(80), Port(81), Port(82, protocol="udp"), Port(83, host=30002))
    given = placed(fleet, ask(container=spec)).allocation.ports
    assert given == ((80, "tcp", 30000), (81, "tcp", 30004), (82, "udp", 30000), (83, "tcp", 30002))
    again = placed(fleet, ask(index=1, container=web(Port(80))))
    assert again.allocation.ports == ((80, "tcp", 30005),)


def test_a_port_is_kept_over_a_restart() -> None:
    """The port of before is given again while it is free, and only then."""
    fleet = fleet_of(host("a"))
    near = Allocation(ports=((80, "tcp", 31234),), cpu_nodes=(0,))
    kept = placed(fleet, ask(container=web(Port(80)), only="a", near=near))
    assert kept.allocation.ports == ((80, "tcp", 31234),)
    other = placed(fleet, ask(index=1, container=web(Port(80)), only="a", near=near))
    assert other.allocation.ports == ((80, "tcp", 30000),)


def test_the_address_of_a_running_port_is_the_observed_one() -> None:
    """An allocation does not say on which address a port is; the container does."""
    ours = Ours(ident("app/y/0"), 1, "v1:0", {}, Allocation(ports=((80, "tcp", 8000),)))
    box = Container("c", "c", "running", ours=ours, holding=Holding(ports=(("10.0.0.1", 8000, "tcp"),)))
    fleet = fleet_of(replace(host("a"), containers=(box,)))
    fleet.occupy("a", "c", ident("app/y/0"), "app/y", ours.allocation)
    assert pending(fleet, ask(container=web(Port(80, host=8000, host_ip="10.0.0.1")))).removed == (("ports", 1),)
    placed(fleet, ask(container=web(Port(80, host=8000, host_ip="10.0.0.2"))))


def test_no_port_left() -> None:
    """A host whose ports are all taken is left for another; without another the answer says so."""
    full = Container(
        "f", "f", "running", holding=Holding(ports=tuple(("", port, "tcp") for port in range(30000, 32768)))
    )
    views = (replace(host("a"), containers=(full,)), host("b"))
    assert placed(fleet_of(*views), ask(container=web(Port(80)))).host == "b"
    found = pending(fleet_of(views[0]), ask(container=web(Port(80))))
    assert (found.removed, found.reason) == ((("ports", 1),), "no host that fits has a free host port free")


# -- why not


@pytest.mark.parametrize(
    ("views", "work", "reason", "removed", "nearest"),
    [
        ([], {}, "there are no hosts", (), None),
        (
            [host("a", [(5, 2, 0)])],
            {"cpus": 6},
            "no host has 6 CPUs free: the largest host has 5, the largest NUMA node 5",
            (("cpus", 1),),
            Nearest("a", "1 more free CPU"),
        ),
        (
            [host("a", [(5, 2, 0), (5, 2, 0)])],
            {"cpus": 6, "numa": Numa.REQUIRE},
            "6 CPUs are asked of one NUMA node, and the largest has 5",
            (("numa", 1),),
            Nearest("a", "a NUMA node with 6 CPUs, 1Gi free at once, and numa is required"),
        ),
        (
            [host("a", [(16, 128, 3), (16, 128, 5)])],
            {"gpus": 8, "numa": Numa.REQUIRE},
            "no NUMA node has 8 GPUs, 1 CPU and 1Gi free at once",
            (("numa", 1),),
            Nearest("a", "8 GPUs on one node: 3 + 5 free over two nodes, and numa is required"),
        ),
        (
            [host("a", tags=("train",)), host("b", [(8, 8, 2)], tags=("train",)), host("c")],
            {"request": Request(1000, exclusive=True, memory=GIB, gpus=WholeGpus(9, ("*A100*",))),
             "policy": Composite("AND", (MatchTag("train"), MaxPerHost(1)))},
            "no host has 9 free GPUs on matching cards",
            (("MATCH_TAG train", 1), ("gpus", 2)),
            Nearest("a", "1 more free GPU"),
        ),
        (
            [host("a", [(8, 8, 2)]), host("b", [(2, 64, 2)])],
            {"gpus": 2, "cpus": 4, "memory": 16},
            "no host has 16Gi of free memory",
            (("cpus", 1), ("memory", 1)),
            Nearest("a", "8Gi more free memory"),
        ),
        (
            [host("a", tags=("x", "y"))],
            {},
            "no host passes NO_TAG",
            (("NO_TAG", 1),),
            Nearest("a", "it is kept for work that names its tags (x, y)"),
        ),
        (
            [host("a")],
            {"policy": MatchTag("b")},
            "no host passes MATCH_TAG b",
            (("MATCH_TAG b", 1),),
            Nearest("a", "the tag b"),
        ),
        (
            [host("a", state=HostState.CORDONED)],
            {},
            "the only host that may take it is cordoned",
            (("cordoned", 1),),
            Nearest("a", "it is cordoned"),
        ),
        (
            [host("a", tags=("t",), state=HostState.DRAINED), host("b")],
            {"policy": MatchTag("t")},
            "the only host that may take it is drained",
            (("drained", 1), ("MATCH_TAG t", 1)),
            Nearest("a", "it is drained"),
        ),
        (
            [host("a", state=HostState.DRAINED), host("b", state=HostState.DRAINED)],
            {},
            "the 2 hosts that may take it are drained",
            (("drained", 2),),
            Nearest("a", "it is drained"),
        ),
        (
            [
                replace(host("a"), reach=Reach.UNREACHABLE),
                replace(host("b"), facts=None),
                replace(host("c"), facts=None),
                host("d", tags=("t",)),
            ],
            {},
            "of the 3 hosts that may take it, 1 is unreachable, 2 have no facts yet",
            (("unreachable", 1), ("no facts yet", 2), ("NO_TAG", 1)),
            Nearest("b", "it has no facts yet"),
        ),
        (
            [replace(host("a"), reach=Reach.STALE)],
            {"gpus": 1},
            "the only host that may take it has stale facts",
            (("stale facts", 1),),
            Nearest("a", "it has stale facts"),
        ),
        (
            [host("a", state=HostState.DRAINED), host("b")],
            {"only": "a"},
            "a is drained",
            (("drained", 1),),
            Nearest("a", "it is drained"),
        ),
        ([host("a")], {"only": "b"}, "there is no host b", (), None),
        (
            [host("a", [(8, 8, 1)]), host("b")],
            {"only": "a", "gpus": 2},
            "a lacks 1 more free GPU",
            (("gpus", 1),),
            Nearest("a", "1 more free GPU"),
        ),
        (
            [host("a")],
            {"request": Request(gpus=AllGpus())},
            "no host has GPUs and gpuMode: passthrough",
            (("gpuMode passthrough", 1),),
            Nearest("a", "gpuMode: passthrough"),
        ),
    ],
)  # fmt: skip
def test_why_not(
    views: list[HostView],
    work: dict[str, Any],
    reason: str,
    removed: tuple[tuple[str, int], ...],
    nearest: Nearest | None,
) -> None:
    """Pending work says which filter removed how many hosts, in filter order, and what the nearest host lacks."""
    found = pending(fleet_of(*views), ask(**work))
    assert (found.reason, found.removed, found.nearest) == (reason, removed, nearest)
    assert sum(count for _, count in found.removed) == (1 if nearest and "only" in work else len(views) * bool(removed))


@pytest.mark.parametrize(
    ("shared", "exclusive", "numa", "reason", "lacks"),
    [
        (
            0.5,
            5,
            Numa.PREFER,
            "no host has 5 CPUs free: the last one stays for shared work",
            "1 more free CPU (1 stays for shared work)",
        ),
        (
            1.5,
            4,
            Numa.PREFER,
            "no host has 4 CPUs free: the last 2 stay for shared work",
            "1 more free CPU (2 stay for shared work)",
        ),
        (
            0.5,
            6,
            Numa.PREFER,
            "no host has 6 CPUs free: the largest host has 5, the largest NUMA node 5",
            "2 more free CPUs",
        ),
    ],
)
def test_cpus_that_stay_for_shared_work_are_told(
    shared: float, exclusive: int, numa: Numa, reason: str, lacks: str
) -> None:
    """CPUs that are idle and are not given away are no riddle; those that are not there are another matter."""
    fleet = fleet_of(host("a", [(5, 64, 0)]))
    placed(fleet, ask("s", request=Request(int(shared * 1000), exclusive=False, memory=GIB)))
    found = pending(fleet, ask(cpus=exclusive, numa=numa))
    assert found.reason == reason
    assert found.nearest == Nearest("a", lacks)


def test_cpus_that_stay_for_shared_work_on_the_node_are_told() -> None:
    """A host with room enough, of which no node has it."""
    fleet = fleet_of(host("a", [(4, 64, 0), (3, 64, 0)]))
    placed(fleet, ask("filler", cpus=3))
    placed(fleet, ask("s", request=Request(500, exclusive=False, memory=GIB)))
    fleet.vacate("app/filler/0")
    found = pending(fleet, ask(cpus=4, numa=Numa.REQUIRE))
    assert found.reason == "no NUMA node has 4 CPUs and 1Gi free at once: the last one stays for shared work"
    lacks = "a NUMA node with 4 CPUs, 1Gi free at once (1 stays for shared work), and numa is required"
    assert found.nearest == Nearest("a", lacks)


@pytest.mark.parametrize(
    ("nearest", "words", "sentence"),
    [
        (Nearest("a", "1 more free GPU"), "a lacks 1 more free GPU", "a lacks 1 more free GPU"),
        (Nearest("a", "it is drained"), "a: it is drained", "a is drained"),
        (Nearest("a", "it has no facts yet"), "a: it has no facts yet", "a has no facts yet"),
    ],
)
def test_the_nearest_host_in_words(nearest: Nearest, words: str, sentence: str) -> None:
    """A host lacks things, and is in a state."""
    assert (nearest.words, nearest.sentence) == (words, sentence)


def test_explain_lists_hosts_and_offers() -> None:
    """Every host is named once: removed by a filter, or among those that fit; nothing is committed."""
    views = [host("a", tags=("t",)), host("b", ONE), host("c", [(4, 8, 1)]), host("d", [(4, 8, 0)])]
    fleet = fleet_of(*views, *(host(f"e{number}", ONE) for number in range(6)))
    told = fleet.explain(ask(gpus=2))
    assert told.removed == (("NO_TAG", ("a",)), ("gpus", ("c", "d")))
    assert (told.hosts, told.fitting) == (10, 7)
    assert [offer.host for offer in told.offers] == ["b", "e0", "e1", "e2", "e3"]
    assert told.offers[0].nodes == "node 0"
    assert told.offers[0].score == "leaves 2 GPUs and 15 CPUs free"
    assert (told.winner, told.pending) == ("b", None)
    assert told.why == "best of 7 hosts that fit: leaves 2 GPUs and 15 CPUs free"
    assert fleet.explain(ask(gpus=2)) == told
    assert placed(fleet, ask(gpus=2)).host == "b"


def test_explain_of_what_fits_nowhere() -> None:
    """The explanation of pending work holds the same answer that the plan gives."""
    fleet = fleet_of(host("a", ONE), host("b", [(4, 8, 1)]))
    one = ask(gpus=8)
    told = fleet.explain(one)
    assert (told.winner, told.offers) == (None, ())
    assert told.removed == (("gpus", ("a", "b")),)
    assert told.pending == pending(fleet, one)


def test_explain_counts_ports() -> None:
    """A host that fits but for its ports is removed by them."""
    fleet = fleet_of(host("a"), host("b"))
    placed(fleet, ask("y", container=web(Port(80, host=8000)), only="a"))
    told = fleet.explain(ask(container=web(Port(80, host=8000))))
    assert (told.removed, told.winner, told.fitting) == ((("ports", ("a",)),), "b", 1)


# -- what no longer holds


@pytest.mark.parametrize(
    ("view", "work", "allocation", "expect"),
    [
        (host("a", tags=("t",)), {"policy": MatchTag("t")}, Allocation(), ()),
        (host("a"), {"policy": MatchTag("t")}, Allocation(), ("MATCH_TAG t no longer holds on a",)),
        (host("a", tags=("t",)), {}, Allocation(), ("NO_TAG no longer holds on a",)),
        (host("a"), {"numa": Numa.REQUIRE}, Allocation(("GPU-a-0",), cpu_nodes=(0,), cpus=(0,)), ()),
        (
            host("a"),
            {"numa": Numa.REQUIRE},
            Allocation(("GPU-a-5",), cpu_nodes=(0,), cpus=(0,)),
            ("numa: require no longer holds: it is on nodes 0 and 1",),
        ),
        (
            host("a"),
            {"numa": Numa.REQUIRE_SOCKET},
            Allocation(("GPU-a-5",), cpu_nodes=(0,), cpus=(0,)),
            ("numa: require-socket no longer holds: it is on nodes 0 and 1",),
        ),
        (host("a"), {"numa": Numa.PREFER}, Allocation(("GPU-a-5",), cpu_nodes=(0,), cpus=(0,)), ()),
        (host("a"), {}, Allocation(("GPU-z",)), ("GPU-z is no longer there",)),
        (host("a", gpus_excluded=("GPU-a-0",)), {}, Allocation(("GPU-a-0",)), ("GPU-a-0 is excluded",)),
        (
            host("a"),
            {"request": Request(gpus=WholeGpus(1, ("*H100*",)))},
            Allocation(("GPU-a-0",)),
            ("GPU-a-0 (NVIDIA A100-SXM4-80GB) is not what is asked",),
        ),
        (replace(host("a"), facts=None), {"numa": Numa.REQUIRE}, Allocation(("GPU-z",)), ()),
    ],
)
def test_violations(view: HostView, work: dict[str, Any], allocation: Allocation, expect: tuple[str, ...]) -> None:
    """What bound when placing and no longer holds is told, and evicts nothing."""
    fleet = fleet_of(view)
    fleet.occupy("a", "k", ident("app/x/0"), "app/x", allocation)
    assert fleet.violations(ask(**work), "a", allocation) == expect
    assert fleet.violations(ask(**work), "elsewhere", allocation) == ()


def test_violation_of_a_count() -> None:
    """Two instances on one host, one allowed: both are told of."""
    fleet = fleet_of(host("a"))
    for index in range(2):
        fleet.occupy("a", str(index), ident(f"app/x/{index}"), "app/x", Allocation())
    one = ask(policy=MaxPerHost(1))
    assert fleet.violations(one, "a", Allocation()) == ("ONE_PER_HOST no longer holds on a",)


# -- the order of a batch


# -- cards that changed under running work


def with_mig(view: HostView, slices: tuple[MigSlice, ...], *, enabled: bool = True) -> HostView:
    """The host with MIG on its first card switched, and these slices on it."""
    assert view.facts
    first = replace(view.facts.gpus[0], mig_enabled=enabled, mig_slices=slices)
    return replace(view, facts=replace(view.facts, gpus=(first, *view.facts.gpus[1:])))


def test_nothing_is_cut_on_a_card_that_a_share_runs_on() -> None:
    """The card was switched to MIG under a share: it stays in use, and the reason names who uses it."""
    view = with_mig(host("a", [(16, 64, 1)], mig_create=True), ())
    fleet = fleet_of(view)
    held = Allocation(share=Share("GPU-a-0", 400, GIB), cpus=(0,), cpu_nodes=(0,))
    fleet.occupy("a", "k", ident("app/y/0"), "app/y", held)
    gpus = MigSlices("1g.10gb")
    found = pending(fleet, ask(container=ContainerSpec("a:1", gpus=gpus), request=Request(gpus=gpus)))
    assert found.nearest
    assert "GPU 0: held by app/y/0" in found.nearest.lacks


def test_a_card_whose_slices_are_gone_is_not_given_whole() -> None:
    """What was given a slice still runs there, whatever the facts say of the card now."""
    fleet = fleet_of(host("a", [(16, 64, 1)]))
    held = Allocation(mig=(Slice("GPU-a-0", "1g.10gb", 0, "MIG-a"),), cpus=(0,), cpu_nodes=(0,))
    fleet.occupy("a", "k", ident("app/y/0"), "app/y", held)
    assert pending(fleet, ask(gpus=1)).reason == "no host has 1 free GPU"


@pytest.mark.parametrize(("memory", "most"), [(16, 3), (8, 6), (20, 2), (24, 2)])
def test_shares_by_memory_that_divide_a_card_evenly_all_fit(memory: int, most: int) -> None:
    """A card of 48 GiB takes three of 16 or six of 8; what does not divide it is rounded up to a thousandth."""
    view = host("a", [(64, 256, 1)])
    assert view.facts
    view = replace(view, facts=replace(view.facts, gpus=(replace(view.facts.gpus[0], memory=48 * GIB),)))
    gpus = GpuShare(memory=memory * GIB)
    work: dict[str, Any] = {"container": ContainerSpec("a:1", gpus=gpus), "request": Request(gpus=gpus)}
    fleet = fleet_of(view)
    shares = [placed(fleet, ask(index=index, **work)).allocation.share for index in range(most)]
    assert {one.memory for one in shares if one} == {memory * GIB}
    assert "GPU with" in pending(fleet, ask(index=most, **work)).reason
