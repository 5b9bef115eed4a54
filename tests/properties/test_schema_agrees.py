"""The JSON Schema and the validation are of one mind about the form of a document."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonschema
import pytest

from reconciler.desired.complaints import Places
from reconciler.desired.documents import parse
from reconciler.desired.scalars import bare
from reconciler.desired.schema import json_schema, validate
from tests.fakes.mutations import GOOD, VALUES, places

VALIDATOR = jsonschema.Draft202012Validator(json_schema())
# A number far outside of what people write loses its text in JSON; and Python's $ matches before a last line break.
ODD = (1e300, "\n")
MORE = (64, 1.5, 443, "10s", "64Gi", "64", "1.5", "5", {"type": "ANY"}, {"secret": "a", "key": "b"}, {"a": 1})
TRIED = [*(value for value in VALUES if value not in ODD), *MORE]
STEP = 9  # one in so many is tried; a prime to the number of values, so that every value and every place is met


def whole(text: str) -> Any:
    """The documents of a file as JSON has them."""
    return [bare(document.value) for document in parse(text.encode(), "a.yaml")[0]]


def edits(text: str) -> Iterator[tuple[Any, Any]]:
    """Documents with one value replaced, and what was replaced."""
    number = 0
    for document in whole(text):
        for index, (_, key) in enumerate(list(places(document))):
            for value in TRIED:
                number += 1
                if number % STEP or key in {"kind", "apiVersion"} or (key == "mode" and not isinstance(value, str)):
                    continue  # a mode is octal as written: JSON cannot tell 0064 from 64
                edited = deepcopy(document)
                container, at = list(places(edited))[index]
                container[at] = value
                yield edited, (at, value)


def judged(document: Any) -> tuple[bool, bool]:
    """What the schema and what the validation say of it."""
    (made,), problems = parse(json.dumps(document).encode(), "a.json")
    assert problems == ()
    ours = not validate(str(made.value["kind"]), made.value, Places(made))[1]
    return VALIDATOR.is_valid(bare(made.value)), ours


@pytest.mark.parametrize("text", GOOD)
def test_the_schema_accepts_what_the_validation_accepts(text: str) -> None:
    """And nothing else, for every place and every sort of value."""
    verdicts = [(judged(document), what) for document, what in edits(text)]
    assert [(verdict, what) for verdict, what in verdicts if verdict[0] != verdict[1]] == []
    accepted = sum(ours for (_, ours), _ in verdicts)
    assert 0 < accepted < len(verdicts)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("App", "env", {"A": 1, "B": True, "C": 1.5}),
        ("App", "user", 1000),
        ("App", "command", ["sleep", 100]),
        ("App", "args", [True, -1.5]),
        ("App", "labels", {"generation": 2}),
        ("App", "groupAdd", [44]),
        ("App", "logging", {"options": {"max-file": 3}}),
        ("App", "owner", True),
        ("App", "restart", None),
        ("App", "name", 12),
        ("App", "name", -12),
        ("App", "workingDir", 5),
        ("App", "env", {"A=B": "c"}),
        ("App", "instances", None),
        ("App", "volumes", [{"container": "/a"}]),
        ("App", "volumes", [{"host": "/a", "volume": "b", "container": "/a"}]),
        ("App", "volumes", [{"volume": "b", "container": "/a", "propagation": "shared"}]),
        ("App", "readiness", {"interval": "5s"}),
        ("App", "readiness", {"exec": ["a"], "tcp": {"port": 1}}),
        ("App", "readiness", {"exec": ["a"], "tcp": None}),
        ("App", "readiness", {"exec": ["a"], "interval": ""}),
        ("App", "resources", {"memory": 64}),
        ("App", "resources", {"memory": "64"}),
        ("App", "resources", {"shm": 0}),
        ("App", "placementPolicy", "ONE_PER_HOST"),
        ("App", "placementPolicy", {"type": "ONE_PER_HOST", "max": 1}),
        ("Task", "run", 20240101),
        ("Task", "instances", 1),
        ("Host", "tags", [1]),
        ("Host", "reserved", {"cpus": 0}),
        ("Host", "reserved", {"cpus": -1}),
        ("Cluster", "prune", {"maxFraction": 2}),
    ],
)
def test_fields_that_are_read_as_written(kind: str, field: str, value: Any) -> None:
    """A number where a string is wanted is its text, to an editor too."""
    base = next(one for text in GOOD for one in whole(text) if one["kind"] == kind)
    schema, ours = judged(base | {field: value})
    assert schema == ours
