"""Tree → Desired: select, parse, validate, merge defaults, check across documents, build. All problems at once."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from reconciler.desired import build
from reconciler.desired.checks import cluster_faults, host_faults, secret_uses, workload_faults
from reconciler.desired.checks_placement import circles, strangers, unknown_labels, unknown_tags
from reconciler.desired.complaints import Places, dotted
from reconciler.desired.defaults import check_form, merge
from reconciler.desired.documents import Document, Path, parse
from reconciler.desired.schema import API_VERSION, Model, kind_of, stranger, validate
from reconciler.desired.schema_host import Cluster, Host
from reconciler.desired.schema_workload import KINDS as WORKLOADS
from reconciler.desired.schema_workload import Workload as WorkloadModel
from reconciler.desired.security import denials, profile_of
from reconciler.desired.selection import IGNORE_FILE, beside, candidates, referred
from reconciler.desired.tree import Tree
from reconciler.errors import Problem, SpecError
from reconciler.model.desired import Desired
from reconciler.model.host import HostSpec
from reconciler.model.workload import ConfigFile, Workload

Parsed = tuple[tuple[Document, ...], tuple[Problem, ...]]
Validated = tuple[Model | None, list[Problem]]


class Cache:
    """What earlier calls of ``resolve`` found, by content: as much as the last tree needed, and no more."""

    def __init__(self) -> None:
        self.parsed: dict[tuple[str, str], Parsed] = {}
        self.validated: dict[tuple[str, str, int, str], Validated] = {}
        self.seen: tuple[Any, ...] | None = None
        self.desired: Desired | None = None


def resolve(tree: Tree, cache: Cache) -> Desired:
    """Everything that ``tree`` wants. Raises SpecError with every problem of every file.

    The same tree gives the same object: when neither a file nor its place changed, nothing is read again.
    """
    seen = (tree.source, tree.prefix, dict(tree.files), dict(tree.bad), tree.warnings)
    if cache.desired is None or cache.seen != seen:
        cache.seen, cache.desired = seen, None
        cache.desired = _Resolution(tree, cache).run()
    if cache.desired.commit != tree.commit:
        cache.desired = replace(cache.desired, commit=tree.commit)
    return cache.desired


class _Entry(NamedTuple):
    """One document of ours: where it is, its validated form, and where its parts stand."""

    path: str
    places: Places
    model: Model

    @property
    def where(self) -> str:
        return f"{self.places.document.file}:{self.places.document.line}"


class _Resolution:
    """One tree being resolved."""

    def __init__(self, tree: Tree, cache: Cache) -> None:
        self.tree = tree
        self.old = (cache.parsed, cache.validated)
        self.cache = cache
        cache.parsed, cache.validated = {}, {}
        self.problems: list[Problem] = []
        self.warnings: list[str] = list(tree.warnings)
        self.cluster: Cluster | None = None
        self.cluster_document: Document | None = None
        self.defaults: dict[str, Any] = {}
        self.defaults_key = ""

    def run(self) -> Desired:
        documents = self._documents()
        whole = not self.problems  # what cannot be read may hold what others name
        self._find_cluster(documents)
        entries = [entry for path, index, document in documents if (entry := self._entry(path, index, document))]
        self._duplicates(entries)
        if whole:
            self._strangers(entries, documents)
        hosts = [self._host(entry, entry.model) for entry in entries if isinstance(entry.model, Host)]
        workloads = [self._workload(entry, entry.model) for entry in entries if isinstance(entry.model, WorkloadModel)]
        if self.problems:
            raise SpecError(self.problems)
        self._warn(entries, hosts, workloads)
        return Desired(
            cluster=build.cluster(self.cluster) if self.cluster else None,
            workloads=tuple(sorted(workloads, key=lambda one: (one.kind, one.name))),
            hosts=tuple(sorted(hosts, key=lambda one: one.name)),
            commit=self.tree.commit,
            source=self.tree.source,
            warnings=tuple(self.warnings),
        )

    def _documents(self) -> list[tuple[str, int, Document]]:
        """Every document of every file that no other document refers to."""
        paths, self.problems = candidates(self.tree)
        parsed: dict[str, Parsed] = {}
        targets: dict[str, tuple[Document, Path]] = {}
        for path in paths:
            if path in targets and not self._may_be_ours(path):
                continue
            parsed[path] = self._parse(path)
            for document in parsed[path][0]:
                if kind_of(document.value):
                    found = referred(path, document.value)
                    targets |= {target: (document, place) for target, place in found.items() if target != path}
        self._not_both({path: parsed[path][0] for path in targets if path in parsed}, targets)
        read = {path: found for path, found in parsed.items() if path not in targets}
        self.problems += [problem for _, problems in read.values() for problem in problems]
        return [(path, index, one) for path, (found, _) in read.items() for index, one in enumerate(found)]

    def _may_be_ours(self, path: str) -> bool:
        """Whether a file that is referred to could hold documents too; most are large, and parsing them is slow."""
        return path not in self.tree.bad and API_VERSION.encode() in self.tree.blobs.read(path)

    def _not_both(self, found: dict[str, tuple[Document, ...]], targets: dict[str, tuple[Document, Path]]) -> None:
        """A file that is referred to holds no documents; were it silently left out, its workloads would vanish."""
        for target, documents in found.items():
            if any(kind_of(document.value) for document in documents):
                referrer, place = targets[target]
                message = f"{dotted(place)}: {self.tree.prefix}{target} holds documents of its own"
                hint = f"list it in {IGNORE_FILE} if it is only a file for a container"
                self.problems.append(Places(referrer).problem(place, f"{message}; {hint}"))

    def _parse(self, path: str) -> Parsed:
        name = self.tree.prefix + path
        if path in self.tree.bad:
            return (), (Problem(name, 0, 0, self.tree.bad[path]),)
        key = (name, self.tree.files[path])
        parsed = self.old[0].get(key) or parse(self.tree.blobs.read(path), name)
        self.cache.parsed[key] = parsed
        return parsed

    def _find_cluster(self, documents: list[tuple[str, int, Document]]) -> None:
        """The first Cluster and its defaults; a second one is a problem."""
        found = [part for part in documents if kind_of(part[2].value) == "Cluster"]
        for _, _, extra in found[1:]:
            first = found[0][2]
            message = f"a second Cluster (the first is at {first.file}:{first.line})"
            self.problems.append(Places(extra).problem(("kind",), message))
        if not found:
            return
        path, index, self.cluster_document = found[0]
        defaults = self.cluster_document.value.get("defaults")
        if isinstance(defaults, dict):
            self.defaults = {key: part for key, part in defaults.items() if not key.startswith("x-")}
            self.defaults_key = f"{self.cluster_document.file}#{index}@{self.tree.files[path]}"
        models, problems = check_form(self.cluster_document)
        self.problems += problems
        for model, places in models:
            self._faults(workload_faults(model), places)

    def _entry(self, path: str, index: int, document: Document) -> _Entry | None:
        kind = kind_of(document.value)
        if kind is None:
            self.problems.append(stranger(Places(document)))
            return None
        if kind == "Queue":
            self.problems.append(Places(document).problem(("kind",), "Queue: not supported yet"))
        merged = kind in WORKLOADS and bool(self.defaults)
        places = Places(document, self.cluster_document if merged else None)
        key = (document.file, self.tree.files[path], index, self.defaults_key if merged else "")
        validated = self.old[1].get(key)
        if validated is None:
            value = merge(document.value, self.defaults, kind) if merged else document.value
            validated = validate(kind, value, places)
        self.cache.validated[key] = validated
        model, problems = validated
        self.problems += problems
        if isinstance(model, Cluster) and document is self.cluster_document:
            self.cluster = model
            self._faults(cluster_faults(model), places)
        return _Entry(path, places, model) if model else None

    def _faults(self, faults: Iterator[tuple[Path, str]], places: Places) -> None:
        self.problems += [places.problem(path, message) for path, message in faults]

    def _duplicates(self, entries: list[_Entry]) -> None:
        """The same kind and name twice, or one Engine under two names: its cards would be counted twice."""
        names: dict[tuple[str, str], _Entry] = {}
        engines: dict[str, _Entry] = {}
        for entry in entries:
            model = entry.model
            first = names.setdefault((model.kind, model.name), entry)
            if first is not entry and model.kind != "Cluster":
                message = f"name: a second {model.kind} {model.name} (the first is at {first.where})"
                self.problems.append(entry.places.problem(("name",), message))
            if isinstance(model, Host) and not model.engine.startswith("sim://"):
                first = engines.setdefault(model.engine, entry)
                if first is not entry:
                    message = f"engine: the same Engine as Host {first.model.name} (at {first.where})"
                    self.problems.append(entry.places.problem(("engine",), message))

    def _strangers(self, entries: list[_Entry], documents: list[tuple[str, int, Document]]) -> None:
        """Workloads that others name and that no document has, not even one with faults of its own."""
        kinds = [(kind_of(document.value), document.value.get("name")) for _, _, document in documents]
        known = {f"{kind.lower()}/{name}" for kind, name in kinds if kind in WORKLOADS}
        for entry in entries:
            if isinstance(entry.model, WorkloadModel):
                self._faults(strangers(entry.model, known), entry.places)

    def _host(self, entry: _Entry, model: Host) -> HostSpec:
        self._faults(host_faults(model), entry.places)
        text, name = None, ""
        if model.facts:
            data = self._file(entry, ("facts",), model.facts)
            name = self.tree.prefix + (beside(entry.path, model.facts) or "")
            text = self._json(entry, name, data) if data is not None else None
        return build.host(model, text, name)

    def _json(self, entry: _Entry, name: str, data: bytes) -> str | None:
        """The text of a facts file, if it is JSON at all; what the facts mean is not known here."""
        try:
            text = data.decode("utf-8-sig")
            json.loads(text)
        except UnicodeDecodeError as error:
            message = f"facts: {name} is not UTF-8 at offset {error.start}"
        except json.JSONDecodeError as error:
            message = f"facts: {name}:{error.lineno}:{error.colno} is not JSON: {error.msg}"
        except RecursionError:
            message = f"facts: {name} is nested too deep"
        else:
            return text
        self.problems.append(entry.places.problem(("facts",), message))
        return None

    def _file(self, entry: _Entry, path: Path, relative: str) -> bytes | None:
        """The bytes of a file that a document refers to."""
        field_name = dotted(path)
        target = beside(entry.path, relative)
        if target is None:
            message = f"{field_name}: {relative} leaves the repository's path"
        elif target in self.tree.bad:
            message = f"{field_name}: {relative}: {self.tree.bad[target]}"
        elif target not in self.tree.files:
            message = f"{field_name}: no file {self.tree.prefix}{target}"
        else:
            return self.tree.blobs.read(target)
        self.problems.append(entry.places.problem(path, message))
        return None

    def _workload(self, entry: _Entry, model: WorkloadModel) -> Workload:
        self._faults(workload_faults(model), entry.places)
        self._secure(entry, model)
        if self.cluster and not self.cluster.secrets:
            for path, secret in secret_uses(model):
                message = f"secret {secret}: the Cluster has no secrets.directory to look it up in"
                self.problems.append(entry.places.problem(path, message))
        configs = self._configs(entry, model)
        return build.workload(model, entry.places.document.value, configs, entry.where)

    def _configs(self, entry: _Entry, model: WorkloadModel) -> tuple[ConfigFile, ...]:
        configs: list[ConfigFile] = []
        for index, config in enumerate(model.configs):
            data = self._file(entry, ("configs", index, "file"), config.file)
            if data is not None:
                configs.append(ConfigFile(config.container, hashlib.sha256(data).hexdigest(), config.mode, data))
        return tuple(sorted(configs, key=lambda one: one.container))

    def _secure(self, entry: _Entry, model: WorkloadModel) -> None:
        """What no security profile grants, each with the line that would grant it."""
        name = model.identity
        found = profile_of(name, self.cluster.security_profiles if self.cluster else [])
        for denial in denials(model, found[1] if found else None):
            if found and self.cluster_document:
                line = self.cluster_document.position(("securityProfiles", found[0]))[0]
                how = f"add {denial.grant} to the profile at {self.cluster_document.file}:{line}"
            else:
                how = f'add to securityProfiles of the Cluster: - {{match: ["{name}"], {denial.grant}}}'
            message = f"{denial.what} is not allowed for {name}; {how}"
            self.problems.append(entry.places.problem(denial.path, message))

    def _warn(self, entries: list[_Entry], hosts: list[HostSpec], workloads: list[Workload]) -> None:
        """Tags and labels that no host has (one that comes later may have them), and work that waits for itself."""
        tags = {tag for host in hosts for tag in (host.name, *host.tags)}
        labels = {key for host in hosts for key, _ in host.labels}
        needs = {one.identity: _needs(one) for one in workloads}
        for entry in entries:
            if isinstance(entry.model, WorkloadModel):
                faults = (*unknown_tags(entry.model, tags), *unknown_labels(entry.model, labels))
                for path, message in (*faults, *circles(entry.model, needs)):
                    self.warnings.append(str(entry.places.problem(path, message)))


def _needs(workload: Workload) -> list[str]:
    """The other workloads that it must be near."""
    found = (one.workload for one in workload.affinity if one.required and not one.apart)
    return [other for other in found if other != workload.identity]
