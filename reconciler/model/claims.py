"""What one needs for itself, and whether others hold it."""

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.model.snapshot import Container
from reconciler.model.workload import Allocation

WHOLE = 1000
"""Thousandths of a card that its shares may add up to."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Cards and slices by UUID, cores of its own, and ports as (host ip, port, protocol); an empty ip is every one.

    ``shares`` are parts of cards, as (UUID, thousandths): others may have the rest.
    """

    cards: frozenset[str] = frozenset()
    cores: frozenset[int] = frozenset()
    ports: frozenset[tuple[str, int, str]] = frozenset()
    shares: tuple[tuple[str, int], ...] = ()


def claim_of(container: Container) -> Claim:
    """What a container has to itself. In the host's network its ports are published nowhere: they were given to it."""
    holding = container.holding
    given = container.ours.allocation.ports if container.ours and not holding.ports else ()
    ports = {*holding.ports, *(("", host, protocol) for _, protocol, host in given)}
    cores = holding.cpus if not container.limits.nano_cpus else ()  # a quota marks shared work
    return Claim(holding.gpus | holding.mig, frozenset(cores), frozenset(ports), holding.shares)


def claim_for(allocation: Allocation) -> Claim:
    """What an allocation will need to itself; a slice that is not cut yet is nobody's."""
    cards = {*allocation.gpus, *(piece.uuid for piece in allocation.mig if piece.uuid)}
    cores = allocation.cpus if allocation.exclusive else ()
    ports = {("", host, protocol) for _, protocol, host in allocation.ports}
    share = allocation.share
    return Claim(frozenset(cards), frozenset(cores), frozenset(ports), ((share.gpu, share.milli),) if share else ())


def clash(claim: Claim, other: Container, *, rationed: bool = True) -> str:
    """What of ``claim`` another container holds now, in words; empty when nothing. Cards count where ``rationed``."""
    return clash_with(claim, (other,), rationed=rationed)


def clash_with(claim: Claim, others: Iterable[Container], *, rationed: bool = True) -> str:
    """What of ``claim`` the others hold now, one by one or the shares of a card together; empty when nothing."""
    holders = [other for other in others if other.holds]
    for other in holders:
        why = (_card_clash(claim, other) if rationed else "") or _other_clash(claim, other)
        if why:
            return why
    return _overfull(claim, holders) if rationed else ""


def _card_clash(claim: Claim, other: Container) -> str:
    """A card or slice that cannot be had beside ``other``; parts of one card can stand side by side."""
    theirs, parts = other.holding, {card for card, _ in claim.shares}
    whole = claim.cards | parts if theirs.all_gpus else (claim.cards & theirs.cards) | (parts & theirs.gpus)
    return f"{min(whole)} is held by {other.name}" if whole and not theirs.observes else ""


def _other_clash(claim: Claim, other: Container) -> str:
    theirs = claim_of(other)
    cores = claim.cores & theirs.cores
    if cores:
        return f"CPU {min(cores)} is held by {other.name}"
    for address, port, protocol in sorted(claim.ports):
        for at, number, how in theirs.ports:
            if (port, protocol) == (number, how) and (address == at or not address or not at):
                return f"port {port}/{protocol} is held by {other.name}"
    return ""


def _overfull(claim: Claim, holders: list[Container]) -> str:
    """A card of which shares beside the claimed one leave too little."""
    for card, milli in claim.shares:
        given = {other.name: _part(other, card) for other in holders if _part(other, card)}
        taken = sum(given.values())
        if taken + milli > WHOLE:
            return f"{taken / WHOLE:g} of {card} is held by {', '.join(sorted(given))}"
    return ""


def _part(container: Container, card: str) -> int:
    return sum(milli for uuid, milli in container.holding.shares if uuid == card)
