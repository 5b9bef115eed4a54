"""Which cards of a host go together: sets, NVLink islands and meshes."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.actual.facts import facts_from_json
from reconciler.model.host import Gpu, Link
from reconciler.planner.links import PCIE_SCORE, _scores, best_of, best_set, nvlinked, uneven

FIXTURES = Path(__file__).parent.parent / "fixtures"
P100 = [f"{one}-{other}" for quad in ("0123", "4567") for one, other in combinations(quad, 2)]
P100 += [f"{card}-{card + 4}" for card in range(4)]

Pairs = dict[tuple[int, int], tuple[int, str]]
"""NVLinks and PCIe level of each pair of positions, the lower one first."""


def cards_of(count: int, pairs: Pairs) -> list[Gpu]:
    """Cards whose links are listed by the lower position only."""
    return [
        Gpu(f"GPU-{one}", "X", 1, index=one, links=tuple(
            Link(f"GPU-{other}", *pairs[one, other]) for other in range(one + 1, count) if (one, other) in pairs
        ))
        for one in range(count)
    ]  # fmt: skip


def eight(nvlinks: dict[str, int], one_switch: Sequence[str], sockets: Sequence[Sequence[int]]) -> list[Gpu]:
    """Eight cards as the cases describe them: NVLinks and one-switch pairs by name, a socket is a host bridge."""
    pairs: Pairs = {}
    for one, other in combinations(range(8), 2):
        name = f"{one}-{other}"
        local = any({one, other} <= set(cards) for cards in sockets)
        pairs[one, other] = nvlinks.get(name, 0), "switch" if name in one_switch else "bridge" if local else "system"
    return cards_of(8, pairs)


def dgx1_p100() -> list[Gpu]:
    """Two quads of single links, joined card by card."""
    return eight(dict.fromkeys(P100, 1), ["0-2", "1-3", "4-6", "5-7"], [range(4), range(4, 8)])


def machine(name: str) -> list[Gpu]:
    """The cards of a real kind of machine."""
    return list(facts_from_json((FIXTURES / "machines" / f"{name}.json").read_text(), name).gpus)


def sixteen(nvlinks: int, order: Sequence[int] = range(16)) -> list[Gpu]:
    """Sixteen cards on a PCIe tree (pairs on a switch, fours on several, eights on a socket), in some order."""
    pairs: Pairs = {}
    for one, other in combinations(range(16), 2):
        a, b = order[one], order[other]
        level = "switch" if a // 2 == b // 2 else "switches" if a // 4 == b // 4 else "node"
        pairs[one, other] = nvlinks, level if a // 8 == b // 8 else "system"
    return cards_of(16, pairs)


def places(cards: Sequence[Gpu] | None) -> list[int] | None:
    """Their indexes."""
    return None if cards is None else [card.index for card in cards if card.index is not None]


def linked_set(cards: Sequence[Gpu], size: int) -> tuple[Gpu, ...] | None:
    """The best cards that NVLinks join, as a host whose cards are not all alike chooses them."""
    chosen = best_of(_scores(cards), tuple(range(len(cards))), size, linked=True) if size else ()
    return None if chosen is None else tuple(cards[place] for place in chosen)


def in_turn(cards: Sequence[Gpu], size: int, *, linked: bool = False) -> list[list[int] | None]:
    """The sets that requests of ``size`` get in turn, until no more are left."""
    free, out = list(cards), []
    while len(free) >= size and (chosen := linked_set(free, size) if linked else best_set(free, size)):
        out.append(places(chosen))
        free = [card for card in free if card not in chosen]
    return out


# -- machines whose sets are published


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    ("found", "case"),
    [
        pytest.param(found, case, id=f"{found['machine']}-{case['size']}-{number}")
        for found in yaml.safe_load((FIXTURES / "cases" / "links.yaml").read_text())
        for number, case in enumerate(found["cases"])
    ],
)
def test_published_sets(found: dict[str, Any], case: dict[str, Any], *, linked: bool) -> None:
    """Sets in turn are the published ones; each is joined by NVLinks, so that asking for these changes nothing."""
    cards = eight(found["nvlinks"], found["one_switch"], found["sockets"])
    free = [cards[index] for index in case.get("free", range(8))]
    assert in_turn(free, case["size"], linked=linked) == case["expect"]


@pytest.mark.parametrize("linked", [False, True])
def test_dgx1_p100(*, linked: bool) -> None:
    """With single links throughout the pairs are those of one switch."""
    assert in_turn(dgx1_p100(), 2, linked=linked) == [[0, 2], [1, 3], [4, 6], [5, 7]]


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    ("name", "size", "expect"),
    [
        ("hgx-h100", 2, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("hgx-h200", 4, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("hgx-h200-interleaved", 3, [[0, 1, 2], [4, 5, 6]]),
        ("dgx-a100-nps4", 2, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("h100-nvl-8", 2, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("h100-nvl-2", 2, [[0, 1]]),
        ("a100-pcie-4", 2, [[0, 1], [2, 3]]),
        ("dgx1-v100", 8, [list(range(8))]),
    ],
)
def test_sets_of_real_machines(name: str, size: int, expect: list[list[int]], *, linked: bool) -> None:
    """Whole NVLink pairs, and cards of one node behind an NVSwitch, where every pair is linked alike."""
    assert in_turn(machine(name), size, linked=linked)[: len(expect)] == expect


@pytest.mark.parametrize(
    ("name", "size"),
    [("h100-nvl-8", 3), ("h100-nvl-2", 3), ("l40s-8", 2), ("rtx4090-workstation", 2), ("t4-1", 2), ("cpu-only", 1)],
)
def test_no_linked_set(name: str, size: int) -> None:
    """NVLink pairs join no three cards, cards without NVLink no two, and there is no more than there is."""
    assert linked_set(machine(name), size) is None


@pytest.mark.parametrize(("name", "size"), [("l40s-8", 1), ("t4-1", 1), ("cpu-only", 0), ("h100-nvl-8", 1)])
def test_few_cards_need_no_link(name: str, size: int) -> None:
    """One card has nothing to be joined to, and no card still less."""
    assert places(linked_set(machine(name), size)) == list(range(size))


def test_linked_cards_before_near_ones() -> None:
    """Cards 0 and 1 share a board, 1 and 2 six NVLinks: together 0 and 1 would leave the link torn."""
    cards = cards_of(3, {(0, 1): (0, "board"), (1, 2): (6, "system")})
    assert places(linked_set(cards, 2)) == [1, 2]


def test_a_chain_is_joined() -> None:
    """Three cards in a row are joined through the middle one; its ends alone are not."""
    cards = cards_of(3, {(0, 1): (1, "node"), (1, 2): (1, "node"), (0, 2): (0, "node")})
    assert places(linked_set(cards, 3)) == [0, 1, 2]
    assert linked_set([cards[0], cards[2]], 2) is None


def test_a_single_card_leaves_linked_pairs_whole() -> None:
    """Of the pair 0-1 and card 3, whose partner is taken, the single card is 3."""
    free = [card for card in machine("h100-nvl-8")[:4] if card.index != 2]
    assert places(best_set(free, 1)) == places(linked_set(free, 1)) == [3]


@pytest.mark.parametrize("size", [0, 3, 5])
def test_all_or_nothing_is_in_order(size: int) -> None:
    """No card, every card and more than there are: what there is, in order."""
    assert places(best_set(machine("h100-nvl-8")[:3], size)) == list(range(min(size, 3)))


# -- how links are listed


def test_either_side_may_list_a_link() -> None:
    """The same sets come out whether the lower, the higher or both cards of a pair list it."""
    low = dgx1_p100()
    upper: list[list[Link]] = [[] for _ in low]
    for one, card in enumerate(low):
        for link in card.links:
            upper[int(link.peer.removeprefix("GPU-"))].append(replace(link, peer=f"GPU-{one}"))
    high = [replace(card, links=tuple(links)) for card, links in zip(low, upper, strict=True)]
    both = [replace(card, links=(*card.links, *links)) for card, links in zip(low, upper, strict=True)]
    assert in_turn(low, 2) == in_turn(high, 2) == in_turn(both, 2)
    assert uneven(low) == uneven(high) == uneven(both) is not None


def test_cards_cut_by_mig_are_not_linked() -> None:
    """A card with MIG enabled takes part in no linked set, however many NVLinks it has."""
    cards = machine("h100-nvl-8")
    cards[0] = replace(cards[0], mig_enabled=True)
    assert in_turn(cards, 2, linked=True) == [[2, 3], [4, 5], [6, 7]]


def test_unknown_peers_are_left_alone() -> None:
    """A link to a card that is not free, or to itself, says nothing about the others."""
    card = Gpu("GPU-0", "X", 1, index=0, links=(Link("GPU-9", 4, "node"), Link("GPU-0", 4, "node")))
    other = Gpu("GPU-1", "X", 1, index=1)
    assert linked_set([card, other], 2) is None
    assert not nvlinked([card, other])


# -- hosts whose cards are not all alike


@pytest.mark.parametrize(
    ("name", "links", "alike"),
    [
        ("hgx-h100", True, True),
        ("dgx-a100-nps4", True, True),
        ("h100-nvl-8", True, False),
        ("h100-nvl-2", True, True),
        ("a100-pcie-4", True, False),
        ("l40s-8", False, True),
        ("gh200", False, True),
        ("a100-mig-mixed", False, True),
        ("cpu-only", False, True),
        ("dgx1-v100", True, False),
    ],
)
def test_which_hosts_are_even(name: str, links: bool, alike: bool) -> None:
    """Behind NVSwitches, and without NVLinks, a count of free cards says it all; with bridges or a mesh it does not."""
    assert nvlinked(machine(name)) is links
    assert (uneven(machine(name)) is None) is alike


@pytest.mark.parametrize(
    ("free", "size", "expect"),
    [
        ((1, 2, 3), 2, (1, 3)),
        ((0, 5, 6), 2, (5, 6)),
        ((0, 5, 6), 3, None),
        ((0, 4, 5), 3, (0, 4, 5)),
        ((0, 5), 1, (0,)),
        ((), 1, None),
        (tuple(range(8)), 8, tuple(range(8))),
    ],
)
def test_linked_positions(free: tuple[int, ...], size: int, expect: tuple[int, ...] | None) -> None:
    """On the P100 mesh: the quad of 0 and that of 5 meet only card by card."""
    scores = uneven(dgx1_p100())
    assert scores is not None
    assert best_of(scores, free, size, linked=True) == expect


# -- against brute force


def graph(seed: int) -> tuple[int, Pairs]:
    """Four to eight cards with random NVLinks and PCIe levels."""
    source = random.Random(seed)  # noqa: S311
    count, density = source.randint(4, 8), source.random()
    levels = sorted(PCIE_SCORE)
    return count, {
        pair: (source.choice([1, 1, 2, 4]) if source.random() < density else 0, source.choice(levels))
        for pair in combinations(range(count), 2)
    }


def joined(chosen: Sequence[int], pairs: Pairs) -> bool:
    """Whether NVLinks among them join them all."""
    found = {chosen[0]}
    for _ in chosen:
        found |= {card for pair in combinations(chosen, 2) if pairs[pair][0] and found & set(pair) for card in pair}
    return found == set(chosen)


def divisions(free: tuple[int, ...], size: int) -> Iterator[list[tuple[int, ...]]]:
    """Every way to cut disjoint sets out of ``free``, in lexicographic order."""
    for chosen in combinations(free, size):
        rest = tuple(card for card in free if card > chosen[0] and card not in chosen)
        for others in divisions(rest, size):
            yield [chosen, *others]
    yield []


def brute(count: int, pairs: Pairs, size: int, *, linked: bool) -> list[int] | None:
    """The first set of the first division whose total is the highest."""
    best: tuple[int, list[tuple[int, ...]]] = (-1, [])
    for sets in divisions(tuple(range(count)), size):
        if linked and not all(joined(chosen, pairs) for chosen in sets):
            continue
        scores = (pairs[pair] for chosen in sets for pair in combinations(chosen, 2))
        total = sum(100 * nvlinks + PCIE_SCORE[level] for nvlinks, level in scores)
        if total > best[0]:
            best = total, sets
    return list(best[1][0]) if best[1] else None


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_against_all_divisions(seed: int, *, linked: bool) -> None:
    """The set is the first one of the best division, found by trying all of them."""
    count, pairs = graph(seed)
    cards = cards_of(count, pairs)
    for size in range(2, count + 1):
        chosen = linked_set(cards, size) if linked else best_set(cards, size)
        assert places(chosen) == brute(count, pairs, size, linked=linked), size


# -- more cards than are searched exactly


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(("size", "sets"), [(2, 8), (4, 4), (8, 2), (16, 1)])
def test_sixteen_cards_behind_switches(size: int, sets: int, *, linked: bool) -> None:
    """A DGX-2 links all pairs alike: PCIe pairs, fours and eights stay together, in order."""
    expect = [list(range(at, at + size)) for at in range(0, 16, size)]
    assert len(expect) == sets
    assert in_turn(sixteen(6), size, linked=linked) == expect


def test_sixteen_cards_in_any_order() -> None:
    """On the same tree with the cards dealt out over it, the sets are still the branches, the first card's first."""
    order = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]
    branches = sorted([place for place in range(16) if order[place] // 4 == branch] for branch in range(4))
    assert in_turn(sixteen(0, order), 4) == branches


def test_twelve_cards_with_bridges() -> None:
    """Six bridged pairs whose partners are six apart are handed out pair by pair; no three cards are joined."""
    pairs: Pairs = {pair: (12 * (pair[1] - pair[0] == 6), "node") for pair in combinations(range(12), 2)}
    cards = cards_of(12, pairs)
    assert in_turn(cards, 2) == in_turn(cards, 2, linked=True) == [[card, card + 6] for card in range(6)]
    assert linked_set(cards, 3) is None


@pytest.mark.parametrize("seed", range(10))
def test_many_cards_are_never_worse_than_in_order(seed: int) -> None:
    """A random host of 9 to 16 cards: one set of more than half of them scores at least what the first cards do."""
    source = random.Random(seed)  # noqa: S311
    count = source.randint(9, 16)
    pairs: Pairs = {pair: (source.randint(0, 2), "node") for pair in combinations(range(count), 2)}
    size = count // 2 + 1
    chosen = places(best_set(cards_of(count, pairs), size))
    assert chosen is not None
    assert sum(pairs[pair][0] for pair in combinations(chosen, 2)) >= sum(
        pairs[pair][0] for pair in combinations(range(size), 2)
    )
    assert len(set(chosen)) == size
