"""The short way: taken only where every hunk fits exactly, once, and in the recorded function."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from pseries.model.diff import patch as patch_files
from pseries.model.verdicts import exact
from pseries.model.verdicts.verdict import FileVerdict, Verdict

PATHS = ("a.py", "a.py")


def body(name: str, *lines: str) -> str:
    inner = "".join(f"    {line}\n" for line in lines)
    return f"def {name}(value):\n{inner}    return value\n\n\n"


def hunks_of(old: str, new: str, tmp: Path) -> tuple[patch_files.Hunk, ...]:
    (tmp / "old").write_text(old)
    (tmp / "new").write_text(new)
    said = subprocess.run(
        ["git", "diff", "--no-index", "--full-index", "old", "new"],
        cwd=tmp, check=False, capture_output=True,
    ).stdout  # fmt: skip
    diff = said.replace(b"a/old", b"a/a.py").replace(b"b/new", b"b/a.py")
    return patch_files.parse("x", diff).sections[0].hunks


BASE = body("one", "a = 1", "b = 2", "c = 3") + body("two", "d = 4", "e = 5", "f = 6")
PATCHED = BASE.replace("e = 5", "e = 55")


def fit(
    tmp: Path, ours: str, merged: str, recorded: str = "two", base: str = BASE, new: str = PATCHED
) -> FileVerdict | None:
    hunks = hunks_of(base, new, tmp)
    return exact.fit(PATHS, ours.encode(), merged.encode(), hunks, [recorded] * len(hunks))


def test_takes_what_fits_once_and_says_from_where_to_where(tmp_path: Path) -> None:
    above = "import os\n\n"
    verdict = fit(tmp_path, above + BASE, above + PATCHED)
    assert verdict is not None
    assert (verdict.verdict, verdict.data) == (Verdict.MOVED, (above + PATCHED).encode())
    (hunk,) = verdict.hunks
    assert (hunk.symbol, hunk.old_line, hunk.new_line) == ("two", 10, 12)
    assert hunk.evidence == ("from line 10 to line 12",)


def test_leaves_to_the_judge_what_is_not_as_plain(tmp_path: Path) -> None:
    other = BASE.replace("f = 6", "f = 7")
    assert fit(tmp_path, other, other.replace("e = 5", "e = 55")) is None, "other context"
    assert fit(tmp_path, BASE + BASE, PATCHED + BASE) is None, "fits twice"
    assert fit(tmp_path, BASE + PATCHED, PATCHED + PATCHED) is None, "is there already"
    assert fit(tmp_path, BASE, PATCHED, recorded="three") is None, "another function"
    assert fit(tmp_path, BASE, PATCHED + "\n") is None, "git comes to something else"
    renamed = BASE.replace("def two", "def three")
    assert fit(tmp_path, renamed, renamed.replace("e = 5", "e = 55")) is None, "renamed"
    assert fit(tmp_path, BASE + "(\n", PATCHED + "(\n") is None, "does not parse"
    assert exact.fit(PATHS, BASE.encode(), PATCHED.encode(), (), ["two"]) is None


def test_a_single_line_is_no_context(tmp_path: Path) -> None:
    base, ours = "x = 1\n", "z = 0\n\nx = 1\n"
    assert fit(tmp_path, ours, ours + "y = 2\n", "", base, base + "y = 2\n") is None


@pytest.mark.parametrize("seed", range(30))
def test_never_misplaces_among_look_alikes(tmp_path: Path, seed: int) -> None:
    """A shifted file of functions with equal bodies: the right place or no answer."""
    chance = random.Random(seed)  # noqa: S311
    names = [f"f{number}" for number in range(8)]
    same = ["handle = open(value)", "data = handle.read()", "handle.close()"]
    base = "".join(body(name, *same) for name in names)
    target = chance.choice(names)
    edited = body(target, *same[:2], "print(data)", same[2])
    new = base.replace(body(target, *same), edited)
    order = names[:]
    chance.shuffle(order)
    kept = [name for name in order if name == target or chance.random() < 0.8]
    ours = "".join(body(name, *same) for name in kept)
    for where in kept:
        merged = ours.replace(body(where, *same), body(where, *same[:2], "print(data)", same[2]))
        verdict = fit(tmp_path, ours, merged, target, base, new)
        assert verdict is None or where == target
