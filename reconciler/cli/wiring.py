"""The composition root: settings → the parts that a command needs, each made when it is first asked for."""

import os
import platform
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.actual.facts import facts_from_json
from reconciler.actual.observe import Observer
from reconciler.cli.output import complain
from reconciler.config import Settings
from reconciler.cycle import Cycle, Keeper
from reconciler.engine.open import open_reader, open_writer
from reconciler.engine.protocols import Reader, Writer
from reconciler.engine.simulated_rules import Machine
from reconciler.errors import LockHeldError, NoRepositoryError, SecretError, SourceError, UsageError
from reconciler.executor.secrets import SecretStore
from reconciler.journal.journal import Journal, cluster_dir
from reconciler.journal.lock import Holder, Lock
from reconciler.journal.permit import Permit
from reconciler.model.codec import CodecError, Saved, load_snapshot
from reconciler.model.desired import Desired
from reconciler.model.host import HostFacts, HostSpec
from reconciler.model.memory import Memory
from reconciler.model.plan import Action
from reconciler.model.snapshot import Snapshot
from reconciler.model.workload import SecretRef

if TYPE_CHECKING:
    from reconciler.actual.local_probe import LocalProbe
    from reconciler.desired.repository import Repository
    from reconciler.desired.resolve import Cache
    from reconciler.desired.shelf import Shelf
    from reconciler.desired.tree import Tree
    from reconciler.executor.apply import Executor

LOCAL_ENGINE = "unix:///var/run/docker.sock"


@dataclass(slots=True)
class FixedMemory:
    """Memory that outlives nothing: that of a replay, or of a repository without a name."""

    memory: Memory = field(default_factory=Memory)

    def load(self) -> Memory:
        """The memory."""
        return self.memory

    def save(self, memory: Memory) -> None:
        """Keep it for this process."""
        self.memory = memory


class Wiring:
    """The parts of one run. Nothing is contacted, read or created before a part is used."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] = os.environ, *, impatient: bool = False) -> None:
        """``impatient`` tries at once what waits after a failure, as somebody who types a command expects."""
        self.settings = settings
        self._impatient = impatient
        self._fetch_at = 0.0
        self._source_error: SourceError | None = None
        self._environ = environ
        self._keepers: dict[str, Keeper] = {}
        self._said: set[str] = set()
        self._last_read: tuple[Tree, Desired] | None = None
        self._cluster = ""
        self._locked = ""

    # -- git

    @cached_property
    def repository(self) -> "Repository":
        """The repository that was named. Raises NoRepositoryError, UsageError."""
        from reconciler.desired.repository import Repository  # noqa: PLC0415 - hosts and discover need none
        from reconciler.desired.source import Credentials, Source  # noqa: PLC0415 - as above

        if not self.settings.repo:
            raise NoRepositoryError("no repository: give --repo or set RECONCILE_REPO")
        return Repository(
            Source(
                location=self.settings.repo,
                state_dir=self.settings.state_dir,
                ref=self.settings.ref or None,
                path=self.settings.path,
                worktree=self.settings.worktree,
                credentials=Credentials.from_environment(self._environ),
            )
        )

    @cached_property
    def _documents(self) -> "Cache":
        from reconciler.desired.resolve import Cache  # noqa: PLC0415 - hosts and discover need none

        return Cache()

    def read(self, *, fresh: bool = False) -> Desired:
        """What git wants now. Raises SourceError (also when the locked cluster is another now), SpecError.

        A remote is asked every ``--poll`` seconds, or at once when ``fresh``; an error lasts until it is asked again.
        """
        if self.saved is not None and not self.settings.repo:
            return self.saved.desired
        desired = self._resolved(self._tree(fresh=fresh))
        name = desired.cluster.name if desired.cluster else ""
        if self._locked and name != self._locked:
            raise SourceError(f"the cluster was {self._locked} and is {name or 'nameless'} now: restart to work on it")
        self._cluster = name
        return desired

    def _tree(self, *, fresh: bool) -> "Tree":
        fetch = fresh or time.monotonic() >= self._fetch_at
        if not fetch and self._source_error is not None:
            raise self._source_error
        if fetch:
            # Jitter keeps many daemons from asking one git server in step; it decides nothing.
            self._fetch_at = time.monotonic() + self.settings.poll * random.uniform(0.9, 1.1)  # noqa: S311
        try:
            tree = self.repository.read(fetch=fetch)
        except SourceError as error:
            self._source_error = error
            raise
        self._source_error = None
        return tree

    def _resolved(self, tree: "Tree") -> Desired:
        """What a tree wants: known from the last pass, from an earlier run, or found out now."""
        if self._last_read is not None and self._last_read[0] is tree:
            return self._last_read[1]
        desired = self._shelf.find(tree)
        if desired is None:
            from reconciler.desired.resolve import resolve  # noqa: PLC0415 - 150 ms that a known commit need not pay

            desired = resolve(tree, self._documents)
            self._shelf.keep(tree, desired)
        self._last_read = tree, desired
        return desired

    @cached_property
    def _shelf(self) -> "Shelf":
        from reconciler.desired.shelf import Shelf  # noqa: PLC0415 - hosts and discover need none

        return Shelf(self.settings.state_dir / "resolved")

    # -- hosts

    @cached_property
    def observer(self) -> Observer:
        """What looks at hosts; it holds Readers only."""
        return Observer(self.reader, self.probe)

    def hosts(self) -> tuple[HostSpec, ...]:
        """Hosts named with ``--engine``, those of the repository, or else the Engine of this machine."""
        if self.settings.engine or not self.settings.repo:
            urls = self.settings.engine or (LOCAL_ENGINE,)
            return tuple(HostSpec(name=_host_name(url, at, urls), engine=url) for at, url in enumerate(urls))
        return self.read().hosts

    def observe(self, desired: Desired) -> Snapshot:
        """The hosts as they are now, or as they were when a snapshot was saved."""
        if self.saved is not None:
            return self.saved.snapshot
        return self.observer.observe(desired.hosts, desired.cluster.name if desired.cluster else None)

    def reader(self, host: HostSpec) -> Reader:
        """What can look at a host."""
        return open_reader(host.name, host.engine, self._simulations(), _machine(host))

    def writer(self, host: HostSpec) -> Writer:
        """What can change a host."""
        return open_writer(host.name, host.engine, self._simulations(), _machine(host))

    def probe(self) -> HostFacts:
        """The facts of this machine. Raises ProbeError."""
        return self._probe()

    @cached_property
    def _probe(self) -> "LocalProbe":
        from reconciler.actual.local_probe import LocalProbe  # noqa: PLC0415 - simulated hosts need none

        return LocalProbe()

    def _simulations(self) -> Path:
        """Where simulated hosts keep their state: with the cluster of what was read, if it has a name."""
        return cluster_dir(self.settings.state_dir, self._cluster or "none")

    # -- memory

    @cached_property
    def saved(self) -> Saved | None:
        """The snapshot of ``--snapshot``. Raises UsageError."""
        path = self.settings.snapshot
        if not path:
            return None
        try:
            return load_snapshot(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        except (CodecError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: {error}") from None

    def clock(self) -> float:
        """Now, in seconds; in a replay the time at which the snapshot was saved."""
        return self.saved.now if self.saved is not None else time.time()

    def keeper(self, desired: Desired) -> Keeper:
        """What keeps memory: the journal, opened for reading only in a run that changes nothing."""
        name = desired.cluster.name if desired.cluster else ""
        if name not in self._keepers:
            self._keepers[name] = self._keeper(name)
        return self._keepers[name]

    def _keeper(self, cluster: str) -> Keeper:
        if self.saved is not None:
            return FixedMemory(self.saved.memory)
        return self.journal(cluster) if cluster else FixedMemory()

    def journal(self, cluster: str) -> Journal:
        """The cluster's journal; what was found wrong with it is said."""
        journal = Journal.open(self.settings.state_dir, cluster, read_only=not self._locked)
        for warning in journal.warnings:
            complain(f"reconcile: {warning}")
        return journal

    @contextmanager
    def writing(self) -> Iterator[Journal]:
        """Hold the cluster's lock; its journal, open to be written. Raises LockHeldError, SpecError, SourceError."""
        cluster = self.read().cluster
        if cluster is None:
            raise SourceError("no Cluster document: it names the labels, containers, lock and state of what is applied")
        holder = Holder(os.getpid(), platform.node(), f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S UTC}", _command())
        with self._lock(cluster.name, holder):
            self._locked = cluster.name
            journal = self.journal(cluster.name)
            self._keepers[cluster.name] = journal
            try:
                yield journal
            finally:
                journal.close()
                self._locked = ""

    def _lock(self, cluster: str, holder: Holder) -> Lock:
        """The cluster's lock. A daemon that holds it is told of ``--allow-prune``, which is meant for this commit."""
        folder = cluster_dir(self.settings.state_dir, cluster)
        try:
            return Lock.acquire(folder / "lock", holder)
        except LockHeldError as error:
            commit = self.read().commit
            if not (self.settings.allow_prune and commit):
                raise
            Permit(folder).give(commit)
            raise LockHeldError(f"{error}; it may now prune for commit {commit[:12]}") from None

    def _may_prune(self, desired: Desired) -> bool:
        if self.settings.allow_prune or desired.cluster is None:
            return self.settings.allow_prune
        return Permit(cluster_dir(self.settings.state_dir, desired.cluster.name)).covers(desired.commit)

    # -- a pass

    @cached_property
    def hands(self) -> "Executor":
        """What issues steps: the only part that is ever given a Writer. Pulls are told on stderr."""
        from reconciler.executor.apply import Executor  # noqa: PLC0415 - a dry run has no hands

        return Executor(
            lambda host: (self.reader(host), self.writer(host)),
            progress=lambda host, line: complain(f"{host}: {line}"),
            touched=self.observer.forget,
        )

    @cached_property
    def _cycle(self) -> Cycle:
        return Cycle(
            self.read,
            self.observe,
            self.keeper,
            clock=self.clock,
            secrets=self.secret_hashes,
            allow_prune=self._may_prune,
            impatient=self._impatient,
        )

    def cycle(self) -> Cycle:
        """One pass, ready to be made."""
        return self._cycle

    def selects(self, action: Action) -> bool:
        """Whether ``--host`` and ``--only`` let this run act on it."""
        return self.settings.selects(action.host, action.instance)

    def secret_hashes(self, desired: Desired) -> Mapping[str, str]:
        """Keyed hashes of the secrets of each workload, by identity.

        Without a key nothing is compared. A secret that cannot be read here (a dry run may be made elsewhere) is said
        once, and its workload is not compared.
        """
        cluster = desired.cluster
        if cluster is None or cluster.secrets_key is None or self.saved is not None:
            return {}
        store, key = SecretStore(cluster.secrets_dir), SecretRef(*cluster.secrets_key)
        hashes: dict[str, str] = {}
        for workload in desired.workloads:
            try:
                hashes[workload.identity] = store.hash_of(workload.container, key)
            except SecretError as error:
                self._say_once(f"{workload.identity}: secrets are not compared: {error}")
        return {identity: digest for identity, digest in hashes.items() if digest}

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            complain(f"reconcile: {line}")


def _machine(host: HostSpec) -> Machine | None:
    return Machine.of(facts_from_json(host.facts_json, host.name)) if host.facts_json else None


def _host_name(url: str, at: int, urls: tuple[str, ...]) -> str:
    """A name for an Engine that no document names: this machine's, or the URL where there are several."""
    return platform.node() or "localhost" if url == LOCAL_ENGINE or len(urls) == 1 else f"engine-{at}"


def _command() -> str:
    """The command for people who ask who holds the lock; arguments may hold credentials and are left out."""
    words = [word for word in sys.argv[1:2] if not word.startswith("-")]
    return " ".join(["reconcile", *words])
