"""A registry with one image, read only, over plain HTTP: what a pull needs. Run it as a program where dockerd lives.

``python3 registry.py PORT FILE``: FILE is the tar of the image's root. The image is ``127.0.0.1:PORT/team/app:1``; its
digest is printed when the registry listens. Standard library only.
"""

import gzip
import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest(content: bytes) -> str:
    """As registries name things."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def image(root: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Manifest and blobs of an image with one layer."""
    layer = gzip.compress(root, mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]},
            "rootfs": {"type": "layers", "diff_ids": [digest(root)]},
        }
    ).encode()
    described = [
        {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest(config)},
        {
            "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
            "size": len(layer),
            "digest": digest(layer),
        },
    ]
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
    return json.dumps(manifest).encode(), {digest(config): config, digest(layer): layer}


def handler(manifest: bytes, blobs: dict[str, bytes]) -> type[BaseHTTPRequestHandler]:
    """Answers for that image."""
    known = {f"/v2/team/app/blobs/{name}": (blob, "application/octet-stream") for name, blob in blobs.items()}
    known["/v2/"] = (b"{}", "application/json")
    for reference in ("1", "latest", digest(manifest)):
        known[f"/v2/team/app/manifests/{reference}"] = (manifest, MANIFEST)

    class Handler(BaseHTTPRequestHandler):
        """GET and HEAD."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """One document, or 404 in the registry's form."""
            missing = (b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}', "application/json")
            content, kind = known.get(self.path, missing)
            self.send_response(200 if self.path in known else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Content-Digest", digest(content))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815 - the base class's name

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    return Handler


if __name__ == "__main__":
    made, blobs = image(Path(sys.argv[2]).read_bytes())
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), handler(made, blobs))
    print(digest(made), flush=True)  # noqa: T201 - that it listens
    server.serve_forever()
