"""``reconcile validate`` and ``reconcile schema``: the files themselves."""

from reconciler.cli.output import complain, print_json
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings
from reconciler.errors import SpecError

DONE, ERROR = 0, 1


def validate(settings: Settings) -> int:
    """Every fault of every file, one line each; 1 when there is any."""
    try:
        desired = Wiring(settings).read()
    except SpecError as error:
        if not settings.json:
            raise
        problems = [
            {"file": one.file, "line": one.line, "column": one.column, "message": one.message} for one in error.problems
        ]
        print_json({"valid": False, "problems": problems, "warnings": []})
        return ERROR
    if settings.json:
        print_json({"valid": True, "problems": [], "warnings": list(desired.warnings)})
        return DONE
    for warning in desired.warnings:
        complain(f"warning: {warning}")
    print(f"valid: {len(desired.workloads)} workloads, {len(desired.hosts)} hosts")
    return DONE


def schema(_settings: Settings) -> int:
    """The JSON Schema of every kind."""
    from reconciler.desired.schema import json_schema  # noqa: PLC0415 - pydantic builds every model here

    print_json(json_schema())
    return DONE
