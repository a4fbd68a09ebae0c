"""Requests for text: what their kind is by their address, and prompts of a given length for them.

A long prompt is the passkey task (Mohtashami and Jaggi 2023, "Landmark Attention"): one word stands
in the middle of hay, and the answer has to hold it. Hay is one short word again and again, so that
the number of its tokens grows evenly and two measured prompts tell the length of every other.
Every prompt begins differently: a server that keeps the attention of common beginnings would else
read only the rest, and a fault of long prefills would stay hidden.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS = (
    "anchor", "basket", "candle", "desert", "engine", "forest", "garden", "hammer",
    "island", "jacket", "kitten", "ladder", "mirror", "needle", "orange", "pencil",
)  # fmt: skip
"""What is planted."""

BEGINNINGS = (
    "blue", "brown", "calm", "clean", "dark", "early", "fast", "gold",
    "green", "grey", "large", "late", "light", "long", "loud", "plain",
    "quick", "quiet", "red", "round", "sharp", "short", "slow", "small",
    "soft", "still", "strong", "tall", "warm", "white", "wide", "young",
)  # fmt: skip
"""What prompts begin with, several of them; none is planted, so that none can be an answer."""
BEGINNING = 4
"""How many: about a million different beginnings."""

_SHORT, _SHORTER = 128, 64
"""Words of hay in the two prompts that measure the tokenizer."""


class Kind(Enum):
    """A protocol, by what its address ends with, and where its prompt stands."""

    CHAT = "/chat/completions"
    COMPLETION = "/completions"
    GENERATE = "/generate"

    @classmethod
    def of(cls, path: str) -> Kind | None:
        """Return the kind of an address, ``None`` for one that takes no prompt known here."""
        return next((kind for kind in cls if path.endswith(kind.value)), None)


def asking(kind: Kind, request: Mapping[str, Any], prompt: str) -> dict[str, Any]:
    """Return a request with another prompt, whose answer comes piece by piece."""
    if kind is Kind.CHAT:
        changed: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]}
    else:
        changed = {"prompt" if kind is Kind.COMPLETION else "text": prompt}
    return streamed(kind, {**request, **changed})


def streamed(kind: Kind, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request whose answer comes piece by piece, with the number of tokens in the end."""
    told = {} if kind is Kind.GENERATE else {"stream_options": {"include_usage": True}}
    return {**request, "stream": True, **told}


def haystack(words: int, planted: str, beginning: str) -> str:
    """Return a prompt with so many words of hay around a planted word."""
    before = words // 2
    return (
        f"{beginning}: find the secret word in the hay.{' hay' * before}"
        f" The secret word is {planted}.{' hay' * (words - before)}"
        "\nWhat is the secret word? The secret word is"
    )


class Measure(NamedTuple):
    """How many tokens a haystack has: some always, and some for every word."""

    fixed: float = 40.0
    each: float = 1.0

    def words(self, tokens: int) -> int:
        """Return how many words make a prompt of at most so many tokens."""
        return max(0, int((tokens - self.fixed) / self.each))


MEASURED = (_SHORTER, _SHORT)


def measure(shorter: int | None, longer: int | None) -> Measure | None:
    """Return what the tokens of prompts with :data:`MEASURED` words tell, if they tell anything."""
    if shorter is None or longer is None or longer <= shorter:
        return None
    each = (longer - shorter) / (_SHORT - _SHORTER)
    return Measure(shorter - each * _SHORTER, each)
