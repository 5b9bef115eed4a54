"""How good an offer is compared with those of other hosts: a tuple, lowest wins."""

from typing import NamedTuple

from reconciler.planner.free import Free, HostKind, Piece, Want

MEGA = 1024**2


class Score(NamedTuple):
    """What is compared, in this order. All counts are what stays free on the host afterwards.

    ``off_limits`` is 1 for work without cards on a host that has some; ``spread`` counts domains beyond the first;
    ``tags`` weighs the tags that the request does not need, ``rank`` the scarcity of the model it would take;
    ``stranded`` counts cards that lose their share of the CPUs.
    """

    off_limits: int
    spread: int
    tags: int
    rank: int
    stranded: int
    cards: int
    cpus: int
    memory: int


def score(free: Free, kind: HostKind, want: Want, spread: int, cards: tuple[tuple[int, Piece, int], ...]) -> Score:
    """Best fit that keeps scarce hosts, whole hosts and the CPUs beside free cards for those who need them."""
    idle = sum(node.idle for node in free.nodes)
    left = sum(node.card_count for node in free.nodes)
    taken = sum(count for _, piece, count in cards if not isinstance(piece, str))
    cpus = idle - (want.units if want.exclusive else 0)
    return Score(
        off_limits=int(not want.pieces and kind.cards > 0),
        spread=spread,
        tags=sum(weight for tag, weight in kind.tags if tag not in want.tags),
        rank=max((piece.rank for _, piece, _ in cards if not isinstance(piece, str)), default=0),
        stranded=_stranded(kind, left - taken, cpus) - _stranded(kind, left, idle),
        cards=left - taken,
        cpus=cpus,
        memory=(free.memory - want.memory) // MEGA,
    )


def _stranded(kind: HostKind, cards: int, cpus: int) -> int:
    """Free cards beyond those that the idle CPUs could serve at the host's own ratio."""
    if not kind.cards:
        return 0
    return max(0, cards - -(-cpus * kind.cards // max(1, sum(kind.cpus))))


def words(value: Score, want: Want) -> str:
    """The score for people: what decided, best news first."""
    parts = [] if value.spread == 0 else [f"spread over {value.spread + 1} NUMA nodes"]
    if value.off_limits:
        parts.append("a GPU host for work without GPUs")
    if value.tags:
        parts.append("tags it does not need")
    if value.stranded > 0:
        parts.append(f"strands {value.stranded} GPU{'s' if value.stranded > 1 else ''}")
    left = (
        f"leaves {value.cards} GPU{'' if value.cards == 1 else 's'} and "
        if want.pieces or value.off_limits
        else "leaves "
    )
    return ", ".join([f"{left}{value.cpus} {'CPU' if value.cpus == 1 else 'CPUs'} free", *parts])
