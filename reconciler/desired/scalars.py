"""What an unquoted scalar means: the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema).

``on``, ``yes``, ``1:59``, ``2024-01-01`` are strings there, and ``0444`` is the number 444. One deviation: a number
whose exponent overflows (``12e03456``, as in a short git hash) stays a string.
"""

import math
import re

LONGEST_NUMBER = 40  # characters; more digits than any quantity has, fewer than make int() slow
_INT = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: math.inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_FIRST = frozenset("+-.0123456789")


class Plain(str):
    """An unquoted scalar that reads as a number or a truth value: the text as written, and what it reads as.

    A field that wants a string takes the text (``1.10`` stays ``1.10``), any other field takes ``value``.
    """

    __slots__ = ("value",)
    value: float | bool  # an int is a float to the type checker

    def __new__(cls, text: str, value: float | bool) -> "Plain":  # noqa: PYI034 - Self would promise more than it is
        """``text`` with its meaning."""
        made = super().__new__(cls, text)
        made.value = value
        return made


def read_scalar(text: str) -> str | None:
    """``Plain`` for a number or a truth value, None for null, else the string itself."""
    if text in _WORDS:
        word = _WORDS[text]
        return None if word is None else Plain(text, word)
    if text[0] not in _FIRST or len(text) > LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return Plain(text, int(text))
    if _OCTAL_OR_HEX.fullmatch(text):
        return Plain(text, int(text, 0))
    if _FLOAT.fullmatch(text) and math.isfinite(value := float(text)):
        return Plain(text, value)
    return text


def bare(value: object) -> object:
    """``value`` with every ``Plain`` in it as the number or truth value that it reads as: what JSON would hold."""
    match value:
        case Plain():
            return value.value
        case dict():
            return {key: bare(part) for key, part in value.items()}
        case list():
            return [bare(part) for part in value]
        case _:
            return value
