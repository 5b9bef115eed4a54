"""Executor and observer on both implementations of the Protocols: what is made is what is seen, and nothing is owed."""

import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.actual.facts import facts_to_json
from reconciler.actual.observe import Observer
from reconciler.engine.open import open_engine
from reconciler.engine.protocols import Writer
from reconciler.executor.apply import Executor
from reconciler.model.desired import Cluster, Desired
from reconciler.model.host import HostSpec
from reconciler.model.limits import limits_for, update_fields
from reconciler.model.plan import Action, ActionKind, Outcome, Plan, Step, StepKind
from reconciler.model.resources import Request, WholeGpus
from reconciler.model.snapshot import Container, Snapshot
from reconciler.model.workload import (
    Allocation,
    ConfigFile,
    ContainerSpec,
    HealthCheck,
    InstanceId,
    Kind,
    Port,
    SecretFile,
    SecretRef,
    Tmpfs,
    Ulimit,
    Volume,
    Workload,
    digest_of,
    spec_on_host,
)
from tests.engine.dockerd import Bed
from tests.fakes.door import IMAGE, Door
from tests.fakes.waiting import wait_for
from tests.fakes.workloads import GPUS, facts

MIB = 1024**2
TOKEN = SecretRef("hf", "token")
MAKE = (StepKind.PULL, StepKind.CREATE, StepKind.FILES, StepKind.START)


def config(path: str, content: bytes, mode: int = 0o444) -> ConfigFile:
    """A config file as ``desired`` makes it."""
    return ConfigFile(path, hashlib.sha256(content).hexdigest(), mode, content)


RICH = Workload(
    Kind.APP,
    "web",
    ContainerSpec(
        IMAGE,
        command=("sleep",),
        args=("1000",),
        user="1000:1000",
        group_add=("44",),
        env=(("A", "b"), ("TOKEN", TOKEN)),
        init=True,
        gpus=WholeGpus(1),
        shm=128 * MIB,
        ulimits=(Ulimit("nofile", 1000),),
        ports=(Port(80, "http", 8080),),
        volumes=(Volume("/v", volume="vol"), Volume("/in", host="/tmp", read_only=True)),
        configs=(config("/etc/deep/er/x.conf", b"hello"), config("/tmp/run.sh", b"true", 0o755)),
        secret_files=(SecretFile("/run/secrets/token", TOKEN, 0o444),),
        tmpfs=(Tmpfs("/scratch", MIB),),
        cap_drop=("ALL",),
        security_opt=("no-new-privileges",),
        hostname="hh",
        extra_hosts=("a:10.0.0.2",),
        health=HealthCheck(("true",), 1, 1, 2, 1),
        stop_signal="SIGKILL",
    ),
    Request(2000, exclusive=True, memory=64 * MIB),
    pids=100,
)
GIVEN = Allocation(
    gpus=GPUS[:1], cpus=(2, 3), cpu_nodes=(0,), memory_nodes=(0,), memory=64 * MIB, ports=((80, "tcp", 8080),)
)
PLAIN = Workload(
    Kind.APP,
    "plain",
    ContainerSpec(IMAGE, args=("sleep", "1000"), stop_signal="SIGKILL"),
    Request(1000, exclusive=True),
)


class Fleet:
    """One host behind a door, an observer of it and as many executors as a test asks for."""

    def __init__(self, door: Door, directory: Path) -> None:
        self.door = door
        self.spec = HostSpec(door.reader.host, "test://", facts_json=json.dumps(facts_to_json(facts())))
        self.observer = Observer(lambda _: door.reader)
        self.executor = self.another()
        self.cluster = Cluster("lab", secrets_dir=str(directory), secrets_key=("hf", "token"))
        (directory / "hf").mkdir(exist_ok=True)
        (directory / "hf" / "token").write_text("t0ken\n")

    def another(self, writer: Writer | None = None) -> Executor:
        """Another executor, as a second daemon would have."""
        return Executor(
            lambda _: (self.door.reader, writer or self.door.writer), touched=self.observer.forget, patience=30
        )

    def look(self) -> Snapshot:
        """The host as it is now."""
        return self.observer.observe([self.spec], "lab")

    def seen(self, name: str = "lab.app.web.0.g1") -> Container:
        """One container as it is now."""
        (view,) = self.look().hosts
        assert view.reason == ""
        return next(one for one in view.containers if one.name == name)

    def action(
        self,
        workload: Workload,
        allocation: Allocation,
        *kinds: StepKind,
        container: str = "",
        fields: tuple[tuple[str, Any], ...] = (),
    ) -> Action:
        """Steps for the first instance of a workload."""
        instance = InstanceId(workload.kind, workload.name, "0")
        name, form = instance.container_name("lab", 1), spec_on_host(workload.container, ())
        steps = tuple(Step(kind, self.spec.name, name, container, fields=fields) for kind in kinds or MAKE)
        return Action(
            ActionKind.START, instance, self.spec.name, "", steps, workload, allocation,
            digest=digest_of(form), generation=1, spec=form,
        )  # fmt: skip

    def apply(
        self, *actions: Action, executor: Executor | None = None, snapshot: Snapshot | None = None
    ) -> list[Outcome]:
        """One pass."""
        plan = Plan("lab", "3f2a", "", "", actions)
        seen = snapshot or self.look()
        return (executor or self.executor).apply(plan, seen, Desired(self.cluster, (), (self.spec,)))


@pytest.fixture
def fleet(door: Door, tmp_path: Path) -> Iterator[Fleet]:
    """The fleet of this test."""
    made = Fleet(door, tmp_path)
    yield made
    made.executor.shutdown()


def test_what_is_made_is_what_is_seen(fleet: Fleet) -> None:
    """Every field at once: the Engine takes it, the labels read back, and there is nothing to update."""
    (outcome,) = fleet.apply(fleet.action(RICH, GIVEN))
    assert (outcome.error, outcome.done) == ("", MAKE)
    one = fleet.seen()
    assert one.ours is not None
    assert (one.ours.allocation, one.ours.commit, one.state) == (GIVEN, "3f2a", "running")
    assert one.ours.digest == digest_of(one.ours.spec) == digest_of(spec_on_host(RICH.container, ()))
    assert update_fields(limits_for(RICH, GIVEN), one.limits) == ()
    assert (one.holding.gpus, one.holding.cpus, one.holding.ports) == (
        frozenset(GPUS[:1]),
        (2, 3),
        (("", 8080, "tcp"),),
    )
    wait_for(lambda: fleet.seen().health == "healthy", "the health check")


def test_files_stand_where_they_were_put(bed: Bed, engine: str, tmp_path: Path) -> None:
    """Owned by root with their modes, in folders that others may enter; the image's own folders are as they were."""
    reader, writer = open_engine("host-1", engine, tmp_path)
    fleet = Fleet(Door("docker", reader, writer), tmp_path)
    (outcome,) = fleet.apply(fleet.action(RICH, GIVEN))
    shown = bed.inside(
        outcome.created, "stat", "-c", "%n %a %u", "/etc/deep/er", "/etc/deep/er/x.conf", "/tmp", "/tmp/run.sh"
    )
    assert shown.splitlines() == ["/etc/deep/er 755 0", "/etc/deep/er/x.conf 444 0", "/tmp 1777 0", "/tmp/run.sh 755 0"]
    assert bed.inside(outcome.created, "cat", "/etc/deep/er/x.conf", "/run/secrets/token") == "hellot0ken\n"
    reader.close()
    writer.close()


@pytest.mark.parametrize(
    ("workload", "allocation"),
    [
        (PLAIN, Allocation(cpus=(4, 5), memory=512 * MIB)),
        (PLAIN, Allocation(cpus=(0,), memory_nodes=(1,), memory=512 * MIB)),
        (replace(PLAIN, request=Request(1000, exclusive=True, memory=32 * MIB)), Allocation(cpus=(0,))),
        (replace(PLAIN, request=Request(1000, exclusive=True, memory=900 * MIB)), Allocation(cpus=(0,))),
        (replace(PLAIN, request=Request(1500, exclusive=False)), Allocation(cpus=(0, 1, 2), exclusive=False)),
        (replace(PLAIN, pids=50), Allocation(cpus=(0,))),
        (replace(PLAIN, restart="no"), Allocation(cpus=(0,))),
    ],
    ids=["cores", "memory node", "less memory", "more memory", "quota", "pids", "restart"],
)
def test_updates_are_taken_and_seen(fleet: Fleet, workload: Workload, allocation: Allocation) -> None:
    """Each limit changes in place, the next look sees it, and then nothing is left to update."""
    before = Allocation(cpus=(0,), memory_nodes=(0,), memory=512 * MIB)
    (made,) = fleet.apply(fleet.action(PLAIN, before))
    want = limits_for(workload, allocation)
    fields = update_fields(want, fleet.seen("lab.app.plain.0.g1").limits)
    assert fields
    (outcome,) = fleet.apply(fleet.action(PLAIN, before, StepKind.UPDATE, container=made.created, fields=fields))
    assert outcome.error == ""
    assert update_fields(want, fleet.seen("lab.app.plain.0.g1").limits) == ()


def test_stop_and_remove(fleet: Fleet) -> None:
    """A stopped container is seen exited with its code, a removed one is gone, and both can be asked for again."""
    (made,) = fleet.apply(fleet.action(PLAIN, Allocation()))
    stop = fleet.action(PLAIN, Allocation(), StepKind.STOP, container=made.created)
    remove = fleet.action(PLAIN, Allocation(), StepKind.REMOVE, container=made.created)
    assert [one.done for one in fleet.apply(stop)] == [(StepKind.STOP,)]
    one = fleet.seen("lab.app.plain.0.g1")
    assert (one.state, one.exit_code) == ("exited", 137)
    for _ in range(2):
        assert [one.error for one in fleet.apply(stop, remove)] == ["", ""]
    assert fleet.look().hosts[0].containers == ()


class Killed(BaseException):
    """Our process ends here, as with SIGKILL: nothing behind it runs."""


class Mortal:
    """A Writer whose process dies just before or just after its n-th change."""

    def __init__(self, writer: Writer, at: int, *, after: bool) -> None:
        self.host = writer.host
        self._writer = writer
        self._left = at
        self._after = after
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Each method of the Writer, counted."""
        method: Callable[..., Any] = getattr(self._writer, name)

        def call(*args: Any, **more: Any) -> Any:
            with self._lock:
                self._left -= 1
                dies = self._left == 0
            if dies and not self._after:
                raise Killed
            answer = method(*args, **more)
            if dies:
                raise Killed
            return answer

        return call


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_killed_at_any_call(fleet: Fleet, at: int, *, after: bool) -> None:
    """Create, files, start: whatever was done when the process died, the same action brings it up, once."""
    action = fleet.action(RICH, GIVEN)
    mortal: Any = Mortal(fleet.door.writer, at, after=after)
    with pytest.raises(Killed):
        fleet.apply(action, executor=fleet.another(mortal))
    (outcome,) = fleet.apply(action)
    assert outcome.error == ""
    (view,) = fleet.look().hosts
    assert [(one.name, one.state) for one in view.containers] == [("lab.app.web.0.g1", "running")]


def test_of_many_executors_one_makes_it(fleet: Fleet) -> None:
    """However many daemons start one instance at once, there is one container, and nobody fails."""
    action, before = fleet.action(PLAIN, Allocation()), fleet.look()
    executors = [fleet.another() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda one: fleet.apply(action, executor=one, snapshot=before)[0], executors))
    assert [outcome.error for outcome in outcomes] == [""] * 4
    assert len({outcome.created for outcome in outcomes}) == 1
    assert len(fleet.look().hosts[0].containers) == 1


def test_no_card_runs_twice(fleet: Fleet) -> None:
    """Four claimants of one card at once, whose makers do not know of one another: never do two of them run."""
    before = fleet.look()
    names = itertools.count()

    def claim(executor: Executor) -> str:
        workload = replace(PLAIN, name=f"claim-{next(names)}", container=replace(PLAIN.container, gpus=WholeGpus(1)))
        (outcome,) = fleet.apply(fleet.action(workload, Allocation(gpus=GPUS[:1])), executor=executor, snapshot=before)
        return outcome.error

    with ThreadPoolExecutor(4) as pool:
        errors = list(pool.map(claim, [fleet.another() for _ in range(4)]))
    running = [one for one in fleet.look().hosts[0].containers if one.running]
    assert len(running) <= 1
    assert errors.count("") == len(running)
    assert all(error.startswith(f"{GPUS[0]} is held by lab.app.claim-") for error in errors if error)


def test_a_foreign_container_keeps_its_card(fleet: Fleet) -> None:
    """Somebody took the card by hand after the plan was made: ours is removed again, theirs runs on."""
    before = fleet.look()
    theirs = fleet.door.run(DeviceRequests=[{"Driver": "nvidia", "DeviceIDs": [GPUS[0]], "Capabilities": [["gpu"]]}])
    (outcome,) = fleet.apply(fleet.action(RICH, GIVEN), snapshot=before)
    assert "which was there first" in outcome.error
    assert [one.id for one in fleet.look().hosts[0].containers] == [theirs]


def test_a_start_that_fails_says_why(fleet: Fleet) -> None:
    """The Engine's own reason is in the error and on the container, which stays created."""
    holder = fleet.door.run(
        {"ExposedPorts": {"80/tcp": {}}}, PortBindings={"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]}
    )
    workload = replace(PLAIN, container=replace(PLAIN.container, network="nowhere"))
    (outcome,) = fleet.apply(fleet.action(workload, Allocation()))
    assert "nowhere" in outcome.error
    assert "\n" not in outcome.error
    one = fleet.seen("lab.app.plain.0.g1")
    assert (one.state, one.id != holder) == ("created", True)


def test_what_happens_by_itself_is_seen(fleet: Fleet) -> None:
    """Stopped, started, renamed, removed by somebody else between two looks: the next look shows it."""
    fleet.look()
    container = fleet.door.run(name="by-hand")
    assert fleet.seen("by-hand").state == "running"
    fleet.door.writer.stop(container, 0)
    assert fleet.seen("by-hand").state == "exited"
    fleet.door.writer.start(container)
    again = fleet.seen("by-hand")
    assert again.state == "running"
    fleet.door.writer.rename(container, "renamed")
    assert fleet.seen("renamed").started_at == again.started_at
    fleet.door.writer.stop(container, 0)
    fleet.door.writer.start(container)
    assert fleet.seen("renamed").started_at != again.started_at
    fleet.door.writer.remove(container, force=True)
    assert fleet.look().hosts[0].containers == ()
