"""The Engines that are open, kept between passes."""

import threading
from collections.abc import Callable

from reconciler.engine.protocols import Reader, Writer
from reconciler.model.host import HostSpec
from reconciler.model.snapshot import Snapshot

Handles = Callable[[HostSpec], tuple[Reader, Writer]]


class Doors:
    """Opens both doors to a host when first asked, and closes them when the host leaves. For any thread."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], tuple[Reader, Writer]] = {}

    def to(self, spec: HostSpec) -> tuple[Reader, Writer]:
        """The doors to one host. Raises what ``handles`` raises."""
        key = (spec.name, spec.engine)
        with self._lock:
            if key not in self._open:
                self._open[key] = self._handles(spec)
            return self._open[key]

    def keep_only(self, snapshot: Snapshot) -> None:
        """Close the doors to hosts that left, or that moved to another Engine."""
        self._close({(view.spec.name, view.spec.engine) for view in snapshot.hosts})

    def close(self) -> None:
        """Close all."""
        self._close(set())

    def _close(self, stay: set[tuple[str, str]]) -> None:
        with self._lock:
            gone = [self._open.pop(key) for key in self._open.keys() - stay]
        for reader, writer in gone:
            reader.close()
            writer.close()
