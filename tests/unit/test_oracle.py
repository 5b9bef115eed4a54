"""The planner against one that looks at everything: the same host, node and cards, on thousands of small fleets."""

import random
from typing import Any

import pytest

from reconciler.model.host import Gpu, HostFacts, HostSpec, HostState, MigSlice, Nic, NumaNode
from reconciler.model.placement import AnyHost, MatchTag, MaxPerHost, Numa, Policy
from reconciler.model.resources import GpuRequest, GpuShare, MigSlices, Request, WholeGpus
from reconciler.model.snapshot import Container, Holding, HostView, Reach
from reconciler.model.workload import ContainerSpec, InstanceId, Kind, Port, Workload
from reconciler.planner.place import Ask, Fleet, Placement
from tests.fakes import naive

GIB = 1024**3
FLEETS = 300  # of each sort
ASKS = 9
SMALL = "A100-40", 40 * GIB - 2**28  # a card reports a little less than it is sold with
LARGE = "H100-80", 80 * GIB
FULL = [("4g.20gb", 0), ("2g.10gb", 4), ("1g.5gb", 6)]


def no_rules(text: str) -> Any:
    """No rules are asked for here."""
    raise AssertionError(text)


def view_of(rng: random.Random, name: str, sort: str) -> HostView:
    """A host with odd nodes and cards; ``single`` is one planning node, ``prefer`` and ``mig`` one model."""
    count = 1 if sort == "single" and rng.random() < 0.7 else rng.randint(1, 4)
    merged = sort == "single" and count > 1
    nodes, cpu = [], 0
    for number in range(count):
        cores = rng.choice([1, 3, 6, 12])
        distances = tuple((2 * other, 10 + 2 * abs(other - number)) for other in range(count))
        memory = rng.choice([0, 8, 32, 64, 64]) * GIB
        nodes.append(NumaNode(2 * number, tuple(range(cpu, cpu + cores)), memory, number // 2, distances))
        cpu += cores
    model = SMALL if sort == "mig" else rng.choice([SMALL, LARGE])
    gpus = [gpu_of(rng, f"GPU-{name}-{at}", model, at, nodes[rng.randrange(count)].id, sort)
            for at in range(rng.choice([0, 1, 2, 4, 6, 8]))]  # fmt: skip
    if merged:
        gpus.append(Gpu(f"GPU-{name}-x", *LARGE, index=9))
    nics = (Nic("mlx0", numa_node=nodes[-1].id, rdma=True),) if rng.random() < 0.5 else ()
    spec = HostSpec(
        name,
        "sim://",
        tags=rng.choice([(), (), (), (), ("t",), ("t", "u")]),
        state=rng.choice([HostState.ACTIVE] * 15 + [HostState.CORDONED]),
        reserved_cpus=rng.choice([(), (0,)]),
        reserved_memory=rng.choice([0, GIB]),
        mig_create=rng.random() < 0.6,
    )
    held = Holding(frozenset({f"GPU-{name}-0"}), cpus=(cpu - 1,), memory=2 * GIB)
    boxes = (Container("f", "f", "running", holding=held),) if rng.random() < 0.3 else ()
    reach = rng.choice([Reach.KNOWN] * 15 + [Reach.STALE, Reach.UNREACHABLE])
    return HostView(spec, reach, HostFacts(name, tuple(nodes), tuple(gpus), nics=nics), boxes)


def gpu_of(rng: random.Random, uuid: str, model: tuple[str, int], index: int, node: int, sort: str) -> Gpu:
    """A card, of another model or cut by MIG at times."""
    if sort not in {"prefer", "mig"}:
        model = rng.choice([model, model, SMALL])
    if sort != "mig" and (model != SMALL or rng.random() < 0.4):
        return Gpu(uuid, *model, index=index, numa_node=node, health=rng.choice(["ok"] * 9 + ["XID 79"]))
    cuts = rng.choice([[], [("1g.5gb", 0), ("1g.5gb", 1), ("2g.10gb", 2)], [("3g.20gb", 4)], [("1g.5gb", 6)], FULL])
    slices = tuple(MigSlice(f"MIG-{uuid}-{start}", profile, start, uuid) for profile, start in cuts)
    return Gpu(uuid, *model, index=index, numa_node=node, mig_enabled=True, mig_slices=slices)


def gpus_of(rng: random.Random, sort: str) -> GpuRequest | None:
    """What is asked of cards."""
    if sort == "mig":
        return MigSlices(rng.choice(["1g.5gb", "1g.5gb", "1g.5gb+me", *naive.TABLE]), rng.choice([1, 1, 2]))
    models = rng.choice([(), (), ("A100*",), ("H100-80", "L4")])
    return rng.choice([
        None,
        WholeGpus(rng.randint(1, 4), models, rng.choice([0, 0, 40 * GIB, 48 * GIB])),
        WholeGpus(1, models),
        GpuShare(rng.choice([1, 250, 333, 500, 810]), models=models),
        GpuShare(memory=rng.choice([GIB, 10 * GIB, 60 * GIB])),
        MigSlices(rng.choice(list(naive.TABLE)), rng.choice([1, 1, 2, 3])),
        MigSlices("1g.5gb"),
    ])  # fmt: skip


def work_of(rng: random.Random, sort: str) -> Workload:
    """Any work; ``require`` and ``prefer`` are modes of locality, all modes are one where a host is one node."""
    modes = {"single": list(Numa), "require": [Numa.REQUIRE], "mig": [Numa.REQUIRE], "prefer": [Numa.PREFER]}
    gpus = gpus_of(rng, sort)
    millicpus = rng.choice([100, 500, 1000, 1500, 2000, 3000])
    exclusive = millicpus % 1000 == 0 and rng.random() < 0.6
    request = Request(millicpus, exclusive, rng.choice([0, GIB, 4 * GIB, 12 * GIB]), gpus)
    ports = rng.choice([(), (), (), (), (Port(80, host=8000),)])
    spec = ContainerSpec("a:1", gpus=gpus, ports=ports, rdma=rng.random() < 0.1)
    policies: list[Policy] = [AnyHost(), AnyHost(), AnyHost(), MatchTag("t"), MaxPerHost(2), MatchTag("h1")]
    return Workload(
        Kind.APP, rng.choice("xy"), spec, request, numa=rng.choice(modes[sort]), policy=rng.choice(policies)
    )


@pytest.mark.parametrize("sort", ["single", "require", "mig", "prefer"])
def test_the_planner_decides_as_the_naive_one(sort: str) -> None:
    """Same host, same node, same cards and slices; what one cannot place the other cannot either."""
    rng = random.Random(sort)  # noqa: S311 - repeatable fleets
    local = 0
    for _ in range(FLEETS):
        views = [view_of(rng, f"h{number}", sort) for number in range(rng.randint(2, 6))]
        works = [work_of(rng, sort) for _ in range(ASKS)]
        local += run(views, works, sort)
    assert local > FLEETS  # most asks are decided, not refused


def run(views: list[HostView], works: list[Workload], sort: str) -> int:
    """Place the works one by one on both; how many were placed on one node."""
    fleet, hosts, local = Fleet(views, no_rules, works), naive.fleet_of(views, works), 0
    cap = naive.cap(views, works)
    for number, work in enumerate(works):
        found = fleet.place(Ask(InstanceId(Kind.APP, work.name, str(number)), work), str(number))
        best = naive.decide(hosts, work, cap)
        if sort == "prefer" and (best is None or best["score"].off_limits):
            # Several nodes may do where one does not, and elsewhere than on a GPU host: there the sums decide.
            assert isinstance(found, Placement) == naive.sums_suffice(hosts, work)
            if best is None or not isinstance(found, Placement) or told(found) != decided(views, best):
                fleet.vacate(str(number))
                continue
        assert isinstance(found, Placement) == (best is not None), (work, found, best)
        if best is None or not isinstance(found, Placement):
            continue
        assert told(found) == decided(views, best), (work, found, best)
        host = hosts[best["host"]]
        assert set(found.allocation.cpu_nodes) <= set(host["nodes"][best["node"]]["ids"])
        naive.take(host, work, best["node"], best["takes"])
        local += 1
    return local


def told(found: Placement) -> dict[str, Any]:
    """Where the planner puts work."""
    given = found.allocation
    return {
        "host": found.host,
        "gpus": list(given.gpus),
        "mig": sorted((piece.gpu, piece.profile, piece.start) for piece in given.mig),
        "share": (given.share.gpu, given.share.milli) if given.share else None,
    }


def decided(views: list[HostView], best: dict[str, Any]) -> dict[str, Any]:
    """Where the naive one does."""
    takes = best["takes"]
    return {
        "host": views[best["host"]].spec.name,
        "gpus": sorted(one["uuid"] for one in takes if one.get("milli") == 1000),
        "mig": sorted((one["uuid"], *one["slice"]) for one in takes if one["slice"]),
        "share": next(((one["uuid"], one["milli"]) for one in takes if 0 < one.get("milli", 0) < 1000), None),
    }
