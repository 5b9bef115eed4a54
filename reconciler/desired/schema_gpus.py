"""The forms of `resources.gpus`. Attribute docstrings go into the JSON Schema."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from reconciler.desired.forms import Form, Memory, Natural, Positive, SharedMemory, Strict, matching, no_items
from reconciler.desired.scalars import Plain

MigProfile = Annotated[
    str,
    matching(
        r"([0-9]+c\.)?[0-9]+g\.[0-9]+gb([+-][a-z0-9.]+)*", "must be a MIG profile as the driver names it (1g.10gb)"
    ),
]


def _globs(value: Any) -> Any:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(part, str) and part for part in found):
        raise ValueError("must be a glob or a list of globs")
    return found


def _share(value: Any) -> int:
    fraction = value.value if type(value) is Plain else value
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
        raise ValueError("must be a fraction of one card, such as 0.5 (a whole one is {count: 1})")
    milli = round(fraction * 1000)
    if abs(milli - fraction * 1000) > 1e-6 or not 0 < milli < 1000:
        raise ValueError("must not be finer than a thousandth of a card (0.001)")
    return milli


Globs = Annotated[
    list[str],
    Form(
        _globs,
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
            ]
        },
    ),
]
Share = Annotated[int, Form(_share, {"type": "number", "minimum": 0.001, "maximum": 0.999})]  # thousandths of a card


class WholeGpus(Strict):
    """Whole cards."""

    count: Positive
    """How many cards each instance gets."""
    model: Globs = Field(default_factory=no_items)
    """Glob, or a list of globs, that the card's model must match (`*H100*`)."""
    min_memory: Memory = 0
    """Least memory of each card."""
    link: Literal["nvlink"] | None = None
    """`nvlink`: cards that NVLinks join to one another."""


class MigGpus(Strict):
    """MIG slices of one profile."""

    mig: MigProfile
    """Profile as the driver names it (`1g.10gb`)."""
    count: Positive = 1
    """How many slices each instance gets."""


class ShareGpu(Strict):
    """A fraction of one card. Only a running MPS keeps the work to it."""

    share: Share
    """Fraction of one card, between 0 and 1, down to a thousandth: of its memory and its threads."""
    model: Globs = Field(default_factory=no_items)
    """Glob, or a list of globs, that the card's model must match."""


class SharedMemoryGpu(Strict):
    """Part of one card, by its memory. Only a running MPS keeps the work to it."""

    shared_memory: SharedMemory
    """Memory on one card; of its threads the same fraction."""
    model: Globs = Field(default_factory=no_items)
    """Glob, or a list of globs, that the card's model must match."""


class ObserveGpus(Strict):
    """Sees every card and holds none: exporters. Needs a security profile with `allGpus`."""

    observe: Literal["all"]
    """Always `all`."""


def _gpus_form(value: Any) -> str:
    if isinstance(value, dict):
        names = [name for name in ("mig", "share", "sharedMemory", "observe") if name in value]
        return f"({names[0]})" if names else "(count)"
    if isinstance(value, str) and type(value) is not Plain:
        return "(all)"
    return "(number)"


def _gpus(value: Any) -> Any:
    if isinstance(value, Plain | dict | int | Strict) or value == "all":
        return value
    raise ValueError("must be a number of cards, all, or a map such as {count: 2, model: '*H100*'}")


Gpus = Annotated[
    Annotated[Natural, Tag("(number)")]
    | Annotated[Literal["all"], Tag("(all)")]
    | Annotated[WholeGpus, Tag("(count)")]
    | Annotated[MigGpus, Tag("(mig)")]
    | Annotated[ShareGpu, Tag("(share)")]
    | Annotated[SharedMemoryGpu, Tag("(sharedMemory)")]
    | Annotated[ObserveGpus, Tag("(observe)")],
    Discriminator(_gpus_form),
    Form(_gpus),
]
