"""How one version of a patch file differs from the next."""

from __future__ import annotations

from enum import Enum

from pseries.errors import PatchRefused
from pseries.model.diff import patch as patch_files


class Revision(Enum):
    """What changed in a patch file, the gravest of it."""

    NONE = "none"
    HEADER = "header"
    LINES = "line numbers"
    CONTEXT = "context"
    CONTENT = "content"
    NEW = "new"
    GONE = "gone"


def revision(old: bytes | None, new: bytes | None) -> Revision:
    """Say what changed from one version to the next, ``None`` for no file."""
    if old == new:
        return Revision.NONE
    if old is None or new is None:
        return Revision.NEW if old is None else Revision.GONE
    try:
        return _compared(*(patch_files.parse("patch", data) for data in (old, new)))
    except PatchRefused:  # of another strip level
        return Revision.CONTENT


def _compared(before: patch_files.Patch, after: patch_files.Patch) -> Revision:
    if _changed_lines(before) != _changed_lines(after):
        return Revision.CONTENT
    if _all_lines(before) != _all_lines(after):
        return Revision.CONTEXT
    if [section.raw for section in before.sections] != [section.raw for section in after.sections]:
        return Revision.LINES
    return Revision.HEADER


def _changed_lines(patch: patch_files.Patch) -> list[object]:
    return [
        (section.kind, section.old, section.new, section.old_mode, section.new_mode,
         section.raw if section.binary else b"",
         [line for hunk in section.hunks for line in hunk.lines if line[:1] in b"+-"])
        for section in patch.sections
    ]  # fmt: skip


def _all_lines(patch: patch_files.Patch) -> list[list[bytes]]:
    return [[line for hunk in section.hunks for line in hunk.lines] for section in patch.sections]
