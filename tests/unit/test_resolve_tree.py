"""Which files hold documents, checks across documents, and what the cache saves."""

import hashlib
from typing import Any

import pytest

from reconciler.desired.resolve import Cache, resolve
from reconciler.errors import SpecError
from reconciler.model.desired import Desired
from tests.fakes.trees import APP, CLUSTER, HOST, LOCAL_SERVICE, TASK, MemoryBlobs, tree

Files = dict[str, str | bytes]


def desired(files: Files, **more: Any) -> Desired:
    """What a tree wants."""
    return resolve(tree(files, **more), Cache())


def problems(files: Files, **more: Any) -> list[str]:
    """Every problem of a tree."""
    with pytest.raises(SpecError) as caught:
        desired(files, **more)
    return [str(problem) for problem in caught.value.problems]


def test_which_files_are_read() -> None:
    """Hidden files, ignored files and other suffixes hold no documents."""
    files: Files = {
        "a.yaml": APP,
        "b/c.yml": TASK,
        "b/d.json": '{"apiVersion": "reconciler/v1", "kind": "Host", "name": "h", "engine": "sim://"}',
        ".hidden.yaml": "nonsense",
        ".github/workflows/ci.yaml": "nonsense",
        "README.md": "nonsense",
        "charts/x.yaml": "nonsense",
        "charts/keep.yaml": LOCAL_SERVICE,
        ".reconcileignore": "# not ours\ncharts/*\n!charts/keep.yaml\n",
    }
    found = desired(files)
    assert [one.identity for one in found.workloads] == ["app/web", "localservice/exporter", "task/job"]
    assert [host.name for host in found.hosts] == ["h"]


def test_files_that_a_document_refers_to_are_no_documents() -> None:
    """``facts`` and ``configs`` may be YAML and JSON, and broken at that."""
    files: Files = {
        "z.yaml": APP + "configs: [{file: a.yaml, container: /a}, {file: sub/b.json, container: /b}]\n",
        "a.yaml": "scrape_configs: [\n",
        "sub/b.json": "{",
        "h.yaml": HOST + "facts: facts.json\n",
        "facts.json": "{}",
    }
    assert [config.container for config in desired(files).workloads[0].container.configs] == ["/a", "/b"]


@pytest.mark.parametrize(("referrer", "target"), [("z.yaml", "a.yaml"), ("a.yaml", "z.json")])
def test_a_workload_cannot_vanish_by_being_referred_to(referrer: str, target: str) -> None:
    """A file is either a document or what a document refers to."""
    files: Files = {referrer: APP + f"configs: [{{file: {target}, container: /a}}]\n"}
    files[target] = '{"apiVersion": "reconciler/v1", "kind": "Task", "name": "job", "image": "a"}'
    (found,) = problems(files)
    assert found.startswith(f"{referrer}:6:18: configs[0].file: {target} holds documents of its own; ")
    assert found.endswith("list it in .reconcileignore if it is only a file for a container")


def test_files_that_cannot_be_read() -> None:
    """A bad file is a problem where it would be read, and nowhere else."""
    bad = {"lfs.yaml": "LFS object missing", "model.bin": "LFS object missing", "f.json": "link leaves the repository"}
    found = problems({"h.yaml": HOST + "facts: f.json\n"}, bad=bad, prefix="lab/")
    assert found == [
        "lab/h.yaml:5:8: facts: f.json: link leaves the repository",
        "lab/lfs.yaml: LFS object missing",
    ]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("{", "facts: f.json:1:2 is not JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", "facts: f.json is not UTF-8 at offset 0"),
        ("[" * 100_000, "facts: f.json is nested too deep"),
    ],
)
def test_facts_must_be_json(facts: str | bytes, message: str) -> None:
    """What the facts mean is another part's; that they are JSON is checked with the repository."""
    assert problems({"h.yaml": HOST + "facts: f.json\n", "f.json": facts}) == [f"h.yaml:5:8: {message}"]


def test_a_name_stands_once_among_its_kind() -> None:
    """Both places are named; another kind may have the same name."""
    found = problems({"a.yaml": APP, "b.yaml": TASK.replace("job", "web") + "---\n" + APP})
    assert found == ["b.yaml:8:7: name: a second App web (the first is at a.yaml:1)"]


def test_one_cluster() -> None:
    """A second Cluster would be a second opinion on everything."""
    found = problems({"a.yaml": CLUSTER, "b.yaml": CLUSTER.replace("lab", "other")})
    assert found == ["b.yaml:2:7: a second Cluster (the first is at a.yaml:1)"]


def test_one_host_for_each_engine() -> None:
    """Two names for one Engine would count its cards twice; simulated hosts go by name."""
    real = HOST.replace("sim://", "unix:///run/docker.sock")
    found = problems({"a.yaml": real, "b.yaml": real.replace("gpu-01", "gpu-02")})
    assert found == ["b.yaml:4:9: engine: the same Engine as Host gpu-01 (at a.yaml:1)"]
    assert len(desired({"a.yaml": HOST, "b.yaml": HOST.replace("gpu-01", "gpu-02")}).hosts) == 2


def test_a_tag_that_no_host_has_is_a_warning() -> None:
    """It may come with a host that is not there yet; a host's own name is a tag."""
    lines = (
        "placementPolicy:\n  type: COMPOSITE\n  combiner: OR\n  policies:\n"
        "    - {type: MATCH_TAG, tag: gpu-01}\n    - {type: MATCH_TAG, tag: a10}\n"
    )
    found = desired({"a.yaml": APP + lines, "h.yaml": HOST + "tags: [a100]\n"})
    assert found.warnings == ("a.yaml:11:30: placementPolicy.policies[1].tag: no host has the tag a10",)


@pytest.mark.parametrize(
    "lines",
    ["env: {A: {secret: hf, key: token}}", "secretFiles: [{secret: hf, key: token, container: /t}]"],
)
def test_a_secret_needs_a_place_to_look_it_up(lines: str) -> None:
    """Told now, and not when the container is made."""
    (found,) = problems({"a.yaml": APP + lines + "\n", "c.yaml": CLUSTER})
    assert found.endswith("secret hf: the Cluster has no secrets.directory to look it up in")


def test_the_same_tree_gives_the_same_object() -> None:
    """Nothing is read again while neither a file nor its place changed."""
    files: Files = {"a.yaml": APP, "h.yaml": HOST}
    cache = Cache()
    first = resolve(tree(files, commit="a" * 40), cache)
    again = tree(files, commit="a" * 40)
    assert resolve(again, cache) is first
    assert isinstance(again.blobs, MemoryBlobs)
    assert again.blobs.reads == []
    moved = resolve(tree(files, commit="b" * 40), cache)
    assert (moved.commit, moved.workloads) == ("b" * 40, first.workloads)


def test_only_changed_files_are_read_again() -> None:
    """Documents are kept by content and place."""
    files: Files = {f"{index}.yaml": APP.replace("web", f"web{index}") for index in range(20)}
    cache = Cache()
    resolve(tree(files), cache)
    changed = tree({**files, "7.yaml": APP.replace("web", "other"), "8.yaml": ""})
    found = resolve(changed, cache)
    assert isinstance(changed.blobs, MemoryBlobs)
    assert sorted(changed.blobs.reads) == ["7.yaml", "8.yaml"]
    assert {"web7", "web8", "other"} & {one.name for one in found.workloads} == {"other"}
    assert len(cache.parsed) == 20


def test_changed_defaults_are_merged_anew() -> None:
    """What a document means depends on the Cluster too."""
    cache = Cache()
    for user in ("a", "b"):
        files: Files = {"a.yaml": APP, "c.yaml": CLUSTER + f"defaults: {{user: {user}}}\n"}
        assert resolve(tree(files), cache).workloads[0].container.user == user


def test_a_changed_config_file_changes_its_hash() -> None:
    """The content of a config file is part of the workload."""
    cache = Cache()
    text = APP + "configs: [{file: a.conf, container: /a}]\n"
    hashes = [
        resolve(tree({"a.yaml": text, "a.conf": body}), cache).workloads[0].container.configs[0].sha256
        for body in ("1", "2")
    ]
    assert hashes == [hashlib.sha256(body).hexdigest() for body in (b"1", b"2")]


def test_a_broken_tree_stays_broken_and_can_be_mended() -> None:
    """The cache keeps no failure for good and hides none."""
    cache = Cache()
    broken = tree({"a.yaml": APP + "zzz: 1\n"})
    for _ in range(2):
        with pytest.raises(SpecError, match="unknown key"):
            resolve(broken, cache)
    assert resolve(tree({"a.yaml": APP}), cache).workloads[0].name == "web"
