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


def share_held(container: Container, gpu: Gpu) -> int:
    """Thousandths of the card that the container was given as a share; 0 when it has none or more than a share."""
    holding = container.holding
    if holding.all_gpus or gpu.uuid in holding.gpus:
        return 0
    return sum(milli for card, milli in holding.shares if card == gpu.uuid)


def holds_card(container: Container, gpu: Gpu) -> bool:
    """Whether the container keeps the card, a slice or a share of it, from others now."""
    holding = container.holding
    if not container.holds or holding.observes:
        return False
    return holding.all_gpus or gpu.uuid in holding.cards or bool(slices_held(container, gpu))


def busy_reason(containers: Iterable[Container], gpu: Gpu) -> str:
    """Who uses a card that no counted container explains, in words; empty when it is idle or explained.

    Who holds a card, or slices of it, explains all its use. A share explains that of its own container: others may
    have the rest, so what strangers use there counts. What no process owns up to is taken for the shares' own.
    """
    holders = [container for container in containers if holds_card(container, gpu)]
    if any(not share_held(container, gpu) for container in holders):
        return ""
    explained = {container.id for container in holders}
    strangers = [process for process in gpu.processes if process.container not in explained]
    used = sum(process.memory for process in strangers)
    if not holders:
        used = max(gpu.memory_used, used)
    if used <= BUSY_ABOVE:
        return ""
    users = [_words(process) for process in sorted(strangers, key=lambda one: one.pid)]
    return ", ".join(users) or f"{format_memory(used)} in use by nobody known"


def _words(process: GpuProcess) -> str:
    owner = f" of {process.user}" if process.user else ""
    return f"{process.name or 'a process'}{owner} (pid {process.pid})"
