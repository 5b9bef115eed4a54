"""The daemon as a process: it applies, follows a change, keeps a second one out and leaves when told."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.daemon import write
from reconciler.journal.journal import Event

FACTS = Path(__file__).parents[1] / "fixtures" / "machines" / "cpu-only.json"
HEAD = "apiVersion: reconciler/v1\n"
WEB = f"{HEAD}kind: App\nname: web\ninstances: 1\nimage: web:1\nrollout: {{healthyFor: 0s}}\n"
RUN = [sys.executable, "-c", "import sys; from reconciler.cli.main import main; sys.exit(main())"]
PATIENCE = 60.0


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A folder with a cluster, a simulated host and an app."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "lab.yaml").write_text(
        f"{HEAD}kind: Cluster\nname: lab\n---\n{HEAD}kind: Host\nname: cpu-01\nengine: sim://\nfacts: facts.json\n"
    )
    (folder / "web.yaml").write_text(WEB)
    shutil.copy(FACTS, folder / "facts.json")
    return folder


class Running:
    """A daemon and the events that it has logged."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def wait_for(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event that is ``what``, within the deadline."""
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            for event in list(self.events):
                if what(event):
                    return event
            time.sleep(0.02)
        raise AssertionError(f"not within {PATIENCE:g} s: {self.events}")

    def finish(self) -> int:
        """The exit code, once it has left."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


def environment(repo: Path) -> dict[str, str]:
    """Nothing but what the daemon needs."""
    state = str(repo.parent / "state")
    return {"PATH": os.environ["PATH"], "HOME": str(repo), "RECONCILE_REPO": str(repo), "RECONCILE_STATE_DIR": state}


@contextmanager
def daemon(repo: Path, interval: str) -> Iterator[Running]:
    """A daemon in a process of its own."""
    command = [*RUN, "daemon", "--json", "--interval", interval]
    with subprocess.Popen(command, env=environment(repo), stderr=subprocess.PIPE, text=True) as process:
        running = Running(process)
        try:
            yield running
        finally:
            process.kill()
            running.finish()


def acted(event: dict[str, Any]) -> bool:
    """Whether steps of the app were carried out."""
    return bool(event["kind"] == "acted" and event.get("instance") == "app/web/0")


def test_the_daemon_applies_follows_changes_and_leaves(repo: Path) -> None:
    """On a long timer: a changed file is a hint, and SIGTERM ends it with 0."""
    with daemon(repo, "300s") as running:
        running.wait_for(acted)
        second = subprocess.run([*RUN, "daemon"], env=environment(repo), capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert f"process {running.process.pid} on " in second.stderr
        running.wait_for(lambda event: event.get("message") == "running on cpu-01")
        (repo / "web.yaml").write_text(WEB.replace("web:1", "web:2"))
        running.wait_for(lambda event: acted(event) and event["message"].startswith("replace (changed: image)"))
        (repo / "web.yaml").write_text("kind: [")
        running.wait_for(lambda event: event["kind"] == "pass" and "web.yaml:2:1" in event["message"])
        (repo / "web.yaml").write_text(WEB.replace("web:1", "web:2"))
        running.wait_for(lambda event: event["kind"] == "pass" and event["message"] == "the pass succeeds again")
        running.process.send_signal(signal.SIGTERM)
        assert running.finish() == 0


def test_a_daemon_waits_for_a_source_that_is_not_there_yet(repo: Path) -> None:
    """It says why, once, and begins when the source is there."""
    good = (repo / "web.yaml").read_text()
    (repo / "web.yaml").write_text("kind: [")
    with daemon(repo, "0.1s") as running:
        running.wait_for(lambda event: event["kind"] == "source" and "web.yaml:2:1" in event["message"])
        (repo / "web.yaml").write_text(good)
        running.wait_for(acted)
        assert sum(event["kind"] == "source" and "web.yaml" in event["message"] for event in running.events) == 1


@pytest.mark.parametrize(
    ("event", "as_json", "line"),
    [
        (
            Event(0.0, "acted", "app/a/0", "h", "x"),
            True,
            '{"time": "1970-01-01T00:00:00Z", "kind": "acted", "instance": "app/a/0", "host": "h", "message": "x"}',
        ),
        (
            Event(0.0, "host", "", "gpu-01", "answers"),
            False,
            "1970-01-01T00:00:00Z kind=host host=gpu-01 message=answers",
        ),
        (
            Event(0.0, "pass", message='a "b"\nc\x1b[2J'),
            False,
            '1970-01-01T00:00:00Z kind=pass message="a \\"b\\"\\nc\\u001b[2J"',
        ),
    ],
)
def test_an_event_is_one_line(event: Event, as_json: bool, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """For people and for programs; what is in a message stays on its line."""
    write(event, as_json=as_json)
    assert capsys.readouterr().err == line + "\n"
