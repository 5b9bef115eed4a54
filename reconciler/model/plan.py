"""A plan is a value: actions with reasons and steps, pending work with reasons, drift, warnings."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reconciler.model.workload import Allocation, InstanceId, Workload


class ActionKind(StrEnum):
    """What happens to one instance."""

    START = "start"
    REPLACE = "replace"
    UPDATE = "update"
    STOP = "stop"
    ADOPT = "adopt"
    REMOVE = "remove"


class Order(StrEnum):
    """The two orders of a replacement."""

    START_FIRST = "start-first"
    STOP_FIRST = "stop-first"


class StepKind(StrEnum):
    """One Engine call each; READY and CUT are none, they are observed: a slice is cut by an operator."""

    CUT = "cut"
    PULL = "pull"
    UPDATE = "update"
    CREATE = "create"
    FILES = "files"
    START = "start"
    READY = "ready"
    STOP = "stop"
    REMOVE = "remove"
    RENAME = "rename"


@dataclass(frozen=True, slots=True)
class Step:
    """One Engine call on one host.

    ``container`` is the id of an existing container, or empty when the step concerns the one that CREATE of this action
    makes; ``name`` is the container's name. ``due`` steps are issued by this pass, in order; the others wait for what
    later passes observe. ``fields`` are the arguments of an UPDATE, in the Engine's own names, or the new name of a
    RENAME under ``name``.
    """

    kind: StepKind
    host: str
    name: str
    container: str = ""
    due: bool = True
    fields: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """One changed field: canonical old and new values (JSON-ready); secrets are references, never values."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Existing:
    """The container that an action replaces, updates, stops, adopts or removes."""

    id: str
    name: str
    host: str
    generation: int
    allocation: Allocation
    owner: str = ""
    since: str = ""
    state: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do about one instance. ``digest``, ``generation`` and ``spec`` describe the container it makes.

    ``failure`` is set when the action exists because something went wrong (a replacement that did not become ready);
    it is remembered under (instance, digest). ``why`` says in a line why this host and node were chosen.
    """

    kind: ActionKind
    instance: InstanceId
    host: str
    reason: str
    steps: tuple[Step, ...]
    workload: Workload | None = None
    allocation: Allocation | None = None
    old: Existing | None = None
    order: Order | None = None
    digest: str = ""
    generation: int = 0
    spec: "dict[str, Any] | None" = None
    changes: tuple[Change, ...] = ()
    failure: str = ""
    warnings: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The host that came closest, and what it lacks, in words; what else stands against it begins with ``it``."""

    host: str
    lacks: str

    @property
    def words(self) -> str:
        """``gpu-02 lacks 3 more free GPUs``, ``gpu-02: it is drained``."""
        return f"{self.host}: {self.lacks}" if self.lacks.startswith("it ") else f"{self.host} lacks {self.lacks}"

    @property
    def sentence(self) -> str:
        """The same where the host alone was asked for: ``gpu-02 is drained``."""
        return f"{self.host} {self.lacks.removeprefix('it ')}" if self.lacks.startswith("it ") else self.words


@dataclass(frozen=True, slots=True)
class Pending:
    """An instance that cannot be placed. ``removed`` counts hosts by the filter that removed them, in filter order."""

    instance: InstanceId
    reason: str
    removed: tuple[tuple[str, int], ...] = ()
    nearest: Nearest | None = None
    gang: str = ""


@dataclass(frozen=True, slots=True)
class Drift:
    """Something that differs from git and is only reported: a policy that no longer holds, a thing not pruned.

    ``failed`` marks a run that ended badly: nothing is to be done about it, and people want to know.
    """

    instance: InstanceId | None
    host: str
    message: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a kept instance runs: for status and explain. ``since`` is when it started, or ended if it has."""

    instance: InstanceId
    host: str
    container: str
    state: str
    allocation: Allocation
    since: str = ""
    owner: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An instance that needs nothing now but is not settled: backing off, held by the prune guard, host unreachable.

    ``until`` is seconds on our clock, None when only an event can end it; ``failed`` marks work that went wrong.
    """

    instance: InstanceId | None
    reason: str
    until: float | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass decided, in a total order. ``unchanged`` counts instances that need nothing."""

    cluster: str
    commit: str | None
    source: str
    fingerprint: str
    actions: tuple[Action, ...] = ()
    pending: tuple[Pending, ...] = ()
    drift: tuple[Drift, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    warnings: tuple[str, ...] = ()
    kept: tuple[Placed, ...] = ()
    unchanged: int = 0
    guard: str = field(default="")

    @property
    def due(self) -> bool:
        """Whether any step is to be issued now."""
        return any(step.due for action in self.actions for step in action.steps)

    @property
    def moving(self) -> bool:
        """Whether something that was begun goes on by itself: a container is becoming ready."""
        return any(step.kind is StepKind.READY and step.container for action in self.actions for step in action.steps)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one action in one pass.

    ``done`` lists the steps that were carried out (or found done). ``in_motion`` is set when a pull or a stop goes on
    after the pass has ended. ``error`` is one line, empty when all went well. ``created`` is the new container's id.
    ``unreachable`` marks an error that says nothing about the workload: its host did not answer. ``raced`` marks one
    in which another creator was there first: it is tried again soon, and never less often.
    """

    action: Action
    done: tuple[StepKind, ...] = ()
    in_motion: bool = False
    error: str = ""
    created: str = ""
    unreachable: bool = False
    raced: bool = False
