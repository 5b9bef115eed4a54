"""Workloads as git wants them, their instances, and what an instance was given."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any

from reconciler.model.placement import Affinity, AnyHost, Numa, Policy, Preference, Spread
from reconciler.model.resources import GpuRequest, Request

DIGEST_VERSION = "v1"


class Kind(StrEnum):
    """The three kinds of workload, as they stand in identities, names and labels."""

    APP = "app"
    TASK = "task"
    LOCAL_SERVICE = "localservice"


@dataclass(frozen=True, slots=True)
class InstanceId:
    """``app/NAME/INDEX``, ``task/NAME/RUN/INDEX/MEMBER`` or ``localservice/NAME/HOST``.

    ``index`` is the number of an app's copy or of a task's array element, or the host of a local service.
    """

    kind: Kind
    name: str
    index: str
    run: str = ""
    member: int = 0

    def __str__(self) -> str:
        """The identity as it is written everywhere."""
        if self.kind is Kind.TASK:
            return f"task/{self.name}/{self.run}/{self.index}/{self.member}"
        return f"{self.kind}/{self.name}/{self.index}"

    @classmethod
    def parse(cls, text: str) -> "InstanceId":
        """The identity that ``text`` spells. Raises ValueError."""
        parts = text.split("/")
        match parts:
            case ["app" | "localservice", name, index] if name and index:
                return cls(Kind(parts[0]), name, index)
            case ["task", name, run, index, member] if name and run and index and member.isdigit():
                return cls(Kind.TASK, name, index, run, int(member))
        raise ValueError(
            f"not an instance: {text!r} (write app/NAME/INDEX, task/NAME/RUN/INDEX/MEMBER or localservice/NAME/HOST)"
        )

    @property
    def workload(self) -> str:
        """``kind/name``: what policies count."""
        return f"{self.kind}/{self.name}"

    @property
    def sort_key(self) -> tuple[str, str, str, int, str, int]:
        """A total order in which app/x/2 comes before app/x/10."""
        number = int(self.index) if self.index.isdigit() else -1
        return (self.kind, self.name, self.run, number, self.index, self.member)

    def container_name(self, cluster: str, generation: int) -> str:
        """``CLUSTER.KIND.NAME.INDEX.gN``: the name is the lock, so it is the same for every creator."""
        index = f"{self.run}.{self.index}.{self.member}" if self.kind is Kind.TASK else self.index
        return f"{cluster}.{self.kind}.{self.name}.{index}.g{generation}"


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Where a value is kept; the value itself never enters the model."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class Port:
    """A published port; ``host`` None means any free one. ``protocol`` is tcp, udp or sctp."""

    container: int
    name: str = ""
    host: int | None = None
    host_ip: str = ""
    protocol: str = "tcp"


@dataclass(frozen=True, slots=True)
class Volume:
    """A bind mount (``host`` is a path) or a named volume."""

    container: str
    host: str = ""
    volume: str = ""
    read_only: bool = False
    propagation: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file from git, put into the container before it starts. ``content`` stays out of labels; its sha256 is in."""

    container: str
    sha256: str
    mode: int = 0o444
    content: bytes = field(default=b"", repr=False, compare=False, metadata={"canonical": False})


@dataclass(frozen=True, slots=True)
class SecretFile:
    """A secret as a file, put into the container before it starts."""

    container: str
    secret: SecretRef
    mode: int = 0o444


@dataclass(frozen=True, slots=True)
class Tmpfs:
    """A tmpfs of ``size`` bytes (0: the daemon's default)."""

    container: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Device:
    """A host device handed in; permissions as in Docker, a subset of ``rwm``."""

    host: str
    container: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class Ulimit:
    """Soft and hard are equal; -1 is unlimited."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A command run inside the container by the Engine; times in seconds."""

    command: tuple[str, ...]
    interval: float = 10.0
    timeout: float = 5.0
    retries: int = 3
    start_period: float = 0.0


@dataclass(frozen=True, slots=True)
class Logging:
    """Docker's log driver and its options."""

    driver: str = "json-file"
    options: tuple[tuple[str, str], ...] = (("max-file", "3"), ("max-size", "10m"))


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """The *recreate* fields: changing one makes a new container. Unset is the image's or the daemon's default."""

    image: str
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    working_dir: str = ""
    user: str = ""
    group_add: tuple[str, ...] = ()
    env: tuple[tuple[str, str | SecretRef], ...] = ()
    init: bool = False
    gpus: GpuRequest | None = None
    shm: int | None = None
    ulimits: tuple[Ulimit, ...] = ()
    network: str = "bridge"
    aliases: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    volumes: tuple[Volume, ...] = ()
    configs: tuple[ConfigFile, ...] = ()
    secret_files: tuple[SecretFile, ...] = ()
    tmpfs: tuple[Tmpfs, ...] = ()
    devices: tuple[Device, ...] = ()
    ipc: str = ""
    pid: str = ""
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    privileged: bool = False
    runtime: str = ""
    hostname: str = ""
    dns: tuple[str, ...] = ()
    extra_hosts: tuple[str, ...] = ()
    logging: Logging = field(default_factory=Logging)
    health: HealthCheck | None = None
    stop_signal: str = ""
    rdma: bool = False


def canonical(value: Any) -> Any:
    """JSON-ready form of a spec in which every default is left out, so that a field added later changes no digest.

    A secret stands as its reference; the content of a config file as its sha256.
    """
    if is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Any] = {"type": type(value).__name__} if isinstance(value, GpuRequest) else {}
        for item in fields(value):
            if not item.metadata.get("canonical", True):
                continue
            current = getattr(value, item.name)
            default = item.default_factory() if item.default_factory is not MISSING else item.default
            if (item.default is MISSING and item.default_factory is MISSING) or current != default:
                out[item.name] = canonical(current)
        return out
    if isinstance(value, tuple):
        return [canonical(part) for part in value]
    return value


def canonical_json(value: Any) -> str:
    """One spelling for one value: sorted keys, no spaces."""
    return json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest_of(spec: Mapping[str, Any]) -> str:
    """``v1:`` and the sha256 of a canonical form (that of a spec merged with its host's env)."""
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{DIGEST_VERSION}:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Rollout:
    """How a replacement goes. Times in seconds; ``order`` is auto, start-first or stop-first."""

    order: str = "auto"
    healthy_for: float = 3.0
    deadline: float = 600.0


@dataclass(frozen=True, slots=True)
class Workload:
    """One App, Task or LocalService.

    ``container`` holds the *recreate* fields; cores and memory of ``request``, ``pids`` and ``restart`` (Docker's word)
    are the *update* fields, changed in place; the rest is *scheduling* and restarts nothing. ``source`` is
    ``file:line``.
    """

    kind: Kind
    name: str
    container: ContainerSpec
    request: Request = field(default_factory=Request)
    pids: int | None = None
    restart: str = "always"
    # scheduling
    instances: int = 1
    run: str = ""
    on_change: str = "finish"
    policy: Policy = field(default_factory=AnyHost)
    prefer: tuple[Preference, ...] = ()
    spread: tuple[Spread, ...] = ()
    affinity: tuple[Affinity, ...] = ()
    numa: Numa = Numa.PREFER
    pull: str = "missing"
    rollout: Rollout = field(default_factory=Rollout)
    grace_period: float = 10.0
    suspend: bool = False
    priority: int = 0
    owner: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    source: str = ""

    @property
    def identity(self) -> str:
        """``kind/name``."""
        return f"{self.kind}/{self.name}"


def spec_on_host(container: ContainerSpec, host_env: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Canonical *recreate* form of ``container`` on a host that adds ``host_env`` (the workload's own env wins)."""
    form: dict[str, Any] = canonical(container)
    form.pop("env", None)
    env = dict(host_env) | dict(container.env)
    if env:
        form["env"] = {key: canonical(value) for key, value in sorted(env.items())}
    return form


@dataclass(frozen=True, slots=True)
class Slice:
    """A MIG slice in an allocation. ``uuid`` is empty until it is cut."""

    gpu: str
    profile: str
    start: int
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """Part of a card in an allocation: ``milli`` thousandths of it, ``memory`` bytes of its memory."""

    gpu: str
    milli: int
    memory: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one instance was given on one host. Everything is sorted.

    ``cpus`` are the logical CPUs in its cpuset, ``memory_nodes`` what its memory is bound to (empty: not bound),
    ``ports`` host ports by (container port, protocol), ``memory`` bytes. Exclusive work owns its ``cpus``; shared work
    has a quota of ``millicpus`` (thousandths of a core) on them.
    """

    gpus: tuple[str, ...] = ()
    mig: tuple[Slice, ...] = ()
    share: Share | None = None
    gpu_nodes: tuple[int, ...] = ()
    cpu_nodes: tuple[int, ...] = ()
    memory_nodes: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    exclusive: bool = True
    memory: int = 0
    ports: tuple[tuple[int, str, int], ...] = ()
    millicpus: int = 0
