"""Comparing two series patch by patch: which patch became which, and the diff of their diffs.

What ``git range-diff`` does for commits, done on patch files: line numbers and blob ids, which
change with every release, do not count; context does, and is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pseries.model import paths
from pseries.model.diff.patch import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pseries.model.diff.patch import Patch, Section

CREATION = 0.6
"""As git's ``--creation-factor``: a pair whose diff is longer than this part of both patches is
better shown as one patch removed and one added."""
_CONTEXT = 3


class Status(Enum):
    """How two patches compare, in the signs that ``git range-diff`` uses."""

    EQUAL = "="
    CHANGED = "!"
    REMOVED = "<"
    ADDED = ">"


@dataclass(frozen=True, slots=True)
class Place:
    """A patch in its series: its number from 1, file name and subject."""

    number: int
    name: str
    subject: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A patch of the one series and what it became in the other; ``None`` for nothing.

    ``diff`` is the diff of both patches' texts, lines without their ends.
    """

    old: Place | None
    new: Place | None
    status: Status
    diff: tuple[str, ...]


def range_diff(old: Sequence[Patch], new: Sequence[Patch]) -> tuple[Pair, ...]:
    """Pair the patches of two series, in the new one's order; removed ones where they stood."""
    texts = [_text(patch) for patch in old], [_text(patch) for patch in new]
    partner = _partners(old, new, *texts)
    paired, shown = set(partner.values()), set[int]()
    pairs: list[Pair] = []
    at = 0
    for number, patch in enumerate(new):
        at = _removed(old, at, paired, shown, pairs)
        match = partner.get(number)
        if match is not None:
            shown.add(match)
        pairs.append(_pair(old, match, number, patch, texts))
    _removed(old, at, paired, shown, pairs)
    return tuple(pairs)


def _removed(
    old: Sequence[Patch], at: int, paired: set[int], shown: set[int], pairs: list[Pair]
) -> int:
    """Add the removed patches that come next; return the first patch that is still to be shown."""
    while at < len(old) and (at not in paired or at in shown):
        if at not in paired:
            pairs.append(Pair(_place(at, old[at]), None, Status.REMOVED, ()))
        at += 1
    return at


def _pair(
    old: Sequence[Patch],
    match: int | None,
    number: int,
    patch: Patch,
    texts: tuple[list[list[str]], list[list[str]]],
) -> Pair:
    place = _place(number, patch)
    if match is None:
        return Pair(None, place, Status.ADDED, ())
    before, after = texts[0][match], texts[1][number]
    if before == after:
        return Pair(_place(match, old[match]), place, Status.EQUAL, ())
    import difflib  # noqa: PLC0415 - not for series that are equal

    diff = tuple(difflib.unified_diff(before, after, n=_CONTEXT, lineterm=""))[2:]
    return Pair(_place(match, old[match]), place, Status.CHANGED, diff)


def _place(number: int, patch: Patch) -> Place:
    return Place(number + 1, patch.name, patch.header.subject)


# --- which patch became which -------------------------------------------------------------------


def _partners(
    old: Sequence[Patch],
    new: Sequence[Patch],
    old_texts: Sequence[list[str]],
    new_texts: Sequence[list[str]],
) -> dict[int, int]:
    """Return the number of the old patch for each new one that has one.

    Equal texts first, then what bears the same name, then the closest of the rest, while it is
    close enough.
    """
    found: dict[int, int] = {}
    left = set(range(len(old)))
    for keys in (
        ([tuple(text) for text in old_texts], [tuple(text) for text in new_texts]),
        ([(patch.name,) for patch in old], [(patch.name,) for patch in new]),
    ):
        for number, key in enumerate(keys[1]):
            match = next((each for each in sorted(left) if keys[0][each] == key), None)
            if number not in found and match is not None:
                found[number] = match
                left.discard(match)
    changes = [list(_changes(patch)) for patch in old], [list(_changes(patch)) for patch in new]
    costs = sorted(
        (cost, match, number)
        for number in range(len(new))
        if number not in found
        for match in sorted(left)
        if (cost := _cost(changes[0][match], changes[1][number])) is not None
    )
    for _, match, number in costs:
        if match in left and number not in found:
            found[number] = match
            left.discard(match)
    return found


def _cost(old: list[str], new: list[str]) -> float | None:
    """Return how far apart two changes are, ``None`` if so far that they are no pair.

    As for git, messages do not count: many are alike that have nothing in common.
    """
    import difflib  # noqa: PLC0415 - not for series that are equal

    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.real_quick_ratio() < 1 - CREATION or matcher.quick_ratio() < 1 - CREATION:
        return None
    differing = len(old) + len(new) - 2 * sum(block.size for block in matcher.get_matching_blocks())
    return differing if differing <= CREATION * (len(old) + len(new)) else None


# --- a patch as text ----------------------------------------------------------------------------


def _text(patch: Patch) -> list[str]:
    """Return a patch as the lines that are compared: message, then each file, without numbers."""
    header = patch.header
    lines = [" ## Metadata ##", f"Author: {header.author}", "", " ## Message ##"]
    lines += [f"    {line}".rstrip() for line in (header.subject, "", *header.body.split("\n"))]
    lines += [f"    {key}: {value}" for key, value in header.trailers]
    return [*lines, *_changes(patch)]


def _changes(patch: Patch) -> Iterator[str]:
    for section in patch.sections:
        yield from ("", f" ## {_heading(section)} ##", *_hunks(section))


def _heading(section: Section) -> str:
    path = paths.display(section.path)
    if section.kind is Kind.RENAME:
        path = f"{paths.display(section.old or '')} => {path}"
    what = {Kind.ADD: " (new)", Kind.DELETE: " (deleted)"}.get(section.kind, "")
    mode = ""
    if section.old_mode is not None and section.new_mode not in (None, section.old_mode):
        mode = f" (mode {section.old_mode:o} => {section.new_mode:o})"
    return f"{path}{what}{mode}"


def _hunks(section: Section) -> Iterator[str]:
    if section.binary:
        yield f"binary {section.new_blob}"
    for hunk in section.hunks:
        place = f" {_shown(hunk.section)}" if hunk.section else ""
        yield f"@@ {paths.display(section.path)}:{place}".rstrip()
        for line in hunk.lines:
            yield _shown(line.removesuffix(b"\n")) or " "


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")
