"""The example repositories as an editor sees them: the schema is the printed one, and every document valid by it."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler.cli.main import main
from reconciler.desired.documents import parse
from reconciler.desired.scalars import bare
from tests.fakes.pages import ROOT, Page

EXAMPLES = ROOT / "examples"
EXAMPLE = EXAMPLES / "repo"
FILES = sorted(EXAMPLES.rglob("*.yaml"))
SCHEMA_LINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")


def relative(path: Path) -> str:
    """A file by its path in the examples."""
    return path.relative_to(EXAMPLES).as_posix()


def schema() -> Any:
    """The schema that the editor reads."""
    return json.loads((EXAMPLE / ".schema.json").read_text(encoding="utf-8"))


def test_the_schema_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Made again with: reconcile schema > examples/repo/.schema.json."""
    assert main(["schema"], {}) == 0
    assert (EXAMPLE / ".schema.json").read_text(encoding="utf-8") == capsys.readouterr().out


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_an_editor_accepts_every_document(path: Path) -> None:
    """A validator that is not ours finds nothing, and there is a document to look at."""
    documents, found = parse(path.read_bytes(), relative(path))
    assert found == ()
    validator = jsonschema.Draft202012Validator(schema())
    errors = [error.message for one in documents for error in validator.iter_errors(bare(one.value))]
    assert documents
    assert errors == []


def test_an_editor_marks_a_typing_error() -> None:
    """The schema that lies there refuses what no kind has."""
    (first, *_), _ = parse((EXAMPLE / "apps" / "web.yaml").read_bytes(), "web.yaml")
    assert not jsonschema.Draft202012Validator(schema()).is_valid({**bare_map(first.value), "imge": "web:1"})


def bare_map(value: dict[str, Any]) -> dict[str, Any]:
    """A document as JSON would hold it."""
    made = bare(value)
    assert isinstance(made, dict)
    return made


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_every_file_points_at_the_schema(path: Path) -> None:
    """Its first line leads an editor there."""
    line = SCHEMA_LINE.match(path.read_text(encoding="utf-8"))
    assert line is not None
    assert (path.parent / line[1]).resolve() == EXAMPLE / ".schema.json"


@pytest.mark.parametrize(("name", "found"), [("repo", "6 workloads, 5 hosts"), ("gpu-sharing", "6 workloads, 3 hosts")])
def test_the_schema_is_no_document(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, found: str) -> None:
    """Hidden files are not read: with it each repository is valid."""
    assert main(["validate", "--repo", str(EXAMPLES / name), "--worktree"], {"HOME": str(tmp_path)}) == 0
    assert capsys.readouterr().out.startswith(f"valid: {found}")


def shared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The first plan of the example of shared cards."""
    arguments = ["--repo", str(EXAMPLES / "gpu-sharing"), "--worktree", "--dry-run", "--json"]
    assert main(arguments, {"HOME": str(tmp_path)}) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def test_the_example_of_shared_cards_finds_room_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two daemons, four notebooks, two embedders, a tokenizer, a training run, and two slices that are to be cut."""
    plan = shared(tmp_path, capsys)
    assert (plan["pending"], plan["summary"]["start"]) == ([], 12)


def test_the_example_of_shared_cards_keeps_its_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Notebooks two to a rack, embedders one to a rack, the tokenizer on the host that it prefers of theirs."""
    on: dict[str, list[str]] = {}
    for action in shared(tmp_path, capsys)["actions"]:
        on.setdefault(action["instance"].split("/")[1], []).append(action["host"])
    assert sorted(on["notebook"]) == ["share-r1", "share-r1", "share-r2", "share-r2"]
    assert sorted(on["embed"]) == ["share-r1", "share-r2"]
    assert on["tokenizer"] == ["share-r2"]


def test_the_example_of_shared_cards_says_what_to_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two 3g slices of an A100 lie at 0 and 4; they have no UUID yet, and nothing starts on them."""
    actions = [one for one in shared(tmp_path, capsys)["actions"] if one["instance"].startswith("app/classify/")]
    slices = [piece for one in actions for piece in one["allocation"]["mig"]]
    assert sorted((piece["start"], piece["profile"], piece["uuid"]) for piece in slices) == [
        (0, "3g.20gb", None),
        (4, "3g.20gb", None),
    ]
    assert [one["steps"][0] for one in actions] == ["cut", "cut"]


def test_the_plan_in_the_readme_is_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a newcomer reads is what the example prints, but for the commit and what is left out."""
    block = next(block.text for block in Page(ROOT / "README.md").blocks if block.text.startswith("$ reconcile"))
    command, title, *told = block.splitlines()
    assert command == "$ reconcile --repo examples/repo --dry-run"
    assert title.startswith("Plan for demo at ")
    assert main(["--repo", str(EXAMPLE), "--worktree", "--dry-run"], {"HOME": str(tmp_path)}) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    assert [line for line in told if line.strip() != "..." and line not in printed] == []
