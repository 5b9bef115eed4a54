"""CPU of a pass with nothing to do beside that of one bare list call: ``python -m bench.noop [CONTAINERS] [PASSES]``.

Starts a private Docker Engine (as root), applies one App of so many instances from a local git repository, and then
measures the client's CPU per quiet pass of the daemon (all of it: git, list call, plan, memory) and per raw
``GET /containers/json?all=1`` with its JSON parsed, in turn:
a machine whose speed drifts then does both at each speed.
"""

import gc
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.cli.main import main as reconcile
from reconciler.cli.wiring import Wiring
from reconciler.config import settings_from
from reconciler.daemon import Daemon
from tests.engine.dockerd import IMAGE, Bed

if TYPE_CHECKING:
    from reconciler.journal.journal import Event

CONTAINERS, PASSES = 100, 200
FLEET = """
apiVersion: reconciler/v1
kind: Cluster
name: bench
---
apiVersion: reconciler/v1
kind: Host
name: here
engine: {url}
---
apiVersion: reconciler/v1
kind: App
name: sleep
instances: {instances}
image: {image}
pull: never
command: [sleep, infinity]
network: none
resources: {{cpus: 0.01, cpuPolicy: shared, memory: 16Mi}}
"""


class Unix(http.client.HTTPConnection):
    """A bare client of the Engine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def measure(engine: str, folder: Path, containers: int, passes: int) -> int:
    """Apply, measure, print."""
    repo = folder / "repo"
    repo.mkdir()
    (repo / "fleet.yaml").write_text(FLEET.format(url=engine, instances=containers, image=IMAGE))
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=b", "-c", "user.email=b@b", "commit", "-qm", "b"]):
        subprocess.run(["git", "-C", str(repo), *command], check=True)
    flags = {"repo": str(repo), "state_dir": folder / "state", "interval": 0.01}
    arguments = ["--repo", str(repo), "--state-dir", str(folder / "state")]
    if reconcile(arguments, os.environ) != 0:
        raise SystemExit("the fleet could not be made")
    wiring = Wiring(settings_from(flags, os.environ))
    with wiring.writing() as journal:
        said: list[Event] = []
        daemon = Daemon(
            wiring.cycle(), wiring.hands, wiring.selects,
            read=wiring.read, clock=wiring.clock, log=said.extend, interval=1,
        )  # fmt: skip
        for _ in range(60):  # let everything settle and every cache fill
            daemon.pass_once()
        settled = len(said)
        bare = Unix(engine.removeprefix("unix://"))
        ours, theirs = [], []
        for _ in range(passes):
            ours.append(cpu(daemon.pass_once))
            theirs.append(cpu(lambda: raw_list(bare)))
        bare.close()
        assert len(said) == settled, "the passes were not quiet"
        journal.close()
    print(f"{containers} containers, {passes} quiet passes in turn with {passes} bare list calls, CPU in ms")
    for name, times in (("pass", ours), ("bare list call with JSON", theirs)):
        low, mid, high = min(times), statistics.median(times), max(times)
        print(f"  {name:<26} min {low:7.2f}  median {mid:7.2f}  max {high:7.2f}")
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"  ratio {a / b:.2f}; pass - 1.5 x list = {a - 1.5 * b:.2f} ms (to be at most 10)")
    return 0 if a <= 1.5 * b + 10 else 1


def cpu(call: Callable[[], object]) -> float:
    """CPU of this process and its children, in milliseconds."""
    before = used()
    call()
    return (used() - before) * 1000


def used() -> float:
    """CPU seconds so far, children that were waited for included."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def raw_list(connection: Unix) -> object:
    """One list call, parsed."""
    connection.request("GET", "/v1.41/containers/json?all=1")
    return json.loads(connection.getresponse().read())


def main() -> int:
    """Measure on a private Engine."""
    containers = int(sys.argv[1]) if len(sys.argv) > 1 else CONTAINERS
    passes = int(sys.argv[2]) if len(sys.argv) > 2 else PASSES
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    bed = Bed(folder)
    try:
        bed.start()
        bed.import_image()
        gc.collect()
        return measure(bed.url, folder, containers, passes)
    finally:
        bed.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
