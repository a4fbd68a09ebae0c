"""A git repository over HTTPS on this machine: git's own http-backend behind a small server."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import ssl
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class GitServer:
    """Where the server is, whom it lets in, and what it was asked."""

    url: str
    certificate: Path
    login: tuple[str, str] | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    """(path, Authorization header) of each request."""


def available() -> bool:
    """Say whether there is what this needs: openssl for a certificate, git's http-backend."""
    return shutil.which("openssl") is not None and _backend().exists()


@contextlib.contextmanager
def serving(folder: Path, scratch: Path) -> Iterator[GitServer]:
    """Serve the repositories in ``folder`` until the end of the block."""
    key, certificate = scratch / "key.pem", scratch / "certificate.pem"
    openssl = shutil.which("openssl") or "openssl"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    state = GitServer("", certificate)

    class Handler(_Handler):
        served = state
        root = folder

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    state.url = f"https://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _backend() -> Path:
    git = shutil.which("git") or "git"
    said = subprocess.run([git, "--exec-path"], check=True, capture_output=True, text=True)
    return Path(said.stdout.strip(), "git-http-backend")


class _Handler(BaseHTTPRequestHandler):
    served: GitServer
    root: Path

    def do_GET(self) -> None:
        asked = self.headers.get("Authorization") or ""
        self.served.requests.append((self.path, asked))
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        login = self.served.login
        if (
            login is not None
            and asked != "Basic " + base64.b64encode(":".join(login).encode()).decode()
        ):
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic realm=x")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            [_backend()],
            input=body,
            env={
                "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root),
                "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command, "PATH_INFO": path,
                "QUERY_STRING": query, "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                "CONTENT_LENGTH": str(length), "REMOTE_ADDR": "127.0.0.1",
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            },
            check=True, capture_output=True,
        )  # fmt: skip
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        said = dict(pair for pair in lines if len(pair) == 2)
        self.send_response(int(said.pop("Status", "200").split()[0]))
        for name, value in said.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, *_: object) -> None:
        pass
