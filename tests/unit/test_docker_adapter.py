"""The docker-py adapter against scripted sockets: errors in words, time-outs, versions, pulls."""

import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reconciler.engine.docker import DockerReader, DockerWriter
from reconciler.errors import ConflictError, EngineError, NotFoundError, RefusedError, UnreachableError
from tests.fakes.scripted_engine import Script, chunks, hang_up, reply, say_nothing, scripted_engine

LIST = "GET /containers/json"
PULL = "POST /images/create"


@pytest.fixture
def path() -> Iterator[Path]:
    """Where the socket goes: pytest's own folders can be too long for one."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "s"


@pytest.fixture
def reader(path: Path) -> Iterator[DockerReader]:
    """A reader with the shortest time-out."""
    reader = DockerReader("gpu-01", f"unix://{path}", timeout=1)
    yield reader
    reader.close()


@pytest.fixture
def writer(path: Path) -> Iterator[DockerWriter]:
    """A writer with the shortest time-outs."""
    writer = DockerWriter("gpu-01", f"unix://{path}", timeout=1, pull_silence=1)
    yield writer
    writer.close()


def nothing(path: Path) -> None:
    """No socket at all."""
    del path


def deaf(path: Path) -> None:
    """A socket on which nobody listens."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (nothing, "no Docker Engine at {url}: is it running?"),
        (deaf, "nothing answers at {url}: is the Docker Engine running?"),
    ],
)
def test_an_engine_that_is_not_there_is_unreachable_in_words(
    reader: DockerReader, path: Path, prepare: Callable[[Path], None], words: str
) -> None:
    """One line that says what to look at, and no socket left for the garbage collector."""
    prepare(path)
    with pytest.raises(UnreachableError) as caught:
        reader.list_containers()
    assert str(caught.value) == "gpu-01: " + words.format(url=f"unix://{path}")


def test_a_socket_that_may_not_be_opened_says_so(reader: DockerReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commonest fault of a first day; root is never refused, so the refusal is made here."""

    class Forbidden(socket.socket):
        def connect(self, address: Any) -> None:
            raise PermissionError(13, f"Permission denied: {address}")

    monkeypatch.setattr("reconciler.engine.docker.socket.socket", Forbidden)
    with pytest.raises(
        UnreachableError, match=r"permission denied on the Docker socket unix://.*: run as root or join"
    ):
        reader.list_containers()


@pytest.mark.parametrize(
    ("script", "words", "seconds"),
    [
        (say_nothing, "no answer from unix://{path} in time", 1.0),
        (hang_up, "the connection to unix://{path} broke", 0.0),
    ],
)
def test_silence_and_a_cut_connection_are_unreachable(
    reader: DockerReader, path: Path, script: Script, words: str, seconds: float
) -> None:
    """Silence ends with the time-out and not later."""
    with scripted_engine(path, {LIST: script}):
        begin = time.monotonic()
        with pytest.raises(UnreachableError) as caught:
            reader.list_containers()
        assert seconds <= time.monotonic() - begin < seconds + 1
    assert words.format(path=path) in caught.value.message


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("400 Bad Request", RefusedError),
        ("403 Forbidden", RefusedError),
        ("404 Not Found", NotFoundError),
        ("409 Conflict", ConflictError),
        ("500 Internal Server Error", RefusedError),
        ("503 Service Unavailable", RefusedError),
    ],
)
def test_an_answer_is_raised_as_its_kind_with_the_engines_words(
    reader: DockerReader, path: Path, status: str, kind: type[EngineError]
) -> None:
    """On one line, with the HTTP status."""
    with scripted_engine(path, {LIST: reply(b'{"message": "it said\\nthis"}', status)}), pytest.raises(kind) as caught:
        reader.list_containers()
    assert type(caught.value) is kind
    assert (str(caught.value), caught.value.status) == ("gpu-01: it said this", int(status[:3]))


def test_a_reader_recovers_when_the_engine_comes_back(reader: DockerReader, path: Path) -> None:
    """After a broken call the next one begins anew, and asks for the version again."""
    for _ in range(2):
        with scripted_engine(path, {LIST: reply(b"[]")}) as seen:
            assert reader.list_containers() == []
            assert reader.list_containers() == []
        assert seen == ["GET /version", LIST, LIST]
        path.unlink()
        with pytest.raises(UnreachableError):
            reader.list_containers()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b'{"Version": "19.03", "ApiVersion": "1.40"}',
            "Docker Engine 19.03 is too old: Engine 20.10 or newer is needed",
        ),
        (b'{"hello": "world"}', "is no Docker Engine"),
    ],
)
def test_what_is_too_old_or_no_engine_is_refused(reader: DockerReader, path: Path, answer: bytes, words: str) -> None:
    """In words, before anything else is asked."""
    with scripted_engine(path, {"GET /version": reply(answer)}), pytest.raises(RefusedError, match=words):
        reader.list_containers()


def test_an_answer_that_is_no_json_is_unreachable(reader: DockerReader, path: Path) -> None:
    """Something broke on the way; nothing can be concluded from it."""
    with scripted_engine(path, {LIST: reply(b"<html>")}), pytest.raises(UnreachableError, match="the connection to"):
        reader.list_containers()


@pytest.mark.parametrize(
    ("theirs", "least", "spoken"),
    [("1.41", "1.12", "v1.41"), ("1.45", "1.24", "v1.45"), ("1.52", "1.44", "v1.45"), ("1.60", "1.50", "v1.50")],
)
def test_the_api_version_is_the_newest_that_both_know(
    path: Path, reader: DockerReader, theirs: str, least: str, spoken: str
) -> None:
    """And never below what the Engine still takes."""
    version = f'{{"ApiVersion": "{theirs}", "MinAPIVersion": "{least}"}}'.encode()
    with scripted_engine(path, {"GET /version": reply(version), LIST: reply(b"[]")}):
        reader.list_containers()
        with reader._clients.lend() as client:
            assert f"v{client.api_version}" == spoken


def test_the_environment_does_not_redirect_a_call(
    reader: DockerReader, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a proxy, nor DOCKER_HOST, nor a CA bundle that does not exist."""
    for name in ("DOCKER_HOST", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/nowhere")
    with scripted_engine(path, {LIST: reply(b"[]")}):
        assert reader.list_containers() == []


def test_many_threads_share_a_reader_and_leave_few_descriptors(reader: DockerReader, path: Path) -> None:
    """Each call has a client to itself; at most four wait for the next."""
    with scripted_engine(path, {LIST: reply(b'[{"Id": "a"}]')}):
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda _: reader.list_containers(), range(200)))
        assert found == [[{"Id": "a"}]] * 200
        assert len(reader._clients._idle) <= 4
    reader.close()
    assert reader._clients._idle == []


@pytest.mark.parametrize(
    ("call", "request_", "status", "message"),
    [
        (lambda w: w.stop("x", 1), "POST /containers/x/stop", "304 Not Modified", ""),
        (lambda w: w.stop("x", 1), "POST /containers/x/stop", "404 Not Found", "No such container: x"),
        (lambda w: w.start("x"), "POST /containers/x/start", "304 Not Modified", ""),
        (lambda w: w.remove("x"), "DELETE /containers/x", "404 Not Found", "No such container: x"),
        (
            lambda w: w.remove("x"),
            "DELETE /containers/x",
            "409 Conflict",
            "removal of container x is already in progress",
        ),
    ],
)
def test_what_is_done_already_is_done(
    writer: DockerWriter, path: Path, call: Callable[[DockerWriter], None], request_: str, status: str, message: str
) -> None:
    """Stopping, starting and removing ask for a state, not for an event."""
    content = b"" if status.startswith("304") else f'{{"message": "{message}"}}'.encode()
    with scripted_engine(path, {request_: reply(content, status)}) as seen:
        call(writer)
    assert seen == ["GET /version", request_]


def test_a_stop_may_last_its_grace_period_and_more(writer: DockerWriter, path: Path) -> None:
    """The grace period is added to the time-out of the request."""

    def slow(request: str, connection: socket.socket) -> None:
        connection.settimeout(1.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)  # the client waits
        reply(b"", "204 No Content")(request, connection)

    with scripted_engine(path, {"POST /containers/x/stop": slow}):
        writer.stop("x", 1.2)


def test_a_pull_says_what_comes_and_ends_when_it_has_come(writer: DockerWriter, path: Path) -> None:
    """Short lines, not one per byte."""
    lines = (
        b'{"status": "Pulling from team/app", "id": "1"}\r\n',
        b'{"status": "Pulling fs layer", "progressDetail": {}, "id": "aa"}\r\n',
        b'{"status": "Downloading", "progressDetail": {"current": 512, "total": 1024}, "id": "aa"}\r\n',
        b'{"status": "Downloading", "progressDetail": {"current": 513, "total": 1024}, "id": "aa"}\r\n',
        b'{"status": "Pull complete", "progressDetail": {}, "id": "aa"}\r\n',
        b'{"status": "Status: Downloaded newer image for team/app:1"}\r\n',
    )
    said: list[str] = []
    with scripted_engine(path, {PULL: chunks(*lines)}):
        writer.pull("team/app:1", said.append)
    assert said == ["0 of 1 layers, 512 of 1Ki", "1 of 1 layers, 1Ki of 1Ki", "Downloaded newer image for team/app:1"]


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (
            chunks(b'{"errorDetail": {"message": "no space left"}, "error": "no space left"}\r\n'),
            RefusedError,
            "no space left",
        ),
        (chunks(b'{"errorDetail": {"message": "unauthorized"}}\r\n'), RefusedError, "unauthorized"),
        (chunks(b'{"status": "Waiting", "id": "a"}\r\n', cut=True), UnreachableError, "broke"),
        (chunks(b'{"status": "Waiting", "id": "a"}\r\n', silent=5.0), UnreachableError, "in time"),
        (reply(b'{"message": "manifest unknown"}', "404 Not Found"), NotFoundError, "manifest unknown"),
        (reply(b'{"message": "dial tcp: refused"}', "500 Internal Server Error"), RefusedError, "dial tcp: refused"),
    ],
)
def test_a_pull_that_fails_is_raised_wherever_it_fails(
    writer: DockerWriter, path: Path, script: Script, kind: type[EngineError], words: str
) -> None:
    """Before the stream, inside it, cut off, or silent for too long."""
    with scripted_engine(path, {PULL: script}), pytest.raises(kind, match=words):
        writer.pull("team/app:1", lambda _: None)


@pytest.mark.parametrize(
    ("image", "query"),
    [
        ("team/app", "tag=latest&fromImage=team%2Fapp"),
        ("team/app:1", "tag=1&fromImage=team%2Fapp"),
        ("host:5000/team/app", "tag=latest&fromImage=host%3A5000%2Fteam%2Fapp"),
        (f"team/app@sha256:{'a' * 64}", f"tag=sha256%3A{'a' * 64}&fromImage=team%2Fapp"),
    ],
)
def test_a_pull_asks_for_one_tag_or_digest(writer: DockerWriter, path: Path, image: str, query: str) -> None:
    """Never for all tags of a repository."""
    targets: list[str] = []
    with scripted_engine(path, {PULL: chunks(b"{}\r\n")}, targets):
        writer.pull(image, lambda _: None)
    assert targets[1:] == [f"POST /v1.45/images/create?{query}"]


def test_a_list_is_one_request_for_every_container(reader: DockerReader, path: Path) -> None:
    """No inspects, and exited containers too."""
    targets: list[str] = []
    with scripted_engine(path, {LIST: reply(b"[]")}, targets):
        reader.list_containers()
    assert targets == ["GET /version", "GET /v1.45/containers/json?limit=-1&all=1&size=0&trunc_cmd=0"]
