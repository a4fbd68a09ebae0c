"""How other programs read the same patch: what git must say of it, and what unidiff says."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pseries.errors import Problem
from pseries.model import paths
from pseries.model.diff import filename

if TYPE_CHECKING:
    from pseries.model.diff.patch import Patch
    from pseries.model.diff.section import Section

Counts = tuple[int | None, int | None, str]
"""Lines added, lines removed (``None`` for binary data) and the path, as git apply tells them."""


def numstat(patch: Patch) -> tuple[Counts, ...]:
    """Return what ``git apply --numstat -z -pN`` must say of the patch's ``diff``."""
    return tuple(
        (None, None, section.path)
        if section.binary
        else (section.added, section.removed, section.path)
        for section in patch.sections
    )


def read_numstat(output: bytes) -> tuple[Counts, ...]:
    """Read the output of ``git apply --numstat -z``."""

    def count(field: bytes) -> int | None:
        return None if field == b"-" else int(field)

    records = (record.split(b"\t", 2) for record in output.split(b"\0")[:-1])
    return tuple(
        (count(added), count(removed), paths.decode(path)) for added, removed, path in records
    )


def second_opinion(patch: Patch) -> tuple[Problem, ...]:
    """Return every difference between our reading of the hunks and unidiff's.

    unidiff gets one section at a time, from its ``---`` line on: it splits ``diff --git`` lines in
    a way of its own, and :mod:`~pseries.model.diff.heading` has compared those. It is called only
    for what was accepted, so that sizes and digits are bounded.
    """
    return tuple(
        Problem(f"{patch.name}:{section.line}", what)
        for section in patch.sections
        if section.hunks
        for what in _differences(section, patch.strip)
    )


def _differences(section: Section, strip: int) -> list[str]:
    from unidiff.errors import UnidiffParseError  # noqa: PLC0415 - slow to import
    from unidiff.patch import PatchSet  # noqa: PLC0415

    begin = 0 if section.raw.startswith(b"--- ") else section.raw.index(b"\n--- ") + 1
    # newline="\n" neither translates nor splits at CR; newline="" would split there.
    text = io.StringIO(section.raw[begin:].decode("utf-8", "surrogateescape"), newline="\n")
    try:
        files = PatchSet(text)
    except UnidiffParseError as error:
        return [f"unidiff cannot read {paths.display(section.path)}: {error}"]
    if len(files) != 1:
        return [f"unidiff sees {len(files)} files in one section"]
    file = files[0]
    found = [
        f"unidiff reads the name {written!r} where we read {path!r}"
        for path, written in ((section.old, file.source_file), (section.new, file.target_file))
        if not _means(section, path, written, strip)
    ]
    theirs = [
        (each.source_start, each.source_length, each.target_start, each.target_length,
         each.added, each.removed)
        for each in file
    ]  # fmt: skip
    ours = [
        (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count, hunk.added, hunk.removed)
        for hunk in section.hunks
    ]
    if theirs != ours:
        found.append(f"unidiff reads the hunks as {theirs}, and we as {ours}")
    return found


def _means(section: Section, path: str | None, written: str, strip: int) -> bool:
    """Say whether a name as unidiff cut it out of a header line, still quoted, means ``path``."""
    plain = b"diff --git " not in section.raw.partition(b"\n@@")[0]
    read = filename.dated(paths.encode(written), git=not plain)
    if read is None:
        return False
    if read[0] == filename.DEV_NULL:
        return path is None
    name = filename.stripped(read[0], strip)
    meant = paths.encode(path or section.path)
    return name == meant or (plain and name in (meant + b".orig", meant + b"~"))
