"""What the form of placement fields cannot say: policies that fit the place, weights that count, names that exist."""

from collections.abc import Collection, Iterator, Mapping

from reconciler.desired.complaints import dotted, nearest
from reconciler.desired.documents import Path
from reconciler.desired.schema_placement import (
    Affinity,
    AnyPolicy,
    Composite,
    CompositeWish,
    MatchTag,
    RuleBased,
    Spread,
)
from reconciler.desired.schema_workload import Workload
from reconciler.rules import RuleError, compile_rule

Fault = tuple[Path, str]


def placement_faults(model: Workload) -> Iterator[Fault]:
    """Everything wrong with where one workload wants to be, taken by itself."""
    if model.placement_policy is not None:
        yield from _policy(model.placement_policy, ("placementPolicy",), model.kind == "LocalService")
    for index, preference in enumerate(model.prefer):
        yield from _policy(preference, ("prefer", index), local=False)
    for path, part in weighted(model):
        if part.required and "weight" in part.model_fields_set:
            yield (*path, "weight"), f"{dotted(path)}.weight: only with required: false"
    yield from _twice(model)


def weighted(model: Workload) -> Iterator[tuple[Path, Spread | Affinity]]:
    """What may be required or weighed, each with its place."""
    for index, spread in enumerate(model.spread):
        yield ("spread", index), spread
    for name, parts in (("affinity", model.affinity), ("antiAffinity", model.anti_affinity)):
        for index, part in enumerate(parts):
            yield (name, index), part


def _twice(model: Workload) -> Iterator[Fault]:
    """The same thing asked for twice would be weighed twice, or contradict itself."""
    seen: dict[tuple[str, str], str] = {}
    for path, part in weighted(model):
        near = part.workload if isinstance(part, Affinity) else ""
        here = dotted(path)
        first = seen.setdefault((near, part.by), here)
        if first != here:
            what = f"{near} by {part.by}" if near else f"by: {part.by}"
            yield path, f"{here}: {what} stands in {first} too"


def _policy(policy: AnyPolicy, path: Path, local: bool) -> Iterator[Fault]:
    if policy.type == "LOCAL" and not local:
        yield (*path, "type"), f"{dotted(path)}: LOCAL is for a LocalService only"
    elif isinstance(policy, RuleBased):
        yield from _rule(policy.rule, (*path, "rule"))
    elif isinstance(policy, Composite | CompositeWish):
        for index, part in enumerate(policy.policies):
            yield from _policy(part, (*path, "policies", index), local)


def _rule(rule: str, path: Path) -> Iterator[Fault]:
    try:
        compile_rule(rule)
    except RuleError as error:
        where = f" (line {error.line}, column {error.column} of the rule)" if error.line else ""
        yield path, f"{dotted(path)}: {error}{where}"


def strangers(model: Workload, known: Collection[str]) -> Iterator[Fault]:
    """Workloads to be near to or away from that are in no document; ``known`` are the ``kind/name`` of all."""
    for path, part in weighted(model):
        if isinstance(part, Affinity) and part.workload not in known:
            said = nearest(part.workload, known)
            yield (*path, "workload"), f"{dotted(path)}.workload: no workload {part.workload}{said}"


def circles(model: Workload, needs: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    """Required affinity that comes back to its own workload: each waits for the other, and none is ever the first.

    ``needs`` are the workloads that each must be near, itself left out.
    """
    own = f"{model.kind.lower()}/{model.name}"
    for index, part in enumerate(model.affinity):
        seen: set[str] = set()
        todo = [part.workload] if part.required and part.workload != own else []
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += needs.get(at, ())
        if own in seen:
            said = f"{part.workload} must be near {own} too: while none of them runs, none can start"
            yield ("affinity", index), f"affinity[{index}]: {said}"


def unknown_tags(model: Workload, known: Collection[str]) -> Iterator[Fault]:
    """Tags that no host has; ``known`` are those of all hosts."""
    found = [] if model.placement_policy is None else list(_tags(model.placement_policy, ("placementPolicy",)))
    for index, preference in enumerate(model.prefer):
        found += _tags(preference, ("prefer", index))
    for path, tag in found:
        if tag not in known:
            yield path, f"{dotted(path)}: no host has the tag {tag}"


def _tags(policy: AnyPolicy, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(policy, MatchTag):
        yield (*path, "tag"), policy.tag
    elif isinstance(policy, Composite | CompositeWish):
        for index, part in enumerate(policy.policies):
            yield from _tags(part, (*path, "policies", index))


def unknown_labels(model: Workload, known: Collection[str]) -> Iterator[Fault]:
    """Labels to spread over or to be near by that no host has; ``known`` are the keys of all hosts' labels."""
    for path, part in weighted(model):
        if part.by != "host" and part.by not in known:
            yield (*path, "by"), f"{dotted(path)}.by: no host has the label {part.by}"
