"""Due steps → Engine calls, each with its precondition looked at just before."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.actual.containers import decode
from reconciler.actual.labels import PREFIX
from reconciler.errors import ConflictError, EngineError, NotFoundError, ReconcilerError, UnreachableError
from reconciler.executor.apply import Executor
from reconciler.model.desired import Cluster, Desired
from reconciler.model.host import GpuMode, HostSpec
from reconciler.model.plan import Action, ActionKind, Existing, Outcome, Plan, Step, StepKind
from reconciler.model.resources import AllGpus, GpuShare, MigSlices, Request, WholeGpus
from reconciler.model.snapshot import HostView, Reach, Snapshot
from reconciler.model.workload import Allocation, Port, Share, Slice, Workload, digest_of, spec_on_host
from tests.fakes.engine import FakeEngine, refused
from tests.fakes.workloads import GPUS, HOST, app, body_of, facts, instance_of

NAME = "lab.app.web.0.g1"
LOST = UnreachableError("h", "no answer in time")
PULL, CREATE, FILES, START = StepKind.PULL, StepKind.CREATE, StepKind.FILES, StepKind.START
STOP, REMOVE, UPDATE, RENAME = StepKind.STOP, StepKind.REMOVE, StepKind.UPDATE, StepKind.RENAME
ALLOCATION = Allocation(gpus=GPUS[:1], cpus=(0, 1), memory=512 * 1024**2)


class World:
    """Hosts with an Engine each, and an executor over them."""

    def __init__(self, *names: str, patience: float = 10.0, **spec: Any) -> None:
        self.engines = {name: FakeEngine(name) for name in names or ("h",)}
        self.specs = {name: replace(HOST, name=name, **spec) for name in self.engines}
        self.touched: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.executor = Executor(
            lambda spec: (self.engines[spec.name], self.engines[spec.name]),
            progress=lambda host, line: self.lines.append(f"{host}: {line}"),
            touched=lambda host, container: self.touched.append((host, container)),
            patience=patience,
        )

    @property
    def engine(self) -> FakeEngine:
        """The only one."""
        (engine,) = self.engines.values()
        return engine

    def snapshot(self) -> Snapshot:
        """Everything as it is now."""
        views = []
        for name, engine in self.engines.items():
            there = tuple(decode(document, "lab", facts=facts()) for document in engine.containers.values())
            views.append(HostView(self.specs[name], Reach.KNOWN, facts(), there))
        return Snapshot(tuple(views))

    def apply(self, *actions: Action, snapshot: Snapshot | None = None) -> list[Outcome]:
        """One pass."""
        plan = Plan("lab", "3f2a", "repo", "sha256:0", actions)
        desired = Desired(Cluster("lab"), (), tuple(self.specs.values()))
        return self.executor.apply(plan, snapshot or self.snapshot(), desired)

    def one(self, action: Action, snapshot: Snapshot | None = None) -> Outcome:
        """One pass with one action."""
        (outcome,) = self.apply(action, snapshot=snapshot)
        return outcome

    def changes(self) -> list[str]:
        """The names of the calls that change something."""
        return [call[0] for host in self.engines.values() for call in host.calls if call[0] in WRITES]


WRITES = {"pull", "create", "put_archive", "start", "stop", "remove", "update", "rename"}


def make(
    workload: Workload | None = None,
    *kinds: StepKind,
    host: str = "h",
    allocation: Allocation = ALLOCATION,
    container: str = "",
    **more: Any,
) -> Action:
    """A start of app/web/0 by these steps."""
    work = workload or app(gpus=WholeGpus(1))
    spec = spec_on_host(work.container, HOST.env)
    steps = tuple(Step(kind, host, f"lab.app.{work.name}.0.g1", container) for kind in kinds or (PULL, CREATE, START))
    action = Action(ActionKind.START, instance_of(work), host, "1 desired, 0 running", steps, work, allocation)
    return replace(action, digest=digest_of(spec), spec=spec, generation=1, **more)


def on(container: str, kind: StepKind, host: str = "h", **fields: Any) -> Action:
    """One step on a container that is there."""
    step = Step(kind, host, NAME, container, fields=tuple(fields.items()))
    return Action(ActionKind.UPDATE, instance_of(app()), host, "", (step,), app())


def a_body(**more: Any) -> dict[str, Any]:
    """The body of app/web/0 with one card."""
    return body_of(app(gpus=WholeGpus(1)), ALLOCATION, **more)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def test_a_start() -> None:
    """Pull only looks at an image that is there; the container is made, looked at, and started; all steps are done."""
    world = World()
    outcome = world.one(make())
    (container,) = world.engine.containers
    assert (outcome.done, outcome.error, outcome.in_motion, outcome.created) == (
        (PULL, CREATE, START),
        "",
        False,
        container,
    )
    assert world.changes() == ["create", "start"]
    document = world.engine.containers[container]
    assert (document["Name"], document["State"]["Status"]) == (f"/{NAME}", "running")
    ours = decode(document, "lab").ours
    assert ours is not None
    assert (str(ours.instance), ours.allocation, ours.commit, ours.digest) == (
        "app/web/0",
        ALLOCATION,
        "3f2a",
        digest_of(ours.spec),
    )
    assert ("h", container) in world.touched


def test_only_due_steps_are_issued() -> None:
    """A step that is not due waits, and an action without due steps has no outcome."""
    world = World()
    action = make(None, PULL, CREATE, START, StepKind.READY)
    waiting = replace(action, steps=tuple(replace(step, due=step.kind is PULL) for step in action.steps))
    nothing = replace(action, steps=tuple(replace(step, due=False) for step in action.steps))
    assert [outcome.done for outcome in world.apply(waiting, nothing)] == [(PULL,)]
    assert world.one(action).done == (PULL, CREATE, START)


def test_a_cluster_is_needed() -> None:
    """Without one nothing can be named."""
    with pytest.raises(ReconcilerError, match="Cluster"):
        World().executor.apply(Plan("", None, "", ""), Snapshot(()), Desired(None, (), ()))


def test_what_it_replaces_is_on_the_label() -> None:
    """A half-done replacement is recognised by the generation that it takes over from."""
    world = World()
    old = Existing("id", "lab.app.web.0.g4", "h", 4, ALLOCATION)
    world.one(make(old=old))
    (document,) = world.engine.containers.values()
    assert document["Config"]["Labels"][PREFIX + "replaces"] == "4"


# -- pull


def test_missing_pulls_what_is_missing() -> None:
    """A missing image is pulled once, with progress, and the create follows in the same pass when that is quick."""
    world = World()
    world.engine.images.clear()
    assert world.one(make()).done == (PULL, CREATE, START)
    assert world.changes() == ["pull", "create", "start"]
    assert world.lines == ["h: pulled img:1"]


def test_a_slow_pull_outlasts_the_pass() -> None:
    """It is in motion, nothing after it is done, later passes do not begin it again, and the last one goes on."""
    world, release = World(patience=0.0), threading.Event()
    world.engine.images.clear()
    world.engine.before["pull"] = lambda: _wait(release)
    for _ in range(2):
        outcome = world.one(make())
        assert (outcome.done, outcome.in_motion, outcome.error) == ((), True, "")
    assert world.executor.in_motion == {("pull", "h", "img:1")}
    assert world.executor.busy
    release.set()
    until(lambda: not world.executor.busy)
    assert world.one(make()).done == (PULL, CREATE, START)
    assert world.changes() == ["pull", "create", "start"]


def _wait(event: threading.Event) -> None:
    assert event.wait(10)


def test_always_pulls_once_for_each_container() -> None:
    """The result of a pull serves one create; the next container pulls again."""
    world = World()
    first = make(replace(app("a"), pull="always"), allocation=Allocation())
    second = make(replace(app("b"), pull="always"), allocation=Allocation())
    world.apply(first, second)
    assert world.changes() == ["pull", "create", "start"] * 2


def test_always_does_not_pull_again_before_the_create() -> None:
    """A replacement whose pull is due and whose create is not keeps the result, pass after pass."""
    world = World()
    action = make(replace(app(), pull="always"))
    waiting = replace(action, steps=tuple(replace(step, due=step.kind is PULL) for step in action.steps))
    assert [world.one(waiting).done for _ in range(3)] == [(PULL,)] * 3
    assert world.one(action).done == (PULL, CREATE, START)
    assert world.changes() == ["pull", "create", "start"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (refused("pull img:1: access denied"), "pull img:1: access denied"),
        (UnreachableError("h", "no answer in time"), "pull img:1: no answer in time"),
    ],
)
def test_a_failed_pull_stops_nothing(error: EngineError, text: str) -> None:
    """A failed pull is the action's error, the old container goes on, the host is not given up, the next try pulls."""
    world = World()
    world.engine.images.clear()
    world.engine.errors["pull"] = [error]
    old = world.engine.add(NAME, a_body())
    action = make(app("b"), PULL)
    stop = replace(action, steps=(*action.steps, Step(STOP, "h", NAME, old)))
    outcome = world.one(stop)
    assert (outcome.done, outcome.error, outcome.unreachable) == ((), text, False)
    assert world.engine.containers[old]["State"]["Status"] == "running"
    assert world.one(action).done == (PULL,)
    assert len(world.engine.named("pull")) == 2


def test_a_bug_in_a_job_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of ours in the background fails its action aloud."""
    world = World()
    world.engine.images.clear()

    def fault() -> None:
        raise KeyError("layer")

    world.engine.before["pull"] = fault
    assert world.one(make()).error == "internal error: KeyError: 'layer'"
    assert "pull img:1 on h failed" in caplog.text


def test_results_that_nobody_wants_are_dropped() -> None:
    """A pull whose workload left git leaves nothing behind."""
    world = World()
    action = make(replace(app(), pull="always"), PULL)
    world.one(action)
    world.apply()
    assert world.executor._jobs._jobs == {}


# -- create


def test_a_create_that_was_made_already_is_adopted() -> None:
    """The name is taken by the very container that was to be made: it is used."""
    world = World()
    container = world.engine.add(NAME, a_body(), state="created")
    outcome = world.one(make(), snapshot=World().snapshot())
    assert (outcome.done, outcome.created, outcome.error) == ((PULL, CREATE, START), container, "")


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ({PREFIX + "digest": "v1:other"}, "the name lab.app.web.0.g1 is taken by another version"),
        ({PREFIX + "cluster": "other"}, "the name lab.app.web.0.g1 is taken by another container: it is not ours"),
        ({PREFIX + "spec": "{"}, "taken by another container: the label io.reconciler.spec cannot be read"),
    ],
)
def test_a_taken_name(labels: dict[str, str], text: str) -> None:
    """Whatever else has the name is left alone, and the error says what it is."""
    world = World()
    body = a_body()
    body["Labels"] |= labels
    world.engine.add(NAME, body)
    outcome = world.one(make(), snapshot=World().snapshot())
    assert text in outcome.error
    assert (outcome.done, world.changes()) == ((PULL,), ["create"])


def test_a_name_that_is_free_again() -> None:
    """Taken when asked, and nothing to be seen: the next pass tries again."""
    world = World(patience=0.0)
    world.engine.errors["create"] = [ConflictError("h", "the name is in use", 409)]
    assert "the next pass looks again" in world.one(make(None, CREATE)).error


def test_a_name_is_taken_before_its_holder_is_shown() -> None:
    """The Engine gives a name away a moment before inspect finds the container: that moment is waited for."""
    world = World()
    world.engine.add(NAME, a_body(), state="created")
    world.engine.errors["inspect_container"] = [NotFoundError("h", "No such container", 404)] * 3
    assert world.one(make(), snapshot=World().snapshot()).error == ""


def test_a_create_without_its_image() -> None:
    """``pull: never`` and no image: the Engine's own words."""
    world = World()
    world.engine.images.clear()
    outcome = world.one(make(None, CREATE, START))
    assert (outcome.error, outcome.done) == ("No such image: img:1", ())


@pytest.mark.parametrize(("cards", "requests"), [(True, [{"Driver": "nvidia", "Count": -1}]), (False, [])])
def test_observers_on_hosts_without_cards(requests: list[dict[str, Any]], *, cards: bool) -> None:
    """An exporter runs on a host without cards too: there it asks for none."""
    world = World(gpu_mode=GpuMode.PASSTHROUGH)
    snapshot = world.snapshot()
    if not cards:
        (view,) = snapshot.hosts
        snapshot = Snapshot((replace(view, facts=replace(facts(), gpus=())),))
    world.one(make(app(gpus=AllGpus()), allocation=Allocation()), snapshot=snapshot)
    (document,) = world.engine.containers.values()
    made = document["HostConfig"]["DeviceRequests"]
    assert [{"Driver": one["Driver"], "Count": one["Count"]} for one in made] == requests


def test_nothing_is_made_on_a_slice_that_is_not_cut() -> None:
    """Whatever a plan says: an empty id would be no slice to the Engine."""
    world = World()
    allocation = Allocation(mig=(Slice(GPUS[3], "1g.10gb", 2),))
    outcome = world.one(make(app(gpus=MigSlices("1g.10gb")), allocation=allocation))
    assert outcome.error == f"the 1g.10gb of {GPUS[3]} at 2 is not cut yet"
    assert world.changes() == []


def test_a_slice_is_cut_by_an_operator() -> None:
    """The step is there for people to read: it is no call, and an action that has only this one is left alone."""
    world = World()
    assert world.apply(make(None, StepKind.CUT, StepKind.READY)) == []
    assert world.engine.calls == []


# -- start: looking once more


def rival(world: World, *, body: dict[str, Any] | None = None, **more: Any) -> str:
    """A container that was not there when the plan was made and wants the same card."""
    return world.engine.add("lab.app.rival.0.g1", body or rival_body(), **more)


def rival_body(**container: Any) -> dict[str, Any]:
    """The body of another app with the same card."""
    return body_of(app("rival", **({"gpus": WholeGpus(1)} | container)), ALLOCATION)


EARLY, LATE = "2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("state", "created", "starts"),
    [
        ("created", LATE, True),
        ("created", EARLY, False),
        ("running", LATE, False),
        ("running", EARLY, False),
        ("restarting", LATE, False),
        ("exited", EARLY, False),
        ("exited", LATE, True),
    ],
)
def test_two_claimants_of_one_card(state: str, created: str, *, starts: bool) -> None:
    """Of two that stand still the later created removes itself; one that runs stays (an exited one can be revived)."""
    world = World()
    world.engine.before["create"] = lambda: rival(world, state=state, created=created)
    outcome = world.one(make())
    assert (outcome.error == "") is starts
    if starts:
        assert outcome.done == (PULL, CREATE, START)
    else:
        assert outcome.error.startswith(f"{GPUS[0]} is held by lab.app.rival.0.g1, which was there first")
        assert [one["Name"] for one in world.engine.containers.values()] == ["/lab.app.rival.0.g1"]


def test_both_looked_and_one_starts() -> None:
    """Two executors with the same view of the world never both start on one card."""
    world = World()
    before = world.snapshot()
    other = World()
    other.engines = world.engines
    first, second = make(app("a", gpus=WholeGpus(1))), make(app("b", gpus=WholeGpus(1)))
    world.engine.before["start"] = lambda: other.apply(second, snapshot=before)
    outcomes = world.apply(first, snapshot=before)
    assert [outcome.error for outcome in outcomes] == [""]
    states = {one["Name"]: one["State"]["Status"] for one in world.engine.containers.values()}
    assert states == {"/lab.app.a.0.g1": "running"}


def share_of(milli: int) -> Allocation:
    """A share of the first card."""
    return Allocation(share=Share(GPUS[0], milli, 1024**3))


@pytest.mark.parametrize(
    ("others", "starts"),
    [
        ([(500, EARLY)], True),
        ([(300, EARLY), (300, EARLY)], False),
        ([(300, EARLY), (300, LATE)], True),
        ([(600, LATE), (600, LATE)], True),
        ([(600, EARLY)], False),
    ],
    ids=["room", "none left", "one came later", "both came later", "too much for one"],
)
def test_several_claimants_of_one_card(others: list[tuple[int, str]], *, starts: bool) -> None:
    """Of those whose shares exceed the card, the one that was created last removes itself."""
    world = World()

    def come() -> None:
        for number, (milli, created) in enumerate(others):
            body = body_of(app(f"rival{number}", gpus=GpuShare(milli)), share_of(milli))
            world.engine.add(f"lab.app.rival{number}.0.g1", body, state="created", created=created)

    world.engine.before["create"] = come
    outcome = world.one(make(app(gpus=GpuShare(500)), allocation=share_of(500)))
    assert outcome.done == ((PULL, CREATE, START) if starts else (PULL, CREATE))
    assert len(world.engine.containers) == len(others) + starts
    if not starts:
        assert f"of {GPUS[0]} is held by lab.app.rival0.0.g1" in outcome.error
        assert outcome.raced


def test_shares_of_running_containers_stay() -> None:
    """However young they are: who runs is not asked to give way."""
    world = World()
    body = body_of(app("rival", gpus=GpuShare(600)), share_of(600))
    world.engine.before["create"] = lambda: rival(world, body=body, created=LATE)
    outcome = world.one(make(app(gpus=GpuShare(500)), allocation=share_of(500)))
    assert outcome.error.startswith(f"0.6 of {GPUS[0]} is held by lab.app.rival.0.g1, which was there first")


@pytest.mark.parametrize("ours", [True, False])
def test_a_share_and_a_whole_card_clash(ours: bool) -> None:
    """Whoever has the card whole, ours or somebody else."""
    world = World()
    body = rival_body() if ours else {**rival_body(), "Labels": {}}
    world.engine.before["create"] = lambda: rival(world, body=body)
    outcome = world.one(make(app(gpus=GpuShare(100)), allocation=share_of(100)))
    assert outcome.error.startswith(f"{GPUS[0]} is held by lab.app.rival.0.g1")


@pytest.mark.parametrize(
    ("host_config", "held"),
    [
        ({"DeviceRequests": [{"Driver": "", "Capabilities": [["gpu"]], "DeviceIDs": ["0"]}]}, "GPU-"),
        ({"Privileged": True}, "GPU-"),
        ({"CpusetCpus": "1-3"}, "CPU 1 "),
        ({"CpusetCpus": "2-3"}, ""),
        ({"DeviceRequests": [{"Driver": "", "Capabilities": [["gpu"]], "DeviceIDs": ["1"]}]}, ""),
        ({"PortBindings": {"1/tcp": [{"HostIp": "10.0.0.1", "HostPort": "80"}]}}, "port 80/tcp "),
        ({"PortBindings": {"1/udp": [{"HostIp": "", "HostPort": "80"}]}}, ""),
    ],
)
def test_foreign_containers_are_never_outwaited(host_config: dict[str, Any], held: str) -> None:
    """What somebody started by hand meanwhile stays, however young it is."""
    world = World()
    body = {"Image": "x", "Labels": {}, "HostConfig": host_config}
    world.engine.before["create"] = lambda: world.engine.add("theirs", body, created=LATE)
    workload = app(gpus=WholeGpus(1), ports=(Port(8000, host=80),))
    outcome = world.one(make(workload, allocation=replace(ALLOCATION, ports=((8000, "tcp", 80),))))
    assert outcome.error.startswith(held) if held else outcome.error == ""
    assert ("theirs is held" in outcome.error) is False
    assert len(world.engine.containers) == (1 if held else 2)


@pytest.mark.parametrize(
    ("other", "mine", "starts"),
    [
        ((80, ""), (80, "10.0.0.1"), False),
        ((80, "10.0.0.1"), (80, "10.0.0.2"), True),
        ((81, ""), (80, ""), True),
    ],
)
def test_ports_clash_by_address(other: tuple[int, str], mine: tuple[int, str], *, starts: bool) -> None:
    """The same port on different addresses is no clash; every address is."""
    world = World()
    theirs = app("rival", ports=(Port(8000, host=other[0], host_ip=other[1]),))
    world.engine.add("lab.app.rival.0.g1", body_of(theirs, Allocation(ports=((8000, "tcp", other[0]),))))
    workload = app(ports=(Port(8000, host=mine[0], host_ip=mine[1]),))
    outcome = world.one(make(workload, allocation=Allocation(ports=((8000, "tcp", mine[0]),))))
    assert (outcome.error == "") is starts


def test_ports_in_the_hosts_network_clash_too() -> None:
    """What is opened directly is on no binding, and on the label of the allocation."""
    world = World()
    theirs = app("rival", network="host", ports=(Port(8000),))
    world.engine.add("lab.app.rival.0.g1", body_of(theirs, Allocation(ports=((8000, "tcp", 8000),))))
    workload = app(ports=(Port(80, host=8000),))
    outcome = world.one(make(workload, allocation=Allocation(ports=((80, "tcp", 8000),))))
    assert outcome.error.startswith("port 8000/tcp is held by lab.app.rival.0.g1")


@pytest.mark.parametrize(
    ("request_", "starts"), [(Request(1000, exclusive=False), True), (Request(1000, exclusive=True), False)]
)
def test_only_exclusive_cores_clash(request_: Request, *, starts: bool) -> None:
    """Shared work floats over cores that it does not own; its cpuset is narrowed by the plan."""
    world = World()
    theirs = replace(app("rival"), request=request_)
    allocation = Allocation(cpus=(0, 1, 2), exclusive=request_.exclusive)
    world.engine.add("lab.app.rival.0.g1", body_of(theirs, allocation))
    assert (world.one(make()).error == "") is starts


def test_an_observer_clashes_with_nobody() -> None:
    """``ignoreContainers`` names what sees every card and holds none."""
    world = World(ignore_containers=("dcgm-*",))
    body = {"Image": "x", "Labels": {}, "HostConfig": {"Privileged": True}}
    world.engine.before["create"] = lambda: world.engine.add("dcgm-exporter", body)
    assert world.one(make()).error == ""


def test_nothing_is_rationed_in_passthrough() -> None:
    """Every container there may have every card; elsewhere that is a clash."""
    outcomes = []
    for mode in (GpuMode.PASSTHROUGH, GpuMode.MANAGED):
        world = World(gpu_mode=mode)
        world.engine.add("theirs", {"Image": "x", "Labels": {}, "HostConfig": {"Privileged": True}})
        outcomes.append(world.one(make(allocation=Allocation(gpus=GPUS[:1]))).error)
    assert outcomes[0] == ""
    assert outcomes[1].startswith(f"{GPUS[0]} is held by theirs")


def test_known_containers_are_not_inspected_again() -> None:
    """Looking once more costs one list call; only what is new or has changed is inspected."""
    world = World()
    for number in range(20):
        world.engine.add(f"c{number}", {"Image": "x", "Labels": {}, "HostConfig": {}})
    snapshot = world.snapshot()
    changed = world.engine.add("new", {"Image": "x", "Labels": {}, "HostConfig": {}})
    world.one(make(), snapshot=snapshot)
    (made,) = {call[1] for call in world.engine.named("inspect_container")} - {changed}
    assert world.engine.containers[made]["Name"] == f"/{NAME}"


def test_an_old_one_that_cannot_start_is_kept() -> None:
    """A container that ran before and whose card is taken now stays as it is: only what was just made is removed."""
    world = World()
    old = world.engine.add(NAME, a_body(), state="exited")
    rival(world)
    outcome = world.one(make(None, START, container=old))
    assert outcome.error == f"{GPUS[0]} is held by lab.app.rival.0.g1: {NAME} stays down"
    assert old in world.engine.containers


# -- start: errors


def test_a_start_that_happened_all_the_same() -> None:
    """An error was reported and the container runs: it was started."""
    world = World()

    def happen() -> None:
        (container,) = world.engine.containers
        world.engine.set_state(container, "running")

    world.engine.before["start"] = happen
    world.engine.errors["start"] = [refused("context canceled")]
    outcome = world.one(make())
    assert (outcome.error, outcome.done) == ("", (PULL, CREATE, START))


def test_a_task_that_started_and_ended() -> None:
    """It exited before its state was read: the start happened."""
    world = World()

    def happen() -> None:
        (container,) = world.engine.containers
        world.engine.set_state(container, "exited", StartedAt="2026-01-01T00:09:00Z")

    world.engine.before["start"] = happen
    world.engine.errors["start"] = [refused("context canceled")]
    assert world.one(make()).error == ""


def test_a_start_that_failed() -> None:
    """The container stays ``created`` and says why."""
    world = World()

    def fail() -> None:
        (container,) = world.engine.containers
        world.engine.set_state(container, "created", Error="unresolvable CDI devices", ExitCode=128)

    world.engine.before["start"] = fail
    world.engine.errors["start"] = [refused("failed to create task")]
    outcome = world.one(make())
    assert outcome.error == f"start {NAME}: unresolvable CDI devices"
    assert (outcome.done, outcome.unreachable, outcome.created != "") == ((PULL, CREATE), False, True)


def test_started_already() -> None:
    """A container that runs needs no start."""
    world = World()
    container = world.engine.add(NAME, a_body())
    assert world.one(make(None, START, container=container)).done == (START,)
    assert world.changes() == []


def test_gone_before_its_start() -> None:
    """There is nothing to start, and that is an error."""
    assert World().one(make(None, START, container="gone")).error == "the container is gone before it was started"


# -- what is there: stop, remove, update, rename


@pytest.mark.parametrize(
    ("kind", "fields", "call"),
    [
        (STOP, {}, "stop"),
        (REMOVE, {}, "remove"),
        (UPDATE, {"CpusetCpus": "0-3"}, "update"),
        (RENAME, {"name": "other"}, "rename"),
    ],
)
def test_only_ours_are_changed(kind: StepKind, fields: dict[str, Any], call: str) -> None:
    """Foreign containers, other clusters' and other instances' are left alone; ours are changed; gone is done."""
    world = World()
    other = a_body()
    other["Labels"][PREFIX + "name"] = "other"
    strangers = [
        world.engine.add("foreign", {"Image": "x", "Labels": {}, "HostConfig": {}}, state="exited"),
        world.engine.add("cluster", a_body(cluster="other"), state="exited"),
        world.engine.add("instance", other, state="exited"),
    ]
    for stranger in strangers:
        outcome = world.one(on(stranger, kind, **fields))
        assert "is left alone" in outcome.error
        assert outcome.done == ()
    assert world.changes() == []
    mine = world.engine.add(NAME, a_body(), state="running" if kind is STOP else "exited")
    assert world.one(on(mine, kind, **fields)).done == (kind,)
    assert world.changes() == [call]
    assert ("h", mine) in world.touched
    assert world.one(on("gone", kind, **fields)).done == (kind,)
    assert world.changes() == [call]


@pytest.mark.parametrize(
    ("state", "calls"), [("exited", []), ("created", []), ("paused", ["stop"]), ("restarting", ["stop"])]
)
def test_what_is_stopped(state: str, calls: list[str]) -> None:
    """Only what lives is stopped."""
    world = World()
    container = world.engine.add(NAME, a_body(), state=state)
    assert world.one(on(container, STOP)).done == (STOP,)
    assert world.changes() == calls


@pytest.mark.parametrize(("known", "grace"), [(True, "45"), (False, "30")])
def test_grace(grace: str, *, known: bool) -> None:
    """Git's grace period, or the one it was made with when git does not know it any more."""
    world = World()
    born = replace(app(), grace_period=30.0)
    container = world.engine.add(NAME, body_of(born))
    action = replace(on(container, STOP), workload=replace(born, grace_period=45.0) if known else None)
    world.one(action)
    assert world.engine.named("stop") == [("stop", container, grace)]


def test_a_slow_stop_outlasts_the_pass() -> None:
    """It is in motion, its remove waits, later passes do not stop again, and it is found done."""
    world, release = World(patience=0.0), threading.Event()
    container = world.engine.add(NAME, a_body())
    world.engine.before["stop"] = lambda: _wait(release)
    action = replace(on(container, STOP), steps=(*on(container, STOP).steps, *on(container, REMOVE).steps))
    for _ in range(2):
        outcome = world.one(action)
        assert (outcome.done, outcome.in_motion) == ((), True)
    assert world.executor.in_motion == {("stop", "h", container)}
    release.set()
    until(lambda: not world.executor.busy)
    assert world.one(action).done == (STOP, REMOVE)
    assert world.changes() == ["stop", "remove"]


def test_an_update_is_seen_by_the_next_look() -> None:
    """Cores that a plan took from a container first are not held by it when the next one is started."""
    world = World()
    wide = body_of(app("rival"), Allocation(cpus=(0, 1, 2, 3)))
    container = world.engine.add("lab.app.rival.0.g1", wide)
    narrow = on(container, UPDATE, CpusetCpus="2-3")
    narrow = replace(narrow, instance=instance_of(app("rival")))
    assert [outcome.error for outcome in world.apply(narrow, make())] == ["", ""]


def test_stop_first() -> None:
    """The old one is told to stay down, stopped and kept; the new one gets its card in the same pass."""
    world = World()
    old = world.engine.add("lab.app.web.0.g0", body_of(app(gpus=WholeGpus(1)), ALLOCATION))
    action = make()
    down = (
        Step(UPDATE, "h", "", old, fields=(("RestartPolicy", {"Name": "no", "MaximumRetryCount": 0}),)),
        Step(STOP, "h", "", old),
    )
    pull, create, start = action.steps
    outcome = world.one(replace(action, steps=(pull, *down, create, start)))
    assert (outcome.error, outcome.done) == ("", (PULL, UPDATE, STOP, CREATE, START))
    assert world.engine.containers[old]["State"]["Status"] == "exited"


# -- hosts that fail


def test_a_dead_host_costs_one_time_out() -> None:
    """The first call that gets no answer fails the rest of that host's actions with the same words; others go on."""
    world = World("a", "b")
    world.engines["a"].errors["create"] = UnreachableError("a", "no answer in time")
    actions = [
        make(app(name), PULL, CREATE, START, host=host, allocation=Allocation()) for host in "ab" for name in ("x", "y")
    ]
    outcomes = world.apply(*actions)
    assert [(one.error, one.unreachable) for one in outcomes] == [
        ("no answer in time", True),
        ("no answer in time", True),
        ("", False),
        ("", False),
    ]
    assert len(world.engines["a"].named("create")) == 1
    assert outcomes[1].done == ()


def test_the_other_host_of_an_action_is_named() -> None:
    """A move stops the old one on its own host; when that does not answer, the error says which host it was."""
    world = World("a", "b")
    world.engines["b"].errors["inspect_container"] = UnreachableError("b", "no answer")
    action = make(app(), PULL, CREATE, START, host="a", allocation=Allocation())
    action = replace(action, steps=(*action.steps, Step(STOP, "b", "", "old")))
    outcome = world.one(action)
    assert (outcome.done, outcome.error, outcome.unreachable) == ((PULL, CREATE, START), "b: no answer", True)


def test_a_door_that_does_not_open() -> None:
    """An Engine that cannot be opened is a dead host."""

    def handles(_: HostSpec) -> Any:
        raise LOST

    world = World()
    executor = Executor(handles)
    plan = Plan("lab", None, "", "", (make(), make(app("b"))))
    outcomes = executor.apply(plan, world.snapshot(), Desired(Cluster("lab"), (), ()))
    assert [(one.error, one.unreachable) for one in outcomes] == [("no answer in time", True)] * 2


def test_an_unknown_host() -> None:
    """A step on a host that nobody looked at is refused."""
    assert World().one(make(host="elsewhere")).error == "elsewhere is not among the hosts that were looked at"


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("inspect_image", refused("disk full")),
        ("create", refused("bad parameter")),
        ("list_containers", refused("no")),
        ("inspect_container", NotFoundError("h", "No such container")),
    ],
)
def test_errors_are_the_actions_own(method: str, error: EngineError) -> None:
    """One action's error is one line and stops neither the next action nor another host."""
    world = World()
    world.engine.errors[method] = [error]
    first, second = world.apply(make(app("a"), allocation=Allocation()), make(app("b"), allocation=Allocation()))
    assert first.error
    assert "\n" not in first.error
    assert (second.error, second.done) == ("", (PULL, CREATE, START))


def test_a_bug_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of ours fails its action aloud, and no other."""
    world = World()
    broken = replace(make(), spec={"x": object()})
    first, second = world.apply(broken, make(app("b"), allocation=Allocation()))
    assert first.error.startswith("internal error: TypeError")
    assert "app/web/0 on h failed" in caplog.text
    assert second.error == ""


@pytest.mark.parametrize(
    "action", [replace(make(None, CREATE), workload=None), replace(make(None, CREATE), allocation=None)],
    ids=["no workload", "no allocation"],
)  # fmt: skip
def test_an_incomplete_plan(action: Action) -> None:
    """A plan that does not say what it makes is refused; nothing is created."""
    world = World()
    outcome = world.one(action)
    assert "without saying" in outcome.error
    assert world.changes() == []


# -- leaving


def test_leaving_finishes_the_action_in_hand() -> None:
    """After ``shutdown`` the action in hand comes to its end and no further one is begun."""
    world = World()
    world.engine.before["create"] = lambda: world.executor.shutdown(wait=False)
    outcomes = world.apply(make(), make(app("b")))
    assert [outcome.done for outcome in outcomes] == [(PULL, CREATE, START)]


def test_leaving_waits_for_stops() -> None:
    """A stop that was begun is waited for; a pull is not."""
    world, release, hang = World(patience=0.0), threading.Event(), threading.Event()
    container = world.engine.add(NAME, a_body())
    world.engine.images.clear()
    world.engine.before["stop"] = lambda: _wait(release)
    world.engine.before["pull"] = lambda: _wait(hang)
    world.apply(on(container, STOP), make(app("b")))
    leaving = threading.Thread(target=world.executor.shutdown)
    leaving.start()
    assert leaving.is_alive()
    release.set()
    leaving.join(10)
    assert not leaving.is_alive()
    assert world.executor.in_motion == {("pull", "h", "img:1")}
    hang.set()
    until(lambda: not world.executor.busy)


def test_connections_are_kept_and_given_back() -> None:
    """A door is opened once and closed when its host leaves, moves to another Engine, or at the end."""
    opened: list[str] = []
    engines: dict[str, FakeEngine] = {}

    def handles(spec: HostSpec) -> Any:
        opened.append(f"{spec.name} {spec.engine}")
        engines[spec.name] = FakeEngine(spec.name)
        return engines[spec.name], engines[spec.name]

    executor = Executor(handles)

    def go(*hosts: HostSpec) -> None:
        views = tuple(HostView(host, Reach.KNOWN, facts()) for host in hosts)
        plan = Plan("lab", None, "", "", tuple(make(app(), PULL, host=host.name) for host in hosts))
        executor.apply(plan, Snapshot(views), Desired(Cluster("lab"), (), hosts))

    a, b = HostSpec("a", "sim://"), HostSpec("b", "sim://")
    go(a, b)
    go(a, b)
    assert sorted(opened) == ["a sim://", "b sim://"]
    first = engines["b"]
    go(a, replace(b, engine="sim://2"))
    assert (first.closed, engines["a"].closed, opened[2:]) == (2, 0, ["b sim://2"])
    executor.close()
    assert (engines["a"].closed, engines["b"].closed) == (2, 2)


def test_many_hosts_side_by_side() -> None:
    """Outcomes come in the order of the plan, whatever finished first."""
    names = [f"h{number}" for number in range(40)]
    world = World(*names)
    outcomes = world.apply(*(make(app(), host=name, allocation=Allocation()) for name in names))
    assert [outcome.action.host for outcome in outcomes] == names
    assert {outcome.error for outcome in outcomes} == {""}
