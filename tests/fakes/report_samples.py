"""A small fleet and a plan with each kind of action, for the tests of what people and programs get to read."""

from dataclasses import replace

from reconciler.model.host import Gpu, GpuProcess, HostFacts, HostSpec, HostState, Link, MigSlice, Nic, NumaNode
from reconciler.model.plan import (
    Action,
    ActionKind,
    Change,
    Drift,
    Existing,
    Nearest,
    Order,
    Pending,
    Placed,
    Plan,
    Step,
    StepKind,
    Waiting,
)
from reconciler.model.resources import Request
from reconciler.model.snapshot import Container, Holding, HostView, Limits, Ours, Reach, Snapshot
from reconciler.model.workload import Allocation, ContainerSpec, InstanceId, Kind, Slice, Workload

GIB = 1024**3
A100 = "NVIDIA A100-SXM4-80GB"
SINCE = "2026-11-30T10:00:01.123456789Z"
NASTY = "\x1b[31mred\x1b[0m [bold]x[/bold]\n\u202eevil"


def instance(text: str) -> InstanceId:
    """The identity that ``text`` spells."""
    return InstanceId.parse(text)


def card(index: int, node: int | None) -> Gpu:
    """An A100 of the first host."""
    link = Link("GPU-000", 12, "bridge") if index == 1 else Link("GPU-001", 12, "bridge")
    return Gpu(f"GPU-00{index}", A100, 80 * GIB, index, f"00000000:0{index}:00.0", 0, (), node, (link,))


SLICES = (MigSlice("MIG-a", "1g.10gb", 0, "GPU-003"), MigSlice("MIG-b", "3g.40gb", 4, "GPU-003"))
OUTSIDER = GpuProcess(4121, "python", "alice", 61 * GIB)
FACTS = HostFacts(
    hostname="gpu-01",
    numa_nodes=(
        NumaNode(0, tuple(range(16)), 252 * GIB, 0),
        NumaNode(1, tuple(range(16, 32)), 252 * GIB, 1),
        NumaNode(2, (), 80 * GIB, gpu_memory=True),
    ),
    gpus=(
        card(0, 0),
        card(1, 0),
        replace(card(2, 1), memory_used=61 * GIB, processes=(OUTSIDER,)),
        replace(card(3, 1), mig_enabled=True, mig_slices=SLICES),
        replace(card(4, None), health="fell off the bus (GPU is lost)"),
        card(5, 1),
    ),
    smt=((0, 1), (2, 3)),
    driver_version="535.86.10",
    cuda_version="12.2",
    nics=(Nic("mlx5_0", "0000:0b:00.0", 0, rdma=True),),
    warnings=("card 4: lost",),
)
CHAT = Allocation(("GPU-000", "GPU-001"), gpu_nodes=(0,), cpu_nodes=(0,), cpus=tuple(range(2, 10)), memory=64 * GIB)
SMALL = Allocation(
    mig=(Slice("GPU-003", "1g.10gb", 0, "MIG-a"),), gpu_nodes=(1,), cpu_nodes=(1,), cpus=(16,), memory=8 * GIB
)


def ours(text: str, allocation: Allocation, owner: str) -> Ours:
    """What the labels of one of our containers say."""
    return Ours(instance(text), 1, "v1:aa", {}, allocation, owner=owner)


CONTAINERS = (
    Container(
        "c-chat",
        "lab.app.llm-chat.0.g1",
        "running",
        "vllm:0.11",
        ours("app/llm-chat/0", CHAT, "chat-team"),
        Holding(frozenset({"GPU-000", "GPU-001"}), cpus=CHAT.cpus, memory=64 * GIB, how="device request"),
        Limits(cpus=CHAT.cpus, memory=64 * GIB, restart="always"),
        health="healthy",
        restart_count=1,
        started_at=SINCE,
    ),
    Container(
        "c-small",
        "lab.app.small.0.g1",
        "running",
        ours=ours("app/small/0", SMALL, ""),
        holding=Holding(mig=frozenset({"MIG-a"}), cpus=(16,), memory=8 * GIB, how="device request"),
        started_at=SINCE,
    ),
    Container(
        "f-jupyter",
        "jupyter",
        "paused",
        "jupyter:latest",
        holding=Holding(frozenset({"GPU-005"}), ports=(("", 8888, "tcp"),), how="NVIDIA_VISIBLE_DEVICES=5"),
        started_at=SINCE,
        user="bob",
    ),
    Container("f-web", NASTY, "running", holding=Holding(memory=GIB), started_at=SINCE),
)
SNAPSHOT = Snapshot(
    (
        HostView(
            HostSpec(
                "gpu-01", "unix:///var/run/docker.sock", tags=("a100",), reserved_cpus=(0, 1), reserved_memory=8 * GIB
            ),
            Reach.KNOWN,
            FACTS,
            CONTAINERS,
        ),
        HostView(
            HostSpec("gpu-02", "sim://", state=HostState.DRAINED), Reach.UNREACHABLE, reason="no answer within 15 s"
        ),
        HostView(HostSpec("gpu-03", "sim://"), Reach.KNOWN),
    )
)

START = Action(
    ActionKind.START,
    instance("app/llm-chat/0"),
    "gpu-01",
    "2 desired, 0 running",
    tuple(
        Step(kind, "gpu-01", "lab.app.llm-chat.0.g1", due=kind is not StepKind.READY)
        for kind in (StepKind.PULL, StepKind.CREATE, StepKind.START, StepKind.READY)
    ),
    Workload(Kind.APP, "llm-chat", ContainerSpec("vllm:0.11"), Request(memory=64 * GIB), owner="chat-team"),
    CHAT,
    digest="v1:bb",
    generation=1,
    spec={"image": "vllm:0.11", "env": {"HF_TOKEN": {"secret": "hf", "key": "token"}}},
    why="the only host that fits",
)
REPLACE = Action(
    ActionKind.REPLACE,
    instance("app/llm-chat/1"),
    "gpu-01",
    "changed: env, image",
    (
        Step(StepKind.PULL, "gpu-01", "lab.app.llm-chat.1.g2"),
        Step(StepKind.CREATE, "gpu-01", "lab.app.llm-chat.1.g2"),
        Step(StepKind.START, "gpu-01", "lab.app.llm-chat.1.g2"),
        Step(StepKind.READY, "gpu-01", "lab.app.llm-chat.1.g2", due=False),
        Step(StepKind.STOP, "gpu-01", "lab.app.llm-chat.1.g1", "c-old", due=False),
        Step(StepKind.REMOVE, "gpu-01", "lab.app.llm-chat.1.g1", "c-old", due=False),
    ),
    allocation=Allocation(
        ("GPU-005",),
        gpu_nodes=(1,),
        cpu_nodes=(1,),
        memory_nodes=(1,),
        cpus=tuple(range(18, 26)),
        memory=96 * GIB,
        ports=((8000, "tcp", 30001),),
    ),
    old=Existing(
        "c-old",
        "lab.app.llm-chat.1.g1",
        "gpu-01",
        1,
        Allocation(("GPU-001",), gpu_nodes=(0,), cpu_nodes=(0,), cpus=tuple(range(2, 10)), memory=64 * GIB),
        "chat-team",
        SINCE,
        "running",
    ),
    order=Order.START_FIRST,
    generation=2,
    changes=(
        Change(
            "env",
            {"HF_HOME": "/models", "OLD": "1", "TOKEN": {"secret": "hf", "key": "a"}},
            {"HF_HOME": "/data", "TOKEN": {"secret": "hf", "key": "b"}},
        ),
        Change("image", "vllm:0.10", "vllm:0.11"),
    ),
    warnings=("NUMA unknown: planned as one node",),
)
MOVE = Action(
    ActionKind.REPLACE,
    instance("app/small/0"),
    "gpu-03",
    "gpu-01 is drained; stop-first: no host has room beside the old one",
    (Step(StepKind.STOP, "gpu-01", "lab.app.small.0.g1", "c-small"),),
    allocation=Allocation(cpus=tuple(range(8)), exclusive=False, memory=8 * GIB),
    old=Existing("c-small", "lab.app.small.0.g1", "gpu-01", 1, SMALL, "", SINCE, "running"),
    order=Order.STOP_FIRST,
    generation=2,
)
UPDATE = Action(
    ActionKind.UPDATE,
    instance("app/web/0"),
    "gpu-03",
    "changed in place: resources.memory",
    (
        Step(
            StepKind.UPDATE,
            "gpu-03",
            "lab.app.web.0.g1",
            "c-web",
            fields=(("Memory", 2 * GIB), ("MemorySwap", 4 * GIB)),
        ),
    ),
    allocation=Allocation(cpus=(0, 1), memory=2 * GIB),
    old=Existing(
        "c-web", "lab.app.web.0.g1", "gpu-03", 1, Allocation(cpus=(0, 1), memory=GIB), "web", SINCE, "running"
    ),
    changes=(Change("resources.memory", GIB, 2 * GIB),),
)
STOP = Action(
    ActionKind.STOP,
    instance("task/old/1/0/0"),
    "gpu-01",
    "no longer in git",
    (Step(StepKind.STOP, "gpu-01", "n", "c-task"), Step(StepKind.REMOVE, "gpu-01", "n", "c-task", due=False)),
    old=Existing("c-task", "n", "gpu-01", 1, SMALL, "train-team", SINCE, "running"),
)
REMOVE = Action(
    ActionKind.REMOVE,
    instance("task/older/1/0/0"),
    "gpu-01",
    "no longer in git",
    (Step(StepKind.REMOVE, "gpu-01", "n", "c-task2"),),
    old=Existing("c-task2", "n", "gpu-01", 1, Allocation(), "train-team", SINCE, "exited"),
)
ADOPT = Action(
    ActionKind.ADOPT,
    instance("app/renamed/0"),
    "gpu-03",
    "its container was renamed to by-hand",
    (Step(StepKind.RENAME, "gpu-03", "by-hand", "c-hand", fields=(("name", "lab.app.renamed.0.g1"),)),),
    old=Existing("c-hand", "by-hand", "gpu-03", 1, Allocation(memory=GIB), "", "0001-01-01T00:00:00Z", "running"),
)
PENDING = (
    Pending(
        instance("task/finetune/4e1d/0/0"),
        "no host has 8 free GPUs on matching cards",
        (("MATCH_TAG train", 1), ("gpus", 2)),
        Nearest("gpu-02", "3 more free GPUs"),
        "task/finetune/4e1d/0",
    ),
    Pending(instance("task/finetune/4e1d/0/1"), "its gang waits", gang="task/finetune/4e1d/0"),
)
KEPT = (
    Placed(instance("app/llm-chat/0"), "gpu-01", "c-chat", "running", CHAT, SINCE, "chat-team"),
    Placed(instance("app/small/0"), "gpu-01", "c-small", "exited", SMALL, SINCE, ""),
)
PLAN = Plan(
    "lab",
    "3f2a1c9d0e1b2c3d4e5f60718293a4b5c6d7e8f9",
    "examples/repo",
    "sha256:00ff",
    (UPDATE, ADOPT, STOP, REMOVE, REPLACE, MOVE, START),
    PENDING,
    (
        Drift(instance("app/small/0"), "gpu-01", "MATCH_TAG a100 no longer holds"),
        Drift(None, "gpu-02", "not pruned"),
        Drift(instance("task/nightly/7/0/0"), "gpu-01", "exited with code 3", failed=True),
    ),
    (
        Waiting(instance("app/flaky/0"), "failed 3 times: exited with code 3", 1e9, failed=True),
        Waiting(None, "held", None),
    ),
    (f"gpu-02: {NASTY}",),
    KEPT,
    unchanged=5,
    guard="prune guard: this would stop 5 of 6 running instances (limit 3); pass --allow-prune if that is meant",
)
EMPTY = Plan("lab", None, "", "sha256:00ff", unchanged=3)
