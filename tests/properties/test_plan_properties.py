"""What holds for every plan of every fleet, whatever users and the world do to it."""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reconciler.model.host import HostState
from reconciler.model.placement import AnyHost, MaxPerHost, Numa
from reconciler.model.plan import Plan
from reconciler.model.workload import Port, Workload
from tests.fakes.world import World, app, desired, foreign, host, task

HOSTS = ("gpu-01", "gpu-02", "cpu-01")
NAMES = ("alpha", "beta", "gamma", "delta")
IMAGES = st.sampled_from(["a:1", "a:2", "bad:1"])

workloads = st.builds(
    lambda name, kind, **more: (app if kind == "app" else task)(name, **more),
    st.sampled_from(NAMES),
    st.sampled_from(["app", "app", "task"]),
    cpus=st.sampled_from([0.5, 1, 2, 4, 6]),
    memory=st.sampled_from([1, 8, 40]),
    gpus=st.sampled_from([0, 0, 1, 2, 4, 6]),
    image=IMAGES,
    numa=st.sampled_from(list(Numa)),
    policy=st.sampled_from([AnyHost(), MaxPerHost(1), MaxPerHost(2)]),
)


def with_port(workload: Workload, port: int) -> Workload:
    """The workload with a fixed host port."""
    return replace(workload, container=replace(workload.container, ports=(Port(80, "http", port),)))


class Fleet(RuleBasedStateMachine):
    """Users edit git, containers die, foreigners come and go; passes run in between."""

    @initialize()
    def start(self) -> None:
        """Two GPU hosts and one without cards."""
        self.world = World.of(
            host("gpu-01", [(8, 64, 4), (8, 64, 4)]),
            host("gpu-02", [(8, 64, 2), (8, 64, 0)]),
            host("cpu-01", [(8, 64, 0)]),
        )
        self.world.unhealthy.add("bad:1")
        self.git: dict[str, Workload] = {}

    def want(self) -> "desired":  # type: ignore[valid-type] # the function names what it makes
        """The commit of this moment."""
        return desired(self.git.values(), self.world.views.values())

    @rule(workload=workloads, instances=st.integers(1, 4), port=st.sampled_from([0, 0, 8080]))
    def commit(self, workload: Workload, instances: int, port: int) -> None:
        """Add or edit a workload."""
        changed = workload if workload.kind == "task" else replace(workload, instances=instances)
        self.git[workload.name] = with_port(changed, port) if port else changed

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        """Remove a workload from git."""
        self.git.pop(name, None)

    @rule(name=st.sampled_from(HOSTS), state=st.sampled_from(list(HostState)))
    def mark(self, name: str, state: HostState) -> None:
        """Cordon, drain or open a host."""
        view = self.world.views[name]
        self.world.views[name] = replace(view, spec=replace(view.spec, state=state))

    @rule(pick=st.integers(0, 30), how=st.sampled_from(["exited", "gone", "created"]))
    @precondition(lambda self: self.world.containers())
    def hurt(self, pick: int, how: str) -> None:
        """A container dies, is removed, or is left as a killed reconciler would leave it."""
        boxes = self.world.containers()
        name, box = boxes[pick % len(boxes)]
        if how == "gone":
            self.world.drop(name, box.id)
        elif how == "exited" and box.running:
            self.world.change(name, box.id, state="exited", exit_code=1, holds=box.limits.restart != "no")
        elif how == "created" and box.ours and box.state == "exited" and box.ours.instance.kind == "app":
            self.world.change(name, box.id, state="created", holds=True)

    @rule(name=st.sampled_from(HOSTS[:2]), card=st.integers(0, 7), come=st.booleans())
    def trespass(self, name: str, card: int, come: bool) -> None:
        """Somebody takes a free card by hand, or leaves it."""
        uuid = f"GPU-{name}-{card}"
        self.world.drop(name, f"foreign-{card}")
        held = {each for box in self.world.views[name].containers if box.holds for each in box.holding.gpus}
        if come and uuid not in held and any(gpu.uuid == uuid for gpu in self.world.views[name].facts.gpus):  # type: ignore[union-attr] # every host here has facts
            self.world.put(name, foreign(str(card), gpus=[uuid]))

    @rule()
    def one_pass(self) -> None:
        """One pass; the plan is the same when it is made twice."""
        want = self.want()
        first, second = self.world.plan(want), self.world.plan(want)
        assert repr(first) == repr(second)
        self.explained(first)
        self.world.step(want)

    @rule()
    def settle(self) -> None:
        """After enough passes nothing is left to do."""
        want = self.want()
        self.world.settle(want, passes=400, allow_prune=True)
        self.world.now -= 1  # at the same moment: a back-off may end in the next
        assert not self.world.plan(want, allow_prune=True).due

    @staticmethod
    def explained(plan: Plan) -> None:
        """Nothing happens without a reason, and nothing is pending without one."""
        assert all(one.reason for one in plan.actions)
        assert all(one.reason for one in plan.pending)

    @invariant()
    def no_card_core_or_port_has_two_owners(self) -> None:
        """Over everything that holds, ours and foreign; a new one that waits for its predecessor is no second owner."""
        for view in self.world.views.values():
            cards: list[str] = []
            cores: list[int] = []
            ports: list[tuple[str, int, str]] = []
            for box in view.containers:
                if not box.running:
                    continue
                cards += sorted(box.holding.gpus)
                ports += box.holding.ports
                if box.ours and not box.limits.nano_cpus:
                    cores += box.limits.cpus
            assert len(cards) == len(set(cards)), view.spec.name
            assert len(cores) == len(set(cores)), view.spec.name
            assert len(ports) == len(set(ports)), view.spec.name

    @invariant()
    def no_host_is_exceeded(self) -> None:
        """Cores and memory of what runs fit, and shared quotas fit in the cores that nobody owns."""
        for view in self.world.views.values():
            running = [box for box in view.containers if box.running and box.ours]
            assert view.facts
            assert sum(box.limits.memory for box in running) <= view.facts.memory
            owned = sum(len(box.limits.cpus) for box in running if not box.limits.nano_cpus)
            quotas = sum(box.limits.nano_cpus for box in running)
            assert owned * 10**9 + quotas <= len(view.facts.cpus) * 10**9

    @invariant()
    def no_instance_runs_twice_beside_a_replacement(self) -> None:
        """At most an old one and a new one."""
        counts: dict[str, int] = {}
        for _, box in self.world.containers():
            if box.ours and box.running:
                counts[str(box.ours.instance)] = counts.get(str(box.ours.instance), 0) + 1
        assert all(count <= 2 for count in counts.values())
        assert all(count == 1 for name, count in counts.items() if name.startswith("task/"))


TestFleet = Fleet.TestCase
TestFleet.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
