"""A git server over https with a password: Python's TLS server in front of git's own ``git http-backend``."""

import base64
import http.server
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

USERNAME = "reader"
PASSWORD = "s3cr:et @/%"  # noqa: S105  (with the characters that URLs and shells care about)


@dataclass(slots=True)
class HttpsServer:
    """``port`` on 127.0.0.1, ``ca`` to trust, and the ``Authorization`` headers ``seen``.

    With ``redirect`` every request is sent on to that URL.
    """

    port: int
    ca: Path
    seen: list[str] = field(default_factory=list)
    redirect: str = ""


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """A CA, and a certificate of it for 127.0.0.1 and localhost with its key."""
    ca, ca_key, key, request, cert = (folder / name for name in ("ca.pem", "ca.key", "key.pem", "req.pem", "cert.pem"))
    extensions = folder / "ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    commands: tuple[list[str | Path], ...] = (
        [*new, "-x509", "-days", "2", "-subj", "/CN=test CA", "-keyout", ca_key, "-out", ca],
        [*new, "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", request],
        [
            *("openssl", "x509", "-req", "-days", "2", "-in", request, "-out", cert),
            *("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-extfile", extensions),
        ],
    )
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)
    return ca, cert, key


@contextmanager
def serve(root: Path, folder: Path) -> Iterator[HttpsServer]:
    """Serve the repositories under ``root``; certificates are made in ``folder``."""
    ca, cert, key = certificates(folder)
    state = HttpsServer(0, ca)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(root, state))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    # The handshake is left to the thread of each connection: a client that breaks off must not stop the server.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes are what some tests want
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(root: Path, state: HttpsServer) -> type[http.server.BaseHTTPRequestHandler]:
    """A handler class for one server."""
    wanted = "Basic " + base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()

    class Handler(http.server.BaseHTTPRequestHandler):
        """Asks for the password, then hands the request to git."""

        def do_GET(self) -> None:
            """References."""
            self._answer()

        def do_POST(self) -> None:
            """Packs."""
            self._answer()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class names it so)
            """Say nothing."""

        def _answer(self) -> None:
            given = self.headers.get("Authorization")
            if given:
                state.seen.append(given)
            if state.redirect:
                self.send_response(302)
                self.send_header("Location", state.redirect + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif given != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._run_git()

        def _run_git(self) -> None:
            path, _, query = self.path.partition("?")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            variables = {
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": USERNAME,
            }
            clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=clean | variables, capture_output=True, check=True
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler
