"""The only place that prints.

Answers go to standard output, everything else (notes, progress, errors) to standard error, so that
``--json`` can be piped. What is left of terminal control sequences in names from patches and
archives is made visible here.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def line(text: str = "") -> None:
    """Print one line of an answer."""
    print(_printable(text))  # noqa: T201 - see the module's docstring


def note(text: str) -> None:
    """Print one line beside the answer: what was skipped, chosen or found odd."""
    print(_printable(text), file=sys.stderr)  # noqa: T201 - see the module's docstring


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ") -> None:
    """Print rows in columns as wide as they need; the last column is never padded."""
    cells = [[_printable(cell) for cell in row] for row in rows]
    if not cells:
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        line(indent + "  ".join([*padded, row[-1]]).rstrip())


def as_json(value: object) -> None:
    """Print a value of ours (dataclasses, tuples, enums, paths) as JSON with sorted keys."""
    line(json.dumps(_plain(value), indent=1, sort_keys=True))


def _plain(value: object) -> Any:  # noqa: PLR0911 - whatever json takes, one way each
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _plain(fields)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, PurePath) else value


def _printable(text: str) -> str:
    """Make text safe for any terminal and encoding."""
    encoding = sys.stdout.encoding or "utf-8"
    shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
    shown = shown.encode(encoding, "backslashreplace").decode(encoding)
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", shown)
