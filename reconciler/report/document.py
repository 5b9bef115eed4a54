"""A plan as JSON: the document that ``--json`` prints and that ``--out`` saves."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.errors import UsageError
from reconciler.model.claims import WHOLE
from reconciler.model.plan import Action, Existing, Pending, Plan, Step, StepKind
from reconciler.model.resources import format_cpus
from reconciler.model.workload import Allocation
from reconciler.report.changes import expand
from reconciler.report.text import summary

PLAN_FORMAT = "reconciler.plan/v1"
PRECONDITIONS = {
    StepKind.CUT: "its place on the card is free; an operator cuts it",
    StepKind.PULL: "the image is wanted on the host by the pull policy",
    StepKind.UPDATE: "the container is there and is ours",
    StepKind.CREATE: "the name is free",
    StepKind.FILES: "the container is there, is ours and has not started",
    StepKind.START: "the container is there, is ours, and nobody else holds what it was given",
    StepKind.READY: "the container has started",
    StepKind.STOP: "the container is there and is ours",
    StepKind.REMOVE: "the container is there and is ours",
    StepKind.RENAME: "the container is there and is ours, and the new name is free",
}


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """What ``apply`` needs of a saved plan: the commit it was made from, and what it holds on to."""

    cluster: str
    commit: str | None
    source: str
    fingerprint: str
    document: Mapping[str, Any]


def plan_json(plan: Plan, *, full: bool = False) -> dict[str, Any]:
    """The plan in the shape that users rely on.

    ``full``, for a saved plan, adds container ids, digests, specs (with references to secrets, which hold no values),
    old allocations, and each step with its host, name and precondition.
    """
    document: dict[str, Any] = {
        "format": PLAN_FORMAT,
        "commit": plan.commit,
        "cluster": plan.cluster,
        "fingerprint": plan.fingerprint,
        "actions": [_action(action, full=full) for action in plan.actions],
        "pending": [_pending(pending) for pending in plan.pending],
        "drift": [
            {"instance": str(one.instance) if one.instance else None, "host": one.host, "message": one.message}
            for one in plan.drift
        ],
        "waiting": [
            {"instance": str(one.instance) if one.instance else None, "reason": one.reason, "failed": one.failed}
            for one in plan.waiting
        ],
        "warnings": [*filter(None, (plan.guard,)), *plan.warnings, *_action_warnings(plan)],
        "queues": [],
        "summary": summary(plan),
    }
    return document | {"source": plan.source} if full else document


def plan_json_text(plan: Plan, *, full: bool = False) -> str:
    """``plan_json`` as text, one spelling for one plan, ending in a newline."""
    return json.dumps(plan_json(plan, full=full), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_saved_plan(text: str, name: str) -> SavedPlan:
    """The plan that ``--out`` saved in the file ``name``. Raises UsageError in one line."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}: not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != PLAN_FORMAT:
        raise UsageError(f'{name}: not a saved plan: "format" is not {PLAN_FORMAT!r}')
    values = {key: document.get(key) for key in ("cluster", "fingerprint", "source")}
    wrong = [key for key, value in values.items() if not isinstance(value, str)]
    if wrong:
        raise UsageError(f"{name}: not a saved plan: no {wrong[0]!r} (save it with --out, not with --json)")
    commit = document.get("commit")
    if commit is not None and not isinstance(commit, str):
        raise UsageError(f"{name}: not a saved plan: commit is no hash")
    return SavedPlan(str(values["cluster"]), commit, str(values["source"]), str(values["fingerprint"]), document)


def _action_warnings(plan: Plan) -> list[str]:
    return [f"{action.instance}: {warning}" for action in plan.actions for warning in action.warnings]


def _action(action: Action, *, full: bool) -> dict[str, Any]:
    changes = [{"field": one.field, "old": one.old, "new": one.new} for one in expand(action.changes)]
    document = {
        "action": action.kind.value,
        "instance": str(action.instance),
        "host": action.host,
        "order": action.order.value if action.order else None,
        "allocation": allocation_json(action.allocation, full=full) if action.allocation else None,
        "reason": action.reason,
        "changes": changes,
        "steps": [_step(step) if full else step.kind.value for step in action.steps],
    }
    if not full:
        return document
    return document | {
        "generation": action.generation,
        "digest": action.digest,
        "spec": action.spec,
        "failure": action.failure,
        "warnings": list(action.warnings),
        "old": _existing(action.old) if action.old else None,
    }


def allocation_json(allocation: Allocation, *, full: bool = False) -> dict[str, Any]:
    """What an instance was given; CPUs as a kernel list, memory in bytes."""
    share = allocation.share
    document = {
        "gpus": list(allocation.gpus),
        "mig": [
            {"gpu": one.gpu, "profile": one.profile, "start": one.start, "uuid": one.uuid or None}
            for one in allocation.mig
        ],
        "share": {"gpu": share.gpu, "fraction": share.milli / WHOLE} if share else None,
        "gpuNodes": list(allocation.gpu_nodes),
        "cpuNodes": list(allocation.cpu_nodes),
        "memoryNodes": list(allocation.memory_nodes),
        "cpus": format_cpus(allocation.cpus),
        "memory": allocation.memory,
        "ports": [{"container": port, "protocol": protocol, "host": host} for port, protocol, host in allocation.ports],
    }
    return document | {"exclusive": allocation.exclusive} if full else document


def _existing(old: Existing) -> dict[str, Any]:
    return {
        "container": old.id,
        "name": old.name,
        "host": old.host,
        "generation": old.generation,
        "state": old.state,
        "since": old.since,
        "owner": old.owner,
        "commit": old.commit,
        "allocation": allocation_json(old.allocation, full=True),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "step": step.kind.value,
        "host": step.host,
        "name": step.name,
        "container": step.container,
        "due": step.due,
        "fields": dict(step.fields),
        "precondition": PRECONDITIONS[step.kind],
    }


def _pending(pending: Pending) -> dict[str, Any]:
    nearest = pending.nearest
    return {
        "instance": str(pending.instance),
        "gang": pending.gang or None,
        "reason": pending.reason,
        "removed": dict(pending.removed),
        "nearest": {"host": nearest.host, "lacks": nearest.lacks} if nearest else None,
    }
