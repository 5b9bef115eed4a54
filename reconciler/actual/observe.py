"""All hosts at once → Snapshot. Each host has its own deadline; one that does not answer costs nobody else anything."""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from reconciler.actual.inspects import FRESH, Inspects, Lens
from reconciler.actual.origins import PROBE_PERIOD, Clock, Origins, Probe, with_engine
from reconciler.engine.protocols import Reader
from reconciler.errors import ReconcilerError, UnreachableError
from reconciler.model.host import HostSpec
from reconciler.model.snapshot import Container, HostView, Reach, Snapshot

DEADLINE = 15.0
"""Seconds after which a host counts as unreachable in this pass; what it says later serves the next one."""
FIRST_PROBE = 35.0
"""Seconds more for a host that waits for the first answer of the local probe: NVML can take its time to wake."""
AT_ONCE = 64
"""Hosts that are asked at the same time."""

Connect = Callable[[HostSpec], Reader]

_log = logging.getLogger(__name__)


class Observer:
    """Looks at hosts again and again, and keeps what need not be asked for twice. Nothing grows with the passes.

    ``connect`` opens a Reader, which stays open until its host leaves or stops answering. ``probe`` finds the facts of
    this machine, for hosts behind ``unix://`` that have no facts file; it may raise ReconcilerError, OSError or
    ValueError.
    """

    def __init__(
        self,
        connect: Connect,
        probe: Probe | None = None,
        *,
        deadline: float = DEADLINE,
        probe_period: float = PROBE_PERIOD,
        fresh: float = FRESH,
        clock: Clock = time.monotonic,
    ) -> None:
        self._connect = connect
        self._origins = Origins(probe, probe_period, clock)
        self._deadline = deadline
        self._fresh = fresh
        self._clock = clock
        self._hosts: dict[str, _Host] = {}

    def observe(self, hosts: Sequence[HostSpec], cluster: str | None) -> Snapshot:
        """Every host as it is now. Never raises for what a host does: a host that fails is unreachable, with why."""
        self._part({spec.name: spec.engine for spec in hosts})
        asked = [self._host(spec) for spec in hosts]
        views = self._ask(asked, {spec.name: spec for spec in hosts}, cluster)
        return Snapshot(self._told_apart(sorted(views, key=lambda view: view.spec.name)))

    def forget(self, host: str, container: str) -> None:
        """This container was just changed: the next pass looks at it, whatever the list says."""
        known = self._hosts.get(host)
        if known is not None:
            known.inspects.forget(container)

    def close(self) -> None:
        """Close every connection."""
        self._part({})

    def _told_apart(self, views: list[HostView]) -> tuple[HostView, ...]:
        """One Engine under two addresses is one host: the second name gets none of its containers."""
        first: dict[str, str] = {}
        out = []
        for view in views:
            engine = self._hosts[view.spec.name].engine_id
            owner = first.setdefault(engine, view.spec.name) if engine else view.spec.name
            if owner == view.spec.name:
                out.append(view)
            else:
                why = f"is the same Engine as {owner}, by another address"
                out.append(HostView(view.spec, Reach.UNREACHABLE, reason=why))
        return tuple(out)

    def _host(self, spec: HostSpec) -> "_Host":
        if spec.name not in self._hosts:
            self._hosts[spec.name] = _Host(spec, self._connect, self._origins, Inspects(self._fresh), self._clock)
        return self._hosts[spec.name]

    def _part(self, stay: dict[str, str]) -> None:
        """Leave hosts that are gone or have moved to another Engine."""
        for name, host in list(self._hosts.items()):
            if stay.get(name) != host.engine:
                del self._hosts[name]
                host.leave()
        self._origins.keep_only(set(stay))

    def _ask(self, hosts: list["_Host"], specs: dict[str, HostSpec], cluster: str | None) -> list[HostView]:
        """Ask all hosts, a limited number at once, and give each its deadline from the moment it is asked."""
        answers: queue.SimpleQueue[_Host] = queue.SimpleQueue()
        waiting = deque(hosts)
        asked: dict[_Host, float] = {}
        views: list[HostView] = []
        while waiting or asked:
            while waiting and len(asked) < AT_ONCE:
                host = waiting.popleft()
                if host.ask(specs[host.name], cluster, answers.put):
                    slow = FIRST_PROBE if self._origins.waits_for_probe(specs[host.name]) else 0.0
                    asked[host] = time.monotonic() + self._deadline + slow
                else:
                    views.append(host.silent(specs[host.name], "it still has not answered an earlier question"))
            if not asked:
                continue
            try:
                host = answers.get(timeout=max(0.0, min(asked.values()) - time.monotonic()))
            except queue.Empty:
                late = [host for host, end in asked.items() if end <= time.monotonic()]
                views += [host.silent(specs[host.name], f"no answer within {self._deadline:g} s") for host in late]
                asked = {host: end for host, end in asked.items() if host not in late}
                continue
            if asked.pop(host, None) is not None:
                views.append(host.view)
        return views


class _Host:
    """One host: its connection and what was last seen there. At most one thread asks it at any time."""

    def __init__(self, spec: HostSpec, connect: Connect, origins: Origins, inspects: Inspects, clock: Clock) -> None:
        self.name = spec.name
        self.engine = spec.engine
        self.inspects = inspects
        self.view = HostView(spec, Reach.UNREACHABLE, reason="not asked yet", seen=False)
        self._connect = connect
        self._origins = origins
        self._clock = clock
        self._reader: Reader | None = None
        self._info: dict[str, Any] = {}
        self._busy = threading.Lock()
        self._left = False

    @property
    def engine_id(self) -> str:
        """What the Engine calls itself, once it has answered."""
        return str(self._info.get("ID") or "")

    def ask(self, spec: HostSpec, cluster: str | None, done: Callable[["_Host"], None]) -> bool:
        """Look at the host in a thread of its own, which calls ``done``; false while an earlier one still waits."""
        if not self._busy.acquire(blocking=False):
            return False
        threading.Thread(target=self._run, args=(spec, cluster, done), name=f"look {self.name}", daemon=True).start()
        return True

    def silent(self, spec: HostSpec, reason: str) -> HostView:
        """The host as last seen, marked unreachable."""
        return replace(self.view, spec=spec, reach=Reach.UNREACHABLE, reason=reason)

    def leave(self) -> None:
        """Close the connection; a thread that still waits for an answer closes it when it ends."""
        self._left = True
        if self._busy.acquire(blocking=False):
            try:
                self._disconnect()
            finally:
                self._busy.release()

    def _run(self, spec: HostSpec, cluster: str | None, done: Callable[["_Host"], None]) -> None:
        try:
            self.view = self._guarded(spec, cluster)
        finally:
            if self._left:
                self._disconnect()
            self._busy.release()
            done(self)

    def _guarded(self, spec: HostSpec, cluster: str | None) -> HostView:
        try:
            return self._look(spec, cluster)
        except ReconcilerError as error:
            if isinstance(error, UnreachableError):
                self._disconnect()  # a broken transport can stay broken for ever: start afresh
            return self.silent(spec, getattr(error, "message", str(error)))
        except Exception as error:  # noqa: BLE001 - one host's surprise must not hide the other hosts
            _log.exception("%s: looking at it failed", self.name)
            self._disconnect()
            return self.silent(spec, f"looking at it failed: {type(error).__name__}: {error}")

    def _look(self, spec: HostSpec, cluster: str | None) -> HostView:
        if self._reader is None:
            self._reader = self._connect(spec)
        if not self._info:
            self._info = dict(self._reader.info())
        facts, stale, reason = self._origins.of(spec)
        facts = with_engine(facts, self._info)
        lens = Lens(cluster, spec.ignore_containers, facts, self._info.get("DefaultRuntime") or "")
        entries = self._reader.list_containers()
        containers = self.inspects.refresh(self._reader, entries, lens, self._clock())
        if _card_holders(self.view.containers) - _card_holders(containers):
            facts, stale, reason = self._origins.again(spec)
            facts = with_engine(facts, self._info)
        return HostView(spec, Reach.STALE if stale else Reach.KNOWN, facts, containers, reason)

    def _disconnect(self) -> None:
        reader, self._reader, self._info = self._reader, None, {}
        if reader is not None:
            reader.close()


def _card_holders(containers: tuple[Container, ...]) -> set[str]:
    """Ids of the containers that hold a card, a slice or a share."""
    held = (one for one in containers if one.holds and (one.holding.cards or one.holding.all_gpus))
    return {one.id for one in held}
