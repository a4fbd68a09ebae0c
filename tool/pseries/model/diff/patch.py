"""A patch file, read strictly: header, one section per file, tail. Bytes are the truth.

The reading is our own, since every other reader passes over something without a word: lines that a
hunk does not count, combined diffs, a diff quoted in the message, names that differ from header to
header. What is accepted here means the same to git, GNU patch and unidiff; git's reading and
unidiff's are compared with it in :mod:`pseries.model.diff.opinion`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pseries.errors import PatchRefused, Problem
from pseries.model import paths
from pseries.model.diff import mail
from pseries.model.diff import section as sections_of
from pseries.model.diff.heading import Kind
from pseries.model.diff.hunk import Hunk
from pseries.model.diff.lines import (
    GIT_HEADERS,
    MOST_PROBLEMS,
    Lines,
    begins_file,
    begins_signature,
    is_message,
    is_separator,
    shown,
)
from pseries.model.diff.mail import Header, render_header
from pseries.model.diff.section import Section

__all__ = [
    "Header", "Hunk", "Kind", "Patch", "Section", "context_warnings", "parse",
    "refusals", "render_header", "with_trailer",
]  # fmt: skip

MEBIBYTE = 1 << 20
LARGEST = 64 * MEBIBYTE
"""Bytes of a patch file."""
MOST_LINES = 2_000_000
MOST_SECTIONS = 100_000
CONTEXT = 3
"""Lines of context that git writes on either side of a change."""

_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")
_AROUND = re.compile(
    rb"(?:\n|Index: |={67}\n|=== |RCS file: |retrieving revision "
    rb"|diff (?!--git |--cc |--combined ))"
)
"""Lines that diff, svn, cvs, bzr and quilt put between files."""
_TELLING = b"dFc-@\xef*0123456789OB"
"""First bytes of the lines above the diff that can mean anything."""
_CONTEXT_DIFF = re.compile(rb"\*{15}(?: .*)?\n")
_NORMAL_DIFF = re.compile(rb"\d{1,9}(?:,\d{1,9})?[acd]\d{1,9}(?:,\d{1,9})?\n")
_LEFT_OUT = re.compile(rb"(?:Only in \S+: \S+|Binary files \S+ and \S+ differ)\n")

_LOOKS = (
    (re.compile(rb"\A\s*\Z"), "an empty file"),
    (re.compile(rb"\A\s*<(?:!doctype|html|\?xml)", re.IGNORECASE), "a web page"),
    (re.compile(rb"\Aversion https://git-lfs\."), "a Git LFS pointer: the patch is elsewhere"),
    (re.compile(rb"\A\s*[{\[]"), "JSON"),
    (re.compile(rb"\A(?:\x1f\x8b|BZh|PK\x03\x04|\xfd7zXZ|\x28\xb5\x2f\xfd)"), "a compressed file"),
    (re.compile(rb"^[ \t>]{1,40}(?:diff --git |--- )", re.MULTILINE), "a diff that is only quoted"),
    (re.compile(rb"^\d{1,9}(?:,\d{1,9})?[acd]$", re.MULTILINE), "an ed script"),
)
_INSTALLS_CODE = ("sitecustomize.py", "usercustomize.py")
_METADATA = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch file; ``header.raw + b"".join(s.raw for s in sections) + tail == data``, always."""

    name: str
    data: bytes
    header: Header
    sections: tuple[Section, ...]
    tail: bytes
    """What stands after the last section: blank lines, a mail's signature."""
    strip: int
    """How many leading components its names lose (``-pN``)."""

    @property
    def diff(self) -> bytes:
        """What git is fed: the sections alone, so that it never sees a diff quoted in the message.

        Always pass ``-p{strip}`` with it, ``-p1`` too: without it git guesses the level of a plain
        diff from its names.
        """
        return b"".join(section.diff for section in self.sections)

    @property
    def paths(self) -> frozenset[str]:
        """Every canonical path that it reads or writes."""
        names = (path for section in self.sections for path in (section.old, section.new))
        return frozenset(path for path in names if path is not None)


def parse(name: str, data: bytes, strip: int = 1) -> Patch:
    """Read a patch file.

    Args:
        name: the patch's, for messages.
        data: the file's bytes.
        strip: how many leading components its names lose, as in ``-pN``.

    Raises:
        PatchRefused: with everything that is wrong, each with its line.
    """
    _guard(name, data)
    if not data.endswith(b"\n"):
        raise PatchRefused(name, _without_last_newline(name, data, strip))
    lines = Lines.of(name, data, strip)
    first = _first_file(lines)
    lines.at = first
    sections, tail = _sections(lines, first)
    header_raw = b"".join(lines.lines[:first])
    encoding = mail.transfer_encoding(header_raw)
    if encoding in ("base64", "quoted-printable"):
        lines.refuse(f"the mail is encoded ({encoding}): decode it first, with git mailinfo", 0)
    if not sections and not lines.found:
        lines.refuse(f"there is no diff in it; it looks like {_looks_like(data)}", 0)
    _check_paths_once(lines, sections)
    if lines.found:
        raise lines.refusal()
    return Patch(
        name=name,
        data=data,
        header=mail.read(header_raw),
        sections=tuple(sections),
        tail=b"".join(lines.lines[tail:]),
        strip=strip,
    )


# --- the whole file ---------------------------------------------------------------------------


def _guard(name: str, data: bytes) -> None:
    """Raise unless the file is small enough to be read and of an encoding that can be."""
    what = None
    if len(data) > LARGEST:
        what = f"the file is larger than {LARGEST // MEBIBYTE} MiB"
    elif data.startswith(_BOM):
        what = "at byte 0 stands a UTF-8 byte order mark, which hides the first header: remove it"
    elif data.startswith(_WIDE_BOMS):
        what = f"at byte 0 stands a UTF-16 byte order mark: {_CONVERT}"
    elif _is_wide(data[:4096]):
        what = f"from byte {data.index(0)} on every other byte is 0, as in UTF-16: {_CONVERT}"
    elif data.count(b"\n") > MOST_LINES:
        what = f"the file has more than {MOST_LINES} lines"
    if what is not None:
        raise PatchRefused(name, (Problem(f"{name}:1", what),))


_CONVERT = "make the patch again with git's --output, not with a shell that re-encodes text"


def _is_wide(start: bytes) -> bool:
    return any(half.count(0) * 4 > len(half) * 3 for half in (start[::2], start[1::2]))


def _without_last_newline(name: str, data: bytes, strip: int) -> tuple[Problem, ...]:
    """Say whether a newline is all that the file lacks (F06)."""
    where = "{}:{}".format(name, data.count(b"\n") + 1)
    if not data:
        return (Problem(where, "the file is empty"),)
    try:
        parse(name, data + b"\n", strip)
    except PatchRefused as refused:
        what = "the file does not end in a newline, and one more would not make it whole"
        return (*refused.problems, Problem(where, what))
    what = "the file does not end in a newline; with exactly one more its counts are right"
    return (Problem(where, what),)


def _looks_like(data: bytes) -> str:
    start = data[:65_536]
    return next((what for look, what in _LOOKS if look.search(start)), "text without a diff")


# --- header, sections, tail -------------------------------------------------------------------


def _first_file(lines: Lines) -> int:
    """Return the index of the first section's first line; note diffs that nobody would read.

    Words may hold anything, but before a ``---`` line only: below it, or without one, the remains
    of another kind of diff would be lost without a word.
    """
    messages = 0
    message: list[tuple[int, str]] = []
    below: list[tuple[int, str]] = []
    for at, line in enumerate(lines.lines):
        if line[:1] not in _TELLING:
            continue
        if begins_file(lines, at):
            break
        messages += is_message(line)
        if messages > 1:
            lines.stop(_SEVERAL, at)
        if is_separator(line) and lines.get(at + 1)[:2] != b"> ":
            message, below = message + below, []
        elif len(below) < MOST_PROBLEMS and (fault := _lost_diff(lines, at)):
            below.append((at, fault))
    else:
        at, below = len(lines.lines), message + below
    for suspect, fault in below:
        lines.refuse(fault, suspect)
    if 0 < at < len(lines.lines) and lines.lines[at - 1].startswith(GIT_HEADERS):
        lines.refuse("a header line of git's without the 'diff --git' line above it", at - 1)
    while at > 0 and lines.lines[at - 1] != b"\n" and _AROUND.match(lines.lines[at - 1]):
        at -= 1
    return at


_SEVERAL = (
    "another message begins here: one patch file is one message, since later ones change the same "
    "files again; split it (pseries import does)"
)


def _lost_diff(lines: Lines, at: int) -> str | None:
    """Say what piece of a diff the line is that no tool would apply, or ``None``."""
    line = lines.lines[at]
    if line.startswith(b"@@"):
        combined = line.startswith(b"@@@")
        return (
            "a hunk of a combined diff (of a merge)" if combined else "a hunk without a file header"
        )
    if line.startswith(_BOM) and line[3:].startswith((b"diff --git ", b"--- ", b"Index: ")):
        offset = sum(map(len, lines.lines[:at]))
        return f"at byte {offset} a UTF-8 byte order mark hides a file header: remove it"
    if _CONTEXT_DIFF.fullmatch(line):
        return "a context diff (diff -c): make it unified (diff -u)"
    if _NORMAL_DIFF.fullmatch(line) and lines.get(at + 1)[:2] in (b"< ", b"> "):
        return "a normal diff without context: make it unified (diff -u)"
    if _LEFT_OUT.fullmatch(line):
        return f"{shown(line)} stands for a change that the patch does not hold (diff -N, --binary)"
    return None


def _sections(lines: Lines, first: int) -> tuple[list[Section], int]:
    """Read the sections from line ``first`` on; return them and where the tail begins."""
    sections: list[Section] = []
    begin = lines.at = first
    count = 0
    while lines.at < len(lines.lines):
        if begins_file(lines, lines.at):
            count += 1
            if count > MOST_SECTIONS:
                lines.stop(f"the patch has more than {MOST_SECTIONS} files")
            section = sections_of.read(lines, begin)
            if section is not None:
                sections.append(section)
            begin = lines.at
        elif begins_signature(lines, lines.at):
            _check_signature(lines)
            break
        elif _AROUND.match(lines.peek()):
            lines.at += 1
        else:
            _refuse_stray(lines)
    return sections, begin


def _check_signature(lines: Lines) -> None:
    """Check that nothing of a patch stands after a mail's signature."""
    for at in range(lines.at, len(lines.lines)):
        if is_message(lines.lines[at]):
            lines.stop(_SEVERAL, at)
        if begins_file(lines, at):
            lines.stop("another diff begins after the mail's signature: it would be lost", at)


def _refuse_stray(lines: Lines) -> None:
    """Note a line that belongs to nothing, and go on where the next file begins."""
    at, line = lines.at, lines.peek()
    if is_message(line):
        lines.stop(_SEVERAL)
    lines.at += 1
    lines.skip_to_file()
    if any(is_separator(skipped) for skipped in lines.lines[at : lines.at]):
        what = (
            "here the message of the mail goes on: the diff above is quoted in it and would be "
            "applied; indent it, or leave out the '---' line"
        )
    elif lines.lines[at - 1] == b"-- \n":
        what = "the mail's signature was counted as part of the hunk above: its numbers are wrong"
    else:
        what = _lost_diff(lines, at) or f"text between the files of the patch: {shown(line)}"
    lines.refuse(what, at)


def _check_paths_once(lines: Lines, sections: list[Section]) -> None:
    """Refuse a path that two sections name: tools differ in what the second one sees.

    Renames among each other are fine: all their old names mean the tree before the patch, whatever
    the order (git's ``previous_patch`` in apply.c).
    """
    olds: dict[str | None, Section] = {}
    news: dict[str | None, Section] = {}
    for section in sections:
        across = [(section.old, news.get(section.old)), (section.new, olds.get(section.new))]
        clashes = [
            (section.old, olds.get(section.old)),
            (section.new, news.get(section.new)),
            *(each for each in across if not _are_renames(section, each[1])),
        ]
        for path, other in clashes:
            if path is not None and other is not None:
                lines.refuse(
                    f"{paths.display(path)} is named twice, first on line {other.line}",
                    section.line - 1,
                )
                break
        olds.setdefault(section.old, section)
        news.setdefault(section.new, section)


def _are_renames(section: Section, other: Section | None) -> bool:
    return other is not None and section.kind is other.kind is Kind.RENAME


# --- what may be done with it -----------------------------------------------------------------


def refusals(patch: Patch) -> tuple[Problem, ...]:
    """Return what may never be put into an installed tree although it is a sound patch (A09).

    Binary data, files that Python runs at every start, the metadata of distributions (which
    installers own), and the folder that records what was applied.
    """
    found: list[Problem] = []
    for section in patch.sections:
        where = f"{patch.name}:{section.line}"
        if section.binary:
            found.append(
                Problem(where, f"{paths.display(section.path)}: binary data is not applied")
            )
        for path in dict.fromkeys(filter(None, (section.old, section.new))):
            fault = _foreign(path)
            if fault is not None:
                found.append(Problem(where, f"{paths.display(path)}: {fault}"))
    return tuple(found)


def _foreign(path: str) -> str | None:
    *folders, name = path.lower().split("/")
    if name.endswith(".pth") or name in _INSTALLS_CODE:
        return "Python runs such a file at every start"
    if any(part.endswith(_METADATA) for part in (*folders, name)):
        return "it is metadata of a distribution, which installers own"
    if any(part.endswith(".data") for part in folders):
        return "a .data folder is what a wheel installs elsewhere"
    if paths.CONTROL in (*folders, name):
        return "the record of what was applied is kept there"
    return None


def context_warnings(patch: Patch) -> tuple[Problem, ...]:
    """Return a warning for each hunk with less context than three lines on either side (A08).

    Tools disagree about such hunks. At the start of a file there are no more lines; at its end
    neither, which the last hunk is believed to reach.
    """
    found: list[Problem] = []
    for section in patch.sections:
        for number, hunk in enumerate(section.hunks, 1):
            at_end = number == len(section.hunks)
            short = [
                f"{count} lines of context {where}"
                for count, where, enough in (
                    (hunk.leading, "above", hunk.first_old == 1),
                    (hunk.trailing, "below", at_end),
                )
                if count < CONTEXT and not enough
            ]
            if short:
                what = f"hunk {number} of {paths.display(section.path)} has {' and '.join(short)}"
                found.append(Problem(f"{patch.name}:{hunk.line}", what))
    return tuple(found)


# --- changing the header ----------------------------------------------------------------------


def with_trailer(patch_data: bytes, key: str, value: str) -> bytes:
    """Return the patch file with one trailer of its header set; every other byte stays.

    Raises:
        PatchRefused: ``key`` or ``value`` cannot be a trailer's.
    """
    _guard("header", patch_data)
    lines = Lines.of("header", patch_data, 1)
    header = b"".join(lines.lines[: _first_file(lines)])
    return mail.set_trailer(header, key, value) + patch_data[len(header) :]
