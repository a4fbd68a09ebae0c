"""A verb that is killed at any moment leaves the old state or the new one, also in the folder."""

# Fixtures are imported by name from the module that makes them.
# ruff: noqa: F401, F811

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.workflows.test_rebase_killed import killed_at, moments
from tests.workflows.test_stack import (
    CORE,
    FIRST,
    NET,
    SECOND,
    THIRD,
    contents,
    edit,
    folder,
    git,
    is_clean,
    names,
    top,
)

from pseries.git import process
from pseries.workflows.verbs import push, refresh, reshape, stack, undo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tests.workflows.conftest import Bench

    from pseries.workflows.verbs.stack import Work


def refreshed(work: Work) -> object:
    return refresh.refresh(work, FIRST)


VERBS: dict[str, Callable[[Work], object]] = {
    "pop": lambda work: push.pop(work, everything=True),
    "refresh": refreshed,
    "delete": lambda work: reshape.delete(work, SECOND),
    "split": lambda work: reshape.split(work, "0004-new", [reshape.Choice("eng/added.py", ())]),
    "rename": lambda work: reshape.rename(work, FIRST, "0001-other"),
    "undo": undo.undo,
    "refresh --all": refresh.refresh_all,
}


def prepare(name: str, top: Path) -> None:
    with stack.opened(top) as work:
        if name == "refresh":
            edit(work, CORE, b"# The engine.\n", b"# The engine,\n# again.\n")
        elif name == "undo":
            reshape.delete(work, THIRD)
        elif name == "refresh --all":
            (top / "eng/plain.py").write_bytes(b"PLAIN = 1\n")
            git(top, "add", ".")
            git(top, "commit", "-qam", "Plain")


def state(top: Path, folder: Path) -> tuple[object, ...]:
    """Return all that a person sees: the files, the folder, the stack, what git says."""
    with stack.opened(top) as work:
        files = {
            str(path.relative_to(top)): path.read_bytes()
            for path in sorted(top.rglob("*")) if path.is_file() and ".git" not in path.parts
        }  # fmt: skip
        seen = (names(work), work.stack.top, work.checkout.head(), work.stack.locked)
        dirty = git(top, "status", "--porcelain").split("\n")
        return seen, contents(folder), files, [row[3:] for row in dirty]


class Arena:
    """A checkout and its series folder, brought back to what they were for every moment."""

    def __init__(self, bench: Bench, top: Path, folder: Path) -> None:
        self.tmp, self.top, self.folder = bench.tmp, top, folder
        self.before = state(top, folder)
        for part in ("work", "series"):
            shutil.copytree(self.tmp / part, self.tmp / "whole" / part)

    def reset(self) -> None:
        for part in ("work", "series"):
            shutil.rmtree(self.tmp / part)
            shutil.copytree(self.tmp / "whole" / part, self.tmp / part)

    def state(self) -> tuple[object, ...]:
        return state(self.top, self.folder)


@pytest.mark.parametrize("name", VERBS)
def test_killed_at_any_write(name: str, top: Path, folder: Path, bench: Bench):
    prepare(name, top)
    arena = Arena(bench, top, folder)

    def act() -> None:
        with stack.opened(top) as work:
            VERBS[name](work)

    total = killed_at(10**6, bench.tmp, act)
    after = arena.state()
    assert after != arena.before
    assert total > 3
    for moment in moments(total):
        arena.reset()
        killed_at(moment, bench.tmp, act)
        assert arena.state() in (arena.before, after), moment


@pytest.mark.parametrize("name", ["pop", "refresh"])
def test_killed_after_any_command_of_git_that_writes(
    name: str, top: Path, folder: Path, bench: Bench
):
    prepare(name, top)
    arena = Arena(bench, top, folder)
    with stack.opened(top) as work:
        VERBS[name](work)
    after = arena.state()
    real, seen = process.run, set()

    def run_until(moment: int) -> int:
        """Run the verb in a child that ends after some commands; return how the child ended."""
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        left = moment

        def dies(arguments: Sequence[str], **named: Any) -> process.Completed:
            nonlocal left
            said = real(arguments, **named)
            left -= arguments[0] in ("read-tree", "update-ref", "add")
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return said

        process.run = dies
        try:
            with stack.opened(top) as work:
                VERBS[name](work)
        finally:
            os._exit(0)

    for moment in range(20):
        arena.reset()
        ended = run_until(moment)
        found = arena.state()
        assert found in (arena.before, after), moment
        seen.add(found == after)
        if not ended:
            break
    assert seen == {False, True}


def test_a_worktree_that_was_half_written_goes_back(top: Path, folder: Path):
    """As after a power cut: git wrote some files, and pseries had no time to say so."""
    with stack.opened(top) as work:
        before = state_of(top)

        def dies(old: str, new: str, *, try_only: bool = False) -> None:
            if try_only:
                return
            (top / "eng/added.py").unlink()
            edit(work, CORE, b"read(99)", b"read()")
            edit(work, CORE, b"data + data", b"data")
            edit(work, NET, b"RETRIES = 5", b"RETRIES = 7")  # a person's
            raise KeyboardInterrupt

        work.checkout.move = dies  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            push.pop(work, everything=True)
    with stack.opened(top) as work:
        assert any("was taken back" in note for note in work.notes)
        assert any(NET in note for note in work.notes)
        edit(work, NET, b"RETRIES = 7", b"RETRIES = 5")
        assert state_of(top) == before
        assert is_clean(work)
        assert push.pop(work, everything=True).top == ""


def state_of(top: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in top.rglob("*") if path.is_file() and ".git" not in path.parts
    }  # fmt: skip


def test_nothing_is_left_of_a_file_that_was_being_written(top: Path, folder: Path):
    scrap = folder / f".{FIRST}.abcd1234"
    scrap.write_bytes(b"half")
    mine = folder / ".notes.abcd1234"
    mine.write_bytes(b"mine")
    with stack.opened(top) as work:
        held = work.shot
        push.pop(work)
        coming = work.shot
        undo.undo(work)
        assert work.shot == held
        work.checkout.announce(coming.id, held.worktree)
    with stack.opened(top):
        pass
    assert (scrap.exists(), mine.exists()) == (False, True)
