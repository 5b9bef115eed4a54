"""Field-level differences, and that no secret shows."""

from typing import Any

import pytest

from reconciler.model.plan import Change
from reconciler.report.changes import change_text, expand, mask

REF = {"secret": "hf", "key": "token"}
OTHER = {"secret": "hf", "key": "other"}


@pytest.mark.parametrize(
    ("field", "old", "new", "lines"),
    [
        ("image", "a:1", "a:2", ['image: "a:1" → "a:2"']),
        ("privileged", None, True, ["privileged: (unset) → true"]),
        ("resources.memory", 1024**3, 2 * 1024**3, ["resources.memory: 1Gi → 2Gi"]),
        ("resources.cpus", 0.5, 1.5, ["resources.cpus: 0.5 → 1.5"]),
        ("env", {"HF_HOME": "x", "A": "1"}, {"HF_HOME": "y", "A": "1"}, ['env.HF_HOME: "x" → "y"']),
        ("env", {"A": "1", "B": "2"}, {"A": "1", "C": "3"}, ['env.B: "2" → (unset)', 'env.C: (unset) → "3"']),
        ("env", None, {"A": "1"}, ['env.A: (unset) → "1"']),
        ("env", {"__A": "1"}, {"__A": "2"}, ['env.__A: "1" → "2"']),
        ("env", {"T": REF}, {"T": OTHER}, ["env.T: (sensitive) → (sensitive)"]),
        ("env", {"T": "plain"}, {"T": REF}, ['env.T: "plain" → (sensitive)']),
        ("env", {}, {"T": REF}, ["env.T: (unset) → (sensitive)"]),
        ("args", ["a", "b"], ["a", "c"], ['args[1]: "b" → "c"']),
        ("args", ["a"], ["a", "b"], ['args[1]: (unset) → "b"']),
        ("args", None, ["a"], ['args: (unset) → ["a"]']),
        (
            "volumes",
            [{"container": "/a", "host": "/b"}],
            [{"container": "/a", "host": "/c"}],
            ['volumes[0].host: "/b" → "/c"'],
        ),
        (
            "secretFiles",
            [{"container": "/a", "secret": REF}],
            [{"container": "/a", "secret": OTHER}],
            ["secretFiles[0].secret: (sensitive) → (sensitive)"],
        ),
        (
            "secretFiles",
            None,
            [{"container": "/a", "secret": REF}],
            ['secretFiles: (unset) → [{"container": "/a", "secret": "(sensitive)"}]'],
        ),
        (
            "resources.gpus",
            {"type": "WholeGpus", "count": 1},
            {"type": "WholeGpus", "count": 2, "models": ["*H100*"]},
            ["resources.gpus.count: 1 → 2", 'resources.gpus.model: (unset) → ["*H100*"]'],
        ),
        (
            "resources.gpus",
            {"type": "WholeGpus", "count": 1, "min_memory": 10 * 1024**3},
            {"type": "MigSlices", "profile": "1g.10gb"},
            [
                "resources.gpus.count: 1 → (unset)",
                'resources.gpus.mig: (unset) → "1g.10gb"',
                'resources.gpus.minMemory: "10Gi" → (unset)',
            ],
        ),
        (
            "resources.gpus",
            {"type": "AllGpus"},
            {"type": "ObserveGpus"},
            ['resources.gpus: "all" → {"observe": "all"}'],
        ),
        (
            "resources.gpus",
            {"type": "GpuShare", "milli": 500, "models": ["*A100*"]},
            {"type": "GpuShare", "memory": 10 * 1024**3, "models": ["*A100*"]},
            ["resources.gpus.share: 0.5 → (unset)", 'resources.gpus.sharedMemory: (unset) → "10Gi"'],
        ),
        (
            "resources.gpus",
            {"type": "WholeGpus", "count": 2},
            {"type": "WholeGpus", "count": 2, "link": "nvlink"},
            ['resources.gpus.link: (unset) → "nvlink"'],
        ),
        (
            "resources.ulimits",
            [{"name": "nofile", "value": 9}],
            [{"name": "memlock", "value": -1}, {"name": "nofile", "value": 9}],
            ['resources.ulimits.memlock: (unset) → "unlimited"'],
        ),
        (
            "logging",
            {"options": [["max-file", "3"], ["max-size", "1m"]]},
            {"driver": "local", "options": [["max-file", "3"], ["max-size", "2m"]]},
            ['logging.driver: (unset) → "local"', 'logging.options.max-size: "1m" → "2m"'],
        ),
        (
            "health",
            {"command": ["true"], "start_period": 1.0},
            {"command": ["false"], "start_period": 2.0},
            ['health.exec[0]: "true" → "false"', "health.startPeriod: 1.0 → 2.0"],
        ),
        (
            "configs",
            [{"container": "/a", "sha256": "x", "mode": 0o444}],
            [{"container": "/a", "sha256": "y", "mode": 0o400}],
            ["configs[0].content: changed", 'configs[0].mode: "0444" → "0400"'],
        ),
        (
            "configs",
            [],
            [{"container": "/a", "sha256": "98752ee"}],
            ['configs[0]: (unset) → {"container": "/a"}'],
        ),
        ("configs", None, [{"container": "/a", "sha256": "98752ee"}], ['configs: (unset) → [{"container": "/a"}]']),
        (
            "volumes",
            [{"container": "/a", "host": "/b", "read_only": True}],
            [{"container": "/a", "host": "/b"}],
            ["volumes[0].readOnly: true → (unset)"],
        ),
        ("secrets", "hmac-1", "hmac-2", ["secrets: (sensitive) → (sensitive)"]),
        ("x", [1], {"a": 1}, ['x: [1] → {"a": 1}']),
    ],
)
def test_a_change_is_shown_down_to_the_value(field: str, old: Any, new: Any, lines: list[str]) -> None:
    """Nested fields by their path, lists by index, a secret never by name or value."""
    assert [change_text(change) for change in expand([Change(field, old, new)])] == lines


def test_what_is_shown_names_no_secret() -> None:
    """Neither the secret's name nor its key is in the document."""
    shown = mask({"env": {"T": REF, "A": "1"}, "files": [REF]})
    assert shown == {"env": {"T": "(sensitive)", "A": "1"}, "files": ["(sensitive)"]}


def test_the_order_of_changes_does_not_depend_on_the_order_of_keys() -> None:
    """Sorted by path, list indexes as numbers."""
    old = {f"K{at}": "x" for at in range(12)}
    new = dict(reversed([(key, "y") for key in old]))
    assert [one.field for one in expand([Change("env", old, new)])] == sorted(f"env.{key}" for key in old)
    long = [str(at) for at in range(12)]
    fields = [one.field for one in expand([Change("args", long, [f"{one}!" for one in long])])]
    assert fields == [f"args[{at}]" for at in range(12)]
