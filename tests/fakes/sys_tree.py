"""Makes the part of ``/sys`` and ``/proc`` that the probe reads, from a machine file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.model.resources import format_cpus, parse_cpus

Machine = Mapping[str, Any]
NVIDIA, MELLANOX = "0x10de", "0x15b3"


def make(root: Path, machine: Machine, *, sysfs_numa: bool = True) -> None:
    """Write ``root/sys`` and ``root/proc``. Without ``sysfs_numa`` PCI functions answer -1, as virtual machines do."""
    _proc(root / "proc", machine)
    for node in machine["numaNodes"]:
        _node(root / "sys", machine, node)
    online = [cpu for node in machine["numaNodes"] for cpu in parse_cpus(node["cpus"])]
    write(root / "sys/devices/system/cpu/online", format_cpus(online))
    for gpu in machine["gpus"]:
        device = pci_function(root, short(gpu["pci"]), NVIDIA, "0x030200", gpu["numaNode"] if sysfs_numa else None)
        driver = root / "sys/bus/pci/drivers/nvidia"
        driver.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(driver)
        information = (
            f"Model: \t\t {gpu['model']}\nIRQ:   \t\t 120\nGPU UUID: \t {gpu['uuid']}\nBus Location: \t {device.name}"
        )
        write(root / "proc/driver/nvidia/gpus" / device.name / "information", information)
    for nic in machine.get("nics", []):
        _nic(root, nic)


def short(address: str) -> str:
    """The PCI address as sysfs writes it."""
    return address.lower()[-len("0000:07:00.0") :]


def write(path: Path, text: str) -> None:
    """Write a line to a file in a folder that need not be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def pci_function(root: Path, address: str, vendor: str, kind: str, node: int | None) -> Path:
    """Make one PCI function below its bus, with the link to it; its folder."""
    folder = root / "sys/devices" / f"pci{address[:7]}" / address
    for name, text in {"vendor": vendor, "class": kind, "numa_node": str(-1 if node is None else node)}.items():
        write(folder / name, text)
    link = root / "sys/bus/pci/devices" / address
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def process(root: Path, pid: int, name: str, uid: int, cgroup: str) -> None:
    """A process as ``/proc/PID`` shows it."""
    for file, text in {
        "comm": name,
        "status": f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}",
        "cgroup": cgroup,
    }.items():
        write(root / "proc" / str(pid) / file, text)


def _proc(proc: Path, machine: Machine) -> None:
    write(proc / "sys/kernel/hostname", machine["hostname"])
    write(proc / "sys/kernel/random/boot_id", machine["bootId"])
    if "driver" in machine:
        version = machine["driver"]["version"]
        module = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Nov  3 10:00:00 UTC 2026"
        write(proc / "driver/nvidia/version", f"{module}\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)")


def _node(sys: Path, machine: Machine, node: Machine) -> None:
    folder = sys / f"devices/system/node/node{node['id']}"
    write(folder / "cpulist", node["cpus"])
    kilobytes = node["memory"] // 1024
    write(folder / "meminfo", f"Node {node['id']} MemTotal:       {kilobytes} kB\nNode {node['id']} MemFree:  0 kB")
    if "distances" in node:
        distances = node["distances"] | {str(node["id"]): 10}
        write(folder / "distance", " ".join(str(distances[peer]) for peer in sorted(distances, key=int)))
    for cpu in parse_cpus(node["cpus"]):
        _cpu(sys / f"devices/system/cpu/cpu{cpu}", machine, node, cpu)


def _cpu(folder: Path, machine: Machine, node: Machine, cpu: int) -> None:
    if "socket" in node:
        write(folder / "topology/physical_package_id", str(node["socket"]))
    siblings = next((group for group in machine["smt"] if cpu in group), [cpu])
    write(folder / "topology/thread_siblings_list", format_cpus(siblings))
    for index, (level, shared) in enumerate([(1, format_cpus(siblings)), *_last_level(machine, cpu)]):
        write(folder / f"cache/index{index}/level", str(level))
        write(folder / f"cache/index{index}/shared_cpu_list", shared)


def _last_level(machine: Machine, cpu: int) -> list[tuple[int, str]]:
    return [(3, group) for group in machine.get("caches", []) if cpu in parse_cpus(group)]


def _nic(root: Path, nic: Machine) -> None:
    """A network card: a netdev, and with RDMA also a verbs device on the same function."""
    device = pci_function(root, nic["pci"], MELLANOX, "0x020000", nic["numaNode"])
    names = {"net": f"ens{nic['pci'][5:7]}" if nic["rdma"] else nic["name"]} | (
        {"infiniband": nic["name"]} if nic["rdma"] else {}
    )
    for kind, name in names.items():
        child = device / kind / name
        child.mkdir(parents=True)
        (child / "device").symlink_to(device)
        link = root / "sys/class" / kind / f"{name}"
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(child)
