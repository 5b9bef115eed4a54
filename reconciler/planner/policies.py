"""Placement policies → the hosts that pass, as bit masks over the fleet: bit N is host N."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, Protocol

from reconciler.model.placement import (
    AnyHost,
    Composite,
    LocalHost,
    MatchTag,
    MaxPerHost,
    NoTag,
    Policy,
    RuleBased,
    names_hosts,
)
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Workload

Filter = tuple[str, int]
"""Name of a condition, and the hosts that meet it."""

Full = Callable[[int], int]
"""The hosts that already run so many instances of the workload in question."""


class Rule(Protocol):
    """A compiled rule (``reconciler.rules``)."""

    def matches(self, variables: Mapping[str, Any]) -> bool:
        """Whether it is true. Raises ValueError when it has no answer."""


def own_tags(view: HostView) -> tuple[str, ...]:
    """The tags that close a host: all but its own name."""
    return tuple(sorted(set(view.spec.tags) - {view.spec.name}))


def named_tags(policy: Policy) -> tuple[str, ...]:
    """The tags that a policy asks for."""
    if isinstance(policy, Composite):
        return tuple(sorted({tag for part in policy.policies for tag in named_tags(part)}))
    return (policy.tag,) if isinstance(policy, MatchTag) else ()


def is_local(policy: Policy) -> bool:
    """Whether cordoned hosts are meant too."""
    if isinstance(policy, Composite):
        return any(is_local(part) for part in policy.policies)
    return isinstance(policy, LocalHost)


def title(policy: Policy) -> str:
    """The policy as it stands in reports: ``MATCH_TAG train``."""
    match policy:
        case MaxPerHost(max=1):
            return "ONE_PER_HOST"
        case MaxPerHost():
            return f"MAX_N_PER_HOST {policy.max}"
        case MatchTag():
            return f"MATCH_TAG {policy.tag}"
        case NoTag():
            return "NO_TAG"
        case RuleBased():
            return f"RULE_BASED {policy.rule}"
        case LocalHost():
            return "LOCAL"
        case Composite():
            return f"{policy.combiner}({', '.join(title(part) for part in policy.policies)})"
    return "ANY"


class Policies:
    """Evaluates policies over a fixed sequence of hosts. What cannot change while planning is worked out once."""

    def __init__(self, views: Sequence[HostView], rules: Callable[[str], Rule]) -> None:
        self._rules = rules
        self._every = (1 << len(views)) - 1
        self._tagged: dict[str, int] = {}
        self._untagged = 0
        self._known: dict[tuple[str, ...], list[Filter]] = {}
        self._hosts = [_host_variables(view) for view in views]
        for place, view in enumerate(views):
            for tag in {*view.spec.tags, view.spec.name}:
                self._tagged[tag] = self._tagged.get(tag, 0) | 1 << place
            self._untagged |= 0 if own_tags(view) else 1 << place

    def filters(self, workload: Workload, full: Full) -> list[Filter]:
        """The conditions of a workload's policy, in order; the implied NO_TAG comes first."""
        out: list[Filter] = [] if names_hosts(workload.policy) else [("NO_TAG", self._untagged)]
        out += [one for one in self._parts(workload.policy, workload, full) if one not in out]
        return out

    def parts(self, policy: Policy, workload: Workload) -> list[Filter]:
        """The conditions of one policy that no instance changes, without what it implies."""
        return self._parts(policy, workload, lambda _: 0)

    def _parts(self, policy: Policy, workload: Workload, full: Full) -> list[Filter]:
        match policy:
            case AnyHost() | LocalHost():
                return []
            case MaxPerHost():
                return [(title(policy), self._every & ~full(policy.max))]
            case MatchTag():
                return [(title(policy), self._tagged.get(policy.tag, 0))]
            case NoTag():
                return [(title(policy), self._untagged)]
            case RuleBased():
                return self._rule(policy, workload)
            case Composite():
                return self._composite(policy, workload, full)

    def _composite(self, policy: Composite, workload: Workload, full: Full) -> list[Filter]:
        parts = [self._parts(part, workload, full) for part in policy.policies]
        if policy.combiner == "AND":
            return [one for part in parts for one in part]
        passing = (reduce(and_, (mask for _, mask in part), self._every) for part in parts)
        return [(title(policy), reduce(or_, passing, 0))]

    def _rule(self, policy: RuleBased, workload: Workload) -> list[Filter]:
        """The rule's answers; hosts on which it has none are removed by a condition of their own, with the message."""
        key: tuple[str, ...] = (policy.rule,)
        if "workload" in policy.rule:
            key += (workload.identity, repr(workload.labels))
        if key not in self._known:
            self._known[key] = list(self._ask(policy, workload))
        return self._known[key]

    def _ask(self, policy: RuleBased, workload: Workload) -> Iterator[Filter]:
        try:
            rule = self._rules(policy.rule)
        except ValueError as error:
            yield f"{title(policy)} ({error})", 0
            return
        about = {"name": workload.name, "kind": str(workload.kind), "labels": dict(workload.labels)}
        passing, failing = 0, dict[str, int]()
        for place, host in enumerate(self._hosts):
            try:
                passing |= int(rule.matches({"host": host, "workload": about})) << place
            except ValueError as error:
                failing[str(error)] = failing.get(str(error), 0) | 1 << place
        for message, hosts in sorted(failing.items()):
            yield f"{title(policy)} ({message})", self._every & ~hosts
        yield title(policy), passing


def _host_variables(view: HostView) -> dict[str, Any]:
    facts = view.facts
    return {
        "name": view.spec.name,
        "tags": sorted({*view.spec.tags, view.spec.name}),
        "labels": dict(view.spec.labels),
        "gpus": len(facts.gpus) if facts else 0,
        "cpus": len(facts.cpus) if facts else 0,
        "memory": facts.memory if facts else 0,
    }
