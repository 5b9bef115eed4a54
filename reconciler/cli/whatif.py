"""``--whatif``: the plan of a world that is only assumed, beside the one of the world as it is."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files

from reconciler.actual.facts import facts_from_json
from reconciler.cli.selection import chosen, hint_of, listed
from reconciler.cli.wiring import Wiring
from reconciler.cycle import Pass
from reconciler.errors import UsageError
from reconciler.model.snapshot import HostView
from reconciler.model.workload import Kind
from reconciler.planner import Options, plan
from reconciler.planner.whatif import (
    AddHost,
    Assumption,
    Comparison,
    RemoveHost,
    Scale,
    assume,
    compare,
    copy_of,
    new_host,
)
from reconciler.report.names import count_name

FORMS = "write add-host=KIND:N, remove-host=NAME or instances=app/NAME:N"
MOST_HOSTS, MOST_INSTANCES = 10_000, 100_000


@dataclass(frozen=True, slots=True)
class Assumed:
    """The pass of an assumed world: what was assumed, in words, and what it changes."""

    seen: Pass
    words: tuple[str, ...]
    comparison: Comparison


def assumed(wiring: Wiring, seen: Pass) -> Assumed:
    """Plan once more, with what ``--whatif`` says. Raises UsageError.

    A host that is assumed lost is lost for good: as with ``--allow-prune``, its work is placed elsewhere.
    """
    settings = wiring.settings
    if settings.out:
        raise UsageError("--whatif assumes what is not there: its plan cannot be saved (leave out --out)")
    reader = _Reader(seen)
    said = [reader.read(text) for text in settings.whatif]
    every = [one for assumptions, _ in said for one in assumptions]
    desired, snapshot = assume(seen.desired, seen.snapshot, every)
    lost = any(isinstance(one, RemoveHost) for one in every)
    options = Options(settings.allow_prune or lost, wiring.secret_hashes(seen.desired))
    made = plan(desired, snapshot, seen.memory, wiring.clock(), options)
    then = replace(seen, desired=desired, snapshot=snapshot, plan=made)
    return Assumed(
        then, tuple(words for _, words in said), compare(chosen(settings, seen).plan, chosen(settings, then).plan)
    )


class _Reader:
    """From ``add-host=dgx-a100:4`` to assumptions; hosts get numbers that no other host has."""

    def __init__(self, seen: Pass) -> None:
        self._views = {view.spec.name: view for view in seen.snapshot.hosts}
        self._workloads = {work.identity: work for work in seen.desired.workloads}
        self._made: Counter[str] = Counter()

    def read(self, text: str) -> tuple[list[Assumption], str]:
        what, _, value = text.partition("=")
        name, colon, number = value.strip().rpartition(":") if ":" in value else (value.strip(), "", "")
        match what.strip():
            case "add-host" if name:
                return self._add(name, _count(text, number, MOST_HOSTS) if colon else 1)
            case "remove-host" if name and not colon:
                return self._remove(name)
            case "instances" if name and colon:
                return self._scale(name, _count(text, number, MOST_INSTANCES, least=0))
        raise UsageError(f"--whatif {text}: {FORMS}")

    def _add(self, kind: str, count: int) -> tuple[list[Assumption], str]:
        names = [self._name(kind) for _ in range(count)]
        known = self._views.get(kind)
        views = [_like(known, name) for name in names] if known else list(_bought(kind, names, self._views))
        which = names[0] if count == 1 else f"{names[0]} to {names[-1]}"
        like = f"like {kind}" if known else f"of kind {kind}"
        return [AddHost(view) for view in views], f"{count_name(count, 'more host')} {like} ({which})"

    def _name(self, kind: str) -> str:
        while True:
            self._made[kind] += 1
            name = f"whatif-{kind}-{self._made[kind]}"
            if name not in self._views:
                return name

    def _remove(self, name: str) -> tuple[list[Assumption], str]:
        if name not in self._views:
            raise UsageError(f"--whatif remove-host={name}: no such host{_hint(name, self._views)}")
        return [RemoveHost(name)], f"{name} is lost"

    def _scale(self, name: str, count: int) -> tuple[list[Assumption], str]:
        apps = sorted(one for one, work in self._workloads.items() if work.kind is Kind.APP)
        if name not in apps:
            raise UsageError(f"--whatif instances={name}: no such app{hint_of(name, apps) or listed(apps)}")
        was = self._workloads[name].instances
        return [Scale(name, count)], f"{name} has {count_name(count, 'instance')} instead of {was}"


def _hint(name: str, names: Mapping[str, HostView]) -> str:
    return hint_of(name, names) or listed(sorted(names))


def _count(text: str, number: str, most: int, least: int = 1) -> int:
    if not (number.isascii() and number.isdigit() and len(number) < 9 and least <= int(number) <= most):
        raise UsageError(f"--whatif {text}: not a number from {least} to {most}: {number!r}")
    return int(number)


def _like(view: HostView, name: str) -> HostView:
    try:
        return copy_of(view, name)
    except ValueError as error:
        raise UsageError(f"--whatif: {error}") from None


def _bought(kind: str, names: list[str], views: Mapping[str, HostView]) -> Iterator[HostView]:
    """Hosts of a kind of machine that is shipped with this package."""
    paths = [path for path in (files("reconciler") / "presets").iterdir() if path.name.endswith(".json")]
    kinds = {path.name.removesuffix(".json"): path for path in paths}
    if kind not in kinds:
        there = ", ".join(sorted(kinds))
        raise UsageError(
            f"--whatif add-host={kind}: neither a kind of machine ({there}) nor a host{_hint(kind, views)}"
        )
    facts = facts_from_json(kinds[kind].read_text(encoding="utf-8"), kind)
    return (new_host(name, facts) for name in names)
