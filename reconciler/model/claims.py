"""What one needs for itself, and whether another holds it."""

from dataclasses import dataclass

from reconciler.model.snapshot import Container
from reconciler.model.workload import Allocation


@dataclass(frozen=True, slots=True)
class Claim:
    """Cards and slices by UUID, cores of its own, and ports as (host ip, port, protocol); an empty ip is every one."""

    cards: frozenset[str] = frozenset()
    cores: frozenset[int] = frozenset()
    ports: frozenset[tuple[str, int, str]] = frozenset()


def claim_of(container: Container) -> Claim:
    """What a container has to itself. In the host's network its ports are published nowhere: they were given to it."""
    holding = container.holding
    given = container.ours.allocation.ports if container.ours and not holding.ports else ()
    ports = {*holding.ports, *(("", host, protocol) for _, protocol, host in given)}
    cores = holding.cpus if not container.limits.nano_cpus else ()  # a quota marks shared work
    return Claim(holding.gpus | holding.mig, frozenset(cores), frozenset(ports))


def claim_for(allocation: Allocation) -> Claim:
    """What an allocation will need to itself."""
    cards = {*allocation.gpus, *(piece.uuid for piece in allocation.mig)}
    cores = allocation.cpus if allocation.exclusive else ()
    ports = {("", host, protocol) for _, protocol, host in allocation.ports}
    return Claim(frozenset(cards), frozenset(cores), frozenset(ports))


def clash(claim: Claim, other: Container, *, rationed: bool = True) -> str:
    """What of ``claim`` another container holds now, in words; empty when nothing. Cards count where ``rationed``."""
    if not other.holds:
        return ""
    theirs = other.holding
    shared = claim.cards if theirs.all_gpus else claim.cards & (theirs.gpus | theirs.mig)
    if rationed and shared and not theirs.observes:
        return f"{min(shared)} is held by {other.name}"
    cores = claim.cores & claim_of(other).cores
    if cores:
        return f"CPU {min(cores)} is held by {other.name}"
    taken = claim_of(other).ports
    for address, port, protocol in sorted(claim.ports):
        for at, number, how in taken:
            if (port, protocol) == (number, how) and (address == at or not address or not at):
                return f"port {port}/{protocol} is held by {other.name}"
    return ""
