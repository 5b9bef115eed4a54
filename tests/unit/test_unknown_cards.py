"""Cards that somebody was given and that the facts do not show are still named with their holder."""

import pytest

from reconciler.actual.holders import unknown_cards
from reconciler.model.host import HostFacts
from reconciler.model.snapshot import Container, Holding, HostView, Reach, Snapshot
from reconciler.report.hosts import hosts_json, hosts_text
from tests.fakes.workloads import GPUS, HOST, SLICES, facts

LOST = "GPU-lost-0000"


def seen(known: HostFacts | None, holding: Holding, *, holds: bool = True) -> HostView:
    """A host with one foreign container."""
    box = Container("c1", "experiment", "running", holding=holding, holds=holds)
    return HostView(HOST, Reach.KNOWN, known, (box,))


@pytest.mark.parametrize(
    ("view", "named"),
    [
        (seen(facts(), Holding(frozenset({GPUS[0], LOST}), frozenset(SLICES))), [LOST]),
        (seen(facts(), Holding(frozenset(GPUS), frozenset(SLICES))), []),
        (seen(facts(), Holding(all_gpus=True)), []),
        (seen(None, Holding(frozenset({LOST}))), [LOST]),
        (seen(None, Holding(all_gpus=True, how="device request")), ["all"]),
        (seen(None, Holding(all_gpus=True, how="privileged")), []),
        (seen(facts(), Holding(frozenset({LOST})), holds=False), []),
        (seen(facts(), Holding(frozenset({LOST}), observes=True)), []),
    ],
    ids=["lost", "all known", "every known card", "no facts", "every card", "privileged", "exited", "observer"],
)
def test_what_is_held_and_not_known(view: HostView, named: list[str]) -> None:
    """By the id that was handed over; privileged alone asks for no card, and observers hold none."""
    assert list(unknown_cards(view)) == named
    (shown,) = hosts_json(Snapshot((view,)))["hosts"]
    assert [one["id"] for one in shown["unknownCards"]] == named
    text = hosts_text(Snapshot((view,)), width=None, color=False, wide=False)
    assert text.count("which is not among the facts: container experiment") == len(named)
