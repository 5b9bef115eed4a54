"""The free state of a host and what is wanted of it: two values, and all that a fit depends on.

Hosts with equal free state are one equivalence class: a fit is computed once for all of them.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from reconciler.model.host import GpuMode
from reconciler.model.placement import Numa
from reconciler.model.resources import GpuRequest, MigSlices, WholeGpus
from reconciler.planner.topology import Domain

GIB = 1024**3


class CardKind(NamedTuple):
    """Cards that differ in nothing a request can ask for. ``rank`` 0 is the most common kind of the fleet."""

    rank: int
    model: str
    memory: int


Piece = CardKind | str
"""What is counted: a kind of whole card, or the profile of a MIG slice."""


@dataclass(frozen=True, slots=True)
class HostKind:
    """What never changes while planning. ``tags`` carry their scarcity; ``cpus`` counts those to give, by domain."""

    domains: tuple[Domain, ...]
    tags: tuple[tuple[str, int], ...]
    cards: int
    cpus: tuple[int, ...]
    gpu_mode: GpuMode


class NodeFree(NamedTuple):
    """What one domain has left: idle CPUs, millicpus promised to shared work there, bytes, cards, slices."""

    idle: int
    quota: int
    sharers: bool
    memory: int
    cards: tuple[tuple[CardKind, int], ...]
    slices: tuple[tuple[str, int], ...]

    @property
    def exclusive(self) -> int:
        """CPUs that may be given out for good: shared work keeps what it was promised, and one at least."""
        kept = max(-(-self.quota // 1000), 1) if self.sharers else 0
        return max(0, self.idle - kept)

    @property
    def shared(self) -> int:
        """Millicpus that can still be promised to shared work."""
        return max(0, self.idle * 1000 - self.quota)

    @property
    def card_count(self) -> int:
        """Free whole cards of any kind."""
        return sum(count for _, count in self.cards)


class Free(NamedTuple):
    """The free state of a host; ``memory`` is bytes of the host as a whole, ``kind`` an interned HostKind."""

    kind_id: int
    memory: int
    nodes: tuple[NodeFree, ...]


class Want(NamedTuple):
    """What one instance asks. ``units`` are CPUs when ``exclusive``, else millicpus; ``tags`` are those it names."""

    exclusive: bool
    units: int
    memory: int
    numa: Numa
    gpus: GpuRequest | None
    tags: tuple[str, ...]

    @property
    def pieces(self) -> int:
        """How many cards or slices."""
        return self.gpus.count if isinstance(self.gpus, WholeGpus | MigSlices) else 0

    @property
    def bound(self) -> bool:
        """Whether memory is bound to nodes."""
        return self.numa in {Numa.REQUIRE, Numa.REQUIRE_SOCKET}

    @property
    def rationed(self) -> bool:
        """Whether it takes cards away from others."""
        return self.pieces > 0

    def capacity(self, node: NodeFree) -> int:
        """CPU units that ``node`` could give."""
        return node.exclusive if self.exclusive else node.shared

    def stock(self, node: NodeFree) -> tuple[tuple[Piece, int], ...]:
        """The matching pieces that ``node`` has, most common kind first."""
        if isinstance(self.gpus, WholeGpus):
            return tuple(item for item in node.cards if matches(item[0], self.gpus))
        if isinstance(self.gpus, MigSlices):
            return tuple(item for item in node.slices if item[0] == self.gpus.profile)
        return ()

    def available(self, node: NodeFree, kinds: frozenset[Piece] | None = None) -> int:
        """How many matching pieces ``node`` has (of ``kinds``, when given)."""
        return sum(count for kind, count in self.stock(node) if kinds is None or kind in kinds)


@lru_cache(maxsize=4096)
def matches(kind: CardKind, request: WholeGpus) -> bool:
    """Whether a card is of an asked model and large enough.

    The driver keeps some MiB of each card to itself, so a card's memory counts as rounded up to whole GiB: 80Gi is
    met by a card that is sold with 80 GB and reports 79.6 GiB.
    """
    size = -(-kind.memory // GIB) * GIB
    fits = size >= request.min_memory
    return fits and (not request.models or any(fnmatchcase(kind.model, glob) for glob in request.models))
