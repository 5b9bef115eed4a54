"""Host ports: which are asked, which are taken, which one is given where any will do."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from reconciler.model.workload import Allocation, ContainerSpec, Port

FIRST, LAST = 30000, 32767  # Kubernetes' node ports: below the kernel's own ephemeral range
EVERYWHERE = frozenset({"", "0.0.0.0", "::", "*"})  # noqa: S104 - compared with, never bound to

Taken = Mapping[tuple[int, str], tuple[str, ...]]
"""Addresses on which a (port, protocol) is taken."""


def fixed_ports(container: ContainerSpec) -> tuple[tuple[str, int, str], ...]:
    """The (host ip, port, protocol) that only will do. On the host's network the container's own ports are held."""
    if container.network == "host":
        return tuple(("", port.container, port.protocol) for port in container.ports)
    return tuple((port.host_ip, port.host, port.protocol) for port in container.ports if port.host is not None)


def clashes(taken: Taken, wanted: Iterable[tuple[str, int, str]]) -> int | None:
    """The first port that is taken on the same address or on all of them."""
    for ip, port, protocol in wanted:
        for other in taken.get((port, protocol), ()):
            if ip == other or ip in EVERYWHERE or other in EVERYWHERE:
                return port
    return None


def clash_free(one: tuple[str, int, str], other: tuple[str, int, str]) -> bool:
    """Whether two ports, as (host ip, port, protocol), can be had on one host."""
    return clashes({one[1:]: (one[0],)}, (other,)) is None


class Assigned(NamedTuple):
    """Ports that can be had: as (container port, protocol, host port), and as (host ip, host port, protocol)."""

    ports: tuple[tuple[int, str, int], ...]
    held: tuple[tuple[str, int, str], ...]


NONE = Assigned((), ())


def assign(container: ContainerSpec, taken: Taken, near: Allocation | None) -> Assigned | None:
    """A host port for every port; None when one cannot be had.

    Any port means: the one it had (``near``), else the lowest free of 30000-32767.
    """
    if not container.ports:
        return NONE
    direct = container.network == "host"
    own: dict[tuple[int, str], tuple[str, ...]] = {}
    ports, held = [], []
    for port in sorted(container.ports, key=lambda port: port.host is None):
        ip = "" if direct else port.host_ip
        for chosen in [port.container] if direct else _candidates(port, near):
            wanted = [(ip, chosen, port.protocol)]
            if clashes(taken, wanted) is None and clashes(own, wanted) is None:
                break
        else:
            return None
        own[chosen, port.protocol] = (*own.get((chosen, port.protocol), ()), ip)
        ports.append((port.container, port.protocol, chosen))
        held.append((ip, chosen, port.protocol))
    return Assigned(tuple(sorted(ports)), tuple(held))


def _candidates(port: Port, near: Allocation | None) -> Iterator[int]:
    if port.host is not None:
        yield port.host
        return
    for inside, protocol, outside in near.ports if near else ():
        if (inside, protocol) == (port.container, port.protocol):
            yield outside
    yield from range(FIRST, LAST + 1)
