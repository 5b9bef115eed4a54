"""What a container of ours carries in its labels, all under ``io.reconciler.``.

Labels of a running container cannot change, so they hold only what it was born with. Anybody can write labels: whatever
does not read back as ours is somebody else's container, with the reason.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from reconciler.model.claims import WHOLE
from reconciler.model.resources import format_cpus, parse_cpus
from reconciler.model.snapshot import Ours
from reconciler.model.workload import Allocation, InstanceId, Kind, Share, Slice

PREFIX = "io.reconciler."
ROLE_WORKLOAD = "workload"

T = TypeVar("T")


class LabelError(ValueError):
    """Labels that claim to be ours and cannot be read; one line that names the label."""


def encode_labels(ours: Ours, cluster: str) -> dict[str, str]:
    """The labels of a container, sorted; empty values are left out."""
    instance = ours.instance
    values = {
        "allocation": encode_allocation(ours.allocation),
        "cluster": cluster,
        "commit": ours.commit,
        "digest": ours.digest,
        "generation": str(ours.generation),
        "index": instance.index,
        "kind": str(instance.kind),
        "member": str(instance.member) if instance.kind is Kind.TASK else "",
        "name": instance.name,
        "owner": ours.owner,
        "replaces": str(ours.replaces) if ours.replaces else "",
        "role": ROLE_WORKLOAD,
        "run": instance.run,
        "secrets": ours.secrets,
        "spec": _json(ours.spec),
    }
    return {PREFIX + key: value for key, value in values.items() if value}


def decode_labels(labels: Mapping[str, str], cluster: str | None) -> Ours | None:
    """What the labels say, None when they are not those of a workload of ``cluster``. Raises LabelError."""
    if cluster is None or labels.get(PREFIX + "cluster") != cluster:
        return None
    if labels.get(PREFIX + "role", ROLE_WORKLOAD) != ROLE_WORKLOAD:
        return None
    return Ours(
        instance=_read(labels, "name", lambda _: _instance(labels)),
        generation=_read(labels, "generation", _positive),
        digest=_read(labels, "digest", _text),
        spec=_read(labels, "spec", _mapping),
        allocation=_read(labels, "allocation", decode_allocation),
        commit=labels.get(PREFIX + "commit", ""),
        owner=labels.get(PREFIX + "owner", ""),
        replaces=_read(labels, "replaces", _positive, "0") if PREFIX + "replaces" in labels else 0,
        secrets=labels.get(PREFIX + "secrets", ""),
    )


def encode_allocation(allocation: Allocation) -> str:
    """One spelling for one allocation: JSON with sorted keys, CPU and node lists as the kernel writes them."""
    form = {
        "cpuNodes": format_cpus(allocation.cpu_nodes),
        "cpus": format_cpus(allocation.cpus),
        "exclusive": allocation.exclusive,
        "gpuNodes": format_cpus(allocation.gpu_nodes),
        "gpus": list(allocation.gpus),
        "memory": allocation.memory,
        "memoryNodes": format_cpus(allocation.memory_nodes),
        "millicpus": allocation.millicpus,
        "mig": [
            {"gpu": one.gpu, "profile": one.profile, "start": one.start, "uuid": one.uuid} for one in allocation.mig
        ],
        "ports": [list(port) for port in allocation.ports],
        "share": _share_form(allocation.share),
    }
    return _json({key: value for key, value in form.items() if value or key == "exclusive"})


def decode_allocation(text: str) -> Allocation:
    """The allocation that ``text`` spells; keys of a newer release are left alone. Raises ValueError."""
    form = _mapping(text)
    return Allocation(
        gpus=tuple(_str(one) for one in _list(form, "gpus")),
        mig=tuple(_slice(one) for one in _list(form, "mig")),
        share=_share(form["share"]) if "share" in form else None,
        gpu_nodes=parse_cpus(_str(form.get("gpuNodes", ""))),
        cpu_nodes=parse_cpus(_str(form.get("cpuNodes", ""))),
        memory_nodes=parse_cpus(_str(form.get("memoryNodes", ""))),
        cpus=parse_cpus(_str(form.get("cpus", ""))),
        exclusive=form.get("exclusive") is not False,
        memory=_int(form.get("memory", 0)),
        millicpus=_int(form.get("millicpus", 0)),
        ports=tuple(_port(one) for one in _list(form, "ports")),
    )


def _instance(labels: Mapping[str, str]) -> InstanceId:
    kind = Kind(labels.get(PREFIX + "kind", ""))
    instance = InstanceId(
        kind,
        labels[PREFIX + "name"],
        labels.get(PREFIX + "index", ""),
        labels.get(PREFIX + "run", ""),
        int(labels.get(PREFIX + "member", "0")),
    )
    if InstanceId.parse(str(instance)) != instance:
        raise ValueError(f"{instance} is no instance")
    return instance


def _read(labels: Mapping[str, str], key: str, read: Callable[[str], T], default: str = "") -> T:
    try:
        return read(labels.get(PREFIX + key, default))
    except (ValueError, KeyError, RecursionError) as error:
        raise LabelError(f"the label {PREFIX}{key} cannot be read: {error}") from None


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) < 1:
        raise ValueError(f"{text!r} is no positive number")
    return int(text)


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def _mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - a user's text is wrong, not a type in the code
    return value


def _list(form: Mapping[str, Any], key: str) -> list[Any]:
    value = form.get(key, [])
    if not isinstance(value, list):
        raise ValueError(f"{key} is no list")  # noqa: TRY004 - as above
    return value


def _slice(value: Any) -> Slice:
    if not isinstance(value, dict):
        raise ValueError("a slice is no JSON object")  # noqa: TRY004 - as above
    uuid = _text(_str(value.get("uuid")))  # nothing runs on a slice that is not cut
    return Slice(_str(value.get("gpu")), _str(value.get("profile")), _int(value.get("start")), uuid)


def _share_form(share: Share | None) -> dict[str, Any] | None:
    return {"gpu": share.gpu, "memory": share.memory, "milli": share.milli} if share else None


def _share(value: Any) -> Share:
    if not isinstance(value, dict):
        raise ValueError("a share is no JSON object")  # noqa: TRY004 - as above
    share = Share(_str(value.get("gpu")), _int(value.get("milli")), _int(value.get("memory")))
    if not 1 <= share.milli <= WHOLE or share.memory < 0:
        raise ValueError(f"{share.milli} thousandths and {share.memory} bytes are no share of a card")
    return share


def _port(value: Any) -> tuple[int, str, int]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError("a port is not [container port, protocol, host port]")
    return _int(value[0]), _str(value[1]), _int(value[2])


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")  # noqa: TRY004 - as above
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no whole number")  # noqa: TRY004 - as above
    return value
