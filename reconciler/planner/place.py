"""All hosts: who may, who fits, who is best; commit and undo.

Conditions that are yes or no are bit masks over the fleet (bit N is host N in the order of names), so that "why not" is
a count of bits; what depends on free resources is asked of the index.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from reconciler.model.host import HostState
from reconciler.model.plan import Pending
from reconciler.model.resources import AllGpus
from reconciler.model.snapshot import HostView, Reach
from reconciler.model.workload import Allocation, InstanceId, Workload
from reconciler.planner import verdicts
from reconciler.planner.ask import Ask, Placement, batch_order
from reconciler.planner.explain import Explanation, diagnose, names, offered, pending, port_lack, why
from reconciler.planner.fit import Offer, fit, refit
from reconciler.planner.free import CardKind, HostKind, Want
from reconciler.planner.index import Index
from reconciler.planner.lacks import Lack
from reconciler.planner.machine import Claim, Machine
from reconciler.planner.pin import pin, resized, split_of
from reconciler.planner.policies import Filter, Policies, Rule, is_local, named_tags, own_tags
from reconciler.planner.ports import Assigned, assign, clashes, fixed_ports
from reconciler.planner.topology import bits

__all__ = ["Ask", "Explanation", "Fleet", "Placement", "batch_order"]

BEST_OFFERS = 5


class Fleet:
    """Every host while one plan is made. Ours is told by ``occupy``; all else is counted from the views."""

    def __init__(self, machines: Sequence[Machine], rules: Callable[[str], Rule]) -> None:
        self._machines = machines
        self._places = {machine.name: place for place, machine in enumerate(machines)}
        self._policies = Policies([machine.view for machine in machines], rules)
        self._hosts_of: dict[str, int | None] = {}
        self._running: dict[str, dict[int, Counter[InstanceId]]] = {}
        self._every = (1 << len(machines)) - 1
        _label_cards(machines)
        self._index = Index(_kinds(machines))
        for place in range(len(machines)):
            self._recount(place)
        self._states = self._state_filters()

    @classmethod
    def of(cls, views: Sequence[HostView], rules: Callable[[str], Rule]) -> "Fleet":
        """The fleet as observed, without what is ours: reserved parts, foreign holdings and unfit cards are off.

        ``rules`` compiles the text of a RULE_BASED policy.
        """
        ordered = sorted(views, key=lambda view: _natural(view.spec.name))
        return cls([Machine(view) for view in ordered], rules)

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
        running = self._running[claim.workload][place]
        running[claim.instance] -= 1
        if not running[claim.instance]:
            del running[claim.instance]
        self._recount(place)

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
        self._recount(place)
        return allocation

    # -- placing

    def place(self, ask: Ask, key: str) -> Placement | Pending:
        """The best host for ``ask``, committed under ``key``; or why there is none."""
        want = want_of(ask.workload)
        hosts = self._passing(self._scope(ask), self._gates(ask, want))
        while hosts:
            found = self._choose(ask, want, hosts)
            if found is None:
                break
            place, offer, reason = found
            machine = self._machines[place]
            ports = assign(ask.workload.container, machine.taken_ports, self._near(ask, place))
            if ports is not None:
                return self._settle(ask, key, machine, offer, ports, reason)
            hosts &= ~(1 << place)
        return self._pending(ask, want)

    def choices(self, ask: Ask) -> int:
        """How many hosts could take ``ask`` now; for ``batch_order``."""
        want = want_of(ask.workload)
        hosts = self._passing(self._scope(ask), self._gates(ask, want))
        return sum(
            among.bit_count() for among, answer in self._index.answers(want, hosts) if not isinstance(answer, Lack)
        )

    def explain(self, ask: Ask) -> Explanation:
        """Where ``ask`` would go and why: the same decision as ``place``, which is not committed."""
        want, scope = want_of(ask.workload), self._scope(ask)
        gates = self._gates(ask, want)
        hosts = self._passing(scope, gates)
        free = self._with_ports(ask, hosts)
        offers = sorted(
            (answer.score, place, answer)
            for among, answer in self._index.answers(want, free)
            if not isinstance(answer, Lack)
            for place in bits(among)
        )
        removed = diagnose(gates, scope, self._refusals(want, hosts, free), port_lack(ask)).removed
        outcome = self._trial(ask)
        placed = outcome if isinstance(outcome, Placement) else None
        return Explanation(
            instance=ask.instance,
            hosts=len(self._machines),
            removed=tuple((name, names(self._machines, gone)) for name, gone in removed),
            offers=tuple(offered(self._machines[place], offer, want) for _, place, offer in offers[:BEST_OFFERS]),
            fitting=len(offers),
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
        conditions = self._policies.filters(ask.workload, self._full(ask))
        return verdicts.violations(self._machines[place], 1 << place, conditions, ask.workload, allocation)

    def admits(self, ask: Ask, host: str) -> bool:
        """Whether the policy wants that host at all, whatever runs there and whatever state it is in."""
        place = self._places.get(host)
        conditions = self._policies.filters(ask.workload, lambda _: 0)
        return place is not None and all(mask >> place & 1 for _, mask in conditions)

    # -- who may

    def _scope(self, ask: Ask) -> int:
        if ask.only is None:
            return self._every
        return 1 << self._places[ask.only] if ask.only in self._places else 0

    @staticmethod
    def _passing(hosts: int, gates: Sequence[Filter]) -> int:
        for _, passing in gates:
            hosts &= passing
        return hosts

    def _gates(self, ask: Ask, want: Want) -> list[Filter]:
        """Every yes-or-no condition in order: can the host take anything, may it take this."""
        states = self._states
        gates = [("unreachable", states["unreachable"]), ("no facts yet", states["no facts yet"])]
        if not is_local(ask.workload.policy):
            home = self._places.get(ask.home or "")
            allowed = 1 << home if ask.in_place and home is not None else 0
            gates += [("drained", states["drained"]), ("cordoned", states["cordoned"] | allowed)]
        if want.pieces or isinstance(want.gpus, AllGpus):
            gates.append(("stale facts", states["stale facts"]))
        return gates + self._policies.filters(ask.workload, self._full(ask))

    def _state_filters(self) -> dict[str, int]:
        """Hosts that pass, by what is held against the others."""
        failing = dict.fromkeys(("unreachable", "no facts yet", "drained", "cordoned", "stale facts"), 0)
        for place, machine in enumerate(self._machines):
            view = machine.view
            failing["unreachable"] |= (view.reach is Reach.UNREACHABLE) << place
            failing["no facts yet"] |= (view.facts is None) << place
            failing["drained"] |= (view.spec.state is HostState.DRAINED) << place
            failing["cordoned"] |= (view.spec.state is HostState.CORDONED) << place
            failing["stale facts"] |= (view.reach is Reach.STALE) << place
        return {name: self._every & ~hosts for name, hosts in failing.items()}

    def _full(self, ask: Ask) -> Callable[[int], int]:
        """Hosts with so many other instances of the same kind and name: an instance does not stand in its own way."""
        running = self._running.get(ask.instance.workload, {})

        def full(most: int) -> int:
            hosts = 0
            for place, instances in running.items():
                if len(instances) - (ask.instance in instances) >= most:
                    hosts |= 1 << place
            return hosts

        return full

    def _with_ports(self, ask: Ask, hosts: int) -> int:
        """Those of ``hosts`` on which every fixed port is free."""
        fixed = fixed_ports(ask.workload.container)
        if not fixed:
            return hosts
        clash = [place for place in bits(hosts) if clashes(self._machines[place].taken_ports, fixed) is not None]
        return hosts & ~sum(1 << place for place in clash)

    # -- who is best

    def _near(self, ask: Ask, place: int) -> Allocation | None:
        return ask.near if self._places.get(ask.home or "") == place else None

    def _choose(self, ask: Ask, want: Want, hosts: int) -> tuple[int, Offer, str] | None:
        home = self._places.get(ask.home or "")
        hosts = self._with_ports(ask, hosts)
        if home is not None and hosts >> home & 1:
            kept = self._at_home(ask, want, home)
            if kept is not None:
                return home, *kept
        best = self._index.best(want, hosts)
        return (best[0], best[1], why(best[1], want, best[2], "")) if best else None

    def _at_home(self, ask: Ask, want: Want, place: int) -> tuple[Offer, str] | None:
        """The offer of the host to keep: with the same cards, else with others."""
        free, kind = self._index.free(place), self._index.kind(place)
        split = split_of(self._machines[place], ask.near, want) if ask.near else None
        offer = refit(free, kind, want, split) if split else None
        if offer is not None:
            return offer, why(offer, want, 1, "kept where it is")
        other = fit(free, kind, want)
        reason = "the host it must be on" if ask.only else "kept on its host"
        return None if isinstance(other, Lack) else (other, why(other, want, 1, reason))

    def _settle(self, ask: Ask, key: str, machine: Machine, offer: Offer, ports: Assigned, reason: str) -> Placement:
        want, place = want_of(ask.workload), self._places[machine.name]
        allocation, warnings = pin(machine, offer, want, self._near(ask, place))
        allocation = replace(allocation, ports=ports.ports)
        self._commit(key, place, Claim(ask.instance, ask.instance.workload, allocation, ports.held))
        return Placement(machine.name, allocation, warnings, reason)

    def _refusals(self, want: Want, hosts: int, free: int) -> Iterator[tuple[int, Offer | Lack]]:
        """What removed each of ``hosts``: a lack, or its ports (an offer) where it is not in ``free``."""
        for among, answer in self._index.answers(want, hosts):
            refused = among if isinstance(answer, Lack) else among & ~free
            if refused:
                yield refused, answer

    def _trial(self, ask: Ask) -> Placement | Pending:
        """What ``place`` would say, undone at once."""
        key = f"trial of {ask.instance}"
        outcome = self.place(ask, key)
        if isinstance(outcome, Placement):
            self.vacate(key)
        return outcome

    def _pending(self, ask: Ask, want: Want) -> Pending:
        gates, scope = self._gates(ask, want), self._scope(ask)
        hosts = self._passing(scope, gates)
        diagnosis = diagnose(gates, scope, self._index.answers(want, hosts), port_lack(ask))
        return pending(ask, want, self._machines, self._index.kinds(hosts), diagnosis)

    def _commit(self, key: str, place: int, claim: Claim) -> None:
        if key in self._hosts_of:
            self.vacate(key)
        self._hosts_of[key] = place
        self._machines[place].add(key, claim)
        self._running.setdefault(claim.workload, {}).setdefault(place, Counter())[claim.instance] += 1
        self._recount(place)

    def _recount(self, place: int) -> None:
        machine = self._machines[place]
        self._index.update(place, machine.memory, machine.nodes_free())


def want_of(workload: Workload) -> Want:
    """The part of a workload that a fit depends on."""
    request = workload.request
    units = request.cores if request.exclusive else request.millicpus
    tags = named_tags(workload.policy)
    return Want(request.exclusive, units, request.memory, workload.numa, request.gpus, tags)


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
        )
        for machine in machines
    ]
