"""Validated documents → the model's nouns: defaults filled in, sets sorted, so that order in a file changes nothing."""

import hashlib
import json
from typing import Any
from urllib.parse import urlsplit

from reconciler.desired import schema_container as parts
from reconciler.desired import schema_gpus as cards
from reconciler.desired import schema_placement as where
from reconciler.desired.checks import check_of
from reconciler.desired.scalars import bare
from reconciler.desired.schema_host import Cluster as ClusterModel
from reconciler.desired.schema_host import Host
from reconciler.desired.schema_workload import RESTARTS
from reconciler.desired.schema_workload import Workload as WorkloadModel
from reconciler.desired.security import capability, normal_path
from reconciler.model.desired import Cluster, Prune
from reconciler.model.host import GpuMode, HostSpec, HostState
from reconciler.model.placement import (
    Affinity,
    AnyHost,
    Composite,
    LocalHost,
    MatchTag,
    MaxPerHost,
    NoTag,
    Numa,
    Policy,
    Preference,
    RuleBased,
    Spread,
)
from reconciler.model.resources import AllGpus, GpuRequest, GpuShare, MigSlices, ObserveGpus, Request, WholeGpus
from reconciler.model.workload import (
    ConfigFile,
    ContainerSpec,
    Device,
    HealthCheck,
    Kind,
    Logging,
    Port,
    Rollout,
    SecretFile,
    SecretRef,
    Tmpfs,
    Ulimit,
    Volume,
    Workload,
)

DEFAULT_DEADLINE = 600.0  # seconds after the start period
# Left out of a run's digest: editing them reruns nothing.
SCHEDULING = frozenset(
    {
        *(
            "owner",
            "labels",
            "pull",
            "queue",
            "priority",
            "wave",
            "dependsOn",
            "suspend",
            "drift",
            "expires",
        ),
        *("placementPolicy", "numa", "prefer", "spread", "affinity", "antiAffinity", "topology", "onHostLost", "gang"),
        *("run", "onChange", "retries", "deadline", "schedule", "ttl"),
    }
)


_SIMPLE: dict[str, Policy] = {
    "ANY": AnyHost(),
    "ONE_PER_HOST": MaxPerHost(1),
    "NO_TAG": NoTag(),
    "LOCAL": LocalHost(),
}


def run_of(value: dict[str, Any]) -> str:
    """The name of a Task's run when it gives none: 8 hex digits of the sha256 of its own document.

    ``Cluster.defaults``, labels, scheduling fields and free keys are left out.
    """
    own = {key: part for key, part in value.items() if key not in SCHEDULING}
    stop = own.get("stop")
    if isinstance(stop, dict):
        own["stop"] = {key: part for key, part in stop.items() if key != "gracePeriod"}
    text = json.dumps(bare(_without_free_keys(own)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _without_free_keys(value: Any, *, names: bool = False) -> Any:
    """``value`` without ``x-`` keys; in ``env`` they are names, and stay."""
    if isinstance(value, dict):
        return {
            key: _without_free_keys(part, names=key == "env")
            for key, part in value.items()
            if names or not key.startswith("x-")
        }
    if isinstance(value, list):
        return [_without_free_keys(part) for part in value]
    return value


def workload(model: WorkloadModel, value: dict[str, Any], configs: tuple[ConfigFile, ...], source: str) -> Workload:
    """The workload of a validated document; ``value`` is the document as its author wrote it."""
    kind = Kind(model.kind.lower())
    asked = model.resources
    exclusive = asked.cpu_policy != "shared" and asked.cpus % 1000 == 0
    gpus = gpu_request(asked.gpus)
    return Workload(
        kind=kind,
        name=model.name,
        container=container(model, gpus, configs),
        request=Request(asked.cpus, exclusive, asked.memory, gpus),
        pids=asked.pids,
        restart=_restart(model),
        instances=model.instances,
        run=(model.run or run_of(value)) if kind is Kind.TASK else "",
        on_change=model.on_change,
        policy=_workload_policy(model),
        prefer=_preferences(model),
        spread=_spread(model),
        affinity=(*_affinity(model.affinity, apart=False), *_affinity(model.anti_affinity, apart=True)),
        numa=Numa(model.numa),
        pull=model.pull,
        rollout=_rollout(model),
        grace_period=model.stop.grace_period,
        suspend=model.suspend,
        priority=model.priority,
        owner=model.owner,
        labels=_pairs(model.labels),
        source=source,
    )


def _restart(model: WorkloadModel) -> str:
    asked = model.restart or RESTARTS[model.kind][0]
    return "no" if asked == "never" else asked


def container(model: WorkloadModel, gpus: GpuRequest | None, configs: tuple[ConfigFile, ...]) -> ContainerSpec:
    """The *recreate* fields."""
    env = {
        name: SecretRef(value.secret, value.key) if isinstance(value, parts.SecretRef) else value
        for name, value in model.env.items()
    }
    return ContainerSpec(
        image=model.image,
        command=None if model.command is None else tuple(model.command),
        args=None if model.args is None else tuple(model.args),
        working_dir=_folder(model.working_dir),
        user=model.user,
        group_add=_set(model.group_add),
        env=tuple(sorted(env.items())),
        init=model.init,
        gpus=gpus,
        shm=model.resources.shm,
        ulimits=tuple(Ulimit(name, value) for name, value in sorted(model.resources.ulimits.items())),
        network=model.network,
        aliases=_set(model.aliases),
        ports=_ports(model),
        volumes=_volumes(model),
        configs=configs,
        secret_files=tuple(
            SecretFile(file.container, SecretRef(file.secret, file.key))
            for file in sorted(model.secret_files, key=lambda file: file.container)
        ),
        tmpfs=tuple(
            sorted((Tmpfs(_folder(part.container), part.size) for part in model.tmpfs), key=lambda part: part.container)
        ),
        devices=tuple(
            Device(normal_path(part.host), part.container or normal_path(part.host), part.permissions)
            for part in sorted(model.devices, key=lambda part: (part.container or part.host, part.host))
        ),
        ipc=model.ipc,
        pid=model.pid,
        cap_add=_set([capability(name) for name in model.cap_add]),
        cap_drop=_set([capability(name) for name in model.cap_drop]),
        security_opt=_set(model.security_opt),
        privileged=model.privileged,
        runtime=model.runtime,
        hostname=model.hostname,
        dns=tuple(model.dns),
        extra_hosts=tuple(model.extra_hosts),
        logging=_logging(model.logging),
        health=_health(model),
        stop_signal=model.stop.signal,
        rdma=model.resources.rdma,
    )


def gpu_request(asked: Any) -> GpuRequest | None:
    """What ``resources.gpus`` means; None for no card."""
    match asked:
        case "all":
            return AllGpus()
        case int():
            return WholeGpus(asked) if asked else None
        case cards.WholeGpus():
            return WholeGpus(asked.count, _set(asked.model), asked.min_memory, asked.link or "")
        case cards.MigGpus():
            return MigSlices(asked.mig, asked.count)
        case cards.ShareGpu():
            return GpuShare(milli=asked.share, models=_set(asked.model))
        case cards.SharedMemoryGpu():
            return GpuShare(memory=asked.shared_memory, models=_set(asked.model))
        case cards.ObserveGpus():
            return ObserveGpus()
    raise ValueError(f"no request for cards: {asked!r}")


def _set(values: list[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _folder(path: str) -> str:
    """A path in the container without a slash at its end, as the Engine keeps it."""
    return path and (path.rstrip("/") or "/")


def _pairs(values: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


def _ports(model: WorkloadModel) -> tuple[Port, ...]:
    ports = (Port(port.container, port.name, port.host, port.host_ip, port.protocol) for port in model.ports)
    return tuple(sorted(ports, key=lambda port: (port.container, port.protocol, port.host_ip, port.host or 0)))


def _volumes(model: WorkloadModel) -> tuple[Volume, ...]:
    volumes = (
        Volume(
            _folder(part.container),
            normal_path(part.host) if part.host else "",
            part.volume,
            part.read_only,
            part.propagation,
        )
        for part in model.volumes
    )
    return tuple(sorted(volumes, key=lambda part: part.container))


def _logging(model: parts.Logging) -> Logging:
    usual = dict(Logging().options) if model.driver == Logging().driver else {}
    return Logging(model.driver, _pairs(usual | model.options))


def _health(model: WorkloadModel) -> HealthCheck | None:
    check = check_of(model)
    if check is None:
        return None
    return HealthCheck(tuple(check.exec or ()), check.interval, check.timeout, check.retries, check.start_period)


def _rollout(model: WorkloadModel) -> Rollout:
    if model.kind == "Task":
        return Rollout()
    asked = model.rollout
    check = check_of(model)
    deadline = DEFAULT_DEADLINE + (check.start_period if check else 0.0)
    return Rollout(asked.order, asked.healthy_for, deadline if asked.deadline is None else asked.deadline)


def _workload_policy(model: WorkloadModel) -> Policy:
    if model.placement_policy is None:
        return LocalHost() if model.kind == "LocalService" else AnyHost()
    return policy(model.placement_policy)


def _preferences(model: WorkloadModel) -> tuple[Preference, ...]:
    """The heaviest first."""
    found = (Preference(policy(part), part.weight) for part in model.prefer)
    return tuple(sorted(found, key=lambda one: (-one.weight, repr(one.policy))))


def _spread(model: WorkloadModel) -> tuple[Spread, ...]:
    found = (Spread(part.by, part.max_skew, part.required, part.weight) for part in model.spread)
    return tuple(sorted(found, key=lambda one: one.by))


def _affinity(asked: list[where.Affinity], *, apart: bool) -> tuple[Affinity, ...]:
    found = (Affinity(part.workload, part.by, apart, part.required, part.weight) for part in asked)
    return tuple(sorted(found, key=lambda one: (one.workload, one.by)))


def policy(asked: where.AnyPolicy) -> Policy:
    """The placement policy of a validated document."""
    match asked:
        case where.Simple() | where.SimpleWish():
            return _SIMPLE[asked.type]
        case where.MaxPerHost():
            return MaxPerHost(asked.max)
        case where.MatchTag():
            return MatchTag(asked.tag)
        case where.RuleBased():
            return RuleBased(asked.rule)
        case where.Composite() | where.CompositeWish():
            return Composite(asked.combiner, tuple(map(policy, asked.policies)))


def host(model: Host, facts_json: str | None, facts_path: str) -> HostSpec:
    """The host of a validated document; ``facts_json`` is the text of its facts file."""
    return HostSpec(
        name=model.name,
        engine=model.engine,
        address=model.address or urlsplit(model.engine).hostname or "",
        tags=_set(model.tags),
        labels=_pairs(model.labels),
        env=_pairs(model.env),
        reserved_cpus=model.reserved.cpus,
        reserved_memory=model.reserved.memory,
        state=HostState(model.state),
        gpu_mode=GpuMode(model.gpu_mode),
        gpus_excluded=_set(model.gpus.exclude),
        mig_create=model.mig.create,
        ignore_containers=_set(model.ignore_containers),
        facts_json=facts_json,
        facts_path=facts_path,
    )


def cluster(model: ClusterModel) -> Cluster:
    """The settings of a validated Cluster."""
    secrets = model.secrets
    key = secrets.hash_key if secrets else None
    return Cluster(
        name=model.name,
        prune=Prune(model.prune.enabled, model.prune.max_fraction),
        secrets_dir=secrets.directory if secrets else "",
        secrets_key=(key.secret, key.key) if key else None,
    )
