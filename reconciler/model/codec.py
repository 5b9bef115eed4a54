"""Values of the model as JSON and back, driven by their annotations; and the saved snapshot that anyone can replay.

An instance is written as its identity, bytes as base64, a mapping whose keys are no strings as a list of pairs, and a
member of a union of dataclasses with its class under ``type``. Fields at their default are left out.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from reconciler.model.desired import Desired
from reconciler.model.memory import Memory
from reconciler.model.placement import Policy
from reconciler.model.resources import GpuRequest
from reconciler.model.snapshot import Snapshot
from reconciler.model.workload import InstanceId

SNAPSHOT_FORMAT = "reconciler.snapshot/v1"
TAGGED = frozenset(get_args(GpuRequest) + get_args(Policy))
T = TypeVar("T")
Decode = Callable[[Any], Any]

# What JSON may hold where a plain type is asked for; a number without a fraction is a float too.
_PLAIN: dict[Any, tuple[type, ...]] = {str: (str,), int: (int,), bool: (bool,), float: (int, float), dict: (dict,)}
SPECIAL: dict[Any, Callable[[Any], Any]] = {
    InstanceId: InstanceId.parse,
    bytes: lambda text: base64.b64decode(text, validate=True),
}


class CodecError(ValueError):
    """JSON that is no such value; the text is one line that says where and why."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A saved snapshot: what git wanted, what was seen and remembered, at what time (seconds). It replays alone."""

    snapshot: Snapshot
    memory: Memory
    now: float
    desired: Desired


def dump_snapshot(saved: Saved) -> str:
    """One JSON document, ending in a newline."""
    document = {"format": SNAPSHOT_FORMAT, **to_json(saved)}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load_snapshot(text: str) -> Saved:
    """What ``dump_snapshot`` wrote. Raises CodecError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != SNAPSHOT_FORMAT:
        raise CodecError(f'not a snapshot: "format" is not {SNAPSHOT_FORMAT!r}')
    return from_json(Saved, {key: value for key, value in document.items() if key != "format"})


def to_json(value: Any) -> Any:
    """JSON-ready form of a value of the model."""
    if isinstance(value, InstanceId):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        tag = {"type": type(value).__name__} if type(value) in TAGGED else {}
        given = ((item.name, getattr(value, item.name), _default(item)) for item in fields(value))
        return tag | {name: to_json(current) for name, current, default in given if current != default}
    if isinstance(value, Mapping):
        return _pairs_to_json([(to_json(key), to_json(part)) for key, part in value.items()])
    if isinstance(value, frozenset):
        return sorted(to_json(part) for part in value)
    if isinstance(value, tuple | list):
        return [to_json(part) for part in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def from_json(cls: type[T], data: Any) -> T:
    """The value of ``cls`` that ``to_json`` turned into ``data``. Raises CodecError that says where it is not one."""
    kind: Any = cls
    value: T = _decoder(kind)(data)
    return value


def _pairs_to_json(pairs: list[tuple[Any, Any]]) -> Any:
    if all(isinstance(key, str) for key, _ in pairs):
        return dict(pairs)
    return [list(pair) for pair in pairs]


def _default(item: "Field[Any]") -> Any:
    return item.default_factory() if item.default_factory is not MISSING else item.default


# -- decoding: one function per annotation, made once


@cache
def _decoder(kind: Any) -> Decode:
    if kind is Any:
        return lambda data: data
    if isinstance(kind, type) and kind in SPECIAL:
        return _special(kind)
    if _is_record(kind):
        return _dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if kind in _PLAIN:
        return _plain(kind)
    return _generic(kind)


def _generic(kind: Any) -> Decode:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return _union(arguments)
    if origin is tuple:
        return _sequence(arguments[0], tuple) if arguments[1:] == (...,) else _fixed(arguments)
    if origin is frozenset:
        return _sequence(arguments[0], frozenset)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*arguments)
    raise TypeError(f"the codec knows no {kind!r}")


def _plain(kind: Any) -> Decode:
    accepted = _PLAIN[kind]

    def decode(data: Any) -> Any:
        if not isinstance(data, accepted) or (isinstance(data, bool) and kind is not bool):
            raise CodecError(f": not a {kind.__name__}: {_short(data)}")
        value: Any = data
        return float(value) if kind is float else value

    return decode


def _special(kind: type) -> Decode:
    read = SPECIAL[kind]

    def decode(data: Any) -> Any:
        try:
            return read(data)
        except (ValueError, TypeError, AttributeError, binascii.Error) as error:
            raise CodecError(f": {error}") from None

    return decode


def _enum(kind: type[Enum]) -> Decode:
    def decode(data: Any) -> Any:
        try:
            return kind(data)
        except ValueError as error:
            raise CodecError(f": {error}") from None

    return decode


def _dataclass(kind: type) -> Decode:
    hints = get_type_hints(kind)
    # Made on first use: a policy can hold policies.
    decoders: dict[str, Decode] = {}

    def decode(data: Any) -> Any:
        if not isinstance(data, dict):
            raise CodecError(f": not a {kind.__name__}: {_short(data)}")
        if not decoders:
            decoders.update({name: _decoder(hints[name]) for name in (item.name for item in fields(kind))})
        values: dict[str, Any] = {}
        for name, part in data.items():
            if name == "type" and kind in TAGGED:
                continue
            if name not in decoders:
                raise CodecError(f": a {kind.__name__} has no {_short(name)}")
            values[name] = _at(f".{name}", decoders[name], part)
        try:
            return kind(**values)
        except TypeError as error:
            raise CodecError(f": {error}") from None

    return decode


def _is_record(kind: Any) -> bool:
    """A dataclass that is written as an object."""
    return isinstance(kind, type) and is_dataclass(kind) and kind not in SPECIAL


def _union(kinds: tuple[Any, ...]) -> Decode:
    classes: dict[str, Any] = {kind.__name__: kind for kind in kinds if _is_record(kind)}
    others = [kind for kind in kinds if kind is not NoneType and kind not in classes.values()]

    def decode(data: Any) -> Any:
        if data is None and NoneType in kinds:
            return None
        if isinstance(data, dict) and classes:
            name = data.get("type") if len(classes) > 1 else next(iter(classes))
            if name not in classes:
                raise CodecError(f": type is none of {', '.join(sorted(classes))}: {_short(name)}")
            return _decoder(classes[name])(data)
        if not others:
            raise CodecError(f": not a {' or '.join(sorted(classes))}: {_short(data)}")
        return _decoder(others[0])(data)

    return decode


def _sequence(part: Any, build: Callable[[Iterable[Any]], Any]) -> Decode:
    def decode(data: Any) -> Any:
        return build([_at(f"[{at}]", _decoder(part), one) for at, one in enumerate(_list(data))])

    return decode


def _fixed(parts: tuple[Any, ...]) -> Decode:
    def decode(data: Any) -> Any:
        if len(_list(data)) != len(parts):
            raise CodecError(f": not {len(parts)} values: {_short(data)}")
        return tuple(_at(f"[{at}]", _decoder(parts[at]), one) for at, one in enumerate(data))

    return decode


def _mapping(key: Any, value: Any) -> Decode:
    pair = _fixed((key, value))

    def decode(data: Any) -> Any:
        pairs = [list(one) for one in data.items()] if isinstance(data, dict) else _list(data)
        return dict(_at(f"[{at}]", pair, one) for at, one in enumerate(pairs))

    return decode


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise CodecError(f": not a list: {_short(data)}")
    return data


def _at(where: str, decode: Decode, data: Any) -> Any:
    """Decode a part; its error says where it stands."""
    try:
        return decode(data)
    except CodecError as error:
        raise CodecError(f"{where}{error}") from None


def _short(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
