"""Comparing two series patch by patch, beside ``git range-diff``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.support import engine

from pseries.model.diff import patch as patch_files
from pseries.workflows.rebase.range_diff import Pair, Status, range_diff

if TYPE_CHECKING:
    from pathlib import Path

    from pseries.model.diff.patch import Patch

LINES = "".join(f"line {number}\n" for number in range(60))
Edits = Mapping[int, str]


def text(edits: Edits) -> bytes:
    lines = LINES.splitlines(keepends=True)
    for number, line in edits.items():
        lines[number] = line
    return "".join(lines).encode()


def series(tmp: Path, *steps: tuple[str, Edits], base: Edits | None = None) -> tuple[Patch, ...]:
    """Make patches of successive edits, as git writes them."""
    made: dict[int, str] = dict(base or {})
    patches = []
    for number, (subject, edits) in enumerate(steps, 1):
        before = text(made)
        made.update(edits)
        folder = tmp / f"diff-{len(list(tmp.glob('diff-*')))}"
        diff = engine.diff({"f.txt": before}, {"f.txt": text(made)}, folder)
        data = engine.message(subject) + diff
        patches.append(patch_files.parse(f"{number:04}-{subject}.patch", data))
    return tuple(patches)


def signs(pairs: tuple[Pair, ...]) -> list[tuple[int | None, str, int | None]]:
    return [
        (pair.old and pair.old.number, pair.status.value, pair.new and pair.new.number)
        for pair in pairs
    ]


ONE, TWO, THREE = ("one", {5: "1\n"}), ("two", {20: "2\n", 22: "2\n"}), ("three", {40: "3\n"})


def test_line_numbers_do_not_count_but_context_does(tmp_path: Path) -> None:
    old = series(tmp_path, ONE, TWO)
    new = series(tmp_path, ONE, TWO, base={0: "more\nmore\nline 0\n", 21: "other\n"})
    pairs = range_diff(old, new)
    assert signs(pairs) == [(1, "=", 1), (2, "!", 2)]
    assert pairs[0].diff == ()
    assert "- line 21" in pairs[1].diff
    assert "+ other" in pairs[1].diff


def test_dropped_added_and_reordered_patches(tmp_path: Path) -> None:
    old = series(tmp_path, ONE, TWO, THREE)
    new = series(tmp_path, THREE, ("four", {50: "4\n"}), ONE)
    assert signs(range_diff(old, new)) == [
        (3, "=", 1), (None, ">", 2), (1, "=", 3), (2, "<", None),
    ]  # fmt: skip
    assert signs(range_diff(old, ())) == [(1, "<", None), (2, "<", None), (3, "<", None)]
    assert signs(range_diff((), new)) == [(None, ">", 1), (None, ">", 2), (None, ">", 3)]


def test_a_renamed_and_changed_patch_is_found_again(tmp_path: Path) -> None:
    old = series(tmp_path, ONE, ("two", dict.fromkeys(range(20, 30), "2\n")))
    new = series(tmp_path, ("better", dict.fromkeys(range(20, 31), "2\n")))
    pairs = range_diff(old, new)
    assert signs(pairs) == [(1, "<", None), (2, "!", 1)]


def test_the_message_counts(tmp_path: Path) -> None:
    (old,) = series(tmp_path, ONE)
    data = old.data.replace(b"Because the test says so.", b"For another reason.")
    (pair,) = range_diff([old], [patch_files.parse(old.name, data)])
    assert pair.status is Status.CHANGED
    assert "-    Because the test says so." in pair.diff


def test_agrees_with_git(tmp_path: Path) -> None:
    """The signs are those of ``git range-diff`` on the same patches as commits."""
    fives = ("five", dict.fromkeys(range(44, 52), "5\n"))
    steps = [ONE, TWO, THREE, fives]
    old = series(tmp_path, *steps)
    new = series(tmp_path, TWO, THREE, fives, base={21: "x\n", 47: "y\n"})
    repository = tmp_path / "git"
    repository.mkdir()
    engine.git(repository, "init", "-q")
    for name, patches, base in (("old", old, {}), ("new", new, {21: "x\n", 47: "y\n"})):
        engine.git(repository, "checkout", "-q", "--orphan", name)
        (repository / "f.txt").write_bytes(text(base))
        engine.git(repository, "add", "-A")
        engine.git(repository, "commit", "-qm", "base")
        engine.git(repository, "tag", f"{name}-base")
        for patch in patches:
            subprocess.run(
                ["git", "-c", "user.name=T", "-c", "user.email=t@x", "am", "-q"],
                cwd=repository, input=patch.data, check=True,
            )  # fmt: skip
    said = engine.git(repository, "range-diff", "-s", "old-base..old", "new-base..new").decode()
    rows = re.findall(r"^(?:(\d+)|-):\s+\S+ ([=!<>]) (?:(\d+)|-):", said, re.MULTILINE)
    theirs = [(int(a) if a else None, sign, int(b) if b else None) for a, sign, b in rows]
    assert signs(range_diff(old, new)) == theirs


def test_many_patches_stay_quick(tmp_path: Path) -> None:
    (patch,) = series(tmp_path, ONE)
    many = [
        patch_files.parse(f"{number}.patch", patch.data.replace(b"one", b"number %d" % number))
        for number in range(400)
    ]
    assert {pair.status for pair in range_diff(many, many[::-1])} == {Status.EQUAL}
