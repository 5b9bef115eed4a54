"""What is said of specs: every problem of a tree, or of one document of a kind."""

from collections.abc import Mapping

from reconciler.desired.resolve import Cache, resolve
from reconciler.errors import SpecError
from tests.fakes.trees import APP, CLUSTER, HOST, LOCAL_SERVICE, TASK, tree

BASES = {"App": APP, "Task": TASK, "LocalService": LOCAL_SERVICE, "Host": HOST, "Cluster": CLUSTER}
# Grants that a field needs, so that its form alone is looked at.
OPEN = CLUSTER + (
    "secrets: {directory: /secrets}\n"
    "securityProfiles: [{match: ['*'], mounts: [/], devices: [/dev], hostNetwork: true, ipc: host, pid: host, "
    "privileged: true, capabilities: [ALL], securityOpt: [seccomp=unconfined], runtime: runsc, allGpus: true, "
    "rdma: true}]\n"
)


def problems(files: Mapping[str, str | bytes]) -> list[str]:
    """Every problem of a tree."""
    try:
        resolve(tree(files), Cache())
    except SpecError as error:
        return [str(problem) for problem in error.problems]
    return []


def said(kind: str, lines: str) -> list[str]:
    """Every problem of one document of ``kind`` with ``lines`` added, without its file."""
    files = {"a.yaml": BASES[kind] + lines}
    if kind != "Cluster":
        files["cluster.yaml"] = OPEN
    return [problem.removeprefix("a.yaml:") for problem in problems(files)]
