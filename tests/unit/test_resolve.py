"""Tree → Desired: what documents mean, their defaults, and the runs of tasks."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest

from reconciler.desired.resolve import Cache, resolve
from reconciler.errors import SpecError
from reconciler.model.desired import Desired
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
    Preference,
    RuleBased,
    Spread,
)
from reconciler.model.resources import AllGpus, GpuShare, MigSlices, ObserveGpus, Request, WholeGpus
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
from tests.fakes.trees import APP, CLUSTER, HOST, LOCAL_SERVICE, TASK, tree

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
owner: chat
labels: {team: chat, a: b}
"""
)
GRANTS = CLUSTER + (
    "secrets: {directory: /s}\nsecurityProfiles: [{match: ['*'], mounts: [/data], devices: [/dev], ipc: host, "
    "pid: host, capabilities: [ALL], runtime: runsc, allGpus: true, rdma: true}]\n"
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
        ("{count: 2, link: nvlink}", WholeGpus(2, link="nvlink")),
        ("{mig: 1g.10gb, count: 2}", MigSlices("1g.10gb", 2)),
        ("{share: 0.5}", GpuShare(milli=500)),
        ("{share: 0.001, model: [b, a, b]}", GpuShare(milli=1, models=("a", "b"))),
        ("{share: 0.29}", GpuShare(milli=290)),
        ("{sharedMemory: 10Gi, model: '*A100*'}", GpuShare(memory=10 * 2**30, models=("*A100*",))),
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
    ("lines", "expected"),
    [
        ("", ()),
        ("prefer: [{type: MATCH_TAG, tag: ssd}]\n", (Preference(MatchTag("ssd"), 1),)),
        (
            "prefer: [{type: NO_TAG, weight: 2}, {type: ANY, weight: 50}]\n",
            (Preference(AnyHost(), 50), Preference(NoTag(), 2)),
        ),
        (
            "prefer: [{type: COMPOSITE, combiner: OR, weight: 3, policies: [{type: NO_TAG}, {type: ANY}]}]\n",
            (Preference(Composite("OR", (NoTag(), AnyHost())), 3),),
        ),
    ],
)
def test_preferences(lines: str, expected: Any) -> None:
    """Each is a policy with a weight; the heaviest comes first, whatever the order in the file."""
    assert workload(APP + lines).prefer == expected


def test_spread() -> None:
    """At most one more than the least, as a wish, unless it says otherwise."""
    lines = "spread: [{by: rack}, {by: host, maxSkew: 2, required: true}, {by: row, weight: 7}]\n"
    assert workload(APP + lines).spread == (
        Spread("host", max_skew=2, required=True),
        Spread("rack", max_skew=1, required=False, weight=1),
        Spread("row", weight=7),
    )


def test_affinity_and_its_opposite_are_one_list() -> None:
    """Affinity comes first; both are required on the same host unless they say otherwise."""
    lines = (
        "antiAffinity: [{workload: app/web}]\n"
        "affinity: [{workload: task/job, by: rack, required: false, weight: 9}, {workload: localservice/exporter}]\n"
    )
    files: Files = {"a.yaml": APP + lines, "b.yaml": TASK, "c.yaml": LOCAL_SERVICE}
    assert desired(files).workloads[0].affinity == (
        Affinity("localservice/exporter", "host", apart=False, required=True, weight=1),
        Affinity("task/job", "rack", apart=False, required=False, weight=9),
        Affinity("app/web", "host", apart=True, required=True, weight=1),
    )


def test_a_workload_that_another_names_may_have_faults_of_its_own() -> None:
    """It is there: only its own fault is told."""
    files: Files = {"a.yaml": APP + "affinity: [{workload: task/job}]\n", "b.yaml": TASK + "pull: sometimes\n"}
    assert problems(files) == ["b.yaml:5:7: pull: must be missing, always or never"]


def test_a_workload_may_be_in_a_file_that_cannot_be_read() -> None:
    """What is in there nobody knows: only that file's fault is told."""
    files: Files = {"a.yaml": APP + "affinity: [{workload: task/job}]\n", "b.yaml": "a: [\n"}
    assert [one.partition(":")[0] for one in problems(files)] == ["b.yaml"]


def test_affinity_of_the_defaults_is_checked_where_it_stands() -> None:
    """A workload that is in no document is told at the Cluster, once."""
    cluster = CLUSTER + "defaults: {antiAffinity: [{workload: task/jb}]}\n"
    files: Files = {"a.yaml": APP, "b.yaml": TASK, "c.yaml": LOCAL_SERVICE, "d.yaml": cluster}
    assert problems(files) == ["d.yaml:4:38: antiAffinity[0].workload: no workload task/jb; did you mean task/job?"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("prefer: [{type: MATCH_TAG, tag: ssd}]\n", "a.yaml:6:33: prefer[0].tag: no host has the tag ssd"),
        ("spread: [{by: row}]\n", "a.yaml:6:15: spread[0].by: no host has the label row"),
        (
            "antiAffinity: [{workload: app/web, by: row}]\n",
            "a.yaml:6:40: antiAffinity[0].by: no host has the label row",
        ),
        ("spread: [{by: rack}, {by: host}]\nprefer: [{type: MATCH_TAG, tag: gpu-01}]\n", None),
    ],
)
def test_a_tag_or_label_that_no_host_has_is_told(lines: str, told: str | None) -> None:
    """A warning and no error: a host that comes later may have it."""
    files: Files = {"a.yaml": APP + lines, "h.yaml": HOST + "labels: {rack: r1}\n"}
    assert desired(files).warnings == ((told,) if told else ())


def test_work_that_waits_for_itself_is_told() -> None:
    """Two that must be near each other: neither can be the first. Being near to copies of oneself is fine."""
    two: Files = {"a.yaml": APP + "affinity: [{workload: task/job}, {workload: app/web, by: rack}]\n",
           "b.yaml": TASK + "affinity: [{workload: app/web}]\n", "h.yaml": HOST + "labels: {rack: r1}\n"}  # fmt: skip
    assert [one.partition(": ")[2] for one in desired(two).warnings] == [
        "affinity[0]: task/job must be near app/web too: while none of them runs, none can start",
        "affinity[0]: app/web must be near task/job too: while none of them runs, none can start",
    ]
    soft: Files = {**two, "b.yaml": TASK + "affinity: [{workload: app/web, required: false}]\n"}
    assert desired(soft).warnings == ()


@pytest.mark.parametrize(("lines", "create"), [("", False), ("mig: {}\n", False), ("mig: {create: true}\n", True)])
def test_new_slices_are_planned_only_where_a_host_says_so(lines: str, create: bool) -> None:
    """``mig.create`` is off unless it is asked for."""
    assert desired({"h.yaml": HOST + lines}).hosts[0].mig_create is create


def test_rdma() -> None:
    """It is a field of the container."""
    assert workload(APP + "resources: {rdma: true}\n", GRANTS).container.rdma


@pytest.mark.parametrize(
    ("lines", "same"),
    [
        ("prefer: [{type: ANY}]\nspread: [{by: host}]\nantiAffinity: [{workload: task/job}]\n", True),
        ("affinity: [{workload: task/job, by: rack}]\n", True),
        ("resources: {gpus: {share: 0.5}}\n", False),
    ],
)
def test_where_a_task_runs_is_no_part_of_its_run(lines: str, same: bool) -> None:
    """An edit of scheduling fields reruns nothing; a share is part of what runs."""
    assert (workload(TASK + lines).run == workload(TASK).run) is same


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
