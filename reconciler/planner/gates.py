"""Every yes-or-no condition of an ask, in order: can the host take anything, may it take this. And each in words."""

from collections.abc import Sequence

from reconciler.model.host import HostState
from reconciler.model.resources import AllGpus
from reconciler.model.snapshot import HostView, Reach
from reconciler.planner.ask import Ask
from reconciler.planner.conditions import Conditions
from reconciler.planner.free import Want
from reconciler.planner.policies import Filter, is_local

STATES = {
    "unreachable": ("is unreachable", "are unreachable"),
    "no facts yet": ("has no facts yet", "have no facts yet"),
    "drained": ("is drained", "are drained"),
    "cordoned": ("is cordoned", "are cordoned"),
    "stale facts": ("has stale facts", "have stale facts"),
}
"""The filters that ask nothing of the work but whether it is for a host in that state: of one host, and of several."""


class Gates:
    """The gates of a fleet; sets of hosts are masks by position."""

    def __init__(self, views: Sequence[HostView], conditions: Conditions) -> None:
        self._conditions = conditions
        self._places = {view.spec.name: place for place, view in enumerate(views)}
        self._every = (1 << len(views)) - 1
        self._steady: dict[int, tuple[Ask, int]] = {}  # by identity of the workload, which is kept with it
        failing = dict.fromkeys(STATES, 0)
        for place, view in enumerate(views):
            failing["unreachable"] |= (view.reach is Reach.UNREACHABLE) << place
            failing["no facts yet"] |= (view.facts is None) << place
            failing["drained"] |= (view.spec.state is HostState.DRAINED) << place
            failing["cordoned"] |= (view.spec.state is HostState.CORDONED) << place
            failing["stale facts"] |= (view.reach is Reach.STALE) << place
        self._states = {name: self._every & ~hosts for name, hosts in failing.items()}

    def scope(self, ask: Ask) -> int:
        """Every host, or the only one that it may be on."""
        if ask.only is None:
            return self._every
        return 1 << self._places[ask.only] if ask.only in self._places else 0

    def all(self, ask: Ask, want: Want) -> list[Filter]:
        """Every condition, as things stand now."""
        gates = self.host_states(ask, want) + self._conditions.policy(ask.instance, ask.workload)
        hosts = passing(self.scope(ask), gates)
        return gates + self._conditions.required(ask.instance, ask.workload, hosts)

    def steady(self, ask: Ask, want: Want) -> int:
        """The hosts that pass every condition that other work cannot change: the same for all of a workload."""
        if ask.home is None and id(ask.workload) in self._steady:
            return self._steady[id(ask.workload)][1]
        gates = self.host_states(ask, want) + self._conditions.policy(ask.instance, ask.workload, counting=False)
        hosts = passing(self.scope(ask), gates)
        if ask.home is None:
            self._steady[id(ask.workload)] = ask, hosts
        return hosts

    def host_states(self, ask: Ask, want: Want) -> list[Filter]:
        """Whether a host can take anything; a local service is for closed hosts too."""
        states = self._states
        names = ["unreachable", "no facts yet"]
        gates = [(name, states[name]) for name in names]
        if not is_local(ask.workload.policy):
            home = self._places.get(ask.home or "")
            allowed = 1 << home if ask.in_place and home is not None else 0
            gates += [("drained", states["drained"]), ("cordoned", states["cordoned"] | allowed)]
        if want.pieces or isinstance(want.gpus, AllGpus):
            gates.append(("stale facts", states["stale facts"]))
        return gates


def passing(hosts: int, gates: Sequence[Filter]) -> int:
    """Those of ``hosts`` that pass all of ``gates``."""
    for _, mask in gates:
        hosts &= mask
    return hosts


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
