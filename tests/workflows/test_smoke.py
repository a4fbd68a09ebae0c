"""smoke against servers that are right, wrong, slow, late, mad, or not there."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import odd_server
from tests.support.odd_server import Exchange, OddServer

from pseries.errors import ModelUnclear, NotServed, ServerNotUp
from pseries.model import spec as specs
from pseries.workflows.runtime import smoke as smoking
from pseries.workflows.runtime.smoke import Report, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPLETION = """
[[smoke]]
path = "/v1/completions"
json = { model = "{model}", prompt = "Hello", max_tokens = 10 }
expect = "choices.0.text"
"""
CHAT = """
[[smoke]]
path = "/v1/chat/completions"
json = { model = "{model}", messages = [{ role = "user", content = "Hello" }], max_tokens = 8 }
expect = "choices.0.message.content"
"""
GENERATE = """
[[smoke]]
path = "/generate"
json = { text = "Hello" }
expect = "text"
"""
OTHER = """
[[smoke]]
path = "/version"
json = {}
expect = "version"
"""
PATHS = ("/v1/completions", "/v1/chat/completions", "/generate")


def spec(*smokes: str) -> specs.Spec:
    head = 'summary = "s"\nlabel = "l"\n[upstream]\ndistribution = "eng"\nversion = "1.0"\n'
    problems: list[Any] = []
    found = specs.parse((head + "".join(smokes)).encode(), problems)
    assert not problems
    return found


@pytest.fixture
def server() -> Iterator[OddServer]:
    with odd_server.serving("m") as running:
        for path in PATHS:
            running.replies[path] = odd_server.good
        yield running


def smoke(
    server: OddServer, *smokes: str, seconds: float = 5.0, told: list[str] | None = None,
    **options: Any,
) -> Report:  # fmt: skip
    tell = [].append if told is None else told.append
    where = Server(server.url, seconds)
    return smoking.smoke("eng-1.0", spec(*smokes), where, tell=tell, **options)


def test_alone_at_once_and_long(server: OddServer):
    report = smoke(server, COMPLETION, CHAT, GENERATE, concurrency=3, lengths=[400, 1001])
    assert report.problems == ()
    assert [each.request for each in report.results] == [
        *PATHS,
        *(f"/v1/completions {number}/3 at once" for number in (1, 2, 3)),
        "/v1/chat/completions 400 tokens",
        "/v1/chat/completions 1001 tokens",
    ]
    # The server counts two tokens a word: prompts are as long as asked, to the next word.
    assert [each.prompt_tokens for each in report.results[-2:]] == [400, 1000]
    assert all(0 < each.first_byte <= each.seconds for each in report.results)
    plain = [asked for path, _, asked in server.requests if path in PATHS][:3]
    assert plain[0] == {"model": "m", "prompt": "Hello", "max_tokens": 10}
    assert plain[2] == {"text": "Hello"}


@pytest.mark.parametrize("kind", [COMPLETION, CHAT, GENERATE])
def test_every_kind_takes_long_prompts(server: OddServer, kind: str):
    report = smoke(server, kind, lengths=[300])
    assert report.problems == ()
    assert report.results[-1].prompt_tokens in (299, 300)


def test_no_two_prompts_begin_alike(server: OddServer):
    smoke(server, GENERATE, lengths=[100] * 6)
    texts = [asked["text"] for path, _, asked in server.requests if path == "/generate"]
    assert len({text.split(":")[0] for text in texts}) == len(texts)


def test_a_model_that_does_not_read_is_found_out(server: OddServer):
    def forgetful(exchange: Exchange, asked: Any) -> None:
        long = len(json.dumps(asked)) > 2000
        odd_server.good(exchange, {"text": "Hello", "stream": True} if long else asked)

    server.replies["/generate"] = forgetful
    report = smoke(server, GENERATE, lengths=[100, 5000])
    (problem,) = report.problems
    assert problem.where == "/generate 5000 tokens"
    assert re.fullmatch(r"the planted word '\w+' is not in its answer: ' Hi\.'", problem.what)


def test_a_server_that_counts_nothing_gets_a_word_a_token(server: OddServer):
    server.replies["/generate"] = lambda exchange, asked: exchange.send_json(
        {"text": odd_server.reading(asked)}
    )
    told: list[str] = []
    report = smoke(server, GENERATE, lengths=[500], told=told)
    assert report.problems == ()
    assert told == ["the server does not count tokens: one word is taken for one"]
    words = server.requests[-1][2]["text"].split()
    assert 450 < len(words) <= 520


def test_a_series_without_prompts_has_no_long_ones(server: OddServer):
    server.replies["/version"] = lambda exchange, _: exchange.send_json({"version": "1.0"})
    told: list[str] = []
    report = smoke(server, OTHER, concurrency=2, lengths=[100], told=told)
    assert [each.request for each in report.results] == ["/version", *(
        f"/version {number}/2 at once" for number in (1, 2)
    )]  # fmt: skip
    assert "no long prompts" in told[0]


def answers(body: bytes, status: int = 200, **headers: str) -> Any:
    return lambda exchange, _: exchange.send_bytes(body, status, **headers)


WRONG = {
    "500": (answers(b"boom", 500), "status 500: boom"),
    "404": (answers(b"", 404), "status 404: (an empty answer)"),
    "401": (answers(b"no key", 401), "status 401: no key"),
    "201": (answers(b"{}", 201), "status 201: {}"),
    "broken": (answers(b'{"text": "a'), "not JSON: Unterminated string starting at: line 1 column"),
    "html": (answers(b"<html>", kind="text/html"), "<html>"),
    "empty text": (answers(b'{"text": ""}'), 'no text at text in its answer: {"text": ""}'),
    "no text": (answers(b'{"txt": "a"}'), 'no text at text in its answer: {"txt": "a"}'),
    "null": (answers(b"null"), "no text at text in its answer: null"),
    "list": (answers(b'["a"]'), "no text at text"),
    "redirect": (answers(b"", 307, Location="http://127.0.0.1:1/"), "it redirects (status 307)"),
    "stream": (answers(b"data: {}\n\n", kind="text/event-stream"), "ends in the middle: data: {}"),
    "long": (answers(b"x" * 99_999, 500), f"status 500: {'x' * 500}…"),
    "hang-up": (lambda exchange, _: exchange.hang_up(), "the connection failed"),
    "half": (lambda exchange, _: exchange.hang_up(after=b"{"), "broke before the answer was whole"),
    "drip": (lambda exchange, _: exchange.drip(b"a", 0.1), "no whole answer within 1 s"),
    "head": (lambda exchange, _: exchange.drip_head(), "no whole answer within 1 s"),
    "flood": (lambda exchange, _: exchange.drip(b"a" * (1 << 20), 0), "larger than 16 MiB"),
    "deep": (answers(b"[" * 99_999), "not JSON"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_said_with_the_answer(server: OddServer, kind: str):
    reply, said = WRONG[kind]
    server.replies["/generate"] = reply
    begun = time.monotonic()
    report = smoke(server, GENERATE, COMPLETION, concurrency=9, lengths=[50], seconds=1.0)
    (problem,) = report.problems
    assert problem.where == "/generate"
    assert said in problem.what
    assert len(problem.what) < 700
    # What failed does not keep the other requests from being asked, but the next stages.
    assert [each.request for each in report.results] == ["/generate", "/v1/completions"]
    assert report.skipped == ("9 at once", "long prompts")
    assert time.monotonic() - begun < 6


def test_one_of_many_at_once_fails(server: OddServer):
    lock, seen = threading.Lock(), []

    def third(exchange: Exchange, asked: Any) -> None:
        with lock:
            seen.append(1)
            number = len(seen)
        if number == 4:
            exchange.send_json({"error": "busy"}, 429)
        else:
            odd_server.good(exchange, asked)

    server.replies["/generate"] = third
    report = smoke(server, GENERATE, concurrency=5, lengths=[50])
    (problem,) = report.problems
    assert problem.what == 'status 429: {"error": "busy"}'
    assert report.skipped == ("long prompts",)


def test_a_server_that_comes_up_late_is_waited_for():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    told: list[str] = []
    late = OddServer.__new__(OddServer)

    def come_up() -> None:
        time.sleep(1.0)
        OddServer.__init__(late, port)
        loading = iter([503, 503])
        models = {"data": [{"id": "m"}]}
        late.replies["/v1/models"] = lambda exchange, _: exchange.send_json(
            models, next(loading, 200)
        )
        late.replies["/generate"] = odd_server.good
        late.serve_forever(0.05)

    thread = threading.Thread(target=come_up, daemon=True)
    thread.start()
    where = Server(f"http://127.0.0.1:{port}", 20)
    report = smoking.smoke("eng-1.0", spec(GENERATE), where, tell=told.append)
    late.shutdown()
    late.server_close()
    thread.join()
    assert report.problems == ()
    assert told == [
        "waiting for the server: Connection refused",
        "waiting for the server: it answers with status 503",
    ]


def test_a_server_that_never_comes_is_given_up_in_time(server: OddServer):
    server.replies["/v1/models"] = lambda exchange, _: exchange.send_json({}, 503)
    begun = time.monotonic()
    with pytest.raises(ServerNotUp, match="after 1 s: it answers with status 503"):
        smoke(server, GENERATE, seconds=1.0)
    server.replies["/v1/models"] = lambda exchange, _: exchange.server.over.wait(9)
    with pytest.raises(ServerNotUp, match="no whole answer within"):
        smoke(server, GENERATE, seconds=1.0)
    assert time.monotonic() - begun < 5


def test_the_model_is_the_only_one_or_named():
    for models in ((), ("a", "b")):
        with odd_server.serving(*models) as server:
            server.replies["/v1/completions"] = server.replies["/generate"] = odd_server.good
            with pytest.raises(ModelUnclear, match=", ".join(models) or "none that it tells"):
                smoke(server, COMPLETION)
            report = smoke(server, COMPLETION, model="b")
            assert (report.problems, report.model) == ((), "b")
            assert server.requests[-1][2]["model"] == "b"
            assert smoke(server, GENERATE).problems == ()  # nothing in it names a model


def test_a_server_without_a_list_of_models_is_up(server: OddServer):
    del server.replies["/v1/models"]
    assert smoke(server, GENERATE).problems == ()
    server.replies["/v1/models"] = answers(b"{")
    assert smoke(server, GENERATE).problems == ()


def test_nothing_to_ask(server: OddServer):
    with pytest.raises(NotServed):
        smoke(server)
