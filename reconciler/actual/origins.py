"""Where the facts of a host come from: its file, or for this machine the probe."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reconciler.actual.facts import FactsError, facts_from_json
from reconciler.errors import ReconcilerError
from reconciler.model.host import EngineFacts, HostFacts, HostSpec

PROBE_PERIOD = 60.0
"""Seconds for which what the local probe found is taken as it is."""

PATIENCE = 5.0
"""Seconds that a pass waits for the probe after a container that held a card has gone."""

Probe = Callable[[], HostFacts]
Clock = Callable[[], float]
Found = tuple[HostFacts | None, bool, str]
"""Facts, whether they are older than they should be, and why they are missing or old, in words."""


class Origins:
    """The facts of every host, each text read once. For any thread."""

    def __init__(self, probe: Probe | None, period: float, clock: Clock) -> None:
        self._read: dict[str, tuple[str, HostFacts | str]] = {}
        self._local = _Local(probe, period, clock) if probe else None

    def of(self, spec: HostSpec) -> Found:
        """The facts of one host."""
        if spec.facts_json is not None:
            found = self._file(spec, spec.facts_json)
            return (None, False, found) if isinstance(found, str) else (found, False, "")
        if self._local is not None and _is_local(spec):
            return self._local.facts()
        return None, False, "no facts yet: give the Host `facts: FILE` (reconcile discover prints them there)"

    def again(self, spec: HostSpec) -> Found:
        """The facts of one host after its cards changed hands: what the probe found before that shows the old users."""
        if spec.facts_json is None and self._local is not None and _is_local(spec):
            self._local.refresh(PATIENCE)
        return self.of(spec)

    def waits_for_probe(self, spec: HostSpec) -> bool:
        """Whether ``of`` runs the probe itself, which may take its time: only the very first time."""
        return spec.facts_json is None and _is_local(spec) and self._local is not None and not self._local.tried

    def keep_only(self, names: set[str]) -> None:
        """Drop the facts of hosts that are gone."""
        for name in self._read.keys() - names:
            del self._read[name]

    def _file(self, spec: HostSpec, text: str) -> HostFacts | str:
        known = self._read.get(spec.name)
        if known is None or known[0] != text:
            try:
                found: HostFacts | str = facts_from_json(text, spec.facts_path or spec.name)
            except FactsError as error:
                found = f"no facts: {error}"
            known = self._read[spec.name] = (text, found)
        return known[1]


class _Local:
    """What the probe finds on this machine: waited for the first time, made anew beside the passes afterwards."""

    def __init__(self, probe: Probe, period: float, clock: Clock) -> None:
        self._probe = probe
        self._period = period
        self._clock = clock
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._found: Found = (None, False, "")
        self._at = 0.0
        self.tried = False

    def facts(self) -> Found:
        """What was found last. A probe that hangs delays nobody once there was an answer, good or bad."""
        with self._lock:
            if not self.tried:
                self._look()
                self.tried = True
        if self._clock() - self._at >= self._period and self._running.acquire(blocking=False):
            threading.Thread(target=self._again, name="probe", daemon=True).start()
        return self._found

    def refresh(self, patience: float) -> None:
        """Probe now, and wait for it as long as ``patience`` allows."""
        if self._running.acquire(timeout=patience):
            probe = threading.Thread(target=self._again, name="probe", daemon=True)
            probe.start()
            probe.join(patience)

    def _again(self) -> None:
        try:
            self._look()
        finally:
            self._running.release()

    def _look(self) -> None:
        before = self._found[0]
        try:
            self._found = self._probe(), False, ""
        except (ReconcilerError, OSError, ValueError) as error:
            self._found = before, before is not None, f"the probe failed: {getattr(error, 'message', error)}"
        self._at = self._clock()


def with_engine(facts: HostFacts | None, info: dict[str, Any]) -> HostFacts | None:
    """The facts with what ``GET /info`` says of the Engine, where nobody has said it yet."""
    if facts is None or facts.engine != EngineFacts():
        return facts
    engine = EngineFacts(version=info.get("ServerVersion") or "", cpuset=info.get("CPUSet") is not False)
    return replace(facts, engine=engine, engine_id=facts.engine_id or info.get("ID") or "")


def _is_local(spec: HostSpec) -> bool:
    return spec.engine.startswith("unix://")
