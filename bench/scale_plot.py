"""Plot of scale: requests placed a second against hosts, ours beside other schedulers' rules."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench import fleets, rules, scale

SIZES = (100, 300, 1_000, 3_000, 10_000)
OFTEN = 1_000  # hosts up to which the best of three runs counts
LINES = {  # name: (label, colour, dashes, width)
    "in counts": ("reconciler, which host", "#0072b2", "-", 2.4),
    "with names": ("reconciler, with cards, CPUs and reasons", "#0072b2", "--", 1.8),
    "Drove": ("Drove's rule, which host", "#e69f00", "-", 1.3),
    "Kubernetes": ("Kubernetes' default rule, which host", "#cc79a7", "-", 1.3),
}

Rows = Mapping[int, Mapping[str, scale.Row]]


def measure() -> Rows:
    """Every way to place on every size of fleet, by size and name; ``asked`` is what there is to place."""
    return {size: _measure(size) for size in SIZES}


def draw(rows: Rows, file: Path) -> None:
    """Speed on the left; on the right how much is placed."""
    mpl.rcParams["svg.hashsalt"] = "scale"
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    figure.suptitle("1, 2, 4 and 8 cards for 97 % of all cards, 8-card hosts, one CPU, CPython")
    speed, placed = figure.subplots(1, 2)
    for name, (label, colour, dashes, width) in LINES.items():
        rates = [rows[size][name].placed / rows[size][name].seconds for size in SIZES]
        speed.loglog(SIZES, rates, dashes, color=colour, lw=width, marker="o", ms=4, label=label)
        if name != "in counts":
            shares = [100 * rows[size][name].placed / rows[size]["asked"].placed for size in SIZES]
            placed.semilogx(SIZES, shares, dashes, color=colour, lw=width, marker="o", ms=4, label=label)
    _finish(speed, "placed a second (CPU time)")
    _finish(placed, "requests placed, %")
    figure.legend(*speed.get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=2)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)


def _measure(size: int) -> dict[str, scale.Row]:
    load = fleets.mix(size)
    asked = sum(one.instances for one in load.workloads)
    ways: list[Callable[[], scale.Row]] = [
        lambda: scale.in_counts(load)[1],
        lambda: scale.with_names(load),
        *(partial(scale.peer, rule, load) for rule in rules.RULES),
    ]
    times = 3 if size <= OFTEN else 1
    rows = [min((way() for _ in range(times)), key=lambda row: row.seconds) for way in ways]
    print(f"{size:,} hosts", flush=True)
    for row in rows:
        scale.show(row, asked)
    return {row.name: row for row in (*rows, scale.Row("asked", asked, 0.0))}


def _finish(axes: Axes, label: str) -> None:
    axes.set_xlabel("hosts")
    axes.set_ylabel(label)
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(visible=True, color="#eeeeee")
    axes.spines[["top", "right"]].set_visible(False)
