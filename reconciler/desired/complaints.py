"""Pydantic's errors → problems with a position and one plain line."""

from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ValidationError

from reconciler.desired.documents import Document, Path, one_line
from reconciler.desired.hints import closest, list_like, map_like, unknown
from reconciler.errors import Problem

_MESSAGES = {
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "literal_error": "must be {expected}",
    "union_tag_not_found": "{discriminator} is required",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "string_pattern_mismatch": "must match {pattern}",
}
_MAPS = frozenset({"dict_type", "model_type", "model_attributes_type"})
_ABSENT = object()


class Places:
    """Where the parts of a document stand, some of which come from the ``defaults`` of a Cluster."""

    def __init__(self, document: Document, defaults: Document | None = None) -> None:
        self.document = document
        self.defaults = defaults

    def problem(self, path: Path, message: str, *, key: bool = False) -> Problem:
        """A problem at ``path``, which is named before the message."""
        line, column, found = self.document.locate(path, key=key)
        file = self.document.file
        if self.defaults is not None and found < len(path):
            below = self.defaults.locate(("defaults", *path), key=key)
            if below[2] - 1 > found:
                file, (line, column) = self.defaults.file, below[:2]
        return Problem(file, line, column, one_line(message))


def dotted(path: Path) -> str:
    """``ports[0].host`` of ``("ports", 0, "host")``."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


def nearest(name: str, known: Collection[str]) -> str:
    """``; did you mean X?`` for the nearest known name, or nothing."""
    found = closest(name, known)
    return f"; did you mean {found}?" if found else ""


def complaints(
    error: ValidationError, model: type[BaseModel], value: dict[str, Any], places: Places, tops: set[str]
) -> list[Problem]:
    """One problem for each fault that pydantic found in ``value``, a document that may have the fields ``tops``."""
    faults = error.errors(include_url=False, include_input=False)
    problems = []
    meant: set[Path] = set()
    for fault in faults:
        if fault["type"] == "extra_forbidden":
            path = _real(fault["loc"], value)
            said, instead = unknown(fault["loc"], _inside(value, path[:-1]), model, tops)
            meant.add((*path[:-1], instead))
            problems.append(places.problem(path, f"{dotted(path)}: {said}", key=True))
    # A required field whose name was mistyped is one fault, not two.
    problems += [
        _complaint(fault, value, places)
        for fault in faults
        if fault["type"] != "extra_forbidden" and not (fault["type"] == "missing" and _missing(fault, value) in meant)
    ]
    return problems


def _missing(fault: Any, value: Any) -> Path:
    return (*_real(fault["loc"][:-1], value), fault["loc"][-1])


def _complaint(fault: Any, value: Any, places: Places) -> Problem:
    kind, where = fault["type"], fault["loc"]
    if kind == "missing":
        path = _missing(fault, value)
        return places.problem(path, f"{dotted(path)} is required")
    path = _real(where, value)
    name = dotted(path)
    if kind in _MAPS:
        message = f"must be a map{map_like(path, _inside(value, path))}"
    elif kind == "list_type":
        message = f"must be a list{list_like(path, _inside(value, path))}"
    else:
        message = _message(kind, fault)
    return places.problem(path, f"{name}: {message}" if name else message, key="[key]" in where)


def _inside(value: Any, path: Path) -> Any:
    for part in path:
        value = _at(value, part)
    return value


def _real(where: Path, value: Any) -> Path:
    """The parts of pydantic's location that are keys and indexes of the value; the others are names of forms."""
    path: list[str | int] = []
    for part in where:
        inside = _at(value, part)
        if inside is not _ABSENT:
            path.append(part)
            value = inside
    return tuple(path)


def _at(value: Any, part: str | int) -> Any:
    if isinstance(value, list) and isinstance(part, int):
        return value[part] if part < len(value) else _ABSENT
    return value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT


def _message(kind: str, fault: Any) -> str:
    context = {name: _spoken(value) for name, value in fault.get("ctx", {}).items()}
    if kind == "value_error":
        return str(fault["ctx"]["error"])
    if kind == "union_tag_invalid":
        return f"must be {context['expected_tags']}{nearest(context['tag'], context['expected_tags'].split(', '))}"
    if kind in _MESSAGES:
        return _MESSAGES[kind].format(**context)
    message: str = fault["msg"]
    return message[:1].lower() + message[1:]


def _spoken(value: Any) -> str:
    """``a, b or c`` of pydantic's ``'a', 'b' or 'c'``, and 1 of 1.0."""
    return f"{value:g}" if isinstance(value, float) else str(value).replace("'", "")
