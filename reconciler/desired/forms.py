"""What the pydantic models of every kind are made of: strict scalars, quantities, and the base of all of them."""

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema

from reconciler.desired.scalars import Plain
from reconciler.model.resources import format_memory, parse_cpus, parse_duration, parse_memory

SMALLEST_MEMORY = 6 * 1024**2  # bytes; the Engine refuses less
SMALLEST_BARE = 1024**2  # bytes; a smaller number without a unit was meant in a larger one
LARGEST_MEMORY = 2**60
LONGEST_DURATION = 366 * 86400.0  # seconds
SHORTEST_PERIOD = 0.001
MOST = 1_000_000  # of anything that is counted: far above every real fleet, far below what an Engine or a loop minds
LONGEST_QUANTITY = 32  # characters
DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def no_items() -> list[Any]:
    """Default of a list; a plain function, because pydantic inspects ``list`` itself slowly."""
    return []


def no_entries() -> dict[Any, Any]:
    """Default of a map."""
    return {}


class Later:
    """Marks a field that is checked in form and then refused: its effect comes with a later release."""


LATER = Later()


class Form:
    """How a value is read before pydantic checks its type, and what the JSON Schema says of it.

    The same as BeforeValidator and WithJsonSchema, without their look at each function's signature: that costs more
    than all the rest of starting up.
    """

    __slots__ = ("read", "schema")

    def __init__(self, read: Callable[[Any], Any], schema: dict[str, Any] | None = None) -> None:
        self.read = read
        self.schema = schema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return dict(self.schema) if self.schema is not None else handler(schema)


def matching(pattern: str, message: str) -> Form:
    """The form of a string that ``pattern`` matches in full; else the error is ``message``."""

    def read(value: Any) -> Any:
        if isinstance(value, str) and not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(message)
        return value

    return Form(read, {"type": "string", "pattern": f"^({pattern})$"})


class Strict(BaseModel):
    """Unknown keys are errors; keys that begin with ``x-`` are free; a list or map with nothing in it is empty."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, defer_build=True, hide_input_in_errors=True
    )
    collections: ClassVar[dict[str, Any]] = {}  # of each class: how to make its fields that are lists or maps
    later: ClassVar[frozenset[str]] = frozenset()  # of each class: the Python names of fields marked LATER

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Note once what every document needs to know of the class."""
        super().__pydantic_init_subclass__(**kwargs)
        cls.later = frozenset(name for name, info in cls.model_fields.items() if LATER in info.metadata)
        cls.collections = {
            info.alias or name: info.default_factory
            for name, info in cls.model_fields.items()
            if info.default_factory in {no_items, no_entries}
        }

    @model_validator(mode="before")
    @classmethod
    def tidy(cls, value: Any) -> Any:
        """Drop free keys, and make ``labels:`` with nothing after it an empty map."""
        if not isinstance(value, dict):
            return value
        if any(part is None or key[:2] == "x-" for key, part in value.items()):
            empty = cls.collections
            return {
                key: empty[key]() if part is None and key in empty else part
                for key, part in value.items()
                if key[:2] != "x-"
            }
        return value


def _read(value: Any) -> Any:
    return value.value if type(value) is Plain else value


def _quantity(parse: Callable[[str], Any], what: str, longest: int = LONGEST_QUANTITY) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, str) or len(value) > longest:
            raise ValueError(f"must be {what}")
        return parse(str(value))

    return read


def _memory(text: str) -> int:
    size = parse_memory(text)
    if size > LARGEST_MEMORY:
        raise ValueError(f"more memory than any host has: {text}")
    if text[-1].isdigit() and 0 < (number := float(text)) < SMALLEST_BARE:
        raise ValueError(f"{text} is {text} bytes: did you mean {text}{'Gi' if number < 1024 else 'Mi'}?")
    return size


def _main_memory(text: str) -> int:
    size = _memory(text)
    if size < SMALLEST_MEMORY:
        raise ValueError(f"the Engine takes no less than {format_memory(SMALLEST_MEMORY)}")
    return size


def _shared_memory(text: str) -> int:
    size = _memory(text)
    if size < SMALLEST_BARE:
        raise ValueError(f"must be at least {format_memory(SMALLEST_BARE)}")
    return size


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds > LONGEST_DURATION:
        raise ValueError(f"longer than a year: {text}")
    return seconds


def _period(text: str) -> float:
    seconds = _duration(text)
    if seconds < SHORTEST_PERIOD:
        raise ValueError("must be at least 1ms")
    return seconds


def _millicpus(value: Any) -> int:
    number = _read(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number <= 65536:
        raise ValueError("must be a number of cores above 0")
    millis = round(number * 1000)
    if abs(millis - number * 1000) > 1e-6 or not millis:
        raise ValueError("must not be finer than a thousandth of a core (0.001)")
    return millis


def _mode(text: str) -> int:
    if not re.fullmatch(r"0?[0-7]{3}", text, re.ASCII):
        raise ValueError('must be an octal file mode (write "0444")')
    return int(text, 8)


WRITTEN = Form(_read)
_A_MEMORY = "an amount of memory (write 64Gi, 512M or bytes)"
_A_DURATION = "a duration (write 10s, 1h30m or 500ms)"
_SIZE = {"type": "string", "pattern": r"^([0-9]{7,}|[0-9]+(\.[0-9]+)? ?([kKMGT]i?B?|B))$"}
_MEMORY = {"anyOf": [{"const": 0}, {"type": "integer", "minimum": SMALLEST_BARE, "maximum": LARGEST_MEMORY}, _SIZE]}
_SHARED_MEMORY = {"anyOf": [{"type": "integer", "minimum": SMALLEST_BARE, "maximum": LARGEST_MEMORY}, _SIZE]}
_MAIN_MEMORY = {"anyOf": [{"type": "integer", "minimum": SMALLEST_MEMORY, "maximum": LARGEST_MEMORY}, _SIZE]}
_TIME = {
    "type": "string",
    "pattern": r"^([0-9]+(\.[0-9]+)?|(?=[0-9])([0-9]+h)?([0-9]+m(?!s))?([0-9]+(\.[0-9]+)?s)?([0-9]+ms)?)$",
}
_DURATION = {"anyOf": [{"type": "number", "minimum": 0, "maximum": LONGEST_DURATION}, _TIME]}
_PERIOD = {"anyOf": [{"type": "number", "minimum": SHORTEST_PERIOD, "maximum": LONGEST_DURATION}, _TIME]}

Bool = Annotated[bool, WRITTEN]
Int = Annotated[int, Field(ge=-MOST, le=MOST), WRITTEN]
Natural = Annotated[int, Field(ge=0, le=MOST), WRITTEN]
Positive = Annotated[int, Field(ge=1, le=MOST), WRITTEN]
PortNumber = Annotated[int, Field(ge=1, le=65535), WRITTEN]
Memory = Annotated[int, Form(_quantity(_memory, _A_MEMORY), _MEMORY)]
MainMemory = Annotated[int, Form(_quantity(_main_memory, _A_MEMORY), _MAIN_MEMORY)]
SharedMemory = Annotated[int, Form(_quantity(_shared_memory, _A_MEMORY), _SHARED_MEMORY)]
Duration = Annotated[float, Form(_quantity(_duration, _A_DURATION), _DURATION)]
Period = Annotated[float, Form(_quantity(_period, _A_DURATION), _PERIOD)]
Millicpus = Annotated[int, Form(_millicpus, {"type": "number", "minimum": 0.001, "maximum": 65536})]
CpuList = Annotated[
    tuple[int, ...],
    Form(
        _quantity(parse_cpus, "a list of CPUs (write 0-3,8)", 4096),
        {"type": ["string", "integer"], "pattern": "^[0-9, -]*$", "minimum": 0, "maximum": 65535},
    ),
]
FileMode = Annotated[
    int,
    Form(
        _quantity(_mode, 'an octal file mode (write "0444")'),
        {"type": ["string", "integer"], "pattern": "^0?[0-7]{3}$", "minimum": 0, "maximum": 777},
    ),
]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, matching(DNS_LABEL, "must be a DNS label: a-z, 0-9 and -, at most 63 characters")]
ImageName = Annotated[
    str, matching(r"[a-zA-Z0-9][\w.\-/:@+]*", "must be an image reference such as registry.example/app:1.2")
]
AbsolutePath = Annotated[str, matching(r"/.*", "must be an absolute path")]
MountPath = Annotated[str, matching(r"/[^:]*", "must be an absolute path without a colon")]
RelativePath = Annotated[
    str, matching(r"[^/\\][^\\]*", "must be a path relative to this file, with / between its parts")
]
EnvName = Annotated[str, matching(r"[^=\s]+", "must be the name of an environment variable")]
SecretName = Annotated[
    str, matching(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]*", "must be letters, digits, _, . and - (it is the name of a file)")
]
Line = Annotated[str, matching(r"[^\x00-\x1f\x7f-\x9f]*", "must be one line without control characters")]
ApiVersion = Literal["reconciler/v1"]
