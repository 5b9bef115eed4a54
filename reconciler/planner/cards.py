"""Which cards of one domain, in counts: whole ones, parts of one, slices that exist or are to be cut."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reconciler.model.claims import WHOLE
from reconciler.model.resources import GpuShare, MigSlices, WholeGpus
from reconciler.planner.free import CardFree, CardKind, Want, matches, share_milli
from reconciler.planner.links import Rows, best_of
from reconciler.planner.mig import cut_at, legal

Cards = tuple[tuple[CardFree, int], ...]

CUTTING = 100  # what creating a slice costs beyond the placements it takes: slices that exist go first


class Take(NamedTuple):
    """One card's change: its state before and after (None: nothing is left), and the slice or thousandths given."""

    place: int
    before: CardFree
    after: CardFree | None
    profile: str = ""
    start: int = 0
    milli: int = WHOLE


def kept(card: CardFree) -> CardFree | None:
    """The card, or None when nothing is left of it that anybody could ask for."""
    return card if card.milli or card.idle or (card.cut and legal(card.kind, card.busy)) else None


def stock(cards: Cards, want: Want) -> int:
    """How many matching pieces there are: cards, shares of the asked size, or slices (existing, then to be cut)."""
    gpus = want.gpus
    if isinstance(gpus, WholeGpus):
        return sum(count for card, count in cards if card.milli == WHOLE and matches(card.kind, gpus))
    if isinstance(gpus, MigSlices):
        return sum(_slices(card, gpus.profile) * count for card, count in cards)
    if isinstance(gpus, GpuShare):
        return sum(_shares(card, gpus) * count for card, count in cards)
    return 0


def _slices(card: CardFree, profile: str) -> int:
    found = sum(1 for name, _ in card.idle if name == profile)
    while card.cut and (cut := cut_at(card, profile)):
        card = card._replace(busy=card.busy | cut[2])
        found += 1
    return found


def _shares(card: CardFree, gpus: GpuShare) -> int:
    milli = share_milli(card.kind, gpus) if card.milli else None
    return card.milli // milli if milli else 0


def whole_kinds(cards: Sequence[Cards], want: Want) -> dict[CardKind, int]:
    """The free whole cards that match, by kind, most common kind of the fleet first."""
    found: dict[CardKind, int] = {}
    if isinstance(want.gpus, WholeGpus):
        for node in cards:
            for card, count in node:
                if card.milli == WHOLE and matches(card.kind, want.gpus):
                    found[card.kind] = found.get(card.kind, 0) + count
    return dict(sorted(found.items()))


def take_whole(
    place: int, cards: Cards, want: Want, count: int, kind: CardKind | None, links: Rows | None
) -> tuple[Take, ...] | None:
    """``count`` whole cards of one domain, of ``kind`` where given; linked to one another where that is asked."""
    gpus = want.gpus
    if not isinstance(gpus, WholeGpus):
        return None
    usable = [
        (card, number)
        for card, number in cards
        if card.milli == WHOLE and matches(card.kind, gpus) and kind in {None, card.kind}
    ]
    linked = bool(gpus.link) and count > 1
    if links is not None:
        chosen = best_of(links, tuple(card.island for card, _ in usable), count, linked=linked)
        return tuple(Take(place, card, None) for card, _ in usable if card.island in chosen) if chosen else None
    if linked:
        usable = [(card, number) for card, number in usable if card.island >= 0]
    takes: list[Take] = []
    for card, number in usable:
        takes += [Take(place, card, None)] * min(number, count - len(takes))
    return tuple(takes) if len(takes) == count else None


def take_share(place: int, cards: Cards, gpus: GpuShare) -> Take | None:
    """Part of the card that is left with the least; of equals, the more common kind."""
    best: tuple[tuple[int, CardFree], Take] | None = None
    for card, _ in cards:
        milli = share_milli(card.kind, gpus)
        if milli is None or milli > card.milli or not card.milli:
            continue
        rest = card.milli - milli
        take = Take(place, card, kept(card._replace(milli=rest)), milli=milli)
        key = (rest, card)
        if best is None or key < best[0]:
            best = (key, take)
    return best[1] if best else None


def take_slices(place: int, cards: Cards, gpus: MigSlices, count: int) -> tuple[Take, ...] | None:
    """Slices one after the other, each where it costs the fewest other placements; existing ones first."""
    left = dict(cards)
    takes: list[Take] = []
    for _ in range(count):
        options = [option for card in left for option in _slice_options(card, gpus.profile)]
        if not options:
            return None
        _, before, after, start = min(options, key=lambda option: option[:2])
        takes.append(Take(place, before, after, gpus.profile, start, 0))
        _swap(left, before, after)
    return tuple(takes)


def _slice_options(
    card: CardFree, profile: str
) -> Iterator[tuple[tuple[int, int, int], CardFree, CardFree | None, int]]:
    """(cost, card before, card after, start): an idle slice costs what others could have been had in its place."""
    same = [start for name, start in card.idle if name == profile]
    if same:
        start = min(same)
        rest = tuple(one for one in card.idle if one != (profile, start))
        yield (0, len(card.idle), start), card, kept(card._replace(idle=rest)), start
    elif card.cut and (cut := cut_at(card, profile)):
        lost, start, mask = cut
        cost = CUTTING + lost
        yield (cost, legal(card.kind, card.busy), -start), card, kept(card._replace(busy=card.busy | mask)), start


def _swap(cards: dict[CardFree, int], before: CardFree, after: CardFree | None) -> None:
    cards[before] -= 1
    if not cards[before]:
        del cards[before]
    if after is not None:
        cards[after] = cards.get(after, 0) + 1


def waste_of(takes: Sequence[Take]) -> int:
    """What some takes keep others from: the rest of an opened card, and the placements that a new slice costs."""
    waste = 0
    for take in takes:
        if 0 < take.milli < WHOLE and take.after is not None:
            waste += take.after.milli
        elif take.profile and (take.profile, take.start) not in take.before.idle:
            left = legal(take.after.kind, take.after.busy) if take.after else 0
            waste += CUTTING + legal(take.before.kind, take.before.busy) - left
    return waste


def after_takes(cards: Cards, takes: Sequence[Take]) -> Cards:
    """The cards of a domain once ``takes`` (those of that domain) are gone."""
    left = dict(cards)
    for take in takes:
        _swap(left, take.before, take.after)
    return tuple(sorted(left.items()))
