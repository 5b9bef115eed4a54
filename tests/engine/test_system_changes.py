"""The whole command on a real Engine: what becomes of running containers when git changes."""

import time
from pathlib import Path

import pytest

from reconciler.model.resources import parse_cpus
from tests.engine.dockerd import Bed
from tests.fakes.container_events import moments
from tests.fakes.reconcile_command import CARDS, Box, Lab, app, assert_no_card_twice, facts, host

QUICK_CHECK = "readiness: {exec: ['test', '-e', '/ready'], interval: 1s, timeout: 5s, retries: 2}\n"
SHARED = "resources: {cpus: 0.5, cpuPolicy: shared}\n"


@pytest.fixture
def lab(engine: str, tmp_path: Path) -> Lab:
    """A repository and the bed's Engine."""
    return Lab(tmp_path, engine)


def only(lab: Lab) -> Box:
    """The one container that is there."""
    (box,) = lab.boxes()
    return box


def replacements(lab: Lab) -> list[tuple[str, str]]:
    """Each replacement that is planned, with its order."""
    return [(one["instance"], one["order"]) for one in lab.plan()["actions"] if one["action"] == "replace"]


def happened(lab: Lab, instance: str, since: float) -> list[str]:
    """What became of the containers of one instance, in order: ``VERB gN``."""
    return [str(moment) for moment in moments(lab, since) if moment.instance == instance]


def test_an_image_edit_replaces_start_first_where_there_is_room(lab: Lab, bed: Bed) -> None:
    """The old one runs until the new one is healthy; the new one has other cards, as the plan said."""
    bed.import_image("bb:2")
    begun = time.time()
    work = app("svc", "args: [sh, -c, 'sleep 1; touch /ready; sleep 100000']\nresources: {gpus: 2}\n" + QUICK_CHECK)
    lab.begin({"svc.yaml": work})
    lab.run()
    old = only(lab)
    lab.commit({"svc.yaml": work + "image: bb:2\n"})
    planned = lab.plan()["actions"][0]
    assert (planned["action"], planned["order"]) == ("replace", "start-first")
    assert planned["changes"] == [{"field": "image", "old": "bb:1", "new": "bb:2"}]
    lab.run()
    new = only(lab)
    assert new.document["Config"]["Image"] == "bb:2"
    assert list(new.cards) == planned["allocation"]["gpus"]
    assert not set(new.cards) & set(old.cards)
    assert new.document["State"]["Health"]["Status"] == "healthy"
    assert happened(lab, "app.svc.0", begun) == [
        "create g1",
        "start g1",
        "create g2",
        "start g2",
        "die g1",
        "destroy g1",
    ]
    lab.settled()


def test_an_image_edit_replaces_stop_first_where_there_is_none(lab: Lab) -> None:
    """With all cards held the old one is stopped before the new one starts, on the same cards."""
    begun = time.time()
    work = app("svc", "resources: {gpus: 7}\n")
    lab.begin({"svc.yaml": work})
    lab.run()
    old = only(lab)
    lab.commit({"svc.yaml": work + "env: {A: b}\n"})
    assert replacements(lab) == [("app/svc/0", "stop-first")]
    lab.run()
    new = only(lab)
    assert new.running
    assert set(new.cards) == set(old.cards) == set(CARDS[:7])
    assert happened(lab, "app.svc.0", begun) == [
        "create g1",
        "start g1",
        "create g2",
        "die g1",
        "start g2",
        "destroy g1",
    ]
    lab.settled()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("command: ['false']\n", "code 1"),
        ("command: [nowhere]\n", "nowhere"),
        ("args: [sleep, '5000']\n" + QUICK_CHECK, "unhealthy"),
        ("image: bb:none\npull: never\n", "bb:none"),
    ],
    ids=["exits at once", "cannot start", "never gets healthy", "no such image"],
)
@pytest.mark.parametrize("cards", [2, 7], ids=["start-first", "stop-first"])
def test_a_replacement_that_fails_leaves_the_old_one(lab: Lab, cards: int, change: str, says: str) -> None:
    """It runs on (or again): the same container. What failed is said, exit code 1, and nothing else is left."""
    work = app("svc", f"resources: {{gpus: {cards}}}\n")
    lab.begin({"svc.yaml": work})
    lab.run()
    old = only(lab)
    lab.commit({"svc.yaml": work + change})
    failed = lab.run(code=1)
    assert says in failed.err, failed.err
    left = [box for box in lab.boxes() if box.state != "created"]
    assert [(box.id, box.running) for box in left] == [(old.id, True)]
    assert left[0].host["RestartPolicy"]["Name"] == "always"
    if cards == 2:
        assert left[0].document["State"]["StartedAt"] == old.document["State"]["StartedAt"]
    lab.commit({"svc.yaml": work})
    lab.run()
    assert only(lab).id == old.id
    lab.settled()


def test_what_leaves_git_is_stopped_and_the_rest_is_left_alone(lab: Lab) -> None:
    """A deleted file: its container is gone, its neighbour has not been touched."""
    lab.begin({"a.yaml": app("a", "resources: {gpus: 1}\n"), "b.yaml": app("b", "resources: {gpus: 1}\n")})
    lab.run()
    kept = lab.running()["app.a.0"]
    lab.commit({"b.yaml": None})
    lab.run()
    assert only(lab).document["State"] == kept.document["State"]
    lab.settled()


def test_scaling_up_and_down(lab: Lab) -> None:
    """Up adds instances on free cards, down takes the highest numbers away; those between are the same containers."""
    lab.begin({"a.yaml": app("a", "resources: {gpus: 1}\n", instances=2)})
    lab.run()
    two = lab.running()
    lab.commit({"a.yaml": app("a", "resources: {gpus: 1}\n", instances=4)})
    lab.run()
    four = lab.running()
    assert sorted(four) == [f"app.a.{number}" for number in range(4)]
    assert_no_card_twice(list(four.values()))
    assert {name: four[name].id for name in two} == {name: box.id for name, box in two.items()}
    lab.commit({"a.yaml": app("a", "resources: {gpus: 1}\n", instances=1)})
    lab.run()
    assert only(lab).id == two["app.a.0"].id
    lab.settled()


@pytest.mark.parametrize(
    ("fields", "field", "value"),
    [
        ("resources: {cpus: 2, gpus: 1, memory: 96Mi}\n", "Memory", 96 * 1024**2),
        ("resources: {cpus: 2, gpus: 1, memory: 32Mi}\n", "Memory", 32 * 1024**2),
        ("resources: {cpus: 4, gpus: 1}\n", "CpusetCpus", 4),
        ("resources: {cpus: 1, gpus: 1}\n", "CpusetCpus", 1),
        ("resources: {cpus: 2, gpus: 1, pids: 77}\n", "PidsLimit", 77),
        ("resources: {cpus: 2, gpus: 1}\nrestart: on-failure\n", "RestartPolicy", "on-failure"),
    ],
    ids=["more memory", "less memory", "more cores", "fewer cores", "pids", "restart"],
)
def test_limits_change_in_place(lab: Lab, fields: str, field: str, value: object) -> None:
    """The container and its process stay; the Engine shows the new limit."""
    lab.begin({"a.yaml": app("a", "resources: {cpus: 2, gpus: 1}\n")})
    lab.run()
    before = only(lab)
    lab.commit({"a.yaml": app("a", fields)})
    assert [one["action"] for one in lab.plan()["actions"]] == ["update"]
    lab.run()
    after = only(lab)
    assert (after.id, after.document["State"]["Pid"]) == (before.id, before.document["State"]["Pid"])
    shown = after.host[field]
    if field == "CpusetCpus":
        shown = len(parse_cpus(shown))
    assert (shown["Name"] if field == "RestartPolicy" else shown) == value
    lab.settled()


def test_a_config_file_that_changes_is_put_into_a_new_container(lab: Lab, bed: Bed) -> None:
    """Its content and mode are there inside; the old container is gone."""
    work = app("a", "configs: [{file: app.conf, container: /etc/app/app.conf, mode: '0440'}]\n" + SHARED)
    lab.begin({"a.yaml": work, "app.conf": "one\n"})
    lab.run()
    old = only(lab)
    assert bed.inside(old.id, "cat", "/etc/app/app.conf") == "one\n"
    assert bed.inside(old.id, "stat", "-c", "%a %u", "/etc/app/app.conf") == "440 0\n"
    lab.commit({"app.conf": "two\n"})
    assert [one["changes"][0]["field"].split("[")[0] for one in lab.plan()["actions"]] == ["configs"]
    lab.run()
    new = only(lab)
    assert new.id != old.id
    assert bed.inside(new.id, "cat", "/etc/app/app.conf") == "two\n"
    lab.settled()


def test_a_container_that_exited_is_started_again(lab: Lab) -> None:
    """Somebody stopped it by hand: the same container runs again."""
    lab.begin({"a.yaml": app("a", "resources: {gpus: 1}\n")})
    lab.run()
    before = only(lab)
    with lab.client() as client:
        client.stop(before.id, timeout=0)
    lab.run()
    after = only(lab)
    assert (after.id, after.running) == (before.id, True)
    lab.settled()


def test_a_renamed_container_gets_its_name_back(lab: Lab) -> None:
    """Ownership is by label: it is adopted, not doubled."""
    lab.begin({"a.yaml": app("a", "resources: {gpus: 1}\n")})
    lab.run()
    before = only(lab)
    with lab.client() as client:
        client.rename(before.id, "mine")
    assert [one["action"] for one in lab.plan()["actions"]] == ["adopt"]
    lab.run()
    after = only(lab)
    assert (after.id, after.name, after.running) == (before.id, "lab.app.a.0.g1", True)
    lab.settled()


@pytest.mark.parametrize("state", ["cordoned", "drained"])
def test_a_host_that_leaves(lab: Lab, tmp_path: Path, state: str) -> None:
    """Simulated hosts: a cordon keeps what runs and takes nothing new, a drain moves everything to the other host."""
    del tmp_path
    two = {"a-host.yaml": host("sim://", name="a"), "b-host.yaml": host("sim://", name="b"), "host.yaml": None}
    lab.begin({"a.yaml": app("a", "resources: {gpus: 4}\n")})
    lab.commit({**two, "facts.json": facts()})
    lab.run()
    (first,) = {one["host"] for one in lab.run("status", "--json").json["instances"]}
    other = "b" if first == "a" else "a"
    lab.commit({f"{first}-host.yaml": host("sim://", f"state: {state}\n", name=first)})
    lab.run()
    assert [one["host"] for one in lab.run("status", "--json").json["instances"]] == [
        first if state == "cordoned" else other
    ]
    lab.commit({"a.yaml": app("a", "resources: {gpus: 1}\n", instances=4)})
    lab.run()
    placed = [one["host"] for one in lab.run("status", "--json").json["instances"]]
    assert len(placed) == 4
    assert set(placed) <= ({first, other} if state == "cordoned" else {other})
    assert placed.count(other) >= 3
    lab.settled()
