"""The planner on openb: the trace in the project's own types, one plan for the whole batch, and a check of the plan."""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.openb_trace import MILLI, Node, Pod, ranks
from reconciler.model.desired import Cluster, Desired
from reconciler.model.host import Gpu, HostFacts, HostSpec, NumaNode
from reconciler.model.memory import Memory
from reconciler.model.plan import Action, ActionKind
from reconciler.model.resources import GpuRequest, GpuShare, Request, WholeGpus
from reconciler.model.snapshot import HostView, Reach, Snapshot
from reconciler.model.workload import ContainerSpec, Kind, Workload
from reconciler.planner import plan

MIB = 1024**2
CARD_MEMORY = 32 * 1024**3  # of any card; the trace asks for none

Rule = Literal["in-order", "free"]


@dataclass(frozen=True, slots=True)
class Planned:
    """GPU milli that one plan starts, and what the plan took: seconds of wall clock and of CPU."""

    milli: int
    seconds: float
    cpu: float


def snapshot(nodes: Sequence[Node], seed: int) -> Snapshot:
    """An empty fleet of one NUMA node a host; hosts are named by their place in the seed's permutation."""
    views = [_view(_host(rank), node) for node, rank in zip(nodes, ranks(nodes, seed), strict=True)]
    return Snapshot(tuple(sorted(views, key=lambda view: view.spec.name)))


def desired(pods: Sequence[Pod], fleet: Snapshot, rule: Rule) -> Desired:
    """Each pod as a task that shares cores. ``in-order``: who came first has the higher priority; else all alike."""
    tasks = [
        Workload(
            Kind.TASK,
            _task(number),
            ContainerSpec("openb", gpus=_gpus(pod)),
            Request(pod.millicpus, exclusive=False, memory=pod.memory * MIB, gpus=_gpus(pod)),
            run="1",
            priority=-number if rule == "in-order" else 0,
        )
        for number, pod in enumerate(pods)
    ]
    return Desired(Cluster("openb"), tuple(tasks), tuple(view.spec for view in fleet.hosts), source="openb")


def allocate(nodes: Sequence[Node], pods: Sequence[Pod], seed: int, rule: Rule) -> Planned:
    """Plan all pods at once on an empty fleet. Raises ValueError for a plan that a host could not carry out."""
    fleet = snapshot(nodes, seed)
    wanted = desired(pods, fleet, rule)
    wall, cpu = time.perf_counter(), time.process_time()
    actions = plan(wanted, fleet, Memory(), 0.0).actions
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    starts = [action for action in actions if action.kind is ActionKind.START]
    asked = {_task(number): pod for number, pod in enumerate(pods)}
    placed = [(asked[start.instance.name], start) for start in starts]
    check(nodes, placed, seed)
    return Planned(sum(pod.asked for pod, _ in placed), wall, cpu)


def check(nodes: Sequence[Node], placed: Sequence[tuple[Pod, Action]], seed: int) -> None:
    """Add up what each host and card was given, apart from the planner. Raises ValueError where it is too much."""
    hosts = {_host(rank): node for node, rank in zip(nodes, ranks(nodes, seed), strict=True)}
    cores: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    cards: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod, start in placed:
        cores[start.host] += pod.millicpus
        memory[start.host] += pod.memory
        given = _given(start)
        if len(given) != pod.gpus or (pod.gpus and pod.models and hosts[start.host].model not in pod.models):
            raise ValueError(f"{start.instance} on {start.host} does not have the cards that it asked for")
        cards[start.host].update(dict.fromkeys(given, pod.milli))
    for name, node in hosts.items():
        if cores[name] > node.millicpus or memory[name] > node.memory:
            raise ValueError(f"{name} has less cores or memory than was planned on it")
        own = {_uuid(name, index) for index in range(node.gpus)}
        if not own.issuperset(cards[name]) or any(milli > MILLI for milli in cards[name].values()):
            raise ValueError(f"{name} has less of a card than was planned on it")


def _given(start: Action) -> tuple[str, ...]:
    allocation = start.allocation
    if allocation is None:
        return ()
    return (allocation.share.gpu,) if allocation.share else allocation.gpus


def _gpus(pod: Pod) -> GpuRequest | None:
    if pod.share:
        return GpuShare(milli=pod.milli, models=pod.models)
    return WholeGpus(pod.gpus, pod.models) if pod.gpus else None


def _view(name: str, node: Node) -> HostView:
    cards = tuple(
        Gpu(_uuid(name, index), node.model, CARD_MEMORY, index=index, numa_node=0) for index in range(node.gpus)
    )
    numa = NumaNode(0, tuple(range(node.millicpus // 1000)), node.memory * MIB, socket=0)
    return HostView(HostSpec(name, "simulated"), Reach.KNOWN, HostFacts(name, (numa,), cards))


def _host(rank: int) -> str:
    return f"h{rank:05}"


def _uuid(host: str, index: int) -> str:
    return f"GPU-{host}-{index}"


def _task(number: int) -> str:
    return f"p{number:06}"
