"""The acceptance cases of tests/fixtures/cases, each through the public planner."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.host import HostState, Link, Nic
from reconciler.model.memory import Memory
from reconciler.model.placement import AnyHost, Composite, MatchTag, MaxPerHost, NoTag, Numa, Policy
from reconciler.model.plan import Plan
from reconciler.model.resources import GpuRequest, MigSlices, Request, WholeGpus
from reconciler.model.snapshot import Container, Holding, HostView, Snapshot
from reconciler.model.workload import ContainerSpec, Workload
from reconciler.planner import plan
from tests.fakes.world import GIB, app, desired, host

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
CORES, CARDS = 16, 4  # per node, unless a case says otherwise


def load(name: str) -> list[Any]:
    """The cases of one file, named where they have a name."""
    cases = yaml.safe_load((CASES / name).read_text())
    return [pytest.param(case, id=case.get("name", str(number))) for number, case in enumerate(cases)]


def planned(workloads: list[Workload], views: list[HostView]) -> Plan:
    """The first plan of an empty fleet."""
    return plan(desired(workloads, views), Snapshot(tuple(views)), Memory(), now=0.0)


def partly_held(name: str, case: dict[str, Any]) -> HostView:
    """A host of full nodes on which a foreign container holds what is not free; memory is what is free."""
    nodes = case["nodes"]
    cards = case.get("gpusTotal", CARDS)
    view = host(name, [(CORES, memory, cards) for _, memory, _ in nodes], gpu_node_known="gpuNode" not in case)
    assert view.facts
    gpus: set[str] = set()
    cpus: list[int] = []
    for node, (cores, _, free) in enumerate(nodes):
        gpus.update(f"GPU-{name}-{node * cards + card}" for card in range(free, cards))
        cpus += view.facts.numa_nodes[node].cpus[cores:]
    held = Container("f1", "somebody", "running", holding=Holding(frozenset(gpus), cpus=tuple(cpus)))
    return replace(view, containers=(held,))


@pytest.mark.parametrize("case", load("numa.yaml"))
def test_numa(case: dict[str, Any]) -> None:
    """Cards, cores and memory come from the nodes that the case names, or the work is pending."""
    views = [partly_held(f"h{number}", one) for number, one in enumerate(case.get("hosts", [case]))]
    asked = case["request"]
    work = app("x", cpus=asked["cpus"], memory=asked["memory"], gpus=asked.get("gpus", 0), numa=Numa(case["numa"]))
    made, expect = planned([work], views), case["expect"]
    if expect == "pending":
        assert [str(one.instance) for one in made.pending] == ["app/x/0"]
        assert not made.actions
        return
    (action,) = made.actions
    given = action.allocation
    assert given
    both = tuple(expect["nodes"]) if "nodes" in expect else None
    for key, nodes in (("gpuNodes", given.gpu_nodes), ("cpuNodes", given.cpu_nodes)):
        if both is not None or key in expect:
            assert nodes == (both if both is not None else tuple(expect[key]))
    assert expect.get("warning", "") in " ".join(action.warnings)
    assert action.host == f"h{expect.get('host', 0)}"
    assert len(given.cpus) == asked["cpus"]
    assert given.memory_nodes == (given.cpu_nodes if case["numa"] == "require" else ())


def policy_of(form: dict[str, Any]) -> Policy:
    """The model of a policy as it stands in YAML."""
    match form["type"]:
        case "ANY":
            return AnyHost()
        case "ONE_PER_HOST":
            return MaxPerHost(1)
        case "MAX_N_PER_HOST":
            return MaxPerHost(form["max"])
        case "MATCH_TAG":
            return MatchTag(form["tag"])
        case "NO_TAG":
            return NoTag()
        case "COMPOSITE":
            return Composite(form["combiner"], tuple(policy_of(part) for part in form["policies"]))
    raise ValueError(form["type"])


@pytest.mark.parametrize("case", load("policies.yaml"))
def test_policies(case: dict[str, Any]) -> None:
    """As many instances are placed as Drove places, and every other one is pending."""
    small = 2560 / 1024
    views = [
        host(
            f"h{number}",
            [(5, 1, 0)],
            tags=tuple(tags),
            state=HostState.CORDONED if number in case.get("cordoned", []) else HostState.ACTIVE,
        )
        for number, tags in enumerate(case["hosts"])
    ]
    views = [with_memory(view, int(small * GIB)) for view in views]
    request = Request(1000, exclusive=True, memory=512 * 1024**2)
    made = planned([app("x", case["ask"], request=request, policy=policy_of(case["policy"]))], views)
    assert len(made.actions) == case["expect"]
    assert len(made.pending) == case["ask"] - case["expect"]


def with_memory(view: HostView, memory: int) -> HostView:
    """The host with so many bytes on its only node."""
    assert view.facts
    (node,) = view.facts.numa_nodes
    return replace(view, facts=replace(view.facts, numa_nodes=(replace(node, memory=memory),)))


# -- slices


def cut_host(case: dict[str, Any]) -> HostView:
    """One A100-40GB with MIG enabled and what slices it has."""
    model = "NVIDIA A100-SXM4-40GB"
    view = host("h0", [(16, 64, 1)], model=model, mig=True, slices=case["have"], mig_create=case.get("create", False))
    assert view.facts
    card = replace(view.facts.gpus[0], memory=40 * GIB)
    return replace(view, facts=replace(view.facts, gpus=(card,)))


def asking(gpus: GpuRequest, name: str, **more: Any) -> Workload:
    """An app of one CPU and some cards."""
    return app(name, request=Request(gpus=gpus), container=ContainerSpec("a:1", gpus=gpus), **more)


def sliced(case: dict[str, Any]) -> tuple[list[Workload], Plan]:
    """What a case asks, in order of priority, and the plan for it."""
    work = [
        asking(WholeGpus(1) if what == "gpu" else MigSlices(what), f"x{number}", priority=-number)
        for number, what in enumerate(case["ask"])
    ]
    return work, planned(work, [cut_host(case)])


@pytest.mark.parametrize("case", load("mig.yaml"))
def test_slices(case: dict[str, Any]) -> None:
    """A slice is given once, the one asked for; a card with MIG enabled is never given whole."""
    work, made = sliced(case)
    given = {action.instance.name: action.allocation.mig for action in made.actions if action.allocation}
    assert ["ok" if one.name in given else "pending" for one in work] == case["expect"]
    taken = [piece for pieces in given.values() for piece in pieces]
    assert len({piece.start for piece in taken}) == len(taken) == len(given)
    assert [given[one.name][0].profile for one in work if one.name in given] == [
        what for what, how in zip(case["ask"], case["expect"], strict=True) if how == "ok"
    ]
    assert all(bool(piece.uuid) is not case.get("create", False) for piece in taken)
    reason = case.get("reason", "more free 1g.")
    assert all(one.nearest and reason in one.nearest.lacks for one in made.pending)


@pytest.mark.parametrize("case", load("mig.yaml"))
def test_slices_never_overlap(case: dict[str, Any]) -> None:
    """The memory slices of all that is given are apart."""
    width = {"1g.5gb": 1, "1g.10gb": 2, "2g.10gb": 2, "3g.20gb": 4, "4g.20gb": 4}
    made = sliced(case)[1]
    taken = [piece for action in made.actions if action.allocation for piece in action.allocation.mig]
    grid = [at for piece in taken for at in range(piece.start, piece.start + width[piece.profile])]
    assert len(grid) == len(set(grid))
    assert set(grid) <= set(range(8))


def test_where_slices_are_to_be_cut() -> None:
    """Each where it costs the others least, and the plan says which command cuts it."""
    case = next(param.values[0] for param in load("mig.yaml") if "placed" in param.values[0])
    _, made = sliced(case)
    placed = [(piece, action) for action in made.actions if action.allocation for piece in action.allocation.mig]
    assert [f"{piece.profile}@{piece.start}" for piece, _ in placed] == case["placed"]
    for piece, action in placed:
        assert f"nvidia-smi mig -i {piece.gpu} -cgi {piece.profile}:{piece.start} -C" in " ".join(action.warnings)


def test_a_slice_that_exists_goes_before_one_to_be_cut() -> None:
    """Also where cutting would fill a card of another host, which is fuller."""
    free = cut_host({"have": ["1g.5gb@0"], "create": True})
    full = renamed(cut_host({"have": ["3g.20gb@4", "2g.10gb@2", "1g.5gb@0"], "create": True}), "h1", cores=4)
    held = frozenset(f"MIG-h1-{number}" for number in range(3))
    full = replace(full, containers=(Container("f1", "somebody", "running", holding=Holding(mig=held)),))
    (action,) = planned([asking(MigSlices("1g.5gb"), "x")], [free, full]).actions
    assert action.allocation
    assert [piece.uuid for piece in action.allocation.mig] == ["MIG-h0-0"]


def renamed(view: HostView, name: str, cores: int) -> HostView:
    """The same host under another name with fewer cores."""
    assert view.facts
    card = view.facts.gpus[0]
    slices = tuple(
        replace(piece, uuid=f"MIG-{name}-{number}", gpu=f"GPU-{name}-0") for number, piece in enumerate(card.mig_slices)
    )
    facts = replace(
        view.facts,
        gpus=(replace(card, uuid=f"GPU-{name}-0", mig_slices=slices),),
        numa_nodes=tuple(replace(node, cpus=node.cpus[:cores]) for node in view.facts.numa_nodes),
    )
    return replace(view, spec=replace(view.spec, name=name), facts=facts)


# -- links


def linked_host(kind: dict[str, Any], free: Sequence[int], nodes: Sequence[tuple[int, int, int]]) -> HostView:
    """Eight cards as a case describes them; a foreign container holds those that are not free."""
    view = host("h0", nodes)
    assert view.facts
    gpus = tuple(replace(gpu, links=tuple(links_of(kind, place))) for place, gpu in enumerate(view.facts.gpus))
    held = Holding(frozenset(f"GPU-h0-{place}" for place in set(range(8)) - set(free)))
    boxes = (Container("f1", "somebody", "running", holding=held),) if held.gpus else ()
    return replace(view, facts=replace(view.facts, gpus=gpus), containers=boxes)


def links_of(kind: dict[str, Any], place: int) -> list[Link]:
    """The links of one card to those after it: one socket is one host bridge."""
    out = []
    for other in range(place + 1, 8):
        pair = f"{place}-{other}"
        near = any({place, other} <= set(cards) for cards in kind["sockets"])
        level = "switch" if pair in kind["one_switch"] else "bridge" if near else "system"
        out.append(Link(f"GPU-h0-{other}", kind["nvlinks"].get(pair, 0), level))
    return out


def links_cases() -> list[Any]:
    """Each case with its kind of machine."""
    kinds = yaml.safe_load((CASES / "links.yaml").read_text())
    return [pytest.param(kind, case,
                         id=f"{kind['machine']} by {case['size']}, {len(case.get('free', range(8)))} free")
            for kind in kinds for case in kind["cases"]]  # fmt: skip


def sets_in_turn(view: HostView, size: int, count: int) -> list[list[int]]:
    """The cards, by number, that so many asks for ``size`` are given, in the order of the asks."""
    made = planned([app(f"x{number}", cpus=1, gpus=size) for number in range(count)], [view])
    assert not made.pending
    given = sorted((action.instance.name, action.allocation) for action in made.actions if action.allocation)
    return [[int(uuid.rpartition("-")[2]) for uuid in one.gpus] for _, one in given]


@pytest.mark.parametrize(("kind", "case"), links_cases())
def test_linked_sets_in_turn(kind: dict[str, Any], case: dict[str, Any]) -> None:
    """Where locality has no say, requests of one size get the sets of the case one after the other."""
    view = linked_host(kind, case.get("free", range(8)), [(16, 128, 8)])
    assert sets_in_turn(view, case["size"], len(case["expect"])) == case["expect"]


@pytest.mark.parametrize(("kind", "case"), links_cases())
def test_linked_sets_of_two_sockets(kind: dict[str, Any], case: dict[str, Any]) -> None:
    """With a NUMA node for each socket they are the same sets: the node with more free cards is next."""
    view = linked_host(kind, case.get("free", range(8)), [(16, 128, 4), (16, 128, 4)])
    assert sorted(sets_in_turn(view, case["size"], len(case["expect"]))) == sorted(case["expect"])


PAIRS: dict[str, Any] = {"nvlinks": {"0-1": 4, "2-3": 4, "4-5": 4, "6-7": 4}, "one_switch": [], "sockets": [range(8)]}
ACROSS: dict[str, Any] = {"nvlinks": {"0-4": 4, "1-5": 4}, "one_switch": [], "sockets": [range(4), range(4, 8)]}
TWO = [(16, 128, 4), (16, 128, 4)]


@pytest.mark.parametrize(
    ("kind", "free", "numa", "expect"),
    [
        (PAIRS, range(8), Numa.PREFER, [0, 1]),
        (PAIRS, [0, 2, 4, 6, 7], Numa.PREFER, [6, 7]),
        (PAIRS, [0, 2, 4, 6], Numa.PREFER, None),
        (ACROSS, range(8), Numa.PREFER, [0, 4]),
        (ACROSS, range(8), Numa.REQUIRE, None),
        (ACROSS, [1, 2, 3, 5, 6], Numa.NONE, [1, 5]),
        ({"nvlinks": {}, "one_switch": [], "sockets": [range(8)]}, range(8), Numa.PREFER, None),
    ],
    ids=["any pair", "the pair that is whole", "no pair is whole", "pairs across nodes", "which require forbids",
         "which none allows", "no links at all"],
)  # fmt: skip
def test_cards_joined_by_nvlink(
    kind: dict[str, Any], free: Sequence[int], numa: Numa, expect: list[int] | None
) -> None:
    """``link: nvlink`` gives cards that are joined to one another, or the work is pending."""
    gpus = WholeGpus(2, link="nvlink")
    made = planned([asking(gpus, "x", numa=numa)], [linked_host(kind, free, TWO)])
    given = [action.allocation.gpus for action in made.actions if action.allocation]
    assert given == ([] if expect is None else [tuple(f"GPU-h0-{place}" for place in expect)])
    assert len(made.pending) == (expect is None)


# -- RDMA


def with_nic(view: HostView, node: int, *, rdma: bool = True) -> HostView:
    """The host with a network card on a node."""
    assert view.facts
    return replace(view, facts=replace(view.facts, nics=(Nic("mlx5_0", numa_node=node, rdma=rdma),)))


@pytest.mark.parametrize(("rdma", "free", "node"), [(False, 4, 0), (True, 4, 1), (True, 1, 1), (True, 0, 0)])
def test_rdma_work_goes_near_the_network_card(*, rdma: bool, free: int, node: int) -> None:
    """The node of the network card comes before the one with the most free cards; when it is full, another does."""
    view = with_nic(host("h0", TWO), 1)
    held = Holding(frozenset(f"GPU-h0-{place}" for place in range(4 + free, 8)))
    view = replace(view, containers=(Container("f1", "somebody", "running", holding=held),) if held.gpus else ())
    work = app("x", container=ContainerSpec("a:1", gpus=WholeGpus(1), rdma=rdma), request=Request(gpus=WholeGpus(1)))
    (action,) = planned([work], [view]).actions
    assert action.allocation
    assert action.allocation.gpu_nodes == action.allocation.cpu_nodes == (node,)


@pytest.mark.parametrize("nic", [None, False])
def test_rdma_work_needs_an_rdma_card(*, nic: bool | None) -> None:
    """A host without a network card, or with one that cannot do RDMA, does not do."""
    view = host("h0", TWO) if nic is None else with_nic(host("h0", TWO), 0, rdma=nic)
    made = planned([app("x", container=ContainerSpec("a:1", rdma=True))], [view])
    assert not made.actions
    assert [one.nearest.lacks for one in made.pending if one.nearest] == ["an RDMA network card"]
