"""What a saved plan depends on: commit, settings, specs, containers and what they hold; no times and no health."""

import hashlib
import json
from typing import Any

from reconciler.model.desired import Desired
from reconciler.model.snapshot import Container, HostView, Snapshot


def fingerprint(desired: Desired, snapshot: Snapshot) -> str:
    """``sha256:…`` over everything that decides a plan and stays put while nothing happens."""
    seen = {
        "commit": desired.commit,
        "cluster": repr(desired.cluster),
        "workloads": [repr(workload) for workload in desired.workloads],
        "hosts": [_host(view) for view in snapshot.hosts],
    }
    text = json.dumps(seen, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _host(view: HostView) -> dict[str, Any]:
    facts = view.facts
    return {
        "spec": repr(view.spec),
        "answers": view.reach,
        "nodes": repr(facts.numa_nodes) if facts else None,
        "cards": [(gpu.uuid, gpu.mig_enabled, repr(gpu.mig_slices)) for gpu in facts.gpus] if facts else None,
        "containers": sorted(_container(one) for one in view.containers),
    }


def _container(one: Container) -> list[str]:
    holding = one.holding
    cards = [*sorted(holding.gpus | holding.mig), *map(repr, holding.shares)]
    return [one.id, one.name, one.state, repr(one.limits), repr(cards), repr((holding.all_gpus, holding.ports))]
