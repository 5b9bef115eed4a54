"""The kinds of document: which model each has, validation with positions, and the JSON Schema that editors use."""

from typing import Any

from pydantic import ValidationError

from reconciler.desired.complaints import Places, complaints, nearest
from reconciler.desired.schema_host import Cluster, Host, Queue
from reconciler.desired.schema_workload import KINDS as WORKLOADS
from reconciler.desired.schema_workload import ONLY, REQUIRED, Workload, field_names
from reconciler.desired.shapes import aliases
from reconciler.errors import Problem

Model = Workload | Host | Queue | Cluster
API_VERSION = "reconciler/v1"
KINDS: dict[str, type[Model]] = {**dict.fromkeys(WORKLOADS, Workload), "Host": Host, "Queue": Queue, "Cluster": Cluster}


def kind_of(value: dict[str, Any]) -> str | None:
    """The kind of a document that is one of ours, else None."""
    kind = value.get("kind")
    return kind if isinstance(kind, str) and kind in KINDS and value.get("apiVersion") == API_VERSION else None


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


def validate(kind: str, value: dict[str, Any], places: Places) -> tuple[Model | None, list[Problem]]:
    """The document as its model, or what is wrong with its form. ``value`` is the document over its defaults."""
    problems = [
        places.problem((key,), f"{key}: unknown key ({kind} has none; {' and '.join(sorted(ONLY[key]))} may)", key=True)
        for key in value
        if kind in WORKLOADS and kind not in ONLY.get(key, WORKLOADS)
    ]
    problems += [
        places.problem((key,), f"{key} is required") for key in REQUIRED.get(kind, ()) if value.get(key) is None
    ]
    try:
        model = KINDS[kind].model_validate(value)
    except ValidationError as error:
        tops = field_names(kind) if kind in WORKLOADS else aliases(KINDS[kind])
        return None, problems + complaints(error, KINDS[kind], value, places, tops)
    return (None if problems else model), problems


def json_schema() -> dict[str, Any]:
    """One JSON Schema (draft 2020-12) for a document of any kind, for yaml-language-server and the like."""
    from reconciler.desired import schema_json  # noqa: PLC0415 - reads its own source, which only printing needs

    return schema_json.build()
