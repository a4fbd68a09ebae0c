"""Whether upstream holds a change already, and whether it would be made a second time."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from pseries.model import symbols
from pseries.model.verdicts import align, conflict, source
from pseries.model.verdicts.case import Finding
from pseries.model.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pseries.model.verdicts.align import Edit, Region, Span
    from pseries.model.verdicts.case import Case
    from pseries.model.verdicts.reading import Reading
    from pseries.model.verdicts.source import Source

_MOST = 0.5
"""Share of a change's lines that looks like the whole of it when upstream has added them."""
_NAME = re.compile(rb"[A-Za-z_]\w*")

Lines = Counter[tuple[str, bytes]]
"""How often a line, its indentation aside, stands in a place."""


def alike(case: Case, texts: Sequence[Sequence[bytes]]) -> bool:
    """Say whether merges come to the same: equal text but for blank lines, or the same program.

    Of changes to comments syntax trees say nothing; there the text decides.
    """
    first, *others = ([line for line in text if line.strip()] for text in texts)
    if all(other == first for other in others):
        return True
    if case.ours.outline is None:
        return False
    program, *rest = (b"".join(text) for text in texts)
    return not symbols.same_program(program, case.ours.data) and all(
        symbols.same_program(program, other) for other in rest
    )


# --- the same change on both sides ------------------------------------------------------------


def identical(
    case: Case, reading: Reading, region: Region, hunks: frozenset[int], *, certain: bool
) -> Finding:
    """Judge a region that both sides made the same; ``certain`` if all readings say so."""
    finding = Finding(reading, region, hunks, Verdict.MERGED, line=case.new_line(region.ours[0]))
    telling = any(map(align.solid, case.theirs.lines[slice(*region.theirs)]))
    if not certain and not telling:
        return stopped(finding, "upstream changed it the same way, here or at a look-alike place")
    if case.ours.outline is not None and case.theirs.outline is not None:
        expected = {case.now(place) for place in case.theirs.places_in(region.theirs)}
        if expected != case.ours.places_in(region.ours):
            return stopped(finding, "upstream has the same text, but in another function or class")
        if not telling and not _still_there(case, region.base):
            return stopped(finding, "the lines are gone, but so is what they were removed from")
    return replace(finding, evidence=(where(case, region.ours),))


def _still_there(case: Case, removed: Span) -> bool:
    """Say whether upstream has what lines were removed from, unless the patch removed it whole."""
    left = case.theirs.names()
    places = {place for place in case.base.places_in(removed) if place in left}
    return all(case.now(place) in case.ours.names() for place in places)


def contained(
    case: Case, reading: Reading, region: Region, hunks: frozenset[int]
) -> Finding | None:
    """Judge a region where upstream made the change and more: its lines must stand there."""
    finding = Finding(reading, region, hunks, Verdict.MERGED)
    found: list[Span] = []
    for edit in finding.edits():
        span = _held_at(case, reading, region, edit)
        if span is None:
            return None
        found.append(span)
    whole = found[0][0], found[-1][1]
    evidence = where(case, whole), conflict.shown(case, region)
    return replace(finding, line=case.new_line(whole[0]), evidence=evidence)


def by_git(case: Case, finding: Finding) -> Finding:
    """Judge a region anew where git's merge is upstream's own text, so that nothing is left of it.

    What git matched is not known, so the lines must tell: those added stand in the same symbol as
    often as in the patch, those removed not more often.
    """
    theirs, ours = _count(case.theirs), _count(case.ours)
    for edit in finding.edits():
        added, removed = _added(case, [edit]), _removed(case, [edit])
        if not added and not (removed and _still_there(case, edit.old)):
            return finding
        for place, line in added:
            if ours[place, line] < theirs[_then(case, (place, line))]:
                return finding
        for place, line in removed:
            if ours[case.now(place), line] > theirs[place, line]:
                return finding
    what = f"upstream's {case.shown} holds it: git merges it to upstream's own text"
    return replace(finding, verdict=Verdict.MERGED, evidence=(what,), line=None)


def _held_at(case: Case, reading: Reading, region: Region, edit: Edit) -> Span | None:
    """Return upstream's lines, within the region, that hold an edit by text."""
    if any(reading.match[at] >= 0 for at in range(*edit.old)):
        return None
    lines = case.theirs.lines[slice(*edit.new)]
    low, high = region.ours
    if not lines:
        return (low, high) if low == high and _removed_too(case, reading, edit) else None
    starts = [
        at for at in range(low, high - len(lines) + 1)
        if case.ours.lines[at : at + len(lines)] == lines
    ]  # fmt: skip
    if len(starts) != 1 or not any(map(telling, lines)):
        return None
    span = starts[0], starts[0] + len(lines)
    expected = {case.now(place) for place in case.theirs.places_in(edit.new)}
    return span if expected == case.ours.places_in(span) else None


def _removed_too(case: Case, reading: Reading, edit: Edit) -> bool:
    """Say whether upstream removed what the patch removes, in a symbol that goes on beside it."""
    places = case.base.places_in(edit.old)
    beside = [at for at in (edit.old[0] - 1, edit.old[1]) if 0 <= at < len(case.base.lines)]
    if not any(reading.match[at] >= 0 and case.base.places[at] in places for at in beside):
        return False
    return bool(_removed(case, [edit])) and not moved_instead(case, [edit])


def moved_instead(case: Case, edits: Iterable[Edit]) -> bool:
    """Say whether upstream has lines, elsewhere in their symbol, that the patch only removes."""
    removed = _removed(case, [edit for edit in edits if edit.new[0] == edit.new[1]])
    left, ours = _count(case.theirs), _count(case.ours)
    return any(ours[case.now(place), line] > left[place, line] for place, line in removed)


def where(case: Case, span: Span) -> str:
    """Say where upstream holds a change."""
    low, high = span
    if low == high:
        return f"upstream removed the same lines, before line {case.new_line(low)} of {case.shown}"
    if high - low == 1:
        return f"upstream line {case.new_line(low)} of {case.shown} holds it"
    return f"upstream lines {case.new_line(low)}-{case.new_line(high - 1)} of {case.shown} hold it"


def stopped(finding: Finding, why: str, verdict: Verdict = Verdict.CONFLICT) -> Finding:
    """Return the finding as one that stops."""
    evidence = (why, *finding.evidence)
    return replace(finding, verdict=verdict, splice=None, line=None, evidence=evidence)


# --- the same change made twice ---------------------------------------------------------------


def telling(line: bytes) -> bool:
    """Say whether a line has a word of its own: ``else:`` and ``return`` stand everywhere."""
    return any(not keyword.iskeyword(word.decode()) for word in _NAME.findall(line))


def check_twice(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """Stop every change whose lines upstream added, or removed, elsewhere in the same symbol.

    Such a change applies well and would be in the file twice.
    """
    if all(finding.splice is None for finding in findings):
        return list(findings)
    before, after = _count(case.base), _count(case.ours)
    for finding in findings:
        if finding.verdict is Verdict.MERGED:
            after.subtract(_added(case, finding.edits()))
            before.subtract(_removed(case, finding.edits()))
    checked = []
    for finding in findings:
        why = None if finding.splice is None else _twice(case, finding, before, after)
        checked.append(finding if why is None else stopped(finding, why))
    return checked


def _count(side: Source) -> Lines:
    both = zip(side.places, side.lines, strict=True)
    return Counter((place, line.strip()) for place, line in both)


def _added(case: Case, edits: Iterable[Edit]) -> Lines:
    return Counter(
        (case.now(case.theirs.places[at]), line.strip())
        for edit in edits
        for at in range(*edit.new)
        if telling(line := case.theirs.lines[at])
    )


def _removed(case: Case, edits: Iterable[Edit]) -> Lines:
    return Counter(
        (case.base.places[at], line.strip())
        for edit in edits
        for at in range(*edit.old)
        if telling(line := case.base.lines[at])
    )


def _twice(case: Case, finding: Finding, before: Lines, after: Lines) -> str | None:
    for edit in finding.edits():
        added, removed = _added(case, [edit]), _removed(case, [edit])
        fresh = added - Counter({(case.now(place), line): count
                                 for (place, line), count in removed.items()})  # fmt: skip
        seen = [key for key in fresh if after[key] > before[_then(case, key)]]
        if seen and len(seen) >= _MOST * len(fresh):
            return f"upstream added the same lines elsewhere in {_named(seen[0][0])}" + _at(
                case, seen[0]
            )
        if (
            edit.new[0] == edit.new[1]
            and removed
            and all(after[case.now(place), line] < before[place, line] for place, line in removed)
        ):
            return "upstream removed the same lines at another place in the same symbol"
    return None


def _named(place: str) -> str:
    return source.symbol(place) or "the module's top level"


def _then(case: Case, key: tuple[str, bytes]) -> tuple[str, bytes]:
    """Return the key of a line in the old release, where its place may have had another name."""
    for old, new in case.renamed.items():
        if key[0] == new:
            return old, key[1]
    return key


def _at(case: Case, key: tuple[str, bytes]) -> str:
    for at, line in enumerate(case.ours.lines):
        if (case.ours.places[at], line.strip()) == key:
            return f", at line {case.new_line(at)} of {case.shown}"
    return ""
