"""One host: topology, what is withheld, which nodes, which cores, which cards."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.actual.facts import facts_from_json
from reconciler.model.host import Gpu, GpuMode, GpuProcess, HostFacts, HostSpec, Link, MigSlice, NumaNode
from reconciler.model.placement import Numa
from reconciler.model.plan import Pending
from reconciler.model.resources import (
    AllGpus,
    GpuRequest,
    MigSlices,
    ObserveGpus,
    Request,
    WholeGpus,
    format_cpus,
    parse_cpus,
)
from reconciler.model.snapshot import Container, Holding, HostView, Ours, Reach
from reconciler.model.workload import Allocation, ContainerSpec
from reconciler.planner.cores import cache_masks, core_masks, pick
from reconciler.planner.holdings import base_of
from reconciler.planner.links import best_set
from reconciler.planner.place import Ask, Fleet, Placement
from reconciler.planner.topology import bits, mask_of, pci_key, topology_of
from tests.fakes.world import GIB, app, host, ident

FIXTURES = Path(__file__).parent.parent / "fixtures"
MIB = 1024**2


def no_rules(text: str) -> Any:
    """For fleets whose work has no rules."""
    raise AssertionError(text)


def machine(name: str) -> HostView:
    """A real kind of machine."""
    facts = facts_from_json((FIXTURES / "machines" / f"{name}.json").read_text(), name)
    return HostView(HostSpec(name, "sim://"), Reach.KNOWN, facts)


def answer(view: HostView, *, cpus: float = 1, memory: int = 1, gpus: GpuRequest | int | None = None,
           numa: Numa = Numa.PREFER) -> Placement | Pending:  # fmt: skip
    """What one host says to one request; ``memory`` in GiB."""
    want = WholeGpus(gpus) if isinstance(gpus, int) else gpus
    request = Request(int(cpus * 1000), float(cpus).is_integer(), memory * GIB, want)
    work = app("x", request=request, container=ContainerSpec("a:1", gpus=want), numa=numa)
    return Fleet([view], no_rules).place(Ask(ident("app/x/0"), work), "k")


def given(view: HostView, **asked: Any) -> Allocation:
    """What one host gives."""
    found = answer(view, **asked)
    assert isinstance(found, Placement), found
    return found.allocation


def indexes(view: HostView, allocation: Allocation) -> list[int]:
    """The cards by index."""
    assert view.facts
    return sorted(gpu.index for gpu in view.facts.gpus if gpu.uuid in allocation.gpus and gpu.index is not None)


# -- topology


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("00000000:07:00.0", "0000:07:00.0"),
        ("0000:07:00.0", "0000:07:00.0"),
        ("07:00.0", "0000:07:00.0"),
        ("00000009:8A:00.0", "0009:8a:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
    ],
)
def test_pci_addresses_have_one_spelling(address: str, key: str) -> None:
    """Tools differ in case and in the width of the domain, which need not be 0."""
    assert pci_key(address) == key


def nodes(*shape: tuple[int, str, int], sockets: Sequence[int] = (), **more: Any) -> tuple[NumaNode, ...]:
    """NUMA nodes of (id, cpus, GiB)."""
    return tuple(
        NumaNode(ident_, parse_cpus(cpus), memory * GIB, sockets[place] if sockets else None, **more)
        for place, (ident_, cpus, memory) in enumerate(shape)
    )


def view_of(numa: tuple[NumaNode, ...], cards: Sequence[int | None] = (), **facts: Any) -> HostView:
    """A host of those nodes, with a card on each node of ``cards``."""
    gpus = tuple(Gpu(f"GPU-{index}", "A100", 80 * GIB, index=index, numa_node=node) for index, node in enumerate(cards))
    return HostView(HostSpec("h", "sim://"), Reach.KNOWN, HostFacts("h", numa, gpus, **facts))


def test_gpu_memory_is_no_place_to_be() -> None:
    """A Grace Hopper has one node to plan on; its card's own memory and the empty nodes are left out (rule 2)."""
    view = machine("gh200")
    topology = topology_of(view.facts)
    assert [domain.ids for domain in topology.domains] == [(0,)]
    assert given(view, gpus=1, cpus=2, numa=Numa.REQUIRE).memory_nodes == (0,)


def test_node_ids_are_names() -> None:
    """POWER9 has nodes 0 and 8 (and its cards' memory at 252 and beyond); allocations speak of those ids (rule 3)."""
    numa = nodes((0, "0-79", 256), (8, "80-159", 256))
    far = NumaNode(255, (), 16 * GIB, gpu_memory=True)
    view = view_of((*numa, far), [0, 8, 8])
    found = given(view, gpus=2, cpus=4, numa=Numa.REQUIRE)
    assert (found.gpu_nodes, found.cpu_nodes, found.memory_nodes) == ((8,), (8,), (8,))
    assert min(found.cpus) >= 80


def test_memory_is_never_bound_to_a_node_without_any() -> None:
    """A Threadripper node has a card and cores and no memory: its memory is that of the nearest node (rule 1)."""
    numa = (
        NumaNode(0, parse_cpus("0-7"), 64 * GIB, distances=((1, 16), (2, 28))),
        NumaNode(1, parse_cpus("8-15"), 0, distances=((0, 16), (2, 16))),
        NumaNode(2, parse_cpus("16-23"), 64 * GIB, distances=((0, 28), (1, 16))),
    )
    found = given(view_of(numa, [1]), gpus=1, cpus=2, numa=Numa.REQUIRE)
    assert (found.gpu_nodes, found.cpu_nodes, found.memory_nodes) == ((1,), (1,), (0,))


def test_a_card_on_a_node_without_cpus_belongs_to_the_nearest() -> None:
    """A card can hang on a node that has no CPUs: the nearest that has some is its place."""
    numa = (*nodes((0, "0-7", 64), (1, "8-15", 64)), NumaNode(2, (), 0, distances=((0, 30), (1, 12)), gpu_memory=True))
    assert given(view_of(numa, [2]), gpus=1).cpu_nodes == (1,)


def test_unknown_nodes_make_the_host_one_node() -> None:
    """Two nodes and a card of unknown node (a VM): require is met by the host as a whole, and a warning says so."""
    view = view_of(nodes((0, "0-3", 8), (1, "4-7", 8)), [None, None])
    found = answer(view, gpus=2, cpus=6, memory=12, numa=Numa.REQUIRE)
    assert isinstance(found, Placement)
    assert found.warnings == ("NUMA unknown for the GPUs of h: planned as one node",)
    assert found.allocation.gpu_nodes == ()
    assert found.allocation.cpu_nodes == found.allocation.memory_nodes == (0, 1)


def test_a_card_of_unknown_node_on_a_host_with_one() -> None:
    """Where there is only one node, an unknown card is on it; the warning stays (the T4 of a VM)."""
    found = answer(machine("t4-1"), gpus=1, cpus=2)
    assert isinstance(found, Placement)
    assert found.allocation.gpu_nodes == (0,)
    assert "NUMA unknown" in found.warnings[0]


@pytest.mark.parametrize(
    ("name", "count", "cards", "where"),
    [
        ("dgx-a100-nps4", 2, [2, 3], (1,)),
        ("dgx-a100-nps4", 4, [0, 1, 2, 3], (1, 3)),
        ("hgx-h200-interleaved", 4, [0, 1, 2, 3], (0,)),
        ("hgx-h100", 8, list(range(8)), (0, 1)),
        ("dgx1-v100", 4, [0, 1, 2, 3], (0,)),
        ("a100-mig-mixed", 1, [1], (1,)),
    ],
)
def test_cards_of_real_machines(name: str, count: int, cards: list[int], where: tuple[int, ...]) -> None:
    """Cards and cores come from the same nodes on machines as they are sold."""
    view = machine(name)
    found = given(view, gpus=count, cpus=2 * count)
    assert indexes(view, found) == cards
    assert found.gpu_nodes == found.cpu_nodes == where


@pytest.mark.parametrize(
    ("numa", "gpus", "expect"),
    [
        (Numa.PREFER, 4, (0, 1)),
        (Numa.REQUIRE_SOCKET, 4, (0, 1)),
        (Numa.REQUIRE_SOCKET, 5, None),
        (Numa.REQUIRE, 2, (0,)),
        (Numa.REQUIRE, 3, None),
        (Numa.PREFER, 6, (0, 1, 2)),
    ],
)
def test_wider_than_a_node_takes_its_socket_first(numa: Numa, gpus: int, expect: tuple[int, ...] | None) -> None:
    """Two cards on each of four nodes, two nodes to a socket; the other socket's node 2 is as near as node 1."""
    even = tuple((other, 12) for other in range(4))
    numas = nodes((0, "0-3", 8), (1, "4-7", 8), (2, "8-11", 8), (3, "12-15", 8), sockets=(0, 0, 1, 1), distances=even)
    found = answer(view_of(numas, [0, 0, 1, 1, 2, 2, 3, 3]), gpus=gpus, cpus=4, numa=numa)
    if expect is None:
        assert isinstance(found, Pending)
        assert [name for name, _ in found.removed] == ["numa"]
    else:
        assert isinstance(found, Placement)
        assert found.allocation.gpu_nodes == expect
        assert found.allocation.memory_nodes == (() if numa is Numa.PREFER else expect)


def test_the_nearest_node_by_distance_helps_out() -> None:
    """Without sockets the distance decides: node 0 is extended by node 2, which is nearer than node 1."""
    numa = (
        NumaNode(0, parse_cpus("0-3"), 8 * GIB, distances=((1, 32), (2, 12))),
        NumaNode(1, parse_cpus("4-7"), 8 * GIB, distances=((0, 32), (2, 32))),
        NumaNode(2, parse_cpus("8-11"), 8 * GIB, distances=((0, 12), (1, 32))),
    )
    found = answer(view_of(numa, [0, 0, 0, 1, 2]), gpus=4, cpus=4)
    assert isinstance(found, Placement)
    assert found.allocation.gpu_nodes == (0, 2)
    assert found.warnings == ("not NUMA-local: GPUs on nodes 0 and 2, CPUs on nodes 0 and 2",)
    assert [sum(cpu // 4 == node for cpu in found.allocation.cpus) for node in (0, 2)] == [3, 1], "in proportion"


def test_uneven_cards() -> None:
    """Six cards on one node and two on the other: six are local, seven are not (rule 6)."""
    view = view_of(nodes((0, "0-15", 64), (1, "16-31", 64)), [0] * 6 + [1] * 2)
    assert given(view, gpus=6, cpus=6).gpu_nodes == (0,)
    assert given(view, gpus=7, cpus=7).gpu_nodes == (0, 1)


def test_none_takes_what_lies_about() -> None:
    """With numa: none the fullest node is used up first, no warning is given and nothing is bound."""
    view = view_of(nodes((0, "0-15", 64), (1, "16-31", 64)), [0] * 4 + [1] * 2)
    found = answer(view, gpus=3, cpus=3, numa=Numa.NONE)
    assert isinstance(found, Placement)
    assert found.allocation.gpu_nodes == (0, 1)
    assert found.warnings == ()
    assert found.allocation.memory_nodes == ()


# -- what is withheld


def busy_card(**fields: Any) -> HostView:
    """One host with one card that is in some state."""
    view = view_of(nodes((0, "0-7", 64)), [0])
    assert view.facts
    return replace(view, facts=replace(view.facts, gpus=(replace(view.facts.gpus[0], **fields),)))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"memory_used": 5 * MIB}, ""),
        ({"memory_used": 512 * MIB}, ""),
        ({"memory_used": 512 * MIB + 1}, "busy: 512Mi in use by nobody known"),
        ({"processes": (GpuProcess(7, "python", "alice", GIB),)}, "busy: python of alice (pid 7)"),
        ({"processes": (GpuProcess(7, "Xorg", "root", 30 * MIB),)}, ""),
        ({"memory_used": GIB, "processes": (GpuProcess(7),)}, "busy: a process (pid 7)"),
        ({"health": "lost"}, "unhealthy: lost"),
        ({"mig_enabled": True}, "MIG is enabled and has no slices"),
    ],
)
def test_cards_that_are_not_offered(fields: dict[str, Any], reason: str) -> None:
    """A card used above 512 MiB by nobody known, unhealthy or cut into slices is withheld, and the reason is told."""
    view = busy_card(**fields)
    base = base_of(view, topology_of(view.facts))
    assert dict(base.withheld) == ({"GPU-0": reason} if reason else {})
    found = answer(view, gpus=1)
    if reason:
        assert isinstance(found, Pending)
        assert found.nearest
        assert found.nearest.lacks == f"1 more free GPU (GPU 0: {reason})"
    else:
        assert isinstance(found, Placement)


@pytest.mark.parametrize("entry", ["GPU-0", "00000000:3B:00.0", "0000:3b:00.0"])
def test_excluded_cards(entry: str) -> None:
    """A card can be excluded by UUID or by PCI address in any spelling."""
    view = busy_card(pci="00000000:3b:00.0")
    view = replace(view, spec=replace(view.spec, gpus_excluded=(entry,)))
    assert base_of(view, topology_of(view.facts)).withheld == {"GPU-0": "excluded"}


@pytest.mark.parametrize(
    ("holding", "holds", "held"),
    [
        (Holding(frozenset({"GPU-0"})), True, True),
        (Holding(all_gpus=True), True, True),
        (Holding(all_gpus=True, observes=True), True, False),
        (Holding(frozenset({"GPU-0"})), False, False),
        (Holding(frozenset({"GPU-9"})), True, False),
    ],
)
def test_what_foreign_containers_hold(holding: Holding, holds: bool, held: bool) -> None:
    """A foreign container that holds keeps its cards; exporters and the exited hold none."""
    view = replace(busy_card(), containers=(Container("f", "other", "running", holding=holding, holds=holds),))
    assert base_of(view, topology_of(view.facts)).withheld == ({"GPU-0": "held by container other"} if held else {})


def test_foreign_cpusets_memory_and_reserved_parts_are_off() -> None:
    """What is left is what neither the host's document reserves nor a foreign container was given."""
    holding = Holding(cpus=(2, 3), memory=10 * GIB)
    view = view_of(nodes((0, "0-7", 64)))
    view = replace(
        view,
        spec=replace(view.spec, reserved_cpus=(0, 1), reserved_memory=4 * GIB),
        containers=(Container("f", "other", "running", holding=holding),),
    )
    assert given(view, cpus=4, memory=50).cpus == (4, 5, 6, 7)
    found = answer(view, cpus=5, memory=51)
    assert isinstance(found, Pending)
    assert found.removed == (("cpus", 1),)
    assert found.nearest
    assert found.nearest.lacks == "1 more free CPU, 1Gi more free memory"


def test_our_own_containers_explain_a_used_card() -> None:
    """Memory in use on a card that a container of ours was given is no reason to withhold it from its replacement."""
    ours = Ours(ident("app/x/0"), 1, "v1:0", {}, Allocation(gpus=("GPU-0",)))
    box = Container("c", "c", "running", ours=ours, holding=Holding(frozenset({"GPU-0"})))
    view = replace(busy_card(memory_used=60 * GIB), containers=(box,))
    assert not base_of(view, topology_of(view.facts)).withheld


@pytest.mark.parametrize("mode", list(GpuMode))
@pytest.mark.parametrize(
    ("gpus", "modes"),
    [
        (WholeGpus(1), {GpuMode.MANAGED}),
        (AllGpus(), {GpuMode.PASSTHROUGH}),
        (ObserveGpus(), set(GpuMode)),
        (None, set(GpuMode)),
    ],
)
def test_modes_of_a_host(mode: GpuMode, gpus: GpuRequest | None, modes: set[GpuMode]) -> None:
    """Cards are rationed on managed hosts, all of them come on passthrough ones, and looking on costs nothing."""
    view = busy_card()
    view = replace(view, spec=replace(view.spec, gpu_mode=mode))
    found = answer(view, gpus=gpus)
    assert isinstance(found, Placement) is (mode in modes)
    if isinstance(found, Placement) and not isinstance(gpus, WholeGpus):
        assert found.allocation.gpus == ()


@pytest.mark.parametrize(
    ("request_", "fits"),
    [
        (WholeGpus(1, ("*H100*",)), True),
        (WholeGpus(1, ("*A100*", "*H100*")), True),
        (WholeGpus(1, ("*A100*",)), False),
        (WholeGpus(1, min_memory=80 * GIB), True),
        (WholeGpus(1, min_memory=81 * GIB), False),
    ],
)
def test_models_and_memory(request_: WholeGpus, fits: bool) -> None:
    """Globs name models; a card sold with 80 GB, which reports 79.6 GiB, has 80Gi."""
    assert isinstance(answer(machine("hgx-h100"), gpus=request_), Placement) is fits


def test_one_model_before_a_mixture() -> None:
    """Several cards are of one model where they can be; a mixture is allowed where nothing else is left."""
    view = view_of(nodes((0, "0-15", 64)), [0, 0, 0, 0])
    assert view.facts
    models = ("T4", "A100", "T4", "A100")
    gpus = tuple(replace(gpu, model=model) for gpu, model in zip(view.facts.gpus, models, strict=True))
    view = replace(view, facts=replace(view.facts, gpus=gpus))
    assert indexes(view, given(view, gpus=2)) in ([0, 2], [1, 3])
    assert indexes(view, given(view, gpus=3)) is not None
    assert indexes(view, given(view, gpus=4)) == [0, 1, 2, 3]


# -- slices


def test_slices_come_from_the_fullest_card() -> None:
    """Slices are counted by profile; the card with the fewest left is used up first."""

    def cut(card: int, *profiles: str) -> tuple[MigSlice, ...]:
        return tuple(MigSlice(f"MIG-{card}-{at}", name, at, f"GPU-{card}") for at, name in enumerate(profiles))

    view = view_of(nodes((0, "0-7", 64)), [0, 0])
    assert view.facts
    slices = (cut(0, "1g.5gb", "1g.5gb", "2g.10gb"), cut(1, "1g.5gb"))
    gpus = tuple(
        replace(gpu, mig_enabled=True, mig_slices=cuts) for gpu, cuts in zip(view.facts.gpus, slices, strict=True)
    )
    view = replace(view, facts=replace(view.facts, gpus=gpus))
    assert [piece.uuid for piece in given(view, gpus=MigSlices("1g.5gb")).mig] == ["MIG-1-0"]
    two = given(view, gpus=MigSlices("1g.5gb", 2))
    assert [piece.uuid for piece in two.mig] == ["MIG-0-0", "MIG-1-0"]
    assert two.gpus == ()
    found = answer(view, gpus=MigSlices("1g.5gb", 4))
    assert isinstance(found, Pending)
    assert found.reason == "no host has 4 free 1g.5gb slices"


# -- cores

SMT = HostFacts(
    "h", nodes((0, "0-7", 8)), (), smt=((0, 4), (1, 5), (2, 6), (3, 7)), caches=((0, 1, 4, 5), (2, 3, 6, 7))
)
SMT4 = HostFacts("h", nodes((0, "0-7", 8)), (), smt=((0, 1, 2, 3), (4, 5, 6, 7)))
PLAIN = HostFacts("h", nodes((0, "0-3,6-7", 8)), ())
HOLE = HostFacts("h", nodes((0, "0-4,6", 8)), (), smt=((0, 4), (2, 6)))


@pytest.mark.parametrize(
    ("facts", "idle", "count", "near", "expect"),
    [
        (SMT, "0-7", 2, "", "0,4"),
        (SMT, "0-7", 4, "", "0-1,4-5"),
        (SMT, "0-7", 1, "", "0"),
        (SMT, "1-7", 3, "", "1,4-5"),  # the broken core gives the odd one
        (SMT, "0-3,5-7", 1, "", "0"),
        (SMT, "0,4-7", 1, "", "6"),  # both caches have a broken core: the tighter one
        (SMT, "0-2,5-6", 1, "", "0"),  # the tighter cache would have to break a whole core
        (SMT, "1-7", 4, "", "2-3,6-7"),  # the cache with room for all of it
        (SMT, "0-1,4-7", 2, "", "0,4"),  # whole cores come before the tighter cache, in which none is whole
        (SMT, "0-7", 6, "", "0-2,4-6"),
        (SMT, "0-7", 2, "3,7", "3,7"),
        (SMT, "0-6", 2, "3,7", "2-3"),  # what is left of it, and a neighbour
        (SMT, "0-7", 1, "2-3,6-7", "2"),
        (SMT4, "0-7", 4, "", "0-3"),
        (SMT4, "0-7", 6, "", "0-5"),
        (SMT4, "2-7", 5, "", "2,4-7"),
        (PLAIN, "0-3,6-7", 5, "", "0-3,6"),
        (HOLE, "0-4,6", 2, "", "0,4"),
        (HOLE, "0-4,6", 1, "", "1"),
    ],
)
def test_cores(facts: HostFacts, idle: str, count: int, near: str, expect: str) -> None:
    """Whole cores first, broken ones for the rest, one cache where it fits, and what was held before all that."""
    domain = mask_of(facts.cpus)
    chosen = pick(
        core_masks(facts.smt, domain),
        cache_masks(facts.caches, domain),
        mask_of(parse_cpus(idle)),
        count,
        mask_of(parse_cpus(near)),
    )
    assert format_cpus(bits(chosen)) == expect


# -- links


def linked(pairs: dict[str, int], switches: Sequence[str], sockets: Sequence[Sequence[int]]) -> list[Gpu]:
    """Eight cards with NVLinks by pair; cards of one socket share a host bridge, pairs in ``switches`` a switch."""
    socket = {card: number for number, cards in enumerate(sockets) for card in cards}

    def level(one: int, other: int) -> str:
        if f"{min(one, other)}-{max(one, other)}" in switches:
            return "switch"
        return "bridge" if socket[one] == socket[other] else "system"

    def links(one: int) -> tuple[Link, ...]:
        return tuple(
            Link(f"GPU-{other}", pairs.get(f"{min(one, other)}-{max(one, other)}", 0), level(one, other))
            for other in range(8)
            if other != one
        )

    return [Gpu(f"GPU-{card}", "V100", 32 * GIB, index=card, links=links(card)) for card in range(8)]


@pytest.mark.parametrize(
    ("found", "case"),
    [
        pytest.param(found, case, id=f"{found['machine']}-{case['size']}-{number}")
        for found in yaml.safe_load((FIXTURES / "cases" / "links.yaml").read_text())
        for number, case in enumerate(found["cases"])
    ],
)
def test_linked_sets(found: dict[str, Any], case: dict[str, Any]) -> None:
    """Sets in turn are those that leave the best sets behind, on machines whose best sets are published."""
    cards = linked(found["nvlinks"], found["one_switch"], found["sockets"])
    free = [cards[index] for index in case.get("free", range(8))]
    for expect in case["expect"]:
        chosen = best_set(free, case["size"])
        assert [gpu.index for gpu in chosen] == expect
        free = [gpu for gpu in free if gpu not in chosen]


def test_a_single_card_tears_no_pair() -> None:
    """Cards 0 and 1 are bridged and 2 has lost its partner: one card is taken from there."""
    bridge = (Link("GPU-1", 12, "node"),), (Link("GPU-0", 12, "node"),), (Link("GPU-3", 12, "node"),)
    cards = [Gpu(f"GPU-{index}", "H100", 94 * GIB, links=links) for index, links in enumerate(bridge)]
    assert [gpu.uuid for gpu in best_set(cards, 1)] == ["GPU-2"]
    assert [gpu.uuid for gpu in best_set(cards, 2)] == ["GPU-0", "GPU-1"]


# -- shared work


def test_shared_work_is_promised_no_more_than_there_is() -> None:
    """Four free cores take 4,000 millicpus of shared work, and not one more."""
    fleet = Fleet([host("h", [(4, 64, 0)])], no_rules)
    for number in range(8):
        found = fleet.place(Ask(ident(f"app/x/{number}"), app("x", cpus=0.5)), str(number))
        assert isinstance(found, Placement)
        assert not found.allocation.exclusive
        assert found.allocation.millicpus == 500
        assert found.allocation.cpus == (0, 1, 2, 3)
    last = fleet.place(Ask(ident("app/x/9"), app("x", cpus=0.5)), "9")
    assert isinstance(last, Pending)
    assert last.nearest
    assert last.nearest.lacks == "0.5 more free CPUs"


@pytest.mark.parametrize(
    ("shared", "exclusive", "fits"), [(0.5, 3, True), (0.5, 4, False), (1.5, 2, True), (1.5, 3, False)]
)
def test_exclusive_work_leaves_shared_work_its_cores(shared: float, exclusive: int, fits: bool) -> None:
    """The last core of a node on which shared work runs is not given away, nor what was promised on it."""
    fleet = Fleet([host("h", [(4, 64, 0)])], no_rules)
    fleet.place(Ask(ident("app/s/0"), app("s", cpus=shared)), "s")
    found = fleet.place(Ask(ident("app/x/0"), app("x", cpus=exclusive)), "x")
    assert isinstance(found, Placement) is fits
    if isinstance(found, Placement):
        assert len(fleet.shared_pool("h")) == 4 - exclusive
        assert not set(found.allocation.cpus) & set(fleet.shared_pool("h"))


def test_shared_work_keeps_to_its_node() -> None:
    """It is put on one node (the one with fewest free cards), so that exclusive work elsewhere does not touch it."""
    fleet = Fleet([host("h", [(4, 64, 2), (4, 64, 0)])], no_rules)
    found = fleet.place(Ask(ident("app/s/0"), app("s", cpus=0.5)), "s")
    assert isinstance(found, Placement)
    assert found.allocation.cpu_nodes == (1,)
    assert found.allocation.cpus == (4, 5, 6, 7)
    whole = fleet.place(Ask(ident("app/x/0"), app("x", cpus=4, gpus=2, numa=Numa.REQUIRE)), "x")
    assert isinstance(whole, Placement)
    assert fleet.shared_pool("h", (1,)) == (4, 5, 6, 7)
