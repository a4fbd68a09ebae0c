"""refresh: what was edited in a checkout becomes part of its patches and of the series folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    CommitsUnusable,
    LaterConflicts,
    Problem,
    StackEnd,
    Unrefreshed,
    Unresolved,
)
from pseries.model import stack as stacks
from pseries.model.stack import Entry
from pseries.model.verdicts.conflict import has_markers
from pseries.workflows.verbs.publish import publish
from pseries.workflows.verbs.push import marked
from pseries.workflows.verbs.stack import EMPTY, with_carried

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pseries.model.stack import Stack
    from pseries.workflows.verbs.publish import Written
    from pseries.workflows.verbs.stack import Work


class Refreshed(NamedTuple):
    """What a verb made of the series folder.

    Attributes:
        patch: the patch that took the edits; empty where all commits were taken over.
        patches: the files that changed, and how.
        empty: patches that change nothing, and so have no file.
        untracked: files in the worktree that no patch holds, because git does not track them.
    """

    patch: str
    patches: tuple[Written, ...]
    empty: tuple[str, ...]
    untracked: tuple[str, ...]


def refresh(work: Work, words: str = "") -> Refreshed:
    """Take the edits of the worktree into the top patch, or into one below it.

    Raises:
        StackEnd: no patch is applied, or the named one is not.
        LaterConflicts: the edits, or what they move, conflict with a patch; nothing was changed.
        Unresolved: conflict markers are left.
        FolderChanged: somebody else changed the series folder.
    """
    work.require_own_folder()
    if work.stack.pending:
        return _resolved(work)
    work.require_settled()
    if not work.stack.top and work.checkout.dirt().changed:
        raise StackEnd(f"{EMPTY} that could take the edits: pseries new NAME makes one")
    number = work.number(words)
    if number >= work.stack.top:
        raise StackEnd(f"{work.stack.entries[number].name} is not applied")
    dirt = work.checkout.dirt()
    if dirt.unmerged:
        raise Unresolved(work.stack.entries[number].name, marked(work, dirt.unmerged))
    tree = work.checkout.worktree_tree() if dirt.changed else ""
    stack = work.stack
    if tree:
        changed = work.checkout.changes([(work.checkout.tree_of(stack.head), tree)])[0]
        stack = _amended(work, stack, number, tree)
        # A file that somebody put outside the folders that are shown is to stay in sight.
        work.checkout.widen(path.rpartition("/")[0] for path in changed if "/" in path)
    return settled(work, f"refresh {words}".strip(), stack, patch=stack.entries[number].name,
                   worktree=tree)  # fmt: skip


def _amended(work: Work, stack: Stack, number: int, tree: str) -> Stack:
    """Return the stack with the edits of the worktree in one of its applied patches."""
    entry = stack.entries[number]
    commit = work.checkout.read_commits([entry.commit])[0]
    if number < stack.top - 1:
        head = work.checkout.tree_of(stack.head)
        merged, conflicts = work.checkout.merge(head, commit.tree, tree)
        if conflicts:
            raise LaterConflicts(stack.entries[number + 1].name, conflicts)
    else:
        merged = tree
    new = work.checkout.write_commit(commit, merged, stack.below(number))
    return with_entry(work, stack, number, entry._replace(commit=new))


def with_entry(work: Work, stack: Stack, number: int, entry: Entry) -> Stack:
    """Return the stack with another entry at an index, and all above it carried onto that.

    Raises:
        LaterConflicts: one of those that are applied cannot be carried.
    """
    entries = (*stack.entries[:number], entry, *stack.entries[number + 1 :])
    return with_carried(work, stack._replace(entries=entries), number + 1)[0]


def settled(
    work: Work,
    verb: str,
    stack: Stack,
    *,
    patch: str = "",
    worktree: str = "",
    old: str = "",
    renamed: Mapping[str, str] | None = None,
) -> Refreshed:
    """Write the folder for a new stack and make it true; the end of every verb that changes one.

    Args:
        work: the checkout.
        verb: what is done, for ``undo``.
        stack: the new stack.
        patch: the patch that it was done to.
        worktree: the tree that the worktree holds already, where edits became a commit.
        old: the tree that it holds now, where plain git has moved it.
        renamed: new names of patches by old ones.
    """
    published = publish(work, stack, renamed)
    dirt = work.checkout.dirt()
    files = published.files if published.files != work.files() else None
    if files is not None or published.stack != work.stack:
        stays = worktree or (work.checkout.worktree_tree() if dirt.changed else "")
        if stays:
            work.checkout.stage_all()
            work.keep_edits(stays)
        work.finish(verb, published.stack, folder=files, worktree=stays, old=old)
    work.notes += published.notes
    empty = tuple(each.name for each in published.stack.entries if not each.written)
    return Refreshed(patch, published.patches, empty, dirt.untracked)


# --- a push that stopped ----------------------------------------------------------------------


def _resolved(work: Work) -> Refreshed:
    """Take the resolution of a push that stopped, and go on as if it had not."""
    stack = work.stack
    name, number = stack.pending, stack.top
    work.require_finished()
    head = work.checkout.head()
    if head != stack.head and not work.checkout.above(stack.head, head):
        raise CommitsUnusable(f"HEAD moved while {name} was being pushed: pseries undo")
    dirt = work.checkout.dirt()
    if dirt.unmerged and (left := _unresolved(work, dirt.unmerged)):
        raise Unresolved(name, left)
    work.checkout.stage_all()
    tree = work.checkout.worktree_tree()
    # Whoever committed the resolution left no edits, so it is compared with what was below it.
    changed = work.checkout.changes([(work.checkout.tree_of(stack.head), tree)])[0]
    if left := _unresolved(work, changed):
        raise Unresolved(name, left)
    if not changed:
        what = "nothing of the patch is in it; pseries undo, then push it again or delete it"
        raise Unresolved(name, (Problem("the worktree", what),))
    entry = stack.entries[number]
    commit = work.checkout.read_commits([entry.commit])[0]
    new = work.checkout.write_commit(commit, tree, stack.head)
    stack = stack._replace(pending="", top=number + 1)
    stack = with_entry(work, stack, number, entry._replace(commit=new))
    return settled(work, f"refresh {name}", stack, patch=name, worktree=tree)


def _unresolved(work: Work, files: Iterable[str]) -> tuple[Problem, ...]:
    with_markers = [
        path for path in files
        if (work.checkout.folder / path).is_file()
        and has_markers((work.checkout.folder / path).read_bytes())
    ]  # fmt: skip
    return marked(work, with_markers)


# --- plain git --------------------------------------------------------------------------------


def refresh_all(work: Work) -> Refreshed:
    """Take over the commits as they are now, after a person worked with plain git.

    Amended, reordered, new, split, squashed and dropped commits are understood: a patch whose
    commit is gone is deleted, one that was not applied stays where it is.

    Raises:
        Unrefreshed: edits are not committed.
        GitUnfinished, HeadAside: git is in the middle of something.
        CommitsUnusable: the commits do not stand on the release in a row.
    """
    work.require_own_folder()
    if work.stack.pending:
        return _resolved(work)
    work.require_finished()
    stack = work.stack
    head = work.checkout.head()
    if not head:
        raise CommitsUnusable("HEAD has no commit")
    dirt = work.checkout.dirt()
    if dirt.changed or dirt.unmerged:
        raise Unrefreshed((*dirt.changed, *dirt.unmerged))
    now = work.checkout.above(stack.base, head)
    if now is None:
        raise CommitsUnusable(
            f"{head[:12]} is not a plain row of commits on the release ({stack.base[:12]})"
        )
    before = list(zip(stack.applied, work.commits(), strict=False))
    names = stacks.names_of(before, now)
    known = {entry.name: entry for entry in stack.entries}
    taken = {entry.name for entry in stack.entries} | {name for name in names if name}
    entries = []
    for number, (name, commit) in enumerate(zip(names, now, strict=True), 1):
        if name:
            entries.append(known[name]._replace(commit=commit.id))
            continue
        new = stacks.new_name(commit.subject, number, taken)
        taken.add(new)
        entries.append(Entry(new, 1, commit.id, ""))
    whole = stack._replace(entries=(*entries, *stack.unapplied), top=len(entries))
    whole, _ = with_carried(work, whole, len(entries))
    return settled(work, "refresh --all", whole, old=work.checkout.tree_of(head))
