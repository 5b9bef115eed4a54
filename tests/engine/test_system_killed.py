"""SIGKILL at every call that changes the Engine: whatever had been done, the next run finishes or cleans it.

Two commits are turned into one another and back. Each turn has every kind of action: a start, a start-first and a
stop-first replacement, an update in place, a stop, the removal of a finished task, and an adoption.
"""

import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.engine.dockerd import Bed
from tests.engine.proxy import Call, Proxy, Verdict
from tests.fakes.container_events import Replay, moments
from tests.fakes.reconcile_command import HEAD, PATIENCE, Lab, app, assert_no_card_twice

CALLS = 19
"""Changing calls of one turn: 3 to start with a file, 4 start-first, 5 stop-first, 2 to stop, and so on."""
KEPT = ("app.size.0", "app.named.0")
ALWAYS = frozenset({"app.first.0", *KEPT})
ROLLED = frozenset({"app.second.0"})


def turn(letter: str, number: int = 0) -> dict[str, str | None]:
    """The files of one of the two commits; a run that finished never runs again, so each turn has a run of its own."""
    other = "b" if letter == "a" else "a"
    card = "resources: {cpus: 1, gpus: 1}\n"
    job = f"{HEAD}kind: Task\nname: job-{letter}\nrun: r{number}\nargs: ['true']\n"
    job += "resources: {cpus: 0.1, cpuPolicy: shared}\n"
    return {
        f"only-{letter}.yaml": app(f"only-{letter}", card + "configs: [{file: app.conf, container: /app.conf}]\n"),
        f"only-{other}.yaml": None,
        f"job-{letter}.yaml": job,
        f"job-{other}.yaml": None,
        "first.yaml": app("first", card + f"env: {{V: {letter}}}\n"),
        "second.yaml": app("second", card + f"env: {{V: {letter}}}\nrollout: {{order: stop-first, healthyFor: 0s}}\n"),
        "size.yaml": app("size", f"resources: {{cpus: 1, memory: {64 if letter == 'a' else 96}Mi}}\n"),
        "named.yaml": app("named", card),
        "app.conf": "content\n",
    }


class Killer:
    """What a proxy does with calls: it kills the reconciler at its ``at``-th change, and says what it has seen."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.at = 0
        self.after = False
        self.killed: Call | None = None
        self._changes = 0

    def arm(self, process: "subprocess.Popen[str]", at: int, *, after: bool) -> None:
        """From now on count the changes of this process."""
        self.process, self.at, self.after, self.killed, self._changes = process, at, after, None, 0

    def __call__(self, call: Call) -> Verdict:
        """Kill it when its time has come, and see it dead before the call goes on or not."""
        if call.method in {"GET", "HEAD"} or self.process is None:
            return Verdict.PASS
        self._changes += 1
        if self._changes != self.at:
            return Verdict.PASS
        self.killed = call
        self.process.kill()
        self.process.wait(PATIENCE)
        return Verdict.CUT_AFTER if self.after else Verdict.CUT_BEFORE


class Turns:
    """A lab behind a proxy that goes back and forth between the two commits."""

    def __init__(self, lab: Lab, proxy: Proxy, killer: Killer) -> None:
        self.lab = lab
        self.proxy = proxy
        self.killer = killer
        self.letter = "a"
        self.number = 0
        self.seen = Replay()
        self.since = time.time()
        lab.begin({name: text for name, text in turn("a").items() if text}, engine=proxy.url)
        lab.run()
        self.check()

    def next(self) -> None:
        """Commit the other one, after somebody has renamed a container."""
        if not self.whole():  # an earlier test has failed: do not blame this one
            self.lab.run(code=None)
        self.letter = "b" if self.letter == "a" else "a"
        self.number += 1
        with self.lab.client() as client:
            client.rename(self.lab.running()["app.named.0"].id, f"by-hand-{self.letter}-{len(self.proxy.calls)}")
        self.lab.commit(turn(self.letter, self.number))

    def kill(self, at: int, *, after: bool) -> str:
        """Run until the ``at``-th change and no further; the call that it was killed at, empty when it got through."""
        process = self.lab.spawn(stdout=subprocess.DEVNULL)
        self.killer.arm(process, at, after=after)
        _, said = process.communicate(timeout=PATIENCE)
        self.killer.process = None
        assert process.returncode == (-signal.SIGKILL if self.killer.killed else 0), said
        return str(self.killer.killed or "")

    def whole(self) -> bool:
        """Whether exactly what the commit wants is there, under its names."""
        boxes = {box.instance: box for box in self.lab.boxes() if box.name.startswith("lab.")}
        up = {*ALWAYS, *ROLLED, f"app.only-{self.letter}.0"}
        jobs = {name for name in boxes if name.startswith(f"task.job-{self.letter}.")}
        return (
            len(jobs) == 1
            and set(boxes) == up | jobs
            and len(self.lab.boxes()) == len(up) + 1
            and all(boxes[name].running for name in up)
        )

    def check(self) -> None:
        """What is there is what git wants, nothing bad has happened on the way, and nothing is left to do."""
        assert self.whole(), [(box.name, box.state) for box in self.lab.boxes()]
        now = time.time()
        never_lost = ROLLED | ALWAYS | {f"app.only-{self.letter}.0"}
        self.seen.go_on(moments(self.lab, self.since), never_down=ALWAYS, never_lost=never_lost)
        self.since = now
        boxes = self.lab.boxes()
        assert_no_card_twice(boxes)
        assert all(box.host["RestartPolicy"]["Name"] == "always" for box in boxes if "job" not in box.name)
        self.lab.settled()


@pytest.fixture(scope="module")
def turns(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    """One lab for all of this module: each test begins where the last one has ended."""
    bed.remove_all()
    folder = tmp_path_factory.mktemp("k")
    killer = Killer()
    with Proxy(bed.url, folder, killer) as proxy:
        yield Turns(Lab(folder, bed.url), proxy, killer)
    bed.remove_all()


def test_a_turn_has_every_kind_of_action(turns: Turns) -> None:
    """Nobody is killed here: this many calls, of these kinds, is what the other tests are about."""
    turns.next()
    planned = [(one["action"], one["order"]) for one in turns.lab.plan()["actions"]]
    assert sorted(planned, key=str) == [
        ("adopt", None),
        ("remove", None),
        ("replace", "start-first"),
        ("replace", "stop-first"),
        ("start", None),
        ("start", None),
        ("stop", None),
        ("update", None),
    ]
    kept = {name: turns.lab.running().get(name) for name in KEPT[:1]}
    before = len(turns.proxy.changes)
    turns.lab.run()
    assert len(turns.proxy.changes) - before == CALLS
    assert {name: box and turns.lab.running()[name].id for name, box in kept.items()} == {
        name: box and box.id for name, box in kept.items()
    }
    turns.check()


@pytest.mark.parametrize("at", range(1, CALLS + 1))
def test_killed_at_a_call(turns: Turns, at: int) -> None:
    """Before the Engine has heard of it, and the next run right after it was carried out: a third makes it whole."""
    turns.next()
    first = turns.kill(at, after=False)
    left = [(box.name, box.state, box.id[:12]) for box in turns.lab.boxes()]
    assert turns.kill(1, after=True), f"nothing was left to do after {first}: {left}"
    turns.lab.run()
    turns.check()


def test_killed_again_and_again(turns: Turns) -> None:
    """Every run is killed right after its first change: each does one thing, and together they finish."""
    turns.next()
    calls = [""]
    # Files are put in again by each run that finds a container not started: there the next call is the one to die at.
    while call := turns.kill(1 + calls[-1].startswith("PUT"), after=True):
        calls.append(call)
        assert len(calls) <= CALLS + 3, calls
    turns.check()
