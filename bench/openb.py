"""Packing on Alibaba's openb trace beside other schedulers and LP bounds: ``python -m bench.openb --data DIR``.

The trace is not part of this repository: DIR holds ``openb_node_list_gpu_node.csv`` and ``openb_pod_list_NAME.csv``
of ``cluster-trace-gpu-v2023`` (alibaba/clusterdata). Pods are shuffled by a seed and arrive until they ask for 130 %
of the fleet's GPUs; nothing departs. ``--rule in-order``: arrival is priority; ``--rule free``: any of what arrived
may be placed. The peers take one pod at a time, as they do; a plan has everything that arrived before it.
"""

import argparse
import json
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench import openb_ours
from bench.openb_bounds import Program, in_order
from bench.openb_fleet import allocate
from bench.openb_peers import PEERS
from bench.openb_plot import draw
from bench.openb_report import Result, as_json, means, table, verdicts
from bench.openb_trace import Node, Pod, arrivals, arrived, capacity, read_nodes, read_pods, workloads

ENDS = (100, 130)  # percent arrived
CURVE = (50, 60, 70, 80, 90, 95, 100, 105, 110, 120, 130)
OURS = "ours"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 when a figure to reach is missed."""
    options = _options(arguments)
    nodes = read_nodes(options.data)
    names = workloads(options.data) if "all" in options.workload else options.workload
    results = []
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        results.append(measure(name, nodes, read_pods(options.data, name), options))
    lines = verdicts(results, options.rule)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        print(json.dumps(as_json(results, options.rule, options.seeds, peak), indent=1))
    else:
        print(table(results, options.rule, [*options.who, *_bound_names(options)]))
        print(f"{len(options.seeds)} seeds; plan s: wall seconds of one plan at 100/130 %; peak RSS {peak:.0f} MiB")
        print("\n".join(lines))
    if options.plot:
        draw(results, options.rule, options.plot)
    return int(any("missed" in line for line in lines))


def measure(name: str, nodes: Sequence[Node], pods: Sequence[Pod], options: argparse.Namespace) -> Result:
    """One workload: means over the seeds of everybody that was asked for."""
    total = capacity(nodes)
    steps = CURVE if options.plot else ENDS
    program = Program(nodes, pods)
    curves: dict[str, list[tuple[float, ...]]] = {}
    plans: list[list[openb_ours.Planned]] = []
    for seed in options.seeds:
        sequence = arrivals(pods, seed, total)
        cuts = [arrived(sequence, total, step) for step in steps]
        held: dict[str, list[float]] = {}
        for peer in [who for who in options.who if who != OURS]:
            after = allocate(PEERS[peer](nodes, pods, seed), sequence)
            held[peer] = [after[cut - 1] for cut in cuts]
        if OURS in options.who:
            plans.append([openb_ours.allocate(nodes, sequence[:cut], seed, options.rule) for cut in cuts])
            held[OURS] = [planned.milli for planned in plans[-1]]
        held |= _bounds(program, sequence, cuts, _bound_names(options))
        for who, milli in held.items():
            curves.setdefault(who, []).append(tuple(100 * value / total for value in milli))
    ends = [steps.index(end) for end in ENDS]
    return Result(
        name,
        {who: means(found) for who, found in curves.items()},
        steps,
        means([[planned[end].seconds for end in ends] for planned in plans]),
        means([[planned[end].cpu for end in ends] for planned in plans]),
    )


def _bounds(
    program: Program, sequence: Sequence[Pod], cuts: Sequence[int], names: Sequence[str]
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    if "bound" in names:
        found["bound"] = [program.most(Counter(sequence[:cut])) for cut in cuts]
    if "reference" in names:
        after = in_order(program, sequence)
        found["reference"] = [after[cut - 1] for cut in cuts]
    return found


def _bound_names(options: argparse.Namespace) -> list[str]:
    """``bound``: strict, for both rules; ``reference``: what an LP scheduler reaches in order, not strict."""
    return {"none": [], "free": ["bound"], "all": ["bound", "reference"]}[options.bounds]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.openb", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="DIR", help="folder of the trace")
    add("--workload", action="append", metavar="NAME", help="may be repeated; all: every file there is (default)")
    add("--seeds", type=_seeds, default=_seeds("42-51"), metavar="FIRST-LAST")
    add("--rule", choices=("in-order", "free"), default="in-order")
    add("--bounds", choices=("none", "free", "all"), default="free")
    add("--who", type=_who, default=[*PEERS, OURS], metavar="NAME,...", help=f"of {', '.join([*PEERS, OURS])}")
    add("--json", action="store_true", help="one JSON object")
    add("--plot", type=Path, metavar="FILE.svg", help="allocation against arrived demand")
    options = parser.parse_args(arguments)
    options.workload = options.workload or ["all"]
    return options


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    if not seeds:
        raise ValueError(f"no seeds: {text}")
    return seeds


def _who(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - {*PEERS, OURS}:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    sys.exit(main())
