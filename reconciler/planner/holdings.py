"""What of a host is not ours to give: reserved, held by foreign containers, in use from outside, unfit."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.model.busy import busy_reason
from reconciler.model.claims import claim_of
from reconciler.model.host import Gpu, GpuMode, HostSpec
from reconciler.model.snapshot import Container, HostView
from reconciler.planner.topology import Topology, mask_of, pci_key


@dataclass(frozen=True, slots=True)
class Base:
    """A host before any work of ours: idle CPUs by domain (masks), bytes of memory, cards that can be given whole.

    ``slices`` are the MIG slices that nobody holds, ``cut`` the cards on which more may be created; ``withheld`` says
    in words why a card is not offered whole; ``ports`` are (host ip, port, protocol).
    """

    idle: tuple[int, ...]
    memory: int
    cards: frozenset[str]
    slices: frozenset[str]
    cut: frozenset[str]
    withheld: Mapping[str, str]
    ports: tuple[tuple[str, int, str], ...]


def base_of(view: HostView, topology: Topology) -> Base:
    """What can be given out on a host, with reserved parts and foreign holdings taken off."""
    foreign = [one for one in view.containers if one.ours is None and one.holds]
    spec = view.spec
    taken = mask_of(spec.reserved_cpus)
    for container in foreign:
        taken |= mask_of(sorted(claim_of(container).cores))
    total = view.facts.memory if view.facts else 0
    withheld: dict[str, str] = {}
    cards, slices, cut = set[str](), set[str](), set[str]()
    for card in topology.cards:
        gpu = card.gpu
        reason = _unfit(gpu, spec) or _held(gpu, foreign) or _busy(gpu, view)
        free_slices = [] if reason else _free_slices(gpu, foreign)
        slices.update(free_slices)
        if not reason and gpu.mig_enabled and spec.mig_create:
            cut.add(gpu.uuid)
        reason = reason or _whole(gpu, spec)
        if reason:
            withheld[gpu.uuid] = reason
        else:
            cards.add(gpu.uuid)
    return Base(
        idle=tuple(domain.cpus & ~taken for domain in topology.domains),
        memory=total - spec.reserved_memory - sum(container.holding.memory for container in foreign),
        cards=frozenset(cards),
        slices=frozenset(slices),
        cut=frozenset(cut),
        withheld=withheld,
        ports=tuple(port for container in foreign for port in container.holding.ports),
    )


def excluded(gpu: Gpu, spec: HostSpec) -> bool:
    """Whether git excludes the card, by UUID or PCI address in any spelling."""
    pci = pci_key(gpu.pci) if gpu.pci else ""
    return any(entry == gpu.uuid or (pci and pci_key(entry) == pci) for entry in spec.gpus_excluded)


def _unfit(gpu: Gpu, spec: HostSpec) -> str:
    if spec.gpu_mode is not GpuMode.MANAGED:
        return f"gpuMode is {spec.gpu_mode}"
    if excluded(gpu, spec):
        return "excluded"
    return "" if gpu.health == "ok" else f"unhealthy: {gpu.health}"


def _held(gpu: Gpu, foreign: list[Container]) -> str:
    for container in foreign:
        holding = container.holding
        if not holding.observes and (holding.all_gpus or gpu.uuid in holding.gpus):
            return f"held by container {container.name}"
    return ""


def _whole(gpu: Gpu, spec: HostSpec) -> str:
    """Why a card cannot be given whole although nothing is wrong with it."""
    if not gpu.mig_enabled:
        return ""
    if spec.mig_create:
        return "a card with MIG enabled is never offered whole"
    return "a card with MIG enabled is never offered whole" if gpu.mig_slices else "MIG is enabled and has no slices"


def _free_slices(gpu: Gpu, foreign: list[Container]) -> list[str]:
    held = {uuid for one in foreign if not one.holding.observes for uuid in one.holding.mig}
    return [piece.uuid for piece in gpu.mig_slices if piece.uuid not in held] if gpu.mig_enabled else []


def _busy(gpu: Gpu, view: HostView) -> str:
    reason = busy_reason(view.containers, gpu)
    return f"busy: {reason}" if reason else ""
