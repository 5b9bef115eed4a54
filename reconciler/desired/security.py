"""Security profiles: what a workload may ask of its host. Without a profile that matches, nothing."""

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from reconciler.desired.documents import Path
from reconciler.desired.schema_gpus import ObserveGpus
from reconciler.desired.schema_host import SecurityProfile
from reconciler.desired.schema_workload import Workload

_FREE_IPC = {"", "none", "private", "shareable"}
# Takes rights away and gives none.
_FREE_OPTIONS = {"no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"}


class Denial(NamedTuple):
    """One thing that no profile grants: where it is asked for, what it is, and the line that would grant it."""

    path: Path
    what: str
    grant: str


def profile_of(name: str, profiles: list[SecurityProfile]) -> tuple[int, SecurityProfile] | None:
    """The first profile that matches ``kind/name``, with its index."""
    for index, profile in enumerate(profiles):
        if any(fnmatchcase(name, glob) for glob in profile.match):
            return index, profile
    return None


def normal_path(path: str) -> str:
    """``path`` without ``.``, ``..`` and doubled slashes; where symbolic links lead is known on the host only."""
    return posixpath.normpath("/" + path.lstrip("/"))


def is_below(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or something in it, compared by component: /data-old is not in /data.

    >>> is_below("/data-old", "/data"), is_below("/data/x/../y", "/data/")
    (False, True)
    """
    path, folder = normal_path(path), normal_path(folder)
    return folder in {"/", path} or path.startswith(folder + "/")


def capability(name: str) -> str:
    """A capability without its optional prefix, in capitals.

    >>> capability("cap_sys_admin")
    'SYS_ADMIN'
    """
    return name.upper().removeprefix("CAP_")


def denials(model: Workload, profile: SecurityProfile | None) -> Iterator[Denial]:
    """Everything that ``model`` asks for and ``profile`` does not grant."""
    allowed = profile or _nothing()
    yield from _paths(model, allowed)
    yield from _namespaces(model, allowed)
    yield from _rights(model, allowed)


@lru_cache(maxsize=1)
def _nothing() -> SecurityProfile:
    return SecurityProfile(match=["-"])


def _paths(model: Workload, allowed: SecurityProfile) -> Iterator[Denial]:
    for index, volume in enumerate(model.volumes):
        if volume.host and not _mount_granted(volume.host, volume.read_only, allowed):
            path = normal_path(volume.host)
            grant = f"mounts: [{{path: {path}, readOnly: true}}]" if volume.read_only else f"mounts: [{path}]"
            yield Denial(("volumes", index, "host"), f"host path {path}", grant)
    for index, device in enumerate(model.devices):
        if not any(is_below(device.host, granted) for granted in allowed.devices):
            yield Denial(("devices", index, "host"), f"device {device.host}", f"devices: [{device.host}]")


def _mount_granted(host: str, read_only: bool, allowed: SecurityProfile) -> bool:
    for grant in allowed.mounts:
        folder, only_reading = (grant, False) if isinstance(grant, str) else (grant.path, grant.read_only)
        if is_below(host, folder) and (read_only or not only_reading):
            return True
    return False


def _namespaces(model: Workload, allowed: SecurityProfile) -> Iterator[Denial]:
    if model.network == "host" and not allowed.host_network:
        yield Denial(("network",), "network: host", "hostNetwork: true")
    if model.ipc not in _FREE_IPC | {allowed.ipc}:
        yield Denial(("ipc",), f"ipc: {model.ipc}", f"ipc: {model.ipc}")
    if model.pid not in {"", allowed.pid}:
        yield Denial(("pid",), f"pid: {model.pid}", f"pid: {model.pid}")


def _rights(model: Workload, allowed: SecurityProfile) -> Iterator[Denial]:
    if model.privileged and not allowed.privileged:
        yield Denial(("privileged",), "privileged: true", "privileged: true")
    granted = {capability(name) for name in allowed.capabilities}
    for index, name in enumerate(model.cap_add):
        if not granted & {capability(name), "ALL"}:
            yield Denial(("capAdd", index), f"capability {capability(name)}", f"capabilities: [{capability(name)}]")
    for index, option in enumerate(model.security_opt):
        if option not in _FREE_OPTIONS and option not in allowed.security_opt:
            yield Denial(("securityOpt", index), f"security option {option}", f'securityOpt: ["{option}"]')
    if model.runtime not in {"", allowed.runtime}:
        yield Denial(("runtime",), f"runtime {model.runtime}", f"runtime: {model.runtime}")
    gpus = model.resources.gpus
    if (gpus == "all" or isinstance(gpus, ObserveGpus)) and not allowed.all_gpus:
        yield Denial(("resources", "gpus"), "every card of the host", "allGpus: true")
    if model.resources.rdma and not allowed.rdma:
        yield Denial(("resources", "rdma"), "RDMA", "rdma: true")
