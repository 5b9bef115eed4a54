"""The kinds of document: which model each has, validation with positions, and the JSON Schema that editors use."""

import ast
import inspect
import itertools
import textwrap
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from reconciler.desired.complaints import Places, complaints, nearest
from reconciler.desired.forms import Strict
from reconciler.desired.schema_host import Cluster, Host, Queue
from reconciler.desired.schema_workload import App, LocalService, Task
from reconciler.errors import Problem

Model = App | Task | LocalService | Host | Queue | Cluster
WorkloadModel = App | Task | LocalService
API_VERSION = "reconciler/v1"
KINDS: dict[str, type[Model]] = {
    "App": App,
    "Task": Task,
    "LocalService": LocalService,
    "Host": Host,
    "Queue": Queue,
    "Cluster": Cluster,
}
WORKLOADS = (App, Task, LocalService)


def kind_of(value: dict[str, Any]) -> type[Model] | None:
    """The model of a document that is one of ours, else None."""
    kind = value.get("kind")
    known = isinstance(kind, str) and value.get("apiVersion") == API_VERSION
    return KINDS.get(kind) if known and isinstance(kind, str) else None


def stranger(places: Places) -> Problem:
    """Why a document is none of ours; every file must be, so that a typing error cannot make a workload vanish."""
    value = places.document.value
    elsewhere = "a file of another program goes into .reconcileignore"
    if value.get("apiVersion") != API_VERSION:
        fault = "must be" if "apiVersion" in value else "is required:"
        return places.problem(("apiVersion",), f"apiVersion {fault} {API_VERSION} ({elsewhere})")
    kind = value.get("kind")
    if kind is None:
        return places.problem(("kind",), f"kind is required: {', '.join(KINDS)}")
    said = nearest(str(kind), list(KINDS)) or f" ({', '.join(KINDS)})"
    return places.problem(("kind",), f"unknown kind {kind if isinstance(kind, str) else ''}{said}")


def validate(kind: type[Model], value: dict[str, Any], places: Places) -> tuple[Model | None, list[Problem]]:
    """The document as its model, or what is wrong with its form. ``value`` is the document over its defaults."""
    try:
        return kind.model_validate(value), []
    except ValidationError as error:
        return None, complaints(error, kind, value, places)


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Model]:
    return TypeAdapter(Model)


def json_schema() -> dict[str, Any]:
    """One JSON Schema (draft 2020-12) for a document of any kind, with the descriptions of every field."""
    schema = _adapter().json_schema(by_alias=True)
    definitions = schema.pop("$defs")
    for model in _models(Strict):
        if model.__name__ in definitions:
            _describe(model, definitions[model.__name__])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "reconciler/v1",
        "description": "A document of a repository for reconciler.",
        "type": "object",
        "required": ["apiVersion", "kind", "name"],
        "properties": {"kind": {"enum": list(KINDS)}},
        "allOf": [
            {
                "if": {"required": ["kind"], "properties": {"kind": {"const": kind}}},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
            for kind in KINDS
        ],
        "$defs": definitions,
    }


def _models(base: type[Strict]) -> list[type[Strict]]:
    return [found for child in base.__subclasses__() for found in (child, *_models(child))]


def _describe(model: type[Strict], schema: dict[str, Any]) -> None:
    """Add what pydantic does not know: descriptions from attribute docstrings, free ``x-`` keys, empty collections."""
    texts = {name: text for cls in reversed(model.__mro__) if issubclass(cls, Strict) for name, text in _docs(cls)}
    for name, info in model.model_fields.items():
        described = schema["properties"][info.alias or name]
        described.pop("title", None)
        if name in texts:
            later = " Not supported yet." if name in model.later else ""
            described["description"] = texts[name] + later
        if described.get("default") is None or "Default " in texts.get(name, ""):
            described.pop("default", None)  # said in words, in the units that people write
        if (info.alias or name) in model.collections:
            described["type"] = [described["type"], "null"]
    schema.pop("title", None)
    schema["patternProperties"] = {"^x-": {}}


def _docs(model: type[Strict]) -> list[tuple[str, str]]:
    """Attribute docstrings, read from the source only when the schema is printed."""
    if model is Strict:
        return []
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    found: list[tuple[str, str]] = []
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, text in itertools.pairwise(statements):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as said)),
            ):
                found.append((name, said))
    return found
