"""What one commit wants."""

from dataclasses import dataclass, field

from reconciler.model.host import HostSpec
from reconciler.model.workload import Workload


@dataclass(frozen=True, slots=True)
class Prune:
    """Whether instances that left git are stopped, and how many at once without ``--allow-prune``."""

    enabled: bool = True
    max_fraction: float = 0.3


@dataclass(frozen=True, slots=True)
class Cluster:
    """The settings of a repository. ``secrets_dir`` holds one folder per secret with one file per key.

    ``secrets_key`` names the secret (name, key) whose value keys the hash by which a changed secret is noticed.
    """

    name: str
    prune: Prune = field(default_factory=Prune)
    secrets_dir: str = ""
    secrets_key: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Desired:
    """Everything git says, defaults filled in, sorted by identity.

    ``commit`` is the full hash, or None for a plain folder or uncommitted files; ``source`` says where it came from,
    without credentials. ``settings`` is a hash of everything that shapes a plan beside specs and hosts.
    """

    cluster: Cluster | None
    workloads: tuple[Workload, ...]
    hosts: tuple[HostSpec, ...]
    commit: str | None = None
    source: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        """What tells this state of git from others: the commit, or the place of files that have none."""
        return self.commit or self.source
