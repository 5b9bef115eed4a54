"""Parts of cards and slices that are not cut yet, as people and programs read them."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.host import Gpu, GpuProcess, HostFacts, HostSpec, NumaNode
from reconciler.model.plan import Action, ActionKind, Existing, Placed, Plan, Step, StepKind
from reconciler.model.snapshot import Container, Holding, HostView, Ours, Reach, Snapshot
from reconciler.model.workload import Allocation, InstanceId, Share, Slice
from reconciler.planner.explain import Explanation
from reconciler.report.document import PRECONDITIONS, allocation_json, plan_json
from reconciler.report.explain import explain_text
from reconciler.report.hosts import hosts_json, hosts_text
from reconciler.report.markdown import plan_markdown
from reconciler.report.status import status_json, status_text
from reconciler.report.text import plan_text

GIB = 1024**3
A100 = "NVIDIA A100-SXM4-80GB"
CARD, CUTTABLE = "GPU-003", "GPU-004"
FACTS = HostFacts(
    "gpu-01",
    (NumaNode(0, tuple(range(8)), 64 * GIB),),
    (
        Gpu(CARD, A100, 80 * GIB, 3, "00000000:03:00.0", numa_node=0),
        Gpu(CUTTABLE, A100, 80 * GIB, 4, "00000000:04:00.0", numa_node=0, mig_enabled=True),
    ),
)
HALF = Allocation(share=Share(CARD, 500, 40 * GIB), gpu_nodes=(0,), memory=GIB)
QUARTER = Allocation(share=Share(CARD, 250, 20 * GIB), gpu_nodes=(0,), memory=GIB)
UNCUT = Allocation(mig=(Slice(CUTTABLE, "1g.10gb", 2),), gpu_nodes=(0,), memory=GIB)
ONE = InstanceId.parse("app/one/0")


def sharer(name: str, allocation: Allocation) -> Container:
    """A running container of ours with a share."""
    ours = Ours(InstanceId.parse(f"app/{name}/0"), 1, "v1:aa", {}, allocation, owner="ann")
    share = allocation.share
    assert share is not None
    holding = Holding(shares=((share.gpu, share.milli),), how="device request")
    return Container(f"id-{name}", f"lab.app.{name}.0.g1", "running", ours=ours, holding=holding)


def seen(*containers: Container, processes: tuple[GpuProcess, ...] = ()) -> Snapshot:
    """The host with these containers, and processes on the card that can be shared."""
    gpus = (replace(FACTS.gpus[0], processes=processes), *FACTS.gpus[1:])
    view = HostView(HostSpec("gpu-01", "sim://"), Reach.KNOWN, replace(FACTS, gpus=gpus), containers)
    return Snapshot((view,))


def plan_of(action: Action) -> Plan:
    """A plan with one action, beside which one instance runs."""
    kept = (Placed(ONE, "gpu-01", "id-one", "running", HALF),)
    return Plan("lab", None, "", "sha256:0", (action,), kept=kept)


def start(allocation: Allocation, *kinds: StepKind) -> Action:
    """A start; nothing is due before a slice is cut."""
    waits = StepKind.CUT in kinds
    steps = tuple(Step(kind, "gpu-01", "n", due=not waits) for kind in kinds or (StepKind.START,))
    return Action(ActionKind.START, ONE, "gpu-01", "1 desired, 0 running", steps, allocation=allocation)


def text(action: Action, *, wide: bool = False) -> list[str]:
    """The plan's lines."""
    return plan_text(plan_of(action), seen(), width=None, color=False, wide=wide).splitlines()


# -- plans


def test_a_plan_names_the_card_and_the_part_of_it() -> None:
    """As people name cards; its id where ids are asked for."""
    assert f"      share   card 3 (0.5 of it, {A100}, NUMA 0)" in text(start(HALF))
    assert f"              {CARD}" in text(start(HALF), wide=True)
    assert not any(CARD in line for line in text(start(HALF)))


def test_a_plan_shows_what_a_share_was_before() -> None:
    """Both parts of the card."""
    old = Existing("c1", "n", "gpu-01", 1, QUARTER, state="running")
    action = replace(start(HALF), kind=ActionKind.REPLACE, old=old)
    line = f"      share   card 3 (0.25 of it, {A100}, NUMA 0) → card 3 (0.5 of it, {A100}, NUMA 0)"
    assert line in text(action)


def test_a_plan_says_which_slice_is_to_be_cut() -> None:
    """The slice, that nobody has cut it, and the step that an operator does."""
    lines = text(start(UNCUT, StepKind.CUT, StepKind.PULL, StepKind.CREATE, StepKind.START), wide=True)
    assert f"      slices  1g.10gb of card 4 at 2 (not cut yet, {A100}, NUMA 0)" in lines
    assert "      steps   later: cut, pull, create, start" in lines


@pytest.mark.parametrize(
    ("allocation", "share", "mig"),
    [
        (HALF, {"gpu": CARD, "fraction": 0.5}, []),
        (UNCUT, None, [{"gpu": CUTTABLE, "profile": "1g.10gb", "start": 2, "uuid": None}]),
    ],
)
@pytest.mark.parametrize("full", [True, False])
def test_the_document(allocation: Allocation, share: Any, mig: list[Any], *, full: bool) -> None:
    """The fraction of the card; an id of a slice only when it is cut."""
    document = allocation_json(allocation, full=full)
    assert (document["share"], document["mig"], document["gpus"]) == (share, mig, [])


def test_a_saved_plan_says_who_cuts() -> None:
    """The step has a precondition, as every kind of step has."""
    (action,) = plan_json(plan_of(start(UNCUT, StepKind.CUT)), full=True)["actions"]
    (step,) = action["steps"]
    assert (step["step"], step["due"]) == ("cut", False)
    assert "an operator cuts it" in step["precondition"]
    assert set(PRECONDITIONS) == set(StepKind)


@pytest.mark.parametrize(
    ("allocation", "cell"), [(HALF, "0.5 of 3 NUMA 0"), (UNCUT, "1g.10gb of 4 NUMA 0")], ids=["share", "slice"]
)
def test_the_comment_names_the_part_in_its_table(allocation: Allocation, cell: str) -> None:
    """Short, as for whole cards."""
    markdown = plan_markdown(plan_of(start(allocation)), seen())
    assert f"| `+` | app/one/0 | gpu-01 | {cell} | 1 desired, 0 running |" in markdown.splitlines()


def test_an_explanation_names_the_part() -> None:
    """Of the card that it runs on."""
    found = Explanation(ONE, 1, (), (), 0)
    lines = explain_text(found, plan_of(start(HALF)), seen(), width=None, color=False, wide=False).splitlines()
    assert f"    share   card 3 (0.5 of it, {A100}, NUMA 0)" in lines


def test_a_card_that_no_facts_show_is_named_by_its_id() -> None:
    """With the part all the same."""
    lines = plan_text(plan_of(start(HALF)), Snapshot(()), width=None, color=False, wide=False).splitlines()
    assert f"      share   card {CARD} (0.5 of it)" in lines


# -- status


@pytest.mark.parametrize(("wide", "cell"), [(False, "0.5 of 3 NUMA 0"), (True, f"card 3 (0.5 of it, {A100}, NUMA 0)")])
def test_status_names_the_part(wide: bool, cell: str) -> None:
    """In the column of cards."""
    shown = status_text(plan_of(start(HALF)), seen(), lambda *_: True, width=None, color=False, wide=wide)
    assert cell in next(line for line in shown.splitlines() if line.lstrip().startswith("app/one/0"))


def test_status_as_json_has_the_fraction() -> None:
    """Of the allocation that it runs with."""
    (one,) = status_json(plan_of(start(HALF)), seen(), lambda *_: True)["instances"]
    assert one["allocation"]["share"] == {"gpu": CARD, "fraction": 0.5}


# -- hosts


def test_hosts_lists_every_holder_of_a_shared_card_and_the_rest() -> None:
    """A row for each part, then what is free; the card is not counted among the free ones."""
    shown = hosts_text(seen(sharer("b", QUARTER), sharer("a", HALF)), width=None, color=False, wide=False)
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    first = next(at for at, row in enumerate(rows) if row.startswith("0 3 A100"))
    assert rows[first : first + 3] == [
        "0 3 A100-SXM4-80GB 80Gi app/a/0 (0.5 of it, owner ann)",
        "app/b/0 (0.25 of it, owner ann)",
        "0.25 free",
    ]
    assert rows[1].startswith("0 of 2 cards free, 0.25 of 1 shared card, ")


def test_hosts_shows_no_rest_of_a_card_that_is_used_up() -> None:
    """Two halves leave nothing."""
    snapshot = seen(sharer("a", HALF), sharer("b", HALF))
    shown = hosts_text(snapshot, width=None, color=False, wide=False)
    assert "0 of 1 shared card" in shown
    assert not any(line.endswith(" free") and "0 free" in line for line in shown.splitlines())
    assert hosts_json(snapshot)["hosts"][0]["cards"][0]["free"] == 0


@pytest.mark.parametrize(
    ("containers", "state", "free", "held"),
    [
        ((), "free", 1, []),
        ((sharer("b", QUARTER), sharer("a", HALF)), "shared", 0.25, [("app/a/0", 0.5), ("app/b/0", 0.25)]),
        (
            (sharer("a", HALF), Container("x", "x", "running", holding=Holding(frozenset({CARD})))),
            "held",
            0,
            [("app/a/0", 0.5), ("x", None)],
        ),
    ],
    ids=["nobody", "two shares", "a share beside a stranger"],
)
def test_hosts_as_json_says_what_is_free(
    containers: tuple[Container, ...], state: str, free: float, held: list[tuple[str, float | None]]
) -> None:
    """The free part of each card, and each holder's part; None is all that it was handed."""
    card = hosts_json(seen(*containers))["hosts"][0]["cards"][0]
    assert (card["state"], card["free"]) == (state, free)
    assert [(by["name"], by["share"]) for by in card["heldBy"]] == held


def test_a_stranger_on_a_shared_card_makes_it_busy() -> None:
    """Nothing of it is free, and both are named."""
    stranger = GpuProcess(9, "python", "bob", 10 * GIB)
    card = hosts_json(seen(sharer("a", HALF), processes=(stranger,)))["hosts"][0]["cards"][0]
    assert (card["state"], card["free"], [by["name"] for by in card["heldBy"]]) == ("busy", 0, ["app/a/0", "python"])


def test_a_share_of_a_card_that_is_gone_is_named() -> None:
    """A card that fell off the bus has a holder still."""
    lost = Allocation(share=Share("GPU-lost", 500, GIB))
    (card,) = hosts_json(seen(sharer("a", lost)))["hosts"][0]["unknownCards"]
    assert (card["id"], [(by["name"], by["share"]) for by in card["heldBy"]]) == ("GPU-lost", [("app/a/0", 0.5)])
