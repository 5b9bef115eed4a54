"""One host's ledger: what it has, who holds what, what is free now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model.host import HostFacts
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Allocation, InstanceId, Slice
from reconciler.planner.cores import cache_masks, core_masks
from reconciler.planner.free import CardKind, NodeFree
from reconciler.planner.holdings import base_of
from reconciler.planner.ports import Taken
from reconciler.planner.topology import Card, mask_of, topology_of


@dataclass(frozen=True, slots=True)
class Claim:
    """What one container of ours holds. ``ports`` are (host ip, port, protocol)."""

    instance: InstanceId
    workload: str
    allocation: Allocation
    ports: tuple[tuple[str, int, str], ...] = ()


class Shares(NamedTuple):
    """What a claim takes from each domain: (domain, millicpus of shared work) and (domain, bytes)."""

    quota: tuple[tuple[int, int], ...]
    memory: tuple[tuple[int, int], ...]


class Machine:
    """A host while planning. Claims come and go by key; everything else follows from them."""

    def __init__(self, view: HostView) -> None:
        self.view = view
        self.name = view.spec.name
        self.topology = topology_of(view.facts)
        self.base = base_of(view, self.topology)
        self.claims: dict[str, Claim] = {}
        self._shares: dict[str, Shares] = {}
        self._kinds: Mapping[str, CardKind] = {}
        self._cores: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._ports_ours = {
            (port, protocol): ip
            for container in view.containers
            if container.ours
            for ip, port, protocol in container.holding.ports
        }
        self._reset()

    def _reset(self) -> None:
        self.idle = list(self.base.idle)
        self.memory = self.base.memory
        self.cards = set(self.base.cards)
        self.slices = set(self.base.slices)
        self._quota = [0 for _ in self.idle]
        self._sharers = [False for _ in self.idle]
        self._node_memory = [domain.memory for domain in self.topology.domains]
        self._ports: dict[tuple[int, str], tuple[str, ...]] = {}
        self._take_ports(self.base.ports)

    @property
    def facts(self) -> HostFacts:
        """The facts of a host that has some; asking for those of another is a mistake in the planner."""
        if self.view.facts is None:
            raise ValueError(f"{self.name} has no facts")
        return self.view.facts

    @property
    def taken_ports(self) -> Taken:
        """Addresses on which each (port, protocol) is taken."""
        return self._ports

    def add(self, key: str, claim: Claim) -> None:
        """Count ``claim`` under ``key``; a key that is there already is replaced."""
        if key in self.claims:
            self.remove(key)
        self.claims[key] = claim
        self._apply(key, claim)

    def remove(self, key: str) -> None:
        """Forget the claim under ``key``. What two claims share (a clash that is there) stays held by the other."""
        del self.claims[key], self._shares[key]
        self._reset()
        for other, claim in self.claims.items():
            self._apply(other, claim)

    def claim_of(self, instance: InstanceId, workload: str, allocation: Allocation) -> Claim:
        """The claim of a container that was there before; the addresses of its ports are those observed."""
        ports = tuple(
            (self._ports_ours.get((host, protocol), ""), host, protocol) for _, protocol, host in allocation.ports
        )
        return Claim(instance, workload, allocation, ports)

    def label_kinds(self, kinds: Mapping[tuple[str, int], CardKind]) -> None:
        """Give each card its kind; the ranks in them are the fleet's."""
        self._kinds = {card.gpu.uuid: kinds[card.gpu.model, card.gpu.memory] for card in self.topology.cards}

    def kind_of(self, card: Card) -> CardKind:
        """Model and memory of a card, with its rank in the fleet."""
        return self._kinds[card.gpu.uuid]

    def cores_of(self, domain: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Core masks and cache masks of a domain, made when first needed."""
        if domain not in self._cores:
            cpus = self.topology.domains[domain].cpus
            self._cores[domain] = (core_masks(self.facts, cpus), cache_masks(self.facts, cpus))
        return self._cores[domain]

    def places_of(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Positions of the domains of some NUMA node ids; ids that are no longer there are left out."""
        known = self.topology.domain_of
        return tuple(dict.fromkeys(known[node] for node in nodes if node in known))

    def shared_pool(self, nodes: tuple[int, ...]) -> int:
        """Mask of the CPUs that nobody owns, of ``nodes`` or (empty) of the host."""
        pool = 0
        for place in self.places_of(nodes) if nodes else range(len(self.idle)):
            pool |= self.idle[place]
        return pool

    def free_slices(self) -> tuple[tuple[Card, Slice], ...]:
        """Free MIG slices with their cards, in card order and by start."""
        return tuple(
            (card, Slice(card.gpu.uuid, piece.profile, piece.start, piece.uuid))
            for card in self.topology.cards
            for piece in sorted(card.gpu.mig_slices, key=lambda piece: (piece.start, piece.uuid))
            if piece.uuid in self.slices
        )

    def nodes_free(self) -> tuple[NodeFree, ...]:
        """What each domain has left."""
        cards: list[dict[CardKind, int]] = [{} for _ in self.idle]
        for card in self.topology.cards:
            if card.gpu.uuid in self.cards:
                kind, there = self.kind_of(card), cards[card.domain]
                there[kind] = there.get(kind, 0) + 1
        slices: list[dict[str, int]] = [{} for _ in self.idle]
        for card, piece in self.free_slices() if self.slices else ():
            profiles = slices[card.domain]
            profiles[piece.profile] = profiles.get(piece.profile, 0) + 1
        return tuple(
            NodeFree(
                idle=idle.bit_count(),
                quota=self._quota[place],
                sharers=self._sharers[place],
                memory=max(0, self._node_memory[place]),
                cards=tuple(sorted(cards[place].items())),
                slices=tuple(sorted(slices[place].items())),
            )
            for place, idle in enumerate(self.idle)
        )

    def _apply(self, key: str, claim: Claim) -> None:
        allocation = claim.allocation
        self.cards.difference_update(allocation.gpus)
        self.slices.difference_update(piece.uuid for piece in allocation.mig)
        if key not in self._shares:
            self._shares[key] = self._shares_of(allocation)
        shares = self._shares[key]
        if allocation.exclusive:
            owned = mask_of(allocation.cpus)
            self.idle = [idle & ~owned for idle in self.idle]
        for place, part in shares.quota:
            self._quota[place] += part
            self._sharers[place] = True
        self.memory -= allocation.memory
        for place, part in shares.memory:
            self._node_memory[place] -= part
        self._take_ports(claim.ports)

    def _shares_of(self, allocation: Allocation) -> Shares:
        """What falls on each domain, decided once, so that others coming and going moves nothing.

        Memory is taken where it is bound, or where the work's cores are: the kernel allocates locally first.
        """
        places = self.places_of(allocation.cpu_nodes) or tuple(range(len(self.idle)))
        bound = self.places_of(allocation.memory_nodes) or places
        domains = self.topology.domains
        homes = tuple(dict.fromkeys(home for place in bound for home in domains[place].homes))
        memory = proportional(allocation.memory, [max(0, self._node_memory[home]) for home in homes])
        quota = []
        if not allocation.exclusive:
            places = tuple(place for place in places if self.idle[place])
            rooms = [max(0, self.idle[place].bit_count() * 1000 - self._quota[place]) for place in places]
            quota = proportional(allocation.millicpus, rooms)
        return Shares(tuple(zip(places, quota, strict=False)), tuple(zip(homes, memory, strict=True)))

    def _take_ports(self, ports: tuple[tuple[str, int, str], ...]) -> None:
        for ip, port, protocol in ports:
            self._ports[port, protocol] = (*self._ports.get((port, protocol), ()), ip)


def proportional(amount: int, rooms: list[int]) -> list[int]:
    """``amount`` divided by ``rooms``; it sums up exactly, and stays within them where it fits at all."""
    total = sum(rooms)
    if not rooms:
        return []
    if total == 0:
        return [amount, *[0] * (len(rooms) - 1)]
    parts = [amount * room // total for room in rooms]
    left = amount - sum(parts)
    for place, room in enumerate(rooms):
        more = min(left, max(0, room - parts[place]))
        parts[place] += more
        left -= more
    parts[0] += left
    return parts
