"""How the tests are spread over workers."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped] # it ships no types

WITHOUT_ENGINE = ("tests/engine/test_probe_", "tests/engine/test_git_")


class OneEngine(LoadScopeScheduling):  # type: ignore[misc] # of an untyped class
    """Every test by itself to the next free worker, but all that share the real Engine to one.

    ``--dist loadgroup`` would do the same by marks; with pytest 9.2 it does nothing (pytest-xdist issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        return "engine" if nodeid.startswith("tests/engine/") and not nodeid.startswith(WITHOUT_ENGINE) else nodeid


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneEngine:
    """Asked once, by the process that hands out the tests."""
    return OneEngine(config, log)
