"""What the form of one document cannot say: fields that go together, and fields whose effect comes later."""

from collections.abc import Iterator
from typing import Any

from reconciler.desired.checks_placement import Fault, placement_faults
from reconciler.desired.complaints import dotted, nearest
from reconciler.desired.documents import Path
from reconciler.desired.forms import Strict
from reconciler.desired.schema_container import Check, SecretRef
from reconciler.desired.schema_gpus import SharedMemoryGpu, ShareGpu
from reconciler.desired.schema_host import Cluster, Host
from reconciler.desired.schema_workload import RESTARTS, Workload
from reconciler.desired.security import normal_path

# getrlimit(2), as Docker names them.
ULIMITS = (
    *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc"),
    *("rss", "rtprio", "rttime", "sigpending", "stack"),
)
GPU_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
# By which CUDA's multi-process service (MPS) keeps a client to its share.
SHARE_VARIABLES = frozenset({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"})
LABEL_PREFIX = "io.reconciler."


def not_supported(path: Path) -> Fault:
    """The one wording for what a later release brings."""
    return path, f"{dotted(path)}: not supported yet"


def later_fields(model: Strict, path: Path = ()) -> Iterator[Fault]:
    """Fields that are given, and whose effect comes later."""
    fields = type(model).model_fields
    for name in sorted(model.model_fields_set):
        here = (*path, fields[name].alias or name)
        if name in model.later:
            yield not_supported(here)
        else:
            yield from _later_inside(getattr(model, name), here)


def _later_inside(value: Any, path: Path) -> Iterator[Fault]:
    if isinstance(value, Strict):
        yield from later_fields(value, path)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            if isinstance(part, Strict):
                yield from later_fields(part, (*path, index))


def workload_faults(model: Workload) -> Iterator[Fault]:
    """Everything wrong with one workload taken by itself."""
    yield from later_fields(model)
    yield from _resources(model)
    yield from placement_faults(model)
    yield from _environment(model.env, "resources.gpus")
    yield from _share_environment(model)
    yield from _labels(model)
    yield from _network(model)
    yield from _targets(model)
    yield from _devices(model)
    if model.on_host_lost == "replace":
        yield not_supported(("onHostLost",))
    if model.restart and model.restart not in RESTARTS[model.kind]:
        yield ("restart",), f"restart: of {_a(model.kind)} must be {' or '.join(RESTARTS[model.kind])}"
    if model.members > 1:
        yield not_supported(("members",))
    yield from _checks(model)


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "App" else f"a {kind}"


def _resources(model: Workload) -> Iterator[Fault]:
    asked = model.resources
    if asked.cpus % 1000 and asked.cpu_policy != "shared":
        said = "a fraction of a core needs cpuPolicy: shared"
        yield ("resources", "cpus"), f"resources.cpus: {said}"
    for name in asked.ulimits:
        if name not in ULIMITS:
            yield ("resources", "ulimits", name), f"resources.ulimits.{name}: unknown limit{nearest(name, ULIMITS)}"


def _environment(env: dict[str, Any], instead: str) -> Iterator[Fault]:
    for name in env:
        if name == GPU_VARIABLE:
            yield ("env", name), f"env.{name}: cards are given by {instead}"


def _share_environment(model: Workload) -> Iterator[Fault]:
    if isinstance(model.resources.gpus, ShareGpu | SharedMemoryGpu):
        for name in sorted(SHARE_VARIABLES & model.env.keys()):
            yield ("env", name), f"env.{name}: is given by resources.gpus.share and sharedMemory"


def _labels(model: Workload | Host) -> Iterator[Fault]:
    for name in model.labels:
        if name.startswith(LABEL_PREFIX):
            yield ("labels", name), f"labels.{name}: {LABEL_PREFIX}* is kept for the reconciler"


def _network(model: Workload) -> Iterator[Fault]:
    if model.aliases and model.network in {"bridge", "host", "none"}:
        yield ("aliases",), "aliases: need a named network"
    for index, server in enumerate(model.dns):
        if not _is_address(server):
            yield ("dns", index), f"dns[{index}]: must be an address"
    names: set[str] = set()
    bound: set[tuple[str, int, str]] = set()
    for index, port in enumerate(model.ports):
        path: Path = ("ports", index)
        if port.name and port.name in names:
            yield (*path, "name"), f"ports[{index}].name: {port.name} stands twice"
        names.add(port.name)
        if port.host_ip and not _is_address(port.host_ip):
            yield (*path, "hostIp"), f"ports[{index}].hostIp: must be an address"
        if port.host is not None and model.network == "host" and port.host != port.container:
            yield (*path, "host"), f"ports[{index}].host: with network: host it is the container's port"
        key = (port.host_ip, port.host or -port.container, port.protocol)
        if key in bound:
            yield path, f"ports[{index}]: the same port stands twice"
        bound.add(key)


def _is_address(text: str) -> bool:
    import ipaddress  # noqa: PLC0415 - costs 5 ms, and few documents have an address

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _targets(model: Workload) -> Iterator[Fault]:
    """Two things at one path of the container: the Engine refuses them when it creates, which is late."""
    seen: dict[str, str] = {}
    targets = {
        "volumes": [part.container for part in model.volumes],
        "configs": [part.container for part in model.configs],
        "secretFiles": [part.container for part in model.secret_files],
        "tmpfs": [part.container for part in model.tmpfs],
    }
    for field, paths in targets.items():
        for index, path in enumerate(paths):
            here = f"{field}[{index}]"
            target = path.rstrip("/") or "/"
            if target == "/":
                yield (field, index, "container"), f"{here}.container: must not be the root of the container"
            elif target in seen:
                yield (field, index, "container"), f"{here}.container: {target} is also that of {seen[target]}"
            seen.setdefault(target, here)


def _devices(model: Workload) -> Iterator[Fault]:
    for index, device in enumerate(model.devices):
        if normal_path(device.host).startswith("/dev/nvidia"):
            yield ("devices", index, "host"), f"devices[{index}].host: cards are given by resources.gpus"


def _checks(model: Workload) -> Iterator[Fault]:
    ready, healthy = model.readiness, model.health
    if ready and healthy and ready.exec and healthy.exec and ready != healthy:
        yield ("health",), "health that differs from readiness: not supported yet"
    rollout = model.rollout
    if rollout.max_unavailable != 1:
        yield not_supported(("rollout", "maxUnavailable"))
    if rollout.on_failure == "rollback":
        yield not_supported(("rollout", "onFailure"))
    start_period = max((check.start_period for check in (ready, healthy) if check), default=0.0)
    if rollout.deadline is not None and rollout.deadline < start_period:
        said = f"{rollout.deadline:g} s is less than the startPeriod of {start_period:g} s"
        yield ("rollout", "deadline"), f"rollout.deadline: {said}"


def secret_uses(model: Workload) -> Iterator[tuple[Path, str]]:
    """Where secrets are asked for, and their names."""
    for name, value in model.env.items():
        if isinstance(value, SecretRef):
            yield ("env", name), value.secret
    for index, file in enumerate(model.secret_files):
        yield ("secretFiles", index), file.secret


def check_of(model: Workload) -> Check | None:
    """The one check of a workload; readiness and health are equal where both are given."""
    return next((check for check in (model.readiness, model.health) if check and check.exec), None)


def host_faults(model: Host) -> Iterator[Fault]:
    """Everything wrong with one Host taken by itself."""
    yield from later_fields(model)
    scheme = model.engine.partition("://")[0]
    if scheme not in {"unix", "sim"}:
        yield ("engine",), f"engine {scheme}://: not supported yet"
    yield from _environment(model.env, "resources.gpus of a workload")
    yield from _labels(model)


def cluster_faults(model: Cluster) -> Iterator[Fault]:
    """Everything wrong with a Cluster taken by itself."""
    yield from later_fields(model)
