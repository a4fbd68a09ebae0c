r"""RECORD: the list of a distribution's files, read in full and rewritten row by row.

The format is that of PEP 376 and the binary distribution format: CSV with path, ``sha256=`` and
url-safe base64 without padding, size in bytes; RECORD's own row and compiled files may have
neither. A tool that changes an installed file has to change its row ("Recording installed
projects", PEP 627), and nothing else: rows that are not concerned keep every byte, because line
ends and quoting differ from installer to installer.
"""

from __future__ import annotations

import binascii
import bisect
import re
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import Problem
from pseries.model import paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_STANDARD = bytes.maketrans(b"-_", b"+/")
_USUAL = re.compile(
    rb"((?:[A-Za-z0-9_][A-Za-z0-9_.+=@-]*/)*[A-Za-z0-9_][A-Za-z0-9_.+=@-]*)"
    rb",(?:(sha256=[A-Za-z0-9_-]{43}),([0-9]{1,18})|,)\r?\n"
)
"""Nearly every row there is: thousands of them are read each time a series is applied."""
_LONGEST = 2 * paths.LONGEST_PATH + 256
"""Bytes that a row can have: a path with every quote doubled, hash and size."""


class Entry(NamedTuple):
    """One row: path as :func:`parse` settles it, hash as written, size; ``None`` where empty."""

    path: str
    hashed: str | None
    size: int | None

    @property
    def algorithm(self) -> str | None:
        """The name of the hash."""
        return None if self.hashed is None else self.hashed.partition("=")[0]

    @property
    def digest(self) -> str | None:
        """The hash in hex digits."""
        if self.hashed is None:
            return None
        text = paths.encode(self.hashed.partition("=")[2])
        return binascii.a2b_base64(text.translate(_STANDARD) + b"==").hex()

    @property
    def outside(self) -> bool:
        """Whether the file lies outside the site (``../../bin/tool``): never ours to write."""
        return paths.problem(self.path) is not None


class Record(NamedTuple):
    """A whole RECORD: entries in file order, and what is wrong with the file itself.

    ``malformed`` are those of the ``problems`` that may hide files; a doubled row hides none.
    """

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    malformed: tuple[Problem, ...] = ()

    def paths(self) -> frozenset[str]:
        """Return the paths of all files, RECORD itself included."""
        return frozenset(entry.path for entry in self.entries)


def parse(data: bytes, root: str = "") -> Record:
    """Return the entries of a RECORD; malformed and doubled rows become problems, not errors.

    Args:
        data: RECORD as it is.
        root: the site-packages folder, whose absolute paths become relative ones. Parts of a path
            that are "." or empty are left out, so that a file has one path however it is written.
    """
    above = paths.encode(root)
    entries: list[Entry] = []
    problems: list[Problem] = []
    malformed: list[Problem] = []
    seen: set[str] = set()
    for number, row in enumerate(_rows(data), 1):
        usual = _USUAL.fullmatch(row)
        if usual is not None:
            path, hashed, size = usual.groups()
            entry = (
                Entry(path.decode("ascii"), None, None)
                if hashed is None
                else Entry(path.decode("ascii"), hashed.decode("ascii"), int(size))
            )
        elif not row.strip():
            continue
        else:
            try:
                entry = _entry(_fields(row))
            except ValueError as error:
                malformed.append(Problem(f"RECORD row {number}", str(error)))
                problems.append(malformed[-1])
                continue
            entry = entry._replace(path=paths.decode(settled(paths.encode(entry.path), above)))
        if entry.path in seen:
            shown = paths.display(entry.path)
            problems.append(Problem(f"RECORD row {number}", f"lists {shown} again"))
        seen.add(entry.path)
        entries.append(entry)
    return Record(tuple(entries), tuple(problems), tuple(malformed))


def settled(path: bytes, root: bytes = b"") -> bytes:
    """Return the one path of a file that a row may write as ``./x``, ``a//x`` or ``/root/x``."""
    if root and path.startswith(b"/") and path.startswith(root.rstrip(b"/") + b"/"):
        path = path[len(root.rstrip(b"/")) + 1 :]
    if not path.startswith(b"/") and (path.startswith(b"./") or b"/./" in path or b"//" in path):
        return b"/".join(part for part in path.split(b"/") if part not in (b"", b".")) or path
    return path


def rewrite(data: bytes, changes: Mapping[str, tuple[str, int] | None], root: str = "") -> bytes:
    """Return RECORD with the rows of ``changes`` replaced, added or dropped, the rest untouched.

    Args:
        data: RECORD as it is.
        changes: by path, the sha256 in hex and the size of the file now, or ``None`` for a file
            that is gone. A path without a row gets one behind the row that precedes it in
            alphabetical order, which is next to its siblings in every layout seen.
        root: as for :func:`parse`; a row that is found keeps the path that it is written with.
    """
    wanted = {paths.encode(path): image for path, image in changes.items()}
    rows = list(_rows(data))
    above = paths.encode(root)
    names = [_name(row, above) for row in rows]
    added = {path: image for path, image in wanted.items() if image is not None}
    for place, path in enumerate(names):
        if path in wanted:
            image = wanted[path]
            rows[place] = b"" if image is None else _with(rows[place], image)
            added.pop(path, None)
    ending = b"\r\n" if data[: data.find(b"\n") + 1].endswith(b"\r\n") else b"\n"
    places = sorted(zip(names, range(len(names)), strict=True)) if added else []
    following: dict[int, bytes] = {}
    for path in sorted(added):
        place = bisect.bisect(places, (path,)) - 1
        before = places[place][1] if place >= 0 else -1
        row = _quoted(path) + _values(added[path]) + ending
        following[before] = following.get(before, b"") + row
    parts = rows
    if following:
        parts = [following.get(-1, b"")]
        for place, row in enumerate(rows):
            parts += (row, following.get(place, b""))
    return _joined([part for part in parts if part], ending)


def urlsafe(hexadecimal: str) -> str:
    """Return a hash as RECORD writes it, from its hex digits."""
    text = binascii.b2a_base64(bytes.fromhex(hexadecimal), newline=False).decode()
    return text.rstrip("=").replace("+", "-").replace("/", "_")


def _rows(data: bytes) -> Iterator[bytes]:
    """Yield each row with its line end; a quoted field may go over several lines.

    A quote that is not closed within the length of any path belongs to a row of its own, which is
    malformed: it must hide neither the rows that follow nor take a time that grows with them.
    """
    if b'"' not in data:
        yield from data.splitlines(keepends=True)
        return
    lines = data.splitlines(keepends=True)
    place = 0
    while place < len(lines):
        end = _row_end(lines, place) if lines[place].count(b'"') % 2 else place + 1
        yield b"".join(lines[place:end])
        place = end


def _row_end(lines: list[bytes], place: int) -> int:
    """Return the line behind the one that closes the quote opened at ``place``."""
    length = 0
    for end in range(place, len(lines)):
        length += len(lines[end])
        if length > _LONGEST:
            break
        if end > place and lines[end].count(b'"') % 2:
            return end + 1
    return place + 1


def _fields(row: bytes) -> list[str]:
    text = paths.decode(row.rstrip(b"\r\n"))
    if '"' not in text:
        return text.split(",")
    import csv  # noqa: PLC0415 - nearly no RECORD has a quoted row

    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"is not CSV: {error}") from error


def _name(row: bytes, root: bytes) -> bytes:
    """Return the settled path of a row, in the short way wherever that is safe."""
    if row[:1] == b'"':
        return settled(_path(row), root)
    path = row.rstrip(b"\r\n").partition(b",")[0]
    plain = path[:1].isalnum() and b"//" not in path and b"/./" not in path
    return path if plain else settled(path, root)


def _path(row: bytes) -> bytes:
    """Return the path of a row, empty if the row is malformed: it is nobody's then."""
    try:
        return paths.encode("".join(_fields(row)[:1]))
    except ValueError:
        return b""


def _entry(fields: list[str]) -> Entry:
    if len(fields) != 3:
        raise ValueError(f"has {len(fields)} fields, not 3")
    path, hashed, size = fields
    if not path:
        raise ValueError("has no path")
    if size and not (size.isascii() and size.isdigit() and len(size) < 19):
        raise ValueError(f"has the size {size[:40]!r}")
    entry = Entry(path, hashed or None, int(size) if size else None)
    try:
        _ = entry.digest
    except ValueError as error:  # binascii.Error is one
        raise ValueError(f"has the hash {hashed[:80]!r}") from error
    return entry


def _with(row: bytes, image: tuple[str, int]) -> bytes:
    """Return ``row`` with hash and size of ``image``, path and line end as they are."""
    body = row.rstrip(b"\r\n")
    end = body.find(b",")
    if body.startswith(b'"'):  # a doubled quote is part of the name, a single one ends it
        end = 1
        while body[end : end + 1] != b'"' or body[end : end + 2] == b'""':
            end += 2 if body[end : end + 2] == b'""' else 1
        end += 1
    path = body[:end] if end >= 0 else body
    return path + _values(image) + row[len(body) :]


def _values(image: tuple[str, int]) -> bytes:
    sha256, size = image
    return f",sha256={urlsafe(sha256)},{size}".encode()


def _joined(rows: list[bytes], ending: bytes) -> bytes:
    """Return the rows as one; a last row may lack its line end, unless it no longer is the last."""
    return b"".join(
        row if row.endswith((b"\n", b"\r")) else row + ending for row in rows[:-1]
    ) + b"".join(rows[-1:])


def _quoted(raw: bytes) -> bytes:
    if any(special in raw for special in (b",", b'"', b"\n", b"\r")):
        return b'"' + raw.replace(b'"', b'""') + b'"'
    return raw
