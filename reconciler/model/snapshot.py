"""What was observed: every host, every container on it, and what each container holds."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reconciler.model.host import HostFacts, HostSpec
from reconciler.model.workload import Allocation, InstanceId


class Reach(StrEnum):
    """How far a host's picture can be trusted."""

    KNOWN = "known"
    STALE = "stale"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Ours:
    """What the labels of a container of this cluster say. ``spec`` is the canonical *recreate* form it was made from.

    ``allocation`` is as at birth; what may change without a restart (cpuset, memory) is read from ``Limits``.
    ``replaces`` is the generation that this container takes over from, 0 if none. ``secrets`` is the keyed hash.
    """

    instance: InstanceId
    generation: int
    digest: str
    spec: dict[str, Any]
    allocation: Allocation
    commit: str = ""
    owner: str = ""
    replaces: int = 0
    secrets: str = ""


@dataclass(frozen=True, slots=True)
class Holding:
    """What a container keeps from others while it holds (see ``Container.holds``).

    ``gpus`` are UUIDs of cards it has been given, whole or as the parents of ``mig`` slices only when whole;
    ``shares`` are cards that it has a part of, as (UUID, thousandths), and these are not in ``gpus``;
    ``all_gpus`` means that it may use every card. ``cpus`` is its cpuset (empty: it floats). ``ports`` are
    (host ip, port, protocol). ``observes`` marks an exporter, which holds no card.
    """

    gpus: frozenset[str] = frozenset()
    mig: frozenset[str] = frozenset()
    all_gpus: bool = False
    observes: bool = False
    cpus: tuple[int, ...] = ()
    memory: int = 0
    ports: tuple[tuple[str, int, str], ...] = ()
    how: str = ""
    shares: tuple[tuple[str, int], ...] = ()

    @property
    def cards(self) -> frozenset[str]:
        """UUIDs of every card and slice that it was given, whole or in part; ``all_gpus`` names none."""
        return self.gpus | self.mig | {card for card, _ in self.shares}


@dataclass(frozen=True, slots=True)
class Limits:
    """The *update* fields as inspect shows them; the daemon's unset values (-1, null) are made None, 0 or empty."""

    cpus: tuple[int, ...] = ()
    memory_nodes: tuple[int, ...] = ()
    memory: int = 0
    nano_cpus: int = 0
    pids: int | None = None
    restart: str = "no"


@dataclass(frozen=True, slots=True)
class Container:
    """One container, ours or not.

    ``state`` is Docker's: created, running, restarting, paused, removing, exited, dead. ``health`` is none, starting,
    healthy or unhealthy. Times are the Engine's own strings: for people and for telling containers apart, never
    compared with our clock. ``holds`` says whether what it was given is kept from others now. ``note`` says why a
    container that carries our labels is treated as somebody else's.
    """

    id: str
    name: str
    state: str
    image: str = ""
    ours: Ours | None = None
    holding: Holding = field(default_factory=Holding)
    limits: Limits = field(default_factory=Limits)
    holds: bool = True
    exit_code: int = 0
    error: str = ""
    health: str = "none"
    restart_count: int = 0
    created_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    user: str = ""
    note: str = ""

    @property
    def running(self) -> bool:
        """Whether its process lives (a restarting container is between two lives)."""
        return self.state in {"running", "paused"}


@dataclass(frozen=True, slots=True)
class HostView:
    """One host as it was observed. ``reason`` explains a reach other than known, or missing facts, in words.

    Containers of an unreachable host are those last seen there; ``seen`` is false when it has not answered yet.
    """

    spec: HostSpec
    reach: Reach
    facts: HostFacts | None = None
    containers: tuple[Container, ...] = ()
    reason: str = ""
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All hosts, by name, sorted."""

    hosts: tuple[HostView, ...]
