"""``reconcile``: from arguments to a command to an exit code. No exception leaves as a traceback.

Exit codes: 0 done, 1 error, 2 changes are planned, 64 wrong usage.
"""

import gc
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from reconciler.cli.options import RECONCILE, Command, parse, print_help
from reconciler.cli.output import complain, drop, writing
from reconciler.config import PREFIX, settings_from
from reconciler.errors import NoRepositoryError, OutputError, ReconcilerError, UsageError

DONE, ERROR, CHANGES, USAGE = 0, 1, 2, 64
INTERRUPTED = 130
COLLECT = (50_000, 20, 20)  # what a pass makes is kept or goes by itself: Python would look through it all too often


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run one command and give back its exit code; what went wrong is one line (or one per problem) on stderr."""
    arguments = sys.argv[1:] if arguments is None else arguments
    environ = os.environ if environ is None else environ
    _open_streams()
    gc.set_threshold(*COLLECT)
    try:
        try:
            code = _run(list(arguments), environ)
        finally:
            _flush()
    except OutputError as error:
        drop(sys.stdout)
        return _complain(f"reconcile: {error}", ERROR)
    except UsageError as error:
        return _complain(f"reconcile: {error}", USAGE)
    except ReconcilerError as error:
        return _complain(str(error), ERROR)
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # the last line of defence: a traceback helps no user
        if environ.get(f"{PREFIX}DEBUG") or "--debug" in arguments:
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return _complain(f"reconcile: internal error: {what} (--debug shows where)", ERROR)
    return code


def _run(arguments: list[str], environ: Mapping[str, str]) -> int:
    command, given = parse(arguments)
    argument = given.pop("argument", "")
    settings = settings_from({name: given[name] for name in given}, environ)
    function = _load(command)
    try:
        result: int = function(settings, argument) if command.argument else function(settings)
    except NoRepositoryError:
        if command is RECONCILE:
            print_help()
        raise
    return result


def _open_streams() -> None:
    """A stream that was closed before we began takes us nowhere; one of few letters gets the others escaped."""
    for name in ("stdout", "stderr"):
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for as long as we run


def _flush() -> None:
    """Write what is left, also before ``--help`` leaves by itself. Raises OutputError."""
    with writing():
        sys.stdout.flush()


def _load(command: Command) -> "Callable[..., int]":
    """The command's function; its module is imported only now, so that help and errors in usage stay quick."""
    module, _, function = command.run.partition(":")
    loaded: Callable[..., int] = getattr(import_module(module), function)
    return loaded


def _complain(text: str, code: int) -> int:
    """Say it, a line per problem; what an Engine or a file put into it cannot act on the terminal."""
    for line in text.split("\n"):
        complain(line)
    return code


def _reader_left() -> int:
    """Whoever read our output has seen enough: leave quietly, and keep the interpreter from flushing again."""
    drop(sys.stdout)
    return ERROR
