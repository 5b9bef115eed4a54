"""Why here and why not there, of a whole fleet: which filter removed which hosts, who is near, who is best."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from reconciler.model.plan import Pending
from reconciler.planner.ask import Ask, Placement, want_of
from reconciler.planner.board import Board
from reconciler.planner.conditions import Conditions
from reconciler.planner.explain import (
    Diagnosis,
    Explanation,
    Offered,
    Short,
    diagnose,
    names,
    offered,
    pending,
    port_lack,
    rival_of,
    rooms,
)
from reconciler.planner.free import HostKind, Want
from reconciler.planner.gates import Gates, passing
from reconciler.planner.lacks import Lack
from reconciler.planner.policies import Filter
from reconciler.planner.ports import fixed_ports
from reconciler.planner.score import Score
from reconciler.planner.wishes import wishes

BEST_OFFERS = 5

Clashing = Callable[[tuple[tuple[str, int, str], ...], int], int]
"""The hosts of a mask on which one of some fixed ports is taken."""


class Reasons:
    """Answers about a fleet as it stands."""

    def __init__(self, board: Board, gates: Gates, conditions: Conditions, clashing: Clashing) -> None:
        self._board = board
        self._gates = gates
        self._known = conditions
        self._clashing = clashing
        self._diagnoses: dict[tuple[object, ...], tuple[Diagnosis, tuple[HostKind, ...]]] = {}
        self._turn = -1

    def with_ports(self, ask: Ask, hosts: int) -> int:
        """Those of ``hosts`` on which every fixed port is free."""
        fixed = fixed_ports(ask.workload.container)
        return hosts & ~self._clashing(fixed, hosts) if fixed else hosts

    def explanation(self, ask: Ask, outcome: Placement | Pending) -> Explanation:
        """Why ``ask`` goes where ``outcome`` says, or nowhere."""
        self._board.count_in(self._known)
        want, scope = want_of(ask.workload), self._gates.scope(ask)
        number = self._board.states.want_of(want)
        gates = self._gates.all(ask, want)
        hosts = passing(scope, gates)
        free = self.with_ports(ask, hosts)
        wished = wishes(self._known, ask.instance, ask.workload, free)
        offers: list[tuple[Offered, int, Score]] = []
        for behind, level in enumerate(self._known.levels(ask.instance, ask.workload, free)):
            best = self._board.pack.offers(number, level, BEST_OFFERS - len(offers))
            offers += [self._offered(place, want, wished, behind) for _, place in best]
        removed = self._diagnose(number, gates, scope, self._refusals(number, hosts, free), ask).removed
        placed = outcome if isinstance(outcome, Placement) else None
        return Explanation(
            instance=ask.instance,
            hosts=len(self._board.machines),
            removed=tuple((name, names(self._board.machines, gone)) for name, gone in removed),
            offers=tuple(one for one, *_ in offers),
            fitting=self._board.pack.fitting(number, free).bit_count(),
            winner=placed.host if placed else None,
            why=placed.why if placed else "",
            warnings=placed.warnings if placed else (),
            pending=None if isinstance(outcome, Placement) else outcome,
            rival=rival_of(placed.host if placed else None, offers),
            rooms=rooms(self._board.machines, hosts, outcome, want),
        )

    def _shortages(self, number: int, hosts: int) -> Iterator[tuple[int, Short | None]]:
        """Every free state among ``hosts``: who is in it, and what it is short of."""
        for state, among in self._board.pack.classes(hosts):
            yield among, self._board.states.shortage(state, number)

    def _lack_at(self, number: int, place: int) -> Lack:
        answer = self._board.states.offer(self._board.pack.state(place), number)
        assert isinstance(answer, Lack)  # noqa: S101 -- it is asked about because it is short of something
        return answer

    def _refusals(self, number: int, hosts: int, free: int) -> Iterator[tuple[int, Short | None]]:
        """What removed each of ``hosts``: a shortage, or its ports where it is not in ``free``."""
        for among, short in self._shortages(number, hosts):
            refused = among if short else among & ~free
            if refused:
                yield refused, short

    def _offered(self, place: int, want: Want, wished: Iterable[Filter], behind: int) -> tuple[Offered, int, Score]:
        offer = self._board.states.offer(self._board.pack.state(place), self._board.states.want_of(want))
        assert not isinstance(offer, Lack)  # noqa: S101 -- only those that fit are offered
        met = tuple(name for name, hosts in wished if hosts >> place & 1)
        return offered(self._board.machine(place), offer, want, met), behind, offer.score

    def pending(self, ask: Ask, want: Want) -> Pending:
        """Why there is no place for ``ask`` now."""
        if self._turn != self._board.turn:
            self._diagnoses.clear()
            self._turn = self._board.turn
        self._board.count_in(self._known)
        gates, scope = self._gates.all(ask, want), self._gates.scope(ask)
        hosts = passing(scope, gates)
        number = self._board.states.want_of(want)
        key = (number, scope, *gates, *fixed_ports(ask.workload.container))
        if key not in self._diagnoses:
            diagnosis = self._diagnose(number, gates, scope, self._shortages(number, hosts), ask)
            kinds = self._board.states.kinds_of(state for state, _ in self._board.pack.classes(hosts))
            self._diagnoses[key] = diagnosis, kinds
        diagnosis, kinds = self._diagnoses[key]
        return pending(ask, want, self._board.machines, kinds, diagnosis)

    def _diagnose(
        self, number: int, gates: Sequence[Filter], scope: int, short: Iterable[tuple[int, Short | None]], ask: Ask
    ) -> Diagnosis:
        return diagnose(gates, scope, short, lambda place: self._lack_at(number, place), port_lack(ask))
