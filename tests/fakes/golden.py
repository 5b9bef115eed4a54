"""Texts that were read by a person once and must not change unnoticed: ``RECONCILE_GOLDEN=write`` writes them anew."""

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check(name: str, text: str) -> None:
    """Compare ``text`` with the golden file of that name."""
    path = FOLDER / name
    if os.environ.get("RECONCILE_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; read it and write it anew if it should"
