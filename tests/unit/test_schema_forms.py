"""The form of every field: what is accepted, what is refused, and what is said then."""

import pytest

from tests.fakes.specs import problems, said
from tests.fakes.trees import APP, HOST, TASK

# Every form of every field that formats.md gives and this release has.
ACCEPTED: list[tuple[str, str]] = [
    *(("App", f"pull: {word}") for word in ("missing", "always", "never")),
    ("App", "command: [python, -m, http.server]\nargs: [8000, true, 1.10]"),
    ("App", "command: []\nargs: []"),
    ("App", "workingDir: /srv\nuser: 1000:1000\ngroupAdd: [video, 44]\ninit: true"),
    ("App", "env: {A: 1.10, B: true, C: '', D: {secret: hf, key: token}}"),
    ("App", "env:\nlabels:\nports:\nvolumes:\nresources:\n  cpus: 1"),
    ("App", "resources: {cpus: 0.25, cpuPolicy: shared, memory: 64MiB, shm: 1Gi, pids: 100}"),
    ("App", "resources: {cpus: 4, cpuPolicy: exclusive, memory: 1.5G}"),
    ("App", "resources: {ulimits: {memlock: unlimited, nofile: 1048576, core: 0, stack: -1}}"),
    *(
        ("App", f"resources: {{gpus: {form}}}")
        for form in (
            "0",
            "2",
            "all",
            "{count: 8, model: '*H100*', minMemory: 80Gi}",
            "{count: 1, model: ['*A100*', '*H100*']}",
            "{mig: 1g.10gb, count: 2}",
            "{mig: 1g.10gb+me}",
            "{count: 2, link: nvlink}",
            "{share: 0.5}",
            "{share: 0.001, model: '*A100*'}",
            "{share: 0.999, model: ['*A100*', '*H100*']}",
            "{sharedMemory: 10Gi}",
            "{sharedMemory: 1Mi, model: '*A100*'}",
            "{observe: all}",
        )
    ),
    *(("App", f"resources: {{rdma: {word}}}") for word in ("false", "true")),
    *(
        ("App", f"placementPolicy: {form}")
        for form in (
            "{type: ANY}",
            "{type: ONE_PER_HOST}",
            "{type: MAX_N_PER_HOST, max: 3}",
            "{type: MATCH_TAG, tag: a100}",
            "{type: NO_TAG}",
            "{type: RULE_BASED, rule: 'host.gpus >= 4'}",
            "{type: COMPOSITE, combiner: OR, policies: [{type: COMPOSITE, combiner: AND, policies: [{type: ANY}]}]}",
        )
    ),
    *(
        ("App", f"prefer: [{form}]")
        for form in (
            "{type: MATCH_TAG, tag: ssd, weight: 50}, {type: MATCH_TAG, tag: nvme}",
            "{type: ANY}, {type: NO_TAG, weight: 1}, {type: RULE_BASED, rule: host.gpus == 0, weight: 100}",
            "{type: COMPOSITE, combiner: AND, weight: 2, policies: [{type: MATCH_TAG, tag: a}, {type: NO_TAG}]}",
        )
    ),
    ("App", "prefer:\nspread:\naffinity:\nantiAffinity:"),
    ("App", "spread: [{by: rack}]"),
    ("Task", "spread: [{by: rack, maxSkew: 2, required: true}, {by: host, required: false, weight: 100}]"),
    ("App", "affinity: [{workload: app/web, by: rack}]"),
    ("App", "antiAffinity: [{workload: app/web, required: true}, {workload: app/web, by: row, required: false}]"),
    ("App", "affinity: [{workload: app/web, required: false, weight: 7}]"),
    ("App", "env: {CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: '50'}\nresources: {gpus: 1}"),
    ("LocalService", "placementPolicy: {type: LOCAL}"),
    ("LocalService", "placementPolicy: {type: MATCH_TAG, tag: a100}"),
    *(("App", f"numa: {word}") for word in ("prefer", "require", "require-socket", "none")),
    *(("App", f"network: {word}") for word in ("bridge", "host", "none")),
    ("App", "network: backend\naliases: [web, www]"),
    ("App", "ports: [{name: http, container: 80, host: 8080, hostIp: 10.0.0.1, protocol: tcp}, {container: 53}]"),
    ("App", "ports: [{container: 53, protocol: udp}, {container: 53, protocol: tcp}]"),
    ("App", "volumes: [{host: /data, container: /data, readOnly: true, propagation: rslave}]"),
    ("App", "volumes: [{volume: scratch, container: /scratch}]"),
    ("App", "secretFiles: [{secret: tls, key: cert.pem, container: /etc/cert.pem}]"),
    ("App", "tmpfs: [{container: /tmp, size: 1Gi}, {container: /run}]"),
    ("App", "devices: [{host: /dev/fuse}, {host: /dev/kvm, container: /dev/kvm0, permissions: rw}]"),
    ("App", "ipc: host\npid: host\ncapAdd: [SYS_ADMIN]\ncapDrop: [ALL]\nsecurityOpt: [seccomp=unconfined]"),
    ("App", "privileged: true\nruntime: runsc\nhostname: web\ndns: [10.0.0.2, '::1']\nextraHosts: ['db:10.0.0.3']"),
    ("App", "logging: {driver: journald}"),
    ("App", "logging: {options: {max-size: 50m}}"),
    ("App", "readiness: {exec: [curl, localhost], interval: 5s, timeout: 2s, retries: 3, startPeriod: 20m}"),
    ("App", "health: {exec: [true]}\nreadiness: {exec: [true]}"),
    ("App", "stop: {signal: SIGINT, gracePeriod: 1h30m}\nrestart: on-failure"),
    ("App", "rollout: {order: stop-first, maxUnavailable: 1, healthyFor: 500ms, deadline: 40m, onFailure: stop}"),
    ("App", "onHostLost: wait\npriority: -10\nsuspend: true\nowner: chat-team\nlabels: {team: chat}"),
    ("App", "x-note: anything\nresources: {x-why: [1, {a: b}]}"),
    ("Task", "members: 1\nrun: 2024-01-01\nonChange: restart\nrestart: never"),
    ("Host", "address: 10.0.0.11\ntags: [a100]\nlabels: {zone: west}\nenv: {NCCL_SOCKET_IFNAME: eth0}"),
    ("Host", "reserved: {cpus: 0-1, memory: 8Gi}\nstate: cordoned\ngpuMode: passthrough"),
    ("Host", "reserved: {cpus: 0}\nstate: drained\ngpuMode: none"),
    ("Host", "gpus: {exclude: ['GPU-5f1c', '00000000:07:00.0']}\nignoreContainers: ['dcgm-*']"),
    *(("Host", f"mig: {{create: {word}}}") for word in ("true", "false")),
    ("Cluster", "prune: {enabled: false, maxFraction: 0.5}"),
    ("Cluster", "secrets: {directory: /etc/secrets, hashKey: {secret: reconciler, key: hash}}"),
    ("Cluster", "securityProfiles: [{match: ['app/*'], mounts: [/data, {path: /models, readOnly: true}], rdma: true}]"),
    ("Cluster", "defaults: {pull: always, env: {A: b}, resources: {memory: 1Gi}, rollout: {healthyFor: 5s}, run: r1}"),
]


@pytest.mark.parametrize(("kind", "lines"), ACCEPTED)
def test_accepted(kind: str, lines: str) -> None:
    """Each form of each field is taken."""
    assert said(kind, lines) == []


REFUSED: list[tuple[str, str, str]] = [
    ("App", "imge: x", "6:1: imge: unknown key; did you mean image?"),
    ("App", "resources: {cpu: 1}", "6:13: resources.cpu: unknown key; did you mean cpus?"),
    ("App", "resources: {gpus: {count: 1, modle: x}}", "6:30: resources.gpus.modle: unknown key; did you mean model?"),
    ("App", "ports: [{container: 1, hst: 2}]", "6:24: ports[0].hst: unknown key; did you mean host?"),
    ("App", "placementPolicy: {type: MATCH_TAG, tga: x, tag: y}", "6:36: placementPolicy.tga: unknown key"),
    ("App", "env: {A: {secrt: x, secret: y, key: z}}", "6:11: env.A.secrt: unknown key; did you mean secret?"),
    ("App", "zzz: 1", "6:1: zzz: unknown key"),
    ("App", "run: x", "6:1: run: unknown key (App has none; Task may)"),
    ("Task", "rollout: {}", "5:1: rollout: unknown key (Task has none; App and LocalService may)"),
    ("LocalService", "instances: 2", "5:1: instances: unknown key (LocalService has none; App may)"),
    ("App", "pull: sometimes", "6:7: pull: must be missing, always or never"),
    ("App", "pull:", "6:6: pull: must be missing, always or never"),
    ("App", "init: yes", "6:7: init: must be true or false"),
    ("App", "init: 1", "6:7: init: must be true or false"),
    ("App", "command: run.sh", "6:10: command: must be a list"),
    ("App", "args: [a, [b]]", "6:11: args[1]: must be a string"),
    ("App", "args: [a, null]", "6:11: args[1]: must be a string"),
    ("App", "workingDir: srv", "6:13: workingDir: must be an absolute path"),
    ("App", "owner: [a]", "6:8: owner: must be a string"),
    ("App", 'owner: "a\\e[31mb"', "6:8: owner: must be one line without control characters"),
    ("App", "priority: high", "6:11: priority: must be a whole number"),
    ("App", "priority: '1'", "6:11: priority: must be a whole number"),
    ("App", "priority: 1.5", "6:11: priority: must be a whole number"),
    ("App", "env: [A=b]", "6:6: env: must be a map"),
    ("App", "env: {A: [b]}", "6:10: env.A: must be a string"),
    ("App", "env: {A: null}", "6:10: env.A: must be a string"),
    ("App", "env: {'A=B': c}", "6:7: env.A=B: must be the name of an environment variable"),
    ("App", "env: {A: {secret: ../x, key: k}}", "6:19: env.A.secret: must be letters, digits, _, . and -"),
    ("App", "env: {A: {secret: x}}", "6:10: env.A.key is required"),
    (
        "App",
        "env: {NVIDIA_VISIBLE_DEVICES: all}",
        "6:31: env.NVIDIA_VISIBLE_DEVICES: cards are given by resources.gpus",
    ),
    ("App", "resources: 4", "6:12: resources: must be a map"),
    ("App", "resources: {cpus: 0}", "6:19: resources.cpus: must be a number of cores above 0"),
    ("App", "resources: {cpus: -1}", "6:19: resources.cpus: must be a number of cores above 0"),
    ("App", "resources: {cpus: .nan}", "6:19: resources.cpus: must be a number of cores above 0"),
    ("App", "resources: {cpus: true}", "6:19: resources.cpus: must be a number of cores above 0"),
    ("App", "resources: {cpus: '2'}", "6:19: resources.cpus: must be a number of cores above 0"),
    ("App", "resources: {cpus: 0.5}", "6:19: resources.cpus: a fraction of a core needs cpuPolicy: shared"),
    ("App", "resources: {cpus: 1.5, cpuPolicy: exclusive}", "6:19: resources.cpus: a fraction of a core needs"),
    ("App", "resources: {cpus: 0.0001, cpuPolicy: shared}", "6:19: resources.cpus: must not be finer"),
    ("App", "resources: {memory: 64Gb}", "6:21: resources.memory: not an amount of memory: '64Gb'"),
    ("App", "resources: {memory: 1Mi}", "6:21: resources.memory: the Engine takes no less than 6Mi"),
    ("App", "resources: {memory: 9999999Ti}", "6:21: resources.memory: more memory than any host has"),
    ("App", "resources: {memory: [1]}", "6:21: resources.memory: must be an amount of memory"),
    ("App", "resources: {gpus: -1}", "6:19: resources.gpus: must be at least 0"),
    ("App", "resources: {gpus: some}", "6:19: resources.gpus: must be a number of cards, all, or a map such as"),
    ("App", "resources: {gpus: 1.5}", "6:19: resources.gpus: must be a whole number"),
    ("App", "resources: {gpus: [1]}", "6:19: resources.gpus: must be a number of cards, all, or a map"),
    ("App", "resources: {gpus: {model: x}}", "6:19: resources.gpus.count is required"),
    ("App", "resources: {gpus: {count: 0}}", "6:27: resources.gpus.count: must be at least 1"),
    (
        "App",
        "resources: {gpus: {count: 1, model: []}}",
        "6:37: resources.gpus.model: must be a glob or a list of globs",
    ),
    ("App", "resources: {gpus: {mig: big}}", "6:25: resources.gpus.mig: must be a MIG profile as the driver names it"),
    *(
        ("App", f"resources: {{gpus: {{share: {word}}}}}", "6:27: resources.gpus.share: must be a fraction of one card")
        for word in ("0", "1", "2", "-0.5", "true", "'0.5'", "[0.5]", ".nan")
    ),
    *(
        ("App", f"resources: {{gpus: {{share: {word}}}}}", "6:27: resources.gpus.share: must not be finer than a thou")
        for word in ("0.1234", "0.00000001", "0.99999999999")
    ),
    ("App", "resources: {gpus: {sharedMemory: 0}}", "6:34: resources.gpus.sharedMemory: must be at least 1Mi"),
    ("App", "resources: {gpus: {sharedMemory: half}}", "6:34: resources.gpus.sharedMemory: not an amount of memory"),
    ("App", "resources: {gpus: {share: 0.5, sharedMemory: 1Gi}}", "6:32: resources.gpus.sharedMemory: share takes no"),
    ("App", "resources: {gpus: {count: 2, link: pcie}}", "6:36: resources.gpus.link: must be nvlink"),
    ("App", "resources: {rdma: yes}", "6:19: resources.rdma: must be true or false"),
    *(
        (
            "App",
            f"resources: {{gpus: {{{form}}}}}\nenv: {{{name}: '1'}}",
            f"7:{9 + len(name)}: env.{name}: is given by resources.gpus.share and sharedMemory",
        )
        for form in ("share: 0.5", "sharedMemory: 1Gi")
        for name in ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    ),
    (
        "App",
        "resources: {ulimits: {nofiles: 1}}",
        "6:32: resources.ulimits.nofiles: unknown limit; did you mean nofile?",
    ),
    ("App", "resources: {ulimits: {nofile: many}}", "6:31: resources.ulimits.nofile: must be a number or unlimited"),
    ("App", "placementPolicy: {tag: a}", "6:18: placementPolicy: type is required"),
    ("App", "placementPolicy: {type: MATCH_TAGS, tag: a}", "6:18: placementPolicy: must be ANY, ONE_PER_HOST,"),
    ("App", "placementPolicy: {type: MATCH_TAG}", "6:18: placementPolicy.tag is required"),
    ("App", "placementPolicy: {type: MAX_N_PER_HOST, max: 0}", "6:46: placementPolicy.max: must be at least 1"),
    (
        "App",
        "placementPolicy: {type: COMPOSITE, combiner: XOR, policies: [{type: ANY}]}",
        "6:46: placementPolicy.combiner",
    ),
    (
        "App",
        "placementPolicy: {type: COMPOSITE, combiner: OR, policies: []}",
        "6:60: placementPolicy.policies: must not",
    ),
    ("App", "placementPolicy: {type: LOCAL}", "6:25: placementPolicy: LOCAL is for a LocalService only"),
    (
        "App",
        "placementPolicy: {type: COMPOSITE, combiner: OR, policies: [{type: LOCAL}]}",
        "6:68: placementPolicy.policies[0]: LOCAL is for a LocalService only",
    ),
    (
        "App",
        "placementPolicy: {type: RULE_BASED, rule: host.gpuz > 1}",
        "6:43: placementPolicy.rule: unknown field host.gpuz; did you mean gpus? (line 1, column 1 of the rule)",
    ),
    *(
        ("App", f"prefer: [{{type: {name}}}]", "6:10: prefer[0]: must be ANY, NO_TAG, MATCH_TAG, RULE_BASED, COMPOSITE")
        for name in ("LOCAL", "ONE_PER_HOST", "MAX_N_PER_HOST, max: 2", "SSD")
    ),
    ("App", "prefer: [{type: MATCH_TAG, tag: a, weight: 0}]", "6:44: prefer[0].weight: must be at least 1"),
    ("App", "prefer: [{type: MATCH_TAG, tag: a, weight: 101}]", "6:44: prefer[0].weight: must be at most 100"),
    ("App", "prefer: [{type: MATCH_TAG, tag: a, weight: 1.5}]", "6:44: prefer[0].weight: must be a whole number"),
    (
        "App",
        "prefer: [{type: COMPOSITE, combiner: OR, policies: [{type: MAX_N_PER_HOST, max: 2}]}]",
        "6:53: prefer[0].policies[0]: must be ANY, NO_TAG, MATCH_TAG, RULE_BASED, COMPOSITE",
    ),
    (
        "App",
        "prefer: [{type: COMPOSITE, combiner: OR, policies: [{type: LOCAL}]}]",
        "6:53: prefer[0].policies[0]: must be ANY, NO_TAG, MATCH_TAG, RULE_BASED, COMPOSITE",
    ),
    (
        "App",
        "prefer: [{type: COMPOSITE, combiner: OR, policies: [{type: ANY, weight: 2}]}]",
        "6:65: prefer[0].policies[0]",
    ),
    ("App", "prefer: [{type: RULE_BASED, rule: host.gpuz > 1}]", "6:35: prefer[0].rule: unknown field host.gpuz"),
    ("App", "placementPolicy: {type: ANY, weight: 2}", "6:30: placementPolicy.weight: unknown key"),
    ("App", "spread: [{maxSkew: 1}]", "6:10: spread[0].by is required"),
    ("App", "spread: [{by: ''}]", "6:15: spread[0].by: must be host or the key of a label of hosts"),
    ("App", "spread: [{by: rack, maxSkew: 0}]", "6:30: spread[0].maxSkew: must be at least 1"),
    ("App", "spread: [{by: rack, required: true, weight: 2}]", "6:45: spread[0].weight: only with required: false"),
    ("App", "spread: [{by: rack}, {by: rack, maxSkew: 2}]", "6:22: spread[1]: by: rack stands in spread[0] too"),
    ("App", "affinity: [{by: rack}]", "6:12: affinity[0].workload is required"),
    *(
        ("App", f"affinity: [{{workload: {name}}}]", "6:23: affinity[0].workload: must be app/NAME, task/NAME or")
        for name in ("web", "App/web", "app/web/0", "app/", "job/x")
    ),
    ("App", "affinity: [{workload: app/web, weight: 2}]", "6:40: affinity[0].weight: only with required: false"),
    (
        "App",
        "affinity: [{workload: app/web}]\nantiAffinity: [{workload: app/web, required: false}]",
        "7:16: antiAffinity[0]: app/web by host stands in affinity[0] too",
    ),
    (
        "App",
        "affinity: [{workload: app/wbe}]",
        "6:23: affinity[0].workload: no workload app/wbe; did you mean app/web?",
    ),
    ("App", "antiAffinity: [{workload: task/zzz}]", "6:27: antiAffinity[0].workload: no workload task/zzz"),
    *(
        ("LocalService", f"{name}: []", f"5:1: {name}: unknown key (LocalService has none; App and Task may)")
        for name in ("prefer", "spread", "affinity", "antiAffinity")
    ),
    ("App", "network: 'container:abc'", "6:10: network: must be bridge, host, none or the name of a network"),
    ("App", "aliases: [a]", "6:10: aliases: need a named network"),
    ("App", "ports: [{container: 0}]", "6:21: ports[0].container: must be at least 1"),
    ("App", "ports: [{container: 70000}]", "6:21: ports[0].container: must be at most 65535"),
    ("App", "ports: [{container: 22:22}]", "6:21: ports[0].container: must be a whole number"),
    ("App", "ports: [{name: a, container: 1}, {name: a, container: 2}]", "6:41: ports[1].name: a stands twice"),
    ("App", "ports: [{container: 1}, {container: 1}]", "6:25: ports[1]: the same port stands twice"),
    ("App", "ports: [{container: 1, host: 9}, {container: 2, host: 9}]", "6:34: ports[1]: the same port stands twice"),
    ("App", "ports: [{container: 1, hostIp: localhost}]", "6:32: ports[0].hostIp: must be an address"),
    ("App", "network: host\nports: [{container: 1, host: 2}]", "7:30: ports[0].host: with network: host"),
    ("App", "volumes: [{container: /a}]", "6:11: volumes[0]: takes one of host and volume"),
    ("App", "volumes: [{host: /a, volume: b, container: /a}]", "6:11: volumes[0]: takes one of host and volume"),
    ("App", "volumes: [{host: a, container: /a}]", "6:18: volumes[0].host: must be an absolute path without a colon"),
    (
        "App",
        "volumes: [{host: /a, container: /x}]\ntmpfs: [{container: /x/}]",
        "7:21: tmpfs[0].container: /x is also that of volumes[0]",
    ),
    ("App", "tmpfs: [{container: /}]", "6:21: tmpfs[0].container: must not be the root of the container"),
    (
        "App",
        "configs: [{file: /etc/passwd, container: /a}]",
        "6:18: configs[0].file: must be a path relative to this file",
    ),
    ("App", "configs: [{file: ../a, container: /a}]", "6:18: configs[0].file: ../a leaves the repository's path"),
    ("App", "configs: [{file: no.conf, container: /a}]", "6:18: configs[0].file: no file no.conf"),
    ("App", "configs: [{file: a, container: /a, mode: 999}]", "6:42: configs[0].mode: must be an octal file mode"),
    ("App", "devices: [{host: /dev/nvidia0}]", "6:18: devices[0].host: cards are given by resources.gpus"),
    ("App", "devices: [{host: /dev/../dev//nvidiactl}]", "6:18: devices[0].host: cards are given by resources.gpus"),
    ("App", "dns: [ns.example]", "6:7: dns[0]: must be an address"),
    ("App", "labels: {io.reconciler.kind: app}", "6:30: labels.io.reconciler.kind: io.reconciler.* is kept for"),
    ("App", "readiness: {interval: 5s}", "6:12: readiness: takes one of exec, http and tcp"),
    ("App", "readiness: {exec: []}", "6:19: readiness.exec: must not be empty"),
    ("App", "readiness: {exec: [a], interval: 0}", "6:34: readiness.interval: must be at least 1ms"),
    ("App", "readiness: {exec: [a], interval: soon}", "6:34: readiness.interval: not a duration: 'soon'"),
    ("App", "readiness: {exec: [a], interval: 9999h}", "6:34: readiness.interval: longer than a year"),
    (
        "App",
        "readiness: {exec: [a], startPeriod: 20m}\nrollout: {deadline: 10m}",
        "7:21: rollout.deadline: 600 s is less than the startPeriod of 1200 s",
    ),
    ("App", "restart: never", "6:10: restart: of an App must be always or on-failure"),
    ("Task", "restart: always", "5:10: restart: of a Task must be never or on-failure"),
    ("Task", "run: a/b", "5:6: run: must be letters, digits, _, . and -"),
    ("Host", "state: gone", "5:8: state: must be active, cordoned or drained"),
    ("Host", "reserved: {cpus: 3-1}", "5:18: reserved.cpus: not a list of CPUs: '3-1'"),
    ("Host", "tags: [a b]", "5:8: tags[0]: must be one word"),
    ("Host", "env: {NVIDIA_VISIBLE_DEVICES: all}", "5:31: env.NVIDIA_VISIBLE_DEVICES: cards are given by"),
    ("Host", "mig: {create: maybe}", "5:15: mig.create: must be true or false"),
    ("Host", "mig: {create: true, GPU-1: []}", "5:6: mig: must be {create: true}"),
    ("Host", "facts: no.json", "5:8: facts: no file no.json"),
    ("Cluster", "prune: {maxFraction: 2}", "4:22: prune.maxFraction: must be at most 1"),
    ("Cluster", "secrets: {directory: secrets}", "4:22: secrets.directory: must be an absolute path"),
    ("Cluster", "securityProfiles: [{match: []}]", "4:28: securityProfiles[0].match: must not be empty"),
    (
        "Cluster",
        "securityProfiles: [{match: [a], mounts: [a]}]",
        "4:42: securityProfiles[0].mounts[0]: must be an absolute",
    ),
    ("Cluster", "defaults: {imag: x}", "4:12: defaults.imag: unknown key; did you mean image?"),
    ("Cluster", "defaults: {name: x}", "4:12: defaults.name: unknown key"),
    ("Cluster", "defaults: {resources: {cpus: 0}}", "4:30: resources.cpus: must be a number of cores above 0"),
    ("Cluster", "defaults: [a]", "4:11: defaults: must be a map"),
]


@pytest.mark.parametrize(("kind", "lines", "message"), REFUSED)
def test_refused(kind: str, lines: str, message: str) -> None:
    """Each fault is one line, at the key or value that is wrong."""
    found = said(kind, lines)
    assert len(found) == 1, found
    assert found[0].startswith(message)


@pytest.mark.parametrize("engine", ["unix:///var/run/docker.sock", "sim://", "sim://gpu-01"])
def test_engines(engine: str) -> None:
    """The two kinds of Engine that this release reaches."""
    assert problems({"a.yaml": HOST.replace("sim://", engine)}) == []


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("ssh://ops@gpu-01", "engine ssh://: not supported yet"),
        ("tcp://gpu-01:2376", "engine tcp://: not supported yet"),
        ("http://gpu-01", "engine: must be unix:///PATH, tcp://HOST:PORT, ssh://USER@HOST or sim://"),
        ("tcp://gpu-01", "engine: must be unix:///PATH, tcp://HOST:PORT, ssh://USER@HOST or sim://"),
        ("unix://docker.sock", "engine: must be unix:///PATH, tcp://HOST:PORT, ssh://USER@HOST or sim://"),
        ("ssh://ops:secret@gpu-01", "engine: must be unix:///PATH, tcp://HOST:PORT, ssh://USER@HOST or sim://"),
    ],
)
def test_engines_that_are_refused(engine: str, message: str) -> None:
    """An Engine that cannot be reached says whether it is wrong or early."""
    assert problems({"a.yaml": HOST.replace("sim://", engine)}) == [f"a.yaml:4:9: {message}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: App\nname: a\n", "a.yaml:1:1: apiVersion is required: reconciler/v1"),
        ("apiVersion: v1\nkind: Pod\n", "a.yaml:1:13: apiVersion must be reconciler/v1"),
        ("apiVersion: reconciler/v1\nname: a\n", "a.yaml:1:1: kind is required: App, Task, LocalService,"),
        ("apiVersion: reconciler/v1\nkind: app\nname: a\n", "a.yaml:2:7: unknown kind app; did you mean App?"),
        ("apiVersion: reconciler/v1\nkind: [App]\n", "a.yaml:2:7: unknown kind"),
        (APP.replace("name: web\n", ""), "a.yaml:1:1: name is required"),
        (APP.replace("image: nginx:1.27\n", ""), "a.yaml:1:1: image is required"),
        (APP.replace("instances: 1\n", ""), "a.yaml:1:1: instances is required"),
        (APP.replace("web", "Web"), "a.yaml:3:7: name: must be a DNS label"),
        (APP.replace("web", "-web"), "a.yaml:3:7: name: must be a DNS label"),
        (APP.replace("web", "w" * 64), "a.yaml:3:7: name: must be a DNS label"),
        (APP.replace("instances: 1", "instances: -1"), "a.yaml:4:12: instances: must be at least 0"),
        (APP.replace("instances: 1", "instances: 100000"), "a.yaml:4:12: instances: must be at most 10000"),
        (APP.replace("nginx:1.27", "nginx latest"), "a.yaml:5:8: image: must be an image reference"),
    ],
)
def test_every_document_is_one_of_ours(text: str, message: str) -> None:
    """A typing error cannot make a workload vanish."""
    found = problems({"a.yaml": text})
    assert len(found) == 1, found
    assert found[0].startswith(message)


def test_all_faults_come_at_once() -> None:
    """Every fault of every file, sorted by place; a bad file hides no other."""
    files: dict[str, str | bytes] = {
        "b.yaml": APP.replace("nginx:1.27", "a b") + "pull: x\n",
        "a.yaml": "a: [\n",
        "c.yaml": b"\xff",
        "d.yaml": TASK + "zzz: 1\n---\n" + TASK.replace("job", "job2") + "---\nkind: x\n",
    }
    found = [problem.split(": ")[0] for problem in problems(files)]
    assert found == ["a.yaml:2:1", "b.yaml:5:8", "b.yaml:6:7", "c.yaml:1:1", "d.yaml:5:1", "d.yaml:12:1"]
