"""The example repository as an editor sees it: its schema is the printed one, and its documents are valid by it."""

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

EXAMPLE = ROOT / "examples" / "repo"
FILES = sorted(EXAMPLE.rglob("*.yaml"))
SCHEMA_LINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")


def relative(path: Path) -> str:
    """A file by its path in the example."""
    return path.relative_to(EXAMPLE).as_posix()


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


def test_the_schema_is_no_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hidden files are not read: with it the repository is valid."""
    assert main(["validate", "--repo", str(EXAMPLE), "--worktree"], {"HOME": str(tmp_path)}) == 0
    assert capsys.readouterr().out.startswith("valid: 6 workloads, 5 hosts")


def test_the_plan_in_the_readme_is_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a newcomer reads is what the example prints, but for the commit and what is left out."""
    block = next(block.text for block in Page(ROOT / "README.md").blocks if block.text.startswith("$ reconcile"))
    command, title, *told = block.splitlines()
    assert command == "$ reconcile --repo examples/repo --dry-run"
    assert title.startswith("Plan for demo at ")
    assert main(["--repo", str(EXAMPLE), "--worktree", "--dry-run"], {"HOME": str(tmp_path)}) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    assert [line for line in told if line.strip() != "..." and line not in printed] == []
