"""Which patch brought a line, and which patches need which."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.support import engine

from pseries.model import ownership, revision
from pseries.model.diff import patch as patch_files
from pseries.model.revision import Revision

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LINES = [b"line %d\n" % number for number in range(1, 31)]


def patches(folder: Path, *states: Mapping[str, bytes]) -> list[patch_files.Patch]:
    return [
        patch_files.parse(f"{number}.patch", engine.diff(before, after, folder / str(number)))
        for number, (before, after) in enumerate(pairwise(states))
    ]


def test_lines_are_followed_through_edits_renames_and_deletions(tmp_path: Path):
    text = b"".join(LINES)
    states: list[dict[str, bytes]] = [
        {"a.py": text},
        {"a.py": text.replace(b"line 3\n", b"three\n")},
        {"a.py": text.replace(b"line 3\n", b"three\n"), "new.py": b"x\ny\n"},
        {"b.py": text.replace(b"line 3\n", b"three\n").replace(b"line 20\n", b""),
         "new.py": b"x\ny\n"},
        {"b.py": text.replace(b"line 3\n", b"three\nthree more\n").replace(b"line 20\n", b""),
         "new.py": b"x\nz\n"},
        {"b.py": text.replace(b"line 3\n", b"three\nthree more\n").replace(b"line 20\n", b"")},
    ]  # fmt: skip
    traced = ownership.trace({"a.py": text}, patches(tmp_path, *states))
    assert traced.lines.keys() == {"b.py"}
    owners = traced.lines["b.py"]
    assert (len(owners), owners[2], owners[3], set(owners[4:])) == (30, 0, 3, {ownership.UPSTREAM})
    assert traced.needs == (
        (3, 0, ("b.py",)), (3, 1, ("new.py",)), (3, 2, ("b.py",)),
        (4, 1, ("new.py",)), (4, 3, ("new.py",)),
    )  # fmt: skip


def test_context_counts_and_lines_far_away_do_not(tmp_path: Path):
    text = b"".join(LINES)
    near = text.replace(b"line 10\n", b"ten\n")
    within = near.replace(b"line 13\n", b"13\n")
    far = within.replace(b"line 28\n", b"28\n")
    states = [{"a.py": each} for each in (text, near, within, far)]
    traced = ownership.trace({"a.py": text}, patches(tmp_path, *states))
    assert traced.needs == ((1, 0, ("a.py",)),)


def test_what_changed_in_a_patch_file_is_named(tmp_path: Path):
    text = b"".join(LINES)
    diffs = {
        "old": engine.diff({"a": text}, {"a": text.replace(b"line 9\n", b"9\n")}, tmp_path / "1"),
        "lines": engine.diff(
            {"a": b"x\n" + text}, {"a": b"x\n" + text.replace(b"line 9\n", b"9\n")}, tmp_path / "2"
        ),
        "context": engine.diff(
            {"a": text.replace(b"line 8\n", b"8\n")},
            {"a": text.replace(b"line 8\nline 9\n", b"8\n9\n")}, tmp_path / "3",
        ),
        "content": engine.diff(
            {"a": text}, {"a": text.replace(b"line 9\n", b"x\n")}, tmp_path / "4"
        ),
    }  # fmt: skip
    old = b"words\n" + diffs["old"]
    found = {name: revision.revision(old, b"words\n" + diff) for name, diff in diffs.items()}
    assert found == {
        "old": Revision.NONE, "lines": Revision.LINES, "context": Revision.CONTEXT,
        "content": Revision.CONTENT,
    }  # fmt: skip
    assert revision.revision(old, b"other\n" + diffs["old"]) is Revision.HEADER
    assert revision.revision(None, old) is Revision.NEW
    assert revision.revision(old, None) is Revision.GONE
