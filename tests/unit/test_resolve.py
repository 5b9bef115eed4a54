"""Tree → Desired: selection, defaults, what documents mean, checks across documents, and the cache."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from reconciler.desired.resolve import Cache, resolve
from reconciler.errors import SpecError
from reconciler.model.desired import Desired
from reconciler.model.host import GpuMode, HostSpec, HostState
from reconciler.model.placement import AnyHost, Composite, LocalHost, MatchTag, MaxPerHost, NoTag, Numa, RuleBased
from reconciler.model.resources import AllGpus, MigSlices, ObserveGpus, Request, WholeGpus
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
from tests.fakes.trees import APP, CLUSTER, HOST, LOCAL_SERVICE, TASK, MemoryBlobs, tree

Files = dict[str, str | bytes]


def desired(files: Files, **more: Any) -> Desired:
    """What a tree wants."""
    return resolve(tree(files, **more), Cache())


def problems(files: Files, **more: Any) -> list[str]:
    """Every problem of a tree."""
    with pytest.raises(SpecError) as caught:
        desired(files, **more)
    return [str(problem) for problem in caught.value.problems]


def workload(text: str, cluster: str = CLUSTER) -> Workload:
    """The one workload of a document."""
    (found,) = desired({"a.yaml": text, "cluster.yaml": cluster}).workloads
    return found


# --- what documents mean ---------------------------------------------------------------------------------------------


def test_an_app_with_nothing_said() -> None:
    """Defaults are those of formats.md: one core of its own, 512Mi, always restarted, on any untagged host."""
    assert workload(APP) == Workload(
        kind=Kind.APP,
        name="web",
        container=ContainerSpec(image="nginx:1.27"),
        request=Request(1000, exclusive=True, memory=512 * 2**20),
        restart="always",
        policy=AnyHost(),
        numa=Numa.PREFER,
        pull="missing",
        rollout=Rollout("auto", 3.0, 600.0),
        grace_period=10.0,
        source="a.yaml:1",
    )


FULL = (
    APP.replace("instances: 1", "instances: 3")
    + """pull: always
command: [python]
args: [-m, 1.10]
workingDir: /srv
user: "1000"
groupAdd: [video, audio, video]
env: {B: 0x10, A: {secret: hf, key: token}}
init: true
resources: {cpus: 2, memory: 64Gi, shm: 16Gi, pids: 50, gpus: {count: 2, model: [b*, a*], minMemory: 80Gi},
            ulimits: {nofile: 1024, memlock: unlimited}}
placementPolicy: {type: MATCH_TAG, tag: a100}
numa: require
network: backend
aliases: [z, a]
ports: [{name: http, container: 8000, host: 80, hostIp: 10.0.0.1}, {container: 53, protocol: udp}]
volumes: [{volume: v, container: /v/}, {host: /data/../data//m, container: /m, readOnly: true, propagation: rslave}]
configs: [{file: ../conf/a.conf, container: /z, mode: "0400"}, {file: b.txt, container: /y}]
secretFiles: [{secret: tls, key: key, container: /k}]
tmpfs: [{container: /tmp, size: 1Gi}]
devices: [{host: /dev/fuse}]
ipc: host
pid: host
capAdd: [cap_sys_nice, IPC_LOCK]
capDrop: [all]
securityOpt: [no-new-privileges]
runtime: runsc
hostname: box
dns: [10.0.0.9, 10.0.0.8]
extraHosts: ["db:10.0.0.3"]
logging: {options: {max-size: 50m}}
readiness: {exec: [check, it], interval: 5s, timeout: 2s, retries: 4, startPeriod: 20m}
stop: {signal: SIGINT, gracePeriod: 1m30s}
restart: on-failure
rollout: {order: stop-first, healthyFor: 10s, deadline: 40m}
priority: 7
suspend: true
protect: true
owner: chat
labels: {team: chat, a: b}
"""
)
GRANTS = CLUSTER + (
    "secrets: {directory: /s}\nsecurityProfiles: [{match: ['*'], mounts: [/data], devices: [/dev], ipc: host, "
    "pid: host, capabilities: [ALL], runtime: runsc, allGpus: true}]\n"
)


def test_an_app_with_everything_said() -> None:
    """Every field arrives; sets are sorted, order is kept where it means something."""
    files: Files = {"apps/a.yaml": FULL, "c.yaml": GRANTS, "conf/a.conf": "A", "apps/b.txt": "B", "h.yaml": HOST}
    (found,) = desired(files, prefix="lab/").workloads
    gpus = WholeGpus(2, ("a*", "b*"), 80 * 2**30)
    assert found == Workload(
        kind=Kind.APP,
        name="web",
        container=ContainerSpec(
            image="nginx:1.27",
            command=("python",),
            args=("-m", "1.10"),
            working_dir="/srv",
            user="1000",
            group_add=("audio", "video"),
            env=(("A", SecretRef("hf", "token")), ("B", "0x10")),
            init=True,
            gpus=gpus,
            shm=16 * 2**30,
            ulimits=(Ulimit("memlock", -1), Ulimit("nofile", 1024)),
            network="backend",
            aliases=("a", "z"),
            ports=(Port(53, protocol="udp"), Port(8000, "http", 80, "10.0.0.1")),
            volumes=(Volume("/m", host="/data/m", read_only=True, propagation="rslave"), Volume("/v", volume="v")),
            configs=(
                ConfigFile("/y", hashlib.sha256(b"B").hexdigest(), 0o444, b"B"),
                ConfigFile("/z", hashlib.sha256(b"A").hexdigest(), 0o400, b"A"),
            ),
            secret_files=(SecretFile("/k", SecretRef("tls", "key")),),
            tmpfs=(Tmpfs("/tmp", 2**30),),
            devices=(Device("/dev/fuse", "/dev/fuse"),),
            ipc="host",
            pid="host",
            cap_add=("IPC_LOCK", "SYS_NICE"),
            cap_drop=("ALL",),
            security_opt=("no-new-privileges",),
            runtime="runsc",
            hostname="box",
            dns=("10.0.0.9", "10.0.0.8"),
            extra_hosts=("db:10.0.0.3",),
            logging=Logging("json-file", (("max-file", "3"), ("max-size", "50m"))),
            health=HealthCheck(("check", "it"), 5.0, 2.0, 4, 1200.0),
            stop_signal="SIGINT",
        ),
        request=Request(2000, exclusive=True, memory=64 * 2**30, gpus=gpus),
        pids=50,
        restart="on-failure",
        instances=3,
        policy=MatchTag("a100"),
        numa=Numa.REQUIRE,
        pull="always",
        rollout=Rollout("stop-first", 10.0, 2400.0),
        grace_period=90.0,
        suspend=True,
        protect=True,
        priority=7,
        owner="chat",
        labels=(("a", "b"), ("team", "chat")),
        source="lab/apps/a.yaml:1",
    )
    assert found.container.configs[0].content == b"B"


def test_kinds_differ_in_their_defaults() -> None:
    """A Task is not restarted and has a run; a LocalService runs everywhere."""
    task, service = workload(TASK), workload(LOCAL_SERVICE)
    assert (task.kind, task.restart, task.policy, task.on_change) == (Kind.TASK, "no", AnyHost(), "finish")
    assert (service.kind, service.restart, service.policy) == (Kind.LOCAL_SERVICE, "always", LocalHost())
    assert (task.instances, service.instances, service.run) == (1, 1, "")


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("0", None),
        ("3", WholeGpus(3)),
        ("{count: 2}", WholeGpus(2)),
        ("{count: 2, model: '*H100*'}", WholeGpus(2, ("*H100*",))),
        ("{mig: 1g.10gb, count: 2}", MigSlices("1g.10gb", 2)),
        ("{observe: all}", ObserveGpus()),
        ("all", AllGpus()),
    ],
)
def test_cards(form: str, expected: Any) -> None:
    """Each form of ``gpus``; both the request and the container carry it."""
    found = workload(APP + f"resources: {{gpus: {form}}}\n", GRANTS)
    assert (found.request.gpus, found.container.gpus) == (expected, expected)


@pytest.mark.parametrize(
    ("lines", "millicpus", "exclusive"),
    [
        ("cpus: 4", 4000, True),
        ("cpus: 4.0", 4000, True),
        ("cpus: 4, cpuPolicy: shared", 4000, False),
        ("cpus: 0.125, cpuPolicy: shared", 125, False),
    ],
)
def test_cores(lines: str, millicpus: int, exclusive: bool) -> None:
    """A whole number is exclusive unless it says otherwise."""
    request = workload(APP + f"resources: {{{lines}}}\n").request
    assert (request.millicpus, request.exclusive) == (millicpus, exclusive)


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("{type: ANY}", AnyHost()),
        ("{type: ONE_PER_HOST}", MaxPerHost(1)),
        ("{type: MAX_N_PER_HOST, max: 4}", MaxPerHost(4)),
        ("{type: NO_TAG}", NoTag()),
        ("{type: RULE_BASED, rule: host.gpus > 1}", RuleBased("host.gpus > 1")),
        (
            "{type: COMPOSITE, combiner: OR, policies: [{type: MATCH_TAG, tag: a}, {type: NO_TAG}]}",
            Composite("OR", (MatchTag("a"), NoTag())),
        ),
    ],
)
def test_policies(form: str, expected: Any) -> None:
    """Each placement policy as the planner knows it."""
    assert workload(APP + f"placementPolicy: {form}\n").policy == expected


@pytest.mark.parametrize(
    ("lines", "deadline"),
    [
        ("", 600.0),
        ("readiness: {exec: [a], startPeriod: 20m}\n", 1800.0),
        ("readiness: {exec: [a], startPeriod: 20m}\nrollout: {deadline: 20m}\n", 1200.0),
    ],
)
def test_a_deadline_that_nobody_gave_lies_behind_the_start_period(lines: str, deadline: float) -> None:
    """The default never contradicts ``startPeriod``."""
    assert workload(APP + lines).rollout.deadline == deadline


def test_a_health_check_alone_is_the_engines_check() -> None:
    """``health`` and ``readiness`` are one check of the Engine."""
    assert workload(APP + "health: {exec: [a]}\n").container.health == HealthCheck(("a",))


def test_a_host_with_everything_said() -> None:
    """Every field of a Host arrives."""
    text = HOST.replace("sim://", "unix:///run/docker.sock") + (
        "address: 10.0.0.11\nfacts: facts.json\ntags: [b, a]\nlabels: {zone: west}\nenv: {NCCL_SOCKET_IFNAME: eth0}\n"
        "reserved: {cpus: '0-1,8', memory: 8Gi}\nstate: drained\ngpuMode: passthrough\ngpus: {exclude: [GPU-1]}\n"
        "ignoreContainers: [dcgm-*]\n"
    )
    found = desired({"hosts/a.yaml": text, "hosts/facts.json": '{"format": "x"}'}, prefix="lab/").hosts
    assert found == (
        HostSpec(
            name="gpu-01",
            engine="unix:///run/docker.sock",
            address="10.0.0.11",
            tags=("a", "b"),
            labels=(("zone", "west"),),
            env=(("NCCL_SOCKET_IFNAME", "eth0"),),
            reserved_cpus=(0, 1, 8),
            reserved_memory=8 * 2**30,
            state=HostState.DRAINED,
            gpu_mode=GpuMode.PASSTHROUGH,
            gpus_excluded=("GPU-1",),
            ignore_containers=("dcgm-*",),
            facts_json='{"format": "x"}',
            facts_path="lab/hosts/facts.json",
        ),
    )


def test_a_cluster() -> None:
    """Settings of a repository; a repository without them can still be planned."""
    text = CLUSTER + (
        "prune: {enabled: false, maxFraction: 0.5}\nsecrets: {directory: /s, hashKey: {secret: r, key: k}}\n"
    )
    found = desired({"a.yaml": text}).cluster
    assert found is not None
    assert (found.name, found.prune.enabled, found.prune.max_fraction) == ("lab", False, 0.5)
    assert (found.secrets_dir, found.secrets_key) == ("/s", ("r", "k"))
    assert desired({"a.yaml": APP}).cluster is None


def test_everything_is_sorted_by_identity() -> None:
    """Where a document stands changes nothing but its source."""
    documents = [APP, APP.replace("web", "api"), TASK, LOCAL_SERVICE, HOST, HOST.replace("gpu-01", "gpu-00")]
    one = desired({"a.yaml": "---\n".join(documents)})
    other = desired({f"{index}/a.yml": text for index, text in enumerate(reversed(documents))})
    assert [found.identity for found in one.workloads] == ["app/api", "app/web", "localservice/exporter", "task/job"]
    assert [host.name for host in one.hosts] == ["gpu-00", "gpu-01"]
    assert [replace(found, source="") for found in one.workloads] == [
        replace(found, source="") for found in other.workloads
    ]


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_is_named_by_its_document() -> None:
    """Eight hex digits, the same wherever the document stands."""
    run = workload(TASK).run
    assert len(run) == 8
    assert int(run, 16) >= 0
    assert workload("# moved\n\n" + TASK.replace("image: train:1", "image:   'train:1'")).run == run
    assert workload(TASK + "run: nightly.1\n").run == "nightly.1"


@pytest.mark.parametrize(
    "lines",
    [
        "labels: {a: b}",
        "owner: me",
        "priority: 3",
        "suspend: true",
        "protect: true",
        "pull: always",
        "numa: none",
        "onChange: restart",
        "placementPolicy: {type: NO_TAG}",
        "onHostLost: wait",
        "stop: {gracePeriod: 1m}\nx-note: free",
    ],
)
def test_scheduling_reruns_nothing(lines: str) -> None:
    """Labels and scheduling fields are no part of a run."""
    (with_stop,) = {workload(TASK + "stop: {}\n").run}
    assert workload(TASK + lines + "\n").run == (with_stop if "stop" in lines else workload(TASK).run)


@pytest.mark.parametrize("lines", ["args: [a]", "env: {A: b}", "env: {x-a: b}", "resources: {cpus: 2}", "user: a"])
def test_a_changed_task_runs_again(lines: str) -> None:
    """What the container is given is part of a run."""
    assert workload(TASK + lines + "\n").run != workload(TASK).run


def test_defaults_rerun_nothing() -> None:
    """``Cluster.defaults`` are no part of a run, though the container gets them."""
    found = workload(TASK, CLUSTER + "defaults: {env: {A: b}, user: root}\n")
    assert found.run == workload(TASK).run
    assert found.container.user == "root"


# --- defaults --------------------------------------------------------------------------------------------------------


def test_defaults_go_under_each_workload() -> None:
    """Maps of settings are joined, every other value is replaced, and a kind takes only fields that it has."""
    cluster = CLUSTER + (
        "defaults:\n  image: base:1\n  args: [a]\n  env: {A: low, B: low}\n  labels: {team: ops}\n"
        "  resources: {memory: 2Gi, gpus: {count: 4, model: x}, ulimits: {memlock: unlimited, nofile: 10}}\n"
        "  rollout: {healthyFor: 9s}\n  onChange: restart\n  logging: {options: {max-file: 9}}\n"
    )
    app = APP.replace("image: nginx:1.27\n", "") + (
        "args: [b, c]\nenv: {B: high}\nlabels:\nresources: {gpus: {mig: 1g.10gb}, ulimits: {nofile: 20}}\n"
        "logging: {options: {max-size: 1m}}\n"
    )
    found = workload(app, cluster)
    assert found.container.image == "base:1"
    assert found.container.args == ("b", "c")
    assert found.container.env == (("A", "low"), ("B", "high"))
    assert found.labels == (("team", "ops"),)
    assert found.request == Request(1000, exclusive=True, memory=2 * 2**30, gpus=MigSlices("1g.10gb"))
    assert found.container.ulimits == (Ulimit("memlock", -1), Ulimit("nofile", 20))
    assert found.rollout.healthy_for == 9.0
    assert found.container.logging.options == (("max-file", "9"), ("max-size", "1m"))
    task = workload(TASK, cluster)
    assert (task.on_change, task.container.image) == ("restart", "train:1")


def test_a_fault_of_the_defaults_is_told_where_it_stands() -> None:
    """Once, in the Cluster's file, however many workloads take it."""
    cluster = CLUSTER + "defaults: {image: base:1, numa: never}\n"
    found = problems({"a.yaml": APP, "b.yaml": TASK, "c.yaml": cluster})
    assert found == ["c.yaml:4:33: numa: must be prefer, require, require-socket or none"]


# --- selection -------------------------------------------------------------------------------------------------------


def test_which_files_are_read() -> None:
    """Hidden files, ignored files and other suffixes hold no documents."""
    files: Files = {
        "a.yaml": APP,
        "b/c.yml": TASK,
        "b/d.json": '{"apiVersion": "reconciler/v1", "kind": "Host", "name": "h", "engine": "sim://"}',
        ".hidden.yaml": "nonsense",
        ".github/workflows/ci.yaml": "nonsense",
        "README.md": "nonsense",
        "charts/x.yaml": "nonsense",
        "charts/keep.yaml": LOCAL_SERVICE,
        ".reconcileignore": "# not ours\ncharts/*\n!charts/keep.yaml\n",
    }
    found = desired(files)
    assert [one.identity for one in found.workloads] == ["app/web", "localservice/exporter", "task/job"]
    assert [host.name for host in found.hosts] == ["h"]


def test_files_that_a_document_refers_to_are_no_documents() -> None:
    """``facts`` and ``configs`` may be YAML and JSON, and broken at that."""
    files: Files = {
        "z.yaml": APP + "configs: [{file: a.yaml, container: /a}, {file: sub/b.json, container: /b}]\n",
        "a.yaml": "scrape_configs: [\n",
        "sub/b.json": "{",
        "h.yaml": HOST + "facts: facts.json\n",
        "facts.json": "{}",
    }
    assert [config.container for config in desired(files).workloads[0].container.configs] == ["/a", "/b"]


@pytest.mark.parametrize(("referrer", "target"), [("z.yaml", "a.yaml"), ("a.yaml", "z.json")])
def test_a_workload_cannot_vanish_by_being_referred_to(referrer: str, target: str) -> None:
    """A file is either a document or what a document refers to."""
    files: Files = {referrer: APP + f"configs: [{{file: {target}, container: /a}}]\n"}
    files[target] = '{"apiVersion": "reconciler/v1", "kind": "Task", "name": "job", "image": "a"}'
    (found,) = problems(files)
    assert found.startswith(f"{referrer}:6:18: configs[0].file: {target} holds documents of its own; ")
    assert found.endswith("list it in .reconcileignore if it is only a file for a container")


def test_files_that_cannot_be_read() -> None:
    """A bad file is a problem where it would be read, and nowhere else."""
    bad = {"lfs.yaml": "LFS object missing", "model.bin": "LFS object missing", "f.json": "link leaves the repository"}
    found = problems({"h.yaml": HOST + "facts: f.json\n"}, bad=bad, prefix="lab/")
    assert found == [
        "lab/h.yaml:5:8: facts: f.json: link leaves the repository",
        "lab/lfs.yaml: LFS object missing",
    ]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("{", "facts: f.json:1:2 is not JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", "facts: f.json is not UTF-8 at offset 0"),
        ("[" * 100_000, "facts: f.json is nested too deep"),
    ],
)
def test_facts_must_be_json(facts: str | bytes, message: str) -> None:
    """What the facts mean is another part's; that they are JSON is checked with the repository."""
    assert problems({"h.yaml": HOST + "facts: f.json\n", "f.json": facts}) == [f"h.yaml:5:8: {message}"]


# --- across documents ------------------------------------------------------------------------------------------------


def test_a_name_stands_once_among_its_kind() -> None:
    """Both places are named; another kind may have the same name."""
    found = problems({"a.yaml": APP, "b.yaml": TASK.replace("job", "web") + "---\n" + APP})
    assert found == ["b.yaml:8:7: name: a second App web (the first is at a.yaml:1)"]


def test_one_cluster() -> None:
    """A second Cluster would be a second opinion on everything."""
    found = problems({"a.yaml": CLUSTER, "b.yaml": CLUSTER.replace("lab", "other")})
    assert found == ["b.yaml:2:7: a second Cluster (the first is at a.yaml:1)"]


def test_one_host_for_each_engine() -> None:
    """Two names for one Engine would count its cards twice; simulated hosts go by name."""
    real = HOST.replace("sim://", "unix:///run/docker.sock")
    found = problems({"a.yaml": real, "b.yaml": real.replace("gpu-01", "gpu-02")})
    assert found == ["b.yaml:4:9: engine: the same Engine as Host gpu-01 (at a.yaml:1)"]
    assert len(desired({"a.yaml": HOST, "b.yaml": HOST.replace("gpu-01", "gpu-02")}).hosts) == 2


def test_a_tag_that_no_host_has_is_a_warning() -> None:
    """It may come with a host that is not there yet; a host's own name is a tag."""
    lines = (
        "placementPolicy:\n  type: COMPOSITE\n  combiner: OR\n  policies:\n"
        "    - {type: MATCH_TAG, tag: gpu-01}\n    - {type: MATCH_TAG, tag: a10}\n"
    )
    found = desired({"a.yaml": APP + lines, "h.yaml": HOST + "tags: [a100]\n"})
    assert found.warnings == ("a.yaml:11:30: placementPolicy.policies[1].tag: no host has the tag a10",)


@pytest.mark.parametrize(
    "lines",
    ["env: {A: {secret: hf, key: token}}", "secretFiles: [{secret: hf, key: token, container: /t}]"],
)
def test_a_secret_needs_a_place_to_look_it_up(lines: str) -> None:
    """Told now, and not when the container is made."""
    (found,) = problems({"a.yaml": APP + lines + "\n", "c.yaml": CLUSTER})
    assert found.endswith("secret hf: the Cluster has no secrets.directory to look it up in")


# --- security profiles -----------------------------------------------------------------------------------------------


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


# --- the cache -------------------------------------------------------------------------------------------------------


def test_the_same_tree_gives_the_same_object() -> None:
    """Nothing is read again while neither a file nor its place changed."""
    files: Files = {"a.yaml": APP, "h.yaml": HOST}
    cache = Cache()
    first = resolve(tree(files, commit="a" * 40), cache)
    again = tree(files, commit="a" * 40)
    assert resolve(again, cache) is first
    assert isinstance(again.blobs, MemoryBlobs)
    assert again.blobs.reads == []
    moved = resolve(tree(files, commit="b" * 40), cache)
    assert (moved.commit, moved.workloads) == ("b" * 40, first.workloads)


def test_only_changed_files_are_read_again() -> None:
    """Documents are kept by content and place."""
    files: Files = {f"{index}.yaml": APP.replace("web", f"web{index}") for index in range(20)}
    cache = Cache()
    resolve(tree(files), cache)
    changed = tree({**files, "7.yaml": APP.replace("web", "other"), "8.yaml": ""})
    found = resolve(changed, cache)
    assert isinstance(changed.blobs, MemoryBlobs)
    assert sorted(changed.blobs.reads) == ["7.yaml", "8.yaml"]
    assert {"web7", "web8", "other"} & {one.name for one in found.workloads} == {"other"}
    assert len(cache.parsed) == 20


def test_changed_defaults_are_merged_anew() -> None:
    """What a document means depends on the Cluster too."""
    cache = Cache()
    for user in ("a", "b"):
        files: Files = {"a.yaml": APP, "c.yaml": CLUSTER + f"defaults: {{user: {user}}}\n"}
        assert resolve(tree(files), cache).workloads[0].container.user == user


def test_a_changed_config_file_changes_its_hash() -> None:
    """The content of a config file is part of the workload."""
    cache = Cache()
    text = APP + "configs: [{file: a.conf, container: /a}]\n"
    hashes = [
        resolve(tree({"a.yaml": text, "a.conf": body}), cache).workloads[0].container.configs[0].sha256
        for body in ("1", "2")
    ]
    assert hashes == [hashlib.sha256(body).hexdigest() for body in (b"1", b"2")]


def test_a_broken_tree_stays_broken_and_can_be_mended() -> None:
    """The cache keeps no failure for good and hides none."""
    cache = Cache()
    broken = tree({"a.yaml": APP + "zzz: 1\n"})
    for _ in range(2):
        with pytest.raises(SpecError, match="unknown key"):
            resolve(broken, cache)
    assert resolve(tree({"a.yaml": APP}), cache).workloads[0].name == "web"
