"""The JSON Schema that editors use, with the description of every field."""

import ast
import inspect
import itertools
import re
import textwrap
from copy import deepcopy
from typing import Any

from pydantic import TypeAdapter

from reconciler.desired.forms import Strict
from reconciler.desired.schema import KINDS, Model
from reconciler.desired.schema_workload import KINDS as WORKLOADS
from reconciler.desired.schema_workload import ONLY, REQUIRED, RESTARTS


def build() -> dict[str, Any]:
    """The whole schema; see ``schema.json_schema``."""
    definitions = _as_written(TypeAdapter(Model).json_schema(by_alias=True)["$defs"])
    for model in _models(Strict):
        if model.__name__ in definitions:
            _describe(model, definitions[model.__name__])
    common = definitions.pop("Workload")
    definitions |= {kind: _workload(kind, common) for kind in WORKLOADS}
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
        "$defs": dict(sorted(definitions.items())),
    }


def _workload(kind: str, common: dict[str, Any]) -> dict[str, Any]:
    """What one kind of workload has of the form that all three share."""
    schema = deepcopy(common)
    properties = {name: part for name, part in schema["properties"].items() if kind in ONLY.get(name, WORKLOADS)}
    properties["kind"] = {"const": kind, "description": WORKLOADS[kind]}
    properties["restart"] = {
        "enum": [*RESTARTS[kind], None],
        "default": RESTARTS[kind][0],
        "description": "What the Engine does when the process ends.",
    }
    required = [*schema["required"], *REQUIRED[kind]]
    for name in REQUIRED[kind]:
        properties[name].pop("default", None)
    return schema | {"properties": properties, "required": required, "description": WORKLOADS[kind]}


def _as_written(node: Any) -> Any:
    """The schema as documents are read: a string is what was written, so ``user: 1000`` and ``A: true`` are strings.

    An editor sees a number or a truth value there. Keys of a map are checked one and all.
    """
    if isinstance(node, list):
        return [_as_written(part) for part in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "string" and not {"const", "enum"} & node.keys():
        return _text(node)
    numbers = any(part.get("type") in {"integer", "number"} for part in node.get("anyOf", ()))
    made = {key: part if key == "anyOf" and numbers else _as_written(part) for key, part in node.items()}
    if "patternProperties" in made and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def _text(node: dict[str, Any]) -> dict[str, Any]:
    """A string of ``node``'s pattern, or a number or truth value whose text has that pattern."""
    pattern = re.compile(node.get("pattern", ""), re.ASCII)
    types = ["string"]
    limits: dict[str, Any] = {}
    if pattern.search("10"):
        types.append("number" if pattern.search("1.5") else "integer")
        limits = {} if pattern.search("-1") else {"minimum": 0}
    if pattern.search("true") and pattern.search("false"):
        types.append("boolean")
    return node | limits | ({"type": types} if len(types) > 1 else {})


def _models(base: type[Strict]) -> list[type[Strict]]:
    return [found for child in base.__subclasses__() for found in (child, *_models(child))]


def _describe(model: type[Strict], schema: dict[str, Any]) -> None:
    """Add what pydantic does not know: descriptions from attribute docstrings, free ``x-`` keys, empty collections."""
    texts = _docs(model)
    for name, info in model.model_fields.items():
        described = schema["properties"][info.alias or name]
        described.pop("title", None)
        if name in texts:
            described["description"] = texts[name]
        if name in model.later:
            described["description"] += " Not supported yet."
            described["deprecated"] = True  # the keyword by which an editor marks what should not be written
        if described.get("default") is None or "Default " in texts.get(name, ""):
            described.pop("default", None)  # said in words, in the units that people write
        if (info.alias or name) in model.collections and "type" in described:
            described["type"] = [described["type"], "null"]
    schema.pop("title", None)
    schema["patternProperties"] = {"^x-": {}}


def _docs(model: type[Strict]) -> dict[str, str]:
    """Attribute docstrings, read from the source only when the schema is printed; those of its bases come first."""
    found: dict[str, str] = {}
    for base in model.__bases__:
        found |= _docs(base) if issubclass(base, Strict) else {}
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    for field, text in itertools.pairwise(body.body if isinstance(body, ast.ClassDef) else []):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as said)),
            ):
                found[name] = said
    return found
