"""Two offers beside each other: what made one win over the other, in words."""

from collections.abc import Callable, Mapping

from reconciler.model.claims import WHOLE
from reconciler.model.resources import format_memory
from reconciler.planner.score import MEGA, Score

Said = Callable[[int, int], str]


def _gpus(won: int, lost: int) -> str:
    return f"leaves {won / WHOLE:g} {'GPU' if won == WHOLE else 'GPUs'} free instead of {lost / WHOLE:g}"


def _millicpus(won: int, lost: int) -> str:
    return f"leaves {won / 1000:g} {'CPU' if won == 1000 else 'CPUs'} free instead of {lost / 1000:g}"


def _memory(won: int, lost: int) -> str:
    return f"leaves {format_memory(won * MEGA)} of memory free instead of {format_memory(lost * MEGA)}"


def _nodes(won: int, lost: int) -> str:
    return f"on {won + 1} NUMA node{'s' * (won > 0)} instead of {lost + 1}"


def _tags(won: int, _lost: int) -> str:
    return "its tags that are not needed are less scarce" if won else "has no tags that are not needed"


def _whole(won: int, lost: int) -> str:
    return f"leaves {won} whole {'GPU' if won == 1 else 'GPUs'} free instead of {lost}"


def _idle(won: int, lost: int) -> str:
    return f"leaves {won} idle {'CPU' if won == 1 else 'CPUs'} instead of {lost}"


WORDS: Mapping[str, Said] = {
    "off_limits": lambda _won, _lost: "has no GPUs, and none are asked for",
    "spread": _nodes,
    "tags": _tags,
    "scarce": lambda _won, _lost: "takes a GPU of a model that nobody asks for by name",
    "rank": lambda _won, _lost: "takes a GPU of a model that is less scarce",
    "hunger": lambda _won, _lost: "strands fewer GPUs without CPUs",
    "waste": lambda _won, _lost: "leaves less of a GPU in pieces",
    "appetite": lambda _won, _lost: "strands fewer GPUs without memory",
    "surplus": lambda _won, _lost: "strands fewer CPUs without GPUs",
    "milli": _gpus,
    "millicpus": _millicpus,
    "memory": _memory,
    "cards": _whole,
    "cpus": _idle,
}
"""What the winner is better in, by the element of the score that decided."""


def ahead(won: Score, lost: Score) -> str:
    """Why ``won`` ranks before ``lost``: the first element of the scores that differs; equal ones go by name.

    >>> ahead(Score(*[0] * 14), Score(0, 1, *[0] * 12))
    'on 1 NUMA node instead of 2'
    """
    for name, one, other in zip(Score._fields, won, lost, strict=True):
        if one != other:
            return WORDS[name](one, other)
    return "equal in everything: the first by name"


def remarks(value: Score) -> list[str]:
    """What stands against an offer beside what ``score.words`` says."""
    found = ["of a model that others ask for"] if value.scarce else []
    return [*found, "leaves part of a GPU"] if value.waste else found
