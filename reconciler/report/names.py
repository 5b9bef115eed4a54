"""Cards, CPUs, memory, times and counts as people name them."""

from collections.abc import Iterable

from reconciler.model.claims import WHOLE
from reconciler.model.host import Gpu
from reconciler.model.resources import format_cpus, format_memory
from reconciler.model.snapshot import Snapshot
from reconciler.model.workload import Allocation, Share, Slice


class Cards:
    """Every card of a snapshot, by UUID; UUIDs are unique in the world, indexes on one host."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._gpus = {gpu.uuid: gpu for view in snapshot.hosts if view.facts for gpu in view.facts.gpus}

    def whole(self, uuids: Iterable[str]) -> str:
        """``0-1 (NVIDIA A100-SXM4-80GB, NUMA 0), 4 (NVIDIA A100-SXM4-80GB, NUMA 1)``."""
        groups: dict[str, list[str]] = {}
        for uuid in uuids:
            groups.setdefault(self._kind(uuid), []).append(uuid)
        return ", ".join(f"{self._labels(group)}{kind}" for kind, group in groups.items())

    def slices(self, slices: Iterable[Slice]) -> str:
        """``1g.10gb of card 0 at 2 (NVIDIA A100-SXM4-80GB, NUMA 0)``; one that is not cut yet is said to be so."""
        return ", ".join(
            f"{one.profile} of card {self.label(one.gpu)} at {one.start}"
            f"{self._kind(one.gpu, '' if one.uuid else 'not cut yet')}"
            for one in slices
        )

    def share(self, share: Share | None) -> str:
        """``card 3 (0.5 of it, NVIDIA A100-SXM4-80GB, NUMA 0)``; empty for none."""
        if share is None:
            return ""
        return f"card {self.label(share.gpu)}{self._kind(share.gpu, f'{fraction_name(share.milli)} of it')}"

    def brief(self, allocation: Allocation) -> str:
        """``0-1 NUMA 0``, ``1g.10gb of 3 NUMA 1``, ``0.5 of 3 NUMA 1``: for a table."""
        given = self.labels(allocation)
        return " ".join(filter(None, (given, nodes_name(allocation.gpu_nodes) if given else "")))

    def labels(self, allocation: Allocation) -> str:
        """The same without the node: ``0-1``, ``1g.10gb of 3``."""
        parts = [f"{one.profile} of {self.label(one.gpu)}" for one in allocation.mig]
        parts += [self._labels(list(allocation.gpus))] if allocation.gpus else []
        share = allocation.share
        parts += [f"{fraction_name(share.milli)} of {self.label(share.gpu)}"] if share else []
        return ", ".join(parts)

    def label(self, uuid: str) -> str:
        """The index of a card, else its PCI address, else its UUID."""
        return card_label(self._gpus.get(uuid), uuid)

    def _kind(self, uuid: str, note: str = "") -> str:
        gpu = self._gpus.get(uuid)
        kind = (gpu.model, numa_name(gpu.numa_node)) if gpu else ()
        notes = [*filter(None, (note,)), *kind]
        return f" ({', '.join(notes)})" if notes else ""

    def _labels(self, uuids: list[str]) -> str:
        gpus = [self._gpus.get(uuid) for uuid in uuids]
        indexes = [gpu.index for gpu in gpus if gpu is not None and gpu.index is not None]
        if len(indexes) == len(uuids):
            return format_cpus(indexes)
        return ", ".join(card_label(gpu, uuid) for gpu, uuid in zip(gpus, uuids, strict=True))


def card_label(gpu: Gpu | None, uuid: str) -> str:
    """The index of a card, else its PCI address, else its UUID."""
    if gpu is None:
        return uuid
    return gpu.pci or uuid if gpu.index is None else str(gpu.index)


def fraction_name(milli: int) -> str:
    """Thousandths of a card as people write a share: ``0.5``.

    >>> fraction_name(250)
    '0.25'
    """
    return f"{milli / WHOLE:g}"


def numa_name(node: int | None) -> str:
    """``NUMA 0``; an unknown node is said to be unknown."""
    return "NUMA unknown" if node is None else f"NUMA {node}"


def nodes_name(nodes: Iterable[int]) -> str:
    """``NUMA 0-1``; empty for none."""
    text = format_cpus(nodes)
    return f"NUMA {text}" if text else ""


def cpus_name(allocation: Allocation) -> str:
    """``2-9 (NUMA 0)``, ``0-63 shared``; empty when it has no cpuset."""
    if not allocation.cpus:
        return ""
    notes = [nodes_name(allocation.cpu_nodes)] if allocation.exclusive else ["shared"]
    inside = ", ".join(filter(None, notes))
    return f"{format_cpus(allocation.cpus)} ({inside})" if inside else format_cpus(allocation.cpus)


def memory_name(allocation: Allocation) -> str:
    """``64Gi``, ``64Gi bound to NUMA 0``; empty when unlimited."""
    if not allocation.memory:
        return ""
    bound = nodes_name(allocation.memory_nodes)
    return format_memory(allocation.memory) + (f" bound to {bound}" if bound else "")


def ports_name(allocation: Allocation) -> str:
    """``8000/tcp on 30000``."""
    return ", ".join(f"{port}/{protocol} on {host}" for port, protocol, host in allocation.ports)


def since_name(stamp: str) -> str:
    """An Engine's time to the second, ``2026-11-30 10:00:01 UTC``; empty for its zero value.

    >>> since_name("2026-11-30T10:00:01.123456789Z")
    '2026-11-30 10:00:01 UTC'
    """
    if not stamp or stamp.startswith("0001-"):
        return ""
    day, _, clock = stamp.partition("T")
    zone = " UTC" if clock.endswith("Z") else ""
    return f"{day} {clock.removesuffix('Z').partition('.')[0]}{zone}".strip()


def clock_name(stamp: str) -> str:
    """The same without its zone, for a column whose head names it."""
    return since_name(stamp).removesuffix(" UTC")


def count_name(count: int, noun: str) -> str:
    """``1 card``, ``2 cards``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def model_name(model: str) -> str:
    """A card's model without its maker, for a table: ``A100-SXM4-80GB``."""
    return model.removeprefix("NVIDIA ")


def short(identifier: str) -> str:
    """The first 12 characters of a commit or container id."""
    return identifier[:12]
