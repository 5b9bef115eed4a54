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

REFUSED = [case for cases in GROUPS.values() for case in cases if case.effect is Effect.REFUSED]
EVERY_GROUP = [(kind, name) for kind in EVERY for name in GROUPS if group(name, kind)]
EVERY_CASE = [
    pytest.param(kind, name, case, id=f"{kind}-{case.name}") for kind, name in EVERY_GROUP for case in group(name, kind)
]
Courses = Callable[[str, str], Course]


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
    """The course of each group of cases with each kind, made when first asked for."""

    @cache
    def course(kind: str, name: str) -> Course:
        return go(tmp_path_factory.mktemp(f"{kind}-{name}"), kind, group(name, kind))

    yield course
    course.cache_clear()


@pytest.mark.parametrize(("kind", "name"), EVERY_GROUP)
def test_cases_together_settle_and_need_nothing_more(courses: Courses, kind: str, name: str) -> None:
    """Both times the command succeeds, every instance runs, and the next plan is empty."""
    course = courses(kind, name)
    assert (course.applied.code, course.quiet.code, noise(course.quiet)) == (0, 0, {})
    assert (course.applied_again.code, course.quiet_again.code, noise(course.quiet_again)) == (0, 0, {})
    names = {case.name for case in group(name, kind)}
    for documents in (course.before, course.after):
        assert {name for name, one in documents.items() if one["State"]["Running"]} == names


@pytest.mark.parametrize(("kind", "name", "case"), EVERY_CASE)
def test_an_edit_is_planned_by_the_class_of_its_field(courses: Courses, kind: str, name: str, case: FieldCase) -> None:
    """Replaced, updated in place or left alone; the plan names the field, and both values arrive."""
    course = courses(kind, name)
    check_effect(course, case)
    if case.look and not case.real:
        check_arrived(course, case)


@pytest.mark.parametrize("case", ALONE, ids=lambda case: str(case.name))
def test_a_case_that_takes_cores_settles(tmp_path: Path, case: FieldCase) -> None:
    """The same course, alone on a host."""
    course = go(tmp_path, "App", [case])
    assert (course.applied.code, course.quiet.code, noise(course.quiet)) == (0, 0, {})
    check_effect(course, case)
    assert (course.applied_again.code, course.quiet_again.code, noise(course.quiet_again)) == (0, 0, {})


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
