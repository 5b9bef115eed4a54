"""Pydantic's errors → problems with a position and one plain line."""

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from reconciler.desired.documents import Document, Path, one_line
from reconciler.errors import Problem

_MESSAGES = {
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "dict_type": "must be a map",
    "model_type": "must be a map",
    "list_type": "must be a list",
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


def nearest(name: str, known: "list[str] | tuple[str, ...]") -> str:
    """``; did you mean X?`` for the nearest known name, or nothing."""
    import difflib  # noqa: PLC0415 - only a mistake needs it

    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not found:
        folded = {part.casefold(): part for part in known}
        found = [folded[name.casefold()]] if name.casefold() in folded else []
    return f"; did you mean {found[0]}?" if found else ""


def complaints(error: ValidationError, model: type[BaseModel], value: dict[str, Any], places: Places) -> list[Problem]:
    """One problem for each fault that pydantic found in ``value``."""
    return [_complaint(fault, model, value, places) for fault in error.errors(include_url=False, include_input=False)]


def _complaint(fault: Any, model: type[BaseModel], value: Any, places: Places) -> Problem:
    kind, where = fault["type"], fault["loc"]
    if kind == "missing":
        path = (*_real(where[:-1], value), where[-1])
        return places.problem(path, f"{dotted(path)} is required")
    path = _real(where, value)
    name = dotted(path)
    if kind == "extra_forbidden":
        said = nearest(str(path[-1]), sorted(_known_names(model, where[:-1])))
        return places.problem(path, f"{name}: unknown key{said}", key=True)
    is_key = "[key]" in where
    return places.problem(path, f"{name}: {_message(kind, fault)}" if name else _message(kind, fault), key=is_key)


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


def _known_names(model: type[BaseModel], where: Path) -> set[str]:
    """Names of the fields that the map at pydantic's location ``where`` may have."""
    types: list[Any] = [model]
    for part in where:
        inside = [found for one in types for found in _inside(one, part)]
        types = inside or types  # a part that leads nowhere is the name of a form
    models = [one for kind in types for one in _models(kind)]
    return {info.alias or name for one in models for name, info in one.model_fields.items()}


def _inside(kind: Any, part: str | int) -> Iterator[Any]:
    for one in _plain_types(kind):
        if isinstance(one, type) and issubclass(one, BaseModel):
            yield from (info.annotation for name, info in one.model_fields.items() if part in {name, info.alias})
        elif get_origin(one) is list and isinstance(part, int):
            yield get_args(one)[0]
        elif get_origin(one) is dict:
            yield get_args(one)[1]


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    return (one for one in _plain_types(kind) if isinstance(one, type) and issubclass(one, BaseModel))


def _plain_types(kind: Any) -> Iterator[Any]:
    """The members of a union, without metadata."""
    if get_origin(kind) is Annotated:
        yield from _plain_types(get_args(kind)[0])
    elif get_origin(kind) in {Union, UnionType}:
        for part in get_args(kind):
            yield from _plain_types(part)
    else:
        yield kind
