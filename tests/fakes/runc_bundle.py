"""Makes containers for a large machine run on a small one: the part of the runc stand-in that reads JSON.

The bed's Engine believes in 64 cores and two NUMA nodes. What it hands to runc is written down where the container
looks for its cpuset, and then replaced by what the kernel really has. Resource limits that this machine may not set are
dropped. Standard library only: it runs under the system's own Python.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

VALUES = {"cpus": "cpuset.cpus", "mems": "cpuset.mems"}
CAP_SYS_RESOURCE = 1 << 24


def main(real: str, bed: Path, arguments: list[str]) -> None:
    """Become the real runc, on a changed bundle, process or update."""
    record = bed / "cpusets" / arguments[-1]
    if "update" in arguments:
        update = json.load(sys.stdin)
        write_down(record, update.get("cpu") or {})
        narrow(update.get("cpu") or {}, bed)
        sys.exit(subprocess.run([real, *arguments], input=json.dumps(update).encode(), check=False).returncode)
    if "exec" in arguments:
        process = Path(arguments[arguments.index("--process") + 1])
        process.write_text(json.dumps(without_limits(json.loads(process.read_text()))))
        become(real, arguments)
    bundle = Path(arguments[arguments.index("--bundle") + 1] if "--bundle" in arguments else ".") / "config.json"
    config = json.loads(bundle.read_text())
    change(config, record, bed)
    bundle.write_text(json.dumps(config))
    become(real, arguments)


def become(real: str, arguments: list[str]) -> NoReturn:
    """Go on as the real runc."""
    os.execv(real, [real, *arguments])  # noqa: S606 - no shell is wanted


def change(config: dict[str, Any], record: Path, bed: Path) -> None:
    """Show the container the cpuset that was asked for, give it one that exists, and drop what may not be raised."""
    cpu = config["linux"].setdefault("resources", {}).setdefault("cpu", {})
    write_down(record, {**{key: (bed / key).read_text().strip() for key in VALUES}, **cpu})
    narrow(cpu, bed)
    if any(mount["type"] == "cgroup" for mount in config["mounts"]):
        config["mounts"] += [
            {
                "type": "bind",
                "source": str(record / key),
                "destination": f"/sys/fs/cgroup/cpuset/{name}",
                "options": ["rbind", "ro"],
            }
            for key, name in VALUES.items()
        ]
    config["process"] = without_limits(config["process"])


def write_down(record: Path, cpu: dict[str, Any]) -> None:
    """What the Engine asked for, in the file that the container sees (same inode: it is mounted there)."""
    record.mkdir(parents=True, exist_ok=True)
    for key in VALUES:
        if cpu.get(key):
            (record / key).write_text(cpu[key] + "\n")


def narrow(cpu: dict[str, Any], bed: Path) -> None:
    """Replace a cpuset by what the machine has."""
    for key in VALUES:
        if cpu.get(key):
            cpu[key] = (bed / f"real-{key}").read_text().strip()


def without_limits(process: dict[str, Any]) -> dict[str, Any]:
    """``process`` without the resource limits that this machine may not raise (some lack CAP_SYS_RESOURCE)."""
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff"))
    if int(effective.split()[1], 16) & CAP_SYS_RESOURCE:
        return process
    return {key: value for key, value in process.items() if key != "rlimits"}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
