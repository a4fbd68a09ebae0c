"""Reading and writing below an open folder, never through a link."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import time
from typing import TYPE_CHECKING

import pytest
from tests.site import faults

from pseries.errors import SiteNotFound, TargetNotWritable, TargetRefused
from pseries.site.fs import SiteTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[SiteTree]:
    site = tmp_path / "site"
    (site / "eng").mkdir(parents=True)
    (site / "eng" / "mod.py").write_bytes(b"a = 1\n")
    with SiteTree(site) as opened:
        yield opened


def test_read_returns_content_and_what_has_to_survive(tree: SiteTree) -> None:
    file = tree.root / "eng" / "mod.py"
    file.chmod(0o640)
    os.utime(file, ns=(1, 123_456_789))
    os.link(file, tree.root / "other")
    state = tree.read("eng/mod.py")
    assert state is not None
    assert (state.data, state.size, state.mode) == (b"a = 1\n", 6, 0o640)
    assert (state.mtime_ns, state.links) == (123_456_789, 2)
    assert (state.uid, state.gid) == (os.geteuid(), file.stat().st_gid)
    assert state.image.mtime_ns == 123_456_789
    assert state.sha256 == hashlib.sha256(b"a = 1\n").hexdigest()


@pytest.mark.parametrize("path", ["none.py", "none/mod.py", "eng/none/mod.py"])
def test_what_is_not_there_is_none(tree: SiteTree, path: str) -> None:
    assert tree.read(path) is None
    assert tree.status(path) is None


def test_a_missing_site_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("none", "file"):
        with pytest.raises(SiteNotFound, match=name):
            SiteTree(tmp_path / name)


def test_names_are_sorted_and_keep_odd_bytes(tree: SiteTree) -> None:
    (tree.root / os.fsdecode(b"caf\xe9.py")).touch()
    assert tree.names() == ("caf\udce9.py", "eng")
    assert tree.read("caf\udce9.py") is not None
    assert tree.names("eng") == ("mod.py",)
    assert tree.names("none") is None


def test_symbolic_links_are_refused_wherever_they_are(tree: SiteTree, tmp_path: Path) -> None:
    """uv ``--link-mode=symlink``: what a link shows belongs to all environments (I02)."""
    outside = tmp_path / "cache"
    outside.mkdir()
    (outside / "mod.py").write_text("secret")
    (tree.root / "eng" / "link.py").symlink_to(outside / "mod.py")
    (tree.root / "eng" / "folder").symlink_to(outside)
    (tree.root / "eng" / "inside").symlink_to(tree.root / "eng")
    with pytest.raises(TargetRefused, match="symbolic link"):
        tree.read("eng/link.py")
    with pytest.raises(TargetRefused, match="behind eng/folder, a symbolic link"):
        tree.read("eng/folder/mod.py")
    with pytest.raises(TargetRefused, match="behind eng/inside, a symbolic link"):
        tree.read("eng/inside/mod.py")
    with pytest.raises(TargetRefused, match="symbolic link"):
        tree.names("eng/folder")
    with pytest.raises(TargetRefused, match="symbolic link"):
        tree.create("eng/folder/new.py", b"", 0o644)
    with pytest.raises(TargetRefused, match="symbolic link"):
        tree.remove("eng/folder/mod.py")
    assert [file.name for file in outside.iterdir()] == ["mod.py"]


def test_the_site_itself_may_be_behind_a_link(tree: SiteTree, tmp_path: Path) -> None:
    """``lib64`` is a link to ``lib`` in half of all environments."""
    (tmp_path / "lib64").symlink_to(tree.root)
    with SiteTree(tmp_path / "lib64") as same:
        assert same.read("eng/mod.py") == tree.read("eng/mod.py")


@pytest.mark.parametrize(
    "path",
    ["../outside.py", "/etc/passwd", "eng/../../x", "eng//mod.py", "", ".git/hooks/x", "\ud800"],
)
def test_paths_that_leave_the_tree_are_refused(tree: SiteTree, path: str) -> None:
    with pytest.raises(TargetRefused):
        tree.read(path)
    with pytest.raises((TargetRefused, TargetNotWritable)):
        tree.create(path, b"", 0o644)
    with pytest.raises(TargetRefused):
        tree.remove(path)


def test_other_kinds_are_refused_without_waiting(tree: SiteTree) -> None:
    os.mkfifo(tree.root / "pipe.py")
    with pytest.raises(TargetRefused, match="pipe"):
        tree.read("pipe.py")
    with pytest.raises(TargetRefused, match="a folder, not a file"):
        tree.read("eng")
    with pytest.raises(TargetRefused, match=r"below eng/mod\.py, which is not a folder"):
        tree.read("eng/mod.py/x")


def test_a_file_that_is_too_large_is_refused(tree: SiteTree) -> None:
    with pytest.raises(TargetRefused, match="larger"):
        tree.read("eng/mod.py", most=5)
    assert tree.read("eng/mod.py", most=6) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not read")
def test_a_file_that_may_not_be_read_is_refused(tree: SiteTree) -> None:
    (tree.root / "eng" / "mod.py").chmod(0o600)

    def as_nobody() -> int:
        os.setuid(65534)
        with pytest.raises(TargetRefused, match="it cannot be read: Permission denied"):
            tree.read("eng/mod.py")
        return 42

    assert faults.in_child(as_nobody) == 42


def test_create_sets_the_mode_whatever_the_umask(tree: SiteTree) -> None:
    old = os.umask(0o077)
    try:
        for mode in (0o444, 0o644, 0o664, 0o755, 0o600):
            assert tree.create(f"eng/{mode:o}.py", b"x", mode) == ()
            assert stat.S_IMODE((tree.root / f"eng/{mode:o}.py").stat().st_mode) == mode
        tree.make_folder("eng/sub", 0o775)
        assert stat.S_IMODE((tree.root / "eng/sub").stat().st_mode) == 0o775
    finally:
        os.umask(old)


def test_create_never_takes_a_name_that_is_taken(tree: SiteTree, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tree.root / "eng" / "link").symlink_to(tmp_path / "victim")
    for path in ("eng/mod.py", "eng/link"):
        with pytest.raises(TargetNotWritable):
            tree.create(path, b"x", 0o644)
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tree.root / "eng" / "mod.py").read_bytes() == b"a = 1\n"


def test_a_folder_swapped_for_a_link_never_leads_outside(tree: SiteTree, tmp_path: Path) -> None:
    """The race that a check of the whole path before opening it loses thousands of times."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mod.py").write_bytes(b"secret")
    eng, aside = tree.root / "eng", tree.root / "aside"
    swapper = os.fork()
    if swapper == 0:
        while True:
            eng.rename(aside)
            eng.symlink_to(outside)
            eng.unlink()
            aside.rename(eng)
    refused, number = 0, 0
    try:
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            number += 1
            try:
                state = tree.read("eng/mod.py")
                assert state is None or state.data == b"a = 1\n"
                tree.create(f"eng/{number}.new", b"x", 0o644)
                tree.remove(f"eng/{number}.new")
            except (TargetRefused, TargetNotWritable):
                refused += 1
            assert [file.name for file in outside.iterdir()] == ["mod.py"]
    finally:
        os.kill(swapper, signal.SIGKILL)
        os.waitpid(swapper, 0)
    assert refused > 0
