"""Parts of one card: who holds how much, what stands beside what, and whose use of a card is explained."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.actual.containers import decode
from reconciler.actual.holdings import holders
from reconciler.model.busy import busy_reason
from reconciler.model.claims import Claim, claim_for, claim_of, clash, clash_with
from reconciler.model.host import Gpu, GpuProcess, MigSlice
from reconciler.model.resources import GpuShare, WholeGpus
from reconciler.model.snapshot import Container, Holding, HostView, Reach
from reconciler.model.workload import Allocation, Share, Slice
from tests.fakes.engine import inspect_document
from tests.fakes.workloads import GIB, GPUS, HOST, app, body_of, facts

A, B = GPUS[:2]
MIB = 1024**2
HALF = Allocation(share=Share(A, 500, 40 * GIB))


def made(name: str, allocation: Allocation, **host_config: Any) -> Container:
    """A container of ours as inspect shows it; ``host_config`` is what somebody changed of it."""
    request = GpuShare(500) if allocation.share else WholeGpus(1)
    body = body_of(app(name, gpus=request), allocation)
    body["HostConfig"] |= host_config
    document = inspect_document(name, body, f"id-{name}", "2026-01-01T00:00:00Z")
    document["State"]["Status"] = "running"
    return decode(document, "lab", facts=facts())


def sharer(name: str, milli: int, card: str = A, *, holds: bool = True) -> Container:
    """Somebody with a share of a card."""
    return Container(name, name, "running", holding=Holding(shares=((card, milli),)), holds=holds)


def whole(name: str, *cards: str, **more: Any) -> Container:
    """Somebody with whole cards."""
    return Container(name, name, "running", holding=Holding(frozenset(cards), **more))


def part(milli: int, card: str = A) -> Claim:
    """A claim to a share of a card."""
    return claim_for(Allocation(share=Share(card, milli, GIB)))


# -- what is held


@pytest.mark.parametrize("allocation", [HALF, Allocation(gpus=(A,))], ids=["share", "whole"])
def test_a_container_stays_ours_when_its_card_is_cut(allocation: Allocation) -> None:
    """What was handed over is told by its ids; that the card has slices now makes no copy of the container."""
    request = GpuShare(500) if allocation.share else WholeGpus(1)
    document = inspect_document("a", body_of(app("a", gpus=request), allocation), "id-a", "2026-01-01T00:00:00Z")
    seen = facts()
    cut = replace(seen.gpus[0], mig_enabled=True, mig_slices=(MigSlice("MIG-q", "1g.10gb", 0, A),))
    box = decode(document, "lab", facts=replace(seen, gpus=(cut, *seen.gpus[1:])))
    assert box.ours is not None
    assert (box.ours.allocation, box.note) == (allocation, "")


def test_a_share_holds_its_part() -> None:
    """The Engine handed over the whole card; the label says how much of it is its own."""
    box = made("a", HALF)
    assert box.ours is not None
    assert box.ours.allocation == HALF
    assert (set(box.holding.gpus), box.holding.shares, set(box.holding.cards)) == (set(), ((A, 500),), {A})
    assert claim_of(box) == claim_for(HALF) == Claim(shares=((A, 500),))


@pytest.mark.parametrize("ids", [[B], [A, B], []])
def test_a_share_of_another_card_than_was_handed_over_is_a_copy(ids: list[str]) -> None:
    """Labels can be copied: then it is somebody else's container, and what it was handed it holds whole."""
    box = made("a", HALF, DeviceRequests=[{"Driver": "nvidia", "DeviceIDs": ids, "Capabilities": [["gpu"]]}])
    assert (box.ours, box.holding.shares) == (None, ())
    assert box.holding.gpus == frozenset(ids)
    assert "copy" in box.note


def test_a_foreign_container_holds_the_whole_card() -> None:
    """Without labels of ours nobody says how much it takes."""
    body = {"Image": "x", "HostConfig": {"DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": [A]}]}}
    box = decode(inspect_document("x", body, "id", "2026-01-01T00:00:00Z"), "lab", facts=facts())
    assert (set(box.holding.gpus), box.holding.shares) == ({A}, ())


def test_a_slice_that_is_not_cut_is_claimed_from_nobody() -> None:
    """It has no id yet."""
    assert claim_for(Allocation(mig=(Slice(A, "1g.10gb", 0),))) == Claim()


# -- what stands beside what


@pytest.mark.parametrize(
    ("claim", "other", "why"),
    [
        (part(500), sharer("x", 500), ""),
        (part(501), sharer("x", 500), f"0.5 of {A} is held by x"),
        (part(500), sharer("x", 1000, B), ""),
        (part(1), whole("x", A), f"{A} is held by x"),
        (part(1), whole("x", B), ""),
        (part(1), whole("x", all_gpus=True), f"{A} is held by x"),
        (part(1), whole("x", all_gpus=True, observes=True), ""),
        (part(501), sharer("x", 500, holds=False), ""),
        (claim_for(Allocation(gpus=(A,))), sharer("x", 1), f"{A} is held by x"),
        (claim_for(Allocation(gpus=(B,))), sharer("x", 1), ""),
    ],
    ids=[
        *("two halves", "too much", "another card", "whole card", "other whole card", "every card", "observer"),
        *("gone", "whole beside a share", "whole beside a share of another"),
    ],
)
def test_one_beside_another(claim: Claim, other: Container, why: str) -> None:
    """Shares of a card stand side by side up to all of it; a whole card and a share of it do not."""
    assert clash(claim, other) == why


@pytest.mark.parametrize(
    ("milli", "others", "why"),
    [
        (400, [sharer("x", 300), sharer("y", 300)], ""),
        (401, [sharer("x", 300), sharer("y", 300)], f"0.6 of {A} is held by x, y"),
        (401, [sharer("y", 300), sharer("x", 300)], f"0.6 of {A} is held by x, y"),
        (401, [sharer("x", 300), sharer("y", 300, B)], ""),
        (401, [sharer("x", 300), sharer("y", 300, holds=False)], ""),
        (400, [sharer("x", 300), whole("y", A)], f"{A} is held by y"),
    ],
)
def test_one_beside_several(milli: int, others: list[Container], why: str) -> None:
    """Each may fit beside the newcomer alone, and all together not."""
    assert clash_with(part(milli), others) == why


def test_shares_are_not_counted_where_nothing_is_rationed() -> None:
    """In pass-through every container has every card."""
    assert clash_with(part(600), [sharer("x", 600)], rationed=False) == ""


# -- whose use is explained


def process(memory: int, container: str | None, name: str = "python") -> GpuProcess:
    """A process on the card."""
    return GpuProcess(7, name, "alice", memory, container)


@pytest.mark.parametrize(
    ("others", "used", "processes", "reason"),
    [
        ((), 30 * GIB, (process(30 * GIB, "id-a"),), ""),
        ((), 30 * GIB, (), ""),
        ((), 30 * GIB, (process(20 * GIB, "id-a"), process(10 * GIB, None)), "python of alice (pid 7)"),
        ((), 30 * GIB, (process(30 * GIB, "id-b"),), "python of alice (pid 7)"),
        ((made("b", HALF),), 30 * GIB, (process(30 * GIB, "id-b"),), ""),
        ((), 30 * GIB, (process(30 * MIB, None, "nvidia-cuda-mps-server"),), ""),
        ((whole("w", A),), 30 * GIB, (process(10 * GIB, None),), ""),
    ],
    ids=["its own", "nobody's", "a stranger's too", "another container's", "two shares", "MPS itself", "a whole card"],
)
def test_a_share_explains_its_own_use(
    others: tuple[Container, ...], used: int, processes: tuple[GpuProcess, ...], reason: str
) -> None:
    """Beside a share there is room for others, so a stranger's use counts; beside who holds all there is none."""
    gpu = Gpu(A, "A100", 80 * GIB, memory_used=used, processes=processes)
    assert busy_reason((made("a", HALF), *others), gpu) == reason


def test_every_holder_of_a_shared_card_is_named_with_its_part() -> None:
    """And none of their processes a second time."""
    third = Allocation(share=Share(A, 300, 24 * GIB))
    gpu = Gpu(A, "A100", 80 * GIB, processes=(process(GIB, "id-a"),))
    view = HostView(HOST, Reach.KNOWN, replace(facts(), gpus=(gpu,)), (made("b", third), made("a", HALF)))
    assert [(one.kind, one.name, one.share) for one in holders(view)[A]] == [
        ("ours", "app/a/0", 500),
        ("ours", "app/b/0", 300),
    ]
