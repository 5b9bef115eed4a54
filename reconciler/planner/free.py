"""The free state of a host and what is wanted of it: values, and all that a fit depends on.

Hosts with equal free state are one equivalence class: a fit is computed once for all of them.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from reconciler.model.claims import WHOLE
from reconciler.model.host import GpuMode
from reconciler.model.placement import Numa
from reconciler.model.resources import AllGpus, GpuRequest, GpuShare, MigSlices, WholeGpus
from reconciler.planner.links import Rows
from reconciler.planner.topology import Domain

GIB = 1024**3


class CardKind(NamedTuple):
    """Cards that differ in nothing a request can ask for. ``rank`` 0 is the most common kind of the fleet.

    ``named``: some of what git wants asks for that model by name.
    """

    rank: int
    model: str
    memory: int
    named: bool = False


class CardFree(NamedTuple):
    """One card that has something left.

    ``milli`` are free thousandths (1000: it can be given whole; 0: a card with MIG enabled). ``busy`` masks the memory
    slices of a MIG card that exist or are promised, ``idle`` lists those that exist and nobody holds, as (profile,
    start); where ``cut`` is set, more may be created in the rest. ``island`` is 0 where NVLinks join all cards of the
    host alike, -1 where there are none, else the card's position in ``HostKind.links``.
    """

    kind: CardKind
    milli: int = WHOLE
    island: int = -1
    busy: int = 0
    idle: tuple[tuple[str, int], ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class HostKind:
    """What never changes while planning. ``tags`` carry their scarcity; ``cpus`` counts those to give, by domain.

    ``kinds`` are those of its cards, free or not. ``links`` are the pair scores of its cards by position where NVLinks
    do not join all alike (then ``island`` is a card's position); ``nics`` counts the RDMA network cards of each domain.
    """

    domains: tuple[Domain, ...]
    tags: tuple[tuple[str, int], ...]
    cards: int
    cpus: tuple[int, ...]
    gpu_mode: GpuMode
    kinds: tuple[CardKind, ...] = ()
    links: Rows | None = None
    nics: tuple[int, ...] = ()


class NodeFree(NamedTuple):
    """What one domain has left: idle CPUs, millicpus promised to shared work there, bytes, cards with their number."""

    idle: int
    quota: int
    sharers: bool
    memory: int
    cards: tuple[tuple[CardFree, int], ...]

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
    def milli(self) -> int:
        """Free thousandths of cards, parts of shared ones with them."""
        return sum(card.milli * count for card, count in self.cards)


class Free(NamedTuple):
    """The free state of a host; ``memory`` is bytes of the host as a whole, ``kind_id`` an interned HostKind."""

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
    rdma: bool = False

    @property
    def pieces(self) -> int:
        """How many cards, slices or shares."""
        if isinstance(self.gpus, WholeGpus | MigSlices):
            return self.gpus.count
        return 1 if isinstance(self.gpus, GpuShare) else 0

    @property
    def bound(self) -> bool:
        """Whether memory is bound to nodes."""
        return self.numa in {Numa.REQUIRE, Numa.REQUIRE_SOCKET}

    @property
    def millicpus(self) -> int:
        """Thousandths of a CPU, whoever owns them."""
        return self.units * 1000 if self.exclusive else self.units

    def capacity(self, node: NodeFree) -> int:
        """CPU units that ``node`` could give."""
        return node.exclusive if self.exclusive else node.shared


def admits(kind: HostKind, want: Want) -> bool:
    """Whether hosts of a kind can take such work at all, however much is free."""
    if isinstance(want.gpus, AllGpus) and (kind.gpu_mode is not GpuMode.PASSTHROUGH or not kind.cards):
        return False
    return not want.rdma or any(kind.nics)


def could(kind: HostKind, want: Want) -> bool:
    """Whether a host of that kind has cards of the models and sizes that are asked, free or not."""
    if isinstance(want.gpus, WholeGpus):
        return any(matches(card, want.gpus) for card in kind.kinds)
    if isinstance(want.gpus, GpuShare):
        return any(share_milli(card, want.gpus) for card in kind.kinds)
    return True


@lru_cache(maxsize=4096)
def matches(kind: CardKind, request: WholeGpus) -> bool:
    """Whether a card is of an asked model and large enough.

    The driver keeps some MiB of each card to itself, so a card's memory counts as rounded up to whole GiB: 80Gi is
    met by a card that is sold with 80 GB and reports 79.6 GiB.
    """
    return sold_size(kind) >= request.min_memory and of_models(kind.model, request.models)


def sold_size(kind: CardKind) -> int:
    """Bytes of a card's memory as it is sold: rounded up to whole GiB."""
    return -(-kind.memory // GIB) * GIB


def of_models(model: str, globs: tuple[str, ...]) -> bool:
    """Whether a model is one of those asked for; no globs: any is."""
    return not globs or any(fnmatchcase(model, glob) for glob in globs)


@lru_cache(maxsize=4096)
def share_milli(kind: CardKind, request: GpuShare) -> int | None:
    """The thousandths of a card of that kind that a share amounts to; None when it cannot be had of such a card."""
    if not of_models(kind.model, request.models):
        return None
    size = max(1, sold_size(kind))
    if not request.milli and size % request.memory == 0:
        return WHOLE // (size // request.memory) or None  # as many as the memory has room for
    milli = request.milli or -(-request.memory * WHOLE // size)
    return milli if milli <= WHOLE else None
