"""Which moves of running work would free whole hosts or whole cards. Nothing is moved: it is a proposal.

Work fragments as it comes and goes: a job of eight cards may find eight free ones, and no host that has them. Hosts and
cards are tried one after the other, what frees most for each move first; later moves see earlier ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reconciler.model.desired import Desired
from reconciler.model.host import HostState
from reconciler.model.memory import Memory
from reconciler.model.plan import Pending, Plan
from reconciler.model.snapshot import HostView, Reach, Snapshot
from reconciler.model.workload import Allocation, InstanceId, Kind
from reconciler.planner.ask import Ask, Placement
from reconciler.planner.expand import bound_to
from reconciler.planner.holdings import base_of
from reconciler.planner.place import Fleet
from reconciler.planner.residents import Resident, residents_of
from reconciler.planner.topology import topology_of
from reconciler.planner.verdicts import cards_of
from reconciler.rules import compile_rule

MOST_MOVES = 32  # for one gain: whoever restarts more than that drains the host
MOST_TRIES = 400  # hosts and cards looked at, those with the fewest moves first
DETOURS = 4  # places refused for one move before it counts as impossible
NOBODY = InstanceId(Kind.APP, "", "0")


@dataclass(frozen=True, slots=True)
class Move:
    """One instance that would be started elsewhere and stopped where it is."""

    instance: InstanceId
    host: str
    old: Allocation
    to: str
    new: Allocation


@dataclass(frozen=True, slots=True)
class Gain:
    """What some moves free: a whole host with ``cards`` cards, or, with its UUID in ``card``, one card of it."""

    host: str
    cards: int
    moves: tuple[Move, ...]
    card: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Gains in the order in which they are to be made, and the pending work that would fit then, with its host."""

    gains: tuple[Gain, ...]
    fits: tuple[tuple[InstanceId, str], ...] = ()
    pending: int = 0

    @property
    def moves(self) -> int:
        """How many instances would be restarted."""
        return sum(len(gain.moves) for gain in self.gains)


def defrag(desired: Desired, snapshot: Snapshot, memory: Memory, plan: Plan, most: int | None = None) -> Proposal:
    """What could be freed once ``plan`` is carried out, at most ``most`` hosts and cards. Pure.

    Only Apps are moved whose instances run and are as git wants them, which are bound to no host and not suspended.
    """
    return _Defrag(desired, snapshot, memory, plan).propose(most)


class _Defrag:
    def __init__(self, desired: Desired, snapshot: Snapshot, memory: Memory, plan: Plan) -> None:
        self.workloads = {work.identity: work for work in desired.workloads}
        self.memory = memory
        self.plan = plan
        self.fleet = Fleet(snapshot.hosts, compile_rule, desired.workloads)
        self.views = {view.spec.name: view for view in snapshot.hosts}
        self.cards = {view.spec.name: _offered(view) for view in snapshot.hosts}
        self.residents: dict[str, dict[str, Resident]] = {name: {} for name in self.views}
        self.closed: set[str] = set()
        for one in residents_of(snapshot, plan, self.workloads):
            self._put(one)
        self.holes = {name: len(self._whole(name)) for name in self.cards}

    def propose(self, most: int | None) -> Proposal:
        gains: list[Gain] = []
        for name in sorted(self.views):
            if self.cards[name] and not self._staying(name):
                self._close(name)  # an idle host is what is wanted: nothing is moved there
        for host, card in self._targets():
            if most is not None and len(gains) >= most:
                break
            gain = self._free_card(host, card) if card else self._free_host(host)
            if gain:
                gains.append(gain)
        return self._with_pending(gains)

    # -- what may be freed

    def _targets(self) -> list[tuple[str, str]]:
        """(host, card or nothing), most cards for each move first, then those with the fewest moves and cards moved."""
        found = [chance for name in sorted(self.views) if self._open(name) for chance in self._chances(name)]
        return [(name, card) for *_, name, card in sorted(found)[:MOST_TRIES]]

    def _chances(self, name: str) -> Iterator[tuple[float, int, int, str, str]]:
        """What may be freed of a host, as keys to sort by; only where all the work may be moved."""
        groups = [(len(self.cards[name]), self._staying(name), "")]
        groups += [(1, self._sharing(name, card), card) for card in sorted(self.cards[name])]
        for gain, residents, card in groups:
            if residents and _movable(residents):
                moved = sum(len(cards_of(one.allocation)) for one in residents)
                yield -gain / len(residents), len(residents), moved, name, card

    def _open(self, name: str) -> bool:
        view = self.views[name]
        return bool(self.cards[name]) and view.reach is Reach.KNOWN and view.spec.state is HostState.ACTIVE

    def _staying(self, name: str) -> list[Resident]:
        """What keeps a host from being free: all work there but local services without cards."""
        return [
            one
            for one in self._on(name)
            if one.instance.kind is not Kind.LOCAL_SERVICE or cards_of(one.allocation) & self.cards[name]
        ]

    def _sharing(self, name: str, card: str) -> list[Resident]:
        """Who has a part of a card."""
        return [one for one in self._on(name) if one.allocation.share and one.allocation.share.gpu == card]

    def _on(self, name: str) -> Iterable[Resident]:
        return self.residents[name].values()

    # -- freeing

    def _free_host(self, name: str) -> Gain | None:
        """Move everything off a host, to hosts that are in use and to hosts without cards."""
        staying = self._staying(name)
        if name in self.closed or not staying or not _movable(staying):
            return None
        self._close(name)
        moves, done = self._move_all(staying, opening=True)
        if done and (not _cards_move(moves) or self._grows(moves)):
            return self._gain(Gain(name, len(self.cards[name]), moves))
        self._back(staying, moves)
        self._reopen(name)
        return None

    def _free_card(self, name: str, card: str) -> Gain | None:
        """Move the parts of a card to other cards that are in parts already."""
        sharing = self._sharing(name, card)
        if name in self.closed or not sharing or not _movable(sharing):
            return None
        block = f"card {card}"
        self.fleet.occupy(name, block, NOBODY, NOBODY.workload, Allocation(gpus=(card,)))
        moves, done = self._move_all(sharing, opening=False)
        if not done:
            self._back(sharing, moves)
        self.fleet.vacate(block)
        return self._gain(Gain(name, 1, moves, card)) if done else None

    def _gain(self, gain: Gain) -> Gain:
        for name in _touched(gain.moves):
            self.holes[name] = len(self._whole(name))
        return gain

    def _move_all(self, residents: Sequence[Resident], *, opening: bool) -> tuple[tuple[Move, ...], bool]:
        """Move each, without ``opening`` to no card that is whole; the moves, and whether all were possible."""
        moves: list[Move] = []
        for one in sorted(residents, key=_largest_first):
            self._take(one)
            placed = self._elsewhere(one, opening=opening)
            if placed is None:
                self._put(one)
                return tuple(moves), False
            self.residents[placed.host][one.key] = one._replace(
                host=placed.host, allocation=placed.allocation, work=None
            )
            moves.append(Move(one.instance, one.host, one.allocation, placed.host, placed.allocation))
        return tuple(moves), True

    def _elsewhere(self, one: Resident, *, opening: bool) -> Placement | None:
        """The best place that is good; hosts on which it is not are passed over."""
        assert one.work is not None  # noqa: S101 -- only what may be moved is
        passed: list[str] = []
        placed = None
        while len(passed) <= DETOURS and placed is None:
            found = self.fleet.place(Ask(one.instance, one.work), one.key)
            if isinstance(found, Pending):
                break
            if self._good(one, found, opening=opening):
                placed = found
            else:
                self.fleet.vacate(one.key)
                passed.append(found.host)
                self._close(found.host)
        for name in passed:
            self._reopen(name)
        return placed

    def _good(self, one: Resident, found: Placement, *, opening: bool) -> bool:
        """Whether a place takes no whole card that is to stay whole, and is as local as the one it leaves."""
        whole = not opening and bool(cards_of(found.allocation) & self._whole(found.host))
        return not whole and _spread(found.allocation) <= max(1, _spread(one.allocation))

    def _back(self, residents: Iterable[Resident], moves: Iterable[Move]) -> None:
        """Everything where it was."""
        moved = {move.instance: move.to for move in moves}
        back = [one for one in residents if one.instance in moved]
        for one in back:
            self._take(one._replace(host=moved[one.instance]))
        for one in back:
            self._put(one)

    def _put(self, one: Resident) -> None:
        self.residents[one.host][one.key] = one
        self.fleet.occupy(one.host, one.key, one.instance, one.instance.workload, one.allocation)

    def _take(self, one: Resident) -> None:
        del self.residents[one.host][one.key]
        self.fleet.vacate(one.key)

    def _close(self, name: str) -> None:
        """Nothing fits there any more: all memory is held."""
        facts = self.views[name].facts
        memory = facts.memory + 1 if facts else 1
        self.fleet.occupy(name, f"host {name}", NOBODY, NOBODY.workload, Allocation(memory=memory))
        self.closed.add(name)

    def _reopen(self, name: str) -> None:
        self.fleet.vacate(f"host {name}")
        self.closed.discard(name)

    # -- what it is worth

    def _whole(self, name: str) -> frozenset[str]:
        """The cards of a host of which nobody has anything."""
        return self.cards[name] - {card for one in self._on(name) for card in cards_of(one.allocation)}

    def _grows(self, moves: Iterable[Move]) -> bool:
        """Whether free cards come together: eight in one place are worth more than four and four (sum of squares)."""
        hosts = _touched(moves)
        return sum(len(self._whole(name)) ** 2 for name in hosts) > sum(self.holes[name] ** 2 for name in hosts)

    def _with_pending(self, gains: list[Gain]) -> Proposal:
        """What of the pending work fits once all is moved."""
        if not gains:
            return Proposal((), (), len(self.plan.pending))
        for name in sorted(self.closed):
            self._reopen(name)
        placed = self.fleet.place_all(self._asks(self.plan.pending))
        fits = tuple((instance, one.host) for instance, one in placed.items() if isinstance(one, Placement))
        return Proposal(tuple(gains), tuple(sorted(fits, key=lambda one: one[0].sort_key)), len(self.plan.pending))

    def _asks(self, pending: Iterable[Pending]) -> Iterator[Ask]:
        for one in pending:
            work = self.workloads.get(one.instance.workload)
            if work:
                only = bound_to(one.instance, work, self.memory.placed.get(one.instance))
                yield Ask(one.instance, work, only=only)


def _movable(residents: Iterable[Resident]) -> bool:
    residents = list(residents)
    return len(residents) <= MOST_MOVES and all(one.work for one in residents)


def _cards_move(moves: Iterable[Move]) -> bool:
    return any(cards_of(move.old) for move in moves)


def _spread(allocation: Allocation) -> int:
    """How many NUMA nodes its cards and its own CPUs are on."""
    return len({*allocation.gpu_nodes, *(allocation.cpu_nodes if allocation.exclusive else ())})


def _touched(moves: Iterable[Move]) -> set[str]:
    return {name for move in moves for name in (move.host, move.to)}


def _offered(view: HostView) -> frozenset[str]:
    """The cards that can be given whole when nothing of ours runs."""
    return base_of(view, topology_of(view.facts)).cards if view.facts else frozenset()


def _largest_first(one: Resident) -> tuple[object, ...]:
    allocation = one.allocation
    share = allocation.share.milli if allocation.share else 0
    return (-len(cards_of(allocation)), -share, -len(allocation.cpus), -allocation.memory, one.instance.sort_key)
