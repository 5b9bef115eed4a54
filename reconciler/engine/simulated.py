"""``sim://``: the second implementation of the Protocols, for demonstrations, tests and learning.

All simulated hosts of a cluster live in one file, ``simulated.json`` in the state directory; removing it is a fresh
start. Documents, refusals and their words are those of Engine 20.10, and one test suite runs on both. Nothing waits: a
stop takes no time, a container is healthy as soon as it runs. What a container's process does is told by its command
and by ``SIM_*`` variables in its environment (see ``simulated_life``). An image whose name contains ``missing`` is in
no registry; every other one can be pulled. ``simulation.Simulation`` makes things happen by hand.
"""

import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconciler.engine.protocols import Json
from reconciler.engine.simulated_documents import image_document, inspect_document, list_entry, stamp
from reconciler.engine.simulated_life import Record, life, stop_code
from reconciler.engine.simulated_records import (
    STATE_FILE,
    digest,
    end,
    find,
    first_line,
    free_name,
    new_host,
    reference,
)
from reconciler.engine.simulated_rules import (
    BOUNDLESS,
    Machine,
    Refusal,
    bound_ports,
    check_body,
    check_devices,
    check_name,
    check_removal,
    merged,
)
from reconciler.engine.simulated_state import shared_file
from reconciler.errors import ConflictError, EngineError, NotFoundError, RefusedError, UnreachableError

VERSION, API_VERSION = "20.10.24", "1.41"
Clock = Callable[[], float]

__all__ = ["Machine", "SimulatedReader", "SimulatedWriter"]


class _Door:
    """What Reader and Writer share: one host in the state file."""

    def __init__(self, host: str, state_dir: Path, machine: Machine | None = None, clock: Clock = time.time) -> None:
        self.host = host
        self._file = shared_file(state_dir / STATE_FILE)
        self._machine = machine or BOUNDLESS
        self._clock = clock

    def close(self) -> None:
        """Nothing is held open."""

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The Engine's answers, and troubles with the file, as EngineErrors."""
        kinds: dict[int, type[EngineError]] = {404: NotFoundError, 409: ConflictError}
        try:
            yield
        except Refusal as refusal:
            raise kinds.get(refusal.status, RefusedError)(self.host, refusal.message, refusal.status) from None
        except (OSError, ValueError) as error:
            raise RefusedError(self.host, f"the state of simulated hosts, {self._file.path}: {error}") from error


class SimulatedReader(_Door):
    """Looks at one simulated host; writes nothing, not even the file."""

    def version(self) -> Json:
        """``GET /version``."""
        with self._looking():
            return {
                "Version": VERSION,
                "ApiVersion": API_VERSION,
                "MinAPIVersion": "1.12",
                "Os": "linux",
                "Arch": "amd64",
            }

    def info(self) -> Json:
        """``GET /info``."""
        with self._looking() as host:
            lives = [life(record, self._clock()) for record in host["containers"].values()]
            return {
                "ID": digest(self.host)[:16].upper(),
                "Name": self.host,
                "ServerVersion": VERSION,
                "Containers": len(lives),
                "ContainersRunning": sum(one.running for one in lives),
                "ContainersPaused": 0,
                "ContainersStopped": sum(not one.running for one in lives),
                "Images": len(host["images"]),
                "NCPU": len(self._machine.cpus),
                "MemTotal": self._machine.memory,
                "CPUSet": True,
                "CgroupVersion": "1",
                "CgroupDriver": "cgroupfs",
                "DefaultRuntime": "runc",
                "Runtimes": {"runc": {"path": "runc"}},
                "OperatingSystem": "simulated",
                "OSType": "linux",
                "LiveRestoreEnabled": True,
                "SystemTime": stamp(self._clock()),
                "Warnings": None,
            }

    def list_containers(self) -> list[dict[str, Any]]:
        """``GET /containers/json?all=1``: newest first."""
        now = self._clock()
        with self._looking() as host:
            records = sorted(host["containers"].values(), key=lambda record: -record["sequence"])
            return [list_entry(record, life(record, now), now) for record in records]

    def inspect_container(self, container: str) -> dict[str, Any]:
        """``GET /containers/ID/json``. Raises NotFoundError."""
        with self._looking() as host:
            record = find(host, container)
            return inspect_document(record, life(record, self._clock()), self.host)

    def inspect_image(self, image: str) -> dict[str, Any]:
        """``GET /images/NAME/json``. Raises NotFoundError when the host does not have it."""
        with self._looking() as host:
            wanted = reference(image)
            if wanted not in host["images"]:
                raise Refusal(404, f"no such image: {image}: No such image: {wanted}")
            return image_document(wanted, host["images"][wanted])

    def logs(self, container: str, tail: int) -> str:
        """What ``echo`` said, or a line that names the command, once per start."""
        with self._looking() as host:
            lines: list[str] = find(host, container)["log"]
            return "".join(f"{line}\n" for line in lines[-tail:] if tail > 0)

    @contextmanager
    def _looking(self) -> Iterator[dict[str, Any]]:
        with self._errors():
            host = self._file.read()["hosts"].get(self.host) or new_host()
            if host["down"]:
                raise UnreachableError(self.host, host["down"])
            yield host


class SimulatedWriter(_Door):
    """Changes one simulated host."""

    def pull(self, image: str, progress: Callable[[str], None]) -> None:
        """Fetch an image; at once."""
        wanted = reference(image)
        if "missing" in wanted:
            with self._errors():
                raise Refusal(404, f"manifest for {wanted} not found: manifest unknown: manifest unknown")
        with self._changing() as host:
            known = wanted in host["images"]
            host["images"][wanted] = f"sha256:{digest(wanted)}"
        progress("1 of 1 layers")
        progress(f"Image is up to date for {wanted}" if known else f"Downloaded newer image for {wanted}")

    def create(self, name: str, body: Json) -> str:
        """``POST /containers/create?name=``; the new id. Raises ConflictError when the name is taken."""
        with self._changing() as host:
            check_body(body, self._machine)
            wanted = reference(body["Image"])
            if wanted not in host["images"]:
                raise Refusal(404, f"No such image: {wanted}")
            check_name(name)
            free_name(host, name)
            host["sequence"] += 1
            identity = digest(f"{self.host}/{name}/{host['sequence']}")
            host["containers"][identity] = {
                "id": identity,
                "name": name,
                "sequence": host["sequence"],
                "created": self._clock(),
                "image": body["Image"],
                "imageId": host["images"][wanted],
                "body": json.loads(json.dumps(body)),
                "started": None,
                "finished": None,
                "stopped": None,
                "restarts": 0,
                "error": "",
                "errorCode": 0,
                "health": None,
                "ports": {},
                "files": {},
                "log": [],
            }
            return identity

    def put_archive(self, container: str, path: str, tar: bytes) -> None:
        """Unpack ``tar`` under ``path``: names, modes and hashes are kept. Every folder exists."""
        import tarfile  # noqa: PLC0415 - 20 ms that only containers with files pay

        with self._changing() as host:
            record = find(host, container)
            try:
                with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
                    for member in archive:
                        content = archive.extractfile(member)
                        if content is not None:
                            full = f"{path.rstrip('/')}/{member.name.lstrip('/')}"
                            content_hash = hashlib.sha256(content.read()).hexdigest()
                            record["files"][full] = {"sha256": content_hash, "mode": f"{member.mode:04o}"}
            except tarfile.TarError as error:
                raise Refusal(500, "Error processing tar file(exit status 1): unexpected EOF") from error

    def start(self, container: str) -> None:
        """Start it; already running is done."""
        failed = None
        with self._changing() as host:
            record, now = find(host, container), self._clock()
            before = life(record, now)
            if before.running:
                return
            try:
                self._ready(host, record, now)
            except Refusal as refusal:  # the reason stays with the container, so this change is kept
                failed = refusal
                record.update(error=refusal.message, errorCode=128)
            else:
                record.update(started=now, stopped=None, restarts=0, error="", errorCode=0, health=None)
                record["finished"] = before.finished
                record["log"].append(first_line(record))
        if failed is not None:
            with self._errors():
                raise failed

    def stop(self, container: str, grace: float) -> None:  # noqa: ARG002 - a simulated stop takes no time
        """Stop it; already stopped or absent is done."""
        with self._changing() as host:
            record = find(host, container, missing_is_none=True)
            now = self._clock()
            if record is None or not (seen := life(record, now)).running:
                return
            code = stop_code(record) if seen.status == "running" else seen.exit_code
            end(record, now, code, seen)

    def remove(self, container: str, *, force: bool = False) -> None:
        """Remove it; absent is done."""
        with self._changing() as host:
            record = find(host, container, missing_is_none=True)
            if record is None:
                return
            if not force:
                check_removal(record, life(record, self._clock()))
            del host["containers"][record["id"]]

    def update(self, container: str, fields: Json) -> None:
        """``POST /containers/ID/update`` with the Engine's own field names."""
        with self._changing() as host:
            record = find(host, container)
            record["body"]["HostConfig"] = merged(record, fields, self._machine)

    def rename(self, container: str, name: str) -> None:
        """Give it another name."""
        with self._changing() as host:
            record = find(host, container)
            if record["name"] == name:
                raise Refusal(400, "Renaming a container with the same name as its current name")
            check_name(name)
            free_name(host, name, "Error when allocating new name: ")
            record["name"] = name

    def _ready(self, host: dict[str, Any], record: Record, now: float) -> None:
        """Refuse a start that cannot be, in the Engine's order; else give it its ports."""
        check_devices(record, self._machine)
        network = (record["body"].get("HostConfig") or {}).get("NetworkMode") or "default"
        if network not in {"default", "bridge", "host", "none", *host["networks"]}:
            raise Refusal(404, f"network {network} not found")
        running = [one["ports"] for one in host["containers"].values() if life(one, now).running]
        record["ports"].clear()
        record["ports"].update(bound_ports(record, running))

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        with self._errors(), self._file.change() as document:
            host = document["hosts"].setdefault(self.host, new_host())
            if host["down"]:
                raise UnreachableError(self.host, host["down"])
            yield host
