"""Secret values: read from files when a container is made, and never kept, logged or planned.

``DIR/NAME/KEY`` holds one value: the layout of a mounted Kubernetes secret, of ``docker secret`` and of systemd
credentials, so that any of them can fill it.
"""

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import SecretError
from reconciler.model.workload import ContainerSpec, SecretRef

MAX_BYTES = 1024 * 1024


class SecretStore:
    """The secrets under one directory of this machine (``Cluster.secrets.directory``)."""

    def __init__(self, directory: str) -> None:
        """``directory`` empty means that the cluster has no secrets."""
        self._directory = directory

    def value(self, ref: SecretRef) -> bytes:
        """The bytes of one secret, as they stand in its file. Raises SecretError."""
        what = f"secret {ref.secret!r}, key {ref.key!r}"
        if not self._directory:
            raise SecretError(f"{what}: the Cluster names no secrets directory")
        for part in (ref.secret, ref.key):
            if part in {"", ".", ".."} or "/" in part or "\0" in part:
                raise SecretError(f"{what}: {part!r} is no file name")
        try:
            with (Path(self._directory) / ref.secret / ref.key).open("rb") as file:
                value = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise SecretError(f"{what}: {error.strerror or error} in {self._directory}") from None
        if len(value) > MAX_BYTES:
            raise SecretError(f"{what}: larger than 1 MiB")
        return value

    def text(self, ref: SecretRef) -> str:
        """The secret as an environment value: UTF-8, without the newline that editors put at the end."""
        try:
            text = self.value(ref).decode()
        except UnicodeDecodeError:
            raise SecretError(f"secret {ref.secret!r}, key {ref.key!r}: not UTF-8: use secretFiles") from None
        if "\0" in text:
            raise SecretError(f"secret {ref.secret!r}, key {ref.key!r}: holds a zero byte: use secretFiles")
        return text.removesuffix("\n").removesuffix("\r")

    def hash_of(self, container: ContainerSpec, key: SecretRef | None) -> str:
        """The keyed hash of every value that ``container`` uses; empty without a key or without secrets.

        Raises SecretError.
        """
        refs = refs_of(container)
        if key is None or not refs:
            return ""
        return keyed_hash(self.value(key), {ref: self.value(ref) for ref in refs})


def env_refs(container: ContainerSpec) -> tuple[SecretRef, ...]:
    """The secrets in the environment, sorted, each once."""
    return _sorted({value for _, value in container.env if isinstance(value, SecretRef)})


def refs_of(container: ContainerSpec) -> tuple[SecretRef, ...]:
    """Every secret that a container uses, sorted, each once."""
    return _sorted({*env_refs(container), *(file.secret for file in container.secret_files)})


def keyed_hash(key: bytes, values: Mapping[SecretRef, bytes]) -> str:
    """HMAC-SHA256 of the values under ``key``: it tells that a value changed, and nothing to who lacks the key.

    Names and lengths are part of it, so that no two sets of values read the same.
    """
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for ref, value in sorted(values.items(), key=lambda item: (item[0].secret, item[0].key)):
        for part in (ref.secret.encode(), ref.key.encode(), value):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def _sorted(refs: set[SecretRef]) -> tuple[SecretRef, ...]:
    return tuple(sorted(refs, key=lambda ref: (ref.secret, ref.key)))
