"""Hosts by equal free state: one class each, and one fit for each class and kind of request.

This is the seam for a faster search: ``best`` may be answered from heaps without anything else knowing.
"""

from collections.abc import Iterator, Sequence

from reconciler.planner.fit import Offer, fit
from reconciler.planner.free import Free, HostKind, NodeFree, Want
from reconciler.planner.lacks import Lack


class Index:
    """Classes of hosts. A set of hosts is a bit mask over their positions; the lowest position wins a tie."""

    def __init__(self, kinds: Sequence[HostKind]) -> None:
        """``kinds`` holds the kind of each host, by position."""
        numbers: dict[HostKind, int] = {}
        self._kind_of = [numbers.setdefault(kind, len(numbers)) for kind in kinds]
        self._kinds = list(numbers)
        self._states: list[Free] = []
        self._numbers: dict[Free, int] = {}
        self._members: dict[int, int] = {}
        self._class_of: list[int | None] = [None] * len(kinds)
        self._answers: dict[Want, dict[int, Offer | Lack]] = {}

    def update(self, place: int, memory: int, nodes: tuple[NodeFree, ...]) -> None:
        """Host ``place`` now has this left."""
        before = self._class_of[place]
        if before is not None:
            self._leave(place, before)
        free = Free(self._kind_of[place], memory, nodes)
        number = self._numbers.setdefault(free, len(self._states))
        if number == len(self._states):
            self._states.append(free)
        self._members[number] = self._members.get(number, 0) | 1 << place
        self._class_of[place] = number

    def kind(self, place: int) -> HostKind:
        """The kind of host ``place``."""
        return self._kinds[self._kind_of[place]]

    def kinds(self, hosts: int) -> tuple[HostKind, ...]:
        """The kinds among ``hosts``, each once."""
        found = {self._states[number].kind_id for number, members in self._members.items() if members & hosts}
        return tuple(self._kinds[number] for number in sorted(found))

    def free(self, place: int) -> Free:
        """What host ``place`` has left. Every host has been told of before any is asked for."""
        number = self._class_of[place]
        if number is None:
            raise LookupError(f"host {place} has not been counted")
        return self._states[number]

    def answers(self, want: Want, hosts: int) -> Iterator[tuple[int, Offer | Lack]]:
        """Every class with members among ``hosts``: those members, and what they say to ``want``."""
        known = self._answers.setdefault(want, {})
        for number, members in self._members.items():
            among = members & hosts
            if among:
                answer = known.get(number)
                if answer is None:
                    free = self._states[number]
                    answer = known[number] = fit(free, self._kinds[free.kind_id], want)
                yield among, answer

    def best(self, want: Want, hosts: int) -> tuple[int, Offer, int] | None:
        """The best host among ``hosts``, its offer, and how many fit; None when none does."""
        found: tuple[tuple[int, ...], int] | None = None
        chosen: Offer | None = None
        fitting = 0
        for among, answer in self.answers(want, hosts):
            if isinstance(answer, Lack):
                continue
            fitting += among.bit_count()
            key = (answer.score, (among & -among).bit_length() - 1)
            if found is None or key < found:
                found, chosen = key, answer
        return (found[1], chosen, fitting) if found and chosen else None

    def _leave(self, place: int, number: int) -> None:
        rest = self._members[number] & ~(1 << place)
        if rest:
            self._members[number] = rest
        else:
            del self._members[number]
