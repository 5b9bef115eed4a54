"""Conditions that depend on where other work is: at most N per host, spread, affinity and its opposite, soft wishes.

Sets of hosts are bit masks by position; every condition is one mask, so that "why not" is a count of bits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from reconciler.model.placement import Affinity, Composite, MaxPerHost, Policy, Spread
from reconciler.model.snapshot import HostView
from reconciler.model.workload import InstanceId, Workload
from reconciler.planner.policies import Filter, Policies

HOST = "host"


class Conditions:
    """Counts the instances of each workload by host, and answers which hosts may take one more."""

    def __init__(self, views: Sequence[HostView], policies: Policies, workloads: Iterable[Workload] = ()) -> None:
        """``workloads`` are all that git wants: what keeps apart from others does so in both directions."""
        self._policies = policies
        self._every = (1 << len(views)) - 1
        self._labels = [{**dict(view.spec.labels), HOST: view.spec.name} for view in views]
        self._values: dict[str, tuple[tuple[str, int], ...]] = {}
        self._hosts: dict[InstanceId, Counter[int]] = {}
        self._at_least: dict[str, dict[int, int]] = {}
        self._apart: dict[str, list[tuple[str, str]]] = {}
        self._targets: set[str] = set()
        for workload in workloads:
            for one in workload.affinity:
                self._targets.add(one.workload)
                if one.apart and one.required:
                    self._apart.setdefault(one.workload, []).append((workload.identity, one.by))

    # -- the count

    def add(self, workload: str, instance: InstanceId, host: int) -> None:
        """One more container of ``instance`` is on ``host``."""
        on = self._hosts.setdefault(instance, Counter())
        on[host] += 1
        if on[host] == 1:
            masks, count = self._at_least.setdefault(workload, {}), self._count(workload, host) + 1
            masks[count] = masks.get(count, 0) | 1 << host

    def remove(self, workload: str, instance: InstanceId, host: int) -> None:
        """One less."""
        on = self._hosts[instance]
        on[host] -= 1
        if not on[host]:
            del on[host]
            self._at_least[workload][self._count(workload, host)] &= ~(1 << host)

    def depends(self, workload: Workload) -> bool:
        """Whether the place of one instance has a say in where others go."""
        own = bool(workload.spread or workload.affinity) or _counts(workload.policy)
        return own or workload.identity in self._targets or workload.identity in self._apart

    # -- conditions

    def policy(self, instance: InstanceId, workload: Workload, *, counting: bool = True) -> list[Filter]:
        """The conditions of the placement policy; without ``counting`` those that no other instance changes."""
        if not counting:
            return self._policies.filters(workload, lambda _: 0)
        return self._policies.filters(workload, lambda most: self._full(instance, workload.identity, most))

    def required(self, instance: InstanceId, workload: Workload, hosts: int) -> list[Filter]:
        """Affinity and spread that must hold; ``hosts`` are those that may take the work otherwise."""
        out = [
            (affinity_name(one), self._affinity(instance, workload, one)) for one in workload.affinity if one.required
        ]
        for other, by in self._apart.get(workload.identity, ()):
            if other != workload.identity:
                away = self._every & ~self._around(other, by, None)
                out.append((f"antiAffinity of {other} by {by}", away))
        out += [
            (spread_name(one), self._spread(instance, workload, one, hosts)) for one in workload.spread if one.required
        ]
        return out

    def levels(self, instance: InstanceId, workload: Workload, hosts: int) -> tuple[int, ...]:
        """``hosts`` by how far they meet the soft wishes of a workload, best first."""
        groups = {0: hosts}
        for preference in workload.prefer:
            groups = _worth(groups, self._meets(preference.policy, workload), preference.weight)
        for one in workload.affinity:
            if not one.required:
                groups = _worth(groups, self._affinity(instance, workload, one), one.weight)
        for spread in workload.spread:
            if not spread.required:
                for mask, more in self._counts(instance, workload, spread, hosts):
                    groups = _worth(groups, mask, -spread.weight * more)
        return tuple(groups[worth] for worth in sorted(groups, reverse=True) if groups[worth])

    def _full(self, instance: InstanceId, workload: str, most: int) -> int:
        """Hosts with so many other instances of a workload: an instance does not stand in its own way."""
        masks = self._at_least.get(workload, {})
        full = masks.get(most, 0)
        return full & ~(self._own(instance) & ~masks.get(most + 1, 0)) if full else 0

    def _count(self, workload: str, host: int) -> int:
        """How many instances of a workload a host has."""
        return sum(mask >> host & 1 for mask in self._at_least.get(workload, {}).values())

    def _own(self, instance: InstanceId) -> int:
        """The hosts of one instance: more than one while it moves."""
        return sum(1 << host for host in self._hosts.get(instance, ()))

    def _meets(self, policy: Policy, workload: Workload) -> int:
        mask = self._every
        for _, passing in self._policies.parts(policy, workload):
            mask &= passing
        return mask

    def _groups(self, by: str) -> tuple[tuple[str, int], ...]:
        """(value, hosts) of a label, by value; hosts without it are in none."""
        if by not in self._values:
            masks: dict[str, int] = {}
            for place, labels in enumerate(self._labels):
                if by in labels:
                    masks[labels[by]] = masks.get(labels[by], 0) | 1 << place
            self._values[by] = tuple(sorted(masks.items()))
        return self._values[by]

    def _around(self, workload: str, by: str, but: InstanceId | None) -> int:
        """Hosts of every value of a label where ``workload`` has an instance other than ``but``."""
        masks = self._at_least.get(workload, {})
        places = masks.get(1, 0)
        if but is not None and but.workload == workload:
            places &= ~(self._own(but) & ~masks.get(2, 0))
        if by == HOST:
            return places
        return sum(mask for _, mask in self._groups(by) if mask & places)

    def _affinity(self, instance: InstanceId, workload: Workload, one: Affinity) -> int:
        around = self._around(one.workload, one.by, instance)
        if one.apart:
            return self._every & ~around
        if not around and one.workload == workload.identity:
            return self._every  # the first of a workload that keeps together goes anywhere
        return around

    def _counts(self, instance: InstanceId, workload: Workload, spread: Spread, hosts: int) -> list[tuple[int, int]]:
        """(hosts, instances beyond the least) of each value of the label that ``hosts`` have."""
        masks = self._at_least.get(workload.identity, {}).values()
        own = self._own(instance)
        counts = []
        for _, mask in self._groups(spread.by):
            if mask & hosts:
                there = sum((at_least & mask).bit_count() for at_least in masks)
                counts.append((mask, there - (own & mask).bit_count()))
        least = min((count for _, count in counts), default=0)
        return [(mask, count - least) for mask, count in counts]

    def _spread(self, instance: InstanceId, workload: Workload, spread: Spread, hosts: int) -> int:
        counts = self._counts(instance, workload, spread, hosts)
        return sum(mask for mask, more in counts if more + 1 <= spread.max_skew)


def affinity_name(one: Affinity) -> str:
    """As it stands in reports: ``affinity to app/cache by rack``."""
    return f"{'antiAffinity' if one.apart else 'affinity'} to {one.workload} by {one.by}"


def spread_name(one: Spread) -> str:
    """As it stands in reports: ``spread by rack``."""
    return f"spread by {one.by}"


def _worth(groups: Mapping[int, int], mask: int, weight: int) -> dict[int, int]:
    out: dict[int, int] = {}
    for worth, hosts in groups.items():
        for value, part in ((worth + weight, hosts & mask), (worth, hosts & ~mask)):
            if part:
                out[value] = out.get(value, 0) | part
    return out


def _counts(policy: Policy) -> bool:
    if isinstance(policy, Composite):
        return any(_counts(part) for part in policy.policies)
    return isinstance(policy, MaxPerHost)
