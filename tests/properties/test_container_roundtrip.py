"""For every field of every kind: what was created, and is shown by inspect, needs nothing."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.actual.containers import create_body, decode
from reconciler.actual.labels import decode_allocation, encode_allocation
from reconciler.model.host import HostSpec
from reconciler.model.limits import limits_for, update_fields
from reconciler.model.resources import AllGpus, GpuRequest, GpuShare, MigSlices, ObserveGpus, Request, WholeGpus
from reconciler.model.workload import (
    Allocation,
    ConfigFile,
    ContainerSpec,
    Device,
    HealthCheck,
    InstanceId,
    Kind,
    Logging,
    Port,
    SecretFile,
    SecretRef,
    Share,
    Slice,
    Tmpfs,
    Ulimit,
    Volume,
    Workload,
    digest_of,
    spec_on_host,
)
from tests.fakes.engine import inspect_document
from tests.fakes.workloads import facts

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)
PATHS = NAMES.map(lambda name: f"/{name}")
REFS = st.builds(SecretRef, NAMES, NAMES)
CPUS = st.frozensets(st.integers(0, 300), max_size=12).map(lambda found: tuple(sorted(found)))
UUIDS = st.uuids().map(lambda found: f"GPU-{found}")


def tuples(of: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    """Short tuples."""
    return st.lists(of, max_size=most).map(tuple)


GPU_REQUESTS: st.SearchStrategy[GpuRequest | None] = st.one_of(
    st.none(),
    st.builds(WholeGpus, st.integers(1, 8)),
    st.builds(MigSlices, NAMES),
    st.builds(GpuShare, st.integers(1, 999)),
    st.just(ObserveGpus()),
    st.just(AllGpus()),
)
CONTAINERS = st.builds(
    ContainerSpec,
    image=TEXT,
    command=st.none() | tuples(TEXT),
    args=st.none() | tuples(TEXT),
    working_dir=st.just("") | PATHS,
    user=st.sampled_from(["", "1000", "a:b"]),
    group_add=tuples(NAMES),
    env=st.dictionaries(NAMES, TEXT | REFS, max_size=3).map(lambda env: tuple(sorted(env.items()))),
    init=st.booleans(),
    gpus=GPU_REQUESTS,
    shm=st.none() | st.integers(1, 2**40),
    ulimits=tuples(st.builds(Ulimit, NAMES, st.integers(-1, 2**20))),
    network=st.sampled_from(["bridge", "host", "none", "lab-net"]),
    aliases=tuples(NAMES),
    ports=tuples(
        st.builds(
            Port,
            st.integers(1, 65535),
            NAMES,
            st.none() | st.integers(1, 65535),
            st.sampled_from(["", "10.0.0.1"]),
            st.sampled_from(["tcp", "udp"]),
        )
    ),
    volumes=tuples(
        st.builds(Volume, PATHS, host=PATHS, read_only=st.booleans()) | st.builds(Volume, PATHS, volume=NAMES)
    ),
    configs=tuples(st.builds(ConfigFile, PATHS, NAMES)),
    secret_files=tuples(st.builds(SecretFile, PATHS, REFS)),
    tmpfs=tuples(st.builds(Tmpfs, PATHS, st.integers(0, 2**30))),
    devices=tuples(st.builds(Device, PATHS, PATHS)),
    ipc=st.sampled_from(["", "host", "private"]),
    pid=st.sampled_from(["", "host"]),
    cap_add=tuples(NAMES),
    cap_drop=tuples(NAMES),
    security_opt=tuples(NAMES),
    privileged=st.booleans(),
    runtime=st.sampled_from(["", "runc"]),
    hostname=st.just("") | NAMES,
    dns=tuples(NAMES),
    extra_hosts=tuples(NAMES),
    logging=st.builds(Logging, NAMES, tuples(st.tuples(NAMES, TEXT))),
    health=st.none() | st.builds(HealthCheck, tuples(TEXT), st.floats(0.001, 1e4), st.floats(0.001, 1e4)),
    stop_signal=st.sampled_from(["", "SIGINT"]),
    rdma=st.booleans(),
)
KINDS = st.sampled_from(
    [
        InstanceId(Kind.APP, "web", "3"),
        InstanceId(Kind.TASK, "train", "0", "4e1d", 1),
        InstanceId(Kind.LOCAL_SERVICE, "exporter", "gpu-01"),
    ]
)
REQUESTS = st.builds(
    Request,
    st.integers(1, 64).map(lambda cores: cores * 1000),
    st.booleans(),
    st.integers(6 * 1024**2, 2**45),
)
HOSTS = st.builds(
    HostSpec, NAMES, st.just("sim://"), env=st.dictionaries(NAMES, TEXT, max_size=2).map(lambda env: tuple(env.items()))
)


@st.composite
def given_to(draw: st.DrawFn, workload: Workload) -> Allocation:
    """An allocation as a planner could make it for ``workload``."""
    gpus = workload.container.gpus
    uuids = st.lists(UUIDS, min_size=1, max_size=4, unique=True).map(lambda found: tuple(sorted(found)))
    return Allocation(
        gpus=draw(uuids) if isinstance(gpus, WholeGpus) else (),
        mig=tuple(Slice(uuid, "1g.10gb", 0, uuid.replace("GPU", "MIG")) for uuid in draw(uuids))
        if isinstance(gpus, MigSlices)
        else (),
        share=Share(draw(UUIDS), gpus.milli, draw(st.integers(0, 2**40))) if isinstance(gpus, GpuShare) else None,
        gpu_nodes=draw(CPUS),
        cpu_nodes=draw(CPUS),
        memory_nodes=draw(CPUS),
        cpus=draw(CPUS),
        exclusive=workload.request.exclusive,
        memory=workload.request.memory,
        millicpus=0 if workload.request.exclusive else workload.request.millicpus,
        ports=tuple(
            (port.container, port.protocol, port.host or 30000 + number)
            for number, port in enumerate(workload.container.ports)
        ),
    )


@st.composite
def created(draw: st.DrawFn) -> tuple[Workload, InstanceId, Allocation, HostSpec]:
    """Anything that could be created."""
    instance = draw(KINDS)
    workload = Workload(
        instance.kind,
        instance.name,
        draw(CONTAINERS),
        draw(REQUESTS),
        pids=draw(st.none() | st.integers(1, 10_000)),
        restart=draw(st.sampled_from(["always", "no", "on-failure"])),
        run=instance.run,
        owner=draw(st.just("") | TEXT),
        labels=tuple(draw(st.dictionaries(NAMES, TEXT, max_size=2)).items()),
        grace_period=draw(st.floats(0, 1e4)),
    )
    return workload, instance, draw(given_to(workload)), draw(HOSTS)


@settings(max_examples=60, deadline=None)
@given(created())
def test_created_then_inspected_needs_nothing(made: tuple[Workload, InstanceId, Allocation, HostSpec]) -> None:
    """Same digest, same allocation, no update: for every field, a second plan has nothing to do."""
    workload, instance, allocation, host = made
    spec = spec_on_host(workload.container, host.env)
    secrets = {value: "s3cret" for _, value in workload.container.env if isinstance(value, SecretRef)}
    body = create_body(
        workload,
        instance,
        allocation,
        host,
        cluster="lab",
        generation=4,
        digest=digest_of(spec),
        spec=spec,
        commit="3f2a",
        replaces=3,
        secrets=secrets,
    )
    document = json.loads(json.dumps(inspect_document("c", body, "id", "2026-01-01T00:00:00Z")))
    container = decode(document, "lab", facts=facts())
    ours = container.ours
    assert ours is not None, container.note
    assert (ours.instance, ours.generation, ours.replaces, ours.commit) == (instance, 4, 3, "3f2a")
    assert (ours.allocation, ours.owner) == (allocation, workload.owner)
    assert ours.digest == digest_of(ours.spec) == digest_of(spec)
    assert update_fields(limits_for(workload, allocation), container.limits) == ()
    assert (container.holding.gpus, container.holding.mig, container.holding.shares) == (
        frozenset(allocation.gpus),
        frozenset(piece.uuid for piece in allocation.mig),
        ((allocation.share.gpu, allocation.share.milli),) if allocation.share else (),
    )
    assert container.holding.observes is isinstance(workload.container.gpus, ObserveGpus)
    published = workload.container.network not in {"host", "none"}
    assert {port for _, port, _ in container.holding.ports} == (
        {host for _, _, host in allocation.ports} if published else set()
    )


@settings(max_examples=40, deadline=None)
@given(created(), st.data())
def test_any_update_is_taken(made: tuple[Workload, InstanceId, Allocation, HostSpec], data: st.DataObject) -> None:
    """What the update call is told turns the limits of one workload into those of another, and then nothing is left."""
    workload, _, allocation, _ = made
    other = replace(workload, request=replace(data.draw(REQUESTS), exclusive=workload.request.exclusive), pids=None)
    cpus = data.draw(CPUS.filter(bool))
    want = limits_for(other, replace(allocation, cpus=cpus))
    body = create_body(
        workload, InstanceId(workload.kind, "x", "0", "r"), allocation, HostSpec("h", "sim://"),
        cluster="lab", generation=1, digest="v1:0", spec={},
        secrets={value: "x" for _, value in workload.container.env if isinstance(value, SecretRef)},
    )  # fmt: skip
    document = inspect_document("c", body, "id", "2026-01-01T00:00:00Z")
    have = decode(document, "lab").limits
    document["HostConfig"].update(dict(update_fields(want, have)))
    assert update_fields(want, decode(document, "lab").limits) == ()


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
    )
)
def test_no_label_raises(value: object) -> None:
    """Whatever stands in a label, a container is decoded."""
    body = {"Image": "x", "Labels": {f"io.reconciler.{key}": json.dumps(value) for key in LABELS}}
    document = inspect_document("c", body, "id", "2026-01-01T00:00:00Z")
    for cluster in ("lab", json.dumps(value)):
        assert decode(document, cluster).id == "id"


LABELS = ("cluster", "kind", "name", "index", "generation", "digest", "spec", "allocation", "replaces", "member")


@settings(max_examples=40, deadline=None)
@given(created())
def test_one_spelling(made: tuple[Workload, InstanceId, Allocation, HostSpec]) -> None:
    """An allocation has one spelling, which reads back."""
    text = encode_allocation(made[2])
    assert encode_allocation(decode_allocation(text)) == text
