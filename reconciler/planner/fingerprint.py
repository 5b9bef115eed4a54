"""What a saved plan depends on: commit, settings, specs, containers and what they hold; no times and no health."""

import hashlib
import json
from typing import Any

from reconciler.model.desired import Desired
from reconciler.model.snapshot import Container, HostView, Snapshot
from reconciler.planner.memo import Memo


def fingerprint(desired: Desired, snapshot: Snapshot) -> str:
    """``sha256:…`` over everything that decides a plan and stays put while nothing happens."""
    seen = {
        "commit": desired.commit,
        "cluster": repr(desired.cluster),
        "workloads": [_workload(workload) for workload in desired.workloads],
        "hosts": [_host(view) for view in snapshot.hosts],
    }
    return f"sha256:{_digest(seen)}"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest_of_host(view: HostView) -> str:
    facts = view.facts
    seen = {
        "spec": repr(view.spec),
        "answers": view.reach,
        "nodes": repr(facts.numa_nodes) if facts else None,
        "cards": [(gpu.uuid, gpu.mig_enabled, repr(gpu.mig_slices)) for gpu in facts.gpus] if facts else None,
        "containers": sorted(_container(one) for one in view.containers),
    }
    return _digest(seen)


_host = Memo(_digest_of_host)
_workload = Memo(repr)


def _container(one: Container) -> list[str]:
    holding = one.holding
    cards = [*sorted(holding.gpus | holding.mig), *map(repr, holding.shares)]
    return [one.id, one.name, one.state, repr(one.limits), repr(cards), repr((holding.all_gpus, holding.ports))]
