"""Where output goes: how wide, in colour or not, as a file."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from reconciler.config import Settings
from reconciler.errors import OutputError, UsageError
from reconciler.report.lines import safe

if TYPE_CHECKING:
    from reconciler.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Screen:
    """Columns (None: as long as they are) and whether colour is wanted."""

    width: int | None
    color: bool


def screen(settings: Settings, environ: Mapping[str, str] = os.environ) -> Screen:
    """The screen behind stdout. A pipe is not wrapped; ``NO_COLOR`` and ``TERM=dumb`` are honoured."""
    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns if terminal else None
    color = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Screen(settings.width or columns, color)


def shown_source(settings: Settings, plan: "Plan") -> "Plan":
    """The plan with the path of its folder where that was named by dots alone: a saved text tells what was planned."""
    named = settings.repo
    if not named or Path(named).name not in {"", ".."} or not Path(named).is_dir():
        return plan
    path = os.path.abspath(named)  # noqa: PTH100 - resolve() would follow links, and people know the link's name
    whole = path if plan.source == named else plan.source.replace(f" of {named} ", f" of {path} ")
    return replace(plan, source=whole)


def print_text(text: str) -> None:
    """Text that ends in its own newline, written at once: what is done next may take long. Raises OutputError."""
    with writing():
        sys.stdout.write(text)
        sys.stdout.flush()


def print_json(document: Any) -> None:
    """One JSON document, one spelling. Raises OutputError."""
    print_text(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def writing() -> Iterator[None]:
    """A full disk as an OutputError; a reader that has left stays a BrokenPipeError, which is no fault."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write the output: {error.strerror or error}") from None


def complain(line: str) -> None:
    """A line on stderr, harmless to a terminal. Where stderr cannot be written nobody is left to be told."""
    try:
        print(safe(line), file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Send what is left in a stream nowhere: the interpreter writes it once more when it ends, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_file(name: str, text: str) -> None:
    """Write a whole file or none. Raises UsageError when it cannot be written."""
    path = Path(name)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half.write_text(text, encoding="utf-8")
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise UsageError(f"{name}: cannot be written: {error.strerror}") from None


def read_file(name: str) -> str:
    """The text of a file. Raises UsageError."""
    try:
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not text: {error}") from None
