"""What anybody holds, whatever way they took it."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.actual.containers import decode
from reconciler.actual.holdings import Holder, holders, holding_of, pci_key, published_ports
from reconciler.model.busy import busy_reason
from reconciler.model.host import Gpu, GpuProcess, HostFacts
from reconciler.model.resources import ObserveGpus, WholeGpus
from reconciler.model.snapshot import Container, HostView, Reach
from reconciler.model.workload import Allocation
from tests.fakes.engine import inspect_document
from tests.fakes.workloads import GPUS, HOST, SLICES, app, body_of, facts

A, B, C, D = GPUS
E, F = SLICES
MIB = 1024**2
ANY = "0.0.0.0"  # noqa: S104 - what the Engine shows; nothing is bound here


def foreign(
    name: str = "theirs",
    env: str | None = None,
    runtime: str = "runc",
    state: str = "running",
    facts_: HostFacts | None = None,
    ignore: tuple[str, ...] = (),
    **host_config: Any,
) -> Container:
    """A container that somebody started by hand."""
    body = {
        "Image": "cuda",
        "Env": [] if env is None else [f"NVIDIA_VISIBLE_DEVICES={env}"],
        "HostConfig": {"Runtime": runtime, **host_config},
    }
    document = inspect_document(name, body, f"id-{name}", "2026-01-01T00:00:00Z")
    document["State"].update({"Status": state, "StartedAt": "2026-01-01T00:01:00Z"})
    return decode(document, "lab", ignore, facts_ or facts())


def request(**fields: Any) -> dict[str, Any]:
    """One device request as ``docker run --gpus`` makes it."""
    return {"DeviceRequests": [{"Driver": "", "Capabilities": [["gpu"]], **fields}]}


ALL: tuple[set[str], set[str], bool] = (set(), set(), True)
NOTHING: tuple[set[str], set[str], bool] = (set(), set(), False)

REQUESTS: list[tuple[dict[str, Any], tuple[set[str], set[str], bool]]] = [
    (request(DeviceIDs=[A, B]), ({A, B}, set(), False)),
    (request(DeviceIDs=[A.lower()]), ({A}, set(), False)),
    (request(DeviceIDs=["GPU-aaaa"]), ({A}, set(), False)),
    (request(DeviceIDs=["1"]), ({B}, set(), False)),
    (request(DeviceIDs=["9"]), NOTHING),
    (request(DeviceIDs=["0000:0b:00.0"]), ({B}, set(), False)),
    (request(DeviceIDs=["00000000:0B:00.0"]), ({B}, set(), False)),
    (request(DeviceIDs=["all"]), ALL),
    (request(Count=-1), ALL),
    (request(Count=2), ({A, B}, set(), False)),
    (request(Count=0), NOTHING),
    (request(DeviceIDs=[E]), (set(), {E}, False)),
    (request(DeviceIDs=["3:1"]), (set(), {F}, False)),
    (request(DeviceIDs=["3:7"]), (set(), {E, F}, False)),
    (request(DeviceIDs=[f"MIG-{D}/3/0"]), (set(), {E, F}, False)),
    (request(DeviceIDs=[f"MIG-{A}/3/0"]), ({A}, set(), False)),
    (request(DeviceIDs=[D]), ({D}, {E, F}, False)),
    (request(DeviceIDs=["GPU-of-another-host"]), ({"GPU-of-another-host"}, set(), False)),
    (request(DeviceIDs=["something"]), ALL),
    ({"DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": [A], "Capabilities": None}]}, ({A}, set(), False)),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={A}"]}]}, ({A}, set(), False)),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=2"]}]}, ({C}, set(), False)),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=gpu2"]}]}, ({C}, set(), False)),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=mig3:0"]}]}, (set(), {E}, False)),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]}, ALL),
    ({"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["amd.com/gpu=all"]}]}, NOTHING),
    ({"DeviceRequests": [{"Driver": "", "Capabilities": [["tpu"]], "Count": -1}]}, NOTHING),
    ({"DeviceRequests": None}, NOTHING),
    ({"Privileged": True}, ALL),
    ({"Devices": [{"PathOnHost": "/dev/nvidia2"}, {"PathOnHost": "/dev/nvidiactl"}]}, ({C}, set(), False)),
    ({"Devices": [{"PathOnHost": "/dev/nvidia-uvm"}, {"PathOnHost": "/dev/fuse"}]}, NOTHING),
    ({"Devices": [{"PathOnHost": "/dev/"}]}, ALL),
]


@pytest.mark.parametrize(("host_config", "wanted"), REQUESTS, ids=[str(case[0]) for case in REQUESTS])
def test_device_requests(host_config: dict[str, Any], wanted: tuple[set[str], set[str], bool]) -> None:
    """Every way of asking the Engine for cards names the cards it gives."""
    holding = foreign(**host_config).holding
    assert (set(holding.gpus), set(holding.mig), holding.all_gpus) == wanted


@pytest.mark.parametrize(
    ("value", "runtime", "wanted"),
    [
        (A, "nvidia", ({A}, set(), False)),
        (f"{A},{C}", "nvidia", ({A, C}, set(), False)),
        ("0, 2", "nvidia", ({A, C}, set(), False)),
        ("all", "nvidia", ALL),
        ("3:0", "nvidia", (set(), {E}, False)),
        ("nvidia.com/gpu=1", "nvidia", ({B}, set(), False)),
        ("all", "nvidia-legacy", ALL),
        ("void", "nvidia", NOTHING),
        ("none", "nvidia", NOTHING),
        ("", "nvidia", NOTHING),
        (None, "nvidia", NOTHING),
        ("all", "runc", NOTHING),
    ],
)
def test_legacy_environment(value: str | None, runtime: str, wanted: tuple[set[str], set[str], bool]) -> None:
    """The variable gives cards under the NVIDIA runtime, and only there."""
    holding = foreign(env=value, runtime=runtime).holding
    assert (set(holding.gpus), set(holding.mig), holding.all_gpus) == wanted


def test_a_device_request_overrides_the_variable() -> None:
    """The NVIDIA hook replaces the variable where a device request was made; CUDA images set it to ``all``."""
    holding = foreign(env="all", runtime="nvidia", **request(DeviceIDs=[A])).holding
    assert (set(holding.gpus), holding.all_gpus) == ({A}, False)


@pytest.mark.parametrize(("default", "held"), [("nvidia", True), ("runc", False)])
def test_default_runtime(default: str, *, held: bool) -> None:
    """A container that names no runtime has the Engine's default one."""
    body = {"Image": "cuda", "Env": ["NVIDIA_VISIBLE_DEVICES=all"], "HostConfig": {"Runtime": ""}}
    document = inspect_document("x", body, "id", "2026-01-01T00:00:00Z")
    assert decode(document, "lab", facts=facts(), default_runtime=default).holding.all_gpus is held


def test_an_unknown_index_may_be_any_card() -> None:
    """Where facts tell no indexes, a card taken by index could be each of them."""
    assert foreign(facts_=facts(indexes=False), **request(DeviceIDs=["0"])).holding.all_gpus


def test_without_facts_ids_stand_as_they_are() -> None:
    """Nothing can be resolved, and nothing is placed there anyway."""
    body = {"Image": "cuda", "HostConfig": request(DeviceIDs=[A, "1"])}
    document = inspect_document("x", body, "id", "2026-01-01T00:00:00Z")
    assert decode(document, "lab").holding.gpus == {A, "1"}


@pytest.mark.parametrize(
    ("way", "how"),
    [
        (request(DeviceIDs=[A]), "device request"),
        ({"Privileged": True, **request(DeviceIDs=[A])}, "device request, privileged"),
        ({"Devices": [{"PathOnHost": "/dev/nvidia2"}]}, "/dev/nvidia2"),
    ],
)
def test_how_it_took_them(way: dict[str, Any], how: str) -> None:
    """People are told how somebody came to hold a card."""
    assert foreign(**way).holding.how == how


def test_ours_hold_what_they_were_given() -> None:
    """What a security profile let work of ours see beside its cards is no hold: only device requests count."""
    workload = app(gpus=WholeGpus(1), privileged=True)
    document = inspect_document("c", body_of(workload, Allocation(gpus=(B,))), "id", "2026-01-01T00:00:00Z")
    holding = decode(document, "lab", facts=facts()).holding
    assert (set(holding.gpus), holding.all_gpus) == ({B}, False)


def test_our_exporter_holds_no_card() -> None:
    """``{observe: all}`` sees every card and keeps none."""
    document = inspect_document("c", body_of(app(gpus=ObserveGpus())), "id", "2026-01-01T00:00:00Z")
    holding = decode(document, "lab", facts=facts()).holding
    assert (holding.all_gpus, holding.gpus, holding.observes) == (False, frozenset(), True)


@pytest.mark.parametrize(("glob", "observes"), [("dcgm-*", True), ("*exporter", True), ("dcgm", False)])
def test_ignored_containers(glob: str, *, observes: bool) -> None:
    """``Host.ignoreContainers`` names observers by glob; a port that they publish is taken all the same."""
    ports = {"9400/tcp": [{"HostIp": "", "HostPort": "9400"}]}
    one = foreign("dcgm-exporter", ignore=(glob,), Privileged=True, CpusetCpus="0-3", Memory=5, PortBindings=ports)
    assert one.holding.observes is observes
    assert (one.holding.all_gpus, bool(one.holding.cpus), one.holding.memory) == (
        (False, False, 0) if observes else (True, True, 5)
    )
    assert one.holding.ports == (("", 9400, "tcp"),)


@pytest.mark.parametrize(
    ("host_config", "chosen", "wanted"),
    [
        ({"PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}}, {}, (("", 8080, "tcp"),)),
        ({"PortBindings": {"80/tcp": [{"HostIp": ANY, "HostPort": "80"}]}}, {}, (("", 80, "tcp"),)),
        ({"PortBindings": {"53/udp": [{"HostIp": "10.0.0.1", "HostPort": "53"}]}}, {}, (("10.0.0.1", 53, "udp"),)),
        (
            {"PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": ""}]}},
            {"80/tcp": [{"HostIp": ANY, "HostPort": "49153"}, {"HostIp": "::", "HostPort": "49153"}]},
            (("", 49153, "tcp"),),
        ),
        ({"PortBindings": {"80/tcp": None}}, {}, ()),
        ({"PortBindings": {"80/tcp": [{"HostPort": "1"}, {"HostPort": "2"}]}}, {}, (("", 1, "tcp"), ("", 2, "tcp"))),
        ({"NetworkMode": "host", "PortBindings": {"80/tcp": [{"HostPort": "80"}]}}, {}, ()),
        ({"NetworkMode": "container:abc", "PortBindings": {"80/tcp": [{"HostPort": "80"}]}}, {}, ()),
        ({}, {}, ()),
    ],
)
def test_ports(host_config: dict[str, Any], chosen: dict[str, Any], wanted: tuple[Any, ...]) -> None:
    """Published ports come from ``HostConfig``, those that the Engine chose from ``NetworkSettings``."""
    assert published_ports({"HostConfig": host_config, "NetworkSettings": {"Ports": chosen}}) == wanted


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("00000000:0A:00.0", "0000:0a:00.0", True),
        ("0a:00.0", "0000:0a:00.0", True),
        ("00010000:0A:00.0", "0000:0a:00.0", False),
        ("zz:0a:00.0", "0000:0a:00.0", False),
    ],
)
def test_pci_addresses(one: str, other: str, *, same: bool) -> None:
    """NVML and sysfs write one address in two ways."""
    assert (pci_key(one) == pci_key(other)) is same


# -- per card, for people


def view(*containers: Container, used: int = 0, processes: tuple[GpuProcess, ...] = ()) -> HostView:
    """A host on which the first card shows ``used`` bytes and ``processes``."""
    found = facts()
    first = replace(found.gpus[0], memory_used=used, processes=processes)
    return HostView(HOST, Reach.KNOWN, replace(found, gpus=(first, *found.gpus[1:])), containers)


def ours(*gpus: str) -> Container:
    """A running container of ours with cards."""
    body = body_of(replace(app(gpus=WholeGpus(len(gpus))), owner="nlp"), Allocation(gpus=gpus))
    document = inspect_document("lab.app.web.0.g1", body, "id-ours", "2026-01-01T00:00:00Z")
    document["State"].update({"Status": "running", "StartedAt": "2026-01-01T00:01:00Z"})
    return decode(document, "lab", facts=facts())


def test_holders() -> None:
    """Every card says who holds it: ours, foreign containers, slices of it, and processes outside Docker."""
    process = GpuProcess(42, "python", "alice", 900 * MIB)
    theirs = foreign(**request(DeviceIDs=[B, E]))
    found = holders(view(ours(C), theirs, foreign("seen", ignore=("seen",), Privileged=True), processes=(process,)))
    assert found == {
        A: (Holder("process", "python", user="alice", pid=42, memory=900 * MIB, how="outside Docker"),),
        B: (Holder("container", "theirs", "2026-01-01T00:01:00Z", how="device request", state="running"),),
        C: (Holder("ours", "app/web/0", "2026-01-01T00:01:00Z", user="nlp", how="device request", state="running"),),
        D: (Holder("container", "theirs", "2026-01-01T00:01:00Z", how="device request", state="running", slices=(E,)),),
    }


def test_what_holds_nothing_is_no_holder() -> None:
    """An exited container that nothing revives is not named; one that can be revived is."""
    gone, back = foreign("gone", state="exited", **request(Count=-1)), foreign("b", **request(DeviceIDs=[A]))
    assert [one.name for one in holders(view(gone, back))[A]] == ["b"]


def test_a_process_of_a_holder_is_not_named_twice() -> None:
    """A process inside a container that holds the card is that container; inside another one it is named with it."""
    mine = GpuProcess(1, "python", "root", 900 * MIB, "id-ours")
    stray = GpuProcess(2, "python", "root", 900 * MIB, "id-theirs")
    found = holders(view(ours(A), foreign(), processes=(mine, stray)))[A]
    assert [(one.kind, one.name, one.how) for one in found] == [
        ("ours", "app/web/0", "device request"),
        ("process", "python", "in container theirs, which was given no card"),
    ]


@pytest.mark.parametrize(
    ("containers", "used", "processes", "reason"),
    [
        ((), 0, (), ""),
        ((), 512 * MIB, (), ""),
        ((), 513 * MIB, (), "513Mi in use by nobody known"),
        ((), 900 * MIB, (GpuProcess(42, "python", "alice", 800 * MIB),), "python of alice (pid 42)"),
        ((), 0, (GpuProcess(42, "python", "", 800 * MIB),), "python (pid 42)"),
        ((ours(A),), 900 * MIB, (), ""),
        ((ours(B),), 900 * MIB, (), "900Mi in use by nobody known"),
        ((foreign(Privileged=True),), 900 * MIB, (), ""),
        ((foreign("x", ignore=("x",), Privileged=True),), 900 * MIB, (), "900Mi in use by nobody known"),
        ((foreign(state="exited", **request(Count=-1)),), 900 * MIB, (), "900Mi in use by nobody known"),
    ],
)
def test_busy(containers: tuple[Container, ...], used: int, processes: tuple[GpuProcess, ...], reason: str) -> None:
    """A card is busy above 512 MiB that no counted container explains; drivers of idle cards use a little."""
    seen = view(*containers, used=used, processes=processes)
    assert seen.facts is not None
    assert busy_reason(seen.containers, seen.facts.gpus[0]) == reason


def test_a_whole_name_is_no_beginning_of_another() -> None:
    """A UUID that another one begins with means its own card only."""
    short, long = (Gpu(uuid, "A100", 80 * 1024**3) for uuid in ("GPU-a-2", "GPU-a-2-0"))
    host = HostFacts("h", (), (short, long))
    request = {"DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": ["GPU-a-2"], "Capabilities": [["gpu"]]}]}
    assert holding_of({"HostConfig": request}, host).gpus == {"GPU-a-2"}
