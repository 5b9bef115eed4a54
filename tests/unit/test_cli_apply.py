"""From a folder of files to running containers on simulated hosts, through the command line alone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import main
from reconciler.journal.journal import cluster_dir
from reconciler.journal.lock import Holder, Lock

FACTS = Path(__file__).parents[1] / "fixtures" / "machines" / "cpu-only.json"
FILES = {
    "cluster.yaml": "apiVersion: reconciler/v1\nkind: Cluster\nname: lab\n",
    "host.yaml": "apiVersion: reconciler/v1\nkind: Host\nname: cpu-01\nengine: sim://\nfacts: facts.json\n",
    "web.yaml": (
        "apiVersion: reconciler/v1\nkind: App\nname: web\nowner: web-team\ninstances: 2\nimage: web:1\n"
        "env: {MODE: a}\nrollout: {healthyFor: 0s}\n"
    ),
    "big.yaml": ("apiVersion: reconciler/v1\nkind: App\nname: big\ninstances: 1\nimage: big:1\nresources: {gpus: 1}\n"),
}
Reconcile = Callable[..., int]


def everything(folder: Path) -> dict[str, bytes]:
    """Every file under a folder and its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A folder with a cluster, a host, an app that fits and one that does not."""
    folder = tmp_path / "repo"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    shutil.copy(FACTS, folder / "facts.json")
    return folder


@pytest.fixture
def reconcile(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> Reconcile:
    """The command, on that folder, with a state directory of its own."""
    monkeypatch.setattr("reconciler.cli.plan.PAUSE", 0.01)
    environ = {"HOME": str(tmp_path), "RECONCILE_REPO": str(repo), "RECONCILE_STATE_DIR": str(tmp_path / "state")}

    def run(*arguments: str) -> int:
        return main(arguments, environ)

    return run


def output(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed since the last look."""
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    """What was printed, as JSON."""
    return json.loads(output(capsys))


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(
    reconcile: Reconcile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 when changes are planned and that was asked for."""
    before = everything(tmp_path)
    assert reconcile("--dry-run") == 0
    text = output(capsys)
    assert "+ app/web/0 on cpu-01" in text
    assert "! app/big/0" in text
    assert text.endswith("Plan: 2 to start, 0 to replace, 0 to update, 0 to stop, 1 pending, 0 unchanged.\n")
    assert reconcile("--dry-run", "--detailed-exitcode", "--json") == 2
    assert document(capsys)["summary"]["start"] == 2
    assert reconcile("--dry-run", "--fail-on-pending", "--markdown") == 1
    assert output(capsys).startswith("### Plan for lab at no commit")
    assert everything(tmp_path) == before


def test_what_was_applied_needs_nothing_more(reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> None:
    """Apply, then an empty plan: pending work alone is no change."""
    assert reconcile() == 0
    first = capsys.readouterr()
    assert "app/web/0 on cpu-01: start (2 desired, 0 running): pull, create, start" in first.err
    assert first.out.endswith("Settled: 2 as git wants them, 1 pending.\n")
    assert reconcile("--dry-run", "--detailed-exitcode") == 0
    assert output(capsys).endswith("\nNo changes.\n")
    assert reconcile() == 0
    assert reconcile("--fail-on-pending") == 1
    assert "app/big/0: pending: no host has 1 free GPU" in capsys.readouterr().err


def test_an_edit_is_shown_field_by_field_and_rolled_out(
    reconcile: Reconcile, repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One instance at a time, until all are as git wants them."""
    assert reconcile() == 0
    (repo / "web.yaml").write_text(FILES["web.yaml"].replace("web:1", "web:2").replace("MODE: a", "MODE: b"))
    capsys.readouterr()
    assert reconcile("--dry-run") == 0
    text = output(capsys)
    assert 'image: "web:1" → "web:2"' in text
    assert 'env.MODE: "a" → "b"' in text
    assert "owner web-team" in text
    assert reconcile() == 0
    assert reconcile("hosts", "--json") == 0
    capsys.readouterr()
    assert reconcile("hosts", "--json") == 0
    images = [one["image"] for one in document(capsys)["hosts"][0]["containers"]]
    assert images == ["web:2", "web:2"]


def test_only_what_is_selected_is_applied(reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is planned, --only and --host filter what is acted on."""
    assert reconcile("--only", "app/web/1") == 0
    assert reconcile("--host", "other") == 0
    capsys.readouterr()
    assert reconcile("status", "--json") == 0
    assert [one["instance"] for one in document(capsys)["instances"]] == ["app/web/1"]


def test_a_saved_plan_is_applied_while_it_holds(
    reconcile: Reconcile, repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another spec, or containers that are there meanwhile, make it stale."""
    plan = str(tmp_path / "plan.json")
    assert reconcile("--dry-run", "--out", plan) == 0
    (repo / "web.yaml").write_text(FILES["web.yaml"].replace("web:1", "web:2"))
    assert reconcile("apply", plan) == 1
    assert f"{plan}: specs, hosts or containers have changed" in capsys.readouterr().err
    (repo / "web.yaml").write_text(FILES["web.yaml"])
    assert reconcile("apply", plan) == 0
    assert reconcile("apply", plan) == 1


def test_a_saved_snapshot_is_replayed_to_the_same_plan(
    reconcile: Reconcile, repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What anybody can be sent to see the same: plan, status, hosts and explanation, without the hosts."""
    assert reconcile() == 0
    (repo / "web.yaml").write_text(FILES["web.yaml"].replace("web:1", "web:2"))
    capsys.readouterr()
    commands: tuple[tuple[str, ...], ...] = (("--dry-run",), ("status",), ("hosts",), ("explain", "app/web/0"))
    live = []
    for command in commands:
        assert reconcile(*command) == 0
        live.append(output(capsys))
    assert reconcile("snapshot") == 0
    saved = tmp_path / "snapshot.json"
    saved.write_text(output(capsys))
    shutil.rmtree(tmp_path / "state")
    for command, text in zip(commands, live, strict=True):
        assert reconcile(*command, "--snapshot", str(saved)) == 0
        assert output(capsys) == text
    assert not (tmp_path / "state").exists()


def test_a_second_one_is_kept_out_and_told_by_whom(
    reconcile: Reconcile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lock names its holder; a dry run needs none."""
    holder = Holder(4121, "ops-1", "2026-11-30 10:00:00 UTC", "reconcile daemon")
    with Lock.acquire(cluster_dir(tmp_path / "state", "lab") / "lock", holder):
        assert reconcile() == 1
        assert "process 4121 on ops-1 since 2026-11-30 10:00:00 UTC (reconcile daemon)" in capsys.readouterr().err
        assert reconcile("--dry-run") == 0
    assert reconcile() == 0


def test_a_repository_without_a_name_is_planned_and_not_applied(
    reconcile: Reconcile, repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Cluster document names everything that is written."""
    (repo / "cluster.yaml").unlink()
    assert reconcile("--dry-run") == 0
    assert "no Cluster document" in output(capsys)
    assert reconcile() == 1
    assert "no Cluster document" in capsys.readouterr().err


def test_every_fault_of_every_file_is_a_line(
    reconcile: Reconcile, repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``file:line:column: message`` on stderr; as JSON on request."""
    (repo / "web.yaml").write_text(FILES["web.yaml"].replace("instances", "instnces"))
    (repo / "big.yaml").write_text("kind: [")
    assert reconcile("validate") == 1
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith(f"{repo}/web.yaml:5:1: ") and "instances" in line for line in lines)
    assert any(line.startswith(f"{repo}/big.yaml:2:1: ") for line in lines)
    assert reconcile("validate", "--json") == 1
    problems = document(capsys)["problems"]
    assert len(problems) == len(lines)
    assert {"file", "line", "column", "message"} == problems[0].keys()


def test_a_valid_repository_is_counted(reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> None:
    """Workloads and hosts."""
    assert reconcile("validate") == 0
    assert output(capsys) == "valid: 2 workloads, 1 hosts\n"


@pytest.mark.parametrize(
    ("instance", "code", "said"),
    [
        ("app/big/0", 0, "pending no host has 1 free GPU"),
        ("app/web/0", 0, "choice  cpu-01"),
        ("app/wbe/0", 64, "git names no app/wbe (did you mean app/web/0?)"),
        ("nonsense", 64, "not an instance or a workload: 'nonsense'"),
    ],
)
def test_an_instance_is_explained(
    reconcile: Reconcile, capsys: pytest.CaptureFixture[str], instance: str, code: int, said: str
) -> None:
    """Why here, why nowhere, or what was meant."""
    assert reconcile("explain", instance) == code
    out, err = capsys.readouterr()
    assert said in out + err


def test_hosts_without_a_repository(reconcile: Reconcile, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of Engines is enough."""
    assert reconcile("hosts", "--engine", "sim://", "--json") == 0
    (host,) = document(capsys)["hosts"]
    assert (host["engine"], host["reach"]) == ("sim://", "known")
    assert reconcile("hosts", "--engine", "unix:///does/not/exist.sock") == 1
    assert "unreachable" in output(capsys)
