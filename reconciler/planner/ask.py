"""What is asked of the fleet, and what it answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reconciler.model.placement import Composite, MatchTag, Policy, RuleBased
from reconciler.model.resources import MigSlices, WholeGpus
from reconciler.model.workload import Allocation, InstanceId, Workload


@dataclass(frozen=True, slots=True)
class Ask:
    """One instance to be placed.

    ``only`` is the host it must be on, ``prefer`` one to keep if it fits. ``in_place`` replaces what runs there, which
    a cordoned host allows. Cards, cores and ports of ``near`` are used again where they are free, on ``only`` or
    ``prefer``: UUIDs stay the same over a restart.
    """

    instance: InstanceId
    workload: Workload
    only: str | None = None
    prefer: str | None = None
    in_place: bool = False
    near: Allocation | None = None

    @property
    def home(self) -> str | None:
        """The host that is tried first."""
        return self.only or self.prefer


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one instance goes; ``why`` is one line in words."""

    host: str
    allocation: Allocation
    warnings: tuple[str, ...]
    why: str


def batch_order(asks: Iterable[Ask], choices: Callable[[Ask], int] | None = None) -> list[Ask]:
    """The order in which a batch packs best (facts on packing): a total one, whatever order the asks come in.

    Priority, then those that can go to few hosts (``choices`` counts them; steps of √2), then several cards, slices,
    single cards, no cards; the hungriest first inside each.
    """

    def key(ask: Ask) -> tuple[object, ...]:
        # The length of a square grows by one with each factor of √2.
        few = ((choices(ask) + 1) ** 2).bit_length() if choices else _freedom(ask)
        return (-ask.workload.priority, 0 if ask.home else 1, few, *_hunger(ask))

    return sorted(asks, key=key)


def _hunger(ask: Ask) -> tuple[object, ...]:
    request = ask.workload.request
    gpus = request.gpus
    pieces = gpus.count if isinstance(gpus, WholeGpus | MigSlices) else 0
    return (
        _group(ask),
        -pieces,
        -(gpus.min_memory if isinstance(gpus, WholeGpus) else 0),
        -request.millicpus,
        -request.memory,
        ask.instance.sort_key,
    )


def _freedom(ask: Ask) -> int:
    """1: hosts or cards that are named; 2: any."""
    gpus = ask.workload.request.gpus
    named = isinstance(gpus, WholeGpus) and bool(gpus.models)
    return 1 if named or _names(ask.workload.policy) else 2


def _names(policy: Policy) -> bool:
    if isinstance(policy, Composite):
        return any(_names(part) for part in policy.policies)
    return isinstance(policy, MatchTag | RuleBased)


def _group(ask: Ask) -> int:
    match ask.workload.request.gpus:
        case WholeGpus(count=count) if count > 1:
            return 0
        case MigSlices():
            return 1
        case WholeGpus():
            return 2
    return 3
