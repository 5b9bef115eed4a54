"""What a simulated container's process does: a function of its record and the time, so nothing has to run.

Programs that end: ``true``, ``false``, ``echo``, ``sleep SECONDS`` and ``sh -c "exit CODE"``. Every other one runs
until it is stopped. In the container's environment, ``SIM_EXIT=CODE`` makes it end with that code, at once or after
``SIM_EXIT_AFTER=SECONDS``; ``SIM_HEALTH`` is what its health check finds (``healthy`` unless it says ``starting`` or
``unhealthy``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]

_FIRST_DELAY, _LONGEST_DELAY, _LONG_RUN = 0.1, 60.0, 10.0  # Docker's restart back-off; a long run resets it
_KILLED, _TERMINATED = 137, 143


@dataclass(frozen=True, slots=True)
class Life:
    """State of a container at one moment. Times are seconds since the epoch, None where they never came."""

    status: str
    exit_code: int = 0
    started: float | None = None
    finished: float | None = None
    restarts: int = 0
    health: str = ""

    @property
    def running(self) -> bool:
        """As the Engine counts it: a restarting container is running."""
        return self.status in {"running", "restarting"}


def life(record: Record, now: float) -> Life:
    """State of the container that ``record`` describes, at ``now``."""
    if record["started"] is None:
        return Life("created", record["errorCode"])
    if record["stopped"] is not None:
        stopped = record["stopped"]
        return Life(
            "exited", stopped["code"], record["started"], stopped["at"], record["restarts"], _health(record, ended=True)
        )
    ending = _ending(record)
    if ending is None:
        return Life("running", 0, record["started"], record["finished"], record["restarts"], _health(record))
    return _repeated(record, now, *ending)


def stop_code(record: Record) -> int:
    """Exit code after a stop: as process 1 a program ignores the signal and is killed; an init hands it on."""
    return _TERMINATED if record["body"].get("HostConfig", {}).get("Init") else _KILLED


def argv(record: Record) -> list[str]:
    """Entry point and arguments, as lists."""
    body = record["body"]
    return [*as_list(body.get("Entrypoint")), *as_list(body.get("Cmd"))] or ["sh"]


def as_list(value: Any) -> list[str]:
    """The Engine takes a string or a list."""
    return [value] if isinstance(value, str) else list(value or ())


def environment(record: Record) -> dict[str, str]:
    """The container's variables."""
    return dict(entry.partition("=")[::2] for entry in record["body"].get("Env") or ())


def _repeated(record: Record, now: float, code: int, lasts: float) -> Life:
    """A process that ends by itself, again and again if the restart policy says so."""
    begun, delay, restarts = record["started"], _FIRST_DELAY, 0
    while now >= (ended := begun + lasts):
        if not _restarts(record, code, restarts):
            return Life("exited", code, begun, ended, record["restarts"] + restarts, _health(record, ended=True))
        again = ended + delay
        if now < again:
            return Life("restarting", code, begun, ended, record["restarts"] + restarts, _health(record, ended=True))
        steady = delay == (_FIRST_DELAY if lasts >= _LONG_RUN else _LONGEST_DELAY)
        rounds = max(1, int((now - begun) // (lasts + delay))) if steady and not _limit(record) else 1
        begun += rounds * (lasts + delay)
        restarts += rounds
        delay = _FIRST_DELAY if lasts >= _LONG_RUN else min(2 * delay, _LONGEST_DELAY)
    finished = begun if restarts else record["finished"]
    return Life("running", 0, begun, finished, record["restarts"] + restarts, _health(record))


def _restarts(record: Record, code: int, restarts: int) -> bool:
    policy = (record["body"].get("HostConfig", {}).get("RestartPolicy") or {}).get("Name") or "no"
    if policy == "on-failure":
        return code != 0 and (not _limit(record) or restarts < _limit(record))
    return policy in {"always", "unless-stopped"}


def _limit(record: Record) -> int:
    policy = record["body"].get("HostConfig", {}).get("RestartPolicy") or {}
    return int(policy.get("MaximumRetryCount") or 0)


def _ending(record: Record) -> tuple[int, float] | None:
    """Exit code and seconds until it comes, None for a process that runs until it is stopped."""
    env = environment(record)
    if "SIM_EXIT" in env or "SIM_EXIT_AFTER" in env:
        return int(env.get("SIM_EXIT") or 0), float(env.get("SIM_EXIT_AFTER") or 0)
    match argv(record):
        case ["true"] | ["echo", *_]:
            return 0, 0.0
        case ["false"]:
            return 1, 0.0
        case ["sleep", seconds] if re.fullmatch(r"[0-9]+(\.[0-9]+)?", seconds):
            return 0, float(seconds)
        case ["sh", "-c", script] if exits := re.fullmatch(r"exit ([0-9]+)", script):
            return int(exits[1]), 0.0
    return None


def _health(record: Record, *, ended: bool = False) -> str:
    test = (record["body"].get("Healthcheck") or {}).get("Test")
    if not test or test[0] == "NONE":
        return ""
    if ended:
        return "unhealthy"
    return str(record["health"] or environment(record).get("SIM_HEALTH") or "healthy")
