"""Placement policies: which hosts pass, under which names the others are removed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reconciler.model.host import HostState
from reconciler.model.placement import (
    AnyHost,
    Composite,
    LocalHost,
    MatchTag,
    MaxPerHost,
    NoTag,
    Policy,
    RuleBased,
)
from reconciler.model.plan import Pending
from reconciler.model.snapshot import HostView, Reach
from reconciler.model.workload import Allocation
from reconciler.planner.place import Ask, Fleet, Placement
from reconciler.planner.policies import Policies, named_tags, title
from reconciler.rules import compile_rule
from tests.fakes.world import app, host, ident

CPU_NODE = [(8, 64, 0)]


def no_rules(text: str) -> Any:
    """For fleets whose work has no rules."""
    raise AssertionError(text)


def passing(policy: Policy, views: list[HostView], full: Callable[[int], int] = lambda _: 0) -> list[str]:
    """Names of the hosts that pass every condition."""
    conditions = Policies(views, compile_rule).filters(app("x", policy=policy), full)
    return [view.spec.name for place, view in enumerate(views) if all(mask >> place & 1 for _, mask in conditions)]


FLEET = [
    host("bare", CPU_NODE),
    host("named", CPU_NODE, tags=("named",)),
    host("a1", [(8, 64, 4)], tags=("a", "gpu"), labels=(("zone", "x"),)),
    host("b1", CPU_NODE, tags=("b",)),
]


@pytest.mark.parametrize(
    ("policy", "expect"),
    [
        (AnyHost(), ["bare", "named"]),
        (NoTag(), ["bare", "named"]),
        (MaxPerHost(1), ["bare", "named"]),
        (MatchTag("a"), ["a1"]),
        (MatchTag("gp"), []),
        (MatchTag("b1"), ["b1"]),
        (MatchTag("bare"), ["bare"]),
        (LocalHost(), ["bare", "named", "a1", "b1"]),
        (Composite("AND", (MatchTag("a"), MatchTag("gpu"))), ["a1"]),
        (Composite("AND", (MatchTag("a"), MatchTag("b"))), []),
        (Composite("OR", (MatchTag("a"), MatchTag("b"))), ["a1", "b1"]),
        (Composite("OR", (MatchTag("a"), NoTag())), ["bare", "named", "a1"]),
        (Composite("AND", (AnyHost(), MaxPerHost(2))), ["bare", "named"]),
        (Composite("OR", (AnyHost(), MaxPerHost(2))), ["bare", "named"]),
        (Composite("OR", (Composite("AND", (MatchTag("a"), MatchTag("gpu"))), MatchTag("b"))), ["a1", "b1"]),
        (RuleBased("host.gpus > 2"), ["a1"]),
        (RuleBased('host.name == "b1" || "a" in host.tags'), ["a1", "b1"]),
        (RuleBased('"bare" in host.tags'), ["bare"]),
        (RuleBased('workload.name == "x" && workload.kind == "app"'), ["bare", "named", "a1", "b1"]),
        (RuleBased("host.cpus >= 8 && host.memory > 1000"), ["bare", "named", "a1", "b1"]),
    ],
    ids=str,
)
def test_hosts_that_pass(policy: Policy, expect: list[str]) -> None:
    """Each policy admits the hosts that formats.md says; a host's own name is a tag that does not close it."""
    assert passing(policy, FLEET) == expect


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (AnyHost(), "ANY"),
        (NoTag(), "NO_TAG"),
        (LocalHost(), "LOCAL"),
        (MaxPerHost(1), "ONE_PER_HOST"),
        (MaxPerHost(3), "MAX_N_PER_HOST 3"),
        (MatchTag("train"), "MATCH_TAG train"),
        (RuleBased("host.gpus > 1"), "RULE_BASED host.gpus > 1"),
        (Composite("OR", (MatchTag("a"), MaxPerHost(1))), "OR(MATCH_TAG a, ONE_PER_HOST)"),
    ],
    ids=str,
)
def test_titles(policy: Policy, name: str) -> None:
    """A policy is called in reports as users write it."""
    assert title(policy) == name


def test_a_rule_without_an_answer_removes_the_host_and_says_why() -> None:
    """A label that a host lacks is an error of the rule there: that host is removed under a name with the message."""
    conditions = Policies(FLEET, compile_rule).filters(
        app("x", policy=RuleBased('host.labels.zone == "x"')), lambda _: 0
    )
    (error, without), (name, mask) = conditions
    assert name == 'RULE_BASED host.labels.zone == "x"'
    assert error.startswith(f"{name} (")
    assert "zone" in error
    assert without == mask == 0b0100


def test_a_rule_that_does_not_compile_removes_every_host() -> None:
    """A rule that got past validation (a saved snapshot, say) is a reason, never a traceback."""
    ((name, mask),) = Policies(FLEET, compile_rule).filters(app("x", policy=RuleBased("host.gpus >")), lambda _: 0)
    assert name.startswith("RULE_BASED host.gpus > (")
    assert mask == 0


@dataclass
class CountingRule:
    """Answers yes and counts how often it was asked."""

    asked: int = 0

    def matches(self, _variables: Mapping[str, Any]) -> bool:
        """Yes."""
        self.asked += 1
        return True


@pytest.mark.parametrize(("rule", "asked"), [("host.gpus > 0", 4), ("workload.name == host.name", 8)])
def test_a_rule_is_evaluated_once_per_host(rule: str, asked: int) -> None:
    """Answers are kept per rule and host; only a rule that reads the workload is asked again for another workload."""
    counting = CountingRule()
    policies = Policies(FLEET, lambda _: counting)
    for name in ("x", "x", "y"):
        policies.filters(app(name, policy=RuleBased(rule)), lambda _: 0)
    assert counting.asked == asked


def test_tags_that_a_policy_names() -> None:
    """The tags asked for, at any depth, sorted: what a request needs of a scarce host."""
    policy = Composite("OR", (MatchTag("b"), Composite("AND", (MatchTag("a"), NoTag(), MatchTag("b")))))
    assert named_tags(policy) == ("a", "b")


def placed(fleet: Fleet, ask: Ask, key: str = "") -> str | tuple[tuple[str, int], ...]:
    """The host, or what removed the others."""
    answer = fleet.place(ask, key or str(ask.instance))
    return answer.host if isinstance(answer, Placement) else answer.removed


@pytest.mark.parametrize(
    ("spec", "reach", "gpus", "policy", "expect"),
    [
        ({}, Reach.KNOWN, 1, AnyHost(), "h"),
        ({}, Reach.STALE, 0, AnyHost(), "h"),
        ({}, Reach.STALE, 1, AnyHost(), (("stale facts", 1),)),
        ({}, Reach.UNREACHABLE, 0, AnyHost(), (("unreachable", 1),)),
        ({"state": HostState.CORDONED}, Reach.KNOWN, 0, AnyHost(), (("cordoned", 1),)),
        ({"state": HostState.CORDONED}, Reach.KNOWN, 0, LocalHost(), "h"),
        ({"state": HostState.CORDONED, "tags": ("t",)}, Reach.KNOWN, 0, LocalHost(), "h"),
        ({"state": HostState.CORDONED}, Reach.KNOWN, 0, MatchTag("h"), (("cordoned", 1),)),
        ({"state": HostState.DRAINED}, Reach.KNOWN, 0, AnyHost(), (("drained", 1),)),
        ({"tags": ("t",)}, Reach.KNOWN, 0, AnyHost(), (("NO_TAG", 1),)),
        ({"tags": ("t",)}, Reach.KNOWN, 0, MatchTag("u"), (("MATCH_TAG u", 1),)),
    ],
)
def test_states_of_a_host(
    spec: dict[str, Any], reach: Reach, gpus: int, policy: Policy, expect: str | tuple[tuple[str, int], ...]
) -> None:
    """Nothing new on a host that is cordoned, drained, unreachable; no GPU work on stale facts."""
    view = replace(host("h", **spec), reach=reach)
    fleet = Fleet([view], no_rules)
    assert placed(fleet, Ask(ident("app/x/0"), app("x", gpus=gpus, policy=policy))) == expect


def test_a_host_without_facts_takes_nothing() -> None:
    """Nothing is known of it, and the answer says so."""
    fleet = Fleet([replace(host("h"), facts=None)], no_rules)
    answer = fleet.place(Ask(ident("app/x/0"), app("x")), "k")
    assert isinstance(answer, Pending)
    assert answer.removed == (("no facts yet", 1),)


@pytest.mark.parametrize(("only", "prefer"), [("b", None), (None, "b")])
def test_replacement_in_place_is_allowed_on_a_cordoned_host(only: str | None, prefer: str | None) -> None:
    """A cordon keeps new work out, and lets what is there be replaced there; other cordoned hosts stay closed."""
    views = [host("a", state=HostState.CORDONED), host("b", state=HostState.CORDONED)]
    ask = Ask(ident("app/x/0"), app("x"), only=only, prefer=prefer, in_place=True)
    assert placed(Fleet(views, no_rules), ask) == "b"
    assert placed(Fleet(views, no_rules), replace(ask, in_place=False)) != "b"


def test_an_instance_does_not_stand_in_its_own_way() -> None:
    """ONE_PER_HOST counts other instances of the same kind and name: a replacement beside the old one is allowed."""
    fleet = Fleet([host("h", CPU_NODE)], no_rules)
    fleet.occupy("h", "c1", ident("app/x/0"), "app/x", Allocation())
    fleet.occupy("h", "c2", ident("app/y/0"), "app/y", Allocation())
    one = app("x", policy=MaxPerHost(1))
    assert placed(fleet, Ask(ident("app/x/1"), one)) == (("ONE_PER_HOST", 1),)
    assert placed(fleet, Ask(ident("app/x/0"), one)) == "h"
    fleet.vacate("c1")
    assert placed(fleet, Ask(ident("app/x/1"), one)) == (("ONE_PER_HOST", 1),), "the replacement is there now"


@pytest.mark.parametrize(
    ("policy", "expect"), [(MatchTag("a"), True), (MatchTag("b"), False), (MaxPerHost(1), False), (LocalHost(), True)]
)
def test_admits_looks_at_the_policy_alone(policy: Policy, expect: bool) -> None:
    """Whether a policy wants a host does not depend on its state or on what runs there."""
    fleet = Fleet([host("a1", tags=("a",), state=HostState.DRAINED)], no_rules)
    ask = Ask(ident("app/x/0"), app("x", policy=policy))
    assert fleet.admits(ask, "a1") is expect
    assert not fleet.admits(ask, "elsewhere")
