"""A package index on this machine: PEP 503 pages or PEP 691 answers, and files with byte ranges."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass
class Served:
    """A file of the index, and what the page says of it."""

    data: bytes
    sha256: str | None = ""
    yanked: str | None = None

    def digest(self) -> str | None:
        """Return the announced digest: the true one by default, ``None`` for none."""
        return hashlib.sha256(self.data).hexdigest() if self.sha256 == "" else self.sha256


@dataclass
class IndexServer:
    """What the server has and how it behaves; tests change it while it runs."""

    url: str = ""
    files: dict[str, dict[str, Served]] = field(default_factory=dict)
    as_json: bool = True
    ranges: bool = True
    login: tuple[str, str] | None = None
    cut_after: int | None = None
    status: int = 200
    page: bytes | None = None
    page_type: str = JSON
    redirect_files_to: str = ""
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    """(path, Range header, Authorization header) of each request."""

    def add(self, project: str, filename: str, data: bytes, **said: str | None) -> Served:
        """Offer a file of a project."""
        served = Served(data, **said)
        self.files.setdefault(project, {})[filename] = served
        return served

    @property
    def simple(self) -> str:
        """The address to give to pip."""
        return f"{self.url}/simple/"


@contextlib.contextmanager
def serving() -> Iterator[IndexServer]:
    """Run an empty index until the end of the block."""
    index = IndexServer()

    class Handler(_Handler):
        served = index

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: IndexServer

    def do_GET(self) -> None:
        index = self.served
        asked = self.headers.get("Authorization") or ""
        index.requests.append((self.path, self.headers.get("Range") or "", asked))
        if index.login is not None and asked != _basic(*index.login):
            self._answer(401, "text/plain", b"who are you")
        elif index.status != 200:
            self._answer(index.status, "text/plain", b"no")
        elif page := re.fullmatch(r"/simple/([^/]+)/", self.path):
            self._page(page[1])
        elif file := re.fullmatch(r"/files/([^/]+)/([^/]+)", self.path):
            self._file(file[1], file[2])
        else:
            self._answer(404, "text/plain", b"nothing here")

    def _page(self, project: str) -> None:
        index = self.served
        files = index.files.get(project)
        if index.page is not None:
            self._answer(200, index.page_type, index.page)
        elif files is None:
            self._answer(404, "text/plain", b"no such project")
        elif index.as_json:
            listed = [
                {
                    "filename": name,
                    "url": f"/files/{project}/{name}",
                    "hashes": {"sha256": digest} if (digest := file.digest()) else {},
                    "size": len(file.data),
                    "yanked": False if file.yanked is None else file.yanked,
                }
                for name, file in files.items()
            ]
            answer = {"meta": {"api-version": "1.1"}, "name": project, "files": listed}
            self._answer(200, JSON, json.dumps(answer).encode())
        else:
            links = []
            for name, file in files.items():
                digest = file.digest()
                anchor = f"#sha256={digest}" if digest else ""
                yanked = "" if file.yanked is None else f' data-yanked="{html.escape(file.yanked)}"'
                links.append(f'<a href="/files/{project}/{name}{anchor}"{yanked}>{name}</a>')
            self._answer(200, "text/html", "".join(links).encode())

    def _file(self, project: str, name: str) -> None:
        index = self.served
        if index.redirect_files_to:
            self.send_response(302)
            self.send_header("Location", f"{index.redirect_files_to}/files/{project}/{name}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = index.files[project][name].data
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if asked and index.ranges:
            start = int(asked[1]) if asked[1] else max(0, len(data) - int(asked[2]))
            end = min(int(asked[2]), len(data) - 1) if asked[1] and asked[2] else len(data) - 1
            said = f"bytes {start}-{end}/{len(data)}"
            self._answer(206, "application/zip", data[start : end + 1], ("Content-Range", said))
        else:
            self._answer(200, "application/octet-stream", data)

    def _answer(self, status: int, kind: str, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        cut = self.served.cut_after
        if cut is not None and self.path.startswith("/files/"):
            self.wfile.write(body[:cut])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
