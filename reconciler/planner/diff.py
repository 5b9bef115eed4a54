"""Desired × running: what is to become of each instance, before anything is placed.

An instance can have several containers while a replacement goes on, told apart by generation. Each case below is read
off what is observed and remembered, so that a reconciler that was killed anywhere goes on where things stand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reconciler.model.host import HostState
from reconciler.model.memory import Failure, Memory
from reconciler.model.plan import Change
from reconciler.model.readiness import Readiness, broken, readiness
from reconciler.model.snapshot import HostView, Reach, Snapshot
from reconciler.model.workload import DIGEST_VERSION, ContainerSpec, InstanceId, Kind, Workload, digest_of, spec_on_host
from reconciler.planner.expand import Wanted
from reconciler.planner.found import Found, found_by_instance
from reconciler.planner.memo import Memo


class Verdict(StrEnum):
    """What is to become of one instance."""

    KEEP = "keep"  # `current` runs and is as git wants it
    WATCH = "watch"  # `current` was started and is becoming ready
    START = "start"  # nothing usable is there; `others` are remains to clear away first
    FINISH = "finish"  # `current` was created and not started
    REVIVE = "revive"  # `current` has exited and is started again
    REPLACE = "replace"  # `current` differs from git, or must leave its host
    ROLL = "roll"  # `current` is the new one, becoming ready; `others` are kept until it is
    SETTLE = "settle"  # `current` is good; `others` are no longer needed
    ABANDON = "abandon"  # `others` failed or are no longer wanted; `current` goes on (again)
    STOP = "stop"  # git does not want it
    REMOVE = "remove"  # an exited container that git does not want
    DONE = "done"  # a finished run
    WAIT = "wait"  # nothing can or may be done now


@dataclass(frozen=True, slots=True)
class Case:
    """One instance and its verdict. ``until`` is when a WAIT ends; ``failure`` says what went wrong."""

    instance: InstanceId
    verdict: Verdict
    reason: str = ""
    workload: Workload | None = None
    current: Found | None = None
    others: tuple[Found, ...] = ()
    until: float | None = None
    failure: str = ""
    failed: bool = False
    prune: bool = False
    warnings: tuple[str, ...] = field(default=())


def spec_for(workload: Workload, view: HostView) -> dict[str, Any]:
    """The canonical *recreate* form of ``workload`` on that host. It is shared: nobody may change it."""
    return _SPECS(workload.container, view.spec.env)[0]


def digest_on(workload: Workload, view: HostView) -> str:
    """The digest that a container of ``workload`` must have on that host."""
    return _SPECS(workload.container, view.spec.env)[1]


def _spec_and_digest(container: ContainerSpec, env: tuple[tuple[str, str], ...]) -> tuple[dict[str, Any], str]:
    spec = spec_on_host(container, env)
    return spec, digest_of(spec)


_SPECS = Memo(_spec_and_digest)


def _plain(one: Found, workload: Workload) -> Case | None:
    """The case of a container that runs as git wants it, where nothing else is to be looked at; None for all others."""
    view, container = one.view, one.container
    trusted = view.reach is not Reach.UNREACHABLE and view.spec.state is not HostState.DRAINED
    if not trusted or container.state != "running" or one.ours.digest != digest_on(workload, view):
        return None
    return None if broken(container) else Case(one.ours.instance, Verdict.KEEP, "", workload, one)


_PLAIN = Memo(_plain)


class Differ:
    """Judges instances one by one against one snapshot, memory and time."""

    def __init__(
        self, snapshot: Snapshot, memory: Memory, now: float, secrets: Mapping[str, str], *, host_gone: bool = False
    ) -> None:
        """``secrets`` holds the keyed hash of each workload's secret values, by identity, where it can be known.

        ``host_gone``: hosts that left git are gone for good, and with them what ran there.
        """
        self.host_gone = host_gone
        self._hosts = {view.spec.name for view in snapshot.hosts}
        self.snapshot = snapshot
        self.memory = memory
        self.now = now
        self.secrets = secrets
        self.found = found_by_instance(snapshot)
        self._failed = {instance for instance, _ in memory.failures}
        self._runs: dict[str, list[InstanceId]] = {}
        for instance in (*self.found, *memory.finished):
            if instance.kind is Kind.TASK:
                self._runs.setdefault(instance.workload, []).append(instance)
        self._dark = [view for view in snapshot.hosts if view.reach is Reach.UNREACHABLE]

    def wanted(self, instance: InstanceId, workload: Workload) -> Case:
        """The case of an instance that git wants."""
        group = self.found.get(instance, [])
        if len(group) == 1 and not self.secrets and group[0].container.id not in self.memory.watches:
            plain = _PLAIN(group[0], workload)
            if plain is not None:
                return plain
        answering = [one for one in group if one.view.reach is not Reach.UNREACHABLE]
        if group and not answering:
            one = group[0]
            return self._wait(
                instance, workload, f"{one.host} is unreachable ({one.view.reason}): counts as running", one
            )
        if instance.kind is Kind.TASK:
            return self._task(instance, workload, answering)
        if not answering:
            return self._missing(instance, workload)
        if len(answering) == 1:
            return self._single(instance, workload, answering[0])
        return self._several(instance, workload, answering)

    def unwanted(self, instance: InstanceId, reason: str, *, prune: bool = True) -> Case:
        """The case of an instance that is there and that git does not want."""
        group = self.found[instance]
        answering = tuple(one for one in group if one.view.reach is not Reach.UNREACHABLE)
        if not answering:
            return self._wait(instance, None, f"{group[0].host} is unreachable: cannot be stopped there", group[0])
        up = any(one.up for one in answering)
        verdict = Verdict.STOP if up else Verdict.REMOVE
        return Case(instance, verdict, reason, None, answering[0], answering[1:], prune=prune and up)

    def past_run(self, instance: InstanceId, workload: Workload) -> Case:
        """The case of an earlier run of a task that is still in git: it finishes, and its container is its receipt."""
        one, rest = self.found[instance][0], tuple(self.found[instance][1:])
        if one.up and workload.on_change == "restart":
            return Case(instance, Verdict.STOP, f"restarted as run {workload.run}", None, one, rest)
        if one.up:
            return Case(instance, Verdict.KEEP, "", workload, one, rest)
        if one.container.state == "created":
            return Case(instance, Verdict.REMOVE, f"superseded by run {workload.run}", None, one, rest)
        return Case(instance, Verdict.DONE, "", workload, one, rest)

    def equal(self, workload: Workload, one: Found) -> bool:
        """Whether a container is what git wants: same digest (made again if an older release wrote it) and secrets."""
        want = digest_on(workload, one.view)
        same = one.ours.digest == want
        if not same and one.ours.digest.partition(":")[0] != DIGEST_VERSION:
            same = digest_of(one.ours.spec) == want
        return same and not self.secret_changes(workload, one)

    def secret_changes(self, workload: Workload, one: Found) -> tuple[Change, ...]:
        """That the values of its secrets differ, by their keyed hashes; nothing where either is unknown."""
        known, had = self.secrets.get(workload.identity, ""), one.ours.secrets
        return (Change("secrets", had, known),) if known and had and known != had else ()

    # -- one container or none

    def _missing(self, instance: InstanceId, workload: Workload) -> Case:
        last = self.memory.placed.get(instance)
        if last and last.host not in self._hosts and not self.host_gone:
            why = f"it was last seen on {last.host}, whose Host document is gone: it may still run there"
            return self._wait(instance, workload, f"{why} (--allow-prune if that host is gone for good)")
        for view in self._dark:
            if (last and last.host == view.spec.name) or (not self.memory.last_seen and not view.seen):
                why = f"{view.spec.name} is unreachable ({view.reason}): it may run there"
                return self._wait(instance, workload, why)
        failure = self.failure(instance, workload)
        if failure and failure.retry_at > self.now:
            return self._back_off(instance, workload, failure)
        return Case(instance, Verdict.START, "", workload)

    def _single(self, instance: InstanceId, workload: Workload, one: Found) -> Case:
        equal = self.equal(workload, one)
        failure = self.failure(instance, workload, one.view)
        holding_off = failure is not None and failure.retry_at > self.now
        if one.container.state == "created":
            return self._created(instance, workload, one, equal=equal)
        if one.container.state == "dead":
            return Case(instance, Verdict.START, "its container is dead", workload, others=(one,))
        if one.container.state == "exited":
            if failure and holding_off:
                if equal:
                    return self._back_off(instance, workload, failure, one)
                why = f"its replacement failed: {failure.message}"
                return Case(instance, Verdict.REVIVE, why, workload, one, until=failure.retry_at, failed=True)
            if equal:
                why = f"exited with code {one.container.exit_code}"
                again = why if one.container.id in self.memory.watches else ""  # it never became ready
                return Case(instance, Verdict.REVIVE, why, workload, one, failure=again)
            return Case(instance, Verdict.REPLACE, "", workload, one)
        if equal:
            return self._running(instance, workload, one)
        if failure and holding_off:
            why = f"its replacement failed ({failure.message}); the old one goes on"
            return self._wait(instance, workload, why, one, until=failure.retry_at, failed=True)
        return Case(instance, Verdict.REPLACE, "", workload, one)

    def _created(self, instance: InstanceId, workload: Workload, one: Found, *, equal: bool) -> Case:
        """Created and not started: finish it, unless it is not what git wants or its start failed."""
        failure = self.failure(instance, workload, one.view)
        if failure and failure.retry_at > self.now:
            return self._back_off(instance, workload, failure, one)
        if not equal or one.container.error:
            why = (
                f"its start failed: {one.container.error}" if one.container.error else "created, but git changed since"
            )
            return Case(instance, Verdict.START, why, workload, others=(one,))
        return Case(instance, Verdict.FINISH, "created, but not started", workload, one)

    def _running(self, instance: InstanceId, workload: Workload, one: Found) -> Case:
        if one.view.spec.state is HostState.DRAINED and instance.kind is not Kind.LOCAL_SERVICE:
            return self._drained(instance, workload, one)
        watch = self.memory.watches.get(one.container.id)
        wrong = broken(one.container)
        if watch is not None:
            verdict, wrong = readiness(one.container, watch, workload.rollout, self.now)
            if verdict is Readiness.WAITING:
                return Case(instance, Verdict.WATCH, "becoming ready", workload, one)
        if wrong:
            return Case(instance, Verdict.KEEP, wrong, workload, one, failed=True)
        return Case(instance, Verdict.KEEP, "", workload, one)

    def _drained(self, instance: InstanceId, workload: Workload, one: Found, rest: tuple[Found, ...] = ()) -> Case:
        """It moves away; where that failed, it goes on here until the next try."""
        failure = self.failure(instance, workload)
        if failure and failure.retry_at > self.now:
            why = f"{one.host} is drained; its replacement failed ({failure.message}); the old one goes on"
            return self._wait(instance, workload, why, one, until=failure.retry_at, failed=True)
        return Case(instance, Verdict.REPLACE, f"{one.host} is drained", workload, one, rest)

    # -- several containers: a replacement is under way

    def _several(self, instance: InstanceId, workload: Workload, group: list[Found]) -> Case:
        new, olds = group[0], tuple(group[1:])
        if not self.equal(workload, new):
            return self._changed_midway(instance, workload, group)
        if new.container.state == "created" and not new.container.error:
            return Case(instance, Verdict.FINISH, "created, but not started", workload, new, olds)
        if new.container.state == "created":
            return self._abandon(instance, workload, olds, (new,), new.container.error)
        verdict, why = readiness(new.container, self.memory.watches.get(new.container.id), workload.rollout, self.now)
        if verdict is Readiness.FAILED:
            return self._abandon(instance, workload, olds, (new,), why)
        if verdict is Readiness.READY:
            return Case(instance, Verdict.SETTLE, "its replacement is ready", workload, new, olds)
        return Case(instance, Verdict.ROLL, "its replacement is becoming ready", workload, new, olds)

    def _changed_midway(self, instance: InstanceId, workload: Workload, group: list[Found]) -> Case:
        """Git changed while a replacement was under way: go back to one container, the best that runs."""
        keep = next((one for one in group if self.equal(workload, one)), None)
        keep = keep or next((one for one in reversed(group) if one.up), group[0])
        others = tuple(one for one in group if one is not keep)
        return Case(instance, Verdict.ABANDON, "git changed during the replacement", workload, keep, others)

    def _abandon(
        self, instance: InstanceId, workload: Workload, olds: tuple[Found, ...], failed: tuple[Found, ...], why: str
    ) -> Case:
        keep, rest = olds[0], olds[1:]
        known = self._known_failure(instance, workload, failed[0])
        reason = f"its replacement failed: {known or why}"
        return Case(instance, Verdict.ABANDON, reason, workload, keep, failed + rest, failure="" if known else why)

    def _known_failure(self, instance: InstanceId, workload: Workload, one: Found) -> str:
        """The failure of this very try that is remembered already: it is counted once, by its first sign."""
        failure = self.failure(instance, workload, one.view)
        watch = self.memory.watches.get(one.container.id)
        same_try = failure and (failure.retry_at > self.now or (watch and failure.at >= watch.first_seen))
        return failure.message if failure and same_try else ""

    # -- tasks

    def _task(self, instance: InstanceId, workload: Workload, group: list[Found]) -> Case:
        if not group:
            return self._task_missing(instance, workload)
        one, rest = group[0], tuple(group[1:])
        failure = self.failure(instance, workload, one.view)
        if failure and failure.retry_at > self.now and not one.up:
            return self._back_off(instance, workload, failure, one)
        equal = self.equal(workload, one)
        if one.container.state == "created":
            if equal and not one.container.error:
                # An older one that still runs is stopped first: a run never goes on twice at a time.
                return Case(instance, Verdict.FINISH, "created, but not started", workload, one, rest)
            return Case(
                instance, Verdict.START, f"its start failed: {one.container.error}", workload, others=tuple(group)
            )
        if not one.up:
            return Case(instance, Verdict.DONE, "", workload, one, rest, failed=one.container.exit_code != 0)
        if one.view.spec.state is HostState.DRAINED:
            return self._drained(instance, workload, one, rest)
        if not equal and workload.on_change == "restart":
            return Case(instance, Verdict.REPLACE, "", workload, one, rest)
        return Case(instance, Verdict.KEEP, "", workload, one, rest)

    def _task_missing(self, instance: InstanceId, workload: Workload) -> Case:
        code = self.memory.finished.get(instance)
        if code is not None:
            return Case(instance, Verdict.DONE, "", workload, failed=code != 0)
        if workload.suspend:
            return self._wait(instance, workload, "suspended")
        past = [other for other in self._runs.get(instance.workload, ()) if other.run != instance.run]
        others = [other for other in past if other in self.found]
        going = [other for other in others if any(one.up for one in self.found[other])]
        if going and workload.on_change == "finish":
            return self._wait(instance, workload, f"waits until {going[0]} has finished")
        case = self._missing(instance, workload)
        if case.verdict is Verdict.START and past:
            runs = ", ".join(sorted({other.run for other in past}))
            warning = f"{instance} runs a task again that ran as {runs}"
            return Case(instance, Verdict.START, f"a new run ({instance.run})", workload, warnings=(warning,))
        return case

    # -- waiting

    def failure(self, instance: InstanceId, workload: Workload, view: HostView | None = None) -> Failure | None:
        """The last failure of this instance with what git wants now (on that host; on any, when it has none)."""
        if instance not in self._failed:
            return None
        if view is not None:
            return self.memory.failures.get((instance, digest_on(workload, view)))
        digests = {digest_on(workload, view) for view in self.snapshot.hosts}
        known = [self.memory.failures.get((instance, digest)) for digest in sorted(digests)]
        return max((one for one in known if one), key=lambda one: one.retry_at, default=None)

    def _back_off(self, instance: InstanceId, workload: Workload, failure: Failure, one: Found | None = None) -> Case:
        times = "once" if failure.count == 1 else f"{failure.count} times"
        why = f"failed {times}: {failure.message}"
        return self._wait(instance, workload, why, one, until=failure.retry_at, failed=True)

    def _wait(
        self,
        instance: InstanceId,
        workload: Workload | None,
        reason: str,
        one: Found | None = None,
        *,
        until: float | None = None,
        failed: bool = False,
    ) -> Case:
        return Case(instance, Verdict.WAIT, reason, workload, one, until=until, failed=failed)


def cases(wanted: Wanted, differ: Differ) -> list[Case]:
    """Every instance that git wants or that is there, judged, in the order of identities."""
    out = [differ.wanted(instance, workload) for instance, workload in wanted.instances.items()]
    out += [_not_wanted(instance, wanted, differ) for instance in differ.found if instance not in wanted.instances]
    return sorted(out, key=lambda case: case.instance.sort_key)


def _not_wanted(instance: InstanceId, wanted: Wanted, differ: Differ) -> Case:
    workload = wanted.workloads.get(instance.workload)
    if workload is None:
        return differ.unwanted(instance, "no longer in git")
    if instance.kind is Kind.TASK:
        return differ.past_run(instance, workload)
    if workload.suspend:
        return differ.unwanted(instance, "suspended", prune=False)
    if instance.kind is Kind.LOCAL_SERVICE:
        return differ.unwanted(instance, f"{instance.index} is drained or no longer matches its placement policy")
    return differ.unwanted(instance, f"scaled down to {workload.instances}")
