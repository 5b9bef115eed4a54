"""One suite for every implementation of the Protocols: updates in place; and both read alike."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from reconciler.engine.open import open_engine
from reconciler.errors import ConflictError, EngineError, RefusedError
from tests.fakes.door import Door
from tests.fakes.waiting import wait_for

MIB = 1024**2
GPU = {"Driver": "nvidia", "DeviceIDs": ["GPU-a", "GPU-b"], "Capabilities": [["gpu"]]}


# Updates in place


@pytest.mark.parametrize(
    "fields",
    [
        {"CpusetCpus": "8-9"},
        {"CpusetMems": "0"},
        {"Memory": 32 * MIB, "MemorySwap": 64 * MIB},
        {"Memory": 128 * MIB, "MemorySwap": 256 * MIB},
        {"NanoCpus": 10**9},
        {"CpuShares": 512},
        {"PidsLimit": 100},
        {"RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}},
    ],
)
@pytest.mark.parametrize("running", [True, False])
def test_an_update_changes_in_place(door: Door, fields: dict[str, Any], running: bool) -> None:
    """Of a running container and of one that is not; it is the same container afterwards."""
    make = door.run if running else door.create
    made = make(CpusetCpus="1-2", CpusetMems="1", Memory=64 * MIB, RestartPolicy={"Name": "no"})
    before = door.state(made)
    door.writer.update(made, fields)
    shown = door.host_config(made)
    assert {key: shown[key] for key in fields} == fields
    assert door.state(made) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"ShmSize": 2**20},
        {"Ulimits": [{"Name": "nofile", "Soft": 5, "Hard": 5}]},
        {"DeviceRequests": [GPU]},
        {"Devices": [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/nil", "CgroupPermissions": "rw"}]},
        {"Labels": {"x": "y"}},
        {"CpusetCpus": ""},
        {"Memory": 0},
    ],
)
def test_an_update_ignores_the_rest_without_a_word(door: Door, fields: dict[str, Any]) -> None:
    """What cannot change, and the clearing of a limit, is answered with 200 and not done."""
    made = door.run(CpusetCpus="1-2", Memory=64 * MIB)
    before = door.reader.inspect_container(made)
    door.writer.update(made, fields)
    assert door.reader.inspect_container(made) == before


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"CpusetCpus": "64"}, RefusedError, "Requested CPUs are not available - requested 64, available: 0-63"),
        ({"CpusetMems": "2"}, RefusedError, "Requested memory nodes are not available"),
        ({"NanoCpus": 65 * 10**9}, RefusedError, "Range of CPUs"),
        ({"Memory": 5 * MIB}, RefusedError, "Minimum memory limit"),
        ({"RestartPolicy": {"Name": "sometimes"}}, RefusedError, "invalid restart policy"),
        ({"Memory": 512 * MIB}, ConflictError, "update the memoryswap at the same time"),
    ],
)
def test_an_update_beyond_the_machine_is_refused_and_changes_nothing(
    door: Door, fields: dict[str, Any], kind: type[EngineError], words: str
) -> None:
    """More memory needs its swap in the same call."""
    made = door.run(CpusetCpus="1-2", Memory=64 * MIB)
    before = door.host_config(made)
    with pytest.raises(kind, match=words):
        door.writer.update(made, fields)
    assert door.host_config(made) == before


@pytest.mark.parametrize("limit", [-1, 0])
def test_no_limit_of_pids_shows_as_zero_after_an_update(door: Door, limit: int) -> None:
    """As null before, and as 0 afterwards: both mean unlimited."""
    made = door.run(PidsLimit=100)
    door.writer.update(made, {"PidsLimit": limit})
    assert door.host_config(made)["PidsLimit"] in {0, None}


# Shapes


def healthy(door: Door, container: str) -> bool:
    """Whether its health check is content."""
    return bool(door.state(container)["Health"]["Status"] == "healthy")


VOLATILE = {
    *("Id", "Created", "Image", "ImageID", "ResolvConfPath", "HostnamePath", "HostsPath", "LogPath", "GraphDriver"),
    *("NetworkSettings", "Source", "StartedAt", "FinishedAt", "Pid", "Hostname", "Env", "Status", "Log", "Command"),
}


def steady(value: Any) -> Any:
    """A document without what differs from run to run; mounts come in any order."""
    if isinstance(value, dict):
        ordered = value | {"Mounts": sorted(value.get("Mounts", ()), key=lambda mount: str(mount["Destination"]))}
        return {key: steady(part) for key, part in ordered.items() if key in value and key not in VOLATILE}
    return [steady(part) for part in value] if isinstance(value, list) else value


def differences(real: Any, simulated: Any, path: str = "") -> Iterator[str]:
    """Where two documents differ."""
    if isinstance(real, dict) and isinstance(simulated, dict):
        for key in sorted(real.keys() | simulated.keys()):
            yield from differences(real.get(key, "absent"), simulated.get(key, "absent"), f"{path}.{key}")
    elif isinstance(real, list | tuple) and isinstance(simulated, list | tuple) and len(real) == len(simulated):
        for index, pair in enumerate(zip(real, simulated, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif real != simulated:
        yield f"{path}: real {real!r}, simulated {simulated!r}"


@pytest.mark.parametrize("life", ["created", "running", "exited", "refused"])
def test_a_simulated_container_reads_like_a_real_one(
    life: str, engine: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Inspect and list entry are the same documents, key for key, but for ids, times and addresses."""
    body = {
        "Cmd": ["sleep", "1000"],
        "Labels": {"a": "b"},
        "Env": ["A=b"],
        "ExposedPorts": {"80/tcp": {}},
        "WorkingDir": "/srv/",
        "Healthcheck": {"Test": ["CMD", "true"], "Interval": 10**8},
        "HostConfig": {
            "Binds": ["/usr/share:/t:ro", "data:/data"],
            "CpusetCpus": "32-47",
            "Memory": 64 * MIB,
            "PortBindings": {"80/tcp": [{"HostPort": "18080"}]},
            "DeviceRequests": [GPU | ({"Driver": "other"} if life == "refused" else {})],
        },
    }
    shown = []
    for url in (engine, "sim://"):
        reader, writer = open_engine("host-1", url, tmp_path_factory.mktemp("state"))
        door = Door(url, reader, writer)
        if url == "sim://":
            writer.pull("bb:1", lambda _: None)
        made = door.create(body, name="lab.app.web.0.g1")
        if life == "refused":
            with pytest.raises(RefusedError):
                writer.start(made)
        elif life != "created":
            writer.start(made)
            wait_for(partial(healthy, door, made), "the container to be healthy")
        if life == "exited":
            writer.stop(made, 0)
        entries = reader.list_containers()
        if life == "refused":  # Engine 20.10 goes on listing ports that it gave back
            entries = [{**entry, "Ports": []} for entry in entries]
        shown.append((steady(reader.inspect_container(made)), steady(entries)))
        reader.close()
        writer.close()
    real, simulated = shown
    assert list(differences(real, simulated)) == []
