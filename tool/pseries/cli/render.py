"""The only place that prints.

Answers go to standard output, everything else (notes, progress, errors) to standard error, so that
``--json`` can be piped. What is left of terminal control sequences in names from patches and
archives is made visible here.

A write that fails never ends a command: what it does is done to its end, and whoever runs the
commands asks :func:`lost` afterwards whether the answer came through.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
import sys
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that reorder what stands around them (UAX 9)."""

_failures: list[OSError] = []
"""Why the answer of the command that runs could not be written; at most one."""


def line(text: str = "") -> None:
    """Print one line of an answer."""
    if _failures:
        return
    if sys.stdout is None:  # standard output was closed by whoever started us
        _failures.append(OSError(errno.EBADF, os.strerror(errno.EBADF)))
        return
    try:
        print(_printable(text, sys.stdout))  # noqa: T201 - see the module's docstring
    except OSError as error:
        _give_up(error)


def data(content: bytes) -> None:
    """Print bytes as they are: a diff, for another program to read."""
    if _failures:
        return
    if sys.stdout is None:
        line()
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as error:
        _give_up(error)


def note(text: str) -> None:
    """Print one line beside the answer: what was skipped, chosen or found odd."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # there is nowhere left to say so
            print(_printable(text, sys.stderr), file=sys.stderr)  # noqa: T201


def lost() -> OSError | None:
    """Write out what is buffered; return why the answer could not be written, once."""
    if not _failures and sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError as error:
            _give_up(error)
    return _failures.pop() if _failures else None


def _give_up(error: OSError) -> None:
    _failures.append(error)
    silence()


def silence() -> None:
    """Send what is still to be written to standard output nowhere."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not always a descriptor
        # What is buffered would fail once more when Python exits, and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def short(text: str, most: int = 200) -> str:
    """Return text that others wrote as a part of one line: cut, line ends made visible."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    return cut.replace("\n", "\\n")


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ") -> None:
    """Print rows in columns as wide as they need; the last column is never padded."""
    cells = [[_printable(cell, sys.stdout).replace("\n", "\\n") for cell in row] for row in rows]
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


def _printable(text: str, stream: TextIO | None) -> str:
    """Make text safe for any terminal and for the encoding of a stream."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
    shown = shown.encode(encoding, "backslashreplace").decode(encoding)
    return _CONTROL.sub(_escaped, shown)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
