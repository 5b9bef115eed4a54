"""A converged fleet plans nothing, for every field, on the real Engine; and what it shows is what was written."""

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.engine.dockerd import Bed, busybox_tree
from tests.fakes.converging import HOST, Course, Repository, check_arrived, check_effect, noise, run_course
from tests.fakes.field_cases import ALONE, EVERY, GROUPS, FieldCase, Json, group

WRAPPED = (
    'ENTRYPOINT ["/bin/env"]',
    "ENV PATH=/bin FROM_IMAGE=1",
    "LABEL from.image=1",
    "HEALTHCHECK --interval=1h CMD true",
    "WORKDIR /tmp",
    "EXPOSE 99/tcp",
)
Courses = Callable[[str], Course]
EVERY_CASE = [pytest.param(name, case, id=case.name) for name in GROUPS for case in group(name, "App")]


def inspects(bed: Bed) -> list[Json]:
    """Every container, past our own code."""
    with contextlib.closing(bed.client()) as client:
        return [client.inspect_container(entry["Id"]) for entry in client.containers(all=True)]


def go(bed: Bed, directory: Path, kind: str, cases: list[FieldCase]) -> Course:
    """The course of some cases on the Engine, which has no container before and after."""
    bed.remove_all()
    repository = Repository(directory, {**HOST, "engine": bed.url})
    course = run_course(repository, kind, cases, lambda: inspects(bed), pause=0.25)
    bed.remove_all()
    return course


@pytest.fixture(scope="module")
def furnished(bed: Bed) -> Iterator[Bed]:
    """The Engine with a second image, one that has everything an image can have, and a network."""
    bed.import_image("bb:2")
    with contextlib.closing(bed.client()) as client:
        client.import_image_from_data(busybox_tree(), "wrapped", "1", changes=list(WRAPPED))
        network = client.create_network("mesh")["Id"]
    yield bed
    with contextlib.closing(bed.client()) as client:
        client.remove_network(network)


@pytest.fixture(scope="module")
def courses(furnished: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Courses]:
    """The course of each group of cases, made when first asked for."""

    @cache
    def course(name: str) -> Course:
        return go(furnished, tmp_path_factory.mktemp(name), "App", group(name, "App"))

    yield course
    course.cache_clear()


def check_settled(course: Course) -> None:
    """Both times the command succeeds, and the next plan is empty."""
    assert (course.applied.code, course.quiet.code, noise(course.quiet)) == (0, 0, {})
    assert (course.applied_again.code, course.quiet_again.code, noise(course.quiet_again)) == (0, 0, {})


@pytest.mark.parametrize("name", GROUPS)
def test_cases_together_settle_and_need_nothing_more(courses: Courses, name: str) -> None:
    """Every instance runs, and nothing is left to plan."""
    course = courses(name)
    check_settled(course)
    names = {case.name for case in group(name, "App")}
    for documents in (course.before, course.after):
        assert {name for name, one in documents.items() if one["State"]["Running"]} == names


@pytest.mark.parametrize(("name", "case"), EVERY_CASE)
def test_an_edit_is_planned_and_arrives(courses: Courses, name: str, case: FieldCase) -> None:
    """By the class of its field; the Engine shows the first value, then the second."""
    check_effect(courses(name), case)
    if case.look:
        check_arrived(courses(name), case)


@pytest.mark.parametrize("case", ALONE, ids=lambda case: str(case.name))
def test_a_case_that_takes_cores_settles(furnished: Bed, tmp_path: Path, case: FieldCase) -> None:
    """The same course, alone on the Engine."""
    course = go(furnished, tmp_path, "App", [case])
    check_settled(course)
    check_effect(course, case)
    if case.look:
        check_arrived(course, case)
