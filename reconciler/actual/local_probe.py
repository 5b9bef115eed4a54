"""Runs the probe on this machine, in a throw-away process: NVML may hang or crash, and must not take us with it.

A lost card can take down whoever asks it anything. The probe says on stderr which card it is about to ask; when it then
hangs or dies, it is started again without that card, so that one bad card costs one card and not the host.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from reconciler.actual.facts import FactsError, facts_from_json
from reconciler.errors import ProbeError
from reconciler.model.host import HostFacts

PROBE = Path(__file__).with_name("probe.py")
MARK = "probing "
KILL_GRACE = 2.0
"""Seconds that a killed process gets to vanish; one that sits in the driver (state D) does not."""
NVML = ""
"""Who is to blame when the probe was asking no card in particular."""


@dataclass(frozen=True, slots=True)
class _Try:
    """One run of the probe: its output, or what went wrong in words and which card (or NVML) it was asking then."""

    output: str = ""
    problem: str = ""
    blamed: str | None = None


@dataclass(slots=True)
class LocalProbe:
    """Facts of this machine, each time it is called; calls from several threads take turns.

    ``sys`` and ``proc`` are the roots of sysfs and procfs. ``timeout`` is seconds for one try (without persistence mode
    a driver takes seconds to wake each card); when two such times are over, NVML is left out altogether. What hung or
    crashed is left out of later calls too, for ``rest`` seconds. ``environment`` replaces that of this process. While a
    process lives that could not be killed, NVML is not asked again, so that stuck processes do not pile up.
    """

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    timeout: float = 30.0
    rest: float = 600.0
    environment: Mapping[str, str] | None = None
    _bad: dict[str, tuple[float, str]] = field(default_factory=dict)
    _stuck: "list[subprocess.Popen[bytes]]" = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> HostFacts:
        """Facts of this machine, with a warning for each card left out. Raises ProbeError with one line."""
        with self._lock:
            began = time.monotonic()
            self._bad = {card: bad for card, bad in self._bad.items() if began - bad[0] < self.rest}
            while True:
                left_out = {card: problem for card, (_, problem) in self._bad.items()}
                found = self._try(left_out)
                now = time.monotonic()
                if not found.problem:
                    return _decode(found.output, left_out)
                if found.blamed is None or found.blamed in left_out:
                    raise ProbeError(f"the probe of this machine {found.problem}")
                self._bad[found.blamed] = (now, found.problem)
                if now - began >= 2 * self.timeout:
                    self._bad[NVML] = (now, found.problem)

    def _try(self, left_out: Mapping[str, str]) -> _Try:
        self._stuck = [process for process in self._stuck if process.poll() is None]
        command = [sys.executable, "-P", str(PROBE), "--progress", f"--sys={self.sys}", f"--proc={self.proc}"]
        command += [f"--skip={card}={_words(card, problem)}" for card, problem in left_out.items() if card != NVML]
        if self._stuck:
            command.append(f"--without-nvml=NVML is not asked: process {self._stuck[0].pid} hangs in the driver")
        elif NVML in left_out:
            command.append(f"--without-nvml={_words(NVML, left_out[NVML])}")
        try:
            with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
                return self._run(command, output, errors)
        except OSError as error:
            return _Try(problem=f"cannot be started: {error}")

    def _run(self, command: list[str], output: IO[str], errors: IO[str]) -> _Try:
        process = subprocess.Popen(  # noqa: S603 - our own file, run by our own interpreter
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=self.environment,
            start_new_session=True,
        )
        try:
            code = process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self._kill(process)
            return _Try(problem=f"gave no answer within {self.timeout:g} s", blamed=_blamed(_text(errors)))
        if code < 0:
            return _Try(problem=f"crashed ({signal.strsignal(-code)})", blamed=_blamed(_text(errors)))
        if code > 0:
            said = [line for line in _text(errors).splitlines() if not line.startswith(MARK)]
            return _Try(problem=f"failed: {said[-1] if said else f'exit code {code}'}")
        return _Try(output=_text(output))

    def _kill(self, process: "subprocess.Popen[bytes]") -> None:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            process.wait(KILL_GRACE)
        except subprocess.TimeoutExpired:
            self._stuck.append(process)


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _blamed(errors: str) -> str:
    """The card that was being asked when the probe ended; NVML when it was none."""
    marks = [line.removeprefix(MARK) for line in errors.splitlines() if line.startswith(MARK)]
    return marks[-1] if marks else NVML


def _words(card: str, problem: str) -> str:
    return f"the probe {problem} when it asked {'this card' if card else 'NVML'}"


def _decode(output: str, left_out: Mapping[str, str]) -> HostFacts:
    try:
        facts = facts_from_json(output, "the probe of this machine")
    except FactsError as error:
        raise ProbeError(str(error)) from None
    lines = tuple(f"the card at {card} is left out: {_words(card, left_out[card])}" for card in left_out if card)
    return replace(facts, warnings=facts.warnings + lines)
