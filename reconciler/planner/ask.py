"""What is asked of the fleet, and what it answers."""

from dataclasses import dataclass

from reconciler.model.workload import Allocation, InstanceId, Workload
from reconciler.planner.free import Want
from reconciler.planner.memo import Memo
from reconciler.planner.policies import named_tags


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


def _want(workload: Workload) -> Want:
    request = workload.request
    units = request.cores if request.exclusive else request.millicpus
    tags = named_tags(workload.policy)
    rdma = workload.container.rdma
    return Want(request.exclusive, units, request.memory, workload.numa, request.gpus, tags, rdma)


want_of = Memo(_want)
"""The part of a workload that a fit depends on."""
