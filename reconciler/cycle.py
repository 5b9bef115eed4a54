"""One pass: read git, look at the hosts, plan, issue what is due, remember. Nothing here waits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from reconciler.errors import Problem, SpecError
from reconciler.journal.remember import remember
from reconciler.model.desired import Desired
from reconciler.model.memory import Memory
from reconciler.model.plan import Action, Outcome, Plan
from reconciler.model.snapshot import Snapshot
from reconciler.planner import Options, plan

Select = Callable[[Action], bool]


class Hands(Protocol):
    """What issues steps: the executor, or nothing at all in a dry run."""

    def apply(self, plan: Plan, snapshot: Snapshot, desired: Desired) -> list[Outcome]:
        """Issue the due steps; an outcome per action that had any."""

    @property
    def busy(self) -> bool:
        """Whether a pull or a stop goes on in the background."""


class Keeper(Protocol):
    """What keeps memory between passes: the journal."""

    def load(self) -> Memory:
        """The memory as it was last saved."""

    def save(self, memory: Memory) -> None:
        """Make it last."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass read, saw, decided and did."""

    desired: Desired
    snapshot: Snapshot
    memory: Memory
    plan: Plan
    outcomes: tuple[Outcome, ...] = ()

    @property
    def errors(self) -> tuple[str, ...]:
        """What went wrong, a line each: failed actions, and work that failed by itself."""
        failed = [f"{out.action.instance} on {out.action.host}: {out.error}" for out in self.outcomes if out.error]
        failed += [f"{one.instance}: {one.reason}" for one in self.plan.waiting if one.failed]
        return tuple(dict.fromkeys(failed))


class Cycle:
    """Everything a pass needs, held between passes. ``read`` may raise SourceError and SpecError."""

    def __init__(
        self,
        read: Callable[[], Desired],
        observe: Callable[[Desired], Snapshot],
        keeper: Callable[[Desired], Keeper],
        *,
        clock: Callable[[], float],
        secrets: Callable[[Desired], Mapping[str, str]],
        allow_prune: Callable[[Desired], bool],
        impatient: bool = False,
    ) -> None:
        """``impatient`` ends every back-off before the first look: somebody asks for another try now."""
        self._read = read
        self._observe = observe
        self._keeper = keeper
        self._clock = clock
        self._secrets = secrets
        self._allow_prune = allow_prune
        self._impatient = impatient
        self._last: tuple[Desired, Snapshot, Memory, Options, Plan] | None = None

    def look(self) -> Pass:
        """Read, observe and plan; changes nothing."""
        return self.look_at(self._read())

    def look_at(self, desired: Desired) -> Pass:
        """Observe and plan for what was read before: what a daemon does while its source cannot be read."""
        snapshot = self._observe(desired)
        memory = self._keeper(desired).load()
        if self._impatient:
            failures = {key: replace(one, retry_at=one.at) for key, one in memory.failures.items()}
            memory, self._impatient = replace(memory, failures=failures), False
        options = Options(self._allow_prune(desired), self._secrets(desired))
        return Pass(desired, snapshot, memory, self._plan(desired, snapshot, memory, options))

    def act(self, seen: Pass, hands: Hands, select: Select) -> Pass:
        """Issue what is due of the selected actions and remember what came of it."""
        if seen.desired.cluster is None and seen.plan.actions:
            raise SpecError(
                [
                    Problem(
                        seen.desired.source,
                        0,
                        0,
                        "a Cluster document is needed to apply: it names labels and containers",
                    )
                ]
            )
        chosen = replace(seen.plan, actions=tuple(filter(select, seen.plan.actions)))
        outcomes: Sequence[Outcome] = hands.apply(chosen, seen.snapshot, seen.desired) if chosen.due else ()
        memory = remember(seen.memory, seen.snapshot, seen.plan, outcomes, self._clock(), desired=seen.desired)
        self._keeper(seen.desired).save(memory)
        return replace(seen, plan=chosen, outcomes=tuple(outcomes))

    def _plan(self, desired: Desired, snapshot: Snapshot, memory: Memory, options: Options) -> Plan:
        """The plan, or the last one when nothing that shapes it is different. Waits and watches depend on the time."""
        timeless = replace(memory, last_seen={})
        last = self._last
        still = not memory.failures and not memory.watches
        if still and last and last[:4] == (desired, snapshot, timeless, options):
            return last[4]
        made = plan(desired, snapshot, memory, self._clock(), options)
        self._last = (desired, snapshot, timeless, options, made)
        return made


def settle(
    cycle: Cycle,
    hands: Hands,
    select: Select,
    *,
    pause: Callable[[], None],
    expired: Callable[[], bool],
    tell: Callable[[Pass], None],
) -> Pass:
    """Repeat passes until nothing is due and nothing is in motion, or the deadline passes; the last pass.

    ``pause`` lets things in motion move on, ``tell`` hears of every pass.
    """
    while True:
        done = cycle.act(cycle.look(), hands, select)
        tell(done)
        moving = done.plan.moving or hands.busy
        progress = any(out.done or out.in_motion for out in done.outcomes)
        if not (moving or progress) or expired():
            return done
        if moving:
            pause()
