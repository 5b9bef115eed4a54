"""Stands between a client and an Engine on a socket of its own: records every call, and interferes when told to."""

import contextlib
import http.client
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Verdict(Enum):
    """What becomes of one call."""

    PASS = "pass"  # noqa: S105 - no password
    REFUSE = "refuse"  # 403, and the Engine never hears of it
    CUT_BEFORE = "cut before"  # the connection ends, and the Engine never hears of it
    CUT_AFTER = "cut after"  # the Engine has answered, and the client never hears of it
    HANG = "hang"  # no answer until the proxy ends


@dataclass(frozen=True, slots=True)
class Call:
    """One request; ``number`` counts from 1 over the life of the proxy, ``path`` has no API version and no query."""

    number: int
    method: str
    path: str

    def __str__(self) -> str:
        """As in an access log."""
        return f"{self.method} {self.path}"


Decide = Callable[[Call], Verdict]


def pass_all(call: Call) -> Verdict:
    """Interfere with nothing."""
    del call
    return Verdict.PASS


def get_only(call: Call) -> Verdict:
    """Refuse whatever could change the host."""
    return Verdict.PASS if call.method in {"GET", "HEAD"} else Verdict.REFUSE


def nth_change(number: int, verdict: Verdict) -> Decide:
    """Interfere with the ``number``-th call (from 1) that could change the host."""
    changes: list[Call] = []

    def decide(call: Call) -> Verdict:
        if call.method not in {"GET", "HEAD"}:
            changes.append(call)
            if len(changes) == number:
                return verdict
        return Verdict.PASS

    return decide


class Proxy:
    """Use it in a ``with``; ``url`` is for the client, ``calls`` what came in so far, ``decide`` may be replaced."""

    def __init__(self, engine: str, directory: Path, decide: Decide = pass_all) -> None:
        self.upstream = engine.removeprefix("unix://")
        self.decide = decide
        self.calls: list[Call] = []
        self.released = threading.Event()
        self._path = directory / "proxy.sock"
        self.url = f"unix://{self._path}"
        self._lock = threading.Lock()
        self._server = _Server(str(self._path), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of what hangs, end every connection, and wait for all threads."""
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.cut_all()
        self._server.server_close()
        self._path.unlink()

    @property
    def changes(self) -> list[Call]:
        """The calls that could change the host."""
        return [call for call in self.calls if call.method not in {"GET", "HEAD"}]

    def record(self, method: str, target: str) -> Call:
        """Note a call."""
        path = target.partition("?")[0]
        if path.startswith("/v1."):
            path = "/" + path.split("/", 2)[2]
        with self._lock:
            call = Call(len(self.calls) + 1, method, path)
            self.calls.append(call)
        return call


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = False
    request_queue_size = 64
    proxy: Proxy

    def __init__(self, path: str, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(path, handler)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut_all(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):  # it may have ended meanwhile
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error; anything else is printed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Upstream(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._unix = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._unix)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle_one_request(self) -> None:
        """One request; the parsing is the base class's."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = proxy.record(self.command, self.path)
        verdict = proxy.decide(call)
        if verdict is Verdict.HANG:
            proxy.released.wait()
        if verdict in {Verdict.CUT_BEFORE, Verdict.HANG}:
            self.close_connection = True
        elif verdict is Verdict.REFUSE:
            self._answer(403, b'{"message": "the proxy lets only GET through"}', "application/json")
        else:
            self._forward(body, answer=verdict is Verdict.PASS)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: the calls are recorded."""

    def _forward(self, body: bytes, *, answer: bool) -> None:
        upstream = _Upstream(self.server.proxy.upstream)
        with contextlib.closing(upstream):
            headers = {key: value for key, value in self.headers.items() if key.lower() != "connection"}
            upstream.request(self.command, self.path, body or None, headers)
            reply = upstream.getresponse()
            if not answer:
                reply.read()
                self.close_connection = True
            elif reply.length is None:
                self._stream(reply)
            else:
                self._answer(reply.status, reply.read(), reply.getheader("Content-Type") or "")

    def _answer(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        if status not in {204, 304}:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, reply: http.client.HTTPResponse) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.getheader("Content-Type") or "")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in _parts(reply):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")


def _parts(reply: http.client.HTTPResponse) -> Iterator[bytes]:
    while part := reply.read1(65536):
        yield part
