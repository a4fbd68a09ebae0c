"""One writer at a time, also when several start at once, and when the lock is purged."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.site import faults, trees

from pseries.errors import LockedByOther, PurgeRefused, TargetNotWritable
from pseries.site import lock, receipt, transaction
from pseries.site.fs import SiteTree
from pseries.site.lock import exclusive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return trees.make(tmp_path / "site")


@pytest.fixture
def tree(site: Path) -> Iterator[SiteTree]:
    with SiteTree(site) as opened:
        yield opened


def test_whoever_waits_too_long_is_told(site: Path, tree: SiteTree) -> None:
    with exclusive(tree, 5), SiteTree(site) as other:
        began = time.monotonic()
        with pytest.raises(LockedByOther, match=r"0\.1 s"), exclusive(other, 0.1):
            pass
        assert time.monotonic() - began < 2


def test_the_lock_file_stays_and_the_lock_goes_with_a_killed_process(
    site: Path, tree: SiteTree
) -> None:
    wait, stop = os.pipe()

    def die() -> None:
        with SiteTree(site) as other, exclusive(other, 5):
            # A program that is started and lives on, started by code that closes nothing.
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=wait, close_fds=False)
            os._exit(42)

    assert faults.in_child(die) == 42
    inode = (site / lock.PATH).stat().st_ino
    with exclusive(tree, 0):
        pass
    os.close(stop)
    assert (site / lock.PATH).stat().st_ino == inode


def test_what_the_body_raises_comes_out_of_the_lock(tree: SiteTree) -> None:
    for error in (FileNotFoundError, KeyboardInterrupt, TargetNotWritable):
        with pytest.raises(error), exclusive(tree, 5):
            raise error("s", "p", "r")


@root_only
def test_a_lock_that_another_user_made_can_be_taken(site: Path) -> None:
    with SiteTree(site) as tree, exclusive(tree, 5):
        pass
    with SiteTree(site) as tree:

        def as_nobody() -> int:
            os.setuid(65534)
            with exclusive(tree, 5):
                return 42

        assert faults.in_child(as_nobody) == 42


def test_a_file_system_without_locks_is_refused(
    tree: SiteTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(TargetNotWritable, match="does not lock"), exclusive(tree, 5):
        pass


def test_purge_leaves_nothing_and_only_goes_when_nothing_is_needed(
    site: Path, tree: SiteTree
) -> None:
    before = trees.snapshot(site, control=True)
    lock.purge(tree)  # nothing there, nothing made
    assert trees.snapshot(site, control=True) == before
    trees.apply(tree)
    with pytest.raises(PurgeRefused, match="applied"):
        lock.purge(tree)
    trees.roll_back(tree)
    kept = transaction.set_aside(tree, "eng/mod.py")
    with pytest.raises(PurgeRefused, match="kept"):
        lock.purge(tree)
    assert kept is not None
    (site / kept).unlink()
    (site / kept).parent.rmdir()
    (site / ".pseries/kept").rmdir()
    lock.purge(tree)
    assert trees.snapshot(site, control=True) == before
    trees.interrupted(tree)
    with pytest.raises(PurgeRefused, match="interrupted"):
        lock.purge(tree)


def test_a_folder_that_is_purged_as_soon_as_it_is_made_is_made_again(tree: SiteTree) -> None:
    purged: list[int] = []

    def purge(number: int, name: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        answer = call()
        if name == "mkdir" and not purged:
            purged.append(number)
            (tree.root / ".pseries").rmdir()
        return answer

    with faults.at_calls(purge), exclusive(tree, 5):
        assert purged
        assert (tree.root / lock.PATH).exists()


def test_purging_while_others_wait_never_lets_two_in(site: Path) -> None:
    """Whoever waited for a purged lock holds a file without a name, and has to ask again."""
    (site / "count").write_text("0")

    def add() -> None:
        with SiteTree(site) as tree:
            for _ in range(25):
                with exclusive(tree, 30):
                    number = int((site / "count").read_text())
                    time.sleep(0.0005)
                    (site / "count").write_text(str(number + 1))
                lock.purge(tree)

    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                add()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert {os.waitpid(child, 0)[1] for child in children} == {0}
    assert (site / "count").read_text() == "100"
    assert not (site / ".pseries").exists()


def test_of_six_processes_one_applies_and_the_others_see_it(site: Path) -> None:
    """Every rank of a server runs the patch step at start-up, on one shared tree (A13)."""

    def rank() -> int:
        with SiteTree(site) as tree, exclusive(tree, 30):
            transaction.recover(tree)
            if receipt.read(tree).applied:
                return 10
            made, contents = trees.plan(tree)
            state_change, data = receipt.writing(tree, receipt.State((made,)))
            assert state_change.after is not None
            contents[state_change.after.sha256] = data
            transaction.commit(tree, (*made.changes, state_change), contents, made.folders)
            return 11

    for _ in range(5):
        children = []
        for _ in range(6):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    code = rank()
                finally:
                    os._exit(code)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert sorted(codes) == [10, 10, 10, 10, 10, 11]
        assert (site / "eng/mod.py").read_bytes() == b"a = 2\n"
        with SiteTree(site) as tree:
            trees.roll_back(tree)


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    old, new = b"value = 1\n" + b"# old\n" * 20000, b"value = 2\n" + b"# new\n" * 30000
    site = tmp_path / "site"
    trees.install(site, {"eng/__init__.py": b"", "eng/mod.py": old})
    ready, started = os.pipe()
    child = os.fork()
    if child == 0:
        seen = set()
        os.write(started, b"x")
        until = time.monotonic() + 1.0
        code = 0
        while time.monotonic() < until:
            try:
                seen.add((site / "eng/mod.py").read_bytes())
            except OSError:
                code = 2
        os._exit(code or (0 if seen == {old, new} else 3))
    os.read(ready, 1)
    with SiteTree(site) as tree:
        until = time.monotonic() + 0.9
        while time.monotonic() < until:
            trees.apply(tree, trees.Wish({"eng/mod.py": new}, {}))
            trees.roll_back(tree)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_programs_that_are_started_do_not_hold_the_lock(site: Path, tree: SiteTree) -> None:
    with exclusive(tree, 5):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        fork = os.fork()
        if fork == 0:
            time.sleep(5)
            os._exit(0)
    try:
        with exclusive(tree, 0):
            pass
    finally:
        os.kill(fork, 9)
        os.waitpid(fork, 0)
        child.communicate(b"\n")
