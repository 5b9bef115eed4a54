"""What operators do beside the daemon: allow a prune, try again at once, bring a task back, replay a snapshot."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.cli.main import main
from reconciler.journal.journal import cluster_dir
from reconciler.journal.lock import Holder, Lock
from tests.fakes.git_repository import commit, git

FACTS = Path(__file__).parents[1] / "fixtures" / "machines" / "cpu-only.json"
HEAD = "apiVersion: reconciler/v1\n"
WEB = HEAD + "kind: App\nname: web\ninstances: 1\nimage: web:1\nrollout: {healthyFor: 0s}\n"
JOB = HEAD + "kind: Task\nname: job\nimage: job:1\ncommand: ['true']\n"
FILES: dict[str, str | bytes] = {
    "cluster.yaml": HEAD + "kind: Cluster\nname: lab\nsecrets: {directory: /nowhere}\n",
    "host.yaml": HEAD + "kind: Host\nname: cpu-01\nengine: sim://\nfacts: facts.json\n",
    "facts.json": FACTS.read_bytes(),
}
Run = Callable[..., int]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """An empty repository."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


@pytest.fixture
def run(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command on that repository."""
    monkeypatch.setattr("reconciler.cli.plan.PAUSE", 0.01)
    environ = {"HOME": str(tmp_path), "RECONCILE_STATE_DIR": str(tmp_path / "state")}

    def call(*arguments: str, source: bool = True) -> int:
        return main([*arguments, *(("--repo", str(repo)) if source else ())], environ)

    return call


def test_a_daemon_at_work_is_told_that_one_commit_may_prune(
    repo: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The word counts for the commit at which it was given, and for no later one."""
    commit(repo, {**FILES, "web.yaml": WEB})
    assert run() == 0
    gone = commit(repo, {"web.yaml": None})
    with Lock.acquire(cluster_dir(tmp_path / "state", "lab") / "lock", Holder(7, "here", "today", "reconcile daemon")):
        assert run("--allow-prune") == 1
    said = capsys.readouterr().err
    assert "process 7 on here" in said
    assert f"may now prune for commit {gone[:12]}" in said
    later = {"other.yaml": WEB.replace("name: web", "name: other")}
    commit(repo, later)
    assert run() == 1
    assert "prune guard" in capsys.readouterr().err
    git(repo, "reset", "-q", "--hard", gone)
    assert run() == 0
    assert "app/web/0 on cpu-01: stop" in capsys.readouterr().err


def test_a_task_that_finished_does_not_run_again_after_a_revert(
    repo: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither while the guard holds its receipt, nor when the receipt is gone."""
    commit(repo, {**FILES, "web.yaml": WEB, "job.yaml": JOB})
    assert run() == 0
    commit(repo, {"web.yaml": None, "job.yaml": None})
    assert run() == 1
    assert run("--allow-prune") == 0
    commit(repo, {"web.yaml": WEB, "job.yaml": JOB})
    capsys.readouterr()
    assert run("--dry-run") == 0
    planned = capsys.readouterr().out
    assert "app/web/0" in planned
    assert "+ task/job" not in planned


def test_a_command_tries_again_at_once_what_had_failed(
    repo: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever mends a secret and types the command does not wait for a back-off."""
    secrets = tmp_path / "secrets"
    cluster = HEAD + f"kind: Cluster\nname: lab\nsecrets: {{directory: {secrets}}}\n"
    commit(repo, {**FILES, "cluster.yaml": cluster, "web.yaml": WEB + "env: {TOKEN: {secret: hf, key: token}}\n"})
    assert run() == 1
    assert "hf" in capsys.readouterr().err
    (secrets / "hf").mkdir(parents=True)
    (secrets / "hf" / "token").write_text("s3cret")
    assert run() == 0
    assert "s3cret" not in "".join(capsys.readouterr())


def test_a_snapshot_replays_alone(repo: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bug report is one file: the same plan without repository, hosts or state directory."""
    commit(repo, {**FILES, "web.yaml": WEB})
    assert run("snapshot") == 0
    (tmp_path / "snapshot.json").write_text(capsys.readouterr().out)
    assert run("--dry-run", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    shutil.rmtree(repo)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    assert run("--dry-run", "--json", "--snapshot", str(tmp_path / "snapshot.json"), source=False) == 0
    assert json.loads(capsys.readouterr().out) == planned
