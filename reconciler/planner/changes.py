"""Which fields differ between a running container and git, named as they are written in a spec."""

from collections.abc import Mapping
from typing import Any

from reconciler.model.plan import Change
from reconciler.model.resources import format_cpus
from reconciler.model.snapshot import Limits

SPEC_NAMES = {
    "gpus": "resources.gpus",
    "rdma": "resources.rdma",
    "shm": "resources.shm",
    "ulimits": "resources.ulimits",
    "stop_signal": "stop.signal",
}
LIMIT_NAMES = (
    ("cpuset", "cpus"),
    ("memory nodes", "memory_nodes"),
    ("resources.memory", "memory"),
    ("resources.pids", "pids"),
    ("restart", "restart"),
)


def limit_changes(old: Limits, new: Limits) -> tuple[Change, ...]:
    """Limits that differ; cores as numbers, cpusets as kernel lists, memory in bytes."""
    out = _core_changes(old, new)
    for name, field in LIMIT_NAMES:
        before, after = getattr(old, field), getattr(new, field)
        wanted = after or field not in {"cpus", "memory_nodes"}
        if before != after and wanted:
            out.append(Change(name, _shown(field, before), _shown(field, after)))
    return tuple(out)


def _core_changes(old: Limits, new: Limits) -> list[Change]:
    """What differs of ``cpus`` and ``cpuPolicy``: shared work has a quota, exclusive work the cores in its cpuset."""
    pairs = (
        ("resources.cpus", _cores(old), _cores(new)),
        ("resources.cpuPolicy", _policy(old), _policy(new)),
    )
    return [Change(*pair) for pair in pairs if pair[1] != pair[2] and pair[2] is not None]


def _cores(limits: Limits) -> float | None:
    cores = limits.nano_cpus / 1_000_000_000 if limits.nano_cpus else len(limits.cpus)
    return (int(cores) if cores == int(cores) else cores) or None


def _policy(limits: Limits) -> str | None:
    if limits.nano_cpus:
        return "shared"
    return "exclusive" if limits.cpus else None


def _shown(field: str, value: Any) -> Any:
    return format_cpus(value) if field in {"cpus", "memory_nodes"} else value


def spec_name(field: str) -> str:
    """The name of a field as users write it: ``working_dir`` → ``workingDir``."""
    if field in SPEC_NAMES:
        return SPEC_NAMES[field]
    head, *rest = field.split("_")
    return head + "".join(part.title() for part in rest)


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """Top-level fields that differ between two canonical forms, in the order of their names."""
    names = sorted({*old, *new}, key=spec_name)
    return tuple(
        Change(spec_name(name), old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
    )
