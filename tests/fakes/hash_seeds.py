"""The same script in two interpreters that order sets differently."""

import os
import subprocess
import sys
from pathlib import Path


def answers(script: str) -> list[str]:
    """What ``script`` prints under either of two hash seeds, run from the root of the repository."""
    root = Path(__file__).parent.parent.parent
    return [
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
