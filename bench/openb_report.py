"""What openb is held to, and how its results are printed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

Pair = tuple[float, float]  # percent allocated at 100 and at 130 percent arrived

PUBLISHED: dict[str, dict[str, Pair]] = {
    "default": {
        "Random": (86.30, 87.47),
        "DotProd": (90.62, 90.85),
        "Clustering": (91.65, 91.88),
        "Packing": (91.78, 92.00),
        "BestFit": (92.86, 93.08),
        "FGD": (95.23, 95.39),
    },
    "cpu250": {
        "Random": (80.00, 80.41),
        "DotProd": (83.57, 83.81),
        "Clustering": (87.75, 87.99),
        "Packing": (88.05, 88.28),
        "BestFit": (91.21, 91.45),
        "FGD": (93.20, 93.41),
    },
    "gpushare40": {
        "Random": (84.86, 86.00),
        "DotProd": (89.30, 89.56),
        "Clustering": (89.76, 90.02),
        "Packing": (89.77, 90.03),
        "BestFit": (91.44, 91.69),
        "FGD": (93.96, 94.15),
    },
    "gpuspec20": {
        "Random": (85.90, 87.24),
        "DotProd": (88.29, 89.97),
        "Clustering": (89.11, 92.24),
        "Packing": (89.28, 92.94),
        "BestFit": (88.46, 93.30),
        "FGD": (94.66, 94.84),
    },
    "multigpu20": {
        "Random": (86.92, 88.69),
        "DotProd": (91.85, 92.06),
        "Clustering": (93.34, 93.56),
        "Packing": (93.50, 93.71),
        "BestFit": (93.73, 93.93),
        "FGD": (95.53, 95.65),
    },
}
"""Means over ten seeds, from the result tables of "Beware of Fragmentation" (USENIX ATC'23)."""

TARGETS: dict[str, dict[str, tuple[float | None, float | None]]] = {
    "in-order": {
        "default": (96.2, 96.3),
        "cpu250": (95.5, 95.6),
        "gpushare40": (95.0, 95.1),
        "gpuspec20": (96.0, 96.1),
        "multigpu20": (96.8, 96.9),
    },
    "free": {"default": (None, 99.9), "cpu250": (None, 99.9)},
}


@dataclass(frozen=True, slots=True)
class Result:
    """One workload: means over the seeds. ``curves`` have one number for each step of arrived demand, in percent.

    ``seconds`` and ``cpu`` are those of one plan at 100 and at 130 percent; empty where nothing was planned.
    """

    workload: str
    curves: Mapping[str, tuple[float, ...]]
    steps: tuple[int, ...]
    seconds: tuple[float, ...] = field(default=())
    cpu: tuple[float, ...] = field(default=())

    def pair(self, who: str) -> Pair | None:
        """Percent allocated at 100 and at 130 percent arrived."""
        curve = dict(zip(self.steps, self.curves.get(who, ()), strict=False))
        return (curve[100], curve[130]) if curve else None


def means(curves: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Position by position."""
    return tuple(fmean(column) for column in zip(*curves, strict=True))


def table(results: Sequence[Result], rule: str, columns: Sequence[str]) -> str:
    """Rows are workloads; ``*`` marks a column measured here, the others are published."""
    published = list(PUBLISHED["default"])
    rows = [["workload", *published, *(f"{name}*" for name in columns), "plan s"]]
    for result in results:
        known = PUBLISHED.get(result.workload, {})
        rows.append([
            result.workload,
            *(_pair(known.get(name)) for name in published),
            *(_pair(result.pair(name)) for name in columns),
            "/".join(f"{number:.1f}" for number in result.seconds) or "-",
        ])  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([f"{rule}: percent of GPU milli allocated at 100/130 % arrived; * measured here", *lines])


def verdicts(results: Sequence[Result], rule: str) -> list[str]:
    """For each figure to reach: reached, or by how much it is missed."""
    lines = []
    for result in results:
        pair, wanted = result.pair("ours"), TARGETS[rule].get(result.workload)
        for at, got, target in zip((100, 130), pair or (), wanted or (), strict=False):
            if target is not None:
                lines.append(f"{rule} {result.workload} at {at}: {got:.2f} of {target}: {_verdict(got, target)}")
    return lines


def as_json(results: Sequence[Result], rule: str, seeds: Sequence[int], peak: float) -> dict[str, Any]:
    """Everything measured; ``peak_rss_mib`` is of the whole process."""
    return {
        "rule": rule,
        "seeds": list(seeds),
        "peak_rss_mib": round(peak),
        "workloads": {result.workload: asdict(result) for result in results},
        "targets": verdicts(results, rule),
    }


def _verdict(got: float, target: float) -> str:
    """Targets have one digit, so a mean is rounded to one."""
    return "reached" if round(got, 1) >= target else f"missed by {target - got:.2f}"


def _pair(pair: Pair | None) -> str:
    return f"{pair[0]:.2f}/{pair[1]:.2f}" if pair else "-"
