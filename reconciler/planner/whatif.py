"""A world that is only assumed: hosts that come or go, other numbers of instances. It is planned as the real one is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.model.desired import Desired
from reconciler.model.host import Gpu, HostFacts, HostSpec, HostState, MigSlice
from reconciler.model.plan import ActionKind, Plan
from reconciler.model.snapshot import HostView, Reach, Snapshot
from reconciler.model.workload import InstanceId, Workload

ENGINE = "sim://"
PLACING = {ActionKind.START, ActionKind.REPLACE, ActionKind.UPDATE, ActionKind.ADOPT}


@dataclass(frozen=True, slots=True)
class AddHost:
    """A host more, empty."""

    view: HostView


@dataclass(frozen=True, slots=True)
class RemoveHost:
    """A host less, and with it all that runs there."""

    name: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Another number of instances of an App, named ``app/NAME``."""

    workload: str
    instances: int


Assumption = AddHost | RemoveHost | Scale


@dataclass(frozen=True, slots=True)
class Comparison:
    """What an assumption changes; each sorted by instance. ``moved`` has the host without it and the host with it.

    ``pending`` is what cannot be placed with the assumption, ``pending_before`` how many could not be without it.
    """

    placed: tuple[InstanceId, ...]
    unplaced: tuple[InstanceId, ...]
    moved: tuple[tuple[InstanceId, str, str], ...]
    pending: tuple[InstanceId, ...]
    pending_before: int


def assume(desired: Desired, snapshot: Snapshot, assumptions: Iterable[Assumption]) -> tuple[Desired, Snapshot]:
    """What git wants and what is there, changed one assumption after the other. Unknown names change nothing."""
    for one in assumptions:
        match one:
            case AddHost():
                views = (*snapshot.hosts, one.view)
                snapshot = Snapshot(tuple(sorted(views, key=lambda view: view.spec.name)))
                desired = replace(desired, hosts=tuple(sorted((*desired.hosts, one.view.spec), key=_name)))
            case RemoveHost():
                snapshot = Snapshot(tuple(view for view in snapshot.hosts if view.spec.name != one.name))
                desired = replace(desired, hosts=tuple(spec for spec in desired.hosts if spec.name != one.name))
            case Scale():
                desired = replace(desired, workloads=tuple(_scaled(work, one) for work in desired.workloads))
    return desired, snapshot


def _name(spec: HostSpec) -> str:
    return spec.name


def _scaled(work: Workload, one: Scale) -> Workload:
    return replace(work, instances=one.instances) if work.identity == one.workload else work


def new_host(name: str, facts: HostFacts) -> HostView:
    """A host of that kind of machine, without tags or labels."""
    return HostView(HostSpec(name, ENGINE), Reach.KNOWN, as_new(facts, name))


def copy_of(view: HostView, name: str) -> HostView:
    """A host like another one as it was bought: its facts, tags and labels, nothing that runs, nothing broken.

    Raises ValueError when the facts of that host are not known.
    """
    if view.facts is None:
        raise ValueError(f"{view.spec.name} has no facts to copy")
    tags = tuple(tag for tag in view.spec.tags if tag != view.spec.name)
    spec = replace(
        view.spec,
        name=name,
        engine=ENGINE,
        address="",
        tags=tags,
        state=HostState.ACTIVE,
        gpus_excluded=(),
        ignore_containers=(),
        facts_json=None,
        facts_path="",
    )
    return HostView(spec, Reach.KNOWN, as_new(view.facts, name))


def as_new(facts: HostFacts, name: str) -> HostFacts:
    """The facts of a like machine that is unused and whole; its cards and slices have ids of their own."""
    uuids = {gpu.uuid: f"GPU-{name}-{place}" for place, gpu in enumerate(facts.gpus)}
    gpus = tuple(_new_card(gpu, uuids) for gpu in facts.gpus)
    return replace(facts, hostname=name, gpus=gpus, boot_id="", engine_id="", driver_error="", warnings=())


def _new_card(gpu: Gpu, uuids: Mapping[str, str]) -> Gpu:
    uuid = uuids[gpu.uuid]
    return replace(
        gpu,
        uuid=uuid,
        memory_used=0,
        processes=(),
        health="ok",
        links=tuple(replace(link, peer=uuids[link.peer]) for link in gpu.links if link.peer in uuids),
        mig_slices=tuple(
            MigSlice(f"MIG-{uuid}-{place}", piece.profile, piece.start, uuid)
            for place, piece in enumerate(gpu.mig_slices)
        ),
    )


def compare(before: Plan, after: Plan) -> Comparison:
    """What the plan of an assumed world places that the real one does not, and the other way about."""
    old, new = _places(before), _places(after)
    return Comparison(
        placed=_sorted(new.keys() - old.keys()),
        unplaced=_sorted(old.keys() - new.keys()),
        moved=tuple(
            (instance, old[instance], new[instance])
            for instance in _sorted(old.keys() & new.keys())
            if old[instance] != new[instance]
        ),
        pending=_sorted(one.instance for one in after.pending),
        pending_before=len(before.pending),
    )


def _places(plan: Plan) -> dict[InstanceId, str]:
    """Where everything is once the plan is carried out; what is pending and goes on where it is counts too."""
    found = {one.instance: one.host for one in plan.kept}
    return found | {one.instance: one.host for one in plan.actions if one.kind in PLACING}


def _sorted(instances: Iterable[InstanceId]) -> tuple[InstanceId, ...]:
    return tuple(sorted(instances, key=lambda one: one.sort_key))
