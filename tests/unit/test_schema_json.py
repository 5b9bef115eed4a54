"""The printed JSON Schema: valid, described, and of one mind with the validation."""

from typing import Any

import jsonschema
import pytest

from reconciler.desired.documents import parse
from reconciler.desired.scalars import bare
from reconciler.desired.schema import KINDS, json_schema
from tests.fakes.trees import APP, CLUSTER, HOST, LOCAL_SERVICE, TASK

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def is_valid(text: str) -> bool:
    """Whether an editor would accept the document."""
    (document,), _ = parse(text.encode(), "a.yaml")
    return VALIDATOR.is_valid(bare(document.value))


def test_the_schema_is_a_schema() -> None:
    """It passes the meta-schema of its draft, and names every kind."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(KINDS) <= set(SCHEMA["$defs"])


def fields() -> list[tuple[str, str, Any]]:
    """Every field of every map in the schema."""
    return [
        (name, field, described)
        for name, definition in SCHEMA["$defs"].items()
        for field, described in definition.get("properties", {}).items()
    ]


def test_every_field_is_described() -> None:
    """An editor shows what a field means; only `type` of a policy says it by its values."""
    missing = [f"{name}.{field}" for name, field, described in fields() if not described.get("description")]
    assert [name for name in missing if not name.endswith((".kind", ".type"))] == []


def test_no_default_is_in_units_of_the_program() -> None:
    """Bytes and thousandths of a core are not what people write."""
    shown = {f"{name}.{field}": described["default"] for name, field, described in fields() if "default" in described}
    assert {"Resources.cpus", "Resources.memory", "Check.interval"} & set(shown) == set()
    assert shown["App.pull"] == "missing"
    assert shown["Task.restart"] == "never"


def test_fields_that_come_later_say_so() -> None:
    """The schema and the refusal agree."""
    assert SCHEMA["$defs"]["App"]["properties"]["queue"]["description"].endswith("Not supported yet.")
    assert "Not supported" not in SCHEMA["$defs"]["App"]["properties"]["image"]["description"]


@pytest.mark.parametrize(
    "text",
    [
        APP,
        TASK,
        LOCAL_SERVICE,
        HOST,
        CLUSTER,
        APP + "labels:\nx-free: [1]\nresources: {gpus: 2, memory: 64Gi, x-why: y}\n",
        APP + "resources: {gpus: {count: 2, model: '*H100*', minMemory: 80GiB}, ulimits: {memlock: unlimited}}\n",
        APP + "resources: {gpus: {mig: 1g.10gb}, cpus: 0.5, cpuPolicy: shared}\n",
        APP + "resources: {gpus: {share: 0.3, model: '*A100*'}, rdma: true}\n",
        APP + "resources: {gpus: {sharedMemory: 10Gi, model: [a, b]}}\n",
        APP + "resources: {gpus: {count: 2, link: nvlink}}\n",
        APP + "prefer: [{type: MATCH_TAG, tag: ssd, weight: 50}, {type: ANY}]\nspread: [{by: rack, required: true}]\n",
        TASK + "affinity: [{workload: app/web}]\nantiAffinity: [{workload: task/job, by: rack, required: false}]\n",
        HOST + "mig: {create: true}\n",
        APP + "env: {A: b, C: {secret: d, key: e}}\nreadiness: {exec: [a], interval: 1h30m}\n",
        APP + "placementPolicy: {type: COMPOSITE, combiner: AND, policies: [{type: ANY}, {type: MATCH_TAG, tag: a}]}\n",
        HOST + "reserved: {cpus: '0-1', memory: 8Gi}\ntags: [a100]\n",
        CLUSTER + "securityProfiles: [{match: ['app/*'], mounts: [/data, {path: /m, readOnly: true}]}]\n",
    ],
)
def test_an_editor_accepts(text: str) -> None:
    """What the validation takes, the schema takes."""
    assert is_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        APP + "imge: x\n",
        APP + "run: a\n",
        APP + "restart: never\n",
        APP.replace("instances: 1\n", ""),
        APP.replace("image: nginx:1.27\n", ""),
        TASK + "instances: 1\n",
        TASK + "rollout: {}\n",
        TASK + "pull: sometimes\n",
        APP + "resources: {gpus: {count: 0}}\n",
        APP + "resources: {gpus: -1}\n",
        APP + "resources: {gpus: {share: 1}}\n",
        APP + "resources: {gpus: {share: 0.5, count: 2}}\n",
        APP + "resources: {gpus: {sharedMemory: 0}}\n",
        APP + "prefer: [{type: MATCH_TAG, tag: ssd, weight: 0}]\n",
        APP + "prefer: [{type: ONE_PER_HOST}]\n",
        APP + "spread: [{by: ''}]\n",
        APP + "affinity: [{workload: web}]\n",
        LOCAL_SERVICE + "spread: [{by: rack}]\n",
        HOST + "mig: {GPU-1: [1g.10gb]}\n",
        APP + "resources: {memory: lots}\n",
        APP + "resources: {cpus: 0}\n",
        APP + "placementPolicy: {type: MATCH_TAG}\n",
        APP + "ports: [{container: 70000}]\n",
        HOST.replace("sim://", "http://x"),
        CLUSTER.replace("lab", "Lab"),
        CLUSTER + "prune: {maxFraction: 2}\n",
        "apiVersion: reconciler/v1\nkind: Pod\nname: a\n",
        "kind: App\n",
    ],
)
def test_an_editor_marks(text: str) -> None:
    """What the validation refuses in form, the schema refuses."""
    assert not is_valid(text)
