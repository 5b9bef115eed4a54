"""CPU of whole ``reconcile`` commands beside that of bare Python: ``python -m bench.startup [RUNS]``.

``first`` is a dry run that finds nothing kept from an earlier one, ``again`` one of a commit that was planned before.
The state directory and a clone of this repository are made for it; children (git) are counted.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 9
ROOT = Path(__file__).parent.parent
LIMITS = {"--help": 150, "dry run of examples/repo, first": 500, "dry run of examples/repo, again": 500}


def main() -> int:
    """Measure and print; 1 when a limit is missed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder / "clone")], check=True)
        repo = str(folder / "clone" / "examples" / "repo")
        command = [sys.executable, "-c", "import sys; from reconciler.cli.main import main; sys.exit(main())"]
        dry = [*command, "--repo", repo, "--dry-run", "--state-dir"]
        bare = measure([[sys.executable, "-c", "pass"]] * (runs + 1), warm=1)
        found = {
            "--help": measure([[*command, "--help"]] * (runs + 1), warm=1),
            "dry run of examples/repo, first": measure(
                [[*dry, str(folder / f"s{run}")] for run in range(-1, runs)], warm=1
            ),
            "dry run of examples/repo, again": measure([[*dry, str(folder / "s0")]] * (runs + 1), warm=1),
        }
    print(f"CPU in ms, children included, {runs} runs each; bare Python: median {statistics.median(bare):.0f}")
    late = False
    for what, times in found.items():
        middle = statistics.median(times)
        late |= middle > LIMITS[what]
        ratio = middle / statistics.median(bare)
        print(f"  {what:<32} min {min(times):4.0f}  median {middle:4.0f}  max {max(times):4.0f}"
              f"  {ratio:5.1f} x bare Python  (limit {LIMITS[what]})")  # fmt: skip
    return int(late)


def measure(commands: list[list[str]], *, warm: int) -> list[float]:
    """CPU of each command in milliseconds; the first ``warm`` are run and not counted."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    out = []
    for command in commands:
        before = used()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT)
        out.append((used() - before) * 1000)
    return out[warm:]


def used() -> float:
    """CPU seconds of all children so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
