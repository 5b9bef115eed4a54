"""One suite for every implementation of the Protocols: the simulated Engine is held to the real one."""

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from reconciler.engine.open import open_engine
from reconciler.engine.simulation import Simulation
from reconciler.errors import ConflictError, EngineError, NotFoundError, RefusedError
from tests.fakes.door import Door
from tests.fakes.waiting import wait_for

MIB = 1024**2
GPU = {"Driver": "nvidia", "DeviceIDs": ["GPU-a", "GPU-b"], "Capabilities": [["gpu"]]}


def state(door: Door, container: str) -> dict[str, Any]:
    """``State`` of a container."""
    found: dict[str, Any] = door.reader.inspect_container(container)["State"]
    return found


def host_config(door: Door, container: str) -> dict[str, Any]:
    """``HostConfig`` of a container."""
    found: dict[str, Any] = door.reader.inspect_container(container)["HostConfig"]
    return found


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


@pytest.mark.parametrize("call", ["inspect", "logs", "start", "update", "rename", "put_archive"])
def test_calls_on_a_container_that_is_gone_are_not_found(door: Door, call: str) -> None:
    """Everything that needs the container answers 404."""
    calls: dict[str, Callable[[], object]] = {
        "inspect": lambda: door.reader.inspect_container("gone"),
        "logs": lambda: door.reader.logs("gone", 1),
        "start": lambda: door.writer.start("gone"),
        "update": lambda: door.writer.update("gone", {"CpuShares": 2}),
        "rename": lambda: door.writer.rename("gone", "other"),
        "put_archive": lambda: door.writer.put_archive("gone", "/", archive("x", b"")),
    }
    with pytest.raises(NotFoundError, match="No such container: gone"):
        calls[call]()


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
    assert "NoSuchKey" not in host_config(door, door.create(**host))


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
    found = host_config(door, door.create(**sent))
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


# Starting and stopping


def test_a_container_goes_from_created_to_running_to_exited(door: Door) -> None:
    """With the times of each, and year 1 for what has not happened."""
    made = door.create()
    never = "0001-01-01T00:00:00Z"
    assert [state(door, made)[key] for key in ("Status", "StartedAt", "FinishedAt")] == ["created", never, never]
    door.writer.start(made)
    running = state(door, made)
    assert (running["Status"], running["Running"], running["FinishedAt"]) == ("running", True, never)
    assert running["Pid"] > 0
    door.writer.stop(made, 0)
    ended = state(door, made)
    assert (ended["Status"], ended["Running"], ended["Pid"], ended["StartedAt"]) == (
        "exited",
        False,
        0,
        running["StartedAt"],
    )
    assert ended["FinishedAt"] > ended["StartedAt"]


def test_starting_and_stopping_twice_is_done(door: Door) -> None:
    """The second call finds done what it was to do."""
    made = door.run()
    door.writer.start(made)
    door.writer.stop(made, 0)
    door.writer.stop(made, 0)
    assert state(door, made)["Status"] == "exited"


def test_stopping_what_never_started_changes_nothing(door: Door) -> None:
    """It stays created."""
    made = door.create()
    door.writer.stop(made, 0)
    assert state(door, made)["Status"] == "created"


def test_an_exited_container_starts_again(door: Door) -> None:
    """That is how a failed stop-first replacement is taken back."""
    made = door.run()
    door.writer.stop(made, 0)
    door.writer.start(made)
    assert (state(door, made)["Status"], state(door, made)["ExitCode"]) == ("running", 0)


def test_concurrent_starts_and_removes_all_succeed(door: Door) -> None:
    """One does it, the others find it done or under way."""
    made = door.create()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: door.writer.start(made), range(4)))
        assert state(door, made)["Status"] == "running"
        list(pool.map(lambda _: door.writer.remove(made, force=True), range(4)))
    wait_for(lambda: door.reader.list_containers() == [], "the container to be gone")


@pytest.mark.parametrize(("command", "code"), [(["true"], 0), (["false"], 1), (["sh", "-c", "exit 3"], 3)])
def test_a_process_that_ends_leaves_its_exit_code(door: Door, command: list[str], code: int) -> None:
    """Without a restart policy it stays exited."""
    made = door.run({"Cmd": command})
    wait_for(lambda: state(door, made)["Status"] == "exited", "the process to end")
    assert (state(door, made)["ExitCode"], door.reader.inspect_container(made)["RestartCount"]) == (code, 0)


@pytest.mark.parametrize(("init", "grace", "code"), [(False, 0, 137), (True, 10, 143)])
def test_a_stop_leaves_the_exit_code_of_its_signal(door: Door, init: bool, grace: float, code: int) -> None:
    """A process that ignores the signal is killed; under an init it takes it."""
    made = door.run(Init=init)
    door.writer.stop(made, grace)
    assert state(door, made)["ExitCode"] == code


def test_a_running_container_is_removed_only_by_force(door: Door) -> None:
    """Otherwise it is a conflict."""
    made = door.run()
    with pytest.raises(ConflictError, match="You cannot remove a running container"):
        door.writer.remove(made)
    door.writer.remove(made, force=True)
    assert door.reader.list_containers() == []


def test_on_failure_restarts_so_many_times_and_no_more(door: Door) -> None:
    """Then the last exit code stays."""
    made = door.run({"Cmd": ["sh", "-c", "exit 3"]}, RestartPolicy={"Name": "on-failure", "MaximumRetryCount": 2})
    wait_for(lambda: state(door, made)["Status"] == "exited", "the restarts to end")
    assert (state(door, made)["ExitCode"], door.reader.inspect_container(made)["RestartCount"]) == (3, 2)


def test_always_restarts_until_somebody_stops_it(door: Door) -> None:
    """A stop from outside ends the restarts."""
    made = door.run({"Cmd": ["false"]}, RestartPolicy={"Name": "always"})
    wait_for(lambda: door.reader.inspect_container(made)["RestartCount"] >= 2, "two restarts")
    door.writer.stop(made, 0)
    assert state(door, made)["Status"] == "exited"
    assert state(door, made)["Restarting"] is False


@pytest.mark.parametrize("health", ["healthy", "unhealthy"])
def test_a_health_check_shows_on_inspect(door: Door, health: str) -> None:
    """What the check finds is the container's health."""
    check = {"Test": ["CMD", "true" if health == "healthy" else "false"], "Interval": 10**8, "Retries": 1}
    made = door.run({"Healthcheck": check, "Env": [f"SIM_HEALTH={health}"]})
    wait_for(lambda: state(door, made)["Health"]["Status"] == health, f"the container to be {health}")


def test_without_a_health_check_there_is_no_health(door: Door) -> None:
    """The key is absent."""
    assert "Health" not in state(door, door.run())


def test_logs_are_the_last_lines(door: Door) -> None:
    """Both streams, as text."""
    made = door.run({"Cmd": ["echo", "hello", "there"]})
    assert wait_for(lambda: door.reader.logs(made, 5), "a line") == "hello there\n"


# What is refused at start


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (
            {"DeviceRequests": [GPU | {"Driver": "other"}]},
            'could not select device driver "other" with capabilities: [[gpu]]',
        ),
        ({"DeviceRequests": [GPU | {"Count": 1}]}, "cannot set both Count and DeviceIDs on device request"),
    ],
)
def test_device_requests_are_judged_at_start(door: Door, host: dict[str, Any], words: str) -> None:
    """500, and the container stays created with the reason and exit code 128."""
    made = door.create(**host)
    with pytest.raises(RefusedError) as caught:
        door.writer.start(made)
    assert (caught.value.status, caught.value.message) == (500, words)
    left = state(door, made)
    assert (left["Status"], left["ExitCode"], left["Error"]) == ("created", 128, words)


def test_a_network_that_is_missing_is_noticed_at_start(door: Door) -> None:
    """404, and the container stays created."""
    made = door.create(NetworkMode="nowhere")
    with pytest.raises(NotFoundError, match="network nowhere not found"):
        door.writer.start(made)
    assert state(door, made)["Status"] == "created"


def test_nothing_stops_two_containers_from_naming_one_card(door: Door) -> None:
    """The Engine keeps no account of cards: the planner has to."""
    for _ in range(2):
        assert state(door, door.run(DeviceRequests=[GPU]))["Status"] == "running"


def published(port: str, ip: str = "", protocol: str = "tcp") -> dict[str, Any]:
    """A create body that publishes container port 80."""
    key = f"80/{protocol}"
    bound = {"HostIp": ip, "HostPort": port} if ip else {"HostPort": port}
    return {"ExposedPorts": {key: {}}, "HostConfig": {"PortBindings": {key: [bound]}}}


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        (published("18080"), published("18080"), True),
        (published("18080", "127.0.0.1"), published("18080"), True),
        (published("18080", "127.0.0.1"), published("18080", "127.0.0.2"), False),
        (published("18080"), published("18080", protocol="udp"), False),
        (published("18080"), published("18081"), False),
    ],
)
def test_a_taken_port_is_noticed_at_start(
    door: Door, first: dict[str, Any], second: dict[str, Any], clash: bool
) -> None:
    """500, and the second container stays created."""
    door.run(first)
    made = door.create(second)
    if not clash:
        door.writer.start(made)
        return
    with pytest.raises(RefusedError) as caught:
        door.writer.start(made)
    assert caught.value.status == 500
    assert state(door, made)["Status"] == "created"
    assert "18080" in state(door, made)["Error"]


def test_a_port_is_free_again_after_a_stop(door: Door) -> None:
    """An exited container keeps its binding and holds no port."""
    first = door.run(published("18080"))
    door.writer.stop(first, 0)
    assert state(door, door.run(published("18080")))["Status"] == "running"


def test_a_port_left_open_is_chosen_by_the_engine(door: Door) -> None:
    """The choice shows while the container runs; the binding stays as it was sent."""
    made = door.run(published(""))
    shown = door.reader.inspect_container(made)
    assert int(shown["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"]) > 1024
    assert shown["HostConfig"]["PortBindings"] == {"80/tcp": [{"HostIp": "", "HostPort": ""}]}


def test_a_binding_of_a_port_that_is_not_exposed_publishes_nothing(door: Door) -> None:
    """The Engine is silent about it: the create body must expose what it binds."""
    made = door.run(PortBindings={"80/tcp": [{"HostPort": "18080"}]})
    assert door.reader.inspect_container(made)["NetworkSettings"]["Ports"] == {}


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
    before = state(door, made)
    door.writer.update(made, fields)
    shown = host_config(door, made)
    assert {key: shown[key] for key in fields} == fields
    assert state(door, made) == before


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
    before = host_config(door, made)
    with pytest.raises(kind, match=words):
        door.writer.update(made, fields)
    assert host_config(door, made) == before


@pytest.mark.parametrize("limit", [-1, 0])
def test_no_limit_of_pids_shows_as_zero_after_an_update(door: Door, limit: int) -> None:
    """As null before, and as 0 afterwards: both mean unlimited."""
    made = door.run(PidsLimit=100)
    door.writer.update(made, {"PidsLimit": limit})
    assert host_config(door, made)["PidsLimit"] in {0, None}


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


# Shapes


def healthy(door: Door, container: str) -> bool:
    """Whether its health check is content."""
    return bool(state(door, container)["Health"]["Status"] == "healthy")


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
