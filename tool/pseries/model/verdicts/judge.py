"""What becomes of a patch's change to one file on another release.

The rule behind all of it: a change is taken only where every reading of the texts agrees on what
the result is, and dropped only where upstream's text can be pointed at that holds it. Everything
else stops, because a wrong result costs its finder days and a stop costs minutes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from pseries.model import paths, symbols
from pseries.model.diff.lines import split_lines
from pseries.model.verdicts import align, conflict, faults, held, reading, source, stretch
from pseries.model.verdicts.case import Case, Finding, renamed, symbol
from pseries.model.verdicts.reading import Splice
from pseries.model.verdicts.verdict import FileVerdict, HunkVerdict, Labels, Verdict, overall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pseries.model.diff.hunk import Hunk
    from pseries.model.verdicts.align import Region, Span
    from pseries.model.verdicts.reading import Reading
    from pseries.model.verdicts.source import Source

_BY_PLACE = frozenset({0, 2})
"""The readings that match lines function by function."""
_LIKE_GIT = 1
"""The reading that matches lines as git does."""
_AGREEMENT = 2
"""Readings that must merge a change alike before it counts as placed by its text."""


def judge(
    path: str,
    base: bytes | None,
    ours: bytes | None,
    theirs: bytes | None,
    *,
    merged: bytes | None,
    new_path: str | None = None,
    labels: Labels | None = None,
    hunks: Sequence[Hunk] = (),
    above: tuple[int, int] = (0, 0),
) -> FileVerdict:
    """Return the verdict on one file of a patch.

    Args:
        path: where the file is in the old release.
        base: the file as the patch finds it; ``None`` if the patch creates it.
        ours: the file in the new release, earlier patches made; ``None`` if there is none.
        theirs: the file as the patch leaves it; ``None`` if the patch deletes it.
        merged: git's merge, if that is clean; ``None`` if git sees a conflict.
        new_path: where the file is in the new release, if upstream renamed it.
        labels: what the three sides are called.
        hunks: the patch's hunks for this file, for their numbers; without them, the change is cut
            into hunks as git would.
        above: how many lines there are above the texts in the old and in the new file, if they are
            pieces of those.
    """
    new_path = new_path or path
    labels = labels or Labels()
    if base is None or ours is None or theirs is None:
        return _whole(path, new_path, (base, ours, theirs), labels)
    if base == theirs:
        verdict = Verdict.CLEAN if path == new_path else Verdict.MOVED
        return FileVerdict(path, new_path, verdict, ours)
    case = _case((path, new_path), (base, ours, theirs), merged, labels, hunks)
    case = replace(case, above=above)
    return _report(case, *_checked(case, _findings(case)))


def _case(
    names: tuple[str, str],
    sides: tuple[bytes, bytes, bytes],
    merged: bytes | None,
    labels: Labels,
    hunks: Sequence[Hunk],
) -> Case:
    python = all(map(source.is_python, names))
    base, ours, theirs = (source.read(side, python=python) for side in sides)
    if hunks:
        spans = [(hunk.first_old - 1, hunk.first_old - 1 + hunk.old_count) for hunk in hunks]
    else:
        spans = reading.hunk_spans(reading.edits_between(base, theirs, placed=True, upward=False))
    # The first reading speaks for the others: by function, downward. The second is what a diff
    # without knowledge of Python sees, the third takes every choice the other way.
    readings = tuple(
        reading.read(base, ours, theirs, spans, placed=placed, upward=upward)
        for placed, upward in ((True, False), (False, False), (True, True))
    )
    places = renamed(base, ours, readings[0].match) if python else {}
    return Case(*names, base, ours, theirs, merged, labels, tuple(spans), readings, places)


# --- files that are created or deleted --------------------------------------------------------


def _whole(
    path: str, new_path: str, sides: tuple[bytes | None, bytes | None, bytes | None], labels: Labels
) -> FileVerdict:
    """Judge a change in which one of the three files is absent."""
    base, ours, theirs = sides
    shown = paths.display(new_path)
    if theirs == ours:
        what = "upstream deleted it too" if ours is None else f"upstream's {shown} is the same file"
        return FileVerdict(path, new_path, Verdict.MERGED, ours, evidence=(what,))
    if base == ours:
        verdict = Verdict.CLEAN if path == new_path else Verdict.MOVED
        return FileVerdict(path, new_path, verdict, theirs)
    if base == theirs:
        return FileVerdict(path, new_path, Verdict.CLEAN, ours)
    if base is None and source.is_python(path) and symbols.same_program(ours or b"", theirs or b""):
        what = f"upstream's {shown} has the same syntax tree"
        return FileVerdict(path, new_path, Verdict.MERGED, ours, evidence=(what,))
    if base is None:
        what = f"upstream has added another {shown}"
    elif ours is None:
        what = f"upstream has deleted {paths.display(path)}, which the patch changes"
    else:
        what = f"upstream has changed {shown}, which the patch deletes"
    text = conflict.whole(base, ours, theirs, labels)
    return FileVerdict(path, new_path, Verdict.CONFLICT, None, conflict=text, evidence=(what,))


# --- the regions --------------------------------------------------------------------------------


def _findings(case: Case) -> list[Finding]:
    whole = [reading.splices(one.regions, case.ours, case.theirs) for one in case.readings]
    texts = [reading.spliced(case.ours.lines, made) for made in whole if made is not None]
    first = case.readings[0]
    if len(texts) == len(whole) and all(text == texts[0] for text in texts):
        found = [_placed(case, first, region, certain=True) for region in first.regions]
    else:
        found = []
        for unit in reading.units(case.readings):
            found += _unit(case, unit)
    return held.check_twice(case, _without_covered(found))


def _unit(case: Case, unit: Sequence[Sequence[Region]]) -> list[Finding]:
    """Judge regions that are about the same lines: by the readings' agreement, else one by one."""
    made = [reading.splices(regions, case.ours, case.theirs) for regions in unit]
    votes = [number for number, splices in enumerate(made) if splices is not None]
    first = case.readings[0]
    for number in votes:
        if made[number] == [] and unit[number] and (number == 0 or 0 not in votes):
            certain = number == 0 and not any(made)
            return [
                _placed(case, case.readings[number], region, certain=certain)
                for region in unit[number]
            ]
    chosen = _agreed(case, unit, made)
    if chosen is not None:
        woven = case.merged is None and _LIKE_GIT not in votes
        return [
            _placed(case, case.readings[chosen], region, certain=True, woven=woven)
            for region in unit[chosen]
        ]
    if not unit[0]:
        number = next(number for number, regions in enumerate(unit) if regions)
        return [_ambiguous(case.readings[number], region) for region in unit[number]]
    if 0 in votes:
        return [_ambiguous(first, region) for region in unit[0]]
    return [_either(case, region) for region in unit[0]]


def _agreed(
    case: Case, unit: Sequence[Sequence[Region]], made: Sequence[list[Splice] | None]
) -> int | None:
    """Return the reading to go by, ``None`` if those that see no conflict disagree.

    A conflict in one of the readings by place is no objection if the change is at the same lines
    there: then only upstream's lines have slid beside it.
    """
    votes = [number for number, splices in enumerate(made) if splices is not None]
    counted = votes
    if case.merged is not None and set(votes) >= _BY_PLACE:
        counted = sorted(_BY_PLACE)  # git itself speaks instead of the reading that is like git's
    if len(counted) < _AGREEMENT:
        return None
    texts = [reading.spliced(case.ours.lines, made[number] or ()) for number in counted]
    if not held.alike(case, texts):
        return None
    chosen = min(_BY_PLACE & set(votes))
    other = case.readings[min(_BY_PLACE - {chosen})]
    if set(votes) >= _BY_PLACE or all(
        _steady(case, case.readings[chosen], other, region) for region in unit[chosen]
    ):
        return chosen
    return None


def _steady(case: Case, one: Reading, other: Reading, region: Region) -> bool:
    """Say whether a region that merges by one reading is at the same lines by another."""
    low, high = region.base
    if low < high:
        return one.match[low:high] == other.match[low:high]
    beside = [at for at in (low - 1, low) if 0 <= at < len(case.base.lines)]
    return any(
        one.match[at] == other.match[at] and align.solid(case.base.lines[at]) for at in beside
    )


def _either(case: Case, region: Region) -> Finding:
    """Judge a region of a unit in which something clashes, though perhaps not this region."""
    first, *_, upward = case.readings
    if reading.splices([region], case.ours, case.theirs) is None:
        return stretch.judge(case, first, region)
    if not region.by_ours and not _steady(case, first, upward, region):
        return _ambiguous(first, region)
    return _placed(case, first, region, certain=False)


def _placed(
    case: Case, one: Reading, region: Region, *, certain: bool, woven: bool = False
) -> Finding:
    """Judge a region that merges by lines; ``woven`` if it does not for git."""
    hunks = one.numbers(region)
    if region.by_ours:
        return held.identical(case, one, region, hunks, certain=certain)
    finding = Finding(one, region, hunks, Verdict.CLEAN)
    if not _anchored(case, one, region):
        return held.stopped(finding, "no line around it says where it belongs")
    if (place := _displaced(case, one, region)) is not None:
        return held.stopped(finding, place, Verdict.DISPLACED)
    lines = case.theirs.lines[slice(*region.theirs)]
    finding = replace(finding, splice=Splice(region.ours, lines, region.theirs))
    if woven:
        why = "git sees a conflict; with lines matched function by function there is none"
        return replace(finding, verdict=Verdict.WOVEN, evidence=(why,))
    return _moved(case, finding)


def _moved(case: Case, finding: Finding) -> Finding:
    old, new = case.old_line(finding.region.base[0]), case.new_line(finding.region.ours[0])
    evidence = []
    if case.path != case.new_path:
        evidence.append(f"from {paths.display(case.path)}:{old} to {case.shown}:{new}")
    elif old != new:
        evidence.append(f"from line {old} to line {new}")
    for place in sorted(_places(case, finding)):
        if case.now(place) != place:
            evidence.append(f"{source.symbol(place)} is now {source.symbol(case.now(place))}")
    verdict = Verdict.MOVED if evidence else Verdict.CLEAN
    return replace(finding, verdict=verdict, evidence=(*finding.evidence, *evidence))


def _places(case: Case, finding: Finding) -> frozenset[str]:
    region = finding.region
    return case.theirs.places_in(region.theirs) | case.base.places_in(region.base)


def _ambiguous(one: Reading, region: Region) -> Finding:
    finding = Finding(one, region, one.numbers(region), Verdict.CONFLICT)
    return held.stopped(
        finding, "the text alone does not say where it belongs: equal lines stand in several places"
    )


def _anchored(case: Case, one: Reading, region: Region) -> bool:
    """Say whether a line that says something is removed, or stands among those beside a region.

    In a rewritten file brackets and blank lines find partners anywhere.
    """
    (low, high), (start, end) = region.base, region.ours
    lines = case.base.lines
    if low == 0 or high == len(lines) or any(map(align.solid, lines[low:high])):
        return True
    for step, first, other in ((-1, low - 1, start - 1), (1, high, end)):
        at, partner = first, other
        while 0 <= at < len(lines) and one.match[at] == partner:
            if align.solid(lines[at]):
                return True
            at, partner = at + step, partner + step
    return False


def _displaced(case: Case, one: Reading, region: Region) -> str | None:
    """Say where removed lines stand now, if that is another symbol than before."""
    if case.base.outline is None or case.ours.outline is None:
        return None
    for at in range(*region.base):
        old, new = case.base.places[at], case.ours.places[one.match[at]]
        if case.base.lines[at].strip() and case.now(old) != new:
            return _other_symbol(old, new)
    return None


def _other_symbol(old: str, new: str) -> str:
    was, now = (place or "the module's top level" for place in (old, new))
    return f"applies as text, but in {now}; it was in {was}"


def _without_covered(findings: Sequence[Finding]) -> list[Finding]:
    """Take out what a larger stretch already holds, and stop where two stretches overlap."""
    hulls = [finding.hull for finding in findings if finding.hull is not None]
    result: list[Finding] = []
    seen: set[Span] = set()
    for finding in findings:
        low, high = finding.hull or finding.region.base
        others = [hull for hull in hulls if hull[0] <= high and low <= hull[1]
                  and hull != finding.hull]  # fmt: skip
        partly = [hull for hull in others if not (hull[0] <= low and high <= hull[1])
                  and not (low <= hull[0] and hull[1] <= high)]  # fmt: skip
        inside = any(hull[0] <= low and high <= hull[1] for hull in others)
        if partly and finding.hull is not None:
            result.append(held.stopped(finding, "it hangs together with another hunk that changed"))
        elif finding.splice is not None and (inside or finding.hull in seen):
            result.append(replace(finding, splice=None))
        else:
            result.append(finding)
        if finding.hull is not None:
            seen.add(finding.hull)
    return result


# --- the whole file ---------------------------------------------------------------------------


def _result(case: Case, findings: Sequence[Finding]) -> bytes:
    made = sorted(
        (finding.splice for finding in findings if finding.splice is not None),
        key=lambda splice: splice.span,
    )
    return b"".join(reading.spliced(case.ours.lines, made))


def _checked(case: Case, findings: list[Finding]) -> tuple[list[Finding], bytes]:
    """Compare the result with git's, and look at it as a program."""
    data = _result(case, findings)
    if case.merged is not None:
        findings, data = _beside_git(case, findings, data, case.merged)
    result = source.read(data, python=case.ours.outline is not None)
    if result.outline is None or any(finding.verdict.stops for finding in findings):
        woven = {Verdict.WOVEN, Verdict.REFORMATTED}
        if case.ours.outline is not None and result.outline is None:
            findings = [
                held.stopped(finding, "merged by words it does not compile")
                if finding.verdict in woven
                else finding
                for finding in findings
            ]
        return findings, data
    return _as_program(case, findings, result), data


def _beside_git(
    case: Case, findings: list[Finding], data: bytes, merged: bytes
) -> tuple[list[Finding], bytes]:
    """Let git's merge agree or object; where both come to the same, its bytes are taken."""
    if any(finding.verdict.stops for finding in findings):
        findings = [_by_git(case, finding, merged) for finding in findings]
    stops = any(finding.verdict.stops for finding in findings)
    if stops or data == merged or all(one.verdict is Verdict.MERGED for one in findings):
        return findings, data
    if held.alike(case, [split_lines(data), split_lines(merged)]):
        return findings, data
    if _only_again(case, findings, data, merged):
        return findings, data
    why = "git merges it to another text: equal lines stand in several places"
    return [_by_git(case, held.stopped(finding, why), merged) for finding in findings], data


def _only_again(case: Case, findings: Sequence[Finding], data: bytes, merged: bytes) -> bool:
    """Say whether git's merge differs only in that it makes again what is merged upstream."""
    edits = [edit for one in findings if one.verdict is Verdict.MERGED for edit in one.edits()]
    added = {case.theirs.lines[at] for edit in edits for at in range(*edit.new)}
    removed = {case.base.lines[at] for edit in edits for at in range(*edit.old)}
    mine, its = split_lines(data), split_lines(merged)
    changes = align.edits(align.align(mine, its), len(its))
    return bool(edits) and all(
        set(its[slice(*edit.new)]) <= added and set(mine[slice(*edit.old)]) <= removed
        for edit in changes
    )


def _by_git(case: Case, finding: Finding, merged: bytes) -> Finding:
    """Call a change displaced if git, without a conflict, puts its lines into another symbol."""
    if finding.verdict is not Verdict.CONFLICT or case.theirs.outline is None:
        return finding
    if merged == case.ours.data:
        return held.by_git(case, finding)
    result = source.read(merged, python=True)
    lines = split_lines(merged)
    put: dict[bytes, set[str]] = {}
    for edit in align.edits(align.align(case.ours.lines, lines), len(lines)):
        for at in range(*edit.new):
            put.setdefault(lines[at].strip(), set()).add(result.places[at])
    for edit in finding.edits():
        for at in range(*edit.new):
            line, place = case.theirs.lines[at].strip(), case.theirs.places[at]
            there = put.get(line)
            if there and align.solid(line) and case.now(place) not in there:
                why = _other_symbol(place, min(there))
                return replace(
                    finding, verdict=Verdict.DISPLACED, evidence=(why, *finding.evidence)
                )
    return finding


def _as_program(case: Case, findings: list[Finding], result: Source) -> list[Finding]:
    """Stop what stands in another symbol than in the patch, or defines something twice."""
    twice = _defined_twice(case, result)
    if twice is not None:
        return [
            finding if finding.splice is None else held.stopped(finding, twice)
            for finding in findings
        ]
    shift = 0
    checked: dict[int, Finding] = {}
    order = [at for at, finding in enumerate(findings) if finding.splice is not None]
    order.sort(key=lambda at: findings[at].splice.span)  # type: ignore[union-attr]
    for at in order:
        finding = findings[at]
        splice = finding.splice
        assert splice is not None  # noqa: S101 - chosen so above
        start = splice.span[0] + shift
        shift += len(splice.lines) - (splice.span[1] - splice.span[0])
        checked[at] = _in_symbol(case, finding, splice, result, start)
    findings = [checked.get(at, finding) for at, finding in enumerate(findings)]
    return [_runs(case, finding, result) for finding in findings]


def _in_symbol(case: Case, finding: Finding, splice: Splice, result: Source, start: int) -> Finding:
    if splice.theirs is None:
        known = result.places_in((start, start + len(splice.lines)))
        changed = [case.theirs.places_in(edit.new) for edit in finding.edits()]
        must = {case.now(place) for places in changed for place in places}
        may = {case.now(place) for place in case.theirs.names()} | case.ours.places_in(splice.span)
        if must <= known <= may and _lines_in_place(case, finding, splice, result, start):
            return finding
        return held.stopped(finding, "merged by words it stands in another symbol")
    for offset, line in enumerate(splice.lines):
        place, there = case.theirs.places[splice.theirs[0] + offset], result.places[start + offset]
        if line.strip() and case.now(place) != there:
            return held.stopped(finding, _other_symbol(place, there), Verdict.DISPLACED)
    return finding


def _lines_in_place(
    case: Case, finding: Finding, splice: Splice, result: Source, start: int
) -> bool:
    """Say whether those lines of the patch that were merged as they are stand in their symbol."""
    there: dict[bytes, set[str]] = {}
    for offset, line in enumerate(splice.lines):
        there.setdefault(line.strip(), set()).add(result.places[start + offset])
    added = (at for edit in finding.edits() for at in range(*edit.new))
    return all(
        case.now(case.theirs.places[at])
        in there.get(line.strip(), {case.now(case.theirs.places[at])})
        for at in added
        if align.solid(line := case.theirs.lines[at])
    )


def _runs(case: Case, finding: Finding, result: Source) -> Finding:
    """Stop what was merged by words unless the whole compiles and every name is still there."""
    if finding.verdict is not Verdict.WOVEN:
        return finding
    fault = faults.compile_error(result.data)
    if fault is not None:
        return held.stopped(finding, f"merged by words it does not compile: {fault[1]}")
    known = {use.name for side in (case.ours, case.theirs) for use in faults.undefined(side.data)}
    missing = sorted({use.name for use in faults.undefined(result.data)} - known)
    if missing:
        return held.stopped(finding, f"merged by words it uses {missing[0]!r}, which is gone")
    return finding


def _defined_twice(case: Case, result: Source) -> str | None:
    """Say what the result defines more often than either side: both added it."""
    count = [Counter(scope.name for scope in side.outline.scopes) if side.outline else Counter()
             for side in (result, case.ours, case.theirs)]  # fmt: skip
    for name, times in count[0].items():
        if times > max(1, count[1][name], count[2][name]):
            return f"both define {source.symbol(name)}: it would be there {times} times"
    return None


# --- the report -------------------------------------------------------------------------------


def _report(case: Case, findings: Sequence[Finding], data: bytes) -> FileVerdict:
    known = [_hunk(case, number, findings) for number in range(1, len(case.spans) + 1)]
    verdict = overall(hunk.verdict for hunk in known)
    evidence: tuple[str, ...] = ()
    if verdict.stops:
        text = conflict.text(case, findings)
        return FileVerdict(case.path, case.new_path, verdict, None, tuple(known), text)
    fault = None
    if case.ours.outline is not None and source.outline_of(data) is None:
        fault = faults.compile_error(data)
    if fault is not None:
        verdict = Verdict.BROKEN
        evidence = (f"{case.shown}:{case.new_line(fault[0] - 1)}: does not compile: {fault[1]}",)
    return FileVerdict(case.path, case.new_path, verdict, data, tuple(known), None, evidence)


def _hunk(case: Case, number: int, findings: Sequence[Finding]) -> HunkVerdict:
    low = case.spans[number - 1][0]
    # the edits of a hunk among equal lines may have slid to another one's, which then speaks for it
    nearest = min(findings, key=lambda finding: abs(finding.region.base[0] - low))
    mine = [finding for finding in findings if number in finding.hunks] or [nearest]
    first = min(mine, key=lambda finding: finding.region.base)
    evidence = dict.fromkeys(piece for finding in mine for piece in finding.evidence)
    return HunkVerdict(
        number,
        overall(finding.verdict for finding in mine),
        symbol(case, first),
        case.old_line(first.region.base[0]),
        _new_line(case, first, findings),
        tuple(evidence),
    )


def _new_line(case: Case, finding: Finding, findings: Sequence[Finding]) -> int | None:
    if finding.splice is None:
        return finding.line
    low = finding.splice.span[0]
    before = (one.splice for one in findings if one.splice is not None and one.splice.span[0] < low)
    shift = sum(len(splice.lines) - (splice.span[1] - splice.span[0]) for splice in before)
    return case.new_line(low + shift)
