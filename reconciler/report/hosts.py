"""Every card of every host, who holds it and since when; free and used. As text and as JSON."""

from typing import Any

from reconciler.actual.holders import Holder
from reconciler.model.host import GpuMode, HostState
from reconciler.model.resources import format_cpus, format_memory
from reconciler.model.snapshot import Container, Reach, Snapshot
from reconciler.report.facts import driver_name
from reconciler.report.lines import Page, Part, Span, Style
from reconciler.report.names import card_label, numa_name, since_name
from reconciler.report.survey import Amount, Card, Survey, owned_cpus, survey

HEAD = ("numa", "card", "model", "memory", "held by", "since")


def hosts_text(snapshot: Snapshot, *, width: int | None, color: bool, wide: bool) -> str:
    """A block per host; ``wide`` adds UUIDs and the containers that hold cores or memory."""
    page = Page(width)
    for view in snapshot.hosts:
        page.blank()
        _host(page, survey(view), wide=wide)
    if not snapshot.hosts:
        page.add("no hosts")
    return page.text(color=color)


def _host(page: Page, seen: Survey, *, wide: bool) -> None:
    view = seen.view
    style = Style.BOLD if view.reach is Reach.KNOWN else Style.WARN
    page.add(Span(view.spec.name, style), f"  {_standing(seen)}", hang=2)
    facts = view.facts
    if view.reason:
        page.add(Span(view.reason, Style.WARN), indent=2)
    if facts is None or seen.cpus is None or seen.memory is None:
        if not view.reason:
            page.add(Span("no facts yet", Style.WARN), indent=2)
        return
    if facts.driver_error:
        page.add(Span(facts.driver_error, Style.WARN), indent=2)
    cards = f"{seen.free_cards} of {len(seen.cards)} cards free, " if seen.cards else "no cards, "
    memory = f"{format_memory(seen.memory.free)} of {format_memory(seen.memory.total)} memory free"
    page.add(f"{cards}{_cpus_name(seen.cpus)}, {memory}, {driver_name(facts)}", indent=2)
    for node in seen.nodes:
        if not node.gpu_memory:
            where = f" (socket {node.socket})" if node.socket is not None else ""
            page.add(f"{numa_name(node.id)}{where}: {_cpus_name(node.cpus)}, {format_memory(node.memory)}", indent=4)
    if seen.cards:
        page.table(_rows(seen, wide=wide), indent=2)
    if wide:
        _containers(page, view.containers)


def _standing(seen: Survey) -> str:
    spec = seen.view.spec
    parts = [spec.engine] if seen.view.reach is Reach.KNOWN else [f"{seen.view.reach}", spec.engine]
    parts += [f"tags {', '.join(spec.tags)}"] if spec.tags else []
    parts += [spec.state.value] if spec.state is not HostState.ACTIVE else []
    parts += [f"gpuMode {spec.gpu_mode}"] if spec.gpu_mode is not GpuMode.MANAGED else []
    return ", ".join(parts)


def _cpus_name(cpus: Amount) -> str:
    kept = f" ({cpus.reserved} reserved)" if cpus.reserved else ""
    return f"{cpus.free} of {cpus.total} CPUs free{kept}"


# -- the table of cards


def _rows(seen: Survey, *, wide: bool) -> list[list[Part]]:
    head = [*HEAD, "uuid"] if wide else list(HEAD)
    rows: list[list[Part]] = [[Span(name.upper(), Style.DIM) for name in head]]
    for card in seen.cards:
        rows += _card(card, wide=wide)
    return rows


def _card(card: Card, *, wide: bool) -> list[list[Part]]:
    gpu = card.gpu
    node = "?" if gpu.numa_node is None else str(gpu.numa_node)
    start: list[Part] = [node, card_label(gpu, gpu.uuid), gpu.model, format_memory(gpu.memory)]
    whole = [by for by in card.holders if not card.slices or by.kind == "process"]
    rows = [[*start, *cells] for cells in _held(card, whole)]
    for one, held in card.slices:
        by = [holder for holder in held if holder.kind != "process"]
        what: list[Part] = ["", "", f"{one.profile} at {one.start}", ""]
        cells = _named(by) or [[Span("free", Style.ADD), ""]]
        rows += [[*what, *cell, *([one.uuid] if wide else [])] for cell in cells]
    blank: list[Part] = ["", "", "", ""]
    done: list[list[Part]] = []
    for at, row in enumerate(rows):
        is_card = at < max(1, len(rows) - sum(max(1, len(_containers_of(held))) for _, held in card.slices))
        full = row if at == 0 or not is_card else [*blank, *row[4:]]
        done.append([*full, *([gpu.uuid if at == 0 else ""] if wide and is_card else [])])
    return done
