"""What differs inside a changed field: the only user of deepdiff, and only for fields that hold fields themselves.

A secret never shows: its reference is taken for a value of its own and printed as ``(sensitive)``.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from reconciler.model.plan import Change
from reconciler.model.resources import format_memory
from reconciler.report.spelling import spelled

SENSITIVE = "(sensitive)"
UNSET = "(unset)"
_MARK = "\0secret\0"
_BYTES = ("resources.memory", "resources.shm")
_CONTENT = re.compile(r"configs\[[0-9]+\]\.content")


def expand(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Each change down to the values that differ: ``env`` becomes ``env.HF_HOME``; secrets become ``(sensitive)``."""
    return tuple(small for change in changes for small in _expand(change))


def change_text(change: Change) -> str:
    """``image: "a:1" → "a:2"``, for a change that was expanded."""
    if _CONTENT.fullmatch(change.field) and change.old is not None and change.new is not None:
        return f"{change.field}: changed"
    return f"{change.field}: {_shown(change, change.old)} → {_shown(change, change.new)}"


def _shown(change: Change, value: Any) -> str:
    if value is None:
        return UNSET
    if value == SENSITIVE:
        return SENSITIVE
    if change.field in _BYTES and isinstance(value, int):
        return format_memory(value)
    value = _without_content(value) if change.field.startswith("configs") else value
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _without_content(value: Any) -> Any:
    """Files by their paths and modes: a hash tells people nothing."""
    if isinstance(value, list):
        return [_without_content(one) for one in value]
    return {key: part for key, part in value.items() if key != "content"} if isinstance(value, dict) else value


def _expand(change: Change) -> Iterator[Change]:
    if change.field == "secrets":
        yield Change(change.field, SENSITIVE, SENSITIVE)
        return
    old, new = (_marked(spelled(change.field, value)) for value in (change.old, change.new))
    if isinstance(old, dict | list) and isinstance(new, dict | list) and type(old) is type(new):
        yield from _inside(change.field, old, new)
    elif change.field == "env":
        yield from _inside(change.field, old or {}, new or {})
    else:
        yield Change(change.field, _masked(old), _masked(new))


def _inside(field: str, old: Any, new: Any) -> list[Change]:
    from deepdiff import DeepDiff  # noqa: PLC0415 - 150 ms that only changed pairs pay

    found = DeepDiff(old, new, view="tree", ignore_private_variables=False, threshold_to_diff_deeper=0)
    leaves = [leaf for group in found.values() for leaf in group]
    changes = [(leaf.path(output_format="list"), _value(leaf.t1), _value(leaf.t2)) for leaf in leaves]
    changes.sort(key=lambda one: [(isinstance(part, str), part) for part in one[0]])
    return [Change(field + _path(path), before, after) for path, before, after in changes]


def _value(found: Any) -> Any:
    from deepdiff.helper import NotPresent  # noqa: PLC0415 - loaded by then

    return None if isinstance(found, NotPresent) else _masked(found)


def _path(parts: Iterable[Any]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def mask(value: Any) -> Any:
    """``value`` with every reference to a secret shown as ``(sensitive)``."""
    return _masked(_marked(value))


def _marked(value: Any) -> Any:
    """References to secrets as strings of their own, so that another secret is a difference and nothing more."""
    if isinstance(value, dict):
        if value.keys() == {"key", "secret"}:
            return f"{_MARK}{value['secret']}\0{value['key']}"
        return {key: _marked(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(part) for part in value]
    return value


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_masked(part) for part in value]
    return SENSITIVE if isinstance(value, str) and value.startswith(_MARK) else value
