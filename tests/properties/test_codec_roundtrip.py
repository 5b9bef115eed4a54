"""Any value of the model comes back from its JSON as it was."""

import json
import string
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.model.codec import Saved, dump_snapshot, from_json, load_snapshot, to_json
from reconciler.model.desired import Desired
from reconciler.model.host import HostFacts, HostSpec
from reconciler.model.memory import Memory
from reconciler.model.placement import Composite
from reconciler.model.plan import Plan
from reconciler.model.snapshot import Container, Snapshot
from reconciler.model.workload import InstanceId, Kind, Workload

LABEL = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
TASKS = st.builds(InstanceId, st.just(Kind.TASK), LABEL, LABEL, LABEL, st.integers(0, 9))
OTHERS = st.builds(InstanceId, st.sampled_from([Kind.APP, Kind.LOCAL_SERVICE]), LABEL, LABEL)


def value_of(kind: Any) -> st.SearchStrategy[Any]:
    """A strategy for an annotation of the model; containers stay small, so that deep values are reached."""
    if kind is Any:
        return JSON
    if kind is InstanceId:
        return TASKS | OTHERS
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 99).map(float)
    if kind is str:
        return st.text(max_size=6)
    if isinstance(kind, type) and is_dataclass(kind):
        return st.deferred(lambda: dataclass_of(kind))
    if getattr(kind, "__args__", ()):
        return composed(getattr(kind, "__origin__", None), kind.__args__)
    return st.none() if kind is type(None) else st.from_type(kind)


def composed(origin: Any, arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """A strategy for a tuple, set, mapping or union."""
    if origin is tuple and arguments[1:] == (...,):
        return st.lists(value_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(value_of, arguments))
    if origin is frozenset:
        return st.frozensets(value_of(arguments[0]), max_size=2)
    if origin is not None and len(arguments) == 2:
        return st.dictionaries(value_of(arguments[0]), value_of(arguments[1]), max_size=2)
    return st.one_of(*map(value_of, arguments))


def dataclass_of(kind: type) -> st.SearchStrategy[Any]:
    """A value of a dataclass; some fields keep their defaults."""
    if kind is Composite:
        plain = [part for part in get_type_hints(Workload)["policy"].__args__ if part is not Composite]
        parts = st.lists(st.one_of(*map(dataclass_of, plain)), max_size=2).map(tuple)
        return st.builds(Composite, st.sampled_from(["AND", "OR"]), parts)
    hints = get_type_hints(kind)
    return st.builds(kind, **{item.name: value_of(hints[item.name]) for item in fields(kind)})


QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("kind", [Memory, HostSpec, HostFacts, Container, Workload], ids=lambda kind: kind.__name__)
@given(data=st.data())
@QUICK
def test_a_value_comes_back_from_its_json(kind: type, data: st.DataObject) -> None:
    """Through text, and through no Python but JSON's own types."""
    value = data.draw(dataclass_of(kind))
    text = json.dumps(to_json(value), allow_nan=False)
    again: Any = from_json(kind, json.loads(text))
    assert again == value
    assert json.dumps(to_json(again), allow_nan=False) == text


@pytest.mark.parametrize("kind", [Plan, Desired, Snapshot], ids=lambda kind: kind.__name__)
@given(data=st.data())
@settings(QUICK, max_examples=15)
def test_large_values_come_back_too(kind: type, data: st.DataObject) -> None:
    """Plans, what is desired, and snapshots."""
    value = data.draw(dataclass_of(kind))
    assert from_json(kind, json.loads(json.dumps(to_json(value), allow_nan=False))) == value


@given(value=dataclass_of(Saved))
@settings(QUICK, max_examples=15)
def test_a_saved_snapshot_is_replayed_as_it_was(value: Saved) -> None:
    """Snapshot, memory, time and cluster."""
    assert load_snapshot(dump_snapshot(value)) == value
