"""Who holds each card of a host, for people: our work, other containers, and processes that no container explains."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.model.busy import holds_card, share_held, slices_held
from reconciler.model.host import Gpu
from reconciler.model.snapshot import Container, HostView


@dataclass(frozen=True, slots=True)
class Holder:
    """One holder of one card.

    ``kind`` is ``ours``, ``container`` or ``process``; ``name`` the instance, the container's or the process's name;
    ``since`` when the container was started (the Engine's own text); ``user`` the owner of our work, or the user of a
    process or container; ``slices`` the slices it holds when it does not hold the card whole; ``share`` the thousandths
    when it has a share; ``memory`` bytes of a process.
    """

    kind: str
    name: str
    since: str = ""
    user: str = ""
    how: str = ""
    state: str = ""
    slices: tuple[str, ...] = ()
    share: int = 0
    pid: int = 0
    memory: int = 0


def holders(view: HostView) -> dict[str, tuple[Holder, ...]]:
    """The holders of each card by its UUID: containers by name, then processes by pid; observers hold nothing."""
    cards = view.facts.gpus if view.facts else ()
    return {gpu.uuid: (*_containers(view, gpu), *_processes(view, gpu)) for gpu in cards}


def unknown_cards(view: HostView) -> dict[str, tuple[Holder, ...]]:
    """Holders of cards and slices that the facts do not show: the driver is broken, a card is lost, or there are none.

    By the id that the container was given; ``all`` for what asked for every card of a host on which none is known.
    """
    cards = view.facts.gpus if view.facts else ()
    known = {gpu.uuid for gpu in cards} | {piece.uuid for gpu in cards for piece in gpu.mig_slices}
    found: dict[str, list[Holder]] = {}
    for container in sorted(view.containers, key=lambda one: one.name):
        holding = container.holding
        if container.holds and not holding.observes:
            every = {"all"} if holding.all_gpus and not known and holding.how != "privileged" else set()
            for one in holding.cards - known | every:
                found.setdefault(one, []).append(_holder(container, share=dict(holding.shares).get(one, 0)))
    return {one: tuple(found[one]) for one in sorted(found)}


def _containers(view: HostView, gpu: Gpu) -> Iterator[Holder]:
    for container in sorted(view.containers, key=lambda one: one.name):
        if not holds_card(container, gpu):
            continue
        whole = container.holding.all_gpus or gpu.uuid in container.holding.gpus
        slices = () if whole else tuple(sorted(slices_held(container, gpu)))
        yield _holder(container, slices, share_held(container, gpu))


def _holder(container: Container, slices: tuple[str, ...] = (), share: int = 0) -> Holder:
    ours = container.ours
    return Holder(
        kind="ours" if ours else "container",
        name=str(ours.instance) if ours else container.name,
        since=container.started_at,
        user=ours.owner if ours else container.user,
        how=container.holding.how,
        state=container.state,
        slices=slices,
        share=share,
    )


def _processes(view: HostView, gpu: Gpu) -> Iterator[Holder]:
    by_id = {container.id: container for container in view.containers}
    for process in sorted(gpu.processes, key=lambda one: one.pid):
        container = by_id.get(process.container or "")
        if container is not None and holds_card(container, gpu):
            continue
        how = "outside Docker"
        if container is not None:
            how = f"in container {container.name}, which was given no card"
        elif process.container:
            how = f"in container {process.container[:12]}, which this Engine does not know"
        yield Holder(
            "process",
            process.name or str(process.pid),
            user=process.user,
            how=how,
            pid=process.pid,
            memory=process.memory,
        )
