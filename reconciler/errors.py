"""Every exception the project raises on purpose, by what the loop must do next.

::

    ReconcilerError
    ├── UsageError            wrong flags or settings: exit 64, nothing was looked at
    │   └── NoRepositoryError no repository was named: show help
    ├── SpecError             the repository is wrong: wait for a new commit; prune nothing
    ├── SourceError           the repository could not be read: try again later; prune nothing
    ├── SecretError           a secret cannot be read: what needs it fails, everything else goes on
    ├── LockHeldError         another reconciler works on this cluster: leave
    ├── StalePlanError        a saved plan no longer holds: plan again
    ├── OutputError           what was made cannot be written: stop, since nobody can read on
    ├── ProbeError            this machine could not be described: keep the facts there are, try again later
    └── EngineError           one call to one host failed
        ├── UnreachableError  no answer, or it was cut off: the call may have happened; look before trying again
        ├── NotFoundError     404: the container, image or network is not there
        ├── ConflictError     409, or another was there first: plan again with what they made
        └── RefusedError      the Engine said no (400, 403, 500, ...): trying again at once changes nothing

Being unable to place work is not an exception; it is data (``model.plan.Pending``).
"""

from dataclasses import dataclass


class ReconcilerError(Exception):
    """Root of the tree; its text is one line that a user can act on."""


class UsageError(ReconcilerError):
    """Wrong flags, settings or a missing repository; exit code 64."""


class NoRepositoryError(UsageError):
    """A command that needs a repository was given none: help is shown."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One fault in one file. ``line`` and ``column`` count from 1; 0 where the file as a whole is meant."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        """``file:line:column: message``, or ``file: message`` for the file as a whole."""
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {self.message}"


class SpecError(ReconcilerError):
    """The repository holds faults; ``problems`` lists all of them, sorted."""

    def __init__(self, problems: "list[Problem]") -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class SourceError(ReconcilerError):
    """The repository, ref or path could not be read. Credentials never stand in the text."""


class SecretError(ReconcilerError):
    """A secret's file is missing or unfit; the text names the secret and the key, never the value."""


class LockHeldError(ReconcilerError):
    """Another process holds the cluster's lock; the text says which."""


class StalePlanError(ReconcilerError):
    """A saved plan whose fingerprint no longer holds."""


class OutputError(ReconcilerError):
    """Standard output cannot be written; the text says why."""


class ProbeError(ReconcilerError):
    """The local probe found no facts; the text says why, in one line."""


class EngineError(ReconcilerError):
    """A call to one host's Engine failed."""

    def __init__(self, host: str, message: str, status: int | None = None) -> None:
        self.host = host
        self.message = message
        self.status = status
        super().__init__(f"{host}: {message}")


class UnreachableError(EngineError):
    """No answer within the deadline, or the connection broke: the call may or may not have happened."""


class NotFoundError(EngineError):
    """The Engine answered 404."""


class ConflictError(EngineError):
    """The Engine answered 409, or somebody else was there first: the next pass sees what they made."""


class RefusedError(EngineError):
    """The Engine answered with any other error."""
