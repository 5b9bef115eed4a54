"""A machine to probe: kernel files and cards made from a machine file, and the real probe run on it as a process."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.actual.facts import facts_from_json
from reconciler.actual.local_probe import LocalProbe
from reconciler.model.host import EngineFacts, HostFacts
from reconciler.model.resources import format_cpus, parse_cpus
from tests.fakes import nvml_library, sys_tree

FIXTURES = Path(__file__).parents[1] / "fixtures"
MACHINES = sorted(path.stem for path in (FIXTURES / "machines").glob("*.json"))


def machine(name: str) -> dict[str, Any]:
    """A machine file as JSON; each call gives a fresh copy."""
    document = json.loads((FIXTURES / "machines" / f"{name}.json").read_text())
    assert isinstance(document, dict)
    return document


def small(name: str) -> dict[str, Any]:
    """A machine file with two CPUs per node: its cards are what matters, and the kernel's files are quickly made."""
    document = machine(name)
    groups = [parse_cpus(node["cpus"])[:2] for node in document["numaNodes"]]
    for node, cpus in zip(document["numaNodes"], groups, strict=True):
        node["cpus"] = format_cpus(cpus)
    return document | {"smt": [], "caches": [format_cpus(cpus) for cpus in groups if cpus]}


def expected(document: Mapping[str, Any]) -> HostFacts:
    """What a probe can see of a machine: all of it but what only the Engine knows."""
    return replace(facts_from_json(json.dumps(document), "expected"), engine=EngineFacts(), engine_id="")


@dataclass(frozen=True, slots=True)
class ProbeBed:
    """One machine under ``root``, whose NVML is the library in the folder ``library``."""

    root: Path
    library: Path

    def probe(
        self, document: Mapping[str, Any], faults: Mapping[str, str] | None = None, *, numa: str = "memory"
    ) -> LocalProbe:
        """Make the machine; a probe of it. Only through ``numa`` does a card tell its node: memory, sysfs, cpu, none.

        ``faults`` are lines of the library's description that win over those of the machine.
        """
        sys_tree.make(self.root, document, sysfs_numa=numa == "sysfs")
        file = self.root / "nvml"
        file.write_text(nvml_library.describe(document, faults, numa))
        environment = os.environ | {"LD_LIBRARY_PATH": str(self.library), "NVML_FAKE": str(file)}
        return LocalProbe(self.root / "sys", self.root / "proc", environment=environment)


def no_library(folder: Path) -> Path:
    """A folder for LD_LIBRARY_PATH that hides a real NVML, so that a test does not depend on this machine's driver."""
    (folder / "libnvidia-ml.so.1").write_text("no library\n")
    return folder
