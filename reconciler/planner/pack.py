"""The packing engine: which host takes a want best, over hosts grouped by equal free state.

Hosts are positions 0..n-1 and sets of hosts are bit masks: bit N stands for host N. Free states and wants are
opaque small integers of the caller. Hosts with equal state form one class, so a want is scored once per class and
not once per host. Each want keeps the classes that it fits in a list sorted by score, and brings it up to date from
the unread tail of one log of the states that gained a member.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NewType

Score = tuple[int, ...]
Fit = tuple[Score, int]
Step = Callable[[int, int], Fit | None]
Mark = NewType("Mark", int)

LOG = 1 << 16  # entries of the log before it starts anew


class _Ranking:
    """The classes that fit one want, best first, within one static mask."""

    __slots__ = ("fits", "known", "mask", "order", "read")

    def __init__(self, fits: dict[int, Fit | None], mask: int | None) -> None:
        self.fits = fits
        self.mask = mask  # None: every host, which saves the AND
        self.order: list[tuple[Score, int]] = []
        self.known: set[int] = set()  # the states in order
        self.read = -1  # entries of the log read; -1: not even the classes there were at first


class Pack:
    """Hosts and what is free on them; wants are placed one at a time, best score first, and can be taken back.

    ``step(state, want)`` gives the score (a tuple, lowest wins) and the state after, or None where the want does not
    fit. It must be pure: its answers are kept. Equal scores go to the lowest host, so nothing depends on how the
    caller numbers its states.
    """

    def __init__(self, states: Sequence[int], step: Step, static: Iterable[int] = ()) -> None:
        """Start from the state of each host; each mask in ``static`` gets rankings of its own, others share."""
        self._step = step
        self._states = list(states)
        self.hosts = len(self._states)
        self.every = (1 << len(self._states)) - 1
        self._static = set(static)
        self._members: dict[int, int] = {}  # of the live classes, never empty
        self._log: list[int] = []
        self._dropped = 0  # entries of the log
        self._fits: dict[int, dict[int, Fit | None]] = {}
        self._rankings: dict[int | tuple[int, int], _Ranking] = {}
        self._moves: list[tuple[int, int]] = []  # (host, state before)
        for host, state in enumerate(self._states):
            self._members[state] = self._members.get(state, 0) | 1 << host

    def fit(self, state: int, want: int) -> Fit | None:
        """What ``step`` says, worked out once."""
        fits = self._fits.setdefault(want, {})
        if state not in fits:
            fits[state] = self._step(state, want)
        return fits[state]

    def state(self, host: int) -> int:
        """The free state of one host."""
        return self._states[host]

    def set(self, host: int, state: int) -> None:
        """Give a host another free state, from outside; ``undo`` takes it back too."""
        self._moves.append((host, self._states[host]))
        self._move(host, state)

    def mark(self) -> Mark:
        """A point to come back to; marks nest."""
        return Mark(len(self._moves))

    def undo(self, mark: Mark) -> None:
        """Take back everything since ``mark``; marks made after it are void."""
        before = dict(reversed(self._moves[mark:]))  # of several moves of a host the first one stays
        del self._moves[mark:]
        for host, state in before.items():
            if self._states[host] != state:
                self._move(host, state)

    def place(self, want: int, levels: Sequence[int]) -> int | None:
        """Put one want on the best host of the first level that has one, and say which; None if none fits."""
        for mask in levels:
            ranking = self._ranking(want, mask)
            found = self._first(ranking, mask)
            if found is not None:
                host = found[1]
                before = self._states[host]
                self._moves.append((host, before))
                fit = ranking.fits[before]
                assert fit is not None  # noqa: S101 - only fits are ranked
                self._move(host, fit[1])
                return host
        return None

    def together(self, wants: Sequence[int], levels: Sequence[int], most: int) -> int | None:
        """Put several wants on one host, the best one for the first of them that can take all.

        Only the ``most`` best classes of each level are looked at. All or none are placed.
        """
        for mask in levels:
            order = self._ranking(wants[0], mask).order
            seen = 0
            for _, state in order:
                hosts = self._members.get(state, 0) & mask
                if not hosts:
                    continue
                chain = self._chain(state, wants)
                if chain is not None:
                    host = _lowest(hosts)
                    self.set(host, chain)
                    return host
                seen += 1
                if seen == most:
                    break
        return None

    def _chain(self, state: int, wants: Iterable[int]) -> int | None:
        """The state after all of the wants, or None."""
        for want in wants:
            fits = self._fits.setdefault(want, {})
            if state not in fits:
                fits[state] = self._step(state, want)
            fit = fits[state]
            if fit is None:
                return None
            state = fit[1]
        return state

    def best(self, want: int, levels: Sequence[int]) -> tuple[Score, int] | None:
        """The score and host that ``place`` would choose."""
        for mask in levels:
            found = self._first(self._ranking(want, mask), mask)
            if found is not None:
                return found
        return None

    def offers(self, want: int, hosts: int, most: int) -> list[tuple[Score, int]]:
        """At most ``most`` hosts of a mask that fit a want, with their scores, best first."""
        ranked = ((score, host) for score, mask in self._groups(want, hosts) for host in bits(mask))
        return list(islice(ranked, most))

    def count(self, want: int, hosts: int, most: int) -> int:
        """How many of a mask of hosts fit a want; counting ends at ``most``."""
        found = 0
        for _, mask in self._groups(want, hosts):
            found += mask.bit_count()
            if found >= most:
                return most
        return found

    def classes(self, hosts: int) -> Iterator[tuple[int, int]]:
        """The states of a mask of hosts, each with the hosts in it."""
        for state, members in self._members.items():
            if members & hosts:
                yield state, members & hosts

    def fitting(self, want: int, hosts: int) -> int:
        """Those of a mask of hosts that fit a want."""
        found = 0
        for _, mask in self._groups(want, hosts):
            found |= mask
        return found

    def _move(self, host: int, state: int) -> None:
        members = self._members
        bit = 1 << host
        before = self._states[host]
        left = members[before] ^ bit
        if left:
            members[before] = left
        else:
            del members[before]
        members[state] = members.get(state, 0) | bit
        self._states[host] = state
        self._log.append(state)
        if len(self._log) > LOG:
            self._dropped += len(self._log)
            self._log.clear()

    def _ranking(self, want: int, mask: int) -> _Ranking:
        own = mask != self.every and mask in self._static
        ranking = self._rankings.get((want, mask) if own else want)
        if ranking is None:
            ranking = _Ranking(self._fits.setdefault(want, {}), mask if own else None)
            self._rankings[(want, mask) if own else want] = ranking
        if ranking.read != self._dropped + len(self._log):
            self._refresh(ranking, want)
        return ranking

    def _refresh(self, ranking: _Ranking, want: int) -> None:
        """Rank the states that gained a member since, or all live ones where those are fewer."""
        log, start = self._log, ranking.read - self._dropped
        ranking.read = self._dropped + len(log)
        fresh = log[start:] if start >= 0 and len(log) - start <= len(self._members) else list(self._members)
        known, fits, members = ranking.known, ranking.fits, self._members
        for state in fresh:
            if state in known or state not in members:
                continue
            if state in fits:
                fit = fits[state]
            else:
                fit = fits[state] = self._step(state, want)
            if fit is not None:
                known.add(state)
                insort(ranking.order, (fit[0], state))

    def _first(self, ranking: _Ranking, mask: int) -> tuple[Score, int] | None:
        """The best score within the mask and the lowest host that has it; classes that went empty are dropped."""
        order, members, at = ranking.order, self._members, 0
        everywhere, owned = mask == self.every, ranking.mask is not None
        while at < len(order):
            score, state = order[at]
            live = members.get(state, 0)
            hosts = live if everywhere else live & mask
            if hosts:
                return score, _lowest(hosts | self._ties(order, at, mask))
            if owned or not live:
                del order[at]
                ranking.known.discard(state)
            else:
                at += 1
        return None

    def _ties(self, order: list[tuple[Score, int]], at: int, mask: int) -> int:
        """The hosts in the mask of the classes after ``at`` that have the same score."""
        score, hosts = order[at][0], 0
        for other, state in islice(order, at + 1, None):
            if other != score:
                break
            hosts |= self._members.get(state, 0) & mask
        return hosts

    def _groups(self, want: int, hosts: int) -> Iterator[tuple[Score, int]]:
        """The hosts of a mask that fit a want, by equal score, best first."""
        order = self._ranking(want, self.every).order
        at = 0
        while at < len(order):
            score, mask = order[at][0], 0
            while at < len(order) and order[at][0] == score:
                mask |= self._members.get(order[at][1], 0) & hosts
                at += 1
            if mask:
                yield score, mask


def bits(mask: int) -> Iterator[int]:
    """The positions of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
