"""Our containers as they were found, by instance."""

from dataclasses import dataclass

from reconciler.model.snapshot import Container, HostView, Ours, Snapshot
from reconciler.model.workload import InstanceId
from reconciler.planner.memo import Memo


@dataclass(frozen=True, slots=True)
class Found:
    """One container of ours and the host it is on."""

    view: HostView
    container: Container
    ours: Ours

    @property
    def host(self) -> str:
        """The host's name."""
        return self.view.spec.name

    @property
    def up(self) -> bool:
        """Running, paused, or between two restarts."""
        return self.container.running or self.container.state == "restarting"


def found_by_instance(snapshot: Snapshot) -> dict[InstanceId, list[Found]]:
    """Every container of ours, newest generation first; what is being removed is gone already.

    One that goes by another name than its labels say may be a copy of them: it comes last. Of equals the older leads.
    """
    found: dict[InstanceId, list[Found]] = {}
    for view in snapshot.hosts:
        for one in _FOUND(view):
            found.setdefault(one.ours.instance, []).append(one)
    for group in found.values():
        if len(group) > 1:
            group.sort(key=_precedence)
    return found


def _found_on(view: HostView) -> tuple[Found, ...]:
    return tuple(Found(view, one, one.ours) for one in view.containers if one.ours and one.state != "removing")


_FOUND = Memo(_found_on)


def _precedence(one: Found) -> tuple[bool, int, str, str, str]:
    own_name = one.ours.instance.container_name("", one.ours.generation)
    renamed = not one.container.name.endswith(own_name)
    return (renamed, -one.ours.generation, one.container.created_at, one.host, one.container.id)
