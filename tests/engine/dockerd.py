"""A Docker Engine of our own, for tests: Debian's dockerd in private namespaces, believing in a large machine.

Everything runs in one PID, mount and network namespace whose first process dies with the test run, so nothing is left
behind: no process, mount, bridge or firewall rule. Several beds may run at once. Needs root, docker.io, busybox-static
and util-linux.

The Engine takes cpusets of 64 cores and two NUMA nodes, shows them on inspect, and refuses core 64 or node 2; a
stand-in for runc maps them to what exists (``tests/fakes/runc``). Device requests of the driver ``nvidia`` are taken
because a stand-in for NVIDIA's hook is on its PATH. ``NCPU`` and memory are the machine's own.
"""

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from docker import APIClient

from tests.fakes.waiting import wait_for

FAKES = Path(__file__).parent.parent / "fakes"
IMAGE = "bb:1"
"""The only image: busybox, without a registry."""
CPUS, NODES = "0-63", "0-1"
APPLETS = (
    *("awk", "cat", "cp", "date", "echo", "env", "expr", "false", "grep", "head", "hostname", "id", "ip", "ls"),
    *("mkdir", "mount", "nc", "nproc", "printf", "ps", "pwd", "readlink", "rm", "sed", "sh", "sha256sum", "sleep"),
    *("stat", "tail", "test", "touch", "tr", "true", "ulimit", "uname", "wc", "wget"),
)

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PREPARE = """
set -e
busybox ip link set lo up
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  dir=/sys/fs/cgroup; kind=.effective
else
  dir=/sys/fs/cgroup/cpuset; kind=
  mkdir -p "$dir$CGROUP"
fi
for key in cpus mems; do
  cat "$dir/cpuset.$key$kind" > "$BED_DIR/real-$key"
  [ -n "$kind" ] || cat "$BED_DIR/real-$key" > "$dir$CGROUP/cpuset.$key"
  mount --bind "$BED_DIR/$key" "$dir/cpuset.$key$kind"
done
"""


class Bed:
    """One private Engine. ``url`` is its socket; ``start``, ``kill`` and ``daemon_signal`` act on its dockerd."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "docker.sock"
        self.url = f"unix://{self.socket}"
        self._cgroup = f"/reconciler-bed-{os.getpid()}-{directory.name}"
        self._environment = {
            "PATH": f"{directory / 'bin'}:{_SYSTEM_PATH}",
            "BED_DIR": str(directory),
            "CGROUP": self._cgroup,
            "RUNC_REAL": _program("runc"),
            "RUNC_PYTHON": shutil.which("python3", path=_SYSTEM_PATH) or _program("python3"),
            "RUNC_BUNDLE": str(FAKES / "runc_bundle.py"),
        }
        self._dockerd: subprocess.Popen[bytes] | None = None
        self._init = 0
        self._lay_out()
        with (directory / "namespaces.log").open("wb") as log:
            self._holder = self._hold(log)
        try:
            self._init = wait_for(self._find_init, "the namespaces of the test bed")
            self.run(["sh", "-c", _PREPARE])
        except BaseException:
            self.close()
            raise

    def _hold(self, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"),
                *("--mount-proc", "docker-init", "-s", "--", "sleep", "infinity"),
            ],
            env=self._environment,
            stderr=log,
        )

    def run(self, command: list[str]) -> str:
        """Run a command inside the bed's namespaces; its output."""
        return subprocess.run(
            self._inside(command), env=self._environment, check=True, capture_output=True, text=True
        ).stdout

    def start(self) -> None:
        """Start dockerd and wait until it answers."""
        for stale in (self.directory / "pid", self.directory / "exec/containerd/containerd.pid"):
            stale.unlink(missing_ok=True)
        with (self.directory / "dockerd.log").open("ab") as log:
            self._dockerd = subprocess.Popen(
                self._inside(
                    [
                        *("dockerd", "--data-root", f"{self.directory}/data", "--exec-root", f"{self.directory}/exec"),
                        *("--pidfile", f"{self.directory}/pid", "--host", self.url, "--cgroup-parent", self._cgroup),
                        *("--bip", "172.29.0.1/24", "--live-restore"),
                        *("--add-runtime", f"nvidia={self.directory}/bin/runc"),
                    ]
                ),
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        wait_for(self.answers, f"dockerd (see {self.directory}/dockerd.log)", 30)

    def client(self) -> APIClient:
        """A docker-py client of the bed, to look at things past our own code."""
        return APIClient(base_url=self.url, version="1.41", timeout=60)

    def answers(self) -> bool:
        """Whether the Engine answers."""
        if self._dockerd is not None and self._dockerd.poll() is not None:
            raise RuntimeError(f"dockerd ended: {(self.directory / 'dockerd.log').read_text()[-2000:]}")
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
            if probe.connect_ex(str(self.socket)) != 0:  # docker-py would leave the socket unclosed
                return False
        with contextlib.closing(self.client()) as client:
            return client.ping()

    def import_image(self, reference: str = IMAGE) -> str:
        """Make the busybox image known under ``reference``."""
        repository, _, tag = reference.rpartition(":")
        with contextlib.closing(self.client()) as client:
            client.import_image_from_data(busybox_tree(), repository, tag, changes=["ENV PATH=/bin", "CMD sh"])
        return reference

    @contextlib.contextmanager
    def registry(self, port: int = 5000) -> Iterator[str]:
        """A registry inside the bed, with ``127.0.0.1:PORT/team/app:1``; yields the digest of that image."""
        root = self.directory / "root.tar"
        root.write_bytes(busybox_tree())
        command = [self._environment["RUNC_PYTHON"], str(FAKES / "registry.py"), str(port), str(root)]
        with subprocess.Popen(
            self._inside(command), env=self._environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield str(process.stdout and process.stdout.readline()).strip()
            finally:
                process.terminate()

    def inside(self, container: str, *command: str) -> str:
        """What ``command`` prints inside a running container."""
        with contextlib.closing(self.client()) as client:
            run = client.exec_create(container, list(command))
            output: bytes = client.exec_start(run["Id"])
        return output.decode()

    def remove_all(self) -> None:
        """Remove every container."""
        with contextlib.closing(self.client()) as client:
            for entry in client.containers(all=True):
                client.remove_container(entry["Id"], force=True)

    def daemon_signal(self, number: signal.Signals) -> None:
        """Send a signal to dockerd itself (STOP freezes it, CONT lets it go on)."""
        self.run(["kill", f"-{number.name.removeprefix('SIG')}", (self.directory / "pid").read_text().strip()])
        if number is signal.SIGCONT and self._dockerd is not None:
            self._dockerd.send_signal(number)  # nsenter stops with its child, and has to be woken itself

    def kill(self) -> None:
        """SIGKILL dockerd; the containers live on (live-restore)."""
        self.daemon_signal(signal.SIGKILL)
        self._reap()

    def close(self) -> None:
        """End every process of the bed and take back what it left in the cgroup tree."""
        with contextlib.suppress(ProcessLookupError):
            # The first process of a PID namespace takes all others along, and unshare ends when they are gone.
            os.kill(self._init or self._holder.pid, signal.SIGKILL)
        self._holder.wait(20)
        if self._dockerd is not None:
            self._dockerd.kill()  # what is left of it is nsenter, which may be stopped
        self._reap()
        for root in _cgroups(self._cgroup):
            wait_for(partial(_remove_cgroups, root), f"the cgroup {root} to empty")

    def _reap(self) -> None:
        if self._dockerd is not None:
            self._dockerd.wait(20)
            self._dockerd = None

    def _lay_out(self) -> None:
        binaries = self.directory / "bin"
        binaries.mkdir(parents=True)
        for name in ("runc", "nvidia-container-runtime-hook"):
            shutil.copy(FAKES / name, binaries / name)
            (binaries / name).chmod(0o755)
        (self.directory / "owner").write_text(f"{os.getpid()} {self._cgroup}")
        (self.directory / "cpus").write_text(CPUS + "\n")
        (self.directory / "mems").write_text(NODES + "\n")

    def _find_init(self) -> int:
        if self._holder.poll() is not None:
            raise RuntimeError(f"the namespaces could not be made: {(self.directory / 'namespaces.log').read_text()}")
        pid = self._holder.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return (
            int(children[0])
            if children and Path(f"/proc/{children[0]}/comm").read_text().startswith("docker-init")
            else 0
        )

    def _inside(self, command: list[str]) -> list[str]:
        return ["nsenter", "--target", str(self._init), "--mount", "--net", "--pid", "--root", "--", *command]


def sweep() -> None:
    """Take back what beds of killed test runs left: their processes died with them, folders and cgroups did not."""
    for owner in Path(tempfile.gettempdir()).glob("bed-*/owner"):
        pid, cgroup = owner.read_text().split()
        if not Path("/proc", pid).exists():
            for root in _cgroups(cgroup):
                _remove_cgroups(root)
            shutil.rmtree(owner.parent, ignore_errors=True)  # another test run may sweep at the same time


def busybox_tree() -> bytes:
    """A root file system as a tar: busybox and links to it."""
    busybox = Path(_program("busybox")).read_bytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = len(busybox), 0o755
        tar.addfile(entry, io.BytesIO(busybox))
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def _program(name: str) -> str:
    found = shutil.which(name, path=_SYSTEM_PATH)
    if not found:
        raise RuntimeError(f"{name} is not installed: run scripts/test, which installs what the tests need")
    return found


def _cgroups(name: str) -> list[Path]:
    """The folders of a cgroup: one in each hierarchy of version 1, one in all of version 2."""
    return [root for pattern in (name[1:], f"*{name}") for root in Path("/sys/fs/cgroup").glob(pattern)]


def _remove_cgroups(root: Path) -> bool:
    try:
        for group in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
            group.rmdir()
        root.rmdir()
    except OSError:  # its last process is on the way out, or another test run sweeps too
        return not root.exists()
    return True
