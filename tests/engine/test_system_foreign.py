"""The whole command on a real Engine beside containers and reconcilers that are not ours."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.reconcile_command import CARDS, Lab, app, assert_no_card_twice
from tests.fakes.waiting import wait_for

ONE = "resources: {gpus: 1}\n"


@pytest.fixture
def lab(engine: str, tmp_path: Path) -> Lab:
    """A repository and the bed's Engine."""
    return Lab(tmp_path, engine)


def request(*cards: str) -> dict[str, Any]:
    """HostConfig that asks for cards as ``docker run --gpus`` does."""
    return {"DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": list(cards), "Capabilities": [["gpu"]]}]}


@pytest.mark.parametrize(
    ("settings", "held"),
    [
        (request(CARDS[2]), CARDS[2:3]),
        (request("3", "0"), (CARDS[0], CARDS[3])),
        ({"DeviceRequests": [{"Driver": "nvidia", "Count": 2, "Capabilities": [["gpu"]]}]}, CARDS[:2]),
        ({"Runtime": "nvidia", "env": ["NVIDIA_VISIBLE_DEVICES=1,5"]}, (CARDS[1], CARDS[5])),
        ({"env": ["NVIDIA_VISIBLE_DEVICES=1,5"]}, ()),
    ],
    ids=["by id", "by index", "by count", "by variable", "a variable that nobody reads"],
)
def test_what_a_foreign_container_holds_is_not_given_out(
    lab: Lab, settings: dict[str, Any], held: tuple[str, ...]
) -> None:
    """All other cards are given out, and it runs on; then one more instance waits."""
    settings = dict(settings)
    theirs = lab.by_hand("experiment", {"Env": settings.pop("env", [])}, **settings)
    free = sorted({*CARDS[:7]} - {*held})
    lab.begin({"a.yaml": app("a", ONE, instances=len(free) + 1)})
    done = lab.run("--fail-on-pending", code=1)
    assert f"app/a/{len(free)}: pending" in done.err
    ours = lab.running()
    assert sorted(card for box in ours.values() for card in box.cards) == free
    assert next(box for box in lab.boxes() if box.id == theirs).running
    with lab.client() as client:
        client.remove_container(theirs, force=True)
    lab.run()
    assert len(lab.running()) == min(7, len(free) + 1)


def test_a_privileged_container_holds_every_card(lab: Lab) -> None:
    """Nothing that needs a card starts beside it; what needs none does. `hosts` names it on every card.

    It is created and not started: some machines do not let anybody have all capabilities.
    """
    lab.by_hand("desktop", start=False, Privileged=True)
    lab.begin({"a.yaml": app("a", ONE), "b.yaml": app("b", "resources: {cpus: 0.5, cpuPolicy: shared}\n")})
    lab.run()
    assert set(lab.running()) == {"app.b.0"}
    (view,) = lab.run("hosts", "--json").json["hosts"]
    assert {card["uuid"] for card in view["cards"]} == set(CARDS)
    assert all([one["name"] for one in card["heldBy"]] == ["desktop"] for card in view["cards"])


def test_hosts_names_who_holds_a_card_without_a_repository(lab: Lab) -> None:
    """From the Engine alone: nobody has described its cards and no driver shows them, and still it is said."""
    lab.by_hand("experiment", **request(CARDS[2]))
    shown = lab.run("hosts", "--engine", lab.engine).out
    assert f"{CARDS[2]}, which is not among the facts: container experiment (device request)" in shown
    (view,) = lab.run("hosts", "--engine", lab.engine, "--json").json["hosts"]
    assert [(one["id"], [by["name"] for by in one["heldBy"]]) for one in view["unknownCards"]] == [
        (CARDS[2], ["experiment"])
    ]


def test_hosts_names_who_holds_each_card_of_a_repository(lab: Lab) -> None:
    """Ours by instance and owner, theirs by name; what nobody holds is free."""
    lab.by_hand("experiment", **request("2"))
    lab.begin({"a.yaml": app("a", ONE + "owner: ann\n")})
    lab.run()
    (view,) = lab.run("hosts", "--json").json["hosts"]
    held = {card["uuid"]: [(one["name"], one["user"]) for one in card["heldBy"]] for card in view["cards"]}
    (ours,) = lab.running()["app.a.0"].cards
    assert {card: by for card, by in held.items() if by} == {
        CARDS[2]: [("experiment", None)],
        ours: [("app/a/0", "ann")],
    }
    assert view["unknownCards"] == []


def test_a_foreign_container_with_our_name_is_left_alone(lab: Lab) -> None:
    """The name is taken: that is said, and theirs is neither adopted nor removed."""
    theirs = lab.by_hand("lab.app.a.0.g1")
    lab.begin({"a.yaml": app("a", ONE)})
    done = lab.run(code=1)
    assert "lab.app.a.0.g1" in done.err
    assert "left alone" in done.err
    assert [(box.id, box.running) for box in lab.boxes()] == [(theirs, True)]


def test_two_runs_at_once_that_know_nothing_of_one_another(lab: Lab, tmp_path: Path) -> None:
    """With different state directories no lock keeps them apart: no card has two owners, no instance is doubled."""
    work = {f"{name}.yaml": app(name, "resources: {cpus: 2, gpus: 1}\n", instances=2) for name in "abc"}
    lab.begin(work)
    states = [tmp_path / "one", tmp_path / "two"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda state: lab.run(code=None, state=state), states))
    wait_for(lambda: lab.run("--deadline", "30s", code=None).code == 0, "everything to settle", 120)
    ours = lab.running()
    assert sorted(ours) == sorted(f"app.{name}.{number}" for name in "abc" for number in range(2))
    assert_no_card_twice(list(ours.values()))
    assert len(lab.boxes()) == 6
    lab.commit({name: text + "env: {A: b}\n" for name, text in work.items()})
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda state: lab.run(code=None, state=state), states))
    wait_for(lambda: lab.run("--deadline", "30s", code=None).code == 0, "everything to settle", 120)
    again = lab.running()
    assert sorted(again) == sorted(ours)
    assert_no_card_twice(list(again.values()))
    assert len(lab.boxes()) == 6
    assert not {box.id for box in again.values()} & {box.id for box in ours.values()}
    lab.settled()
