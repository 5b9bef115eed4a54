"""Profiles and placements of MIG slices against NVIDIA's tables, and what a new slice costs the others."""

from itertools import combinations

import pytest

from reconciler.planner.free import GIB, CardFree, CardKind
from reconciler.planner.mig import EXTRA, compute_slices, cut_at, legal, mask_at, profiles

A100_40 = CardKind(0, "NVIDIA A100-SXM4-40GB", 40 * GIB)
A100_80 = CardKind(0, "NVIDIA A100-SXM4-80GB", 80 * GIB)
H200 = CardKind(0, "NVIDIA H200", 141 * GIB)
H100 = CardKind(0, "NVIDIA H100 PCIe", 85_520_809_984)  # it reports 79.6 GiB
B200 = CardKind(0, "NVIDIA B200", 180 * GIB)
A30 = CardKind(0, "NVIDIA A30", 24 * GIB)
FULL = EXTRA - 1


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (A100_40, ["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]),
        (A100_80, ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
        (H100, ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]),
        (H200, ["1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"]),
        (B200, ["1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"]),
        (A30, ["1g.6gb", "2g.12gb", "4g.24gb"]),
    ],
)
def test_profiles_are_named_as_the_driver_names_them(kind: CardKind, names: list[str]) -> None:
    """Each card has the profiles of NVIDIA's table, and its smallest one with the media engines."""
    assert sorted(profiles(kind)) == sorted([*names, f"{names[0]}+me"])


@pytest.mark.parametrize(
    ("kind", "profile", "starts", "width"),
    [
        (A100_40, "1g.5gb", [0, 1, 2, 3, 4, 5, 6], 1),
        (A100_40, "1g.5gb+me", [0, 1, 2, 3, 4, 5, 6], 1),
        (A100_40, "1g.10gb", [0, 2, 4, 6], 2),
        (A100_40, "2g.10gb", [0, 2, 4], 2),
        (A100_40, "3g.20gb", [0, 4], 4),
        (A100_40, "4g.20gb", [0], 4),
        (A100_40, "7g.40gb", [0], 8),
        (A30, "1g.6gb", [0, 1, 2, 3], 1),
        (A30, "2g.12gb", [0, 2], 2),
        (A30, "4g.24gb", [0], 4),
    ],
)
def test_placements_are_those_of_the_table(kind: CardKind, profile: str, starts: list[int], width: int) -> None:
    """A slice starts where the table says, and takes so many memory slices from there."""
    assert [start for start, _ in profiles(kind)[profile]] == starts
    assert all((mask & FULL).bit_count() == width and mask & 1 << start for start, mask in profiles(kind)[profile])


@pytest.mark.parametrize(
    ("profile", "most"),
    [("1g.5gb", 7), ("1g.5gb+me", 1), ("1g.10gb", 4), ("2g.10gb", 3), ("3g.20gb", 2), ("4g.20gb", 1), ("7g.40gb", 1)],
)
def test_no_card_takes_more_of_a_profile_than_the_table_allows(profile: str, most: int) -> None:
    """Cut one after the other, each where it costs least, as many slices fit as the table says, and not one more."""
    busy, count = 0, 0
    while found := cut_at(CardFree(A100_40, 0, busy=busy, cut=True), profile):
        busy |= found[2]
        count += 1
    assert count == most


def test_memory_slices_alone_keep_compute_slices_legal() -> None:
    """No set of placements that do not overlap has more than the seven compute slices of a card."""
    every = [(name, mask) for name, placements in profiles(A100_40).items() for _, mask in placements]
    worst = 0
    for size in range(1, 5):
        for chosen in combinations(every, size):
            if sum(mask.bit_count() for _, mask in chosen) == (sum(mask for _, mask in chosen)).bit_count():
                worst = max(worst, sum(int(name[0]) for name, _ in chosen))
    assert worst == compute_slices(A100_40) == 7


@pytest.mark.parametrize(
    ("busy", "profile", "start"),
    [
        (0, "3g.20gb", 4),  # at 4 it leaves four 1g, at 0 three, and 4g goes only at 0
        (0, "1g.5gb", 6),  # next to the memory slice that nothing else can start in
        (0b11110000, "4g.20gb", 0),
        (0b00001111, "3g.20gb", 4),
        (0b11000000, "2g.10gb", 4),
    ],
)
def test_a_slice_is_cut_where_it_costs_the_others_least(busy: int, profile: str, start: int) -> None:
    """Of the free places the one that leaves the most placements of any profile."""
    found = cut_at(CardFree(A100_40, 0, busy=busy, cut=True), profile)
    assert found is not None
    assert found[1] == start


@pytest.mark.parametrize(
    ("busy", "profile"), [(0b1, "4g.20gb"), (0b10001, "3g.20gb"), (EXTRA, "1g.5gb+me"), (0, "9g.9gb")]
)
def test_what_overlaps_or_is_unknown_cannot_be_cut(busy: int, profile: str) -> None:
    """Every place of the profile is taken in part, or it has none."""
    assert cut_at(CardFree(A100_40, 0, busy=busy, cut=True), profile) is None


@pytest.mark.parametrize(
    ("profile", "start", "mask"),
    [
        ("3g.20gb", 4, 0b11110000),
        ("1g.5gb+me", 2, 0b100 | EXTRA),
        ("2g.10gb+me", 2, 0b1100),  # an attribute that the table does not know: the area of its base
        ("3g.20gb", 1, FULL),  # not a legal start: as if it took the card
        ("5g.99gb", 0, FULL),
    ],
)
def test_what_a_slice_takes(profile: str, start: int, mask: int) -> None:
    """Its memory slices by the table; what the table does not know takes the whole card."""
    assert mask_at(A100_40, profile, start) == mask


def test_placements_that_are_left() -> None:
    """An empty card has 25 (7 + 7 with media engines + 4 + 3 + 2 + 1 + 1), a full one none."""
    assert legal(A100_40, 0) == 25
    assert legal(A100_40, FULL) == 0
    assert legal(A100_40, EXTRA) == 18
    assert legal(A100_40, 0b10000000) == 25 - 1 - 1 - 1  # slice 7 belongs to 1g.10gb at 6, 3g at 4 and 7g
