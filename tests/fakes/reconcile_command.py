"""The whole command as a process, on a git repository of its own, and what its containers look like from outside."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docker import APIClient

from tests.fakes.git_repository import commit
from tests.fakes.waiting import wait_for

PATIENCE = 90.0
"""Seconds within which everything here is over, on a machine with much else to do."""
HEAD = "apiVersion: reconciler/v1\n"
IMAGE = "bb:1"
CARDS = tuple(f"GPU-{number:08d}-0000-0000-0000-000000000000" for number in range(8))
"""Cards 0 to 3 hang on node 0, cards 4 to 7 on node 1; the last one is cut into ``SLICES``."""
SLICES = tuple(f"MIG-{number:08d}-0000-0000-0000-000000000000" for number in range(2))
NODE_CPUS = (frozenset((*range(16), *range(32, 48))), frozenset((*range(16, 32), *range(48, 64))))
"""CPUs of the two NUMA nodes; CPU n and CPU n + 32 are one core."""


def facts(cards: int = 8) -> str:
    """The facts file of a machine with 64 CPUs, two nodes and ``cards`` cards; of eight the last one has slices."""
    gpus: list[dict[str, Any]] = [
        {
            "uuid": uuid,
            "index": number,
            "pci": f"00000000:{0x10 + number:02X}:00.0",
            "model": "NVIDIA A100-SXM4-80GB",
            "memory": 85899345920,
            "memoryUsed": 0,
            "numaNode": number // 4,
        }
        for number, uuid in enumerate(CARDS[:cards])
    ]
    if cards == len(CARDS):
        pieces = [{"uuid": uuid, "profile": "1g.10gb", "start": start} for start, uuid in enumerate(SLICES)]
        gpus[-1]["mig"] = {"enabled": True, "slices": pieces}
    nodes = [
        {"id": 0, "socket": 0, "cpus": "0-15,32-47", "memory": 137438953472, "distances": {"1": 32}},
        {"id": 1, "socket": 1, "cpus": "16-31,48-63", "memory": 137438953472, "distances": {"0": 32}},
    ]
    return json.dumps(
        {
            "format": "reconciler.facts/v1",
            "hostname": "gpu-01",
            "numaNodes": nodes,
            "smt": [[cpu, cpu + 32] for cpu in range(32)],
            "gpus": gpus,
        }
    )


def host(engine: str, more: str = "", *, name: str = "gpu-01", facts_file: str = "facts.json") -> str:
    """A Host document."""
    return f"{HEAD}kind: Host\nname: {name}\nengine: {engine}\nfacts: {facts_file}\n{more}"


def cluster(more: str = "") -> str:
    """The Cluster document; its defaults make containers that start, become ready and stop at once."""
    defaults = (
        f"{{image: '{IMAGE}', args: [sleep, '100000'], network: none, stop: {{signal: SIGKILL, gracePeriod: 5s}}, "
        "rollout: {healthyFor: 0s}, resources: {memory: 64Mi}}"
    )
    return f"{HEAD}kind: Cluster\nname: lab\ndefaults: {defaults}\n{more}"


def app(name: str, lines: str = "", instances: int = 1) -> str:
    """An App; ``lines`` are further fields."""
    return f"{HEAD}kind: App\nname: {name}\ninstances: {instances}\n{lines}"


@dataclass(frozen=True, slots=True)
class Done:
    """One run that is over."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


@dataclass(slots=True)
class Box:
    """A container as the Engine shows it."""

    document: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.document["Id"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document["Name"]).removeprefix("/")

    @property
    def instance(self) -> str:
        """``KIND.NAME.INDEX`` by its labels; empty when it is not ours."""
        return ".".join(self.labels.get(f"io.reconciler.{part}", "") for part in ("kind", "name", "index")).strip(".")

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return bool(self.document["State"]["Running"])

    @property
    def state(self) -> str:
        """Docker's word."""
        return str(self.document["State"]["Status"])

    @property
    def host(self) -> Mapping[str, Any]:
        """Its HostConfig."""
        settings: Mapping[str, Any] = self.document["HostConfig"]
        return settings

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        labels: Mapping[str, str] = self.document["Config"]["Labels"] or {}
        return labels

    @property
    def ours(self) -> bool:
        """Whether it carries the cluster's label."""
        return self.labels.get("io.reconciler.cluster") == "lab"

    @property
    def cards(self) -> tuple[str, ...]:
        """Ids of its device requests."""
        return tuple(one for request in self.host.get("DeviceRequests") or () for one in request["DeviceIDs"] or ())


@dataclass(slots=True)
class Lab:
    """A repository, a state directory and the Engine that its containers run on."""

    folder: Path
    engine: str
    state: Path = field(init=False)
    repo: Path = field(init=False)
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.repo, self.state = self.folder / "repo", self.folder / "state"

    def commit(self, files: Mapping[str, str | None]) -> str:
        """Commit files (None deletes one); the hash."""
        return commit(self.repo, files)

    def begin(self, files: Mapping[str, str | None], *, engine: str = "", more: str = "", prune: str = "") -> str:
        """Commit a cluster, its host and ``files``; ``more`` goes into the Host document, ``prune`` into Cluster."""
        base = {"cluster.yaml": cluster(prune), "host.yaml": host(engine or self.engine, more), "facts.json": facts()}
        return self.commit({**base, **files})

    def spawn(self, *arguments: str, state: Path | None = None, **streams: Any) -> "subprocess.Popen[str]":
        """Start the command on this repository."""
        command = [str(Path(sys.executable).with_name("reconcile")), *arguments]
        settings = {"RECONCILE_REPO": str(self.repo), "RECONCILE_STATE_DIR": str(state or self.state)}
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **settings, **self.environment}
        root = Path(__file__).parents[2]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        return subprocess.Popen(command, env=environment, cwd=root, text=True, stdin=subprocess.DEVNULL, **streams)

    def run(self, *arguments: str, code: int | None = 0, state: Path | None = None) -> Done:
        """Run the command to its end; ``code`` is the exit code that it must have (None: any)."""
        with self.spawn(*arguments, state=state) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        done = Done(process.returncode, out, err)
        assert code in {None, done.code}, f"{arguments}: exit {done.code}\n{out}\n{err}"
        assert "Traceback" not in err, err
        return done

    def plan(self) -> Any:
        """What a dry run plans, as JSON."""
        return self.run("--dry-run", "--json").json

    @staticmethod
    def plan_of(file: Path) -> Any:
        """A plan that was saved."""
        return json.loads(file.read_text())

    def settled(self) -> None:
        """Assert that there is nothing left to do."""
        done = self.run("--dry-run", "--detailed-exitcode")
        assert done.out.splitlines()[-1] == "No changes.", done.out

    @contextlib.contextmanager
    def client(self) -> Iterator[APIClient]:
        """A client of the Engine past our own code."""
        with contextlib.closing(APIClient(base_url=self.engine, version="1.41", timeout=60)) as client:
            yield client

    def boxes(self) -> list[Box]:
        """Every container of the Engine, by name; those that go away meanwhile are left out."""
        found = []
        with self.client() as client:
            for entry in client.containers(all=True):
                with contextlib.suppress(client_error()):
                    found.append(Box(client.inspect_container(entry["Id"])))
        return sorted(found, key=lambda box: box.name)

    def running(self) -> dict[str, Box]:
        """Our running containers by ``KIND.NAME.INDEX``; asserts that none is there twice."""
        boxes = [box for box in self.boxes() if box.ours and box.running]
        by_instance = {box.instance: box for box in boxes}
        assert len(by_instance) == len(boxes), [box.name for box in boxes]
        return by_instance

    def by_hand(self, name: str, body: Mapping[str, Any] | None = None, *, start: bool = True, **settings: Any) -> str:
        """A container that somebody makes past us; its id. ``settings`` are its HostConfig."""
        with self.client() as client:
            whole = {"Image": IMAGE, "Cmd": ["sleep", "100000"], "StopSignal": "SIGKILL", **(body or {})}
            config: dict[str, Any] = {**whole, "HostConfig": settings}
            made = client.create_container_from_config(config, name)  # type: ignore[no-untyped-call] # so are its stubs
            if start:
                client.start(made["Id"])
        return str(made["Id"])


def client_error() -> type[Exception]:
    """What docker-py raises when a container is gone."""
    from docker.errors import NotFound  # noqa: PLC0415 - keeps the import of this module light

    return NotFound


def owners(boxes: Sequence[Box]) -> dict[str, list[str]]:
    """Names of the live containers that were given each card or slice."""
    out: dict[str, list[str]] = {}
    for box in boxes:
        if box.state in {"running", "restarting", "paused"}:
            for card in box.cards:
                out.setdefault(card, []).append(box.name)
    return out


def assert_no_card_twice(boxes: Sequence[Box]) -> None:
    """No card and no slice has two owners that live."""
    twice = {card: names for card, names in owners(boxes).items() if len(names) > 1}
    assert not twice


class RunningDaemon:
    """``reconcile daemon``, and the lines that it has logged."""

    def __init__(self, lab: Lab, *arguments: str, state: Path | None = None) -> None:
        self.process = lab.spawn("daemon", "--json", *arguments, state=state, stdout=subprocess.DEVNULL)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self.lines.extend(line.rstrip("\n") for line in stream)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every line as JSON; a line that is none is an error."""
        return [json.loads(line) for line in list(self.lines)]

    def said(self, what: str, kind: str = "") -> list[dict[str, Any]]:
        """Events whose message has ``what``."""
        return [one for one in self.events if what in one["message"] and kind in {"", one["kind"]}]

    def wait_for(self, look: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        """As ``waiting.wait_for``, and fails at once when the daemon has ended."""

        def alive() -> Any:
            found = look()
            assert found or self.process.poll() is None, f"the daemon has left: {self.lines}"
            return found

        try:
            return wait_for(alive, what, seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it said {self.lines}") from None

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def finish(self) -> int:
        """Its exit code, once it has left."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


@contextlib.contextmanager
def daemon(lab: Lab, *arguments: str, state: Path | None = None) -> Iterator[RunningDaemon]:
    """A running daemon, which is gone afterwards."""
    running = RunningDaemon(lab, *arguments, state=state)
    try:
        yield running
    finally:
        running.process.kill()
        running.finish()
