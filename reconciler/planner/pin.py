"""Counters → names: which cards, which cores, which memory nodes. Deterministic, and kind to what was held before."""

from dataclasses import replace

from reconciler.model.placement import Numa
from reconciler.model.resources import Request
from reconciler.model.workload import Allocation, Slice
from reconciler.planner.cores import pick
from reconciler.planner.fit import Offer, Split
from reconciler.planner.free import Piece, Want
from reconciler.planner.links import best_set
from reconciler.planner.machine import Machine, proportional
from reconciler.planner.topology import Card, bits, mask_of

NOTHING = Allocation()


def pin(machine: Machine, offer: Offer, want: Want, near: Allocation | None) -> tuple[Allocation, tuple[str, ...]]:
    """The allocation that an offer amounts to (ports apart), and what a person should know about it."""
    near = near or NOTHING
    cards = tuple(
        card
        for place, piece, count in offer.cards
        if not isinstance(piece, str)
        for card in _whole(machine, place, piece, count, near)
    )
    slices = tuple(
        pair
        for place, piece, count in offer.cards
        if isinstance(piece, str)
        for pair in _slices(machine, place, piece, count, near)
    )
    given = tuple(dict.fromkeys([*cards, *(card for card, _ in slices)]))
    cpus = _cpus(machine, offer, want, near)
    allocation = Allocation(
        gpus=tuple(sorted(card.gpu.uuid for card in cards)),
        mig=tuple(sorted((piece for _, piece in slices), key=lambda piece: (piece.gpu, piece.start, piece.uuid))),
        gpu_nodes=gpu_nodes(machine, given),
        cpu_nodes=nodes_of(machine, cpus),
        memory_nodes=offer.bind,
        cpus=bits(cpus),
        exclusive=want.exclusive,
        memory=want.memory,
        millicpus=0 if want.exclusive else want.units,
    )
    return allocation, warnings_of(machine, allocation, want, given)


def split_of(machine: Machine, near: Allocation, want: Want) -> Split | None:
    """``near`` as counts, for ``fit.refit``; None unless all its cards or slices are free."""
    counts: dict[tuple[int, Piece], int] = {}
    free = {piece.uuid: card for card, piece in machine.free_slices()} if near.mig else {}
    for card in machine.topology.cards:
        if card.gpu.uuid in near.gpus and card.gpu.uuid in machine.cards:
            key = (card.domain, machine.kind_of(card))
            counts[key] = counts.get(key, 0) + 1
    for piece in near.mig:
        if piece.uuid in free:
            place = (free[piece.uuid].domain, piece.profile)
            counts[place] = counts.get(place, 0) + 1
    if sum(counts.values()) != len(near.gpus) + len(near.mig):
        return None
    cards = tuple(sorted((place, piece, count) for (place, piece), count in counts.items()))
    owned = mask_of(near.cpus) if near.exclusive and want.exclusive else 0
    cpus = tuple((place, (owned & idle).bit_count()) for place, idle in enumerate(machine.idle) if owned & idle)
    if sum(count for _, count in cpus) != owned.bit_count():
        cpus = ()
    used = [place for place, _, _ in cards] + list(machine.places_of(near.cpu_nodes))
    return Split(cards, cpus, tuple(dict.fromkeys(used)))


def resized(machine: Machine, request: Request, current: Allocation) -> Allocation | None:
    """``current`` with other cores and memory, on the same nodes with the same cards; None when that does not fit.

    ``machine`` must not count ``current``. What shrinks always fits.
    """
    places = machine.places_of(current.cpu_nodes) or tuple(range(len(machine.idle)))
    if request.memory > current.memory and not _memory_there(machine, request.memory, current):
        return None
    cpus = _recut(machine, request, current, places)
    if cpus is None:
        return None
    return replace(
        current,
        cpus=bits(cpus),
        cpu_nodes=nodes_of(machine, cpus),
        exclusive=request.exclusive,
        memory=request.memory,
        millicpus=0 if request.exclusive else request.millicpus,
    )


def nodes_of(machine: Machine, cpus: int) -> tuple[int, ...]:
    """Ids of the NUMA nodes that some CPUs are on, sorted."""
    nodes = machine.facts.numa_nodes
    return tuple(sorted(node.id for node in nodes if not node.gpu_memory and mask_of(node.cpus) & cpus))


def gpu_nodes(machine: Machine, cards: tuple[Card, ...]) -> tuple[int, ...]:
    """NUMA nodes of some cards; a card of unknown node is on the only node there is, or on none that can be named."""
    found = set()
    for card in cards:
        ids = machine.topology.domains[card.domain].ids
        if card.node is not None:
            found.add(card.node)
        elif len(ids) == 1:
            found.add(ids[0])
    return tuple(sorted(found))


def warnings_of(machine: Machine, allocation: Allocation, want: Want, cards: tuple[Card, ...]) -> tuple[str, ...]:
    """What is not as near as it should be; what a condition allows or nobody asked about is not told."""
    if want.numa is Numa.NONE:
        return ()
    out = []
    if any(card.node is None for card in cards):
        out.append(f"NUMA unknown for the GPUs of {machine.name}: planned as one node")
    used = set(allocation.gpu_nodes) | set(allocation.cpu_nodes)
    merged = any(len(domain.ids) > 1 for domain in machine.topology.domains)
    if len(used) > 1 and not merged and want.numa is Numa.PREFER:
        parts = [f"GPUs on {named(allocation.gpu_nodes)}"] if allocation.gpu_nodes else []
        out.append(f"not NUMA-local: {', '.join([*parts, f'CPUs on {named(allocation.cpu_nodes)}'])}")
    return tuple(out)


def named(nodes: tuple[int, ...]) -> str:
    """``node 0`` or ``nodes 0 and 1``."""
    *first, last = map(str, nodes)
    return f"nodes {', '.join(first)} and {last}" if first else f"node {last}"


def _whole(machine: Machine, place: int, kind: Piece, count: int, near: Allocation) -> list[Card]:
    free = [
        card
        for card in machine.topology.cards
        if card.domain == place and card.gpu.uuid in machine.cards and machine.kind_of(card) == kind
    ]
    kept = [card for card in free if card.gpu.uuid in near.gpus][:count]
    rest = {card.gpu.uuid: card for card in free if card not in kept}
    return kept + [rest[gpu.uuid] for gpu in best_set([card.gpu for card in rest.values()], count - len(kept))]


def _slices(machine: Machine, place: int, profile: str, count: int, near: Allocation) -> list[tuple[Card, Slice]]:
    """Slices that were held before, then those of the card with the fewest left."""
    every = machine.free_slices()
    held = {piece.uuid for piece in near.mig}
    left: dict[str, int] = {}
    for card, _ in every:
        left[card.gpu.uuid] = left.get(card.gpu.uuid, 0) + 1
    order = machine.topology.cards.index
    free = [(card, piece) for card, piece in every if card.domain == place and piece.profile == profile]
    free.sort(key=lambda pair: (pair[1].uuid not in held, left[pair[0].gpu.uuid], order(pair[0]), pair[1].start))
    return free[:count]


def _cpus(machine: Machine, offer: Offer, want: Want, near: Allocation) -> int:
    """Mask of the CPUs of its cpuset: its own, or all that nobody owns on the domains that give it room."""
    if not want.exclusive:
        chosen = 0
        for place, _ in offer.cpus:
            chosen |= machine.idle[place]
        return chosen
    held = mask_of(near.cpus) if near.exclusive else 0
    return _picked(machine, dict(offer.cpus), held)


def _picked(machine: Machine, counts: dict[int, int], near: int) -> int:
    chosen = 0
    for place, count in sorted(counts.items()):
        chosen |= pick(*machine.cores_of(place), machine.idle[place], count, near)
    return chosen


def _memory_there(machine: Machine, memory: int, current: Allocation) -> bool:
    if memory > machine.memory:
        return False
    domains = machine.topology.domains
    homes = {home for place in machine.places_of(current.memory_nodes) for home in domains[place].homes}
    return not homes or sum(machine.nodes_free()[home].memory for home in homes) >= memory


def _recut(machine: Machine, request: Request, current: Allocation, places: tuple[int, ...]) -> int | None:
    """The mask of CPUs after a change of the request, on the same domains."""
    nodes = machine.nodes_free()
    if not request.exclusive:
        room = sum(nodes[place].shared for place in places)
        pool = machine.shared_pool(tuple(node for place in places for node in machine.topology.domains[place].ids))
        shrinks = not current.exclusive and request.millicpus <= current.millicpus
        return pool if pool and (shrinks or request.millicpus <= room) else None
    held = mask_of(current.cpus) if current.exclusive else 0
    if held.bit_count() > request.cores:
        return _shrunk(machine, held, request.cores)
    kept = [(held & machine.idle[place]).bit_count() for place in places]
    rooms = [max(0, nodes[place].exclusive - count) for place, count in zip(places, kept, strict=True)]
    missing = request.cores - held.bit_count()
    if sum(kept) != held.bit_count() or sum(rooms) < missing:
        return None
    more = proportional(missing, rooms)
    counts = {place: count + extra for place, count, extra in zip(places, kept, more, strict=True)}
    return _picked(machine, counts, held)


def _shrunk(machine: Machine, held: int, count: int) -> int:
    """``count`` of the CPUs it has: in proportion on every domain it is on, whole cores first."""
    parts = [held & domain.cpus for domain in machine.topology.domains]
    counts = proportional(count, [part.bit_count() for part in parts])
    chosen = 0
    for place, (part, keep) in enumerate(zip(parts, counts, strict=True)):
        if keep:
            chosen |= pick(*machine.cores_of(place), part, keep)
    return chosen
