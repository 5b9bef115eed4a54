"""What is no fault of the files, and still hardly meant: said when a repository is validated."""

from collections import defaultdict
from collections.abc import Iterator

from reconciler.model.desired import Desired
from reconciler.model.workload import Kind, Workload


def advice(desired: Desired) -> Iterator[str]:
    """One line for each thing that will keep work from running."""
    if desired.cluster is None:
        yield "no Cluster: nothing can be applied before one names the containers (kind: Cluster)"
    if not desired.hosts:
        yield "no Host: there is nowhere to run anything (kind: Host)"
    else:
        yield from _ports(desired)


def _ports(desired: Desired) -> Iterator[str]:
    """A port of the host that more instances want than there are hosts: the others can never start.

    Tasks may wait for one another, so they do not count.
    """
    hosts = len(desired.hosts)
    wanted: dict[tuple[int, str, str], list[tuple[str, int]]] = defaultdict(list)
    for workload in desired.workloads:
        copies = _copies(workload, hosts)
        for port in workload.container.ports:
            if port.host is not None and copies:
                wanted[port.host, port.protocol, port.host_ip].append((workload.identity, copies))
    for (number, protocol, _), users in sorted(wanted.items()):
        total = sum(copies for _, copies in users)
        if total > hosts:
            names = ", ".join(name for name, _ in users)
            there = "there is 1 host" if hosts == 1 else f"there are {hosts} hosts"
            yield f"{names}: {total} instances want port {number}/{protocol} of a host, and {there}"


def _copies(workload: Workload, hosts: int) -> int:
    """How many instances run at once. A LocalService may leave hosts out, so alone it never wants too many."""
    if workload.suspend or workload.kind is Kind.TASK:
        return 0
    return hosts if workload.kind is Kind.LOCAL_SERVICE else workload.instances
