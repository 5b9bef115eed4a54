"""How values are written, and what is said of JSON that is no such value."""

import json
from typing import Any

import pytest

from reconciler.model.codec import CodecError, Saved, dump_snapshot, from_json, load_snapshot, to_json
from reconciler.model.desired import Cluster, Desired
from reconciler.model.host import HostSpec, HostState
from reconciler.model.memory import Failure, Memory
from reconciler.model.placement import AnyHost, Composite, MatchTag
from reconciler.model.plan import Action, ActionKind, Step, StepKind
from reconciler.model.resources import GpuShare, Request, WholeGpus
from reconciler.model.snapshot import Holding, Snapshot
from reconciler.model.workload import (
    Allocation,
    ConfigFile,
    ContainerSpec,
    InstanceId,
    Kind,
    SecretRef,
    Share,
    Slice,
    Workload,
)

APP = InstanceId.parse("app/web/0")


@pytest.mark.parametrize(
    ("value", "document"),
    [
        (APP, "app/web/0"),
        (HostState.DRAINED, "drained"),
        (HostSpec("gpu-01", "sim://", tags=("a100",)), {"name": "gpu-01", "engine": "sim://", "tags": ["a100"]}),
        (Holding(frozenset({"GPU-b", "GPU-a"})), {"gpus": ["GPU-a", "GPU-b"]}),
        (Holding(shares=(("GPU-a", 500),)), {"shares": [["GPU-a", 500]]}),
        (
            Allocation(mig=(Slice("GPU-b", "1g.10gb", 2),), share=Share("GPU-a", 500, 40)),
            {
                "mig": [{"gpu": "GPU-b", "profile": "1g.10gb", "start": 2}],
                "share": {"gpu": "GPU-a", "milli": 500, "memory": 40},
            },
        ),
        (Request(gpus=GpuShare(memory=10)), {"gpus": {"type": "GpuShare", "memory": 10}}),
        (
            Action(ActionKind.START, APP, "h", "why", (Step(StepKind.CUT, "h", "n", due=False),)),
            {
                "kind": "start",
                "instance": "app/web/0",
                "host": "h",
                "reason": "why",
                "steps": [{"kind": "cut", "host": "h", "name": "n", "due": False}],
            },
        ),
        (Memory(healthy={APP: "v1:aa"}), {"healthy": {"app/web/0": "v1:aa"}}),
        (
            Memory(failures={(APP, "v1:aa"): Failure(1, 2.0, 3.0, "no")}),
            {"failures": [[["app/web/0", "v1:aa"], {"count": 1, "at": 2.0, "retry_at": 3.0, "message": "no"}]]},
        ),
        (
            ConfigFile("/etc/a", "00ff", content=b"\x00\xff"),
            {"container": "/etc/a", "sha256": "00ff", "content": "AP8="},
        ),
        (
            Workload(
                Kind.APP,
                "web",
                ContainerSpec("web:1", env=(("A", "x"), ("B", SecretRef("s", "k")))),
                Request(gpus=WholeGpus(2)),
                policy=Composite("AND", (AnyHost(), MatchTag("a100"))),
            ),
            {
                "kind": "app",
                "name": "web",
                "container": {"image": "web:1", "env": [["A", "x"], ["B", {"secret": "s", "key": "k"}]]},
                "request": {"gpus": {"type": "WholeGpus", "count": 2}},
                "policy": {
                    "type": "Composite",
                    "combiner": "AND",
                    "policies": [{"type": "AnyHost"}, {"type": "MatchTag", "tag": "a100"}],
                },
            },
        ),
    ],
)
def test_the_written_form_is_short_and_readable(value: Any, document: Any) -> None:
    """Defaults are left out, identities are text, members of a union say which they are."""
    assert to_json(value) == document
    assert from_json(type(value), json.loads(json.dumps(document))) == value


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        (HostSpec, {"name": "a"}, "missing 1 required positional argument: 'engine'"),
        (HostSpec, {"name": 1, "engine": ""}, ".name: not a str: 1"),
        (HostSpec, {"name": "a", "engine": "", "tag": []}, ': a HostSpec has no "tag"'),
        (HostSpec, {"name": "a", "engine": "", "tags": ["x", 3]}, ".tags[1]: not a str: 3"),
        (HostSpec, {"name": "a", "engine": "", "tags": "x"}, '.tags: not a list: "x"'),
        (HostSpec, {"name": "a", "engine": "", "labels": [["x"]]}, '.labels[0]: not 2 values: ["x"]'),
        (HostSpec, {"name": "a", "engine": "", "state": "gone"}, ".state: 'gone' is not a valid HostState"),
        (HostSpec, {"name": "a", "engine": "", "reserved_memory": True}, ".reserved_memory: not a int: true"),
        (HostSpec, [], ": not a HostSpec: []"),
        (Memory, {"healthy": {"app/web": "d"}}, ".healthy[0][0]: not an instance: 'app/web'"),
        (Memory, {"last_seen": [3]}, ".last_seen[0]: not a list: 3"),
        (
            Request,
            {"gpus": {"count": 1}},
            ".gpus: type is none of AllGpus, GpuShare, MigSlices, ObserveGpus, WholeGpus: null",
        ),
        (Request, {"gpus": 3}, ".gpus: not a AllGpus or GpuShare or MigSlices or ObserveGpus or WholeGpus: 3"),
        (ConfigFile, {"container": "/a", "sha256": "", "content": "?"}, ".content: "),
    ],
)
def test_what_is_no_such_value_is_said_with_its_place(kind: type, document: Any, message: str) -> None:
    """One line: where, and what stands there."""
    with pytest.raises(CodecError) as raised:
        from_json(kind, document)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", 'not a snapshot: "format" is not'),
        ('{"format": "reconciler.snapshot/v2"}', "'reconciler.snapshot/v1'"),
        ('{"format": "reconciler.snapshot/v1", "now": "later"}', '.now: not a float: "later"'),
        ('{"format": "reconciler.snapshot/v1", "snapshot": {"hosts": [{}]}}', ".snapshot.hosts[0]"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_in_one_line(text: str, message: str) -> None:
    """Whatever is in the file."""
    with pytest.raises(CodecError) as raised:
        load_snapshot(text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_saved_snapshot_says_its_format() -> None:
    """One document that ends in a newline; what is empty is left out."""
    text = dump_snapshot(Saved(Snapshot(()), Memory(), 12.0, Desired(Cluster("lab"), (), (), "c0ffee")))
    assert json.loads(text) == {
        "format": "reconciler.snapshot/v1",
        "snapshot": {"hosts": []},
        "memory": {},
        "now": 12.0,
        "desired": {"cluster": {"name": "lab"}, "workloads": [], "hosts": [], "commit": "c0ffee"},
    }
    assert text.endswith("}\n")
