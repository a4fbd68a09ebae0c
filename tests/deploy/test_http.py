"""Every answer has an end, whatever the server does."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import odd_server
from tests.support.odd_server import Exchange, OddServer

from pseries.deploy import http
from pseries.deploy.http import Ask

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[OddServer]:
    with odd_server.serving("m") as running:
        yield running


def ask(server: OddServer, path: str = "/x", seconds: float = 5.0, json: Any = None) -> http.Answer:
    return http.ask([Ask(server.url + path, json)], seconds)[0]


def test_a_whole_answer(server: OddServer):
    server.replies["/x"] = lambda exchange, _: exchange.send_json({"a": 1})
    answer = ask(server, json={"b": 2})
    assert (answer.status, answer.body, answer.trouble) == (200, b'{"a": 1}', "")
    assert 0 < answer.first_byte <= answer.seconds < 5
    path, headers, asked = server.requests[-1]
    assert (path, headers["Accept-Encoding"], asked) == ("/x", "identity", {"b": 2})


def test_those_asked_at_once_are_answered_at_once_and_in_order(server: OddServer):
    def slow(exchange: Exchange, asked: Any) -> None:
        time.sleep(0.5 if asked == 0 else 0.3)
        exchange.send_json(asked)

    server.replies["/x"] = slow
    begun = time.monotonic()
    answers = http.ask([Ask(f"{server.url}/x", number) for number in range(8)], 5.0)
    assert [each.body for each in answers] == [str(number).encode() for number in range(8)]
    assert time.monotonic() - begun < 2


def test_first_byte_and_whole_differ_where_pieces_come(server: OddServer):
    def pieces(exchange: Exchange, _: Any) -> None:
        exchange.send_response(200)
        exchange.send_header("Transfer-Encoding", "chunked")
        exchange.end_headers()
        for piece in (b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"):
            exchange.wfile.write(piece)
            exchange.wfile.flush()
            time.sleep(0.3)

    server.replies["/x"] = pieces
    answer = ask(server)
    assert (answer.body, answer.trouble) == (b"ab", "")
    assert answer.seconds - answer.first_byte > 0.3


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (lambda exchange, _: exchange.drip(b" ", 0.05), "no whole answer within 1 s"),
        (lambda exchange, _: exchange.drip_head(), "no whole answer within 1 s"),
        (lambda exchange, _: exchange.server.over.wait(9), "no whole answer within 1 s"),
        (lambda exchange, _: exchange.drip(b" " * (1 << 20), 0), "larger than 16 MiB"),
        (lambda exchange, _: exchange.hang_up(), "the connection failed"),
        (lambda exchange, _: exchange.hang_up(after=b"{"), "broke before the answer was whole"),
        (
            lambda exchange, _: exchange.send_bytes(b"x", Content_Encoding="gzip"),
            "compressed, which was not asked for",
        ),
    ],
    ids=["drip", "drip-head", "silence", "flood", "hang-up", "half", "gzip"],
)
def test_trouble_is_said_in_time(server: OddServer, reply: Any, said: str):
    server.replies["/x"] = reply
    begun = time.monotonic()
    answer = ask(server, seconds=1.0)
    assert said in answer.trouble
    assert len(answer.body) <= http.MOST_BYTES + (64 << 10)
    assert time.monotonic() - begun < 4


def test_nobody_listens():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    answer = http.ask([Ask(f"http://127.0.0.1:{port}/x")], 5.0)[0]
    assert answer.trouble == "Connection refused"


def test_redirects_are_not_followed(server: OddServer):
    server.replies["/x"] = lambda exchange, _: exchange.send_bytes(
        b"", 302, Location=f"{server.url}/y"
    )
    assert ask(server).status == 302
    assert [path for path, _, _ in server.requests] == ["/x"]


def test_no_proxy_is_asked_for_this_machine(server: OddServer, monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.replies["/x"] = lambda exchange, _: exchange.send_json(1)
    assert ask(server).body == b"1"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h:1", None),
        ("https://h/prefix/", None),
        ("http://[::1]:8000/v1", None),
        ("file:///etc/passwd", "only http"),
        ("ftp://h", "only http"),
        ("127.0.0.1:8000", "only http"),
        ("http://", "names no host"),
        ("http://h:0", "names no host"),
        ("http://h:x", "not an address"),
        ("http://h:99999", "not an address"),
        ("http://[::1", "not an address"),
        ("http://h/?a=b", "neither ? nor #"),
    ],
)
def test_addresses(url: str, why: str | None):
    found = http.problem(url)
    assert found is None if why is None else why in (found or "")


def test_what_is_shown_holds_no_password_and_a_base_no_v1():
    assert http.shown("http://me:secret@h:1/x") == "http://h:1/x"
    assert http.base("http://h/v1/") == http.base("http://h/") == "http://h"
    assert http.base("http://h/a") == "http://h/a"
