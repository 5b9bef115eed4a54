"""What a host is made of, as the planner sees it: planning nodes, their cores, their cards.

Sets of CPUs are bit masks in Python integers: bit N is logical CPU N.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from reconciler.model.host import Gpu, HostFacts, NumaNode
from reconciler.planner.memo import Memo

FAR = 255  # the kernel's own word for "unreachable"; stands for a distance nobody reported


@dataclass(frozen=True, slots=True)
class Domain:
    """One planning node: a NUMA node, or all of them where the node of a card is unknown.

    ``ids`` are NUMA node ids, ``cpus`` a mask, ``memory`` bytes. ``distances`` go to every domain by position; ``near``
    lists the positions of the others, those of the same socket first, then by distance. ``homes`` are the positions
    that its memory comes from (itself, or the nearest that has any), ``bind`` the node ids to bind it to.
    """

    ids: tuple[int, ...]
    socket: int | None
    cpus: int
    memory: int
    distances: tuple[int, ...] = (0,)
    near: tuple[int, ...] = ()
    homes: tuple[int, ...] = ()
    bind: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A card and the position of its domain; ``node`` is None when nobody knows its NUMA node."""

    gpu: Gpu
    domain: int
    node: int | None


@dataclass(frozen=True, slots=True)
class Topology:
    """Domains, cards in a fixed order (PCI address, index, UUID), and the domain of each NUMA node id.

    ``nodes`` are (id, mask of its CPUs) of every NUMA node of the host, sorted.
    """

    domains: tuple[Domain, ...]
    cards: tuple[Card, ...]
    domain_of: Mapping[int, int]
    nodes: tuple[tuple[int, int], ...] = ()


def mask_of(cpus: Iterable[int]) -> int:
    """Bit mask of CPU numbers."""
    mask = 0
    for cpu in cpus:
        mask |= 1 << cpu
    return mask


def bits(mask: int) -> tuple[int, ...]:
    """Positions of the set bits, rising."""
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return tuple(out)


@lru_cache(maxsize=4096)
def cpu_numbers(mask: int) -> tuple[int, ...]:
    """The CPUs of a mask, rising; the same pool is shared by many."""
    return bits(mask)


def pci_key(address: str) -> str:
    """One spelling of a PCI address: tools differ in case and in the width of the domain."""
    parts = address.strip().lower().split(":")
    if len(parts) == 2:
        parts = ["0", *parts]
    return ":".join([parts[0].lstrip("0").rjust(4, "0"), *parts[1:]])


def topology_of(facts: HostFacts | None) -> Topology:
    """The planning nodes and cards of a host; nothing at all without facts.

    Where the NUMA node of any card is unknown, the whole host is planned as one node (facts on machines, rule 9).
    """
    if facts is None:
        return Topology((), (), {})
    nodes = [node for node in sorted(facts.numa_nodes, key=lambda node: node.id) if node.cpus and not node.gpu_memory]
    homes = {gpu.uuid: _node_of(gpu, nodes, facts) for gpu in facts.gpus}
    if len(nodes) > 1 and None in homes.values():
        domains: tuple[Domain, ...] = (_merged(nodes),)
        domain_of = {node.id: 0 for node in nodes}
    else:
        domains = _domains(nodes)
        domain_of = {node.id: place for place, node in enumerate(nodes)}
    cards = tuple(
        Card(gpu, domain_of.get(node, 0) if node is not None else 0, node)
        for gpu in sorted(facts.gpus, key=_card_order)
        for node in (homes[gpu.uuid],)
        if domains
    )
    masks = tuple(sorted((node.id, mask_of(node.cpus)) for node in facts.numa_nodes if not node.gpu_memory))
    return Topology(domains, cards, domain_of, masks)


known_topology = Memo(topology_of)
"""The same, kept while a host's facts stay the same value."""


def places_of(topology: Topology, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Positions of the domains of some NUMA node ids; ids that are no longer there are left out."""
    known = topology.domain_of
    return tuple(dict.fromkeys(known[node] for node in nodes if node in known))


def _card_order(gpu: Gpu) -> tuple[str, int, str]:
    return (pci_key(gpu.pci) if gpu.pci else "", gpu.index if gpu.index is not None else -1, gpu.uuid)


def _node_of(gpu: Gpu, nodes: list[NumaNode], facts: HostFacts) -> int | None:
    """The node with CPUs that a card belongs to: its own, or the nearest where its own has none."""
    if gpu.numa_node is None or any(node.id == gpu.numa_node for node in nodes):
        return gpu.numa_node
    own = next((node for node in facts.numa_nodes if node.id == gpu.numa_node), None)
    distances = dict(own.distances) if own else {}
    known = [(distances[node.id], node.id) for node in nodes if node.id in distances]
    return min(known)[1] if known else None


def _merged(nodes: list[NumaNode]) -> Domain:
    return Domain(
        ids=tuple(node.id for node in nodes),
        socket=None,
        cpus=mask_of(cpu for node in nodes for cpu in node.cpus),
        memory=sum(node.memory for node in nodes),
        homes=(0,),
        bind=tuple(node.id for node in nodes if node.memory),
    )


def _domains(nodes: list[NumaNode]) -> tuple[Domain, ...]:
    out = []
    for place, node in enumerate(nodes):
        near = _near(place, nodes)
        home = next((other for other in (place, *near) if nodes[other].memory), None)
        homes = () if home is None else (home,)
        out.append(
            Domain(
                ids=(node.id,),
                socket=node.socket,
                cpus=mask_of(node.cpus),
                memory=node.memory,
                distances=tuple(0 if other is node else dict(node.distances).get(other.id, FAR) for other in nodes),
                near=near,
                homes=homes,
                bind=tuple(nodes[other].id for other in homes),
            )
        )
    return tuple(out)


def _near(place: int, nodes: list[NumaNode]) -> tuple[int, ...]:
    own = nodes[place]
    distances = dict(own.distances)

    def key(other: int) -> tuple[bool, int, int, int]:
        there = nodes[other]
        same_socket = own.socket is not None and there.socket == own.socket
        # Firmware numbers neighbours in a row: the next best guess where no socket or distance is known.
        return (not same_socket, distances.get(there.id, FAR), abs(other - place), other)

    return tuple(sorted((other for other in range(len(nodes)) if other != place), key=key))
