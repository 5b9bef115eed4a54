"""Counters → names: which cards, which cores, which memory nodes. Deterministic, and kind to what was held before."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from reconciler.model.claims import WHOLE
from reconciler.model.placement import Numa
from reconciler.model.resources import GpuShare, MigSlices, Request, WholeGpus
from reconciler.model.workload import Allocation, Share, Slice
from reconciler.planner.cards import Take, kept
from reconciler.planner.falls import proportional
from reconciler.planner.fit import Split
from reconciler.planner.free import CardFree, Want, matches, share_milli
from reconciler.planner.links import best_of, best_set
from reconciler.planner.machine import Machine
from reconciler.planner.states import Offer
from reconciler.planner.topology import Card, Topology, bits, cpu_numbers, mask_of

NOTHING = Allocation()


def pin(machine: Machine, offer: Offer, want: Want, near: Allocation | None) -> tuple[Allocation, tuple[str, ...]]:
    """The allocation that an offer amounts to (ports apart), and what a person should know about it."""
    near = near or NOTHING
    given = _cards(machine, offer, near)
    cpus = _cpus(machine, offer, want, near)
    pairs = list(zip(offer.takes, given, strict=True))
    allocation = Allocation(
        gpus=tuple(sorted(card.gpu.uuid for take, card in pairs if take.milli == WHOLE)),
        mig=tuple(sorted((_slice(take, card) for take, card in pairs if take.profile), key=_slice_key)),
        share=next((_share(take, card, want) for take, card in pairs if 0 < take.milli < WHOLE), None),
        gpu_nodes=gpu_nodes(machine.topology, given),
        cpu_nodes=nodes_of(machine, cpus),
        memory_nodes=offer.bind,
        cpus=cpu_numbers(cpus),
        exclusive=want.exclusive,
        memory=want.memory,
        millicpus=0 if want.exclusive else want.units,
    )
    return allocation, warnings_of(machine, allocation, want, given)


def split_of(machine: Machine, near: Allocation, want: Want) -> Split | None:
    """``near`` as counts, for ``States.keep``; None unless all its cards, its slices or its share are free."""
    takes: list[Take] = []
    cards = dict(machine.cards)
    by_uuid = {card.gpu.uuid: card for card in machine.topology.cards}
    for uuid, profile, start, milli in _held(near):
        before, card = cards.get(uuid), by_uuid.get(uuid)
        asked = before is not None and _asked(before, want, profile, milli)
        after = _without(before, profile, start, milli) if before and card and asked else None
        if before is None or card is None or after is None:
            return None
        left = kept(after)
        takes.append(Take(card.domain, before, left, profile, start, milli))
        if left is None:
            del cards[uuid]
        else:
            cards[uuid] = left
    owned = mask_of(near.cpus) if near.exclusive and want.exclusive else 0
    cpus = tuple((place, (owned & idle).bit_count()) for place, idle in enumerate(machine.idle) if owned & idle)
    if sum(count for _, count in cpus) != owned.bit_count():
        cpus = ()
    if not _joined(machine, takes, want):
        return None
    used = [take.place for take in takes] + list(machine.places_of(near.cpu_nodes))
    return Split(tuple(takes), cpus, tuple(dict.fromkeys(used)))


def _asked(card: CardFree, want: Want, profile: str, milli: int) -> bool:
    """Whether that much of a card is what is asked now."""
    match want.gpus:
        case WholeGpus():
            return milli == WHOLE and matches(card.kind, want.gpus)
        case MigSlices():
            return profile == want.gpus.profile
        case GpuShare():
            return 0 < milli == share_milli(card.kind, want.gpus)
    return False


def _joined(machine: Machine, takes: list[Take], want: Want) -> bool:
    """Whether cards that must be linked are."""
    if not isinstance(want.gpus, WholeGpus) or not want.gpus.link or len(takes) < 2:
        return True
    places = tuple(sorted(take.before.island for take in takes))
    if machine.links is not None:
        return best_of(machine.links, places, len(places), linked=True) is not None
    return min(places) >= 0


def _held(near: Allocation) -> Iterator[tuple[str, str, int, int]]:
    """(card, profile, start, thousandths) of everything that an allocation holds."""
    for uuid in near.gpus:
        yield uuid, "", 0, WHOLE
    for piece in near.mig:
        yield piece.gpu, piece.profile, piece.start, 0
    if near.share:
        yield near.share.gpu, "", 0, near.share.milli


def _without(card: CardFree, profile: str, start: int, milli: int) -> CardFree | None:
    """A card without a slice that exists, or without some thousandths; None when they are not free."""
    if profile:
        rest = tuple(one for one in card.idle if one != (profile, start))
        return card._replace(idle=rest) if len(rest) < len(card.idle) else None
    return card._replace(milli=card.milli - milli) if card.milli >= milli else None


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
    return tuple(node for node, mask in machine.topology.nodes if mask & cpus)


def gpu_nodes(topology: Topology, cards: tuple[Card, ...]) -> tuple[int, ...]:
    """NUMA nodes of some cards; a card of unknown node is on the only node there is, or on none that can be named."""
    found = set()
    for card in cards:
        ids = topology.domains[card.domain].ids
        if card.node is not None:
            found.add(card.node)
        elif len(ids) == 1:
            found.add(ids[0])
    return tuple(sorted(found))


def warnings_of(machine: Machine, allocation: Allocation, want: Want, cards: tuple[Card, ...]) -> tuple[str, ...]:
    """What is not as near as it should be; what a condition allows or nobody asked about is not told."""
    out = [
        f"MIG slice {one.profile} at {one.start} of {one.gpu} is not cut yet: "
        f"nvidia-smi mig -i {one.gpu} -cgi {one.profile}:{one.start} -C"
        for one in allocation.mig
        if not one.uuid
    ]
    if want.numa is Numa.NONE:
        return tuple(out)
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


def _cards(machine: Machine, offer: Offer, near: Allocation) -> tuple[Card, ...]:
    """A card for every take: those held before, then by links, then in card order."""
    chosen: list[Card | None] = [None] * len(offer.takes)
    wholes: dict[tuple[int, CardFree], list[int]] = {}
    state = dict(machine.cards)
    for index, take in enumerate(offer.takes):
        if take.milli == WHOLE:
            wholes.setdefault((take.place, take.before), []).append(index)
        else:
            card = _one(machine, state, take, near)
            chosen[index] = card
            if take.after is None:
                del state[card.gpu.uuid]
            else:
                state[card.gpu.uuid] = take.after
    for (place, before), indexes in wholes.items():
        for index, card in zip(indexes, _whole(machine, place, before, len(indexes), near), strict=True):
            chosen[index] = card
    return tuple(card for card in chosen if card is not None)


def _one(machine: Machine, state: Mapping[str, CardFree], take: Take, near: Allocation) -> Card:
    """The card of a share or slice: the one that it had, else the first that is in the state it is to be in."""
    held = {uuid for uuid, profile, start, _ in _held(near) if (profile, start) == (take.profile, take.start)}
    fitting = [
        card for card in machine.topology.cards if card.domain == take.place and state.get(card.gpu.uuid) == take.before
    ]
    return next((card for card in fitting if card.gpu.uuid in held), fitting[0])


def _whole(machine: Machine, place: int, before: CardFree, count: int, near: Allocation) -> list[Card]:
    free = [
        card for card in machine.topology.cards if card.domain == place and machine.cards.get(card.gpu.uuid) == before
    ]
    kept_cards = [card for card in free if card.gpu.uuid in near.gpus][:count]
    rest = {card.gpu.uuid: card for card in free if card not in kept_cards}
    more = best_set([card.gpu for card in rest.values()], count - len(kept_cards))
    return kept_cards + [rest[gpu.uuid] for gpu in more]


def _slice(take: Take, card: Card) -> Slice:
    """The slice that exists there, or one to be cut."""
    for piece in card.gpu.mig_slices:
        if (piece.profile, piece.start) == (take.profile, take.start):
            return Slice(card.gpu.uuid, piece.profile, piece.start, piece.uuid)
    return Slice(card.gpu.uuid, take.profile, take.start)


def _slice_key(piece: Slice) -> tuple[str, int, str]:
    return (piece.gpu, piece.start, piece.uuid)


def _share(take: Take, card: Card, want: Want) -> Share:
    """The part of a card, and the bytes of its memory that go with it: those asked for, or the same fraction."""
    asked = want.gpus.memory if isinstance(want.gpus, GpuShare) and not want.gpus.milli else 0
    return Share(card.gpu.uuid, take.milli, asked or card.gpu.memory * take.milli // WHOLE)


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
        chosen |= machine.cores_of(place).pick(machine.idle[place], count, near)
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
            chosen |= machine.cores_of(place).pick(part, keep)
    return chosen
