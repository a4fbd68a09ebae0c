"""What a server answered: whole, or piece by piece as server-sent events (WHATWG HTML 9.2)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS = "text/event-stream"
_DONE = "[DONE]"
_PARTS = ("content", "reasoning_content", "reasoning")
"""Of a chat message: what it says, and what it thought, in the words of two generations."""


class AnswerInvalid(ValueError):
    """An answer is not what its protocol says; the words are the reason."""


class Tokens(NamedTuple):
    """What a server counted; ``None`` where it does not say."""

    prompt: int | None
    generated: int | None


def parse(content_type: str, body: bytes) -> Any:
    """Return the answer as one JSON value; pieces are put together into what they are pieces of.

    Raises:
        AnswerInvalid: it is no JSON.
    """
    if content_type.partition(";")[0].strip().lower() != EVENTS:
        return _json(body)
    whole: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    ended = False
    for data in _events(body):
        if data == _DONE:
            ended = True
            break
        ended |= _add(whole, texts, _json(data.encode()))
    if not ended:
        raise AnswerInvalid("its stream of events ends in the middle")
    return _joined(whole, texts)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise AnswerInvalid(f"not JSON: {str(error)[:100]}") from None


def _events(body: bytes) -> Iterator[str]:
    lines: list[str] = []
    text = body.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    for line in f"{text}\n".split("\n"):
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            yield "\n".join(lines)
            lines.clear()


def _add(whole: dict[str, Any], texts: dict[str, list[str]], piece: Any) -> bool:
    """Add a piece, and return whether it says that it is the last one of its text.

    Texts of its first choice are kept in order, all else replaces what was there: SGLang's own
    protocol sends the whole text so far in every piece. Not every server sends ``[DONE]``.
    """
    if not isinstance(piece, dict):
        raise AnswerInvalid("a piece of it is no JSON object")
    whole.update((key, value) for key, value in piece.items() if key != "choices")
    choices = piece.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta")
    for name, text in (
        ("text", choice.get("text")),
        *((part, delta.get(part)) for part in _PARTS if isinstance(delta, dict)),
    ):
        if isinstance(text, str):
            texts.setdefault(name, []).append(text)
    return choice.get("finish_reason") is not None


def _joined(whole: dict[str, Any], texts: dict[str, list[str]]) -> dict[str, Any]:
    """Return the answer as it would have come in one piece."""
    if not texts:
        return whole
    joined = {name: "".join(parts) for name, parts in texts.items()}
    text = joined.pop("text", None)
    choice: dict[str, Any] = {} if text is None else {"text": text}
    if joined:
        choice["message"] = joined
    return {**whole, "choices": [choice]}


def text_at(answer: Any, path: str) -> str | None:
    """Return the text at a path such as ``choices.0.text``, ``None`` where there is none."""
    found = answer
    for name in path.split("."):
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isascii() and name.isdecimal() and len(name) < 7:
            found = found[int(name)] if int(name) < len(found) else None
        else:
            return None
    return found if isinstance(found, str) else None


def said(answer: Any, path: str) -> str:
    """Return the text at a path, and what a chat message thought before it."""
    parts = [text_at(answer, path) or ""]
    if path.endswith(".content"):
        thought = (text_at(answer, f"{path[: -len('content')]}{part}") for part in _PARTS[1:])
        parts = [*filter(None, thought), *parts]
    return "\n".join(parts)


def tokens(answer: Any) -> Tokens:
    """Return what the answer says of tokens: ``usage`` (OpenAI), ``meta_info`` (SGLang)."""
    told: Any = answer if isinstance(answer, dict) else {}
    for key in ("usage", "meta_info"):
        if isinstance(about := told.get(key), dict):
            return Tokens(
                _count(about.get("prompt_tokens")), _count(about.get("completion_tokens"))
            )
    return Tokens(None, None)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def models(answer: Any) -> tuple[str, ...]:
    """Return the names in an answer to ``/v1/models``."""
    listed = answer.get("data") if isinstance(answer, dict) else None
    rows = listed if isinstance(listed, list) else []
    names = (row.get("id") for row in rows[:1000] if isinstance(row, dict))
    return tuple(name for name in names if isinstance(name, str) and name)
