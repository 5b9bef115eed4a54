"""What holds for every fleet and every sequence of asks: nothing given twice, nothing exceeded, all repeatable."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.model.host import Gpu, HostFacts, HostSpec, Link, MigSlice, Nic, NumaNode
from reconciler.model.placement import AnyHost, MatchTag, MaxPerHost, Numa, Policy
from reconciler.model.plan import Pending
from reconciler.model.resources import GpuRequest, GpuShare, MigSlices, Request, WholeGpus
from reconciler.model.snapshot import Container, Holding, HostView, Reach
from reconciler.model.workload import Allocation, ContainerSpec, InstanceId, Kind, Port, Workload
from reconciler.planner.place import Ask, Fleet, Placement
from tests.fakes.hash_seeds import answers

GIB = 1024**3
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def no_rules(text: str) -> None:
    """No rules are asked for here."""
    raise AssertionError(text)


models = st.sampled_from(["A", "B"])
WIDTHS = {"1g.2gb": 1, "1g.4gb": 2, "2g.4gb": 2, "3g.8gb": 4}  # memory slices that each takes of a card of 16 GiB


@st.composite
def hosts(draw: st.DrawFn, name: str) -> HostView:
    """A host with odd nodes: uneven cores and cards, no memory, SMT, slices, unknown nodes, foreign holdings."""
    shape = draw(st.lists(st.tuples(st.integers(1, 6), st.sampled_from([0, 4, 16])), min_size=1, max_size=4))
    nodes, cpu = [], 0
    for number, (cores, memory) in enumerate(shape):
        nodes.append(NumaNode(number * 3, tuple(range(cpu, cpu + cores)), memory * GIB, socket=number // 2))
        cpu += cores
    known, linked = draw(st.booleans()), draw(st.booleans())
    places = draw(st.lists(st.integers(0, len(nodes) - 1), max_size=6))
    gpus = tuple(
        Gpu(
            f"GPU-{name}-{index}",
            draw(models),
            16 * GIB,
            index=index,
            numa_node=nodes[at].id if known or index else None,
            links=(Link(f"GPU-{name}-{index + 1}", 2),) if linked and index % 2 == 0 else (),
        )
        for index, at in enumerate(places)
    )
    sliced = draw(st.booleans())
    if gpus and sliced:
        cut = tuple(MigSlice(f"MIG-{name}-{at}", "1g.2gb", at, gpus[-1].uuid) for at in range(draw(st.integers(0, 3))))
        gpus = (*gpus[:-1], replace(gpus[-1], mig_enabled=True, mig_slices=cut))
    smt = tuple((even, even + 1) for even in range(0, cpu - 1, 2)) if draw(st.booleans()) else ()
    spec = HostSpec(
        name,
        "sim://",
        tags=draw(st.sampled_from([(), (), ("t",)])),
        reserved_cpus=draw(st.sampled_from([(), (0,)])),
        reserved_memory=draw(st.sampled_from([0, GIB])),
        labels=(("rack", draw(st.sampled_from("ab"))),),
        mig_create=draw(st.booleans()),
    )
    nics = (Nic("mlx0", numa_node=nodes[-1].id, rdma=True),) if draw(st.booleans()) else ()
    holding = Holding(frozenset({f"GPU-{name}-0"}), cpus=(1,), memory=GIB, ports=(("", 30000, "tcp"),))
    foreign = (Container("f", "f", "running", holding=holding),) if draw(st.booleans()) else ()
    return HostView(spec, Reach.KNOWN, HostFacts(name, tuple(nodes), gpus, smt=smt, nics=nics), foreign)


fleets = st.tuples(hosts("h0"), hosts("h1"), hosts("h2"))
cards: st.SearchStrategy[GpuRequest | None] = st.one_of(
    st.none(),
    st.builds(WholeGpus, st.integers(1, 4), st.sampled_from([(), ("A",)])),
    st.builds(WholeGpus, st.just(2), link=st.just("nvlink")),
    st.builds(MigSlices, st.sampled_from(["1g.2gb", *WIDTHS]), st.integers(1, 2)),
    st.builds(GpuShare, st.sampled_from([1, 250, 400, 700])),
    st.builds(GpuShare, memory=st.sampled_from([GIB, 7 * GIB])),
)
ports = st.lists(
    st.builds(Port, st.integers(80, 82), host=st.sampled_from([None, None, 8000])),
    max_size=2,
    unique_by=lambda port: port.container,
)


policies: st.SearchStrategy[Policy] = st.one_of(
    st.just(AnyHost()), st.just(AnyHost()), st.just(MatchTag("t")), st.just(MaxPerHost(2))
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Any workload."""
    gpus = draw(cards)
    millicpus = draw(st.sampled_from([500, 1000, 1500, 2000, 3000, 5000]))
    exclusive = millicpus % 1000 == 0 and draw(st.booleans())
    request = Request(millicpus, exclusive, draw(st.sampled_from([0, 1, 3, 9])) * GIB, gpus)
    spec = ContainerSpec("a:1", gpus=gpus, ports=tuple(draw(ports)), rdma=draw(st.integers(0, 5)) == 0)
    return Workload(
        Kind.APP,
        draw(st.sampled_from(["x", "y"])),
        spec,
        request,
        numa=draw(st.sampled_from(list(Numa))),
        policy=draw(policies),
    )


@dataclass
class Ledger:
    """An account of its own of what was given, by key."""

    views: dict[str, HostView]
    held: dict[str, tuple[str, Workload, Allocation]] = field(default_factory=dict)

    def check(self, fleet: Fleet) -> None:
        """No card, slice, core or port twice; no host exceeded in any dimension."""
        for name, view in self.views.items():
            mine = [(work, given_) for host, work, given_ in self.held.values() if host == name]
            if mine:
                self._cards(view, [one for _, one in mine])
                self._rest(view, mine, set(fleet.shared_pool(name)))

    def _cards(self, view: HostView, mine: list[Allocation]) -> None:
        """Each card is whole with one, or shared up to all of it, or cut into slices that do not overlap."""
        assert view.facts
        foreign = [uuid for box in view.containers for uuid in box.holding.gpus]
        self._once([*foreign, *(uuid for one in mine for uuid in one.gpus)])
        self._once([piece.uuid for one in mine for piece in one.mig if piece.uuid])
        wholes = {uuid for one in mine for uuid in one.gpus}
        for uuid in foreign:
            assert not any(piece.gpu == uuid for one in mine for piece in one.mig)
        for gpu in view.facts.gpus:
            shares = [one.share for one in mine if one.share and one.share.gpu == gpu.uuid]
            assert sum(share.milli for share in shares) <= 1000
            assert 100 * sum(share.memory for share in shares) <= 101 * gpu.memory  # it is counted in thousandths
            there = [(piece.profile, piece.start) for piece in gpu.mig_slices]
            cut = [(one.profile, one.start) for box in mine for one in box.mig if one.gpu == gpu.uuid and not one.uuid]
            self._once([at for profile, start in there + cut for at in range(start, start + WIDTHS[profile])])
            assert not cut or (gpu.mig_enabled and view.spec.mig_create)
            assert not shares or not ({gpu.uuid} & {*wholes, *foreign} or gpu.mig_enabled)
            assert gpu.uuid not in wholes or not gpu.mig_enabled

    def _rest(self, view: HostView, mine: list[tuple[Workload, Allocation]], pool: set[int]) -> None:
        """CPUs, memory and ports."""
        assert view.facts
        foreign = [box.holding for box in view.containers]
        owned = [cpu for _, one in mine if one.exclusive for cpu in one.cpus]
        off = {*view.spec.reserved_cpus, *(cpu for one in foreign for cpu in one.cpus)}
        self._once([*owned, *off])
        assert pool == set(view.facts.cpus) - set(owned) - off
        assert sum(one.millicpus for _, one in mine if not one.exclusive) <= 1000 * len(pool)
        taken = [(port, protocol) for _, one in mine for _, protocol, port in one.ports]
        self._once([*taken, *((port, protocol) for one in foreign for _, port, protocol in one.ports)])
        memory = sum(one.memory for _, one in mine) + sum(one.memory for one in foreign)
        assert memory + view.spec.reserved_memory <= view.facts.memory
        room = {node.id: node.memory for node in view.facts.numa_nodes}
        bound = [(set(one.memory_nodes), one.memory) for _, one in mine if one.memory_nodes]
        for nodes, _ in bound:  # what is bound inside some nodes fits into them together
            assert sum(size for inside, size in bound if inside <= nodes) <= sum(room[node] for node in nodes)

    @staticmethod
    def _once(things: Sequence[Any]) -> None:
        assert len(things) == len(set(things)), things


def nodeless(view: HostView) -> bool:
    """Whether the node of a card is unknown, so that the host is planned as one node."""
    return view.facts is not None and any(gpu.numa_node is None for gpu in view.facts.gpus)


def check_one(view: HostView, work: Workload, allocation: Allocation) -> None:
    """An allocation is what was asked, and keeps the condition it was asked under."""
    assert view.facts
    request = work.request
    by_uuid = {gpu.uuid: gpu for gpu in view.facts.gpus}
    node_of = {cpu: node.id for node in view.facts.numa_nodes for cpu in node.cpus}
    assert allocation.cpu_nodes == tuple(sorted({node_of[cpu] for cpu in allocation.cpus}))
    assert allocation.memory == request.memory
    assert allocation.exclusive is request.exclusive
    assert len(allocation.cpus) == request.cores if request.exclusive else allocation.cpus
    assert list(allocation.gpus) == sorted(allocation.gpus)
    if isinstance(request.gpus, WholeGpus):
        assert len(allocation.gpus) == request.gpus.count
        assert all(not by_uuid[uuid].mig_enabled for uuid in allocation.gpus)
        assert all(by_uuid[uuid].model in (request.gpus.models or ("A", "B")) for uuid in allocation.gpus)
    if isinstance(request.gpus, MigSlices):
        assert [piece.profile for piece in allocation.mig] == [request.gpus.profile] * request.gpus.count
    if isinstance(request.gpus, GpuShare):
        assert allocation.share
        even = request.gpus.memory and 16 * GIB % request.gpus.memory == 0
        part = 1000 * request.gpus.memory // (16 * GIB) if even else -(-1000 * request.gpus.memory // (16 * GIB))
        assert allocation.share.milli == (request.gpus.milli or part)
    if isinstance(request.gpus, WholeGpus) and request.gpus.link:
        one, two = (by_uuid[uuid] for uuid in allocation.gpus)
        assert any(link.peer == two.uuid for link in one.links) or any(link.peer == one.uuid for link in two.links)
    unknown = nodeless(view)
    if work.numa is Numa.REQUIRE and not unknown:
        assert len({*allocation.gpu_nodes, *allocation.cpu_nodes}) == 1
    if work.numa is Numa.REQUIRE_SOCKET and not unknown:
        socket = {node.id: node.socket for node in view.facts.numa_nodes}
        assert len({socket[node] for node in (*allocation.gpu_nodes, *allocation.cpu_nodes)}) == 1
    bound = {node.id: node.memory for node in view.facts.numa_nodes}
    assert all(bound[node] for node in allocation.memory_nodes)
    assert bool(allocation.memory_nodes) <= (work.numa in {Numa.REQUIRE, Numa.REQUIRE_SOCKET})


operations = st.lists(
    st.tuples(st.sampled_from(["place", "place", "place", "vacate", "resize"]), workloads(), st.integers(0, 11)),
    max_size=14,
)


@QUICK
@given(fleets, operations)
def test_nothing_is_given_twice_and_nothing_exceeded(
    views: tuple[HostView, ...], steps: list[tuple[str, Workload, int]]
) -> None:
    """Whatever is placed, vacated and resized in whatever order, an independent account of it adds up."""
    fleet = Fleet(views, no_rules)  # type: ignore[arg-type] # it raises: no rule is ever compiled
    ledger = Ledger({view.spec.name: view for view in views})
    for what, work, number in steps:
        key = f"app/{work.name}/{number}"
        if what == "place" and key not in ledger.held:
            found = fleet.place(Ask(InstanceId.parse(key), work), key)
            if isinstance(found, Placement):
                check_one(ledger.views[found.host], work, found.allocation)
                ledger.held[key] = (found.host, work, found.allocation)
            else:
                check_pending(found, len(views))
        elif what == "vacate" and key in ledger.held:
            fleet.vacate(key)
            del ledger.held[key]
        elif what == "resize" and key in ledger.held:
            host, before, allocation = ledger.held[key]
            request = replace(before.request, millicpus=work.request.millicpus, memory=work.request.memory,
                              exclusive=work.request.exclusive)  # fmt: skip
            changed = replace(before, request=request)
            resized = fleet.resize(key, changed, allocation)
            if resized:
                assert (resized.gpus, resized.mig, resized.ports) == (allocation.gpus, allocation.mig, allocation.ports)
                if not nodeless(ledger.views[host]):
                    assert set(resized.cpu_nodes) <= set(allocation.cpu_nodes)
                check_one(ledger.views[host], changed, replace(resized, cpus=resized.cpus))
                ledger.held[key] = (host, changed, resized)
        ledger.check(fleet)


def check_pending(found: Pending, hosts_: int) -> None:
    """Every host was removed by exactly one filter, and the reason and the nearest host are told."""
    assert sum(count for _, count in found.removed) == hosts_
    assert found.reason
    assert found.nearest
    assert found.nearest.lacks


@QUICK
@given(fleets, st.lists(workloads(), max_size=8))
def test_undoing_everything_gives_the_empty_fleet_back(views: tuple[HostView, ...], work: list[Workload]) -> None:
    """After all keys are vacated, the same asks get the same answers again, and a fresh fleet gives them too."""
    fleet = Fleet(views, no_rules)  # type: ignore[arg-type] # it raises: no rule is ever compiled
    asks = [Ask(InstanceId.parse(f"app/{one.name}/{number}"), one) for number, one in enumerate(work)]
    first = [fleet.place(one, str(one.instance)) for one in asks]
    for one in asks:
        fleet.vacate(str(one.instance))
    assert [fleet.place(one, str(one.instance)) for one in asks] == first
    again = Fleet(views[::-1], no_rules)  # type: ignore[arg-type] # it raises: no rule is ever compiled
    assert [again.place(one, str(one.instance)) for one in asks] == first


@QUICK
@given(fleets, st.lists(workloads(), max_size=6))
def test_occupying_what_was_placed_is_the_same_as_placing_it(views: tuple[HostView, ...], work: list[Workload]) -> None:
    """The next pass, which is told of running containers, has the same room as the one that placed them."""
    fleet, told = Fleet(views, no_rules), Fleet(views, no_rules)  # type: ignore[arg-type] # as above
    for number, one in enumerate(work):
        ask = Ask(InstanceId.parse(f"app/{one.name}/{number}"), one)
        found = fleet.place(ask, str(number))
        if isinstance(found, Placement):
            told.occupy(found.host, str(number), ask.instance, one.identity, found.allocation)
    probe = [Ask(InstanceId.parse(f"app/p/{number}"), replace(one, name="p")) for number, one in enumerate(work)]
    assert [fleet.explain(one) for one in probe] == [told.explain(one) for one in probe]


@QUICK
@given(fleets, workloads())
def test_explain_tells_what_place_does(views: tuple[HostView, ...], work: Workload) -> None:
    """The winner of the explanation is where it goes; every host is either removed by one filter or fits."""
    fleet = Fleet(views, no_rules)  # type: ignore[arg-type] # it raises: no rule is ever compiled
    one = Ask(InstanceId(Kind.APP, work.name, "0"), work)
    told = fleet.explain(one)
    removed = [name for _, names in told.removed for name in names]
    assert len(removed) == len(set(removed)) == len(views) - told.fitting
    found = fleet.place(one, "k")
    if isinstance(found, Placement):
        assert (told.winner, told.why, told.warnings) == (found.host, found.why, found.warnings)
        assert told.offers[0].host == found.host
    else:
        assert told.pending == found


@QUICK
@given(fleets, workloads())
def test_a_restart_in_place_changes_nothing(views: tuple[HostView, ...], work: Workload) -> None:
    """Vacated and asked for again with what it had, an instance gets exactly that."""
    fleet = Fleet(views, no_rules)  # type: ignore[arg-type] # it raises: no rule is ever compiled
    one = Ask(InstanceId(Kind.APP, work.name, "0"), work)
    first = fleet.place(one, "k")
    if isinstance(first, Placement):
        fleet.vacate("k")
        second = fleet.place(replace(one, only=first.host, near=first.allocation), "k")
        assert isinstance(second, Placement)
        assert second.allocation == first.allocation


SCRIPT = """
from tests.properties.test_place_properties import fixed_answers
print(fixed_answers())
"""


def fixed_answers() -> str:
    """The answers of one fleet to one batch, as text."""
    nodes = (NumaNode(0, tuple(range(8)), 64 * GIB), NumaNode(1, tuple(range(8, 16)), 64 * GIB))
    views = [
        HostView(
            HostSpec(name, "sim://", tags=tags),
            Reach.KNOWN,
            HostFacts(name, nodes, tuple(Gpu(f"GPU-{name}-{n}", "A", GIB, numa_node=n // 2) for n in range(4))),
        )
        for name, tags in (("a", ("t", "u")), ("b", ()), ("c", ("u", "v")), ("d", ()))
    ]
    fleet = Fleet(views, no_rules)  # type: ignore[arg-type] # it raises: no rule is ever compiled
    out: list[str] = []
    asked = (None, WholeGpus(1), WholeGpus(2), GpuShare(400))
    batch = []
    for number in range(24):
        gpus = asked[number % 4]
        policy = (AnyHost(), MatchTag("u"), MaxPerHost(2))[number % 3]
        request = Request((number % 3 + 1) * 1000, number % 2 == 0, GIB, gpus)
        work = Workload(Kind.APP, f"w{number % 5}", ContainerSpec("a:1", ports=(Port(80),)), request, policy=policy)
        ask = Ask(InstanceId(Kind.APP, work.name, str(number)), work)
        if number < 8:
            out.append(repr(fleet.place(ask, str(number))))
        else:
            batch.append(ask)
    out += [repr(one) for one in sorted(fleet.place_all(batch).items(), key=lambda one: one[0].sort_key)]
    return "\n".join(out)


def test_no_answer_depends_on_the_hash_seed() -> None:
    """Two interpreters that order sets differently give the same answers, byte for byte."""
    one, two = answers(SCRIPT)
    assert one == two
    assert "GPU-" in one
