"""Hosts: what git says of them (HostSpec) and what was found there (HostFacts)."""

from dataclasses import dataclass, field
from enum import StrEnum


class HostState(StrEnum):
    """What git wants of a host."""

    ACTIVE = "active"
    CORDONED = "cordoned"
    DRAINED = "drained"


class GpuMode(StrEnum):
    """Who rations the cards of a host."""

    MANAGED = "managed"
    PASSTHROUGH = "passthrough"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A ``Host`` document. ``reserved_cpus`` are CPU numbers, ``reserved_memory`` bytes; both are kept from all work.

    With ``mig_create`` new slices may be planned on cards that have MIG enabled. ``facts_json`` is the text of the file
    that replaces the probe, ``facts_path`` its path for messages.
    """

    name: str
    engine: str
    address: str = ""
    tags: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    reserved_cpus: tuple[int, ...] = ()
    reserved_memory: int = 0
    state: HostState = HostState.ACTIVE
    gpu_mode: GpuMode = GpuMode.MANAGED
    gpus_excluded: tuple[str, ...] = ()
    mig_create: bool = False
    ignore_containers: tuple[str, ...] = ()
    facts_json: str | None = None
    facts_path: str = ""


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node. ``cpus`` are online logical CPUs, ``memory`` is bytes, ``distances`` go to other node ids.

    A node that is a GPU's own memory (or empty) has ``gpu_memory`` and offers nothing to place on.
    """

    id: int
    cpus: tuple[int, ...]
    memory: int
    socket: int | None = None
    distances: tuple[tuple[int, int], ...] = ()
    gpu_memory: bool = False


@dataclass(frozen=True, slots=True)
class MigSlice:
    """One existing MIG slice; ``start`` is its first memory slice, ``gpu`` the UUID of its card."""

    uuid: str
    profile: str
    start: int
    gpu: str


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that NVML sees on a card; ``container`` is the id of its container when it has one."""

    pid: int
    name: str = ""
    user: str = ""
    memory: int = 0
    container: str | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """How two cards are joined: number of NVLinks, and the PCIe level (board ... system)."""

    peer: str
    nvlinks: int = 0
    pcie: str = ""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card. Memory in bytes; ``numa_node`` is None when unknown; ``health`` is ``ok`` or a reason in words."""

    uuid: str
    model: str
    memory: int
    index: int | None = None
    pci: str = ""
    memory_used: int = 0
    processes: tuple[GpuProcess, ...] = ()
    numa_node: int | None = None
    links: tuple[Link, ...] = ()
    health: str = "ok"
    mig_enabled: bool = False
    mig_slices: tuple[MigSlice, ...] = ()


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card."""

    name: str
    pci: str = ""
    numa_node: int | None = None
    rdma: bool = False


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the Engine says of itself; empty strings where nobody asked it."""

    version: str = ""
    api_version: str = ""
    gpu_driver: str = ""
    cpuset: bool = True


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a probe found on one host. ``smt`` groups sibling CPUs; a CPU in no group is a core of its own."""

    hostname: str
    numa_nodes: tuple[NumaNode, ...]
    gpus: tuple[Gpu, ...]
    boot_id: str = ""
    engine_id: str = ""
    smt: tuple[tuple[int, ...], ...] = ()
    caches: tuple[tuple[int, ...], ...] = ()
    driver_version: str = ""
    cuda_version: str = ""
    driver_error: str = ""
    nics: tuple[Nic, ...] = ()
    engine: EngineFacts = field(default_factory=EngineFacts)
    warnings: tuple[str, ...] = ()

    @property
    def cpus(self) -> tuple[int, ...]:
        """Every logical CPU of the host, sorted."""
        return tuple(sorted(cpu for node in self.numa_nodes for cpu in node.cpus))

    @property
    def memory(self) -> int:
        """Bytes of host memory; memory that belongs to a card is left out."""
        return sum(node.memory for node in self.numa_nodes if not node.gpu_memory)
