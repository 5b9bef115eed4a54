"""Spec files that went wrong: good ones, truncated, flipped, renamed, retyped, nested, spliced. Seeded."""

import json
import random
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from reconciler.desired.documents import parse
from reconciler.desired.resolve import Cache, resolve
from reconciler.desired.scalars import bare
from reconciler.errors import SpecError
from tests.fakes.trees import APP, CLUSTER, HOST, LOCAL_SERVICE, TASK, tree

GOOD = (
    APP
    + """pull: always
command: [python, -m, server]
args: [--port, 8000]
env: {A: 1.10, B: {secret: hf, key: token}}
resources: {cpus: 2, memory: 64Gi, shm: 16Gi, gpus: {count: 2, model: [a*, b*], minMemory: 80Gi}, ulimits: {nofile: 9}}
placementPolicy: {type: COMPOSITE, combiner: AND, policies: [{type: MATCH_TAG, tag: a}, {type: ONE_PER_HOST}]}
prefer: [{type: MATCH_TAG, tag: ssd, weight: 50}, {type: COMPOSITE, combiner: OR, policies: [{type: NO_TAG}]}]
spread: [{by: rack, maxSkew: 2}]
affinity: [{workload: app/web, by: rack, required: false, weight: 3}]
antiAffinity: [{workload: app/web}]
ports: [{name: http, container: 8000, host: 80}]
volumes:
  - {host: /data/models, container: /models, readOnly: true}
  - volume: scratch
    container: /scratch
configs: [{file: conf/a.conf, container: /etc/a.conf, mode: "0400"}]
readiness: {exec: [check], interval: 5s, timeout: 2s, retries: 3, startPeriod: 20m}
rollout: {order: auto, healthyFor: 10s, deadline: 40m}
labels: {team: chat}
""",
    TASK
    + """x-base: &base {A: b, C: d}
env:
  <<: *base
  E: f
resources: {cpus: 0.5, cpuPolicy: shared, gpus: {share: 0.5, model: a}}
placementPolicy: {type: RULE_BASED, rule: "host.gpus >= 4 && 'a' in host.tags"}
run: nightly
""",
    LOCAL_SERVICE
    + "network: host\npid: host\nresources: {gpus: {mig: 1g.10gb}}\n---\n"
    + HOST
    + "tags: [a]\nreserved: {cpus: 0-1, memory: 8Gi}\n",
    CLUSTER
    + """defaults: {env: {Z: z}, resources: {memory: 1Gi}}
prune: {enabled: true, maxFraction: 0.3}
secrets: {directory: /secrets}
securityProfiles:
  - {match: ['localservice/*'], mounts: [{path: /, readOnly: true}], hostNetwork: true, pid: host}
  - {match: ['app/*', 'task/*'], mounts: [/data]}
""",
)
OPEN = CLUSTER + (
    "secrets: {directory: /secrets}\n"
    "securityProfiles: [{match: ['*'], mounts: [/data], hostNetwork: true, pid: host}]\n"
)
PIECES = (
    *(
        "&a ",
        "*a ",
        "<<: ",
        "!!str ",
        "!x ",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "? ",
        ": ",
        "- ",
        "|\n",
        ">-\n",
        "\t",
        "#",
    ),
    *("\0", "\x1b", "\u2028", "\ufeff", "\U0001f600", '"\\ud800"', "'", '"', "{", "}", "[", "]", ",", "\r", "{{ x }}"),
    *("~", "null", "true", ".nan", ".inf", "-1", "1e999", "0x7fffffffffffffffff", "9" * 50, "{}", "[]", "[[]]"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, 10**30, 0.5, 1e300, "", " ", "a", "a b", "\n", "/", "../..", "*", "1g.10gb"),
    *(
        [],
        {},
        [[]],
        [None],
        {"": ""},
        {"a": {"b": {"c": []}}},
        ["a"] * 50,
        "x" * 5000,
        "é\u202e",
        "(" * 60,
        "99h",
        "1Ti",
    ),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one mutated file: nothing, or its problems."""

    problems: tuple[str, ...]
    unplaced: tuple[str, ...]  # problems without a position inside the file


def _truncated(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _flipped(data: bytes, chance: random.Random) -> bytes:
    body = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    return bytes(body)


def _renamed(data: bytes, chance: random.Random) -> bytes:
    text = data.decode()
    keys = list(re.finditer(r"(?<=[\s{])[A-Za-z]+(?=:)", text))
    key = chance.choice(keys)
    letters = list(key[0])
    chance.shuffle(letters)
    name = chance.choice(["".join(letters), key[0] + "s", key[0].upper(), chance.choice(keys)[0], "x-" + key[0]])
    return (text[: key.start()] + name + text[key.end() :]).encode()


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield value, key
        yield from places(part)


def _retyped(data: bytes, chance: random.Random) -> bytes:
    documents = [json.loads(json.dumps(bare(document.value))) for document in parse(data, "a.yaml")[0]]
    value = chance.choice(documents)
    for _ in range(chance.randint(1, 3)):
        container, key = chance.choice(list(places(value)))
        container[key] = deepcopy(chance.choice(VALUES))
    return "\n---\n".join(json.dumps(document) for document in documents).encode()


def _nested(data: bytes, chance: random.Random) -> bytes:
    text = data.decode()
    at = chance.choice([match.end() for match in re.finditer(": ", text)])
    end = re.compile(r"[\n,}\]]").search(text, at)
    value = text[at : end.start() if end else None]
    deep = chance.randint(3, 1000)
    opening, closing = chance.choice([("[", "]"), ("{a: ", "}"), ("- ", ""), ("{", "}"), ("&a [", "]")])
    return (text[:at] + opening * deep + value + closing * deep + text[at + len(value) :]).encode()


def _spliced(data: bytes, chance: random.Random) -> bytes:
    text = data.decode()
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        other = chance.choice(GOOD)
        start = chance.randrange(len(other))
        piece = chance.choice([chance.choice(PIECES), other[start : start + chance.randrange(200)]])
        text = text[:at] + piece + text[at + chance.choice([0, 0, 1, 20]) :]
    return text.encode(errors="surrogatepass")


def _shuffled(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        line = lines.pop(at) if chance.random() < 0.5 and len(lines) > 1 else lines[at]
        lines.insert(chance.randrange(len(lines) + 1), b" " * chance.randrange(4) + line)
    return b"\n".join(lines)


MUTATIONS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncated": _truncated,
    "flipped": _flipped,
    "renamed": _renamed,
    "retyped": _retyped,
    "nested": _nested,
    "spliced": _spliced,
    "shuffled": _shuffled,
}


def mutated(number: int) -> tuple[str, bytes]:
    """The name of the mutation and the bytes of mutated file ``number``: the same for ever."""
    chance = random.Random(number)  # noqa: S311 - reproducible, not secret
    name = list(MUTATIONS)[number % len(MUTATIONS)]
    return name, MUTATIONS[name](chance.choice(GOOD).encode(), chance)


def judge(data: bytes) -> Verdict:
    """Resolve a tree of good files and this one. Anything but an answer or a SpecError is a fault of the program."""
    files: dict[str, str | bytes] = {"good.yaml": APP.replace("web", "other"), "conf/a.conf": "x", "bad.yaml": data}
    if b"Cluster" not in data:
        files["cluster.yaml"] = OPEN
    try:
        resolve(tree(files), Cache())
    except SpecError as error:
        lines = data.count(b"\n") + data.count(b"\r") + data.count("\u2028".encode()) + data.count(b"\xc2\x85") + 2
        unplaced = [one for one in error.problems if not (1 <= one.line <= lines and one.column >= 1)]
        broken = [one for one in error.problems if not str(one).isprintable()]
        return Verdict(tuple(map(str, error.problems)), tuple(map(str, unplaced + broken)))
    return Verdict((), ())
