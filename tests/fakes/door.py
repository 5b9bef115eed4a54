"""One host, reached through one implementation of the Protocols."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

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
