"""The Engine's create body of one instance. Pure; the other half of ``containers``.

What is unset stays out of the body, so that the image and the daemon decide. Cards are handed over by id, never by
count: ``Count: n`` gives the first n cards to everybody.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reconciler.actual.labels import encode_labels
from reconciler.model.host import HostSpec
from reconciler.model.limits import limits_for
from reconciler.model.resources import AllGpus, ObserveGpus, format_cpus
from reconciler.model.snapshot import Limits, Ours
from reconciler.model.workload import (
    Allocation,
    ContainerSpec,
    Device,
    InstanceId,
    Port,
    SecretRef,
    Share,
    Ulimit,
    Volume,
    Workload,
)

NANOSECONDS = 1_000_000_000
MIB = 1024**2
NO_PORTS = frozenset({"host", "none"})
BUILT_IN_NETWORKS = frozenset({"bridge", "host", "none", "default"})
RDMA_DEVICE = Device("/dev/infiniband", "/dev/infiniband")
RDMA_CAPABILITY = "IPC_LOCK"
RDMA_LIMIT = Ulimit("memlock", -1)


def create_body(
    workload: Workload,
    instance: InstanceId,
    allocation: Allocation,
    host: HostSpec,
    *,
    cluster: str,
    generation: int,
    digest: str,
    spec: dict[str, Any],
    commit: str = "",
    replaces: int = 0,
    secrets: Mapping[SecretRef, str] | None = None,
    secrets_hash: str = "",
    gpu_driver: str = "nvidia",
) -> dict[str, Any]:
    """The whole body of ``POST /containers/create`` for ``instance`` with what it was given on ``host``.

    ``spec`` and ``digest`` are the canonical *recreate* form and its digest, written into labels; ``secrets`` holds the
    value of every secret that the environment refers to. ``gpu_driver`` is ``nvidia``, ``cdi``, or ``none`` on a host
    without cards (where an exporter that would see every card sees none). Raises KeyError for a missing secret.
    """
    container = _with_rdma(workload.container)
    ours = Ours(instance, generation, digest, spec, allocation, commit, workload.owner, replaces, secrets_hash)
    bound = host_ports(container, allocation)
    requests = _device_requests(container, allocation, gpu_driver)
    env = _environment(instance, container, host, bound, secrets or {}, sees_cards=bool(requests))
    env |= _share_environment(allocation.share) if allocation.share else {}
    return {
        **_process(workload),
        "Env": [f"{key}={value}" for key, value in env.items()],
        "Labels": {**dict(workload.labels), **encode_labels(ours, cluster)},
        "ExposedPorts": {_port_key(port): {} for port, _ in bound} if container.network not in NO_PORTS else {},
        "HostConfig": {
            **_limits(limits_for(workload, allocation)),
            **_isolation(container),
            **_storage(container),
            **_network(container, bound),
            "DeviceRequests": requests,
        },
        **_endpoints(container),
    }


def host_ports(container: ContainerSpec, allocation: Allocation) -> list[tuple[Port, int]]:
    """Each published port with the host port that it was given; in the host's network its own number."""
    free = list(allocation.ports)
    found: list[tuple[Port, int]] = []
    for port in sorted(container.ports, key=lambda one: one.host is None):  # fixed ports first: they cannot move
        given = [one for one in free if one[:2] == (port.container, port.protocol) and port.host in {None, one[2]}]
        if given:
            free.remove(given[0])
        fallback = port.container if container.network == "host" else port.host or 0
        found.append((port, given[0][2] if given else fallback))
    return sorted(found, key=lambda pair: container.ports.index(pair[0]))


def device_ids(allocation: Allocation) -> list[str]:
    """Ids of the cards and slices that the Engine hands over; of a shared card all is handed over."""
    shared = [allocation.share.gpu] if allocation.share else []
    return [*allocation.gpus, *(piece.uuid for piece in allocation.mig), *shared]


def _with_rdma(container: ContainerSpec) -> ContainerSpec:
    """The spec with what RDMA needs: its devices, and memory that may be pinned. What the spec says itself stands."""
    if not container.rdma:
        return container
    devices, added, limits = container.devices, container.cap_add, container.ulimits
    if all(one.host.rstrip("/") != RDMA_DEVICE.host for one in devices):
        devices = (*devices, RDMA_DEVICE)
    if not {one.upper().removeprefix("CAP_") for one in added} & {RDMA_CAPABILITY, "ALL"}:
        added = (*added, RDMA_CAPABILITY)
    if all(one.name != RDMA_LIMIT.name for one in limits):
        limits = (*limits, RDMA_LIMIT)
    return replace(container, devices=devices, cap_add=added, ulimits=limits)


def _process(workload: Workload) -> dict[str, Any]:
    container = workload.container
    body = {
        "Image": container.image,
        "Entrypoint": None if container.command is None else list(container.command),
        "Cmd": None if container.args is None else list(container.args),
        "WorkingDir": container.working_dir or None,
        "User": container.user or None,
        "Hostname": container.hostname or None,
        "StopSignal": container.stop_signal or None,
        "StopTimeout": math.ceil(workload.grace_period),
        "Healthcheck": _health(container),
    }
    return {key: value for key, value in body.items() if value is not None}


def _health(container: ContainerSpec) -> dict[str, Any] | None:
    check = container.health
    if check is None:
        return None
    return {
        "Test": ["CMD", *check.command],
        "Interval": _nanoseconds(check.interval),
        "Timeout": _nanoseconds(check.timeout),
        "Retries": check.retries,
        "StartPeriod": _nanoseconds(check.start_period),
    }


def _environment(
    instance: InstanceId,
    container: ContainerSpec,
    host: HostSpec,
    bound: list[tuple[Port, int]],
    secrets: Mapping[SecretRef, str],
    *,
    sees_cards: bool,
) -> dict[str, str]:
    env = dict(host.env)
    env |= {key: secrets[value] if isinstance(value, SecretRef) else value for key, value in container.env}
    env |= {f"PORT_{port.name}": str(number) for port, number in bound if port.name}
    env |= {
        "RECONCILER_INSTANCE": str(instance),
        "RECONCILER_INDEX": instance.index,
        "RECONCILER_HOST": host.name,
    }
    if not sees_cards:
        env["NVIDIA_VISIBLE_DEVICES"] = "void"  # an image built on CUDA would else ask for all of them
    return env


def _share_environment(share: Share) -> dict[str, str]:
    """What CUDA's multi-process service (MPS) keeps the share to; the one card is device 0 inside the container."""
    env = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(-(-share.milli // 10))}
    if share.memory >= MIB:
        env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={share.memory // MIB}M"
    return env


def _device_requests(container: ContainerSpec, allocation: Allocation, driver: str) -> list[dict[str, Any]]:
    ids = device_ids(allocation)
    every = isinstance(container.gpus, ObserveGpus | AllGpus) and driver != "none"
    if not ids and not every:
        return []
    if driver == "cdi":
        return [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={one}" for one in ids or ["all"]]}]
    request: dict[str, Any] = {"Driver": "nvidia", "Capabilities": [["gpu"]]}
    return [{**request, "DeviceIDs": ids} if ids else {**request, "Count": -1}]


def _limits(limits: Limits) -> dict[str, Any]:
    """``MemorySwap`` is twice the memory, as the Engine itself does when it is not told."""
    body: dict[str, Any] = {
        "CpusetCpus": format_cpus(limits.cpus),
        "CpusetMems": format_cpus(limits.memory_nodes),
        "NanoCpus": limits.nano_cpus,
        "Memory": limits.memory,
        "MemorySwap": 2 * limits.memory,
        "PidsLimit": limits.pids,
    }
    body = {key: value for key, value in body.items() if value}
    return {**body, "RestartPolicy": {"Name": limits.restart, "MaximumRetryCount": 0}}


def _isolation(container: ContainerSpec) -> dict[str, Any]:
    body: dict[str, Any] = {
        "ShmSize": container.shm,
        "Ulimits": [{"Name": one.name, "Soft": one.value, "Hard": one.value} for one in container.ulimits],
        "IpcMode": container.ipc,
        "PidMode": container.pid,
        "CapAdd": list(container.cap_add),
        "CapDrop": list(container.cap_drop),
        "SecurityOpt": list(container.security_opt),
        "Privileged": container.privileged,
        "Runtime": container.runtime,
        "GroupAdd": list(container.group_add),
        "Init": container.init,
    }
    body = {key: value for key, value in body.items() if value}
    logging = {"Type": container.logging.driver, "Config": dict(container.logging.options)}
    return {**body, "LogConfig": logging}


def _storage(container: ContainerSpec) -> dict[str, Any]:
    body: dict[str, Any] = {
        "Mounts": [_mount(volume) for volume in container.volumes],
        "Tmpfs": {one.container: f"size={one.size}" if one.size else "" for one in container.tmpfs},
        "Devices": [
            {"PathOnHost": one.host, "PathInContainer": one.container, "CgroupPermissions": one.permissions}
            for one in container.devices
        ],
    }
    return {key: value for key, value in body.items() if value}


def _mount(volume: Volume) -> dict[str, Any]:
    """A mount of type bind refuses a missing source; a bind of the older form would silently make a folder."""
    mount: dict[str, Any] = {
        "Type": "volume" if volume.volume else "bind",
        "Source": volume.volume or volume.host,
        "Target": volume.container,
        "ReadOnly": volume.read_only,
    }
    if volume.propagation and not volume.volume:
        mount["BindOptions"] = {"Propagation": volume.propagation}
    return mount


def _network(container: ContainerSpec, bound: list[tuple[Port, int]]) -> dict[str, Any]:
    bindings: dict[str, list[dict[str, str]]] = {}
    if container.network not in NO_PORTS:
        for port, number in bound:
            bindings.setdefault(_port_key(port), []).append({"HostIp": port.host_ip, "HostPort": str(number)})
    body: dict[str, Any] = {
        "NetworkMode": container.network,
        "PortBindings": bindings,
        "Dns": list(container.dns),
        "ExtraHosts": list(container.extra_hosts),
    }
    return {key: value for key, value in body.items() if value}


def _endpoints(container: ContainerSpec) -> dict[str, Any]:
    if container.network in BUILT_IN_NETWORKS:
        return {}
    return {"NetworkingConfig": {"EndpointsConfig": {container.network: {"Aliases": list(container.aliases)}}}}


def _port_key(port: Port) -> str:
    return f"{port.container}/{port.protocol}"


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANOSECONDS)
