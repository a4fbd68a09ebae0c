"""The names of files as a diff writes them: quoted, prefixed, dated."""

from __future__ import annotations

import re
from bisect import bisect_right

DEV_NULL = b"/dev/null"

_ESCAPES = {
    b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92,
}  # fmt: skip
_OCTAL = re.compile(rb"[0-3][0-7][0-7]")

_DATE = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?(?: [+-]\d\d:?\d\d)?"
_LONGEST_DATE = 40
_DATE_AT_END = re.compile(rb" " + _DATE + rb"$")
_MAYBE_DATE = re.compile(rb" (?:\d\d)?\d\d-\d\d-\d\d(?: [0-9:.]{1,18})?(?: [+-]\d\d:?\d\d)?$")
"""What git cuts off a name as its date (``diff_timestamp_len`` in apply.c), and a little more."""

_EPOCH = re.compile(
    rb"(1970-01-01|1969-12-31) (\d\d):(\d\d):(\d\d)(?:\.0{1,9})?(?: ([+-])(\d\d):?(\d\d))?"
)
_NO_REVISION = (b"(revision 0)", b"(nonexistent)", b"Thu Jan 01 00:00:00 1970 +0000")


def unquoted(text: bytes) -> tuple[bytes, bytes] | None:
    r"""Read a C-style quoted name at the start of ``text`` (P03).

    Returns the name's bytes and what follows the closing quote; ``None`` if the quoting is broken.
    Escapes are git's: ``\a \b \t \n \v \f \r \" \\`` and three octal digits for one byte.
    """
    name, at = bytearray(), 1
    while at < len(text):
        byte = text[at]
        if byte == 0x22:
            return bytes(name), text[at + 1 :]
        if byte != 0x5C:
            name.append(byte)
            at += 1
        elif (escape := _ESCAPES.get(text[at + 1 : at + 2])) is not None:
            name.append(escape)
            at += 2
        elif _OCTAL.match(text, at + 1):
            name.append(int(text[at + 1 : at + 4], 8))
            at += 4
        else:
            return None
    return None


def plain(text: bytes) -> bytes | None:
    """Return the name that a whole ``rename`` line holds; ``None`` if its quoting is broken."""
    if text[:1] != b'"':
        return text
    read = unquoted(text)
    return read[0] if read is not None and not read[1] else None


def dated(text: bytes, *, git: bool) -> tuple[bytes, bytes] | None:
    """Read the name and the date of a ``---`` or ``+++`` line, without that marker (P04).

    The name ends at a tab. Outside of git's own diffs it also ends at a blank if a *full* date
    follows. ``None``: the quoting is broken, or what may be a date cannot be told from the name.
    """
    if text[:1] == b'"':
        read = unquoted(text)
        if read is None or read[1][:1] not in (b"", b"\t", b" "):
            return None
        return read[0], read[1][1:]
    name, tab, stamp = text.partition(b"\t")
    if git or tab:
        return name, stamp
    end = name[-_LONGEST_DATE:]
    if found := _DATE_AT_END.search(end):
        cut = len(name) - len(end) + found.start()
        return name[:cut].rstrip(b" "), name[cut + 1 :]
    return None if _MAYBE_DATE.search(end) else (name, b"")


def tells_absence(stamp: bytes) -> bool:
    """Say whether a file's date says that there is no file: the epoch, or a revision 0 (P04).

    Tools write that for the missing side; but a reproducible build may date every file so.
    """
    stamp = stamp.strip()
    found = _EPOCH.fullmatch(stamp)
    if found is None:
        return stamp in _NO_REVISION
    day, hours, minutes, seconds, sign, zone_hours, zone_minutes = found.groups()
    second = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    zone = int(zone_hours or 0) * 3600 + int(zone_minutes or 0) * 60
    midnight = 0 if day.startswith(b"1970") else -86_400
    return midnight + second == (-zone if sign == b"-" else zone)


def stripped(name: bytes, level: int) -> bytes | None:
    """Return ``name`` without its first ``level`` components; ``None`` if there are not so many."""
    for _ in range(level):
        name = name.partition(b"/")[2]
    return name or None


def both(rest: bytes, level: int, old: bytes, new: bytes) -> tuple[bytes, bytes] | None:
    """Split ``A B`` of a ``diff --git`` line where both names are known from other lines.

    ``old`` and ``new`` are what is left of them after ``level`` components. ``None``: the line
    does not name these two.
    """
    if b'"' in rest:
        pair = _quoted_pair(rest)
        known = pair and (stripped(pair[0], level), stripped(pair[1], level)) == (old, new)
        return pair if known else None
    start = _after(_slashes(rest), 0, level)
    if start is None:
        return None
    cut = start + len(old)
    second = rest[cut + 1 :]
    if rest[start:cut] == old and rest[cut : cut + 1] == b" " and stripped(second, level) == new:
        return rest[:cut], second
    return None


def same(rest: bytes, level: int) -> tuple[bytes, bytes] | None:
    """Split ``A B`` of a ``diff --git`` line where both are one name after ``level`` components.

    At most one blank can be the border: a later one makes the first name longer and the second
    shorter.
    """
    if b'"' in rest:
        pair = _quoted_pair(rest)
        name = pair and stripped(pair[0], level)
        return pair if pair and name and name == stripped(pair[1], level) else None
    slashes = _slashes(rest)
    start = _after(slashes, 0, level)
    if start is None:
        return None
    blank = rest.find(b" ", start)
    while blank >= 0:
        second = _after(slashes, blank + 1, level)
        if second is None or len(rest) - second < blank - start:
            return None
        if len(rest) - second == blank - start:
            alike = rest[start:blank] == rest[second:] != b""
            return (rest[:blank], rest[blank + 1 :]) if alike else None
        blank = rest.find(b" ", blank + 1)
    return None


def _quoted_pair(rest: bytes) -> tuple[bytes, bytes] | None:
    if rest[:1] == b'"':
        first = unquoted(rest)
        if first is None or first[1][:1] != b" ":
            return None
        name, second = first[0], first[1][1:]
    else:
        name, _, second = rest.partition(b' "')
        second = b'"' + second
    other = plain(second)
    return None if other is None else (name, other)


def _slashes(text: bytes) -> list[int]:
    return [found.start() for found in re.finditer(rb"/", text)]


def _after(slashes: list[int], start: int, level: int) -> int | None:
    """Return the index behind the ``level``-th slash from ``start`` on."""
    if level == 0:
        return start
    which = bisect_right(slashes, start - 1) + level - 1
    return slashes[which] + 1 if which < len(slashes) else None
