"""Plot of openb: allocation against arrived demand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.openb_report import Result

LINES: dict[str, tuple[str, str, str, float]] = {  # name: (label, colour, dashes, width); drawn in this order
    "bound": ("no scheduler can pass this (LP)", "#555555", "--", 1.2),
    "reference": ("perfect scheduler, in order (LP)", "#111111", ":", 1.4),
    "ours": ("reconciler", "#0072b2", "-", 2.4),
    "FGD": ("FGD", "#d55e00", "-", 1.5),
    "BestFit": ("BestFit", "#009e73", "-", 1.5),
    "Kubernetes": ("Kubernetes default", "#cc79a7", "-", 1.1),
    "Drove": ("Drove", "#e69f00", "-", 1.1),
}
DETAIL = 90  # percent arrived where the panels on the right begin


def draw(results: Sequence[Result], rule: str, file: Path) -> None:
    """Two panels for each workload, the whole range and where the schedulers differ; the same bytes every time."""
    mpl.rcParams["svg.hashsalt"] = "openb"
    figure = Figure(figsize=(11, 4.6 * len(results)), layout="constrained")
    figure.suptitle(f"openb trace, rule {rule}: GPU capacity allocated as demand arrives")
    panels = figure.subplots(len(results), 2, squeeze=False, width_ratios=(1, 1.5))
    for (whole, detail), result in zip(panels, results, strict=True):
        drawn = {name: curve for name in LINES if (curve := result.curves.get(name))}
        _panel(whole, result, drawn, result.steps[0])
        _panel(detail, result, drawn, DETAIL)
        _label_ends(detail, drawn)
        whole.legend(loc="lower right", fontsize=9)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _panel(axes: Axes, result: Result, drawn: Mapping[str, Sequence[float]], first: int) -> None:
    shown = [at for at, step in enumerate(result.steps) if step >= first]
    arrived = [result.steps[at] for at in shown]
    for name, curve in drawn.items():
        label, colour, dashes, width = LINES[name]
        above = 2.0 if dashes == "-" else 3.0  # a bound stays visible on a line that reaches it
        axes.plot(arrived, [curve[at] for at in shown], dashes, color=colour, lw=width, label=label, zorder=above)
    axes.axvline(100, color="#dddddd", lw=0.8, zorder=0)
    axes.set_xlim(arrived[0], arrived[-1])
    axes.set_title(result.workload if first < DETAIL else f"{result.workload}, from {first} % arrived", fontsize=11)
    axes.set_xlabel("demand arrived, % of GPU capacity")
    axes.set_ylabel("allocated, % of GPU capacity")
    axes.grid(visible=True, color="#eeeeee")
    axes.spines[["top", "right"]].set_visible(False)


def _label_ends(axes: Axes, drawn: Mapping[str, Sequence[float]]) -> None:
    """The last value of each line beside it, moved apart where two are close."""
    low, high = axes.get_ylim()
    gap, floor = (high - low) / 22, low
    for name, curve in sorted(drawn.items(), key=lambda pair: pair[1][-1]):
        floor = max(curve[-1], floor + gap)
        axes.annotate(
            f"{curve[-1]:.1f}",
            (axes.get_xlim()[1], floor),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=LINES[name][1],
        )
