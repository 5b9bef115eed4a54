"""What can be asked of a host's Engine. Reader only looks; a dry run is never given a Writer.

Documents are those of the Docker Engine API, as parsed JSON; the simulated Engine produces the same shapes.
Every method may raise ``errors.EngineError`` and its kinds, and nothing else.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Json = Mapping[str, Any]


class Reader(Protocol):
    """GET requests only."""

    host: str

    def version(self) -> Json:
        """``GET /version``."""

    def info(self) -> Json:
        """``GET /info``."""

    def list_containers(self) -> list[dict[str, Any]]:
        """``GET /containers/json?all=1``: every container, ours or not, raw entries."""

    def inspect_container(self, container: str) -> dict[str, Any]:
        """``GET /containers/ID/json``. Raises NotFoundError."""

    def inspect_image(self, image: str) -> dict[str, Any]:
        """``GET /images/NAME/json``. Raises NotFoundError when the host does not have it."""

    def logs(self, container: str, tail: int) -> str:
        """The last ``tail`` lines of both streams."""

    def close(self) -> None:
        """Give back connections."""


class Writer(Protocol):
    """Everything that changes a host."""

    host: str

    def pull(self, image: str, progress: Callable[[str], None]) -> None:
        """Fetch an image; ``progress`` gets short lines for people."""

    def create(self, name: str, body: Json) -> str:
        """``POST /containers/create?name=``; the new id. Raises ConflictError when the name is taken."""

    def put_archive(self, container: str, path: str, tar: bytes) -> None:
        """Unpack ``tar`` under ``path`` inside a container that need not run."""

    def start(self, container: str) -> None:
        """Start it; already running is done."""

    def stop(self, container: str, grace: float) -> None:
        """Signal, wait up to ``grace`` seconds, kill; already stopped or absent is done. Blocks that long."""

    def remove(self, container: str, *, force: bool = False) -> None:
        """Remove it and its anonymous volumes never; absent or being removed is done."""

    def update(self, container: str, fields: Json) -> None:
        """``POST /containers/ID/update`` with the Engine's own field names."""

    def rename(self, container: str, name: str) -> None:
        """Give it another name."""

    def close(self) -> None:
        """Give back connections."""
