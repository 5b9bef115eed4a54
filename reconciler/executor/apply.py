"""Due steps → Engine calls: hosts in parallel, one host's actions in the order of the plan. It decides nothing.

No step is tried twice in a pass. A host that does not answer fails the rest of its actions at once, with the same
words and without another time-out; the other hosts go on.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from reconciler.errors import ConflictError, EngineError, ReconcilerError, UnreachableError
from reconciler.executor.background import Jobs, Key
from reconciler.executor.doors import Doors, Handles
from reconciler.executor.look import HostPass
from reconciler.executor.secrets import SecretStore
from reconciler.executor.steps import Context, Patience, Progress, Run, carry_out
from reconciler.model.desired import Cluster, Desired
from reconciler.model.plan import Action, Outcome, Plan, Step, StepKind
from reconciler.model.snapshot import HostView, Snapshot
from reconciler.model.workload import SecretRef

HOSTS_AT_ONCE = 16
AT_ONCE = {"pull": 8, "stop": 64}
OBSERVED = frozenset({StepKind.READY, StepKind.CUT})
PATIENCE = 0.25
"""Seconds that a pass waits on each host, in all, for pulls and stops that are over at once."""

_log = logging.getLogger(__name__)


class Executor:
    """Issues the due steps of plans, pass after pass, and keeps what goes on between them: pulls and stops.

    ``handles`` opens both doors to a host, which stay open until its host leaves or ``close``. ``touched`` is told of
    each container that was changed, by host and id, so that an observer looks at it again; ``progress`` gets the lines
    of pulls.
    """

    def __init__(
        self,
        handles: Handles,
        *,
        progress: Progress | None = None,
        touched: Callable[[str, str], None] | None = None,
        secrets: Callable[[Cluster], SecretStore] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._doors = Doors(handles)
        self._progress = progress or (lambda host, line: _log.info("%s: %s", host, line))
        self._touched = touched or (lambda _host, _container: None)
        self._secrets = secrets or (lambda cluster: SecretStore(cluster.secrets_dir))
        self._patience = patience
        self._jobs = Jobs(AT_ONCE)
        self._stopping = threading.Event()

    def apply(self, plan: Plan, snapshot: Snapshot, desired: Desired) -> list[Outcome]:
        """Issue the due steps; an outcome, in the order of the plan, for each action that had any.

        An action that was not begun because of ``shutdown`` has no outcome. Raises ReconcilerError without a cluster.
        """
        if desired.cluster is None:
            raise ReconcilerError("a Cluster document is needed to apply: it names labels and containers")
        self._doors.keep_only(snapshot)
        context = self._context(plan, desired.cluster)
        work = _Pass(context, self._doors, snapshot, self._patience, self._stopping)
        work.run(plan.actions)
        self._jobs.keep_only(frozenset(work.asked))
        return [work.outcomes[index] for index in sorted(work.outcomes)]

    @property
    def in_motion(self) -> frozenset[Key]:
        """What goes on in the background: (``pull``, host, image) and (``stop``, host, container id)."""
        return self._jobs.running

    @property
    def busy(self) -> bool:
        """Whether anything goes on in the background."""
        return bool(self.in_motion)

    def shutdown(self, *, wait: bool = True) -> None:
        """Begin no further action; the one in hand is finished by ``apply``. With ``wait``, stops come to their end.

        A pull that is cut off costs nothing but its bytes, so nobody waits for pulls.
        """
        self._stopping.set()
        if wait:
            self._jobs.finish("stop")

    def close(self) -> None:
        """Give back every connection."""
        self._doors.close()

    def _context(self, plan: Plan, cluster: Cluster) -> Context:
        return Context(
            cluster=cluster.name,
            commit=plan.commit or "",
            secrets=self._secrets(cluster),
            secrets_key=SecretRef(*cluster.secrets_key) if cluster.secrets_key else None,
            jobs=self._jobs,
            progress=self._progress,
            touched=self._touched,
        )


@dataclass(slots=True)
class _Host:
    """One host during one pass: its doors, opened when first needed, or why nobody answers there."""

    view: HostView
    lock: threading.RLock = field(default_factory=threading.RLock)
    opened: HostPass | None = None
    dead: str = ""


class _Pass:
    """The actions of one plan being carried out."""

    def __init__(
        self, context: Context, doors: Doors, snapshot: Snapshot, patience: float, stopping: threading.Event
    ) -> None:
        self._context = context
        self._doors = doors
        self._hosts = {view.spec.name: _Host(view) for view in snapshot.hosts}
        self._patience = patience
        self._stopping = stopping
        self.outcomes: dict[int, Outcome] = {}
        self.asked: set[Key] = set()

    def run(self, actions: Sequence[Action]) -> None:
        """Each host's actions in order, hosts side by side."""
        by_host: dict[str, list[tuple[int, Action]]] = {}
        for index, action in enumerate(actions):
            if _due(action):
                by_host.setdefault(action.host, []).append((index, action))
        if len(by_host) == 1:
            self._run_host(*by_host.values())
            return
        with ThreadPoolExecutor(HOSTS_AT_ONCE, thread_name_prefix="apply") as pool:
            for future in [pool.submit(self._run_host, theirs) for theirs in by_host.values()]:
                future.result()

    def _run_host(self, actions: Sequence[tuple[int, Action]]) -> None:
        patience = Patience(self._patience)
        for index, action in actions:
            if self._stopping.is_set():
                return
            self.outcomes[index] = self._act(action, patience)

    def _act(self, action: Action, patience: Patience) -> Outcome:
        run, moving, error, unreachable, raced = Run(action), False, "", False, False
        try:
            for step in _due(action):
                if not self._step(run, step, patience):
                    moving = True
                    break
                run.done.append(step.kind)
        except ReconcilerError as failure:
            error, unreachable = _words(failure, action), isinstance(failure, UnreachableError)
            raced = isinstance(failure, ConflictError)
        except Exception as failure:  # noqa: BLE001 - a fault of ours fails this action, aloud, and no other
            _log.exception("%s on %s failed", action.instance, action.host)
            error = f"internal error: {type(failure).__name__}: {failure}"
        self.asked |= run.asked
        return Outcome(action, tuple(run.done), moving, error, run.created, unreachable, raced)

    def _step(self, run: Run, step: Step, patience: Patience) -> bool:
        host = self._hosts.get(step.host)
        if host is None:
            raise ReconcilerError(f"{step.host} is not among the hosts that were looked at")
        with host.lock:
            if host.dead:
                raise UnreachableError(step.host, host.dead)
            try:
                if host.opened is None:
                    host.opened = HostPass(host.view, self._context.cluster, *self._doors.to(host.view.spec))
                return carry_out(self._context, host.opened, run, step, patience)
            except UnreachableError as error:
                host.dead = error.message
                raise


def _due(action: Action) -> list[Step]:
    return [step for step in action.steps if step.due and step.kind not in OBSERVED]


def _words(error: ReconcilerError, action: Action) -> str:
    """One line; the host is named when it is not the action's own."""
    text = error.message if isinstance(error, EngineError) and error.host == action.host else str(error)
    return " ".join(text.split())
