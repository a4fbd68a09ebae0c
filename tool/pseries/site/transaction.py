"""Changing the files of a target as one transaction: all of them, or none.

The caller holds the lock (:mod:`.lock`). Then, in this order, which kept every file wholly old or
wholly new at every point where a process was killed, twice over:

1. what an earlier run left behind is recovered; every file is compared with what the caller saw;
2. backups and new contents are stored by sha256, durably;
3. the plan is written to the journal ("prepare");
4. new files are written beside their targets under names that no import finds;
5. the commit record is appended: the one commit point;
6. each new file is renamed over its target, deletions are done, in the order of the plan; the
   folders are made durable;
7. the journal is removed.

Killed before 5, :func:`recover` undoes; after 5, it finishes. Either only ever replaces content
whose hash the plan knows, so doing it twice is the same as doing it once. To the transaction,
bytecode, RECORD and the list of receipts are files like any other: the caller puts them last.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    BackupLost,
    Problem,
    StateInvalid,
    StateNotOurs,
    TargetChanged,
    TargetNotWritable,
    TargetRefused,
    TransactionBlocked,
    TransactionInterrupted,
)
from pseries.model.paths import CONTROL
from pseries.site import journal, objects, receipt, signals
from pseries.site.change import Change, FolderChange, Image
from pseries.site.journal import Plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pseries.site.fs import FileState, SiteTree

KEPT = f"{CONTROL}/kept"
"""Where files that had to make way, but were not known, are kept."""

_SECOND = 1_000_000_000
_SPARE_BYTES = 64 * 1024
_BLOCK = 4096


class Outcome(Enum):
    """What :func:`recover` did."""

    NOTHING = "nothing"
    BACK = "rolled back"
    FORWARD = "rolled forward"


class Recovery(NamedTuple):
    """The outcome, the files of the interrupted change, and for each kept file where it now is."""

    outcome: Outcome
    paths: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()
    warnings: tuple[Problem, ...] = ()


class Committed(NamedTuple):
    """What a finished transaction has to say.

    ``unlinked`` are files that had other names, in a package cache or another environment; those
    names keep the old content. ``warnings`` are owners and attributes that could not be kept.
    """

    unlinked: tuple[str, ...]
    warnings: tuple[Problem, ...]


def commit(
    tree: SiteTree,
    changes: Iterable[Change],
    contents: Mapping[str, bytes],
    folders: Iterable[FolderChange],
) -> Committed:
    """Bring every file of ``changes`` from its ``before`` to its ``after``, or none of them.

    Args:
        tree: the target; its lock is held.
        changes: in the order in which they take effect.
        contents: new contents by sha256; those that are stored in the target may be left out.
        folders: the folders that come and go with the files; of those that come, the caller need
            not know all.

    Raises:
        TargetChanged: a file is not its ``before``; nothing was changed.
        TargetNotWritable: the system refused; everything was undone.
        BackupLost: a content is neither given nor stored; nothing was changed.
        TransactionInterrupted: it was decided but could not be finished, or failed and could not
            be undone; :func:`recover` goes on.
        TransactionBlocked: somebody changed a file at the very moment of the commit.
    """
    recover(tree)
    wanted = tuple(c for c in changes if not (c.derived and _lost(tree, c.after, contents)))
    plan = Plan(wanted, _with_missing(folders, folder_changes(tree, wanted)))
    _check_plan(plan)
    before = _verify(tree, plan.changes)
    plan = plan._replace(changes=tuple(_timed(c, before[c.path]) for c in plan.changes))
    _require_room(tree, plan, before)
    try:
        _store(tree, plan, before, contents)
        line = journal.prepare(tree, plan)
        _make_folders(tree, plan)
        staged = [
            (change.path, change.after)
            for change in plan.changes
            if change.after is not None and not _matches(before[change.path], change.after)
        ]
        warnings = [note for path, image in staged for note in _stage(tree, path, image)]
        tree.sync(*(staging_path(path) for path, _ in staged))
        journal.commit(tree, line)
    except BaseException as error:
        _undo(tree, plan, error)
        raise
    with _finishing(tree):
        warnings += _roll_forward(tree, plan)
    unlinked = (path for path, state in before.items() if state is not None and state.links > 1)
    return Committed(tuple(unlinked), tuple(warnings))


def recover(tree: SiteTree, *, aside: bool = False) -> Recovery:
    """Undo or finish what an interrupted run left behind; the caller holds the lock.

    Args:
        tree: the target. It is not touched when there is nothing to recover.
        aside: finish even where a file was changed by somebody else since, and keep that version
            below ``.pseries/kept``; by default such a file stops the recovery.

    Raises:
        JournalInvalid: the journal cannot be trusted.
        TransactionBlocked: a file is neither what it was nor what it was to become.
        TransactionInterrupted: the system refused again.
    """
    found = journal.read(tree)
    if found is None:
        tree.remove(journal.NEW_PATH)
        return Recovery(Outcome.NOTHING)
    paths = tuple(change.path for change in found.plan.changes)
    with _finishing(tree):
        if not found.committed:
            _roll_back(tree, found.plan)
            return Recovery(Outcome.BACK, paths)
        kept = tuple(_keep_unknown(tree, found.plan)) if aside else ()
        warnings = tuple(_roll_forward(tree, found.plan))
    return Recovery(Outcome.FORWARD, paths, kept, warnings)


def pending(tree: SiteTree) -> tuple[str, ...] | None:
    """Return the files of a transaction that is under way or was interrupted, else ``None``.

    Needs no lock and writes nothing; raises :class:`JournalInvalid`.
    """
    found = journal.read(tree)
    return None if found is None else tuple(change.path for change in found.plan.changes)


def set_aside(tree: SiteTree, path: str) -> str | None:
    """Copy the file at ``path`` to ``.pseries/kept`` and return where it is; ``None`` if none."""
    state = tree.read(path)
    if state is None:
        return None
    folder = f"{KEPT}/{state.sha256[:16]}"
    copy = f"{folder}/{path.rpartition('/')[2]}"
    stored = tree.read(copy)
    if stored is None or stored.sha256 != state.sha256:
        tree.make_folder(KEPT, tree.folder_mode(CONTROL))
        tree.make_folder(folder, tree.folder_mode(CONTROL))
        tree.remove(copy)
        tree.create(copy, state.data, state.mode)
        tree.sync(copy, folder, KEPT, CONTROL)
    return copy


def folder_changes(tree: SiteTree, changes: Sequence[Change]) -> tuple[FolderChange, ...]:
    """Return the folders that have to be made for ``changes``, and those they leave empty.

    New ones come first, parents before children, with the mode of the folder that they are made
    in; emptied ones follow, children first. ``__pycache__`` only goes together with its folder.
    """
    needed = {folder for change in changes if change.after for folder in _above(change.path)}
    modes: dict[str, int] = {}
    for folder in sorted(needed):
        if tree.status(folder) is None:
            parent = _parent(folder)
            modes[folder] = modes[parent] if parent in modes else tree.folder_mode(parent)
    gone = {change.path for change in changes if change.after is None}
    emptied = []
    for folder in sorted({folder for path in gone for folder in _above(path)}, reverse=True):
        names = tree.names(folder)
        if names and folder not in needed and all(f"{folder}/{name}" in gone for name in names):
            gone.add(folder)
            emptied.append(folder)
    return tuple(FolderChange(folder, None, mode) for folder, mode in modes.items()) + tuple(
        FolderChange(folder, tree.folder_mode(folder), None)
        for folder in emptied
        if not folder.endswith("__pycache__") or _parent(folder) in gone
    )


# --- before the commit point ------------------------------------------------------------------


def _with_missing(
    given: Iterable[FolderChange], found: tuple[FolderChange, ...]
) -> tuple[FolderChange, ...]:
    """Return the folders that a caller named, and those that it could not know to be missing."""
    named = tuple(given)
    known = {folder.path for folder in named}
    return named + tuple(f for f in found if f.after is not None and f.path not in known)


def _check_plan(plan: Plan) -> None:
    problems: list[Problem] = []
    journal.check(plan, problems)
    if problems:  # a mistake of the caller, not of a user
        raise ValueError("; ".join(map(str, problems)))


def _verify(tree: SiteTree, changes: Iterable[Change]) -> dict[str, FileState | None]:
    """Return every file as it is now; raises unless all are what the caller planned with."""
    states = {change.path: tree.read(change.path) for change in changes}
    problems = [
        Problem(change.path, what)
        for change in changes
        if not change.derived and (what := _difference(states[change.path], change.before))
    ]
    if problems:
        raise TargetChanged(str(tree.root), tuple(problems))
    for obstacle in tree.obstacles(states):
        raise TargetNotWritable(str(tree.root), obstacle.where, f"it {obstacle.what}")
    return states


def _difference(state: FileState | None, expected: Image | None) -> str | None:
    if state is None or expected is None:
        if state is None and expected is None:
            return None
        return "is missing" if state is None else "is there already"
    if state.sha256 != expected.sha256:
        return f"has the sha256 {state.sha256}, not {expected.sha256}"
    if state.mode != expected.mode:
        return f"has the mode {state.mode:04o}, not {expected.mode:04o}"
    return None


def _timed(change: Change, state: FileState | None) -> Change:
    """Return ``change`` with its time of writing settled, so that it is the same after a crash.

    Bytecode holds the whole second and the size of its source, nothing more. A new file of the
    same size within the same second would be served from the old bytecode, should any be written
    while we work. So such a file is given the next second.
    """
    if change.after is None or change.after.mtime_ns is not None:
        return change
    now = time.time_ns()
    if state is not None and state.mtime_ns // _SECOND == now // _SECOND:
        now += _SECOND
    return change._replace(after=change.after._replace(mtime_ns=now))


def _require_room(tree: SiteTree, plan: Plan, before: Mapping[str, FileState | None]) -> None:
    """Raise if there is plainly not enough room: a full disk is best found before it is full."""
    sizes = [state.size for state in before.values() if state is not None]
    # New content is written twice: to the store, and beside its target.
    sizes += [change.after.size for change in plan.changes if change.after is not None] * 2
    needed = sum(size + _BLOCK for size in sizes) + _SPARE_BYTES
    room, files = tree.room()
    if room is not None and room < needed:
        reason = f"{needed >> 10} KiB are needed, {room >> 10} KiB are free"
        raise TargetNotWritable(str(tree.root), "", reason)
    if files is not None and files < len(sizes) + 8:
        reason = f"{len(sizes) + 8} new files are needed, {files} can be made"
        raise TargetNotWritable(str(tree.root), "", reason)


def _lost(tree: SiteTree, image: Image | None, contents: Mapping[str, bytes]) -> bool:
    return (
        image is not None
        and image.sha256 not in contents
        and objects.get(tree, image.sha256) is None
    )


def _store(
    tree: SiteTree,
    plan: Plan,
    before: Mapping[str, FileState | None],
    contents: Mapping[str, bytes],
) -> None:
    tree.make_folder(objects.FOLDER, tree.folder_mode(CONTROL))
    stored = [
        objects.put(tree, state.sha256, state.data, state.mode)
        for state in before.values()
        if state is not None
    ]
    for change in plan.changes:
        image = change.after
        if image is None:
            continue
        data = contents.get(image.sha256)
        if data is None:
            if objects.get(tree, image.sha256) is None:
                raise BackupLost(str(tree.root), change.path, image.sha256)
        elif hashlib.sha256(data).hexdigest() != image.sha256:
            raise ValueError(f"the content given for {change.path} has another sha256")
        else:
            stored.append(objects.put(tree, image.sha256, data, image.mode))
    tree.sync(*stored, objects.FOLDER, CONTROL, "")


def _stage(tree: SiteTree, path: str, image: Image) -> tuple[Problem, ...]:
    """Write the new file of ``path`` beside it, from the store, ready to be renamed."""
    data = objects.get(tree, image.sha256)
    if data is None:
        raise BackupLost(str(tree.root), path, image.sha256)
    staged = staging_path(path)
    tree.remove(staged)
    return tree.create(
        staged, data, image.mode, mtime_ns=image.mtime_ns, like=path, otherwise=image
    )


def staging_path(path: str) -> str:
    """Return where the new file of ``path`` waits; the same every time, so it is always found."""
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}.pseries-{hashlib.sha256(path.encode(*_ODD)).hexdigest()[:16]}.new"


_ODD = ("utf-8", "surrogateescape")


def _undo(tree: SiteTree, plan: Plan, error: BaseException) -> None:
    try:
        with signals.held():
            _roll_back(tree, plan)
    except (TargetNotWritable, TargetRefused) as failure:
        if tree.status(journal.PATH) is None:
            return  # nothing was begun: at most some contents are stored that nobody needs
        reason = f"{failure.reason}, when this was to be undone: {error}"
        raise TransactionInterrupted(str(tree.root), failure.path, reason) from error


def _roll_back(tree: SiteTree, plan: Plan) -> None:
    """Remove what was written beside the targets; the targets were not touched yet."""
    emptied = {
        _parent(change.path)
        for change in plan.changes
        if change.after is not None and tree.remove(staging_path(change.path))
    }
    for folder in sorted((item.path for item in plan.folders if item.after), reverse=True):
        if tree.remove_folder(folder):
            emptied.add(_parent(folder))
    tree.sync(*emptied)
    tree.remove(journal.NEW_PATH)
    journal.discard(tree)
    _sweep(tree)


# --- after the commit point -------------------------------------------------------------------


def _roll_forward(tree: SiteTree, plan: Plan) -> list[Problem]:
    """Bring every file to its ``after``; returns what could not be kept of owners and attributes.

    Nothing is replaced unless all files are known, and each is looked at again just before.
    """
    unknown = tuple(_unknown(tree, plan))
    if unknown:
        raise TransactionBlocked(str(tree.root), unknown)
    _make_folders(tree, plan)
    warnings = [note for change in plan.changes for note in _settle(tree, change)]
    for folder in sorted((item.path for item in plan.folders if item.after is None), reverse=True):
        tree.remove_folder(folder)
    touched = [change.path for change in plan.changes] + [folder.path for folder in plan.folders]
    tree.sync(*map(_parent, touched))
    journal.discard(tree)
    _sweep(tree)
    return warnings


def _settle(tree: SiteTree, change: Change) -> tuple[Problem, ...]:
    state, image = tree.read(change.path), change.after
    what = _surprise(state, change)
    if what is not None:
        raise TransactionBlocked(str(tree.root), (Problem(change.path, what),))
    if image is None:
        tree.remove(change.path)
        return ()
    staged = staging_path(change.path)
    notes: tuple[Problem, ...] = ()
    if _matches(state, image):
        tree.remove(staged)
        return ()
    if not _matches(tree.read(staged), image):
        notes = _stage(tree, change.path, image)
        tree.sync(staged)
    tree.rename(staged, change.path)
    return notes


def _unknown(tree: SiteTree, plan: Plan) -> Iterator[Problem]:
    """Yield the files that are neither what they were nor what they are to become."""
    for change in plan.changes:
        what = _surprise(tree.read(change.path), change)
        if what is not None:
            yield Problem(change.path, what)


def _surprise(state: FileState | None, change: Change) -> str | None:
    known = {None if side is None else side.sha256 for side in (change.before, change.after)}
    if change.derived or (None if state is None else state.sha256) in known:
        return None
    return "is missing" if state is None else f"has the unknown sha256 {state.sha256}"


def _matches(state: FileState | None, image: Image) -> bool:
    return (
        state is not None
        and (state.sha256, state.mode) == (image.sha256, image.mode)
        and image.mtime_ns in (None, state.mtime_ns)
    )


def _keep_unknown(tree: SiteTree, plan: Plan) -> Iterator[tuple[str, str]]:
    """Copy away each unknown file, then remove or replace it, so that the plan can go on."""
    for change in plan.changes:
        if _surprise(tree.read(change.path), change) is None:
            continue
        copy = set_aside(tree, change.path)
        if copy is not None:
            yield change.path, copy
        _make_folders(tree, plan)
        if change.after is None:
            tree.remove(change.path)
        else:
            _stage(tree, change.path, change.after)
            tree.sync(staging_path(change.path))
            tree.rename(staging_path(change.path), change.path)


def _make_folders(tree: SiteTree, plan: Plan) -> None:
    made = {folder.path: folder.after for folder in plan.folders if folder.after is not None}
    for path in sorted(made):  # parents first
        tree.make_folder(path, made[path])


def _sweep(tree: SiteTree) -> None:
    """Remove contents that no receipt refers to; leftovers are only a waste of room."""
    with contextlib.suppress(StateInvalid, StateNotOurs, TargetRefused, TargetNotWritable):
        objects.sweep(tree, receipt.read(tree).backups())


@contextlib.contextmanager
def _finishing(tree: SiteTree) -> Iterator[None]:
    """Do decided work: not stopped by Ctrl-C, and told as "interrupted" if the system refuses."""
    try:
        with signals.held():
            yield
    except (TargetNotWritable, TargetRefused) as error:
        raise TransactionInterrupted(str(tree.root), error.path, error.reason) from error
    except BackupLost as error:
        reason = "its new content is neither stored nor beside it"
        raise TransactionInterrupted(str(tree.root), error.path, reason) from error


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> Collection[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]
