"""Config and secret files of a container, as one tar that is unpacked into it before it starts."""

import hashlib
import io
import posixpath
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field

from reconciler.errors import ReconcilerError, SourceError
from reconciler.executor.secrets import SecretStore
from reconciler.model.workload import ContainerSpec


@dataclass(frozen=True, slots=True)
class File:
    """One file by its absolute path in the container; ``mode`` are permission bits."""

    path: str
    mode: int
    content: bytes = field(repr=False)


def has_files(container: ContainerSpec) -> bool:
    """Whether anything is to be put into the container."""
    return bool(container.configs or container.secret_files)


def files_of(container: ContainerSpec, secrets: SecretStore) -> list[File]:
    """Every file of a container. Raises SecretError, and SourceError when a content is not the one that was planned."""
    files = []
    for config in container.configs:
        if hashlib.sha256(config.content).hexdigest() != config.sha256:
            raise SourceError(f"the content of {config.container} is not the one that was planned")
        files.append(File(config.container, config.mode, config.content))
    files += [File(one.container, one.mode, secrets.value(one.secret)) for one in container.secret_files]
    return files


def archive(files: Iterable[File]) -> bytes:
    """A tar to unpack under ``/``: owned by root, times 0, sorted, so that the same files give the same bytes.

    Folders are left to the Engine: an entry for one would change the mode of a folder that the image has.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(files, key=lambda one: one.path):
            info = tarfile.TarInfo(_name(file.path))
            info.size = len(file.content)
            info.mode = file.mode & 0o7777
            tar.addfile(info, io.BytesIO(file.content))
    return out.getvalue()


def _name(path: str) -> str:
    name = posixpath.normpath(path).lstrip("/")
    if not path.startswith("/") or ".." in path.split("/") or name in {"", "."}:
        raise ReconcilerError(f"{path!r} is no absolute path of a file in a container")
    return name
