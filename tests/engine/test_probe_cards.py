"""The probe and the real NVML binding on every machine file, through a library that stands in for the driver's."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.actual.facts import UNKNOWN_START
from reconciler.model.host import Gpu, GpuProcess, HostFacts
from tests.fakes import nvml_library, sys_tree
from tests.fakes.probe_bed import MACHINES, ProbeBed, expected, machine, small

MIB = 2**20
CONTAINER = "0123456789abcdef" * 4


def need_gcc() -> None:
    """Without a compiler there is no library; scripts/test installs one, and skips nothing."""
    if shutil.which("gcc") is None and not os.environ.get("RECONCILER_TEST_ALL"):
        pytest.skip("needs gcc: scripts/test installs it")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library."""
    need_gcc()
    return nvml_library.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def rig(tmp_path: Path, library: Path) -> ProbeBed:
    """A machine yet to be made."""
    return ProbeBed(tmp_path, library)


def card(facts: HostFacts, index: int) -> Gpu:
    """The card that NVML numbers ``index``."""
    return next(gpu for gpu in facts.gpus if gpu.index == index)


@pytest.mark.parametrize("name", MACHINES)
def test_a_probed_machine_is_that_machine(rig: ProbeBed, name: str) -> None:
    """Cards, links, slices, nodes, siblings, caches, network cards: all as its file says, and no warning."""
    document = machine(name)
    assert rig.probe(document)() == expected(document)


@pytest.mark.parametrize("numa", ["memory", "sysfs", "cpu"])
@pytest.mark.parametrize("name", ["dgx-a100-nps4", "hgx-h200-interleaved", "gh200"])
def test_each_way_to_the_node_of_a_card(rig: ProbeBed, name: str, numa: str) -> None:
    """Memory affinity, sysfs and CPU affinity lead to the same node, each when it is the only one that answers."""
    document = machine(name)
    assert rig.probe(document, numa=numa)() == expected(document)


def test_an_unknown_node_is_unknown(rig: ProbeBed) -> None:
    """When nothing tells, the node is None: on a machine with a node 0 that is not 0."""
    document = small("hgx-h100")
    assert {gpu.numa_node for gpu in rig.probe(document, numa="none")().gpus} == {None}


@pytest.mark.parametrize(
    ("numa", "lines", "node"),
    [
        ("memory", {"0.node": "0"}, 0),
        ("sysfs", {"0.node": "0"}, 0),
        ("sysfs", {"0.node": "9"}, 1),
        ("sysfs", {"0.fault.nvmlDeviceGetMemoryAffinity": "999"}, 1),
        ("none", {"0.cpus": "31,33"}, None),
        ("none", {"0.cpus": ""}, None),
        ("none", {"0.cpus": "32,33,40"}, 1),
        ("none", {"0.cpus": "500"}, None),
    ],
)
def test_what_outweighs_what(rig: ProbeBed, numa: str, lines: Mapping[str, str], node: int | None) -> None:
    """Memory affinity before sysfs; an affinity that names no node of the host, several or none says nothing."""
    document = machine("a100-mig-mixed")
    document["gpus"][0]["numaNode"] = 1
    assert card(rig.probe(document, lines, numa=numa)(), 0).numa_node == node


def test_a_cards_own_memory_is_no_node_to_hang_on(rig: ProbeBed) -> None:
    """On Grace Hopper an affinity to node 1, the card's own memory, leads on to sysfs."""
    document = small("gh200")
    assert card(rig.probe(document, {"0.node": "1"}, numa="sysfs")(), 0).numa_node == 0


def test_a_node_that_the_host_does_not_have(rig: ProbeBed) -> None:
    """A device tree that names a node which is not online leaves the card's node unknown."""
    probe = rig.probe(small("t4-1"))
    sys_tree.write(rig.root / "sys/bus/pci/devices/0000:00:07.0/numa_node", "9")
    assert card(probe(), 0).numa_node is None


def test_links_into_switches_need_both_ends(rig: ProbeBed) -> None:
    """A card whose links are down is joined by none, whichever side is asked; the others keep all of theirs."""
    document = small("hgx-h100")
    first, *others = rig.probe(document, {"0.fault.nvmlDeviceGetNvLinkState": "3"})().gpus
    assert {link.nvlinks for link in first.links} == {0}
    assert [sorted({link.nvlinks for link in gpu.links}) for gpu in others] == [[0, 18]] * 7
    assert {link.nvlinks for gpu in others for link in gpu.links if link.peer == first.uuid} == {0}


def test_slices_behind_a_hole(rig: ProbeBed) -> None:
    """An index without a MIG device does not end the search, and each slice tells its start."""
    document = small("a100-mig-mixed")
    assert "0.slot.1.name" not in nvml_library.describe(document)
    assert [(piece.profile, piece.start) for piece in card(rig.probe(document)(), 0).mig_slices] == [
        ("1g.5gb", 0),
        ("1g.5gb", 1),
        ("2g.10gb", 2),
        ("3g.20gb", 4),
    ]


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetGpuInstanceById", "nvmlGpuInstanceGetInfo"]
)
def test_a_start_that_needs_a_permission(rig: ProbeBed, function: str) -> None:
    """The slices are known and usable all the same."""
    document = small("a30-mig")
    facts = rig.probe(document, {f"fault.{function}": "4"})()
    want = expected(document)
    for gpu, right in zip(facts.gpus, want.gpus, strict=True):
        pieces = tuple(replace(piece, start=UNKNOWN_START) for piece in right.mig_slices)
        assert gpu == replace(right, mig_slices=pieces)


def test_mig_mode_that_waits_for_a_reset(rig: ProbeBed) -> None:
    """A card is what it is now; the change to come is a warning."""
    document = small("a100-mig-mixed")
    facts = rig.probe(document, {"1.mig.pending": "1"})()
    assert card(facts, 1).mig_enabled is False
    assert facts.warnings == (f"{document['gpus'][1]['uuid']}: MIG mode changes at the card's next reset",)


def test_who_uses_a_card(rig: ProbeBed) -> None:
    """Processes with name, user and container; memory that the driver does not tell is 0."""
    document = small("t4-1")
    document["gpus"][0] |= {
        "memoryUsed": 11 * 2**30,
        "processes": [{"pid": 4121, "memory": 10 * 2**30}, {"pid": 4122, "memory": 0}, {"pid": 4123, "memory": 7}],
    }
    sys_tree.process(rig.root, 4121, "python", 4123456, f"0::/system.slice/docker-{CONTAINER}.scope")
    sys_tree.process(rig.root, 4122, "python3", 0, "0::/user.slice/user-0.slice")
    gpu = card(rig.probe(document, {"0.process.1.memory": str(2**64 - 1)})(), 0)
    assert gpu.memory_used == 11 * 2**30
    assert gpu.processes == (
        GpuProcess(4121, "python", "4123456", 10 * 2**30, CONTAINER),
        GpuProcess(4122, "python3", "root", 0, None),
        GpuProcess(4123, "", "", 7, None),
    )


@pytest.mark.parametrize(
    ("missing", "used"), [((), 300 * MIB), (("nvmlDeviceGetMemoryInfo_v2",), 900 * MIB)], ids=["v2", "v1"]
)
def test_what_the_driver_keeps_is_not_used(tmp_path: Path, missing: tuple[str, ...], used: int) -> None:
    """Version 2 of the call counts it apart; before driver 510 it cannot be told from use."""
    need_gcc()
    document = small("t4-1")
    document["gpus"][0]["memoryUsed"] = 300 * MIB
    gpu = card(ProbeBed(tmp_path, nvml_library.build(tmp_path, missing)).probe(document)(), 0)
    assert (gpu.memory_used, gpu.memory) == (used, document["gpus"][0]["memory"])


def test_an_old_library(tmp_path: Path) -> None:
    """Symbols that driver 470 does not have are missing facts or have an older form, and no error."""
    need_gcc()
    missing = (
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetMemoryAffinity",
        "nvmlDeviceGetRemappedRows",
        "nvmlSystemGetCudaDriverVersion_v2",
    )
    document = small("dgx1-v100")
    document["gpus"][0]["processes"] = [{"pid": 7, "memory": 5}]
    bed = ProbeBed(tmp_path, nvml_library.build(tmp_path, missing))
    facts = bed.probe(document, numa="sysfs")()
    cards = tuple(replace(gpu, memory_used=gpu.memory_used + 600 * MIB) for gpu in expected(document).gpus)
    assert facts == replace(expected(document), gpus=cards, cuda_version="")


@pytest.mark.parametrize("code", ["3", "4", "6", "13", "17", "999"])
def test_a_query_that_fails_costs_its_fact_alone(rig: ProbeBed, code: str) -> None:
    """Each query is optional: with most of them failing the card is still known by UUID, address and model."""
    document = small("h100-nvl-2")
    optional = (
        "MemoryInfo_v2 MemoryInfo ComputeRunningProcesses_v3 ComputeRunningProcesses_v2 RemappedRows MigMode Index "
        "RetiredPagesPendingStatus TotalEccErrors MemoryAffinity CpuAffinity NvLinkState TopologyCommonAncestor"
    )
    faults = {f"0.fault.nvmlDeviceGet{name}": code for name in optional.split()}
    first, second = expected(document).gpus
    faulty = next(gpu for gpu in rig.probe(document, faults)().gpus if gpu.uuid == first.uuid)
    links = tuple(replace(link, nvlinks=0, pcie="") for link in first.links)
    assert faulty == replace(first, index=None, memory=0, memory_used=0, numa_node=None, links=links)
    assert second.uuid != faulty.uuid


@pytest.mark.parametrize(
    ("lines", "health"),
    [
        ({"0.rows.failed": "1", "0.rows.pending": "1"}, "a memory row could not be remapped: replace the card"),
        ({"0.rows.pending": "1", "0.ecc": "2"}, "reset required: a memory row waits to be remapped"),
        ({"0.retiring": "1"}, "reset required: a memory page waits to be retired"),
        ({"0.ecc": "2"}, "2 uncorrectable memory errors since the driver was loaded"),
    ],
)
def test_a_card_with_bad_memory(rig: ProbeBed, lines: Mapping[str, str], health: str) -> None:
    """The reason stands in words; everything else about the card, and the other card, is as ever."""
    document = small("h100-nvl-2")
    right = expected(document)
    sick = tuple(replace(gpu, health=health) if gpu.index == 0 else gpu for gpu in right.gpus)
    assert rig.probe(document, lines)() == replace(right, gpus=sick)
