"""The openb trace: its nodes, its pods, and the order in which pods arrive.

The trace is Alibaba's ``cluster-trace-gpu-v2023``; the protocol is that of "Beware of Fragmentation" (USENIX ATC'23).
"""

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

NODES = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_"
MILLI = 1000  # thousandths of a card
LAST = 130  # percent of the fleet's GPUs that a sequence asks for


@dataclass(frozen=True, slots=True)
class Node:
    """One host. ``memory`` is MiB."""

    name: str
    millicpus: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True, order=True)
class Pod:
    """What one pod asks; equal pods are equal values. ``memory`` is MiB, ``milli`` thousandths of each card.

    ``models`` are the card models it may have (empty: any), sorted.
    """

    millicpus: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def asked(self) -> int:
        """Thousandths of a card in all."""
        return self.gpus * self.milli

    @property
    def share(self) -> bool:
        """Whether it asks for part of one card."""
        return self.gpus == 1 and self.milli < MILLI


def read_nodes(folder: Path) -> list[Node]:
    """The nodes of a trace, in the order of the file. Raises OSError, KeyError or ValueError."""
    return [
        Node(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(folder / NODES)
    ]


def read_pods(folder: Path, workload: str) -> list[Pod]:
    """The pods of one workload, in the order of the file; columns after ``gpu_milli`` may be missing.

    Raises OSError, KeyError or ValueError.
    """
    return [_pod(row) for row in _rows(folder / f"{PODS}{workload}.csv")]


def workloads(folder: Path) -> list[str]:
    """The workloads that a folder has files of, sorted."""
    return sorted(path.stem.removeprefix(PODS) for path in folder.glob(f"{PODS}*.csv"))


def capacity(nodes: Sequence[Node]) -> int:
    """Thousandths of a card in the fleet."""
    return sum(node.gpus for node in nodes) * MILLI


def arrivals(pods: Sequence[Pod], seed: int, total: int) -> list[Pod]:
    """The pods shuffled by a seed, with random draws appended until they ask for 1.3 times ``total``."""
    rng = random.Random(seed)  # noqa: S311 - a simulation
    out = list(pods)
    rng.shuffle(out)
    asked = sum(pod.asked for pod in out)
    while asked * 100 < total * LAST:
        out.append(rng.choice(pods))
        asked += out[-1].asked
    return out


def arrived(sequence: Sequence[Pod], total: int, percent: int) -> int:
    """How many pods have arrived when the first ones together ask for ``percent`` of ``total``."""
    sums = accumulate(pod.asked for pod in sequence)
    return next((at for at, asked in enumerate(sums, 1) if asked * 100 >= total * percent), len(sequence))


def ranks(nodes: Sequence[Node], seed: int) -> list[int]:
    """For each node its place in a permutation by the seed: equal scores go to the lowest place."""
    order = list(range(len(nodes)))
    random.Random(seed).shuffle(order)  # noqa: S311 - a simulation
    return order


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _pod(row: dict[str, str]) -> Pod:
    gpus = int(row["num_gpu"])
    return Pod(
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        gpus,
        int(row["gpu_milli"]) if gpus else 0,
        tuple(sorted(set(filter(None, (row.get("gpu_spec") or "").split("|"))))),
    )
