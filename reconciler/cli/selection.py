"""``--host`` and ``--only``: that they mean something, and what of a plan they leave."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from reconciler.config import Settings, covers
from reconciler.cycle import Pass
from reconciler.errors import UsageError
from reconciler.report.status import pending_of, waiting_of

FEW = 5


def options_of(settings: Settings) -> str:
    """The options as they were given: ``--host gpu-01 --only app/web``; empty without any."""
    parts = [f"--host {','.join(settings.host)}"] if settings.host else []
    parts += [f"--only {','.join(settings.only)}"] if settings.only else []
    return " ".join(parts)


def check_selection(settings: Settings, seen: Pass) -> None:
    """Raise UsageError for a glob that is the name of no host, or a selector of nothing that is known."""
    views = {view.spec.name for view in seen.snapshot.hosts}
    check_hosts(settings, views | {host.name for host in seen.desired.hosts})
    names = known(seen)
    for selector in settings.only:
        if not any(covers(selector, name) for name in names):
            raise UsageError(f"--only {selector} matches nothing{meant_by(selector, names)}")


def check_hosts(settings: Settings, hosts: Iterable[str]) -> None:
    """Raise UsageError for a glob that is the name of none of ``hosts``."""
    hosts = sorted(hosts)
    for glob in settings.host:
        if not any(fnmatchcase(host, glob) for host in hosts):
            raise UsageError(f"--host {glob} matches no host{hint_of(glob, hosts) or listed(hosts)}")


def known(seen: Pass) -> set[str]:
    """Everything that a selector can mean: workloads of git, and instances, also past ones."""
    plan = seen.plan
    parts = (plan.kept, plan.actions, plan.pending, plan.waiting, plan.drift)
    found = {one.instance for part in parts for one in part if one.instance}
    found |= set(seen.memory.finished)
    names = {workload.identity for workload in seen.desired.workloads}
    return names | {name for one in found for name in (one.workload, str(one))}


def hint_of(word: str, names: Iterable[str]) -> str:
    """``; did you mean app/web?``: the name that is most like a word, or nothing."""
    close = get_close_matches(word, sorted(names), 1)
    return f"; did you mean {close[0]}?" if close else ""


def meant_by(selector: str, names: Iterable[str]) -> str:
    """What a selector that matches nothing may have been: a name without its kind, or one that is like it."""
    names = sorted(names)
    bare = selector.strip("/")
    if "/" not in bare:
        same = [name for name in names if name.partition("/")[2] == bare]
        if same:
            return f"; did you mean {same[0]}?"
    kind, *rest = bare.split("/")
    close = hint_of(bare, names) or hint_of("/".join([kind, *rest[:1]]), names)
    return close or listed([name for name in names if name.startswith(f"{kind}/") and name.count("/") == 1])


def listed(names: Sequence[str]) -> str:
    """The workloads of that kind, where no name is like the word: all of them, or the first few."""
    if len(names) == 1:
        return f"; did you mean {names[0]}?"
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"; there are {', '.join(names[:FEW])}{more}" if names else ""


def chosen(settings: Settings, seen: Pass) -> Pass:
    """The pass with what was selected of its plan: everything is planned, and a part is shown and applied."""
    if not (settings.host or settings.only):
        return seen
    plan = seen.plan
    actions = tuple(one for one in plan.actions if settings.selects(one.host, one.instance))
    pending, waiting = pending_of(plan, settings.selects), waiting_of(plan, settings.selects)
    drift = tuple(one for one in plan.drift if one.instance is None or settings.selects(one.host, one.instance))
    kept = tuple(one for one in plan.kept if settings.selects(one.host, one.instance))
    busy = {one.instance for one in plan.actions} | {one.instance for one in plan.pending}
    unchanged = sum(one.instance not in busy for one in kept)
    left = replace(plan, actions=actions, pending=pending, waiting=waiting, drift=drift, kept=kept, unchanged=unchanged)
    return replace(seen, plan=left)
