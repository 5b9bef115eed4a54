"""Mutated spec files: each is accepted, or refused with a position."""

import time

import pytest

from tests.fakes.mutations import GOOD, MUTATIONS, judge, mutated

COUNT = 1_500
BATCH = 300
SLOWEST = 5.0  # seconds of CPU time for one file, on a machine that does other things too


@pytest.mark.parametrize("text", GOOD)
def test_what_is_mutated_is_good(text: str) -> None:
    """A refusal is due to the mutation alone."""
    assert judge(text.encode()).problems == ()


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_mutated_files_are_accepted_or_refused_with_a_position(first: int) -> None:
    """No other exception, no hang, no message without a place or with control characters."""
    refused = 0
    for number in range(first, first + BATCH):
        name, data = mutated(number)
        began = time.process_time()
        verdict = judge(data)
        assert verdict.unplaced == (), (number, name)
        assert time.process_time() - began < SLOWEST, (number, name)
        refused += bool(verdict.problems)
    assert BATCH / 2 < refused < BATCH


def test_every_mutation_is_met() -> None:
    """Fifteen hundred files hold some of each."""
    assert {mutated(number)[0] for number in range(len(MUTATIONS))} == set(MUTATIONS)
