"""Which fields differ between a running container and git, named as they are written in a spec."""

from collections.abc import Mapping
from typing import Any

from reconciler.model.plan import Change
from reconciler.model.resources import format_cpus
from reconciler.model.snapshot import Limits

SPEC_NAMES = {
    "configs": "configs",
    "gpus": "resources.gpus",
    "shm": "resources.shm",
    "ulimits": "resources.ulimits",
    "stop_signal": "stop.signal",
}
LIMIT_NAMES = (
    ("resources.cpus", "nano_cpus"),
    ("cpuset", "cpus"),
    ("memory nodes", "memory_nodes"),
    ("resources.memory", "memory"),
    ("resources.pids", "pids"),
    ("restart", "restart"),
)


def limit_changes(old: Limits, new: Limits) -> tuple[Change, ...]:
    """Limits that an update changes; cpusets as kernel lists, memory in bytes, cores as fractions."""
    out = []
    for name, field in LIMIT_NAMES:
        before, after = getattr(old, field), getattr(new, field)
        wanted = after or field not in {"cpus", "memory_nodes"}
        if before != after and wanted:
            out.append(Change(name, _shown(field, before), _shown(field, after)))
    return tuple(out)


def _shown(field: str, value: Any) -> Any:
    if field in {"cpus", "memory_nodes"}:
        return format_cpus(value)
    return value / 1_000_000_000 if field == "nano_cpus" else value


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
