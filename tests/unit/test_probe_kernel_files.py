"""What the probe reads from /sys and /proc alone; no card, no library."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.actual.facts import facts_from_json
from reconciler.actual.local_probe import PROBE, LocalProbe
from reconciler.actual.probe import Machine, format_cpus, parse_cpus
from reconciler.errors import ProbeError
from reconciler.model.host import HostFacts, Nic, NumaNode
from tests.fakes import sys_tree
from tests.fakes.probe_bed import FIXTURES, expected, no_library, small

KIB = 1024


@pytest.fixture
def without_library(tmp_path: Path) -> dict[str, str]:
    """An environment in which there is no NVML."""
    folder = tmp_path / "lib"
    folder.mkdir()
    return os.environ | {"LD_LIBRARY_PATH": str(no_library(folder))}


@pytest.fixture(scope="module")
def real_tree(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The kernel files of a virtual machine with two NUMA nodes, as they were copied from it."""
    root = tmp_path_factory.mktemp("sys")
    # Debian 12's Python 3.11.2 has no extraction filters yet, and later ones warn without.
    subprocess.run(["tar", "-xzf", str(FIXTURES / "sys/sys-2node.tgz"), "-C", str(root)], check=True)
    return Machine(root / "sys", root / "proc")


def power9(**changes: Any) -> dict[str, Any]:
    """Two nodes named 0 and 8, one of a card's memory named 252; four siblings to a core; CPUs 6 and 7 offline."""
    return {
        "hostname": "power9",
        "bootId": "b",
        "numaNodes": [
            {"id": 0, "socket": 0, "cpus": "0-5", "memory": 4096 * KIB, "distances": {"8": 40, "252": 80}},
            {"id": 8, "socket": 8, "cpus": "8-15", "memory": 0, "distances": {"0": 40, "252": 80}},
            {"id": 252, "cpus": "", "memory": 16384 * KIB, "distances": {"0": 80, "8": 80}},
        ],
        "smt": [[0, 1, 2, 3], [4, 5], [8, 9, 10, 11], [12, 13, 14, 15]],
        "caches": ["0-5", "8-15"],
        "gpus": [],
        "nics": [],
    } | changes


def made(root: Path, document: dict[str, Any]) -> Machine:
    """A machine under ``root``."""
    sys_tree.make(root, document)
    return Machine(root / "sys", root / "proc")


def test_a_real_tree(real_tree: Machine) -> None:
    """Two nodes of four CPUs, with the memory, socket and distance that the kernel printed."""
    assert real_tree.numa_nodes() == [
        {
            "id": 0,
            "socket": 0,
            "cpus": "0-3",
            "memory": 255860 * KIB,
            "distances": {"1": 21},
            "gpuMemory": False,
        },
        {
            "id": 1,
            "socket": 1,
            "cpus": "4-7",
            "memory": 224320 * KIB,
            "distances": {"0": 21},
            "gpuMemory": False,
        },
    ]
    assert real_tree.smt() == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert real_tree.caches() == ["0-3", "4-7"]


@pytest.mark.parametrize(
    ("address", "node"),
    [
        ("0000:11:00.0", 0),
        ("00000000:41:00.0", 1),
        ("00000000:00:1F.0", None),
        ("0000:77:00.0", None),
    ],
)
def test_the_node_of_a_pci_function(real_tree: Machine, address: str, node: int | None) -> None:
    """Addresses differ in case and width; -1 and an unknown function are unknown, never 0."""
    assert real_tree.pci_node(address) == node


def test_the_real_tree_as_facts(real_tree: Machine, without_library: dict[str, str]) -> None:
    """The whole way: the probe as a process, its JSON, the facts."""
    facts = LocalProbe(real_tree.sys, real_tree.proc, environment=without_library)()
    assert facts == HostFacts(
        hostname="",
        numa_nodes=(
            NumaNode(0, (0, 1, 2, 3), 255860 * KIB, socket=0, distances=((1, 21),)),
            NumaNode(1, (4, 5, 6, 7), 224320 * KIB, socket=1, distances=((0, 21),)),
        ),
        gpus=(),
        smt=((0, 1), (2, 3), (4, 5), (6, 7)),
        caches=((0, 1, 2, 3), (4, 5, 6, 7)),
    )


def test_this_machine() -> None:
    """The kernel's own files where the test runs: every online CPU is on one node."""
    facts = LocalProbe()()
    assert facts.cpus == tuple(parse_cpus(Path("/sys/devices/system/cpu/online").read_text().strip()))
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.memory > 0


def test_names_gaps_and_absent_siblings(tmp_path: Path, without_library: dict[str, str]) -> None:
    """Node ids are names; SMT-4 siblings are adjacent; offline CPUs leave gaps; a node may have CPUs and no memory."""
    machine = made(tmp_path, power9())
    facts = LocalProbe(machine.sys, machine.proc, environment=without_library)()
    assert facts == expected(power9(format="reconciler.facts/v1"))
    assert [node.gpu_memory for node in facts.numa_nodes] == [False, False, True]
    assert facts.memory == 4096 * KIB


def test_offline_cpus_that_still_stand_in_lists(tmp_path: Path) -> None:
    """Only online CPUs count, whatever the other files say."""
    machine = made(tmp_path, power9())
    sys_tree.write(machine.sys / "devices/system/cpu/online", "0-4,8-12")
    assert [node["cpus"] for node in machine.numa_nodes()] == ["0-4", "8-12", ""]
    assert machine.smt() == [(0, 1, 2, 3), (8, 9, 10, 11)]
    assert machine.caches() == ["0-4", "8-12"]


def test_a_kernel_without_numa(tmp_path: Path) -> None:
    """One node, 0, with every online CPU and the memory of /proc/meminfo."""
    sys_tree.write(tmp_path / "sys/devices/system/cpu/online", "0-1")
    sys_tree.write(tmp_path / "proc/meminfo", "MemTotal:         480180 kB\nMemFree: 1 kB")
    nodes = Machine(tmp_path / "sys", tmp_path / "proc").numa_nodes()
    assert nodes == [{"id": 0, "cpus": "0-1", "memory": 480180 * KIB}]


def test_nothing_to_read(tmp_path: Path, without_library: dict[str, str]) -> None:
    """A machine whose files cannot be seen gives facts that say so little, and no error."""
    facts = LocalProbe(tmp_path / "no-sys", tmp_path / "no-proc", environment=without_library)()
    assert facts == HostFacts(hostname="", numa_nodes=(NumaNode(0, (), 0, gpu_memory=True),), gpus=())


def test_network_cards(tmp_path: Path) -> None:
    """RDMA first, by its own name, ten after two; a virtio card by its PCI parent; no virtual functions or bridges."""
    nics = [
        {"name": f"mlx5_{number}", "pci": f"0000:0{number // 2}:00.{number % 2}", "numaNode": 1, "rdma": True}
        for number in (10, 2)
    ]
    plain = {"name": "eno1", "pci": "0000:c1:00.0", "numaNode": None, "rdma": False}
    machine = made(tmp_path, power9(nics=[*nics, plain]))
    devices = tmp_path / "sys/devices"
    sys_tree.pci_function(tmp_path, "0000:00:03.0", "0x1af4", "0x020000", None)
    (devices / "virtio/eth0").mkdir(parents=True)
    (devices / "pci0000:00/0000:00:03.0/virtio0").mkdir()
    (devices / "virtio/eth0/device").symlink_to(devices / "pci0000:00/0000:00:03.0/virtio0")
    (tmp_path / "sys/class/net/eth0").symlink_to(devices / "virtio/eth0")
    (tmp_path / "sys/class/net/docker0").mkdir()
    virtual = {"name": "ens9v0", "pci": "0000:c1:00.2", "numaNode": 1, "rdma": False}
    sys_tree.make(tmp_path, power9(nics=[virtual]))
    (devices / "pci0000:c1/0000:c1:00.2/physfn").symlink_to(devices / "pci0000:c1/0000:c1:00.0")
    assert [(nic["name"], nic["pci"], nic["numaNode"], nic["rdma"]) for nic in machine.nics()] == [
        ("mlx5_2", "0000:01:00.0", 1, True),
        ("mlx5_10", "0000:05:00.0", 1, True),
        ("eno1", "0000:c1:00.0", None, False),
        ("eth0", "0000:00:03.0", None, False),
    ]


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        ("0::/system.slice/docker-{id}.scope", True),
        ("0::/docker/{id}", True),
        ("0::/../../docker/{id}", True),
        ("12:devices:/docker/{id}\n11:memory:/docker/{id}\n0::/system.slice/containerd.service", True),
        ("0::/docker/{id}/docker/{other}", True),
        ("0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{id}.scope/container", True),
        ("0::/kubepods.slice/kubepods-pod12_34.slice/cri-containerd-{id}.scope", True),
        ("0::/user.slice/user-1000.slice/session-3.scope", False),
        ("0::/system.slice/job-{id}{id}.service", False),
        ("", False),
    ],
)
def test_the_container_of_a_process(tmp_path: Path, cgroup: str, container: bool) -> None:
    """Both cgroup versions and both drivers; of nested containers the outermost; a longer number is none."""
    own, other = "0123456789abcdef" * 4, "f" * 64
    sys_tree.process(tmp_path, 77, "python", 0, cgroup.format(id=own, other=other))
    found = Machine(tmp_path / "sys", tmp_path / "proc").process(77)
    assert found == {"pid": 77, "name": "python", "user": "root", "container": own if container else None}


def test_users_without_a_name_and_processes_that_are_gone(tmp_path: Path) -> None:
    """A number stays a number; what has ended is a pid and no more."""
    sys_tree.process(tmp_path, 78, "train", 4123456, "0::/")
    machine = Machine(tmp_path / "sys", tmp_path / "proc")
    assert machine.process(78)["user"] == "4123456"
    assert machine.process(79) == {"pid": 79, "name": "", "user": "", "container": None}


def test_no_driver_is_no_error(tmp_path: Path, without_library: dict[str, str]) -> None:
    """No library and no card: a host without GPUs."""
    document = small("cpu-only")
    sys_tree.make(tmp_path, document)
    facts = LocalProbe(tmp_path / "sys", tmp_path / "proc", environment=without_library)()
    assert facts == expected(document)
    assert (facts.gpus, facts.driver_error, facts.warnings) == ((), "", ())


def test_a_card_without_a_library(tmp_path: Path, without_library: dict[str, str]) -> None:
    """The kernel knows the cards: they are listed by what it says of them, and not offered."""
    document = small("h100-nvl-2")
    sys_tree.make(tmp_path, document)
    facts = LocalProbe(tmp_path / "sys", tmp_path / "proc", environment=without_library)()
    error = "there is an NVIDIA card at 00000000:01:00.0, but no libnvidia-ml.so.1 (kernel module 570.158.01 is loaded)"
    assert (facts.driver_error, facts.warnings) == (error, (error,))
    assert [(gpu.uuid, gpu.pci, gpu.model, gpu.numa_node, gpu.health) for gpu in facts.gpus] == [
        (gpu["uuid"], gpu["pci"], gpu["model"], 0, error) for gpu in document["gpus"]
    ]


def test_a_card_that_was_never_woken(tmp_path: Path, without_library: dict[str, str]) -> None:
    """The kernel module shows question marks for a UUID that it has not read yet: those are no UUID."""
    document = small("t4-1")
    document["gpus"][0]["uuid"] = "GPU-????????-????-????-????-????????????"
    sys_tree.make(tmp_path, document)
    facts = LocalProbe(tmp_path / "sys", tmp_path / "proc", environment=without_library)()
    assert [(gpu.uuid, gpu.model) for gpu in facts.gpus] == [("PCI-00000000:00:07.0", "Tesla T4")]


def test_a_card_that_nobody_drives(tmp_path: Path, without_library: dict[str, str]) -> None:
    """Without a kernel module a card has no UUID and no model: its address stands for it."""
    device = sys_tree.pci_function(tmp_path, "0000:3b:00.0", "0x10de", "0x030200", None)
    sys_tree.pci_function(tmp_path, "0000:3b:00.1", "0x10de", "0x040300", None)
    facts = LocalProbe(tmp_path / "sys", tmp_path / "proc", environment=without_library)()
    assert [(gpu.uuid, gpu.model) for gpu in facts.gpus] == [("PCI-00000000:3B:00.0", "NVIDIA card of unknown model")]
    assert facts.driver_error.endswith("no libnvidia-ml.so.1 (no kernel module is loaded)")
    (tmp_path / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    (device / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers/vfio-pci")
    facts = LocalProbe(tmp_path / "sys", tmp_path / "proc", environment=without_library)()
    assert (facts.gpus, facts.driver_error) == ((), "")
    assert facts.warnings == ("the NVIDIA card at 0000:3b:00.0 is bound to vfio-pci: left out",)


def test_the_other_package_named_pynvml_is_refused(tmp_path: Path, without_library: dict[str, str]) -> None:
    """It overwrites the module of nvidia-ml-py; the line says what to do."""
    (tmp_path / "pynvml-13.0.1.dist-info").mkdir()
    (tmp_path / "pynvml-13.0.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: pynvml\nVersion: 13.0.1\n")
    probe = LocalProbe(tmp_path / "sys", tmp_path / "proc", environment=without_library | {"PYTHONPATH": str(tmp_path)})
    with pytest.raises(
        ProbeError, match=r"^the probe of this machine failed: the Python package 'pynvml' hides [^\n]+$"
    ):
        probe()


def test_the_probe_runs_alone(tmp_path: Path, without_library: dict[str, str]) -> None:
    """A copy of the one file, far from the project, prints facts on one line and nothing else."""
    copy = tmp_path / "probe.py"
    copy.write_bytes(PROBE.read_bytes())
    command = [sys.executable, "-P", str(copy), "--sys", str(tmp_path / "sys"), "--proc", str(tmp_path / "proc")]
    made(tmp_path, power9())
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=without_library, cwd=tmp_path)
    assert run.stderr == ""
    assert run.stdout.count("\n") == 1
    assert facts_from_json(run.stdout, "copy").hostname == "power9"


def test_output_that_is_no_facts(
    tmp_path: Path, without_library: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something between us and the probe that prints: one line says so."""
    other = tmp_path / "other.py"
    other.write_text("print('hello')\n")
    monkeypatch.setattr("reconciler.actual.local_probe.PROBE", other)
    with pytest.raises(ProbeError, match=r"^the probe of this machine: not JSON: Expecting value: [^\n]+$"):
        LocalProbe(environment=without_library)()


def test_a_probe_that_cannot_start(without_library: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No interpreter: one line."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ProbeError, match=r"^the probe of this machine cannot be started: .*'/nowhere/python'$"):
        LocalProbe(environment=without_library)()


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "0,2,4,6", "0-15,32-47,63"])
def test_cpu_lists(text: str) -> None:
    """The probe reads and writes the kernel's lists as the rest of the project does."""
    assert format_cpus(parse_cpus(text)) == text


def test_nic_facts(tmp_path: Path, without_library: dict[str, str]) -> None:
    """Through the whole way a network card keeps its unknown node."""
    nic = {"name": "eth0", "pci": "0000:00:03.0", "numaNode": None, "rdma": False}
    machine = made(tmp_path, power9(nics=[nic]))
    facts = LocalProbe(machine.sys, machine.proc, environment=without_library)()
    assert facts.nics == (Nic("eth0", "0000:00:03.0", None, rdma=False),)
