"""What every host holds while one plan is made: counted only once somebody asks for a place.

Most passes change nothing. Then what runs is noted down and no free state is ever worked out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from reconciler.model.claims import WHOLE
from reconciler.model.resources import GpuShare, WholeGpus
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Allocation, InstanceId, Workload
from reconciler.planner.ask import want_of
from reconciler.planner.conditions import Conditions
from reconciler.planner.free import CardKind, HostKind, Want, matches, of_models
from reconciler.planner.machine import Claim, Machine
from reconciler.planner.pack import Pack
from reconciler.planner.policies import own_tags
from reconciler.planner.score import cap_of
from reconciler.planner.states import States
from reconciler.planner.together import shape_of

Noted = tuple[InstanceId, str, Allocation]


class Board:
    """Hosts by position, in natural order of names; what holds is told by ``occupy``, ``commit`` and ``vacate``."""

    def __init__(self, views: Iterable[HostView], workloads: Iterable[Workload]) -> None:
        self.views = sorted(views, key=lambda view: natural(view.spec.name))
        self.places = {view.spec.name: place for place, view in enumerate(self.views)}
        self._workloads = tuple(workloads)
        self._holders: dict[str, int | None] = {}
        self._noted: list[dict[str, Noted]] = [{} for _ in self.views]
        self._machines: list[Machine | None] = [None for _ in self.views]
        self._conditions: Conditions | None = None
        self._all: list[Machine] | None = None
        self._having: dict[WholeGpus, int] = {}
        self.turn = 0
        """Counts the changes: what was found lacking before one says nothing after it."""
        self._opened: tuple[States, Pack, list[HostKind]] | None = None

    # -- what holds

    def occupy(self, host: str, key: str, instance: InstanceId, workload: str, allocation: Allocation) -> None:
        """Count a container that holds under ``key``. A host that nobody knows gives nothing."""
        place = self.places.get(host)
        if place is None:
            self._holders[key] = None
            return
        machine = self._machines[place]
        if machine is not None:
            self.commit(key, place, machine.claim_of(instance, workload, allocation))
            return
        if key in self._holders:
            self.vacate(key)
        self._holders[key] = place
        self._noted[place][key] = (instance, workload, allocation)
        if self._conditions is not None:
            self._conditions.add(workload, instance, place)

    def commit(self, key: str, place: int, claim: Claim, after: int | None = None) -> None:
        """Count ``claim``; ``after`` is the free state that it leaves, where that is known."""
        if key in self._holders:
            self.vacate(key)
        self._holders[key] = place
        self.machine(place).add(key, claim)
        if self._conditions is not None:
            self._conditions.add(claim.workload, claim.instance, place)
        self._recount(place, after)

    def vacate(self, key: str) -> None:
        """Give back what ``key`` holds; a key that holds nothing has nothing to give."""
        place = self._holders.pop(key, None)
        if place is None:
            return
        machine = self._machines[place]
        if machine is None:
            instance, workload, _ = self._noted[place].pop(key)
        else:
            instance, workload = machine.claims[key].instance, machine.claims[key].workload
            machine.remove(key)
        if self._conditions is not None:
            self._conditions.remove(workload, instance, place)
        self._recount(place)

    def place_of(self, key: str) -> int | None:
        """Where ``key`` holds; None on a host that nobody knows. Raises KeyError for a key that holds nothing."""
        return self._holders[key]

    def recut(self, key: str, place: int, claim: Claim) -> None:
        """Another claim of the same instance under the same key."""
        self.machine(place).add(key, claim)
        self._recount(place)

    # -- what is asked

    def machine(self, place: int) -> Machine:
        """The ledger of one host."""
        machine = self._machines[place]
        if machine is None:
            machine = self._machines[place] = Machine(self.views[place])
            for key, noted in self._noted[place].items():
                machine.add(key, machine.claim_of(*noted))
            self._noted[place].clear()
        return machine

    def count_in(self, conditions: Conditions) -> None:
        """Tell ``conditions`` what runs where, now and from now on; only the first call does anything."""
        if self._conditions is not None:
            return
        self._conditions = conditions
        for place, noted in enumerate(self._noted):
            for instance, workload, _ in noted.values():
                conditions.add(workload, instance, place)
            machine = self._machines[place]
            for claim in machine.claims.values() if machine else ():
                conditions.add(claim.workload, claim.instance, place)

    @property
    def machines(self) -> list[Machine]:
        """The ledgers of all hosts."""
        if self._all is None:
            self._all = [self.machine(place) for place in range(len(self.views))]
        return self._all

    @property
    def states(self) -> States:
        """The free states of this fleet, as numbers."""
        return self._open()[0]

    @property
    def pack(self) -> Pack:
        """The packing engine over what every host has left."""
        return self._open()[1]

    def having(self, want: Want) -> int:
        """The hosts that have cards of the models or sizes that are asked; all of them where none is named."""
        gpus = want.gpus
        if isinstance(gpus, GpuShare):
            gpus = WholeGpus(1, gpus.models)
        if not isinstance(gpus, WholeGpus) or not (gpus.models or gpus.min_memory):
            return (1 << len(self.views)) - 1
        if gpus not in self._having:
            self._having[gpus] = sum(
                1 << place for place, one in enumerate(self.machines) if any(matches(kind, gpus) for kind in one.kinds)
            )
        return self._having[gpus]

    def _open(self) -> tuple[States, Pack, list[HostKind]]:
        if self._opened is None:
            machines = self.machines
            _label_cards(machines, _named(self._workloads))
            kinds = _kinds(machines)
            states = States(kinds)
            states.cap = cap_of(_wanted(self._workloads), _capacity(machines))
            numbers = [
                states.state_of(kind, one.memory, one.nodes_free()) for kind, one in zip(kinds, machines, strict=True)
            ]
            self._opened = states, Pack(numbers, states.step), kinds
        return self._opened

    def _recount(self, place: int, after: int | None = None) -> None:
        self.turn += 1
        if self._opened is None:
            return
        states, pack, kinds = self._opened
        if after is None:
            machine = self.machine(place)
            after = states.state_of(kinds[place], machine.memory, machine.nodes_free())
        pack.set(place, after)


def natural(name: str) -> tuple[tuple[tuple[bool, int, str], ...], str]:
    """gpu-2 before gpu-10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts), name


def _wanted(workloads: Iterable[Workload]) -> tuple[int, int]:
    """Millicpus and thousandths of cards of all that git wants, work without cards included."""
    shapes = [(workload.instances, shape_of(want_of(workload))) for workload in workloads]
    return sum(count * one.millicpus for count, one in shapes), sum(count * one.milli for count, one in shapes)


def _capacity(machines: Iterable[Machine]) -> tuple[int, int]:
    """Millicpus and thousandths of cards of the hosts that have cards."""
    hosts = [machine for machine in machines if machine.topology.cards]
    cpus = sum(idle.bit_count() for machine in hosts for idle in machine.base.idle)
    return cpus * 1000, sum(len(machine.topology.cards) for machine in hosts) * WHOLE


def _cards(machines: Iterable[Machine]) -> Iterator[tuple[str, int]]:
    for machine in machines:
        for card in machine.topology.cards:
            yield card.gpu.model, card.gpu.memory


def _named(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """Every glob of models that something asks for."""
    asked = (workload.request.gpus for workload in workloads)
    globs = (gpus.models for gpus in asked if isinstance(gpus, WholeGpus | GpuShare))
    return tuple(dict.fromkeys(glob for models in globs for glob in models))


def _label_cards(machines: Sequence[Machine], named: tuple[str, ...]) -> None:
    """Rank the kinds of card by how many the fleet has: the most common is spent first."""
    counts = Counter(_cards(machines))
    order = sorted(counts, key=lambda kind: (-counts[kind], kind[1], kind[0]))
    kinds = {
        kind: CardKind(rank, *kind, named=bool(named) and of_models(kind[0], named)) for rank, kind in enumerate(order)
    }
    for machine in machines:
        machine.label_kinds(kinds)


def _kinds(machines: Sequence[Machine]) -> list[HostKind]:
    """What never changes of each host. A tag weighs more the fewer hosts carry it."""
    carried = Counter(tag for machine in machines for tag in own_tags(machine.view))
    return [
        HostKind(
            domains=machine.topology.domains,
            tags=tuple((tag, -(-len(machines) // carried[tag])) for tag in own_tags(machine.view)),
            cards=len(machine.topology.cards),
            cpus=tuple(idle.bit_count() for idle in machine.base.idle),
            gpu_mode=machine.view.spec.gpu_mode,
            kinds=tuple(sorted(machine.kinds)),
            links=machine.links,
            nics=machine.nics,
        )
        for machine in machines
    ]
