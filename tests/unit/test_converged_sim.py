"""A converged fleet plans nothing, for every field of every kind, on simulated hosts through the command itself."""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from reconciler.desired.schema import json_schema
from reconciler.engine.simulated import SimulatedReader
from reconciler.engine.simulation import Simulation
from reconciler.journal.journal import cluster_dir
from tests.fakes.converging import (
    FACTS,
    HOST,
    Course,
    Repository,
    bundles,
    check_arrived,
    check_effect,
    noise,
    run_course,
)
from tests.fakes.field_cases import (
    ALONE,
    EVERY,
    GROUPS,
    VIOLATED,
    Effect,
    FieldCase,
    Json,
    group,
    overlay,
    plain,
    schema_fields,
    varied,
)
from tests.fakes.settings_cases import CLUSTER_CASES, HOST_CASES, SPELLINGS, WORKLOADS, SettingsCase

MACHINES = Path(__file__).parents[1] / "fixtures" / "machines"
REFUSED = [case for cases in GROUPS.values() for case in cases if case.effect is Effect.REFUSED]
EVERY_CASE = [pytest.param(name, case, id=case.name) for name in GROUPS for case in group(name, "App")]
Courses = Callable[[str], Course]


def inspects(repository: Repository) -> list[Json]:
    """Every container of the simulated host."""
    reader = SimulatedReader("host-1", cluster_dir(repository.state, "lab"))
    return [reader.inspect_container(entry["Id"]) for entry in reader.list_containers()]


def go(directory: Path, kind: str, cases: list[FieldCase]) -> Course:
    """The course of some cases on a simulated host of its own, which has a network."""
    repository = Repository(directory)
    state = cluster_dir(repository.state, "lab")
    state.mkdir(parents=True)
    Simulation(state).network("host-1", "mesh")
    return run_course(repository, kind, cases, lambda: inspects(repository))


@pytest.fixture(scope="module")
def courses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Courses]:
    """The course of each group of cases, each case an App of its own; made when first asked for."""

    @cache
    def course(name: str) -> Course:
        return go(tmp_path_factory.mktemp(name), "App", group(name, "App"))

    yield course
    course.cache_clear()


@pytest.mark.parametrize("name", GROUPS)
def test_cases_side_by_side_settle_and_need_nothing_more(courses: Courses, name: str) -> None:
    """Both times the command succeeds, every instance runs, and the next plan is empty."""
    course = courses(name)
    check_settled(course)
    names = {case.name for case in group(name, "App")}
    for documents in (course.before, course.after):
        assert {found for found, one in documents.items() if one["State"]["Running"]} == names


@pytest.mark.parametrize(("name", "case"), EVERY_CASE)
def test_an_edit_is_planned_by_the_class_of_its_field(courses: Courses, name: str, case: FieldCase) -> None:
    """Replaced, updated in place or left alone; the plan names the field, and both values arrive."""
    course = courses(name)
    check_effect(course, case)
    if case.look and case.where != "engine":
        check_arrived(course, case)


@pytest.mark.parametrize("case", ALONE, ids=lambda case: str(case.name))
def test_a_case_that_takes_cores_settles(tmp_path: Path, case: FieldCase) -> None:
    """The same course, alone on a host."""
    course = go(tmp_path, "App", [case])
    check_settled(course)
    check_effect(course, case)
    if case.look:
        check_arrived(course, case)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: str(case.name))
def test_what_comes_later_is_refused_and_not_ignored(tmp_path: Path, case: FieldCase) -> None:
    """Its default is accepted, any other value is not."""
    repository = Repository(tmp_path)
    kind = case.kinds[0]
    repository.write("w", case.document(kind, case.before))
    assert repository.run("validate").code == 0
    repository.write("w", case.document(kind, case.after))
    said = repository.run("validate")
    assert (said.code, "not supported yet" in said.err) == (1, True)


@pytest.mark.parametrize("kind", EVERY)
def test_fields_together_in_one_workload_settle(tmp_path: Path, kind: str) -> None:
    """As many fields as can stand together do; the edit names all of them."""
    found = bundles(case for name in GROUPS for case in group(name, kind))
    course = go(tmp_path, kind, [bundle.whole for bundle in found])
    check_settled(course)
    for bundle in found:
        check_effect(course, bundle.whole)
        for case in bundle.parts:
            if case.look and case.where != "engine":
                check_arrived(course, case, bundle.whole.name)


# -- that no field is forgotten


SCHEMA = json_schema()
IDENTITY = {"apiVersion", "kind", "name"}
COUNTED = {"instances", "suspend", "run"}
"""Fields that make and unmake instances: they have tests of their own."""


@pytest.mark.parametrize("kind", EVERY)
def test_every_supported_field_of_a_workload_has_a_case(kind: str) -> None:
    """A field that is added to the schema and to no case fails here."""
    cases = [*(case for cases in GROUPS.values() for case in cases), *ALONE, VIOLATED]
    covered = set().union(*(varied(case) for case in cases)) | IDENTITY | COUNTED
    assert {field for field in schema_fields(SCHEMA, kind) if not is_covered(field, covered)} == set()


@pytest.mark.parametrize(("kind", "table"), [("Host", HOST_CASES), ("Cluster", CLUSTER_CASES)])
def test_every_supported_field_of_hosts_and_clusters_has_a_case(kind: str, table: tuple[SettingsCase, ...]) -> None:
    """The same for the documents that are no workloads; what a host's Engine is says which host it is."""
    covered = set().union(*(case.varied() for case in table)) | IDENTITY | {"engine"}
    assert {field for field in schema_fields(SCHEMA, kind) if not is_covered(field, covered)} == set()


def is_covered(field: str, covered: set[str]) -> bool:
    """Whether the field or something inside it is among the paths."""
    return any(path == field or path.startswith((f"{field}.", f"{field}[")) for path in covered)


# -- fields that make and unmake instances


def test_instances_come_and_go_one_by_one(tmp_path: Path) -> None:
    """More instances start, fewer stop, the others stay as they are."""
    repository = Repository(tmp_path)
    for count, planned in ((1, {"start"}), (3, {"start"}), (2, {"stop"})):
        repository.write("w", {**plain("App"), "name": "w", "instances": count})
        assert {one["action"] for one in repository.plan().plan["actions"]} == planned
        check_quiet(repository)


@pytest.mark.parametrize("kind", ["App", "LocalService"])
def test_what_is_suspended_stops_and_comes_back(tmp_path: Path, kind: str) -> None:
    """Suspended means that nothing of it runs, and that nothing more is to be done."""
    repository = Repository(tmp_path)
    for suspend, planned in ((False, ["start"]), (True, ["stop"]), (False, ["start"])):
        repository.write("w", {**plain(kind), "name": "w", "suspend": suspend})
        assert [one["action"] for one in repository.plan().plan["actions"]] == planned
        check_quiet(repository)


def test_a_new_run_is_said_loudly_and_made_once(tmp_path: Path) -> None:
    """Another ``run`` is another instance; the finished one stays as its receipt."""
    repository = Repository(tmp_path)
    for run, warned in (("one", False), ("two", True)):
        repository.write("w", {**plain("Task"), "name": "w", "run": run, "args": ["true"]})
        plan = repository.plan().plan
        assert [one["instance"] for one in plan["actions"]] == [f"task/w/{run}/0/0"]
        assert any("runs a task again" in line for line in plan["warnings"]) is warned
        check_quiet(repository)


def test_a_policy_that_holds_no_longer_moves_nothing(tmp_path: Path) -> None:
    """It is reported for as long as it is so."""
    course = go(tmp_path, "App", [VIOLATED])
    assert (course.applied.code, course.quiet.code, noise(course.quiet)) == (0, 0, {})
    check_effect(course, VIOLATED)
    assert (course.applied_again.code, course.quiet_again.code) == (0, 0)
    assert [one["message"] for one in noise(course.quiet_again)["drift"]] == [
        "MATCH_TAG elsewhere no longer holds on host-1"
    ]


# -- two spellings of one thing


@pytest.mark.parametrize("kind", ["App", "Task"])
def test_another_spelling_is_no_change(tmp_path: Path, kind: str) -> None:
    """What means the same is the same."""
    repository = Repository(tmp_path)
    for at, (one, _) in enumerate(SPELLINGS):
        repository.write(f"w-{at}", overlay({**plain(kind), "name": f"w-{at}"}, one))
    check_quiet(repository)
    for at, (_, other) in enumerate(SPELLINGS):
        repository.write(f"w-{at}", overlay({**plain(kind), "name": f"w-{at}"}, other))
    assert noise(repository.plan()) == {}


# -- hosts and the cluster


@pytest.mark.parametrize("case", [*HOST_CASES, *CLUSTER_CASES], ids=lambda case: str(case.name))
def test_an_edit_of_a_host_or_the_cluster_does_what_it_must_and_no_more(tmp_path: Path, case: SettingsCase) -> None:
    """What it changes of the workloads is planned by field; afterwards nothing is left to do."""
    repository = Repository(tmp_path)
    for workload in WORKLOADS:
        repository.write(f"w-{workload['name']}", workload)
    write_settings(repository, case, case.before)
    check_quiet(repository)
    write_settings(repository, case, case.after)
    plan = repository.plan().plan
    found = {
        (one["action"], one["instance"].split("/")[1], *(change["field"] for change in one["changes"]))
        for one in plan["actions"]
    }
    assert found == set(case.planned)
    assert repository.run().code == 0
    assert repository.plan().plan["actions"] == []


def write_settings(repository: Repository, case: SettingsCase, values: Json) -> None:
    """The Host or the Cluster with the values of a case; a folder of secrets is named relative to the others."""
    if case.kind == "Host":
        repository.write("host", overlay(HOST, values))
        return
    document = overlay(repository.cluster(), values)
    folder = document["secrets"]["directory"]
    document["secrets"]["directory"] = str(repository.secrets.parent / folder)
    repository.write("cluster", document)


def test_secrets_without_a_key_are_not_compared_and_the_plan_says_so(tmp_path: Path) -> None:
    """Nothing is planned either."""
    repository = Repository(tmp_path)
    repository.write("cluster", {**repository.cluster(), "secrets": {"directory": str(repository.secrets)}})
    repository.write("w", {**plain("App"), "name": "w", "env": {"A": {"secret": "hf", "key": "token"}}})
    assert repository.run().code == 0
    (repository.secrets / "hf" / "token").write_text("changed\n")
    assert noise(repository.plan()) == {"warnings": ["secrets are not compared: Cluster.secrets has no hashKey"]}


def test_a_changed_secret_replaces_what_uses_it_and_nothing_else(tmp_path: Path) -> None:
    """With a key, its hash is compared; its value never shows."""
    repository = Repository(tmp_path)
    repository.write("w", {**plain("App"), "name": "w", "env": {"A": {"secret": "hf", "key": "token"}}})
    repository.write("x", {**plain("App"), "name": "x"})
    check_quiet(repository)
    (repository.secrets / "hf" / "token").write_text("n3w-t0ken\n")
    said = repository.plan()
    assert [(one["action"], one["instance"]) for one in said.plan["actions"]] == [("replace", "app/w/0")]
    assert "n3w-t0ken" not in said.out
    check_quiet(repository)


# -- whole repositories


@pytest.mark.parametrize("facts", sorted(MACHINES.glob("*.json")), ids=lambda path: path.stem)
def test_every_kind_on_every_machine_settles(tmp_path: Path, facts: Path) -> None:
    """Cards, cores of their own, shared cores and one copy everywhere: applied once, nothing is left."""
    repository = Repository(tmp_path)
    shutil.copy(facts, repository.folder / "facts.json")
    for workload in WORKLOADS:
        repository.write(f"w-{workload['name']}", workload)
    assert repository.run().code == 0
    assert repository.plan().plan["actions"] == []


def test_the_example_repository_settles(tmp_path: Path) -> None:
    """As a newcomer plans and applies it; what cannot be placed is no change."""
    repository = Repository(tmp_path)
    shutil.rmtree(repository.folder)
    shutil.copytree(MACHINES.parents[2] / "examples" / "repo", repository.folder)
    assert repository.run("--deadline", "60s").code == 0
    said = repository.plan()
    assert (said.code, said.plan["actions"], said.plan["drift"]) == (0, [], [])


def check_quiet(repository: Repository) -> None:
    """Applied without error, and then nothing is left to plan."""
    said = repository.run()
    assert (said.code, said.err if said.code else "") == (0, "")
    assert noise(repository.plan()) == {}


def check_settled(course: Course) -> None:
    """Both times the command succeeds, and the next plan is empty."""
    assert (course.applied.code, course.quiet.code, noise(course.quiet)) == (0, 0, {})
    assert (course.applied_again.code, course.quiet_again.code, noise(course.quiet_again)) == (0, 0, {})


# -- edits that wait for one another


def test_a_card_that_another_replacement_leaves_behind_is_waited_for(tmp_path: Path) -> None:
    """A stopped container still holds its card until it is removed: whoever gets the card starts after that."""
    repository = Repository(tmp_path)
    (repository.folder / "facts.json").write_text(json.dumps({**FACTS, "gpus": FACTS["gpus"][:4]}))
    write_cards(repository, a=1, b=2)
    check_quiet(repository)
    write_cards(repository, a=3, b=0)  # beside the old a there is room for the new one as soon as b has left
    said = repository.run()
    assert (said.code, "held by" in said.err) == (0, False)
    assert noise(repository.plan()) == {}


def write_cards(repository: Repository, **cards: int) -> None:
    """Apps by name with that many cards each."""
    for name, count in cards.items():
        repository.write(name, overlay({**plain("App"), "name": name}, {"resources": {"gpus": count}}))
