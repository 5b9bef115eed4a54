"""Lines for people: styled words that are wrapped here, once, for terminals and pipes alike.

Colour is added last (``report.terminal``), so that what a pipe gets is what a terminal shows. Text from outside is made
harmless on its way in: control characters and marks that turn the direction of writing are spelled out.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u2028\u2029")


class Style(StrEnum):
    """What a piece of text means; how it looks is the terminal's business."""

    PLAIN = ""
    BOLD = "bold"
    DIM = "dim"
    ADD = "add"
    REMOVE = "remove"
    CHANGE = "change"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text in one style."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]
Part = str | Span


def safe(text: str) -> str:
    """``text`` on one line, with nothing in it that a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(_spelled(char) for char in text)


def _spelled(char: str) -> str:
    if char in TURNING or unicodedata.category(char) in {"Cc", "Cs"}:
        return char.encode("unicode_escape").decode()
    return char


def cells(text: str) -> int:
    """Columns that ``text`` takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def line_of(parts: Iterable[Part]) -> Line:
    """Parts as spans, made safe; empty ones left out."""
    spans = (Span(part) if isinstance(part, str) else part for part in parts)
    return tuple(Span(safe(span.text), span.style) for span in spans if span.text)


def plain(line: Line) -> str:
    """The line without styles and without space at its end."""
    return "".join(span.text for span in line).rstrip()


def wrap(line: Line, width: int | None, hang: int) -> list[Line]:
    """The line in pieces of at most ``width`` columns, later ones indented by ``hang``; broken at spaces only.

    A word that is longer than a line stands alone and is not cut: people copy UUIDs.
    """
    if width is None or cells(plain(line)) <= width:
        return [line]
    out: list[list[Span]] = [[]]
    used, fresh = 0, True
    for word in _words(line):
        size = cells(word.text.rstrip())
        if used + size > width and not fresh:
            out.append([Span(" " * hang)])
            used, fresh = hang, True
            word = Span(word.text.lstrip(), word.style)  # noqa: PLW2901 - a space at a break is the break
        out[-1].append(word)
        used += cells(word.text)
        fresh = fresh and not word.text.strip()
    return [tuple(piece) for piece in out]


def _words(line: Line) -> Iterable[Span]:
    """Words with the space that follows each; leading space is a word of its own."""
    for span in line:
        start = 0
        for at in range(1, len(span.text) + 1):
            if at == len(span.text) or (span.text[at - 1] == " " and span.text[at] != " "):
                yield Span(span.text[start:at], span.style)
                start = at


class Page:
    """Lines as they are written."""

    def __init__(self, width: int | None = None) -> None:
        self.width = width
        self.lines: list[Line] = []

    def add(self, *parts: Part, indent: int = 0, hang: int | None = None) -> None:
        """One line, wrapped to the page's width; what is wrapped is indented by ``hang`` (default: indent + 2)."""
        line = line_of((" " * indent, *parts))
        self.lines += wrap(line, self.width, indent + 2 if hang is None else hang)

    def blank(self) -> None:
        """An empty line, never two in a row and never the first."""
        if self.lines and self.lines[-1]:
            self.lines.append(())

    def field(self, name: str, *parts: Part, indent: int, label: int = 8) -> None:
        """``name`` and its value, values under one another."""
        self.add(Span(name.ljust(label), Style.DIM), *parts, indent=indent, hang=indent + label)

    def table(self, rows: Sequence[Sequence[Part]], indent: int = 0) -> None:
        """Rows in columns; the first row is the head. Too wide for the page, the widest columns are wrapped."""
        grid = [[line_of((cell,)) for cell in row] for row in rows]
        widths = _fit(grid, self.width, indent)
        for row in grid:
            self._row([wrap(cell, size, 0) for cell, size in zip(row, widths, strict=True)], widths, indent)

    def _row(self, row: list[list[Line]], widths: list[int], indent: int) -> None:
        for at in range(max(len(cell) for cell in row)):
            spans: list[Span] = [Span(" " * indent)]
            for cell, size in zip(row, widths, strict=True):
                piece = cell[at] if at < len(cell) else ()
                spans += piece
                spans.append(Span(" " * (size - cells("".join(span.text for span in piece)) + GAP)))
            self.lines.append(tuple(spans))

    def text(self, *, color: bool = False) -> str:
        """The page, ending in a newline; with ``color`` for a terminal that can show it."""
        while self.lines and not self.lines[-1]:
            self.lines.pop()
        if color:
            from reconciler.report.terminal import colored  # noqa: PLC0415 - rich costs 90 ms that pipes need not pay

            return colored(self.lines)
        return "".join(f"{plain(line)}\n" for line in self.lines)


GAP = 2


def _fit(grid: list[list[Line]], width: int | None, indent: int) -> list[int]:
    """Column widths: natural ones, the widest made narrower until the row fits. No column cuts a word."""
    columns = [[plain(cell) for cell in column] for column in zip(*grid, strict=True)]
    widths = [max(map(cells, column)) for column in columns]
    if width is None:
        return widths
    floors = [max((cells(word) for text in column for word in text.split()), default=0) for column in columns]
    room = width - indent - GAP * (len(widths) - 1)
    while sum(widths) > room:
        wide = [at for at, size in enumerate(widths) if size > floors[at]]
        if not wide:
            break
        widths[max(wide, key=lambda at: widths[at])] -= 1
    return widths
