"""Where instances may run and where they had better: policies, preferences, spread, affinity.

Attribute docstrings go into the JSON Schema.
"""

from typing import Annotated, Literal

from pydantic import Field

from reconciler.desired.forms import DNS_LABEL, WRITTEN, Bool, Positive, Strict, Text, matching

Weight = Annotated[int, Field(ge=1, le=100), WRITTEN]
WorkloadReference = Annotated[
    str, matching(rf"(app|task|localservice)/{DNS_LABEL}", "must be app/NAME, task/NAME or localservice/NAME")
]
HostLabel = Annotated[
    str, matching(r"[^\x00-\x1f\x7f-\x9f]+", "must be host or the key of a label of hosts, such as rack")
]


class Simple(Strict):
    """`ANY`: any untagged host. `ONE_PER_HOST`: at most one instance of this workload on a host.

    `NO_TAG`: hosts without tags. `LOCAL`: every host, tagged and cordoned ones too; only for a LocalService.
    """

    type: Literal["ANY", "ONE_PER_HOST", "NO_TAG", "LOCAL"]


class MaxPerHost(Strict):
    """At most `max` instances of this workload on a host."""

    type: Literal["MAX_N_PER_HOST"]
    max: Positive
    """Most instances on one host."""


class MatchTag(Strict):
    """Hosts that carry a tag; a host's own name is one of its tags."""

    type: Literal["MATCH_TAG"]
    tag: Text
    """The tag."""


class RuleBased(Strict):
    """Hosts for which a CEL expression is true."""

    type: Literal["RULE_BASED"]
    rule: Text
    """CEL over `host.name|tags|labels|gpus|cpus|memory` and `workload.name|kind|labels`."""


class Composite(Strict):
    """Several policies at once."""

    type: Literal["COMPOSITE"]
    combiner: Literal["AND", "OR"]
    """Whether all of them must allow a host, or one."""
    policies: Annotated[list["Policy"], Field(min_length=1)]
    """The policies."""


Policy = Annotated[
    Simple | MaxPerHost | MatchTag | RuleBased | Composite,
    Field(discriminator="type"),
]


class SimpleWish(Strict):
    """`ANY`: any untagged host. `NO_TAG`: hosts without tags."""

    type: Literal["ANY", "NO_TAG"]


class CompositeWish(Strict):
    """Several policies at once; what counts instances is no such policy."""

    type: Literal["COMPOSITE"]
    combiner: Literal["AND", "OR"]
    """Whether all of them must allow a host, or one."""
    policies: Annotated[list["Wish"], Field(min_length=1)]
    """The policies."""


class PreferSimple(SimpleWish):
    """`ANY`: any untagged host. `NO_TAG`: hosts without tags."""

    weight: Weight = 1
    """What such a host is worth, 1 to 100."""


class PreferTag(MatchTag):
    """Hosts that carry a tag; a host's own name is one of its tags."""

    weight: Weight = 1
    """What such a host is worth, 1 to 100."""


class PreferRule(RuleBased):
    """Hosts for which a CEL expression is true."""

    weight: Weight = 1
    """What such a host is worth, 1 to 100."""


class PreferComposite(CompositeWish):
    """Several policies at once; what counts instances is no such policy."""

    weight: Weight = 1
    """What such a host is worth, 1 to 100."""


Wish = Annotated[SimpleWish | MatchTag | RuleBased | CompositeWish, Field(discriminator="type")]
Preference = Annotated[PreferSimple | PreferTag | PreferRule | PreferComposite, Field(discriminator="type")]
AnyPolicy = Policy | Wish | Preference


class Spread(Strict):
    """Instances evenly over hosts, or over the values of a label of hosts."""

    by: HostLabel
    """`host`, or the key of a label of hosts (`rack`)."""
    max_skew: Positive = 1
    """With `required`: how many instances more than the least any value may have."""
    required: Bool = False
    """Whether an instance waits where it cannot be so."""
    weight: Weight = 1
    """What each instance more than the least costs, 1 to 100; only without `required`."""


class Affinity(Strict):
    """Another workload to be near to, or away from."""

    workload: WorkloadReference
    """`app/NAME`, `task/NAME` or `localservice/NAME`."""
    by: HostLabel = "host"
    """`host`: on the same host; or the key of a label of hosts (`rack`): on hosts with the same value."""
    required: Bool = True
    """Whether an instance waits where it cannot be so."""
    weight: Weight = 1
    """What it is worth, 1 to 100; only with `required: false`."""
