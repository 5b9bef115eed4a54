"""What a step promises in counts is what naming the parts leaves behind, on machines with everything."""

import random
from typing import Any

import pytest

from reconciler.model.host import Gpu, GpuMode, HostFacts, HostSpec, Link, MigSlice, Nic, NumaNode
from reconciler.model.placement import Numa
from reconciler.model.resources import GpuRequest, GpuShare, MigSlices, WholeGpus
from reconciler.model.snapshot import HostView, Reach
from reconciler.model.workload import InstanceId, Kind
from reconciler.planner.free import CardKind, HostKind, Want
from reconciler.planner.machine import Claim, Machine
from reconciler.planner.pin import pin, split_of
from reconciler.planner.states import Offer, States

GIB = 1024**3
MACHINES = 100  # of each sort
STEPS = 12
SMALL, LARGE = ("A100-40", 40 * GIB), ("H100-80", 80 * GIB)
CAP = 200
INSTANCE = InstanceId(Kind.APP, "x", "0")
MESH = {0: (1, 2, 3, 4), 1: (2, 3, 5), 2: (3, 6), 3: (7,), 4: (5, 6, 7), 5: (6, 7), 6: (7,)}  # as in a DGX-1
SORTS = ("plain", "mesh", "pairs", "mixed", "mig", "memory-less", "merged")


def view_of(rng: random.Random, sort: str) -> HostView:
    """A machine of one to four NUMA nodes; its ``sort`` names what is odd about it."""
    count = rng.randint(1, 4)
    nodes, cpu = [], 0
    for number in range(count):
        cores = rng.randint(1, 12)
        distances = tuple((3 * other, 10 + 2 * abs(other - number)) for other in range(count))
        memory = (rng.choice([0, 16]) if sort == "memory-less" else rng.choice([8, 16, 64])) * GIB
        nodes.append(NumaNode(3 * number, tuple(range(cpu, cpu + cores)), memory, number // 2, distances))
        cpu += cores
    gpus = tuple(gpu_of(rng, place, nodes[place * count // 8].id, sort) for place in range(8))
    smt = tuple((even, even + 1) for even in range(0, cpu - 1, 2)) if rng.random() < 0.5 else ()
    nics = (Nic("mlx0", numa_node=nodes[-1].id, rdma=True),)
    spec = HostSpec("h", "sim://", reserved_cpus=rng.choice([(), (0,)]), mig_create=rng.random() < 0.7)
    return HostView(spec, Reach.KNOWN, HostFacts("h", tuple(nodes), gpus, smt=smt, nics=nics))


def gpu_of(rng: random.Random, place: int, node: int, sort: str) -> Gpu:
    """One of eight cards."""
    model = rng.choice([SMALL, LARGE]) if sort == "mixed" else SMALL
    peers: tuple[int, ...] = ()
    if sort == "mesh":
        peers = MESH.get(place, ())
    elif sort == "pairs":
        peers = (place + 1,) if place % 2 == 0 else ()
    links = tuple(Link(f"GPU-{peer}", 2, "system") for peer in peers)
    uuid = f"GPU-{place}"
    known = node if sort != "merged" or place else None
    if rng.random() < (0.7 if sort == "mig" else 0.1) and model == SMALL:
        cuts = rng.choice([[], [("1g.5gb", 0), ("2g.10gb", 2)], [("3g.20gb", 4)], [("4g.20gb", 0), ("2g.10gb", 4)]])
        slices = tuple(MigSlice(f"MIG-{place}-{start}", profile, start, uuid) for profile, start in cuts)
        return Gpu(uuid, *model, index=place, numa_node=known, links=links, mig_enabled=True, mig_slices=slices)
    return Gpu(uuid, *model, index=place, numa_node=known, links=links)


def want_of(rng: random.Random, sort: str) -> Want:
    """Anything one can ask of such a machine."""
    slices = MigSlices(rng.choice(["1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb"]), rng.randint(1, 3))
    gpus: GpuRequest | None = rng.choice([
        None,
        WholeGpus(rng.randint(1, 5), link=rng.choice(["", "nvlink"])),
        WholeGpus(rng.randint(1, 2), ("A100*",)),
        GpuShare(rng.choice([100, 300, 500, 700])),
        GpuShare(memory=rng.choice([3, 10, 60]) * GIB),
        slices if sort == "mig" else None,
    ])  # fmt: skip
    exclusive = rng.random() < 0.5
    units = rng.choice([1, 2, 3, 6]) if exclusive else rng.choice([100, 750, 1500, 5000])
    memory = rng.choice([0, 1, 3, 7, 20]) * GIB + rng.choice([0, 1])
    return Want(exclusive, units, memory, rng.choice(list(Numa)), gpus, (), rdma=rng.random() < 0.2)


def machine_of(view: HostView) -> tuple[Machine, States, HostKind]:
    """The ledger of one host, and its free state as numbers."""
    machine = Machine(view)
    models = sorted({(card.gpu.model, card.gpu.memory) for card in machine.topology.cards})
    machine.label_kinds({model: CardKind(rank, *model) for rank, model in enumerate(models)})
    cpus = tuple(idle.bit_count() for idle in machine.base.idle)
    kind = HostKind(
        machine.topology.domains,
        (),
        8,
        cpus,
        GpuMode.MANAGED,
        tuple(sorted(machine.kinds)),
        machine.links,
        machine.nics,
    )
    states = States([kind])
    states.cap = CAP
    return machine, states, kind


@pytest.mark.parametrize("sort", SORTS)
def test_a_step_promises_what_pinning_leaves(sort: str) -> None:
    """Cards, slices, shares, CPUs and memory of every node; and what is taken back leaves what was there before."""
    rng = random.Random(sort)  # noqa: S311 - repeatable machines
    steps = 0
    for _ in range(MACHINES):
        machine, states, kind = machine_of(view_of(rng, sort))
        held: list[tuple[str, int]] = []
        for key in map(str, range(STEPS)):
            before = states.state_of(kind, machine.memory, machine.nodes_free())
            want = want_of(rng, sort)
            after = promised(machine, states, before, want, key)
            if after is None:
                continue
            steps += 1
            assert states.state_of(kind, machine.memory, machine.nodes_free()) == after, (want, states.free(before))
            held.append((key, before))
            if rng.random() < 0.3:  # the last one comes back
                last, had = held.pop()
                machine.remove(last)
                assert states.state_of(kind, machine.memory, machine.nodes_free()) == had
    assert steps > MACHINES


def promised(machine: Machine, states: States, state: int, want: Want, key: str) -> int | None:
    """The state after that a step promises, once the offer was pinned and claimed; None when there is no room."""
    number = states.want_of(want)
    step, offer = states.step(state, number), states.offer(state, number)
    assert isinstance(offer, Offer) == (step is not None)
    if step is None or not isinstance(offer, Offer):
        return None
    assert offer.score == step[0]
    allocation, _ = pin(machine, offer, want, None)
    assert len(allocation.gpus) + len(allocation.mig) + (allocation.share is not None) == want.pieces
    machine.add(key, Claim(INSTANCE, "app/x", allocation))
    return step[1]


@pytest.mark.parametrize("sort", SORTS)
def test_what_is_kept_where_it_is_leaves_what_it_left_before(sort: str) -> None:
    """Work that is taken away and asked for again with what it had gets exactly that, where its slices exist."""
    rng = random.Random(f"keep {sort}")  # noqa: S311 - repeatable machines
    kept = 0
    for _ in range(MACHINES // 2):
        machine, states, kind = machine_of(view_of(rng, sort))
        for key in map(str, range(STEPS // 2)):
            state, want = states.state_of(kind, machine.memory, machine.nodes_free()), want_of(rng, sort)
            if promised(machine, states, state, want, key) is None:
                continue
            had = machine.claims[key].allocation
            machine.remove(key)
            near = split_of(machine, had, want)
            if any(not piece.uuid for piece in had.mig):
                assert near is None  # what was to be cut is not there yet
                continue
            assert near is not None
            offer = states.keep(state, states.want_of(want), near)
            assert offer is not None, (want, states.free(state))
            again, _ = pin(machine, offer, want, had)
            assert again == had
            machine.add(key, Claim(INSTANCE, "app/x", again))
            kept += 1
    assert kept > MACHINES // 2


def test_equal_hosts_have_one_number() -> None:
    """The free state says nothing of names: cards and cores that differ in nothing else are one state."""
    rng = random.Random(0)  # noqa: S311 - repeatable machines
    view = view_of(rng, "plain")
    machine, states, kind = machine_of(view)
    first = states.state_of(kind, machine.memory, machine.nodes_free())
    other: Any = machine_of(view)[0]
    assert states.state_of(kind, other.memory, other.nodes_free()) == first
