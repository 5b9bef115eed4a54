"""Makes things happen to simulated hosts that no Engine call would: what tests and demonstrations need."""

import time
from collections.abc import Callable
from pathlib import Path

from reconciler.engine.simulated_life import life
from reconciler.engine.simulated_records import STATE_FILE, end, find, new_host
from reconciler.engine.simulated_state import shared_file


class Simulation:
    """The hand of chance over the simulated hosts of one state directory. Containers go by id or name."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = shared_file(state_dir / STATE_FILE)
        self._clock = clock

    def exit(self, host: str, container: str, code: int) -> None:
        """The process ends by itself with ``code``; its restart policy does what it does."""
        with self._file.change() as document:
            record, now = find(document["hosts"][host], container), self._clock()
            seen = life(record, now)
            policy = ((record["body"].get("HostConfig") or {}).get("RestartPolicy") or {}).get("Name")
            if policy in {"always", "unless-stopped"} or (policy == "on-failure" and code):
                record.update(started=now, finished=now, restarts=seen.restarts + 1)
            else:
                end(record, now, code, seen)

    def vanish(self, host: str, container: str) -> None:
        """Somebody removes the container by force."""
        with self._file.change() as document:
            state = document["hosts"][host]
            del state["containers"][find(state, container)["id"]]

    def health(self, host: str, container: str, status: str) -> None:
        """Its health check finds ``starting``, ``healthy`` or ``unhealthy`` from now on."""
        with self._file.change() as document:
            find(document["hosts"][host], container)["health"] = status

    def down(self, host: str, reason: str = "no answer in time") -> None:
        """The host answers nothing any more, until ``up``."""
        with self._file.change() as document:
            document["hosts"].setdefault(host, new_host())["down"] = reason

    def up(self, host: str) -> None:
        """The host answers again; its containers went on meanwhile."""
        with self._file.change() as document:
            document["hosts"].setdefault(host, new_host())["down"] = ""

    def network(self, host: str, name: str) -> None:
        """Make a network."""
        with self._file.change() as document:
            document["hosts"].setdefault(host, new_host())["networks"].append(name)

    def files(self, host: str, container: str) -> dict[str, dict[str, str]]:
        """Files that were put into a container: sha256 and mode by path."""
        found: dict[str, dict[str, str]] = find(self._file.read()["hosts"][host], container)["files"]
        return found
