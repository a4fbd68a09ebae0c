"""Which lines of two texts are the same line, and the three-way merge that follows from it.

Alignment is patience diff: lines that occur once on both sides are anchors, the gaps between them
are taken the same way, and what is left without anchors goes to Myers' algorithm. That is near
linear on source files. Two refinements serve placing a change rightly:

- a line may be given its *place* (the function it stands in); lines of one place are matched first,
  so that equal lines of sibling functions do not attract each other;
- every choice between equally good alignments is made downward or upward. Where the two give
  different merges, the text alone does not say where a change belongs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_MOST_STEPS = 400
"""Differences in one gap after which Myers' algorithm gives the gap up as rewritten."""
_WORD = re.compile(rb"\w")

Span = tuple[int, int]
"""A range of indices, the end not included."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A run of items that one side replaced: ``old`` in the base, ``new`` in the changed text."""

    old: Span
    new: Span


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of a three-way merge in which at least one side changed something.

    Edits of both sides belong to one region when they overlap or have no common line between them,
    which is git's rule too.
    """

    base: Span
    ours: Span
    theirs: Span
    by_ours: bool
    by_theirs: bool


class _Gap(NamedTuple):
    """A stretch of both texts that is not matched yet, and how strictly it is looked at."""

    old_lo: int
    old_hi: int
    new_lo: int
    new_hi: int
    level: int


def solid(line: object) -> bool:
    """Say whether a line says something: brackets, blanks and the like match anywhere."""
    return not isinstance(line, bytes) or _WORD.search(line) is not None


def align(
    old: Sequence[Hashable],
    new: Sequence[Hashable],
    places: tuple[Sequence[str], Sequence[str]] | None = None,
    *,
    upward: bool = False,
) -> list[int]:
    """Return for every item of ``old`` the index of its partner in ``new``, or -1.

    Partners are equal, and their order is the same on both sides.

    Args:
        old: lines, or anything else that can be compared.
        new: the same of the other text.
        places: where each line of both texts stands.
        upward: decide between equally good alignments from the end of the texts.
    """
    if upward:
        old, new = old[::-1], new[::-1]
        places = None if places is None else (places[0][::-1], places[1][::-1])
    head, tail = common_ends(old, new, places)
    match = [*range(head), *[-1] * (len(old) - head - tail), *range(len(new) - tail, len(new))]
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if inner_old and inner_new:
        levels = [_numbered(inner_old, inner_new)]
        if places is not None:
            placed = (
                list(zip(where[head : len(where) - tail], items, strict=True))
                for where, items in zip(places, (inner_old, inner_new), strict=True)
            )
            levels.insert(0, _numbered(*placed))
        inner = [-1] * len(inner_old)
        pending = [_Gap(0, len(inner_old), 0, len(inner_new), 0)]
        while pending:
            pending += _settle(levels, inner_old, inner, pending.pop())
        match[head : len(old) - tail] = [at + head if at >= 0 else -1 for at in inner]
    if len(inner_old) or len(inner_new):
        match = _compacted(old, new, match)
    if upward:
        last = len(new) - 1
        match = [last - index if index >= 0 else -1 for index in reversed(match)]
    return match


def common_ends(
    old: Sequence[Hashable],
    new: Sequence[Hashable],
    places: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Span:
    """Return how many items both texts begin with and, of the rest, end with, place and all."""
    most = min(len(old), len(new))
    there, here = ((), ()) if places is None else places
    head = 0
    while (
        head < most and old[head] == new[head] and there[head : head + 1] == here[head : head + 1]
    ):
        head += 1
    tail = 0
    most -= head
    at, other = len(old) - 1, len(new) - 1
    while (
        tail < most
        and old[at - tail] == new[other - tail]
        and (places is None or there[at - tail] == here[other - tail])
    ):
        tail += 1
    return head, tail


def _numbered(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[list[int], list[int]]:
    numbers: dict[Hashable, int] = {}
    first = [numbers.setdefault(item, len(numbers)) for item in old]
    return first, [numbers.setdefault(item, len(numbers)) for item in new]


def _settle(
    levels: list[tuple[list[int], list[int]]],
    items: Sequence[Hashable],
    match: list[int],
    gap: _Gap,
) -> list[_Gap]:
    """Match what is plain in one gap and return the smaller gaps that are left."""
    old_lo, old_hi, new_lo, new_hi, level = gap
    old, new = levels[level]
    while old_lo < old_hi and new_lo < new_hi and old[old_lo] == new[new_lo]:
        match[old_lo] = new_lo
        old_lo, new_lo = old_lo + 1, new_lo + 1
    while old_lo < old_hi and new_lo < new_hi and old[old_hi - 1] == new[new_hi - 1]:
        old_hi, new_hi = old_hi - 1, new_hi - 1
        match[old_hi] = new_hi
    if old_lo == old_hi or new_lo == new_hi:
        return []
    gap = _Gap(old_lo, old_hi, new_lo, new_hi, level)
    chain = _chain(old, new, items, gap)
    if not chain:
        if level + 1 < len(levels):
            return [gap._replace(level=level + 1)]
        for one, other in _myers(old[old_lo:old_hi], new[new_lo:new_hi]):
            match[old_lo + one] = new_lo + other
        return []
    gaps = []
    for one, other in chain:
        match[one] = other
        if old_lo < one and new_lo < other:
            gaps.append(_Gap(old_lo, one, new_lo, other, level))
        old_lo, new_lo = one + 1, other + 1
    gaps.append(_Gap(old_lo, old_hi, new_lo, new_hi, level))
    return gaps


def _chain(
    old: list[int], new: list[int], items: Sequence[Hashable], gap: _Gap
) -> list[tuple[int, int]]:
    """Return the longest run of pairs, in order on both sides, of items that are unique in both."""
    once_new = _once(new, gap.new_lo, gap.new_hi)
    pairs = [
        (index, once_new[item])
        for item, index in _once(old, gap.old_lo, gap.old_hi).items()
        if index >= 0 and once_new.get(item, -1) >= 0 and solid(items[index])
    ]
    pairs.sort()
    ends: list[int] = []
    at: list[int] = []
    previous: list[int] = []
    for number, (_, other) in enumerate(pairs):
        pile = bisect_left(ends, other)
        previous.append(at[pile - 1] if pile else -1)
        if pile == len(ends):
            ends.append(other)
            at.append(number)
        else:
            ends[pile], at[pile] = other, number
    chain = []
    number = at[-1] if at else -1
    while number >= 0:
        chain.append(pairs[number])
        number = previous[number]
    return chain[::-1]


def _once(items: list[int], low: int, high: int) -> dict[int, int]:
    """Return the index of every item of a range, -1 for those that occur more than once."""
    found: dict[int, int] = {}
    for index in range(low, high):
        item = items[index]
        found[item] = -1 if item in found else index
    return found


def _myers(old: list[int], new: list[int]) -> list[tuple[int, int]]:
    """Return the matches of a shortest edit script (Myers 1986), none if it is very long."""
    height, width = len(old), len(new)
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for steps in range(min(height + width, _MOST_STEPS) + 1):
        trace.append(dict(reach))
        for diagonal in range(-steps, steps + 1, 2):
            down = diagonal == -steps or (
                diagonal != steps and reach[diagonal - 1] < reach[diagonal + 1]
            )
            x = reach[diagonal + 1] if down else reach[diagonal - 1] + 1
            y = x - diagonal
            while x < height and y < width and old[x] == new[y]:
                x, y = x + 1, y + 1
            reach[diagonal] = x
            if x >= height and y >= width:
                return _walk_back(trace, height, width)
    return []


def _walk_back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    matches = []
    for steps in range(len(trace) - 1, -1, -1):
        reach, diagonal = trace[steps], x - y
        down = diagonal == -steps or (
            diagonal != steps and reach[diagonal - 1] < reach[diagonal + 1]
        )
        before = diagonal + 1 if down else diagonal - 1
        start_x = reach[before]
        start_y = start_x - before
        low = start_x if down else start_x + 1
        while x > low and y > 0:
            x, y = x - 1, y - 1
            matches.append((x, y))
        x, y = start_x, start_y
    return matches[::-1]


def _compacted(old: Sequence[Hashable], new: Sequence[Hashable], match: list[int]) -> list[int]:
    """Return an alignment in which runs of added or removed lines are joined and slid down.

    A run can slide where the line that leaves it equals the line that enters it. The same change
    made in two texts then has the same borders in both, whatever else differs between them.
    """
    removed = [partner < 0 for partner in match]
    added = [True] * len(new)
    for partner in match:
        if partner >= 0:
            added[partner] = False
    _slide(old, removed, _ranks(added))
    _slide(new, added, _ranks(removed))
    kept = iter([at for at, flag in enumerate(added) if not flag])
    return [-1 if flag else next(kept) for flag in removed]


def _ranks(changed: list[bool]) -> frozenset[int]:
    """Return after how many unchanged lines there is a changed one."""
    found = set()
    rank = 0
    for flag in changed:
        if flag:
            found.add(rank)
        else:
            rank += 1
    return frozenset(found)


def _slide(items: Sequence[Hashable], changed: list[bool], taken: frozenset[int]) -> None:
    """Slide each run of changed items up to join others, then down; ``taken`` ranks stay apart."""
    end = rank = 0
    while end < len(items):
        start = end
        if not changed[start]:
            end, rank = end + 1, rank + 1
            continue
        while end < len(items) and changed[end]:
            end += 1
        if rank in taken:
            continue
        size = 0
        while size != end - start:
            size = end - start
            while start and items[start - 1] == items[end - 1] and rank - 1 not in taken:
                start, end, rank = start - 1, end - 1, rank - 1
                changed[start], changed[end] = True, False
                while start and changed[start - 1]:
                    start -= 1
            while end < len(items) and items[start] == items[end] and rank + 1 not in taken:
                changed[start], changed[end] = False, True
                start, end, rank = start + 1, end + 1, rank + 1
                while end < len(items) and changed[end]:
                    end += 1


def edits(match: Sequence[int], length: int) -> list[Edit]:
    """Return the edits that an alignment leaves; ``length`` is that of the new text."""
    found = []
    old_at = new_at = 0
    for index, other in enumerate([*match, length]):
        if other < 0:
            continue
        if index > old_at or other > new_at:
            found.append(Edit((old_at, index), (new_at, other)))
        old_at, new_at = index + 1, other + 1
    return found


def regions(ours: Sequence[Edit], theirs: Sequence[Edit]) -> list[Region]:
    """Return what two sides did to one base, in order, overlapping and touching edits together."""
    found: list[Region] = []
    ours_at = theirs_at = 0
    shift_ours = shift_theirs = 0
    while ours_at < len(ours) or theirs_at < len(theirs):
        first_ours, first_theirs = ours_at, theirs_at
        low, high = _first(ours, ours_at, theirs, theirs_at)
        grown = True
        while grown:
            grown = False
            while ours_at < len(ours) and ours[ours_at].old[0] <= high:
                high = max(high, ours[ours_at].old[1])
                ours_at, grown = ours_at + 1, True
            while theirs_at < len(theirs) and theirs[theirs_at].old[0] <= high:
                high = max(high, theirs[theirs_at].old[1])
                theirs_at, grown = theirs_at + 1, True
        start_ours, start_theirs = low + shift_ours, low + shift_theirs
        shift_ours = _shift(ours, ours_at, shift_ours)
        shift_theirs = _shift(theirs, theirs_at, shift_theirs)
        found.append(
            Region(
                (low, high),
                (start_ours, high + shift_ours),
                (start_theirs, high + shift_theirs),
                ours_at > first_ours,
                theirs_at > first_theirs,
            )
        )
    return found


def _first(ours: Sequence[Edit], one: int, theirs: Sequence[Edit], other: int) -> Span:
    starts = [side[at].old for side, at in ((ours, one), (theirs, other)) if at < len(side)]
    return min(starts)[0], min(starts)[0]


def _shift(side: Sequence[Edit], at: int, default: int) -> int:
    """Return how far lines behind the edits before ``at`` have moved."""
    return side[at - 1].new[1] - side[at - 1].old[1] if at else default


def merge(
    ours: Sequence[bytes], theirs: Sequence[bytes], found: Sequence[Region]
) -> list[bytes] | None:
    """Return the merge by lines, ``None`` where both sides changed one region differently."""
    result: list[bytes] = []
    done = 0
    for region in found:
        result += ours[done : region.ours[0]]
        mine, other = ours[slice(*region.ours)], theirs[slice(*region.theirs)]
        if region.by_ours and region.by_theirs and list(mine) != list(other):
            return None
        result += other if region.by_theirs else mine
        done = region.ours[1]
    return result + list(ours[done:])
