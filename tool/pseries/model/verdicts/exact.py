"""The short way for a change that leaves no room for doubt: every hunk fits, exactly and once.

Most files of a patch either did not change upstream or changed elsewhere. For those the rule of
``apply --accept-drift`` is enough: all lines of each hunk, context included, stand in upstream's
file exactly once, in the function or class that the lock recorded; what the hunk puts there does
not; and git comes to the same bytes. Whatever is not as plain goes to
:mod:`pseries.model.verdicts.judge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pseries.model import symbols
from pseries.model.diff import splice
from pseries.model.diff.lines import split_lines
from pseries.model.verdicts import source
from pseries.model.verdicts.verdict import FileVerdict, HunkVerdict, Verdict, overall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pseries.model.diff.hunk import Hunk

_LEAST = 2
"""Lines around a change that say something: a single one, or blank ones, may be there by chance."""


def fit(
    paths: tuple[str, str],
    ours: bytes,
    merged: bytes,
    hunks: Sequence[Hunk],
    recorded: Sequence[str | None],
) -> FileVerdict | None:
    """Return the verdict on a file whose hunks all fit exactly, ``None`` if there is any doubt.

    Args:
        paths: where the file is in the old release and in the new one.
        ours: the file in the new release.
        merged: git's merge, without a conflict.
        hunks: the patch's.
        recorded: the symbol of each hunk as the lock recorded it.
    """
    if len(recorded) != len(hunks):
        return None
    lines = split_lines(ours)
    placed = splice.placed(lines, hunks, recorded=False)
    if isinstance(placed, splice.Unplaced) or not all(_is_plain(lines, hunk) for hunk in hunks):
        return None
    if splice.apply(ours, placed) != merged:
        return None
    python = source.is_python(paths[1])
    scopes = symbols.scopes_in(merged) if python else None
    if python and scopes is None:
        return None
    verdicts = []
    for number, (old, new) in enumerate(zip(hunks, placed, strict=True), 1):
        symbol = None
        if scopes is not None:
            added = splice.added_lines(new)  # what only removes leaves no line to look up
            symbol = None if added is None else symbols.enclosing(scopes, *added)
            if symbol is None or symbol != recorded[number - 1]:
                return None
        verdicts.append(_verdict(number, old, new, paths, symbol))
    worst = overall(each.verdict for each in verdicts)
    return FileVerdict(*paths, worst, merged, tuple(verdicts))


def _is_plain(lines: Sequence[bytes], hunk: Hunk) -> bool:
    """Say whether a hunk's lines say something, and what it makes of them is not there yet."""
    before = split_lines(hunk.before)
    if sum(any(map(str.isalnum, line.decode("latin-1"))) for line in before) < _LEAST:
        return False
    return not hunk.added or not splice.occurrences(lines, split_lines(hunk.after))


def _verdict(
    number: int, old: Hunk, new: Hunk, paths: tuple[str, str], symbol: str | None
) -> HunkVerdict:
    was, now = old.first_old + old.leading, new.first_old + new.leading
    evidence: tuple[str, ...] = ()
    if paths[0] != paths[1]:
        evidence = (f"from {paths[0]}:{was} to {paths[1]}:{now}",)
    elif was != now:
        evidence = (f"from line {was} to line {now}",)
    verdict = Verdict.MOVED if evidence else Verdict.CLEAN
    return HunkVerdict(number, verdict, symbol, was, new.first_new + new.leading, evidence)
