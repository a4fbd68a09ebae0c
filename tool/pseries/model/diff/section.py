"""One file of a patch: its headings and its hunks, and whether they make sense together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pseries.model.diff import heading as headings
from pseries.model.diff import hunk as hunks
from pseries.model.diff.heading import Kind
from pseries.model.diff.lines import is_combined

if TYPE_CHECKING:
    from pseries.model.diff.heading import Heading
    from pseries.model.diff.hunk import Hunk
    from pseries.model.diff.lines import Lines

_BINARY_METHOD = re.compile(rb"(?:literal|delta) \d{1,9}\n")
_BINARY_LINE = re.compile(rb"[A-Za-z][!-~]{5,65}\n")
_STUB = re.compile(rb"(?:Binary files|Files) .+ differ\n")


@dataclass(frozen=True, slots=True)
class Section:
    """One file of the patch. Paths are canonical: decoded, checked, without the stripped parts."""

    kind: Kind
    old: str | None
    """Path before; ``None``: there is no file before."""
    new: str | None
    """Path after; ``None``: there is no file after."""
    old_mode: int | None
    """Mode before, where the headers say it."""
    new_mode: int | None
    """Mode after, where the headers say it."""
    old_blob: str | None
    """Id before of the ``index`` line, maybe abbreviated; ``None`` also where that holds zeros."""
    new_blob: str | None
    """Id after of the ``index`` line, maybe abbreviated; ``None`` also where that holds zeros."""
    similarity: int | None
    """Per cent, where the headers say it: of a rename."""
    binary: bool
    """A ``GIT binary patch``; its data is not read."""
    hunks: tuple[Hunk, ...]
    line: int
    """Line number of its first header in the patch file."""
    raw: bytes
    """Its exact bytes, with lines such as ``Index:`` that stand before the first header."""
    misdated: bool = False
    """It is dated 1970 although there is a file, which git would take for "no file"."""

    @property
    def path(self) -> str:
        """The path after, or of a deleted file the path before."""
        return self.new or self.old or ""

    @property
    def added(self) -> int:
        """How many lines it adds."""
        return sum(hunk.added for hunk in self.hunks)

    @property
    def removed(self) -> int:
        """How many lines it removes."""
        return sum(hunk.removed for hunk in self.hunks)

    @property
    def diff(self) -> bytes:
        """Its bytes as git must get them: :attr:`raw` without dates that git would misread."""
        if not self.misdated:
            return self.raw
        head, border, rest = self.raw.partition(b"\n@@")
        undated = (line.partition(b"\t")[0] for line in head.split(b"\n"))
        return b"\n".join(undated) + border + rest


def read(lines: Lines, begin: int) -> Section | None:
    """Read the section that begins at the next line; ``None`` if it cannot be used at all.

    Everything wrong with it is noted in ``lines``, which stand behind it afterwards.

    Args:
        lines: stand at a line of which :func:`~pseries.model.diff.lines.begins_file` is true.
        begin: index of the line from which on bytes belong to it, at most the next line.
    """
    if is_combined(lines.peek()):
        lines.refuse(
            "a combined diff (of a merge): git and patch skip it without a word; "
            "make the diff against one parent"
        )
        lines.at += 1
        lines.skip_to_file()
        return None
    heading = headings.read(lines)
    label = heading.label(lines.strip)
    found = len(lines.found)
    body = _read_hunks(lines, heading, label)
    binary = heading.sides is None and _read_binary(lines, heading, label)
    whole = len(lines.found) == found
    kind = headings.kind(heading, body)
    names = headings.names(lines, heading, kind)
    modes = headings.modes(lines, heading, kind)
    blobs = headings.blobs(lines, heading)
    similarity = headings.similarity(lines, heading)
    if names is None or not whole:
        return None
    section = Section(
        kind=kind,
        old=None if kind is Kind.ADD else names[0],
        new=None if kind is Kind.DELETE else names[1],
        old_mode=modes[0],
        new_mode=modes[1],
        old_blob=blobs[0],
        new_blob=blobs[1],
        similarity=similarity,
        binary=binary,
        hunks=tuple(body),
        line=heading.at + 1,
        raw=b"".join(lines.lines[begin : lines.at]),
        misdated=kind is Kind.MODIFY and heading.is_misdated(),
    )
    _check_change(lines, heading, section, label)
    _check_order(lines, section, label)
    _check_context(lines, section, label)
    return section


def _read_hunks(lines: Lines, heading: Heading, label: str) -> list[Hunk]:
    body: list[Hunk] = []
    if heading.sides is None and lines.peek().startswith(b"@@"):
        lines.refuse(f"the hunks of {label} have no '---' and '+++' lines above them")
    number = 0
    while lines.peek().startswith(b"@@"):
        number += 1
        hunk = hunks.read(lines, number, label)
        if hunk is not None:
            body.append(hunk)
    return body


def _read_binary(lines: Lines, heading: Heading, label: str) -> bool:
    """Go over binary data, which only git reads; refuse the stub that stands for left out data."""
    if _STUB.fullmatch(lines.peek()):
        lines.refuse(f"{label} is binary, and the patch lacks its data (use git diff --binary)")
        lines.at += 1
        return False
    if lines.peek().rstrip() != b"GIT binary patch":
        return False
    if b"index " not in heading.said:
        lines.refuse(f"the binary patch of {label} has no 'index' line, without which git skips it")
    lines.header()
    if not _BINARY_METHOD.fullmatch(lines.peek()):
        lines.refuse(f"the binary patch of {label} begins with neither 'literal' nor 'delta'")
    while _BINARY_METHOD.fullmatch(lines.peek()):
        lines.at += 1
        begin = lines.at
        while _BINARY_LINE.fullmatch(lines.peek()):
            lines.at += 1
        if lines.at == begin or lines.peek() != b"\n":
            lines.refuse(f"the binary patch of {label} is damaged")
            break
        lines.at += 1
    return True


def _check_change(lines: Lines, heading: Heading, section: Section, label: str) -> None:
    """Check that there is a change, and that added and deleted files have just one side."""
    if section.kind is Kind.MODIFY and not section.hunks and not section.binary:
        if section.old_mode == section.new_mode:
            lines.refuse(f"{label} is named, but nothing of it changes", heading.at)
        return
    sides = {
        Kind.ADD: ("a new file", [hunk.old_count for hunk in section.hunks]),
        Kind.DELETE: ("a deleted file", [hunk.new_count for hunk in section.hunks]),
    }
    what, counts = sides.get(section.kind, ("", []))
    if len(counts) > 1 or any(counts):
        lines.refuse(f"{label} is {what}, but hunks show lines of both sides", heading.at)


def _check_order(lines: Lines, section: Section, label: str) -> None:
    """Check that the hunks ascend without overlap and that their new line numbers add up."""
    end = shift = 0
    for number, hunk in enumerate(section.hunks, 1):
        name = f"hunk {number} of {label}"
        if hunk.first_old < end:
            lines.refuse(f"{name} begins before the end of the hunk above it", hunk.line - 1)
        elif hunk.first_new != hunk.first_old + shift:
            lines.refuse(
                f"{name} begins at new line {hunk.new_start}, but the hunks above it shift it to "
                f"{hunk.new_start + hunk.first_old + shift - hunk.first_new}",
                hunk.line - 1,
            )
        end = hunk.first_old + hunk.old_count
        shift += hunk.new_count - hunk.old_count
        if number < len(section.hunks) and hunk.ends_file():
            lines.refuse(f"{name} ends its file, but another hunk follows", hunk.line - 1)


def _check_context(lines: Lines, section: Section, label: str) -> None:
    """Refuse hunks without any context (``-U0``): nothing holds them in place (P09).

    Only one that is the whole of its file needs none.
    """
    for number, hunk in enumerate(section.hunks, 1):
        alone = len(section.hunks) == 1 and hunk.first_old == 1
        if not alone and not hunk.leading and not hunk.trailing:
            lines.refuse(
                f"hunk {number} of {label} has no context (made with -U0?): "
                "nothing says where it belongs",
                hunk.line - 1,
            )
