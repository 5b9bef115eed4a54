"""When a container counts as ready, and when it has failed to become so."""

from enum import StrEnum

from reconciler.model.memory import Watch
from reconciler.model.snapshot import Container
from reconciler.model.workload import Rollout


class Readiness(StrEnum):
    """What a look at a watched container says."""

    WAITING = "waiting"
    READY = "ready"
    FAILED = "failed"


def is_good(container: Container, restarts_before: int) -> bool:
    """Whether this look saw it running, not unhealthy or still starting, and not restarted since the last one."""
    return (
        container.state == "running"
        and container.health in {"none", "healthy"}
        and container.restart_count == restarts_before
    )


def readiness(container: Container, watch: Watch | None, rollout: Rollout, now: float) -> tuple[Readiness, str]:
    """The verdict and, when failed, why. It must stay good for ``healthy_for``: one lucky sample is no health."""
    failed = broken(container)
    if failed:
        return Readiness.FAILED, failed
    if watch is None:
        return Readiness.WAITING, ""
    if is_good(container, watch.restart_count) and watch.good_since is not None:
        ready = now - watch.good_since >= rollout.healthy_for
        return (Readiness.READY if ready else Readiness.WAITING), ""
    if now - watch.first_seen >= rollout.deadline:
        return Readiness.FAILED, f"not ready within {rollout.deadline:g} s"
    return Readiness.WAITING, ""


def broken(container: Container) -> str:
    """Why a container that should run does not, in words; empty when nothing is wrong with it."""
    detail = f": {container.error}" if container.error else ""
    if container.state in {"exited", "dead"}:
        return f"exited with code {container.exit_code}{detail}"
    if container.state == "restarting":
        return f"restarting after exit code {container.exit_code}{detail}"
    return "unhealthy" if container.health == "unhealthy" else ""
