"""A server that answers as it is told: rightly, wrongly, slowly, without end, or not at all."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class OddServer(ThreadingHTTPServer):
    """It keeps every request that it got; ``replies`` says what is done for a path."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.replies: dict[str, Callable[[Exchange, Any], None]] = {}
        self.over = threading.Event()
        super().__init__(("127.0.0.1", port), Exchange)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave in the middle are what some tests are about."""


class Exchange(BaseHTTPRequestHandler):
    """One request and its answer."""

    server: OddServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        asked = json.loads(body) if body else None
        self.server.requests.append((self.path, dict(self.headers), asked))
        reply = self.server.replies.get(self.path)
        if reply is None:
            self.send_json({"detail": "Not Found"}, 404)
        else:
            reply(self, asked)

    do_GET = do_POST = _answer  # noqa: N815 - the names of the library

    def send_bytes(
        self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str
    ) -> None:
        """Answer with a body."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, value: Any, status: int = 200) -> None:
        """Answer with JSON."""
        self.send_bytes(json.dumps(value).encode(), status)

    def drip(self, piece: bytes, pause: float, length: int = 1 << 40) -> None:
        """Answer with a body that does not end."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length))
        self.end_headers()
        while not self.server.over.is_set():
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(pause)

    def drip_head(self) -> None:
        """Answer with a head that does not end."""
        while not self.server.over.wait(0.1):
            self.wfile.write(b"H")
            self.wfile.flush()

    def hang_up(self, *, after: bytes = b"") -> None:
        """End the connection, without an answer or in the middle of one."""
        if after:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(after)
        self.close_connection = True


def reading(asked: Any) -> str:
    """Return what a model that reads well answers: the word that was planted, or a greeting."""
    text = json.dumps(asked)
    _, planted, behind = text.partition("The secret word is ")
    return f" {behind.split('.')[0]}!" if planted else " Hi."


def count(asked: Any) -> int:
    """Return a number of tokens for a request: two a word."""
    return 2 * len(json.dumps(asked).split())


def good(exchange: Exchange, asked: Any) -> None:
    """Answer as vLLM and SGLang do, whole or in pieces."""
    text, usage = reading(asked), {"prompt_tokens": count(asked), "completion_tokens": 2}
    chat, streamed = "messages" in asked, bool(asked.get("stream"))
    if "text" in asked:
        value: Any = {"text": text, "meta_info": usage}
    elif chat:
        key = "delta" if streamed else "message"
        value = {"choices": [{key: {"content": text}}], "usage": usage}
    else:
        value = {"choices": [{"text": text}], "usage": usage}
    if streamed:
        body = f"data: {json.dumps(value)}\n\ndata: [DONE]\n\n".encode()
        exchange.send_bytes(body, kind="text/event-stream")
    else:
        exchange.send_json(value)


@contextlib.contextmanager
def serving(*models: str) -> Iterator[OddServer]:
    """Serve these models in the background; other paths are up to the test."""
    server = OddServer()
    listed = {"object": "list", "data": [{"id": name} for name in models]}
    server.replies["/v1/models"] = lambda exchange, _: exchange.send_json(listed)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
