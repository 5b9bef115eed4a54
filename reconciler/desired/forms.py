"""What the pydantic models of every kind are made of: strict scalars, quantities, and the base of all of them."""

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel

from reconciler.desired.scalars import Plain
from reconciler.model.resources import format_memory, parse_cpus, parse_duration, parse_memory

API_VERSION: Final = "reconciler/v1"
SMALLEST_MEMORY = 6 * 1024**2  # bytes; the Engine refuses less
LARGEST_MEMORY = 2**60
LONGEST_DURATION = 366 * 86400.0  # seconds
LONGEST_QUANTITY = 32  # characters
DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


class Later:
    """Marks a field that is checked in form and then refused: its effect comes with a later release."""


LATER = Later()


class Strict(BaseModel):
    """Unknown keys are errors; keys that begin with ``x-`` are free; a list or map with nothing in it is empty."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, defer_build=True, hide_input_in_errors=True
    )
    collections: ClassVar[dict[str, type]] = {}  # of each class: the fields that are lists or maps
    later: ClassVar[frozenset[str]] = frozenset()  # of each class: the Python names of fields marked LATER

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Note once what every document needs to know of the class."""
        super().__pydantic_init_subclass__(**kwargs)
        cls.later = frozenset(name for name, info in cls.model_fields.items() if LATER in info.metadata)
        cls.collections = {
            info.alias or name: info.default_factory
            for name, info in cls.model_fields.items()
            if info.default_factory in {list, dict}
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
    return size


def _main_memory(text: str) -> int:
    size = _memory(text)
    if size < SMALLEST_MEMORY:
        raise ValueError(f"the Engine takes no less than {format_memory(SMALLEST_MEMORY)}")
    return size


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds > LONGEST_DURATION:
        raise ValueError(f"longer than a year: {text}")
    return seconds


def _period(text: str) -> float:
    seconds = _duration(text)
    if seconds < 0.001:
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


def text(pattern: str, message: str) -> Any:
    """The type of a string that ``pattern`` matches in full; else the error is ``message``."""
    compiled = re.compile(pattern, re.ASCII)

    def check(value: Any) -> Any:
        if isinstance(value, str) and not compiled.fullmatch(value):
            raise ValueError(message)
        return value

    return Annotated[str, BeforeValidator(check), Field(json_schema_extra={"pattern": f"^({pattern})$"})]


_MEMORY_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKMGT]i?)?B?$"},
        ]
    }
)
_DURATION_SCHEMA = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": r"^([0-9]+h)?([0-9]+m)?([0-9]+(\.[0-9]+)?s)?([0-9]+ms)?$"},
        ]
    }
)

_A_MEMORY = "an amount of memory (write 64Gi, 512M or bytes)"
_A_DURATION = "a duration (write 10s, 1h30m or 500ms)"
_A_CPU_LIST = "a list of CPUs (write 0-3,8)"

Bool = Annotated[bool, BeforeValidator(_read)]
Int = Annotated[int, BeforeValidator(_read)]
Natural = Annotated[int, Field(ge=0), BeforeValidator(_read)]
Positive = Annotated[int, Field(ge=1), BeforeValidator(_read)]
Number = Annotated[float, BeforeValidator(_read), Field(allow_inf_nan=False)]
PortNumber = Annotated[int, Field(ge=1, le=65535), BeforeValidator(_read)]
Memory = Annotated[int, BeforeValidator(_quantity(_memory, _A_MEMORY)), _MEMORY_SCHEMA]
MainMemory = Annotated[int, BeforeValidator(_quantity(_main_memory, _A_MEMORY)), _MEMORY_SCHEMA]
Duration = Annotated[float, BeforeValidator(_quantity(_duration, _A_DURATION)), _DURATION_SCHEMA]
Period = Annotated[float, BeforeValidator(_quantity(_period, _A_DURATION)), _DURATION_SCHEMA]
Millicpus = Annotated[int, BeforeValidator(_millicpus), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
CpuList = Annotated[
    tuple[int, ...],
    BeforeValidator(_quantity(parse_cpus, _A_CPU_LIST, 4096)),
    WithJsonSchema({"type": ["string", "integer"]}),
]
FileMode = Annotated[
    int,
    BeforeValidator(_quantity(_mode, 'an octal file mode (write "0444")')),
    WithJsonSchema({"type": "string", "pattern": "^0?[0-7]{3}$"}),
]
Text = Annotated[str, Field(min_length=1)]
Name = text(DNS_LABEL, "must be a DNS label: a-z, 0-9 and -, at most 63 characters")
ImageName = text(r"[a-zA-Z0-9][\w.\-/:@+]*", "must be an image reference such as registry.example/app:1.2")
ContainerPath = text(r"/[^\0]*", "must be an absolute path")
HostPath = text(r"/[^\0:]*", "must be an absolute path without a colon")
EnvName = text(r"[^=\0\s]+", "must be the name of an environment variable")
RelativePath = text(r"[^/\0\\][^\0\\]*", "must be a path relative to this file, with / between its parts")
Glob = Text
ApiVersion = Literal["reconciler/v1"]
