"""A canonical spec in the words of the file that it came from, so that a change is named as its author wrote it."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.model.claims import WHOLE
from reconciler.model.resources import format_memory

_NAMES = {"models": "model", "profile": "mig", "command": "exec", "sha256": "content"}
_BYTES = {"min_memory", "size"}


def spelled(field: str, value: Any) -> Any:
    """The value of a top-level field as a document writes it; what is written the same way is given back as it is."""
    if value is None or field not in _SPELLINGS:
        return value
    return _SPELLINGS[field](value)


def _gpus(value: Mapping[str, Any]) -> Any:
    match value.get("type"):
        case "AllGpus":
            return "all"
        case "ObserveGpus":
            return {"observe": "all"}
        case "GpuShare":
            return _share(value)
    return _record({key: part for key, part in value.items() if key != "type"})


def _share(value: Mapping[str, Any]) -> dict[str, Any]:
    shared = {"share": value["milli"] / WHOLE} if "milli" in value else {"sharedMemory": format_memory(value["memory"])}
    return shared | ({"model": value["models"]} if "models" in value else {})


def _limits(value: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {one["name"]: "unlimited" if one["value"] == -1 else one["value"] for one in value}


def _logging(value: Mapping[str, Any]) -> dict[str, Any]:
    return {**value, "options": dict(value["options"])} if "options" in value else dict(value)


def _records(value: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_record(one) for one in value]


def _record(value: Mapping[str, Any]) -> dict[str, Any]:
    return {_name(key): _part(key, part) for key, part in value.items()}


def _part(key: str, part: Any) -> Any:
    if key in _BYTES:
        return format_memory(part)
    return f"{part:04o}" if key == "mode" else part


def _name(key: str) -> str:
    head, *rest = key.split("_")
    return _NAMES.get(key) or head + "".join(word.title() for word in rest)


_SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "resources.gpus": _gpus,
    "resources.ulimits": _limits,
    "logging": _logging,
    "health": _record,
    **dict.fromkeys(("ports", "volumes", "configs", "secretFiles", "tmpfs", "devices"), _records),
}
