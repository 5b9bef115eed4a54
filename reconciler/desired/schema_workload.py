"""App, Task and LocalService. Attribute docstrings go into the JSON Schema."""

from typing import Annotated, Any, Literal

from pydantic import Field

from reconciler.desired.forms import (
    LATER,
    WRITTEN,
    AbsolutePath,
    ApiVersion,
    Bool,
    Duration,
    EnvName,
    ImageName,
    Int,
    Line,
    Name,
    Natural,
    Positive,
    Strict,
    Text,
    matching,
    no_entries,
    no_items,
)
from reconciler.desired.schema_container import (
    Check,
    Config,
    Device,
    EnvValue,
    Logging,
    Port,
    Resources,
    Rollout,
    SecretFile,
    Stop,
    Tmpfs,
    Volume,
)
from reconciler.desired.schema_placement import Affinity, Policy, Preference, Spread

RunName = Annotated[
    str, matching(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}", "must be letters, digits, _, . and -, at most 63 characters")
]
NetworkName = Annotated[
    str, matching(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*", "must be bridge, host, none or the name of a network")
]


Ipc = Annotated[
    str,
    matching(r"|none|private|shareable|host|container:.+", "must be none, private, shareable, host or container:NAME"),
]
Pid = Annotated[str, matching(r"|host|container:.+", "must be host or container:NAME")]
HostName = Annotated[
    str,
    matching(
        r"([a-zA-Z0-9]([-a-zA-Z0-9.]{0,61}[a-zA-Z0-9])?)?",
        "must be a host name: letters, digits, - and ., at most 63 characters",
    ),
]
ExtraHost = Annotated[str, matching(r"[^:\s]+:\S+", "must be NAME:ADDRESS")]


class Schedule(Strict):
    """When a task runs."""

    cron: Text
    """Cron expression of five fields."""
    time_zone: Text = "UTC"
    """Time zone of the expression."""
    missed: Literal["skip", "run"] = "skip"
    """What becomes of a time at which nothing could run it."""
    overlap: Literal["skip", "wait", "allow"] = "skip"
    """What becomes of a time at which the last run still goes on."""


class Workload(Strict):
    """App, Task and LocalService in one form; ``ONLY`` says which fields only some of them have.

    One model and not three that inherit: pydantic looks at every field of every class when the program starts.
    """

    api_version: ApiVersion
    """Version of these formats."""
    kind: Literal["App", "Task", "LocalService"]
    """What it is."""
    name: Name
    """Name, unique among its kind."""
    owner: Line = ""
    """Who to ask; shown wherever a card is shown."""
    labels: dict[Line, Line] = Field(default_factory=no_entries)
    """Labels of the workload, for rules and people; they restart nothing."""
    image: ImageName
    """Image reference or digest."""
    pull: Literal["missing", "always", "never"] = "missing"
    """When to fetch the image."""
    command: list[str] | None = None
    """Entrypoint; left out: the image's."""
    args: list[str] | None = None
    """Arguments; left out: the image's."""
    working_dir: AbsolutePath = ""
    """Working directory; left out: the image's."""
    user: str = ""
    """User and group (`1000:1000`); left out: the image's."""
    group_add: list[Text] = Field(default_factory=no_items)
    """Further groups."""
    env: dict[EnvName, EnvValue] = Field(default_factory=no_entries)
    """Environment: strings, or `{secret: NAME, key: KEY}`."""
    init: Bool = False
    """Whether a small init reaps zombies as process 1."""
    resources: Resources = Field(default_factory=Resources.model_construct)
    """What one instance asks of its host."""
    placement_policy: Policy | None = None
    """Which hosts it may run on. Default `ANY`, of a LocalService `LOCAL`."""
    numa: Literal["prefer", "require", "require-socket", "none"] = "prefer"
    """How strictly cards, cores and memory must share a NUMA node."""
    prefer: list[Preference] = Field(default_factory=no_items)
    """Hosts that are better than others: policies with a weight. They rule out none."""
    spread: list[Spread] = Field(default_factory=no_items)
    """What to spread instances over."""
    affinity: list[Affinity] = Field(default_factory=no_items)
    """Workloads to be near to."""
    anti_affinity: list[Affinity] = Field(default_factory=no_items)
    """Workloads to be away from."""
    topology: Annotated[Any, LATER] = None
    """Where the members of a gang must be to one another."""
    network: NetworkName = "bridge"
    """`bridge`, `host`, `none` or the name of a network of the host."""
    aliases: list[Text] = Field(default_factory=no_items)
    """Further names in a named network."""
    ports: list[Port] = Field(default_factory=no_items)
    """Published ports."""
    volumes: list[Volume] = Field(default_factory=no_items)
    """Folders of the host and named volumes."""
    configs: list[Config] = Field(default_factory=no_items)
    """Files of the repository."""
    secret_files: list[SecretFile] = Field(default_factory=no_items)
    """Secrets as files."""
    tmpfs: list[Tmpfs] = Field(default_factory=no_items)
    """File systems in memory."""
    devices: list[Device] = Field(default_factory=no_items)
    """Devices of the host."""
    ipc: Ipc = ""
    """IPC namespace, as in Docker."""
    pid: Pid = ""
    """PID namespace, as in Docker."""
    cap_add: list[Text] = Field(default_factory=no_items)
    """Capabilities to add."""
    cap_drop: list[Text] = Field(default_factory=no_items)
    """Capabilities to take away."""
    security_opt: list[Text] = Field(default_factory=no_items)
    """Security options, as in Docker."""
    privileged: Bool = False
    """Every right on the host, and every card."""
    runtime: str = ""
    """OCI runtime; left out: the Engine's default."""
    hostname: HostName = ""
    """Host name inside the container; left out: the container's id."""
    dns: list[Text] = Field(default_factory=no_items)
    """Addresses of name servers."""
    extra_hosts: list[ExtraHost] = Field(default_factory=no_items)
    """Further lines of /etc/hosts, as `name:address`."""
    logging: Logging = Field(default_factory=Logging.model_construct)
    """Log driver."""
    stop: Stop = Field(default_factory=Stop.model_construct)
    """How an instance is stopped."""
    on_host_lost: Literal["wait", "replace"] = "wait"
    """What becomes of the instances of a lost host. `replace` is not supported yet."""
    queue: Annotated[Name | None, LATER] = None
    """Queue whose quota it counts against."""
    priority: Int = 0
    """Order of pending work: higher first."""
    wave: Annotated[Int | None, LATER] = None
    """Order of rollouts: lower first."""
    depends_on: Annotated[list[Text], LATER] = Field(default_factory=no_items)
    """Workloads that must be ready first."""
    suspend: Bool = False
    """Whether it is stopped on purpose."""
    protect: Annotated[Bool | None, LATER] = None
    """Whether the plan must never stop or replace it."""
    drift: Annotated[Any, LATER] = None
    """What to do about a container that was changed by hand."""
    expires: Annotated[str | None, LATER] = None
    """Time after which it is stopped."""
    restart: Literal["always", "on-failure", "never"] | None = None
    """What the Engine does when the process ends: `always` (default of App and LocalService), `never` (of Task)."""
    readiness: Check | None = None
    """How a new instance is seen to be ready."""
    health: Check | None = None
    """How a running instance is seen to be healthy."""
    rollout: Rollout = Field(default_factory=Rollout.model_construct)
    """How a changed instance is replaced."""
    instances: Annotated[int, Field(ge=0, le=10_000), WRITTEN] = 1
    """How many copies run."""
    run: RunName | None = None
    """Name of this run; left out: a short digest of this document. A finished run never runs again."""
    on_change: Literal["finish", "restart"] = "finish"
    """What an edit does to a run that is going on."""
    members: Positive = 1
    """Size of a gang: all start, or none. More than 1 is not supported yet."""
    retries: Annotated[Natural | None, LATER] = None
    """How often a failed run is tried again."""
    deadline: Annotated[Duration | None, LATER] = None
    """Time after which a run is stopped."""
    array: Annotated[Any, LATER] = None
    """Runs it once for each element."""
    schedule: Annotated[Schedule | None, LATER] = None
    """When it runs."""
    ttl: Annotated[Duration | None, LATER] = None
    """Time after which a finished run's container is removed."""
    gang: Annotated[Any, LATER] = None
    """How the members of a gang go together."""

    @property
    def identity(self) -> str:
        """``kind/name``, as the globs of security profiles see it."""
        return f"{self.kind.lower()}/{self.name}"


_SERVICES = frozenset({"App", "LocalService"})
_PLACED = frozenset({"App", "Task"})  # a LocalService runs on every matching host
# Fields that only some kinds have; every other field belongs to all three.
ONLY = {
    **dict.fromkeys(("readiness", "health", "rollout"), _SERVICES),
    **dict.fromkeys(("prefer", "spread", "affinity", "antiAffinity"), _PLACED),
    "instances": frozenset({"App"}),
    **dict.fromkeys(
        ("run", "onChange", "members", "retries", "deadline", "array", "schedule", "ttl", "gang"), frozenset({"Task"})
    ),
}
REQUIRED = {"App": ("instances",), "Task": (), "LocalService": ()}
RESTARTS = {"App": ("always", "on-failure"), "Task": ("never", "on-failure"), "LocalService": ("always", "on-failure")}
KINDS = {
    "App": "A service of `instances` copies, kept running.",
    "Task": "Runs to completion, once per run.",
    "LocalService": "One copy on every matching host.",
}


def field_names(kind: str) -> set[str]:
    """Names of the fields of a kind, as they are written."""
    names = {info.alias or name for name, info in Workload.model_fields.items()}
    return {name for name in names if kind in ONLY.get(name, KINDS)}
