"""push, pop, goto: which patches of a checkout are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import Problem, PushStopped, StackEnd
from pseries.model import paths
from pseries.model.verdicts.conflict import openings
from pseries.workflows.verbs.checkout import make_ready
from pseries.workflows.verbs.stack import EMPTY, first_behind, with_carried

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pseries.model.stack import Stack
    from pseries.workflows.verbs.stack import Work


class Moved(NamedTuple):
    """Patches that were applied or taken off, in the order in which it was done; and the new top.

    ``top`` is empty where no patch is applied.
    """

    pushed: tuple[str, ...]
    popped: tuple[str, ...]
    top: str


def push(work: Work, *, words: str = "", count: int = 1, everything: bool = False) -> Moved:
    """Apply the next patch, the next ones, all, or all up to a named one.

    Args:
        work: the checkout.
        words: the patch to be on top afterwards.
        count: how many, where no patch is named.
        everything: all of them.

    Raises:
        StackEnd: all of them, or the named one, are applied already.
        PushStopped: one conflicts; the worktree shows where. Those before it are applied.
        Unrefreshed: the worktree holds edits.
    """
    make_ready(work)
    stack = work.stack
    target = _target(stack, words, stack.top + count, everything=everything)
    if stack.top == len(stack.entries):
        last = f", ends at {stack.entries[-1].name}" if stack.entries else ": it is empty"
        raise StackEnd(f"the series is fully applied{last}")
    if target <= stack.top:
        raise StackEnd(f"{stack.entries[target - 1].name} is applied already")
    return _to(work, target, f"push {work.stack.entries[target - 1].name}")


def pop(
    work: Work, *, words: str = "", count: int = 1, everything: bool = False, force: bool = False
) -> Moved:
    """Take the top patch off, several, all, or all above a named one.

    Args:
        work: the checkout.
        words: the patch to be on top afterwards.
        count: how many, where no patch is named.
        everything: all of them.
        force: throw edits away that no patch has; ``undo`` brings them back.

    Raises:
        StackEnd: none is applied, or the named one is not.
        Unrefreshed: the worktree holds edits.
    """
    if force and not work.stack.pending:
        work.require_settled()
        _set_edits_aside(work)
    make_ready(work)
    stack = work.stack
    if not stack.top:
        raise StackEnd(EMPTY)
    target = 0 if everything else _target(stack, words, max(stack.top - count, 0))
    if words and target > stack.top:
        raise StackEnd(f"{stack.entries[target - 1].name} is not applied")
    if words and target == stack.top:
        raise StackEnd(f"{stack.entries[target - 1].name} is on top already")
    return _to(work, target, f"pop {work.stack.entries[target].name}")


def goto(work: Work, words: str) -> Moved:
    """Push or pop until a patch is on top; does nothing where it is."""
    make_ready(work)
    return _to(work, work.stack.find(words) + 1, f"goto {words}")


def _set_edits_aside(work: Work) -> None:
    """Throw edits away, in a step of its own that ``undo`` takes back."""
    if not work.checkout.dirt().changed:
        return
    tree = work.checkout.worktree_tree()
    work.checkout.stage_all()
    work.keep_edits(tree)
    work.finish("pop --force", work.stack, old=tree)
    work.notes.append("edits that no patch has were thrown away; pseries undo brings them back")


def _target(stack: Stack, words: str, number: int, *, everything: bool = False) -> int:
    if words:
        return stack.find(words) + 1
    return len(stack.entries) if everything else min(number, len(stack.entries))


def _to(work: Work, target: int, verb: str) -> Moved:
    stack = work.stack
    before = [entry.name for entry in stack.applied]
    if target > stack.top:
        stack, _ = with_carried(work, stack, stack.top)
        made = work.checkout.read_commits([entry.commit for entry in stack.entries[:target]])
        stopped = first_behind(stack, made)
        done = stack._replace(top=target if stopped is None else stopped)
        if done != work.stack:
            work.finish(verb, done)
        if stopped is not None:
            _stop(work, verb)
    elif target < stack.top:
        work.finish(verb, stack._replace(top=target))
    now = [entry.name for entry in work.stack.applied]
    return Moved(
        tuple(now[len(before) :]), tuple(reversed(before[len(now) :])), now[-1] if now else ""
    )


def _stop(work: Work, verb: str) -> None:
    """Show the conflicts of the next patch in the worktree, and stop."""
    stack = work.stack
    entry = stack.entries[stack.top]
    tree = work.checkout.tree_of(stack.head)
    theirs = work.checkout.tree_of(entry.commit)
    work.checkout.require_room(tree, theirs)
    changed = work.checkout.changes([(tree, theirs)])[0]
    work.checkout.widen(sorted({path.rpartition("/")[0] for path in changed} - {""}))
    work.finish(verb, stack._replace(pending=entry.name), worktree=tree)
    work.checkout.pick(entry.commit)
    raise PushStopped(entry.name, marked(work, work.checkout.dirt().unmerged))


def marked(work: Work, files: Iterable[str]) -> tuple[Problem, ...]:
    """Return where conflict markers stand in files of the worktree; a file without any, whole."""
    found = []
    for path in files:
        file = work.checkout.folder / path
        data = file.read_bytes() if file.is_file() and not file.is_symlink() else b""
        lines = openings(data)
        shown = paths.display(path)
        found += [Problem(f"{shown}:{number}", "a conflict") for number in lines]
        if not lines:
            found.append(Problem(shown, "changed on one side, gone or renamed on the other"))
    return tuple(found)
