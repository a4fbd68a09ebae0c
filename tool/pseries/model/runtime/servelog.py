"""The log of a server: where its last start is marked, and what it says of errors since."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_START = "=== pseries serve "
_ERROR = re.compile(r"\bERROR\b")
MOST_ERRORS = 20
_LONGEST = 500


def start(series: str, digest: str, moment: str) -> str:
    """Return the line that is written before a server is started."""
    name = "".join(letter if letter.isprintable() else "?" for letter in series)  # a folder's
    return f"{_START}{name} (digest {digest[:12]}) {moment} ===\n"


def errors(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the first lines with the word ERROR since the last start; in all, without a mark."""
    found: list[str] = []
    for line in lines:
        if line.startswith(_START):
            found.clear()
        elif len(found) < MOST_ERRORS and _ERROR.search(line[: 1 << 16]):
            found.append(line.rstrip()[:_LONGEST])
    return tuple(found)
