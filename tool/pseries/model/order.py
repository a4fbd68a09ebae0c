"""quilt's ``series`` file: one patch name a line, in order.

The file's lines are kept as they are, so that comments, blank lines and spacing survive every
rewrite byte for byte. Understood are ``#`` comments (whole lines, and after a name when preceded
by white space), leading white space, LF or CRLF, and ``-pN`` after a name. ``-R`` is not: a patch
that is stored backwards is a different patch.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import PatchNotFound, Problem
from pseries.model import paths
from pseries.model.diff.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_PATCHES = 20_000

_LINE = re.compile(
    rb"""(?P<indent>[ \t]*)
         (?P<name>[^\s#][^\s]*)
         (?P<options>(?:[ \t]+[^\s#][^\s]*)*)
         (?P<rest>[ \t]*(?:[ \t]\#[^\n]*)?)""",
    re.VERBOSE,
)
_STRIP = re.compile(r"-p([0-9])")


class Entry(NamedTuple):
    """One patch of the order: its file name, strip level and line (counted from 1)."""

    name: str
    strip: int
    line: int


class Order(NamedTuple):
    """The order file: its exact lines, and what they say."""

    lines: tuple[bytes, ...]
    entries: tuple[Entry, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The patch names in order."""
        return tuple(entry.name for entry in self.entries)


def parse(data: bytes, problems: list[Problem]) -> Order:
    """Read an order file; what is wrong is appended to ``problems``, everything at once."""
    lines = tuple(split_lines(data))  # a lone CR ends none, and is refused as part of a name
    entries: list[Entry] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        entry = _entry(line, number, problems)
        if entry is None:
            continue
        if entry.name in seen:
            first = seen[entry.name]
            problems.append(
                Problem(f"series:{number}", f"{entry.name} is listed already at line {first}")
            )
            continue
        seen[entry.name] = number
        entries.append(entry)
    if len(entries) > MOST_PATCHES:
        problems.append(Problem("series", f"more than {MOST_PATCHES} patches"))
        entries = []
    return Order(lines, tuple(entries))


def render(order: Order) -> bytes:
    """Return the bytes of the file: the exact inverse of :func:`parse`."""
    return b"".join(order.lines)


def find(names: Sequence[str], word: str) -> int:
    """Return the index of the patch that a word means.

    That is its name, with or without folders in front and without ``.patch``; or the beginning of
    one name only, such as its number.

    Raises:
        PatchNotFound: none or several are meant.
    """
    name = word.rpartition("/")[2]
    for exact in (name, f"{name}.patch", f"{name}.diff"):
        if exact in names:
            return names.index(exact)
    begun = [each for each in names if name and each.startswith(name)]
    if len(begun) == 1:
        return names.index(begun[0])
    import difflib  # noqa: PLC0415 - only a failure pays for it

    raise PatchNotFound(word, tuple(begun or difflib.get_close_matches(name, names)))


def renamed(order: Order, names: dict[str, str | None]) -> Order:
    """Return the order with patches renamed, or dropped where the new name is ``None``.

    Only the name within a line changes; a dropped patch takes its line with it.
    """
    by_line = {entry.line: entry for entry in order.entries}
    lines: list[bytes] = []
    entries: list[Entry] = []
    for number, line in enumerate(order.lines, 1):
        entry = by_line.get(number)
        name = None if entry is None else names.get(entry.name, entry.name)
        if entry is None:
            lines.append(line)
        elif name is not None:
            lines.append(line.replace(entry.name.encode(), name.encode(), 1))
            entries.append(entry._replace(name=name, line=len(lines)))
    return Order(tuple(lines), tuple(entries))


def chunks(order: Order) -> tuple[bytes, ...]:
    """Return the lines of each patch with those above it; the last one has those below, too.

    Joined they are the file, if it lists a patch at all.
    """
    ends = [entry.line for entry in order.entries[:-1]] + [len(order.lines)]
    begins = [0, *ends[:-1]]
    found = [b"".join(order.lines[b:e]) for b, e in zip(begins, ends, strict=True)]
    return tuple(found) if order.entries else ()


def arranged(order: Order, wanted: Sequence[tuple[str, int]]) -> Order:
    """Return the order with exactly these patches, in this order.

    A line that stays keeps its bytes, and the comment lines right above it go with it; those at the
    top of the file stay there. Where nothing changes the lines are the same.

    Args:
        order: the file as it is.
        wanted: name and strip level of every patch.
    """
    blocks: dict[str, tuple[bytes, ...]] = {}
    begin = _top_comments(order)
    top = order.lines[:begin]
    for entry in order.entries:
        blocks[entry.name] = order.lines[begin : entry.line]
        begin = entry.line
    rest = order.lines[begin:]
    lines: list[bytes] = list(top)
    entries: list[Entry] = []
    for name, strip in wanted:
        for line in blocks.get(name, (_line(name, strip),)):
            if lines and not lines[-1].endswith(b"\n"):
                lines[-1] += b"\n"
            lines.append(line)
        entries.append(Entry(name, strip, len(lines)))
    if rest and lines and not lines[-1].endswith(b"\n"):
        lines[-1] += b"\n"
    return Order((*lines, *rest), tuple(entries))


def _top_comments(order: Order) -> int:
    """Return how many lines at the top are a head of the whole file: up to its first blank line."""
    first = order.entries[0].line - 1 if order.entries else len(order.lines)
    for number, line in enumerate(order.lines[:first]):
        if not line.strip():
            return number + 1
    return first


def _line(name: str, strip: int) -> bytes:
    return f"{name}\n".encode() if strip == 1 else f"{name} -p{strip}\n".encode()


def _entry(line: bytes, number: int, problems: list[Problem]) -> Entry | None:
    where = f"series:{number}"
    text = line.removesuffix(b"\n").removesuffix(b"\r")
    if not text.strip() or text.lstrip().startswith(b"#"):
        return None
    found = _LINE.fullmatch(text)
    if found is None:
        problems.append(Problem(where, "the line cannot be read"))
        return None
    try:
        name = found["name"].decode("utf-8")
    except UnicodeDecodeError:
        problems.append(Problem(where, "the name is not UTF-8"))
        return None
    strip = 1
    for option in found["options"].decode("utf-8", "backslashreplace").split():
        level = _STRIP.fullmatch(option)
        if level is None:
            problems.append(Problem(where, _about_option(option)))
        else:
            strip = int(level[1])
    if (trouble := _about_name(name)) is not None:
        problems.append(Problem(where, trouble))
        return None
    return Entry(name, strip, number)


def _about_option(option: str) -> str:
    if option == "-R":
        return "-R is not supported: store the patch in the direction in which it is applied"
    return f"{option!r} is neither a -pN option nor a comment; names with blanks are not supported"


def _about_name(name: str) -> str | None:
    if name.startswith("-"):
        return f"{name!r} looks like an option"
    if "/" in name:
        return f"{name!r} lies in a folder; patches lie beside the series file"
    return paths.problem(name)
