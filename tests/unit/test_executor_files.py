"""Config files, secret files and secret values on their way into a container."""

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.actual.labels import PREFIX
from reconciler.errors import ReconcilerError, SecretError, SourceError
from reconciler.executor.apply import Executor
from reconciler.executor.files import File, archive, files_of
from reconciler.executor.secrets import SecretStore, env_refs, keyed_hash, refs_of
from reconciler.model.desired import Cluster, Desired
from reconciler.model.plan import Action, ActionKind, Outcome, Plan, Step, StepKind
from reconciler.model.snapshot import HostView, Reach, Snapshot
from reconciler.model.workload import (
    Allocation,
    ConfigFile,
    ContainerSpec,
    SecretFile,
    SecretRef,
    Workload,
    digest_of,
    spec_on_host,
)
from tests.fakes.engine import FakeEngine, refused
from tests.fakes.workloads import HOST, app, body_of, facts, instance_of

TOKEN, CERT, KEY = SecretRef("hf", "token"), SecretRef("tls", "cert"), SecretRef("lab", "hash")
NAME = "lab.app.web.0.g1"


@pytest.fixture
def secrets(tmp_path: Path) -> SecretStore:
    """A store with three secrets."""
    for ref, value in ((TOKEN, b"t0ken\n"), (CERT, b"\xff\x00cert"), (KEY, b"k3y")):
        (tmp_path / ref.secret).mkdir(exist_ok=True)
        (tmp_path / ref.secret / ref.key).write_bytes(value)
    return SecretStore(str(tmp_path))


def config(path: str, content: bytes, mode: int = 0o444) -> ConfigFile:
    """A config file as ``desired`` makes it."""
    return ConfigFile(path, hashlib.sha256(content).hexdigest(), mode, content)


def unpacked(tar: bytes) -> list[tuple[str, int, int, int, float, bytes]]:
    """What stands in a tar: name, mode, owner, group, time, content."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(tar)) as files:
        for member in files.getmembers():
            body = files.extractfile(member)
            assert body is not None
            found.append((member.name, member.mode, member.uid, member.gid, member.mtime, body.read()))
    return found


# -- secrets


def test_a_value_and_its_text(secrets: SecretStore) -> None:
    """A file keeps every byte; the environment gets the text without the newline that editors add."""
    assert secrets.value(TOKEN) == b"t0ken\n"
    assert secrets.text(TOKEN) == "t0ken"


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        (SecretRef("hf", "none"), "secret 'hf', key 'none': No such file or directory"),
        (SecretRef("none", "token"), "secret 'none', key 'token': No such file or directory"),
        (SecretRef("..", "token"), "'..' is no file name"),
        (SecretRef("hf", "../tls/cert"), "'../tls/cert' is no file name"),
        (SecretRef("hf", ""), "'' is no file name"),
        (SecretRef("hf", "a\0b"), "is no file name"),
    ],
)
def test_a_secret_that_is_not_there(secrets: SecretStore, ref: SecretRef, text: str) -> None:
    """The error names secret and key in words, and no path leads out of the directory."""
    with pytest.raises(SecretError) as caught:
        secrets.value(ref)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"\xffsecret", "not UTF-8"), (b"s\0ecret", "zero byte"), (b"s" * (1024 * 1024 + 1), "larger than 1 MiB")],
    ids=["bytes", "zero", "large"],
)
def test_what_an_environment_cannot_hold(tmp_path: Path, content: bytes, text: str) -> None:
    """It is refused without showing it."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "k").write_bytes(content)
    with pytest.raises(SecretError, match=text) as caught:
        SecretStore(str(tmp_path)).text(SecretRef("s", "k"))
    assert "ecret" not in str(caught.value).replace("secret 's'", "").replace("secretFiles", "")


def test_no_directory() -> None:
    """A cluster without secrets says so."""
    with pytest.raises(SecretError, match="names no secrets directory"):
        SecretStore("").value(TOKEN)


def test_an_unreadable_secret(tmp_path: Path) -> None:
    """What is there and cannot be read is named in the system's words."""
    (tmp_path / "s" / "k").mkdir(parents=True)
    with pytest.raises(SecretError, match="Is a directory"):
        SecretStore(str(tmp_path)).value(SecretRef("s", "k"))


def test_which_secrets_a_container_uses() -> None:
    """In its environment and as files, each once, sorted."""
    container = ContainerSpec(
        "img:1", env=(("A", TOKEN), ("B", "plain"), ("C", TOKEN)), secret_files=(SecretFile("/c", CERT),)
    )
    assert (refs_of(container), env_refs(container)) == ((TOKEN, CERT), (TOKEN,))


def test_keyed_hash() -> None:
    """A known value (HMAC-SHA256 with names and lengths), other for another key, value, or split of the same bytes."""
    one = SecretRef("a", "b")
    # printf '\0\0\0\0\0\0\0\1a\0\0\0\0\0\0\0\1b\0\0\0\0\0\0\0\1c' | openssl dgst -sha256 -hmac key
    assert keyed_hash(b"key", {one: b"c"}) == "e2a5750d4c6b1df5d795e4c2f4ee33aefe866383ca93601d3f106e05b643c5f3"
    others = [
        keyed_hash(b"other", {one: b"c"}),
        keyed_hash(b"key", {one: b"d"}),
        keyed_hash(b"key", {SecretRef("ab", ""): b"c"}),
        keyed_hash(b"key", {}),
    ]
    assert len({keyed_hash(b"key", {one: b"c"}), *others}) == 5


def test_hash_of(secrets: SecretStore, tmp_path: Path) -> None:
    """It changes with a value, is empty without a key or without secrets, and tells nothing of the value."""
    container = ContainerSpec("img:1", env=(("A", TOKEN),))
    before = secrets.hash_of(container, KEY)
    (tmp_path / "hf" / "token").write_bytes(b"another")
    assert secrets.hash_of(container, KEY) != before
    assert secrets.hash_of(container, None) == ""
    assert secrets.hash_of(ContainerSpec("img:1"), KEY) == ""
    assert len(before) == 64


# -- files


def test_archive() -> None:
    """Owned by root, with the mode that was asked for and no time; the same files give the same bytes."""
    files = [File("/etc/b.conf", 0o444, b"b"), File("/a//./c", 0o4755, b"")]
    assert unpacked(archive(files)) == [("a/c", 0o4755, 0, 0, 0, b""), ("etc/b.conf", 0o444, 0, 0, 0, b"b")]
    assert archive(files) == archive(files[::-1])


def test_no_folder_stands_in_the_archive() -> None:
    """An entry for ``tmp`` would take away the sticky bit of the image's ``/tmp``."""
    assert [name for name, *_ in unpacked(archive([File("/tmp/x/y", 0o444, b"")]))] == ["tmp/x/y"]


def test_long_and_foreign_names() -> None:
    """Names beyond the 100 bytes of old tars and outside ASCII survive."""
    path = "/" + "x" * 200 + "/ä"
    assert [name for name, *_ in unpacked(archive([File(path, 0o444, b"")]))] == [path[1:]]


@pytest.mark.parametrize("path", ["relative", "/", "/a/../../etc/passwd", "", "/a/.."])
def test_paths_that_are_none(path: str) -> None:
    """Only an absolute path of a file is put into a container."""
    with pytest.raises(ReconcilerError, match="is no absolute path"):
        archive([File(path, 0o444, b"")])


def test_files_of(secrets: SecretStore) -> None:
    """Config files from git and secret files from their directory, every byte of them."""
    container = ContainerSpec(
        "img:1", configs=(config("/etc/x", b"x"),), secret_files=(SecretFile("/run/cert", CERT, 0o400),)
    )
    assert files_of(container, secrets) == [
        File("/etc/x", 0o444, b"x"),
        File("/run/cert", 0o400, b"\xff\x00cert"),
    ]


def test_a_content_that_was_not_planned(secrets: SecretStore) -> None:
    """A content that is not the one whose hash was planned (a plan read from a file has none) is never put in."""
    with pytest.raises(SourceError, match="/etc/x is not the one that was planned"):
        files_of(ContainerSpec("img:1", configs=(replace(config("/etc/x", b"x"), content=b""),)), secrets)


# -- in a pass

FILES = (StepKind.CREATE, StepKind.FILES, StepKind.START)


class World:
    """One host and a cluster with secrets."""

    def __init__(self, directory: Path) -> None:
        self.engine = FakeEngine()
        self.executor = Executor(lambda _: (self.engine, self.engine))
        self.cluster = Cluster("lab", secrets_dir=str(directory), secrets_key=("lab", "hash"))

    def apply(self, workload: Workload, *kinds: StepKind, container: str = "") -> Outcome:
        """One pass that makes app/web/0."""
        spec = spec_on_host(workload.container, HOST.env)
        steps = tuple(Step(kind, "h", NAME, container) for kind in kinds or FILES)
        action = Action(
            ActionKind.START, instance_of(workload), "h", "", steps, workload, Allocation(),
            digest=digest_of(spec), generation=1, spec=spec,
        )  # fmt: skip
        view = HostView(HOST, Reach.KNOWN, facts())
        (outcome,) = self.executor.apply(
            Plan("lab", "3f2a", "", "", (action,)), Snapshot((view,)), Desired(self.cluster, (), (HOST,))
        )
        return outcome


@pytest.fixture
def world(tmp_path: Path, secrets: SecretStore) -> World:
    """The world of this test."""
    assert secrets.value(KEY)
    return World(tmp_path)


WITH_FILES: dict[str, Any] = {
    "configs": (config("/etc/x", b"x"),),
    "secret_files": (SecretFile("/run/cert", CERT),),
    "env": (("TOKEN", TOKEN),),
}


def test_files_and_secrets_reach_the_container(world: World, secrets: SecretStore) -> None:
    """Files are put in between create and start; values are in the environment; the label has their keyed hash."""
    workload = app(**WITH_FILES)
    outcome = world.apply(workload)
    assert (outcome.error, outcome.done) == ("", FILES)
    assert [call[0] for call in world.engine.calls if call[0] in {"create", "put_archive", "start"}] == [
        "create",
        "put_archive",
        "start",
    ]
    ((path, tar),) = world.engine.files[outcome.created]
    assert path == "/"
    assert [(name, body) for name, *_, body in unpacked(tar)] == [("etc/x", b"x"), ("run/cert", b"\xff\x00cert")]
    config_ = world.engine.containers[outcome.created]["Config"]
    assert "TOKEN=t0ken" in config_["Env"]
    assert config_["Labels"][PREFIX + "secrets"] == secrets.hash_of(workload.container, KEY)
    assert "t0ken" not in json.dumps(config_["Labels"])


@pytest.mark.parametrize("field", ["env", "secret_files"])
def test_a_missing_secret_makes_nothing(world: World, field: str) -> None:
    """It is found before the container is made, and named without a value."""
    missing = SecretRef("hf", "none")
    value = (("TOKEN", missing),) if field == "env" else (SecretFile("/run/x", missing),)
    container: dict[str, Any] = {field: value}
    outcome = world.apply(app(**container))
    assert outcome.error.startswith("secret 'hf', key 'none': No such file or directory in ")
    assert world.engine.containers == {}


def test_a_container_never_starts_without_its_files(world: World) -> None:
    """A pass that goes on with a created container puts the files in, whoever made it and however far it came."""
    workload = app(configs=WITH_FILES["configs"])
    container = world.engine.add(NAME, body_of(workload, Allocation()), state="created")
    outcome = world.apply(workload, StepKind.START, container=container)
    assert outcome.error == ""
    assert [call[0] for call in world.engine.calls if call[0] in {"put_archive", "start"}] == ["put_archive", "start"]


def test_files_of_what_runs_stay(world: World) -> None:
    """A container that was started keeps the files it has."""
    workload = app(configs=WITH_FILES["configs"])
    container = world.engine.add(NAME, body_of(workload, Allocation()))
    assert world.apply(workload, StepKind.FILES, StepKind.START, container=container).error == ""
    assert world.engine.files == {}


def test_gone_before_its_files(world: World) -> None:
    """There is nothing to put them into, and that is an error."""
    outcome = world.apply(app(), StepKind.FILES, container="gone")
    assert outcome.error == "the container is gone before its files were put in"


def test_files_that_the_engine_refuses(world: World) -> None:
    """Its start waits: the container stays created and the action failed."""
    world.engine.errors["put_archive"] = [refused("read-only file system")]
    outcome = world.apply(app(configs=WITH_FILES["configs"]))
    assert (outcome.error, outcome.done) == ("read-only file system", (StepKind.CREATE,))
    assert world.engine.containers[outcome.created]["State"]["Status"] == "created"
