"""A real Docker Engine: the only user of docker-py.

Only the low-level ``APIClient`` is used, always with an explicit address. ``import docker`` costs about 270 ms, so this
module is imported by ``engine.open`` when the first real host is opened, and not before.
"""

import json
import logging
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from docker import APIClient, auth, errors, utils
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool
from requests import exceptions as http

from reconciler.engine.progress import PullProgress
from reconciler.engine.protocols import Json
from reconciler.errors import ConflictError, EngineError, NotFoundError, RefusedError, UnreachableError

READ_TIMEOUT = 10
"""Seconds that a GET may stay silent."""
WRITE_TIMEOUT = 120
"""Seconds that a change may stay silent; a stop adds its grace period."""
PULL_SILENCE = 300
"""Seconds without one byte after which a pull is given up: verifying a large layer prints nothing for a while."""

_OLDEST_API = (1, 41)  # Engine 20.10, Debian 12
_NEWEST_API = (1, 45)  # Engine 26.1, the newest whose documents were read
_IDLE_CLIENTS = 4

_log = logging.getLogger(__name__)


class _Clients:
    """docker-py clients of one host, lent to one thread at a time (docker-py promises no thread safety).

    Clients that nobody uses wait in a short list; one whose call broke is closed, and the API version is asked for
    again, since the Engine may come back as another release.
    """

    def __init__(self, host: str, url: str, timeout: int) -> None:
        self._host = host
        self._url = url
        self._timeout = timeout
        self._version = ""
        self._idle: list[APIClient] = []
        self._lock = threading.Lock()

    @contextmanager
    def lend(self) -> Iterator[APIClient]:
        """A client for one call. Whatever goes wrong with it is raised as an EngineError."""
        client = None
        try:
            client = self._take()
            yield client
        except errors.APIError as error:
            self._give_back(client)
            raise _refusal(self._host, error) from error
        except (OSError, ValueError, errors.DockerException) as error:  # requests' own errors are OSErrors
            self._discard(client)
            raise UnreachableError(self._host, _in_words(error, self._url)) from error
        except BaseException:
            self._discard(client)
            raise
        self._give_back(client)

    def close(self) -> None:
        """Close the clients that wait; one that is lent out is closed when it comes back broken or by its thread."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _take(self) -> APIClient:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            version = self._version
        if not version:
            version = self._negotiate()
            with self._lock:
                self._version = version
        return self._connect(version)

    def _give_back(self, client: APIClient | None) -> None:
        if client is None:
            return
        with self._lock:
            if len(self._idle) < _IDLE_CLIENTS:
                self._idle.append(client)
                return
        client.close()

    def _discard(self, client: APIClient | None) -> None:
        with self._lock:
            self._version = ""
        if client is not None:
            client.close()
        self.close()

    def _connect(self, version: str) -> APIClient:
        client = APIClient(base_url=self._url, version=version, timeout=self._timeout)
        client.mount("http+docker://", _Adapter(f"http+{self._url}", self._timeout))
        client.trust_env = False  # proxies and CA bundles of the environment must not redirect an Engine call
        return client

    def _negotiate(self) -> str:
        client = self._connect(_dotted(_OLDEST_API))
        try:
            answer = client.version(api_version=False)
        finally:
            client.close()
        if "ApiVersion" not in answer:
            raise RefusedError(self._host, f"what answers at {self._url} is no Docker Engine")
        theirs, least = _pair(answer["ApiVersion"]), _pair(answer.get("MinAPIVersion") or "1.0")
        if theirs < _OLDEST_API:
            raise RefusedError(
                self._host, f"Docker Engine {answer.get('Version')} is too old: Engine 20.10 or newer is needed"
            )
        return _dotted(max(min(theirs, _NEWEST_API), least))


class _Connection(UnixHTTPConnection):
    """Closes its socket when nobody answers, which docker-py leaves to the garbage collector."""

    def connect(self) -> None:
        """Connect within the time-out."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            self.sock.connect(self.unix_socket)
        except OSError:
            self.close()
            raise


class _Pool(UnixHTTPConnectionPool):
    seconds: int

    def _new_conn(self) -> _Connection:  # type: ignore[override] # the stubs of docker-py and urllib3 disagree
        return _Connection(self.base_url, self.socket_path, self.seconds)


class _Adapter(UnixHTTPAdapter):
    """One connection for all URLs; docker-py's own keeps one for each, a descriptor per inspected container."""

    def get_connection(self, url: str | bytes, proxies: object = None) -> _Pool:
        """The pool, whatever the URL."""
        del url, proxies
        with self.pools.lock:
            if "" not in self.pools:
                self.pools[""] = _Pool("http+docker://localhost", self.socket_path, maxsize=1)
                self.pools[""].seconds = self.timeout
            pool: _Pool = self.pools[""]
        return pool


class DockerReader:
    """Looks at one host's Engine: GET requests only."""

    def __init__(self, host: str, url: str, timeout: int = READ_TIMEOUT) -> None:
        self.host = host
        self._clients = _Clients(host, url, timeout)

    def version(self) -> Json:
        """``GET /version``."""
        with self._clients.lend() as client:
            return client.version()

    def info(self) -> Json:
        """``GET /info``."""
        with self._clients.lend() as client:
            return client.info()

    def list_containers(self) -> list[dict[str, Any]]:
        """``GET /containers/json?all=1``: one request, no inspects."""
        with self._clients.lend() as client:
            entries: list[dict[str, Any]] = client.containers(all=True)
        return entries

    def inspect_container(self, container: str) -> dict[str, Any]:
        """``GET /containers/ID/json``. Raises NotFoundError."""
        with self._clients.lend() as client:
            document: dict[str, Any] = client.inspect_container(container)
        return document

    def inspect_image(self, image: str) -> dict[str, Any]:
        """``GET /images/NAME/json``. Raises NotFoundError when the host does not have it."""
        with self._clients.lend() as client:
            document: dict[str, Any] = client.inspect_image(image)  # type: ignore[no-untyped-call] # so in the stubs
        return document

    def logs(self, container: str, tail: int) -> str:
        """The last ``tail`` lines of both streams; bytes that are no UTF-8 are replaced."""
        with self._clients.lend() as client:
            return client.logs(container, tail=tail).decode("utf-8", "replace")

    def close(self) -> None:
        """Give back connections."""
        self._clients.close()


class DockerWriter:
    """Changes one host through its Engine."""

    def __init__(self, host: str, url: str, timeout: int = WRITE_TIMEOUT, pull_silence: int = PULL_SILENCE) -> None:
        self.host = host
        self._clients = _Clients(host, url, timeout)
        self._pulls = _Clients(host, url, pull_silence)

    def pull(self, image: str, progress: Callable[[str], None]) -> None:
        """Fetch ``image`` (tag ``latest`` unless it has a tag or digest) with the credentials of ``docker login``.

        Errors that the Engine reports inside the stream are raised as RefusedError; silence as UnreachableError.
        """
        repository, tag = utils.parse_repository_tag(image)
        with self._pulls.lend() as client:
            registry, _ = auth.resolve_repository_name(repository)
            login = auth.get_config_header(client, registry)
            answer = client.post(
                f"{client.base_url}/v{client.api_version}/images/create",
                params={"tag": tag or "latest", "fromImage": repository},
                headers={"X-Registry-Auth": login} if login else {},
                stream=True,
                timeout=client.timeout,  # docker-py's own pull() waits for ever
            )
            with answer:
                _raise_for_status(answer)
                failure = _follow(answer.iter_lines(), PullProgress(progress))
        if failure:
            raise RefusedError(self.host, f"pull {image}: {failure}")

    def create(self, name: str, body: Json) -> str:
        """``POST /containers/create?name=``; the new id. Raises ConflictError when the name is taken."""
        with self._clients.lend() as client:
            made = client.create_container_from_config(dict(body), name)  # type: ignore[no-untyped-call] # so in the stubs
        self._note(made.get("Warnings"), f"create {name}")
        return str(made["Id"])

    def put_archive(self, container: str, path: str, tar: bytes) -> None:
        """Unpack ``tar`` under ``path`` inside a container that need not run."""
        with self._clients.lend() as client:
            client.put_archive(container, path, tar)

    def start(self, container: str) -> None:
        """Start it; already running is done."""
        with self._clients.lend() as client:
            client.start(container)

    def stop(self, container: str, grace: float) -> None:
        """Signal, wait up to ``grace`` seconds (rounded up), kill; already stopped or absent is done."""
        try:
            with self._clients.lend() as client:
                client.stop(container, timeout=math.ceil(grace))  # docker-py adds it to the request's time-out
        except NotFoundError:
            _log.debug("%s: %s was gone before it was stopped", self.host, container)

    def remove(self, container: str, *, force: bool = False) -> None:
        """Remove it and its anonymous volumes never; absent or being removed is done."""
        try:
            with self._clients.lend() as client:
                client.remove_container(container, v=False, force=force)
        except NotFoundError:
            _log.debug("%s: %s was gone before it was removed", self.host, container)
        except ConflictError as error:
            if "already in progress" not in error.message:
                raise

    def update(self, container: str, fields: Json) -> None:
        """``POST /containers/ID/update`` with the Engine's own field names.

        docker-py's ``update_container`` knows no NanoCpus and no PidsLimit, so the body goes out as it is.
        """
        with self._clients.lend() as client:
            answer = client.post(
                f"{client.base_url}/v{client.api_version}/containers/{container}/update",
                json=dict(fields),
                timeout=client.timeout,
            )
            _raise_for_status(answer)
            warnings = answer.json().get("Warnings")
        self._note(warnings, f"update {container}")

    def rename(self, container: str, name: str) -> None:
        """Give it another name. Raises ConflictError when that is taken."""
        with self._clients.lend() as client:
            client.rename(container, name)

    def close(self) -> None:
        """Give back connections."""
        self._clients.close()
        self._pulls.close()

    def _note(self, warnings: list[str] | None, what: str) -> None:
        for warning in warnings or ():
            _log.info("%s: %s: the Engine warns: %s", self.host, what, warning)


def _raise_for_status(answer: Any) -> None:
    """Raise docker-py's APIError for a response that docker-py did not read itself."""
    try:
        answer.raise_for_status()
    except http.HTTPError as error:
        errors.create_api_error_from_http_exception(error)


def _follow(lines: Iterator[bytes], progress: PullProgress) -> str:
    """Read a pull to its end; the text of the error that came inside the stream, or nothing."""
    failure = ""
    for line in filter(None, lines):
        message = json.loads(line)
        failure = failure or str(message.get("error") or message.get("errorDetail", {}).get("message") or "")
        progress.feed(message)
    return failure


def _refusal(host: str, error: errors.APIError) -> EngineError:
    """The kind of our tree for an answer of the Engine, with the Engine's own words on one line."""
    status = error.status_code or 0
    words = " ".join(str(error.explanation or error).split())
    kinds: dict[int, type[EngineError]] = {HTTPStatus.NOT_FOUND: NotFoundError, HTTPStatus.CONFLICT: ConflictError}
    return kinds.get(status, RefusedError)(host, words, status)


def _in_words(error: BaseException, url: str) -> str:
    """What a person should know of a transport error."""
    causes = list(_causes(error))
    for kind, words in (
        (PermissionError, f"permission denied on the Docker socket {url}: run as root or join the group docker"),
        (FileNotFoundError, f"no Docker Engine at {url}: is it running?"),
        (ConnectionRefusedError, f"nothing answers at {url}: is the Docker Engine running?"),
    ):
        if any(isinstance(cause, kind) for cause in causes):
            return words
    if any("timed out" in str(cause).lower() for cause in causes):
        return f"no answer from {url} in time"
    return f"the connection to {url} broke: {' '.join(str(causes[-1]).split()) or type(error).__name__}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """``error`` and everything it wraps: causes, arguments, and the ``reason`` of urllib3."""
    waiting, seen = [error], set[int]()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        inner = (current.__cause__, current.__context__, getattr(current, "reason", None), *current.args)
        waiting.extend(part for part in inner if isinstance(part, BaseException))


def _pair(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
