"""A converged fleet plans nothing, for every field, on the real Engine; and what it shows is what was written."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.dockerd import Bed, busybox_tree
from tests.fakes.converging import (
    HOST,
    Bundle,
    Course,
    Repository,
    bundles,
    check_arrived,
    check_effect,
    noise,
    run_course,
)
from tests.fakes.field_cases import ALONE, GROUPS, FieldCase, Json, group

WRAPPED = (
    'ENTRYPOINT ["/bin/env"]',
    "ENV PATH=/bin FROM_IMAGE=1",
    "LABEL from.image=1",
    "HEALTHCHECK --interval=1h CMD true",
    "WORKDIR /tmp",
    "EXPOSE 99/tcp",
)
BUNDLES = bundles(case for name in GROUPS for case in group(name, "App") if case.where != "simulated")
"""A start takes a third of a second here: many fields share a workload. Each is alone on simulated hosts."""


def inspects(bed: Bed) -> list[Json]:
    """Every container, past our own code."""
    with contextlib.closing(bed.client()) as client:
        return [client.inspect_container(entry["Id"]) for entry in client.containers(all=True)]


def go(bed: Bed, directory: Path, kind: str, cases: list[FieldCase]) -> Course:
    """The course of some cases on the Engine, which has no container before and after."""
    bed.remove_all()
    repository = Repository(directory, {**HOST, "engine": bed.url}, pause=0.25)
    course = run_course(repository, kind, cases, lambda: inspects(bed))
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
def course(furnished: Bed, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """The course of all bundles."""
    return go(furnished, tmp_path_factory.mktemp("all"), "App", [bundle.whole for bundle in BUNDLES])


def check_settled(course: Course) -> None:
    """Both times the command succeeds, and the next plan is empty."""
    assert (course.applied.code, course.quiet.code, noise(course.quiet)) == (0, 0, {})
    assert (course.applied_again.code, course.quiet_again.code, noise(course.quiet_again)) == (0, 0, {})


def test_all_fields_settle_and_need_nothing_more(course: Course) -> None:
    """Every instance runs, and nothing is left to plan."""
    check_settled(course)
    for documents in (course.before, course.after):
        assert {name for name, one in documents.items() if one["State"]["Running"]} == {
            bundle.whole.name for bundle in BUNDLES
        }


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: str(bundle.whole.name))
def test_an_edit_is_planned_by_the_class_of_its_fields(course: Course, bundle: Bundle) -> None:
    """The plan names exactly the fields that were edited."""
    check_effect(course, bundle.whole)


@pytest.mark.parametrize(
    ("name", "case"),
    [pytest.param(bundle.whole.name, case, id=case.name) for bundle in BUNDLES for case in bundle.parts if case.look],
)
def test_a_value_arrives(course: Course, name: str, case: FieldCase) -> None:
    """The Engine shows the first value, and after the edit the second."""
    check_arrived(course, case, name)


@pytest.mark.parametrize("case", ALONE, ids=lambda case: str(case.name))
def test_a_case_that_takes_cores_settles(furnished: Bed, tmp_path: Path, case: FieldCase) -> None:
    """The same course, alone on the Engine."""
    course = go(furnished, tmp_path, "App", [case])
    check_settled(course)
    check_effect(course, case)
    if case.look:
        check_arrived(course, case)
