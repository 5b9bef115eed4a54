"""One step, one Engine call, its precondition looked at just before. Nothing here decides what should be.

A step is *done* when it was carried out or was found done. A pull and a stop may outlast the pass: they are begun,
waited for a moment, and found by a later pass.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from reconciler.actual.containers import create_body
from reconciler.errors import ConflictError, EngineError, NotFoundError, RefusedError, UnreachableError
from reconciler.executor.background import Jobs, Key
from reconciler.executor.files import archive, files_of, has_files
from reconciler.executor.look import HostPass, grace_of
from reconciler.executor.secrets import SecretStore, env_refs
from reconciler.model.plan import Action, Step, StepKind
from reconciler.model.snapshot import Container
from reconciler.model.workload import Allocation, SecretRef, Workload

LOOK_AGAIN = 0.01
"""Seconds between two looks at what must appear."""

Progress = Callable[[str, str], None]
"""Gets a host and a short line for people."""


@dataclass(frozen=True, slots=True)
class Context:
    """What every step of one pass needs. ``touched`` hears of each container that was changed, by host and id."""

    cluster: str
    commit: str
    secrets: SecretStore
    secrets_key: SecretRef | None
    jobs: Jobs
    progress: Progress
    touched: Callable[[str, str], None]


@dataclass(slots=True)
class Run:
    """One action in one pass, as far as it has come."""

    action: Action
    done: list[StepKind] = field(default_factory=list)
    created: str = ""
    asked: set[Key] = field(default_factory=set)


@dataclass(slots=True)
class Patience:
    """Seconds that a pass may wait in all for things that are nearly done, on one host."""

    left: float

    def over(self, wait: Callable[[float], bool]) -> bool:
        """Whether ``wait``, given what is left, says that it is over."""
        before = time.monotonic()
        done = wait(self.left)
        self.left = max(0.0, self.left - (time.monotonic() - before))
        return done

    def pause(self, seconds: float) -> bool:
        """Wait a moment; false when nothing is left to wait."""
        if self.left <= 0:
            return False
        time.sleep(min(seconds, self.left))
        self.left = max(0.0, self.left - seconds)
        return True


def carry_out(context: Context, host: HostPass, run: Run, step: Step, patience: Patience) -> bool:
    """Issue one step; false when it goes on after the pass. Raises EngineError, SecretError and SourceError."""
    target = step.container or run.created
    match step.kind:
        case StepKind.PULL:
            return _pull(context, host, run, patience)
        case StepKind.STOP:
            return _stop(context, host, run, target, patience)
        case StepKind.CREATE:
            run.created = _create(context, host, run, step.name, patience)
        case StepKind.FILES:
            _files(context, host, run, target)
        case StepKind.START:
            _start(context, host, run, target)
        case StepKind.UPDATE | StepKind.RENAME | StepKind.REMOVE:
            _change(context, host, run, step, target)
        case StepKind.READY | StepKind.CUT:
            pass  # observed, never issued
    return True


# -- making a container


def _pull(context: Context, host: HostPass, run: Run, patience: Patience) -> bool:
    """Fetch the image, unless the policy is content with the one that is there.

    The result of a pull stays until a create uses it, so that ``always`` pulls once for each container.
    """
    workload = _workload(run.action)
    image = workload.container.image
    key = ("pull", host.name, image)
    run.asked.add(key)
    if context.jobs.get(key) is None and workload.pull == "missing" and _has_image(host, image):
        return True
    work = partial(host.writer.pull, image, partial(context.progress, host.name))
    job = context.jobs.ensure(key, work)
    if not patience.over(job.over.wait):
        return False
    if job.error is not None:
        context.jobs.take(key)  # the next try pulls again
        if isinstance(job.error, UnreachableError):
            # A silent registry is no silent host: the image is what failed.
            raise RefusedError(host.name, f"pull {image}: {job.error.message}") from job.error
        raise job.error
    return True


def _has_image(host: HostPass, image: str) -> bool:
    try:
        host.reader.inspect_image(image)
    except NotFoundError:
        return False
    return True


def _create(context: Context, host: HostPass, run: Run, name: str, patience: Patience) -> str:
    """Make the container; its id. The name is the lock: when it is taken, what took it is looked at."""
    action, workload = run.action, _workload(run.action)
    container = workload.container
    if has_files(container):
        files_of(container, context.secrets)  # a missing secret is found before anything is made
    body = create_body(
        workload,
        action.instance,
        _allocation(action),
        host.view.spec,
        cluster=context.cluster,
        generation=action.generation,
        digest=action.digest,
        spec=action.spec or {},
        commit=context.commit,
        replaces=action.old.generation if action.old else 0,
        secrets={ref: context.secrets.text(ref) for ref in env_refs(container)},
        secrets_hash=context.secrets.hash_of(container, context.secrets_key),
        gpu_driver=_gpu_driver(host),
    )
    try:
        made = host.writer.create(name, body)
    except ConflictError as error:
        made = _adopt(host, action, name, error, patience)
    context.jobs.take(("pull", host.name, container.image))
    context.touched(host.name, made)
    return made


def _adopt(host: HostPass, action: Action, name: str, error: ConflictError, patience: Patience) -> str:
    """The id of the container that has the name, when it is the one that was to be made.

    The Engine gives a name away a moment before it shows the container.
    """
    found = host.inspect(name)
    while found is None and patience.pause(LOOK_AGAIN):
        found = host.inspect(name)
    if found is None:
        raise ConflictError(host.name, f"{error.message}; it cannot be seen: the next pass looks again") from error
    holder = found[0]
    if holder.ours is None:
        why = holder.note or "it is not ours and is left alone"
        raise RefusedError(host.name, f"the name {name} is taken by another container: {why}") from error
    if (holder.ours.instance, holder.ours.generation, holder.ours.digest) != (
        action.instance,
        action.generation,
        action.digest,
    ):
        raise ConflictError(
            host.name, f"the name {name} is taken by another version of it: the next pass looks again"
        ) from error
    return holder.id


def _files(context: Context, host: HostPass, run: Run, target: str) -> None:
    """Put config and secret files in, as long as it has never been started."""
    found = host.own(target, run.action.instance)
    if found is None:
        raise ConflictError(host.name, "the container is gone before its files were put in")
    if found[0].state == "created":
        files = files_of(_workload(run.action).container, context.secrets)
        host.writer.put_archive(target, "/", archive(files))


def _start(context: Context, host: HostPass, run: Run, target: str) -> None:
    """Look once more, and start it only when nobody else holds what it was given."""
    found = host.own(target, run.action.instance)
    if found is None:
        raise ConflictError(host.name, "the container is gone before it was started")
    me = found[0]
    if me.running or me.state == "restarting":
        return
    workload = run.action.workload
    if me.state == "created" and workload and has_files(workload.container) and StepKind.FILES not in run.done:
        _files(context, host, run, target)
    taken = host.claimed(me)
    if taken and me.state == "created":
        host.writer.remove(me.id)
        context.touched(host.name, me.id)
        raise ConflictError(host.name, f"{taken}, which was there first: {me.name} was removed again")
    if taken:
        raise ConflictError(host.name, f"{taken}: {me.name} stays down")
    _start_now(context, host, me)


def _start_now(context: Context, host: HostPass, me: Container) -> None:
    """Start it. After an error its state is read again: the start may have happened all the same."""
    try:
        host.writer.start(me.id)
    except UnreachableError:
        raise
    except EngineError as error:
        found = host.inspect(me.id)
        if found is None:
            raise
        now = found[0]
        if not now.running and now.started_at == me.started_at:
            raise RefusedError(host.name, f"start {me.name}: {now.error or error.message}", error.status) from error
    finally:
        host.changed(me.id)
        context.touched(host.name, me.id)


# -- changing a container that is there; gone is done


def _stop(context: Context, host: HostPass, run: Run, target: str, patience: Patience) -> bool:
    key = ("stop", host.name, target)
    run.asked.add(key)
    job = context.jobs.get(key)
    if job is None:
        found = host.own(target, run.action.instance)
        if found is None or not (found[0].running or found[0].state == "restarting"):
            return True
        workload = run.action.workload
        grace = workload.grace_period if workload else grace_of(found[1])
        job = context.jobs.ensure(key, partial(host.writer.stop, target, grace))
    over = patience.over(job.over.wait)
    host.changed(target)
    context.touched(host.name, target)
    if not over:
        return False
    context.jobs.take(key)
    if job.error is not None:
        raise job.error
    return True


def _change(context: Context, host: HostPass, run: Run, step: Step, target: str) -> None:
    if host.own(target, run.action.instance) is None:
        return
    fields: dict[str, Any] = dict(step.fields)
    try:
        if step.kind is StepKind.UPDATE:
            host.writer.update(target, fields)
        elif step.kind is StepKind.RENAME:
            host.writer.rename(target, fields["name"])
        else:
            host.writer.remove(target)
    finally:
        host.changed(target)
        context.touched(host.name, target)


# -- pieces


def _workload(action: Action) -> Workload:
    if action.workload is None:
        raise RefusedError(action.host, f"the plan makes {action.instance} without saying what it is")
    return action.workload


def _allocation(action: Action) -> Allocation:
    if action.allocation is None:
        raise RefusedError(action.host, f"the plan makes {action.instance} without saying what it is given")
    for piece in action.allocation.mig:
        if not piece.uuid:
            raise RefusedError(action.host, f"the {piece.profile} of {piece.gpu} at {piece.start} is not cut yet")
    return action.allocation


def _gpu_driver(host: HostPass) -> str:
    """How this host hands over cards; ``none`` where facts say that there are none."""
    facts = host.view.facts
    if facts is not None and not facts.gpus:
        return "none"
    return "cdi" if facts is not None and facts.engine.gpu_driver == "cdi" else "nvidia"
