"""Small git repositories for tests, made with git itself and no configuration of the machine's user."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}


def git(folder: Path, *arguments: str) -> str:
    """Run git in ``folder``; its output without the last line break. Raises CalledProcessError."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = ("init.defaultBranch=main", "init.templateDir=", "protocol.file.allow=always", "maintenance.auto=false")
    command = ["git", *(part for setting in settings for part in ("-c", setting)), *arguments]
    done = subprocess.run(command, cwd=folder, env=clean | ENVIRONMENT, check=True, capture_output=True)
    return done.stdout.decode().rstrip("\n")


def commit(folder: Path, files: Mapping[str, str | bytes | Path | None], message: str = "change") -> str:
    """Write files (None deletes one, a Path makes a link), commit them, and return the full hash.

    The repository is made when there is none.
    """
    if not (folder / ".git").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q")
    for name, content in files.items():
        write(folder, name, content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def write(folder: Path, name: str, content: str | bytes | Path | None) -> None:
    """Write one file of a work tree; as in ``commit``."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.unlink()
    elif isinstance(content, Path):
        path.symlink_to(content)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
