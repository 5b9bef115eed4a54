"""A word for a daemon that is at work: for one commit, the prune guard may let everything pass."""

from pathlib import Path

from reconciler.errors import SourceError


class Permit:
    """One file beside the journal that holds the commit it is for. A newer commit is not covered."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "allow-prune"

    def give(self, commit: str) -> None:
        """Allow it for this commit. Raises SourceError when it cannot be written."""
        try:
            self._path.write_text(commit + "\n", encoding="ascii")
        except OSError as error:
            raise SourceError(f"{self._path}: cannot be written: {error.strerror}") from None

    def covers(self, commit: str | None) -> bool:
        """Whether it was given for this very commit."""
        try:
            return commit is not None and self._path.read_text(encoding="ascii").strip() == commit
        except (OSError, UnicodeDecodeError):
            return False
