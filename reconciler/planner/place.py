"""All hosts: who may, who fits, who is best; commit and undo.

Conditions that are yes or no are bit masks over the fleet (bit N is host N in the order of names), so that "why not" is
a count of bits; what depends on free resources is asked of the packing engine.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from reconciler.model.plan import Pending
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Allocation, InstanceId, Workload
from reconciler.planner import verdicts
from reconciler.planner.ask import Ask, Placement, want_of
from reconciler.planner.batch import admit
from reconciler.planner.conditions import Conditions
from reconciler.planner.explain import COUNT_TO, Explanation, Offered, diagnose, names, offered, pending, port_lack, why
from reconciler.planner.free import WHOLE, CardKind, HostKind, Want
from reconciler.planner.gates import Gates, passing
from reconciler.planner.lacks import Lack
from reconciler.planner.machine import Claim, Machine
from reconciler.planner.pack import Pack
from reconciler.planner.pin import pin, resized, split_of
from reconciler.planner.policies import Policies, Rule, own_tags
from reconciler.planner.ports import assign, clashes, fixed_ports
from reconciler.planner.score import cap_of
from reconciler.planner.states import Offer, States
from reconciler.planner.together import Together, by_depth, shape_of
from reconciler.planner.topology import bits

__all__ = ["Ask", "Explanation", "Fleet", "Placement"]

BEST_OFFERS = 5


class Fleet:
    """Every host while one plan is made. Ours is told by ``occupy``; all else is counted from the views."""

    def __init__(
        self, machines: Sequence[Machine], rules: Callable[[str], Rule], workloads: Iterable[Workload]
    ) -> None:
        views = [machine.view for machine in machines]
        self._machines = machines
        self._places = {machine.name: place for place, machine in enumerate(machines)}
        self._hosts_of: dict[str, int | None] = {}
        workloads = tuple(workloads)
        self._conditions = Conditions(views, Policies(views, rules), workloads)
        self._gates = Gates(views, self._conditions)
        _label_cards(machines)
        self._kinds = _kinds(machines)
        self._states = States(self._kinds)
        self._states.cap = cap_of(_wanted(workloads), _capacity(machines))
        self._pack = Pack([self._count(place) for place in range(len(machines))], self._states.step)

    @classmethod
    def of(cls, views: Sequence[HostView], rules: Callable[[str], Rule], workloads: Iterable[Workload] = ()) -> "Fleet":
        """The fleet as observed, without what is ours: reserved parts, foreign holdings and unfit cards are off.

        ``rules`` compiles the text of a RULE_BASED policy; ``workloads`` are all that git wants.
        """
        ordered = sorted(views, key=lambda view: _natural(view.spec.name))
        return cls([Machine(view) for view in ordered], rules, workloads)

    # -- the ledger

    def occupy(self, host: str, key: str, instance: InstanceId, workload: str, allocation: Allocation) -> None:
        """Count a container of ours that holds; ``key`` names it. A host unknown to the fleet gives nothing."""
        place = self._places.get(host)
        if place is None:
            self._hosts_of[key] = None
            return
        machine = self._machines[place]
        self._commit(key, place, machine.claim_of(instance, workload, allocation))

    def vacate(self, key: str) -> None:
        """Give back what ``key`` holds; a key that holds nothing has nothing to give."""
        place = self._hosts_of.pop(key, None)
        if place is None:
            return
        machine = self._machines[place]
        claim = machine.claims[key]
        machine.remove(key)
        self._conditions.remove(claim.workload, claim.instance, place)
        self._pack.set(place, self._count(place))

    def shared_pool(self, host: str, nodes: tuple[int, ...] = ()) -> tuple[int, ...]:
        """CPUs that nobody owns and that are not reserved, of the given NUMA nodes or of the whole host, sorted."""
        return bits(self._machines[self._places[host]].shared_pool(nodes))

    def resize(self, key: str, workload: Workload, current: Allocation) -> Allocation | None:
        """Change cores and memory in place: same host, nodes and cards. Commits; None (and no change) if it cannot.

        Raises KeyError for a key that holds nothing.
        """
        place = self._hosts_of[key]
        if place is None or self._machines[place].view.facts is None:
            return None
        machine = self._machines[place]
        claim = machine.claims[key]
        machine.remove(key)
        allocation = resized(machine, workload.request, current)
        machine.add(key, claim if allocation is None else replace(claim, allocation=allocation))
        self._pack.set(place, self._count(place))
        return allocation

    # -- placing

    def place(self, ask: Ask, key: str) -> Placement | Pending:
        """The best host for ``ask``, committed under ``key``; or why there is none."""
        want = want_of(ask.workload)
        hosts = passing(self._gates.scope(ask), self._gates.all(ask, want))
        hosts = self._with_ports(ask, hosts)
        while hosts:
            found = self._choose(ask, want, hosts)
            if found is None:
                break
            place, offer, reason = found
            placed = self._settle(ask, key, place, offer, reason)
            if placed is not None:
                return placed
            hosts &= ~(1 << place)
        return self._pending(ask, want)

    def place_all(self, asks: Iterable[Ask]) -> dict[InstanceId, Placement | Pending]:
        """Places for a whole batch at once, each committed under its instance's name.

        What has a home (it ran there, or must be there) goes first; for the rest see ``batch.admit``.
        """
        out: dict[InstanceId, Placement | Pending] = {}
        every = sorted(asks, key=lambda ask: ask.instance.sort_key)
        for ask in sorted((ask for ask in every if ask.home), key=_at_home_first):
            out[ask.instance] = self.place(ask, str(ask.instance))
        rest = [ask for ask in every if not ask.home]
        for batch in by_depth(rest):
            for ask, place in self._admitted(batch):
                out[ask.instance] = self._carry_out(ask, place)
        for ask in rest:
            if ask.instance not in out:
                out[ask.instance] = self._pending(ask, want_of(ask.workload))
        return out

    def _admitted(self, asks: Sequence[Ask]) -> list[tuple[Ask, int]]:
        """Which of a batch are placed, in which order, on which hosts; in counts, and nothing is kept of it."""
        items, shapes = Together(self._gates, self._conditions, self._states, self._clashing).items(asks)
        mark = self._pack.mark()
        chosen = admit(self._pack, items, shapes)
        self._pack.undo(mark)
        for item, host in chosen:
            room = items[item].room
            if room is not None:
                room.give(host, items[item])
        return [(asks[item], host) for item, host in chosen]

    def _carry_out(self, ask: Ask, place: int) -> Placement | Pending:
        """Give names to what was promised in counts; where that cannot be (ports), look for another place."""
        want = want_of(ask.workload)
        number = self._states.want_of(want)
        offer = self._states.offer(self._pack.state(place), number)
        if not isinstance(offer, Lack):
            count = self._fitting(number, self._gates.steady(ask, want))
            placed = self._settle(ask, str(ask.instance), place, offer, why(offer, want, count, ""))
            if placed is not None:
                return placed
        return self.place(ask, str(ask.instance))

    def explain(self, ask: Ask) -> Explanation:
        """Where ``ask`` would go and why: the same decision as ``place``, which is not committed."""
        want, scope = want_of(ask.workload), self._gates.scope(ask)
        number = self._states.want_of(want)
        gates = self._gates.all(ask, want)
        hosts = passing(scope, gates)
        free = self._with_ports(ask, hosts)
        offers = []
        for level in self._conditions.levels(ask.instance, ask.workload, free):
            offers += [host for _, host in self._pack.offers(number, level, BEST_OFFERS)]
        removed = diagnose(gates, scope, self._refusals(number, hosts, free), port_lack(ask)).removed
        outcome = self._trial(ask)
        placed = outcome if isinstance(outcome, Placement) else None
        return Explanation(
            instance=ask.instance,
            hosts=len(self._machines),
            removed=tuple((name, names(self._machines, gone)) for name, gone in removed),
            offers=tuple(self._offered(place, number, want) for place in offers[:BEST_OFFERS]),
            fitting=self._pack.fitting(number, free).bit_count(),
            winner=placed.host if placed else None,
            why=placed.why if placed else "",
            warnings=placed.warnings if placed else (),
            pending=None if isinstance(outcome, Placement) else outcome,
        )

    def violations(self, ask: Ask, host: str, allocation: Allocation) -> tuple[str, ...]:
        """Conditions that no longer hold for a running instance, in words. They evict nothing."""
        place = self._places.get(host)
        if place is None:
            return ()
        conditions = self._conditions.policy(ask.instance, ask.workload)
        return verdicts.violations(self._machines[place], 1 << place, conditions, ask.workload, allocation)

    def admits(self, ask: Ask, host: str) -> bool:
        """Whether the policy wants that host at all, whatever runs there and whatever state it is in."""
        place = self._places.get(host)
        conditions = self._conditions.policy(ask.instance, ask.workload, counting=False)
        return place is not None and all(mask >> place & 1 for _, mask in conditions)

    # -- who is best

    def _choose(self, ask: Ask, want: Want, hosts: int) -> tuple[int, Offer, str] | None:
        home = self._places.get(ask.home or "")
        number = self._states.want_of(want)
        if home is not None and hosts >> home & 1:
            kept = self._at_home(ask, want, home)
            if kept is not None:
                return home, *kept
        best = self._pack.best(number, self._conditions.levels(ask.instance, ask.workload, hosts))
        offer = self._states.offer(self._pack.state(best[1]), number) if best else None
        if best is None or offer is None or isinstance(offer, Lack):
            return None
        return best[1], offer, why(offer, want, self._fitting(number, hosts), "")

    def _at_home(self, ask: Ask, want: Want, place: int) -> tuple[Offer, str] | None:
        """The offer of the host to keep: with the same cards, else with others."""
        state, number = self._pack.state(place), self._states.want_of(want)
        near = split_of(self._machines[place], ask.near, want) if ask.near else None
        offer = self._states.keep(state, number, near) if near else None
        if offer is not None:
            return offer, why(offer, want, 1, "kept where it is")
        other = self._states.offer(state, number)
        reason = "the host it must be on" if ask.only else "kept on its host"
        return None if isinstance(other, Lack) else (other, why(other, want, 1, reason))

    def _settle(self, ask: Ask, key: str, place: int, offer: Offer, reason: str) -> Placement | None:
        """Names for an offer, committed; None when a port cannot be had."""
        machine = self._machines[place]
        near = ask.near if self._places.get(ask.home or "") == place else None
        ports = assign(ask.workload.container, machine.taken_ports, near)
        if ports is None:
            return None
        allocation, warnings = pin(machine, offer, want_of(ask.workload), near)
        allocation = replace(allocation, ports=ports.ports)
        self._commit(key, place, Claim(ask.instance, ask.instance.workload, allocation, ports.held))
        return Placement(machine.name, allocation, warnings, reason)

    def _with_ports(self, ask: Ask, hosts: int) -> int:
        """Those of ``hosts`` on which every fixed port is free."""
        fixed = fixed_ports(ask.workload.container)
        return hosts & ~self._clashing(fixed, hosts) if fixed else hosts

    def _clashing(self, fixed: tuple[tuple[str, int, str], ...], hosts: int) -> int:
        return sum(1 << place for place in bits(hosts) if clashes(self._machines[place].taken_ports, fixed) is not None)

    def _answers(self, number: int, hosts: int) -> Iterator[tuple[int, Offer | Lack]]:
        """Every free state among ``hosts``: who is in it, and what it says."""
        for state, among in self._classes(hosts).items():
            yield among, self._states.offer(state, number)

    def _classes(self, hosts: int) -> dict[int, int]:
        """The free states among ``hosts``, each with those in it."""
        found: dict[int, int] = {}
        for place in bits(hosts):
            state = self._pack.state(place)
            found[state] = found.get(state, 0) | 1 << place
        return found

    def _fitting(self, number: int, hosts: int) -> int:
        return len(self._pack.offers(number, hosts, COUNT_TO))

    def _refusals(self, number: int, hosts: int, free: int) -> Iterator[tuple[int, Offer | Lack]]:
        """What removed each of ``hosts``: a lack, or its ports (an offer) where it is not in ``free``."""
        for among, answer in self._answers(number, hosts):
            refused = among if isinstance(answer, Lack) else among & ~free
            if refused:
                yield refused, answer

    def _offered(self, place: int, number: int, want: Want) -> Offered:
        offer = self._states.offer(self._pack.state(place), number)
        assert not isinstance(offer, Lack)  # noqa: S101 -- only those that fit are offered
        return offered(self._machines[place], offer, want)

    def _trial(self, ask: Ask) -> Placement | Pending:
        """What ``place`` would say, undone at once."""
        key = f"trial of {ask.instance}"
        outcome = self.place(ask, key)
        if isinstance(outcome, Placement):
            self.vacate(key)
        return outcome

    def _pending(self, ask: Ask, want: Want) -> Pending:
        gates, scope = self._gates.all(ask, want), self._gates.scope(ask)
        hosts = passing(scope, gates)
        number = self._states.want_of(want)
        diagnosis = diagnose(gates, scope, self._answers(number, hosts), port_lack(ask))
        kinds = tuple(dict.fromkeys(self._states.kind(state) for state in self._classes(hosts)))
        return pending(ask, want, self._machines, kinds, diagnosis)

    def _commit(self, key: str, place: int, claim: Claim) -> None:
        if key in self._hosts_of:
            self.vacate(key)
        self._hosts_of[key] = place
        self._machines[place].add(key, claim)
        self._conditions.add(claim.workload, claim.instance, place)
        self._pack.set(place, self._count(place))

    def _count(self, place: int) -> int:
        machine = self._machines[place]
        return self._states.state_of(self._kinds[place], machine.memory, machine.nodes_free())


def _at_home_first(ask: Ask) -> tuple[object, ...]:
    """Priority, then what has no choice, then the hungriest."""
    request = ask.workload.request
    hunger = (-want_of(ask.workload).pieces, -request.millicpus, -request.memory)
    return (-ask.workload.priority, ask.only is None, *hunger, ask.instance.sort_key)


def _wanted(workloads: Iterable[Workload]) -> tuple[int, int]:
    """Millicpus and thousandths of cards of all that git wants, work without cards included."""
    shapes = [(workload.instances, shape_of(want_of(workload))) for workload in workloads]
    return sum(count * one.millicpus for count, one in shapes), sum(count * one.milli for count, one in shapes)


def _capacity(machines: Iterable[Machine]) -> tuple[int, int]:
    """Millicpus and thousandths of cards of the hosts that have cards."""
    hosts = [machine for machine in machines if machine.topology.cards]
    cpus = sum(idle.bit_count() for machine in hosts for idle in machine.base.idle)
    return cpus * 1000, sum(len(machine.topology.cards) for machine in hosts) * WHOLE


def _natural(name: str) -> tuple[tuple[tuple[bool, int, str], ...], str]:
    """gpu-2 before gpu-10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts), name


def _label_cards(machines: Sequence[Machine]) -> None:
    """Rank the kinds of card by how many the fleet has: the most common is spent first."""
    counts = Counter((card.gpu.model, card.gpu.memory) for machine in machines for card in machine.topology.cards)
    order = sorted(counts, key=lambda kind: (-counts[kind], kind[1], kind[0]))
    kinds = {kind: CardKind(rank, *kind) for rank, kind in enumerate(order)}
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
            mixed=machine.mixed,
            links=machine.links,
            nics=machine.nics,
        )
        for machine in machines
    ]
