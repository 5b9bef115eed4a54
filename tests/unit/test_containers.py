"""The codec: what is sent to the Engine, and what is read back from inspect."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from reconciler.actual.containers import born, decode, limits_of
from reconciler.actual.labels import PREFIX, LabelError, decode_allocation, decode_labels, encode_allocation
from reconciler.model.resources import AllGpus, GpuShare, MigSlices, ObserveGpus, Request, WholeGpus
from reconciler.model.snapshot import Container, Limits
from reconciler.model.workload import (
    Allocation,
    ContainerSpec,
    Device,
    HealthCheck,
    InstanceId,
    Kind,
    Logging,
    Port,
    SecretRef,
    Share,
    Slice,
    Tmpfs,
    Ulimit,
    Volume,
    Workload,
)
from tests.fakes.engine import inspect_document
from tests.fakes.workloads import GIB, GPUS, HOST, SLICES, app, body_of, facts

AT = "2026-01-01T00:00:00.5Z"


def shown(body: dict[str, Any], **state: Any) -> dict[str, Any]:
    """An inspect document of a running container made from ``body``."""
    document = inspect_document("c", body, "id", AT)
    document["State"].update({"Status": "running", **state})
    return document


def read(body: dict[str, Any], **state: Any) -> Container:
    """That document, decoded for the cluster ``lab``."""
    return decode(shown(body, **state), "lab", facts=facts())


INFINIBAND = {"PathOnHost": "/dev/infiniband", "PathInContainer": "/dev/infiniband", "CgroupPermissions": "rwm"}


def limit(name: str, value: int) -> dict[str, Any]:
    """One entry of ``Ulimits``."""
    return {"Name": name, "Soft": value, "Hard": value}


CASES: list[tuple[str, dict[str, Any], Allocation, dict[str, Any]]] = [
    (
        "whole cards by UUID, never a count",
        {"gpus": WholeGpus(2)},
        Allocation(gpus=GPUS[:2], cpus=(0, 1, 2, 8), memory_nodes=(0,)),
        {
            "DeviceRequests": [{"Driver": "nvidia", "Capabilities": [["gpu"]], "DeviceIDs": list(GPUS[:2])}],
            "CpusetCpus": "0-2,8",
            "CpusetMems": "0",
        },
    ),
    (
        "slices by UUID",
        {"gpus": MigSlices("1g.10gb")},
        Allocation(mig=(Slice(GPUS[3], "1g.10gb", 0, SLICES[0]),)),
        {"DeviceRequests": [{"Driver": "nvidia", "Capabilities": [["gpu"]], "DeviceIDs": [SLICES[0]]}]},
    ),
    (
        "the card of a share by UUID",
        {"gpus": GpuShare(500)},
        Allocation(share=Share(GPUS[1], 500, 40 * GIB)),
        {"DeviceRequests": [{"Driver": "nvidia", "Capabilities": [["gpu"]], "DeviceIDs": [GPUS[1]]}]},
    ),
    (
        "RDMA needs its devices and memory that may be pinned",
        {"rdma": True, "ulimits": (Ulimit("nofile", 9),)},
        Allocation(),
        {"Devices": [INFINIBAND], "CapAdd": ["IPC_LOCK"], "Ulimits": [limit("nofile", 9), limit("memlock", -1)]},
    ),
    (
        "what a spec says itself of RDMA's needs is not said twice",
        {
            "rdma": True,
            "devices": (Device("/dev/infiniband/", "/dev/infiniband", "rw"),),
            "cap_add": ("CAP_IPC_LOCK",),
            "ulimits": (Ulimit("memlock", 64 * GIB),),
        },
        Allocation(),
        {
            "Devices": [INFINIBAND | {"PathOnHost": "/dev/infiniband/", "CgroupPermissions": "rw"}],
            "CapAdd": ["CAP_IPC_LOCK"],
            "Ulimits": [limit("memlock", 64 * GIB)],
        },
    ),
    (
        "all capabilities have the one that RDMA needs",
        {"rdma": True, "cap_add": ("ALL",)},
        Allocation(),
        {"Devices": [INFINIBAND], "CapAdd": ["ALL"]},
    ),
    (
        "an exporter sees every card",
        {"gpus": ObserveGpus()},
        Allocation(),
        {"DeviceRequests": [{"Driver": "nvidia", "Capabilities": [["gpu"]], "Count": -1}]},
    ),
    (
        "pass-through gives every card",
        {"gpus": AllGpus()},
        Allocation(),
        {"DeviceRequests": [{"Driver": "nvidia", "Capabilities": [["gpu"]], "Count": -1}]},
    ),
    ("no card, no request", {}, Allocation(), {"DeviceRequests": []}),
    (
        "a bind is a mount, so that a missing source is refused",
        {"volumes": (Volume("/in", host="/data", read_only=True, propagation="rslave"), Volume("/v", volume="cache"))},
        Allocation(),
        {
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": "/data",
                    "Target": "/in",
                    "ReadOnly": True,
                    "BindOptions": {"Propagation": "rslave"},
                },
                {"Type": "volume", "Source": "cache", "Target": "/v", "ReadOnly": False},
            ]
        },
    ),
    (
        "what a GPU job needs",
        {
            "shm": 16 * GIB,
            "ulimits": (Ulimit("memlock", -1), Ulimit("nofile", 1048576)),
            "ipc": "host",
            "pid": "host",
            "tmpfs": (Tmpfs("/scratch", 1024), Tmpfs("/run")),
            "devices": (Device("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0"),),
            "cap_add": ("SYS_NICE",),
            "cap_drop": ("ALL",),
            "security_opt": ("no-new-privileges",),
            "privileged": True,
            "runtime": "runc",
            "group_add": ("video",),
            "init": True,
            "dns": ("10.0.0.1",),
            "extra_hosts": ("a:10.0.0.2",),
        },
        Allocation(),
        {
            "ShmSize": 16 * GIB,
            "Ulimits": [
                {"Name": "memlock", "Soft": -1, "Hard": -1},
                {"Name": "nofile", "Soft": 1048576, "Hard": 1048576},
            ],
            "IpcMode": "host",
            "PidMode": "host",
            "Tmpfs": {"/scratch": "size=1024", "/run": ""},
            "Devices": [
                {
                    "PathOnHost": "/dev/infiniband/uverbs0",
                    "PathInContainer": "/dev/infiniband/uverbs0",
                    "CgroupPermissions": "rwm",
                }
            ],
            "CapAdd": ["SYS_NICE"],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Privileged": True,
            "Runtime": "runc",
            "GroupAdd": ["video"],
            "Init": True,
            "Dns": ["10.0.0.1"],
            "ExtraHosts": ["a:10.0.0.2"],
        },
    ),
    (
        "ports with their host addresses",
        {"ports": (Port(8000, "http", 80, "10.0.0.1"), Port(9000, "admin"), Port(53, "dns", protocol="udp"))},
        Allocation(ports=((53, "udp", 30001), (8000, "tcp", 80), (9000, "tcp", 30000))),
        {
            "PortBindings": {
                "8000/tcp": [{"HostIp": "10.0.0.1", "HostPort": "80"}],
                "9000/tcp": [{"HostIp": "", "HostPort": "30000"}],
                "53/udp": [{"HostIp": "", "HostPort": "30001"}],
            }
        },
    ),
    ("in the host's network nothing is published", {"network": "host", "ports": (Port(8000),)}, Allocation(), {}),
    (
        "logging as it was asked for",
        {"logging": Logging("journald", ())},
        Allocation(),
        {"LogConfig": {"Type": "journald", "Config": {}}},
    ),
]


@pytest.mark.parametrize(("container", "allocation", "wanted"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_host_config(container: dict[str, Any], allocation: Allocation, wanted: dict[str, Any]) -> None:
    """Each field of a spec stands in ``HostConfig`` in the Engine's own form."""
    host_config = body_of(app(**container), allocation)["HostConfig"]
    assert {key: host_config[key] for key in wanted} == wanted
    if container.get("network") == "host":
        assert "PortBindings" not in host_config


def test_process() -> None:
    """Entry point, arguments, user, health check and stopping stand at the top of the body; unset fields are absent."""
    workload = replace(
        app(
            command=("serve",),
            args=("--port", "1"),
            working_dir="/w",
            user="1000:1000",
            hostname="x",
            stop_signal="SIGINT",
            health=HealthCheck(("true",), 1.5, 0.5, 4, 60),
        ),
        grace_period=12.5,
    )
    body = body_of(workload)
    assert {key: body[key] for key in ("Entrypoint", "Cmd", "WorkingDir", "User", "Hostname", "StopSignal")} == {
        "Entrypoint": ["serve"],
        "Cmd": ["--port", "1"],
        "WorkingDir": "/w",
        "User": "1000:1000",
        "Hostname": "x",
        "StopSignal": "SIGINT",
    }
    assert body["StopTimeout"] == 13
    assert body["Healthcheck"] == {
        "Test": ["CMD", "true"],
        "Interval": 1_500_000_000,
        "Timeout": 500_000_000,
        "Retries": 4,
        "StartPeriod": 60_000_000_000,
    }
    plain = body_of(app())
    assert not {"Entrypoint", "Cmd", "WorkingDir", "User", "Hostname", "StopSignal", "Healthcheck"} & plain.keys()


def test_an_empty_command_is_not_an_unset_one() -> None:
    """``command: []`` clears the image's entry point, which leaving it out does not."""
    assert body_of(app(command=()))["Entrypoint"] == []


@pytest.mark.parametrize(
    ("network", "aliases", "wanted"),
    [
        ("bridge", (), None),
        ("host", (), None),
        ("lab-net", ("db",), {"EndpointsConfig": {"lab-net": {"Aliases": ["db"]}}}),
    ],
)
def test_networks(network: str, aliases: tuple[str, ...], wanted: dict[str, Any] | None) -> None:
    """A network of its own name gets its aliases; the built-in ones have none."""
    body = body_of(app(network=network, aliases=aliases))
    assert (body["HostConfig"]["NetworkMode"], body.get("NetworkingConfig")) == (network, wanted)


def test_environment() -> None:
    """The workload's env wins over the host's, secrets are filled in, and what every container gets is there."""
    ref = SecretRef("hf", "token")
    workload = app(env=(("NCCL_SOCKET_IFNAME", "eth0"), ("TOKEN", ref)), ports=(Port(8000, "http"),), gpus=WholeGpus(1))
    allocation = Allocation(gpus=GPUS[:1], ports=((8000, "tcp", 30005),))
    env = dict(entry.split("=", 1) for entry in body_of(workload, allocation, secrets={ref: "s3cret"})["Env"])
    assert env == {
        "NCCL_SOCKET_IFNAME": "eth0",
        "TOKEN": "s3cret",
        "PORT_http": "30005",
        "RECONCILER_INSTANCE": "app/web/0",
        "RECONCILER_INDEX": "0",
        "RECONCILER_HOST": "h",
    }


@pytest.mark.parametrize(
    ("share", "percent", "memory"),
    [
        (Share(GPUS[0], 500, 40 * GIB), "50", "0=40960M"),
        (Share(GPUS[0], 1, 1024**2), "1", "0=1M"),
        (Share(GPUS[0], 251, 20 * GIB + 1), "26", "0=20480M"),
        (Share(GPUS[0], 1000, 80 * GIB), "100", "0=81920M"),
        (Share(GPUS[0], 500, 0), "50", None),
    ],
)
def test_a_share_is_kept_to_its_part(share: Share, percent: str, memory: str | None) -> None:
    """Percent of the threads, rounded up, and whole MiB of memory, under MPS's own names; they win over the spec's."""
    workload = app(gpus=GpuShare(500), env=(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"),))
    env = dict(entry.split("=", 1) for entry in body_of(workload, Allocation(share=share))["Env"])
    assert env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == percent
    assert env.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") == memory
    assert "NVIDIA_VISIBLE_DEVICES" not in env


def test_a_port_in_the_hosts_network_is_its_own() -> None:
    """Without an allocation the variable names the port that the process itself opens."""
    body = body_of(app(network="host", ports=(Port(8000, "http"),)))
    assert "PORT_http=8000" in body["Env"]


@pytest.mark.parametrize(
    ("container", "driver", "void", "requests"),
    [
        ({}, "nvidia", True, []),
        ({"gpus": ObserveGpus()}, "none", True, []),
        ({"gpus": ObserveGpus()}, "cdi", False, [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]),
        ({"gpus": WholeGpus(1)}, "cdi", False, [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={GPUS[0]}"]}]),
    ],
)
def test_handing_over(container: dict[str, Any], driver: str, requests: list[Any], *, void: bool) -> None:
    """Without cards the NVIDIA runtime is told ``void``; CDI takes qualified names."""
    allocation = Allocation(gpus=GPUS[:1]) if isinstance(container.get("gpus"), WholeGpus) else Allocation()
    body = body_of(app(**container), allocation, gpu_driver=driver)
    assert body["HostConfig"]["DeviceRequests"] == requests
    assert ("NVIDIA_VISIBLE_DEVICES=void" in body["Env"]) is void


def test_secrets_stay_out_of_labels() -> None:
    """A value reaches the environment and nothing else that ``docker inspect`` keeps for ever."""
    ref = SecretRef("hf", "token")
    body = body_of(app(env=(("TOKEN", ref),)), secrets={ref: "s3cret"}, secrets_hash="ab12")
    assert "s3cret" not in json.dumps(body["Labels"])
    assert body["Labels"][PREFIX + "secrets"] == "ab12"


def test_users_labels_are_kept_and_ours_win() -> None:
    """A user's label of our prefix cannot pretend to be ours."""
    workload = replace(app(), labels=(("team", "nlp"), (PREFIX + "name", "other")))
    labels = body_of(workload)["Labels"]
    assert (labels["team"], labels[PREFIX + "name"]) == ("nlp", "web")


def test_the_allocation_label_has_every_field() -> None:
    """A field that is added to the allocation and forgotten in its label would be lost with the next pass."""
    full = Allocation(
        ("g",), (Slice("g", "p", 1, "u"),), Share("g", 500, 9), (1,), (2,), (3,), (4,), exclusive=False, memory=5,
        ports=((1, "tcp", 2),), millicpus=6,
    )  # fmt: skip
    assert all(getattr(full, field.name) != field.default for field in fields(full))
    assert decode_allocation(encode_allocation(full)) == full


# -- reading back


@pytest.mark.parametrize(
    "instance",
    [
        InstanceId(Kind.APP, "web", "3"),
        InstanceId(Kind.TASK, "train", "0", "4e1d", 1),
        InstanceId(Kind.LOCAL_SERVICE, "exporter", "gpu-01"),
    ],
)
def test_what_was_sent_reads_back_as_ours(instance: InstanceId) -> None:
    """Instance, generation, digest, spec and allocation come back from the labels alone."""
    workload = Workload(instance.kind, instance.name, ContainerSpec("img:1"), run=instance.run, owner="nlp")
    allocation = Allocation(gpus=GPUS[:1], cpus=(4, 5), cpu_nodes=(0,), memory=GIB, ports=((80, "tcp", 30000),))
    body = body_of(workload, allocation, generation=7, commit="3f2a", replaces=6)
    body["Labels"] |= {PREFIX + "index": instance.index}
    if instance.kind is Kind.TASK:
        body["Labels"] |= {PREFIX + "member": str(instance.member)}
    ours = read(body).ours
    assert ours is not None
    assert (ours.instance, ours.generation, ours.allocation, ours.commit, ours.owner, ours.replaces) == (
        instance,
        7,
        allocation,
        "3f2a",
        "nlp",
        6,
    )
    assert ours.spec == {"image": "img:1", "env": {"NCCL_SOCKET_IFNAME": "ib0"}}


@pytest.mark.parametrize(
    "allocation",
    [
        Allocation(),
        Allocation(exclusive=False, cpus=(0, 2, 4), millicpus=1500),
        Allocation(
            gpus=GPUS[:2],
            mig=(Slice(GPUS[3], "1g.10gb", 0, SLICES[0]),),
            gpu_nodes=(0, 8),
            cpu_nodes=(8,),
            memory_nodes=(252,),
            cpus=(0, 1, 2, 64),
            memory=3,
            ports=((80, "tcp", 30000), (53, "udp", 53)),
        ),
        Allocation(share=Share(GPUS[0], 333, 0)),
    ],
)
def test_allocation_label(allocation: Allocation) -> None:
    """The label spells an allocation and reads back as the same."""
    assert decode_allocation(encode_allocation(allocation)) == allocation


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("kind", "pod"),
        ("kind", ""),
        ("name", ""),
        ("name", "a/b"),
        ("index", ""),
        ("generation", ""),
        ("generation", "0"),
        ("generation", "-1"),
        ("generation", "1" * 5000),
        ("generation", "²"),
        ("digest", ""),
        ("spec", "{"),
        ("spec", "[]"),
        ("spec", "[" * 100_000),
        ("allocation", ""),
        ("allocation", "7"),
        ("allocation", '{"cpus": 3}'),
        ("allocation", '{"cpus": "5-1"}'),
        ("allocation", '{"gpus": "all"}'),
        ("allocation", '{"mig": [3]}'),
        ("allocation", '{"mig": [{"gpu": "g", "profile": "1g.10gb", "start": 0, "uuid": ""}]}'),
        ("allocation", '{"share": 0.5}'),
        ("allocation", '{"share": null}'),
        ("allocation", '{"share": {"gpu": "g", "milli": 0, "memory": 1}}'),
        ("allocation", '{"share": {"gpu": "g", "milli": -500, "memory": 1}}'),
        ("allocation", '{"share": {"gpu": "g", "milli": 1001, "memory": 1}}'),
        ("allocation", '{"share": {"gpu": "g", "milli": 500, "memory": -1}}'),
        ("allocation", '{"share": {"gpu": "g", "milli": 500}}'),
        ("allocation", '{"share": {"milli": 500, "memory": 1}}'),
        ("allocation", '{"ports": [[1, "tcp"]]}'),
        ("allocation", '{"memory": true}'),
        ("replaces", "first"),
    ],
)
def test_malformed_labels_are_foreign(label: str, value: str) -> None:
    """A label that cannot be read makes the container somebody else's, and says which label; nothing raises."""
    body = body_of(app())
    body["Labels"][PREFIX + label] = value
    container = read(body)
    assert container.ours is None
    assert PREFIX in container.note
    with pytest.raises(LabelError, match=r"io\.reconciler\."):
        decode_labels(body["Labels"], "lab")


@pytest.mark.parametrize(
    ("cluster", "labels"),
    [(None, {}), ("other", {}), ("lab", {PREFIX + "role": "probe"}), ("lab", {PREFIX + "cluster": ""})],
)
def test_not_ours_without_a_word(cluster: str | None, labels: dict[str, str]) -> None:
    """Another cluster's containers, probes and the containers of a repository without a cluster are simply not ours."""
    body = body_of(app())
    body["Labels"] |= labels
    container = decode(shown(body), cluster)
    assert (container.ours, container.note) == (None, "")


@pytest.mark.parametrize(
    ("status", "policy", "code", "restarts", "holds"),
    [
        ("created", {"Name": "no"}, 0, 0, True),
        ("running", {"Name": "no"}, 0, 0, True),
        ("paused", {"Name": "no"}, 0, 0, True),
        ("restarting", {"Name": "always"}, 1, 3, True),
        ("exited", {"Name": "no"}, 0, 0, False),
        ("exited", {"Name": ""}, 1, 0, False),
        ("exited", {"Name": "always"}, 0, 0, True),
        ("exited", {"Name": "unless-stopped"}, 0, 0, False),
        ("exited", {"Name": "on-failure"}, 0, 0, False),
        ("exited", {"Name": "on-failure"}, 1, 0, True),
        ("exited", {"Name": "on-failure", "MaximumRetryCount": 3}, 1, 3, False),
        ("dead", {"Name": "always"}, 0, 0, False),
        ("removing", {"Name": "always"}, 0, 0, False),
    ],
)
def test_holds(status: str, policy: dict[str, Any], code: int, restarts: int, *, holds: bool) -> None:
    """What lives or can be revived by a restarted dockerd holds; what cannot come back does not."""
    document = shown(body_of(app()), Status=status, ExitCode=code)
    document["HostConfig"]["RestartPolicy"] = policy
    document["RestartCount"] = restarts
    assert decode(document, "lab").holds is holds


@pytest.mark.parametrize(
    ("host_config", "wanted"),
    [
        ({}, Limits()),
        ({"CpusetCpus": "", "CpusetMems": "", "Memory": 0, "NanoCpus": 0, "PidsLimit": None}, Limits()),
        ({"Memory": -1, "PidsLimit": -1, "RestartPolicy": {"Name": ""}}, Limits()),
        ({"PidsLimit": 0, "RestartPolicy": None}, Limits()),
        (
            {"CpusetCpus": "8,0-2", "CpusetMems": "1", "Memory": 5, "NanoCpus": 7, "PidsLimit": 9},
            Limits((0, 1, 2, 8), (1,), 5, 7, 9),
        ),
        ({"RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}}, Limits(restart="always")),
    ],
)
def test_limits(host_config: dict[str, Any], wanted: Limits) -> None:
    """Every way in which the Engine says unset is one."""
    assert limits_of(host_config) == wanted


def test_shared_work_has_a_quota() -> None:
    """Shared work gets NanoCpus and the pool's cpuset; exclusive work gets a cpuset alone."""
    shared = replace(app(), request=Request(1500, exclusive=False))
    config = body_of(shared, Allocation(cpus=(0, 1, 2, 3), exclusive=False))["HostConfig"]
    assert (config["NanoCpus"], config["CpusetCpus"]) == (1_500_000_000, "0-3")
    assert "NanoCpus" not in body_of(app(), Allocation(cpus=(0,)))["HostConfig"]


def test_state_is_read() -> None:
    """State, health, exit code, error on one line and times come back; a time that never came is empty."""
    container = read(
        body_of(app(user="7")),
        Status="exited",
        ExitCode=128,
        Error="two\n lines",
        Health={"Status": "unhealthy"},
        StartedAt="0001-01-01T00:00:00Z",
        FinishedAt="2026-01-01T00:00:09Z",
    )
    assert (container.state, container.exit_code, container.error, container.health, container.user) == (
        "exited",
        128,
        "two lines",
        "unhealthy",
        "7",
    )
    assert (container.started_at, container.finished_at, container.created_at) == ("", "2026-01-01T00:00:09Z", AT)


def test_who_was_born_first() -> None:
    """The Engine drops trailing zeros of the fraction, so its times are not compared as text."""
    times = ["2026-01-01T00:00:01Z", "2026-01-01T00:00:00.12Z", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00Z"]
    made = [Container("id", "c", "created", created_at=at) for at in times]
    assert [one.created_at for one in sorted(made, key=born)] == times[::-1]
    twins = [Container(one, "c", "created", created_at=times[0]) for one in "ba"]
    assert [one.id for one in sorted(twins, key=born)] == ["a", "b"]


def test_a_named_volume_takes_no_propagation() -> None:
    """The Engine refuses bind options on a named volume."""
    mounts = body_of(app(volumes=(Volume("/v", volume="v", propagation="shared"),)))["HostConfig"]["Mounts"]
    assert mounts == [{"Type": "volume", "Source": "v", "Target": "/v", "ReadOnly": False}]


def test_the_hosts_env_reaches_the_container() -> None:
    """``Host.env`` is given to every container there."""
    assert "NCCL_SOCKET_IFNAME=ib0" in body_of(app(), host=HOST)["Env"]
