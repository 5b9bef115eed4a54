"""The openb bench on fleets small enough to work out by hand; the trace itself is not in the repository."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import openb
from bench.openb_bounds import Program, best_pattern, in_order
from bench.openb_fleet import Fleet, Kind, State, allocate, options
from bench.openb_ours import Rule, check, desired, snapshot
from bench.openb_ours import allocate as plan_all
from bench.openb_peers import PEERS, Fgd, best_fit, kubernetes
from bench.openb_plot import draw
from bench.openb_report import Result, table, verdicts
from bench.openb_trace import NODES, Node, Pod, arrivals, arrived, read_nodes, read_pods, workloads
from reconciler.model.plan import Action, ActionKind
from reconciler.model.resources import GpuShare, WholeGpus
from reconciler.model.workload import Allocation, InstanceId, Share
from reconciler.model.workload import Kind as WorkloadKind

NODE_LINES = "sn,cpu_milli,memory_mib,gpu,model\nn-1,16000,65536,2,T4\nn-2,32000,131072,4,G2\n"
SHORT_PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,4000,1024,1,500\np-1,8000,2048,2,1000\np-2,1000,512,0,0\n"
)
LONG_PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\np-0,4000,1024,1,1000,T4|G2|T4,LS\n"


RULES: tuple[Rule, ...] = ("in-order", "free")


def one(gpus: int = 1, millicpus: int = 64_000, model: str = "T4", memory: int = 65_536) -> Node:
    """A host with more cores and memory than the pods of these tests need."""
    return Node(f"n-{gpus}-{model}", millicpus, memory, gpus, model)


def share(milli: int, *models: str) -> Pod:
    """A pod that asks for part of a card and for little else."""
    return Pod(1000, 1, 1, milli, models)


def whole(gpus: int, *models: str) -> Pod:
    """A pod that asks for whole cards and for little else."""
    return Pod(1000, 1, gpus, 1000, models)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A folder with two hosts and two workloads."""
    (tmp_path / NODES).write_text(NODE_LINES)
    (tmp_path / "openb_pod_list_short.csv").write_text(SHORT_PODS)
    (tmp_path / "openb_pod_list_long.csv").write_text(LONG_PODS)
    return tmp_path


class TestTrace:
    def test_nodes(self, trace: Path) -> None:
        """Nodes come in the order of their file."""
        assert read_nodes(trace) == [Node("n-1", 16000, 65536, 2, "T4"), Node("n-2", 32000, 131072, 4, "G2")]

    def test_missing_columns(self, trace: Path) -> None:
        """A file without the later columns has pods for any model."""
        assert read_pods(trace, "short") == [Pod(4000, 1024, 1, 500), Pod(8000, 2048, 2, 1000), Pod(1000, 512, 0, 0)]

    def test_models(self, trace: Path) -> None:
        """Models are split at the bar, each once."""
        assert read_pods(trace, "long")[0].models == ("G2", "T4")

    def test_workloads(self, trace: Path) -> None:
        """Every pod list in the folder is a workload."""
        assert workloads(trace) == ["long", "short"]

    def test_arrivals_hold_every_pod(self) -> None:
        """The shuffled pods come first, whole; the draws after them."""
        pods = [share(milli) for milli in range(100, 200, 10)]
        assert sorted(arrivals(pods, 42, 4000)[: len(pods)]) == pods

    def test_arrivals_reach_130_percent(self) -> None:
        """Draws stop with the first pod that reaches 1.3 times the capacity."""
        sequence = arrivals([whole(1), share(500)], 42, 4000)
        asked = sum(pod.asked for pod in sequence)
        assert asked - sequence[-1].asked < 5200 <= asked

    def test_arrived(self) -> None:
        """100 % of two cards have arrived with the pod that reaches them."""
        assert arrived([share(900), share(900), share(900), share(900)], 2000, 100) == 3


class TestFleet:
    def test_a_share_sits_on_one_card(self) -> None:
        """Two cards with 400 free each do not take 500."""
        state = State(0, 8000, 100, (400, 400))
        assert options(Kind(8000, 100, 2, "T4"), state, share(500)) == []

    def test_a_share_may_take_each_card_that_holds_it(self) -> None:
        """The tightest card is tried first, and equal cards once."""
        found = options(Kind(8000, 100, 3, "T4"), State(0, 8000, 100, (300, 600, 1000)), share(500))
        assert [state.cards for state in found] == [(100, 300, 1000), (300, 500, 600)]

    def test_whole_cards_must_be_empty(self) -> None:
        """Two whole cards do not fit where one of two is in use."""
        assert options(Kind(8000, 100, 2, "T4"), State(0, 8000, 100, (900, 1000)), whole(2)) == []

    def test_models_bind_pods_with_cards(self) -> None:
        """A pod that wants another model does not fit."""
        assert options(Kind(8000, 100, 1, "T4"), State(0, 8000, 100, (1000,)), whole(1, "G2")) == []

    def test_what_does_not_fit_is_dropped(self) -> None:
        """One card takes 600, refuses 600, and takes 400."""
        assert allocate(Fleet([one()], best_fit, 42), [share(600), share(600), share(400)]) == [600, 600, 1000]

    def test_without_a_rule_every_host_that_fits_is_taken_once(self) -> None:
        """Random order still fills every card."""
        assert allocate(Fleet([one()] * 5, None, 42), [whole(1)] * 6)[-1] == 5000

    def test_without_a_rule_the_seed_decides(self) -> None:
        """The same seed gives the same run."""
        pods = [share(milli) for milli in (300, 450, 600, 700, 250) * 6]
        first, second = (allocate(Fleet([one(2)] * 4, None, 7), pods) for _ in range(2))
        assert first == second


class TestRules:
    def test_best_fit_is_half_cores_half_cards(self) -> None:
        """With 64 of 128 cores and 2 of 8 cards left, a quarter and an eighth are left: 62 of 100."""
        assert best_fit(Kind(0, 0, 0, ""), State(0, 0, 0, ()), State(0, 64_000, 0, (1000, 1000))) == -62

    def test_best_fit_takes_the_fuller_host(self) -> None:
        """A whole card goes to the host with one card, not to that with eight."""
        fleet = Fleet([one(8), one(1)], best_fit, 42)
        assert allocate(fleet, [whole(1), whole(8)]) == [1000, 9000]

    def test_kubernetes_spreads(self) -> None:
        """A whole card goes to the host with more free cores, so that eight cards at once no longer fit."""
        fleet = Fleet([one(8, 128_000), one(1, 8_000)], kubernetes, 42)
        assert allocate(fleet, [Pod(4000, 1, 1, 1000), whole(8)]) == [1000, 1000]

    def test_kubernetes_score(self) -> None:
        """Half of the cores and all memory free: 75 for what is free, 75 for the balance."""
        assert kubernetes(Kind(8000, 1000, 0, ""), State(0, 0, 0, ()), State(0, 4000, 1000, ())) == -150

    def test_fragmentation_is_what_the_workload_cannot_use(self) -> None:
        """Half of the pods want a whole card: half of the 500 free milli are lost to them."""
        rule = Fgd([share(500), whole(1)])
        assert rule.fragmentation(Kind(8000, 1, 1, "T4"), State(0, 8000, 1, (500,))) == 250

    def test_fragmentation_without_cores(self) -> None:
        """Cards without the cores for any pod are lost whole."""
        assert Fgd([share(500)]).fragmentation(Kind(8000, 1, 1, "T4"), State(0, 999, 1, (1000,))) == 1000

    def test_fragmentation_of_another_model(self) -> None:
        """Cards of a model that nobody asks for are lost whole."""
        assert Fgd([share(500, "G2")]).fragmentation(Kind(8000, 1, 1, "T4"), State(0, 8000, 1, (1000,))) == 1000

    def test_fgd_keeps_whole_cards_whole(self) -> None:
        """The second half goes beside the first, so that the whole card still fits."""
        pods = [share(500), share(500), whole(1)]
        assert allocate(Fleet([one(1), one(1)], Fgd(pods), 42), pods)[-1] == 2000


class TestBounds:
    def test_best_pattern(self) -> None:
        """Twice 460 fills a card better than any other mix of these sizes."""
        assert best_pattern([290, 460, 590], [290, 460, 590]) == (920, ((460, 2),))

    def test_best_pattern_mixes(self) -> None:
        """810 and 190 fill a card."""
        assert best_pattern([190, 810], [190, 810]) == (1000, ((190, 1), (810, 1)))

    def test_shares_are_not_cut(self) -> None:
        """Of three times 400 a card holds two, though 1,200 were asked for."""
        assert Program([one()], [share(400)]).most({share(400): 3}) == pytest.approx(800)

    def test_patterns_are_priced_in(self) -> None:
        """Ten of each fill ten cards; one size alone would leave 190 on each."""
        pods = {share(810): 10, share(190): 10}
        assert Program([one(10)], pods).most(pods) == pytest.approx(10_000)

    def test_cores_bound(self) -> None:
        """Four cores feed two pods of two cores, whatever the cards."""
        pod = Pod(2000, 1, 1, 1000)
        assert Program([one(8, 4000)], [pod]).most({pod: 8}) == pytest.approx(2000)

    def test_models_bound(self) -> None:
        """Pods for G2 find one card there and none on T4."""
        pods = {whole(1, "G2"): 3}
        assert Program([one(4), one(1, model="G2")], pods).most(pods) == pytest.approx(1000)

    @pytest.mark.parametrize("seed", range(12))
    def test_never_below_the_best_placement(self, seed: int) -> None:
        """Trying every placement on a small fleet finds nothing above the bound."""
        rng = random.Random(seed)  # noqa: S311 - a simulation
        nodes = [one(2, 4000), one(1, 6000, "G2")]
        sizes = [190, 330, 460, 590, 810]
        pods = [Pod(rng.choice((1000, 2000, 3000)), 1, 1, rng.choice(sizes)) for _ in range(4)]
        pods += [Pod(1000, 1, 2, 1000), share(rng.choice(sizes), "G2")]
        assert Program(nodes, pods).most(Counter(pods)) >= exhaustive(nodes, pods) - 1e-6

    def test_in_order_leaves_out_only_what_does_not_fit(self) -> None:
        """600 is in, 600 does not fit beside it, 400 does."""
        pods = [share(600), share(600), share(400)]
        assert in_order(Program([one()], pods), pods) == [600, 600, 1000]

    def test_in_order_may_still_move_what_is_in(self) -> None:
        """The two small ones may share a card after all, so that the whole card fits."""
        pods = [share(500), share(500), whole(1)]
        assert in_order(Program([one(2)], pods), pods)[-1] == 2000

    def test_in_order_first_come_first_served(self) -> None:
        """One card first, and two cards find only one."""
        pods = [whole(1), whole(2)]
        assert in_order(Program([one(2)], pods), pods) == [1000, 1000]


class TestOurs:
    def test_requests(self) -> None:
        """Part of a card is a share, more are whole cards, both with their models; none is none."""
        fleet = snapshot([one()], 42)
        tasks = desired([share(500, "T4"), whole(2, "G2"), Pod(1000, 1, 0, 0)], fleet, "free").workloads
        assert [task.request.gpus for task in tasks] == [
            GpuShare(milli=500, models=("T4",)),
            WholeGpus(2, ("G2",)),
            None,
        ]

    def test_who_came_first_matters_in_order_only(self) -> None:
        """In order the priority falls with each arrival; free, all are alike."""
        fleet = snapshot([one()], 42)
        found = {rule: [task.priority for task in desired([whole(1)] * 3, fleet, rule).workloads] for rule in RULES}
        assert found == {"in-order": [0, -1, -2], "free": [0, 0, 0]}

    def test_whole_cards_are_planned(self) -> None:
        """Three hosts with 2, 1 and 1 cards take all of four cards."""
        nodes = [one(2), one(1), one(1, model="G2")]
        assert plan_all(nodes, [whole(2), whole(1), whole(1, "G2"), whole(1)], 42, "in-order").milli == 4000

    def test_in_order_plan_keeps_the_first(self) -> None:
        """Of one card and two cards, only the first to come fits on two."""
        assert plan_all([one(2)], [whole(1), whole(2)], 42, "in-order").milli == 1000

    def test_overfull_card_is_refused(self) -> None:
        """Two halves and a tenth on one card are no plan."""
        pods = [share(500), share(500), share(100)]
        placed = [(pod, start(number, pod)) for number, pod in enumerate(pods)]
        with pytest.raises(ValueError, match="less of a card"):
            check([one()], placed, 42)

    def test_overfull_host_is_refused(self) -> None:
        """Two pods of one core on one core are no plan."""
        placed = [(share(500), start(number, share(500))) for number in range(2)]
        with pytest.raises(ValueError, match="less cores"):
            check([one(1, 1000)], placed, 42)

    def test_wrong_model_is_refused(self) -> None:
        """A card of another model is no plan."""
        with pytest.raises(ValueError, match="does not have the cards"):
            check([one()], [(share(500, "G2"), start(0, share(500)))], 42)


class TestReport:
    def test_reached_in_the_digits_given(self) -> None:
        """A mean that rounds to the figure reaches it; the other misses it by the difference."""
        result = Result("default", {"ours": (96.16, 96.24)}, (100, 130))
        assert verdicts([result], "in-order") == [
            "in-order default at 100: 96.16 of 96.2: reached",
            "in-order default at 130: 96.24 of 96.3: missed by 0.06",
        ]

    def test_table_has_published_and_measured(self) -> None:
        """A row has the published figures of its workload and what was measured."""
        result = Result("default", {"ours": (96.16, 96.24)}, (100, 130), (2.25, 2.5))
        row = table([result], "in-order", ["ours"]).splitlines()[-1].split()
        assert (row[6], row[-2], row[-1]) == ("95.23/95.39", "96.16/96.24", "2.2/2.5")

    def test_json(self, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """One JSON object with a curve for everybody."""
        code = openb.main(
            ["--data", str(trace), "--workload", "short", "--seeds", "42-43", "--bounds", "all", "--json"]
        )
        found = json.loads(capsys.readouterr().out)
        assert (code, found["seeds"]) == (0, [42, 43])
        assert set(found["workloads"]["short"]["curves"]) == {*PEERS, "ours", "bound", "reference"}

    def test_nobody_passes_the_bound(self, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """On every workload of a folder the bound is the highest."""
        openb.main(["--data", str(trace), "--seeds", "42", "--json"])
        for result in json.loads(capsys.readouterr().out)["workloads"].values():
            for at in range(2):
                assert max(curve[at] for curve in result["curves"].values()) <= result["curves"]["bound"][at] + 1e-6

    def test_plot_is_the_same_each_time(self, tmp_path: Path) -> None:
        """The same results give the same bytes."""
        steps = (50, 90, 100, 130)
        result = Result("default", {"ours": (50, 90, 96, 96.2), "bound": (50, 90, 96.9, 99.9)}, steps)
        for name in ("a.svg", "b.svg"):
            draw([result], "in-order", tmp_path / name)
        assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def start(number: int, pod: Pod) -> Action:
    """A START that puts a share on the first card of the only host."""
    allocation = Allocation(share=Share("GPU-h00000-0", pod.milli, 0))
    instance = InstanceId(WorkloadKind.TASK, f"p{number}", "0", "1")
    return Action(ActionKind.START, instance, "h00000", "", (), allocation=allocation)


def exhaustive(nodes: Sequence[Node], pods: Sequence[Pod]) -> int:
    """The most milli of any placement: every pod on each host, or nowhere, on each card that holds it."""
    best = 0
    for places in itertools.product(range(-1, len(nodes)), repeat=len(pods)):
        asked = sum(pod.asked for pod, place in zip(pods, places, strict=True) if place >= 0)
        if asked > best and all(
            holds(node, [pod for pod, place in zip(pods, places, strict=True) if place == at])
            for at, node in enumerate(nodes)
        ):
            best = asked
    return best


def holds(node: Node, pods: Sequence[Pod]) -> bool:
    """Whether one host can hold all of these, by trying every card for every pod."""
    kind = Kind(node.millicpus, node.memory, node.gpus, node.model)
    states = [State(0, node.millicpus, node.memory, (1000,) * node.gpus)]
    for pod in pods:
        states = [after for state in states for after in options(kind, state, pod)]
    return bool(states)
