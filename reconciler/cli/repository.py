"""``reconcile validate`` and ``reconcile schema``: the files themselves."""

from dataclasses import replace

from reconciler.cli.output import complain, print_json, print_text
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings
from reconciler.desired.advice import advice
from reconciler.errors import SpecError
from reconciler.model.desired import Desired
from reconciler.report.lines import safe

DONE, ERROR = 0, 1


def validate(settings: Settings) -> int:
    """Every fault of every file, one line each; 1 when there is any.

    Of a local repository the files are checked as they are, committed or not, unless a ref is named.
    """
    wiring = _on_disk(settings)
    try:
        desired = wiring.read()
    except SpecError as error:
        if not settings.json:
            raise
        problems = [
            {"file": one.file, "line": one.line, "column": one.column, "message": one.message} for one in error.problems
        ]
        print_json({"valid": False, "problems": problems, "warnings": []})
        return ERROR
    warnings = [*desired.warnings, *advice(desired)]
    if settings.json:
        print_json({"valid": True, "problems": [], "warnings": warnings})
        return DONE
    for warning in warnings:
        complain(f"warning: {warning}")
    parts = (_counted(len(desired.workloads), "workload"), _counted(len(desired.hosts), "host"))
    print_text(safe(f"valid: {', '.join(parts)} ({_checked(wiring, desired)})") + "\n")
    return DONE


def _on_disk(settings: Settings) -> Wiring:
    """The wiring that reads the files as they lie there, where there are any and nothing else was asked for."""
    wiring = Wiring(settings)
    if settings.ref or settings.worktree or not wiring.repository.on_disk():
        return wiring
    return Wiring(replace(settings, worktree=True))


def _checked(wiring: Wiring, desired: Desired) -> str:
    """What was looked at: a commit, or files and how many of them no commit has."""
    source = wiring.repository.source
    place = f"{source.display}/{source.path}" if source.path else source.display
    if desired.commit is not None:
        return f"commit {desired.commit[:7]} of {place}"
    changed = wiring.repository.uncommitted()
    return f"files of {place}{f', {changed} not committed' if changed else ''}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def schema(_settings: Settings) -> int:
    """The JSON Schema of every kind."""
    from reconciler.desired.schema import json_schema  # noqa: PLC0415 - pydantic builds every model here

    print_json(json_schema())
    return DONE
