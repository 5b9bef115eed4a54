"""The documentation is held to the code: fields, defaults, options, variables, labels, examples and links."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from reconciler.actual.facts import facts_from_json, facts_to_json
from reconciler.actual.labels import PREFIX as LABELS
from reconciler.actual.labels import encode_labels
from reconciler.cli.options import COMMANDS, RECONCILE, Command, parse
from reconciler.config import PREFIX, Settings, check_writes, settings_from
from reconciler.desired.forms import Strict
from reconciler.desired.schema import KINDS, json_schema
from reconciler.desired.schema_workload import KINDS as WORKLOADS
from reconciler.model.plan import ActionKind, Order, StepKind
from reconciler.model.snapshot import Limits, Ours
from reconciler.model.workload import Allocation, ContainerSpec, InstanceId, Kind
from reconciler.planner.changes import limit_changes, spec_name
from reconciler.report.document import plan_json
from tests.fakes.pages import ROOT, Block, Page, Row, codes, pages
from tests.fakes.report_samples import PLAN
from tests.fakes.specs import problems, said

ALL = pages("*.md", "docs/**/*.md", "examples/**/*.md")
REFERENCE = {page.path.name: page for page in ALL if page.name.startswith("docs/reference")}
ROWS = [(page, row) for page in REFERENCE.values() for row in page.rows]
SCHEMA = json_schema()["$defs"]


def models(base: type[Strict] = Strict) -> dict[str, type[Strict]]:
    """Every map that a document may hold, by the name of its model."""
    found: dict[str, type[Strict]] = {}
    for child in base.__subclasses__():
        found |= {child.__name__: child, **models(child)}
    return found


MODELS = models()


def aliases(model: type[Strict]) -> set[str]:
    """Names of fields as they are written."""
    return {info.alias or name for name, info in model.model_fields.items()}


def marked(mark: str) -> list[Row]:
    """The rows of the tables below one comment."""
    return [row for _, row in ROWS if row.mark == mark]


def field_rows() -> Iterator[tuple[Page, Row, str, str]]:
    """Every row that describes a field: its page, itself, the model, the field."""
    for page, row in ROWS:
        if row.mark.startswith("fields: "):
            for name in row.names:
                owners = [one for one in row.mark.split()[1:] if name in aliases(MODELS[one])]
                yield from ((page, row, owner, name) for owner in owners)


# -- fields


def tables() -> dict[str, set[str]]:
    """Names in the first column of the tables of fields, by their comment."""
    found: dict[str, set[str]] = {}
    for _, row in ROWS:
        if row.mark.startswith("fields: "):
            found.setdefault(row.mark.removeprefix("fields: "), set()).update(row.names)
    return found


def test_every_model_has_a_table() -> None:
    """No part of a document is left out, and none is described twice."""
    assert sorted(name for mark in tables() for name in mark.split()) == sorted(MODELS)


@pytest.mark.parametrize("mark", tables())
def test_a_table_has_the_fields_of_its_model(mark: str) -> None:
    """Each field stands in the first column, and nothing else does."""
    assert tables()[mark] == set().union(*(aliases(MODELS[name]) for name in mark.split()))


def schema_of(model: str, field: str) -> dict[str, Any]:
    """What the printed schema says of a field."""
    kinds = list(WORKLOADS) if model == "Workload" else [model]
    described: dict[str, Any] = next(SCHEMA[kind] for kind in kinds if field in SCHEMA[kind]["properties"])
    return described


IN_OTHER_WORDS = {"Workload.restart", "Probe.interval"}  # differs by kind; in units that people write


def test_defaults_are_those_of_the_schema() -> None:
    """What a table calls required or a default is what the validation takes."""
    wrong = []
    for page, row, model, field in field_rows():
        schema, said_there = schema_of(model, field), row.cells[2]
        if field in schema.get("required", ()):
            good = said_there.startswith("required")
        else:
            default = schema["properties"][field].get("default")
            spoken = default in (None, "", []) or f"{model}.{field}" in IN_OTHER_WORDS
            word = default if isinstance(default, str) else json.dumps(default)
            good = "required" not in said_there and (spoken or word in codes(said_there))
        if not good:
            wrong.append(f"{page.name}: {model}.{field}: {said_there!r}")
    assert wrong == []


PARTS = {"Workload": "", "Resources": "resources.", "Stop": "stop.", "Rollout": "rollout."}
MAPS = {"apiVersion", "kind", "name", "resources", "stop", "rollout"}
RECREATE = {spec_name(item.name) for item in fields(ContainerSpec)} | {"readiness"}
FEW = Limits(cpus=(0,), memory_nodes=(0,), memory=1, nano_cpus=0, pids=1, restart="no")
MANY = Limits(cpus=(1, 2), memory_nodes=(1,), memory=2, nano_cpus=10**9 // 2, pids=2, restart="always")
UPDATE = {change.field for change in limit_changes(FEW, MANY)} - {"cpuset", "memory nodes"}


def class_of(model: str, field: str) -> str:
    """What an edit of a field does, as the model has it."""
    name = PARTS[model] + field
    python = next(key for key, info in MODELS[model].model_fields.items() if (info.alias or key) == field)
    if python in MODELS[model].later:
        return "later"
    if name in MAPS:
        return ""
    return "recreate" if name in RECREATE else "update" if name in UPDATE else "scheduling"


def test_classes_are_those_of_the_model() -> None:
    """Whether an edit makes a new container is told rightly, field by field."""
    told = {(model, field): row.cells[3] for _, row, model, field in field_rows() if model in PARTS}
    assert told == {key: class_of(*key) for key in told}


def later() -> dict[str, str]:
    """Fields that are refused, by their model."""
    return {
        f"{name}.{model.model_fields[field].alias or field}": field
        for name, model in MODELS.items()
        for field in model.later
    }


def test_fields_that_come_later_say_so() -> None:
    """A field that is refused is never sold as one that works."""
    told = {f"{model}.{field}": "not supported yet" in "".join(row.cells) for _, row, model, field in field_rows()}
    assert [name for name in later() if not told[name]] == []


def test_the_list_of_what_comes_later_is_whole() -> None:
    """One list has them all, and nothing that works."""
    listed = [name.rpartition(".")[2] for row in marked("later") for name in codes(row.cells[1])]
    assert sorted(listed) == sorted([*(name.rpartition(".")[2] for name in later()), "Queue"])


def test_the_index_leads_to_every_field() -> None:
    """Each field is found by its name, and leads to each table that has it."""
    wanted: dict[str, set[str]] = {}
    for page, row, _, field in field_rows():
        wanted.setdefault(field, set()).add(f"reference/{page.path.name}#{row.anchor}")
    index = {row.names[0]: set(re.findall(r"\(([^)]+)\)", row.cells[1])) for row in marked("index")}
    assert index == wanted


# -- the command line


@pytest.mark.parametrize("command", [RECONCILE, *COMMANDS], ids=lambda command: command.name or "reconcile")
def test_a_command_is_listed_with_its_options(command: Command) -> None:
    """The table has each command and exactly its options."""
    told = {codes(row.cells[0])[0]: set(codes(row.cells[2])) for row in marked("commands")}
    line = " ".join(filter(None, ("reconcile", command.name, command.argument[0] if command.argument else "")))
    assert told[line] == {f"--{name.replace('_', '-')}" for name in command.options}
    assert len(told) == len(COMMANDS) + 1


def test_every_option_is_listed_with_its_variable() -> None:
    """Each option stands beside the variable that sets it."""
    told = {row.names[0]: codes(row.cells[1])[0] for row in marked("options")}
    assert told == {f"--{item.name.replace('_', '-')}": f"{PREFIX}{item.name.upper()}" for item in fields(Settings)}


def test_every_variable_is_named() -> None:
    """What the program reads from its environment is in the reference, and what is there is read."""
    variable = re.compile(r"(?<![A-Z_])(?:RECONCILE|SIM)_[A-Z][A-Z_]*[A-Z](?![A-Z_])")
    code = {name for path in (ROOT / "reconciler").rglob("*.py") for name in variable.findall(path.read_text())}
    code |= {f"{PREFIX}{item.name.upper()}" for item in fields(Settings)}
    assert {name for page in REFERENCE.values() for name in variable.findall(page.text)} == code


def command_lines() -> list[Any]:
    """Every command line in the documentation, each once a page."""
    found = {f"{page.name}: reconcile {' '.join(words)}": words for page in ALL for words in page.commands()}
    return [pytest.param(words, id=name) for name, words in found.items()]


@pytest.mark.parametrize("words", command_lines())
def test_a_command_line_is_understood(words: list[str]) -> None:
    """What a reader copies is no wrong usage."""
    if words[-1:] in (["--help"], ["--version"]):
        with pytest.raises(SystemExit) as left:
            parse(words)
        assert left.value.code == 0
        return
    command, given = parse(words)
    given.pop("argument", None)
    settings = settings_from(given, {})
    if command is RECONCILE:
        check_writes(settings)


# -- examples


def yaml_blocks(page: Page, *, fragments: bool) -> list[Block]:
    """The YAML of a page: fragments, or whole documents."""
    blocks = [block for block in page.blocks if block.language == "yaml"]
    return [block for block in blocks if block.mark.startswith("fragment: ") == fragments]


@pytest.mark.parametrize(
    "page", [page for page in ALL if yaml_blocks(page, fragments=False)], ids=lambda page: str(page.name)
)
def test_the_documents_of_a_page_are_a_repository(page: Page) -> None:
    """Together they are valid, and each file that they name is on the page."""
    files = {f"line-{block.line}.yaml": block.text for block in yaml_blocks(page, fragments=False)}
    files |= {block.mark.removeprefix("file: "): block.text for block in page.blocks if block.mark[:6] == "file: "}
    assert problems(files) == []


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{page.name}:{block.line}")
        for page in ALL
        for block in yaml_blocks(page, fragments=True)
    ],
)
def test_a_fragment_is_valid_in_its_kind(block: Block) -> None:
    """Put into a document of the kind that its comment names, it is valid."""
    assert said(block.mark.removeprefix("fragment: "), block.text) == []


def test_the_facts_are_read_whole() -> None:
    """No key of the facts in the reference is one that nobody reads."""
    (block,) = (block for block in REFERENCE["hosts.md"].blocks if block.mark.startswith("file: "))
    assert facts_to_json(facts_from_json(block.text, "hosts.md")) == json.loads(block.text)


def test_the_plan_has_the_keys_of_a_plan() -> None:
    """The plan in the reference is shaped as the one that is printed."""
    (block,) = (block for block in REFERENCE["plan.md"].blocks if block.mark == "plan")
    told, made = json.loads(block.text), plan_json(PLAN)
    assert set(told) == set(made)
    for part in ("actions", "pending", "drift", "waiting"):
        assert set(told[part][0]) == set(made[part][0]), part
    allocation = next(action["allocation"] for action in made["actions"] if action["allocation"])
    assert set(told["actions"][0]["allocation"]) == set(allocation)
    assert set(told["summary"]) == set(made["summary"])


@pytest.mark.parametrize(
    ("anchor", "cell", "words"),
    [("signs", 1, {*ActionKind, *Order}), ("steps", 0, set(StepKind))],
    ids=["actions", "steps"],
)
def test_actions_and_steps_are_named(anchor: str, cell: int, words: set[str]) -> None:
    """Every word that a plan may hold is explained, and no other."""
    rows = [
        row for row in REFERENCE["plan.md"].rows if row.anchor == anchor and len(row.cells) == 3 - (anchor == "steps")
    ]
    assert {word for row in rows for word in codes(row.cells[cell])} == words


def test_labels_are_those_of_a_container() -> None:
    """Each label is listed, and no other."""
    instance = InstanceId(Kind.TASK, "job", "0", "r1", 1)
    ours = Ours(instance, 2, "v1:0", {"image": "a"}, Allocation(), "c0ffee", "me", 1, "5ec")
    made = {label.removeprefix(LABELS) for label in encode_labels(ours, "lab")}
    assert sorted(row.names[0] for row in marked("labels")) == sorted(made)


def test_container_names_are_those_that_are_made() -> None:
    """The examples of names come out of the code."""
    told = [codes(" ".join(row.cells)) for row in REFERENCE["on-the-host.md"].rows if row.anchor == "names"]
    assert len(told) == 3
    assert all(InstanceId.parse(one).container_name("lab", 1) == name for one, name in told)


# -- links


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.name))
def test_links_lead_somewhere(page: Page) -> None:
    """Each link to a file of the project finds it, and each one to a heading finds that."""
    broken = []
    for link in page.links:
        name, _, heading = link.partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        if not target.exists() or (heading and heading not in Page(target).anchors):
            broken.append(link)
    assert broken == []


def test_every_kind_is_in_the_reference() -> None:
    """A newcomer finds each kind by its name."""
    assert [kind for kind in KINDS if f"`{kind}`" not in REFERENCE["reference.md"].prose] == []
