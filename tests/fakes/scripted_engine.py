"""A socket that answers like a script: for what no real Engine does on demand."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Script = Callable[[str, socket.socket], None]
VERSION = b'{"Version": "26.1.5", "ApiVersion": "1.45", "MinAPIVersion": "1.24"}'


def reply(content: bytes, status: str = "200 OK") -> Script:
    """Answer with JSON."""

    def answer(request: str, connection: socket.socket) -> None:
        del request
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        connection.sendall(head.encode() + content)

    return answer


def chunks(*parts: bytes, cut: bool = False, silent: float = 0.0) -> Script:
    """Answer in chunks, as a pull does; then cut the connection, say nothing for a while, or end well."""

    def answer(request: str, connection: socket.socket) -> None:
        del request
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for part in parts:
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        if silent:
            connection.settimeout(silent)
            connection.recv(1)  # the client hangs up first
        if not cut:
            connection.sendall(b"0\r\n\r\n")
        connection.close()

    return answer


def hang_up(request: str, connection: socket.socket) -> None:
    """Answer nothing and close."""
    del request
    connection.close()


def say_nothing(request: str, connection: socket.socket) -> None:
    """Answer nothing until the client gives up."""
    del request
    connection.recv(1)


@contextlib.contextmanager
def scripted_engine(path: Path, answers: Mapping[str, Script], targets: list[str] | None = None) -> Iterator[list[str]]:
    """Serve at ``path``; yields the requests as ``METHOD /path``. ``/version`` is answered unless the script has it.

    ``targets`` gets the same requests with API version and query, as they came in.
    """
    seen: list[str] = []
    open_connections: list[socket.socket] = []
    whole = {"GET /version": reply(VERSION), **answers}

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # the client is free to leave
            while target := _request(connection):
                request = _short(target)
                seen.append(request)
                if targets is not None:
                    targets.append(target)
                whole[request](request, connection)

    def accept() -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                connection, _ = listener.accept()
                open_connections.append(connection)
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield seen
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for connection in open_connections:
                with contextlib.suppress(OSError):  # closed by its script
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def _request(connection: socket.socket) -> str:
    """Method and target of the next request; its body is read and dropped."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            return ""
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    lengths = [int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")]
    while lengths and len(body) < lengths[0]:
        body += connection.recv(65536)
    return lines[0].rpartition(" ")[0]


def _short(target: str) -> str:
    """Method and path, without API version and query."""
    method, _, rest = target.partition(" ")
    path = rest.partition("?")[0]
    return f"{method} {'/' + path.split('/', 2)[2] if path.startswith('/v1.') else path}"
