"""``reconcile hosts``, ``snapshot`` and ``discover``: what is there, with or without a repository."""

from dataclasses import replace
from fnmatch import fnmatchcase

from reconciler.actual.facts import facts_to_json
from reconciler.cli.output import print_json, print_text, screen
from reconciler.cli.selection import check_hosts
from reconciler.cli.wiring import Wiring
from reconciler.config import Settings
from reconciler.model.codec import Saved, dump_snapshot
from reconciler.model.desired import Desired
from reconciler.model.memory import Memory
from reconciler.model.snapshot import Reach, Snapshot
from reconciler.report.facts import facts_text
from reconciler.report.hosts import hosts_json, hosts_text

DONE, ERROR = 0, 1


def hosts(settings: Settings) -> int:
    """Every card of every host and who holds it; 1 when a host could not be looked at."""
    seen, _, _ = _look(Wiring(settings))
    check_hosts(settings, (view.spec.name for view in seen.hosts))
    seen = replace(seen, hosts=tuple(view for view in seen.hosts if _chosen(settings, view.spec.name)))
    if settings.json:
        print_json(hosts_json(seen))
    else:
        where = screen(settings)
        print_text(hosts_text(seen, width=where.width, color=where.color, wide=settings.wide))
    return ERROR if any(view.reach is Reach.UNREACHABLE for view in seen.hosts) else DONE


def snapshot(settings: Settings) -> int:
    """Everything that was observed and remembered, as JSON that ``--snapshot`` replays."""
    wiring = Wiring(settings)
    seen, memory, desired = _look(wiring)
    print_text(dump_snapshot(Saved(seen, memory, wiring.clock(), desired)))
    return DONE


def discover(settings: Settings) -> int:
    """The facts of this machine, as a ``facts`` file holds them."""
    facts = Wiring(settings).probe()
    if settings.text:
        where = screen(settings)
        print_text(facts_text(facts, width=where.width, color=where.color))
    else:
        print_json(facts_to_json(facts))
    return DONE


def _look(wiring: Wiring) -> tuple[Snapshot, Memory, Desired]:
    """What is there, what is remembered, and what git wants; without a repository nothing is wanted or remembered."""
    settings = wiring.settings
    if wiring.saved is not None:
        return wiring.saved.snapshot, wiring.saved.memory, wiring.saved.desired
    if settings.engine or not settings.repo:
        hosts = wiring.hosts()
        return wiring.observer.observe(hosts, None), Memory(), Desired(None, (), hosts)
    desired = wiring.read()
    return wiring.observe(desired), wiring.keeper(desired).load(), desired


def _chosen(settings: Settings, host: str) -> bool:
    return not settings.host or any(fnmatchcase(host, glob) for glob in settings.host)
