"""``Cluster.defaults`` under a workload: fields that the workload's kind knows, maps of settings joined key by key."""

from typing import Any

from reconciler.desired.complaints import Places
from reconciler.desired.documents import Document, Node
from reconciler.desired.hints import meant
from reconciler.desired.schema import validate
from reconciler.desired.schema_workload import KINDS, Workload, field_names
from reconciler.errors import Problem

# Joined key by key; every other value is one thing, and the workload's own replaces that of the defaults.
JOINED = frozenset({"env", "labels", "resources", "resources.ulimits", "rollout", "stop", "logging", "logging.options"})
_OWN = frozenset({"apiVersion", "kind", "name"})
_PLACEHOLDERS: dict[str, Any] = {"apiVersion": "reconciler/v1", "name": "defaults", "image": "defaults", "instances": 1}


def merge(value: dict[str, Any], defaults: dict[str, Any], kind: str) -> dict[str, Any]:
    """``value`` over those of ``defaults`` that its kind knows."""
    known = field_names(kind) - _OWN
    return _join({key: part for key, part in defaults.items() if key in known}, value, "")


def _join(under: dict[str, Any], over: dict[str, Any], path: str) -> dict[str, Any]:
    merged = under | over
    for key in under.keys() & over.keys():
        name = f"{path}{key}"
        low, high = under[key], over[key]
        if name in JOINED and isinstance(low, dict) and (high is None or isinstance(high, dict)):
            merged[key] = low if high is None else _join(low, high, f"{name}.")
    return merged


def check_form(cluster: Document) -> tuple[list[tuple[Workload, Places]], list[Problem]]:
    """Validate the defaults by themselves: models to check further, and what is wrong with their form."""
    defaults = cluster.value.get("defaults")
    if not isinstance(defaults, dict):
        return [], []  # the Cluster's own validation says so
    places = Places(Document(cluster.file, {}, Node(cluster.root.line, cluster.root.column), cluster.line), cluster)
    problems = _unknown(defaults, places)
    models: list[tuple[Workload, Places]] = []
    left = dict(defaults)
    for kind in KINDS:
        known = field_names(kind) - _OWN
        mine = {key: left.pop(key) for key in list(left) if key in known}
        if not mine:
            continue
        filled = {key: part for key, part in _PLACEHOLDERS.items() if key in field_names(kind)}
        model, faults = validate(kind, {**filled, "kind": kind, **mine}, places)
        problems += faults
        if isinstance(model, Workload):
            models.append((model, places))
    return models, problems


def _unknown(defaults: dict[str, Any], places: Places) -> list[Problem]:
    known = {name for kind in KINDS for name in field_names(kind)} - _OWN
    problems = []
    for key in defaults:
        if key not in known and not key.startswith("x-"):
            instead = meant(key, known, Workload, known)
            said = f"; did you mean {instead}?" if instead else ""
            problems.append(places.problem((key,), f"defaults.{key}: unknown key{said}", key=True))
    return problems
