"""CEL: compile a placement rule, find its faults early, and evaluate it.

The library is ``common-expression-language`` (docs/decisions/0001-cel-library.md). Its package imports a command line
with it, which costs ten times what the rest does; only its extension module is loaded, and only when a rule is met.
"""

import importlib.machinery
import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLES: Mapping[str, frozenset[str]] = {
    "host": frozenset({"name", "tags", "labels", "gpus", "cpus", "memory"}),
    "workload": frozenset({"name", "kind", "labels"}),
}
MAX_RULE = 2_000  # characters
MAX_NESTING = 50
MAX_MACROS = 2  # inside one another: the time of an evaluation is a power of them
_STRING = re.compile(r"""[rR]?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_MACRO = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(")
_MEMBER = re.compile(r"(?<![\w.])(host|workload)\s*\.\s*([A-Za-z_]\w*)")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WHERE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_MACROS = frozenset({"all", "exists", "exists_one", "filter", "has", "map"})
_CONVERSIONS = frozenset({"bytes", "double", "duration", "int", "string", "timestamp", "uint"})
_FUNCTIONS = _MACROS | _CONVERSIONS | {"contains", "endsWith", "matches", "max", "min", "size", "startsWith"}


class RuleError(ValueError):
    """A rule that cannot be used. ``line`` and ``column`` count from 1 inside the rule; 0: the rule as a whole."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        self.line = line
        self.column = column
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule."""

    text: str
    program: Any = field(repr=False, compare=False)

    def matches(self, variables: Mapping[str, Any]) -> bool:
        """Whether the rule is true of ``variables`` (``host`` and ``workload``, each a map with every field).

        Raises RuleError when it cannot be evaluated (a label that is not there) or is no truth value.
        """
        try:
            result = self.program.execute(dict(variables))
        except (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError) as error:
            said = f"no key {error}" if isinstance(error, KeyError) else _first_line(error)
            raise RuleError(f"rule {self.text!r} cannot be evaluated: {said}") from error
        if not isinstance(result, bool):
            raise RuleError(f"rule {self.text!r} is {type(result).__name__}, not true or false")
        return result


@lru_cache(maxsize=1024)
def compile_rule(text: str) -> Rule:
    """The rule that ``text`` spells. Raises RuleError: syntax, unknown variables, fields or functions, caps."""
    if len(text) > MAX_RULE:
        raise RuleError(f"rule longer than {MAX_RULE} characters")
    bare = _STRING.sub(lambda match: " " * len(match[0]), text)
    _check_nesting(bare)
    try:
        program = _cel().compile(text)
    except ValueError as error:
        raise _syntax_error(error) from error
    _check_names(bare, program.references())
    return _checked(Rule(text, program))


def _checked(rule: Rule) -> Rule:
    """The rule, if a host like any other gets a truth value from it, or none for want of a label or tag."""
    host = {"name": "host", "tags": [], "labels": {}, "gpus": 1, "cpus": 1, "memory": 1}
    try:
        rule.matches({"host": host, "workload": {"name": "name", "kind": "app", "labels": {}}})
    except RuleError as error:
        if error.__cause__ is None or isinstance(error.__cause__, TypeError):
            raise
    return rule


@lru_cache(maxsize=1)
def _cel() -> ModuleType:
    """The extension module of the library, without the package around it."""
    if "cel" in sys.modules:
        return sys.modules["cel"]
    package = importlib.util.find_spec("cel")
    for folder in (package.submodule_search_locations or ()) if package else ():
        spec = importlib.machinery.PathFinder.find_spec("cel.cel", [str(Path(folder))])
        if spec and spec.loader:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise RuleError("rules need the package common-expression-language")


def _check_nesting(bare: str) -> None:
    """Parentheses for the parser's stack; macros over lists inside one another for its time."""
    macros = {match.end() - 1 for match in _MACRO.finditer(bare)}
    opened: list[bool] = []  # of each open bracket: whether a macro over a list opened it
    for offset, char in enumerate(bare):
        if char in "([{":
            opened.append(offset in macros)
        elif char in ")]}" and opened:
            opened.pop()
        if len(opened) > MAX_NESTING:
            raise RuleError(f"nested more than {MAX_NESTING} deep", *_place(bare, offset))
        if sum(opened) > MAX_MACROS:
            raise RuleError(f"more than {MAX_MACROS} macros over lists inside one another", *_place(bare, offset))


def _check_names(bare: str, references: Mapping[str, list[str]]) -> None:
    """Names that no host can ever have: better told now than when the rule is evaluated."""
    known = set(VARIABLES) | {match[1] for match in _BOUND.finditer(bare)}
    for name in references["variables"]:
        if name not in known:
            raise _unknown(bare, rf"(?<![\w.]){re.escape(name)}\b", f"unknown variable {name}", name, VARIABLES)
    for match in _MEMBER.finditer(bare):
        fields = VARIABLES[match[1]]
        if match[2] not in fields:
            message = f"unknown field {match[1]}.{match[2]}{_nearest(match[2], fields)}"
            raise RuleError(message, *_place(bare, match.start()))
    for name in references["functions"]:
        if name[0].isalpha() and name not in _FUNCTIONS:
            raise _unknown(bare, rf"\b{re.escape(name)}\s*\(", f"unknown function {name}", name, _FUNCTIONS)


def _unknown(bare: str, pattern: str, message: str, name: str, known: Any) -> RuleError:
    match = re.search(pattern, bare)
    return RuleError(message + _nearest(name, known), *(_place(bare, match.start()) if match else (0, 0)))


def _nearest(name: str, known: Any) -> str:
    import difflib  # noqa: PLC0415 - only a mistake needs it

    found = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {found[0]}?" if found else f" (known: {', '.join(sorted(known))})"


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _syntax_error(error: ValueError) -> RuleError:
    match = _WHERE.search(str(error))
    if not match:
        return RuleError(_first_line(error))
    message = re.sub(r" expecting \{.*\}", "", match[3]).strip()
    return RuleError(message[:1].lower() + message[1:], int(match[1]), int(match[2]))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
