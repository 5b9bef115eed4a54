"""An ssh server of our own on a high port of 127.0.0.1, with its own host key and one user's key."""

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.waiting import wait_for


@dataclass(frozen=True, slots=True)
class SshServer:
    """Where it listens, the private ``key`` that it lets in, and ``known_hosts`` that name it."""

    port: int
    user: str
    key: Path
    known_hosts: Path


@contextmanager
def serve(folder: Path) -> Iterator[SshServer]:
    """Run sshd with all of its files in ``folder``. Fails when sshd is not installed."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "sshd is missing: apt-get install openssh-server"
    host_key, key = make_key(folder / "host_key"), make_key(folder / "user_key")
    shutil.copy(f"{key}.pub", folder / "authorized_keys")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {host_key}\nAuthorizedKeysFile {folder}/authorized_keys\n"
        f"PidFile none\nStrictModes no\nPasswordAuthentication no\nUsePAM no\nPermitRootLogin yes\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd's own, made at boot where there is an init
    with (folder / "sshd.log").open("w") as log:
        process = subprocess.Popen([program, "-D", "-e", "-f", str(config)], stderr=log)
        try:
            wait_for(lambda: _answers(port), f"sshd; see {log.name}")
            known = folder / "known_hosts"
            known.write_text(f"[127.0.0.1]:{port} {host_key.with_suffix('.pub').read_text()}")
            yield SshServer(port, getpass.getuser(), key, known)
        finally:
            process.terminate()
            process.wait()


def make_key(path: Path) -> Path:
    """A new key pair without a passphrase: ``path`` and ``path.pub``."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
