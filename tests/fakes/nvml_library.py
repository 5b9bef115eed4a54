"""Builds ``libnvidia-ml.so.1`` from ``nvml.c``, and describes to it the cards of a machine file, with faults."""

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reconciler.model.resources import parse_cpus

SOURCE = Path(__file__).with_name("nvml.c")
LEVELS = {"board": 0, "switch": 10, "switches": 20, "bridge": 30, "node": 40, "system": 50}
MAX_LINKS = 18
LINK_TO_GPU, LINK_TO_SWITCH = 0, 2
SWITCH = "00000000:C1:00.0"

Machine = Mapping[str, Any]


def build(folder: Path, missing: Iterable[str] = ()) -> Path:
    """Compile the library into ``folder`` without the ``missing`` symbols; the folder is for LD_LIBRARY_PATH."""
    without = [f"-D{name}=absent_{name}" for name in missing]
    library = folder / "libnvidia-ml.so.1"
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *without, "-o", str(library)]
    subprocess.run([*command, str(SOURCE)], check=True)
    return folder


def describe(machine: Machine, faults: Mapping[str, str] | None = None, numa: str = "memory") -> str:
    """The description file of a machine, with further lines (``faults``) that win over those of the machine.

    ``numa`` says through which call a card tells its node: ``memory`` or ``cpu`` affinity; anything else: none.
    """
    lines = dict(_lines(machine, numa)) | dict(faults or {})
    return "".join(f"{key}\t{value}\n" for key, value in lines.items())


def _lines(machine: Machine, numa: str) -> Iterator[tuple[str, str]]:
    driver = machine.get("driver", {})
    if driver:
        major, minor = map(int, driver["cuda"].split("."))
        yield from (("driver", driver["version"]), ("cuda", str(major * 1000 + minor * 10)))
        yield "nvml", f"{major}.{driver['version']}"
    gpus = machine["gpus"]
    yield "count", str(len(gpus))
    for number, gpu in enumerate(gpus):
        yield from ((f"{number}.{key}", value) for key, value in _card(machine, gpu, numa))
        for other, peer in enumerate(gpus):
            if peer is not gpu and peer["uuid"] in gpu["links"]:
                yield f"{number}.ancestor.{other}", str(LEVELS[gpu["links"][peer["uuid"]]["pcie"]])


def _card(machine: Machine, gpu: Machine, numa: str) -> Iterator[tuple[str, str]]:
    yield from (("uuid", gpu["uuid"]), ("name", gpu["model"]), ("pci", gpu["pci"]), ("index", str(gpu["index"])))
    yield from (("memory", str(gpu["memory"])), ("used", str(gpu["memoryUsed"])), ("reserved", str(600 * 1024**2)))
    if gpu["numaNode"] is not None and numa == "memory":
        yield "node", str(gpu["numaNode"])
    if gpu["numaNode"] is not None and numa == "cpu":
        cpus = next(node["cpus"] for node in machine["numaNodes"] if node["id"] == gpu["numaNode"])
        yield "cpus", ",".join(map(str, parse_cpus(cpus)))
    for index, process in enumerate(gpu["processes"]):
        yield f"process.{index}.pid", str(process["pid"])
        yield f"process.{index}.memory", str(process["memory"])
    for index, (pci, kind) in enumerate(_link_ends(machine["gpus"], gpu)):
        yield from ((f"link.{index}.pci", pci), (f"link.{index}.type", str(kind)))
    if "mig" in gpu:
        yield from _mig(gpu)


def _link_ends(gpus: list[Machine], gpu: Machine) -> Iterator[tuple[str, int]]:
    """One entry per link of a card. More links than a card can have mean that each reaches all peers: a switch."""
    counts = {peer["pci"]: gpu["links"].get(peer["uuid"], {}).get("nvlinks", 0) for peer in gpus if peer is not gpu}
    if sum(counts.values()) > MAX_LINKS:
        yield from [(SWITCH, LINK_TO_SWITCH)] * max(counts.values())
    else:
        for pci, count in counts.items():
            yield from [(pci, LINK_TO_GPU)] * count


def _mig(gpu: Machine) -> Iterator[tuple[str, str]]:
    """MIG devices by index, with a hole at index 1: what is left behind when the second of several is destroyed."""
    yield from (("mig", str(int(gpu["mig"]["enabled"]))), ("slots", "7"))
    for number, piece in enumerate(gpu["mig"]["slices"]):
        slot = number if number == 0 else number + 1
        yield f"slot.{slot}.uuid", piece["uuid"]
        yield f"slot.{slot}.name", f"{gpu['model']} MIG {piece['profile']}"
        yield f"slot.{slot}.start", str(piece["start"])
