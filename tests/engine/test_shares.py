"""Parts of one card on an Engine: what containers are told, and who gives way when a card is used up."""

from pathlib import Path

import pytest

from reconciler.actual.observe import Observer
from reconciler.engine.open import open_engine
from reconciler.executor.apply import Executor
from reconciler.model.desired import Cluster, Desired
from reconciler.model.host import Gpu, HostFacts, HostSpec, NumaNode
from reconciler.model.plan import Action, ActionKind, Outcome, Plan, Step, StepKind
from reconciler.model.resources import GpuShare, Request
from reconciler.model.snapshot import HostView, Reach, Snapshot
from reconciler.model.workload import Allocation, ContainerSpec, InstanceId, Kind, Share, Workload, digest_of
from reconciler.model.workload import spec_on_host as spec_of
from tests.engine.dockerd import Bed
from tests.fakes.door import IMAGE, Door

GIB = 1024**3
CARD = "GPU-00000000-0000-0000-0000-000000000000"
FACTS = HostFacts(
    "host-1", (NumaNode(0, tuple(range(64)), 256 * GIB),), (Gpu(CARD, "NVIDIA A100-SXM4-80GB", 80 * GIB, 0),)
)
STEPS = (StepKind.CREATE, StepKind.START)
TOLD = ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "NVIDIA_VISIBLE_DEVICES")


class Host:
    """One host behind a door, with an executor over it."""

    def __init__(self, door: Door, url: str) -> None:
        self.door = door
        self.spec = HostSpec("host-1", url)
        self.executor = Executor(lambda _: (door.reader, door.writer))

    def start(self, name: str, milli: int) -> Outcome:
        """One pass that makes and starts a share of the card, planned before anything else was there."""
        work = Workload(
            Kind.APP,
            name,
            ContainerSpec(IMAGE, args=("sleep", "1000"), gpus=GpuShare(milli), network="none", stop_signal="SIGKILL"),
            Request(100, exclusive=False, memory=64 * 1024**2),
        )
        spec = spec_of(work.container, ())
        action = Action(
            ActionKind.START,
            InstanceId(Kind.APP, name, "0"),
            "host-1",
            "1 desired, 0 running",
            tuple(Step(kind, "host-1", f"lab.app.{name}.0.g1") for kind in STEPS),
            work,
            Allocation(share=Share(CARD, milli, 80 * GIB * milli // 1000)),
            digest=digest_of(spec),
            generation=1,
            spec=spec,
        )
        empty = Snapshot((HostView(self.spec, Reach.KNOWN, FACTS),))
        plan = Plan("lab", None, "", "sha256:0", (action,))
        (outcome,) = self.executor.apply(plan, empty, Desired(Cluster("lab"), (), (self.spec,)))
        return outcome

    def environment(self, container: str) -> dict[str, str]:
        """What a container was created with."""
        entries = self.door.reader.inspect_container(container)["Config"]["Env"]
        return dict(entry.split("=", 1) for entry in entries)


@pytest.fixture
def host(door: Door) -> Host:
    """The host behind the door."""
    return Host(door, "sim://")


def test_shares_of_one_card_run_side_by_side(host: Host) -> None:
    """Each is kept to its part; both were handed the same card."""
    outcomes = {name: host.start(name, milli) for name, milli in (("a", 500), ("b", 251))}
    assert [(one.done, one.error) for one in outcomes.values()] == [(STEPS, ""), (STEPS, "")]
    made = {name: one.created for name, one in outcomes.items()}
    assert {host.door.state(one)["Status"] for one in made.values()} == {"running"}
    (first,), (second,) = (host.door.host_config(one)["DeviceRequests"] for one in made.values())
    assert first["DeviceIDs"] == second["DeviceIDs"] == [CARD]
    told = {name: [host.environment(one).get(key) for key in TOLD[:2]] for name, one in made.items()}
    assert told == {"a": ["50", "0=40960M"], "b": ["26", "0=20561M"]}


def test_a_share_that_would_exceed_the_card_gives_way(host: Host) -> None:
    """The plan knew nothing of the two that run: the look before the start does, and the third is removed again."""
    host.start("a", 500)
    host.start("b", 251)
    third = host.start("c", 250)
    assert third.error == (
        f"0.751 of {CARD} is held by lab.app.a.0.g1, lab.app.b.0.g1, which was there first: "
        "lab.app.c.0.g1 was removed again"
    )
    assert third.raced
    names = {name for entry in host.door.reader.list_containers() for name in entry["Names"]}
    assert names == {"/lab.app.a.0.g1", "/lab.app.b.0.g1"}
    assert host.start("d", 249).error == ""


def test_a_foreign_container_on_the_card_leaves_nothing_of_it(host: Host) -> None:
    """Nobody says how much it takes."""
    request = {"Driver": "nvidia", "DeviceIDs": [CARD], "Capabilities": [["gpu"]]}
    host.door.run(name="theirs", DeviceRequests=[request], NetworkMode="none")
    outcome = host.start("a", 100)
    assert outcome.error.startswith(f"{CARD} is held by theirs")


def test_what_is_observed_says_how_much_is_held(host: Host) -> None:
    """From the Engine alone: the label is the only place that knows."""
    host.start("a", 500)
    observer = Observer(lambda _: host.door.reader)
    (view,) = observer.observe([host.spec], "lab").hosts
    assert [(one.name, one.holding.shares) for one in view.containers] == [("lab.app.a.0.g1", ((CARD, 500),))]


def test_the_process_sees_its_card_and_its_part(engine: str, bed: Bed, tmp_path: Path) -> None:
    """In the environment of the process itself, on the real Engine."""
    reader, writer = open_engine("host-1", engine, tmp_path)
    Host(Door("docker", reader, writer), engine).start("a", 500)
    shown = bed.inside("lab.app.a.0.g1", "cat", "/proc/1/environ").split("\0")
    env = dict(entry.split("=", 1) for entry in shown if "=" in entry)
    assert [env[key] for key in TOLD] == ["50", "0=40960M", CARD]
    reader.close()
    writer.close()
