"""Instance and allocation ⇄ the Engine's create body and inspect document. Pure.

Sources: the Docker Engine API 1.41 to 1.45 and what the Engine makes of a body it accepts (unset values come back as
-1, 0, null or empty; names with a slash in front; ``restart: ""`` and ``no`` are one).
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from reconciler.actual.body import create_body, device_ids
from reconciler.actual.holdings import cpu_list, holding_of, observer, with_share, without_cards
from reconciler.actual.labels import LabelError, decode_labels
from reconciler.model.host import HostFacts
from reconciler.model.snapshot import Container, Holding, Limits, Ours

__all__ = ["born", "create_body", "decode", "limits_of"]

Json = Mapping[str, Any]

NEVER = "0001-01-01T00:00:00Z"
"""How the Engine spells a time that has not come."""


def decode(
    inspect: Json,
    cluster: str | None,
    ignore: Sequence[str] = (),
    facts: HostFacts | None = None,
    default_runtime: str = "",
) -> Container:
    """A container as ``GET /containers/ID/json`` shows it.

    ``ignore`` are globs of the names of observers, ``facts`` resolve cards that are not named by UUID,
    ``default_runtime`` is the Engine's. Labels that claim to be of ``cluster`` and cannot be read never raise: the
    container is foreign, and its ``note`` says why.
    """
    state, config, host = (inspect.get(key) or {} for key in ("State", "Config", "HostConfig"))
    name = (inspect.get("Name") or "").removeprefix("/")
    ours, note = _ours(config.get("Labels") or {}, cluster)
    holding = holding_of(inspect, facts, default_runtime, ours=ours is not None)
    if ours is not None and _other_cards(ours, holding_of(inspect, ours=True)):
        ours, note = None, "its cards are not those of its labels: it is a copy"
    if ours is not None and _sees_only(ours):
        holding = without_cards(holding)
    elif ours is not None and ours.allocation.share:
        holding = with_share(holding, ours.allocation.share)
    elif ours is None and any(fnmatchcase(name, glob) for glob in ignore):
        holding = observer(holding)
    limits = limits_of(host)
    return Container(
        id=inspect["Id"],
        name=name,
        state=state.get("Status") or "dead",
        image=config.get("Image") or "",
        ours=ours,
        holding=holding,
        limits=limits,
        holds=_holds(state, host, inspect.get("RestartCount") or 0),
        exit_code=state.get("ExitCode") or 0,
        error=" ".join((state.get("Error") or "").split()),
        health=(state.get("Health") or {}).get("Status") or "none",
        restart_count=inspect.get("RestartCount") or 0,
        created_at=inspect.get("Created") or "",
        started_at=_time(state.get("StartedAt")),
        finished_at=_time(state.get("FinishedAt")),
        user=config.get("User") or "",
        note=note,
    )


def limits_of(host_config: Json) -> Limits:
    """The *update* fields of an inspect document's ``HostConfig``, with the Engine's ways of saying unset made one."""
    pids = host_config.get("PidsLimit")
    return Limits(
        cpus=cpu_list(host_config.get("CpusetCpus")),
        memory_nodes=cpu_list(host_config.get("CpusetMems")),
        memory=max(0, host_config.get("Memory") or 0),
        nano_cpus=max(0, host_config.get("NanoCpus") or 0),
        pids=pids if pids is not None and pids > 0 else None,
        restart=(host_config.get("RestartPolicy") or {}).get("Name") or "no",
    )


def born(container: Container) -> tuple[str, str, str]:
    """Sorts containers by when they were created, then by id.

    The Engine drops trailing zeros of the fraction, so its times do not sort as text.
    """
    seconds, _, fraction = container.created_at.removesuffix("Z").partition(".")
    return seconds, fraction.ljust(9, "0"), container.id


def _ours(labels: Mapping[str, str], cluster: str | None) -> tuple[Ours | None, str]:
    try:
        return decode_labels(labels, cluster), ""
    except LabelError as error:
        return None, str(error)


def _other_cards(ours: Ours, holding: Holding) -> bool:
    """Labels can be copied with a container, by a tool that recreates it say; what the Engine handed over cannot.

    ``holding`` is by the ids that were handed over, whatever has become of those cards since.
    """
    given = device_ids(ours.allocation)
    return bool(given) and set(given) != holding.cards


def _sees_only(ours: Ours) -> bool:
    gpus = ours.spec.get("gpus")
    return isinstance(gpus, dict) and gpus.get("type") == "ObserveGpus"


def _holds(state: Json, host_config: Json, restarts: int) -> bool:
    """Whether what it was given is kept from others: it lives, it is about to, or a restarted dockerd would revive it.

    ``unless-stopped`` revives nothing that is seen exited: it was stopped by hand, or it would run.
    """
    status = state.get("Status")
    if status in {"created", "restarting", "paused", "running"}:
        return True
    if status != "exited":
        return False
    policy = host_config.get("RestartPolicy") or {}
    if policy.get("Name") == "on-failure":
        most = policy.get("MaximumRetryCount") or 0
        return bool(state.get("ExitCode")) and (most == 0 or restarts < most)
    return policy.get("Name") == "always"


def _time(text: str | None) -> str:
    return "" if not text or text == NEVER else text
