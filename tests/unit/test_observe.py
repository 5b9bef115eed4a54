"""Looking at hosts again and again: what is asked, what is kept, and what a host that does not answer costs."""

import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from reconciler.actual.facts import facts_to_json
from reconciler.actual.inspects import least_age
from reconciler.actual.observe import Observer
from reconciler.engine.protocols import Reader
from reconciler.errors import NotFoundError, RefusedError, UnreachableError
from reconciler.model.host import HostFacts, HostSpec
from reconciler.model.snapshot import HostView, Reach, Snapshot
from tests.fakes.engine import FakeEngine, refused
from tests.fakes.waiting import wait_for
from tests.fakes.workloads import GPUS, app, body_of, facts

BODY = body_of(app())
FOREIGN = {"Image": "x", "HostConfig": {}}


class Clock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def spec(name: str = "h", **fields: object) -> HostSpec:
    """A host with a facts file."""
    return replace(HostSpec(name, "sim://", facts_json=json.dumps(facts_to_json(facts()))), **fields)  # type: ignore[arg-type]  # a test's shorthand


def observer(engine: FakeEngine, clock: Callable[[], float] | None = None, fresh: float = math.inf) -> Observer:
    """An observer of one host; documents stay fresh for ever unless a test says how long."""
    return Observer(lambda _: engine, fresh=fresh, clock=clock or Clock())


def only(snapshot: Snapshot) -> HostView:
    """The view of the only host."""
    (view,) = snapshot.hosts
    return view


def inspected(engine: FakeEngine) -> list[str]:
    """Ids that were inspected since this was last asked."""
    found = [call[1] for call in engine.named("inspect_container")]
    engine.calls.clear()
    return found


def test_first_look() -> None:
    """A host that answers is known, with its facts and every container, ours and foreign, by name."""
    engine = FakeEngine()
    engine.add("zz", FOREIGN)
    engine.add("lab.app.web.0.g1", BODY)
    view = only(observer(engine).observe([spec()], "lab"))
    assert (view.reach, view.reason, view.seen) == (Reach.KNOWN, "", True)
    assert [(one.name, one.ours is not None) for one in view.containers] == [("lab.app.web.0.g1", True), ("zz", False)]
    assert view.facts is not None
    assert [gpu.uuid for gpu in view.facts.gpus] == list(GPUS)


def test_a_quiet_pass_is_one_list_call() -> None:
    """When nothing happened, nothing but the list is asked for, and the very same containers come back."""
    engine = FakeEngine()
    for number in range(5):
        engine.add(f"c{number}", BODY)
    looking = observer(engine)
    before = only(looking.observe([spec()], "lab")).containers
    engine.calls.clear()
    for container in engine.containers:
        engine.status[container] = "Up 4 minutes"
    after = only(looking.observe([spec()], "lab")).containers
    assert engine.calls == [("list_containers",)]
    assert after is before


CHANGES: dict[str, tuple[Callable[[FakeEngine, str], None], bool]] = {
    "exited": (lambda e, c: e.set_state(c, "exited"), True),
    "unhealthy": (lambda e, c: e.status.update({c: "Up 3 minutes (unhealthy)"}), True),
    "paused": (lambda e, c: e.status.update({c: "Up 3 minutes (Paused)"}), True),
    "renamed": (lambda e, c: e.rename(c, "other"), True),
    "restarted": (lambda e, c: e.status.update({c: "Up 5 seconds"}), True),
    "restarted just now": (lambda e, c: e.status.update({c: "Up Less than a second"}), True),
    "restarted while it was looked at": (lambda e, c: e.status.update({c: "Up 10 seconds"}), True),
    "started just before": (lambda e, c: e.status.update({c: "Up 11 seconds"}), False),
    "a minute old": (lambda e, c: e.status.update({c: "Up About a minute"}), False),
    "hours old": (lambda e, c: e.status.update({c: "Up 2 hours"}), False),
}


@pytest.mark.parametrize(("change", "again"), CHANGES.values(), ids=CHANGES.keys())
def test_what_is_looked_at_again(change: Callable[[FakeEngine, str], None], *, again: bool) -> None:
    """Ten seconds later: another state, health or name, or a start since the last look, asks for a new inspect."""
    engine, clock = FakeEngine(), Clock()
    first, _ = engine.add("c", BODY), engine.add("d", BODY)
    looking = observer(engine, clock)
    looking.observe([spec()], "lab")
    change(engine, first)
    clock.now += 10
    engine.calls.clear()
    looking.observe([spec()], "lab")
    assert inspected(engine) == ([first] if again else [])


def test_ours_in_transition_are_always_looked_at() -> None:
    """A failed start leaves ``created`` as it was and writes an error that no list shows."""
    engine = FakeEngine()
    ours, _ = engine.add("c", BODY, state="created"), engine.add("d", FOREIGN, state="created")
    looking = observer(engine)
    looking.observe([spec()], "lab")
    engine.set_state(ours, "created", Error="no such device", ExitCode=128)
    engine.calls.clear()
    view = only(looking.observe([spec()], "lab"))
    assert inspected(engine) == [ours]
    assert view.containers[0].error == "no such device"


def test_what_was_changed_is_looked_at() -> None:
    """No list shows an update in place: whoever made one says so, and it is seen in the next pass."""
    engine = FakeEngine()
    container = engine.add("c", BODY)
    looking = observer(engine)
    looking.observe([spec()], "lab")
    engine.update(container, {"CpusetCpus": "0-3"})
    assert only(looking.observe([spec()], "lab")).containers[0].limits.cpus == ()
    looking.forget("h", container)
    assert only(looking.observe([spec()], "lab")).containers[0].limits.cpus == (0, 1, 2, 3)
    engine.calls.clear()
    looking.observe([spec()], "lab")
    assert inspected(engine) == []


def test_a_forgotten_one_stays_forgotten_until_it_was_seen() -> None:
    """A pass that fails in between loses nothing of what has to be looked at."""
    engine = FakeEngine()
    container = engine.add("c", BODY)
    looking = observer(engine)
    looking.observe([spec()], "lab")
    engine.update(container, {"Memory": 7})
    looking.forget("h", container)
    engine.errors["inspect_container"] = [UnreachableError("h", "cut off")]
    assert only(looking.observe([spec()], "lab")).reach is Reach.UNREACHABLE
    assert only(looking.observe([spec()], "lab")).containers[0].limits.memory == 7


@pytest.mark.parametrize(("interval", "counts"), [(20, [2, 2, 2]), (1, [1, 1, 1, 1, 1]), (1000, [5, 5])])
def test_rotation(interval: float, counts: list[int]) -> None:
    """Each pass looks at its share, the longest not looked at first, so that no document grows old."""
    engine, clock = FakeEngine(), Clock()
    made = [engine.add(f"c{number}", BODY) for number in range(5)]
    looking = observer(engine, clock, fresh=60)
    looking.observe([spec()], "lab")
    for container in made:
        engine.status[container] = "Up 2 hours"
    engine.calls.clear()
    seen = []
    for _ in counts:
        clock.now += interval
        looking.observe([spec()], "lab")
        seen.append(inspected(engine))
    assert [len(one) for one in seen] == counts
    assert {one for few in seen for one in few} == set(made)


def test_gone_between_list_and_inspect() -> None:
    """A container that vanishes between the two calls is absent, and the host is known."""
    engine = FakeEngine()
    engine.add("c", BODY)
    engine.errors["inspect_container"] = [NotFoundError("h", "No such container", 404)]
    view = only(observer(engine).observe([spec()], "lab"))
    assert (view.reach, view.containers) == (Reach.KNOWN, ())


def test_gone_ones_are_dropped() -> None:
    """Containers come and go for ever; what is kept follows what is there."""
    engine = FakeEngine()
    looking = observer(engine)
    for number in range(20):
        container = engine.add(f"c{number}", BODY)
        assert len(only(looking.observe([spec()], "lab")).containers) == 1
        del engine.containers[container]
        looking.forget("h", container)
    assert only(looking.observe([spec()], "lab")).containers == ()
    inspects = looking._hosts["h"].inspects
    assert (len(inspects._known), len(inspects._forgotten)) == (0, 0)


def test_another_cluster_reads_the_same_documents() -> None:
    """Whose a container is depends on the asker; nothing is fetched again for that."""
    engine = FakeEngine()
    engine.add("c", BODY)
    looking = observer(engine)
    assert only(looking.observe([spec()], "lab")).containers[0].ours is not None
    engine.calls.clear()
    assert only(looking.observe([spec()], None)).containers[0].ours is None
    assert only(looking.observe([spec(ignore_containers=("c",))], None)).containers[0].holding.observes
    assert inspected(engine) == []


@pytest.mark.parametrize("error", [UnreachableError("h", "no answer"), refused("permission denied")])
def test_unreachable(error: UnreachableError | RefusedError) -> None:
    """A host that fails keeps what was last seen there, with the reason; before the first answer it was never seen."""
    engine = FakeEngine()
    engine.add("c", BODY)
    looking = observer(engine)
    engine.errors["list_containers"] = error
    view = only(looking.observe([spec()], "lab"))
    assert (view.reach, view.seen, view.containers, view.reason) == (Reach.UNREACHABLE, False, (), error.message)
    engine.errors.clear()
    looking.observe([spec()], "lab")
    engine.errors["list_containers"] = error
    view = only(looking.observe([spec()], "lab"))
    assert (view.reach, view.seen, view.reason) == (Reach.UNREACHABLE, True, error.message)
    assert [one.name for one in view.containers] == ["c"]
    assert view.facts is not None


def test_a_broken_connection_is_made_anew() -> None:
    """A transport that broke can stay broken for ever, so the next pass opens another one."""
    opened: list[FakeEngine] = []

    def connect(_: HostSpec) -> Reader:
        opened.append(FakeEngine())
        return opened[-1]

    looking = Observer(connect)
    looking.observe([spec()], "lab")
    opened[0].errors["list_containers"] = UnreachableError("h", "gone")
    looking.observe([spec()], "lab")
    assert only(looking.observe([spec()], "lab")).reach is Reach.KNOWN
    assert [engine.closed for engine in opened] == [1, 0]


def test_no_door() -> None:
    """An Engine that cannot even be opened is unreachable, in words."""

    def connect(_: HostSpec) -> Reader:
        raise UnreachableError("h", "no Docker Engine at unix:///x: is it running?")

    view = only(Observer(connect).observe([spec()], "lab"))
    assert (view.reach, view.reason) == (Reach.UNREACHABLE, "no Docker Engine at unix:///x: is it running?")


def test_a_slow_host_costs_nobody_else_anything() -> None:
    """It is given up at its deadline; while it still waits it is not asked again, and later it is known again."""
    slow, quick, release = FakeEngine("slow"), FakeEngine("quick"), threading.Event()

    def hang() -> None:
        assert release.wait(30)

    slow.before["list_containers"] = hang
    looking = Observer(lambda host: slow if host.name == "slow" else quick, deadline=0.2)
    hosts = [spec("slow"), spec("quick")]
    began = time.monotonic()
    first = looking.observe(hosts, "lab")
    assert time.monotonic() - began < 5
    assert [(view.spec.name, view.reach) for view in first.hosts] == [
        ("quick", Reach.KNOWN),
        ("slow", Reach.UNREACHABLE),
    ]
    assert first.hosts[1].reason == "no answer within 0.2 s"
    again = looking.observe(hosts, "lab").hosts[1]
    assert again.reason == "it still has not answered an earlier question"
    assert len(slow.named("list_containers")) == 1
    release.set()
    deadline = time.monotonic() + 10
    while looking.observe(hosts, "lab").hosts[1].reach is not Reach.KNOWN:
        assert time.monotonic() < deadline


def test_hosts_come_and_go() -> None:
    """Hosts are sorted by name; one that left, or moved to another Engine, has its connection closed."""
    engines = {name: FakeEngine(name) for name in "abc"}
    opened: list[str] = []

    def connect(host: HostSpec) -> Reader:
        opened.append(host.engine)
        return engines[host.name]

    looking = Observer(connect)
    snapshot = looking.observe([spec(name) for name in "cab"], "lab")
    assert [view.spec.name for view in snapshot.hosts] == ["a", "b", "c"]
    looking.observe([spec("a"), spec("b", engine="sim://other")], "lab")
    assert [engines[name].closed for name in "abc"] == [0, 1, 1]
    assert opened == ["sim://", "sim://", "sim://", "sim://other"]
    looking.close()
    assert [engines[name].closed for name in "abc"] == [1, 2, 1]


def test_many_hosts() -> None:
    """More hosts than are asked at once are all seen."""
    names = [f"h{number:03d}" for number in range(150)]
    snapshot = Observer(lambda host: FakeEngine(host.name)).observe([spec(name) for name in names], "lab")
    assert [view.spec.name for view in snapshot.hosts if view.reach is Reach.KNOWN] == names


def test_threads_end() -> None:
    """No thread stays behind a pass."""
    looking = Observer(lambda host: FakeEngine(host.name))
    before = set(threading.enumerate())
    for _ in range(3):
        looking.observe([spec("a"), spec("b")], "lab")
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert set(threading.enumerate()) <= before


# -- facts


def test_malformed_facts() -> None:
    """A facts file that is none leaves the host known and without facts, with the place of the fault."""
    view = only(observer(FakeEngine()).observe([spec(facts_json="{", facts_path="facts/h.json")], "lab"))
    assert (view.reach, view.facts) == (Reach.KNOWN, None)
    assert view.reason.startswith("no facts: facts/h.json: not JSON")


def test_facts_are_read_once() -> None:
    """The same text gives the same object, a new text new facts."""
    looking, host = observer(FakeEngine()), spec()
    first = only(looking.observe([host], "lab")).facts
    assert first == only(looking.observe([spec()], "lab")).facts
    other = json.dumps(facts_to_json(replace(facts(), hostname="other")))
    changed = only(looking.observe([spec(facts_json=other)], "lab")).facts
    assert changed is not None
    assert changed.hostname == "other"
    assert len(looking._origins._read) == 1


def test_the_engine_fills_in_what_nobody_said() -> None:
    """Release, id and cpusets come from the Engine; a facts file that names them is believed."""
    engine = FakeEngine()
    engine.system |= {"ServerVersion": "26.1.5", "ID": "abc", "CPUSet": False}
    found = only(observer(engine).observe([spec()], "lab")).facts
    assert found is not None
    assert (found.engine.version, found.engine_id, found.engine.cpuset) == ("26.1.5", "abc", False)


def test_no_facts_yet() -> None:
    """A host that no probe can reach says so."""
    view = only(observer(FakeEngine()).observe([HostSpec("h", "sim://")], "lab"))
    assert (view.reach, view.facts) == (Reach.KNOWN, None)
    assert view.reason.startswith("no facts yet")


class Probe:
    """A probe of this machine that can fail and hang."""

    def __init__(self) -> None:
        self.runs = 0
        self.error: Exception | None = None
        self.release: threading.Event | None = None

    def __call__(self) -> HostFacts:
        """Facts, or the error, when it is let go."""
        self.runs += 1
        if self.release:
            assert self.release.wait(30)
        if self.error:
            raise self.error
        return facts()


def test_the_local_probe() -> None:
    """It serves every ``unix://`` host of this machine, once a period; a host with a file needs none."""
    probe, clock = Probe(), Clock()
    looking = Observer(lambda _: FakeEngine(), probe, probe_period=60, clock=clock)
    hosts = [HostSpec("a", "unix:///a"), HostSpec("b", "unix:///b"), spec("c")]
    for _ in range(3):
        assert all(view.facts for view in looking.observe(hosts, "lab").hosts)
    assert probe.runs == 1
    clock.now += 60
    looking.observe(hosts, "lab")
    wait_for(lambda: probe.runs == 2, "the second probe")
    looking.observe(hosts, "lab")
    assert probe.runs == 2


@pytest.mark.parametrize("error", [RefusedError("h", "NVML hangs"), OSError("NVML hangs"), ValueError("NVML hangs")])
def test_a_failing_probe(error: Exception) -> None:
    """Without earlier facts there are none; with them the host is stale: nothing new is placed there."""
    probe, clock = Probe(), Clock()
    looking = Observer(lambda _: FakeEngine(), probe, probe_period=60, clock=clock)
    host = HostSpec("a", "unix:///a")

    def comes_to(reach: Reach, reason: str, *, known: bool) -> bool:
        view = only(looking.observe([host], "lab"))
        return (view.reach, view.reason, view.facts is not None) == (reach, reason, known)

    probe.error = error
    assert comes_to(Reach.KNOWN, "the probe failed: NVML hangs", known=False)
    probe.error = None
    clock.now += 60
    wait_for(lambda: comes_to(Reach.KNOWN, "", known=True), "facts")
    probe.error = error
    clock.now += 60
    wait_for(lambda: comes_to(Reach.STALE, "the probe failed: NVML hangs", known=True), "old facts")


def test_a_probe_that_hangs_delays_nobody() -> None:
    """Once there was an answer, passes go on with it while the probe is made anew; never do two of them run."""
    probe, clock, release = Probe(), Clock(), threading.Event()
    looking = Observer(lambda _: FakeEngine(), probe, probe_period=60, clock=clock)
    host = HostSpec("a", "unix:///a")
    looking.observe([host], "lab")
    probe.release = release
    for _ in range(3):
        clock.now += 60
        assert only(looking.observe([host], "lab")).reach is Reach.KNOWN
    wait_for(lambda: probe.runs == 2, "the second probe")
    release.set()


def test_the_first_probe_may_take_its_time() -> None:
    """A host that waits for it is given longer than one that only has to list containers."""
    probe = Probe()
    probe.release = threading.Event()
    looking = Observer(lambda _: FakeEngine(), probe, deadline=0.05)
    threading.Timer(0.2, probe.release.set).start()
    assert only(looking.observe([HostSpec("a", "unix:///a")], "lab")).facts is not None


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        ("Up Less than a second", 0),
        ("Up 1 second", 1),
        ("Up 59 seconds (healthy)", 59),
        ("Up About a minute", 60),
        ("Up 5 minutes (Paused)", 300),
        ("Up About an hour", 1800),
        ("Up 3 hours", 3 * 3600 - 1800),
        ("Exited (0) 2 days ago", 2 * 86400 - 1800),
        ("Restarting (1) 4 seconds ago", 4),
        ("Created", None),
        ("Dead", None),
    ],
)
def test_least_age(status: str, seconds: int | None) -> None:
    """The text for people tells how long ago something happened at least; the Engine rounds hours to the nearest."""
    assert least_age(status) == seconds


def test_a_hundred_containers_are_cheap() -> None:
    """A quiet look at 100 containers costs little beside the list call itself."""
    engine = FakeEngine()
    for number in range(100):
        engine.add(f"c{number}", BODY)
    entries = engine.list_containers()
    engine.list_containers = lambda: entries  # type: ignore[method-assign]  # the list call itself is not measured
    looking, host = observer(engine), spec()
    looking.observe([host], "lab")
    best = min(_cpu(lambda: looking.observe([host], "lab")) for _ in range(20))
    assert best < 0.005


def _cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def test_one_engine_under_two_addresses_is_one_host() -> None:
    """The second name shows none of its containers: nothing there may be taken for another copy."""
    engine = FakeEngine()
    engine.add("somebody", {"Image": "bb:1"})
    looking = Observer(lambda _: engine)
    first, second = looking.observe([HostSpec("b", "unix:///run/docker.sock"), HostSpec("a", "unix:///x")], "lab").hosts
    assert (first.spec.name, first.reach, len(first.containers)) == ("a", Reach.KNOWN, 1)
    assert (second.spec.name, second.reach, second.containers) == ("b", Reach.UNREACHABLE, ())
    assert second.reason == "is the same Engine as a, by another address"
