"""What a measurement ran on, and what it used."""

import gc
import os
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def machine() -> str:
    """Processor, number of CPUs and Python, in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{model or platform.machine()}, {os.cpu_count()} CPUs, {python}"


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of a call, and its answer: other work on the machine counts less than in seconds of a clock.

    What was made before is collected first, so that the garbage of making the input is not counted.
    """
    gc.collect()
    start = time.process_time()
    answer = call()
    return time.process_time() - start, answer


def peak_rss() -> float:
    """MB of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def verdict(what: str, got: float, target: float, *, most: bool = False) -> str:
    """One line: whether a figure is reached, or by how much it is missed; ``most`` where less is better."""
    short = got - target if most else target - got
    sign = "at most" if most else "at least"
    return f"{what}: {got:,.2f} ({sign} {target:,g}): {'reached' if short <= 0 else f'missed by {short:,.2f}'}"
