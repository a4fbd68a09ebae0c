"""Objects written one by one are judged by git; ids that are kept somewhere must not change."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from pseries.git import loose
from pseries.git.checkout import Checkout, Snapshot

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "r.git"
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    return folder


def git(git_dir: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["git", "--git-dir", str(git_dir), *arguments]
    return subprocess.run(command, input=stdin, check=True, capture_output=True).stdout


def test_a_tree_is_the_one_that_git_makes(git_dir: Path) -> None:
    """Its names sort as git sorts them: a folder as if a slash followed."""
    blob = loose.write(git_dir, b"blob", b"x\n")
    entries = {
        b"a": (0o40000, EMPTY), b"a.b": (0o100644, blob), b"a0": (0o100755, blob),
        b"a-": (0o100644, blob), b"caf\xe9": (0o100644, blob),
    }  # fmt: skip
    rows = b"".join(
        b"%06o %s %s\t%s\0" % (mode, b"tree" if mode == 0o40000 else b"blob", name.encode(), path)
        for path, (mode, name) in entries.items()
    )
    loose.write(git_dir, b"tree", b"")
    made = loose.write_tree(git_dir, entries)
    assert made == git(git_dir, "mktree", "-z", stdin=rows).decode().strip()
    assert git(git_dir, "fsck", "--strict", made) == b""


def test_a_commit_of_nobody_is_the_same_everywhere(git_dir: Path) -> None:
    loose.write(git_dir, b"tree", b"")
    first = loose.write_commit(git_dir, EMPTY, b"first\n")
    assert first == "5b1536dae5d9425e2c690a5eae3a67188b70aac6"
    second = loose.write_commit(git_dir, EMPTY, b"second\n", first)
    assert git(git_dir, "rev-list", second).decode().split() == [second, first]


def test_a_snapshot_of_a_checkout_keeps_its_id(git_dir: Path, tmp_path: Path) -> None:
    """Those that an older pseries made must still be found to be the same."""
    with Checkout.create(tmp_path / "eng-1.0", git_dir, "eng-1.0") as work:
        loose.write(work.git_dir, b"tree", b"")
        head = loose.write_commit(work.git_dir, EMPTY, b"base\n")
        folder = work.folder_tree({"series": b"1.patch\n", "1.patch": b"one\n"})
        shot = Snapshot("", "push 1.patch", "", folder, EMPTY, head, b"{}\n")
        assert work.write_snapshot(shot, [head]) == "d7c56c5921d1e8c31c541d13c9ae276f184335a2"
