"""Settings of one run: from flags, then from ``RECONCILE_*`` variables, then defaults.

Each field of ``Settings`` is one option: ``dry_run`` is ``--dry-run`` and ``RECONCILE_DRY_RUN``. Its metadata holds
what the command line needs to know, so that an option is defined in one place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler.errors import UsageError
from reconciler.model.resources import parse_duration

if TYPE_CHECKING:
    from reconciler.model.workload import InstanceId

PREFIX = "RECONCILE_"
NOWHERE = Path()
SHORTEST = 0.01
"""Seconds between passes, at least: a daemon that never rests only heats a core."""
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def _parse_flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"not a yes or no: {text!r} (write 1 or 0)")
    return word in _TRUE


def _parse_list(text: str) -> tuple[str, ...]:
    parts = tuple(part for part in (piece.strip() for piece in text.split(",")) if part)
    if not parts:
        raise ValueError(f"names nothing: {text!r}")
    return parts


def _parse_interval(text: str) -> float:
    seconds = parse_duration(text)
    if seconds < SHORTEST:
        raise ValueError(f"too short: {text!r} (at least {SHORTEST * 1000:g}ms)")
    return seconds


def _parse_width(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) >= 20):
        raise ValueError(f"not a width: {text!r} (write a number of columns, at least 20)")
    return int(text)


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) >= 1):
        raise ValueError(f"not a number of hosts: {text!r} (at least 1)")
    return int(text)


def described(parse: Callable[[str], Any], text: str, metavar: str) -> dict[str, Any]:
    """What the command line needs of an option: how its text is read (ValueError for people), and its line of help."""
    return {"parse": parse, "help": text, "metavar": metavar}


def option(default: Any, parse: Callable[[str], Any], text: str, metavar: str = "") -> Any:
    """A field of ``Settings`` with its default and description."""
    return field(default=default, metadata=described(parse, text, metavar))


def text_option(text: str, metavar: str) -> Any:
    """An option that is a string; empty when it is not given."""
    return option("", str, text, metavar)


def flag(text: str) -> Any:
    """An option that is on or off."""
    return option(default=False, parse=_parse_flag, text=text)


def several(text: str, metavar: str) -> Any:
    """An option that may be given several times, or as a list with commas."""
    return option((), _parse_list, text, metavar)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run was asked to do. Times in seconds; ``width`` None means: as wide as the terminal is."""

    repo: str = text_option("git repository: a URL or a folder", "URL|DIR")
    ref: str = text_option("branch, tag or commit (default: the repository's HEAD)", "REF")
    path: str = text_option("folder inside the repository", "DIR")
    worktree: bool = flag("plan the uncommitted files of a local repository (dry run only)")
    state_dir: Path = field(
        default=NOWHERE, metadata=described(Path, "where mirrors, lock, journal and simulated hosts are kept", "DIR")
    )
    host: tuple[str, ...] = several("act on these hosts only (globs); everything is planned", "HOST")
    only: tuple[str, ...] = several("act on these only: app/NAME, app/NAME/0, 'task/*'", "SELECTOR")
    dry_run: bool = flag("plan only; nothing is changed")
    json: bool = flag("print JSON")
    markdown: bool = flag("print Markdown, for a merge request")
    text: bool = flag("print for people instead of JSON")
    out: str = text_option("save the plan for `reconcile apply`", "FILE")
    snapshot: str = text_option("plan offline against a saved snapshot (dry run only)", "FILE")
    whatif: tuple[str, ...] = several(
        "plan as if: add-host=KIND:N, remove-host=NAME, instances=app/NAME:N (dry run only)", "CHANGE"
    )
    detailed_exitcode: bool = flag("exit 2 when changes are planned")
    fail_on_pending: bool = flag("exit 1 when something cannot be placed")
    allow_prune: bool = flag("stop more at once than prune.maxFraction allows")
    hosts: int | None = option(None, _parse_count, "free at most so many hosts and cards", "N")
    engine: tuple[str, ...] = several("look at these Engines instead of a repository's hosts", "URL")
    wide: bool = flag("show UUIDs and full ids")
    width: int | None = option(None, _parse_width, "columns of the output (default: the terminal's)", "N")
    interval: float = option(10.0, _parse_interval, "time between passes of the daemon (default 10s)", "TIME")
    poll: float = option(30.0, _parse_interval, "time between looks at a remote repository (default 30s)", "TIME")
    deadline: float = option(3600.0, parse_duration, "give up waiting for the fleet to settle (default 1h)", "TIME")
    debug: bool = flag("show tracebacks of internal errors")

    def selects(self, host: str, instance: "InstanceId") -> bool:
        """Whether ``--host`` and ``--only`` let this run act on ``instance`` on ``host``."""
        return (not self.host or any(fnmatchcase(host, glob) for glob in self.host)) and (
            not self.only or any(covers(selector, str(instance)) for selector in self.only)
        )


def covers(selector: str, instance: str) -> bool:
    """A selector covers an instance part by part, and everything below: ``app/x`` covers ``app/x/0``."""
    globs, parts = selector.strip("/").split("/"), instance.split("/")
    return len(globs) <= len(parts) and all(fnmatchcase(part, glob) for part, glob in zip(parts, globs, strict=False))


def settings_from(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Settings of ``flags`` (parsed, only those given) and ``environ``. Raises UsageError in one line."""
    values: dict[str, Any] = {}
    for item in fields(Settings):
        variable = PREFIX + item.name.upper()
        if item.name in flags:
            values[item.name] = flags[item.name]
        elif environ.get(variable):
            try:
                values[item.name] = item.metadata["parse"](environ[variable])
            except ValueError as error:
                raise UsageError(f"{variable}: {error}") from None
    settings = Settings(**values)
    if "state_dir" not in values:
        settings = replace(settings, state_dir=default_state_dir(environ))
    _check(settings)
    return settings


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/reconciler``; a relative value is ignored, as the XDG specification asks."""
    base = Path(environ.get("XDG_STATE_HOME") or "")
    if not base.is_absolute():
        base = Path(environ.get("HOME") or "/root") / ".local" / "state"
    return base / "reconciler"


def _check(settings: Settings) -> None:
    if settings.json and settings.markdown:
        raise UsageError("--json and --markdown exclude one another")


def check_writes(settings: Settings) -> None:
    """Refuse to change hosts by what nobody committed or nobody looked at just now. Raises UsageError."""
    for name, given in (
        ("--worktree", settings.worktree),
        ("--snapshot", bool(settings.snapshot)),
        ("--whatif", bool(settings.whatif)),
    ):
        if given and not settings.dry_run:
            raise UsageError(f"{name} can only be planned: add --dry-run")
