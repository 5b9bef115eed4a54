"""One host summed up: each card and slice with its holders, and how much of everything is free."""

from dataclasses import dataclass

from reconciler.actual.holders import Holder, holders
from reconciler.actual.holdings import pci_key
from reconciler.model.busy import busy_reason
from reconciler.model.claims import WHOLE
from reconciler.model.host import Gpu, GpuMode, HostSpec, MigSlice
from reconciler.model.snapshot import Container, HostView

Slices = tuple[tuple[MigSlice, tuple[Holder, ...]], ...]


@dataclass(frozen=True, slots=True)
class Card:
    """One card. ``state`` is free, held, shared (in parts only), sliced, busy, unhealthy or excluded.

    ``note`` says why it cannot be had.
    """

    gpu: Gpu
    state: str
    holders: tuple[Holder, ...] = ()
    slices: Slices = ()
    note: str = ""

    @property
    def free_milli(self) -> int:
        """Thousandths of the card that could be given away now; slices of a card are not counted."""
        if self.state == "shared":
            return max(0, WHOLE - sum(by.share for by in self.holders))
        return WHOLE if self.state == "free" else 0


@dataclass(frozen=True, slots=True)
class Amount:
    """Of ``total``: kept for the host, given to somebody, and free. CPUs, or bytes."""

    total: int
    reserved: int
    given: int

    @property
    def free(self) -> int:
        """What is left; never below nothing, though limits may add up to more than there is."""
        return max(0, self.total - self.reserved - self.given)


@dataclass(frozen=True, slots=True)
class Node:
    """One NUMA node and what is free there; ``cpus`` counts those that belong to somebody alone as given."""

    id: int
    socket: int | None
    cpus: Amount
    memory: int
    gpu_memory: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """One host. ``cards`` by NUMA node and index; ``cpus`` and ``memory`` are None without facts."""

    view: HostView
    cards: tuple[Card, ...]
    nodes: tuple[Node, ...]
    cpus: Amount | None
    memory: Amount | None

    @property
    def free_cards(self) -> int:
        """Cards that could be given away whole now."""
        return sum(card.state == "free" for card in self.cards)


def survey(view: HostView) -> Survey:
    """The sum of what was observed on a host."""
    facts = view.facts
    if facts is None:
        return Survey(view, (), (), None, None)
    held = holders(view)
    owned = frozenset(cpu for container in view.containers for cpu in owned_cpus(container))
    reserved = frozenset(view.spec.reserved_cpus)
    nodes = tuple(
        Node(node.id, node.socket, _cpus(node.cpus, reserved, owned), node.memory, node.gpu_memory)
        for node in facts.numa_nodes
    )
    given = sum(container.holding.memory for container in view.containers if container.holds)
    cards = sorted(facts.gpus, key=_card_order)
    return Survey(
        view,
        tuple(_card(view, gpu, held.get(gpu.uuid, ())) for gpu in cards),
        nodes,
        _cpus(facts.cpus, reserved, owned),
        Amount(facts.memory, view.spec.reserved_memory, given),
    )


def owned_cpus(container: Container) -> tuple[int, ...]:
    """CPUs that a container has for itself: the cpuset of shared work of ours is a pool, and owned by nobody."""
    if not container.holds or (container.ours is not None and not container.ours.allocation.exclusive):
        return ()
    return container.holding.cpus


def _cpus(cpus: tuple[int, ...], reserved: frozenset[int], owned: frozenset[int]) -> Amount:
    here = frozenset(cpus)
    return Amount(len(here), len(here & reserved), len(here & owned - reserved))


def _card_order(gpu: Gpu) -> tuple[bool, int, bool, int, str]:
    node, index = gpu.numa_node, gpu.index
    return (node is None, node or 0, index is None, index or 0, gpu.pci or gpu.uuid)


def _card(view: HostView, gpu: Gpu, held: tuple[Holder, ...]) -> Card:
    slices = tuple((one, tuple(by for by in held if not by.slices or one.uuid in by.slices)) for one in gpu.mig_slices)
    busy = busy_reason(view.containers, gpu)
    if gpu.health != "ok":
        return Card(gpu, "unhealthy", held, slices, gpu.health)
    if _excluded(view.spec, gpu):
        return Card(gpu, "excluded", held, slices, "excluded by its Host document")
    if gpu.mig_enabled:
        return Card(gpu, "sliced", held, slices, "" if slices else "MIG is on, no slices are cut")
    if busy:
        known = any(by.kind == "process" for by in held)
        return Card(gpu, "busy", held, slices, "in use outside its containers" if known else busy)
    if view.spec.gpu_mode is not GpuMode.MANAGED:
        return Card(gpu, "held" if held else view.spec.gpu_mode.value, held, slices)
    return Card(gpu, _taken(held), held, slices)


def _taken(held: tuple[Holder, ...]) -> str:
    shares = [by.share for by in held if by.kind != "process"]
    if not shares:
        return "free"
    return "shared" if all(shares) else "held"


def _excluded(spec: HostSpec, gpu: Gpu) -> bool:
    return any(
        name == gpu.uuid or (gpu.pci and not name.startswith("GPU-") and pci_key(name) == pci_key(gpu.pci))
        for name in spec.gpus_excluded
    )
