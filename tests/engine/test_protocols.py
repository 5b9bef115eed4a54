"""One suite for every implementation of the Protocols: names, what is missing, what is refused, what comes back.

The simulated Engine is held to the real one. ``test_protocols_life`` and ``test_protocols_update`` go on.
"""

import hashlib
import io
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reconciler.engine.simulation import Simulation
from reconciler.errors import ConflictError, EngineError, NotFoundError, RefusedError
from tests.fakes.door import Door
from tests.fakes.waiting import wait_for

MIB = 1024**2
GPU = {"Driver": "nvidia", "DeviceIDs": ["GPU-a", "GPU-b"], "Capabilities": [["gpu"]]}


# Names


def test_a_name_exists_once_and_the_refusal_names_the_holder(door: Door) -> None:
    """The name is the lock: a second creator gets 409 with the id of the first."""
    holder = door.create(name="lab.app.web.0.g1")
    with pytest.raises(ConflictError, match=holder) as caught:
        door.create(name="lab.app.web.0.g1")
    assert caught.value.status == 409
    assert '"/lab.app.web.0.g1" is already in use' in caught.value.message


def test_of_eight_creators_of_one_name_exactly_one_wins(door: Door) -> None:
    """However many create at once, one container exists."""

    def attempt(_: int) -> str:
        try:
            return door.create(name="lab.app.web.0.g1")
        except ConflictError:
            return ""

    with ThreadPoolExecutor(8) as pool:
        made = list(filter(None, pool.map(attempt, range(8))))
    assert made == [entry["Id"] for entry in door.reader.list_containers()]


@pytest.mark.parametrize("name", ["a", "a b", "x/y", ".hidden", "-x"])
def test_what_is_no_name_is_refused(door: Door, name: str) -> None:
    """Names have two characters or more, of a fixed alphabet."""
    with pytest.raises(RefusedError, match="Invalid container name") as caught:
        door.create(name=name)
    assert caught.value.status == 400


def test_a_container_goes_by_id_by_name_and_by_the_beginning_of_its_id(door: Door) -> None:
    """Everything that names a container finds the same one."""
    made = door.create(name="lab.app.web.0.g1")
    for spelling in (made, made[:12], "lab.app.web.0.g1", "/lab.app.web.0.g1"):
        assert door.reader.inspect_container(spelling)["Id"] == made


def test_rename_gives_another_name_and_frees_the_old_one(door: Door) -> None:
    """After a rename the old name can be taken."""
    made = door.create(name="lab.app.web.0.g1")
    door.writer.rename(made, "lab.app.web.0.g2")
    assert door.reader.inspect_container(made)["Name"] == "/lab.app.web.0.g2"
    door.create(name="lab.app.web.0.g1")


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [("other", ConflictError, "already in use"), ("same", RefusedError, "same name"), ("a b", RefusedError, "Invalid")],
)
def test_rename_refuses_what_is_taken_or_no_name(door: Door, name: str, kind: type[EngineError], words: str) -> None:
    """A name in use is a conflict; the container's own name and a bad one are refused."""
    door.create(name="other")
    made = door.create(name="same")
    with pytest.raises(kind, match=words):
        door.writer.rename(made, name)


# What is not there


def test_an_unknown_image_is_not_found_when_a_container_is_made(door: Door) -> None:
    """Create never pulls: an image that the host lacks is a 404."""
    with pytest.raises(NotFoundError, match=r"No such image: no/such:1") as caught:
        door.create({"Image": "no/such:1"})
    assert caught.value.status == 404


def test_inspecting_an_image_says_whether_the_host_has_it(door: Door) -> None:
    """The image of the test is there, another one is not; ``latest`` is meant when no tag is given."""
    assert door.reader.inspect_image("bb:1")["RepoTags"] == ["bb:1"]
    with pytest.raises(NotFoundError, match=r"No such image: no/such:latest"):
        door.reader.inspect_image("no/such")


def test_an_image_that_no_registry_has_cannot_be_pulled(door: Door) -> None:
    """A pull that fails raises, and the image is still not there."""
    with pytest.raises(EngineError):
        door.writer.pull("127.0.0.1:1/missing:1", lambda _: None)
    with pytest.raises(NotFoundError):
        door.reader.inspect_image("127.0.0.1:1/missing:1")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda door: door.reader.inspect_container("gone"), id="inspect"),
        pytest.param(lambda door: door.reader.logs("gone", 1), id="logs"),
        pytest.param(lambda door: door.writer.start("gone"), id="start"),
        pytest.param(lambda door: door.writer.update("gone", {"CpuShares": 2}), id="update"),
        pytest.param(lambda door: door.writer.rename("gone", "other"), id="rename"),
        pytest.param(lambda door: door.writer.put_archive("gone", "/", archive("x", b"")), id="put_archive"),
    ],
)
def test_calls_on_a_container_that_is_gone_are_not_found(door: Door, call: Callable[[Door], object]) -> None:
    """Everything that needs the container answers 404."""
    with pytest.raises(NotFoundError, match="No such container: gone"):
        call(door)


def test_stopping_and_removing_what_is_gone_is_done(door: Door) -> None:
    """Both say nothing: what they were to bring about holds."""
    door.writer.stop("gone", 1)
    door.writer.remove("gone")
    door.writer.remove("gone", force=True)


# What is refused when a container is made


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"CpusetCpus": "64"}, "Requested CPUs are not available - requested 64, available: 0-63"),
        ({"CpusetCpus": "3-x"}, "Invalid value 3-x for cpuset cpus"),
        ({"CpusetMems": "2"}, "Requested memory nodes are not available - requested 2, available: 0-1"),
        ({"NanoCpus": 65 * 10**9}, "Range of CPUs is from 0.01 to "),
        ({"Memory": 5 * MIB}, "Minimum memory limit allowed is 6MB"),
        ({"RestartPolicy": {"Name": "sometimes"}}, "invalid restart policy 'sometimes'"),
        ({"RestartPolicy": {"Name": "always", "MaximumRetryCount": 3}}, "maximum retry count cannot be used"),
        ({"Binds": ["/tmp:relative"]}, "mount path must be absolute"),
    ],
)
def test_what_the_machine_cannot_give_is_refused_at_create(door: Door, host: dict[str, Any], words: str) -> None:
    """400 (500 for a bind) with the Engine's words, and no container is left."""
    with pytest.raises(RefusedError) as caught:
        door.create(**host)
    assert caught.value.status == (500 if "Binds" in host else 400)
    assert words in caught.value.message
    assert door.reader.list_containers() == []


@pytest.mark.parametrize("host", [{"Memory": 2**50}, {"NoSuchKey": 1}])
def test_absurd_memory_and_unknown_keys_are_taken(door: Door, host: dict[str, Any]) -> None:
    """The Engine takes what a person would not: nothing but our own checks keeps it out."""
    assert "NoSuchKey" not in door.host_config(door.create(**host))


# What an inspect gives back


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        pytest.param(
            {"CpusetCpus": "32-47", "CpusetMems": "1"}, {"CpusetCpus": "32-47", "CpusetMems": "1"}, id="cpuset"
        ),
        pytest.param({"Memory": 64 * MIB}, {"Memory": 64 * MIB, "MemorySwap": 128 * MIB}, id="memory alone"),
        pytest.param(
            {"Memory": 64 * MIB, "MemorySwap": 64 * MIB},
            {"Memory": 64 * MIB, "MemorySwap": 64 * MIB},
            id="memory and swap",
        ),
        pytest.param({"DeviceRequests": [GPU]}, {"DeviceRequests": [GPU | {"Count": 0, "Options": None}]}, id="cards"),
        pytest.param(
            {"PortBindings": {"80/tcp": [{"HostPort": "8080"}]}},
            {"PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}},
            id="ports",
        ),
        pytest.param(
            {"RestartPolicy": {"Name": "always"}},
            {"RestartPolicy": {"Name": "always", "MaximumRetryCount": 0}},
            id="restart",
        ),
        pytest.param({"ShmSize": 128 * MIB}, {"ShmSize": 128 * MIB}, id="shm"),
        pytest.param({"ShmSize": 0}, {"ShmSize": 64 * MIB}, id="shm 0"),
        pytest.param({"PidsLimit": 100}, {"PidsLimit": 100}, id="pids"),
        pytest.param(
            {"Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}]},
            {"Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}]},
            id="ulimits",
        ),
        pytest.param({"Tmpfs": {"/x": "size=1024"}}, {"Tmpfs": {"/x": "size=1024"}}, id="tmpfs"),
        pytest.param({"Binds": ["/tmp:/t:ro"]}, {"Binds": ["/tmp:/t:ro"]}, id="binds"),
        pytest.param(
            {"Devices": [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/nil", "CgroupPermissions": "rw"}]},
            {"Devices": [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/nil", "CgroupPermissions": "rw"}]},
            id="devices",
        ),
        pytest.param({"Privileged": True}, {"Privileged": True, "SecurityOpt": ["label=disable"]}, id="privileged"),
        pytest.param({"IpcMode": "host"}, {"IpcMode": "host", "SecurityOpt": ["label=disable"]}, id="ipc"),
        pytest.param({"NetworkMode": "none"}, {"NetworkMode": "none"}, id="network"),
        pytest.param({"Init": True}, {"Init": True}, id="init"),
        pytest.param(
            {"LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}}},
            {"LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}}},
            id="logging",
        ),
        pytest.param(
            {},
            {
                "IpcMode": "private",
                "ShmSize": 64 * MIB,
                "NetworkMode": "default",
                "CpusetCpus": "",
                "Memory": 0,
                "DeviceRequests": None,
                "PidsLimit": None,
                "RestartPolicy": {"Name": "", "MaximumRetryCount": 0},
            },
            id="nothing",
        ),
    ],
)
def test_host_config_comes_back_as_sent_or_as_filled_in(
    door: Door, sent: dict[str, Any], shown: dict[str, Any]
) -> None:
    """What the Engine keeps, what it rewrites, and its defaults."""
    found = door.host_config(door.create(**sent))
    assert {key: found[key] for key in shown} == shown


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({"WorkingDir": "/srv/"}, {"WorkingDir": "/srv"}),
        ({"Cmd": "ls"}, {"Cmd": ["ls"]}),
        ({"Entrypoint": ["sleep"], "Cmd": ["5"]}, {"Entrypoint": ["sleep"], "Cmd": ["5"]}),
        ({"Labels": {"io.reconciler.cluster": "lab"}}, {"Labels": {"io.reconciler.cluster": "lab"}}),
        ({"User": "1000:1000", "Hostname": "web"}, {"User": "1000:1000", "Hostname": "web"}),
        ({"ExposedPorts": {"80/tcp": {}}}, {"ExposedPorts": {"80/tcp": {}}}),
        ({"StopSignal": "SIGINT"}, {"StopSignal": "SIGINT"}),
        (
            {"Healthcheck": {"Test": ["CMD", "true"], "Interval": 10**9, "Retries": 2}},
            {"Healthcheck": {"Test": ["CMD", "true"], "Interval": 10**9, "Retries": 2}},
        ),
        ({}, {"Labels": {}, "WorkingDir": "", "User": "", "Entrypoint": None, "Image": "bb:1"}),
    ],
)
def test_config_comes_back_as_sent_or_as_filled_in(door: Door, sent: dict[str, Any], shown: dict[str, Any]) -> None:
    """The same for what concerns the process."""
    found = door.reader.inspect_container(door.create(sent))["Config"]
    assert {key: found[key] for key in shown} == shown


def test_the_environment_keeps_its_order_and_the_images_own_comes_last(door: Door) -> None:
    """What was sent stands first, as it was sent."""
    found = door.reader.inspect_container(door.create({"Env": ["Z=1", "A=2"]}))["Config"]["Env"]
    assert found[:2] == ["Z=1", "A=2"]
    assert found[2].startswith("PATH=")


def test_the_hostname_is_the_beginning_of_the_id(door: Door) -> None:
    """Unless one is given."""
    made = door.create()
    assert door.reader.inspect_container(made)["Config"]["Hostname"] == made[:12]


# Lists


def test_a_list_shows_every_container_with_its_labels_newest_first(door: Door) -> None:
    """Exited and created ones too."""
    first = door.create({"Labels": {"n": "1"}}, name="one")
    second = door.run({"Labels": {"n": "2"}}, name="two")
    shown = [(e["Id"], e["Names"], e["Labels"], e["State"], e["Image"]) for e in door.reader.list_containers()]
    assert sorted(shown, key=lambda row: row[1]) == [
        (first, ["/one"], {"n": "1"}, "created", "bb:1"),
        (second, ["/two"], {"n": "2"}, "running", "bb:1"),
    ]


def test_a_list_entry_tells_of_the_host_config_only_the_network(door: Door) -> None:
    """What a container holds needs an inspect."""
    door.create(DeviceRequests=[GPU], CpusetCpus="1")
    assert [entry["HostConfig"] for entry in door.reader.list_containers()] == [{"NetworkMode": "default"}]


# Files


def archive(name: str, content: bytes, mode: int = 0o444) -> bytes:
    """A tar with one file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), mode
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def test_files_are_put_into_a_container_that_never_ran(door: Door, request: pytest.FixtureRequest) -> None:
    """They are there when it starts."""
    made = door.create({"Cmd": ["sha256sum", "/etc/app/app.conf"]})
    door.writer.put_archive(made, "/", archive("etc/app/app.conf", b"answer = 42\n"))
    expected = hashlib.sha256(b"answer = 42\n").hexdigest()
    if door.kind == "docker":
        door.writer.start(made)
        assert wait_for(lambda: door.reader.logs(made, 1), "the sum").split()[0] == expected
    else:
        files = Simulation(request.getfixturevalue("tmp_path")).files("host-1", made)
        assert files == {"/etc/app/app.conf": {"sha256": expected, "mode": "0444"}}


def test_what_is_no_tar_is_refused(door: Door) -> None:
    """500 with the Engine's words."""
    made = door.create()
    with pytest.raises(RefusedError, match="Error processing tar file"):
        door.writer.put_archive(made, "/", b"garbage")


# The host


def test_version_and_info_tell_of_the_engine(door: Door) -> None:
    """At least Engine 20.10 with cpusets."""
    assert door.reader.version()["ApiVersion"] >= "1.41"
    info = door.reader.info()
    door.run()
    assert (info["CPUSet"], info["ContainersRunning"]) == (True, 0)
    assert door.reader.info()["ContainersRunning"] == 1
    assert info["ID"] == door.reader.info()["ID"]
