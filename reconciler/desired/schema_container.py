"""Parts of a workload: what its container is given, how it is watched. Attribute docstrings go into the JSON Schema."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from reconciler.desired.forms import (
    LATER,
    WRITTEN,
    AbsolutePath,
    Bool,
    Duration,
    FileMode,
    Form,
    MainMemory,
    Memory,
    Millicpus,
    MountPath,
    Natural,
    Period,
    PortNumber,
    Positive,
    RelativePath,
    SecretName,
    Strict,
    Text,
    matching,
    no_entries,
)
from reconciler.desired.scalars import Plain
from reconciler.desired.schema_gpus import Gpus

VolumeName = Annotated[
    str, matching(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*", "must be the name of a volume: letters, digits, _, . and -")
]
PortName = Annotated[
    str, matching(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", "must be a-z, 0-9 and -, beginning with a letter")
]
Permissions = Annotated[str, matching(r"(?=.)r?w?m?", "must be of r, w and m, in this order")]
Signal = Annotated[str, matching(r"SIG[A-Z0-9+-]+|[0-9]{1,2}", "must be a signal such as SIGTERM or 15")]


def _limit(value: Any) -> Any:
    number = value.value if type(value) is Plain else -1 if value == "unlimited" else value
    if type(number) is not int or not -1 <= number < 2**63:
        raise ValueError("must be a number or unlimited")
    return number


def _port(value: Any) -> Any:
    port = value.value if type(value) is Plain else value
    if not (isinstance(port, str) or (type(port) is int and 1 <= port <= 65535)):
        raise ValueError("must be the name or number of a port")
    return str(port)


Limit = Annotated[
    int,
    Form(_limit, {"anyOf": [{"const": "unlimited"}, {"type": "integer", "minimum": -1, "exclusiveMaximum": 2**63}]}),
]
PortReference = Annotated[
    str, Form(_port, {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1, "maximum": 65535}]})
]


class SecretRef(Strict):
    """A value that is kept outside git."""

    secret: SecretName
    """Name of the secret: a folder under `Cluster.secrets.directory`."""
    key: SecretName
    """Key inside the secret: a file in that folder."""


def _form(value: Any) -> str:
    return "map" if isinstance(value, dict | SecretRef) else "text"


def _text_or_secret(value: Any) -> Any:
    if isinstance(value, str | dict | SecretRef):
        return value
    raise ValueError("must be a string or {secret: NAME, key: KEY}")


EnvValue = Annotated[
    Annotated[str, Tag("(text)")] | Annotated[SecretRef, Tag("(map)")],
    Discriminator(lambda value: f"({_form(value)})"),
    Form(_text_or_secret),
]


class Resources(Strict):
    """What one instance asks of its host."""

    cpus: Millicpus = 1000
    """Cores (logical CPUs); a whole number is exclusive unless `cpuPolicy` says otherwise. Default 1."""
    cpu_policy: Literal["exclusive", "shared"] | None = None
    """`exclusive`: cores of its own; `shared`: a quota on cores that nobody owns, the only choice for a fraction."""
    memory: MainMemory = 512 * 1024**2
    """Main memory. Default 512Mi."""
    shm: Memory | None = None
    """Size of /dev/shm; the Engine's default is 64Mi."""
    gpus: Gpus = 0
    """Cards: a count, `all`, or a map with `count`, `mig`, `share`, `sharedMemory` or `observe: all`."""
    rdma: Bool = False
    """RDMA network cards: /dev/infiniband, IPC_LOCK and memlock without a limit. Needs a security profile."""
    ulimits: dict[str, Limit] = Field(default_factory=no_entries)
    """Limits by name (`memlock`, `nofile`): a number or `unlimited`."""
    pids: Positive | None = None
    """Most processes and threads."""


class Port(Strict):
    """A published port."""

    name: PortName = ""
    """Name, given to the container as `PORT_<name>`."""
    container: PortNumber
    """Port inside the container."""
    host: PortNumber | None = None
    """Port on the host; left out: any free one."""
    host_ip: str = ""
    """Address of the host to bind to; left out: all."""
    protocol: Literal["tcp", "udp", "sctp"] = "tcp"
    """Transport protocol."""


class Volume(Strict):
    """A folder of the host, or a named volume."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["host"]}, {"required": ["volume"]}],
            "if": {"required": ["volume"]},
            "then": {"properties": {"propagation": {"const": ""}}},
        }
    )

    host: MountPath = ""
    """Absolute path on the host; needs a security profile."""
    volume: VolumeName = ""
    """Name of a volume; it lives on one host, and its instance stays there."""
    container: MountPath
    """Absolute path in the container."""
    read_only: Bool = False
    """Whether the container may only read it."""
    propagation: Literal["", "private", "rprivate", "shared", "rshared", "slave", "rslave"] = ""
    """Mount propagation of a host path, as in Docker."""

    @model_validator(mode="after")
    def one_source(self) -> "Volume":
        """Exactly one of the two sources."""
        if bool(self.host) == bool(self.volume):
            raise ValueError("takes one of host and volume")
        if self.volume and self.propagation:
            raise ValueError("propagation is for a host path only")
        return self


class Config(Strict):
    """A file of the repository, put into the container before it starts."""

    file: RelativePath
    """Path relative to the file that names it."""
    container: AbsolutePath
    """Absolute path in the container."""
    mode: FileMode = 0o444
    """Octal mode, quoted. Default "0444"."""


class SecretFile(Strict):
    """A secret put into the container as a file before it starts."""

    secret: SecretName
    """Name of the secret."""
    key: SecretName
    """Key inside the secret."""
    container: AbsolutePath
    """Absolute path in the container."""


class Tmpfs(Strict):
    """A file system in memory."""

    container: AbsolutePath
    """Absolute path in the container."""
    size: Memory = 0
    """Size; 0 is the Engine's default."""


class Device(Strict):
    """A device of the host; needs a security profile."""

    host: MountPath
    """Absolute path on the host."""
    container: AbsolutePath = ""
    """Absolute path in the container; the same if left out."""
    permissions: Permissions = "rwm"
    """Of r (read), w (write) and m (make nodes)."""


class Logging(Strict):
    """Docker's log driver."""

    driver: Text = "json-file"
    """Name of the driver."""
    options: dict[str, str] = Field(default_factory=no_entries)
    """Options of the driver; json-file rotates at 10 MB and keeps 3 files unless they say otherwise."""


class HttpCheck(Strict):
    """An HTTP request that must be answered."""

    port: PortReference
    """Name or number of a port."""
    path: AbsolutePath = "/"
    """Path of the request."""
    scheme: Literal["http", "https"] = "http"
    """Protocol."""
    status: Annotated[int, Field(ge=100, le=599), WRITTEN] | None = None
    """Status that is good; left out: 200 to 399."""


class TcpCheck(Strict):
    """A connection that must be accepted."""

    port: PortReference
    """Name or number of a port."""


class Check(Strict):
    """How an instance is seen to be ready or healthy: one of `exec`, `http` and `tcp`."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
                for name in ("exec", "http", "tcp")
            ]
        }
    )

    exec: Annotated[list[str], Field(min_length=1)] | None = None
    """Command run inside the container by the Engine; exit code 0 is good."""
    http: Annotated[HttpCheck | None, LATER] = None
    """An HTTP request."""
    tcp: Annotated[TcpCheck | None, LATER] = None
    """A TCP connection."""
    interval: Period = 10.0
    """Time between two checks. Default 10s."""
    timeout: Period = 5.0
    """Time until a check counts as failed. Default 5s."""
    retries: Positive = 3
    """Failures in a row until it counts as unhealthy. Default 3."""
    start_period: Duration = 0.0
    """Time after the start in which failures do not count. Default 0s."""

    @model_validator(mode="after")
    def one_form(self) -> "Check":
        """Exactly one way to look."""
        if sum(part is not None for part in (self.exec, self.http, self.tcp)) != 1:
            raise ValueError("takes one of exec, http and tcp")
        return self


class Stop(Strict):
    """How an instance is stopped."""

    signal: Signal = ""
    """Signal that asks the process to end; left out: the image's, else SIGTERM."""
    grace_period: Duration = 10.0
    """Time until it is killed. Default 10s."""
    pre_stop: Annotated[list[str] | None, LATER] = None
    """Command run inside the container before the signal."""


class Rollout(Strict):
    """How a changed instance is replaced."""

    order: Literal["auto", "start-first", "stop-first"] = "auto"
    """`auto`: start-first if other cards are free, else stop-first."""
    max_unavailable: Positive = 1
    """Instances that may be down at a time. Anything but 1 is not supported yet."""
    max_surge: Annotated[Natural | None, LATER] = None
    """Instances that may run above the number wanted."""
    healthy_for: Duration = 3.0
    """How long the new one must be good without a break. Default 3s."""
    deadline: Period | None = None
    """Time from its start (pulls excluded) until it must be ready. Default: 10m after the start period."""
    on_failure: Literal["stop", "rollback"] = "stop"
    """What to do when the new one fails: `stop` leaves the old one. `rollback` is not supported yet."""
