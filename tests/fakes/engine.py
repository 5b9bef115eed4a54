"""A small Engine in memory, with both doors in one object: for tests that need to see every call and to break some."""

import copy
import itertools
import threading
from collections.abc import Callable
from typing import Any

from reconciler.engine.protocols import Json
from reconciler.errors import ConflictError, EngineError, NotFoundError, RefusedError

NEVER = "0001-01-01T00:00:00Z"
Hook = Callable[[], object]


def inspect_document(name: str, body: Json, container: str, created: str) -> dict[str, Any]:
    """What Engine 20.10 shows of a container made from ``body``: unset values filled in as it does."""
    config = {key: copy.deepcopy(value) for key, value in body.items() if key not in {"HostConfig", "NetworkingConfig"}}
    config.setdefault("Labels", {})
    config.setdefault("Env", [])
    host: dict[str, Any] = copy.deepcopy(body.get("HostConfig") or {})
    for request in host.get("DeviceRequests") or ():
        for key, value in {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": None, "Options": {}}.items():
            request.setdefault(key, value)
    defaults: dict[str, Any] = {
        "CpusetCpus": "",
        "CpusetMems": "",
        "NanoCpus": 0,
        "Memory": 0,
        "MemorySwap": 2 * host.get("Memory", 0),
        "PidsLimit": None,
        "ShmSize": 67108864,
        "IpcMode": "private",
        "Runtime": "runc",
        "Privileged": False,
        "PortBindings": {},
        "Devices": [],
        "NetworkMode": "default",
        "RestartPolicy": {"Name": "", "MaximumRetryCount": 0},
        "LogConfig": {"Type": "json-file", "Config": {}},
    }
    return {
        "Id": container,
        "Name": f"/{name}",
        "Created": created,
        "Image": "sha256:0",
        "Config": config,
        "HostConfig": {**defaults, **host},
        "RestartCount": 0,
        "NetworkSettings": {"Ports": {}},
        "State": {
            "Status": "created",
            "ExitCode": 0,
            "Error": "",
            "StartedAt": NEVER,
            "FinishedAt": NEVER,
        },
    }


_ids = itertools.count(1)


class FakeEngine:
    """Reader and Writer of one host.

    ``calls`` lists what was called. ``errors[method]`` is raised instead of carrying the call out (once, when it is a
    list, in order); ``before[method]`` runs first, so that a test can change the world between two calls.
    """

    def __init__(self, host: str = "h", images: tuple[str, ...] = ("img:1",)) -> None:
        self.host = host
        self.images = set(images)
        self.containers: dict[str, dict[str, Any]] = {}
        self.files: dict[str, list[tuple[str, bytes]]] = {}
        self.calls: list[tuple[str, ...]] = []
        self.errors: dict[str, EngineError | list[EngineError]] = {}
        self.before: dict[str, Hook] = {}
        self.system: dict[str, Any] = {
            "ID": f"engine-{next(_ids)}",
            "ServerVersion": "20.10.24",
            "DefaultRuntime": "runc",
        }
        self.status: dict[str, str] = {}
        self.closed = 0
        self._made = 0
        self._lock = threading.RLock()

    # -- for tests

    def add(self, name: str, body: Json, state: str = "running", created: str | None = None) -> str:
        """A container that is there without anybody having called ``create``."""
        self._made += 1
        container = f"{self._made:02d}".ljust(64, "c")
        at = created or f"2026-01-01T00:00:{self._made:02d}.5Z"
        self.containers[container] = inspect_document(name, body, container, at)
        self.set_state(container, state)
        return container

    def set_state(self, container: str, state: str, **values: Any) -> None:
        """Let a container be in ``state``; ``values`` go into its State."""
        document = self.containers[container]["State"]
        document["Status"] = state
        if state in {"running", "exited", "restarting"} and document["StartedAt"] == NEVER:
            document["StartedAt"] = "2026-01-01T00:01:00Z"
        document.update(values)

    def named(self, method: str) -> list[tuple[str, ...]]:
        """The calls of one method."""
        return [call for call in self.calls if call[0] == method]

    # -- Reader

    def version(self) -> Json:
        """As the Engine."""
        self._called("version")
        return {"Version": "20.10.24", "ApiVersion": "1.41"}

    def info(self) -> Json:
        """As the Engine."""
        self._called("info")
        return self.system

    def list_containers(self) -> list[dict[str, Any]]:
        """As the Engine: no limits, and a text for people."""
        self._called("list_containers")
        with self._lock:
            return [self._entry(document) for document in self.containers.values()]

    def inspect_container(self, container: str) -> dict[str, Any]:
        """As the Engine, by id or name."""
        self._called("inspect_container", container)
        return copy.deepcopy(self._find(container))

    def inspect_image(self, image: str) -> dict[str, Any]:
        """As the Engine."""
        self._called("inspect_image", image)
        if image not in self.images:
            raise NotFoundError(self.host, f"No such image: {image}", 404)
        return {"Id": "sha256:0"}

    def logs(self, container: str, tail: int) -> str:
        """Nothing was ever written."""
        self._called("logs", container, str(tail))
        return ""

    def close(self) -> None:
        """Count it."""
        self.closed += 1

    # -- Writer

    def pull(self, image: str, progress: Callable[[str], None]) -> None:
        """The image is there afterwards."""
        self._called("pull", image)
        progress(f"pulled {image}")
        self.images.add(image)

    def create(self, name: str, body: Json) -> str:
        """As the Engine."""
        self._called("create", name)
        with self._lock:
            if body["Image"] not in self.images:
                raise NotFoundError(self.host, f"No such image: {body['Image']}", 404)
            if any(one["Name"] == f"/{name}" for one in self.containers.values()):
                raise ConflictError(self.host, f'Conflict. The container name "/{name}" is already in use', 409)
            return self.add(name, body, state="created")

    def put_archive(self, container: str, path: str, tar: bytes) -> None:
        """Keep it for the test to look at."""
        self._called("put_archive", container)
        self._find(container)
        self.files.setdefault(container, []).append((path, tar))

    def start(self, container: str) -> None:
        """As the Engine."""
        self._called("start", container)
        self._find(container)
        self.set_state(container, "running", StartedAt="2026-01-01T00:02:00Z")

    def stop(self, container: str, grace: float) -> None:
        """At once."""
        self._called("stop", container, f"{grace:g}")
        if container in self.containers:
            self.set_state(container, "exited", ExitCode=143, FinishedAt="2026-01-01T00:03:00Z")

    def remove(self, container: str, *, force: bool = False) -> None:
        """As the Engine: a running one only by force."""
        self._called("remove", container)
        document = self.containers.get(container)
        if document is None:
            return
        if document["State"]["Status"] == "running" and not force:
            raise ConflictError(self.host, "You cannot remove a running container", 409)
        del self.containers[container]

    def update(self, container: str, fields: Json) -> None:
        """The fields that the Engine takes."""
        self._called("update", container)
        self._find(container)["HostConfig"].update(copy.deepcopy(dict(fields)))

    def rename(self, container: str, name: str) -> None:
        """As the Engine."""
        self._called("rename", container, name)
        if any(one["Name"] == f"/{name}" for one in self.containers.values()):
            raise ConflictError(self.host, "the name is taken", 409)
        self._find(container)["Name"] = f"/{name}"

    # -- pieces

    def _called(self, method: str, *arguments: str) -> None:
        self.calls.append((method, *arguments))
        if method in self.before:
            self.before.pop(method)()
        error = self.errors.get(method)
        if isinstance(error, list):
            error = error.pop(0) if error else None
        if error is not None:
            raise error

    def _find(self, container: str) -> dict[str, Any]:
        for document in self.containers.values():
            if container in {document["Id"], document["Name"].removeprefix("/")}:
                return document
        raise NotFoundError(self.host, f"No such container: {container}", 404)

    def _entry(self, document: dict[str, Any]) -> dict[str, Any]:
        state = document["State"]["Status"]
        text = {"running": "Up 3 minutes", "exited": "Exited (0) 3 minutes ago", "created": "Created"}.get(state, state)
        return {
            "Id": document["Id"],
            "Names": [document["Name"]],
            "Image": document["Config"].get("Image"),
            "ImageID": document["Image"],
            "Created": 1,
            "Labels": document["Config"]["Labels"],
            "State": state,
            "Status": self.status.get(document["Id"], text),
        }


def refused(message: str = "no", host: str = "h") -> RefusedError:
    """An Engine's no."""
    return RefusedError(host, message, 500)
