"""Which Engine stands behind a URL."""

from pathlib import Path

from reconciler.engine.protocols import Reader, Writer
from reconciler.engine.simulated import Machine, SimulatedReader, SimulatedWriter
from reconciler.errors import UsageError


def open_reader(host: str, url: str, state_dir: Path, machine: Machine | None = None) -> Reader:
    """What looks at ``host``: all that a dry run ever gets.

    ``url`` is ``unix:///path`` or ``sim://``; ``state_dir`` holds the state of the cluster's simulated hosts, and
    ``machine`` is what a simulated host is made of. Nothing is contacted before the first call. Raises UsageError.
    """
    if _simulated(url):
        return SimulatedReader(host, state_dir, machine)
    from reconciler.engine.docker import DockerReader  # noqa: PLC0415 - 270 ms that only real hosts pay

    return DockerReader(host, url)


def open_writer(host: str, url: str, state_dir: Path, machine: Machine | None = None) -> Writer:
    """What changes ``host``; arguments as for ``open_reader``."""
    if _simulated(url):
        return SimulatedWriter(host, state_dir, machine)
    from reconciler.engine.docker import DockerWriter  # noqa: PLC0415 - 270 ms that only real hosts pay

    return DockerWriter(host, url)


def open_engine(host: str, url: str, state_dir: Path, machine: Machine | None = None) -> tuple[Reader, Writer]:
    """Both doors to ``host``; arguments as for ``open_reader``."""
    return open_reader(host, url, state_dir, machine), open_writer(host, url, state_dir, machine)


def _simulated(url: str) -> bool:
    scheme, separator, rest = url.partition("://")
    if scheme == "sim" and separator:
        return True
    if scheme == "unix" and rest.startswith("/"):
        return False
    raise UsageError(f"not an Engine: {url!r} (write unix:///path/to/docker.sock or sim://)")
