"""Answers of servers: whole, in pieces, broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pseries.model.runtime import answer
from pseries.model.runtime.answer import AnswerInvalid, Tokens

CHAT = "choices.0.message.content"


def stream(*pieces: Any, end: str = "data: [DONE]\n\n") -> bytes:
    return "".join(f"data: {json.dumps(each)}\n\n" for each in pieces).encode() + end.encode()


def piece(**choice: Any) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, **choice}]}


def test_a_chat_in_pieces_is_the_chat():
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    body = stream(
        {**piece(delta={"role": "assistant", "content": ""}), "usage": None},
        piece(delta={"reasoning_content": "Hm."}),
        piece(delta={"content": "Hal"}),
        piece(delta={"content": "lo"}, finish_reason="stop"),
        usage,
    )
    found = answer.parse("text/event-stream; charset=utf-8", body)
    assert answer.text_at(found, CHAT) == "Hallo"
    assert answer.said(found, CHAT) == "Hm.\nHallo"
    assert answer.tokens(found) == Tokens(3, 2)


def test_completions_in_pieces_with_any_line_ends():
    body = stream(piece(text="a"), piece(text="b")).replace(b"\n", b"\r\n")
    assert answer.text_at(answer.parse(answer.EVENTS, body), "choices.0.text") == "ab"


def test_sglang_sends_the_whole_text_again_and_again():
    body = stream({"text": "a"}, {"text": "ab", "meta_info": {"prompt_tokens": 1}})
    found = answer.parse(answer.EVENTS, body)
    assert answer.text_at(found, "text") == "ab"
    assert answer.tokens(found) == Tokens(1, None)


def test_a_stream_may_end_with_a_reason_instead_of_done():
    body = stream(piece(text="a", finish_reason="length"), end="")
    assert answer.text_at(answer.parse(answer.EVENTS, body), "choices.0.text") == "a"


@pytest.mark.parametrize(
    ("content_type", "body", "reason"),
    [
        ("application/json", b"{", "not JSON"),
        ("application/json", b"\xff", "not JSON"),
        ("application/json", b"[" * 100_000, "not JSON"),
        ("application/json", b"9" * 10_000, "not JSON"),
        ("", b"", "not JSON"),
        (answer.EVENTS, b"", "ends in the middle"),
        (answer.EVENTS, stream(piece(text="a"), end=""), "ends in the middle"),
        (answer.EVENTS, b"data: {\n\ndata: [DONE]\n\n", "not JSON"),
        (answer.EVENTS, stream([1]), "no JSON object"),
    ],
)
def test_what_cannot_be_read(content_type: str, body: bytes, reason: str):
    with pytest.raises(AnswerInvalid, match=reason):
        answer.parse(content_type, body)


@pytest.mark.parametrize(
    "odd",
    [
        None, 1, "x", [], {}, {"choices": []}, {"choices": [1]}, {"choices": [{"message": None}]},
        {"choices": {"0": 1}}, {"choices": [{"message": {"content": None}}]},
    ],
)  # fmt: skip
def test_odd_answers_have_no_text_and_no_tokens(odd: Any):
    assert answer.text_at(odd, CHAT) is None
    assert answer.said(odd, CHAT) == ""
    assert answer.tokens(odd) == Tokens(None, None)
    assert answer.models(odd) == ()


def test_odd_pieces_are_passed_over():
    body = stream({"choices": [1]}, {"choices": {}}, piece(delta=5), piece(text=7), piece(text="a"))
    assert answer.text_at(answer.parse(answer.EVENTS, body), "choices.0.text") == "a"


def test_paths_cannot_run_out_of_a_list():
    assert answer.text_at({"a": ["x"]}, "a.0") == "x"
    for path in ("a.1", "a.-1", "a.\u0660", "a.9999999999", "a", ""):
        assert answer.text_at({"a": ["x"]}, path) is None


def test_counts_are_numbers_and_models_are_names():
    assert answer.tokens({"usage": {"prompt_tokens": True, "completion_tokens": -1}}) == (
        None,
        None,
    )
    assert answer.models({"data": [{"id": "a"}, {"id": 1}, 2, {"id": ""}]}) == ("a",)
