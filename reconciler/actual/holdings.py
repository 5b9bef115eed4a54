"""What anybody holds: cards, slices, cores, memory and ports of a container, read from its inspect document.

Sources of the rules: Docker's device requests (``Count: n`` gives the first n cards by index and is accounted for by
nobody), CDI names (``nvidia.com/gpu=...``), and the NVIDIA container runtime, which reads ``NVIDIA_VISIBLE_DEVICES``
wherever it is the runtime and no device request was made. Containers that are ours are known by their device requests
alone: what a security profile let them see beside that (``privileged``, a device node) is no hold on a card. How much
of a card a share is, only its label says.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.actual.holders import Holder, holders
from reconciler.model.host import Gpu, HostFacts
from reconciler.model.resources import parse_cpus
from reconciler.model.snapshot import Holding
from reconciler.model.workload import Share

__all__ = ["Holder", "cpu_list", "holders", "holding_of", "observer", "pci_key", "published_ports"]

ENV = "NVIDIA_VISIBLE_DEVICES"
CDI_PREFIX = "nvidia.com/gpu="
NO_GPUS = frozenset({"", "void", "none"})
_TYPE = re.compile(r"^(?:gpu|mig)(?=[0-9])")  # CDI names of the form gpu0 and mig0:1
UNPUBLISHED = ("host", "none", "container:")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """Cards and slices that one way of asking names, and that way in words."""

    gpus: frozenset[str] = frozenset()
    mig: frozenset[str] = frozenset()
    all_gpus: bool = False
    how: str = ""

    def __or__(self, other: "Claim") -> "Claim":
        """Both together."""
        how = ", ".join(dict.fromkeys(filter(None, (self.how, other.how))))
        return Claim(self.gpus | other.gpus, self.mig | other.mig, self.all_gpus or other.all_gpus, how)

    @property
    def empty(self) -> bool:
        """Whether it names nothing."""
        return not (self.gpus or self.mig or self.all_gpus)


def holding_of(
    inspect: Json, facts: HostFacts | None = None, default_runtime: str = "", *, ours: bool = False
) -> Holding:
    """What the container was given, whether or not it runs.

    ``facts`` resolve indexes and PCI addresses to UUIDs; what they cannot resolve counts as every card, and without
    facts (where no GPU work is placed anyway) ids stand as they are. ``default_runtime`` is the Engine's.
    """
    config = inspect.get("HostConfig") or {}
    requested = _requested(config, Cards(facts))
    claim = requested if ours else requested | _taken(inspect, facts, default_runtime, asked=not requested.empty)
    return Holding(
        gpus=claim.gpus,
        mig=claim.mig,
        all_gpus=claim.all_gpus,
        cpus=cpu_list(config.get("CpusetCpus")),
        memory=max(0, config.get("Memory") or 0),
        ports=published_ports(inspect),
        how=claim.how,
    )


def observer(holding: Holding) -> Holding:
    """The same container when it is known to watch only: its published ports are all that it keeps from others."""
    return Holding(observes=True, ports=holding.ports, how="observer")


def without_cards(holding: Holding) -> Holding:
    """The same container when it sees cards and holds none."""
    return replace(holding, gpus=frozenset(), mig=frozenset(), all_gpus=False, observes=True)


def with_share(holding: Holding, share: Share) -> Holding:
    """The same container when its labels say that only a part of its card is its own: the Engine handed over all."""
    return replace(holding, gpus=holding.gpus - {share.gpu}, shares=((share.gpu, share.milli),))


def cpu_list(text: str | None) -> tuple[int, ...]:
    """CPU or node numbers of an Engine's list; empty when unset. The Engine has checked it, so nonsense is unset."""
    try:
        return parse_cpus(text or "")
    except ValueError:
        return ()


# -- cards


class Cards:
    """The cards of a host under every name that somebody may use for them."""

    def __init__(self, facts: HostFacts | None) -> None:
        self._facts = facts
        self._gpus: tuple[Gpu, ...] = facts.gpus if facts else ()

    def first(self, count: int, how: str) -> Claim:
        """The claim of ``Count: count``: cards 0 to count - 1 by index, all of them when negative."""
        if count < 0:
            return Claim(all_gpus=True, how=how)
        return self.named([str(index) for index in range(count)], how)

    def named(self, names: Iterable[str], how: str) -> Claim:
        """The claim of a list of ids: UUIDs, indexes, PCI addresses, slices, CDI names, ``all``."""
        claim = Claim()
        for name in names:
            claim |= self._one(_TYPE.sub("", name.strip().removeprefix(CDI_PREFIX)), how)
        return claim

    def _one(self, name: str, how: str) -> Claim:
        if name in NO_GPUS:
            return Claim()
        if name == "all":
            return Claim(all_gpus=True, how=how)
        if name.startswith("MIG-"):
            return self._slice(name, how)
        if name.upper().startswith("GPU-"):
            return self._uuid(name, how)
        if self._facts is None:
            return Claim(gpus=frozenset({name}), how=how)
        index, colon, piece = name.partition(":")
        if index.isdigit() and (not colon or piece.isdigit()):
            return self._index(int(index), int(piece) if colon else None, how)
        return self._pci(name, how)

    def _uuid(self, name: str, how: str) -> Claim:
        # The NVIDIA runtime takes any unambiguous beginning of a UUID, in either case.
        cards = [gpu for gpu in self._gpus if gpu.uuid.lower() == name.lower()]
        cards = cards or [gpu for gpu in self._gpus if gpu.uuid.lower().startswith(name.lower())]
        return self._whole(cards, how) if cards else Claim(gpus=frozenset({name}), how=how)

    def _index(self, index: int, piece: int | None, how: str) -> Claim:
        cards = [gpu for gpu in self._gpus if gpu.index == index]
        if not cards:
            # Cards without an index could be the one that is meant; with all indexes known it does not exist.
            unknown = any(gpu.index is None for gpu in self._gpus)
            return Claim(all_gpus=unknown, how=how if unknown else "")
        if piece is None:
            return self._whole(cards, how)
        slices = cards[0].mig_slices
        if piece < len(slices):
            return Claim(mig=frozenset({slices[piece].uuid}), how=how)
        return self._pieces(cards[0], how)

    def _pci(self, name: str, how: str) -> Claim:
        cards = [gpu for gpu in self._gpus if gpu.pci and pci_key(gpu.pci) == pci_key(name)]
        if cards:
            return self._whole(cards, how)
        return Claim(all_gpus=bool(self._gpus), how=how if self._gpus else "")

    def _slice(self, name: str, how: str) -> Claim:
        if any(one.uuid == name for gpu in self._gpus for one in gpu.mig_slices):
            return Claim(mig=frozenset({name}), how=how)
        if name.startswith("MIG-GPU-"):
            # The legacy name MIG-GPU-<uuid>/<gi>/<ci> tells the card, and facts do not tell which slice <gi> is.
            parent = name.removeprefix("MIG-").partition("/")[0]
            cards = [gpu for gpu in self._gpus if gpu.uuid.lower() == parent.lower()]
            return self._pieces(cards[0], how) if cards else Claim(gpus=frozenset({parent}), how=how)
        return Claim(mig=frozenset({name}), how=how)

    @staticmethod
    def _whole(cards: Iterable[Gpu], how: str) -> Claim:
        found = list(cards)
        slices = frozenset(one.uuid for gpu in found for one in gpu.mig_slices)
        return Claim(frozenset(gpu.uuid for gpu in found), slices, how=how)

    @staticmethod
    def _pieces(card: Gpu, how: str) -> Claim:
        """Some slice of a card: all of them, or the card itself when it has none."""
        slices = frozenset(one.uuid for one in card.mig_slices)
        return Claim(mig=slices, how=how) if slices else Claim(frozenset({card.uuid}), how=how)


def pci_key(address: str) -> tuple[int, str]:
    """A PCI address for comparing: NVML writes the domain with 8 digits in upper case, sysfs with 4 in lower case."""
    head, _, rest = address.strip().lower().partition(":")
    if ":" not in rest:
        return 0, f"{head}:{rest}"
    try:
        return int(head, 16), rest
    except ValueError:
        return -1, address


def _requested(config: Json, cards: Cards) -> Claim:
    claim = Claim()
    for request in config.get("DeviceRequests") or ():
        claim |= _request(request, cards)
    return claim


def _request(request: Json, cards: Cards) -> Claim:
    driver = request.get("Driver") or ""
    ids = request.get("DeviceIDs") or []
    if driver == "cdi":
        return cards.named([one for one in ids if one.startswith(CDI_PREFIX)], "CDI")
    asks = any("gpu" in group or "nvidia" in group for group in request.get("Capabilities") or ())
    if driver != "nvidia" and not (driver == "" and asks):
        return Claim()
    how = "device request"
    return cards.named(ids, how) if ids else cards.first(request.get("Count") or 0, how)


def _taken(inspect: Json, facts: HostFacts | None, default_runtime: str, *, asked: bool) -> Claim:
    """What a container that is not ours has without a device request."""
    config = inspect.get("HostConfig") or {}
    cards = Cards(facts)
    claim = _device_nodes(config, cards)
    if config.get("Privileged"):
        claim |= Claim(all_gpus=True, how="privileged")
    runtime = config.get("Runtime") or default_runtime
    if runtime.startswith("nvidia") and not asked:
        claim |= _legacy(inspect, cards)
    return claim


def _legacy(inspect: Json, cards: Cards) -> Claim:
    for entry in (inspect.get("Config") or {}).get("Env") or ():
        key, _, value = entry.partition("=")
        if key == ENV:
            return cards.named(value.split(","), f"{ENV}={value}")
    return Claim()


def _device_nodes(config: Json, cards: Cards) -> Claim:
    claim = Claim()
    for device in config.get("Devices") or ():
        path = device.get("PathOnHost") or ""
        number = path.removeprefix("/dev/nvidia")
        if path.rstrip("/") == "/dev":
            claim |= Claim(all_gpus=True, how=path)
        elif number != path and number.isdigit():
            claim |= cards.named([number], path)
    return claim


# -- ports


def published_ports(inspect: Json) -> tuple[tuple[str, int, str], ...]:
    """Host ports as (host ip, port, protocol), sorted; the host ip is empty for every address.

    Read from ``HostConfig``, since a stopped container shows none elsewhere; a port that the Engine was to choose is
    read from ``NetworkSettings``. Containers in the host's network publish nothing.
    """
    config = inspect.get("HostConfig") or {}
    if (config.get("NetworkMode") or "").startswith(UNPUBLISHED):
        return ()
    found: set[tuple[str, int, str]] = set()
    chosen = (inspect.get("NetworkSettings") or {}).get("Ports") or {}
    for name, bindings in (config.get("PortBindings") or {}).items():
        for binding in bindings or ():
            found.update(
                _bound(name, binding) or [one for late in chosen.get(name) or () for one in _bound(name, late)]
            )
    return tuple(sorted(found))


def _bound(name: str, binding: Json) -> list[tuple[str, int, str]]:
    port = binding.get("HostPort") or ""
    if not (port.isascii() and port.isdigit()) or port == "0":
        return []
    address = binding.get("HostIp") or ""
    return [("" if address in {"0.0.0.0", "::"} else address, int(port), name.partition("/")[2] or "tcp")]  # noqa: S104 - reads
