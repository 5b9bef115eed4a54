"""The files of one commit (or of a folder), as the rest of ``desired`` sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Blobs(Protocol):
    """Where the bytes of files come from."""

    def read(self, path: str) -> bytes:
        """Bytes of the file at ``path`` (as it stands in ``Tree.files``). Raises SourceError when they are gone."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Files under the chosen path, by POSIX path relative to it, with a content id each (a git blob id or a sha256).

    ``commit`` is the full hash, None for uncommitted files or a plain folder; ``source`` names the place for people,
    without credentials. ``prefix`` is put before paths in messages (``examples/repo/``), so that an editor can open
    them. ``bad`` lists files that cannot be read, with why (a link that leaves the repository, a missing LFS object).
    """

    commit: str | None
    source: str
    files: Mapping[str, str]
    blobs: Blobs
    prefix: str = ""
    bad: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
