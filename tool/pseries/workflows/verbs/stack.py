"""A checkout at work: opened for one verb, checked, and left in its new state in one step.

Whatever a verb does, it ends in :meth:`Work.finish`: a snapshot is stored, then the files of the
series folder, then the worktree, then one transaction of refs makes the snapshot the present one.
A process that is killed on the way leaves the old state; files of the folder that were written
already are taken back by the next verb.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pseries.durable import is_leftover, sync, write_file
from pseries.errors import (
    CheckoutBusy,
    CheckoutInvalid,
    CheckoutNotOurs,
    CommitsMoved,
    FolderChanged,
    GitUnfinished,
    HeadAside,
    LaterConflicts,
    NotACheckout,
    Problem,
    PseriesError,
    PushPending,
    StackEnd,
    StoreGone,
    Unrefreshed,
)
from pseries.git import checkout as checkouts
from pseries.git.checkout import Checkout, Snapshot
from pseries.model import manifest as manifests
from pseries.model import paths
from pseries.model import series as series_model
from pseries.model import stack as stacks
from pseries.workflows.series import folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pseries.model.commit import Commit
    from pseries.model.stack import Stack

EMPTY = "no patch is applied"
EDIT = "edit"
"""The verb of snapshots that hold edits which no verb has taken yet."""


@dataclass(slots=True)
class Work:
    """A checkout that a verb works on, held against every other one.

    Attributes:
        checkout: the worktree.
        shot: the present snapshot.
        stack: the stack in it.
        notes: what was found odd or done on the way, for a person to read.
    """

    checkout: Checkout
    shot: Snapshot
    stack: Stack
    notes: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        """The series folder."""
        return Path(self.stack.folder)

    # --- what must hold before a verb ---------------------------------------------------------

    def require_finished(self) -> None:
        """Refuse while a command of plain git is half done, and where HEAD only looks at a patch.

        Raises:
            GitUnfinished: a rebase, merge or the like waits for a person.
            HeadAside: HEAD is detached at a commit below the top patch.
        """
        if command := self.checkout.unfinished():
            raise GitUnfinished(command)
        head, stack = self.checkout.head(), self.stack
        if head == stack.head or not self.checkout.is_detached():
            return
        names = {entry.commit: entry.name for entry in stack.applied} | {stack.base: "the release"}
        if head in names:
            raise HeadAside(names[head])

    def require_settled(self) -> None:
        """Refuse while a push waits for a person, and where somebody moved HEAD with git.

        Raises:
            PushPending: a push stopped at a conflict.
            CommitsMoved: HEAD is not the commit of the top patch.
            GitUnfinished, HeadAside: see :meth:`require_finished`.
        """
        if self.stack.pending:
            raise PushPending(self.stack.pending)
        head = self.checkout.head()
        self.require_finished()
        if head != self.stack.head:
            raise CommitsMoved(head[:12] or "on no commit", self.stack.head[:12])

    def require_clean(self) -> None:
        """Refuse as :meth:`require_settled`, and where edits would be lost.

        Raises:
            Unrefreshed: tracked files hold changes that no patch has.
        """
        self.require_settled()
        dirt = self.checkout.dirt()
        if dirt.changed or dirt.unmerged:
            raise Unrefreshed((*dirt.changed, *dirt.unmerged))

    def require_own_folder(self) -> None:
        """Refuse where the series folder is not what was last written or read.

        Raises:
            FolderChanged: names the files.
        """
        if changed := self.foreign():
            raise FolderChanged(self.stack.folder, changed)

    def foreign(self) -> tuple[str, ...]:
        """Return the files of the series folder that somebody else changed."""
        return self._differing(self.shot.folder)

    def _differing(self, tree: str) -> tuple[str, ...]:
        """Return the files in which the series folder is not what a stored tree of it holds."""
        known = self.checkout.tree(tree)
        there = {name: manifests.blob_id(data) for name, data in files_of(self.folder).items()}
        names = sorted(known.keys() | there.keys())
        return tuple(
            name for name in names
            if (known[name].blob if name in known else None) != there.get(name)
        )  # fmt: skip

    def number(self, word: str) -> int:
        """Return the index of a patch: the one that is named, else the top one.

        Raises:
            PatchNotFound: the word names none, or several.
            StackEnd: none is named, and none is applied.
        """
        if word:
            return self.stack.find(word)
        if not self.stack.top:
            raise StackEnd(EMPTY)
        return self.stack.top - 1

    # --- reading ------------------------------------------------------------------------------

    def commits(self) -> list[Commit]:
        """Return the commit of every patch, in order."""
        return self.checkout.read_commits([entry.commit for entry in self.stack.entries])

    def files(self) -> dict[str, bytes]:
        """Return the files of the series folder that belong to the series."""
        return files_of(self.folder)

    # --- the end of a verb --------------------------------------------------------------------

    def finish(
        self,
        verb: str,
        stack: Stack,
        *,
        folder: Mapping[str, bytes] | None = None,
        worktree: str = "",
        old: str = "",
    ) -> None:
        """Make a new state true.

        Args:
            verb: what is done, for ``undo``.
            stack: the new stack.
            folder: all files of the series that the folder holds afterwards; ``None``: as it is.
            worktree: the tree that worktree and index hold already and keep, edits included.
            old: the tree that they hold now, if it is not that of HEAD.

        Raises:
            InTheWay: the worktree cannot be changed; nothing was.
        """
        tree = worktree or self.checkout.tree_of(stack.head)
        shot = Snapshot(
            "",
            verb,
            self.shot.id,
            self.shot.folder if folder is None else self.checkout.folder_tree(folder),
            tree,
            stack.head,
            stacks.render(stack),
        )
        loose = [entry.commit for entry in stack.entries]
        parents = {parent for each in self.checkout.read_commits(loose) for parent in each.parents}
        tips = [name for name in loose if name not in parents]
        shot = shot._replace(id=self.checkout.write_snapshot(shot, tips))
        if not worktree:
            old = old or self.checkout.tree_of(self.stack.head)
        self.turn(shot, stack, move="" if worktree else old)

    def keep_edits(self, tree: str) -> None:
        """Store edits as a snapshot of their own, so that to undo what follows gives them back."""
        if self.shot.worktree != tree or self.shot.verb != EDIT:
            self.finish(EDIT, self.stack, worktree=tree)

    def turn(self, shot: Snapshot, stack: Stack, *, move: str, newest: bool = True) -> None:
        """Make a stored snapshot the present one.

        Args:
            shot: the snapshot.
            stack: the stack in it.
            move: the tree that the worktree holds now, if it is to be changed.
            newest: whether nothing is to be redone afterwards.

        Raises:
            FolderChanged: somebody wrote to the series folder meanwhile.
            SeriesBusy: another process is about to.
            InTheWay: the worktree cannot be changed.
        """
        moves = move and move != shot.worktree
        writes = shot.folder != self.shot.folder and bool(self._differing(shot.folder))
        if moves:
            self.checkout.move(move, shot.worktree, try_only=True)
        with folders.lock(self.folder.parent) if writes else nullcontext():
            if writes:  # once more, now that no other program of ours can write
                self.require_own_folder()
            if moves or writes:
                self.checkout.announce(shot.id, move or shot.worktree)
            if writes:
                self._write_folder(shot.folder)
            if moves:
                self.checkout.move(move, shot.worktree)
            self.checkout.settle(shot.id, head=shot.head, newest=newest)
        self.shot, self.stack = shot, stack

    def _write_folder(self, tree: str) -> None:
        old, new = self.checkout.tree(self.shot.folder), self.checkout.tree(tree)
        changed = {name: entry for name, entry in new.items() if old.get(name) != entry}
        for name, (_, data) in self.checkout.files(changed).items():
            write_file(self.folder / name, data)
        for name in old.keys() - new.keys():
            (self.folder / name).unlink(missing_ok=True)
        sync(self.folder)

    def take_back(self) -> None:
        """Give back folder and worktree what a killed verb put there, as far as nobody changed it.

        Raises nothing but what reading and writing do: it is tried again by the next verb.
        """
        said = self.checkout.announced()
        if said is None:
            return
        coming, held = said
        if coming.id == self.shot.id:  # all was done, but not all refs were written
            self.checkout.settle(coming.id, head=coming.head)
            return
        old, new = self.checkout.tree(self.shot.folder), self.checkout.tree(coming.folder)
        self._remove_scraps({*old, *new})
        there = {name: manifests.blob_id(data) for name, data in self.files().items()}
        written = {name: entry.blob for name, entry in new.items()}
        lost = {
            name: entry for name, entry in old.items()
            if new.get(name) != entry and there.get(name) == written.get(name)
        }  # fmt: skip
        for name, (_, data) in self.checkout.files(lost).items():
            write_file(self.folder / name, data)
        for name in new.keys() - old.keys():
            if there.get(name) == new[name].blob:
                (self.folder / name).unlink()
        left = self.checkout.put_back(held, coming.worktree)
        self.checkout.retract()
        self.notes.append(f"an interrupted {coming.verb.split()[0]} was taken back")
        self.notes += [f"{paths.display(path)} was changed since, so it was left" for path in left]

    def _remove_scraps(self, names: set[str]) -> None:
        """Remove what is left of files that were being written when the process was killed."""
        for file in self.folder.iterdir():
            if is_leftover(file.name, names):
                file.unlink()


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a series folder that a checkout writes: order, manifest, patches."""
    found = {}
    for file in sorted(folder.iterdir()):
        named = file.name in (series_model.ORDER_FILE, manifests.FILE)
        if (named or file.name.endswith(series_model.PATCH_SUFFIXES)) and file.is_file():
            found[file.name] = file.read_bytes()
    return found


def top_of(start: Path) -> Path:
    """Return the top of the checkout that a folder lies in; raises :class:`NotACheckout`."""
    folder = checkouts.find(start.absolute())
    if folder is None:
        raise NotACheckout(str(start))
    return folder


@contextlib.contextmanager
def opened(start: Path) -> Iterator[Work]:
    """Give the checkout that a folder lies in, locked while the body runs.

    Raises:
        NotACheckout: it lies in none.
        CheckoutNotOurs: it is another user's.
        StoreGone: the store that it reads the release from was removed.
        CheckoutBusy: another verb is at work.
        CheckoutInvalid: what pseries keeps there cannot be read, or the series folder is gone.
    """
    top = top_of(start)
    if (owner := checkouts.stranger(top, [top / ".git"], os.environ)) is not None:
        raise CheckoutNotOurs(str(top), owner)
    descriptor = os.open(top / ".git" / checkouts.MARKER, os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckoutBusy(str(top)) from None
        work = _loaded(Checkout(top))
        work.take_back()
        yield work
    finally:
        os.close(descriptor)


class Standing(NamedTuple):
    """A checkout that somebody stands in: its series folder, and files with edits in no patch."""

    folder: Path
    edits: tuple[str, ...]


def standing_in(start: Path) -> Standing | None:
    """Return the checkout that a folder lies in.

    Only a look: nothing is locked or mended. ``None`` where there is no checkout, or one of which
    a verb would complain.
    """
    top = checkouts.find(start)
    if top is None or checkouts.stranger(top, [top / ".git"], os.environ) is not None:
        return None
    try:
        work = _loaded(Checkout(top))
        dirt = work.checkout.dirt()
    except PseriesError:
        return None
    return Standing(work.folder, (*dirt.changed, *dirt.unmerged))


def _loaded(checkout: Checkout) -> Work:
    if missing := checkout.missing_store():
        raise StoreGone(checkout.folder.name, missing)
    shot = checkout.snapshot()
    problems: list[Problem] = []
    if shot is None:
        problems.append(Problem("refs/pseries/now", "is missing"))
        raise CheckoutInvalid(str(checkout.folder), tuple(problems))
    stack = stacks.parse(shot.stack, problems)
    if not problems and not Path(stack.folder, series_model.ORDER_FILE).is_file():
        problems.append(Problem(stack.folder, "the series folder is gone"))
    if problems:
        raise CheckoutInvalid(str(checkout.folder), tuple(problems))
    return Work(checkout, shot, stack)


def carried(
    checkout: Checkout, commits: Sequence[Commit], onto: str
) -> tuple[list[str], tuple[str, ...]]:
    """Put commits onto another one, by three-way merges of trees, as far as they do not conflict.

    Args:
        checkout: the repository.
        commits: the lowest first; each with the parent that it was made on.
        onto: id of the new parent of the first.

    Returns:
        The ids of the new commits, and the files in conflict of the first that was not carried.
    """
    below = checkout.read_commits([commit.parents[0] for commit in commits])
    parent, tree = onto, checkout.tree_of(onto)
    done: list[str] = []
    for commit, before in zip(commits, below, strict=True):
        if before.id == parent:
            parent, tree = commit.id, commit.tree
        else:
            tree, conflicts = checkout.merge(before.tree, tree, commit.tree)
            if conflicts:
                return done, conflicts
            parent = checkout.write_commit(commit, tree, parent)
        done.append(parent)
    return done, ()


def with_carried(work: Work, stack: Stack, number: int) -> tuple[Stack, tuple[str, ...]]:
    """Put the patches from an index on onto the one below them, as far as they go.

    Returns:
        The stack with their new commits, and the files in conflict of the first that stays behind.

    Raises:
        LaterConflicts: that one is to be applied.
    """
    entries = stack.entries[number:]
    commits = work.checkout.read_commits([entry.commit for entry in entries])
    done, conflicts = carried(work.checkout, commits, stack.below(number))
    if conflicts and number + len(done) < stack.top:
        raise LaterConflicts(entries[len(done)].name, conflicts)
    moved = tuple(
        entry._replace(commit=commit) for entry, commit in zip(entries, done, strict=False)
    )
    behind = entries[len(done) :]
    return stack._replace(entries=(*stack.entries[:number], *moved, *behind)), conflicts


def first_behind(stack: Stack, commits: Sequence[Commit]) -> int | None:
    """Return the index of the first patch that does not stand on the one below it, or ``None``."""
    return next(
        (number for number, each in enumerate(commits) if each.parents != (stack.below(number),)),
        None,
    )
