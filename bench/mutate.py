"""Resolve mutated spec files and print what became of them: ``python -m bench.mutate [COUNT]``.

Fails when a file ends in anything but an answer or a refusal with a position, or when memory passes the limit.
"""

import resource
import sys
import time
from collections import Counter

from tests.fakes.mutations import judge, mutated

COUNT = 20_000
MOST_MEMORY = 200  # MB of resident memory, at the peak


def main() -> int:
    """Run the given number of mutations (20,000 if none is given)."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    accepted: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    unplaced: list[str] = []
    slowest = 0.0
    began = time.process_time()
    for number in range(count):
        name, data = mutated(number)
        before = time.process_time()
        verdict = judge(data)
        slowest = max(slowest, time.process_time() - before)
        (refused if verdict.problems else accepted)[name] += 1
        unplaced += [f"{number} {name}: {problem}" for problem in verdict.unplaced]
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name in sorted(accepted | refused):
        print(f"{name:10} {accepted[name]:6} accepted {refused[name]:6} refused")
    print(f"{count} files in {seconds:.1f} s of CPU time, slowest {slowest * 1000:.0f} ms, peak {memory:.0f} MB")
    print(f"{len(unplaced)} problems without a position", *unplaced[:20], sep="\n")
    return 0 if not unplaced and memory < MOST_MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
