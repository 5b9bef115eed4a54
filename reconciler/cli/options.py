"""The command line: which command takes which options. Nothing heavy is imported here; ``--help`` stays quick."""

import argparse
import sys
from dataclasses import Field, dataclass, fields
from typing import Any, NoReturn, get_args

from reconciler import __version__
from reconciler.cli.output import complain
from reconciler.config import Settings
from reconciler.errors import UsageError

SOURCE = ("repo", "ref", "path", "worktree")
EVERYWHERE = ("state_dir", "debug")
SHOWN = ("json", "wide", "width")
LOOKERS = ("hosts", "status")
LOOKING = {
    "host": "show these hosts only (globs)",
    "only": "show these only: app/NAME, app/NAME/0, 'task/*'",
}
PLANNED = ("host", "only", "allow_prune", "fail_on_pending")


@dataclass(frozen=True, slots=True)
class Command:
    """One command: where its function is (``module:function``), its options, and its own argument."""

    name: str
    run: str
    text: str
    options: tuple[str, ...]
    argument: tuple[str, str] | None = None


RECONCILE = Command(
    "",
    "reconciler.cli.plan:reconcile",
    "plan and apply until settled",
    (
        *(*SOURCE, *PLANNED, "dry_run", *SHOWN, "markdown", "out"),
        *("detailed_exitcode", "snapshot", "whatif", "deadline", *EVERYWHERE),
    ),
)
COMMANDS = (
    Command(
        "apply",
        "reconciler.cli.plan:apply",
        "apply a saved plan, if it still holds",
        ("repo", "ref", "path", "allow_prune", "fail_on_pending", "json", "wide", "width", "deadline", *EVERYWHERE),
        ("PLAN", "file that --out wrote"),
    ),
    Command(
        "daemon",
        "reconciler.cli.daemon:daemon",
        "keep reconciling",
        ("repo", "ref", "path", "host", "only", "allow_prune", "interval", "poll", "json", *EVERYWHERE),
    ),
    Command(
        "validate",
        "reconciler.cli.repository:validate",
        "check the files of a repository",
        (*SOURCE, "json", *EVERYWHERE),
    ),
    Command("schema", "reconciler.cli.repository:schema", "print the JSON Schema of the files", EVERYWHERE),
    Command(
        "explain",
        "reconciler.cli.instances:explain",
        "why an instance is where it is, or nowhere",
        (*SOURCE, "snapshot", *SHOWN, *EVERYWHERE),
        (
            "INSTANCE",
            "app/NAME/INDEX, task/NAME/RUN/INDEX/MEMBER or localservice/NAME/HOST; KIND/NAME: all of a workload",
        ),
    ),
    Command(
        "defrag",
        "reconciler.cli.defrag:defrag",
        "which moves of running work would free whole hosts and cards",
        (*SOURCE, "dry_run", "hosts", "snapshot", *SHOWN, *EVERYWHERE),
    ),
    Command(
        "status",
        "reconciler.cli.instances:status",
        "instances, what is pending, what waits",
        (*SOURCE, "host", "only", "snapshot", *SHOWN, *EVERYWHERE),
    ),
    Command(
        "hosts",
        "reconciler.cli.hosts:hosts",
        "every card of every host, and who holds it",
        (*SOURCE, "engine", "host", "snapshot", *SHOWN, *EVERYWHERE),
    ),
    Command("discover", "reconciler.cli.hosts:discover", "print the facts of this machine", ("text", *EVERYWHERE)),
    Command(
        "snapshot",
        "reconciler.cli.hosts:snapshot",
        "print everything that was observed, for a replay",
        (*SOURCE, "engine", *EVERYWHERE),
    ),
)


class Parser(argparse.ArgumentParser):
    """argparse, with our exception in place of its exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def parse(arguments: list[str]) -> tuple[Command, dict[str, Any]]:
    """The command and the options that were given; a command's own argument stands under ``argument``.

    Raises UsageError.
    """
    given = vars(parser().parse_args(arguments))
    name = given.pop("command", None) or ""
    command = next((command for command in COMMANDS if command.name == name), RECONCILE)
    stray = sorted(given.keys() - set(command.options) - {"argument"})
    if stray:
        raise UsageError(
            f"{command.name} has no option --{stray[0].replace('_', '-')} (see reconcile {command.name} --help)"
        )
    return command, {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}


def parser() -> Parser:
    """The whole command line. Options are absent from the result unless they were given."""
    top = Parser(
        prog="reconcile",
        description="Keep Docker hosts equal to what a git repository says. Without a command: plan and apply.",
        epilog="Every option can be set as a variable: --state-dir is RECONCILE_STATE_DIR. "
        "Exit codes: 0 done, 1 error, 2 changes are planned (--detailed-exitcode), 64 wrong usage.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"reconciler {__version__}")
    _add_options(top, RECONCILE)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.text,
            description=command.text[0].upper() + command.text[1:] + ".",
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )
        if command.argument:
            sub.add_argument("argument", metavar=command.argument[0], help=command.argument[1])
        _add_options(sub, command)
    return top


def _add_options(target: argparse.ArgumentParser, command: Command) -> None:
    known = {item.name: item for item in fields(Settings)}
    for name in command.options:
        text = LOOKING.get(name) if command.name in LOOKERS else None
        _add_option(target, known[name], text or known[name].metadata["help"])


def _add_option(target: argparse.ArgumentParser, item: "Field[Any]", text: str) -> None:
    name = "--" + item.name.replace("_", "-")
    if item.type is bool:
        target.add_argument(name, action="store_true", help=text)
    else:
        target.add_argument(
            name,
            type=_reader(item),
            action="extend" if get_args(item.type) and item.default == () else "store",
            metavar=item.metadata["metavar"],
            help=text,
        )


def _reader(item: "Field[Any]") -> Any:
    """What argparse calls on the text of an option; its message is kept, unlike that of a plain ValueError."""

    def read(text: str) -> Any:
        try:
            return item.metadata["parse"](text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def print_help() -> None:
    """What a run without a repository gets: help and an empty line, on stderr."""
    parser().print_help(sys.stderr)
    complain("")
