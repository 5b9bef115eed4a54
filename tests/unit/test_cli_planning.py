"""Planning by people: what if, what to move, and why; through the command on simulated hosts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import main
from tests.fakes.golden import check

HEAD = "apiVersion: reconciler/v1\n"
REST = "image: a:1\nrollout: {healthyFor: 0s}\n"
Reconcile = Callable[..., int]


def facts(name: str) -> str:
    """Two nodes of 16 CPUs and 4 cards each."""
    nodes = [{"id": node, "cpus": f"{16 * node}-{16 * node + 15}", "memory": 128 * 2**30} for node in range(2)]
    gpus = [
        {
            "uuid": f"GPU-{name}-{number}",
            "index": number,
            "model": "NVIDIA A100-SXM4-80GB",
            "memory": 80 * 2**30,
            "numaNode": number // 4,
        }
        for number in range(8)
    ]
    document = {"format": "reconciler.facts/v1", "hostname": name, "numaNodes": nodes, "smt": [], "gpus": gpus}
    return json.dumps(document)


def host(name: str) -> str:
    """A Host document."""
    return f"{HEAD}kind: Host\nname: {name}\nengine: sim://\nfacts: {name}.json\nlabels: {{rack: {name[-1]}}}\n---\n"


def app(name: str, gpus: int, more: str = "", instances: int = 1) -> str:
    """An App."""
    size = f"resources: {{gpus: {gpus}}}\n"
    return f"{HEAD}kind: App\nname: {name}\ninstances: {instances}\n{size}{REST}{more}---\n"


def on(name: str) -> str:
    """A policy that names one host."""
    return f"placementPolicy: {{type: MATCH_TAG, tag: {name}}}\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Three hosts of eight cards."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "cluster.yaml").write_text(f"{HEAD}kind: Cluster\nname: lab\n")
    names = ["gpu-1", "gpu-2", "gpu-3"]
    (folder / "hosts.yaml").write_text("".join(host(name) for name in names))
    for name in names:
        (folder / f"{name}.json").write_text(facts(name))
    return folder


@pytest.fixture
def reconcile(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> Reconcile:
    """The command, in the folder above the repository, with a state directory of its own."""
    monkeypatch.setattr("reconciler.cli.plan.PAUSE", 0.01)
    monkeypatch.chdir(repo.parent)
    environ = {"HOME": str(tmp_path), "RECONCILE_REPO": "repo", "RECONCILE_STATE_DIR": str(tmp_path / "state")}

    def run(*arguments: str) -> int:
        return main(arguments, environ)

    return run


@pytest.fixture
def lab(repo: Path, reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> Path:
    """One, seven and four cards of the three hosts are in use, by work that is bound to no host any more."""
    apps = {"small": (1, "gpu-1"), "large": (7, "gpu-2"), "middle": (4, "gpu-3")}
    (repo / "apps.yaml").write_text("".join(app(name, gpus, on(where)) for name, (gpus, where) in apps.items()))
    assert reconcile() == 0
    work = [app("small", 1), app("large", 7), app("middle", 4, "prefer: [{type: MATCH_TAG, tag: gpu-1}]\n")]
    (repo / "apps.yaml").write_text("".join([*work, app("train", 8, instances=2)]))
    capsys.readouterr()
    return repo


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """What was printed, as JSON."""
    return json.loads(capsys.readouterr().out)


# -- what if


@pytest.mark.parametrize("width", [80, 200])
def test_an_assumed_world_reads_as_it_was_agreed(
    lab: Path, reconcile: Reconcile, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    """It begins with what is assumed and ends with what that changes."""
    changes = ("--whatif", "add-host=gpu-1:1,remove-host=gpu-3", "--whatif", "instances=app/train:1")
    assert reconcile("--dry-run", *changes, "--width", str(width)) == 0
    check(f"whatif-{width}.txt", capsys.readouterr().out)
    assert lab.exists()


@pytest.mark.usefixtures("lab")
def test_an_assumed_world_as_json(reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan as ever, what was assumed, and what it changes: both jobs of eight fit on two hosts more."""
    assert reconcile("--dry-run", "--json", "--whatif", "add-host=dgx-a100:2") == 0
    document = printed(capsys)
    assert document["whatif"] == ["2 more hosts of kind dgx-a100 (whatif-dgx-a100-1 to whatif-dgx-a100-2)"]
    assert document["comparison"] == {
        "placed": ["app/train/0", "app/train/1"],
        "unplaced": [],
        "moved": [],
        "pending": [],
        "pendingBefore": 2,
    }
    assert {one["host"] for one in document["actions"]} == {"whatif-dgx-a100-1", "whatif-dgx-a100-2"}
    assert reconcile("--dry-run", "--json") == 0
    assert "whatif" not in printed(capsys)


@pytest.mark.usefixtures("lab")
def test_the_work_of_a_lost_host_is_placed_elsewhere(reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> None:
    """Without asking for a prune: it is only assumed. Seven cards fit nowhere where four are held."""
    assert reconcile("--dry-run", "--json", "--whatif", "remove-host=gpu-3") == 0
    assert printed(capsys)["comparison"]["moved"] == [{"instance": "app/middle/0", "from": "gpu-3", "to": "gpu-1"}]
    assert reconcile("--dry-run", "--json", "--whatif", "remove-host=gpu-1", "--whatif", "remove-host=gpu-2") == 0
    compared = printed(capsys)["comparison"]
    assert compared["moved"] == [{"instance": "app/small/0", "from": "gpu-1", "to": "gpu-3"}]
    assert compared["unplaced"] == ["app/large/0"]


@pytest.mark.usefixtures("lab")
def test_hosts_that_are_assumed_get_numbers_of_their_own(
    reconcile: Reconcile, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when a kind is named twice."""
    assert reconcile("--dry-run", "--json", "--whatif", "add-host=t4-1,add-host=t4-1:2") == 0
    assert printed(capsys)["whatif"] == [
        "1 more host of kind t4-1 (whatif-t4-1-1)",
        "2 more hosts of kind t4-1 (whatif-t4-1-2 to whatif-t4-1-3)",
    ]


@pytest.mark.usefixtures("lab")
def test_an_assumed_world_writes_nothing(
    reconcile: Reconcile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even in the state of simulated hosts; as Markdown it is folded like any plan."""

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    before = files()
    assert reconcile("--dry-run", "--markdown", "--whatif", "remove-host=gpu-1") == 0
    out = capsys.readouterr().out
    assert out.startswith("```\nWhat if: gpu-1 is lost. Only assumed: nothing is changed.\n```\n\n### Plan for lab")
    assert out.endswith("```\n")
    assert files() == before


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--whatif", "remove-host=gpu-1"), "--whatif can only be planned: add --dry-run"),
        (("--dry-run", "--whatif", "remove-host=gpu-1", "--out", "p.json"), "its plan cannot be saved"),
        (("--dry-run", "--whatif", "add-host=dgx-b200"), "neither a kind of machine (a100-pcie-4, cpu, dgx-a100, "),
        (("--dry-run", "--whatif", "add-host=gpu-4"), "nor a host; did you mean gpu-"),
        (("--dry-run", "--whatif", "add-host=cpu:0"), "add-host=cpu:0: not a number from 1 to 10000: '0'"),
        (("--dry-run", "--whatif", "add-host=cpu:x"), "not a number from 1 to 10000: 'x'"),
        (("--dry-run", "--whatif", "remove-host=gpu-4"), "remove-host=gpu-4: no such host; did you mean gpu-"),
        (("--dry-run", "--whatif", "instances=app/trian:3"), "no such app; did you mean app/train?"),
        (("--dry-run", "--whatif", "instances=app/train"), "write add-host=KIND:N, remove-host=NAME or"),
        (("--dry-run", "--whatif", "more"), "--whatif more: write add-host=KIND:N, remove-host=NAME or"),
        (("--dry-run", "--whatif", ""), "argument --whatif: names nothing"),
        (("defrag",), "defrag: moving work is not supported yet: add --dry-run"),
        (("defrag", "--dry-run", "--hosts", "0"), "argument --hosts: not a number of hosts: '0'"),
        (("status", "--whatif", "add-host=cpu"), "unrecognized arguments: --whatif"),
    ],
)
def test_wrong_usage_is_one_line(
    reconcile: Reconcile, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """With what would be right."""
    assert reconcile(*arguments) == 64
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


# -- what to move


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("width", [80, 200])
def test_a_proposal_reads_as_it_was_agreed(
    reconcile: Reconcile, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    """One card more fills a host, and a job of eight fits; four cards then have no gap to go to."""
    assert reconcile("defrag", "--dry-run", "--width", str(width)) == 0
    check(f"defrag-{width}.txt", capsys.readouterr().out)


@pytest.mark.usefixtures("lab")
def test_a_proposal_as_json(reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> None:
    """With the allocations before and after, and what would fit then."""
    assert reconcile("defrag", "--dry-run", "--json", "--hosts", "1") == 0
    document = printed(capsys)
    (gain,) = document["gains"]
    (move,) = gain["moves"]
    assert (gain["host"], gain["card"], gain["cards"]) == ("gpu-1", None, 8)
    assert (move["instance"], move["from"], move["to"]) == ("app/small/0", "gpu-1", "gpu-2")
    assert len(move["old"]["gpus"]) == len(move["new"]["gpus"]) == 1
    assert (document["fits"], document["pending"]) == ([{"instance": "app/train/0", "host": "gpu-1"}], 2)


def test_nothing_to_move_is_said(repo: Path, reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> None:
    """An idle fleet has nothing to free."""
    (repo / "apps.yaml").write_text(app("train", 8))
    assert reconcile("defrag", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "1 planned change counted as carried out" in out
    assert out.endswith("No moves: no whole host and no whole card can be freed by moving what may be moved.\n")


# -- why


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("instance", ["small", "train"])
@pytest.mark.parametrize("width", [80, 200])
def test_a_decision_is_told_in_full(
    reconcile: Reconcile, capsys: pytest.CaptureFixture[str], instance: str, width: int
) -> None:
    """Who was removed, what the best offer, and what is short down to the node."""
    assert reconcile("explain", f"app/{instance}/0", "--width", str(width)) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("  runs ")]
    check(f"explain-{instance}-{width}.txt", "\n".join([*lines, ""]))


@pytest.mark.usefixtures("lab")
def test_an_explanation_of_what_runs_names_what_would_be_chosen(
    reconcile: Reconcile, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it prefers is not enough to move it."""
    assert reconcile("explain", "app/middle/0", "--json") == 0
    document = printed(capsys)
    assert document["choice"]["host"] == "gpu-3"
    assert document["rival"] == {"host": "gpu-1", "better": True, "words": "meets prefer MATCH_TAG gpu-1"}


def test_work_with_a_named_volume_is_explained_for_its_host_alone(
    repo: Path, reconcile: Reconcile, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its data is there: no other host is looked at, also while it does not run."""
    volume = "volumes: [{volume: data, container: /data}]\n"
    (repo / "apps.yaml").write_text(app("db", 1, f"{volume}{on('gpu-2')}"))
    assert reconcile() == 0
    (repo / "apps.yaml").write_text(app("db", 1, volume))
    capsys.readouterr()
    assert reconcile("explain", "app/db/0", "--json") == 0
    document = printed(capsys)
    assert [one["host"] for one in document["offers"]] == ["gpu-2"]
    assert document["rival"] is None
