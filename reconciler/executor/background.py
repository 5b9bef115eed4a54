"""Engine calls that outlast a pass: pulls, and stops with grace. At most one per key; the result waits to be taken."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reconciler.errors import ReconcilerError

Key = tuple[str, str, str]
"""(``pull``, host, image) or (``stop``, host, container id)."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Job:
    """One call: running until ``over`` is set; ``error`` is what it ended in, None when all went well."""

    key: Key
    work: Callable[[], None]
    over: threading.Event = field(default_factory=threading.Event)
    error: ReconcilerError | None = None


class Jobs:
    """Runs jobs in daemon threads that end when there is nothing to do; safe to use from any thread.

    ``at_once`` limits how many jobs of a kind (the key's first part) run together: pulls from a slow registry must not
    keep stops waiting.
    """

    def __init__(self, at_once: Mapping[str, int]) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._jobs: dict[Key, Job] = {}
        self._waiting: dict[str, deque[Job]] = {kind: deque() for kind in at_once}
        self._threads: dict[str, int] = dict.fromkeys(at_once, 0)

    def get(self, key: Key) -> Job | None:
        """The job of that key, running or over."""
        with self._lock:
            return self._jobs.get(key)

    def ensure(self, key: Key, work: Callable[[], None]) -> Job:
        """The job of that key; begun now when there is none."""
        kind = key[0]
        with self._lock:
            if key in self._jobs:
                return self._jobs[key]
            job = self._jobs[key] = Job(key, work)
            self._waiting[kind].append(job)
            if self._threads[kind] < self._at_once[kind]:
                self._threads[kind] += 1
                threading.Thread(target=self._work, args=(kind,), name=f"{kind} jobs", daemon=True).start()
        return job

    def take(self, key: Key) -> None:
        """Forget the result of a job that is over."""
        with self._lock:
            job = self._jobs.get(key)
            if job is not None and job.over.is_set():
                del self._jobs[key]

    def keep_only(self, keys: frozenset[Key]) -> None:
        """Forget results that nobody asks for any more."""
        with self._lock:
            self._jobs = {key: job for key, job in self._jobs.items() if key in keys or not job.over.is_set()}

    @property
    def running(self) -> frozenset[Key]:
        """Keys of the jobs that are not over."""
        with self._lock:
            return frozenset(key for key, job in self._jobs.items() if not job.over.is_set())

    def finish(self, kind: str) -> None:
        """Wait until every job of a kind is over."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if job.key[0] == kind]
        for job in jobs:
            job.over.wait()

    def _work(self, kind: str) -> None:
        while True:
            with self._lock:
                if not self._waiting[kind]:
                    self._threads[kind] -= 1
                    return
                job = self._waiting[kind].popleft()
            try:
                job.work()
            except ReconcilerError as error:
                job.error = error
            except Exception as error:  # noqa: BLE001 - a fault of ours fails this job, aloud, and no other
                _log.exception("%s %s on %s failed", job.key[0], job.key[2], job.key[1])
                job.error = ReconcilerError(f"internal error: {type(error).__name__}: {error}")
            finally:
                job.over.set()
