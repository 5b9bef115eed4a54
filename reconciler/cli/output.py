"""Where output goes: how wide, in colour or not, as a file."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.config import Settings
from reconciler.errors import UsageError
from reconciler.report.lines import safe


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


def print_text(text: str) -> None:
    """Text that ends in its own newline."""
    sys.stdout.write(text)


def print_json(document: Any) -> None:
    """One JSON document, one spelling."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def complain(line: str) -> None:
    """A line on stderr, harmless to a terminal."""
    print(safe(line), file=sys.stderr)


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
