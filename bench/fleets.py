"""Made-up fleets of 8-card hosts, and the work that is to be placed on them."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reconciler.model.host import Gpu, HostFacts, HostSpec, NumaNode
from reconciler.model.resources import GpuRequest, GpuShare, MigSlices, Request, WholeGpus
from reconciler.model.snapshot import HostView, Reach
from reconciler.model.workload import ContainerSpec, InstanceId, Kind, Rollout, Workload
from reconciler.planner.ask import Ask
from reconciler.planner.free import CardKind
from reconciler.planner.mig import profiles

GIB = 1024**3
MODEL = "NVIDIA H100 80GB HBM3"
CARDS, CPUS, MEMORY = 8, 96, 1024 * GIB  # of a host, half of each on either NUMA node
KIND = CardKind(0, MODEL, 80 * GIB)
LOAD = 0.97  # of the cards are asked for
APP = 100  # instances of an app of equal work
MIG_EVERY = 5  # one host in so many has MIG on the cards of its second node


class Load(NamedTuple):
    """A fleet and what is to run on it."""

    views: tuple[HostView, ...]
    workloads: tuple[Workload, ...]

    def asks(self) -> list[Ask]:
        """One for each instance."""
        return [
            Ask(InstanceId(Kind.APP, one.name, str(index)), one)
            for one in self.workloads
            for index in range(one.instances)
        ]


def host(number: int, *, mig: bool = False) -> HostView:
    """2 NUMA nodes of 48 CPUs, 512 GiB and 4 cards each; with ``mig`` slices may be cut on those of the second."""
    name, half = f"h{number:05}", CPUS // 2
    nodes = tuple(
        NumaNode(node, tuple(range(node * half, (node + 1) * half)), MEMORY // 2, socket=node) for node in (0, 1)
    )
    cards = tuple(
        Gpu(f"GPU-{name}-{at}", MODEL, KIND.memory, index=at, numa_node=at // 4, mig_enabled=mig and at >= 4)
        for at in range(CARDS)
    )
    return HostView(HostSpec(name, "simulated", mig_create=mig), Reach.KNOWN, HostFacts(name, nodes, cards))


def app(name: str, instances: int, request: Request) -> Workload:
    """Work that only its request tells from other work."""
    container = ContainerSpec("bench:1", gpus=request.gpus)
    return Workload(Kind.APP, name, container, request, instances=instances, rollout=Rollout(healthy_for=0.0))


def whole(cards: int, cpus: int = 10, memory: int = 96) -> Request:
    """Whole cards, with so many CPUs and GiB for each."""
    return Request(cards * cpus * 1000, memory=cards * memory * GIB, gpus=WholeGpus(cards))


def singles(hosts: int) -> Load:
    """As many requests of one card as there are cards."""
    return _load(hosts, {1: hosts * CARDS})


def mix(hosts: int, load: float = LOAD) -> Load:
    """Requests of 1, 2, 4 and 8 cards, which ask for a quarter of the load each."""
    part = int(hosts * CARDS * load / 4)
    return _load(hosts, {cards: part // cards for cards in (1, 2, 4, 8)})


def small(hosts: int) -> Load:
    """Requests of 1 and 2 cards for half of all cards: the other half of the hosts need not be touched."""
    return _load(hosts, {1: hosts * CARDS // 4, 2: hosts * CARDS // 8})


def crowd(hosts: int) -> Load:
    """Ten requests a host at full load, of one card or half of one."""
    cards, requests = int(hosts * CARDS * LOAD), hosts * 10
    halves = 2 * (requests - cards)
    half = Request(5000, memory=48 * GIB, gpus=GpuShare(milli=500))
    views = tuple(map(host, range(hosts)))
    return Load(views, (*_apps("whole", requests - halves, whole(1)), *_apps("half", halves, half)))


def diverse(hosts: int, seed: int = 42) -> Load:
    """About 150 kinds of request: whole cards, shares, MIG slices and none, exclusive and shared CPUs.

    Every host is divided at random, each node for itself, and then some of what was cut out is left away: so it is
    known that all of it fits, each request on one node where it asks for at most 4 cards.
    """
    draw = random.Random(seed)  # noqa: S311 -- repeatable, not secret
    views = tuple(host(number, mig=number % MIG_EVERY == 0) for number in range(hosts))
    counts: Counter[Request] = Counter()
    for number in range(hosts):
        for request in _divide(draw, mig=number % MIG_EVERY == 0):
            if draw.random() < LOAD:
                counts[request] += 1
    named = sorted(counts.items(), key=lambda pair: repr(pair[0]))
    return Load(views, tuple(app(f"kind-{at:03}", count, request) for at, (request, count) in enumerate(named)))


def milli_of(request: Request) -> int:
    """Thousandths of cards that are asked for; memory slices of MIG count an eighth of a card."""
    match request.gpus:
        case WholeGpus(count=count):
            return count * 1000
        case GpuShare(milli=milli):
            return milli
        case MigSlices(profile=profile):
            return 125 * profiles(KIND)[profile][0][1].bit_count()
    return 0


def _load(hosts: int, counts: dict[int, int]) -> Load:
    views = tuple(map(host, range(hosts)))
    work = [one for cards, count in counts.items() for one in _apps(f"cards-{cards}", count, whole(cards))]
    return Load(views, tuple(work))


def _apps(name: str, count: int, request: Request) -> Iterator[Workload]:
    for at in range(0, count, APP):
        yield app(f"{name}-{at // APP:04}", min(APP, count - at), request)


def _divide(draw: random.Random, *, mig: bool) -> Iterator[Request]:
    """A whole host in requests: at most 10 CPUs and 100 GiB a card, and a little work without cards on each node."""
    if not mig and draw.random() < 0.125:
        yield whole(CARDS, draw.choice((4, 6, 8, 10)), draw.choice((32, 64, 96)))
        return
    for node in (0, 1):
        yield _sized(draw, draw.choice((1, 2, 3, 4)), (1, 2, 4), None)
        yield from _slices(draw) if mig and node else _cards(draw)


def _cards(draw: random.Random) -> Iterator[Request]:
    """The four cards of a node."""
    left = CARDS // 2
    while left:
        count = draw.choice([count for count in (0, 1, 2, 4) if count <= left])
        if count:
            yield whole(count, draw.choice((4, 6, 8, 10)), draw.choice((32, 64, 96)))
        else:
            yield from _shares(draw)
        left -= max(1, count)


def _shares(draw: random.Random) -> Iterator[Request]:
    """One card in shares."""
    left = 10
    while left:
        tenths = draw.randint(1, min(7, left))
        yield _sized(draw, tenths, (2, 6, 10), GpuShare(milli=tenths * 100))
        left -= tenths


def _slices(draw: random.Random) -> Iterator[Request]:
    """Four cards in MIG slices, each filled until nothing more can be cut."""
    every = [(name, mask) for name, starts in profiles(KIND).items() if "+" not in name for _, mask in starts]
    for _ in range(CARDS // 2):
        busy = 0
        while options := [(name, mask) for name, mask in every if not mask & busy]:
            name, mask = draw.choice(options)
            busy |= mask
            yield _sized(draw, mask.bit_count(), (4, 8, 12), MigSlices(name))


def _sized(draw: random.Random, size: int, gib: Sequence[int], gpus: GpuRequest | None) -> Request:
    """A CPU of its own for each part, or half a shared one."""
    exclusive = draw.random() < 0.5
    return Request(size * (1000 if exclusive else 500), exclusive, size * draw.choice(gib) * GIB, gpus)
