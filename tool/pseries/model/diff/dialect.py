"""Dialects of patch files: line ends, prefixes and roots that tools, mailers and people leave.

A series has one form (:mod:`pseries.model.diff.patch`), strictly read. What comes from elsewhere is
brought to it here, by as little as possible: a patch that is in form already keeps every byte.
Nothing is guessed. What a rewrite yields is read strictly again, and several ways to read a patch
are told apart by the files there are, or not at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import PatchRefused
from pseries.model import paths
from pseries.model.diff import filename, heading
from pseries.model.diff import hunk as hunks
from pseries.model.diff import patch as patch_files
from pseries.model.diff.filename import DEV_NULL
from pseries.model.diff.lines import Lines, begins_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pseries.model.diff.heading import Heading, Side
    from pseries.model.diff.patch import Patch

MOST_LEVELS = 12
"""Leading components that a name may lose: ``home/u/env/lib/python3.12/site-packages/``."""
KEPT_LEVELS = (0, 1)
"""Strip levels that are the form of a series; others are rewritten to ``a/`` and ``b/``."""
_BOM = b"\xef\xbb\xbf"
_ABOVE = re.compile(rb"^(?:\.{0,2}/)+")
_INNER = re.compile(rb"/(?:\./|/)+")
_PLAIN_NAME = re.compile(rb"[ !#-\[\]-~]+")
_ESCAPES = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}


# --- line ends --------------------------------------------------------------------------------


class Transport(NamedTuple):
    """One way to undo what happened to a file on its way.

    Attributes:
        data: the file.
        changes: what was undone, in words.
        unproven: it is one of several ways, so that only the files it changes can tell.
    """

    data: bytes
    changes: tuple[str, ...] = ()
    unproven: bool = False


def transports(data: bytes) -> tuple[Transport, ...]:
    """Return the ways in which a file may have been meant, the likelier first (F01, F04, F06).

    CR LF in the headers of a patch is the transport's. Whether the content had it too, nothing in
    the patch can tell, so both are returned.
    """
    changes: list[str] = []
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
        changes.append("the byte order mark at its start was removed")
    missing = bool(data) and not data.endswith(b"\n")
    if _has_crlf_headers(data):
        found = [
            Transport(data.replace(b"\r\n", b"\n"), (*changes, _CRLF), unproven=True),
            Transport(_without_header_cr(data), (*changes, _HEADER_CRLF), unproven=True),
        ]
        if found[0].data == found[1].data:
            found = [found[0]._replace(unproven=False)]
    else:
        found = [Transport(data, tuple(changes))]
    if missing:
        word = "the line end that its last line lacks was added"
        found = [each._replace(data=each.data + b"\n", changes=(*each.changes, word))
                 for each in found]  # fmt: skip
    return tuple(found)


_CRLF = "CR LF line ends became LF"
_HEADER_CRLF = "CR LF became LF in headers and marks; the lines of files keep it"


def _has_crlf_headers(data: bytes) -> bool:
    """Say whether a header of a patch ends in CR LF; no line of a hunk is taken for one."""
    return _CRLF_HEADER.search(data) is not None


_CRLF_HEADER = re.compile(
    rb"^(?:diff --git [^\n]*\r\n|--- [^\n]*\r\n\+\+\+ [^\n]*\r\n@@ -)", re.MULTILINE
)


def _without_header_cr(data: bytes) -> bytes:
    r"""Take the CR off every line but those of hunks that are of files: `` ``, ``+``, ``-``."""
    result: list[bytes] = []
    old = new = 0
    for line in data.split(b"\n"):
        bare = line.removesuffix(b"\r")
        if old > 0 or new > 0:
            mark = line[:1]
            if mark == b"\\":
                result.append(bare)
                continue
            old -= mark != b"+"
            new -= mark != b"-"
            result.append(line)
            continue
        counts = _COUNTS.match(bare)
        if counts is not None:
            old, new = (1 if count is None else int(count) for count in counts.groups())
        result.append(bare)
    return b"\n".join(result)


_COUNTS = re.compile(rb"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")


# --- names ------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """The names of one file without prefixes: ``None`` where there is no file.

    ``uneven``: no single level gives both, as in ``./x`` and ``../new/x``.
    """

    old: bytes | None
    new: bytes | None
    uneven: bool = False


class _Named(NamedTuple):
    """The lines of one file's headings, end exclusive, and what they say.

    ``empty``: no hunk has a line of the side before, and of the side after.
    """

    begin: int
    end: int
    heading: Heading
    empty: tuple[bool, bool]

    def names(self, level: int) -> _Pair | None:
        """Return the names without ``level`` components, ``None`` if the level takes too much."""
        said = self.heading.said
        if b"rename from " in said or b"rename to " in said:
            old, new = (
                filename.plain(said.get(key, b"")) for key in (b"rename from ", b"rename to ")
            )
            cut = [_cut(name, max(level - 1, 0)) for name in (old, new) if name]
            return _Pair(cut[0], cut[1]) if len(cut) == 2 and None not in cut else None
        if self.heading.sides is not None:
            pair = self._of_sides(self.heading.sides, level)
        else:
            both = filename.same(self.heading.git or b"", level)
            name = None if both is None else _cut(both[1], level)
            pair = None if name is None else _Pair(name, name)
        if pair is None or not (pair.old or pair.new):
            return None
        if b"new file mode " in said:
            return _Pair(None, pair.new)
        return _Pair(pair.old, None) if b"deleted file mode " in said else pair

    def _of_sides(self, sides: Sequence[Side], level: int) -> _Pair | None:
        absent = [
            side.name == DEV_NULL
            or (self.heading.git is None and empty and filename.tells_absence(side.date))
            for side, empty in zip(sides, self.empty, strict=True)
        ]
        before, after = (side.name for side in sides)
        if any(absent):
            there = after if absent[0] else before
            name = None if b".." in there.split(b"/") else _cut(there, level)
            if name is None:
                return None
            return _Pair(None, name) if absent[0] else _Pair(name, None)
        old, new = _cut(before, level), _cut(after, level)
        if new is None:
            return None
        plain = _plain(before)
        for ending in (b"", *heading.DECORATED):
            found = plain.removesuffix(ending)
            if found == new or found.endswith(b"/" + new):
                even = old is not None and old.removesuffix(ending) == new
                return _Pair(new, new, not even)
        return None if old is None else _Pair(old, new)

    def odd(self) -> bool:
        """Say whether a name is one that no strict reader takes: absolute, ``./x``, ``a//x``."""
        return any(_plain(side.name) != side.name for side in self.heading.sides or ())

    def first_components(self) -> tuple[bytes, ...]:
        """Return the first components of the names, as far as there are several."""
        if self.heading.sides is None:
            both = filename.same(self.heading.git or b"", 1)
            return () if both is None else tuple(name.partition(b"/")[0] for name in both)
        return tuple(
            _plain(side.name).partition(b"/")[0]
            for side in self.heading.sides
            if side.name != DEV_NULL and b"/" in side.name
        )


def _plain(name: bytes) -> bytes:
    """Return a name without what stands for no component: ``/x``, ``./x``, ``../x``, ``a//x``."""
    if name == DEV_NULL or b"/" not in name:
        return name
    return _INNER.sub(b"/", _ABOVE.sub(b"", name))


def _cut(name: bytes, level: int) -> bytes | None:
    return filename.stripped(_plain(name), level)


def _walk(name: str, data: bytes) -> tuple[list[bytes], list[_Named]]:
    """Return the lines of a patch, and where its files have their headings."""
    lines = Lines.of(name, data, 1)
    found: list[_Named] = []
    while lines.at < len(lines.lines):
        if not begins_file(lines, lines.at):
            lines.at += 1
            continue
        begin = lines.at
        said = heading.read(lines)
        if lines.at == begin:
            lines.at += 1
            continue
        end = lines.at
        old = new = 0
        while lines.peek().startswith(b"@@"):
            hunk = hunks.read(lines, 1, "the file")
            old += 1 if hunk is None else hunk.old_count
            new += 1 if hunk is None else hunk.new_count
        found.append(_Named(begin, end, said, (old == 0, new == 0)))
        if len(found) > patch_files.MOST_SECTIONS:
            lines.stop(f"the patch has more than {patch_files.MOST_SECTIONS} files")
    return lines.lines, found


# --- ways to read the names -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read the names of a patch: what is taken off them and what is put before.

    Attributes:
        level: leading components that are taken off.
        prefix: what is put before them, "" or ending in "/".
        natural: it is what the names themselves say (``a/`` and ``b/``: one component; else none).
        asked: it is the level that an order file or a person gives.
        odd: a name has to be rewritten in any case.
        unknown: the files that it changes and that are not known.
        depth: how many leading folders of what it adds are known, of the file with the fewest.
        changes: how many files it changes that were there before.
    """

    level: int
    prefix: str
    natural: bool
    asked: bool
    odd: bool
    unknown: tuple[str, ...]
    depth: int
    changes: int

    @property
    def kept(self) -> bool:
        """Whether the names can stay as they are written."""
        return not self.odd and not self.prefix and self.level in KEPT_LEVELS

    @property
    def words(self) -> str:
        """What is changed, in words; "" if nothing is."""
        if self.kept:
            return ""
        parts = []
        if self.level != 1:
            parts.append("had -p0 names" if self.level == 0 else f"had -p{self.level} names")
        if self.prefix:
            parts.append(f"{self.prefix} was put before them" if parts else
                         f"{self.prefix} was put before its names")  # fmt: skip
        return f"{' and '.join(parts) or 'had odd names'}: rewritten to a/ and b/"


def ways(
    name: str,
    data: bytes,
    known: Collection[str],
    folders: Collection[str],
    *,
    root: str = "",
    packages: Sequence[str] = (),
    asked: int | None = None,
) -> tuple[Way, ...]:
    """Return the ways to read the names of a patch, best first; equal outcomes count once.

    Best is: every file that it changes is known, its new files lie in known folders, the level is
    the one that was asked for, then the one that the names suggest, nothing is put before them.

    Args:
        name: the patch's.
        data: the patch file.
        known: the canonical paths there are.
        folders: the folders there are.
        root: what names from site-packages lack before they are canonical: ``"python/"`` or "".
        packages: what names from within a package lack: ``"python/sglang/"``. They may have no more
            folders in front, and names that have must lead into a package: ``__init__.py`` or
            ``setup.py`` alone is a name that any other project has as well.
        asked: the level that an order file or a person gives.

    Raises:
        PatchRefused: its headings cannot be read.
    """
    _, named = _walk(name, data)
    natural = _natural(named)
    odd = any(each.odd() for each in named)
    found: dict[tuple[object, ...], Way] = {}
    first = natural if asked is None else asked
    levels = sorted(range(MOST_LEVELS + 1), key=lambda level: (level != first, level))
    read = [(level, pairs) for level in levels if (pairs := _pairs(named, level))]
    for prefix in dict.fromkeys(("", root, *packages)):
        for level, pairs in read:
            plain = level <= natural or level == asked
            if prefix in packages and not plain:
                continue
            files = [
                tuple(None if raw is None else prefix + paths.decode(raw) for raw in pair[:2])
                for pair in pairs
            ]
            key = tuple(files)
            inside = any(
                path and path.startswith(tuple(packages)) for pair in files for path in pair
            )
            if key in found or not (plain or inside):
                continue
            wanted = [old for old, _ in files if old is not None]
            new = [path for old, path in files if old is None and path is not None]
            found[key] = Way(
                level=level,
                prefix=prefix,
                natural=level == natural and not prefix,
                asked=level == asked and not prefix,
                odd=odd or any(pair.uneven for pair in pairs),
                unknown=tuple(path for path in wanted if path not in known),
                depth=min((_depth(path, folders, prefix) for path in new), default=0),
                changes=len(wanted),
            )
    return tuple(sorted(found.values(), key=_rank))


def _pairs(named: Sequence[_Named], level: int) -> list[_Pair]:
    """Return the names of every file at a level; none if the level takes too much of one."""
    found = [pair for each in named if (pair := each.names(level)) is not None]
    return found if len(found) == len(named) else []


def _rank(way: Way) -> tuple[object, ...]:
    return (
        len(way.unknown), -way.depth, not way.asked, not way.natural, bool(way.prefix), way.level,
    )  # fmt: skip


def names_in(name: str, data: bytes, prefixes: Sequence[str] = ("",)) -> frozenset[str]:
    """Return every path that a patch may name, by whatever way it is read."""
    try:
        _, named = _walk(name, data)
    except PatchRefused:
        return frozenset()
    raw = {path for each in named for level in range(MOST_LEVELS + 1)
           for path in (each.names(level) or ())[:2] if path is not None}  # fmt: skip
    return frozenset(prefix + paths.decode(path) for path in raw for prefix in prefixes)


def has_diff(name: str, data: bytes) -> bool:
    """Say whether a file of a patch begins anywhere in some text."""
    lines = Lines.of(name, data, 1)
    return any(begins_file(lines, at) for at in range(len(lines.lines)))


def _natural(named: Iterable[_Named]) -> int:
    """Return the level that the names suggest: 1 if their first components are prefixes."""
    for each in named:
        first = each.first_components()
        if b"rename from " in each.heading.said and each.heading.sides is None:
            git = each.heading.git or b""
            return int(git.lstrip(b'"').startswith(b"a/"))
        if first and not _are_prefixes(first):
            return 0
    return 1


def _are_prefixes(first: Sequence[bytes]) -> bool:
    """Say whether first components are prefixes: two that differ, or one that tools write."""
    return len(set(first)) > 1 or first[0] in _WRITTEN


_WRITTEN = frozenset((b"a", b"b", b"i", b"w", b"c", b"o", b"old", b"new", b"orig"))


def _depth(path: str, folders: Collection[str], prefix: str) -> int:
    """Return how many leading folders of a path are known, none if that is the prefix alone."""
    parts = path.split("/")[:-1]
    for count in range(len(parts), prefix.count("/"), -1):
        if "/".join(parts[:count]) in folders:
            return count
    return 0


def read(name: str, data: bytes, way: Way) -> Patch:
    """Read a patch in one way; where its names cannot stay they are rewritten to ``a/``, ``b/``.

    Raises:
        PatchRefused: what comes of it is not a patch.
    """
    if way.kept:
        return patch_files.parse(name, data, way.level)
    return patch_files.parse(name, rewritten(name, data, way.level, way.prefix), 1)


def rewritten(name: str, data: bytes, level: int, prefix: str = "") -> bytes:
    """Return a patch whose names are ``a/PREFIX…`` and ``b/PREFIX…``; all else stays.

    Args:
        name: the patch's.
        data: the patch file.
        level: leading components that its names lose first.
        prefix: what is put before them.
    """
    lines, named = _walk(name, data)
    result: list[bytes] = []
    done = 0
    for each in named:
        pair = each.names(level)
        if pair is None:
            raise _unreadable(name, each, level)
        result += lines[done : each.begin]
        old, new = (None if raw is None else paths.encode(prefix) + raw for raw in pair[:2])
        if result and result[-1].startswith(b"=" * 67) and len(result) > 1:
            result[-2] = _index(result[-2], new or old or b"")
        elif result and result[-1].startswith(b"Index: "):
            result[-1] = _index(result[-1], new or old or b"")
        result += _renamed(lines[each.begin : each.end], each.heading, old, new)
        done = each.end
    return b"".join(result + lines[done:])


def _unreadable(name: str, each: _Named, level: int) -> PatchRefused:
    lines = Lines(name, [], level)
    lines.refuse(f"its names have no {level} components to take off", each.begin)
    return lines.refusal()


def _index(line: bytes, path: bytes) -> bytes:
    """Return an ``Index:`` line for another path, which only people read."""
    return b"Index: b/" + path + b"\n" if line.startswith(b"Index: ") else line


def _renamed(
    lines: Sequence[bytes], said: Heading, old: bytes | None, new: bytes | None
) -> Iterator[bytes]:
    before, after = old or new or b"", new or old or b""
    for number, line in enumerate(lines):
        if number == 0 and said.git is not None:
            yield b"diff --git %s %s\n" % (quoted(b"a/" + before), quoted(b"b/" + after))
        elif line.startswith(b"rename from "):
            yield b"rename from %s\n" % quoted(before)
        elif line.startswith(b"rename to "):
            yield b"rename to %s\n" % quoted(after)
        elif line.startswith(b"--- ") and said.sides is not None:
            yield _side(b"---", old and b"a/" + old, said.sides[0].date)
        elif line.startswith(b"+++ ") and said.sides is not None:
            yield _side(b"+++", new and b"b/" + new, said.sides[1].date)
        else:
            yield line


def _side(marker: bytes, name: bytes | None, date: bytes) -> bytes:
    shown = DEV_NULL if name is None else quoted(name)
    ends = b"\t" + date if date else b"\t" if b" " in shown and shown[:1] != b'"' else b""
    return marker + b" " + shown + ends + b"\n"


def quoted(name: bytes) -> bytes:
    """Return a name as git writes it, in C style where it has to be (``core.quotePath``)."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    text = bytearray(b'"')
    for byte in name:
        if byte in _ESCAPES:
            text += b"\\" + _ESCAPES[byte]
        elif 0x20 <= byte < 0x7F:
            text.append(byte)
        else:
            text += b"\\%03o" % byte
    return bytes(text) + b'"'


# --- leaving files out ------------------------------------------------------------------------


def without(patch: Patch, left_out: Collection[str]) -> bytes:
    """Return a patch file without the files of some canonical paths; all else stays."""
    kept = [section.raw for section in patch.sections if section.path not in left_out]
    return patch.header.raw + b"".join(kept) + patch.tail
