"""Which patch each line of a file comes from, and which patches a patch therefore needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.model.diff import splice
from pseries.model.diff.lines import split_lines
from pseries.model.diff.patch import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.model.diff.hunk import Hunk
    from pseries.model.diff.patch import Patch

UPSTREAM = -1
"""The owner of a line that no patch brought."""


class Need(NamedTuple):
    """A patch stands on another one: both as indices, and the files where that is seen."""

    patch: int
    on: int
    files: tuple[str, ...]


class Ownership(NamedTuple):
    """The files after a row of patches.

    Attributes:
        lines: for every file that a patch touches, the owner of each line: the index of a patch,
            or :data:`UPSTREAM`.
        needs: which patches need which, in order.
    """

    lines: Mapping[str, tuple[int, ...]]
    needs: tuple[Need, ...]


def trace(files: Mapping[str, bytes], patches: Sequence[Patch]) -> Ownership:
    """Follow every line through a row of patches that apply exactly.

    A patch needs another one where a hunk of it, context included, covers a line that the other
    brought, or where the other added, renamed or deleted the file.

    Args:
        files: those that the patches touch, before the first of them, by canonical path.
        patches: in order; hunks of binary files are not looked at.
    """
    owners = {path: [UPSTREAM] * len(split_lines(data)) for path, data in files.items()}
    makers: dict[str, int] = {}
    needs: list[Need] = []
    for number, patch in enumerate(patches):
        found: dict[int, list[str]] = {}
        for section in patch.sections:
            old = owners.pop(section.old, []) if section.old else []
            seen, new = _followed(old, section.hunks, number)
            seen |= {makers[path] for path in (section.old, section.new) if path in makers}
            if section.kind is not Kind.MODIFY:
                makers |= {path: number for path in (section.old, section.new) if path}
            if section.new is not None:
                owners[section.new] = new
            for each in seen - {UPSTREAM, number}:
                found.setdefault(each, []).append(section.path)
        needs += [Need(number, on, tuple(where)) for on, where in sorted(found.items())]
    return Ownership({path: tuple(each) for path, each in owners.items()}, tuple(needs))


def _followed(old: list[int], hunks: Sequence[Hunk], number: int) -> tuple[set[int], list[int]]:
    """Return the owners that the hunks cover, and the owners of the lines afterwards."""
    seen: set[int] = set()
    new: list[int] = []
    at = 0
    for hunk in hunks:
        start = splice.position(hunk)
        new += old[at:start]
        at = start
        for line in hunk.lines:
            marker = line[:1]
            if marker == b"+":
                new.append(number)
            elif marker in {b" ", b"-"}:
                seen.update(old[at : at + 1])
                if marker == b" ":
                    new += old[at : at + 1]
                at += 1
    return seen, new + old[at:]
