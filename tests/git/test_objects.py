"""Patches through git, many at once: each one's tree, and the name of the one that fails."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from pseries.errors import PatchRejected
from pseries.git import objects
from pseries.git.objects import Entry
from pseries.model.diff import patch as patch_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pseries.git.objects import Objects, Tree
    from pseries.model.diff.patch import Patch

PLAIN = 0o100644
FILES = {f"eng/{name}.py": (PLAIN, b"%s = 1\nB = 2\nC = 3\n" % name.encode()) for name in "abcd"}
HEAD = b"From: A <a@b>\nSubject: [PATCH] x\n\n---\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Objects]:
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    with objects.scratch(bare) as made:
        yield made


def edit(name: str, old: str, new: str, strip: int = 1) -> Patch:
    above = "x/" * (strip - 1)
    text = (
        f"diff --git a/{above}eng/{name}.py b/{above}eng/{name}.py\n--- a/{above}eng/{name}.py\n"
        f"+++ b/{above}eng/{name}.py\n@@ -1,3 +1,3 @@\n-{old}\n+{new}\n B = 2\n C = 3\n"
    )
    return patch_files.parse(f"{name}-{new[-1]}.patch", HEAD + text.encode(), strip)


def whole(text: str) -> Patch:
    return patch_files.parse("whole.patch", HEAD + text.encode())


RENAME = whole(
    "diff --git a/eng/b.py b/eng/e.py\nsimilarity index 100%\n"
    "rename from eng/b.py\nrename to eng/e.py\n"
)
DELETE = whole(
    "diff --git a/eng/c.py b/eng/c.py\ndeleted file mode 100644\n"
    "--- a/eng/c.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-c = 1\n-B = 2\n-C = 3\n"
)
SERIES = [
    edit("a", "a = 1", "a = 2"), RENAME, edit("a", "a = 2", "a = 3"),
    edit("d", "d = 1", "d = 2", 2), DELETE, edit("e", "b = 1", "b = 4"),
]  # fmt: skip


def contents(store: Objects, tree: Tree) -> dict[str, bytes]:
    return {path: data for path, (_, data) in store.files(tree).items()}


def test_the_tree_after_each_patch_is_that_of_the_patches_so_far(store: Objects) -> None:
    tree = store.add(FILES)
    trees = store.apply_each(tree, SERIES)
    assert len(trees) == len(SERIES)
    for number in range(1, len(SERIES) + 1):
        one_by_one = tree
        for patch in SERIES[:number]:
            one_by_one = store.apply(one_by_one, [patch])
        assert trees[number - 1] == one_by_one
    first = contents(store, trees[0])
    assert first["eng/a.py"].startswith(b"a = 2")
    assert "eng/b.py" in first
    assert "eng/c.py" not in contents(store, trees[4])


def test_patches_on_different_files_take_one_process(
    store: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = store.add(FILES)
    applied = []
    real = store._apply
    monkeypatch.setattr(store, "_apply", lambda *a, **k: applied.append(len(a[1])) or real(*a, **k))
    store.apply_each(tree, [edit(name, f"{name} = 1", f"{name} = 2") for name in "abcd"])
    assert applied == [4]
    applied.clear()
    store.apply_each(tree, SERIES)
    assert applied == [2, 1, 1, 2]  # one strip level a process


@pytest.mark.parametrize("at", [0, 1, 2, 4])
def test_the_patch_that_does_not_apply_is_named(store: Objects, at: int) -> None:
    series = [edit(name, f"{name} = 1", f"{name} = 2") for name in "abcd"]
    series.insert(at, whole(
        "diff --git a/eng/z.py b/eng/z.py\n--- a/eng/z.py\n+++ b/eng/z.py\n"
        "@@ -1,1 +1,1 @@\n-no\n+yes\n"
    ))  # fmt: skip
    with pytest.raises(PatchRejected) as refused:
        store.apply_each(store.add(FILES), series)
    assert "whole.patch" in str(refused.value)


def test_files_of_no_patch_stay(store: Objects) -> None:
    tree = {**store.add(FILES), "eng/f.py": Entry(0o100755, store.write([b"f\n"])[0])}
    (after,) = store.apply_each(tree, SERIES[:1])
    assert after["eng/f.py"] == tree["eng/f.py"]
    assert after.keys() == tree.keys()
