"""One host, reached through one implementation of the Protocols."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from reconciler.engine.protocols import Json, Reader, Writer

IMAGE = "bb:1"
"""busybox: the image of the test bed, and one that the simulated Engine takes."""


@dataclass(frozen=True, slots=True)
class Door:
    """One implementation under test: ``kind`` is simulated or docker."""

    kind: str
    reader: Reader
    writer: Writer
    _names: Iterator[int] = field(default_factory=itertools.count)

    def create(self, body: Json | None = None, name: str = "", **host: object) -> str:
        """Create a container that sleeps, unless ``body`` says otherwise; ``host`` is its HostConfig."""
        whole = {"Image": IMAGE, "Cmd": ["sleep", "1000"], "HostConfig": host, **(body or {})}
        return self.writer.create(name or f"test-{next(self._names)}", whole)

    def run(self, body: Json | None = None, name: str = "", **host: object) -> str:
        """Create and start."""
        container = self.create(body, name, **host)
        self.writer.start(container)
        return container

    def state(self, container: str) -> dict[str, Any]:
        """``State`` of a container."""
        found: dict[str, Any] = self.reader.inspect_container(container)["State"]
        return found

    def host_config(self, container: str) -> dict[str, Any]:
        """``HostConfig`` of a container."""
        found: dict[str, Any] = self.reader.inspect_container(container)["HostConfig"]
        return found
