"""undo, redo: a checkout and its series folder as they were before, or after, a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pseries.errors import CommitsMoved, Problem, StackEnd, Unrefreshed
from pseries.git import loose
from pseries.model import stack as stacks
from pseries.workflows.verbs.stack import EDIT

if TYPE_CHECKING:
    from pseries.git.checkout import Snapshot
    from pseries.model.stack import Stack
    from pseries.workflows.verbs.stack import Work


def undo(work: Work) -> str:
    """Go back to before the last verb and return what that was.

    Edits that a refresh took are edits in the worktree again.

    Raises:
        StackEnd: there is nothing to undo.
        Unrefreshed: there are edits that would be lost.
        FolderChanged, CommitsMoved: somebody else changed what would be put back.
    """
    work.require_finished()
    if work.stack.pending:
        return _give_up(work)
    actual = _actual(work)
    shot = work.shot
    while shot.verb == EDIT and shot.before:  # its edits are gone, so nothing of it is left
        shot = _known(work, shot.before)
    if not shot.before:
        raise StackEnd("there is nothing to undo")
    _turn(work, _known(work, shot.before), actual)
    return shot.verb


def redo(work: Work) -> str:
    """Do again what was undone last and return what that is; raises as :func:`undo` does."""
    work.require_settled()
    actual = _actual(work, edits=True)
    shot = work.checkout.later(work.shot.id)
    while shot is not None and shot.verb == EDIT:
        shot = work.checkout.later(shot.id)
    if shot is None:
        raise StackEnd("there is nothing to redo")
    _turn(work, shot, actual)
    return shot.verb


def verbs(work: Work) -> tuple[str, ...]:
    """Return the verbs that can be undone, the last one first."""
    found = []
    shot = work.shot
    while shot.before:
        if shot.verb != EDIT:
            found.append(shot.verb)
        shot = _known(work, shot.before)
    return tuple(found)


def _known(work: Work, name: str) -> Snapshot:
    shot = work.checkout.snapshot(name)
    assert shot is not None, name  # noqa: S101 - it is a parent of the present one
    return shot


def _actual(work: Work, *, edits: bool = False) -> str:
    """Return the tree of the worktree, unless going on would lose what it holds."""
    work.require_own_folder()
    head = work.checkout.head()
    if head != work.stack.head:
        raise CommitsMoved(head[:12], work.stack.head[:12])
    dirt = work.checkout.dirt()
    if not dirt.changed and not dirt.unmerged:
        return work.checkout.tree_of(work.stack.head)
    actual = work.checkout.worktree_tree()
    if actual != work.shot.worktree or (work.shot.verb == EDIT and not edits):
        raise Unrefreshed((*dirt.changed, *dirt.unmerged))
    work.checkout.stage_all()
    return actual


def _turn(work: Work, target: Snapshot, actual: str) -> None:
    work.turn(target, _stack(target), move=actual, newest=False)


def _stack(shot: Snapshot) -> Stack:
    problems: list[Problem] = []
    stack = stacks.parse(shot.stack, problems)
    if problems:  # an older or newer program's; to go back further may help
        raise StackEnd(f"that state cannot be read: {problems[0]}")
    return stack


def _give_up(work: Work) -> str:
    """End a push that stopped, as if the patch had not been pushed; its worktree is kept aside."""
    tree = work.checkout.worktree_tree()
    kept = loose.write_commit(work.checkout.git_dir, tree, b"a conflict that was given up\n")
    work.checkout.keep(kept)
    name, shot = work.stack.pending, work.shot
    while _stack(shot).pending:  # what was resolved may have been refreshed, and that undone
        shot = _known(work, shot.before)
    work.checkout.discard(shot.worktree)
    work.turn(shot, _stack(shot), move="")
    work.notes.append(f"what was resolved of {name} is in commit {kept[:12]}")
    return f"push {name}"
