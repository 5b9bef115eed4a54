"""Trees of files in memory, with the content ids that git would give them."""

import hashlib
from collections.abc import Mapping

from reconciler.desired.tree import Tree

APP = "apiVersion: reconciler/v1\nkind: App\nname: web\ninstances: 1\nimage: nginx:1.27\n"
TASK = "apiVersion: reconciler/v1\nkind: Task\nname: job\nimage: train:1\n"
LOCAL_SERVICE = "apiVersion: reconciler/v1\nkind: LocalService\nname: exporter\nimage: exporter:1\n"
HOST = "apiVersion: reconciler/v1\nkind: Host\nname: gpu-01\nengine: sim://\n"
CLUSTER = "apiVersion: reconciler/v1\nkind: Cluster\nname: lab\n"


class MemoryBlobs:
    """Files by path; counts what was read, so that a test sees what a cache saves."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self.reads: list[str] = []

    def read(self, path: str) -> bytes:
        """The bytes of one file."""
        self.reads.append(path)
        return self.files[path]


def tree(
    files: Mapping[str, str | bytes],
    *,
    commit: str | None = None,
    prefix: str = "",
    bad: Mapping[str, str] | None = None,
) -> Tree:
    """A tree of ``files``, by path."""
    data = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
    ids = {path: hashlib.sha1(body, usedforsecurity=False).hexdigest() for path, body in data.items()}
    return Tree(commit, "test", ids, MemoryBlobs(data), prefix, bad or {})
