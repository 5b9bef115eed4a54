"""Bytes → documents with the position of every node. The only user of PyYAML.

Documents are built from libyaml's events and never composed by PyYAML: its composer recurses in C, and resolves scalars
as YAML 1.1 does. Caps (bytes, depth, nodes, aliases) are checked while events arrive, so that a bomb ends early.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from reconciler.desired.scalars import read_scalar
from reconciler.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 50_000  # counted as they are walked: an alias counts as everything behind it
MAX_ALIASES = 1_000
MAX_PROBLEMS = 100  # of one file; who made so many needs no more of them
_BOM = b"\xef\xbb\xbf"
_STR_TAGS = {"!", "tag:yaml.org,2002:str"}
_READ_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null")}
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")

LONGEST_MESSAGE = 500  # characters

Path = tuple[str | int, ...]
Position = tuple[int, int]


class Node:
    """Where a node stands. ``children`` by key or index; ``keys`` are the positions of a map's keys.

    ``size`` is the number of nodes that a walk meets, aliases followed; ``open`` holds while it is being read.
    """

    __slots__ = ("children", "column", "keys", "line", "open", "size", "value")

    def __init__(self, line: int, column: int) -> None:
        self.line = line
        self.column = column
        self.value: Any = None
        self.children = _NO_CHILDREN
        self.keys = _NO_KEYS
        self.size = 1
        self.open = False


_NO_CHILDREN: dict[str | int, Node] = {}  # shared by all scalars, never written to
_NO_KEYS: dict[str | int, Position] = {}


@dataclass(frozen=True, slots=True)
class Document:
    """One document of ``file``: a map of strings, ``Plain`` scalars, None, lists and maps; it starts at ``line``."""

    file: str
    value: dict[str, Any]
    root: Node
    line: int

    def position(self, path: Path, *, key: bool = False) -> Position:
        """Line and column, from 1, of the value at ``path``, or of its key.

        Parts of the path that are not in the document are passed over: a missing field stands where its map stands.
        """
        return self.locate(path, key=key)[:2]

    def locate(self, path: Path, *, key: bool = False) -> tuple[int, int, int]:
        """As ``position``, and how many parts of ``path`` were found."""
        node, found = self.root, 0
        here = (node.line, node.column)
        for part in path:
            child = node.children.get(part)
            if child is None:
                continue
            here = node.keys.get(part, (child.line, child.column)) if key else (child.line, child.column)
            node, found = child, found + 1
        return (*here, found)


def one_line(message: str) -> str:
    """``message`` as one line without control characters, whatever names of the user stand in it."""
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in message[:LONGEST_MESSAGE])
    return text + "..." * (len(message) > LONGEST_MESSAGE)


class _RefusedError(Exception):
    """Reading this file ends here."""

    def __init__(self, mark: Any, message: str) -> None:
        self.mark = mark
        super().__init__(message)


class _TooManyError(Exception):
    """Enough is known about this file."""


def parse(data: bytes, file: str) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
    """Every document of a YAML or JSON file, and what is wrong with it. Documents before a syntax error are kept."""
    if len(data) > MAX_BYTES:
        return (), (Problem(file, 0, 0, f"larger than {MAX_BYTES // 1024} KiB"),)
    body = data.removeprefix(_BOM)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        column = len(body[body.rfind(b"\n", 0, error.start) + 1 : error.start].decode()) + 1
        offset = error.start + len(data) - len(body)
        return (), (Problem(file, line, column, f"not UTF-8: byte 0x{body[error.start]:02x} at offset {offset}"),)
    builder = _Builder(file, _join_surrogates(text) if file.endswith(".json") else text)
    return builder.run()


def _join_surrogates(text: str) -> str:
    r"""JSON's ``\ud83d\ude00`` as YAML's ``\U0001f600``."""

    def join(match: re.Match[str]) -> str:
        high, low = int(match[2], 16), int(match[3], 16)
        return f"{match[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"

    return _SURROGATES.sub(join, text)


class _Builder:
    """Documents of one file from its events."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.documents: list[Document] = []
        self.problems: list[Problem] = []
        self.events: Iterator[Any] = iter(())
        self.anchors: dict[str, Node] = {}
        self.nodes = 0
        self.aliases = 0

    def run(self) -> tuple[tuple[Document, ...], tuple[Problem, ...]]:
        try:
            self._read()
        except _TooManyError:
            last = self.problems[-1]
            message = f"more than {MAX_PROBLEMS} problems; the rest is not read"
            self.problems.append(Problem(self.file, last.line, last.column, message))
        return tuple(self.documents), tuple(self.problems)

    def _read(self) -> None:
        try:
            self.events = yaml.parse(self.text, Loader=yaml.CSafeLoader)
            for event in self.events:
                if isinstance(event, yaml.DocumentStartEvent):
                    self._document()
        except _RefusedError as refused:
            self._problem(refused.mark, str(refused))
        except yaml.MarkedYAMLError as error:
            self._syntax(error)
        except yaml.reader.ReaderError as error:
            self._unreadable(error)

    def _problem(self, mark: Any, message: str) -> None:
        self._problem_at((mark.line + 1, mark.column + 1) if mark else (1, 1), message)

    def _problem_at(self, position: Position, message: str) -> None:
        if len(self.problems) == MAX_PROBLEMS:
            raise _TooManyError
        self.problems.append(Problem(self.file, *position, one_line(message)))

    def _syntax(self, error: yaml.MarkedYAMLError) -> None:
        """A tab where only spaces may stand is named as that, whatever libyaml was scanning."""
        mark = error.problem_mark or error.context_mark
        lines = self.text.splitlines()
        line = lines[mark.line] if mark and mark.line < len(lines) else ""
        is_tab = line[mark.column : mark.column + 1] == "\t" and not line[: mark.column].strip(" -") if mark else False
        self._problem(mark, "tabs cannot indent: use spaces" if is_tab else _syntax_message(error))

    def _unreadable(self, error: yaml.reader.ReaderError) -> None:
        """The reader counts the offset in bytes of what it was given."""
        before = self.text.encode()[: error.position].decode(errors="ignore")
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        self._problem_at((line, column), f"character U+{_code(error):04X} is not allowed")

    def _document(self) -> None:
        self.anchors.clear()
        self.nodes = self.aliases = 0
        event = next(self.events)
        node = self._node(event, 0)
        if node.value is None:
            return
        if not isinstance(node.value, dict):
            self._problem(event.start_mark, "a document must be a map with apiVersion, kind and name")
            return
        self.documents.append(Document(self.file, node.value, node, node.line))

    def _node(self, event: Any, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._count(event, 1)
        node = Node(event.start_mark.line + 1, event.start_mark.column + 1)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        if isinstance(event, yaml.ScalarEvent):
            node.value = self._scalar(event)
            return node
        if depth >= MAX_DEPTH:
            raise _RefusedError(event.start_mark, f"nested more than {MAX_DEPTH} deep")
        node.open = True
        if isinstance(event, yaml.SequenceStartEvent):
            self._sequence(node, event, depth + 1)
        else:
            self._mapping(node, event, depth + 1)
        node.open = False
        node.size += sum(child.size for child in node.children.values())
        return node

    def _alias(self, event: Any) -> Node:
        node = self.anchors.get(event.anchor)
        if node is None:
            raise _RefusedError(event.start_mark, f"alias *{event.anchor} has no anchor before it")
        if node.open:
            raise _RefusedError(event.start_mark, f"alias *{event.anchor} stands inside what it refers to")
        self.aliases += 1
        if self.aliases > MAX_ALIASES:
            raise _RefusedError(event.start_mark, f"more than {MAX_ALIASES} aliases")
        self._count(event, node.size)
        return node

    def _count(self, event: Any, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise _RefusedError(event.start_mark, f"more than {MAX_NODES} nodes, aliases followed")

    def _scalar(self, event: Any) -> str | None:
        text: str = event.value
        if "\0" in text:
            raise _RefusedError(event.start_mark, "character U+0000 is not allowed")
        if event.tag in _STR_TAGS or (event.tag is None and not event.implicit[0]):
            return text
        if event.tag is not None and event.tag not in _READ_TAGS:
            raise _RefusedError(event.start_mark, f"tag {event.tag} is not supported")
        return read_scalar(text)

    def _collection_tag(self, event: Any, name: str) -> None:
        if event.tag not in {None, "!", f"tag:yaml.org,2002:{name}"}:
            raise _RefusedError(event.start_mark, f"tag {event.tag} is not supported")

    def _sequence(self, node: Node, event: Any, depth: int) -> None:
        self._collection_tag(event, "seq")
        values: list[Any] = []
        children: dict[str | int, Node] = {}
        node.value, node.children = values, children
        for item in self.events:
            if isinstance(item, yaml.SequenceEndEvent):
                return
            child = self._node(item, depth)
            children[len(values)] = child
            values.append(child.value)

    def _mapping(self, node: Node, event: Any, depth: int) -> None:
        self._collection_tag(event, "map")
        values: dict[str, Any] = {}
        node.value, node.children, node.keys = values, {}, {}
        merged: tuple[Position, Node] | None = None
        for item in self.events:
            if isinstance(item, yaml.MappingEndEvent):
                break
            key, at = self._key(item)
            child = self._node(next(self.events), depth)
            if key == "<<" and isinstance(item, yaml.ScalarEvent) and item.implicit[0]:
                if merged is not None:
                    self._problem_at(at, f"a second << in one map (the first is on line {merged[0][0]})")
                merged = merged or (at, child)
            elif key in values:
                self._problem_at(at, f"duplicate key {key} (the first is on line {node.keys[key][0]})")
            else:
                node.keys[key], node.children[key], values[key] = at, child, child.value
        if merged is not None:
            self._merge(node, *merged)

    def _key(self, event: Any) -> tuple[str, Position]:
        """A key as written: ``on`` and ``1`` are the strings that they look like."""
        mark = event.start_mark
        at = (mark.line + 1, mark.column + 1)
        if isinstance(event, yaml.AliasEvent):
            value = self._alias(event).value
        elif isinstance(event, yaml.ScalarEvent):
            value = self._node(event, MAX_DEPTH).value
        else:
            raise _RefusedError(mark, "a key must be a string")
        if not isinstance(value, str):
            raise _RefusedError(mark, "a key must be a string")
        return str(value), at

    def _merge(self, node: Node, at: Position, source: Node) -> None:
        """``<<``: keys of the map itself win, then those of earlier maps (https://yaml.org/type/merge.html)."""
        parts = list(source.children.values()) if isinstance(source.value, list) else [source]
        for part in parts:
            if not isinstance(part.value, dict):
                self._problem_at(at, "<< takes a map or a list of maps")
                continue
            for key, child in part.children.items():
                if key not in node.children:
                    node.keys[key], node.children[key] = part.keys[key], child
                    node.value[key] = child.value


def _syntax_message(error: yaml.MarkedYAMLError) -> str:
    parts = [error.problem or "not YAML"]
    if error.context:
        line = f" that starts on line {error.context_mark.line + 1}" if error.context_mark else ""
        parts.append(f"{error.context}{line}")
    return ", ".join(parts)


def _code(error: yaml.reader.ReaderError) -> int:
    return error.character if isinstance(error.character, int) else ord(error.character[0])
