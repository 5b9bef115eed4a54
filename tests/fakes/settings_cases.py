"""Every field of Host and Cluster with two values, what an edit does to workloads; and spellings that mean the same."""

from dataclasses import dataclass
from typing import Any

from tests.fakes.field_cases import FieldCase, Json, plain, varied

SECRET = {"secret": "hf", "key": "token"}
WORKLOADS: tuple[dict[str, Any], ...] = (
    {**plain("App"), "name": "pooled", "env": {"A": SECRET}},
    {**plain("App"), "name": "cores", "resources": {"cpus": 2, "memory": "1Gi", "gpus": 1}, "numa": "require"},
    {**plain("Task"), "name": "job"},
    {**plain("LocalService"), "name": "local", "resources": {"cpus": 0.1, "cpuPolicy": "shared", "memory": "32Mi"}},
)
"""One of each kind, on shared cores and on cores of its own, with a card and a secret."""


@dataclass(frozen=True, slots=True)
class SettingsCase:
    """Two values of the Host or the Cluster; ``planned`` is (action, name of the workload, fields)."""

    name: str
    kind: str
    before: Json
    after: Json
    planned: tuple[tuple[str, ...], ...] = ()

    def varied(self) -> set[str]:
        """Paths whose values differ."""
        return varied(FieldCase(self.name, self.before, self.after))


def _host(name: str, before: Json, after: Json, *planned: tuple[str, ...]) -> SettingsCase:
    return SettingsCase(f"host-{name}", "Host", before, after, planned)


def _cluster(name: str, before: Json, after: Json, *planned: tuple[str, ...]) -> SettingsCase:
    return SettingsCase(f"cluster-{name}", "Cluster", before, after, planned)


def _all(field: str) -> tuple[tuple[str, ...], ...]:
    return tuple(("replace", str(workload["name"]), field) for workload in WORKLOADS)


HOST_CASES = (
    _host("address", {"address": "10.0.0.1"}, {"address": "10.0.0.2"}),
    _host("facts", {"facts": "facts.json"}, {"facts": "./facts.json"}),
    _host("tags", {"tags": []}, {"tags": ["a100"]}),
    _host("labels", {"labels": {"a": "1"}}, {"labels": {"a": "2"}}),
    _host(
        "env",
        {"env": {"A": "1", "B": "1"}},
        {"env": {"A": "2", "B": "2"}},
        ("replace", "pooled", "env.B"),  # its own A wins
        ("replace", "cores", "env.A", "env.B"),
        ("replace", "job", "env.A", "env.B"),
        ("replace", "local", "env.A", "env.B"),
    ),
    _host(
        "reserved-cpus",
        {"reserved": {"cpus": "63"}},
        {"reserved": {"cpus": "62-63"}},
        ("update", "local", "cpuset"),  # the others share the cores of the other node
    ),
    _host("reserved-memory", {"reserved": {"memory": "1Gi"}}, {"reserved": {"memory": "2Gi"}}),
    _host("state", {"state": "active"}, {"state": "cordoned"}),
    _host("gpu-mode", {"gpuMode": "managed"}, {"gpuMode": "none"}),
    _host("gpus", {"gpus": {"exclude": []}}, {"gpus": {"exclude": ["GPU-00000000-0000"]}}),
    _host("mig", {"mig": {"create": False}}, {"mig": {"create": True}}),
    _host("ignore", {"ignoreContainers": []}, {"ignoreContainers": ["dcgm-*"]}),
)
_PROFILES = [
    {
        "match": ["app/*"],
        "mounts": ["/a", {"path": "/b", "readOnly": True}],
        "hostNetwork": True,
        "ipc": "host",
        "pid": "host",
        "privileged": True,
        "capabilities": ["SYS_ADMIN"],
        "devices": ["/dev/fuse"],
        "rdma": True,
        "securityOpt": ["seccomp=unconfined"],
        "runtime": "runc",
        "allGpus": True,
    }
]
_OTHERS = [
    {
        "match": ["task/*"],
        "mounts": ["/c", {"path": "/d", "readOnly": False}],
        "hostNetwork": False,
        "ipc": "",
        "pid": "",
        "privileged": False,
        "capabilities": [],
        "devices": [],
        "rdma": False,
        "securityOpt": [],
        "runtime": "",
        "allGpus": False,
    }
]
CLUSTER_CASES = (
    _cluster("defaults", {"defaults": {"env": {"B": "1"}}}, {"defaults": {"env": {"B": "2"}}}, *_all("env.B")),
    _cluster(
        "prune",
        {"prune": {"enabled": True, "maxFraction": 0.3}},
        {"prune": {"enabled": False, "maxFraction": 0.5}},
    ),
    _cluster("profiles", {"securityProfiles": _PROFILES}, {"securityProfiles": _OTHERS}),
    _cluster("secrets", {"secrets": {"directory": "secrets"}}, {"secrets": {"directory": "x/../secrets"}}),
    _cluster(
        "hash-key",
        {"secrets": {"hashKey": {"secret": "key", "key": "key"}}},
        {"secrets": {"hashKey": {"secret": "hf", "key": "other"}}},
        ("replace", "pooled", "secrets"),
    ),
)

_A, _B = {"container": 80, "host": 8080}, {"container": 81, "host": 8081}
SPELLINGS: tuple[tuple[Json, Json], ...] = (
    ({"resources": {"memory": "1Gi"}}, {"resources": {"memory": "1024MiB"}}),
    ({"resources": {"shm": "1Mi"}}, {"resources": {"shm": 1048576}}),
    ({"resources": {"cpus": 1, "cpuPolicy": None}}, {"resources": {"cpus": 1.0, "cpuPolicy": "exclusive"}}),
    ({"resources": {"gpus": 2}}, {"resources": {"gpus": {"count": 2, "minMemory": 0}}}),
    ({"resources": {"ulimits": {"memlock": "unlimited"}}}, {"resources": {"ulimits": {"memlock": -1}}}),
    ({"workingDir": "/tmp"}, {"workingDir": "/tmp/"}),
    ({"env": {"A": "1", "B": "2"}}, {"env": {"B": "2", "A": "1"}}),
    ({"groupAdd": ["1", "2"]}, {"groupAdd": ["2", "1", "2"]}),
    ({"capAdd": ["NET_ADMIN", "CHOWN"]}, {"capAdd": ["cap_chown", "CAP_NET_ADMIN"]}),
    ({"ports": [_A, _B]}, {"ports": [{**_B, "protocol": "tcp"}, {**_A, "hostIp": ""}]}),
    (
        {"volumes": [{"volume": "v", "container": "/v"}]},
        {"volumes": [{"volume": "v", "container": "/v/", "readOnly": False}]},
    ),
    ({"volumes": [{"host": "/tmp", "container": "/v"}]}, {"volumes": [{"host": "//tmp/./", "container": "/v"}]}),
    ({"tmpfs": [{"container": "/x"}]}, {"tmpfs": [{"container": "/x/", "size": 0}]}),
    (
        {"configs": [{"file": "a.conf", "container": "/c"}]},
        {"configs": [{"file": "./a.conf", "container": "/c", "mode": "0444"}]},
    ),
    (
        {"devices": [{"host": "/dev/null"}]},
        {"devices": [{"host": "/dev/null", "container": "/dev/null", "permissions": "rwm"}]},
    ),
    ({"stop": {"gracePeriod": "60s"}}, {"stop": {"gracePeriod": "1m"}}),
    ({"logging": {"driver": "json-file"}}, {"logging": {"options": {"max-file": "3", "max-size": "10m"}}}),
    ({"labels": None}, {"labels": {}}),
    ({"x-note": "one"}, {"x-note": "two"}),
    ({"network": "bridge", "numa": "prefer", "init": False}, {"privileged": False, "pull": "missing", "ipc": ""}),
)
"""Each pair means the same."""
