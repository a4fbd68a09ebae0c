"""One hunk of a patch: the lines between two ``@@``, counted exactly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pseries.model.diff.lines import Lines, begins_file, begins_signature, is_separator, shown

_HEADER = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)\n")
"""At most nine digits: longer ones make readers fail or wrap around."""
_TOO_LONG = re.compile(rb"@@ [-+0-9, ]*\d{10}")
_SHORTEST_MARKER = 12
"""Bytes from which on git takes a line with a backslash as "no newline" (any language)."""


@dataclass(frozen=True, slots=True)
class Hunk:
    r"""A hunk with its lines as they stand in the patch.

    ``lines`` hold the marker byte and the LF; a ``\ No newline at end of file`` is a line of its
    own; an empty context line whose blank an editor trimmed stays ``b"\n"``.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: bytes
    """What stands after the second ``@@``: as a rule the function the hunk is in."""
    lines: tuple[bytes, ...]
    line: int
    """Line number of the ``@@`` in the patch file."""

    @property
    def added(self) -> int:
        """How many lines it adds."""
        return sum(line.startswith(b"+") for line in self.lines)

    @property
    def removed(self) -> int:
        """How many lines it removes."""
        return sum(line.startswith(b"-") for line in self.lines)

    @property
    def before(self) -> bytes:
        """The text it replaces, exact to the last newline."""
        return self._side(b"-")

    @property
    def after(self) -> bytes:
        """The text it puts there, exact to the last newline."""
        return self._side(b"+")

    @property
    def leading(self) -> int:
        """How many context lines stand before the first change."""
        return self._context(self.lines)

    @property
    def trailing(self) -> int:
        """How many context lines stand after the last change."""
        return self._context(self.lines[::-1])

    @property
    def first_old(self) -> int:
        """The line of the old file it begins at; an empty side is numbered one less."""
        return self.old_start + (self.old_count == 0)

    @property
    def first_new(self) -> int:
        """The line of the new file it begins at; an empty side is numbered one less."""
        return self.new_start + (self.new_count == 0)

    def ends_file(self) -> bool:
        """Say whether a missing last newline shows that it reaches the end of the file."""
        return any(line.startswith(b"\\") for line in self.lines)

    def _side(self, marker: bytes) -> bytes:
        text: list[bytes] = []
        taken = False
        for line in self.lines:
            first = line[:1]
            if first == b"\\":
                if taken:
                    text[-1] = text[-1][:-1]
                continue
            taken = first in (b" ", b"\n", marker)
            if taken:
                text.append(line if first == b"\n" else line[1:])
        return b"".join(text)

    @staticmethod
    def _context(lines: tuple[bytes, ...]) -> int:
        count = 0
        for line in lines:
            if line[:1] in b"+-":
                break
            count += line[:1] != b"\\"
        return count


def read(lines: Lines, number: int, of: str) -> Hunk | None:
    """Read the hunk that begins at the next line; ``None`` if it is not sound.

    Args:
        lines: stand at a line that begins with ``@@``; afterwards behind the hunk, sound or not.
        number: the hunk's, from 1, for messages.
        of: the file's name, for messages.
    """
    start = lines.at
    name = f"hunk {number} of {of}"
    header = _HEADER.fullmatch(lines.peek())
    if header is None or header[5] == b"\r":
        if lines.peek().endswith(b"\r\n"):
            lines.header()  # stops with what is to say of CR LF
        lines.refuse(f"{name} {_header_fault(lines.peek())}")
        lines.at += 1
        _count_actual(lines)
        return None
    old_start, new_start = int(header[1]), int(header[3])
    old_count, new_count = (1 if header[at] is None else int(header[at]) for at in (2, 4))
    lines.at += 1
    fault = _walk(lines, old_count, new_count)
    if fault is not None:
        lines.refuse(f"{name} {fault}", start)
        return None
    hunk = Hunk(
        old_start, old_count, new_start, new_count, header[5],
        tuple(lines.lines[start + 1 : lines.at]), start + 1,
    )  # fmt: skip
    fault = _fault(hunk)
    if fault is not None:
        lines.refuse(f"{name} {fault}", start)
    return hunk


def _header_fault(line: bytes) -> str:
    if line.startswith(b"@@@"):
        return "is one of a combined diff (of a merge), which nothing can apply"
    if _TOO_LONG.match(line):
        return "has a line number of more than nine digits"
    return f"has no line numbers that can be read: {shown(line)}"


def _walk(lines: Lines, old: int, new: int) -> str | None:
    """Go over as many lines as the header announces; say what is wrong with the count (F07, F08).

    What follows the counted lines must not look like more of them: git, GNU patch and unidiff all
    drop such lines without a word.
    """
    text, begin, end = lines.lines, lines.at, len(lines.lines)
    announced = (old, new)
    at = begin
    while (old > 0 or new > 0) and at < end:
        first = text[at][:1]
        if first in (b" ", b"\n"):
            old -= 1
            new -= 1
        elif first == b"-":
            old -= 1
        elif first == b"+":
            new -= 1
        elif first != b"\\":
            break
        at += 1
    if lines.get(at).startswith(b"\\ "):
        at += 1
    lines.at = at
    if old == new == 0 and not _goes_on(lines):
        return None
    lines.at = begin
    actual = _count_actual(lines)
    while lines.peek() == b"\n" and actual[0] < announced[0] and actual[1] < announced[1]:
        lines.at += 1
        actual = (actual[0] + 1, actual[1] + 1)
    said = (
        f"announces {announced[0]} old and {announced[1]} new lines, "
        f"contains {actual[0]} and {actual[1]}"
    )
    if announced[0] - actual[0] == announced[1] - actual[1] > 0:
        said += " (an editor may have trimmed blank context lines at its end)"
    return said


def _goes_on(lines: Lines) -> bool:
    """Say whether lines of a hunk follow, blank ones aside."""
    at = lines.at
    while lines.get(at) == b"\n":
        at += 1
    return lines.get(at)[:1] in (b" ", b"+", b"-") and not _is_border(lines, at)


def _count_actual(lines: Lines) -> tuple[int, int]:
    """Go over everything that looks like a hunk's line; return how many old and new ones it is."""
    old = new = blank = 0
    while line := lines.peek():
        first = line[:1]
        if first == b"\n":
            blank += 1
        elif first not in b" +-\\" or _is_border(lines, lines.at):
            break
        else:
            old += blank + (first in b" -")
            new += blank + (first in b" +")
            blank = 0
        lines.at += 1
    lines.at -= blank
    return old, new


def _is_border(lines: Lines, at: int) -> bool:
    """Say whether a line, though it may begin like a removed one, ends the hunk above it."""
    if is_separator(lines.get(at)):
        return lines.get(at - 1) == b"\n"
    return begins_file(lines, at) or begins_signature(lines, at)


def _fault(hunk: Hunk) -> str | None:
    if not hunk.added and not hunk.removed:
        return "changes nothing"
    if (hunk.old_start == 0 and hunk.old_count) or (hunk.new_start == 0 and hunk.new_count):
        return "begins at line 0 but has lines there"
    return _marker_fault(hunk.lines)


def _marker_fault(lines: tuple[bytes, ...]) -> str | None:
    r"""Check each ``\ No newline at end of file``: it ends the side, or both, of the line above."""
    ended: set[bytes] = set()
    previous = b""
    for line in lines:
        first = line[:1]
        sides = {b"-", b"+"} if first in b" \n" else {first}
        if first == b"\\":
            if previous in (b"", b"\\") or len(line) < _SHORTEST_MARKER or line[1:2] != b" ":
                return f"has a misplaced or damaged end-of-file marker {shown(line)}"
            ended |= {b"-", b"+"} if previous in b" \n" else {previous}
        elif sides & ended:
            return 'goes on behind a "\\ No newline at end of file"'
        previous = first
    return None
