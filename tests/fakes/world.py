"""A fleet as plain values: hosts of any shape, and the effect that each step of a plan would have on them.

It is what the planner's tests run against; the simulated Engine (shipped, and held to the real one) is what everything
else runs against.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.journal.remember import remember
from reconciler.model.desired import Cluster, Desired
from reconciler.model.host import Gpu, HostFacts, HostSpec, MigSlice, NumaNode
from reconciler.model.limits import limits_for
from reconciler.model.memory import Memory
from reconciler.model.plan import Action, Outcome, Plan, Step, StepKind
from reconciler.model.resources import Request, WholeGpus, parse_cpus
from reconciler.model.snapshot import Container, Holding, HostView, Limits, Ours, Reach, Snapshot
from reconciler.model.workload import Allocation, ContainerSpec, InstanceId, Kind, Rollout, Workload
from reconciler.planner import Options, plan

GIB = 1024**3


def host(
    name: str,
    nodes: Sequence[tuple[int, int, int]] = ((16, 128, 4), (16, 128, 4)),
    *,
    tags: tuple[str, ...] = (),
    model: str = "NVIDIA A100-SXM4-80GB",
    gpu_node_known: bool = True,
    slices: Sequence[str] = (),
    mig: bool = False,
    **spec: Any,
) -> HostView:
    """A host of ``nodes`` (cores, memory in GiB, cards); the first card can have MIG ``slices`` (``1g.5gb@0``)."""
    numa: list[NumaNode] = []
    gpus: list[Gpu] = []
    core = 0
    for index, (cores, memory, cards) in enumerate(nodes):
        numa.append(NumaNode(index, tuple(range(core, core + cores)), memory * GIB, socket=index))
        core += cores
        for _ in range(cards):
            uuid = f"GPU-{name}-{len(gpus)}"
            gpus.append(Gpu(uuid, model, 80 * GIB, index=len(gpus), numa_node=index if gpu_node_known else None))
    if mig:
        cut = tuple(
            MigSlice(f"MIG-{name}-{number}", profile, int(start), gpus[0].uuid)
            for number, (profile, _, start) in enumerate(text.partition("@") for text in slices)
        )
        gpus[0] = replace(gpus[0], mig_enabled=True, mig_slices=cut)
    facts = HostFacts(name, tuple(numa), tuple(gpus))
    return HostView(HostSpec(name, "sim://", tags=tags, **spec), Reach.KNOWN, facts)


def app(
    name: str, instances: int = 1, *, cpus: float = 1, memory: int = 1, gpus: int = 0, image: str = "a:1", **more: Any
) -> Workload:
    """An App; ``memory`` in GiB, a fraction of ``cpus`` is shared, ``more`` are fields of Workload."""
    want = WholeGpus(gpus) if gpus else None
    exclusive = float(cpus).is_integer()
    spec = more.pop("container", None) or ContainerSpec(image, gpus=want)
    more.setdefault("rollout", Rollout(healthy_for=0.0))
    request = more.pop("request", None) or Request(int(cpus * 1000), exclusive, memory * GIB, want)
    return Workload(Kind.APP, name, spec, request, instances=instances, **more)


def task(name: str, run: str = "r1", **more: Any) -> Workload:
    """A Task."""
    base = app(name, **more)
    return replace(base, kind=Kind.TASK, run=run, restart="no")


def desired(workloads: Iterable[Workload], views: Iterable[HostView] = (), **more: Any) -> Desired:
    """What a commit wants."""
    hosts = tuple(view.spec for view in views)
    cluster = more.pop("cluster", Cluster("lab"))
    found = tuple(sorted(workloads, key=lambda one: one.identity))
    return Desired(cluster, found, hosts, commit=more.pop("commit", "c" * 40), **more)


@dataclass
class World:
    """Hosts that take the steps of a plan at once; ``unhealthy`` names images whose containers never become good."""

    views: dict[str, HostView]
    memory: Memory = field(default_factory=Memory)
    now: float = 1000.0
    unhealthy: set[str] = field(default_factory=set)
    made: int = 0
    log: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, *views: HostView) -> "World":
        """A world of these hosts, empty of ours."""
        return cls({view.spec.name: view for view in views})

    def snapshot(self) -> Snapshot:
        """What an observer sees."""
        return Snapshot(tuple(self.views[name] for name in sorted(self.views)))

    def plan(self, want: Desired, **options: Any) -> Plan:
        """One plan of this moment."""
        return plan(want, self.snapshot(), self.memory, self.now, Options(**options))

    def step(self, want: Desired, **options: Any) -> Plan:
        """One whole pass."""
        made, seen = self.plan(want, **options), self.snapshot()
        outcomes = [self._act(action) for action in made.actions if any(step.due for step in action.steps)]
        self.memory = remember(self.memory, seen, made, outcomes, self.now, desired=want)
        self.now += 1
        return made

    def settle(self, want: Desired, passes: int = 40, **options: Any) -> Plan:
        """Passes until nothing is due and nothing moves; the last plan."""
        made = self.step(want, **options)
        for _ in range(passes):
            if not made.due and not made.moving:
                return made
            made = self.step(want, **options)
        raise AssertionError(f"not settled after {passes} passes: {made.actions}")

    def containers(self) -> list[tuple[str, Container]]:
        """Every container with its host, in the order of names."""
        return sorted(
            ((name, one) for name, view in self.views.items() for one in view.containers), key=lambda each: each[1].name
        )

    def running(self) -> dict[str, Container]:
        """Ours that run, by instance; two for one instance fail."""
        out: dict[str, Container] = {}
        for _, one in self.containers():
            if one.ours and one.running:
                assert str(one.ours.instance) not in out, f"{one.ours.instance} runs twice"
                out[str(one.ours.instance)] = one
        return out

    def put(self, host_name: str, container: Container) -> None:
        """Add a container that somebody else made."""
        view = self.views[host_name]
        self.views[host_name] = replace(view, containers=(*view.containers, container))

    def change(self, host_name: str, container: str, **fields: Any) -> None:
        """Change a container by hand."""
        view = self.views[host_name]
        boxes = tuple(replace(one, **fields) if container in {one.id, one.name} else one for one in view.containers)
        self.views[host_name] = replace(view, containers=boxes)

    def drop(self, host_name: str, container: str) -> None:
        """Remove a container by hand."""
        view = self.views[host_name]
        self.views[host_name] = replace(
            view, containers=tuple(one for one in view.containers if container not in {one.id, one.name})
        )

    def _act(self, action: Action) -> Outcome:
        created, done = "", []
        for step in action.steps:
            if not step.due:
                continue
            self.log.append((str(action.instance), step.kind))
            if step.kind is StepKind.CREATE:
                created = self._create(action, step)
            elif step.kind is not StepKind.PULL:
                self._on(step, step.container or created)
            done.append(step.kind)
        return Outcome(action, tuple(done), created=created)

    def _create(self, action: Action, step: Step) -> str:
        assert action.workload
        assert action.allocation
        assert action.spec is not None
        assert all(one.name != step.name for one in self.views[step.host].containers), f"name taken: {step.name}"
        self.made += 1
        allocation = action.allocation
        ours = Ours(action.instance, action.generation, action.digest, action.spec, allocation)
        limits = limits_for(action.workload, allocation)
        box = Container(
            f"id{self.made:04}", step.name, "created", action.workload.container.image, ours,
            holding_of(allocation, limits), limits, created_at=str(self.now),
        )  # fmt: skip
        self.put(step.host, box)
        return box.id

    def _on(self, step: Step, container: str) -> None:
        box = next(one for one in self.views[step.host].containers if one.id == container)
        match step.kind:
            case StepKind.START:
                bad = box.image in self.unhealthy
                self.change(step.host, box.id, state="running", health="unhealthy" if bad else "none", holds=True)
            case StepKind.STOP:
                self.change(step.host, box.id, state="exited", holds=box.limits.restart != "no", exit_code=137)
            case StepKind.REMOVE:
                assert not box.running, f"{box.name} is removed while it runs"
                self.drop(step.host, box.id)
            case StepKind.UPDATE:
                limits = updated(box.limits, dict(step.fields))
                holding = replace(box.holding, cpus=limits.cpus, memory=limits.memory)
                self.change(step.host, box.id, limits=limits, holding=holding)
            case StepKind.RENAME:
                self.change(step.host, box.id, name=dict(step.fields)["name"])


def holding_of(allocation: Allocation, limits: Limits) -> Holding:
    """What inspect would show as held."""
    return Holding(
        frozenset(allocation.gpus),
        frozenset(piece.uuid for piece in allocation.mig),
        cpus=limits.cpus,
        memory=limits.memory,
        shares=((allocation.share.gpu, allocation.share.milli),) if allocation.share else (),
        ports=tuple(("", port, protocol) for _, protocol, port in allocation.ports),
    )


def updated(limits: Limits, fields: dict[str, Any]) -> Limits:
    """Limits after the Engine's update call."""
    known: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "CpusetCpus": ("cpus", parse_cpus),
        "CpusetMems": ("memory_nodes", parse_cpus),
        "Memory": ("memory", int),
        "NanoCpus": ("nano_cpus", int),
        "PidsLimit": ("pids", lambda value: None if value < 0 else value),
        "RestartPolicy": ("restart", lambda value: value["Name"]),
    }
    changed = {known[name][0]: known[name][1](value) for name, value in fields.items() if name in known}
    return replace(limits, **changed)


def foreign(name: str, *, gpus: Iterable[str] = (), state: str = "running", holds: bool = True) -> Container:
    """A container that is not ours."""
    return Container(f"foreign-{name}", name, state, holding=Holding(frozenset(gpus)), holds=holds)


def ident(text: str) -> InstanceId:
    """Shorthand."""
    return InstanceId.parse(text)
