"""The text that a person gets to see, three sides between markers; and what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pseries.model import paths
from pseries.model.diff.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pseries.model.verdicts.align import Region, Span
    from pseries.model.verdicts.case import Case, Finding
    from pseries.model.verdicts.verdict import Labels

_SIZE = 7
"""Characters of a conflict marker; editors and rerere know markers of this size."""


def text(case: Case, findings: Sequence[Finding]) -> bytes:
    """Return upstream's text with what was taken, and markers around what stops."""
    stops = sorted(
        {finding.region.ours: finding for finding in findings if finding.verdict.stops}.items()
    )
    pieces: list[tuple[Span, list[bytes]]] = [
        (span, _marked(case, finding.region)) for span, finding in stops
    ]
    for finding in findings:
        splice = finding.splice
        if splice is not None and not any(_meet(splice.span, span) for span, _ in stops):
            pieces.append((splice.span, list(splice.lines)))
    result: list[bytes] = []
    done = 0
    for (low, high), lines in sorted(pieces, key=lambda piece: piece[0]):
        if low < done:
            continue
        result += [*case.ours.lines[done:low], *lines]
        done = high
    return b"".join([*result, *case.ours.lines[done:]])


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def shown(case: Case, region: Region) -> str:
    """Return a region with the three sides between markers, as git would show the conflict."""
    return text_of(b"".join(_marked(case, region)))


def text_of(data: bytes) -> str:
    """Return a piece of a file as text that can always be printed, odd bytes as escapes."""
    return data.decode("utf-8", "backslashreplace")


def _marked(case: Case, region: Region) -> list[bytes]:
    return marked(
        case.base.lines[slice(*region.base)],
        case.ours.lines[slice(*region.ours)],
        case.theirs.lines[slice(*region.theirs)],
        case.labels,
    )


def whole(base: bytes | None, ours: bytes | None, theirs: bytes | None, labels: Labels) -> bytes:
    """Return whole files between markers; an absent one is empty."""
    old, mine, other = (split_lines(side or b"") for side in (base, ours, theirs))
    return b"".join(marked(old, mine, other, labels))


def marked(
    base: Sequence[bytes], ours: Sequence[bytes], theirs: Sequence[bytes], labels: Labels
) -> list[bytes]:
    """Return three sides between markers, common first and last lines outside (``zdiff3``)."""
    shortest = min(len(ours), len(theirs))
    head = 0
    while head < shortest and ours[head] == theirs[head]:
        head += 1
    tail = 0
    while tail < shortest - head and ours[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    end = b"\r\n" if any(line.endswith(b"\r\n") for line in (*ours, *theirs)) else b"\n"
    inner = [
        *_side(b"<", labels.ours, ours[head : len(ours) - tail], end),
        *_side(b"|", labels.base, base, end),
        *_side(b"=", "", theirs[head : len(theirs) - tail], end),
        *_side(b">", labels.theirs, (), end),
    ]
    return [*ours[:head], *inner, *ours[len(ours) - tail :]]


def _side(mark: bytes, label: str, lines: Iterable[bytes], end: bytes) -> list[bytes]:
    named = mark * _SIZE + (b" " + paths.encode(label) if label else b"") + end
    return [named, *(line if line.endswith(b"\n") else line + end for line in lines)]


def is_marker(line: bytes) -> bool:
    """Say whether a line opens or closes a conflict or its base; ``=======`` alone says nothing."""
    return line.startswith((b"<<<<<<< ", b"||||||| ", b">>>>>>> "))


def has_markers(text: bytes) -> bool:
    """Say whether a text still holds a conflict marker of git."""
    return any(is_marker(line) for line in text.split(b"\n"))


def openings(text: bytes) -> list[int]:
    """Return the numbers of the lines that open a conflict."""
    lines = enumerate(text.split(b"\n"), 1)
    return [number for number, line in lines if line.startswith(b"<<<<<<< ")]
