"""How good an offer is compared with those of other hosts: a tuple, lowest wins."""

from collections.abc import Sequence
from typing import NamedTuple

from reconciler.model.claims import WHOLE
from reconciler.planner.batch_order import RHO_MEMORY, angle
from reconciler.planner.free import HostKind, NodeFree, Want

MEGA = 1024**2


class Totals(NamedTuple):
    """What a host has left: millicpus, idle CPUs, thousandths of cards, whole cards, cards with anything at all."""

    millicpus: int
    idle: int
    milli: int
    cards: int
    pieces: int


def totals_of(node: NodeFree) -> Totals:
    """The sums over one domain."""
    milli = whole = pieces = 0
    for card, count in node.cards:
        milli += card.milli * count
        whole += count if card.milli == WHOLE else 0
        pieces += count
    return Totals(max(0, node.idle * 1000 - node.quota), node.idle, milli, whole, pieces)


def sum_of(parts: Sequence[Totals]) -> Totals:
    """The sums over the domains of a host."""
    return Totals(*map(sum, zip(*parts, strict=True))) if parts else Totals(0, 0, 0, 0, 0)


class Score(NamedTuple):
    """What is compared, in this order; all counts of what is left are those of the host afterwards.

    ``off_limits`` is 1 for work without cards on a host that has some; ``spread`` counts domains beyond the first;
    ``tags`` weighs the tags that the request does not need.
    ``hunger`` is how much more CPU for each card the request takes than the host has for each free card (cards that
    lose their cores are stranded), ``waste`` what is left of a card that it opens or shares, ``appetite`` as hunger for
    memory, ``surplus`` how much less CPU it takes (cores are left without cards). ``scarce`` is the scarcity of the
    model it would take, where other work asks for that model by name. Then the fullest host wins, and the commonest
    model (``rank``).
    """

    off_limits: int
    spread: int
    tags: int
    hunger: int
    waste: int
    appetite: int
    surplus: int
    scarce: int
    milli: int
    millicpus: int
    memory: int
    rank: int
    cards: int
    cpus: int


class Taken(NamedTuple):
    """What an offer takes beyond counts: domains beyond the first, scarcity of its model, what others lose of cards."""

    spread: int
    scarce: int
    rank: int
    waste: int


def score(kind: HostKind, want: Want, before: Totals, after: Totals, memory: int, taken: Taken, cap: int) -> Score:
    """Best fit that keeps scarce hosts, whole hosts and the CPUs beside free cards for those who need them.

    ``cap`` is the proportion of CPUs beyond which more of them make a host no better (see ``cap_of``).
    """
    hunger = appetite = surplus = 0
    if want.pieces:
        milli = before.milli - after.milli
        asked, free = angle(want.millicpus, milli), angle(before.millicpus, before.milli)
        hunger, surplus = max(0, asked - free), max(0, min(free, cap) - asked)
        appetite = max(0, angle(want.memory, milli, RHO_MEMORY) - angle(memory, before.milli, RHO_MEMORY))
    return Score(
        off_limits=int(not want.pieces and kind.cards > 0),
        spread=taken.spread,
        tags=sum(weight for tag, weight in kind.tags if tag not in want.tags),
        hunger=hunger,
        waste=taken.waste,
        appetite=appetite,
        surplus=surplus,
        scarce=taken.scarce,
        milli=after.milli,
        millicpus=after.millicpus,
        memory=(memory - want.memory) // MEGA,
        rank=taken.rank,
        cards=after.cards,
        cpus=after.idle,
    )


def cap_of(wanted: tuple[int, int], fleet: tuple[int, int]) -> int:
    """The angle of all that is wanted, as (millicpus, thousandths of cards), against what the GPU hosts have.

    Where CPUs are as scarce as cards, half as much again: then no core is spare.
    """
    millicpus, milli = wanted
    scarce = 10 * millicpus * fleet[1] > 9 * fleet[0] * milli
    return angle(millicpus * 3 // 2 if scarce else millicpus, milli) if milli else 0


def words(value: Score, want: Want) -> str:
    """The score for people: what decided, best news first."""
    parts = [] if value.spread == 0 else [f"spread over {value.spread + 1} NUMA nodes"]
    if value.off_limits:
        parts.append("a GPU host for work without GPUs")
    if value.tags:
        parts.append("tags it does not need")
    if value.hunger and value.cards:
        parts.append("takes CPUs that its free GPUs may need")
    left = (
        f"leaves {value.cards} GPU{'' if value.cards == 1 else 's'} and "
        if want.pieces or value.off_limits
        else "leaves "
    )
    return ", ".join([f"{left}{value.cpus} {'CPU' if value.cpus == 1 else 'CPUs'} free", *parts])
