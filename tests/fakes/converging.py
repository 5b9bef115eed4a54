"""A repository of field cases, applied, looked at, edited, applied and looked at again through the command itself."""

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import main
from tests.fakes.field_cases import Effect, FieldCase, Json, named, overlay, varied

GIB = 1024**3
FACTS: dict[str, Any] = {
    "format": "reconciler.facts/v1",
    "hostname": "host-1",
    "numaNodes": [
        {"id": 0, "socket": 0, "cpus": "0-31", "memory": 256 * GIB},
        {"id": 1, "socket": 1, "cpus": "32-63", "memory": 256 * GIB},
    ],
    "gpus": [
        {
            "uuid": f"GPU-{number:08d}-0000",
            "index": number,
            "pci": f"00000000:{0x0A + number:02X}:00.0",
            "model": "NVIDIA A100-SXM4-80GB",
            "memory": 80 * GIB,
            "numaNode": number // 8,
            **(
                {
                    "mig": {
                        "enabled": True,
                        "slices": [
                            {"uuid": "MIG-aaaaaaaa-0000", "profile": "1g.10gb", "start": 0},
                            {"uuid": "MIG-bbbbbbbb-0000", "profile": "2g.20gb", "start": 2},
                        ],
                    }
                }
                if number == 15
                else {}
            ),
        }
        for number in range(16)
    ],
    "nics": [{"name": "mlx5_0", "numaNode": 0, "rdma": True}],
}
HOST = {"apiVersion": "reconciler/v1", "kind": "Host", "name": "host-1", "engine": "sim://", "facts": "facts.json"}
GRANTS = {
    "match": ["*"],
    "mounts": ["/tmp", "/var/tmp", {"path": "/usr", "readOnly": True}],
    "hostNetwork": True,
    "ipc": "host",
    "pid": "host",
    "privileged": True,
    "capabilities": ["ALL"],
    "devices": ["/dev/null", "/dev/zero"],
    "securityOpt": ["seccomp=unconfined"],
    "runtime": "runc",
    "allGpus": True,
    "rdma": True,
}
SECRETS = {"hf/token": "t0ken\n", "hf/other": "0ther\n", "gh/token": "gh-t0ken\n", "key/key": "k3y\n"}


@dataclass(frozen=True, slots=True)
class Said:
    """What one run of the command answered."""

    code: int
    out: str
    err: str

    @property
    def plan(self) -> dict[str, Any]:
        """Its output as JSON."""
        document: dict[str, Any] = json.loads(self.out)
        return document


class Repository:
    """A folder of documents beside a state directory and secrets, and the command on it."""

    def __init__(self, directory: Path, host: Json = HOST, pause: float = 0.01) -> None:
        """``pause`` is the seconds between two passes."""
        self.pause = pause
        self.folder = directory / "repo"
        self.state = directory / "state"
        self.secrets = directory / "secrets"
        self.folder.mkdir(parents=True)
        for name, text in SECRETS.items():
            path = self.secrets / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.folder / "facts.json").write_text(json.dumps(FACTS))
        (self.folder / ".reconcileignore").write_text("*.conf\n")
        for name in ("a.conf", "b.conf"):
            (self.folder / name).write_text(f"{name}\n")
        self.write("cluster", self.cluster())
        self.write("host", host)

    def cluster(self, **more: Any) -> dict[str, Any]:
        """The Cluster document: everything is granted, and secrets are compared."""
        return {
            "apiVersion": "reconciler/v1",
            "kind": "Cluster",
            "name": "lab",
            "securityProfiles": [GRANTS],
            "secrets": {"directory": str(self.secrets), "hashKey": {"secret": "key", "key": "key"}},
            **more,
        }

    def write(self, name: str, document: Json) -> None:
        """Write or replace one file; JSON is YAML."""
        (self.folder / f"{name}.yaml").write_text(json.dumps(document, indent=1))

    def run(self, *arguments: str) -> Said:
        """Run the command."""
        environ = {
            "HOME": str(self.folder.parent),
            "RECONCILE_REPO": str(self.folder),
            "RECONCILE_STATE_DIR": str(self.state),
        }
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            patch.setattr("reconciler.cli.plan.PAUSE", self.pause)
            code = main(arguments, environ)
        return Said(code, out.getvalue(), err.getvalue())

    def plan(self) -> Said:
        """What a dry run says, as JSON."""
        return self.run("--dry-run", "--json", "--detailed-exitcode")


Inspect = Callable[[], Iterable[Json]]


@dataclass(frozen=True, slots=True)
class Course:
    """All that was said and seen while a table of cases went from its first values to its second ones."""

    applied: Said
    quiet: Said
    edited: Said
    applied_again: Said
    quiet_again: Said
    before: Mapping[str, Json]
    after: Mapping[str, Json]

    def actions(self, name: str) -> list[dict[str, Any]]:
        """What the edit plans for the workload of that name."""
        return [one for one in self.edited.plan["actions"] if one["instance"].split("/")[1] == name]


def run_course(repository: Repository, kind: str, cases: Iterable[FieldCase], inspect: Inspect) -> Course:
    """Apply the first value of every case, look, edit all to the second, look, apply, look."""
    cases = list(cases)
    for case in cases:
        repository.write(f"w-{case.name}", case.document(kind, case.before))
    applied, quiet, before = repository.run(), repository.plan(), by_name(inspect())
    for case in cases:
        repository.write(f"w-{case.name}", case.document(kind, case.after))
    edited = repository.plan()
    again, last, after = repository.run(), repository.plan(), by_name(inspect())
    return Course(applied, quiet, edited, again, last, before, after)


def by_name(documents: Iterable[Json]) -> dict[str, Json]:
    """Inspect documents by the name of their workload."""
    return {document["Config"]["Labels"]["io.reconciler.name"]: document for document in documents}


def noise(said: Said) -> dict[str, Any]:
    """What a plan says beyond that nothing is to be done. That a folder has no commit is true of all of them."""
    plan = said.plan
    plan["warnings"] = [line for line in plan["warnings"] if "it has no commit" not in line]
    return {key: plan[key] for key in ("actions", "pending", "drift", "warnings") if plan[key]}


def check_effect(course: Course, case: FieldCase) -> None:
    """The edit is planned as its class says, and the plan names exactly the field."""
    found = [
        (one["action"], {_pattern(change["field"]) for change in one["changes"]}) for one in course.actions(case.name)
    ]
    assert found == ([] if case.effect is Effect.NOTHING else [(str(case.effect), named(case))])


def _pattern(field: str) -> str:
    """``ports[0].host`` as the schema writes it: ``ports[].host``."""
    return re.sub(r"\[[0-9]+\]", "[]", field)


def check_arrived(course: Course, case: FieldCase, name: str = "") -> None:
    """Both values stand in what the Engine shows; None, an empty list and an empty map are one."""
    assert case.look is not None
    documents = (course.before, course.after)
    seen = tuple(case.look(one[name or case.name]) or None for one in documents)
    assert seen == tuple(value or None for value in case.shown)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Cases of different fields with one effect, as one workload."""

    whole: FieldCase
    parts: tuple[FieldCase, ...]


def bundles(cases: Iterable[FieldCase]) -> list[Bundle]:
    """The cases in as few workloads as their fields allow."""
    found: list[list[FieldCase]] = []
    for case in cases:
        room = (parts for parts in found if all(_apart(case, part) for part in parts))
        parts = next(room, None)
        if parts is None:
            found.append([case])
        else:
            parts.append(case)
    return [_bundle(f"bundle-{at}", tuple(parts)) for at, parts in enumerate(found)]


def _bundle(name: str, parts: tuple[FieldCase, ...]) -> Bundle:
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    needs: dict[str, Any] = {}
    for part in parts:
        before, after = overlay(before, part.before), overlay(after, part.after)
        needs = overlay(needs, part.needs)
    fields = tuple(sorted(set().union(*(named(part) for part in parts))))
    return Bundle(FieldCase(name, before, after, parts[0].effect, fields, needs=needs), parts)


# Fields that act on one thing: one check; one other workload; the labels that the Engine adds for shared namespaces.
_ONE_THING = {
    "readiness": "health",
    "antiAffinity": "affinity",
    "ipc": "securityOpt",
    "pid": "securityOpt",
    "privileged": "securityOpt",
}
_WIDE = {"network", "resources.rdma"}


def _apart(one: FieldCase, other: FieldCase) -> bool:
    """Whether two cases can be one workload: one effect, no field of both; what acts on many fields is alone."""
    mine, others = _touched(one), _touched(other)
    return one.effect is other.effect and not mine & others and not _WIDE & (mine | others)


def _touched(case: FieldCase) -> set[str]:
    paths = [".".join(path.replace("[]", "").split(".")[:2]) for path in varied(case)]
    nested = {path for path in paths if path.partition(".")[0] in {"resources", "rollout", "stop"}}
    whole = {*case.before, *case.after, *case.needs} - {"resources", "rollout", "stop"}
    return nested | {_ONE_THING.get(key, key) for key in whole}
