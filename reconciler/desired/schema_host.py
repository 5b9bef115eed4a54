"""Host, Queue and Cluster. Attribute docstrings go into the JSON Schema."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from reconciler.desired.forms import (
    LATER,
    WRITTEN,
    AbsolutePath,
    ApiVersion,
    Bool,
    CpuList,
    Duration,
    EnvName,
    Form,
    Int,
    Line,
    Memory,
    MountPath,
    Name,
    RelativePath,
    Strict,
    Text,
    matching,
    no_entries,
    no_items,
)
from reconciler.desired.schema_container import SecretRef

Engine = Annotated[
    str,
    matching(
        r"unix:///[^\s\0]+|tcp://[^\s/@:]+:[0-9]{1,5}|ssh://[^\s/@:]+(@[^\s/@:]+)?(:[0-9]{1,5})?|sim://[-a-zA-Z0-9._]*",
        "must be unix:///PATH, tcp://HOST:PORT, ssh://USER@HOST or sim://",
    ),
]
Tagged = Annotated[str, matching(r"[^\s\x00-\x1f\x7f-\x9f]+", "must be one word")]
Address = Annotated[str, matching(r"[a-zA-Z0-9]([-a-zA-Z0-9.:]*[a-zA-Z0-9])?|::1", "must be a host name or an address")]


class Tls(Strict):
    """Certificates for a tcp:// Engine."""

    ca: Text
    """File of the certificate authority."""
    cert: Text
    """File of the client's certificate."""
    key: Text
    """File of the client's key."""


class Reserved(Strict):
    """What is kept from all work."""

    cpus: CpuList = ()
    """CPU numbers, as `0-1,8`."""
    memory: Memory = 0
    """Main memory."""


class HostGpus(Strict):
    """Which cards of the host are given out."""

    exclude: list[Text] = Field(default_factory=no_items)
    """Cards that are never given out, by UUID or PCI address."""


class HostMig(Strict):
    """Whether slices may be planned that do not exist yet."""

    create: Bool = False
    """Plan new slices on cards that have MIG enabled; somebody cuts them, and the next pass starts what waits."""


def _mig(value: Any) -> Any:
    if isinstance(value, HostMig) or (isinstance(value, dict) and all(k == "create" or k[:2] == "x-" for k in value)):
        return value
    raise ValueError("must be {create: true}: which slices there should be follows from what the workloads ask for")


class Host(Strict):
    """A Docker host."""

    api_version: ApiVersion
    """Version of these formats."""
    kind: Literal["Host"]
    name: Name
    """Name of the host; it is one of its tags."""
    engine: Engine
    """`unix:///var/run/docker.sock` or `sim://`. `ssh://` and `tcp://` are not supported yet."""
    address: Address = ""
    """How other hosts reach it; left out: the engine's host."""
    fabric: Annotated[Address | None, LATER] = None
    """Address in a faster network."""
    tls: Annotated[Tls | None, LATER] = None
    """Certificates for a tcp:// Engine."""
    facts: RelativePath | None = None
    """File that replaces the probe, relative to this one."""
    tags: list[Tagged] = Field(default_factory=no_items)
    """Tags: a tagged host takes only work that asks for it."""
    labels: dict[Line, Line] = Field(default_factory=no_entries)
    """Labels, for rules and people."""
    env: dict[EnvName, str] = Field(default_factory=no_entries)
    """Environment given to every container there."""
    reserved: Reserved = Field(default_factory=Reserved.model_construct)
    """Cores and memory kept from all work."""
    state: Literal["active", "cordoned", "drained"] = "active"
    """`cordoned`: nothing new; `drained`: move everything away."""
    gpu_mode: Literal["managed", "passthrough", "none"] = "managed"
    """`managed`: cards are given out one by one; `passthrough`: every card to all that ask; `none`: no cards."""
    gpus: HostGpus = Field(default_factory=HostGpus.model_construct)
    """Which cards are given out."""
    mig: Annotated[HostMig, Form(_mig)] = Field(default_factory=HostMig.model_construct)
    """Whether MIG slices may be planned that do not exist yet."""
    ignore_containers: list[Text] = Field(default_factory=no_items)
    """Names of containers that see cards and hold none, as globs."""


class Queue(Strict):
    """A project or department. Not supported yet."""

    api_version: ApiVersion
    """Version of these formats."""
    kind: Literal["Queue"]
    name: Name
    """Name of the queue."""
    parent: Name | None = None
    """Queue that it is part of."""
    quota: dict[str, Any] = Field(default_factory=no_entries)
    """What it is owed, by resource."""
    limit: dict[str, Any] = Field(default_factory=no_entries)
    """The most that it gets, by resource."""
    weight: Annotated[float, Field(gt=0), WRITTEN] = 1.0
    """Share of what is left over."""
    priority: Int = 0
    """Order among queues."""
    paths: list[Text] = Field(default_factory=no_items)
    """Files whose workloads belong to it, as globs."""


class Prune(Strict):
    """Stopping what left git."""

    enabled: Bool = True
    """Whether instances that left git are stopped."""
    max_fraction: Annotated[float, Field(ge=0, le=1), WRITTEN] = 0.3
    """Largest part of all instances (at least 3) that one pass stops without `--allow-prune`."""


class MountGrant(Strict):
    """A folder of the host, and all below it."""

    path: MountPath
    """Absolute path on the host."""
    read_only: Bool = False
    """Whether only read-only mounts are allowed."""


MountForm = Annotated[
    Annotated[MountPath, Tag("(text)")] | Annotated[MountGrant, Tag("(map)")],
    Discriminator(lambda value: "(map)" if isinstance(value, dict | MountGrant) else "(text)"),
]


class SecurityProfile(Strict):
    """What matching workloads may ask of a host; nothing is allowed without one."""

    match: Annotated[list[Text], Field(min_length=1)]
    """Workloads as globs over `kind/name` (`app/*`, `localservice/node-exporter`)."""
    mounts: list[MountForm] = Field(default_factory=no_items)
    """Folders of the host, each a path or `{path, readOnly}`."""
    host_network: Bool = False
    """`network: host`."""
    ipc: str = ""
    """Value of `ipc` that is allowed (`host`)."""
    pid: str = ""
    """Value of `pid` that is allowed (`host`)."""
    privileged: Bool = False
    """`privileged: true`."""
    capabilities: list[Text] = Field(default_factory=no_items)
    """Values of `capAdd` that are allowed; `ALL` is all of them."""
    devices: list[MountPath] = Field(default_factory=no_items)
    """Devices of the host, each a path and all below it."""
    rdma: Bool = False
    """`resources.rdma: true`."""
    security_opt: list[Text] = Field(default_factory=no_items)
    """Values of `securityOpt` that are allowed."""
    runtime: str = ""
    """Value of `runtime` that is allowed."""
    all_gpus: Bool = False
    """`gpus: all` and `gpus: {observe: all}`."""


class Secrets(Strict):
    """Where secrets are kept, on the reconciler's machine."""

    directory: AbsolutePath
    """Absolute path of a folder with one folder per secret and in it one file per key."""
    hash_key: SecretRef | None = None
    """Secret whose value keys the hash by which a changed secret is noticed."""


class Probe(Strict):
    """How facts of remote hosts are gathered."""

    image: Text
    """Image of the probe's container."""
    interval: Duration = 60.0
    """Time between two probes."""


class Cluster(Strict):
    """The settings of a repository."""

    api_version: ApiVersion
    """Version of these formats."""
    kind: Literal["Cluster"]
    name: Name
    """Names the labels, containers, lock and state."""
    defaults: dict[str, Any] = Field(default_factory=no_entries)
    """Any workload field, merged under each workload that has the field."""
    prune: Prune = Field(default_factory=Prune.model_construct)
    """Stopping what left git."""
    security_profiles: list[SecurityProfile] = Field(default_factory=no_items)
    """What workloads may ask of a host: ordered, the first match wins."""
    secrets: Secrets | None = None
    """Where secrets are kept."""
    registries: Annotated[Any, LATER] = None
    """Credentials of registries."""
    auto_tags: Annotated[Any, LATER] = None
    """Tags made from facts."""
    probe: Annotated[Probe | None, LATER] = None
    """How facts of remote hosts are gathered."""
    host_lost_after: Annotated[Duration | None, LATER] = None
    """Silence after which a host counts as lost."""
    sources: Annotated[Any, LATER] = None
    """Further repositories."""
    bases: Annotated[Any, LATER] = None
    """Folders to build on."""
    patches: Annotated[Any, LATER] = None
    """Changes to documents."""
    vars: Annotated[Any, LATER] = None
    """Values to fill in."""
    images: Annotated[Any, LATER] = None
    """Image tags by name."""
    verify: Annotated[Any, LATER] = None
    """Keys that must have signed a commit."""
