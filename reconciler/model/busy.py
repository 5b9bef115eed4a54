"""When a card is in use by somebody whom no container explains: bare processes, podman, a container given no card."""

from collections.abc import Iterable

from reconciler.model.host import Gpu, GpuProcess
from reconciler.model.resources import format_memory
from reconciler.model.snapshot import Container

BUSY_ABOVE = 512 * 1024**2
"""Bytes that the driver alone may use on an idle card."""


def slices_held(container: Container, gpu: Gpu) -> frozenset[str]:
    """UUIDs of the card's slices that the container was given."""
    return container.holding.mig & {piece.uuid for piece in gpu.mig_slices}


def holds_card(container: Container, gpu: Gpu) -> bool:
    """Whether the container keeps the card, or a slice of it, from others now."""
    holding = container.holding
    if not container.holds or holding.observes:
        return False
    return holding.all_gpus or gpu.uuid in holding.gpus or bool(slices_held(container, gpu))


def busy_reason(containers: Iterable[Container], gpu: Gpu) -> str:
    """Who uses a card that no counted container explains, in words; empty when it is idle or explained."""
    if any(holds_card(container, gpu) for container in containers):
        return ""
    used = max(gpu.memory_used, sum(process.memory for process in gpu.processes))
    if used <= BUSY_ABOVE:
        return ""
    users = [_words(process) for process in sorted(gpu.processes, key=lambda one: one.pid)]
    return ", ".join(users) or f"{format_memory(used)} in use by nobody known"


def _words(process: GpuProcess) -> str:
    owner = f" of {process.user}" if process.user else ""
    return f"{process.name or 'a process'}{owner} (pid {process.pid})"
