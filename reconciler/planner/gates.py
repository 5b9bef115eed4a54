"""Hosts that take no work, whatever it asks, and hosts that a policy does not want: in words."""

from collections.abc import Sequence

from reconciler.planner.policies import Filter

STATES = {
    "unreachable": ("is unreachable", "are unreachable"),
    "no facts yet": ("has no facts yet", "have no facts yet"),
    "drained": ("is drained", "are drained"),
    "cordoned": ("is cordoned", "are cordoned"),
    "stale facts": ("has stale facts", "have stale facts"),
}
"""The filters that ask nothing of the work but whether it is for a host in that state: of one host, and of several."""


def closed(gates: Sequence[Filter], hosts: int) -> tuple[Filter, ...]:
    """The hosts that the policy wants, by the state that closes them; nothing where one of them is open, or none is."""
    wanted = hosts
    for name, passing in gates:
        if name not in STATES:
            wanted &= passing
    found: list[Filter] = []
    for name, passing in gates:
        if name in STATES and (gone := wanted & ~passing):
            found.append((name, gone))
            wanted &= passing
    return () if wanted else tuple(found)


def turned_away(shut: Sequence[Filter]) -> str:
    """``the only host that may take it is drained``: why there is no host, of those that ``closed`` found, if any."""
    counts = [(name, hosts.bit_count()) for name, hosts in shut]
    total = sum(count for _, count in counts)
    if not total:
        return ""
    if total == 1:
        return f"the only host that may take it {STATES[counts[0][0]][0]}"
    if len(counts) == 1:
        return f"the {total} hosts that may take it {STATES[counts[0][0]][1]}"
    parts = ", ".join(f"{count} {STATES[name][count > 1]}" for name, count in counts)
    return f"of the {total} hosts that may take it, {parts}"


def gate_words(name: str) -> str:
    """What a host lacks that a gate removed, or, beginning with ``it``, what else stands against it."""
    if name in STATES:
        return f"it {STATES[name][0]}"
    if name == "NO_TAG":
        return "it is kept for work that names its tags"
    if name.startswith("MATCH_TAG "):
        return f"the tag {name.removeprefix('MATCH_TAG ')}"
    if name == "ONE_PER_HOST" or name.startswith("MAX_N_PER_HOST"):
        return f"it runs as many as {name} allows"
    return f"it does not pass {name}"


def removed_words(name: str, count: int) -> str:
    """``1 is drained``, ``2 by MATCH_TAG train``: how many hosts a filter removed."""
    return f"{count} {STATES[name][count > 1]}" if name in STATES else f"{count} by {name}"
