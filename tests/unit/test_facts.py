"""Facts JSON ⇄ HostFacts."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.actual.facts import UNKNOWN_START, FactsError, facts_from_json, facts_to_json
from reconciler.model.host import Gpu, HostFacts, Link, MigSlice, NumaNode
from tests.fakes.probe_bed import MACHINES, machine

GPU = {"uuid": "GPU-1", "model": "NVIDIA L4", "memory": 24 * 2**30}
SMALLEST = {
    "format": "reconciler.facts/v1",
    "hostname": "h",
    "numaNodes": [{"id": 0, "cpus": "0-3", "memory": 8 * 2**30}],
    "gpus": [GPU],
}
DEFAULT_GPU: dict[str, Any] = {
    "index": None,
    "pci": "",
    "memoryUsed": 0,
    "processes": [],
    "numaNode": None,
    "links": {},
    "health": "ok",
    "mig": {"enabled": False, "slices": []},
}


def read(document: Any) -> HostFacts:
    """Facts of a document."""
    return facts_from_json(json.dumps(document), "h.json")


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_read_and_written_is_the_same_machine(name: str) -> None:
    """JSON → facts → JSON changes nothing but that defaults are written out."""
    document = machine(name)
    for gpu in document["gpus"]:
        gpu.update(DEFAULT_GPU | gpu)
    document["engine"].setdefault("gpuDriver", "")
    for node in document["numaNodes"]:
        node.update({} if node["cpus"] else {"gpuMemory": True})
    assert facts_to_json(read(machine(name))) == document


def test_every_field_survives() -> None:
    """What no machine file has: sockets, distances, processes, a broken driver, an unknown start, warnings."""
    document = SMALLEST | {
        "numaNodes": [
            {"id": 0, "socket": 0, "cpus": "0-1", "memory": 4096, "distances": {"8": 40, "252": 80}},
            {"id": 8, "socket": 1, "cpus": "8-9,11", "memory": 0, "distances": {"0": 40, "252": 80}},
            {"id": 252, "cpus": "", "memory": 8192, "distances": {"0": 80, "8": 80}, "gpuMemory": True},
        ],
        "driver": {"error": "driver/library version mismatch: kernel module 535.1, library 535.2"},
        "gpus": [
            DEFAULT_GPU
            | GPU
            | {
                "numaNode": 8,
                "health": "reset required",
                "processes": [{"pid": 7, "name": "python", "user": "alice", "memory": 5, "container": "ab12"}],
                "mig": {"enabled": True, "slices": [{"uuid": "MIG-1", "profile": "1g.5gb", "start": None}]},
            }
        ],
        "smt": [[0, 1]],
        "engine": {"version": "20.10.24", "apiVersion": "1.41", "gpuDriver": "", "cpuset": False},
        "warnings": ["a word"],
    }
    facts = read(document)
    assert facts_to_json(facts) == document
    assert facts.gpus[0].mig_slices == (MigSlice("MIG-1", "1g.5gb", UNKNOWN_START, "GPU-1"),)
    assert facts.numa_nodes[1] == NumaNode(8, (8, 9, 11), 0, socket=1, distances=((0, 40), (252, 80)))


def test_four_keys_are_enough() -> None:
    """Everything but format, hostname, numaNodes and gpus has a default."""
    assert read(SMALLEST) == HostFacts(
        hostname="h",
        numa_nodes=(NumaNode(id=0, cpus=(0, 1, 2, 3), memory=8 * 2**30),),
        gpus=(Gpu(uuid="GPU-1", model="NVIDIA L4", memory=24 * 2**30),),
    )


def test_unknown_keys_are_left_alone() -> None:
    """An older reconciler reads what a newer probe prints."""
    newer = SMALLEST | {"fabric": {"state": 3}, "gpus": [GPU | {"clock": 1980, "links": {"GPU-2": {"c2c": 10}}}]}
    assert read(newer).gpus[0].links == (Link("GPU-2"),)


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("dgx-a100-nps4", [3, 3, 1, 1, 7, 7, 5, 5]),
        ("gh200", [0]),
        ("t4-1", [None]),
        ("cpu-only", []),
        ("h100-nvl-2", [0, 0]),
    ],
)
def test_the_nodes_of_the_cards(name: str, nodes: list[int | None]) -> None:
    """Cards hang on the nodes that published topologies show; unknown is None, and 0 is a node."""
    assert [gpu.numa_node for gpu in read(machine(name)).gpus] == nodes


def test_grace_hopper_has_one_host_node() -> None:
    """A node without CPUs is the card's own memory or empty: its bytes are no host memory."""
    facts = read(machine("gh200"))
    assert [node.id for node in facts.numa_nodes if not node.gpu_memory] == [0]
    assert facts.memory == 513841037312


@pytest.mark.parametrize(
    ("node", "gpu_memory"),
    [
        ({"cpus": "0-3", "memory": 0}, False),
        ({"cpus": "", "memory": 4096}, True),
        ({"cpus": "", "memory": 0}, True),
        ({"cpus": "", "memory": 4096, "gpuMemory": False}, True),
        ({"cpus": "0-3", "memory": 4096, "gpuMemory": True}, True),
    ],
)
def test_which_nodes_are_a_cards_memory(node: dict[str, Any], gpu_memory: bool) -> None:
    """Nodes without CPUs, and those marked so; CPUs without memory (Threadripper NPS4) make a node to run on."""
    facts = read(SMALLEST | {"numaNodes": [{"id": 0} | node]})
    assert facts.numa_nodes[0].gpu_memory is gpu_memory


def test_links_keep_the_peers_apart() -> None:
    """The hybrid cube mesh of a DGX-1: one or two links to four peers, none to three."""
    links = read(machine("dgx1-v100")).gpus[0].links
    assert [link.nvlinks for link in links] == [1, 1, 2, 2, 0, 0, 0]
    assert [link.pcie for link in links] == ["switch", "bridge", "bridge", "system", "system", "system", "system"]


def change(*path: str | int, to: Any) -> Callable[[], Any]:
    """The smallest document with one place changed; ``...`` removes it."""

    def changed() -> Any:
        document = json.loads(json.dumps(SMALLEST))
        node = document
        for key in path[:-1]:
            node = node[key]
        if to is ...:
            del node[path[-1]]
        else:
            node[path[-1]] = to
        return document

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change("format", to="reconciler.facts/v2"), "format is 'reconciler.facts/v2'; this release reads"),
        (change("format", to=...), "format is missing"),
        (change("hostname", to=...), "hostname is missing"),
        (change("hostname", to=7), "hostname is not a string: 7"),
        (change("numaNodes", to=...), "numaNodes is missing"),
        (change("numaNodes", to={}), "numaNodes is not a list: {}"),
        (change("gpus", to=...), "gpus is missing"),
        (change("gpus", 0, to="GPU-1"), "gpus[0] is no object"),
        (change("gpus", 0, "uuid", to=...), "gpus[0].uuid is missing"),
        (change("gpus", 0, "model", to=...), "gpus[0].model is missing"),
        (change("gpus", 0, "memory", to=None), "gpus[0].memory is missing"),
        (change("gpus", 0, "memory", to="24Gi"), 'gpus[0].memory is not a whole number: "24Gi"'),
        (change("gpus", 0, "memory", to=1.5), "gpus[0].memory is not a whole number: 1.5"),
        (change("gpus", 0, "memory", to=True), "gpus[0].memory is not a whole number: true"),
        (change("gpus", 0, "memory", to=-1), "gpus[0].memory is negative: -1"),
        (change("gpus", 0, "numaNode", to=5), "gpus[0].numaNode: there is no node 5"),
        (change("gpus", 0, "links", to={"GPU-2": 12}), "gpus[0].links.GPU-2 is not an object: 12"),
        (change("gpus", 0, "mig", to={"slices": [{"uuid": "MIG-1"}]}), "gpus[0].mig.slices[0].profile is missing"),
        (change("gpus", to=[GPU, GPU]), "gpus: two cards with uuid GPU-1"),
        (change("numaNodes", 0, "cpus", to="0-x"), "numaNodes[0].cpus: not a list of CPUs: '0-x'"),
        (change("numaNodes", 0, "distances", to={"east": 20}), "numaNodes[0].distances.east is no node id"),
        (change("numaNodes", to=[{"id": 0, "cpus": "0", "memory": 1}] * 2), "numaNodes: two nodes with id 0"),
        (
            change("numaNodes", to=[{"id": 0, "cpus": "0-1", "memory": 1}, {"id": 1, "cpus": "1", "memory": 1}]),
            "numaNodes: on two nodes: CPU 1",
        ),
        (change("smt", to=[[0, "1"]]), "smt[0] is not a list of CPU numbers"),
        (change("caches", to=[[0, 1]]), "caches[0] is not a string such as 0-3,8"),
        (change("warnings", to=[1]), "warnings[0] is not a string"),
        (change("engine", to={"cpuset": "yes"}), 'engine.cpuset is not true or false: "yes"'),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: Callable[[], Any], message: str) -> None:
    """The line begins with the file and names the place."""
    with pytest.raises(FactsError) as error:
        read(change())
    assert str(error.value).startswith(f"h.json: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"format": }', "not JSON: Expecting value: line 1 column 12 (char 11)"),
        ("[" * 100_000, "not JSON: maximum recursion depth exceeded"),
        ("[]", "host facts are a JSON object"),
        ("null", "host facts are a JSON object"),
    ],
)
def test_text_that_is_no_document(text: str, message: str) -> None:
    """Cut off, nested without end, or of another kind: a line, not a traceback."""
    with pytest.raises(FactsError) as error:
        facts_from_json(text, "h.json")
    assert str(error.value).startswith(f"h.json: {message}")
