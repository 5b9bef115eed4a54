"""Every field of a workload: two values, what an edit from one to the other does, and how a container shows it.

The names and values that inspect shows are those of the Docker Engine API; none is computed by the code under test.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = Mapping[str, Any]
Look = Callable[[Json], Any]

SERVICES = ("App", "LocalService")
EVERY = ("App", "Task", "LocalService")
PLACED = ("App", "Task")
ITSELF = "{itself}"
"""Stands for ``kind/name`` of the document: the one workload that is there in every repository."""
MIB = 1024**2


class Effect(StrEnum):
    """What an edit does."""

    REPLACE = "replace"
    UPDATE = "update"
    NOTHING = "nothing"
    REFUSED = "refused"
    """Checked in form; any value but the default comes with a later release."""


@dataclass(frozen=True, slots=True)
class FieldCase:
    """``before`` and ``after`` are laid over the plain document with ``needs``.

    The plan must name ``fields``, as the schema writes them: by default those that differ between the two values.
    ``look`` reads from an inspect document what ``shown`` says for both. ``where`` is ``engine`` where only a real
    Engine shows it, and ``simulated`` where few real machines can.
    """

    name: str
    before: Json
    after: Json
    effect: Effect = Effect.REPLACE
    fields: tuple[str, ...] = ()
    look: Look | None = None
    shown: tuple[Any, Any] = (None, None)
    needs: Json = field(default_factory=dict)
    kinds: tuple[str, ...] = EVERY
    where: str = ""

    def document(self, kind: str, values: Json, **more: Any) -> dict[str, Any]:
        """The whole document of this case."""
        own = {"name": self.name, **more}
        document = overlay(overlay(overlay(plain(kind), own), self.needs), values)
        itself = f"{kind.lower()}/{document['name']}"
        made: dict[str, Any] = json.loads(json.dumps(document).replace(ITSELF, itself))
        return made


def plain(kind: str) -> dict[str, Any]:
    """The smallest document that runs for long and goes away at once."""
    document: dict[str, Any] = {
        "apiVersion": "reconciler/v1",
        "kind": kind,
        "image": "bb:1",
        "args": ["sleep", "1000"],
        "stop": {"gracePeriod": "0s"},
        "resources": {"cpus": 0.01, "cpuPolicy": "shared", "memory": "32Mi"},
    }
    if kind == "Task":
        return document | {"run": "one", "onChange": "restart"}
    return document | {"rollout": {"healthyFor": "0s"}} | ({"instances": 1} if kind == "App" else {})


def overlay(low: Json, high: Json) -> dict[str, Any]:
    """``high`` over ``low``; maps are merged, and None takes a field away."""
    out = dict(low)
    for key, value in high.items():
        if isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = overlay(out[key], value)
        elif value is None:
            out.pop(key, None)
        else:
            out[key] = value
    return out


# -- how inspect shows it


def at(path: str) -> Look:
    """The value at a dotted path; empty lists and maps are as good as none."""

    def look(document: Json) -> Any:
        value: Any = document
        for key in path.split("."):
            value = (value or {}).get(key)
        return value or None

    return look


def env(name: str) -> Look:
    """A variable."""
    return lambda document: dict(one.partition("=")[::2] for one in document["Config"]["Env"]).get(name)


def _cards(document: Json) -> Any:
    return [len(one["DeviceIDs"] or ()) or one["Count"] for one in document["HostConfig"]["DeviceRequests"] or ()]


def _limits(document: Json) -> Any:
    return {one["Name"]: (one["Soft"], one["Hard"]) for one in document["HostConfig"]["Ulimits"] or ()}


def _rdma(document: Json) -> Any:
    host = document["HostConfig"]
    devices = [one["PathOnHost"] for one in host["Devices"] or ()]
    return next(iter(devices), None), host["CapAdd"] or None, _limits(document).get("memlock")


def _mounts(document: Json) -> Any:
    return sorted(
        (one["Type"], one.get("Name") or one["Source"], one["Destination"], one["RW"]) for one in document["Mounts"]
    )


def _propagation(document: Json) -> Any:
    return document["Mounts"][0]["Propagation"]


def _binding(document: Json) -> Any:
    return [
        (key, one.get("HostIp", ""), one["HostPort"])
        for key, bound in sorted((document["HostConfig"]["PortBindings"] or {}).items())
        for one in bound
    ]


def _memory(document: Json) -> Any:
    return document["HostConfig"]["Memory"], document["HostConfig"]["MemorySwap"]


def _pids(document: Json) -> Any:
    return max(0, document["HostConfig"]["PidsLimit"] or 0)


def _bound(document: Json) -> Any:
    return document["HostConfig"]["CpusetMems"] in {"0", "1"}


def _aliases(document: Json) -> Any:
    return [one for one in document["NetworkSettings"]["Networks"]["mesh"]["Aliases"] or () if one in {"db", "cache"}]


def _health(key: str) -> Look:
    return at(f"Config.Healthcheck.{key}")


# -- the table


def _one(name: str, path: str, before: Any, after: Any, **more: Any) -> FieldCase:
    """A case of the one field at a dotted ``path``; the plan names its first part unless ``fields`` says otherwise."""

    def nest(value: Any) -> dict[str, Any]:
        for key in reversed(path.split(".")):
            value = {key: value}
        return dict(value)

    return FieldCase(name, nest(before), nest(after), **more)


def _item(name: str, key: str, before: Json, after: Json, **more: Any) -> FieldCase:
    """A case of one field of the only item of a list."""
    return _one(name, key, [dict(before)], [dict(after)], **more)


def _port(name: str, before: Json, after: Json, *shown: Any) -> FieldCase:
    return _item(name, "ports", before, after, look=_binding, shown=(shown[0], shown[1]))


def _mount(name: str, before: Json, after: Json, *shown: Any) -> FieldCase:
    return _item(name, "volumes", before, after, look=_mounts, shown=(shown[0], shown[1]))


NOTHING, UPDATE, REFUSED = Effect.NOTHING, Effect.UPDATE, Effect.REFUSED
_SLEEP = {"command": ["sleep"], "args": ["1000"]}
_TMP = {"host": "/tmp", "container": "/in"}
_USR = {"host": "/usr", "container": "/in", "readOnly": True}
_CONF = {"file": "a.conf", "container": "/etc/x.conf"}
_TOKEN = {"secret": "hf", "key": "token", "container": "/run/x"}
_NULL = {"host": "/dev/null", "container": "/dev/x", "permissions": "rw"}
_CHECK = {"exec": ["true"], "interval": "1s", "timeout": "20s", "retries": 3, "startPeriod": "0s"}
SECOND = 1_000_000_000

PROCESS = (
    _one("image", "image", "bb:1", "bb:2", look=at("Config.Image"), shown=("bb:1", "bb:2")),
    _one("pull", "pull", "missing", "never", effect=NOTHING),
    _one(
        "command",
        "command",
        ["sleep"],
        ["/bin/sleep"],
        needs=_SLEEP,
        look=at("Config.Entrypoint"),
        shown=(["sleep"], ["/bin/sleep"]),
    ),
    _one(
        "command-empty",
        "command",
        [],
        ["/bin/env"],
        needs={"image": "wrapped:1"},
        look=at("Config.Entrypoint"),
        shown=(None, ["/bin/env"]),
    ),
    _one(
        "command-unset",
        "command",
        None,
        ["/bin/env"],
        needs={"image": "wrapped:1"},
        fields=("command",),
        where="engine",  # what an image has is simulated by no image
        look=at("Config.Entrypoint"),
        shown=(["/bin/env"], ["/bin/env"]),
    ),
    _one(
        "args",
        "args",
        ["sleep", "1000"],
        ["sleep", "2000"],
        look=at("Config.Cmd"),
        shown=(["sleep", "1000"], ["sleep", "2000"]),
    ),
    _one("working-dir", "workingDir", "/tmp/", "/etc", look=at("Config.WorkingDir"), shown=("/tmp", "/etc")),
    _one("user", "user", "1000:1000", "1001", look=at("Config.User"), shown=("1000:1000", "1001")),
    _one("group-add", "groupAdd", ["44"], ["45", "44"], look=at("HostConfig.GroupAdd"), shown=(["44"], ["44", "45"])),
    _one("env", "env", {"A": "one"}, {"A": "two"}, look=env("A"), shown=("one", "two")),
    _one("env-path", "env", {"PATH": "/bin"}, {"PATH": "/bin:/sbin"}, look=env("PATH"), shown=("/bin", "/bin:/sbin")),
    _one(
        "env-secret",
        "env",
        {"A": {"secret": "hf", "key": "token"}},
        {"A": {"secret": "hf", "key": "other"}},
        fields=("env.A",),
        look=env("A"),
        shown=("t0ken", "0ther"),
    ),
    _one("init", "init", before=True, after=False, look=at("HostConfig.Init"), shown=(True, None)),
    _one("hostname", "hostname", "one", "two", look=at("Config.Hostname"), shown=("one", "two")),
    _one("stop-signal", "stop.signal", "SIGTERM", "SIGINT", look=at("Config.StopSignal"), shown=("SIGTERM", "SIGINT")),
    _one("stop-grace", "stop.gracePeriod", "0s", "1s", effect=NOTHING),
)

RESOURCES = (
    _one(
        "cpus",
        "resources.cpus",
        0.01,
        0.02,
        effect=UPDATE,
        look=at("HostConfig.NanoCpus"),
        shown=(10_000_000, 20_000_000),
    ),
    _one(
        "memory",
        "resources.memory",
        "32Mi",
        "64Mi",
        effect=UPDATE,
        look=_memory,
        shown=((32 * MIB, 64 * MIB), (64 * MIB, 128 * MIB)),
    ),
    _one(
        "memory-down",
        "resources.memory",
        "96Mi",
        "40M",
        effect=UPDATE,
        look=_memory,
        shown=((96 * MIB, 192 * MIB), (40_000_000, 80_000_000)),
    ),
    _one("shm", "resources.shm", "1Mi", "2Mi", look=at("HostConfig.ShmSize"), shown=(MIB, 2 * MIB)),
    _one("shm-set", "resources.shm", None, "1Mi", look=at("HostConfig.ShmSize"), shown=(64 * MIB, MIB)),
    _one("pids", "resources.pids", 100, 200, effect=UPDATE, look=_pids, shown=(100, 200)),
    _one("pids-set", "resources.pids", None, 100, effect=UPDATE, look=_pids, shown=(0, 100)),
    _one("pids-clear", "resources.pids", 100, None, effect=UPDATE, look=_pids, shown=(100, 0)),
    _one(
        "ulimits",
        "resources.ulimits",
        {"nofile": 1000},
        {"nofile": 2000, "memlock": "unlimited"},
        look=_limits,
        shown=({"nofile": (1000, 1000)}, {"memlock": (-1, -1), "nofile": (2000, 2000)}),
    ),
    _one(
        "rdma",
        "resources.rdma",
        before=False,
        after=True,
        where="simulated",  # few machines have the devices
        look=_rdma,
        shown=((None, None, None), ("/dev/infiniband", ["IPC_LOCK"], (-1, -1))),
    ),
)

CARDS = (
    _one("gpus", "resources.gpus", 1, 2, fields=("resources.gpus.count",), look=_cards, shown=([1], [2])),
    _one("gpus-none", "resources.gpus", 1, None, look=_cards, shown=([1], [])),
    _one("gpus-count", "resources.gpus", {"count": 1}, {"count": 2}, look=_cards, shown=([1], [2])),
    _one(
        "gpus-model",
        "resources.gpus",
        {"count": 1, "model": "*A100*"},
        {"count": 1, "model": ["*SXM4*", "*H100*"]},
        fields=("resources.gpus.model[]",),
    ),
    _one("gpus-min", "resources.gpus", {"count": 1, "minMemory": "10Gi"}, {"count": 1, "minMemory": "20Gi"}),
    _one(
        "gpus-mig",
        "resources.gpus",
        {"mig": "1g.10gb"},
        {"mig": "2g.20gb", "count": 1},
        fields=("resources.gpus.mig",),
        look=_cards,
        shown=([1], [1]),
    ),
    _one(
        "gpus-link",
        "resources.gpus",
        {"count": 1},
        {"count": 1, "link": "nvlink"},
        look=_cards,
        shown=([1], [1]),
    ),
    _one(
        "gpus-share",
        "resources.gpus",
        {"share": 0.25},
        {"share": 0.5},
        look=env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
        shown=("25", "50"),
    ),
    _one(
        "gpus-share-model",
        "resources.gpus",
        {"share": 0.25, "model": "*A100*"},
        {"share": 0.25, "model": ["*SXM4*", "*H100*"]},
        fields=("resources.gpus.model[]",),
        look=_cards,
        shown=([1], [1]),
    ),
    _one(
        "gpus-shared-memory",
        "resources.gpus",
        {"sharedMemory": "8Gi"},
        {"sharedMemory": "10Gi"},
        look=env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
        shown=("0=8192M", "0=10240M"),
    ),
    _one(
        "gpus-shared-memory-model",
        "resources.gpus",
        {"sharedMemory": "8Gi", "model": "*A100*"},
        {"sharedMemory": "8Gi", "model": ["*SXM4*", "*H100*"]},
        fields=("resources.gpus.model[]",),
        look=_cards,
        shown=([1], [1]),
    ),
    _one(
        "gpus-observe",
        "resources.gpus",
        0,
        {"observe": "all"},
        fields=("resources.gpus",),
        look=_cards,
        shown=([], [-1]),
    ),
)

_ANY: Json = {"type": "ANY"}
_WISH: Json = {
    "type": "COMPOSITE",
    "combiner": "AND",
    "policies": [_ANY, {"type": "MATCH_TAG", "tag": "host-1"}, {"type": "RULE_BASED", "rule": "true"}],
}
_ITSELF: Json = {"workload": ITSELF, "by": "host"}
PLACEMENT = (
    _one("policy", "placementPolicy", {"type": "ANY"}, {"type": "NO_TAG"}, effect=NOTHING, kinds=("App", "Task")),
    _one(
        "policy-max",
        "placementPolicy",
        {"type": "MAX_N_PER_HOST", "max": 1},
        {"type": "MAX_N_PER_HOST", "max": 2},
        effect=NOTHING,
    ),
    _one(
        "policy-rule",
        "placementPolicy",
        {"type": "RULE_BASED", "rule": "host.name == 'host-1'"},
        {"type": "RULE_BASED", "rule": "host.cpus > 1"},
        effect=NOTHING,
    ),
    _one(
        "policy-both",
        "placementPolicy",
        {
            "type": "COMPOSITE",
            "combiner": "AND",
            "policies": [
                {"type": "MATCH_TAG", "tag": "host-1"},
                {"type": "MAX_N_PER_HOST", "max": 1},
                {"type": "RULE_BASED", "rule": "true"},
            ],
        },
        {
            "type": "COMPOSITE",
            "combiner": "OR",
            "policies": [
                {"type": "NO_TAG"},
                {"type": "MAX_N_PER_HOST", "max": 2},
                {"type": "RULE_BASED", "rule": "host.memory > 0"},
                {"type": "ONE_PER_HOST"},
            ],
        },
        effect=NOTHING,
    ),
    _one("numa", "numa", "prefer", "none", effect=NOTHING),
    _one("prefer", "prefer", [_ANY], [{"type": "NO_TAG", "weight": 2}], effect=NOTHING, kinds=PLACED),
    _one(
        "prefer-tag",
        "prefer",
        [{"type": "MATCH_TAG", "tag": "host-1"}, {"type": "RULE_BASED", "rule": "true"}],
        None,
        effect=NOTHING,
        kinds=PLACED,
    ),
    _one(
        "prefer-both",
        "prefer",
        [_WISH],
        [{**_WISH, "combiner": "OR", "policies": [_WISH]}],
        effect=NOTHING,
        kinds=PLACED,
    ),
    _one(
        "spread",
        "spread",
        [{"by": "host", "maxSkew": 1, "required": False, "weight": 1}],
        None,
        effect=NOTHING,
        kinds=PLACED,
    ),
    _one("spread-set", "spread", None, [{"by": "host", "required": True}], effect=NOTHING, kinds=PLACED),
    *(
        _one(name, field, before, after, effect=NOTHING, kinds=PLACED)
        for field in ("affinity", "antiAffinity")
        for name, before, after in (
            (f"{field.lower()}", [{**_ITSELF, "required": False, "weight": 1}], None),
            (f"{field.lower()}-set", None, [{**_ITSELF, "required": True}]),
        )
    ),
    _one("on-host-lost", "onHostLost", "wait", "replace", effect=REFUSED),
)

NETWORK = (
    _one("network", "network", "bridge", "none", look=at("HostConfig.NetworkMode"), shown=("bridge", "none")),
    _one("network-host", "network", "host", "mesh", look=at("HostConfig.NetworkMode"), shown=("host", "mesh")),
    _one("aliases", "aliases", ["db"], ["cache"], needs={"network": "mesh"}, look=_aliases, shown=(["db"], ["cache"])),
    _port(
        "port-container",
        {"container": 80, "host": 8080},
        {"container": 81, "host": 8080},
        [("80/tcp", "", "8080")],
        [("81/tcp", "", "8080")],
    ),
    _port(
        "port-host",
        {"container": 80, "host": 8081},
        {"container": 80, "host": 8082},
        [("80/tcp", "", "8081")],
        [("80/tcp", "", "8082")],
    ),
    _port(
        "port-ip",
        {"container": 80, "host": 8083},
        {"container": 80, "host": 8083, "hostIp": "127.0.0.1"},
        [("80/tcp", "", "8083")],
        [("80/tcp", "127.0.0.1", "8083")],
    ),
    _port(
        "port-protocol",
        {"container": 80, "host": 8084},
        {"container": 80, "host": 8084, "protocol": "udp"},
        [("80/tcp", "", "8084")],
        [("80/udp", "", "8084")],
    ),
    _item(
        "port-name",
        "ports",
        {"container": 80, "host": 8085, "name": "one"},
        {"container": 80, "host": 8085, "name": "two"},
        look=env("PORT_two"),
        shown=(None, "8085"),
    ),
    _item("port-free", "ports", {"container": 80, "name": "p"}, {"container": 81, "name": "p"}),
    _one(
        "ports-none",
        "ports",
        [{"container": 80, "host": 8086}],
        None,
        fields=("ports",),
        look=_binding,
        shown=([("80/tcp", "", "8086")], []),
    ),
    _one(
        "dns",
        "dns",
        ["10.0.0.2", "10.0.0.1"],
        ["10.0.0.1", "10.0.0.2"],
        look=at("HostConfig.Dns"),
        shown=(["10.0.0.2", "10.0.0.1"], ["10.0.0.1", "10.0.0.2"]),
    ),
    _one(
        "extra-hosts",
        "extraHosts",
        ["a:10.0.0.2"],
        ["a:10.0.0.3"],
        look=at("HostConfig.ExtraHosts"),
        shown=(["a:10.0.0.2"], ["a:10.0.0.3"]),
    ),
)

STORAGE = (
    _mount(
        "volume-host",
        _TMP,
        {**_TMP, "host": "/var/tmp"},
        [("bind", "/tmp", "/in", True)],
        [("bind", "/var/tmp", "/in", True)],
    ),
    _mount(
        "volume-container",
        _TMP,
        {**_TMP, "container": "/to"},
        [("bind", "/tmp", "/in", True)],
        [("bind", "/tmp", "/to", True)],
    ),
    _mount(
        "volume-mode",
        _TMP,
        {**_TMP, "readOnly": True},
        [("bind", "/tmp", "/in", True)],
        [("bind", "/tmp", "/in", False)],
    ),
    _item(
        "volume-propagation",
        "volumes",
        {**_USR, "propagation": "rprivate"},
        {**_USR, "propagation": "private"},
        look=_propagation,
        shown=("rprivate", "private"),
    ),
    _mount(
        "volume-named",
        {"volume": "one", "container": "/v"},
        {"volume": "two", "container": "/v"},
        [("volume", "one", "/v", True)],
        [("volume", "two", "/v", True)],
    ),
    _item("config-file", "configs", _CONF, {**_CONF, "file": "b.conf"}, fields=("configs[].content",)),
    _item("config-container", "configs", _CONF, {**_CONF, "container": "/etc/y.conf"}),
    _item("config-mode", "configs", _CONF, {**_CONF, "mode": "0400"}),
    _item("secret-secret", "secretFiles", _TOKEN, {**_TOKEN, "secret": "gh"}),
    _item("secret-key", "secretFiles", _TOKEN, {**_TOKEN, "key": "other"}, fields=("secretFiles[].secret",)),
    _item("secret-container", "secretFiles", _TOKEN, {**_TOKEN, "container": "/run/y"}),
    _item(
        "tmpfs",
        "tmpfs",
        {"container": "/x"},
        {"container": "/y"},
        look=at("HostConfig.Tmpfs"),
        shown=({"/x": ""}, {"/y": ""}),
    ),
    _item(
        "tmpfs-size",
        "tmpfs",
        {"container": "/x", "size": "1Mi"},
        {"container": "/x", "size": "1M"},
        look=at("HostConfig.Tmpfs"),
        shown=({"/x": "size=1048576"}, {"/x": "size=1000000"}),
    ),
    _item(
        "device",
        "devices",
        _NULL,
        {"host": "/dev/zero", "container": "/dev/y", "permissions": "r"},
        look=at("HostConfig.Devices"),
        shown=(
            [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/x", "CgroupPermissions": "rw"}],
            [{"PathOnHost": "/dev/zero", "PathInContainer": "/dev/y", "CgroupPermissions": "r"}],
        ),
    ),
)

RIGHTS = (
    _one("ipc", "ipc", "shareable", "host", look=at("HostConfig.IpcMode"), shown=("shareable", "host")),
    _one("pid", "pid", None, "host", look=at("HostConfig.PidMode"), shown=(None, "host")),
    _one(
        "cap-add",
        "capAdd",
        ["NET_ADMIN"],
        ["CAP_SYS_TIME"],
        look=at("HostConfig.CapAdd"),
        shown=(["NET_ADMIN"], ["SYS_TIME"]),
    ),
    _one("cap-drop", "capDrop", ["ALL"], ["mknod"], look=at("HostConfig.CapDrop"), shown=(["ALL"], ["MKNOD"])),
    _one(
        "security-opt",
        "securityOpt",
        ["no-new-privileges"],
        ["seccomp=unconfined"],
        look=at("HostConfig.SecurityOpt"),
        shown=(["no-new-privileges"], ["seccomp=unconfined"]),
    ),
    _one(
        "privileged",
        "privileged",
        before=False,
        after=True,
        where="simulated",  # a virtual machine that lacks a capability cannot run one
        look=at("HostConfig.Privileged"),
        shown=(None, True),
    ),
    _one("runtime", "runtime", None, "runc", look=at("HostConfig.Runtime"), shown=("runc", "runc")),
    _one(
        "log-driver",
        "logging",
        {"driver": "json-file"},
        {"driver": "none"},
        fields=("logging",),
        look=at("HostConfig.LogConfig"),
        shown=(
            {"Type": "json-file", "Config": {"max-file": "3", "max-size": "10m"}},
            {"Type": "none", "Config": {}},
        ),
    ),
    _one(
        "log-options",
        "logging",
        {"options": {"max-size": "1m"}},
        {"options": {"max-size": "2m", "max-file": "2"}},
        look=at("HostConfig.LogConfig.Config"),
        shown=({"max-file": "3", "max-size": "1m"}, {"max-file": "2", "max-size": "2m"}),
    ),
)


def _check(part: str, key: str, before: Any, after: Any, shown: str, *values: Any) -> FieldCase:
    return FieldCase(
        f"{part}-{key.lower()}",
        {part: {key: before}},
        {part: {key: after}},
        fields=(
            "health.exec[]" if key == "exec" else f"health.{key}",
        ),  # readiness and health are one check of the Engine
        look=_health(shown),
        shown=(values[0], values[1]),
        needs={part: _CHECK},
        kinds=SERVICES,
    )


WATCHED = tuple(
    case
    for part in ("readiness", "health")
    for case in (
        _check(part, "exec", ["true"], ["test", "-d", "/"], "Test", ["CMD", "true"], ["CMD", "test", "-d", "/"]),
        _check(part, "interval", "1s", "1500ms", "Interval", SECOND, 1_500_000_000),
        _check(part, "timeout", "20s", "30s", "Timeout", 20 * SECOND, 30 * SECOND),
        _check(part, "retries", 3, 4, "Retries", 3, 4),
        _check(part, "startPeriod", "0s", "1m", "StartPeriod", None, 60 * SECOND),
    )
)

BEHAVIOUR = (
    FieldCase("owner", {"owner": "a"}, {"owner": "b"}, NOTHING),
    FieldCase(
        "labels", {"labels": {"a": "1"}}, {"labels": {"a": "2"}}, NOTHING, look=at("Config.Labels.a"), shown=("1", "1")
    ),
    FieldCase("priority", {"priority": 1}, {"priority": -5}, NOTHING),
    _one(
        "restart",
        "restart",
        "always",
        "on-failure",
        effect=UPDATE,
        kinds=SERVICES,
        look=at("HostConfig.RestartPolicy.Name"),
        shown=("always", "on-failure"),
    ),
    _one(
        "restart-task",
        "restart",
        "never",
        "on-failure",
        effect=UPDATE,
        kinds=("Task",),
        look=lambda document: document["HostConfig"]["RestartPolicy"]["Name"] or "no",
        shown=("no", "on-failure"),
    ),
    _one("order", "rollout.order", "auto", "stop-first", effect=NOTHING, kinds=SERVICES),
    _one("healthy-for", "rollout.healthyFor", "0s", "10ms", effect=NOTHING, kinds=SERVICES),
    _one("deadline", "rollout.deadline", "10m", "20m", effect=NOTHING, kinds=SERVICES),
    _one("max-unavailable", "rollout.maxUnavailable", 1, 2, effect=REFUSED, kinds=SERVICES),
    _one("on-failure", "rollout.onFailure", "stop", "rollback", effect=REFUSED, kinds=SERVICES),
    _one("members", "members", 1, 2, effect=REFUSED, kinds=("Task",)),
    _one("on-change", "onChange", "restart", "finish", effect=NOTHING, kinds=("Task",)),
)

GROUPS = {
    "process": PROCESS,
    "resources": RESOURCES,
    "cards": CARDS,
    "placement": PLACEMENT,
    "network": NETWORK,
    "storage": STORAGE,
    "rights": RIGHTS,
    "watched": WATCHED,
    "behaviour": BEHAVIOUR,
}
"""Those of a group run side by side: none takes a core of its own, and no two take one port."""


def group(name: str, kind: str) -> list[FieldCase]:
    """The cases of a group that a kind has and that are not refused."""
    return [case for case in GROUPS[name] if kind in case.kinds and case.effect is not Effect.REFUSED]


_OWN = {"resources": {"cpus": 1, "cpuPolicy": "exclusive"}}
ALONE = (
    _one("cores", "resources.cpus", 1, 2, effect=UPDATE, fields=("resources.cpus", "cpuset"), needs=_OWN),
    _one("cores-down", "resources.cpus", 3, 1, effect=UPDATE, fields=("resources.cpus", "cpuset"), needs=_OWN),
    _one(
        "to-shared",
        "resources",
        {"cpus": 1, "cpuPolicy": "exclusive"},
        {"cpus": 1, "cpuPolicy": "shared"},
        effect=UPDATE,
        fields=("resources.cpuPolicy", "cpuset"),
    ),
    _one(
        "to-exclusive",
        "resources",
        {"cpus": 1, "cpuPolicy": "shared"},
        {"cpus": 1, "cpuPolicy": "exclusive"},
        fields=("resources.cpuPolicy", "cpuset"),
    ),
    _one("numa-require", "numa", "prefer", "require", effect=NOTHING, needs=_OWN),
    _one(
        "numa-prefer",
        "numa",
        "require",
        "prefer",
        effect=NOTHING,
        needs=_OWN,
        look=_bound,
        shown=(True, True),
    ),
)
"""Those that take cores, and with them change the cpuset of all shared work on their host."""


VIOLATED = _one(
    "policy-tag",
    "placementPolicy",
    {"type": "MATCH_TAG", "tag": "host-1"},
    {"type": "MATCH_TAG", "tag": "elsewhere"},
    effect=NOTHING,
    kinds=("App", "Task"),
)
"""The plan reports that its policy holds no longer, and does not enforce it."""


# -- which fields the table has


def named(case: FieldCase) -> set[str]:
    """What the plan must name."""
    return set(case.fields) or varied(case)


def varied(case: FieldCase) -> set[str]:
    """Paths whose values differ between the two documents, written as the schema writes them: ``ports[].host``."""
    before, after = (_flat(values) for values in (case.before, case.after))
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def _flat(value: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for path, leaf in _leaves(value, ""):
        found.setdefault(path, []).append(leaf)
    return found


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part, f"{path}[]")
    else:
        yield path, value


def schema_fields(schema: Json, kind: str) -> set[str]:
    """Paths of every supported field of a kind in the JSON Schema. A map of free names is one field."""
    return set(_fields(schema["$defs"], {"$ref": f"#/$defs/{kind}"}, "", ()))


def _fields(definitions: Json, node: Json, path: str, seen: tuple[str, ...]) -> Iterator[str]:
    reference = node.get("$ref", "")
    if str(node.get("description", "")).endswith("Not supported yet.") or reference in seen:
        return
    if reference:
        seen = (*seen, reference)
        node = {**definitions[reference.rpartition("/")[2]], **{k: v for k, v in node.items() if k != "$ref"}}
    # Beside properties they are conditions on those, and no forms of their own.
    inner = [] if "properties" in node else [*node.get("anyOf", ()), *node.get("oneOf", ())]
    parts = [(f"{path}.{key}" if path else key, part) for key, part in node.get("properties", {}).items()]
    parts += [(path, part) for part in inner if part.get("type") != "null"]
    parts += [(f"{path}[]", node["items"])] if "items" in node else []
    if not parts:
        yield path
    for where, part in parts:
        yield from _fields(definitions, part, where, seen)
