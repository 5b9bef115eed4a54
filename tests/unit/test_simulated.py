"""What only the simulated Engine has: lives by the clock, one file for all hosts, and things done by hand.

That it behaves like a real Engine is the business of ``tests/engine/test_protocols.py``.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.engine.open import open_engine, open_reader, open_writer
from reconciler.engine.simulated import Machine, SimulatedReader, SimulatedWriter
from reconciler.engine.simulated_state import StateFile
from reconciler.engine.simulation import Simulation
from reconciler.errors import ConflictError, NotFoundError, RefusedError, UnreachableError, UsageError
from reconciler.model.host import Gpu, HostFacts, MigSlice, NumaNode

START = 1_790_000_000.0


@dataclass
class World:
    """One simulated host under a clock that only the test moves."""

    directory: Path
    now: float = START

    def __post_init__(self) -> None:
        self.reader = SimulatedReader("h1", self.directory, clock=self.clock)
        self.writer = SimulatedWriter("h1", self.directory, clock=self.clock)
        self.hand = Simulation(self.directory, clock=self.clock)
        self.writer.pull("app:1", lambda _: None)

    def clock(self) -> float:
        """Seconds since the epoch."""
        return self.now

    def run(self, name: str = "c1", restart: str = "no", **body: Any) -> str:
        """Create and start."""
        host = {"RestartPolicy": {"Name": restart}, **body.pop("HostConfig", {})}
        made = self.writer.create(name, {"Image": "app:1", "HostConfig": host, **body})
        self.writer.start(made)
        return made

    def state(self, name: str = "c1") -> str:
        """Status, exit code and number of restarts."""
        document = self.reader.inspect_container(name)
        return f"{document['State']['Status']} {document['State']['ExitCode']} {document['RestartCount']}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world at its beginning."""
    return World(tmp_path)


# Lives


@pytest.mark.parametrize(
    ("body", "restart", "states"),
    [
        ({"Cmd": ["serve"]}, "no", {0: "running 0 0", 1e9: "running 0 0"}),
        ({"Cmd": ["true"]}, "no", {0: "exited 0 0"}),
        ({"Cmd": ["sleep", "5"]}, "no", {4.9: "running 0 0", 5: "exited 0 0"}),
        ({"Env": ["SIM_EXIT=3"]}, "no", {0: "exited 3 0"}),
        ({"Env": ["SIM_EXIT=3", "SIM_EXIT_AFTER=2"]}, "no", {1.9: "running 0 0", 2: "exited 3 0"}),
        ({"Env": ["SIM_EXIT_AFTER=2"]}, "no", {2: "exited 0 0"}),
        ({"Entrypoint": ["sleep"], "Cmd": ["5"]}, "no", {5: "exited 0 0"}),
        # Docker waits 0.1 s before the first restart and twice as long before each next one, up to a minute.
        (
            {"Env": ["SIM_EXIT=1"]},
            "always",
            {0: "restarting 1 0", 0.11: "restarting 1 1", 0.29: "restarting 1 1", 0.31: "restarting 1 2"},
        ),
        ({"Cmd": ["sleep", "1"]}, "always", {0.5: "running 0 0", 1.05: "restarting 0 0", 1.2: "running 0 1"}),
        # A run of ten seconds resets the wait: each round then lasts as long as the run and 0.1 s.
        ({"Cmd": ["sleep", "20"]}, "always", {20.05: "restarting 0 0", 20.2: "running 0 1", 201.5: "running 0 10"}),
        ({"Env": ["SIM_EXIT=0"]}, "on-failure", {0: "exited 0 0"}),
        ({"Env": ["SIM_EXIT=1"]}, "unless-stopped", {0.05: "restarting 1 0"}),
        (
            {"Env": ["SIM_EXIT=1"], "HostConfig": {"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 2}}},
            "on-failure",
            {0.2: "restarting 1 1", 0.31: "exited 1 2", 1e6: "exited 1 2"},
        ),
    ],
)
def test_a_process_lives_by_the_clock(
    world: World, body: dict[str, Any], restart: str, states: dict[float, str]
) -> None:
    """Nothing runs: what a container does is a function of how it was made and of the time."""
    world.run(restart=restart, **body)
    seen = {}
    for after in states:
        world.now = START + after
        seen[after] = world.state()
    assert seen == states


def test_a_year_of_restarts_is_counted_at_once(world: World) -> None:
    """The number of restarts is computed, not lived through."""
    world.run(restart="always", Env=["SIM_EXIT=1"])
    world.now = START + 365 * 86400
    restarts = int(world.state().split()[2])
    assert restarts == pytest.approx(365 * 86400 / 60, rel=0.01)


@pytest.mark.parametrize(("env", "health"), [([], "healthy"), (["SIM_HEALTH=starting"], "starting")])
def test_a_health_check_is_content_unless_the_environment_says_otherwise(
    world: World, env: list[str], health: str
) -> None:
    """At once; a container without a check has no health."""
    world.run(Env=env, Healthcheck={"Test": ["CMD", "check"]})
    assert world.reader.inspect_container("c1")["State"]["Health"]["Status"] == health
    assert health in world.reader.list_containers()[0]["Status"]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (0, "Up Less than a second"),
        (1, "Up 1 second"),
        (59, "Up 59 seconds"),
        (60, "Up About a minute"),
        (150, "Up 2 minutes"),
        (3600, "Up About an hour"),
        (5 * 3600, "Up 5 hours"),
        (3 * 86400, "Up 3 days"),
        (21 * 86400, "Up 3 weeks"),
        (90 * 86400, "Up 3 months"),
        (1000 * 86400, "Up 2 years"),
    ],
)
def test_status_is_in_the_words_of_docker_ps(world: World, after: float, words: str) -> None:
    """As the go-units library says durations."""
    world.run()
    world.now += after
    assert world.reader.list_containers()[0]["Status"] == words


# By hand


@pytest.mark.parametrize(
    ("restart", "code", "state"),
    [
        ("no", 3, "exited 3 0"),
        ("always", 3, "running 0 1"),
        ("on-failure", 0, "exited 0 0"),
        ("on-failure", 2, "running 0 1"),
    ],
)
def test_a_process_can_be_made_to_end(world: World, restart: str, code: int, state: str) -> None:
    """Its restart policy then does what it does."""
    world.run(restart=restart)
    world.now += 60
    world.hand.exit("h1", "c1", code)
    assert world.state() == state


def test_a_container_can_vanish(world: World) -> None:
    """As if somebody had removed it."""
    made = world.run()
    world.hand.vanish("h1", "c1")
    assert world.reader.list_containers() == []
    with pytest.raises(NotFoundError):
        world.reader.inspect_container(made)


def test_health_can_change(world: World) -> None:
    """And is forgotten with the next start."""
    made = world.run(Healthcheck={"Test": ["CMD", "check"]})
    world.hand.health("h1", "c1", "unhealthy")
    assert world.reader.inspect_container(made)["State"]["Health"]["Status"] == "unhealthy"
    world.writer.stop(made, 0)
    world.writer.start(made)
    assert world.reader.inspect_container(made)["State"]["Health"]["Status"] == "healthy"


def test_a_host_can_be_down_and_its_containers_go_on(world: World) -> None:
    """Every call is unanswered until it is up again; other hosts answer."""
    world.run(Cmd=["sleep", "5"])
    world.hand.down("h1", "no route to host")
    for call in (world.reader.list_containers, world.reader.info, lambda: world.writer.stop("c1", 1)):
        with pytest.raises(UnreachableError, match="h1: no route to host"):
            call()
    assert SimulatedReader("h2", world.directory).list_containers() == []
    world.now += 10
    world.hand.up("h1")
    assert world.state() == "exited 0 0"


def test_a_network_can_be_made(world: World) -> None:
    """Then containers start on it."""
    world.hand.network("h1", "lan")
    world.run(HostConfig={"NetworkMode": "lan"})
    assert list(world.reader.inspect_container("c1")["NetworkSettings"]["Networks"]) == ["lan"]


# The machine

FACTS = HostFacts(
    "h1",
    numa_nodes=(NumaNode(0, (0, 1, 4, 5), 2**36), NumaNode(3, (2, 3, 6, 7), 2**36)),
    gpus=(Gpu("GPU-a", "A100", 2**36, mig_slices=(MigSlice("MIG-1", "1g.5gb", 0, "GPU-a"),)),),
)


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"CpusetCpus": "8"}, "available: 0-7"),
        ({"CpusetMems": "1"}, "available: 0,3"),
        ({"NanoCpus": 9 * 10**9}, "Range of CPUs is from 0.01 to 8.00"),
    ],
)
def test_a_host_refuses_what_its_facts_do_not_have(tmp_path: Path, host: dict[str, Any], words: str) -> None:
    """Cores, nodes and the number of CPUs come from the facts."""
    writer = SimulatedWriter("h1", tmp_path, Machine.of(FACTS))
    writer.pull("app:1", lambda _: None)
    with pytest.raises(RefusedError, match=words):
        writer.create("c1", {"Image": "app:1", "HostConfig": host})


@pytest.mark.parametrize(("identity", "there"), [("GPU-a", True), ("MIG-1", True), ("all", True), ("GPU-b", False)])
def test_a_card_that_the_host_lacks_is_refused_at_start(tmp_path: Path, identity: str, there: bool) -> None:
    """As NVIDIA's own hook does; without facts any id is taken."""
    request = {"Driver": "nvidia", "DeviceIDs": [identity], "Capabilities": [["gpu"]]}
    for machine, starts in ((Machine.of(FACTS), there), (None, True)):
        writer = SimulatedWriter(f"h-{starts}-{machine is None}", tmp_path, machine)
        writer.pull("app:1", lambda _: None)
        made = writer.create("c1", {"Image": "app:1", "HostConfig": {"DeviceRequests": [request]}})
        if starts:
            writer.start(made)
        else:
            with pytest.raises(RefusedError, match="GPU-b: unknown device"):
                writer.start(made)


# The file


def test_looking_writes_nothing(tmp_path: Path) -> None:
    """A dry run leaves no trace, not even an empty file."""
    reader = SimulatedReader("h1", tmp_path / "state")
    assert reader.list_containers() == []
    assert reader.info()["Containers"] == 0
    assert not (tmp_path / "state").exists()


def test_the_same_calls_make_the_same_ids(tmp_path: Path) -> None:
    """Ids depend on nothing but host, name and what was made before; a second life of a name has another id."""
    ids = []
    for folder in ("a", "b"):
        world = World(tmp_path / folder)
        first = world.run()
        world.writer.remove(first, force=True)
        ids.append((first, world.run()))
    assert ids[0] == ids[1]
    assert ids[0][0] != ids[0][1]


def test_all_hosts_of_a_cluster_share_one_file(tmp_path: Path) -> None:
    """And nothing else."""
    for host in ("h1", "h2"):
        writer = SimulatedWriter(host, tmp_path)
        writer.pull("app:1", lambda _: None)
        writer.create("c1", {"Image": "app:1"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["simulated.json", "simulated.lock"]
    assert sorted(json.loads((tmp_path / "simulated.json").read_text())["hosts"]) == ["h1", "h2"]


def test_threads_and_processes_take_turns(tmp_path: Path) -> None:
    """No change is lost, and one name is given once."""
    SimulatedWriter("h1", tmp_path).pull("app:1", lambda _: None)
    program = (
        "import sys; from pathlib import Path; from reconciler.engine.simulated import SimulatedWriter as W\n"
        "w = W('h1', Path(sys.argv[1]))\n"
        "for n in range(20): w.create(f'{sys.argv[2]}-{n}', {'Image': 'app:1'})"
    )
    others = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), f"p{n}"]) for n in range(2)]
    writer = SimulatedWriter("h1", tmp_path)

    def attempt(number: int) -> int:
        try:
            writer.create(f"t-{number % 20}", {"Image": "app:1"})
        except ConflictError:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        made = sum(pool.map(attempt, range(80)))
    assert [other.wait(30) for other in others] == [0, 0]
    assert made == 20
    assert len(SimulatedReader("h1", tmp_path).list_containers()) == 60


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    """The file is replaced whole, after the block has ended well."""
    file = StateFile(tmp_path / "simulated.json")
    with file.change() as document:
        document["hosts"]["h1"] = 1

    def fail() -> None:
        with file.change() as document:
            document["hosts"]["h1"] = 2
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert file.read()["hosts"] == {"h1": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["simulated.json", "simulated.lock"]


def test_a_reader_sees_every_write_of_others_at_once(tmp_path: Path) -> None:
    """However fast they follow one another and however alike they are."""
    reading, writing = (StateFile(tmp_path / "simulated.json") for _ in range(2))
    for number in range(100, 400):
        with writing.change() as document:
            document["hosts"]["h1"] = number
        assert reading.read()["hosts"]["h1"] == number


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "another/v1", "hosts": {}}'])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    """In one line, for looking and for changing."""
    (tmp_path / "simulated.json").write_text(content)
    for call in (SimulatedReader("h1", tmp_path).list_containers, lambda: SimulatedWriter("h1", tmp_path).start("c1")):
        with pytest.raises(RefusedError, match=r"^h1: the state of simulated hosts, .*/simulated\.json: "):
            call()


# Images


@pytest.mark.parametrize(("asked", "known"), [("app", "app:latest"), ("host:5000/app", "host:5000/app:latest")])
def test_an_image_without_a_tag_means_latest(tmp_path: Path, asked: str, known: str) -> None:
    """A port of a registry is no tag."""
    reader, writer = open_engine("h1", "sim://", tmp_path)
    said: list[str] = []
    writer.pull(asked, said.append)
    assert reader.inspect_image(known)["RepoTags"] == [known]
    writer.pull(known, said.append)
    assert said == [
        "1 of 1 layers",
        f"Downloaded newer image for {known}",
        "1 of 1 layers",
        f"Image is up to date for {known}",
    ]


def test_an_image_by_digest_is_known_by_its_digest(tmp_path: Path) -> None:
    """As on a real Engine, it has no tag."""
    reader, writer = open_engine("h1", "sim://", tmp_path)
    reference = f"team/app@sha256:{'a' * 64}"
    writer.pull(reference, lambda _: None)
    assert reader.inspect_image(reference)["RepoDigests"] == [reference]
    assert reader.inspect_image(reference)["RepoTags"] == []


# Opening


@pytest.mark.parametrize(
    "url", ["", "docker.sock", "unix://docker.sock", "tcp://h:2376", "ssh://h", "sim:", "http://h"]
)
def test_what_is_no_engine_is_wrong_usage(tmp_path: Path, url: str) -> None:
    """With the forms that are right."""
    for opener in (open_reader, open_writer):
        with pytest.raises(UsageError, match=r"not an Engine: .*write unix:///path/to/docker\.sock or sim://"):
            opener("h1", url, tmp_path)


def test_a_simulated_host_never_loads_docker_py(tmp_path: Path) -> None:
    """It would cost every dry run a quarter of a second."""
    program = (
        "import sys; from pathlib import Path; from reconciler.engine.open import open_engine\n"
        "reader, _ = open_engine('h1', 'sim://', Path(sys.argv[1])); reader.list_containers()\n"
        "print(sorted({'docker', 'requests', 'tarfile'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "docker" not in done.stdout
    assert "requests" not in done.stdout
