"""Git's plumbing: one process per question, with a clean environment, a time-out and nothing left behind.

GitPython is not used here: importing it costs 170 ms, more than a whole dry run may spend on git, and its objects keep
processes open. What is read are objects of one commit, so no lock and no index is involved.
"""

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from reconciler.desired.source import redact
from reconciler.errors import SourceError

READ_TIMEOUT = 60.0
"""Seconds for one process that only reads local objects."""

_GRACE = 2.0  # seconds for git to remove its own lock and temporary files after SIGTERM
# What an administrator sets for every git of a machine. All other GIT_* variables belong to the
# caller (a hook's GIT_DIR, a trace that would print credentials), and would change what is read.
_KEPT = frozenset(
    {
        "GIT_EXEC_PATH",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CEILING_DIRECTORIES",
        "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    }
)
_QUIET = {"LC_ALL": "C", "LANGUAGE": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
# A repository may name a program as its file monitor: none is run. That a bare repository must be named explicitly is a
# wish of some users' configuration; it was.
_SETTINGS = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=all")
_MODES: Mapping[bytes, "Kind"] = {b"120000": "link", b"160000": "module"}

Kind = Literal["file", "link", "module", "other"]


class Entry(NamedTuple):
    """One path of a listing. ``id`` is the blob (empty for files on disk), ``size`` counts bytes."""

    kind: Kind
    id: str = ""
    size: int = 0


class GitError(SourceError):
    """Git refused. ``stderr`` is its answer and ``stdout`` what it had printed before, both without credentials."""

    def __init__(self, command: str, stderr: str, stdout: str = "") -> None:
        self.stderr = redact(stderr)
        self.stdout = stdout
        super().__init__(f"git {command}: {last_words(self.stderr)}")


def unwanted(environment: Mapping[str, str]) -> list[str]:
    """Names of inherited variables that no git process of ours may see."""
    return [
        name
        for name in environment
        if (name.startswith("GIT_") and name not in _KEPT) or name.startswith("RECONCILE_GIT_") or name == "SSH_ASKPASS"
    ]


def quiet_environment() -> dict[str, str]:
    """Variables that keep git from asking, translating and taking optional locks."""
    return dict(_QUIET)


def git(arguments: Sequence[str], folder: Path, data: bytes | None = None) -> tuple[bytes, str]:
    """Run ``git ARGUMENTS`` in ``folder`` with ``data`` as input; its output and its warnings. Raises SourceError."""
    hidden = set(unwanted(os.environ))
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | _QUIET
    command = ["git", "--no-replace-objects", "--literal-pathspecs", *_SETTINGS, *arguments]
    try:
        process = subprocess.Popen(  # noqa: S603  (arguments are ours; user text is validated and never an option)
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise missing_git(folder) from None
    except OSError as error:
        raise SourceError(f"{folder}: git could not be started there: {error.strerror}") from None
    out, err = finish(process, data, READ_TIMEOUT, arguments[0])
    if process.returncode:
        raise GitError(arguments[0], err, os.fsdecode(out))
    return out, err


def missing_git(folder: Path) -> SourceError:
    """Why a process could not be started: the program is missing, or the folder is."""
    if not folder.is_dir():
        return SourceError(f"{folder}: no such folder")
    return SourceError("git is not installed: install it (apt-get install git)")


def finish(process: "subprocess.Popen[bytes]", data: bytes | None, timeout: float, name: str) -> tuple[bytes, str]:
    """Wait for a process started in its own session; both streams. It and all its children are gone afterwards.

    Raises SourceError after ``timeout`` seconds.
    """
    try:
        out, err = process.communicate(data, timeout)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        raise SourceError(f"git {name} took more than {timeout:g} s and was stopped") from None
    except BaseException:
        _kill_group(process)
        raise
    return out, err.decode(errors="replace")


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Ask the whole session to end, then make it; reap the leader and close the pipes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            with suppress(OSError):
                pipe.close()


def last_words(stderr: str) -> str:
    """The line of git's answer that names the cause: the last ``fatal:``, else the last ``error:``, else the last."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    for mark in ("fatal: ", "error: "):
        marked = [line.removeprefix(mark) for line in lines if line.startswith(mark)]
        if marked:
            return marked[-1]
    return lines[-1] if lines else "failed without a word"


def list_commit(folder: Path, commit: str, base: str) -> dict[str, Entry]:
    """Every file, link and submodule under ``base``, by path from the repository's top.

    Raises GitError when ``base`` is no folder of that commit.
    """
    out, _ = git(["ls-tree", "-r", "-l", "-z", f"{commit}:{base}" if base else commit, *_TOP], folder)
    start = f"{base}/" if base else ""
    entries = {}
    for line in out.split(b"\0")[:-1]:
        head, _, name = line.partition(b"\t")
        mode, _, blob, size = head.split()
        length = int(size) if size.isdigit() else 0  # "-": a submodule; "BAD": a missing object, found when it is read
        entries[start + os.fsdecode(name)] = Entry(_MODES.get(mode, "file"), blob.decode(), length)
    return entries


_TOP = ("--full-tree",)  # else a listing taken inside a folder shows only that folder


def list_worktree(top: Path, base: str) -> list[str]:
    """Paths from ``top`` that git tracks or would add under ``base``. Deleted files may be among them."""
    arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", base or "."]
    out, _ = git(arguments, top)
    return sorted({os.fsdecode(name) for name in out.split(b"\0")[:-1]})


def list_changed(folder: Path, base: str) -> list[str]:
    """Paths under ``base`` (from ``folder``) that differ from HEAD, are not in it, or are only there."""
    options = ["--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"]
    out, _ = git(["status", *options, "--", base or "."], folder)
    return [os.fsdecode(line[3:]) for line in out.split(b"\0")[:-1]]


def read_blobs(folder: Path, ids: Iterable[str]) -> dict[str, bytes]:
    """The bytes of each blob, by id, in one process. Raises SourceError when one is missing."""
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    out, _ = git(["cat-file", "--batch", "--buffer"], folder, "\n".join([*wanted, ""]).encode())
    blobs, at = {}, 0
    for blob in wanted:
        end = out.find(b"\n", at)
        fields = out[at:end].split()
        if len(fields) != 3:
            raise GitError("cat-file", f"fatal: object {blob} is missing")
        size = int(fields[2])
        blobs[blob] = out[end + 1 : end + 1 + size]
        at = end + size + 2
    return blobs
