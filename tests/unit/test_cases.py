"""The acceptance cases of tests/fixtures/cases, each through the public planner."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.model.host import HostState
from reconciler.model.memory import Memory
from reconciler.model.placement import AnyHost, Composite, MatchTag, MaxPerHost, NoTag, Numa, Policy
from reconciler.model.plan import Plan
from reconciler.model.resources import MigSlices, Request, WholeGpus
from reconciler.model.snapshot import Container, Holding, HostView, Snapshot
from reconciler.model.workload import ContainerSpec, Workload
from reconciler.planner import plan
from tests.fakes.world import GIB, app, desired, host

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
CORES, CARDS = 16, 4  # per node, unless a case says otherwise


def load(name: str, first: int | None = None) -> list[Any]:
    """The cases of one file, named where they have a name."""
    cases = yaml.safe_load((CASES / name).read_text())[:first]
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


@pytest.mark.parametrize("case", load("mig.yaml", first=3))
def test_existing_slices(case: dict[str, Any]) -> None:
    """A slice that exists is given once; a card with MIG enabled is never given whole."""
    view = host("h0", [(16, 64, 1)], model="NVIDIA A100-SXM4-40GB", mig=True, slices=case["have"])
    work = [
        app(
            f"x{number}",
            request=Request(gpus=WholeGpus(1) if what == "gpu" else MigSlices(what)),
            container=ContainerSpec("a:1", gpus=WholeGpus(1) if what == "gpu" else MigSlices(what)),
            priority=-number,
        )
        for number, what in enumerate(case["ask"])
    ]
    made = planned(work, [view])
    given = {action.instance.name: action.allocation for action in made.actions if action.allocation}
    assert ["ok" if one.name in given else "pending" for one in work] == case["expect"]
    slices = [piece for allocation in given.values() for piece in allocation.mig]
    assert len({piece.uuid for piece in slices}) == len(slices) == len(given)
    assert all(piece.profile == one.container.gpus.profile for one in work if one.name in given
               for piece in given[one.name].mig if isinstance(one.container.gpus, MigSlices))  # fmt: skip
    for one in made.pending:
        assert one.nearest
        assert case.get("reason", "more free 1g.5gb slice") in one.nearest.lacks
