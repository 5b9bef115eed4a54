"""From a folder of files to running containers on simulated hosts, through the command line alone."""

import json
import re
import shutil
import sys
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
    assert "big" not in output(capsys)
    assert reconcile("--only", "app/web/1", "--dry-run") == 0
    assert output(capsys).splitlines()[1].startswith("--only app/web/1: only what these select")
    assert reconcile("--only", "app/web/1", "--dry-run", "--json") == 0
    assert document(capsys)["summary"] == dict.fromkeys(("start", "replace", "update", "stop", "pending"), 0) | {
        "unchanged": 1
    }
    assert reconcile("--only", "app/big", "--fail-on-pending") == 1
    assert reconcile("--only", "app/web", "--dry-run", "--fail-on-pending", "--json") == 0
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
    assert output(capsys).startswith("valid: 2 workloads, 1 host (")


@pytest.mark.parametrize(
    ("instance", "code", "said"),
    [
        ("app/big/0", 0, "pending no host has 1 free GPU"),
        ("app/web/0", 0, "choice  cpu-01"),
        ("app/wbe/0", 64, "git names no app/wbe; did you mean app/web/0?"),
        ("app/web/2", 64, "reconcile: app/web has 2 instances: 0 and 1"),
        ("app/web/x", 64, "reconcile: app/web has 2 instances: 0 and 1"),
        ("app/big/7", 64, "reconcile: app/big has 1 instance: 0"),
        ("task/run/1/0/0", 64, "git names no task/run"),
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "app/nosuch"), "--only app/nosuch matches nothing; there are app/big, app/web"),
        (("--only", "app/wbe"), "--only app/wbe matches nothing; did you mean app/web?"),
        (("--only", "web"), "--only web matches nothing; did you mean app/web?"),
        (("--only", "app/web/2"), "--only app/web/2 matches nothing; did you mean app/web/"),
        (("--only", "task/*"), "--only task/* matches nothing"),
        (("--only", "app/web,app/nosuch"), "--only app/nosuch matches nothing"),
        (("--host", "cpu-1"), "--host cpu-1 matches no host; did you mean cpu-01?"),
        (("--host", "gpu-*"), "--host gpu-* matches no host"),
    ],
)
@pytest.mark.parametrize("command", [(), ("--dry-run",), ("status",), ("hosts",)])
def test_a_selector_of_nothing_is_wrong_usage(
    reconcile: Reconcile,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    """A typing error is no success, and nothing is changed by it."""
    if command == ("hosts",) and arguments[0] == "--only":
        return
    assert reconcile(*command, *arguments) == 64
    out, err = capsys.readouterr()
    assert err.startswith(f"reconcile: {said}")
    assert err.count("\n") == 1
    assert out == ""
    assert not list(tmp_path.glob("state/clusters/*/sim*"))


@pytest.mark.parametrize("selector", ["app/web", "app/*", "app/web/0", "*", "app/web/", "app/big"])
def test_a_selector_of_something_is_not(reconcile: Reconcile, selector: str) -> None:
    """Workloads, instances, globs; also what is pending."""
    assert reconcile("--dry-run", "--only", selector) == 0


def test_a_selector_means_what_is_suspended_or_has_left_git(reconcile: Reconcile, repo: Path) -> None:
    """Both are known, though nothing of the one is there and nothing of the other is wanted."""
    assert reconcile() == 0
    (repo / "web.yaml").unlink()
    (repo / "big.yaml").write_text(FILES["big.yaml"] + "suspend: true\n")
    assert reconcile("--dry-run", "--only", "app/web") == 0
    assert reconcile("--dry-run", "--only", "app/big") == 0


def test_what_is_suspended_is_told(reconcile: Reconcile, repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In status and in explain; nothing is placed for it."""
    (repo / "web.yaml").write_text(FILES["web.yaml"] + "suspend: true\n")
    assert reconcile("explain", "app/web/0") == 0
    assert output(capsys) == "app/web/0\n  note    suspended: stopped on purpose\n"
    assert reconcile("status") == 0
    assert "\nSuspended:\n  app/web: stopped on purpose\n" in output(capsys)
    assert reconcile("status", "--json", "--only", "app/big") == 0
    assert document(capsys)["suspended"] == []


TASK = "apiVersion: reconciler/v1\nkind: Task\nname: once\nrun: r1\nimage: once:1\nowner: us\nenv: {SIM_EXIT: 'CODE'}\n"


@pytest.mark.parametrize(
    ("code", "settled"),
    [
        ("0", "Settled: 2 as git wants them, 1 finished, 1 pending."),
        ("3", "Settled: 2 as git wants them, 1 failed, 1 pending."),
    ],
)
def test_a_finished_run_is_told(
    reconcile: Reconcile, repo: Path, capsys: pytest.CaptureFixture[str], code: str, settled: str
) -> None:
    """How and when it ended, in explain and status; what failed has a head of its own and is no drift."""
    (repo / "once.yaml").write_text(TASK.replace("CODE", code))
    assert reconcile() == 0
    assert output(capsys).splitlines()[-1] == settled
    assert reconcile("explain", "task/once") == 0
    ran = re.search(r"  ran     on cpu-01, exited with code (.), ended (\S+ \S+) UTC, owner us\n", output(capsys))
    assert ran
    assert ran[1] == code
    assert reconcile("status") == 0
    text = output(capsys)
    assert re.search(rf"task/once/r1/0/0 +cpu-01 +exited \(code {code}\) +{ran[2]}", text)
    assert ("Failed:\n  task/once/r1/0/0 on cpu-01: exited with code 3" in text) is (code == "3")
    assert "Drift:" not in text


@pytest.mark.parametrize(("state", "reason"), [("drained", "is drained"), ("cordoned", "is cordoned")])
def test_a_host_that_takes_no_work_is_told_in_words(
    reconcile: Reconcile, repo: Path, capsys: pytest.CaptureFixture[str], state: str, reason: str
) -> None:
    """What cannot move goes on; what cannot start says why."""
    assert reconcile() == 0
    (repo / "host.yaml").write_text(FILES["host.yaml"] + f"state: {state}\n")
    (repo / "web.yaml").write_text(FILES["web.yaml"].replace("instances: 2", "instances: 3"))
    capsys.readouterr()
    assert reconcile("--dry-run") == 0
    text = output(capsys)
    started = text.partition("! app/web/2\n")[2]
    assert started.startswith(
        f"      the only host that may take it {reason}\n      removed 1 {reason}\n      nearest cpu-01: it {reason}\n"
    )
    assert ("! app/web/0\n" in text) is (state == "drained")
    assert text.count("      still   running on cpu-01\n") == 2 * (state == "drained")
    assert reconcile("explain", "app/web/2") == 0
    assert f"removed 1 {reason}: cpu-01" in output(capsys)


def test_the_plan_is_written_before_anything_is_done(
    reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads along sees what is about to happen, and a plan that nobody could read is not carried out."""

    def full(_text: str) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "write", full)
        patch.setattr("reconciler.cli.main.drop", lambda _stream: None)
        assert reconcile() == 1
    assert capsys.readouterr().err == "reconcile: cannot write the output: No space left on device\n"
    assert reconcile("status", "--json") == 0
    assert document(capsys)["instances"] == []


@pytest.mark.parametrize("named", [".", "./", "../repo", "sub/.."])
def test_a_folder_that_is_named_by_dots_is_shown_by_its_path(
    reconcile: Reconcile, repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], named: str
) -> None:
    """A plan that is kept says of what it was."""
    (repo / "sub").mkdir()
    monkeypatch.chdir(repo)
    assert reconcile("--repo", named, "--dry-run") == 0
    title = output(capsys).splitlines()[0]
    shown = named if named == "../repo" else str(repo)
    assert title == f"Plan for lab at no commit ({shown})"
