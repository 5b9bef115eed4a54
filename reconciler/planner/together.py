"""A batch of asks in the terms of the packing engine: numbers, masks, and what its members mean to one another."""

from collections.abc import Callable, Sequence

from reconciler.model.claims import WHOLE
from reconciler.model.resources import GpuShare, MigSlices, WholeGpus
from reconciler.planner.ask import Ask, want_of
from reconciler.planner.batch import Item
from reconciler.planner.batch_order import Shape
from reconciler.planner.conditions import Conditions
from reconciler.planner.free import Want
from reconciler.planner.gates import Gates, passing
from reconciler.planner.ports import clash_free, fixed_ports
from reconciler.planner.states import States

Having = Callable[[Want], int]
"""The hosts that have such cards as are asked, free or not: only they compete for them."""

Clashing = Callable[[tuple[tuple[str, int, str], ...], int], int]
"""The hosts of a mask on which one of some fixed ports is taken by what runs."""


class Together:
    """Makes the items of one batch."""

    def __init__(
        self, gates: Gates, conditions: Conditions, states: States, clashing: Clashing, having: Having
    ) -> None:
        self._having = having
        self._gates = gates
        self._conditions = conditions
        self._states = states
        self._clashing = clashing

    def items(self, asks: Sequence[Ask]) -> tuple[list[Item], dict[int, Shape]]:
        """An item for every ask, in their order, and the shape of every want among them."""
        shapes: dict[int, Shape] = {}
        alike: dict[int, tuple[int, tuple[int, ...], _Room | None]] = {}
        room = _Room(asks, self._conditions, self._clashing)
        out = []
        for key, ask in enumerate(asks):
            workload = ask.workload
            known = alike.get(id(workload))
            if known is None:
                known = alike[id(workload)] = self._terms(ask, room, shapes)
            out.append(Item(key, known[0], known[1], workload.priority, known[2]))
        return out, shapes

    def _terms(self, ask: Ask, room: "_Room", shapes: dict[int, Shape]) -> tuple[int, tuple[int, ...], "_Room | None"]:
        """What all instances of a workload have in common: want, levels, and what their places depend on."""
        want, workload = want_of(ask.workload), ask.workload
        number = self._states.want_of(want)
        shapes.setdefault(number, shape_of(want))
        hosts = self._gates.steady(ask, want) & self._having(want)
        if self._conditions.depends(workload) or fixed_ports(workload.container):
            return number, (hosts,), room
        return number, self._conditions.levels(ask.instance, workload, hosts), None


class _Room:
    """What other members of the batch leave: hosts that hold no more of a workload, values of a label, fixed ports."""

    def __init__(self, asks: Sequence[Ask], conditions: Conditions, clashing: Clashing) -> None:
        self._asks = asks
        self._conditions = conditions
        self._clashing = clashing
        self._clash: dict[tuple[tuple[str, int, str], ...], int] = {}
        self._taken: dict[tuple[str, int, str], int] = {}

    def levels(self, levels: Sequence[int], item: Item) -> Sequence[int]:
        """The hosts that may take it now, by how far they meet its soft wishes."""
        ask = self._asks[item.key]
        hosts = passing(levels[0], self._conditions.policy(ask.instance, ask.workload))
        hosts = passing(hosts, self._conditions.required(ask.instance, ask.workload, hosts))
        hosts &= ~self._blocked(ask, levels[0])
        return self._conditions.levels(ask.instance, ask.workload, hosts) if hosts else ()

    def take(self, host: int, item: Item) -> None:
        """It is on that host now."""
        ask = self._asks[item.key]
        self._conditions.add(ask.workload.identity, ask.instance, host)
        for port in fixed_ports(ask.workload.container):
            self._taken[port] = self._taken.get(port, 0) | 1 << host

    def give(self, host: int, item: Item) -> None:
        """It is not."""
        ask = self._asks[item.key]
        self._conditions.remove(ask.workload.identity, ask.instance, host)
        for port in fixed_ports(ask.workload.container):
            self._taken[port] &= ~(1 << host)

    def _blocked(self, ask: Ask, hosts: int) -> int:
        fixed = fixed_ports(ask.workload.container)
        if not fixed:
            return 0
        if fixed not in self._clash:
            self._clash[fixed] = self._clashing(fixed, hosts)
        blocked = self._clash[fixed]
        for taken, there in self._taken.items():
            if any(not clash_free(taken, port) for port in fixed):
                blocked |= there
        return blocked


def shape_of(want: Want) -> Shape:
    """The numbers of a want that its place in the order depends on."""
    gpus = want.gpus
    milli = 0
    if isinstance(gpus, WholeGpus):
        milli = gpus.count * WHOLE
    elif isinstance(gpus, GpuShare):
        milli = gpus.milli or 1
    return Shape(
        pieces=want.pieces,
        milli=milli,
        millicpus=want.millicpus,
        memory=want.memory,
        slices=isinstance(gpus, MigSlices),
    )


def by_depth(asks: Sequence[Ask]) -> list[list[Ask]]:
    """The asks in rounds: what is to be near others comes after them."""
    near = {
        ask.workload.identity: [
            one.workload for one in ask.workload.affinity if not one.apart and one.workload != ask.workload.identity
        ]
        for ask in asks
    }

    def depth(name: str, above: tuple[str, ...]) -> int:
        after = [depth(other, (*above, name)) for other in near[name] if other in near and other not in above]
        return 1 + max(after) if after else 0

    depths = {name: depth(name, ()) if others else 0 for name, others in near.items()}
    rounds: list[list[Ask]] = [[] for _ in range(1 + max(depths.values(), default=0))]
    for ask in asks:
        rounds[depths[ask.workload.identity]].append(ask)
    return rounds
