"""The facts of one machine, for people."""

from reconciler.model.host import Gpu, HostFacts
from reconciler.model.resources import format_cpus, format_memory
from reconciler.report.lines import Page, Part, Span, Style
from reconciler.report.names import card_label, count_name, model_name


def facts_text(facts: HostFacts, *, width: int | None, color: bool) -> str:
    """NUMA nodes, cards and network cards as tables, and what is wrong in words."""
    page = Page(width)
    page.add(Span(facts.hostname, Style.BOLD), f": {_totals(facts)}")
    page.blank()
    page.table([_head("node", "socket", "cpus", "memory", "cards"), *_nodes(facts)], indent=2)
    if facts.gpus:
        page.blank()
        page.table(
            [_head("card", "pci", "model", "memory", "node", "nvlinks", "health"), *map(_gpu, facts.gpus)], indent=2
        )
    if facts.nics:
        page.blank()
        rows = [(nic.name, nic.pci, _node(nic.numa_node), "yes" if nic.rdma else "no") for nic in facts.nics]
        page.table([_head("network", "pci", "node", "rdma"), *rows], indent=2)
    warnings = [*filter(None, (facts.driver_error,)), *facts.warnings]
    if warnings:
        page.blank()
    for warning in warnings:
        page.add(Span("warning: ", Style.WARN), warning)
    return page.text(color=color)


def driver_name(facts: HostFacts) -> str:
    """``driver 535.86.10 (CUDA 12.2)``, or that there is none."""
    if not facts.driver_version:
        return "no driver"
    cuda = f" (CUDA {facts.cuda_version})" if facts.cuda_version else ""
    return f"driver {facts.driver_version}{cuda}"


def _totals(facts: HostFacts) -> str:
    nodes = sum(not node.gpu_memory for node in facts.numa_nodes)
    smt = len(facts.smt[0]) if facts.smt else 1
    threads = f", {smt} to a core" if smt > 1 else ""
    parts = [
        f"{count_name(len(facts.cpus), 'CPU')}{threads}",
        f"{format_memory(facts.memory)} memory",
        count_name(nodes, "NUMA node"),
        count_name(len(facts.gpus), "card"),
        driver_name(facts),
    ]
    return ", ".join(parts)


def _head(*names: str) -> list[Part]:
    return [Span(name.upper(), Style.DIM) for name in names]


def _nodes(facts: HostFacts) -> list[list[Part]]:
    rows: list[list[Part]] = []
    for node in facts.numa_nodes:
        cards = ", ".join(card_label(gpu, gpu.uuid) for gpu in facts.gpus if gpu.numa_node == node.id)
        memory = format_memory(node.memory) + (" (of a card)" if node.gpu_memory else "")
        rows.append([str(node.id), _node(node.socket), format_cpus(node.cpus) or "none", memory, cards or "none"])
    lost = ", ".join(card_label(gpu, gpu.uuid) for gpu in facts.gpus if gpu.numa_node is None)
    if lost:
        rows.append(["unknown", "", "", "", lost])
    return rows


def _node(number: int | None) -> str:
    return "?" if number is None else str(number)


def _gpu(gpu: Gpu) -> list[Part]:
    peers = sum(link.nvlinks > 0 for link in gpu.links)
    links = f"{max((link.nvlinks for link in gpu.links), default=0)} to {peers}" if peers else "none"
    mig = "".join(f" {one.profile}@{one.start}" for one in gpu.mig_slices)
    model = model_name(gpu.model) + (f" (MIG:{mig or ' no slices'})" if gpu.mig_enabled else "")
    health = Span(gpu.health, Style.PLAIN if gpu.health == "ok" else Style.WARN)
    return [card_label(gpu, gpu.uuid), gpu.pci, model, format_memory(gpu.memory), _node(gpu.numa_node), links, health]
