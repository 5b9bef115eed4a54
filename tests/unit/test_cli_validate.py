"""``reconcile validate``: what it looks at, what it counts, and what it warns of."""

import json
from pathlib import Path

import pytest

from reconciler.cli.main import main
from tests.fakes.git_repository import commit
from tests.fakes.trees import APP, CLUSTER, HOST, LOCAL_SERVICE, TASK

FILES: dict[str, str | None] = {"app.yaml": APP, "host.yaml": HOST, "cluster.yaml": CLUSTER}


def validate(folder: Path, *arguments: str) -> int:
    """The command, with nothing in its environment but a home."""
    return main(["validate", "--repo", str(folder), *arguments], {"HOME": str(folder.parent)})


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "repo"
    commit(folder, FILES)
    return folder


def test_an_error_that_is_not_committed_is_found(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files are checked as they are; with a ref, as they were."""
    (repo / "app.yaml").write_text(APP + "imge: x\n")
    assert validate(repo) == 1
    assert capsys.readouterr().err == f"{repo}/app.yaml:6:1: imge: unknown key; did you mean image?\n"
    assert validate(repo, "--ref", "HEAD") == 0


def test_the_line_says_what_was_checked(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder and how many of its files no commit has, or a commit."""
    assert validate(repo) == 0
    assert capsys.readouterr().out == f"valid: 1 workload, 1 host (files of {repo})\n"
    (repo / "app.yaml").write_text(APP + "---\n" + TASK)
    (repo / "host2.yaml").write_text(HOST.replace("gpu-01", "gpu-02"))
    for more in ((), ("--worktree",)):
        assert validate(repo, *more) == 0
        assert capsys.readouterr().out == f"valid: 2 workloads, 2 hosts (files of {repo}, 2 not committed)\n"
    (repo / "host.yaml").unlink()
    assert validate(repo) == 0
    assert "1 host (" in (out := capsys.readouterr().out)
    assert "3 not committed" in out


@pytest.mark.parametrize("ref", ["HEAD", "main"])
def test_a_ref_is_a_commit(repo: Path, capsys: pytest.CaptureFixture[str], ref: str) -> None:
    """Its short hash is shown."""
    made = commit(repo, {"task.yaml": TASK})
    assert validate(repo, "--ref", ref) == 0
    assert capsys.readouterr().out == f"valid: 2 workloads, 1 host (commit {made[:7]} of {repo})\n"


def test_a_url_is_a_commit(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are not committed are nothing to who reads a URL."""
    made = commit(repo, {"task.yaml": TASK})
    (repo / "app.yaml").write_text("kind: [")
    arguments = ["validate", "--repo", f"file://{repo}", "--state-dir", str(repo.parent / "state")]
    assert main(arguments, {"HOME": str(repo.parent)}) == 0
    assert capsys.readouterr().out == f"valid: 2 workloads, 1 host (commit {made[:7]} of file://{repo})\n"


def test_only_the_path_is_looked_at(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is not committed elsewhere does not count."""
    commit(repo, {"lab/app.yaml": APP, "lab/host.yaml": HOST, "lab/cluster.yaml": CLUSTER})
    (repo / "app.yaml").write_text("kind: [")
    (repo / "lab" / "app.yaml").write_text(APP + "\n")
    assert validate(repo, "--path", "lab") == 0
    assert capsys.readouterr().out == f"valid: 1 workload, 1 host (files of {repo}/lab, 1 not committed)\n"


def test_a_folder_without_git(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no commit that anything could differ from."""
    folder = tmp_path / "plain"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(str(text))
    assert validate(folder) == 0
    assert capsys.readouterr().out == f"valid: 1 workload, 1 host (files of {folder})\n"


NO_CLUSTER = "no Cluster: nothing can be applied before one names the containers (kind: Cluster)"
NO_HOST = "no Host: there is nowhere to run anything (kind: Host)"
ON_80 = "ports: [{container: 80, host: 80}]\n"


@pytest.mark.parametrize(
    ("files", "warnings"),
    [
        ([APP, CLUSTER, HOST], []),
        ([APP, HOST], [NO_CLUSTER]),
        ([APP, CLUSTER], [NO_HOST]),
        ([], [NO_CLUSTER, NO_HOST]),
        ([APP + ON_80, CLUSTER, HOST], []),
        (
            [APP.replace("instances: 1", "instances: 2") + ON_80, CLUSTER, HOST],
            ["app/web: 2 instances want port 80/tcp of a host, and there is 1 host"],
        ),
        (
            [APP + ON_80, APP.replace("web", "web2") + ON_80, CLUSTER, HOST],
            ["app/web, app/web2: 2 instances want port 80/tcp of a host, and there is 1 host"],
        ),
        ([APP + ON_80, APP.replace("web", "web2") + ON_80, CLUSTER, HOST, HOST.replace("01", "02")], []),
        (
            [APP + ON_80, LOCAL_SERVICE + ON_80, CLUSTER, HOST, HOST.replace("01", "02")],
            ["app/web, localservice/exporter: 3 instances want port 80/tcp of a host, and there are 2 hosts"],
        ),
        ([APP + ON_80, TASK + ON_80, CLUSTER, HOST], []),
        ([APP + ON_80, APP.replace("web", "web2") + ON_80 + "suspend: true\n", CLUSTER, HOST], []),
        ([APP + ON_80, APP.replace("web", "w2") + ON_80.replace("}", ", protocol: udp}"), CLUSTER, HOST], []),
    ],
)
def test_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str], files: list[str], warnings: list[str]) -> None:
    """What keeps work from running is said, and is no error."""
    folder = tmp_path / "repo"
    commit(folder, {"README": "", "all.yaml": "---\n".join(files)})
    assert validate(folder) == 0
    assert capsys.readouterr().err == "".join(f"warning: {one}\n" for one in warnings)
    assert validate(folder, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"valid": True, "problems": [], "warnings": warnings}
