"""All hosts: who may, who fits, who is best; commit and undo.

Conditions that are yes or no are bit masks over the fleet (bit N is host N in the order of names), so that "why not" is
a count of bits; what depends on free resources is asked of the packing engine.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from reconciler.model.plan import Pending
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Allocation, InstanceId, Kind, Workload
from reconciler.planner import verdicts
from reconciler.planner.ask import Ask, Placement, want_of
from reconciler.planner.batch import admit
from reconciler.planner.board import Board
from reconciler.planner.conditions import Conditions
from reconciler.planner.explain import COUNT_TO, Explanation, why
from reconciler.planner.free import Want
from reconciler.planner.gates import Gates, passing
from reconciler.planner.lacks import Lack
from reconciler.planner.machine import Claim
from reconciler.planner.pin import pin, resized, split_of
from reconciler.planner.policies import Policies, Rule
from reconciler.planner.ports import assign, clashes
from reconciler.planner.reasons import Reasons
from reconciler.planner.states import Offer
from reconciler.planner.together import Together, by_depth
from reconciler.planner.topology import bits, cpu_numbers

NOBODY = InstanceId(Kind.APP, "", "")

__all__ = ["Ask", "Explanation", "Fleet", "Placement"]


class Fleet:
    """Every host while one plan is made. Ours is told by ``occupy``; all else is counted from the views."""

    def __init__(
        self, views: Iterable[HostView], rules: Callable[[str], Rule], workloads: Iterable[Workload] = ()
    ) -> None:
        """The fleet as observed, without what is ours: reserved parts, foreign holdings and unfit cards are off.

        ``rules`` compiles the text of a RULE_BASED policy; ``workloads`` are all that git wants.
        """
        workloads = tuple(workloads)
        self._board = Board(views, workloads)
        ordered = self._board.views
        self._known = Conditions(ordered, Policies(ordered, rules), workloads)
        self._gates = Gates(ordered, self._known)
        self._reasons = Reasons(self._board, self._gates, self._known, self._clashing)
        self._policies: dict[str, int] = {}

    # -- the ledger

    def occupy(self, host: str, key: str, instance: InstanceId, workload: str, allocation: Allocation) -> None:
        """Count a container of ours that holds; ``key`` names it. A host unknown to the fleet gives nothing."""
        self._board.occupy(host, key, instance, workload, allocation)

    def vacate(self, key: str) -> None:
        """Give back what ``key`` holds; a key that holds nothing has nothing to give."""
        self._board.vacate(key)

    def shared_pool(self, host: str, nodes: tuple[int, ...] = ()) -> tuple[int, ...]:
        """CPUs that nobody owns and that are not reserved, of the given NUMA nodes or of the whole host, sorted."""
        return cpu_numbers(self._board.machine(self._board.places[host]).shared_pool(nodes))

    def resize(self, key: str, workload: Workload, current: Allocation) -> Allocation | None:
        """Change cores and memory in place: same host, nodes and cards. Commits; None (and no change) if it cannot.

        Raises KeyError for a key that holds nothing.
        """
        place = self._board.place_of(key)
        if place is None or self._board.views[place].facts is None:
            return None
        machine = self._board.machine(place)
        claim = machine.claims[key]
        machine.remove(key)
        allocation = resized(machine, workload.request, current)
        self._board.recut(key, place, claim if allocation is None else replace(claim, allocation=allocation))
        return allocation

    # -- placing

    def place(self, ask: Ask, key: str) -> Placement | Pending:
        """The best host for ``ask``, committed under ``key``; or why there is none."""
        self._board.count_in(self._known)
        want = want_of(ask.workload)
        hosts = passing(self._gates.scope(ask), self._gates.all(ask, want))
        hosts = self._reasons.with_ports(ask, hosts)
        while hosts:
            found = self._choose(ask, want, hosts)
            if found is None:
                break
            place, offer, reason = found
            placed = self._settle(ask, key, place, offer, reason)
            if placed is not None:
                return placed
            hosts &= ~(1 << place)
        return self._reasons.pending(ask, want)

    def place_all(self, asks: Iterable[Ask]) -> dict[InstanceId, Placement | Pending]:
        """Places for a whole batch at once, each committed under its instance's name.

        What has a home (it ran there, or must be there) goes first; for the rest see ``batch.admit``.
        """
        every = sorted(asks, key=lambda ask: ask.instance.sort_key)
        if not every:
            return {}
        self._board.count_in(self._known)
        out: dict[InstanceId, Placement | Pending] = {}
        for ask in sorted((ask for ask in every if ask.home), key=_at_home_first):
            out[ask.instance] = self.place(ask, str(ask.instance))
        rest, slipped = [ask for ask in every if not ask.home], False
        for batch in by_depth(rest):
            # What fits nowhere has its reason in what there was, and would only spoil the packing of the others.
            lost = [ask for ask in batch if not self._could(ask)]
            out |= {ask.instance: self._reasons.pending(ask, want_of(ask.workload)) for ask in lost}
            for ask, place, hosts in self._admitted([ask for ask in batch if ask.instance not in out]):
                out[ask.instance] = self._carry_out(ask, place, hosts)
                slipped |= isinstance(out[ask.instance], Pending)
        left = [ask for ask in rest if ask.instance not in out]
        for ask in sorted(left, key=_at_home_first):
            # What was promised a place and has none after all (its ports) may have kept another out.
            again = self.place(ask, str(ask.instance)) if slipped else None
            out[ask.instance] = again or self._reasons.pending(ask, want_of(ask.workload))
        return out

    def _could(self, ask: Ask) -> bool:
        """Whether some host could take it now, other members of its batch apart."""
        want = want_of(ask.workload)
        hosts = self._gates.steady(ask, want)
        return bool(hosts and self._board.pack.count(self._board.states.want_of(want), hosts, 1))

    def _admitted(self, asks: Sequence[Ask]) -> list[tuple[Ask, int, int]]:
        """Which of a batch are placed, in which order, on which of which hosts; in counts, and undone."""
        items, shapes = Together(
            self._gates, self._known, self._board.states, self._clashing, self._board.having
        ).items(asks)
        mark = self._board.pack.mark()
        chosen = admit(self._board.pack, items, shapes)
        self._board.pack.undo(mark)
        for item, host in chosen:
            room = items[item].room
            if room is not None:
                room.give(host, items[item])
        return [(asks[item], host, reduce(or_, items[item].levels, 0)) for item, host in chosen]

    def _carry_out(self, ask: Ask, place: int, hosts: int) -> Placement | Pending:
        """Give names to what was promised in counts; where that cannot be (ports), look for another place."""
        want = want_of(ask.workload)
        number = self._board.states.want_of(want)
        states, pack = self._board.states, self._board.pack
        offer, step = states.offer(pack.state(place), number), pack.fit(pack.state(place), number)
        if step is not None and not isinstance(offer, Lack):
            count = pack.count(number, hosts, COUNT_TO)
            placed = self._settle(ask, str(ask.instance), place, offer, why(offer, want, count, ""), step[1])
            if placed is not None:
                return placed
        return self.place(ask, str(ask.instance))

    def explain(self, ask: Ask) -> Explanation:
        """Where ``ask`` would go and why: the same decision as ``place``, which is not committed."""
        return self._reasons.explanation(ask, self._trial(ask))

    def violations(self, ask: Ask, host: str, allocation: Allocation) -> tuple[str, ...]:
        """Conditions that no longer hold for a running instance, in words. They evict nothing."""
        place = self._board.places.get(host)
        if place is None:
            return ()
        view, broken = self._board.views[place], []
        if not self._steady(ask.workload) >> place & 1 or self._known.depends(ask.workload):
            self._board.count_in(self._known)
            conditions = self._known.policy(ask.instance, ask.workload)
            broken = [name for name, mask in conditions if not mask >> place & 1]
        return (*verdicts.unmet(view, broken), *verdicts.broken(view, ask.workload, allocation))

    def _steady(self, workload: Workload) -> int:
        """The hosts that a policy wants, whatever runs there."""
        if workload.identity not in self._policies:
            conditions = self._known.policy(NOBODY, workload, counting=False)
            self._policies[workload.identity] = passing((1 << len(self._board.views)) - 1, conditions)
        return self._policies[workload.identity]

    def admits(self, ask: Ask, host: str) -> bool:
        """Whether the policy wants that host at all, whatever runs there and whatever state it is in."""
        place = self._board.places.get(host)
        return place is not None and bool(self._steady(ask.workload) >> place & 1)

    # -- who is best

    def _choose(self, ask: Ask, want: Want, hosts: int) -> tuple[int, Offer, str] | None:
        home = self._board.places.get(ask.home or "")
        number = self._board.states.want_of(want)
        if home is not None and hosts >> home & 1:
            kept = self._at_home(ask, want, home)
            if kept is not None:
                return home, *kept
        best = self._board.pack.best(number, self._known.levels(ask.instance, ask.workload, hosts))
        offer = self._board.states.offer(self._board.pack.state(best[1]), number) if best else None
        if best is None or offer is None or isinstance(offer, Lack):
            return None
        return best[1], offer, why(offer, want, self._board.pack.count(number, hosts, COUNT_TO), "")

    def _at_home(self, ask: Ask, want: Want, place: int) -> tuple[Offer, str] | None:
        """The offer of the host to keep: with the same cards, else with others."""
        state, number = self._board.pack.state(place), self._board.states.want_of(want)
        near = split_of(self._board.machine(place), ask.near, want) if ask.near else None
        offer = self._board.states.keep(state, number, near) if near else None
        if offer is not None:
            return offer, why(offer, want, 1, "kept where it is")
        other = self._board.states.offer(state, number)
        reason = "the host it must be on" if ask.only else "kept on its host"
        return None if isinstance(other, Lack) else (other, why(other, want, 1, reason))

    def _settle(
        self, ask: Ask, key: str, place: int, offer: Offer, reason: str, after: int | None = None
    ) -> Placement | None:
        """Names for an offer, committed; None when a port cannot be had. ``after`` is the free state, where known."""
        machine = self._board.machine(place)
        near = ask.near if self._board.places.get(ask.home or "") == place else None
        ports = assign(ask.workload.container, machine.taken_ports, near)
        if ports is None:
            return None
        allocation, warnings = pin(machine, offer, want_of(ask.workload), near)
        if ports.ports:
            allocation = replace(allocation, ports=ports.ports)
        self._board.commit(key, place, Claim(ask.instance, ask.instance.workload, allocation, ports.held), after)
        return Placement(machine.name, allocation, warnings, reason)

    def _clashing(self, fixed: tuple[tuple[str, int, str], ...], hosts: int) -> int:
        return sum(
            1 << place for place in bits(hosts) if clashes(self._board.machine(place).taken_ports, fixed) is not None
        )

    def _trial(self, ask: Ask) -> Placement | Pending:
        """What ``place`` would say, undone at once."""
        key = f"trial of {ask.instance}"
        outcome = self.place(ask, key)
        if isinstance(outcome, Placement):
            self.vacate(key)
        return outcome


def _at_home_first(ask: Ask) -> tuple[object, ...]:
    """Priority, then what has no choice, then the hungriest."""
    request = ask.workload.request
    hunger = (-want_of(ask.workload).pieces, -request.millicpus, -request.memory)
    return (-ask.workload.priority, ask.only is None, *hunger, ask.instance.sort_key)
