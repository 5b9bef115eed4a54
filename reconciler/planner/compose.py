"""One plan from one look: judge, hold back, place, and order the steps. This file is the table of contents.

Starts are placed first, then replacements, so that a start-first replacement only takes cards that nobody else needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from reconciler.model.claims import claim_for, clash_with
from reconciler.model.desired import Desired, Prune
from reconciler.model.memory import Memory
from reconciler.model.plan import Action, ActionKind, Drift, Pending, Placed, Plan, Waiting
from reconciler.model.snapshot import HostView, Snapshot
from reconciler.model.workload import InstanceId, SecretRef, Workload
from reconciler.planner.actions import Actions
from reconciler.planner.diff import Case, Differ, Verdict, cases
from reconciler.planner.expand import Wanted, bound_to, expand
from reconciler.planner.fingerprint import fingerprint
from reconciler.planner.found import Found
from reconciler.planner.guard import guarded
from reconciler.planner.live import live_allocation
from reconciler.planner.memo import Memo
from reconciler.planner.place import Ask, Fleet
from reconciler.rules import compile_rule

PHASES = (
    ActionKind.UPDATE,  # narrowing a shared cpuset comes before the exclusive start that needs it
    ActionKind.ADOPT,
    ActionKind.STOP,
    ActionKind.REMOVE,
    ActionKind.REPLACE,
    ActionKind.START,
)
LEAVING = {Verdict.SETTLE, Verdict.ABANDON, Verdict.START}
FALLING_BACK = {Verdict.FINISH, Verdict.ROLL, Verdict.ABANDON}  # a stopped old one keeps its place until it is settled
GOING = {Verdict.STOP, Verdict.REMOVE}


@dataclass(frozen=True, slots=True)
class Options:
    """What shapes a plan beside its inputs. ``secrets`` holds keyed hashes by workload identity, where known."""

    allow_prune: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict)


def plan(desired: Desired, snapshot: Snapshot, memory: Memory, now: float, options: Options | None = None) -> Plan:
    """What is to be done now so that the fleet becomes what the commit says. Pure: same input, same plan.

    ``now`` is seconds on the reconciler's own clock. Work that cannot be placed is in ``Plan.pending``.
    """
    return _Pass(desired, snapshot, memory, now, options or Options()).plan()


class _Pass:
    def __init__(self, desired: Desired, snapshot: Snapshot, memory: Memory, now: float, options: Options) -> None:
        self.desired = desired
        self.snapshot = snapshot
        self.options = options
        self.fleet = Fleet(snapshot.hosts, compile_rule, desired.workloads)
        self.wanted: Wanted = expand(desired, snapshot, self._admits)
        self.differ = Differ(snapshot, memory, now, options.secrets, host_gone=options.allow_prune)
        self.cluster = desired.cluster.name if desired.cluster else "CLUSTER"
        self.views = {view.spec.name: view for view in snapshot.hosts}
        self.pending: list[Pending] = []
        self.drift: list[Drift] = []
        self.waiting: list[Waiting] = []

    def plan(self) -> Plan:
        prune = self.desired.cluster.prune if self.desired.cluster else Prune()
        held = self.desired.revision in self.differ.memory.guarded
        every = cases(self.wanted, self.differ)
        judged, guard = guarded(every, prune, held=held, allowed=self.options.allow_prune)
        leaving = self._occupy(judged)
        judged = [self._free_to_go_on(case, leaving) for case in judged]
        actions = Actions(self.cluster, self.fleet, self.differ, self.views, self.wanted, leaving)
        for case in judged:
            actions.without_placing(case)
        self._start(judged, actions)
        actions.replace_all(judged, self.pending)
        done = actions.finish()
        self._report(judged)
        return Plan(
            cluster=self.cluster if self.desired.cluster else "",
            commit=self.desired.commit,
            source=self.desired.source,
            fingerprint=fingerprint(self.desired, self.snapshot),
            actions=tuple(sorted(done, key=_action_key)),
            pending=tuple(sorted(self.pending, key=lambda one: one.instance.sort_key)),
            drift=tuple(self.drift),
            waiting=tuple(self.waiting),
            warnings=self._warnings(judged),
            kept=tuple(_PLACED(case) for case in judged if case.current and case.verdict not in GOING),
            unchanged=self._unchanged(judged, done),
            guard=guard,
        )

    def _admits(self, workload: Workload, view: HostView) -> bool:
        return self.fleet.admits(
            Ask(InstanceId(workload.kind, workload.name, view.spec.name), workload), view.spec.name
        )

    def _occupy(self, judged: list[Case]) -> dict[str, list[Found]]:
        """Count what our containers hold, save those that leave; the leaving ones by host."""
        leaving: dict[str, list[Found]] = {}
        for case in judged:
            going = case.verdict in GOING
            for one in filter(None, (case.current, *case.others)):
                if going or (case.verdict in LEAVING and one is not case.current):
                    leaving.setdefault(one.host, []).append(one)
                elif one.container.holds or (case.verdict in FALLING_BACK and not one.up):
                    self._take(one)
        return leaving

    def _take(self, one: Found) -> None:
        instance = one.ours.instance
        self.fleet.occupy(one.host, one.container.id, instance, instance.workload, live_allocation(one))

    def _free_to_go_on(self, case: Case, leaving: dict[str, list[Found]]) -> Case:
        """A container that stands still may have lost its cards to another meanwhile: then it is made anew.

        The one that it replaces is no other: it goes when its time has come. It is never cleared away for that.
        """
        if case.verdict not in {Verdict.FINISH, Verdict.REVIVE} or case.current is None:
            return case
        one = case.current
        gone = {other.container.id for other in (one, *case.others, *leaving.get(one.host, ()))}
        claim = claim_for(live_allocation(one))
        why = clash_with(claim, [other for other in one.view.containers if other.id not in gone])
        if why:
            self.fleet.vacate(one.container.id)
            if case.until is not None:  # an old one that would go on until the next try
                return replace(case, verdict=Verdict.WAIT, reason=f"{case.reason}; {why}")
            leaving.setdefault(one.host, []).append(one)
            case = replace(case, reason=f"{case.reason}; {why}")
            if any(old.up for old in case.others):
                old, *rest = case.others
                return replace(case, verdict=Verdict.ABANDON, current=old, others=(one, *rest))
            return replace(case, verdict=Verdict.START, current=None, others=(one,))
        if not one.container.holds:
            self._take(one)
        return case

    def _start(self, judged: list[Case], actions: "Actions") -> None:
        starts = {case.instance: case for case in judged if case.verdict is Verdict.START}
        asks = []
        for case in starts.values():
            assert case.workload is not None  # noqa: S101 -- only wanted instances are started
            asks.append(self._ask(case.instance, case.workload))
        for instance, placed in self.fleet.place_all(asks).items():
            if isinstance(placed, Pending):
                self.pending.append(placed)
            else:
                actions.start(starts[instance], placed)

    def _ask(self, instance: InstanceId, workload: Workload) -> Ask:
        """It goes back to where it was, unless it failed there; a named volume leaves it no choice."""
        only = bound_to(instance, workload, self.differ.memory.placed.get(instance))
        place = None if self.differ.failure(instance, workload) else self.differ.memory.placed.get(instance)
        if place is None or (only and only != place.host):
            return Ask(instance, workload, only=only)
        return Ask(instance, workload, only=only, prefer=place.host, near=place.allocation)

    def _report(self, judged: list[Case]) -> None:
        for case in judged:
            one = case.current
            if case.verdict is Verdict.WAIT or (case.verdict is Verdict.KEEP and case.failed):
                self.waiting.append(Waiting(case.instance, case.reason, case.until, failed=case.failed))
            if one is None:
                continue
            if case.verdict is Verdict.DONE and case.failed:
                message = f"exited with code {one.container.exit_code}"
                self.drift.append(Drift(case.instance, one.host, message, failed=True))
            if one.container.state == "paused":
                self.drift.append(Drift(case.instance, one.host, "paused by hand"))
            if case.verdict is Verdict.KEEP and case.workload:
                ask = Ask(case.instance, case.workload)
                for line in self.fleet.violations(ask, one.host, live_allocation(one)):
                    self.drift.append(Drift(case.instance, one.host, line))

    def _warnings(self, judged: list[Case]) -> tuple[str, ...]:
        lines = list(self.desired.warnings)
        if self.desired.cluster is None:
            lines.append("no Cluster document: this can be planned, but not applied")
        elif not self.desired.cluster.secrets_key and any(map(_has_secrets, self.desired.workloads)):
            lines.append("secrets are not compared: Cluster.secrets has no hashKey")
        for view in self.snapshot.hosts:
            if view.reason:
                lines.append(f"{view.spec.name}: {view.reason}")
            elif view.facts and view.facts.driver_error:
                lines.append(f"{view.spec.name}: {view.facts.driver_error}")
        for case in judged:
            lines.extend(case.warnings)
        return tuple(dict.fromkeys(lines))

    @staticmethod
    def _unchanged(judged: list[Case], done: list[Action]) -> int:
        busy = {action.instance for action in done}
        settled = {Verdict.KEEP, Verdict.DONE, Verdict.WAIT}
        return sum(1 for case in judged if case.verdict in settled and case.current and case.instance not in busy)


def _has_secrets(workload: Workload) -> bool:
    spec = workload.container
    return bool(spec.secret_files) or any(isinstance(value, SecretRef) for _, value in spec.env)


def _action_key(action: Action) -> tuple[object, ...]:
    return (PHASES.index(action.kind), *action.instance.sort_key)


def _placed(case: Case) -> Placed:
    one = case.current
    assert one is not None  # noqa: S101 -- the caller filtered
    return Placed(
        case.instance,
        one.host,
        one.container.id,
        one.container.state,
        live_allocation(one),
        one.container.finished_at if one.container.state in {"exited", "dead"} else one.container.started_at,
        case.workload.owner if case.workload else one.ours.owner,
        one.ours.digest,
    )


_PLACED = Memo(_placed)
