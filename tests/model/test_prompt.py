"""Prompts of a given length around a planted word."""

from __future__ import annotations

import pytest

from pseries.model.runtime import prompt
from pseries.model.runtime.prompt import Kind


@pytest.mark.parametrize("words", [0, 1, 2, 5, 4001])
def test_the_word_stands_once_in_the_middle_of_the_hay(words: int):
    text = prompt.haystack(words, "kitten", "blue red")
    assert text.startswith("blue red: ")
    assert text.count("kitten") == 1
    before, behind = text.split("kitten")
    assert before.count(" hay ") + before.count(" hay\n") >= 0
    counts = before.split().count("hay"), behind.split().count("hay")
    assert sum(counts) == words
    assert 0 <= counts[1] - counts[0] <= 1


def test_no_beginning_can_be_taken_for_a_planted_word():
    assert not set(prompt.WORDS) & set(prompt.BEGINNINGS)
    fixed = prompt.haystack(3, "", "").lower()
    assert not [word for word in prompt.WORDS if word in fixed]
    assert not [each for each in prompt.BEGINNINGS if any(w in each for w in prompt.WORDS)]


def test_two_measured_prompts_tell_the_length_of_the_others():
    shorter, longer = prompt.MEASURED
    measure = prompt.measure(30 + 2 * shorter, 30 + 2 * longer)
    assert measure == prompt.Measure(30, 2)
    assert measure.words(1030) == 500
    assert measure.words(1031) == 500
    assert measure.words(7) == 0
    for useless in ((None, 5), (5, None), (5, 5), (6, 5)):
        assert prompt.measure(*useless) is None


def test_kinds_and_where_their_prompt_stands():
    assert Kind.of("/v1/chat/completions") is Kind.CHAT
    assert Kind.of("/v1/completions") is Kind.COMPLETION
    assert Kind.of("/generate") is Kind.GENERATE
    assert Kind.of("/v1/embeddings") is None
    request = {"model": "m", "prompt": "Hello", "max_tokens": 3}
    assert prompt.asking(Kind.COMPLETION, request, "P") == {
        "model": "m", "prompt": "P", "max_tokens": 3,
        "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip
    assert prompt.asking(Kind.GENERATE, {"text": "Hello"}, "P") == {"text": "P", "stream": True}
    messages = prompt.asking(Kind.CHAT, {"messages": [1, 2]}, "P")["messages"]
    assert messages == [{"role": "user", "content": "P"}]
    assert request["prompt"] == "Hello"
