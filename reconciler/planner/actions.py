"""Verdicts and placements → actions with reasons and steps."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.model.claims import Claim, claim_for, clash, clash_with
from reconciler.model.limits import limits_for, update_fields
from reconciler.model.memory import Place
from reconciler.model.plan import Action, ActionKind, Change, Order, Pending, Step
from reconciler.model.snapshot import Container, HostView
from reconciler.model.workload import Allocation, InstanceId, Kind, Workload
from reconciler.planner import steps
from reconciler.planner.changes import changed_fields, limit_changes
from reconciler.planner.diff import Case, Differ, Verdict, digest_on, spec_for
from reconciler.planner.expand import Wanted, bound_to
from reconciler.planner.found import Found
from reconciler.planner.live import existing, limits_of, live_allocation, settled
from reconciler.planner.place import Ask, Fleet, Placement

UNDER_WAY = {Verdict.ROLL, Verdict.SETTLE, Verdict.ABANDON, Verdict.FINISH}


class Actions:
    """Collects the actions of one pass."""

    def __init__(
        self,
        cluster: str,
        fleet: Fleet,
        differ: Differ,
        views: Mapping[str, HostView],
        wanted: Wanted,
        leaving: Mapping[str, list[Found]],
    ) -> None:
        self.cluster = cluster
        self.fleet = fleet
        self.differ = differ
        self.views = views
        self.wanted = wanted
        self.leaving = leaving
        self.out: list[Action] = []
        self.running: list[tuple[Case, Workload, Found, Allocation]] = []
        self.outgrown: dict[InstanceId, str] = {}
        found = differ.found.items()
        self.up = Counter(one.workload for one, group in found if one in wanted.instances and any(x.up for x in group))

    # -- what needs no place

    def without_placing(self, case: Case) -> None:
        """Act on a verdict that concerns containers that are there."""
        one, workload = case.current, case.workload
        match case.verdict:
            case Verdict.STOP | Verdict.REMOVE if one:
                kind = ActionKind.STOP if case.verdict is Verdict.STOP else ActionKind.REMOVE
                self._add(kind, case, one.host, steps.clear((one, *case.others)), old=one)
            case Verdict.KEEP if one and workload and not case.others and settled(one, workload, self.cluster):
                pass
            case Verdict.KEEP | Verdict.WATCH if one and workload:
                self._keep(case, workload, one)
            case Verdict.FINISH if one and workload:
                self._go_on(case, one, steps.bring_up(workload, one))
            case Verdict.REVIVE if one and workload:
                self._go_on(case, one, steps.revive(workload, one))
            case Verdict.ROLL | Verdict.SETTLE if one and workload:
                self._roll(case, workload, one)
            case Verdict.ABANDON if one and workload:
                self._abandon(case, workload, one)
            case Verdict.DONE if one:
                self._leftovers(case, one)
            case Verdict.WAIT if one and workload and case.failed and one.up:
                self._give_back(case, workload, one)

    def _give_back(self, case: Case, workload: Workload, one: Found) -> None:
        """An old one that goes on because its replacement failed before it was stopped: it may be revived again."""
        fields = steps.restart_policy(workload, one)
        if fields:
            told = replace(case, reason=f"its restart policy is given back: {case.reason}")
            made = self._action(ActionKind.UPDATE, told, one.host, [steps.update(one, fields)], old=one)
            change = Change("restart", one.container.limits.restart, workload.restart)
            self.out.append(replace(made, changes=(change,)))

    def _keep(self, case: Case, workload: Workload, one: Found) -> None:
        allocation = self._sized(case, workload, one)
        if allocation is None:
            return
        self.running.append((case, workload, one, allocation))
        if case.verdict is Verdict.WATCH:
            self._add(ActionKind.START, case, one.host, [steps.ready(one)], allocation=allocation, made=one)
        self._leftovers(case, one)
        name = case.instance.container_name(self.cluster, one.ours.generation)
        if one.container.name != name and not any(other.name == name for other in one.view.containers):
            reason = f"its container was renamed to {one.container.name}; the name is the lock"
            renamed = replace(case, reason=reason)
            self._add(ActionKind.ADOPT, renamed, one.host, [steps.rename(one, name)], allocation=allocation, old=one)

    def _leftovers(self, case: Case, one: Found) -> None:
        """Other containers of an instance that one speaks for: each is cleared away where it is."""
        for other in case.others:
            kind = ActionKind.STOP if other.up else ActionKind.REMOVE
            told = replace(case, reason=f"{one.container.name} on {one.host} is {case.instance}")
            self._add(kind, told, other.host, steps.clear((other,)), old=other)

    def _sized(self, case: Case, workload: Workload, one: Found) -> Allocation | None:
        """What it has, or what it is to have on the same cards; None when it must be replaced to get it."""
        live, request = live_allocation(one), workload.request
        cores = len(live.cpus) if request.exclusive else live.millicpus
        same_cores = live.exclusive == request.exclusive and cores == (request.cores or request.millicpus)
        if one.view.facts is None or (same_cores and live.memory == request.memory):
            return live if live.memory == request.memory else replace(live, memory=request.memory)
        if request.exclusive and live.millicpus:
            # The Engine accepts the clearing of a quota, and ignores it.
            self.outgrown[case.instance] = "a quota cannot be taken away in place"
            return None
        if request.exclusive and one.container.limits.nano_cpus:
            self.outgrown[case.instance] = "CPUs of its own: the Engine cannot lift its quota in place"
            return None
        sized = self.fleet.resize(one.container.id, workload, live)
        if sized is None:
            self.outgrown[case.instance] = f"its new CPUs or memory do not fit on {one.host} in place"
        return sized

    def _go_on(self, case: Case, one: Found, todo: list[Step]) -> None:
        up = [other for other in case.others if other.up]
        if up and self._comes_second(case, one, up):
            todo = [*(step for other in up for step in steps.keep_down(other)), *steps.later(todo)]
        elif self._blocked(case, one.host, live_allocation(one)):
            todo = steps.later(todo)
        kind = ActionKind.REPLACE if case.others else ActionKind.START
        order = _order(case.others) if case.others else None
        todo = [*todo, *steps.later(steps.clear(case.others))]
        self._add(
            kind, case, one.host, todo, allocation=live_allocation(one), made=one, old=_first(case.others), order=order
        )

    @staticmethod
    def _comes_second(case: Case, new: Found, up: list[Found]) -> bool:
        """Whether the old one must be down before the new one starts: both orders are told apart by what is there."""
        if case.workload is None or case.instance.kind is Kind.TASK or case.workload.rollout.order == "stop-first":
            return True
        told = any(old.container.limits.restart == "no" != case.workload.restart for old in up)
        claim = claim_for(live_allocation(new))
        return told or any(old.host == new.host and clash(claim, old.container) for old in up)

    def _roll(self, case: Case, workload: Workload, one: Found) -> None:
        self.running.append((case, workload, one, live_allocation(one)))
        clear = steps.clear(case.others)
        todo = clear if case.verdict is Verdict.SETTLE else [steps.ready(one), *steps.later(clear)]
        order = _order(case.others)
        self._add(
            ActionKind.REPLACE,
            case,
            one.host,
            todo,
            allocation=live_allocation(one),
            made=one,
            old=_first(case.others),
            order=order,
        )

    def _abandon(self, case: Case, workload: Workload, one: Found) -> None:
        """Clear the failed one away and let the old one go on; it is started again when it had been stopped."""
        todo = steps.clear(case.others)
        if not one.up:
            back = steps.revive(workload, one)
            todo += steps.later(back) if any(other.up for other in case.others) else back
        new = case.others[0]
        made = replace(
            self._action(ActionKind.REPLACE, case, one.host, todo, allocation=live_allocation(one), old=new),
            order=Order.START_FIRST if one.up else Order.STOP_FIRST,
            digest=digest_on(workload, new.view),
            failure=case.failure,
        )
        self.out.append(made)

    # -- what was placed

    def start(self, case: Case, placed: Placement) -> None:
        """Make a new container where the fleet has room."""
        workload = self._workload(case)
        generation = self._next_generation(case)
        todo = self._make(case, workload, placed, generation)
        reason = case.reason or self._why_start(workload)
        action = self._made(ActionKind.START, replace(case, reason=reason), workload, placed, generation)
        self.out.append(
            replace(action, steps=(*steps.clear(case.others[::-1]), *todo), old=existing(_first(case.others)))
        )

    def replace_all(self, judged: Iterable[Case], pending: list[Pending]) -> None:
        """Replacements, in the order of identities, one at a time per workload."""
        judged = list(judged)
        busy = {case.instance.workload for case in judged if case.verdict in UNDER_WAY and case.others}
        failing = {case.instance.workload for case in judged if case.verdict is Verdict.WAIT and case.failed}
        todo = [self._outgrown(case) for case in judged]
        half_way = [case for case in todo if case.verdict is Verdict.REPLACE and case.current and not case.current.up]
        for case in [*half_way, *(case for case in todo if case.verdict is Verdict.REPLACE and case not in half_way)]:
            name = case.instance.workload
            held = ""
            if case not in half_way and name in busy:
                held = "after the replacement that is under way"
            elif case not in half_way and name in failing:
                held = "held: another instance failed with this spec"
            placed = self._replace(case, held)
            if placed is not None:
                pending.append(placed)
            else:
                busy.add(name)

    def _outgrown(self, case: Case) -> Case:
        why = self.outgrown.get(case.instance)
        return replace(case, verdict=Verdict.REPLACE, reason=why) if why else case

    def _replace(self, case: Case, held: str) -> Pending | None:
        workload, one = self._workload(case), case.current
        assert one is not None  # noqa: S101 -- a replacement replaces something
        placed, order, why = self._room(case, workload, one)
        if isinstance(placed, Pending):
            return placed
        changes = changed_fields(one.ours.spec, spec_for(workload, one.view))
        if case.instance in self.outgrown:
            changes += limit_changes(one.container.limits, limits_for(workload, placed.allocation))
        reason = "; ".join(filter(None, (case.reason or _why_replace(changes), why, held)))
        if not {"env", "secretFiles"} & {change.field for change in changes}:  # another secret has another value
            changes += self.differ.secret_changes(workload, one)
        generation = self._next_generation(case)
        make = steps.make(workload, placed.host, case.instance.container_name(self.cluster, generation))
        uncut = steps.uncut(placed.allocation)
        make = steps.after_cut(make) if uncut else make
        gone = steps.later(steps.clear((one, *case.others)))
        todo = [*make, *gone]
        if order is Order.STOP_FIRST and one.up:
            todo = [*steps.stop_first(make, one), *gone[1:]]
        if self._blocked(case, placed.host, placed.allocation):
            todo = steps.only_pull(todo)
        action = self._made(ActionKind.REPLACE, replace(case, reason=reason), workload, placed, generation)
        self.out.append(
            replace(
                action,
                order=order,
                changes=changes,
                old=existing(one),
                steps=tuple(steps.later(todo) if held or uncut else todo),
            )
        )
        return None

    def _room(self, case: Case, workload: Workload, one: Found) -> tuple[Placement | Pending, Order, str]:
        """Where the new one goes and whether it can come first. When it fits nowhere, the old one stays as it is."""
        key, live = str(case.instance), live_allocation(one)
        only = bound_to(case.instance, workload, Place(one.host, live))
        order, why = workload.rollout.order, ""
        if one.up and order != "stop-first" and case.instance.kind is not Kind.TASK:
            first = self.fleet.place(Ask(case.instance, workload, only=only, prefer=one.host, in_place=True), key)
            if not isinstance(first, Pending):
                return first, Order.START_FIRST, ""
            if order == "start-first":
                return first, Order.START_FIRST, ""
            why = f"stop-first: {first.reason} beside the old one"
        self.fleet.vacate(one.container.id)
        ask = Ask(case.instance, workload, only=only, prefer=one.host, in_place=True, near=live)
        second = self.fleet.place(ask, key)
        if one.container.holds or not isinstance(second, Pending):
            # It stays where it is, or its place is kept for it until the new one is ready.
            self.fleet.occupy(one.host, one.container.id, case.instance, case.instance.workload, live)
        return second, Order.STOP_FIRST, why

    # -- at the end

    def finish(self) -> list[Action]:
        """Give shared work its cores, now that all exclusive cores are known, and update in place what differs."""
        self.out = [self._with_pool(action) for action in self.out]
        for case, workload, one, allocation in self.running:
            if case.instance in self.outgrown:
                continue
            given = self._pooled(one.host, workload, allocation)
            want = limits_of(workload, given)
            fields = update_fields(want, one.container.limits)
            if fields:
                changes = limit_changes(one.container.limits, want)
                reason = "changed in place: " + ", ".join(change.field for change in changes)
                made = self._action(
                    ActionKind.UPDATE,
                    replace(case, reason=reason),
                    one.host,
                    [steps.update(one, fields)],
                    allocation=given,
                    old=one,
                )
                self.out.append(replace(made, changes=changes))
        return self.out

    def _with_pool(self, action: Action) -> Action:
        if action.workload is None or action.allocation is None or not action.generation:
            return action
        return replace(action, allocation=self._pooled(action.host, action.workload, action.allocation))

    def _pooled(self, host: str, workload: Workload, allocation: Allocation) -> Allocation:
        if workload.request.exclusive or self.views[host].facts is None:
            return allocation
        return replace(allocation, cpus=self.fleet.shared_pool(host, allocation.cpu_nodes), exclusive=False)

    # -- pieces

    def _make(self, case: Case, workload: Workload, placed: Placement, generation: int) -> list[Step]:
        name = case.instance.container_name(self.cluster, generation)
        todo = steps.make(workload, placed.host, name)
        if steps.uncut(placed.allocation):
            return steps.after_cut(todo)
        return steps.only_pull(todo) if self._blocked(case, placed.host, placed.allocation) else todo

    def _blocked(self, case: Case, host: str, allocation: Allocation) -> bool:
        """Whether something that is about to leave still holds what this needs.

        An exited container can hold (dockerd may revive it). What git does not want is removed before anything starts;
        what another replacement leaves behind is removed in the order of identities, which may be later.
        """
        claim = claim_for(allocation)
        return any(
            clash(claim, one.container)
            for one in self.leaving.get(host, ())
            if one.up or (one.ours.instance != case.instance and one.ours.instance in self.wanted.instances)
        ) or bool(claim.shares and clash_with(Claim(shares=claim.shares), self._others(case, host)))

    def _others(self, case: Case, host: str) -> list[Container]:
        """Every container of a host but those of one instance: what still holds parts of a card that it shares."""
        every = self.views[host].containers
        return [one for one in every if one.ours is None or one.ours.instance != case.instance]

    def _made(self, kind: ActionKind, case: Case, workload: Workload, placed: Placement, generation: int) -> Action:
        view = self.views[placed.host]
        action = self._action(kind, case, placed.host, (), allocation=placed.allocation)
        return replace(
            action,
            generation=generation,
            digest=digest_on(workload, view),
            spec=spec_for(workload, view),
            warnings=placed.warnings,
            why=placed.why,
        )

    def _add(
        self,
        kind: ActionKind,
        case: Case,
        host: str,
        todo: Iterable[Step],
        *,
        allocation: Allocation | None = None,
        old: Found | None = None,
        made: Found | None = None,
        order: Order | None = None,
    ) -> None:
        action = self._action(kind, case, host, todo, allocation=allocation, old=old)
        if made is not None:
            action = replace(action, digest=made.ours.digest, spec=made.ours.spec)
        self.out.append(replace(action, order=order))

    @staticmethod
    def _action(
        kind: ActionKind,
        case: Case,
        host: str,
        todo: Iterable[Step],
        *,
        allocation: Allocation | None = None,
        old: Found | None = None,
    ) -> Action:
        made = Action(kind, case.instance, host, case.reason, tuple(todo), case.workload, allocation, existing(old))
        return replace(made, failure=case.failure)

    def _next_generation(self, case: Case) -> int:
        return 1 + max((one.ours.generation for one in self.differ.found.get(case.instance, ())), default=0)

    def _why_start(self, workload: Workload) -> str:
        if workload.kind is Kind.TASK:
            return "has not run yet"
        if workload.kind is Kind.LOCAL_SERVICE:
            return "one copy on every matching host"
        return f"{workload.instances} desired, {self.up[workload.identity]} running"

    @staticmethod
    def _workload(case: Case) -> Workload:
        assert case.workload is not None  # noqa: S101 -- only wanted instances are made
        return case.workload


def _why_replace(changes: tuple[Change, ...]) -> str:
    return "changed: " + ", ".join(change.field for change in changes) if changes else "a secret changed"


def _first(found: tuple[Found, ...]) -> Found | None:
    return found[0] if found else None


def _order(others: tuple[Found, ...]) -> Order:
    return Order.START_FIRST if any(one.up for one in others) else Order.STOP_FIRST
