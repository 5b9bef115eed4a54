"""The only user of rich: styled lines for terminals that show colour."""

import io
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from reconciler.report.lines import Line, Style

LOOKS = {
    Style.PLAIN: "",
    Style.BOLD: "bold",
    Style.DIM: "dim",
    Style.ADD: "green",
    Style.REMOVE: "red",
    Style.CHANGE: "yellow",
    Style.WARN: "bold yellow",
}


def colored(lines: Iterable[Line]) -> str:
    """The lines with the terminal's colours. They are text, never markup, and are wrapped already."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        text = Text.assemble(*((span.text, LOOKS[span.style]) for span in line))
        text.rstrip()
        console.print(text)
    return out.getvalue()
