"""One suite for every implementation of the Protocols: starting, stopping, and what is refused at start."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reconciler.errors import ConflictError, NotFoundError, RefusedError
from tests.fakes.door import Door
from tests.fakes.waiting import wait_for

GPU = {"Driver": "nvidia", "DeviceIDs": ["GPU-a", "GPU-b"], "Capabilities": [["gpu"]]}


# Starting and stopping


def test_a_container_goes_from_created_to_running_to_exited(door: Door) -> None:
    """With the times of each, and year 1 for what has not happened."""
    made = door.create()
    never = "0001-01-01T00:00:00Z"
    assert [door.state(made)[key] for key in ("Status", "StartedAt", "FinishedAt")] == ["created", never, never]
    door.writer.start(made)
    running = door.state(made)
    assert (running["Status"], running["Running"], running["FinishedAt"]) == ("running", True, never)
    assert running["Pid"] > 0
    door.writer.stop(made, 0)
    ended = door.state(made)
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
    assert door.state(made)["Status"] == "exited"


def test_stopping_what_never_started_changes_nothing(door: Door) -> None:
    """It stays created."""
    made = door.create()
    door.writer.stop(made, 0)
    assert door.state(made)["Status"] == "created"


def test_an_exited_container_starts_again(door: Door) -> None:
    """That is how a failed stop-first replacement is taken back."""
    made = door.run()
    door.writer.stop(made, 0)
    door.writer.start(made)
    assert (door.state(made)["Status"], door.state(made)["ExitCode"]) == ("running", 0)


def test_concurrent_starts_and_removes_all_succeed(door: Door) -> None:
    """One does it, the others find it done or under way."""
    made = door.create()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: door.writer.start(made), range(4)))
        assert door.state(made)["Status"] == "running"
        list(pool.map(lambda _: door.writer.remove(made, force=True), range(4)))
    wait_for(lambda: door.reader.list_containers() == [], "the container to be gone")


@pytest.mark.parametrize(("command", "code"), [(["true"], 0), (["false"], 1), (["sh", "-c", "exit 3"], 3)])
def test_a_process_that_ends_leaves_its_exit_code(door: Door, command: list[str], code: int) -> None:
    """Without a restart policy it stays exited."""
    made = door.run({"Cmd": command})
    wait_for(lambda: door.state(made)["Status"] == "exited", "the process to end")
    assert (door.state(made)["ExitCode"], door.reader.inspect_container(made)["RestartCount"]) == (code, 0)


@pytest.mark.parametrize(("init", "grace", "code"), [(False, 0, 137), (True, 10, 143)])
def test_a_stop_leaves_the_exit_code_of_its_signal(door: Door, init: bool, grace: float, code: int) -> None:
    """A process that ignores the signal is killed; under an init it takes it."""
    made = door.run(Init=init)
    door.writer.stop(made, grace)
    assert door.state(made)["ExitCode"] == code


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
    wait_for(lambda: door.state(made)["Status"] == "exited", "the restarts to end")
    assert (door.state(made)["ExitCode"], door.reader.inspect_container(made)["RestartCount"]) == (3, 2)


def test_always_restarts_until_somebody_stops_it(door: Door) -> None:
    """A stop from outside ends the restarts."""
    made = door.run({"Cmd": ["false"]}, RestartPolicy={"Name": "always"})
    wait_for(lambda: door.reader.inspect_container(made)["RestartCount"] >= 2, "two restarts")
    door.writer.stop(made, 0)
    assert door.state(made)["Status"] == "exited"
    assert door.state(made)["Restarting"] is False


@pytest.mark.parametrize("health", ["healthy", "unhealthy"])
def test_a_health_check_shows_on_inspect(door: Door, health: str) -> None:
    """What the check finds is the container's health."""
    check = {"Test": ["CMD", "true" if health == "healthy" else "false"], "Interval": 10**8, "Retries": 1}
    made = door.run({"Healthcheck": check, "Env": [f"SIM_HEALTH={health}"]})
    wait_for(lambda: door.state(made)["Health"]["Status"] == health, f"the container to be {health}")


def test_without_a_health_check_there_is_no_health(door: Door) -> None:
    """The key is absent."""
    assert "Health" not in door.state(door.run())


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
    left = door.state(made)
    assert (left["Status"], left["ExitCode"], left["Error"]) == ("created", 128, words)


def test_a_network_that_is_missing_is_noticed_at_start(door: Door) -> None:
    """404, and the container stays created."""
    made = door.create(NetworkMode="nowhere")
    with pytest.raises(NotFoundError, match="network nowhere not found"):
        door.writer.start(made)
    assert door.state(made)["Status"] == "created"


def test_nothing_stops_two_containers_from_naming_one_card(door: Door) -> None:
    """The Engine keeps no account of cards: the planner has to."""
    for _ in range(2):
        assert door.state(door.run(DeviceRequests=[GPU]))["Status"] == "running"


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
    assert door.state(made)["Status"] == "created"
    assert "18080" in door.state(made)["Error"]


def test_a_port_is_free_again_after_a_stop(door: Door) -> None:
    """An exited container keeps its binding and holds no port."""
    first = door.run(published("18080"))
    door.writer.stop(first, 0)
    assert door.state(door.run(published("18080")))["Status"] == "running"


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
