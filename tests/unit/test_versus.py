"""Why one offer ranks before another, by the element of the score that decided."""

import pytest

from reconciler.planner.score import Score
from reconciler.planner.versus import ahead

NOTHING = Score(*[0] * len(Score._fields))


@pytest.mark.parametrize(
    ("won", "lost", "words"),
    [
        ({}, {"off_limits": 1}, "has no GPUs, and none are asked for"),
        ({}, {"spread": 1}, "on 1 NUMA node instead of 2"),
        ({"spread": 1}, {"spread": 3}, "on 2 NUMA nodes instead of 4"),
        ({}, {"tags": 2}, "has no tags that are not needed"),
        ({"tags": 1}, {"tags": 2}, "its tags that are not needed are less scarce"),
        ({}, {"rank": 1}, "takes a GPU of a model that is less scarce"),
        ({}, {"hunger": 5}, "strands fewer GPUs without CPUs"),
        ({}, {"waste": 500}, "leaves less of a GPU in pieces"),
        ({}, {"surplus": 5}, "strands fewer CPUs without GPUs"),
        ({}, {"milli": 3000}, "leaves 0 GPUs free instead of 3"),
        ({"milli": 1000}, {"milli": 1500}, "leaves 1 GPU free instead of 1.5"),
        ({"millicpus": 1000}, {"millicpus": 7500}, "leaves 1 CPU free instead of 7.5"),
        ({"memory": 512}, {"memory": 2048}, "leaves 512Mi of memory free instead of 2Gi"),
        ({"cards": 1}, {"cards": 2}, "leaves 1 whole GPU free instead of 2"),
        ({}, {"cpus": 4}, "leaves 0 idle CPUs instead of 4"),
        ({}, {}, "equal in everything: the first by name"),
        ({"cpus": 9}, {"spread": 1, "cpus": 1}, "on 1 NUMA node instead of 2"),
    ],
)
def test_the_first_difference_decides(won: dict[str, int], lost: dict[str, int], words: str) -> None:
    """And is told in words."""
    assert ahead(NOTHING._replace(**won), NOTHING._replace(**lost)) == words
