"""Documents of the simulated Engine: what a create body becomes on inspect and in a list (as on Engine 20.10)."""

import copy
import posixpath
from datetime import UTC, datetime
from typing import Any

from reconciler.engine.simulated_life import Life, Record, argv, as_list, environment

_NEVER = "0001-01-01T00:00:00Z"
_IMAGE_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def _each(names: str, value: Any = None) -> dict[str, Any]:
    return dict.fromkeys(names.split(), value)


_HOST_DEFAULTS: dict[str, Any] = {
    **_each("OomScoreAdj CpuShares Memory NanoCpus BlkioWeight CpuPeriod CpuQuota CpuRealtimePeriod", 0),
    **_each("CpuRealtimeRuntime KernelMemory KernelMemoryTCP MemoryReservation MemorySwap CpuCount CpuPercent", 0),
    **_each("IOMaximumIOps IOMaximumBandwidth", 0),
    **_each("ContainerIDFile VolumeDriver Cgroup PidMode UTSMode UsernsMode Isolation CgroupParent", ""),
    **_each("CpusetCpus CpusetMems", ""),
    **_each("Binds PortBindings VolumesFrom CapAdd CapDrop Dns DnsOptions DnsSearch ExtraHosts GroupAdd Links"),
    **_each("SecurityOpt BlkioWeightDevice BlkioDeviceReadBps BlkioDeviceWriteBps BlkioDeviceReadIOps"),
    **_each("BlkioDeviceWriteIOps Devices DeviceCgroupRules DeviceRequests MemorySwappiness PidsLimit Ulimits"),
    **_each("AutoRemove Privileged PublishAllPorts ReadonlyRootfs OomKillDisable", False),  # noqa: FBT003 - a value
    "LogConfig": {"Type": "json-file", "Config": {}},
    "NetworkMode": "default",
    "RestartPolicy": {"Name": "", "MaximumRetryCount": 0},
    "CgroupnsMode": "host",
    "IpcMode": "private",
    "ShmSize": 64 * 1024**2,
    "ConsoleSize": [0, 0],
    "MaskedPaths": [
        *("/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list"),
        *("/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"),
    ],
    "ReadonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
}
_HOST_OPTIONAL = {"Init", "Mounts", "Runtime", "StorageOpt", "Sysctls", "Tmpfs"}  # shown only when they were sent

_CONFIG_DEFAULTS: dict[str, Any] = {
    **_each("Domainname User WorkingDir", ""),
    **_each("AttachStdin AttachStdout AttachStderr Tty OpenStdin StdinOnce", False),  # noqa: FBT003 - a value
    **_each("Volumes OnBuild"),
}
_CONFIG_OPTIONAL = {"ExposedPorts", "Healthcheck", "NetworkDisabled", "StopSignal", "StopTimeout"}


def inspect_document(record: Record, life: Life, hostname: str) -> dict[str, Any]:
    """``GET /containers/ID/json``."""
    command = argv(record)
    return {
        "Id": record["id"],
        "Created": stamp(record["created"]),
        "Path": command[0],
        "Args": command[1:],
        "State": _state(record, life),
        "Image": record["imageId"],
        "ResolvConfPath": "",
        "HostnamePath": "",
        "HostsPath": "",
        "LogPath": "",
        "Name": f"/{record['name']}",
        "RestartCount": life.restarts,
        "Driver": "overlay2",
        "Platform": "linux",
        "MountLabel": "",
        "ProcessLabel": "",
        "AppArmorProfile": "",
        "ExecIDs": None,
        "HostConfig": host_config(record),
        "GraphDriver": {"Data": None, "Name": "overlay2"},
        "Mounts": _mounts(record),
        "Config": _config(record, hostname),
        "NetworkSettings": _network_settings(record, life),
    }


def list_entry(record: Record, life: Life, now: float) -> dict[str, Any]:
    """One entry of ``GET /containers/json``."""
    network = _network_settings(record, life)
    words = [f"'{word}'" if " " in word else word for word in argv(record)]
    mode = (record["body"].get("HostConfig") or {}).get("NetworkMode") or "default"
    return {
        "Id": record["id"],
        "Names": [f"/{record['name']}"],
        "Image": record["image"],
        "ImageID": record["imageId"],
        "Command": " ".join(words),
        "Created": int(record["created"]),
        "Ports": [
            {"IP": bound["HostIp"], "PrivatePort": int(port), "PublicPort": int(bound["HostPort"]), "Type": protocol}
            for (port, _, protocol), bindings in (
                (key.partition("/"), value) for key, value in network["Ports"].items()
            )
            for bound in bindings or ()
        ],
        "Labels": dict(record["body"].get("Labels") or {}),
        "State": life.status,
        "Status": _status(life, now),
        "HostConfig": {"NetworkMode": mode},
        "NetworkSettings": {"Networks": network["Networks"]},
        "Mounts": _mounts(record),
    }


def image_document(reference: str, image_id: str) -> dict[str, Any]:
    """``GET /images/NAME/json``."""
    repository, at, digest = reference.partition("@")
    repository = repository if at else reference.rpartition(":")[0]
    return {
        "Id": image_id,
        "RepoTags": [] if at else [reference],
        "RepoDigests": [f"{repository}@{digest or image_id}"],
        "Created": _NEVER,
        "Config": {"Env": [f"{key}={value}" for key, value in _IMAGE_ENV.items()], "Cmd": ["sh"], "Labels": None},
        "Architecture": "amd64",
        "Os": "linux",
        "Size": 0,
    }


def host_config(record: Record) -> dict[str, Any]:
    """The HostConfig of an inspect: what was sent, with what the Engine fills in and rewrites."""
    sent = record["body"].get("HostConfig") or {}
    known = {key: value for key, value in sent.items() if key in _HOST_DEFAULTS or key in _HOST_OPTIONAL}
    # A zero that the Engine replaces by its default is not kept.
    shown = copy.deepcopy(_HOST_DEFAULTS) | {
        key: copy.deepcopy(value)
        for key, value in known.items()
        if value is not None and not (value in ("", 0, False) and key in {"NetworkMode", "IpcMode", "ShmSize"})
    }
    shown["RestartPolicy"] = {"Name": "", "MaximumRetryCount": 0} | shown["RestartPolicy"]
    shown["LogConfig"] = {
        "Type": shown["LogConfig"].get("Type") or "json-file",
        "Config": shown["LogConfig"].get("Config") or {},
    }
    for bindings in (shown["PortBindings"] or {}).values():
        bindings[:] = [{"HostIp": "", "HostPort": ""} | bound for bound in bindings or ()]
    if shown["DeviceRequests"]:
        empty = {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": None, "Options": None}
        shown["DeviceRequests"] = [empty | request for request in shown["DeviceRequests"]]
    if shown["Memory"] and not shown["MemorySwap"]:
        shown["MemorySwap"] = 2 * shown["Memory"]
    if "HostConfig" in record["body"] or record["started"] is not None:
        shown.setdefault("Runtime", "runc")
    if shown["Privileged"]:
        shown["MaskedPaths"] = shown["ReadonlyPaths"] = None
    _disable_labels(shown)
    return shown


def stamp(moment: float | None) -> str:
    """The Engine's spelling of a time; year 1 for one that never came."""
    return _NEVER if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _disable_labels(shown: dict[str, Any]) -> None:
    given = shown["SecurityOpt"] or []
    shares = shown["Privileged"] or "host" in (shown["IpcMode"], shown["PidMode"])
    if shares and not any(option.startswith("label") for option in given):
        shown["SecurityOpt"] = [*given, "label=disable"]


def _config(record: Record, hostname: str) -> dict[str, Any]:
    body = record["body"]
    shares_name = (body.get("HostConfig") or {}).get("NetworkMode") == "host"
    folder = body.get("WorkingDir") or ""
    mine = environment(record)
    return {
        **_CONFIG_DEFAULTS,
        **{key: body[key] for key in _CONFIG_DEFAULTS if body.get(key)},
        **{key: copy.deepcopy(body[key]) for key in _CONFIG_OPTIONAL if body.get(key)},
        "Hostname": body.get("Hostname") or (hostname if shares_name else record["id"][:12]),
        "Env": [*(body.get("Env") or ()), *(f"{key}={value}" for key, value in _IMAGE_ENV.items() if key not in mine)],
        "Cmd": as_list(body.get("Cmd")) or (None if body.get("Entrypoint") else ["sh"]),
        "Entrypoint": as_list(body.get("Entrypoint")) or None,
        "Image": record["image"],
        "WorkingDir": posixpath.normpath(folder) if folder else "",
        "Labels": dict(body.get("Labels") or {}),
    }


def _state(record: Record, life: Life) -> dict[str, Any]:
    state: dict[str, Any] = {
        "Status": life.status,
        "Running": life.running,
        "Paused": False,
        "Restarting": life.status == "restarting",
        "OOMKilled": False,
        "Dead": False,
        "Pid": int(record["id"][:6], 16) + 1 if life.status == "running" else 0,
        "ExitCode": life.exit_code,
        "Error": record["error"],
        "StartedAt": stamp(life.started),
        "FinishedAt": stamp(life.finished),
    }
    if life.health:
        state["Health"] = {
            "Status": life.health,
            "FailingStreak": int(life.health == "unhealthy" and life.running),
            "Log": [],
        }
    return state


def _mounts(record: Record) -> list[dict[str, Any]]:
    host = record["body"].get("HostConfig") or {}
    found = [_mount(mount) for mount in host.get("Mounts") or ()]
    for bind in host.get("Binds") or ():
        source, target, mode = [*bind.split(":"), ""][:3]
        named = not source.startswith("/")
        words = mode.split(",")
        found.append(
            {
                **({"Type": "volume", "Name": source} if named else {"Type": "bind"}),
                "Source": f"/var/lib/docker/volumes/{source}/_data" if named else source,
                "Destination": target,
                **({"Driver": "local"} if named else {}),
                "Mode": mode or ("z" if named else ""),
                "RW": "ro" not in words,
                "Propagation": ""
                if named
                else next((word for word in words if word.lstrip("r") in _SHARED), "rprivate"),
            }
        )
    return found


_SHARED = {"private", "shared", "slave"}
_BUILT_IN = {"bridge", "host", "none"}


def _mount(mount: Record) -> dict[str, Any]:
    """One of the newer form, whose mode is never shown."""
    source, named = mount.get("Source") or "", mount.get("Type") == "volume"
    return {
        "Type": mount.get("Type") or "bind",
        **({"Name": source} if named else {}),
        "Source": f"/var/lib/docker/volumes/{source}/_data" if named else source,
        "Destination": mount["Target"],
        **({"Driver": "local"} if named else {}),
        "Mode": "z" if named else "",
        "RW": not mount.get("ReadOnly"),
        "Propagation": "" if named else (mount.get("BindOptions") or {}).get("Propagation") or "rprivate",
    }


def _network_settings(record: Record, life: Life) -> dict[str, Any]:
    mode = (record["body"].get("HostConfig") or {}).get("NetworkMode") or "default"
    network = "bridge" if mode == "default" else mode
    addressed = life.status == "running" and network not in {"host", "none"}
    address = f"172.17.{record['sequence'] // 250 % 250}.{record['sequence'] % 250 + 2}" if addressed else ""
    ports: Record = record["ports"] if life.status == "running" else {}
    asked = ((record["body"].get("NetworkingConfig") or {}).get("EndpointsConfig") or {}).get(network) or {}
    aliases = [*(asked.get("Aliases") or ()), record["id"][:12]] if network not in _BUILT_IN else None
    return {
        "Bridge": "",
        "Ports": copy.deepcopy(dict(ports)),
        "IPAddress": address if network == "bridge" else "",
        "Networks": {
            network: {
                "IPAMConfig": None,
                "Links": None,
                "Aliases": aliases,
                "NetworkID": network,
                "EndpointID": record["id"] if life.status == "running" else "",
                "Gateway": "172.17.0.1" if addressed else "",
                "IPAddress": address,
                "IPPrefixLen": 16 if addressed else 0,
                "MacAddress": "",
                "DriverOpts": None,
            }
        },
    }


def _status(life: Life, now: float) -> str:
    """The words of ``docker ps``."""
    match life.status:
        case "created":
            return "Created"
        case "running":
            health = {"": "", "starting": " (health: starting)"}.get(life.health, f" ({life.health})")
            return f"Up {_ago(now - (life.started or now))}{health}"
        case "restarting":
            return f"Restarting ({life.exit_code}) {_ago(now - (life.finished or now))} ago"
    return f"Exited ({life.exit_code}) {_ago(now - (life.finished or now))} ago"


def _ago(seconds: float) -> str:
    """A duration in Docker's words (go-units)."""
    whole = int(seconds)
    if whole < 1:
        return "Less than a second"
    if whole < 60:
        return "1 second" if whole == 1 else f"{whole} seconds"
    minutes = whole // 60
    if minutes < 60:
        return "About a minute" if minutes == 1 else f"{minutes} minutes"
    hours = int(seconds / 3600 + 0.5)
    if hours < 48:
        return "About an hour" if hours == 1 else f"{hours} hours"
    for size, unit in ((24 * 365 * 2, "years"), (24 * 30 * 2, "months"), (24 * 7 * 2, "weeks"), (48, "days")):
        if hours >= size:
            return f"{hours // {'years': 8760, 'months': 720, 'weeks': 168, 'days': 24}[unit]} {unit}"
    raise AssertionError(seconds)
