"""Placement policies, as in Drove, and the NUMA modes."""

from dataclasses import dataclass
from enum import StrEnum


class Numa(StrEnum):
    """How strictly cards, cores and memory must share a NUMA node."""

    PREFER = "prefer"
    REQUIRE = "require"
    REQUIRE_SOCKET = "require-socket"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class AnyHost:
    """Any untagged host."""


@dataclass(frozen=True, slots=True)
class MaxPerHost:
    """At most ``max`` instances of this kind and name on one host; ONE_PER_HOST is 1."""

    max: int


@dataclass(frozen=True, slots=True)
class MatchTag:
    """Hosts that carry ``tag``; a host's own name is one of its tags."""

    tag: str


@dataclass(frozen=True, slots=True)
class NoTag:
    """Hosts without tags of their own."""


@dataclass(frozen=True, slots=True)
class RuleBased:
    """Hosts for which the CEL ``rule`` is true."""

    rule: str


@dataclass(frozen=True, slots=True)
class LocalHost:
    """Every host, tagged and cordoned ones too; only for a LocalService."""


@dataclass(frozen=True, slots=True)
class Composite:
    """``AND`` or ``OR`` over other policies."""

    combiner: str
    policies: "tuple[Policy, ...]"


Policy = AnyHost | MaxPerHost | MatchTag | NoTag | RuleBased | LocalHost | Composite


@dataclass(frozen=True, slots=True)
class Preference:
    """Hosts that satisfy ``policy`` are worth ``weight`` more; no host is ruled out by it."""

    policy: Policy
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Instances of one workload spread evenly over the values of a host label (``host``: over hosts).

    No value may hold more than ``max_skew`` instances more than the least; without ``required``, each one more costs
    ``weight``.
    """

    by: str
    max_skew: int = 1
    required: bool = False
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Affinity:
    """On the same host (``by`` is ``host``) or the same value of a host label as an instance of ``workload``.

    ``workload`` is ``kind/name``. With ``apart`` it is the opposite, which holds in both directions. Without
    ``required`` it is worth ``weight``.
    """

    workload: str
    by: str = "host"
    apart: bool = False
    required: bool = True
    weight: int = 1


def names_hosts(policy: Policy) -> bool:
    """Whether the policy itself says which tagged hosts it wants (else it also means NO_TAG)."""
    if isinstance(policy, Composite):
        return any(names_hosts(part) for part in policy.policies)
    return isinstance(policy, MatchTag | RuleBased | LocalHost)
