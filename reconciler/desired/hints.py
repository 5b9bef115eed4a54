"""What to write instead: the key that was meant, and what a map or a list looks like at a place."""

import re
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel

from reconciler.desired.documents import Path
from reconciler.desired.shapes import forms_at, places

# What other systems call our fields, folded; a word serves only where our field exists.
WORDS = {
    "entrypoint": ("command", "exec"),
    "command": ("exec",),
    "cmd": ("args", "exec"),
    "arguments": ("args",),
    "replicas": ("instances",),
    "scale": ("instances",),
    "count": ("instances",),
    "environment": ("env",),
    "envs": ("env",),
    "envvars": ("env",),
    "mounts": ("volumes",),
    "volumemounts": ("volumes",),
    "binds": ("volumes",),
    "healthcheck": ("health",),
    "livenessprobe": ("health",),
    "readinessprobe": ("readiness",),
    "startupprobe": ("readiness",),
    "gpu": ("gpus",),
    "cpu": ("cpus",),
    "cores": ("cpus",),
    "mem": ("memory",),
    "memlimit": ("memory",),
    "memorylimit": ("memory",),
    "ram": ("memory",),
    "shmsize": ("shm",),
    "sharedmemory": ("shm",),
    "pidslimit": ("pids",),
    "placement": ("placementPolicy",),
    "policy": ("placementPolicy",),
    "nodeselector": ("placementPolicy",),
    "constraints": ("placementPolicy",),
    "tags": ("tag",),
    "limits": ("resources",),
    "requests": ("resources",),
    "strategy": ("rollout",),
    "updateconfig": ("rollout",),
    "networkmode": ("network",),
    "networks": ("network",),
    "expose": ("ports",),
    "secrets": ("secretFiles",),
    "files": ("configs",),
    "restartpolicy": ("restart",),
    "imagepullpolicy": ("pull",),
    "pullpolicy": ("pull",),
    "stopsignal": ("signal",),
    "stopgraceperiod": ("gracePeriod",),
    "workdir": ("workingDir",),
    "cwd": ("workingDir",),
    "runasuser": ("user",),
    "annotations": ("labels",),
    "periodseconds": ("interval",),
    "failurethreshold": ("retries",),
    "initialdelayseconds": ("startPeriod",),
    "containerport": ("container",),
    "target": ("container",),
    "mountpath": ("container",),
    "hostport": ("host",),
    "published": ("host",),
    "source": ("host",),
    "hostpath": ("host",),
    "topologyspreadconstraints": ("spread",),
    "topologykey": ("by",),
    "podaffinity": ("affinity",),
    "podantiaffinity": ("antiAffinity",),
}
# What stands in a map, by the name of the field that holds it, alone or in a list.
MAPS = {
    "placementPolicy": "{type: ONE_PER_HOST}",
    "policies": "{type: ONE_PER_HOST}",
    "prefer": "{type: MATCH_TAG, tag: ssd, weight: 50}",
    "spread": "{by: rack}",
    "affinity": "{workload: app/cache}",
    "antiAffinity": "{workload: app/cache}",
    "resources": "{cpus: 2, memory: 8Gi}",
    "ulimits": "{nofile: 1048576}",
    "env": "{NAME: value}",
    "labels": "{team: chat}",
    "ports": "{container: 80}",
    "volumes": "{volume: data, container: /data}",
    "configs": "{file: app.conf, container: /etc/app.conf}",
    "secretFiles": "{secret: tls, key: cert.pem, container: /etc/cert.pem}",
    "tmpfs": "{container: /tmp, size: 1Gi}",
    "devices": "{host: /dev/fuse}",
    "logging": "{driver: journald}",
    "options": "{max-size: 50m}",
    "readiness": "{exec: [curl, localhost]}",
    "health": "{exec: [curl, localhost]}",
    "http": "{port: 80}",
    "tcp": "{port: 80}",
    "stop": "{gracePeriod: 30s}",
    "rollout": "{order: stop-first}",
    "schedule": "{cron: '0 3 * * *'}",
    "reserved": "{cpus: 0-1, memory: 8Gi}",
    "gpus": "{exclude: [GPU-5f1c]}",
    "tls": "{ca: ca.pem, cert: cert.pem, key: key.pem}",
    "defaults": "{pull: always}",
    "prune": "{maxFraction: 0.3}",
    "securityProfiles": "{match: ['app/*'], mounts: [/data]}",
    "secrets": "{directory: /etc/secrets}",
    "hashKey": "{secret: reconciler, key: hash}",
    "probe": "{image: 'probe:1'}",
    "quota": "{gpus: 8}",
    "limit": "{gpus: 8}",
}
POLICIES = {
    "MAX_N_PER_HOST": "{type: MAX_N_PER_HOST, max: 2}",
    "MATCH_TAG": "{type: MATCH_TAG, tag: a100}",
    "RULE_BASED": "{type: RULE_BASED, rule: host.gpus >= 4}",
    "COMPOSITE": "{type: COMPOSITE, combiner: AND, policies: [{type: ONE_PER_HOST}]}",
    **{name: f"{{type: {name}}}" for name in ("ANY", "ONE_PER_HOST", "NO_TAG", "LOCAL")},
}
_SIMPLE = re.compile(r"[\w./@+-]+", re.ASCII)
_LONGEST = 60  # characters of what was written that a message repeats
_COMMANDS = frozenset({"command", "args", "exec", "preStop"})


def closest(name: str, known: Collection[str], cutoff: float = 0.65) -> str:
    """The nearest known name, or nothing."""
    import difflib  # noqa: PLC0415 - only a mistake needs it

    same = [part for part in known if _folded(part) == _folded(name)]
    return next(iter(same or difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)), "")


def meant(name: str, near: set[str], model: type[BaseModel], tops: set[str], prefix: str = "") -> str:
    """The key that ``name`` was meant to be: one of ``near``, or the path of one elsewhere in the document.

    ``prefix`` is the path of the map that holds it, with its dot. From there only what lies deeper and the fields of
    the document itself are looked at: any other map has words of its own.
    """
    words = (name, *WORDS.get(_folded(name), ()))
    same = [part for word in words for part in near if _folded(part) == _folded(word)]
    if same:
        return same[0]
    far = {key: paths[0] for key, paths in places(model, tops).items() if len(paths) == 1}
    if prefix:
        if far.get(name, "").startswith(prefix):
            return far[name]
        return closest(name, near) or (f"{name} of the document" if name in tops else "")
    found = [far[word] for word in words if word in far]
    return found[0] if found else closest(name, near) or far.get(closest(name, far, 0.8), "")


def unknown(where: Path, value: Any, model: type[BaseModel], tops: set[str]) -> tuple[str, str]:
    """What to say of the key at pydantic's location ``where`` inside the map ``value``; and the key that was meant."""
    key = str(where[-1])
    chosen, everything = forms_at(model, where[:-1])
    near = set().union(*(form.fields for form in chosen)) if len(where) > 1 else tops
    takers = sorted({name for form in everything if key in form.fields for name in form.names})
    if takers and key not in near:
        label = value.get("type") if isinstance(value, dict) and "type" in near else where[-2]
        *others, last = map(_bare, takers)
        does = f"{', '.join(others)} or {last}" if others else last
        return f"{_bare(label)} takes no {key}; {does} does", ""
    prefix = "".join(f"{part}." for part in where[:-1])
    found = meant(key, near, model, tops, prefix)
    return f"unknown key{f'; did you mean {found}?' if found else ''}", found


def map_like(path: Path, value: Any) -> str:
    """``, such as {type: ONE_PER_HOST}`` for the map that should stand at ``path``, or nothing."""
    name = _name(path)
    shown = MAPS.get(name, "")
    if name in {"placementPolicy", "policies"} and isinstance(value, str):
        shown = POLICIES.get(value, shown)
    return f", such as {shown}" if shown else ""


def list_like(path: Path, value: Any) -> str:
    """``, such as [run.sh]`` for the list that should stand at ``path``, or nothing."""
    name = _name(path)
    shown = MAPS.get(name, "")
    if not shown and isinstance(value, str) and len(value) <= _LONGEST:
        words = value.split() if name in _COMMANDS else [value]
        shown = ", ".join(words) if all(map(_SIMPLE.fullmatch, words)) else ""
    return f", such as [{shown}]" if shown else ""


def _name(path: Path) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _bare(label: Any) -> str:
    return str(label).strip("()")
