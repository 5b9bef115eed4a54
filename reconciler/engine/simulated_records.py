"""Records of the state file: hosts, containers, and how they are found."""

import hashlib
from typing import Any

from reconciler.engine.simulated_life import Life, Record, argv
from reconciler.engine.simulated_rules import Refusal

STATE_FILE = "simulated.json"


def new_host() -> dict[str, Any]:
    """A host on which nothing ever happened."""
    return {"sequence": 0, "images": {}, "containers": {}, "networks": [], "down": ""}


def find(host: dict[str, Any], container: str, *, missing_is_none: bool = False) -> Any:
    """The record of an id, a name or an unambiguous beginning of an id."""
    records = host["containers"]
    if container in records:
        return records[container]
    for record in records.values():
        if record["name"] == container.removeprefix("/"):
            return record
    matching = [identity for identity in records if container and identity.startswith(container)]
    if len(matching) == 1:
        return records[matching[0]]
    if missing_is_none:
        return None
    raise Refusal(404, f"No such container: {container}")


def free_name(host: dict[str, Any], name: str, prefix: str = "") -> None:
    """Refuse a name that is taken (409, with the holder's id)."""
    for record in host["containers"].values():
        if record["name"] == name:
            raise Refusal(
                409,
                f'{prefix}Conflict. The container name "/{name}" is already in use by container "{record["id"]}". '
                "You have to remove (or rename) that container to be able to reuse that name.",
            )


def end(record: dict[str, Any], now: float, code: int, seen: Life) -> None:
    """The container has ended for good, until somebody starts it."""
    record.update(stopped={"at": now, "code": code}, started=seen.started, restarts=seen.restarts)


def first_line(record: Record) -> str:
    """What one start adds to its log."""
    command = argv(record)
    return " ".join(command[1:]) if command[0] == "echo" else f"simulated: {' '.join(command)}"


def reference(image: str) -> str:
    """``image`` with the tag that it means."""
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"


def digest(text: str) -> str:
    """64 hexadecimal digits: ids that depend on nothing but what was done before."""
    return hashlib.sha256(text.encode()).hexdigest()
