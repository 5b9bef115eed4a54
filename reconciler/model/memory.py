"""What the reconciler itself knows and nobody else can tell: outcomes, back-off, since when something was seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.model.workload import Allocation, InstanceId


@dataclass(frozen=True, slots=True)
class Failure:
    """How often one digest of one instance failed in a row. ``at`` and ``retry_at`` (next try) are on our clock."""

    count: int
    at: float
    retry_at: float
    message: str


@dataclass(frozen=True, slots=True)
class Watch:
    """A container that is becoming ready: since when (our clock) it was good without a break, and its restarts then.

    ``first_seen`` starts the rollout's deadline; ``good_since`` is None while it is not good.
    """

    first_seen: float
    good_since: float | None = None
    restart_count: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instance was last seen, and what it had there: it goes back to it when it can."""

    host: str
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Memory:
    """One cluster's memory. Losing it loses history, never running work.

    ``failures`` by (instance, digest); ``watches`` by container id; ``healthy`` the last digest that was ready, by
    instance; ``finished`` exit codes of task instances, by identity; ``last_seen`` by host name; ``placed`` where
    an instance was last seen: a host that is down later cannot hide it, and what vanished goes back there;
    ``guarded`` the revision that the prune guard holds, and since when.
    """

    failures: Mapping[tuple[InstanceId, str], Failure] = field(default_factory=dict)
    watches: Mapping[str, Watch] = field(default_factory=dict)
    healthy: Mapping[InstanceId, str] = field(default_factory=dict)
    finished: Mapping[InstanceId, int] = field(default_factory=dict)
    last_seen: Mapping[str, float] = field(default_factory=dict)
    placed: Mapping[InstanceId, Place] = field(default_factory=dict)
    guarded: Mapping[str, float] = field(default_factory=dict)
