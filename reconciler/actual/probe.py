"""The probe: prints what a host is made of, as facts JSON on one line. Runs alone: standard library and ``pynvml``.

Every fact is optional: a file or an NVML call that fails leaves its place empty. "No driver" (a host without NVIDIA
cards) is no error; "driver broken" is ``driver.error`` in words, and the cards are then known from PCI alone. Cards are
reached by PCI address: one lost card can make the enumeration by index fail for all. A card that hangs or crashes this
process is left out by ``--skip``, which ``local_probe`` gives when it starts us again.
"""

import argparse
import json
import pwd
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED, VERSION_MISMATCH = 12, 9, 18  # nvmlReturn_t
GONE = {15: "lost: the card does not answer (fell off the bus?)", 16: "reset required"}
PCIE_LEVELS = {0: "board", 10: "switch", 20: "switches", 30: "bridge", 40: "node", 50: "system"}
NVIDIA, DISPLAY_CLASSES, CPU = "0x10de", ("0x0300", "0x0302"), "devices/system/cpu"
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
CONTAINER_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
DRIVER_VERSION = re.compile(r"\b[0-9]{3,}\.[0-9]+(?:\.[0-9]+)?\b")


def read(path: Path) -> str:
    """The text of a small file; empty when it is not there or cannot be read (sysfs also answers EINVAL)."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def entries(path: Path, pattern: str = ".*") -> list[Path]:
    """The entries of a folder whose whole name matches, ``mlx5_2`` before ``mlx5_10``; none without the folder."""
    found = [entry for entry in path.iterdir() if re.fullmatch(pattern, entry.name)] if path.is_dir() else []
    return sorted(found, key=lambda entry: [part.zfill(9) for part in re.findall(r"[0-9]+|[^0-9]+", entry.name)])


def parse_cpus(text: str) -> list[int]:
    """CPU numbers of a kernel list such as ``0-3,8``."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return [cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1)]


def format_cpus(cpus: Iterable[int]) -> str:
    """Kernel list of CPU numbers, ranges joined."""
    runs = groupby(enumerate(sorted(cpus)), key=lambda pair: pair[1] - pair[0])
    spans = [[cpu for _, cpu in run] for _, run in runs]
    return ",".join(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)


def bits(words: Iterable[int]) -> set[int]:
    """Numbers of the bits that are set in an array of 64-bit words."""
    return {index * 64 + bit for index, word in enumerate(words) for bit in range(64) if word >> bit & 1}


@dataclass(frozen=True)
class Machine:
    """What the kernel's files tell; ``sys`` and ``proc`` are the roots of the two file systems of the host."""

    sys: Path
    proc: Path

    @cached_property
    def online(self) -> set[int]:
        """CPUs that run; a CPU that was taken offline may still stand in other lists."""
        return set(parse_cpus(read(self.sys / CPU / "online")))

    def pci(self, address: str) -> Path:
        """The sysfs folder of a PCI function; NVML writes 8 digits of domain in capitals, sysfs 4 in small letters."""
        domain, _, rest = address.lower().partition(":")
        return self.sys / "bus/pci/devices" / f"{int(domain, 16):04x}:{rest}"

    def pci_node(self, address: str) -> int | None:
        """The NUMA node of a PCI function; -1, usual in virtual machines, is unknown and not 0."""
        text = read(self.pci(address) / "numa_node")
        return int(text) if text.isdigit() else None

    def numa_nodes(self) -> list[dict[str, Any]]:
        """NUMA nodes by id (ids are names, with gaps). A kernel without NUMA has one node, 0."""
        paths = entries(self.sys / "devices/system/node", r"node[0-9]+")
        ids = [int(path.name.removeprefix("node")) for path in paths]
        nodes = [self._numa_node(path, own, ids) for path, own in zip(paths, ids, strict=True)]
        return nodes or [{"id": 0, "cpus": format_cpus(self.online), "memory": self._memory(self.proc)}]

    def _numa_node(self, path: Path, own: int, ids: list[int]) -> dict[str, Any]:
        cpus = [cpu for cpu in parse_cpus(read(path / "cpulist")) if cpu in self.online]
        socket = read(self.sys / CPU / f"cpu{cpus[0]}/topology/physical_package_id") if cpus else ""
        distances = zip(ids, map(int, read(path / "distance").split()), strict=False)
        return {
            "id": own,
            "socket": int(socket) if socket.isdigit() else None,
            "cpus": format_cpus(cpus),
            "memory": self._memory(path),
            "distances": {str(peer): distance for peer, distance in distances if peer != own},
            "gpuMemory": not cpus,  # a card's own memory, or empty (Grace Hopper)
        }

    def _memory(self, folder: Path) -> int:
        total = re.search(r"MemTotal:\s+([0-9]+) kB", read(folder / "meminfo"))
        return int(total[1]) * 1024 if total else 0

    def smt(self) -> list[tuple[int, ...]]:
        """Groups of two and more online siblings; a CPU whose siblings are offline is a core of its own."""
        lists = {read(self.sys / CPU / f"cpu{cpu}/topology/thread_siblings_list") for cpu in self.online}
        return [group for group in self._groups(lists) if len(group) > 1]

    def caches(self) -> list[str]:
        """The CPUs that share one last-level cache, group by group."""
        shared = set()
        for cpu in self.online:
            folder = self.sys / CPU / f"cpu{cpu}/cache"
            levels = [(read(path / "level"), path) for path in entries(folder, r"index[0-9]+")]
            shared.add(read(max(levels)[1] / "shared_cpu_list") if levels else "")
        return [format_cpus(group) for group in self._groups(shared)]

    def _groups(self, lists: Iterable[str]) -> list[tuple[int, ...]]:
        groups = {tuple(cpu for cpu in parse_cpus(text) if cpu in self.online) for text in lists}
        return sorted(group for group in groups if group)

    def nics(self) -> list[dict[str, Any]]:
        """Network cards, those with RDMA first and under their RDMA name; virtual functions are left out."""
        found: dict[str, dict[str, Any]] = {}
        for kind, rdma in (("infiniband", True), ("net", False)):
            for entry in entries(self.sys / "class" / kind):
                device = (entry / "device").resolve().parts[:-3:-1]  # a virtio device is a child of its PCI function
                address = next((part for part in device if PCI_ADDRESS.fullmatch(part)), "")
                if address and address not in found and not (self.pci(address) / "physfn").exists():
                    node = self.pci_node(address)
                    found[address] = {"name": entry.name, "pci": address, "numaNode": node, "rdma": rdma}
        return list(found.values())

    def nvidia_cards(self, warnings: list[str]) -> list[str]:
        """PCI addresses of NVIDIA cards, as NVML writes them; one that another driver holds is left out with a word."""
        found = []
        for path in entries(self.sys / "bus/pci/devices"):
            if read(path / "vendor") != NVIDIA or not read(path / "class").startswith(DISPLAY_CLASSES):
                continue
            driver = (path / "driver").resolve().name if (path / "driver").exists() else "nvidia"
            if driver == "nvidia":
                found.append(path.name.upper().zfill(len("00000000:07:00.0")))
            else:
                warnings.append(f"the NVIDIA card at {path.name} is bound to {driver}: left out")
        return found

    def process(self, pid: int) -> dict[str, Any]:
        """Name, user and container of a process; the outermost container is the one that this host's Engine knows."""
        folder = self.proc / str(pid)
        uid = re.search(r"^Uid:\s+([0-9]+)", read(folder / "status"), re.MULTILINE)
        container = CONTAINER_ID.search(read(folder / "cgroup"))
        user = uid[1] if uid else ""
        with suppress(KeyError, ValueError):  # a user without a name here keeps the number
            user = pwd.getpwuid(int(user)).pw_name
        return {"pid": pid, "name": read(folder / "comm"), "user": user, "container": container and container[0]}


@dataclass
class Card:
    """One card. A query that fails leaves its default; a card that turns out to be lost is not touched again."""

    machine: Machine
    nvml: Any
    address: str
    health: str = "ok"
    handle: Any = None
    uuid: str = ""
    nvlinks: Counter[str] = field(default_factory=Counter)

    def ask(self, name: str, *args: Any, default: Any = None, handle: Any = None) -> Any:
        """The answer of one NVML call on this card (or on ``handle``, a part of it), else ``default``."""
        if self.handle is None:
            return default
        try:
            return getattr(self.nvml, name)(handle or self.handle, *args)
        except self.nvml.NVMLError as error:
            if error.value in GONE:
                self.health, self.handle = GONE[error.value], None
            return default

    def facts(self, nodes: list[dict[str, Any]], warnings: list[str]) -> dict[str, Any]:
        """Everything about the card but its links to the others, and its health, which may still change."""
        known = self._information()
        self.uuid = self.ask("nvmlDeviceGetUUID") or known.get("GPU UUID") or f"PCI-{self.address}"
        # version 2 counts what the driver keeps for itself apart; version 1, before driver 510, calls it used
        memory = self.ask("nvmlDeviceGetMemoryInfo", self.nvml and self.nvml.nvmlMemory_v2)
        memory = memory or self.ask("nvmlDeviceGetMemoryInfo")
        running = self.ask("nvmlDeviceGetComputeRunningProcesses_v3")
        running = running or self.ask("nvmlDeviceGetComputeRunningProcesses_v2", default=())
        self.nvlinks = self._count_nvlinks()
        self._check()
        return {
            "uuid": self.uuid,
            "index": self.ask("nvmlDeviceGetIndex"),
            "pci": self.address,
            "model": self.ask("nvmlDeviceGetName") or known.get("Model") or "NVIDIA card of unknown model",
            "memory": memory.total if memory else 0,
            "memoryUsed": memory.used if memory else 0,
            "processes": [self.machine.process(each.pid) | {"memory": each.usedGpuMemory or 0} for each in running],
            "numaNode": self._numa_node(nodes),
            "links": {},
            "mig": self._mig(warnings),
        }

    def _information(self) -> dict[str, str]:
        """What the kernel module says of a card that NVML does not answer for; ``?`` stands for what it forgot."""
        path = self.machine.proc / "driver/nvidia/gpus" / self.machine.pci(self.address).name / "information"
        pairs = (line.partition(":") for line in read(path).splitlines())
        return {key.strip(): value.strip() for key, _, value in pairs if "?" not in value}

    def _check(self) -> None:
        """Find reasons against an answering card, the gravest first."""
        _, _, pending, failed = self.ask("nvmlDeviceGetRemappedRows", default=(0, 0, 0, 0))
        uncorrected = self.ask("nvmlDeviceGetTotalEccErrors", 1, 0, default=0)
        reasons = (
            (failed, "a memory row could not be remapped: replace the card"),
            (pending, "reset required: a memory row waits to be remapped"),
            (self.ask("nvmlDeviceGetRetiredPagesPendingStatus"), "reset required: a memory page waits to be retired"),
            (uncorrected, f"{uncorrected} uncorrectable memory errors since the driver was loaded"),
        )
        if self.handle is not None:
            self.health = next((words for found, words in reasons if found), "ok")

    def _numa_node(self, nodes: list[dict[str, Any]]) -> int | None:
        """The host node of the card: memory affinity, else sysfs, else CPU affinity, else unknown.

        An affinity counts only when it names exactly one node with CPUs: drivers also answer "all" and "none".
        """
        cpus = {node["id"]: set(parse_cpus(node["cpus"])) for node in nodes if node["cpus"]}
        near = bits(self.ask("nvmlDeviceGetMemoryAffinity", max(cpus, default=0) // 64 + 1, 0, default=()))
        if len(near) == 1 and near <= cpus.keys():
            return near.pop()
        node = self.machine.pci_node(self.address)
        if node in cpus:
            return node
        words = max(self.machine.online, default=0) // 64 + 1
        close = bits(self.ask("nvmlDeviceGetCpuAffinity", words, default=()))
        return next((node for node, own in cpus.items() if close and close <= own), None)

    def _mig(self, warnings: list[str]) -> dict[str, Any]:
        now, pending = self.ask("nvmlDeviceGetMigMode", default=(0, 0))
        if now != pending:
            warnings.append(f"{self.uuid}: MIG mode changes at the card's next reset")
        slots = self.ask("nvmlDeviceGetMaxMigDeviceCount", default=0) if now else 0
        handles = [self.ask("nvmlDeviceGetMigDeviceHandleByIndex", slot) for slot in range(slots)]
        slices = [self._slice(handle) for handle in handles if handle]  # a hole answers "not found"
        if not all(piece["uuid"] for piece in slices):
            warnings.append(f"{self.uuid}: a MIG slice does not tell its UUID: left out")
        return {"enabled": bool(now), "slices": [piece for piece in slices if piece["uuid"]]}

    def _slice(self, handle: Any) -> dict[str, Any]:
        """One slice: its name ends in the profile, its GPU instance knows where it starts (given the permission)."""
        _, _, profile = self.ask("nvmlDeviceGetName", handle=handle, default="").partition(" MIG ")
        own = self.ask("nvmlDeviceGetGpuInstanceId", handle=handle)
        instance = None if own is None else self.ask("nvmlDeviceGetGpuInstanceById", own)
        info = self.ask("nvmlGpuInstanceGetInfo", handle=instance) if instance else None
        uuid = self.ask("nvmlDeviceGetUUID", handle=handle)
        return {"uuid": uuid, "profile": profile, "start": info.placement.start if info else None}

    def _count_nvlinks(self) -> Counter[str]:
        """Live NVLinks by the PCI address at the other end; those that end in an NVSwitch under ``switch``."""
        ends: Counter[str] = Counter()
        for link in range(self.nvml.NVML_NVLINK_MAX_LINKS if self.handle is not None else 0):
            if self.ask("nvmlDeviceGetNvLinkState", link):
                remote = self.ask("nvmlDeviceGetNvLinkRemotePciInfo", link)
                kind = self.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link)
                address = remote.busId.upper() if remote else ""
                ends["switch" if kind == self.nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH else address] += 1
        return ends

    def link(self, peer: "Card") -> dict[str, Any]:
        """How two answering cards are joined; links into NVSwitches reach every card that has such links too."""
        level = self.ask("nvmlDeviceGetTopologyCommonAncestor", peer.handle)
        nvlinks = self.nvlinks[peer.address] + min(self.nvlinks["switch"], peer.nvlinks["switch"])
        return {"nvlinks": nvlinks, "pcie": PCIE_LEVELS.get(level, "")}


@dataclass
class Probe:
    """One look at one machine. ``skip`` maps PCI addresses not to be touched to the reason, in words."""

    machine: Machine
    skip: Mapping[str, str]
    without_nvml: str = ""
    progress: bool = False
    nvml: Any = None
    warnings: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """The whole document."""
        machine, nodes = self.machine, self.machine.numa_nodes()
        addresses = machine.nvidia_cards(self.warnings)
        driver = self._driver(addresses)
        return {
            "format": "reconciler.facts/v1",
            "hostname": read(machine.proc / "sys/kernel/hostname"),
            "bootId": read(machine.proc / "sys/kernel/random/boot_id"),
            "numaNodes": nodes,
            "smt": machine.smt(),
            "caches": machine.caches(),
            "driver": driver,
            "gpus": self._gpus(self._cards(addresses, driver.get("error", "ok")), nodes),
            "nics": machine.nics(),
            "warnings": self.warnings,
        }

    def _driver(self, addresses: list[str]) -> dict[str, str]:
        """Open NVML. Its versions, or what is broken in words, or nothing at all on a host without cards."""
        if error := self.without_nvml or self._open(f"there is an NVIDIA card at {addresses[0]}" if addresses else ""):
            self.warnings.append(error)
            return {"error": error}
        cuda = self._system("nvmlSystemGetCudaDriverVersion_v2")
        cuda = cuda and f"{cuda // 1000}.{cuda % 1000 // 10}"
        if self.nvml and not addresses and (count := self._system("nvmlDeviceGetCount")):
            self.warnings.append(f"cards without a PCI function in sysfs (WSL, Tegra) are left out: {count}")
        return {"version": self._system("nvmlSystemGetDriverVersion"), "cuda": cuda} if self.nvml else {}

    def _open(self, seen: str) -> str:
        """Start NVML, or say what is wrong; nothing is when there is neither a driver nor a card (``seen``)."""
        kernel = DRIVER_VERSION.search(read(self.machine.proc / "driver/nvidia/version"))
        module = f"kernel module {kernel[0]}" if kernel else "no kernel module"
        try:
            import pynvml  # noqa: PLC0415 - a host without it and without cards is no error
        except ImportError:
            return seen and f"{seen}, but the Python package nvidia-ml-py is not installed"
        self.nvml = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            # NVML prefixes its version with the major version of CUDA: 12.535.86.10
            library = re.sub(r"^[0-9]{1,2}\.(?=[0-9]{3})", "", self._system("nvmlSystemGetNVMLVersion") or "unknown")
            self.nvml = None
            known = {
                LIBRARY_NOT_FOUND: seen and f"{seen}, but no libnvidia-ml.so.1 ({module} is loaded)",
                DRIVER_NOT_LOADED: seen and f"{seen}, but the driver is not loaded",
                VERSION_MISMATCH: f"driver/library version mismatch: {module}, library {library}",
            }
            return known.get(error.value, f"NVML does not start: {error} ({error.value})")
        return ""

    def _system(self, name: str) -> Any:
        try:
            return getattr(self.nvml, name)() if self.nvml else None
        except self.nvml.NVMLError:
            return None

    def _cards(self, addresses: list[str], health: str) -> Iterator[Card]:
        """Every card, with a handle where NVML gives one."""
        for address in addresses:
            card = Card(self.machine, self.nvml, address, self.skip.get(address, health))
            self._touch(address)
            try:
                if self.nvml and address not in self.skip:
                    card.handle = self.nvml.nvmlDeviceGetHandleByPciBusId(address)
            except self.nvml.NVMLError as error:
                card.health = GONE.get(error.value, f"NVML cannot open the card: {error} ({error.value})")
            yield card

    def _touch(self, address: str) -> None:
        """Tell the parent which card a crash or a hang from here on is to be blamed on."""
        if self.progress:
            print(f"probing {address}", file=sys.stderr, flush=True)

    def _gpus(self, cards: Iterable[Card], nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = [(card, card.facts(nodes, self.warnings)) for card in cards]
        found.sort(key=lambda pair: (pair[1]["index"] is None, pair[1]["index"], pair[0].address))
        for card, gpu in found:
            self._touch(card.address)
            peers = [peer for peer, _ in found if peer is not card and peer.handle is not None]
            gpu["links"] = {peer.uuid: card.link(peer) for peer in peers if card.handle is not None}
            gpu["health"] = card.health
        self._touch("")
        return [gpu for _, gpu in found]


def main() -> None:
    """Print the facts of one machine; exits 1 with one line where the binding is not the one we know."""
    parser = argparse.ArgumentParser(description="Print what this machine is made of, as facts JSON.")
    parser.add_argument("--sys", type=Path, default=Path("/sys"), help="root of sysfs")
    parser.add_argument("--proc", type=Path, default=Path("/proc"), help="root of procfs")
    parser.add_argument("--skip", action="append", default=[], metavar="PCI=REASON", help="do not touch this card")
    parser.add_argument("--without-nvml", default="", metavar="REASON", help="use the kernel's files only")
    parser.add_argument("--progress", action="store_true", help="say on stderr which card is being asked")
    options = parser.parse_args()
    if any(metadata.distributions(name="pynvml")):
        sys.exit("the Python package 'pynvml' hides nvidia-ml-py, as both own the module pynvml: pip uninstall pynvml")
    skip = dict(entry.split("=", 1) for entry in options.skip)
    probe = Probe(Machine(options.sys, options.proc), skip, options.without_nvml, options.progress)
    print(json.dumps(probe.facts()))


if __name__ == "__main__":
    main()
