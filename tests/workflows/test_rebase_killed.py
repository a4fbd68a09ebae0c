"""A rebase that is killed at any moment can be gone on with, and can be taken back to the byte."""

# Fixtures are imported by name from the module that makes them.
# ruff: noqa: F401, F811

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import engine
from tests.workflows.test_rebase import (
    OFFLINE,
    Project,
    clashing,
    project,
    resolve,
)

from pseries.errors import NoRebase
from pseries.workflows.rebase import session as rebasing
from pseries.workflows.series import catalog, folders

if TYPE_CHECKING:
    from collections.abc import Callable

_WRITES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod")
_STEPS = 7
"""Moments that are tried in a run, spread over all of them: each costs two rebases."""


def killed_at(moment: int, root: Path, work: Callable[[], object]) -> int:
    """Run ``work`` in a child that SIGKILL ends at its n-th change below ``root``.

    Returns how many changes it came to; less than ``moment`` if it got to its end.
    """
    report, tell = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            writes = event in _WRITES or (
                event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
            )
            if writes and str(root) in str(arguments[0]):
                if count == moment:
                    os.write(tell, str(count).encode())
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        sys.addaudithook(hook)
        try:
            work()
        finally:
            os.write(tell, str(count).encode())
            os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    with os.fdopen(report, "rb") as answer:
        return int(answer.read())


def moments(total: int) -> list[int]:
    return sorted({total * step // _STEPS for step in range(_STEPS)} | {total - 1})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def stopped(clashing: Project) -> Project:
    """A rebase that waits, with its conflict resolved in the worktree."""
    report = clashing.rebase()
    assert report.stopped is not None
    resolve(Path(report.stopped.worktree))
    return clashing


def forget(made: Project, before: dict[str, bytes]) -> None:
    """Put the project back to what it was, for the next moment."""
    root = made.tmp / "project"
    engine.subprocess.run(["rm", "-rf", str(root)], check=True)
    engine.write(root, before)


def test_killed_before_the_stop(clashing: Project) -> None:
    root = clashing.tmp / "project"
    before, series = contents(root), contents(clashing.series_dir)
    total = killed_at(10**6, root, clashing.rebase)
    assert total > 10
    forget(clashing, before)
    for number, moment in enumerate(moments(total)):
        killed_at(moment, root, clashing.rebase)
        assert contents(clashing.series_dir) == series
        if number % 2:
            try:
                rebasing.abort(None, clashing.location)
            except NoRebase:  # it had not come to write down that it began
                assert clashing.rebase().stopped is not None
                rebasing.abort(None, clashing.location)
            assert contents(clashing.series_dir) == series
        else:
            try:
                report = rebasing.go_on(None, clashing.location, OFFLINE)
            except NoRebase:
                report = clashing.rebase()
            except rebasing.RebaseUnresolved:
                pass
            else:
                assert report.stopped is not None
        forget(clashing, before)


def test_killed_while_going_on_to_the_end(stopped: Project) -> None:
    root = stopped.tmp / "project"
    waiting = contents(root)
    series = contents(stopped.series_dir)
    total = killed_at(10**6, root, stopped.go_on)
    wanted = contents(stopped.series_dir)
    assert total > 10
    assert catalog.load("eng-2.0", stopped.location).locked()
    for number, moment in enumerate(moments(total)):
        forget(stopped, waiting)
        killed_at(moment, root, stopped.go_on)
        known = catalog.names(stopped.location)
        assert known in (("eng-1.0",), ("eng-1.0", "eng-2.0"))
        if known[-1] == "eng-2.0":
            catalog.load("eng-2.0", stopped.location).locked()
        try:
            if number % 2:
                rebasing.abort(None, stopped.location)
                assert contents(stopped.series_dir) == series
            else:
                stopped.go_on()
                assert contents(stopped.series_dir) == wanted
        except NoRebase:  # it was finished, only the tidying up was not
            assert contents(stopped.series_dir) == wanted


def test_killed_while_giving_up(stopped: Project) -> None:
    root = stopped.tmp / "project"
    waiting, series = contents(root), contents(stopped.series_dir)

    def give_up() -> None:
        rebasing.abort(None, stopped.location)

    total = killed_at(10**6, root, give_up)
    assert total > 2
    assert contents(root) == series_of(series)
    for moment in moments(total):
        forget(stopped, waiting)
        killed_at(moment, root, give_up)
        assert contents(stopped.series_dir) == series
        try:
            give_up()
        except NoRebase:  # only the tidying up was left
            assert stopped.rebase().stopped is not None
            give_up()
        assert contents(root) == series_of(series)


def series_of(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of a whole project that has nothing but these series."""
    return {f"series/{name}": data for name, data in files.items()}


def test_killed_while_leaving_a_patch_out(clashing: Project) -> None:
    clashing.rebase()
    root = clashing.tmp / "project"
    waiting, series = contents(root), contents(clashing.series_dir)

    def leave_out() -> None:
        rebasing.skip(None, clashing.location, OFFLINE)

    total = killed_at(10**6, root, leave_out)
    wanted = contents(clashing.series_dir)
    for number, moment in enumerate(moments(total)):
        forget(clashing, waiting)
        killed_at(moment, root, leave_out)
        try:
            (status,) = rebasing.status(None, clashing.location)
        except ValueError:  # it was finished, only the tidying up was not
            assert contents(clashing.series_dir) == wanted
            continue
        if number % 2:
            rebasing.abort(None, clashing.location)
            assert contents(clashing.series_dir) == series
        elif any(decision.skipped for decision in status.decisions):
            clashing.go_on()
            assert contents(clashing.series_dir) == wanted
        else:
            leave_out()
            assert contents(clashing.series_dir) == wanted


def test_abort_leaves_what_somebody_changed_since(stopped: Project) -> None:
    root = stopped.tmp / "project"
    total = killed_at(10**6, root, lambda: None)
    assert total == 0

    def until_published() -> None:
        publish = folders.publish

        def publish_and_die(staged: Path) -> Path:
            publish(staged)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

        folders.publish = publish_and_die
        stopped.go_on()

    killed_at_once = os.fork()
    if killed_at_once == 0:
        until_published()
    os.waitpid(killed_at_once, 0)
    mine = stopped.series_dir / "eng-2.0/README.md"
    mine.write_text("mine\n")
    assert rebasing.abort(None, stopped.location).stays == ("eng-2.0",)
    assert mine.read_text() == "mine\n"
