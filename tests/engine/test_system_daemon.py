"""The daemon as a process on a real Engine: it follows git, heals, keeps others out, says what happens, and leaves."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.dockerd import Bed
from tests.engine.proxy import Proxy
from tests.fakes.reconcile_command import HEAD, Lab, RunningDaemon, app, assert_no_card_twice, daemon

TWO = app("train", "resources: {cpus: 2, gpus: 2}\n", instances=2)
QUIET = ("--interval", "60s")
OFTEN = ("--interval", "0.2s")


@pytest.fixture
def lab(engine: str, tmp_path: Path) -> Lab:
    """A repository of one app with two instances, and the bed's Engine."""
    lab = Lab(tmp_path, engine)
    lab.begin({"train.yaml": TWO})
    return lab


def converged(lab: Lab, instances: int) -> bool:
    """Whether that many of our instances run, and nothing else is there."""
    boxes = lab.boxes()
    return len(boxes) == instances and all(box.running for box in boxes)


def test_a_new_commit_is_applied(lab: Lab) -> None:
    """Without being told: within an interval."""
    with daemon(lab, "--interval", "2s") as running:
        running.wait_for(lambda: converged(lab, 2), "two instances")
        lab.commit({"more.yaml": app("more", "resources: {gpus: 1}\n")})
        running.wait_for(lambda: converged(lab, 3), "the new app")
        lab.commit({"more.yaml": None})
        running.wait_for(lambda: converged(lab, 2), "it to be stopped")


def test_what_is_removed_by_hand_comes_back_on_the_same_cards(lab: Lab) -> None:
    """Within an interval and five seconds."""
    with daemon(lab, "--interval", "2s") as running:
        running.wait_for(lambda: converged(lab, 2), "two instances")
        cards = {name: box.cards for name, box in lab.running().items()}
        gone = lab.running()["app.train.0"]
        with lab.client() as client:
            client.remove_container(gone.id, force=True)
        begun = time.monotonic()
        running.wait_for(lambda: len(lab.running()) == 2, "the instance to come back")
        assert time.monotonic() - begun < 2 + 5
        assert {name: box.cards for name, box in lab.running().items()} == cards
        assert lab.running()["app.train.0"].id != gone.id


def test_a_signal_makes_it_look_at_once_and_another_makes_it_leave(lab: Lab) -> None:
    """SIGHUP: the commit is applied long before the interval is over. SIGTERM: exit code 0."""
    with daemon(lab, *QUIET) as running:
        running.wait_for(lambda: running.said("running"), "the first instances to be kept")
        begun = time.monotonic()
        lab.commit({"more.yaml": app("more")})
        running.tell(signal.SIGHUP)
        running.wait_for(lambda: "app.more.0" in lab.running(), "the new app")
        assert time.monotonic() - begun < 50
        running.tell(signal.SIGTERM)
        assert running.finish() == 0


def test_the_action_in_hand_is_finished_before_it_leaves(lab: Lab) -> None:
    """SIGTERM while a container is being stopped with grace: it is stopped when the daemon has left."""
    slow = "args: [sh, -c, 'trap \"sleep 3; exit 7\" TERM; while :; do sleep 0.1; done']\nstop: {signal: SIGTERM}\n"
    lab.commit({"train.yaml": None, "slow.yaml": app("slow", slow), "other.yaml": app("other")})
    with daemon(lab, *OFTEN) as running:
        running.wait_for(lambda: converged(lab, 2), "both apps")
        lab.commit({"slow.yaml": None})
        running.wait_for(lambda: "kill" in actions_of(lab, "lab.app.slow.0.g1"), "it to be told to stop")
        running.tell(signal.SIGTERM)
        assert running.finish() == 0
    left = {box.instance: box for box in lab.boxes()}
    assert "app.slow.0" not in left or left["app.slow.0"].document["State"]["ExitCode"] == 7
    lab.run()
    assert converged(lab, 1)


def actions_of(lab: Lab, name: str) -> list[str]:
    """The Engine's events of one container so far, by verb."""
    with lab.client() as client:
        found = client.events(since=1, until=int(time.time()) + 1, decode=True, filters={"container": name})
        return [str(event["Action"]) for event in found]


def test_a_second_one_is_kept_out_and_told_by_whom(lab: Lab) -> None:
    """Exit code 1, in one line that names the process; a run without a daemon is kept out as well."""
    with daemon(lab, *QUIET) as running:
        running.wait_for(lambda: converged(lab, 2), "two instances")
        for arguments in (("daemon",), ()):
            refused = lab.run(*arguments, code=1)
            assert len(refused.err.splitlines()) == 1
            assert f"process {running.process.pid} " in refused.err
        lab.run("--dry-run")


def test_a_broken_commit_stops_nothing_and_is_said_once(lab: Lab) -> None:
    """Passes go on at the last good commit: what is removed by hand still comes back. The next good one is taken."""
    with daemon(lab, *OFTEN) as running:
        running.wait_for(lambda: converged(lab, 2), "two instances")
        before = {box.id for box in lab.boxes()}
        lab.commit({"broken.yaml": "kind: App\nname: [\n"})
        running.wait_for(lambda: running.said("broken.yaml"), "the fault to be said")
        assert {box.id for box in lab.boxes()} == before
        with lab.client() as client:
            client.remove_container(lab.running()["app.train.1"].id, force=True)
        running.wait_for(lambda: converged(lab, 2), "the instance to come back")
        assert len(running.said("broken.yaml")) == 1
        lab.commit({"broken.yaml": None, "more.yaml": app("more")})
        running.wait_for(lambda: converged(lab, 3), "the good commit")
        running.wait_for(lambda: running.said("succeeds again"), "it to be said")


def test_a_commit_that_removes_everything_is_held(lab: Lab) -> None:
    """The guard says so once and nothing stops; with --allow-prune it is carried out."""
    with daemon(lab, *OFTEN) as running:
        running.wait_for(lambda: converged(lab, 2), "two instances")
        lab.commit({"train.yaml": None})
        running.wait_for(lambda: running.said("prune guard"), "the guard")
        lines = len(running.lines)
        lab.commit({"README": "nothing\n"})
        running.wait_for(lambda: len(running.lines) > lines, "the next commit to be seen")
        assert converged(lab, 2)
        assert len(running.said("prune guard", "guard")) == 1
        running.tell(signal.SIGTERM)
        assert running.finish() == 0
    refused = lab.run(code=1)
    assert "--allow-prune" in refused.err
    lab.run("--allow-prune")
    assert lab.boxes() == []


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_it_outlives_its_engine(lab: Lab, bed: Bed, how: str) -> None:
    """While the Engine does not answer nothing is thought to be gone; when it is back the daemon goes on."""
    with daemon(lab, "--interval", "0.5s") as running:
        running.wait_for(lambda: converged(lab, 2), "two instances")
        before = {box.id for box in lab.boxes()}
        if how == "killed":
            bed.kill()
        else:
            bed.daemon_signal(signal.SIGSTOP)
        try:
            running.wait_for(lambda: running.said("unreachable", "host"), "it to be noticed")
            lab.commit({"more.yaml": app("more", "resources: {gpus: 1}\n")})
        finally:
            if how == "killed":
                bed.start()
            else:
                bed.daemon_signal(signal.SIGCONT)
        running.wait_for(lambda: converged(lab, 3), "the commit that was made meanwhile")
        assert before <= {box.id for box in lab.boxes()}
        assert len(running.said("unreachable", "host")) == 1
        assert_no_card_twice(lab.boxes())


def test_a_quiet_time_adds_no_lines_and_nothing_grows(lab: Lab, tmp_path: Path) -> None:
    """Two hundred passes without a change: not one line, no more memory, descriptors, threads or children."""
    exits = f"{HEAD}kind: Task\nname: job\nrun: one\nargs: ['true']\n"
    with Proxy(lab.engine, tmp_path) as proxy:
        lab.begin({"job.yaml": exits, "huge.yaml": app("huge", "resources: {gpus: 8}\n")}, engine=proxy.url)

        def passes(more: int) -> None:
            ends = looks(proxy) + more
            running.wait_for(lambda: looks(proxy) >= ends, f"{more} passes", 180)

        with daemon(lab, "--interval", "0.05s") as running:
            running.wait_for(lambda: running.said("pending") and running.said("exited on"), "everything to be said")
            passes(50)
            lines, before = len(running.lines), least(running, passes)
            passes(200)
            after = least(running, passes)
            assert running.lines[lines:] == []
            assert after.pop("memory") < before.pop("memory") * 1.05
            assert after == before
    assert all({"time", "kind", "message"} <= set(event) for event in running.events)


def looks(proxy: Proxy) -> int:
    """How often the containers were listed: once in each pass that changes nothing."""
    return sum(call.path == "/containers/json" for call in proxy.calls)


def least(running: RunningDaemon, passes: Callable[[int], None]) -> dict[str, int]:
    """The least that was used at any of many moments: between two passes, that is."""
    seen = []
    for _ in range(20):
        passes(1)
        seen.append(usage(running))
    return {what: min(one[what] for one in seen) for what in seen[0]}


def usage(running: RunningDaemon) -> dict[str, int]:
    """Descriptors, threads, children and kilobytes of memory."""
    process = Path(f"/proc/{running.process.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    children = (process / "task" / process.name / "children").read_text().split()
    return {
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir(process / "fd")),  # noqa: PTH208 - names are enough
        "children": len(children),
        "memory": int(status["VmRSS"].split()[0]),
    }
