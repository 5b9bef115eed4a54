"""One host during one pass: what is there now, whose it is, and whether anybody else holds what we are about to use."""

import threading
from typing import Any

from reconciler.actual.containers import born, decode
from reconciler.engine.protocols import Reader, Writer
from reconciler.errors import NotFoundError, RefusedError
from reconciler.model.claims import claim_of, clash_with
from reconciler.model.host import GpuMode
from reconciler.model.snapshot import Container, HostView
from reconciler.model.workload import InstanceId

STOP_TIMEOUT = 10.0
"""Seconds of grace where nobody named any: the Engine's own default."""


class HostPass:
    """Both doors to a host and what this pass knows of it. ``lock`` is held around every step there."""

    def __init__(self, view: HostView, cluster: str, reader: Reader, writer: Writer) -> None:
        self.view = view
        self.name = view.spec.name
        self.reader = reader
        self.writer = writer
        self.lock = threading.RLock()
        self._cluster = cluster
        self._known = {one.id: one for one in view.containers}

    def decode(self, document: dict[str, Any]) -> Container:
        """An inspect document of this host."""
        return decode(document, self._cluster, self.view.spec.ignore_containers, self.view.facts)

    def inspect(self, container: str) -> tuple[Container, dict[str, Any]] | None:
        """A container as it is now, by id or name; None when it is gone."""
        try:
            document = self.reader.inspect_container(container)
        except NotFoundError:
            self._known.pop(container, None)
            return None
        found = self.decode(document)
        self._known[found.id] = found
        return found, document

    def own(self, container: str, instance: InstanceId) -> tuple[Container, dict[str, Any]] | None:
        """As ``inspect``, of a container that may be changed because its labels say that it is ``instance``.

        Raises RefusedError when they do not: what the reconciler did not make is left alone.
        """
        found = self.inspect(container)
        if found is None:
            return None
        ours, name = found[0].ours, found[0].name
        if ours is None or ours.instance != instance:
            says = found[0].note or (f"its labels say {ours.instance}" if ours else "it carries no labels of ours")
            raise RefusedError(self.name, f"{name} is not {instance}: {says}; it is left alone")
        return found

    def changed(self, container: str) -> None:
        """This container was just changed: what was known of it no longer holds."""
        self._known.pop(container, None)

    def others(self, me: str) -> list[Container]:
        """Every other container, listed anew; those that are new or in another state than known are inspected."""
        found = []
        for entry in self.reader.list_containers():
            known = self._known.get(entry["Id"])
            if known is None or known.state != entry.get("State"):
                again = self.inspect(entry["Id"])
                known = again[0] if again else None
            if known is not None and known.id != me:
                found.append(known)
        return found

    def claimed(self, me: Container) -> str:
        """Who else holds what ``me`` needs and does not give way, in words; empty when nobody.

        Of two containers of ours that stand still, the one that was created later gives way; both creators look after
        they created, so at least one of them sees the other. What runs already, and what is not ours, stays. Shares of
        a card are judged together: who finds that those that stay leave too little gives way.
        """
        stay = [other for other in sorted(self.others(me.id), key=born) if _stays(other, me)]
        return clash_with(claim_of(me), stay, rationed=self.view.spec.gpu_mode is not GpuMode.PASSTHROUGH)


def _stays(other: Container, me: Container) -> bool:
    return other.ours is None or other.running or other.state == "restarting" or born(other) < born(me)


def grace_of(document: dict[str, Any]) -> float:
    """Seconds between the signal and the kill that a container was made with."""
    timeout = (document.get("Config") or {}).get("StopTimeout")
    return STOP_TIMEOUT if timeout is None else float(timeout)
