"""One file of a patch on its way to another release: the three sides, and what was found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pseries.model import paths
from pseries.model.verdicts import align, source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pseries.model.verdicts.align import Edit, Region, Span
    from pseries.model.verdicts.reading import Reading, Splice
    from pseries.model.verdicts.source import Source
    from pseries.model.verdicts.verdict import Labels, Verdict

_LIKENESS = 0.6
"""Share of its lines that a function or class must have in common with its renamed self."""
_LEAD = 0.1
"""By how much the renamed self must be more like it than anything else is."""


@dataclass(frozen=True, slots=True)
class Case:
    """The three sides of one file, the ways to read them, and what they are called.

    ``spans`` are the lines of the base that each hunk is about; ``renamed`` are the places that
    upstream renamed, as far as that can be shown. ``above`` are the lines above the texts in the
    old and in the new file, where they are pieces of those.
    """

    path: str
    new_path: str
    base: Source
    ours: Source
    theirs: Source
    merged: bytes | None
    labels: Labels
    spans: tuple[Span, ...]
    readings: tuple[Reading, ...]
    renamed: Mapping[str, str]
    above: tuple[int, int] = (0, 0)

    @property
    def shown(self) -> str:
        """The path in the new release, as text that can be printed."""
        return paths.display(self.new_path)

    def old_line(self, at: int) -> int:
        """Return the number, in the old file, of a line of the base."""
        return at + 1 + self.above[0]

    def new_line(self, at: int) -> int:
        """Return the number, in the new file, of a line of ours."""
        return at + 1 + self.above[1]

    def now(self, place: str) -> str:
        """Return what a place of the old release is called in the new one."""
        parts = place.split(".")
        for length in range(len(parts), 0, -1):
            known = self.renamed.get(".".join(parts[:length]))
            if known is not None:
                return ".".join([known, *parts[length:]])
        return place


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one region.

    Attributes:
        reading: the reading that the region is one of.
        region: what a person is shown if it stops.
        hunks: the numbers of the hunks concerned.
        verdict: the outcome.
        evidence: why.
        splice: what goes into upstream's text; ``None`` if nothing does.
        line: the first of upstream's lines that hold the change, from 1.
        hull: the lines of the base that were merged together, where that is more than the region.
    """

    reading: Reading
    region: Region
    hunks: frozenset[int]
    verdict: Verdict
    evidence: tuple[str, ...] = ()
    splice: Splice | None = None
    line: int | None = None
    hull: Span | None = field(default=None)

    def edits(self) -> Iterator[Edit]:
        """Yield the patch's edits in the region."""
        for edit in self.reading.theirs:
            if self.region.base[0] <= edit.old[0] and edit.old[1] <= self.region.base[1]:
                yield edit


def renamed(base: Source, ours: Source, match: Sequence[int]) -> dict[str, str]:
    """Return the functions and classes that upstream renamed: old name to new, outermost only.

    Shown by their lines: the old name is gone and the new one was not there before, most of their
    lines are the same and stand where they stood, and no other scope is about as much like either.
    """
    there, here = base.names(), ours.names()
    if there <= here or here <= there:
        return {}
    old_scopes, new_scopes = _outermost(base, here), _outermost(ours, there)
    new = {name: scope for name, scope in new_scopes.items() if name not in there}
    likeness = {
        (old, name): 2 * (one & other).total() / max(1, one.total() + other.total())
        for old, (_, one) in old_scopes.items()
        for name, (_, other) in new.items()
    }
    found = {}
    for (old, name), best in likeness.items():
        if old in here or best < _LIKENESS:
            continue
        rivals = [
            other for pair, other in likeness.items()
            if pair != (old, name) and (pair[0] == old or pair[1] == name)
        ]  # fmt: skip
        inside = [match[at] for at in range(*old_scopes[old][0]) if match[at] >= 0]
        low, high = new[name][0]
        stayed = sum(low <= at < high for at in inside)
        if best - max(rivals, default=0) >= _LEAD and 2 * stayed > len(inside):
            found[old] = name
    return found


def _outermost(side: Source, known: frozenset[str]) -> dict[str, tuple[Span, Counter[bytes]]]:
    """Return the lines, counted, of scopes; of one that is not ``known`` nothing that it holds."""
    found: dict[str, tuple[Span, Counter[bytes]]] = {}
    end = 0
    for scope in side.outline.scopes if side.outline else ():
        if scope.first <= end:
            continue
        span = scope.first - 1, scope.last
        lines = (side.lines[at].strip() for at in range(*span))
        found[scope.name] = span, Counter(filter(align.solid, lines))
        if scope.name not in known:
            end = scope.last
    return found


def symbol(case: Case, finding: Finding) -> str | None:
    """Return the qualified name of what a region changes, as the patch's side has it."""
    if case.theirs.outline is None or case.base.outline is None:
        return None
    places: set[str] = set()
    for edit in finding.edits():
        places |= case.theirs.places_in(edit.new) or case.base.places_in(edit.old)
    if not places:
        return None
    common, *others = (source.symbol(place).split(".") for place in places)
    for other in others:
        same = [one == two for one, two in zip(common, other, strict=False)]
        common = common[: same.index(False) if False in same else len(same)]
    return ".".join(common)
