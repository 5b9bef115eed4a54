"""Facts JSON ⇄ ``HostFacts``: what the probe prints, what a ``Host`` with ``facts: FILE`` is planned on.

Only ``format``, ``hostname``, ``numaNodes`` and ``gpus`` (each with ``uuid``, ``model``, ``memory``) are required.
Unknown keys are left alone, so that an older reconciler can read a newer probe.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from reconciler.model.host import EngineFacts, Gpu, GpuProcess, HostFacts, Link, MigSlice, Nic, NumaNode
from reconciler.model.resources import format_cpus, parse_cpus

FORMAT = "reconciler.facts/v1"
UNKNOWN_START = -1
"""``MigSlice.start`` where the driver does not tell the placement (it needs a permission); ``null`` in JSON."""

T = TypeVar("T")


class FactsError(ValueError):
    """The text is not facts; one line that names the place."""


def facts_from_json(text: str, name: str) -> HostFacts:
    """Facts from the text of one document; ``name`` (a host or a file) begins every message.

    A NUMA node without CPUs is marked ``gpu_memory`` whether or not the text says so: it is a card's own memory, or
    empty (Grace Hopper). A node with CPUs and no memory stays a node to run on (Threadripper NPS4).

    Raises FactsError.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FactsError(f"{name}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise FactsError(f"{name}: host facts are a JSON object")
    try:
        return _host(_Node(document, ""))
    except FactsError as error:
        raise FactsError(f"{name}: {error}") from None


def facts_to_json(facts: HostFacts) -> dict[str, Any]:
    """The facts as a JSON document; reading it again gives equal facts."""
    driver = {"version": facts.driver_version, "cuda": facts.cuda_version, "error": facts.driver_error}
    engine = facts.engine
    document: dict[str, Any] = {
        "format": FORMAT,
        "hostname": facts.hostname,
        "bootId": facts.boot_id,
        "engineId": facts.engine_id,
        "numaNodes": [_numa_node_json(node) for node in facts.numa_nodes],
        "smt": [list(siblings) for siblings in facts.smt],
        "caches": [format_cpus(cpus) for cpus in facts.caches],
        "driver": {key: value for key, value in driver.items() if value},
        "gpus": [_gpu_json(gpu) for gpu in facts.gpus],
        "nics": [{"name": nic.name, "pci": nic.pci, "numaNode": nic.numa_node, "rdma": nic.rdma} for nic in facts.nics],
        "engine": {
            "version": engine.version,
            "apiVersion": engine.api_version,
            "gpuDriver": engine.gpu_driver,
            "cpuset": engine.cpuset,
        },
        "warnings": list(facts.warnings),
    }
    return {key: value for key, value in document.items() if value or key in {"numaNodes", "smt", "gpus"}}


def _numa_node_json(node: NumaNode) -> dict[str, Any]:
    document: dict[str, Any] = {"id": node.id, "cpus": format_cpus(node.cpus), "memory": node.memory}
    if node.socket is not None:
        document["socket"] = node.socket
    if node.distances:
        document["distances"] = {str(peer): distance for peer, distance in node.distances}
    if node.gpu_memory:
        document["gpuMemory"] = True
    return document


def _gpu_json(gpu: Gpu) -> dict[str, Any]:
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "pci": gpu.pci,
        "model": gpu.model,
        "memory": gpu.memory,
        "memoryUsed": gpu.memory_used,
        "processes": [
            {"pid": p.pid, "name": p.name, "user": p.user, "memory": p.memory, "container": p.container}
            for p in gpu.processes
        ],
        "numaNode": gpu.numa_node,
        "links": {link.peer: {"nvlinks": link.nvlinks, "pcie": link.pcie} for link in gpu.links},
        "health": gpu.health,
        "mig": {
            "enabled": gpu.mig_enabled,
            "slices": [
                {"uuid": s.uuid, "profile": s.profile, "start": None if s.start == UNKNOWN_START else s.start}
                for s in gpu.mig_slices
            ],
        },
    }


@dataclass(frozen=True, slots=True)
class _Node:
    """One JSON object and where it stands; each getter checks the type. ``null`` is the same as absent."""

    data: dict[str, Any]
    where: str

    def text(self, key: str, default: str | None = None) -> str:
        return self._value(key, str, "a string", default)

    def flag(self, key: str, *, default: bool = False) -> bool:
        return self._value(key, bool, "true or false", default)

    def number(self, key: str, default: int | None = None) -> int:
        value = self._value(key, int, "a whole number", default)
        if value < 0:
            raise self.fault(key, f"is negative: {value}")
        return value

    def maybe_number(self, key: str) -> int | None:
        return None if self.data.get(key) is None else self.number(key)

    def cpus(self, key: str) -> tuple[int, ...]:
        return _cpus(self.text(key), f"{self.where}{key}")

    def items(self, key: str, *, required: bool = False) -> list[Any]:
        return self._value(key, list, "a list", None if required else [])

    def node(self, key: str) -> "_Node":
        return _Node(self._value(key, dict, "an object", {}), f"{self.where}{key}.")

    def nodes(self, key: str, *, required: bool = False) -> "Iterable[_Node]":
        for index, value in enumerate(self.items(key, required=required)):
            if not isinstance(value, dict):
                raise self.fault(f"{key}[{index}]", "is no object")
            yield _Node(value, f"{self.where}{key}[{index}].")

    def fault(self, key: str, message: str) -> FactsError:
        return FactsError(f"{self.where}{key} {message}")

    def _value(self, key: str, kind: type[T], words: str, default: T | None) -> T:
        value = self.data.get(key)
        if value is None:
            if default is None:
                raise self.fault(key, "is missing")
            return default
        if type(value) is not kind:
            raise self.fault(key, f"is not {words}: {json.dumps(value)[:60]}")
        return value


def _host(node: _Node) -> HostFacts:
    if node.text("format") != FORMAT:
        raise node.fault("format", f"is {node.text('format')!r}; this release reads {FORMAT!r}")
    numa_nodes = tuple(map(_numa_node, node.nodes("numaNodes", required=True)))
    gpus = tuple(map(_gpu, node.nodes("gpus", required=True)))
    _check(numa_nodes, gpus)
    driver = node.node("driver")
    return HostFacts(
        hostname=node.text("hostname"),
        numa_nodes=numa_nodes,
        gpus=gpus,
        boot_id=node.text("bootId", ""),
        engine_id=node.text("engineId", ""),
        smt=_each(node, "smt", _siblings),
        caches=_each(node, "caches", _cpus),
        driver_version=driver.text("version", ""),
        cuda_version=driver.text("cuda", ""),
        driver_error=driver.text("error", ""),
        nics=tuple(map(_nic, node.nodes("nics"))),
        engine=_engine(node.node("engine")),
        warnings=_each(node, "warnings", _line),
    )


def _check(numa_nodes: tuple[NumaNode, ...], gpus: tuple[Gpu, ...]) -> None:
    """Refuse what no machine has: two nodes or cards of one name, a CPU on two nodes, a card on an unknown node."""
    ids = [node.id for node in numa_nodes]
    _unique(ids, "numaNodes: two nodes with id")
    _unique([cpu for node in numa_nodes for cpu in node.cpus], "numaNodes: on two nodes: CPU")
    _unique([gpu.uuid for gpu in gpus], "gpus: two cards with uuid")
    for index, gpu in enumerate(gpus):
        if gpu.numa_node is not None and gpu.numa_node not in ids:
            raise FactsError(f"gpus[{index}].numaNode: there is no node {gpu.numa_node}")


def _unique(values: list[T], message: str) -> None:
    seen: set[T] = set()
    for value in values:
        if value in seen:
            raise FactsError(f"{message} {value}")
        seen.add(value)


def _numa_node(node: _Node) -> NumaNode:
    cpus = node.cpus("cpus")
    distances = node.node("distances")
    for peer in distances.data:
        if not (peer.isascii() and peer.isdigit()):
            raise distances.fault(peer, "is no node id")
    return NumaNode(
        id=node.number("id"),
        cpus=cpus,
        memory=node.number("memory"),
        socket=node.maybe_number("socket"),
        distances=tuple((int(peer), distances.number(peer)) for peer in distances.data),
        gpu_memory=node.flag("gpuMemory") or not cpus,
    )


def _gpu(node: _Node) -> Gpu:
    uuid = node.text("uuid")
    links = node.node("links")
    mig = node.node("mig")
    return Gpu(
        uuid=uuid,
        model=node.text("model"),
        memory=node.number("memory"),
        index=node.maybe_number("index"),
        pci=node.text("pci", ""),
        memory_used=node.number("memoryUsed", 0),
        processes=tuple(map(_process, node.nodes("processes"))),
        numa_node=node.maybe_number("numaNode"),
        links=tuple(_link(peer, links.node(peer)) for peer in links.data),
        health=node.text("health", "ok"),
        mig_enabled=mig.flag("enabled"),
        mig_slices=tuple(_mig_slice(piece, uuid) for piece in mig.nodes("slices")),
    )


def _process(node: _Node) -> GpuProcess:
    return GpuProcess(
        pid=node.number("pid"),
        name=node.text("name", ""),
        user=node.text("user", ""),
        memory=node.number("memory", 0),
        container=node.text("container", "") or None,
    )


def _link(peer: str, node: _Node) -> Link:
    return Link(peer=peer, nvlinks=node.number("nvlinks", 0), pcie=node.text("pcie", ""))


def _mig_slice(node: _Node, gpu: str) -> MigSlice:
    start = node.maybe_number("start")
    return MigSlice(
        uuid=node.text("uuid"),
        profile=node.text("profile"),
        start=UNKNOWN_START if start is None else start,
        gpu=gpu,
    )


def _nic(node: _Node) -> Nic:
    return Nic(
        name=node.text("name"),
        pci=node.text("pci", ""),
        numa_node=node.maybe_number("numaNode"),
        rdma=node.flag("rdma"),
    )


def _engine(node: _Node) -> EngineFacts:
    return EngineFacts(
        version=node.text("version", ""),
        api_version=node.text("apiVersion", ""),
        gpu_driver=node.text("gpuDriver", ""),
        cpuset=node.flag("cpuset", default=True),
    )


def _each(node: _Node, key: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    return tuple(read(value, f"{node.where}{key}[{index}]") for index, value in enumerate(node.items(key)))


def _siblings(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(cpu) is not int or cpu < 0 for cpu in value):
        raise FactsError(f"{where} is not a list of CPU numbers")
    return tuple(value)


def _cpus(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, str):
        raise FactsError(f"{where} is not a string such as 0-3,8")
    try:
        return parse_cpus(value)
    except ValueError as error:
        raise FactsError(f"{where}: {error}") from None


def _line(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise FactsError(f"{where} is not a string")
    return value
