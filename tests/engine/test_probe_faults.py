"""What broken cards and drivers do to the probe: they hang, crash and lie, and the rest of the host is still known."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import ProbeError
from reconciler.model.host import Gpu, HostFacts
from tests.fakes import nvml_library
from tests.fakes.probe_bed import ProbeBed, expected, small

LOST = "lost: the card does not answer (fell off the bus?)"
BROKEN_CARD = "00000000:1B:00.0"
FATAL = {"15": LOST, "16": "reset required"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library."""
    if shutil.which("gcc") is None and not os.environ.get("RECONCILER_TEST_ALL"):
        pytest.skip("needs gcc: scripts/test installs it")
    return nvml_library.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def rig(tmp_path: Path, library: Path) -> ProbeBed:
    """A machine yet to be made."""
    return ProbeBed(tmp_path, library)


def hgx() -> dict[str, Any]:
    """Eight cards; the first is at BROKEN_CARD."""
    document = small("hgx-h100")
    assert document["gpus"][0]["pci"] == BROKEN_CARD
    return document


def without_first(document: Mapping[str, Any]) -> tuple[Gpu, ...]:
    """The other cards as they are when the first answers nothing: whole, but without a link to it."""
    first, *others = expected(document).gpus
    return tuple(replace(gpu, links=tuple(link for link in gpu.links if link.peer != first.uuid)) for gpu in others)


def from_kernel(document: Mapping[str, Any], health: str) -> Gpu:
    """The first card as the kernel alone knows it."""
    first = expected(document).gpus[0]
    return Gpu(first.uuid, first.model, 0, pci=first.pci, numa_node=0, health=health)


@pytest.mark.parametrize("code", FATAL)
@pytest.mark.parametrize("faults", [{"0.fault": "{code}"}, {"0.fault.nvmlDeviceGetHandleByPciBusId_v2": "{code}"}])
def test_a_lost_card_is_isolated(rig: ProbeBed, code: str, faults: Mapping[str, str]) -> None:
    """It is known by what the kernel remembers, last in the list as its index is unknown; seven cards are whole."""
    document = hgx()
    facts = rig.probe(document, {key: value.format(code=code) for key, value in faults.items()}, numa="sysfs")()
    assert facts == replace(expected(document), gpus=(*without_first(document), from_kernel(document, FATAL[code])))


def test_a_card_that_is_lost_while_it_is_asked(rig: ProbeBed) -> None:
    """What it had told is kept, it is not asked again, and its health says so."""
    document = hgx()
    faults = {"0.fault.nvmlDeviceGetIndex": "15", "0.fault.nvmlDeviceGetName": "crash"}
    facts = rig.probe(document, faults, numa="sysfs")()
    lost = facts.gpus[-1]
    right = expected(document).gpus[0]
    assert (lost.uuid, lost.model, lost.memory, lost.health) == (right.uuid, right.model, right.memory, LOST)
    assert facts.gpus[:-1] == without_first(document)


def test_enumeration_by_index_is_never_needed(rig: ProbeBed) -> None:
    """A lost card makes count and index fail on the whole host; cards are reached by address."""
    document = hgx()
    faults = {"fault.nvmlDeviceGetCount_v2": "999", "fault.nvmlDeviceGetHandleByIndex_v2": "crash", "0.fault": "15"}
    facts = rig.probe(document, faults)()
    assert facts.gpus[:-1] == without_first(document)


@pytest.mark.parametrize(
    ("code", "words"), [("4", "Insufficient Permissions"), ("6", "Not Found"), ("999", "Unknown Error")]
)
def test_a_card_that_cannot_be_opened(rig: ProbeBed, code: str, words: str) -> None:
    """The reason is NVML's, with its number."""
    document = hgx()
    facts = rig.probe(document, {"0.fault.nvmlDeviceGetHandleByPciBusId_v2": code}, numa="sysfs")()
    assert facts.gpus[-1] == from_kernel(document, f"NVML cannot open the card: {words} ({code})")


@pytest.mark.parametrize(
    "function", ["HandleByPciBusId_v2", "UUID", "MemoryInfo_v2", "NvLinkState", "TopologyCommonAncestor"]
)
def test_a_card_that_crashes_whoever_asks_it(rig: ProbeBed, function: str) -> None:
    """The process dies; the next one leaves the card out and says so; nothing of the other cards is lost."""
    document = hgx()
    facts = rig.probe(document, {f"0.fault.nvmlDeviceGet{function}": "crash"}, numa="sysfs")()
    problem = "the probe crashed (Segmentation fault) when it asked this card"
    assert facts == replace(
        expected(document),
        gpus=(*without_first(document), from_kernel(document, problem)),
        warnings=(f"the card at {BROKEN_CARD} is left out: {problem}",),
    )


def test_two_cards_that_crash(rig: ProbeBed) -> None:
    """Each costs one more try, and the other six are known."""
    document = hgx()
    facts = rig.probe(document, {"0.fault": "crash", "5.fault": "crash"})()
    crashed = {gpu.uuid for gpu in facts.gpus if "crashed" in gpu.health}
    assert crashed == {document["gpus"][0]["uuid"], document["gpus"][5]["uuid"]}
    assert [gpu.health for gpu in facts.gpus].count("ok") == 6


def test_a_card_that_hangs(rig: ProbeBed) -> None:
    """The process is killed in time, and the next one leaves the card out."""
    document = hgx()
    probe = rig.probe(document, {"0.fault.nvmlDeviceGetMigMode": "hang"}, numa="sysfs")
    probe.timeout = 5.0
    facts = probe()
    assert facts.gpus[-1].health == "the probe gave no answer within 5 s when it asked this card"
    assert facts.gpus[:-1] == without_first(document)
    assert not probe._stuck


def test_what_hung_is_given_a_rest(rig: ProbeBed) -> None:
    """A later call leaves the card out from the start, also when it has come back, until the rest is over."""
    document = hgx()
    probe = rig.probe(document, {"0.fault": "crash"})
    assert "crashed" in probe().gpus[-1].health
    (rig.root / "nvml").write_text(nvml_library.describe(document))
    assert "crashed" in probe().gpus[-1].health
    probe.rest = 0.0
    assert probe() == expected(document)


@pytest.mark.parametrize(
    ("fault", "problem"), [("crash", "crashed (Segmentation fault)"), ("hang", "gave no answer within ")]
)
def test_a_driver_that_fails_as_a_whole(rig: ProbeBed, fault: str, problem: str) -> None:
    """The facts of the kernel are left, with what NVML did as the driver's error."""
    document = small("h100-nvl-2")
    probe = rig.probe(document, {"fault.nvmlInitWithFlags": fault}, numa="sysfs")
    probe.timeout = 5.0
    facts = probe()
    assert facts.driver_error.startswith(f"the probe {problem}")
    assert facts.driver_error.endswith(" when it asked NVML")
    assert facts.warnings == (facts.driver_error,)
    assert {gpu.uuid: gpu.health for gpu in facts.gpus} == {gpu["uuid"]: facts.driver_error for gpu in document["gpus"]}
    right = expected(document)
    assert (facts.numa_nodes, facts.smt, facts.nics) == (right.numa_nodes, right.smt, right.nics)


def test_when_nothing_helps(rig: ProbeBed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that dies without NVML too: one line."""
    dying = rig.root / "dying.py"
    dying.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGABRT)\n")
    monkeypatch.setattr("reconciler.actual.local_probe.PROBE", dying)
    with pytest.raises(ProbeError, match=r"^the probe of this machine crashed \(Aborted\)$"):
        rig.probe(small("t4-1"))()


@contextmanager
def stuck_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until the block ends; a real one sits in the driver and cannot be killed."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def test_stuck_processes_do_not_pile_up(rig: ProbeBed) -> None:
    """While one lives NVML is not asked; when it is gone, it is."""
    document = small("h100-nvl-2")
    probe = rig.probe(document)
    with stuck_process() as process:
        probe._stuck.append(process)
        facts = probe()
        assert facts.driver_error == f"NVML is not asked: process {process.pid} hangs in the driver"
        assert [gpu.health for gpu in facts.gpus] == [facts.driver_error] * 2
    assert probe() == expected(document)


def broken_driver(rig: ProbeBed, faults: Mapping[str, str], *, cards: bool = True) -> HostFacts:
    """Facts of a host whose NVML does not start."""
    document = small("h100-nvl-2")
    if not cards:
        document["gpus"] = []
    return rig.probe(document, faults)()


def test_a_version_mismatch_names_both(rig: ProbeBed) -> None:
    """After an upgrade without a reboot: the module in the kernel and the library on disk."""
    facts = broken_driver(rig, {"fault.nvmlInitWithFlags": "18", "nvml": "12.575.57.08"})
    assert facts.driver_error == "driver/library version mismatch: kernel module 570.158.01, library 575.57.08"
    assert (facts.driver_version, facts.warnings) == ("", (facts.driver_error,))
    assert [gpu.health for gpu in facts.gpus] == [facts.driver_error] * 2


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("9", "there is an NVIDIA card at 00000000:01:00.0, but the driver is not loaded"),
        ("4", "NVML does not start: Insufficient Permissions (4)"),
        ("17", "NVML does not start: The operating system has blocked the request. (17)"),
        ("999", "NVML does not start: Unknown Error (999)"),
    ],
)
def test_a_driver_that_does_not_start(rig: ProbeBed, code: str, error: str) -> None:
    """A host with cards and without a working driver says why, and is no host without cards."""
    facts = broken_driver(rig, {"fault.nvmlInitWithFlags": code})
    assert (facts.driver_error, facts.warnings) == (error, (error,))
    assert len(facts.gpus) == 2


def test_a_library_on_a_host_without_cards(rig: ProbeBed) -> None:
    """The driver's packages are installed, no card is there, so it is not loaded: a host without GPUs and no error."""
    facts = broken_driver(rig, {"fault.nvmlInitWithFlags": "9"}, cards=False)
    assert (facts.gpus, facts.driver_error, facts.warnings) == ((), "", ())


def test_cards_that_sysfs_does_not_show(rig: ProbeBed) -> None:
    """WSL has no PCI functions: its cards are left out with a word."""
    facts = broken_driver(rig, {"count": "1"}, cards=False)
    assert facts.gpus == ()
    assert facts.warnings == ("cards without a PCI function in sysfs (WSL, Tegra) are left out: 1",)
