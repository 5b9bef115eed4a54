"""When a pass runs: at once on a hint, else on a timer; and how the daemon leaves.

A pass that fails leaves the daemon running: it says so once, and says when it is over. While the source cannot be read,
the fleet is kept at what was read last, and nothing is pruned.
"""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from reconciler.cycle import Cycle, Hands, Pass, Select
from reconciler.errors import ReconcilerError, SourceError, SpecError
from reconciler.journal.changes import State, acted, changes, state_of
from reconciler.journal.journal import Event
from reconciler.model.desired import Desired

JITTER = 0.1
IN_MOTION = 1.0


class Log(Protocol):
    """Where events go: the log and the history."""

    def __call__(self, events: list[Event], /) -> None:
        """Take the events of one pass."""


class Read(Protocol):
    """Where the newest commit comes from."""

    def __call__(self, *, fresh: bool) -> Desired:
        """What git wants; ``fresh`` asks a remote now. Raises SourceError, SpecError."""


class Daemon:
    """Repeats passes until it is told to stop."""

    def __init__(
        self,
        cycle: Cycle,
        hands: Hands,
        select: Select,
        *,
        read: Read,
        clock: Callable[[], float],
        log: Log,
        interval: float,
    ) -> None:
        """``interval`` is seconds between quiet passes."""
        self._cycle = cycle
        self._hands = hands
        self._select = select
        self._read = read
        self._clock = clock
        self._log = log
        self._interval = interval
        self._desired: Desired | None = None
        self._state: State = {}
        self._trouble = ""
        self._hint = threading.Event()
        self.stopping = threading.Event()

    def hint(self) -> None:
        """Look again at once: bursts collapse into one pass."""
        self._hint.set()

    def stop(self) -> None:
        """Finish the pass in hand and leave."""
        self.stopping.set()
        self._hint.set()

    def run(self) -> None:
        """Repeat passes until ``stop``."""
        while not self.stopping.is_set():
            hinted = self._hint.is_set()
            self._hint.clear()
            done = self.pass_once(fresh=hinted)
            moving = done is not None and (done.plan.moving or self._hands.busy or any(o.done for o in done.outcomes))
            pause = min(IN_MOTION, self._interval) if moving else self._interval
            # Jitter keeps many daemons from asking one git server in step; it decides nothing.
            self._hint.wait(pause * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311

    def pass_once(self, *, fresh: bool = False) -> Pass | None:
        """One pass; None when it could not be made. Never raises what the next pass may cure."""
        try:
            done = self._one(fresh=fresh)
        except ReconcilerError as error:
            self._say_trouble(str(error))
            return None
        except Exception as error:  # noqa: BLE001 -- a fault of ours must not end the daemon either; it is said, whole
            self._say_trouble(f"internal error: {type(error).__name__}: {error}")
            return None
        return done

    def _one(self, *, fresh: bool) -> Pass:
        trouble = ""
        try:
            self._desired = self._read(fresh=fresh)
        except (SourceError, SpecError) as error:
            if self._desired is None:
                raise
            commit = (self._desired.commit or "files")[:12]
            trouble = f"the source cannot be used, {commit} is kept: {error}"
        assert self._desired is not None  # noqa: S101 -- read, or kept from before
        seen = self._cycle.look_at(self._desired)
        done = self._cycle.act(seen, self._hands, self._select)
        self._say(done, trouble)
        return done

    def _say(self, done: Pass, trouble: str) -> None:
        now = self._clock()
        state = state_of(done.desired, done.snapshot, done.plan)
        events = acted(done.outcomes, now) + changes(self._state, state, now)
        self._state = state
        self._say_trouble(trouble)
        if events:
            self._log(events)

    def _say_trouble(self, trouble: str) -> None:
        if trouble == self._trouble:
            return
        line = trouble or "the pass succeeds again"
        self._trouble = trouble
        self._log([Event(self._clock(), "pass", "", "", line)])


@contextmanager
def signals(daemon: Daemon) -> Iterator[None]:
    """SIGTERM and SIGINT leave after the action in hand, SIGHUP looks again at once."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        daemon.stop()

    def look(_signal: int, _frame: FrameType | None) -> None:
        daemon.hint()

    wanted = {signal.SIGTERM: leave, signal.SIGINT: leave, signal.SIGHUP: look}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
