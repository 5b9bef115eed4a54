"""The whole command on a real Engine: a repository of GPU work is planned, applied, read back, and planned again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.model.resources import parse_cpus
from tests.engine.dockerd import Bed
from tests.engine.proxy import Proxy, get_only
from tests.fakes.reconcile_command import (
    CARDS,
    HEAD,
    NODE_CPUS,
    SLICES,
    Lab,
    app,
    assert_no_card_twice,
)

SHOW = "cat /sys/fs/cgroup/cpuset/cpuset.cpus /sys/fs/cgroup/cpuset/cpuset.mems; env"
WORK = {
    "train.yaml": app("train", "resources: {cpus: 4, gpus: 2}\n", instances=2),
    "slice.yaml": app("slice", "resources: {cpus: 1, gpus: {mig: 1g.10gb}}\n"),
    "bound.yaml": app("bound", "numa: require\nresources: {cpus: 6, gpus: 1}\n"),
    "web.yaml": app("web", "resources: {cpus: 0.5, cpuPolicy: shared}\n", instances=2),
    "huge.yaml": app("huge", "resources: {cpus: 1, gpus: 8}\n"),
    "job.yaml": f"{HEAD}kind: Task\nname: job\nrun: first\nargs: [sh, -c, '{SHOW}']\n"
    "resources: {cpus: 0.1, cpuPolicy: shared, gpus: 1}\n",
    "agent.yaml": f"{HEAD}kind: LocalService\nname: agent\nresources: {{cpus: 0.1, cpuPolicy: shared}}\n",
}
STARTED = {
    *("app/train/0", "app/train/1", "app/slice/0", "app/bound/0", "app/web/0", "app/web/1"),
    *("task/job/first/0/0", "localservice/agent/gpu-01"),
}


@pytest.fixture
def lab(engine: str, tmp_path: Path) -> Lab:
    """A repository and the bed's Engine."""
    return Lab(tmp_path, engine)


def environment_of(text: str) -> dict[str, str]:
    """Variables out of lines or NUL-separated words."""
    return dict(entry.split("=", 1) for entry in text.replace("\0", "\n").splitlines() if "=" in entry)


def ids(allocation: Mapping[str, Any]) -> str:
    """What NVIDIA_VISIBLE_DEVICES must be for what was planned."""
    return ",".join([*allocation["gpus"], *(piece["uuid"] for piece in allocation["mig"])]) or "void"


def test_what_was_planned_is_what_containers_see(lab: Lab, bed: Bed) -> None:
    """Cards, cores and memory nodes read back from inside; no card given twice; and then there is nothing to do."""
    lab.begin(WORK)
    before = lab.run("--dry-run", "--json", "--detailed-exitcode", code=2).json
    planned = {one["instance"]: one["allocation"] for one in before["actions"]}
    assert set(planned) == STARTED
    assert [(one["instance"], one["removed"]) for one in before["pending"]] == [("app/huge/0", {"gpus": 1})]

    lab.run()
    boxes = {box.name: box for box in lab.boxes()}
    assert sorted(boxes) == sorted("lab." + instance.replace("/", ".") + ".g1" for instance in STARTED)
    for instance, given in planned.items():
        name = f"lab.{instance.replace('/', '.')}.g1"
        if instance.startswith("task/"):
            with lab.client() as client:
                logs: bytes = client.logs(name)
            assert boxes[name].document["State"]["ExitCode"] == 0
            cpuset, shown = logs.decode().split()[:2], logs.decode()  # it ran before others could change its cores
        else:
            folder = "/sys/fs/cgroup/cpuset"
            cpuset = bed.inside(name, "cat", f"{folder}/cpuset.cpus", f"{folder}/cpuset.mems").split()
            shown = bed.inside(name, "cat", "/proc/1/environ")
        assert environment_of(shown)["NVIDIA_VISIBLE_DEVICES"] == ids(given), instance
        assert environment_of(shown)["RECONCILER_INSTANCE"] == instance
        assert parse_cpus(cpuset[0]) == parse_cpus(given["cpus"]) != (), instance
        assert parse_cpus(cpuset[1]) == tuple(given["memoryNodes"] or (0, 1)), instance
        assert boxes[name].host["CpusetCpus"] == given["cpus"], instance
        assert boxes[name].host["Memory"] == given["memory"] == 64 * 1024**2, instance

    running = [box for box in boxes.values() if box.running]
    assert_no_card_twice(running)
    given_out = [
        card for given in planned.values() for card in (*given["gpus"], *(one["uuid"] for one in given["mig"]))
    ]
    assert len(given_out) == len(set(given_out)) == 2 * 2 + 1 + 1 + 1
    assert set(given_out) <= {*CARDS[:7], *SLICES}  # the card with slices is never given whole
    exclusive = [cpu for name, given in planned.items() if not name.startswith(("app/web", "local", "task"))
                 for cpu in parse_cpus(given["cpus"])]  # fmt: skip
    assert len(exclusive) == len(set(exclusive)) == 4 + 4 + 1 + 6
    bound = planned["app/bound/0"]
    (node,) = {CARDS.index(card) // 4 for card in bound["gpus"]}
    assert bound["memoryNodes"] == [node]
    assert set(parse_cpus(bound["cpus"])) <= NODE_CPUS[node]

    again = lab.run("--dry-run", "--detailed-exitcode")
    assert again.out.splitlines()[-1] == "No changes."
    untouched = {box.name: box.id for box in lab.boxes()}
    lab.run()
    assert {box.name: box.id for box in lab.boxes()} == untouched


READS: tuple[tuple[str, ...], ...] = (
    ("--dry-run",),
    ("--dry-run", "--json"),
    ("--dry-run", "--markdown"),
    ("--dry-run", "--out", "plan.json"),
    ("validate",),
    ("explain", "app/web/0"),
    ("status",),
    ("hosts",),
    ("snapshot",),
    ("schema",),
)


def test_commands_that_read_never_try_to_change_anything(lab: Lab, tmp_path: Path) -> None:
    """Through a proxy that lets only GET through: every one of them exits 0, and nothing else was even tried."""
    web = app("web", "resources: {cpus: 0.5, cpuPolicy: shared}\n")
    lab.begin({"web.yaml": web, "old.yaml": app("old"), "exits.yaml": f"{HEAD}kind: Task\nname: job\nargs: ['true']\n"})
    lab.run()
    with Proxy(lab.engine, tmp_path, get_only) as proxy:
        lab.begin(
            {"web.yaml": web + "env: {A: b}\n", "old.yaml": None, "exits.yaml": None, "new.yaml": app("new")},
            engine=proxy.url,
        )
        for arguments in READS:
            there = tuple(str(tmp_path / part) if part == "plan.json" else part for part in arguments)
            calls = len(proxy.calls)
            lab.run(*there)
            looked = len(proxy.calls) > calls
            assert looked == (arguments[0] not in {"validate", "schema"}), arguments
            assert proxy.changes == [], arguments
        lab.run("hosts", "--engine", proxy.url)
        lab.run("snapshot", "--engine", proxy.url)
        assert {call.method for call in proxy.calls} <= {"GET", "HEAD"}
    summary = lab.plan_of(tmp_path / "plan.json")["summary"]
    assert {key: count for key, count in summary.items() if count} == {"start": 1, "replace": 1, "stop": 2}


def test_discover_asks_no_engine(lab: Lab, tmp_path: Path) -> None:
    """It describes this machine, and says so as facts."""
    del tmp_path
    found = lab.run("discover").json
    assert found["format"] == "reconciler.facts/v1"


def test_a_saved_plan_is_applied_and_then_no_longer_holds(lab: Lab, tmp_path: Path) -> None:
    """What was looked at is what is done; a second time it is refused in one line."""
    lab.begin({"web.yaml": app("web")})
    saved = str(tmp_path / "plan.json")
    lab.run("--dry-run", "--out", saved)
    lab.run("apply", saved)
    assert set(lab.running()) == {"app.web.0"}
    refused = lab.run("apply", saved, code=1)
    assert len(refused.err.splitlines()) == 1
    assert "plan again" in refused.err
