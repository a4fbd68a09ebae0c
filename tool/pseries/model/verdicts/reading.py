"""Ways to read what two sides did to one text, and how far they agree.

An alignment is an opinion: where lines repeat, another one may be as good, and then another merge
follows. So a change is placed by three readings, and it counts only if at least two of them merge
it without a conflict and all that do come to the same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pseries.model.verdicts import align

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pseries.model.verdicts.align import Edit, Region, Span
    from pseries.model.verdicts.source import Source

_KEPT = 32
"""Alignments that are kept: the hunks and patches of a series meet the same files again."""
CONTEXT = 3
"""Lines of context around a hunk, as git writes them."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Lines that go in place of a range of upstream's; ``theirs`` is where they are the patch's."""

    span: Span
    lines: tuple[bytes, ...]
    theirs: Span | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One alignment of both sides with the base, and the regions that follow from it.

    Attributes:
        match: for each line of the base its partner in upstream's text, or -1.
        kept: for each line of the base its partner in the patch's text, or -1.
        theirs: the patch's edits.
        regions: the regions in which the patch changes something.
        hunks: for each region the numbers of the hunks that have an edit in it.
    """

    match: tuple[int, ...]
    kept: tuple[int, ...]
    theirs: tuple[Edit, ...]
    regions: tuple[Region, ...]
    hunks: tuple[frozenset[int], ...]

    def numbers(self, region: Region) -> frozenset[int]:
        """Return the numbers of the hunks that have an edit in a region."""
        return self.hunks[self.regions.index(region)]


def edits_between(old: Source, new: Source, *, placed: bool, upward: bool) -> list[Edit]:
    """Return the edits from one text to another, by one of the ways to align them."""
    return align.edits(_match(old, new, placed, upward), len(new.lines))


@lru_cache(maxsize=_KEPT)
def _match(old: Source, new: Source, placed: bool, upward: bool) -> tuple[int, ...]:
    known = placed and old.outline is not None and new.outline is not None
    places = (old.places, new.places) if known else None
    return tuple(align.align(old.lines, new.lines, places, upward=upward))


def read(
    base: Source, ours: Source, theirs: Source, spans: Sequence[Span], *, placed: bool, upward: bool
) -> Reading:
    """Return one reading; ``spans`` are the lines of the base that each hunk is about."""
    match = _match(base, ours, placed, upward)
    kept = _match(base, theirs, placed, upward)
    other = align.edits(kept, len(theirs.lines))
    found = align.regions(align.edits(match, len(ours.lines)), other)
    regions = [region for region in found if region.by_theirs]
    numbers: list[set[int]] = [set() for _ in regions]
    at = 0
    for edit in other:
        while regions[at].base[1] < edit.old[0] or regions[at].theirs[1] < edit.new[1]:
            at += 1
        numbers[at].add(_nearest(edit, spans))
    return Reading(match, kept, tuple(other), tuple(regions), tuple(map(frozenset, numbers)))


def _nearest(edit: Edit, spans: Sequence[Span]) -> int:
    """Return the number, from 1, of the hunk that an edit belongs to: it may have slid a little."""

    def distance(number: int) -> int:
        low, high = spans[number - 1]
        return max(low - edit.old[0], edit.old[1] - high, 0)

    return min(range(1, len(spans) + 1), key=distance)


def hunk_spans(edits: Iterable[Edit]) -> list[Span]:
    """Return the lines of the base that hunks are about, edits grouped as git groups them."""
    spans: list[Span] = []
    for edit in edits:
        if spans and edit.old[0] - spans[-1][1] <= 2 * CONTEXT:
            spans[-1] = (spans[-1][0], edit.old[1])
        else:
            spans.append(edit.old)
    return spans


def units(readings: Sequence[Reading]) -> list[list[list[Region]]]:
    """Return the regions in groups that are about the same lines: for each reading those it has."""
    every = [
        (number, region) for number, reading in enumerate(readings) for region in reading.regions
    ]
    every.sort(key=lambda pair: (pair[1].theirs, pair[1].base))
    groups: list[list[list[Region]]] = []
    reach = (-1, -1)
    for number, region in every:
        if region.theirs[0] > reach[0] and region.base[0] > reach[1]:
            groups.append([[] for _ in readings])
            reach = (-1, -1)
        groups[-1][number].append(region)
        reach = max(reach[0], region.theirs[1]), max(reach[1], region.base[1])
    return groups


def splices(regions: Iterable[Region], ours: Source, theirs: Source) -> list[Splice] | None:
    """Return what goes where by some regions, ``None`` where one of them is a conflict."""
    found = []
    for region in regions:
        lines = theirs.lines[slice(*region.theirs)]
        if not region.by_ours:
            found.append(Splice(region.ours, lines, region.theirs))
        elif lines != ours.lines[slice(*region.ours)]:
            return None
    return found


def spliced(lines: Sequence[bytes], found: Iterable[Splice]) -> list[bytes]:
    """Return the lines with every splice made; they are in order and do not overlap."""
    result: list[bytes] = []
    done = 0
    for splice in found:
        result += lines[done : splice.span[0]]
        result += splice.lines
        done = splice.span[1]
    return result + list(lines[done:])
