"""Our own reading of what a patch does to a file: every hunk at its recorded line, or not at all.

This is the second opinion beside git's: ``lock`` compares both results byte for byte, so neither a
hunk that git moved to a look-alike place nor one that we read wrongly goes unseen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import Problem
from pseries.model import paths, symbols
from pseries.model.diff.lines import split_lines
from pseries.model.diff.patch import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.model.diff.patch import Hunk, Patch, Section

File = tuple[int, bytes]
"""A file of a tree: git mode and bytes."""
_PLAIN = 0o100644
_MANY_PLACES = 20
_SHOWN_PLACES = 5


class Mismatch(NamedTuple):
    """A hunk whose pre-image is not at its recorded line.

    ``number`` counts from 1; ``elsewhere`` are the lines where the whole pre-image does stand.
    """

    number: int
    line: int
    elsewhere: tuple[int, ...]

    def __str__(self) -> str:
        there = f"hunk {self.number} does not match at line {self.line}"
        if not self.elsewhere:
            return f"{there}, nor anywhere else in the file"
        return f"{there}; its lines stand at line {some(self.elsewhere)}"


def some(places: Sequence[int]) -> str:
    """Return line numbers in words, the first few of them."""
    more = " and more" if len(places) > _SHOWN_PLACES else ""
    return ", ".join(map(str, places[:_SHOWN_PLACES])) + more


def apply(before: bytes, hunks: Sequence[Hunk]) -> bytes | Mismatch:
    """Return ``before`` with every hunk applied at exactly its recorded line, or the mismatch."""
    source = split_lines(before)
    result: list[bytes] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        old = split_lines(hunk.before)
        start = position(hunk)
        if start < done or source[start : start + len(old)] != old:
            return Mismatch(number, hunk.old_start, occurrences(source, old))
        result += source[done:start]
        result += split_lines(hunk.after)
        done = start + len(old)
    return b"".join(result + source[done:])


def position(hunk: Hunk) -> int:
    """Return the index, from 0, of the hunk's first line in the pre-image.

    A hunk without lines of the pre-image names the line *before* it (POSIX diff -u).
    """
    return hunk.old_start if hunk.old_count == 0 else hunk.old_start - 1


def occurrences(source: Sequence[bytes], wanted: Sequence[bytes]) -> tuple[int, ...]:
    """Return the line numbers, from 1, at which ``wanted`` stands in ``source``.

    Searching bytes is fast but compares all of ``wanted`` at each place; where there are many
    places (long stretches of like lines) lines are compared instead, each of them once or twice.
    """
    if not wanted:
        return ()
    # The LF in front makes every place that is found the beginning of a line.
    text, needle = b"\n" + b"".join(source), b"\n" + b"".join(wanted)
    if not needle.endswith(b"\n"):
        begins = len(text) - len(needle)
        return (text.count(b"\n", 0, begins) + 1,) if text.endswith(needle) else ()
    found: list[int] = []
    number, counted = 1, 0
    at = text.find(needle)
    while at >= 0:
        if len(found) == _MANY_PLACES:
            return _occurrences_of_lines(source, wanted)
        number += text.count(b"\n", counted, at)
        counted = at
        found.append(number)
        at = text.find(needle, at + 1)
    return tuple(found)


class Unplaced(NamedTuple):
    """A hunk that has no place in a file; ``number`` is from 1.

    Its lines stand nowhere, in several ``places``, or in one that is not below the hunk before it.
    """

    number: int
    places: int


def placed(
    source: Sequence[bytes], hunks: Sequence[Hunk], *, recorded: bool
) -> list[Hunk] | Unplaced:
    """Return the hunks, each at the one place where all its lines stand, context included.

    Args:
        source: the lines of the file.
        hunks: those of one file, in order.
        recorded: where they stand at the recorded line, other places do not count.
    """
    found: list[Hunk] = []
    shift = done = 0
    for number, hunk in enumerate(hunks, 1):
        if not (source or hunk.before):  # what an empty file is filled with
            found.append(hunk)
            continue
        places = occurrences(source, split_lines(hunk.before))
        if recorded and hunk.old_start in places:
            start = hunk.old_start
        elif len(places) == 1:
            start = places[0]
        else:
            return Unplaced(number, len(places))
        if start <= done:
            return Unplaced(number, 1)
        done = start + hunk.old_count - 1
        new = start + shift - (hunk.new_count == 0)  # no line: the one before it is named
        found.append(replace(hunk, old_start=start, new_start=new))
        shift += hunk.new_count - hunk.old_count
    return found


def _occurrences_of_lines(source: Sequence[bytes], wanted: Sequence[bytes]) -> tuple[int, ...]:
    """Do the same in linear time (Knuth, Morris, Pratt)."""
    fallback = [0] * len(wanted)
    held = 0
    for at in range(1, len(wanted)):
        while held and wanted[at] != wanted[held]:
            held = fallback[held - 1]
        held += wanted[at] == wanted[held]
        fallback[at] = held
    found: list[int] = []
    held = 0
    for number, line in enumerate(source, 1):
        while held and (held == len(wanted) or line != wanted[held]):
            held = fallback[held - 1]
        held += line == wanted[held]
        if held == len(wanted):
            found.append(number - len(wanted) + 1)
    return tuple(found)


def apply_patch(
    files: Mapping[str, File], patch: Patch, problems: list[Problem]
) -> dict[str, File]:
    """Return the files after one patch, every hunk at its recorded line.

    Args:
        files: canonical path to git mode and bytes; may hold just the files that are touched.
        patch: the patch.
        problems: what does not fit is appended here, all of it; such a file is left as it was.
    """
    result = dict(files)
    for section in patch.sections:
        trouble = _obstacle(section, files)
        if trouble is None:
            outcome = _outcome(section, files)
            if isinstance(outcome, Mismatch):
                trouble = str(outcome)
            else:
                if section.old is not None and section.old != section.new:
                    result.pop(section.old, None)
                if section.new is not None and outcome is not None:
                    result[section.new] = outcome
        if trouble is not None:
            where = f"{patch.name}:{section.line} {paths.display(section.path)}"
            problems.append(Problem(where, trouble))
    return result


def _obstacle(section: Section, files: Mapping[str, File]) -> str | None:
    if section.old is not None and section.old not in files:
        return "the release has no such file"
    if section.new is not None and section.new != section.old and section.new in files:
        return "the file is to be created, but the release has one"
    if section.binary:
        return "a binary change cannot be read here"
    return None


def _outcome(section: Section, files: Mapping[str, File]) -> File | Mismatch | None:
    mode, data = (_PLAIN, b"") if section.old is None else files[section.old]
    changed = apply(data, section.hunks)
    if isinstance(changed, Mismatch):
        return changed
    if section.kind is Kind.DELETE:
        return Mismatch(len(section.hunks), 1, ()) if changed else None
    # The mode of an ``index`` line only repeats what the author's tree had; sdists and wheels lose
    # modes, so it decides nothing, as in git.
    changes_mode = section.old_mode != section.new_mode
    return (section.new_mode if changes_mode and section.new_mode else mode), changed


def added_lines(hunk: Hunk) -> tuple[int, int] | None:
    """Return the first and last line, in the post-image, that the hunk adds; ``None`` if none."""
    return _span(hunk, b"+", hunk.new_start)


def removed_lines(hunk: Hunk) -> tuple[int, int] | None:
    """Return the first and last line, in the pre-image, that the hunk removes; ``None`` if none."""
    return _span(hunk, b"-", hunk.old_start)


def _span(hunk: Hunk, marker: bytes, start: int) -> tuple[int, int] | None:
    other = b"-" if marker == b"+" else b"+"
    number, first, last = start, 0, 0
    for line in hunk.lines:
        if line[:1] in {other, b"\\"}:
            continue
        if line[:1] == marker:
            first, last = first or number, number
        number += 1
    return (first, last) if first else None


def symbol_of(
    hunk: Hunk,
    old: tuple[symbols.Scope, ...] | None,
    new: tuple[symbols.Scope, ...] | None,
) -> str | None:
    """Name the innermost scope of the lines a hunk adds, or of those it removes if it adds none.

    Args:
        hunk: at its place.
        old: the scopes of the file before, ``None`` where it is no Python.
        new: the scopes of the file after.
    """
    if new is not None and (added := added_lines(hunk)) is not None:
        return symbols.enclosing(new, *added)
    if old is not None and (removed := removed_lines(hunk)) is not None:
        return symbols.enclosing(old, *removed)
    return None
