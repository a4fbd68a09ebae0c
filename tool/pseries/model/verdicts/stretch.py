"""A region that both sides changed: is the change in already, can it be woven, or does it stop?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pseries.model.diff.lines import split_lines
from pseries.model.verdicts import conflict, held, weave
from pseries.model.verdicts.case import Finding
from pseries.model.verdicts.reading import Splice
from pseries.model.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pseries.model.verdicts.align import Region, Span
    from pseries.model.verdicts.case import Case
    from pseries.model.verdicts.reading import Reading
    from pseries.model.verdicts.source import Source

_LONGEST = 600
"""Lines of a stretch that is looked at as a whole; more is a rewritten file."""
_MOST_BLOCKS = 4
"""How many blocks around a region are tried when the region is no piece of Python by itself."""

_VERDICTS = {
    weave.Weave.HELD: Verdict.MERGED,
    weave.Weave.LAYOUT: Verdict.REFORMATTED,
    weave.Weave.WOVEN: Verdict.WOVEN,
}


def judge(case: Case, reading: Reading, region: Region) -> Finding:
    """Judge a region whose two sides differ."""
    hunks = reading.numbers(region)
    found = held.contained(case, reading, region, hunks) or _woven(case, reading, region, hunks)
    if found is not None:
        return found
    evidence = (_clash(case, region), conflict.shown(case, region))
    return Finding(reading, region, hunks, Verdict.CONFLICT, evidence)


def _clash(case: Case, region: Region) -> str:
    if region.ours[0] == region.ours[1]:
        where = f"before line {case.new_line(region.ours[0])} of {case.shown}"
        return f"the lines that it changes are gone, {where}:"
    return f"both changed {_lines(case, region.ours)} of {case.shown}:"


def _woven(case: Case, reading: Reading, region: Region, hunks: frozenset[int]) -> Finding | None:
    sides = case.base, case.ours, case.theirs
    if any(side.outline is None for side in sides):
        return None
    finding = Finding(reading, region, hunks, Verdict.CONFLICT)
    for hull in _hulls(case, reading, region):
        stretches = [
            b"".join(side.lines[slice(*span)]) for side, span in zip(sides, hull, strict=True)
        ]
        try:
            result = weave.weave(*stretches)
        except weave.Unreadable:
            continue
        if result is None:
            return None
        if result.how is weave.Weave.HELD and held.moved_instead(case, finding.edits()):
            return None
        return _found(case, finding, hull, result)
    return None


def _found(
    case: Case, finding: Finding, hull: tuple[Span, Span, Span], result: weave.Woven
) -> Finding:
    ours, sides = finding.region.ours, conflict.shown(case, finding.region)
    finding = replace(finding, verdict=_VERDICTS[result.how], hull=hull[0])
    if result.how is weave.Weave.HELD:
        why = (
            f"{held.where(case, ours)}: with the patch's side merged in, the syntax tree is "
            "upstream's own. By lines it is a conflict:"
        )
        return replace(finding, line=case.new_line(ours[0]), evidence=(why, sides))
    what = "both changed other words of"
    if result.how is weave.Weave.LAYOUT:
        what = "upstream changed layout and comments only at"
    why = f"{what} {_lines(case, ours)} of {case.shown}. By lines it is a conflict:"
    evidence = (why, sides, "merged by words it is:", conflict.text_of(result.text))
    return replace(
        finding, evidence=evidence, splice=Splice(hull[1], tuple(split_lines(result.text)))
    )


def _lines(case: Case, span: Span) -> str:
    low, high = span
    first = case.new_line(low)
    return f"line {first}" if high - low <= 1 else f"lines {first}-{case.new_line(high - 1)}"


# --- how much has to be looked at together ----------------------------------------------------


def _hulls(case: Case, reading: Reading, region: Region) -> Iterator[tuple[Span, Span, Span]]:
    """Yield ever larger stretches around a region, as spans of base, upstream and patch.

    Each begins and ends between logical lines, where all three sides run in parallel.
    """
    outline = case.base.outline
    blocks = [] if outline is None else [
        block for block in outline.blocks
        if block[0] <= region.base[0] and region.base[1] <= block[1]
    ]  # fmt: skip
    last = None
    for low, high in [region.base, *blocks[: -_MOST_BLOCKS - 1 : -1]]:
        hull = _cut(case, reading, low, high)
        if hull is not None and hull != last and hull[0][1] - hull[0][0] <= _LONGEST:
            yield hull
        last = hull


def _cut(case: Case, reading: Reading, low: int, high: int) -> tuple[Span, Span, Span] | None:
    starts = _start(case, reading, low)
    while starts is None and low > 0:
        low -= 1
        starts = _start(case, reading, low)
    ends = _end(case, reading, high)
    while ends is None and high < len(case.base.lines):
        high += 1
        ends = _end(case, reading, high)
    if starts is None or ends is None:
        return None
    return (low, high), (starts[0], ends[0]), (starts[1], ends[1])


def _start(case: Case, reading: Reading, at: int) -> tuple[int, int] | None:
    """Return where both sides stand behind line ``at - 1`` of the base, if there is a cut."""
    one, two = (0, 0) if not at else (reading.match[at - 1] + 1, reading.kept[at - 1] + 1)
    if at and not (one and two and _steady(case, reading, at - 1)):
        return None
    return _between_lines(case, at, one, two)


def _end(case: Case, reading: Reading, at: int) -> tuple[int, int] | None:
    """Return where both sides stand before line ``at`` of the base, if there is a cut."""
    if at == len(case.base.lines):
        return len(case.ours.lines), len(case.theirs.lines)
    one, two = reading.match[at], reading.kept[at]
    if one < 0 or two < 0 or not _steady(case, reading, at):
        return None
    return _between_lines(case, at, one, two)


def _steady(case: Case, reading: Reading, at: int) -> bool:
    """Say whether the readings that decide ties the other way see a line at the same place."""
    return all(
        other.match[at] == reading.match[at] and other.kept[at] == reading.kept[at]
        for other in (case.readings[0], case.readings[-1])
    )


def _between_lines(case: Case, at: int, one: int, two: int) -> tuple[int, int] | None:
    cuts: list[tuple[Source, int]] = [(case.base, at), (case.ours, one), (case.theirs, two)]
    for side, cut in cuts:
        if side.outline is not None and cut in side.outline.inside:
            return None
    return one, two
