"""Markdown pages taken apart: fenced blocks and tables with the comment that marks them, links, headings, commands."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELL = {"", "sh", "console"}
_MARK = re.compile(r"<!-- (.+?) -->")
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the comment before it, its text and the line of its fence."""

    language: str
    mark: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: the comment before its table, the heading above it, and its cells."""

    mark: str
    anchor: str
    cells: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What stands as code in the first cell, up to the first space: ``--repo`` of ``--repo URL``."""
        return tuple(name.split()[0] for name in codes(self.cells[0]))


class Page:
    """One Markdown file, by its path from the root of the project."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(ROOT).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.blocks = tuple(_blocks(self.text.splitlines()))
        self.prose = _without_blocks(self.text)
        self.rows = tuple(_rows(self.prose.splitlines()))

    @property
    def anchors(self) -> frozenset[str]:
        """What ``#…`` may name, as GitHub makes it of headings."""
        return frozenset(anchor(line) for line in self.prose.splitlines() if line.startswith("#"))

    @property
    def links(self) -> list[str]:
        """Targets of links to files and headings of the project."""
        return [target for target in _LINK.findall(self.prose) if "://" not in target]

    def commands(self) -> Iterator[list[str]]:
        """The arguments of every command line of ``reconcile``, in blocks and in prose."""
        lines = [line for block in self.blocks if block.language in SHELL for line in block.text.splitlines()]
        spans = [span for span in codes(self.prose) if span.startswith("reconcile ")]
        for line in [*lines, *spans]:
            words = shlex.split(line.removeprefix("$ "), comments=True) if "reconcile " in line else []
            if words and words[0] == "reconcile":
                yield words[1 : words.index(">") if ">" in words else None]


def pages(*patterns: str) -> list[Page]:
    """Pages whose paths match, in the order of their names."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if ".venv" not in path.parts}
    return [Page(path) for path in sorted(found)]


def codes(text: str) -> list[str]:
    """Everything that stands as code in a line of prose; a bar that a table needs escaped is a bar."""
    return [code.replace("\\|", "|") for code in _CODE.findall(text)]


def anchor(heading: str) -> str:
    """``not-supported-yet`` of ``## Not supported yet``."""
    words = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower())
    return words.replace(" ", "-")


def _blocks(lines: list[str]) -> Iterator[Block]:
    mark, opened, language = "", 0, ""
    for number, line in enumerate(lines, 1):
        if line.startswith("```") and not opened:
            opened, language = number, line[3:].strip()
        elif line.startswith("```"):
            yield Block(language, mark, "\n".join(lines[opened : number - 1]) + "\n", opened)
            mark, opened = "", 0
        elif not opened and line.strip():
            found = _MARK.fullmatch(line.strip())
            mark = found[1] if found else ""


def _without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _rows(lines: list[str]) -> Iterator[Row]:
    mark, here, seen = "", "", 0
    for line in lines:
        if line.startswith("|"):
            seen += 1
            if seen > 2:  # the head and its rule
                cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
                yield Row(mark, here, tuple(cell.strip() for cell in cells))
            continue
        if seen:
            mark, seen = "", 0
        if line.startswith("#"):
            here = anchor(line)
        elif found := _MARK.fullmatch(line.strip()):
            mark = found[1]
