"""A world that is only assumed: what is copied, what is left out, and how two plans are compared."""

import json
from dataclasses import replace
from importlib.resources import files

import pytest

from reconciler.actual.facts import facts_from_json
from reconciler.model.host import GpuProcess, HostState, Link, MigSlice
from reconciler.model.snapshot import Snapshot
from reconciler.planner.whatif import AddHost, Comparison, RemoveHost, Scale, as_new, assume, compare, copy_of, new_host
from tests.fakes.world import GIB, World, app, desired, foreign, host, ident

PRESETS = {path.name.removesuffix(".json"): path for path in (files("reconciler") / "presets").iterdir()}
CARDS = {
    "a100-pcie-4": (4, 80, 208),
    "cpu": (0, 0, 64),
    "dgx-a100": (8, 80, 256),
    "hgx-h100": (8, 80, 224),
    "hgx-h200": (8, 141, 224),
    "l40s-8": (8, 45, 180),
    "t4-1": (1, 15, 8),
}


@pytest.mark.parametrize("kind", sorted(PRESETS))
def test_a_kind_of_machine_is_what_its_maker_sells(kind: str) -> None:
    """Cards, GiB of each (rounded up, as the driver keeps some), logical CPUs; nothing of one machine in it."""
    text = PRESETS[kind].read_text(encoding="utf-8")
    facts = facts_from_json(text, kind)
    memory = max((-(-gpu.memory // GIB) for gpu in facts.gpus), default=0)
    assert (len(facts.gpus), memory, len(facts.cpus)) == CARDS[kind]
    assert not {"bootId", "engineId", "warnings"} & json.loads(text).keys()


def test_every_kind_is_checked() -> None:
    """None is shipped that the table above leaves out."""
    assert sorted(PRESETS) == sorted(CARDS)


def test_cards_of_two_new_hosts_have_ids_of_their_own() -> None:
    """UUIDs are unique in the world; links lead to cards of the same host."""
    facts = facts_from_json(PRESETS["hgx-h100"].read_text(encoding="utf-8"), "hgx-h100")
    one, two = new_host("n-1", facts), new_host("n-2", facts)
    assert one.facts
    assert two.facts
    uuids = [{gpu.uuid for gpu in view.facts.gpus} for view in (one, two) if view.facts]
    assert len(uuids[0] | uuids[1]) == 16
    assert {link.peer for gpu in one.facts.gpus for link in gpu.links} == uuids[0]
    assert one.facts.gpus[0].links[0].nvlinks == 18


def test_a_copy_is_the_machine_as_it_was_bought() -> None:
    """Tags, labels and reserved parts stay; work, users, faults and the state do not."""
    view = host("a", tags=("a", "fast"), labels=(("rack", "r1"),), reserved_cpus=(0,), state=HostState.DRAINED)
    assert view.facts
    first, *rest = view.facts.gpus
    used = replace(
        first,
        memory_used=GIB,
        processes=(GpuProcess(1),),
        health="lost",
        links=(Link(rest[0].uuid, 12), Link("GPU-gone", 1)),
        mig_slices=(MigSlice("MIG-1", "1g.10gb", 0, first.uuid),),
    )
    view = replace(view, facts=replace(view.facts, gpus=(used, *rest)), containers=(foreign("x"),))
    copy = copy_of(view, "b")
    assert (copy.spec.name, copy.spec.tags, copy.spec.labels) == ("b", ("fast",), (("rack", "r1"),))
    assert (copy.spec.reserved_cpus, copy.spec.state, copy.containers) == ((0,), HostState.ACTIVE, ())
    assert copy.facts
    card = copy.facts.gpus[0]
    assert (card.memory_used, card.processes, card.health) == (0, (), "ok")
    assert card.links == (Link(copy.facts.gpus[1].uuid, 12),)
    assert [(piece.profile, piece.gpu) for piece in card.mig_slices] == [("1g.10gb", card.uuid)]
    assert copy.facts == as_new(copy.facts, "b")


def test_a_host_without_facts_cannot_be_copied() -> None:
    """Nobody knows what it is."""
    with pytest.raises(ValueError, match="a has no facts to copy"):
        copy_of(replace(host("a"), facts=None), "b")


def test_assumptions_change_what_is_wanted_and_what_is_there() -> None:
    """One after the other; hosts stay sorted."""
    views = (host("a"), host("c"))
    want = desired([app("x", 1), app("y", 1)], views)
    then, seen = assume(want, Snapshot(views), [AddHost(host("b")), RemoveHost("c"), Scale("app/x", 8)])
    assert [view.spec.name for view in seen.hosts] == [spec.name for spec in then.hosts] == ["a", "b"]
    assert {work.name: work.instances for work in then.workloads} == {"x": 8, "y": 1}


def test_a_comparison_names_what_differs() -> None:
    """A host is lost and a smaller one comes: one instance moves, one has no place, one that waited has one."""
    small, large = host("a", [(4, 16, 0)]), host("b", [(4, 32, 2)])
    work = [app("move", memory=1), app("gpu", gpus=2, memory=1), app("big", cpus=8, memory=1)]
    world = World.of(small, large)
    want = desired(work, (small, large))
    world.settle(replace(want, workloads=tuple(one for one in work if one.name == "gpu")))
    before = world.plan(want)
    then, seen = assume(want, world.snapshot(), [RemoveHost("a"), RemoveHost("b"), AddHost(host("c", [(16, 64, 0)]))])
    after = World({view.spec.name: view for view in seen.hosts}, world.memory, world.now).plan(then, allow_prune=True)
    assert compare(before, after) == Comparison(
        placed=(ident("app/big/0"),),
        unplaced=(ident("app/gpu/0"),),
        moved=((ident("app/move/0"), "a", "c"),),
        pending=(ident("app/gpu/0"),),
        pending_before=1,
    )
