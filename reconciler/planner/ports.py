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


class Assigned(NamedTuple):
    """Ports that can be had: as (container port, protocol, host port), and as (host ip, host port, protocol)."""

    ports: tuple[tuple[int, str, int], ...]
    held: tuple[tuple[str, int, str], ...]


def assign(container: ContainerSpec, taken: Taken, near: Allocation | None) -> Assigned | None:
    """A host port for every port; None when one cannot be had.

    Any port means: the one it had (``near``), else the lowest free of 30000-32767.
    """
    fixed = fixed_ports(container)
    if clashes(taken, fixed) is not None:
        return None
    if container.network == "host":
        return Assigned(_sorted((port.container, port.protocol, port.container) for port in container.ports), fixed)
    given = {(port, protocol) for _, port, protocol in fixed}
    ports, held = [], []
    for port in container.ports:
        chosen = port.host if port.host is not None else _any(port, taken, given, near)
        if chosen is None:
            return None
        given.add((chosen, port.protocol))
        ports.append((port.container, port.protocol, chosen))
        held.append((port.host_ip, chosen, port.protocol))
    return Assigned(_sorted(ports), tuple(held))


def _sorted(ports: Iterable[tuple[int, str, int]]) -> tuple[tuple[int, str, int], ...]:
    return tuple(sorted(ports))


def _any(port: Port, taken: Taken, given: set[tuple[int, str]], near: Allocation | None) -> int | None:
    for chosen in _candidates(port, near):
        free = clashes(taken, [(port.host_ip, chosen, port.protocol)]) is None
        if free and (chosen, port.protocol) not in given:
            return chosen
    return None


def _candidates(port: Port, near: Allocation | None) -> Iterator[int]:
    for inside, protocol, outside in near.ports if near else ():
        if (inside, protocol) == (port.container, port.protocol):
            yield outside
    yield from range(FIRST, LAST + 1)
