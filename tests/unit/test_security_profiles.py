"""Security profiles: nothing is allowed without one, and the error says the line to add."""

import pytest

from reconciler.desired.resolve import Cache, resolve
from reconciler.errors import SpecError
from reconciler.model.workload import Workload
from tests.fakes.trees import APP, CLUSTER, tree


def workload(text: str, cluster: str = CLUSTER) -> Workload:
    """The one workload of a document."""
    (found,) = resolve(tree({"a.yaml": text, "cluster.yaml": cluster}), Cache()).workloads
    return found


def problems(files: dict[str, str]) -> list[str]:
    """Every problem of a tree."""
    with pytest.raises(SpecError) as caught:
        resolve(tree(files), Cache())
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("lines", "what", "grant"),
    [
        ("volumes: [{host: /srv, container: /a}]", "host path /srv", "mounts: [/srv]"),
        (
            "volumes: [{host: /srv/, container: /a, readOnly: true}]",
            "host path /srv",
            "mounts: [{path: /srv, readOnly: true}]",
        ),
        ("network: host", "network: host", "hostNetwork: true"),
        ("ipc: host", "ipc: host", "ipc: host"),
        ("pid: host", "pid: host", "pid: host"),
        ("privileged: true", "privileged: true", "privileged: true"),
        ("capAdd: [cap_net_admin]", "capability NET_ADMIN", "capabilities: [NET_ADMIN]"),
        ("devices: [{host: /dev/fuse}]", "device /dev/fuse", "devices: [/dev/fuse]"),
        (
            "securityOpt: [seccomp=unconfined]",
            "security option seccomp=unconfined",
            'securityOpt: ["seccomp=unconfined"]',
        ),
        ("runtime: runsc", "runtime runsc", "runtime: runsc"),
        ("resources: {rdma: true}", "RDMA", "rdma: true"),
        ("resources: {gpus: all}", "every card of the host", "allGpus: true"),
        ("resources: {gpus: {observe: all}}", "every card of the host", "allGpus: true"),
    ],
)
def test_nothing_is_allowed_without_a_profile(lines: str, what: str, grant: str) -> None:
    """The error says the line to add, and with that line it is allowed."""
    (found,) = problems({"a.yaml": APP + lines + "\n"})
    line = f'- {{match: ["app/web"], {grant}}}'
    assert found.endswith(f"{what} is not allowed for app/web; add to securityProfiles of the Cluster: {line}")
    assert workload(APP + lines + "\n", CLUSTER + f"securityProfiles:\n  {line}\n").name == "web"


@pytest.mark.parametrize(
    "lines",
    [
        "volumes: [{volume: v, container: /a}]",
        "tmpfs: [{container: /tmp}]",
        "init: true",
        "capDrop: [ALL]",
        "ipc: private",
        "ipc: shareable",
        "securityOpt: [no-new-privileges]",
        "network: none",
        "user: root",
    ],
)
def test_what_needs_no_profile(lines: str) -> None:
    """Named volumes, tmpfs and whatever takes rights away are always allowed."""
    assert workload(APP + lines + "\n").name == "web"


@pytest.mark.parametrize(
    ("host", "read_only", "allowed"),
    [
        ("/data", False, True),
        ("/data/models/llama", False, True),
        ("/data/../data/x", False, True),
        ("//data", False, True),
        ("/data-old", False, False),
        ("/data/../etc", False, False),
        ("/", False, False),
        ("/models", True, True),
        ("/models/a", True, True),
        ("/models", False, False),
    ],
)
def test_mounts_are_compared_by_component(host: str, read_only: bool, allowed: bool) -> None:
    """After ``..`` is resolved; a read-only grant grants no writing."""
    cluster = CLUSTER + "securityProfiles: [{match: ['*'], mounts: [/data/, {path: /models, readOnly: true}]}]\n"
    text = APP + f"volumes: [{{host: {host}, container: /a, readOnly: {str(read_only).lower()}}}]\n"
    if allowed:
        assert workload(text, cluster).container.volumes[0].host.startswith(("/data", "/models"))
    else:
        (found,) = problems({"a.yaml": text, "c.yaml": cluster})
        assert "is not allowed for app/web; add mounts: [" in found
        assert found.endswith("to the profile at c.yaml:4")


def test_the_first_profile_that_matches_wins() -> None:
    """A later one adds nothing."""
    cluster = CLUSTER + (
        "securityProfiles:\n  - {match: [app/api, 'localservice/*']}\n  - {match: ['app/*'], hostNetwork: true}\n"
    )
    assert workload(APP + "network: host\n", cluster).container.network == "host"
    found = problems({"a.yaml": APP.replace("web", "api") + "network: host\n", "c.yaml": cluster})
    assert found == [
        "a.yaml:6:10: network: host is not allowed for app/api; add hostNetwork: true to the profile at c.yaml:5"
    ]
