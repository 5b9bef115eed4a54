"""What the simulated Engine refuses, in the words of the real one (Engine 20.10)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.engine.simulated_life import Life, Record
from reconciler.model.host import HostFacts
from reconciler.model.resources import format_cpus, parse_cpus

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
_LEAST_MEMORY = 6 * 1024**2
_POLICIES = {"", "no", "always", "unless-stopped", "on-failure"}
_UPDATED = frozenset(
    ("BlkioWeight", "CpuPeriod", "CpuQuota", "CpuShares", "CpusetCpus", "CpusetMems", "Memory", "MemoryReservation")
) | {"MemorySwap", "NanoCpus"}
_EPHEMERAL = range(32768, 61000)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a simulated host is made of. ``gpus`` are the ids its cards and slices are asked for by; None takes any."""

    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    memory: int
    gpus: frozenset[str] | None = None

    @classmethod
    def of(cls, facts: HostFacts) -> "Machine":
        """The machine that ``facts`` describe."""
        ids = {gpu.uuid for gpu in facts.gpus} | {piece.uuid for gpu in facts.gpus for piece in gpu.mig_slices}
        return cls(facts.cpus, tuple(node.id for node in facts.numa_nodes), facts.memory, frozenset(ids))


BOUNDLESS = Machine(tuple(range(1024)), tuple(range(64)), 2**42)
"""A host without facts: large enough for anything."""


class Refusal(Exception):  # noqa: N818 - it is the Engine's answer, not a fault of ours
    """An HTTP status and the Engine's message."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


def check_body(body: Mapping[str, Any], machine: Machine) -> None:
    """Refuse a create body as the Engine does before it looks at the image or the name (400; 500 for a bind)."""
    host = body.get("HostConfig") or {}
    check_resources(host, machine)
    check_policy(host.get("RestartPolicy") or {})
    for bind in host.get("Binds") or ():
        source, _, rest = bind.partition(":")
        target = rest.partition(":")[0]
        if source and not target.startswith("/"):
            reason = f"invalid mount path: '{target}' mount path must be absolute"
            raise Refusal(
                500, f"invalid volume specification: '{bind}': invalid mount config for type \"bind\": {reason}"
            )


def check_name(name: str) -> None:
    """Refuse what is no container name (400)."""
    if not _NAME.fullmatch(name):
        raise Refusal(400, f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed")


def check_resources(fields: Mapping[str, Any], machine: Machine) -> None:
    """Refuse resources beyond the machine, of a create body's HostConfig or an update (400)."""
    _check_list(fields.get("CpusetCpus") or "", machine.cpus, "CPUs", "cpus")
    _check_list(fields.get("CpusetMems") or "", machine.nodes, "memory nodes", "mems")
    count = len(machine.cpus)
    if not 0 <= (fields.get("NanoCpus") or 0) <= count * 10**9:
        raise Refusal(400, f"Range of CPUs is from 0.01 to {count}.00, as there are only {count} CPUs available")
    if 0 < (fields.get("Memory") or 0) < _LEAST_MEMORY:
        raise Refusal(400, "Minimum memory limit allowed is 6MB")


def check_policy(policy: Mapping[str, Any]) -> None:
    """Refuse what is no restart policy (400)."""
    name, retries = policy.get("Name") or "", policy.get("MaximumRetryCount") or 0
    if name not in _POLICIES:
        raise Refusal(400, f"invalid restart policy '{name}'")
    if retries and name != "on-failure":
        raise Refusal(400, f"maximum retry count cannot be used with restart policy '{name}'")


def check_removal(record: Record, life: Life) -> None:
    """Refuse to remove a container that lives, unless it is forced (409)."""
    if life.running:
        raise Refusal(
            409,
            f"You cannot remove a {life.status} container {record['id']}. "
            "Stop the container before attempting removal or force remove",
        )


def merged(record: Record, fields: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """The HostConfig after an update. Zeros and unknown fields change nothing, and nobody is told."""
    check_resources(fields, machine)
    host = dict(record["body"].get("HostConfig") or {})
    swap = host.get("MemorySwap") or 2 * (host.get("Memory") or 0)
    if (fields.get("Memory") or 0) > swap and not fields.get("MemorySwap"):
        raise Refusal(
            409,
            f"Cannot update container {record['id']}: Memory limit should be smaller than already "  # noqa: S608 - no SQL
            "set memoryswap limit, update the memoryswap at the same time",
        )
    if swap:
        host["MemorySwap"] = swap
    host |= {key: fields[key] for key in sorted(_UPDATED) if fields.get(key)}
    if fields.get("PidsLimit") is not None:
        host["PidsLimit"] = max(0, fields["PidsLimit"])
    policy = fields.get("RestartPolicy") or {}
    if policy.get("Name"):
        check_policy(policy)
        host["RestartPolicy"] = dict(policy)
    return host


def check_devices(record: Record, machine: Machine) -> None:
    """Refuse device requests that cannot be met: at start, not at create (500)."""
    for request in (record["body"].get("HostConfig") or {}).get("DeviceRequests") or ():
        driver, ids = request.get("Driver") or "", request.get("DeviceIDs") or []
        capabilities = request.get("Capabilities") or []
        if driver not in {"", "nvidia"} or not any("gpu" in group for group in capabilities):
            shown = "[" + " ".join(f"[{' '.join(group)}]" for group in capabilities) + "]"
            raise Refusal(500, f'could not select device driver "{driver}" with capabilities: {shown}')
        if request.get("Count") and ids:
            raise Refusal(500, "cannot set both Count and DeviceIDs on device request")
        unknown = [] if machine.gpus is None else [name for name in ids if name not in machine.gpus | {"all"}]
        if unknown:
            raise Refusal(
                500,
                "failed to create shim task: OCI runtime create failed: runc create failed: nvidia-container-cli: "
                f"device error: {unknown[0]}: unknown device: unknown",
            )


def bound_ports(record: Record, others: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Host ports of a container that starts, as ``NetworkSettings.Ports`` shows them. Refuses a taken one (500).

    ``others`` are the maps of the containers that run. Only exposed ports are published (as on 20.10).
    """
    host = record["body"].get("HostConfig") or {}
    if host.get("NetworkMode") in {"host", "none"}:
        return {}
    taken = [
        (key.rpartition("/")[2], int(bound["HostPort"]), bound["HostIp"])
        for ports in others
        for key, bindings in ports.items()
        for bound in bindings or ()
    ]
    found: dict[str, Any] = {}
    for key in record["body"].get("ExposedPorts") or {}:
        wanted = (host.get("PortBindings") or {}).get(key) or []
        protocol = key.rpartition("/")[2]
        found[key] = [shown for bound in wanted for shown in _bind(record, protocol, bound, taken)] or None
    return found


def _bind(
    record: Record, protocol: str, bound: Mapping[str, Any], taken: list[tuple[str, int, str]]
) -> list[dict[str, str]]:
    address = bound.get("HostIp") or "0.0.0.0"  # noqa: S104 - what the Engine shows
    wanted = int(bound.get("HostPort") or 0)
    for port in [wanted] if wanted else _EPHEMERAL:
        if not any(_clash((protocol, port, address), other) for other in taken):
            taken.append((protocol, port, address))
            everywhere = [address] if bound.get("HostIp") else [address, "::"]
            return [{"HostIp": shown, "HostPort": str(port)} for shown in everywhere]
    raise Refusal(
        500,
        f"driver failed programming external connectivity on endpoint {record['name']} ({record['id']}): "
        f"Bind for {address}:{wanted} failed: port is already allocated",
    )


def _clash(one: tuple[str, int, str], other: tuple[str, int, str]) -> bool:
    anywhere = {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound
    return one[:2] == other[:2] and (one[2] == other[2] or bool(anywhere & {one[2], other[2]}))


def _check_list(text: str, there: tuple[int, ...], what: str, kind: str) -> None:
    try:
        wanted = parse_cpus(text)
    except ValueError as error:
        raise Refusal(400, f"Invalid value {text} for cpuset {kind}: invalid format: {text}") from error
    if not set(wanted) <= set(there):
        raise Refusal(400, f"Requested {what} are not available - requested {text}, available: {format_cpus(there)}")
