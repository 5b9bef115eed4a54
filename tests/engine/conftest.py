"""A real Engine for the test run, and the two implementations of the Protocols side by side."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.engine.open import open_engine
from reconciler.engine.simulated import Machine
from tests.engine.dockerd import IMAGE, Bed, sweep
from tests.fakes.door import Door

MACHINE = Machine(tuple(range(64)), (0, 1), 2**38)
"""What the bed's Engine believes it runs on."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for the real Engine by name."""
    for item in items:
        if {"bed", "engine"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    """One private Engine for the whole run, with the busybox image; nothing of it is left afterwards."""
    lacking = [name for name in ("dockerd", "docker-init", "busybox", "nsenter") if shutil.which(name) is None]
    if (lacking or os.geteuid() != 0) and not os.environ.get("RECONCILER_TEST_ALL"):
        pytest.skip(f"needs root and {', '.join(lacking) or 'nothing else'}: scripts/test installs it")
    sweep()
    directory = Path(tempfile.mkdtemp(prefix="bed-"))  # short: a socket's path has at most 107 characters
    try:
        with contextlib.closing(Bed(directory)) as bed:
            bed.start()
            bed.import_image()
            yield bed
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def engine(bed: Bed) -> Iterator[str]:
    """The URL of the real Engine, without containers before and after."""
    bed.remove_all()
    yield bed.url
    bed.remove_all()


@pytest.fixture(params=[pytest.param("simulated"), pytest.param("docker", marks=pytest.mark.engine)])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    """Both implementations, one after the other, each on a host with 64 cores and two NUMA nodes."""
    url = "sim://" if request.param == "simulated" else request.getfixturevalue("engine")
    reader, writer = open_engine("host-1", url, tmp_path, MACHINE)
    if request.param == "simulated":
        writer.pull(IMAGE, lambda _: None)
    yield Door(request.param, reader, writer)
    reader.close()
    writer.close()
