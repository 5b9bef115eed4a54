"""One host's ledger: what it has, who holds what, what is free now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.model.claims import WHOLE
from reconciler.model.host import HostFacts
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Allocation, InstanceId, Share, Slice
from reconciler.planner.cards import kept
from reconciler.planner.cores import Cores, cores_of
from reconciler.planner.falls import memory_falls, quota_falls
from reconciler.planner.free import CardFree, CardKind, NodeFree
from reconciler.planner.holdings import base_of
from reconciler.planner.lacks import NUMBERS
from reconciler.planner.links import Rows, nvlinked, uneven
from reconciler.planner.mig import compute_slices, legal, mask_at
from reconciler.planner.ports import Taken
from reconciler.planner.topology import Card, known_topology, mask_of, places_of


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
        self.topology = known_topology(view.facts)
        self.base = base_of(view, self.topology)
        self.claims: dict[str, Claim] = {}
        self._shares: dict[str, Shares] = {}
        self._kinds: Mapping[str, CardKind] = {}
        self._offered: dict[str, CardFree] = {}
        self.links: Rows | None = None
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
        self.cards = dict(self._offered)
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
        self._recount()

    def claim_of(self, instance: InstanceId, workload: str, allocation: Allocation) -> Claim:
        """The claim of a container that was there before; the addresses of its ports are those observed."""
        ports = tuple(
            (self._ports_ours.get((host, protocol), ""), host, protocol) for _, protocol, host in allocation.ports
        )
        return Claim(instance, workload, allocation, ports)

    def label_kinds(self, kinds: Mapping[tuple[str, int], CardKind]) -> None:
        """Give each card its kind; the ranks in them are the fleet's."""
        cards = self.topology.cards
        self._kinds = {card.gpu.uuid: kinds[card.gpu.model, card.gpu.memory] for card in cards}
        gpus = [card.gpu for card in cards]
        self.links = uneven(gpus)
        even = 0 if nvlinked(gpus) else -1
        self._offered = {
            card.gpu.uuid: free
            for place, card in enumerate(cards)
            if (free := self._first(card, even if self.links is None else place)) is not None
        }
        self._recount()

    def _recount(self) -> None:
        self._reset()
        for key, claim in self.claims.items():
            self._apply(key, claim)

    def _first(self, card: Card, island: int) -> CardFree | None:
        """A card before any work of ours; None when nothing of it is offered."""
        gpu, kind = card.gpu, self._kinds[card.gpu.uuid]
        if gpu.uuid in self.base.cards:
            return CardFree(kind, WHOLE, island)
        if not gpu.mig_enabled:
            return None
        busy = 0
        for piece in gpu.mig_slices:
            busy |= mask_at(kind, piece.profile, piece.start)
        idle = tuple(sorted((one.profile, one.start) for one in gpu.mig_slices if one.uuid in self.base.slices))
        return kept(CardFree(kind, 0, -1, busy, idle, gpu.uuid in self.base.cut))

    @property
    def kinds(self) -> frozenset[CardKind]:
        """The kinds of its cards."""
        return frozenset(self._kinds.values())

    @property
    def nics(self) -> tuple[int, ...]:
        """RDMA network cards by domain; those of an unknown node are near to none, and count for the first."""
        counts = [0 for _ in self.topology.domains]
        for nic in self.view.facts.nics if self.view.facts and counts else ():
            if nic.rdma:
                known = self.topology.domain_of
                counts[known.get(nic.numa_node, 0) if nic.numa_node is not None else 0] += 1
        return tuple(counts)

    def kind_of(self, card: Card) -> CardKind:
        """Model and memory of a card, with its rank in the fleet."""
        return self._kinds[card.gpu.uuid]

    def cores_of(self, domain: int) -> Cores:
        """The cores and caches of a domain."""
        return cores_of(self.facts.smt, self.facts.caches, self.topology.domains[domain].cpus)

    def places_of(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Positions of the domains of some NUMA node ids; ids that are no longer there are left out."""
        return places_of(self.topology, nodes)

    def shared_pool(self, nodes: tuple[int, ...]) -> int:
        """Mask of the CPUs that nobody owns, of ``nodes`` or (empty) of the host."""
        pool = 0
        for place in self.places_of(nodes) if nodes else range(len(self.idle)):
            pool |= self.idle[place]
        return pool

    def slices_full(self) -> dict[str, str]:
        """The cards on which slices may be cut and none can be any more, with the reason."""
        cut = {piece for claim in self.claims.values() for piece in claim.allocation.mig if not piece.uuid}
        holders = {uuid: str(one.instance) for one in self.claims.values() for uuid in _cards_held(one.allocation)}
        out = {}
        for card in self.topology.cards:
            gpu, state = card.gpu, self.cards.get(card.gpu.uuid)
            if gpu.uuid not in self.base.cut or (state is not None and legal(state.kind, state.busy)):
                continue
            if gpu.uuid in holders:
                out[gpu.uuid] = f"held by {holders[gpu.uuid]}"
                continue
            there = [piece.profile for piece in gpu.mig_slices] + [one.profile for one in cut if one.gpu == gpu.uuid]
            left = compute_slices(self._kinds[gpu.uuid]) - sum(int(profile.partition("g")[0]) for profile in there)
            but = f" although {NUMBERS[left]} compute slice{' is' if left == 1 else 's are'} left" if left > 0 else ""
            out[gpu.uuid] = f"memory slices are full{but}"
        return out

    def nodes_free(self) -> tuple[NodeFree, ...]:
        """What each domain has left."""
        cards: list[dict[CardFree, int]] = [{} for _ in self.idle]
        for card in self.topology.cards:
            free = self.cards.get(card.gpu.uuid)
            if free is not None:
                there = cards[card.domain]
                there[free] = there.get(free, 0) + 1
        return tuple(
            NodeFree(
                idle=idle.bit_count(),
                quota=self._quota[place],
                sharers=self._sharers[place],
                memory=max(0, self._node_memory[place]),
                cards=tuple(sorted(cards[place].items())),
            )
            for place, idle in enumerate(self.idle)
        )

    def _apply(self, key: str, claim: Claim) -> None:
        allocation = claim.allocation
        for uuid in allocation.gpus:
            self.cards.pop(uuid, None)
        for piece in allocation.mig:
            self._take_slice(piece)
        if allocation.share:
            self._take_share(allocation.share)
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
        memory = memory_falls(self.topology.domains, self._node_memory, bound, allocation.memory)
        if allocation.exclusive:
            return Shares((), memory)
        idle = [mask.bit_count() for mask in self.idle]
        return Shares(quota_falls(idle, self._quota, places, allocation.millicpus), memory)

    def _take_share(self, share: Share) -> None:
        card = self.cards.get(share.gpu)
        if card is not None and not card.milli:
            del self.cards[share.gpu]  # it was cut since: what runs there has no slice, and the card is in use
        elif card is not None:
            self._put(share.gpu, card._replace(milli=max(0, card.milli - share.milli)))

    def _take_slice(self, piece: Slice) -> None:
        card = self.cards.get(piece.gpu)
        if card is None:
            return
        if card.milli:
            del self.cards[piece.gpu]  # its slices are gone, and what was given one of them still runs
            return
        rest = tuple(one for one in card.idle if one != (piece.profile, piece.start))
        mask = mask_at(card.kind, piece.profile, piece.start)
        self._put(piece.gpu, card._replace(idle=rest, busy=card.busy | mask))

    def _put(self, uuid: str, card: CardFree) -> None:
        left = kept(card)
        if left is None:
            del self.cards[uuid]
        else:
            self.cards[uuid] = left

    def _take_ports(self, ports: tuple[tuple[str, int, str], ...]) -> None:
        for ip, port, protocol in ports:
            self._ports[port, protocol] = (*self._ports.get((port, protocol), ()), ip)


def _cards_held(allocation: Allocation) -> tuple[str, ...]:
    """The cards that an allocation has whole or a share of."""
    return (*allocation.gpus, *((allocation.share.gpu,) if allocation.share else ()))
