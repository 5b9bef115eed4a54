"""The docker-py adapter on a real Engine: what no simulation can show."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.engine.docker import DockerReader, DockerWriter
from reconciler.errors import ConflictError, NotFoundError, RefusedError, UnreachableError
from tests.engine.dockerd import Bed
from tests.engine.proxy import Call, Decide, Proxy, Verdict, get_only, nth_change
from tests.fakes.door import Door
from tests.fakes.waiting import wait_for


@pytest.fixture
def door(engine: str) -> Iterator[Door]:
    """The real Engine, with short time-outs."""
    reader, writer = DockerReader("host-1", engine, timeout=2), DockerWriter("host-1", engine, timeout=30)
    yield Door("docker", reader, writer)
    reader.close()
    writer.close()


def through(proxy: Proxy) -> Door:
    """The same Engine, through a proxy."""
    return Door("proxy", DockerReader("host-1", proxy.url, timeout=2), DockerWriter("host-1", proxy.url, timeout=2))


def close(door: Door) -> None:
    """Give back its connections."""
    door.reader.close()
    door.writer.close()


# What containers see


@pytest.mark.parametrize(
    ("cpus", "nodes", "cards"), [("32-47", "1", ["GPU-a", "GPU-b"]), ("0,2,4", "0", ["MIG-1"]), ("63", "0-1", [])]
)
def test_a_container_sees_the_cores_nodes_and_cards_it_was_given(
    door: Door, bed: Bed, cpus: str, nodes: str, cards: list[str]
) -> None:
    """Read back from inside: the cpuset files and what NVIDIA's hook is told."""
    requests = [{"Driver": "nvidia", "DeviceIDs": cards, "Capabilities": [["gpu"]]}] if cards else []
    made = door.run(CpusetCpus=cpus, CpusetMems=nodes, DeviceRequests=requests)
    folder = "/sys/fs/cgroup/cpuset"
    assert bed.inside(made, "cat", f"{folder}/cpuset.cpus", f"{folder}/cpuset.mems").split() == [cpus, nodes]
    environment = bed.inside(made, "cat", "/proc/1/environ").split("\0")
    assert [entry for entry in environment if entry.startswith("NVIDIA_VISIBLE_DEVICES=")] == (
        [f"NVIDIA_VISIBLE_DEVICES={','.join(cards)}"] if cards else []
    )


def test_a_running_container_sees_its_new_cores_after_an_update(door: Door, bed: Bed) -> None:
    """Without a restart."""
    made = door.run(CpusetCpus="32-47")
    door.writer.update(made, {"CpusetCpus": "1-3"})
    assert bed.inside(made, "cat", "/sys/fs/cgroup/cpuset/cpuset.cpus").strip() == "1-3"


def test_the_hook_overrides_what_a_user_asks_of_it(door: Door, bed: Bed) -> None:
    """The device request decides, not the environment."""
    request = {"Driver": "nvidia", "DeviceIDs": ["GPU-a"], "Capabilities": [["gpu"]]}
    made = door.run({"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}, DeviceRequests=[request])
    assert "NVIDIA_VISIBLE_DEVICES=GPU-a" in bed.inside(made, "cat", "/proc/1/environ").split("\0")


def test_unlimited_locked_memory_starts_even_where_limits_cannot_be_raised(door: Door, bed: Bed) -> None:
    """The bed drops the limits that this machine may not raise; health checks go on working."""
    made = door.run(
        {"Healthcheck": {"Test": ["CMD", "true"], "Interval": 10**8}},
        Ulimits=[{"Name": "memlock", "Soft": -1, "Hard": -1}],
    )
    wait_for(lambda: door.reader.inspect_container(made)["State"]["Health"]["Status"] == "healthy", "the health check")
    assert bed.inside(made, "echo", "fine") == "fine\n"


def test_a_bind_makes_a_missing_folder_and_a_mount_refuses_it(door: Door, tmp_path: Path) -> None:
    """A misspelt path of a bind goes unnoticed: the Engine makes it."""
    door.run(Binds=[f"{tmp_path}/made:/data"])
    assert (tmp_path / "made").is_dir()
    with pytest.raises(RefusedError, match="bind source path does not exist"):
        door.create(Mounts=[{"Type": "bind", "Source": f"{tmp_path}/other", "Target": "/data"}])


# Pulls


def test_a_pull_brings_an_image_by_tag_and_by_digest(door: Door, bed: Bed) -> None:
    """And says how it goes."""
    said: list[str] = []
    with bed.registry() as digest:
        door.writer.pull("127.0.0.1:5000/team/app:1", said.append)
        assert door.reader.inspect_image("127.0.0.1:5000/team/app:1")["RepoDigests"] == [
            f"127.0.0.1:5000/team/app@{digest}"
        ]
        door.writer.pull(f"127.0.0.1:5000/team/app@{digest}", said.append)
        door.writer.pull("127.0.0.1:5000/team/app", said.append)
    assert "1 of 1 layers" in said[0] or "1 of 1 layers" in said[1] or "1 of 1 layers" in said[2]
    assert f"Digest: {digest}" in said
    assert "Downloaded newer image for 127.0.0.1:5000/team/app:1" in said
    assert f"Image is up to date for 127.0.0.1:5000/team/app@{digest}" in said
    made = door.run({"Image": f"127.0.0.1:5000/team/app@{digest}", "Cmd": ["echo", "pulled"]})
    assert wait_for(lambda: door.reader.logs(made, 1), "its line") == "pulled\n"


@pytest.mark.parametrize(
    "image", ["127.0.0.1:5000/team/app:2", "127.0.0.1:5000/other:1", f"127.0.0.1:5000/team/app@sha256:{'0' * 64}"]
)
def test_a_pull_of_what_the_registry_lacks_fails(door: Door, bed: Bed, image: str) -> None:
    """With the registry's words; the status is 404 or 500, as the Engine's release has it."""
    with bed.registry(), pytest.raises((NotFoundError, RefusedError), match="manifest unknown"):
        door.writer.pull(image, lambda _: None)


# Faults


def test_a_frozen_engine_is_unreachable_after_the_time_out(door: Door, bed: Bed) -> None:
    """Not later; and works again when it thaws."""
    door.reader.list_containers()
    bed.daemon_signal(signal.SIGSTOP)
    try:
        begin = time.monotonic()
        with pytest.raises(UnreachableError, match=r"no answer from unix://.* in time"):
            door.reader.list_containers()
        assert time.monotonic() - begin < 4
    finally:
        bed.daemon_signal(signal.SIGCONT)
    assert door.reader.list_containers() == []


def test_a_killed_engine_is_unreachable_and_its_containers_live_on(door: Door, bed: Bed) -> None:
    """The same container, the same process, when the Engine is back."""
    made = door.run()
    pid = door.reader.inspect_container(made)["State"]["Pid"]
    bed.kill()
    try:
        with pytest.raises(UnreachableError):
            door.reader.list_containers()
    finally:
        bed.start()
    assert door.reader.inspect_container(made)["State"]["Pid"] == pid
    door.writer.stop(made, 0)


@pytest.mark.parametrize("verdict", [Verdict.CUT_BEFORE, Verdict.CUT_AFTER, Verdict.HANG])
def test_a_create_without_an_answer_may_have_happened(door: Door, tmp_path: Path, verdict: Verdict) -> None:
    """The name tells: made again, it is either a new container or a conflict with the first."""
    with Proxy(door_url(door), tmp_path, nth_change(1, verdict)) as proxy:
        cut = through(proxy)
        with pytest.raises(UnreachableError):
            cut.create(name="lab.app.web.0.g1")
        happened = verdict is Verdict.CUT_AFTER
        assert len(door.reader.list_containers()) == int(happened)
        if happened:
            with pytest.raises(ConflictError):
                cut.create(name="lab.app.web.0.g1")
        else:
            cut.create(name="lab.app.web.0.g1")
        close(cut)
    assert len(door.reader.list_containers()) == 1


def door_url(door: Door) -> str:
    """The socket behind a door of this module."""
    assert isinstance(door.reader, DockerReader)
    return door.reader._clients._url


def test_a_reader_only_gets(door: Door, tmp_path: Path) -> None:
    """Every method of a Reader, through a proxy that refuses everything else."""
    made = door.run()
    with Proxy(door_url(door), tmp_path, get_only) as proxy:
        looking = through(proxy)
        looking.reader.version()
        looking.reader.info()
        looking.reader.list_containers()
        looking.reader.inspect_container(made)
        looking.reader.inspect_image("bb:1")
        looking.reader.logs(made, 10)
        assert proxy.changes == []
        with pytest.raises(RefusedError, match="lets only GET through"):
            looking.writer.stop(made, 0)
        assert [str(call) for call in proxy.changes] == [f"POST /containers/{made}/stop"]
        close(looking)
    assert door.reader.inspect_container(made)["State"]["Running"]


@pytest.mark.parametrize("decide", [get_only, nth_change(1, Verdict.REFUSE)])
def test_the_proxy_itself_lets_the_rest_through(door: Door, tmp_path: Path, decide: Decide) -> None:
    """Many calls at once, each recorded once, with its place in the order."""
    made = door.run()
    with Proxy(door_url(door), tmp_path, decide) as proxy:
        looking = through(proxy)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: looking.reader.inspect_container(made)["Id"], range(40)))
        assert found == [made] * 40
        inspects = [call for call in proxy.calls if call.path.endswith("/json")]
        assert len(inspects) == 40
        assert [call.number for call in proxy.calls] == list(range(1, len(proxy.calls) + 1))
        assert isinstance(proxy.calls[0], Call)
        close(looking)


def test_threads_work_on_one_engine_at_once(door: Door) -> None:
    """Every thread gets its own answers."""

    def life(number: int) -> str:
        made = door.run({"Labels": {"n": str(number)}}, name=f"lab.app.web.{number}.g1", NetworkMode="none")
        label = door.reader.inspect_container(made)["Config"]["Labels"]["n"]
        door.writer.remove(made, force=True)
        return str(label)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(life, range(12))) == [str(number) for number in range(12)]
    assert door.reader.list_containers() == []
