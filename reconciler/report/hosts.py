"""Every card of every host, who holds it and since when; free and used. As text and as JSON."""

from typing import Any

from reconciler.actual.holders import Holder, unknown_cards
from reconciler.model.claims import WHOLE
from reconciler.model.host import GpuMode, HostState
from reconciler.model.resources import format_cpus, format_memory
from reconciler.model.snapshot import Container, HostView, Reach, Snapshot
from reconciler.report.facts import driver_name
from reconciler.report.lines import Page, Part, Span, Style
from reconciler.report.names import card_label, clock_name, count_name, fraction_name, model_name, numa_name
from reconciler.report.survey import Amount, Card, Survey, owned_cpus, survey

HEAD = ("numa", "card", "model", "memory", "held by", "since (utc)")


def hosts_text(snapshot: Snapshot, *, width: int | None, color: bool, wide: bool) -> str:
    """A block per host; ``wide`` adds UUIDs and the containers that hold CPUs or memory."""
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
        _unknown(page, view)
        return
    if facts.driver_error:
        page.add(Span(facts.driver_error, Style.WARN), indent=2)
    memory = f"{format_memory(seen.memory.free)} of {format_memory(seen.memory.total)} memory free"
    page.add(f"{_cards_name(seen)}, {_cpus_name(seen.cpus)}, {memory}, {driver_name(facts)}", indent=2)
    for node in seen.nodes:
        if not node.gpu_memory:
            where = f" (socket {node.socket})" if node.socket is not None else ""
            page.add(f"{numa_name(node.id)}{where}: {_cpus_name(node.cpus)}, {format_memory(node.memory)}", indent=4)
    if seen.cards:
        page.table(_rows(seen, wide=wide), indent=2)
    _unknown(page, view)
    if wide:
        _containers(page, view.containers)


def _unknown(page: Page, view: HostView) -> None:
    """Cards that somebody was given and that the facts do not show."""
    for one, held in unknown_cards(view).items():
        name = "every card" if one == "all" else one
        for by in held:
            page.add(Span(f"{name}, which is not among the facts: ", Style.WARN), _named(by)[0], indent=2, hang=2)


def _standing(seen: Survey) -> str:
    spec = seen.view.spec
    parts = [spec.engine] if seen.view.reach is Reach.KNOWN else [f"{seen.view.reach}", spec.engine]
    parts += [f"tags {', '.join(spec.tags)}"] if spec.tags else []
    parts += [spec.state.value] if spec.state is not HostState.ACTIVE else []
    parts += [f"gpuMode {spec.gpu_mode}"] if spec.gpu_mode is not GpuMode.MANAGED else []
    return ", ".join(parts)


def _cards_name(seen: Survey) -> str:
    if not seen.cards:
        return "no cards"
    slices = [held for card in seen.cards for _, held in card.slices]
    free = sum(all(by.kind == "process" for by in held) for held in slices)
    shared = [card.free_milli for card in seen.cards if card.state == "shared"]
    return (
        f"{seen.free_cards} of {count_name(len(seen.cards), 'card')} free"
        + (f", {free} of {count_name(len(slices), 'slice')}" if slices else "")
        + (f", {fraction_name(sum(shared))} of {count_name(len(shared), 'shared card')}" if shared else "")
    )


def _cpus_name(cpus: Amount) -> str:
    kept = f" ({cpus.reserved} reserved)" if cpus.reserved else ""
    return f"{cpus.free} of {count_name(cpus.total, 'CPU')} free{kept}"


# -- the table of cards


def _rows(seen: Survey, *, wide: bool) -> list[list[Part]]:
    head = [*HEAD, "uuid"] if wide else list(HEAD)
    rows: list[list[Part]] = [[Span(name.upper(), Style.DIM) for name in head]]
    for card in seen.cards:
        gpu = card.gpu
        node = "?" if gpu.numa_node is None else str(gpu.numa_node)
        whole = (node, card_label(gpu, gpu.uuid), model_name(gpu.model), format_memory(gpu.memory))
        rows += _block(whole, _whole_holders(card), gpu.uuid, wide=wide)
        for one, held in card.slices:
            named = [_named(by) for by in held if by.kind != "process"]
            free: list[tuple[Part, str]] = [(Span("free", Style.ADD), "")]
            rows += _block(("", "", f"{one.profile} at {one.start}", ""), named or free, one.uuid, wide=wide)
    return rows


def _block(left: tuple[str, ...], right: list[tuple[Part, str]], uuid: str, *, wide: bool) -> list[list[Part]]:
    """A row per holder; what they hold is named in the first."""
    blank = ("",) * len(left)
    return [
        [*(blank if at else left), holder, since, *(["" if at else uuid] if wide else [])]
        for at, (holder, since) in enumerate(right)
    ]


def _whole_holders(card: Card) -> list[tuple[Part, str]]:
    """What stands beside a card: who holds it, or why nobody may, or that it is free."""
    if card.state == "free":
        return [(Span("free", Style.ADD), ""), *map(_named, card.holders)]
    shown = [by for by in card.holders if not card.slices or by.kind == "process"]
    note: list[tuple[Part, str]] = [(Span(f"{card.state}: {card.note}", Style.WARN), "")] if card.note else []
    rest: list[tuple[Part, str]] = []
    if card.state == "shared" and card.free_milli:
        rest = [(Span(f"{fraction_name(card.free_milli)} free", Style.ADD), "")]
    return [*note, *map(_named, shown), *rest] or [(card.state, "")]


def _named(by: Holder) -> tuple[Part, str]:
    """A holder in words, and since when it runs."""
    state = "" if by.state in {"", "running"} else f", {by.state}"
    if by.kind == "ours":
        part = f"{fraction_name(by.share)} of it, " if by.share else ""
        return f"{by.name} ({part}{f'owner {by.user}' if by.user else 'no owner'}{state})", clock_name(by.since)
    if by.kind == "process":
        user = f" of {by.user}" if by.user else ""
        return Span(f"process {by.name}{user} (pid {by.pid}, {format_memory(by.memory)}, {by.how})", Style.WARN), ""
    user = f" of {by.user}" if by.user else ""
    return f"container {by.name}{user} ({by.how}{state})", clock_name(by.since)


def _containers(page: Page, containers: tuple[Container, ...]) -> None:
    """What else is held: CPUs, memory, ports."""
    rows: list[list[Part]] = []
    for one in sorted(containers, key=lambda box: box.name):
        cpus = format_cpus(owned_cpus(one))
        memory = format_memory(one.holding.memory) if one.holding.memory else ""
        ports = ", ".join(f"{ip}:{port}/{kind}" if ip else f"{port}/{kind}" for ip, port, kind in one.holding.ports)
        if one.holds and (cpus or memory or ports):
            rows.append([str(one.ours.instance) if one.ours else one.name, cpus, memory, ports])
    if rows:
        head: list[Part] = [Span(name, Style.DIM) for name in ("CONTAINER", "CPUS", "MEMORY", "PORTS")]
        page.table([head, *rows], indent=2)


# -- JSON


def hosts_json(snapshot: Snapshot) -> dict[str, Any]:
    """The same as JSON; memory in bytes, CPUs in numbers."""
    return {"hosts": [_host_json(survey(view)) for view in snapshot.hosts]}


def _host_json(seen: Survey) -> dict[str, Any]:
    view, facts = seen.view, seen.view.facts
    return {
        "host": view.spec.name,
        "engine": view.spec.engine,
        "reach": view.reach.value,
        "reason": view.reason,
        "state": view.spec.state.value,
        "tags": list(view.spec.tags),
        "gpuMode": view.spec.gpu_mode.value,
        "driver": {"version": facts.driver_version, "cuda": facts.cuda_version, "error": facts.driver_error}
        if facts
        else None,
        "cpus": _amount(seen.cpus) if seen.cpus else None,
        "memory": _amount(seen.memory) if seen.memory else None,
        "numaNodes": [
            {"id": node.id, "socket": node.socket, "cpus": _amount(node.cpus), "memory": node.memory}
            for node in seen.nodes
            if not node.gpu_memory
        ],
        "cards": [_card_json(card) for card in seen.cards],
        "unknownCards": [
            {"id": one, "heldBy": [_holder_json(by) for by in held]} for one, held in unknown_cards(view).items()
        ],
        "containers": [_container_json(one) for one in sorted(view.containers, key=lambda box: box.name)],
    }


def _amount(amount: Amount) -> dict[str, int]:
    return {"total": amount.total, "reserved": amount.reserved, "given": amount.given, "free": amount.free}


def _card_json(card: Card) -> dict[str, Any]:
    gpu = card.gpu
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "pci": gpu.pci,
        "model": gpu.model,
        "memory": gpu.memory,
        "memoryUsed": gpu.memory_used,
        "numaNode": gpu.numa_node,
        "health": gpu.health,
        "state": card.state,
        "free": card.free_milli / WHOLE,
        "note": card.note,
        "heldBy": [_holder_json(by) for by in card.holders],
        "slices": [
            {
                "uuid": one.uuid,
                "profile": one.profile,
                "start": one.start,
                "heldBy": [_holder_json(by) for by in held if by.kind != "process"],
            }
            for one, held in card.slices
        ],
    }


def _holder_json(by: Holder) -> dict[str, Any]:
    return {
        "kind": by.kind,
        "name": by.name,
        "since": by.since or None,
        "user": by.user or None,
        "how": by.how,
        "share": by.share / WHOLE if by.share else None,
        "state": by.state or None,
        "pid": by.pid or None,
        "memory": by.memory or None,
    }


def _container_json(one: Container) -> dict[str, Any]:
    return {
        "name": one.name,
        "instance": str(one.ours.instance) if one.ours else None,
        "image": one.image,
        "state": one.state,
        "since": one.started_at or None,
        "holds": one.holds,
        "cpus": format_cpus(owned_cpus(one)),
        "memory": one.holding.memory,
        "ports": [{"ip": ip, "port": port, "protocol": kind} for ip, port, kind in one.holding.ports],
    }
