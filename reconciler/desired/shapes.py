"""Which fields may stand where: the pydantic models as a tree that a message can be looked up in."""

import inspect
import sys
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, Tag

from reconciler.desired.documents import Path


class Form(NamedTuple):
    """One map that may stand at a place; ``names`` are what tells it from the other forms there."""

    model: type[BaseModel]
    names: tuple[str, ...]

    @property
    def fields(self) -> set[str]:
        """Names of its fields, as they are written."""
        return aliases(self.model)


def aliases(model: type[BaseModel]) -> set[str]:
    """Names of the fields of a model, as they are written."""
    return {info.alias or name for name, info in model.model_fields.items()}


def forms_at(model: type[BaseModel], where: Path) -> tuple[list[Form], list[Form]]:
    """The forms that pydantic's location ``where`` names, and all that may stand at that place."""
    chosen: list[Form | Any] = [Form(model, ())]
    everything = chosen
    for part in where:
        inside = [found for form in chosen for found in _inside(form.model, part)]
        if inside:
            chosen = everything = inside
        else:
            chosen = [form for form in chosen if part in form.names] or chosen
    return [form for form in chosen if _is_model(form.model)], [form for form in everything if _is_model(form.model)]


def places(model: type[BaseModel], tops: set[str]) -> dict[str, list[str]]:
    """Where each name of a field stands nearest to the top: ``{"memory": ["resources.memory"]}``.

    Of the document itself only ``tops`` count; fields whose effect comes later, and those that one form has from
    another, are left out.
    """
    found: dict[str, tuple[int, list[str]]] = {}
    seen = {model}
    level = [("", model)]
    depth = 0
    while level:
        below: list[tuple[str, type[BaseModel]]] = []
        for prefix, one in level:
            later = getattr(one, "later", ())
            for python, info in one.model_fields.items():
                name = info.alias or python
                if python in later or python not in inspect.get_annotations(one) or (not prefix and name not in tops):
                    continue
                at, paths = found.setdefault(name, (depth, []))
                if at == depth and prefix + name not in paths:
                    paths.append(prefix + name)
                for mark, form in _nested(_resolved(info.annotation, one), ""):
                    if form not in seen or depth == 0:
                        seen.add(form)
                        below.append((f"{prefix}{name}{mark}.", form))
        level, depth = below, depth + 1
    return {name: paths for name, (_, paths) in found.items()}


def _nested(kind: Any, mark: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for form in _members(kind):
        if _is_model(form.model):
            yield mark, form.model
        elif get_origin(form.model) is list:
            yield from _nested(get_args(form.model)[0], "[]")


def _inside(kind: Any, part: str | int) -> Iterator[Form]:
    if _is_model(kind):
        for name, info in kind.model_fields.items():
            if part in {name, info.alias}:
                yield from _members(_resolved(info.annotation, kind))
    elif get_origin(kind) is list and isinstance(part, int):
        yield from _members(get_args(kind)[0])
    elif get_origin(kind) is dict:
        yield from _members(get_args(kind)[1])


def _resolved(kind: Any, model: type[BaseModel]) -> Any:
    """A list of what is named before it is defined, as the policies of a policy are."""
    inner = get_args(kind)[0] if get_origin(kind) is list else None
    if isinstance(inner, str):
        return list[vars(sys.modules[model.__module__])[inner]]  # type: ignore[misc] # known only now
    return kind


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _members(kind: Any, names: tuple[str, ...] = ()) -> Iterator[Form]:
    """The members of a union, without metadata; a member is named by its tag, or by the values of its ``type``."""
    if get_origin(kind) is Annotated:
        tags = tuple(mark.tag for mark in kind.__metadata__ if isinstance(mark, Tag))
        yield from _members(get_args(kind)[0], tags or names)
    elif get_origin(kind) in {Union, UnionType}:
        for part in get_args(kind):
            yield from _members(part, names)
    elif _is_model(kind) and "type" in kind.model_fields:
        literal = kind.model_fields["type"].annotation
        yield Form(kind, get_args(literal) if get_origin(literal) is Literal else names)
    else:
        yield Form(kind, names)
