"""What a message tells to write instead: the key that was meant, what a map looks like, the unit that is missing."""

import json
from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from reconciler.desired.complaints import Places
from reconciler.desired.documents import parse
from reconciler.desired.hints import MAPS, POLICIES, WORDS
from reconciler.desired.scalars import bare
from reconciler.desired.schema import KINDS, json_schema, validate
from tests.fakes.mutations import GOOD, places
from tests.fakes.specs import said

DEFINITIONS = json_schema()["$defs"]
SHAPES = [
    ("App", "placementPolicy: ONE_PER_HOST", "placementPolicy: must be a map, such as {type: ONE_PER_HOST}"),
    ("App", "placementPolicy: MATCH_TAG", "placementPolicy: must be a map, such as {type: MATCH_TAG, tag: a100}"),
    ("App", "placementPolicy: [ANY]", "placementPolicy: must be a map, such as {type: ONE_PER_HOST}"),
    (
        "App",
        "placementPolicy: {type: COMPOSITE, combiner: AND, policies: [NO_TAG]}",
        "placementPolicy.policies[0]: must be a map, such as {type: NO_TAG}",
    ),
    ("App", "resources: 4", "resources: must be a map, such as {cpus: 2, memory: 8Gi}"),
    ("App", "env: [A=b]", "env: must be a map, such as {NAME: value}"),
    ("App", "env: {A: [b]}", "env.A: must be a string or {secret: NAME, key: KEY}"),
    ("App", "readiness: curl", "readiness: must be a map, such as {exec: [curl, localhost]}"),
    ("App", "ports: [80]", "ports[0]: must be a map, such as {container: 80}"),
    ("App", "ports: 80", "ports: must be a list, such as [{container: 80}]"),
    ("App", "command: python -m server", "command: must be a list, such as [python, -m, server]"),
    ("App", "capAdd: SYS_ADMIN", "capAdd: must be a list, such as [SYS_ADMIN]"),
    ("App", "command: 'echo $(id)'", "command: must be a list"),
    (
        "App",
        "resources: {gpus: two}",
        "resources.gpus: must be a number of cards, all, or a map such as {count: 2, model: '*H100*'}",
    ),
    (
        "App",
        "resources: {gpus: {share: 50%}}",
        "resources.gpus.share: must be a fraction of one card, such as 0.5 (a whole one is {count: 1})",
    ),
    (
        "App",
        "prefer: {type: MATCH_TAG, tag: ssd}",
        "prefer: must be a list, such as [{type: MATCH_TAG, tag: ssd, weight: 50}]",
    ),
    ("App", "prefer: [ssd]", "prefer[0]: must be a map, such as {type: MATCH_TAG, tag: ssd, weight: 50}"),
    ("App", "spread: host", "spread: must be a list, such as [{by: rack}]"),
    ("App", "affinity: [app/db]", "affinity[0]: must be a map, such as {workload: app/cache}"),
    ("App", "antiAffinity: app/db", "antiAffinity: must be a list, such as [{workload: app/cache}]"),
    *(
        ("Host", f"mig: {form}", f"mig: must be {{create: true}}: {said}")
        for said in ("which slices there should be follows from what the workloads ask for",)
        for form in ("{GPU-1: [1g.10gb]}", "true", "[1g.10gb]")
    ),
    ("App", "ipc: maybe", "ipc: must be none, private, shareable, host or container:NAME"),
    ("App", "pid: maybe", "pid: must be host or container:NAME"),
    ("App", "hostname: a_b", "hostname: must be a host name: letters, digits, - and ., at most 63 characters"),
    ("App", "extraHosts: [a]", "extraHosts[0]: must be NAME:ADDRESS"),
    ("App", "stop: {signal: term}", "stop.signal: must be a signal such as SIGTERM or 15"),
    (
        "App",
        "devices: [{host: /dev/fuse, permissions: wr}]",
        "devices[0].permissions: must be of r, w and m, in this order",
    ),
    ("Cluster", "prune: true", "prune: must be a map, such as {maxFraction: 0.3}"),
    ("Cluster", "defaults: {placementPolicy: ANY}", "placementPolicy: must be a map, such as {type: ANY}"),
]

KEYS = [
    *(
        ("App", f"{key}: 1", f"{key}: unknown key; did you mean {instead}?")
        for key, instead in {
            "memory": "resources.memory",
            "cpus": "resources.cpus",
            "gpus": "resources.gpus",
            "shm": "resources.shm",
            "memroy": "resources.memory",
            "gpu": "resources.gpus",
            "minMemory": "resources.gpus.minMemory",
            "tag": "placementPolicy.tag",
            "hostIp": "ports[].hostIp",
            "gracePeriod": "stop.gracePeriod",
            "stop_grace_period": "stop.gracePeriod",
            "entrypoint": "command",
            "cmd": "args",
            "arguments": "args",
            "replicas": "instances",
            "environment": "env",
            "mounts": "volumes",
            "healthcheck": "health",
            "working_dir": "workingDir",
        }.items()
    ),
    ("App", "resources: {gpu: 1}", "resources.gpu: unknown key; did you mean gpus?"),
    ("App", "resources: {minMemory: 1Gi}", "resources.minMemory: unknown key; did you mean resources.gpus.minMemory?"),
    ("App", "resources: {image: a}", "resources.image: unknown key; did you mean image of the document?"),
    ("App", "readiness: {command: [a], interval: 1s, exec: [a]}", "readiness.command: unknown key; did you mean exec?"),
    ("App", "volumes: [{host: /a, mountPath: /b}]", "volumes[0].mountPath: unknown key; did you mean container?"),
    ("App", "container: 80", "container: unknown key"),
    ("App", "runs: 3", "runs: unknown key"),
    ("Task", "replicas: 2", "replicas: unknown key"),
    ("Task", "reediness: {}", "reediness: unknown key"),
    ("LocalService", "memory: 1Gi", "memory: unknown key; did you mean resources.memory?"),
    ("Host", "memory: 8Gi", "memory: unknown key; did you mean reserved.memory?"),
    ("Host", "replicas: 1", "replicas: unknown key"),
    ("Cluster", "directory: /a", "directory: unknown key; did you mean secrets.directory?"),
    ("Cluster", "mounts: []", "mounts: unknown key; did you mean securityProfiles[].mounts?"),
    ("Cluster", "defaults: {gpu: 1}", "defaults.gpu: unknown key; did you mean resources.gpus?"),
    (
        "App",
        "placementPolicy: {type: ONE_PER_HOST, max: 2}",
        "placementPolicy.max: ONE_PER_HOST takes no max; MAX_N_PER_HOST does",
    ),
    (
        "App",
        "placementPolicy: {type: COMPOSITE, combiner: OR, policies: [{type: ANY, tag: a}]}",
        "placementPolicy.policies[0].tag: ANY takes no tag; MATCH_TAG does",
    ),
    ("App", "placementPolicy: {type: MATCH_TAG, tga: a}", "placementPolicy.tga: unknown key; did you mean tag?"),
    ("App", "placementPolicy: {type: MATCH_TAG}", "placementPolicy.tag is required"),
    ("App", "placementPolicy: {type: ANY, frm: 1}", "placementPolicy.frm: unknown key"),
    (
        "App",
        "resources: {gpus: {mig: 1g.10gb, model: a}}",
        "resources.gpus.model: mig takes no model; count, share or sharedMemory does",
    ),
    (
        "App",
        "resources: {gpus: {share: 0.5, count: 2}}",
        "resources.gpus.count: share takes no count; count or mig does",
    ),
    ("App", "resources: {gpus: {mig: 1g.5gb, link: nvlink}}", "resources.gpus.link: mig takes no link; count does"),
    ("App", "prefer: [{type: ANY, tag: ssd}]", "prefer[0].tag: ANY takes no tag; MATCH_TAG does"),
    ("App", "spread: [{topologyKey: rack}]", "spread[0].topologyKey: unknown key; did you mean by?"),
    ("App", "podAntiAffinity: []", "podAntiAffinity: unknown key; did you mean antiAffinity?"),
    ("App", "topologySpreadConstraints: []", "topologySpreadConstraints: unknown key; did you mean spread?"),
    ("App", "resources: {gpus: {mig: 1g.10gb, modle: a}}", "resources.gpus.modle: unknown key"),
]

UNITS = [
    *(
        ("App", lines, f"{name}: {number} is {number} bytes: did you mean {instead}?")
        for lines, name, number, instead in (
            ("resources: {memory: 64}", "resources.memory", "64", "64Gi"),
            ("resources: {memory: 8192}", "resources.memory", "8192", "8192Mi"),
            ("resources: {memory: 1.5}", "resources.memory", "1.5", "1.5Gi"),
            ("resources: {memory: '64'}", "resources.memory", "64", "64Gi"),
            ("resources: {shm: 16}", "resources.shm", "16", "16Gi"),
            ("resources: {gpus: {count: 1, minMemory: 70}}", "resources.gpus.minMemory", "70", "70Gi"),
            ("resources: {gpus: {sharedMemory: 10}}", "resources.gpus.sharedMemory", "10", "10Gi"),
            ("tmpfs: [{container: /a, size: 64}]", "tmpfs[0].size", "64", "64Gi"),
        )
    ),
    ("Host", "reserved: {memory: 8}", "reserved.memory: 8 is 8 bytes: did you mean 8Gi?"),
]


@pytest.mark.parametrize(("kind", "lines", "message"), [*SHAPES, *KEYS, *UNITS])
def test_a_message_says_what_to_write(kind: str, lines: str, message: str) -> None:
    """One line, whole, that names only what exists at that place for that kind."""
    assert [problem.split(": ", 1)[1] for problem in said(kind, lines)] == [message]


@pytest.mark.parametrize(
    "lines",
    [
        "tmpfs: [{container: /a, size: 64Ki}, {container: /b, size: 0}]",
        "resources: {gpus: {count: 1, minMemory: 0}}",
        "resources: {shm: 1048576, memory: 6291456}",
        "resources: {shm: 64B}",
    ],
)
def test_what_can_be_meant_in_bytes_is_taken(lines: str) -> None:
    """A unit was given, or the number is large, or nothing."""
    assert said("App", lines) == []


def test_words_of_other_systems_lead_to_fields() -> None:
    """No word leads to what no document has, and none is a field that would then be hidden."""
    names = {name for one in DEFINITIONS.values() for name in one.get("properties", {})}
    assert {field for fields in WORDS.values() for field in fields} <= names
    assert {word for word in WORDS if word != word.casefold() or "_" in word or "-" in word} == set()


@pytest.mark.parametrize("name", MAPS)
def test_the_map_that_is_shown_is_valid(name: str) -> None:
    """What a message tells to write is taken where it is told: by itself, or in a list."""
    (document,), problems = parse(f"a: {MAPS[name]}".encode(), "a.yaml")
    assert problems == ()
    shown = bare(document.value["a"])
    schemas = [
        jsonschema.Draft202012Validator({**definition["properties"][name], "$defs": DEFINITIONS})
        for definition in DEFINITIONS.values()
        if name in definition.get("properties", {})
    ]
    assert any(schema.is_valid(shown) or schema.is_valid([shown]) for schema in schemas)


@pytest.mark.parametrize("name", POLICIES)
def test_the_policy_that_is_shown_is_valid(name: str) -> None:
    """Each policy is shown with what it needs."""
    kind = "LocalService" if name == "LOCAL" else "App"
    assert said(kind, f"placementPolicy: {POLICIES[name].replace('host.gpus >= 4', repr('host.gpus >= 4'))}") == []


WRONG: tuple[Any, ...] = (None, True, 1, -1, 1.5, "some thing", "", [], ["a"], [1], {}, {"a": 1}, {"type": "x"})
LIBRARY = ("input ", "valid ", "Input", "discriminator", "pydantic", "Extra", "regex", "pattern", "dictionary")


@pytest.mark.parametrize("text", GOOD)
def test_no_message_is_the_librarys(text: str) -> None:
    """Every value of every good document is made wrong in each way; each message is in our own words."""
    leaked = set()
    count = 0
    for document in parse(text.encode(), "a.yaml")[0]:
        whole = bare(document.value)
        for index in range(len(list(places(whole)))):
            for value in WRONG:
                edited = deepcopy(whole)
                container, key = list(places(edited))[index]
                if key in {"kind", "apiVersion"}:
                    continue
                container[key] = value
                (made,), _ = parse(json.dumps(edited).encode(), "a.json")
                kind = str(made.value["kind"])
                assert kind in KINDS
                messages = [problem.message for problem in validate(kind, made.value, Places(made))[1]]
                count += len(messages)
                leaked |= {message for message in messages if any(word in message for word in LIBRARY)}
    assert leaked == set()
    assert count > 50
