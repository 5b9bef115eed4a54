"""A converged fleet plans nothing, for every field of every kind, on simulated hosts through the command itself."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reconciler.engine.simulated import SimulatedReader
from reconciler.engine.simulation import Simulation
from reconciler.journal.journal import cluster_dir
from tests.fakes.converging import Course, Repository, check_arrived, check_effect, noise, run_course
from tests.fakes.field_cases import ALONE, CASES, EVERY, Effect, FieldCase, Json

LASTING = [case for case in CASES if case.effect is not Effect.REFUSED]
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
    """The course of the whole table, one for each kind, made when first asked for."""

    @cache
    def course(kind: str) -> Course:
        return go(tmp_path_factory.mktemp(kind), kind, [case for case in LASTING if kind in case.kinds])

    yield course
    course.cache_clear()


def of(cases: list[FieldCase]) -> list[Any]:
    """Every case with every kind that has its field."""
    return [
        pytest.param(kind, case, id=f"{kind}-{case.name}") for case in cases for kind in EVERY if kind in case.kinds
    ]


@pytest.mark.parametrize("kind", EVERY)
def test_all_cases_together_settle_and_need_nothing_more(courses: Courses, kind: str) -> None:
    """Both times the command succeeds, every instance runs, and the next plan is empty."""
    course = courses(kind)
    assert (course.applied.code, course.quiet.code, noise(course.quiet)) == (0, 0, {})
    assert (course.applied_again.code, course.quiet_again.code, noise(course.quiet_again)) == (0, 0, {})
    names = {case.name for case in LASTING if kind in case.kinds}
    for documents in (course.before, course.after):
        assert {name for name, one in documents.items() if one["State"]["Running"]} == names


@pytest.mark.parametrize(("kind", "case"), of(LASTING))
def test_an_edit_is_planned_by_the_class_of_its_field(courses: Courses, kind: str, case: FieldCase) -> None:
    """Replaced, updated in place or left alone; and the plan names the field."""
    check_effect(courses(kind), case)


@pytest.mark.parametrize(("kind", "case"), of([case for case in LASTING if case.look]))
def test_a_value_arrives(courses: Courses, kind: str, case: FieldCase) -> None:
    """The container shows the first value, and after the edit the second."""
    check_arrived(courses(kind), case)


@pytest.mark.parametrize("case", ALONE, ids=lambda case: str(case.name))
def test_a_case_that_takes_cores_settles(tmp_path: Path, case: FieldCase) -> None:
    """The same course, alone on a host."""
    course = go(tmp_path, "App", [case])
    assert (course.applied.code, course.quiet.code, noise(course.quiet)) == (0, 0, {})
    check_effect(course, case)
    assert (course.applied_again.code, course.quiet_again.code, noise(course.quiet_again)) == (0, 0, {})


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.effect is Effect.REFUSED], ids=lambda case: str(case.name)
)
def test_what_comes_later_is_refused_and_not_ignored(tmp_path: Path, case: FieldCase) -> None:
    """Its default is accepted, any other value is not."""
    repository = Repository(tmp_path)
    kind = case.kinds[0]
    repository.write("w", case.document(kind, case.before))
    assert repository.run("validate").code == 0
    repository.write("w", case.document(kind, case.after))
    said = repository.run("validate")
    assert (said.code, "not supported yet" in said.err) == (1, True)
