"""What became of a change on a new release: one word, and the evidence for it.

A verdict is given per hunk, per file and per patch. Hunks are numbered as in the patch file, from
1. Evidence is made of finished sentences; a piece that holds a newline is text to show as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Verdict(Enum):
    """The outcomes of carrying a change to another release, harmless ones first.

    The order of definition is the order of severity: of several hunks the worst one speaks for the
    file, and of several files the worst one for the patch (see :func:`overall`).
    """

    CLEAN = "clean"
    MOVED = "moved"
    MERGED = "merged upstream"
    PARTLY = "partly merged"
    REFORMATTED = "reformatted"
    WOVEN = "woven"
    FOLLOWED = "followed"
    BROKEN = "broken"
    DISPLACED = "displaced"
    CONFLICT = "conflict"

    @property
    def severity(self) -> int:
        """Where the verdict stands in the order of severity, from 0."""
        return _SEVERITY[self]

    @property
    def stops(self) -> bool:
        """Whether a person has to decide before the rebase can go on."""
        return self in {Verdict.DISPLACED, Verdict.CONFLICT}

    @property
    def taken(self) -> bool:
        """Whether the change, or what is left of it, goes into the new series."""
        return not self.stops and self is not Verdict.MERGED

    @property
    def review(self) -> bool:
        """Whether the change is taken, but a person should read the result."""
        return self in {Verdict.WOVEN, Verdict.FOLLOWED, Verdict.BROKEN}

    def __str__(self) -> str:
        return self.value


_SEVERITY = {verdict: number for number, verdict in enumerate(Verdict)}


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a whole from those on its parts.

    A change is *merged upstream* only if all of it is; if some of it is and the rest is carried
    on without trouble, it is *partly merged*. Otherwise the worst part speaks for the whole. No
    parts at all make a clean change: an empty one.
    """
    parts = set(verdicts)
    if parts == {Verdict.MERGED}:
        return Verdict.MERGED
    worst = max(parts, key=lambda verdict: verdict.severity, default=Verdict.CLEAN)
    if Verdict.MERGED in parts and worst.severity < Verdict.PARTLY.severity:
        return Verdict.PARTLY
    return worst


@dataclass(frozen=True)
class Labels:
    """What the three sides are called between conflict markers."""

    base: str = "base"
    ours: str = "upstream"
    theirs: str = "patch"


@dataclass(frozen=True)
class HunkVerdict:
    """What became of one hunk.

    Attributes:
        number: as in the patch file, from 1.
        verdict: the outcome.
        symbol: the qualified name of the function or class that the hunk changes, "" for a module's
            top level, ``None`` where that is not known (not Python, or Python that does not parse).
        old_line: the first line that it changes, in the old file.
        new_line: that line in the new file after the change, or, for what is merged upstream, the
            first of upstream's lines that hold it; ``None`` where there is no such line.
        evidence: what the verdict rests on.
    """

    number: int
    verdict: Verdict
    symbol: str | None
    old_line: int
    new_line: int | None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileVerdict:
    """What became of a patch's change to one file.

    Attributes:
        path: where the file was in the old release.
        new_path: where it is in the new one; the same unless upstream renamed it.
        verdict: the outcome for the whole file.
        data: the file after the rebased patch; upstream's own bytes if all of it is merged
            upstream; ``None`` if it stops here, or if the patch deletes the file.
        hunks: one verdict a hunk.
        conflict: where it stops, the text with the three sides between markers; ``None`` otherwise.
        evidence: what concerns the file as a whole.
    """

    path: str
    new_path: str
    verdict: Verdict
    data: bytes | None
    hunks: tuple[HunkVerdict, ...] = ()
    conflict: bytes | None = None
    evidence: tuple[str, ...] = ()
