"""The stream of a pull, in a few lines."""

from typing import Any

import pytest

from reconciler.engine.progress import PullProgress


def downloading(layer: str, current: int, total: int) -> dict[str, Any]:
    """A message as the Engine sends many of."""
    return {"status": "Downloading", "id": layer, "progressDetail": {"current": current, "total": total}}


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([{"status": "Pulling from team/app", "id": "1"}], [], id="the heading"),
        pytest.param(
            [{"status": "Status: Image is up to date for x:1"}], ["Image is up to date for x:1"], id="done already"
        ),
        pytest.param([{"status": "Digest: sha256:ab"}], ["Digest: sha256:ab"], id="the digest"),
        pytest.param([{"status": "Already exists", "id": "a"}], ["1 of 1 layers"], id="a layer that is there"),
        pytest.param(
            [downloading("a", part, 1000) for part in range(0, 1001, 10)],
            [f"0 of 1 layers, {part} of 1000" for part in range(100, 1001, 100)],
            id="a line for each tenth",
        ),
        pytest.param(
            [
                downloading("a", 1000, 1000),
                {"status": "Verifying Checksum", "id": "a"},
                {"status": "Extracting", "id": "a", "progressDetail": {"current": 1, "total": 1000}},
                {"status": "Pull complete", "id": "a"},
            ],
            ["0 of 1 layers, 1000 of 1000", "1 of 1 layers, 1000 of 1000"],
            id="extracting does not count again",
        ),
        pytest.param(
            [
                {"status": "Pulling fs layer", "id": "a"},
                {"status": "Already exists", "id": "b"},
                downloading("a", 5, 10),
            ],
            ["1 of 2 layers", "1 of 2 layers, 5 of 10"],
            id="two layers",
        ),
        pytest.param([{"status": "Waiting", "id": "a", "progressDetail": None}, {}], [], id="nothing to tell"),
    ],
)
def test_progress_says_little_and_enough(messages: list[dict[str, Any]], said: list[str]) -> None:
    """One line whenever a layer ends or a tenth more has come."""
    lines: list[str] = []
    progress = PullProgress(lines.append)
    for message in messages:
        progress.feed(message)
    assert lines == said
