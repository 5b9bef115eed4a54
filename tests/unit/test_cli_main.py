"""The command line: exit codes, one line per error, no traceback, nothing heavy before it is needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.cli import main as cli
from reconciler.cli.options import COMMANDS, RECONCILE, parse
from reconciler.config import Settings
from reconciler.errors import LockHeldError, Problem, SourceError, SpecError, UsageError

RUN = [sys.executable, "-c", "import sys; from reconciler.cli.main import main; sys.exit(main())"]


def run(arguments: list[str], home: Path) -> int:
    """``reconcile`` with nothing in its environment but a home."""
    try:
        return cli.main(arguments, {"HOME": str(home)})
    except SystemExit as left:  # argparse leaves by itself after --help and --version
        return int(left.code or 0)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, ""),
        (["hosts", "--help"], 0, ""),
        (["--version"], 0, ""),
        ([], 64, "no repository: give --repo or set RECONCILE_REPO"),
        (["--dry-run"], 64, "no repository"),
        (["validate"], 64, "no repository"),
        (["--nonsense"], 64, "unrecognized arguments: --nonsense (see reconcile --help)"),
        (["nonsense"], 64, "invalid choice: 'nonsense'"),
        (["explain"], 64, "the following arguments are required: INSTANCE"),
        (["--repo", "/x", "explain", "web"], 64, "not an instance or a workload: 'web'"),
        (["daemon", "--interval", "soon"], 64, "argument --interval: not a duration: 'soon'"),
        (["--dry", "--repo", "/x"], 64, "unrecognized arguments: --dry"),
        (["--dry-run", "--json", "--markdown", "--repo", "/x"], 64, "--json and --markdown exclude one another"),
        (["--worktree", "--repo", "/x"], 64, "--worktree can only be planned: add --dry-run"),
        (["--out", "f", "--repo", "/x"], 64, "--out is about a plan: add --dry-run"),
        (["--allow-prune", "schema"], 64, "schema has no option --allow-prune"),
        (["apply", "/does/not/exist", "--repo", "/x"], 64, "/does/not/exist: cannot be read: No such file"),
        (["--dry-run", "--repo", "/x", "--snapshot", "/does/not/exist"], 64, "/does/not/exist: cannot be read"),
        (["validate", "--repo", "/does/not/exist"], 1, "/does/not/exist"),
    ],
)
def test_exit_codes_and_one_line_of_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """0 done, 1 error, 64 wrong usage; never a traceback, and nothing is written."""
    assert run(arguments, tmp_path) == code
    out, err = capsys.readouterr()
    assert said in err
    assert "Traceback" not in err
    assert (out == "") is (code != 0)
    assert list(tmp_path.iterdir()) == []


def test_without_a_repository_help_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a newcomer types first."""
    assert run([], tmp_path) == 64
    err = capsys.readouterr().err
    assert "usage: reconcile" in err
    assert "--repo URL|DIR" in err
    assert err.endswith("\n\nreconcile: no repository: give --repo or set RECONCILE_REPO\n")


@pytest.mark.parametrize("command", ["explain app/web", "status", "validate", "daemon"])
def test_a_command_without_its_repository_says_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Who knows a command has seen the help."""
    assert run(command.split(), tmp_path) == 64
    assert capsys.readouterr().err == "reconcile: no repository: give --repo or set RECONCILE_REPO\n"


@pytest.mark.parametrize(
    ("command", "said", "kept"),
    [
        ("hosts", "show these hosts only", "act on"),
        ("status", "show these only", "act on"),
        ("daemon", "act on these hosts only", "show these"),
    ],
)
def test_help_tells_looking_from_acting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, said: str, kept: str
) -> None:
    """The same option filters what is shown, or what is changed."""
    assert run([command, "--help"], tmp_path) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert said in out
    assert kept not in out


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            SpecError([Problem("b.yaml", 3, 1, "two"), Problem("a.yaml", 0, 0, "one")]),
            1,
            "a.yaml: one\nb.yaml:3:1: two\n",
        ),
        (SourceError("no such branch"), 1, "no such branch\n"),
        (LockHeldError("lab: held"), 1, "lab: held\n"),
        (UsageError("wrong"), 64, "reconcile: wrong\n"),
        (ValueError("a\nb"), 1, "reconcile: internal error: ValueError: a b (--debug shows where)\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_every_exception_ends_in_lines_and_a_code(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All problems of a repository, each on its line; an internal error says how to see more."""

    def fail(_settings: Settings) -> int:
        raise error

    monkeypatch.setattr(cli, "_load", lambda _command: fail)
    assert cli.main(["schema"], {}) == code
    assert capsys.readouterr().err == text


@pytest.mark.parametrize(
    ("arguments", "environ"), [(["schema", "--debug"], {}), (["schema"], {"RECONCILE_DEBUG": "1"})]
)
def test_debug_shows_the_traceback(
    arguments: list[str], environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception is let through."""

    def fail(_settings: Settings) -> int:
        raise ValueError("inside")

    monkeypatch.setattr(cli, "_load", lambda _command: fail)
    with pytest.raises(ValueError, match="inside"):
        cli.main(arguments, environ)


def test_a_reader_that_leaves_is_no_error_to_talk_about(tmp_path: Path) -> None:
    """``reconcile schema | head -1``: quiet."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with subprocess.Popen([*RUN, "schema"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("arguments", [["schema"], ["--help"], ["--version"], ["hosts", "--engine", "sim://"]])
def test_a_full_disk_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    """Nothing more is said when the interpreter ends, and the exit code is that of an error."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*RUN, *arguments], env=environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "reconcile: cannot write the output: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_errors_that_cannot_be_told_change_no_exit_code(tmp_path: Path) -> None:
    """A full disk behind stderr."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*RUN, "--nonsense"], env=environ, stderr=full, check=False)
    assert done.returncode == 64


def test_streams_that_were_closed_are_no_error(tmp_path: Path) -> None:
    """``reconcile schema >&-``: what is said goes nowhere."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    code = (
        "import sys; sys.stdout = sys.stderr = None; from reconciler.cli.main import main; sys.exit(main(['schema']))"
    )
    assert subprocess.run([sys.executable, "-c", code], env=environ, check=False).returncode == 0


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_can_be_loaded_and_knows_its_options(command: object) -> None:
    """The table names functions that exist."""
    assert isinstance(command, type(RECONCILE))
    assert callable(cli._load(command))


@pytest.mark.parametrize(
    ("arguments", "name", "given"),
    [
        ([], "", {}),
        (["--dry-run", "--host", "a", "--host", "b,c"], "", {"dry_run": True, "host": ("a", "b", "c")}),
        (["--repo", "x", "validate"], "validate", {"repo": "x"}),
        (["validate", "--repo", "x"], "validate", {"repo": "x"}),
        (["--repo", "x", "validate", "--repo", "y"], "validate", {"repo": "y"}),
        (["apply", "p.json"], "apply", {"argument": "p.json"}),
        (["hosts", "--engine", "sim://", "--engine", "unix:///x"], "hosts", {"engine": ("sim://", "unix:///x")}),
        (["--state-dir", "/s"], "", {"state_dir": Path("/s")}),
    ],
)
def test_options_stand_before_or_after_the_command(arguments: list[str], name: str, given: dict[str, object]) -> None:
    """Only what was given is in the result; the later one wins, lists grow."""
    command, options = parse(arguments)
    assert (command.name, options) == (name, given)


def test_help_imports_nothing_heavy() -> None:
    """``--help`` stays quick because of what it does not load."""
    heavy = "docker git yaml pydantic rich deepdiff watchfiles pynvml cel sqlite3 requests reconciler.model.workload"
    code = (
        "import sys; from reconciler.cli.main import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: print([one for one in {heavy.split()!r} if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
