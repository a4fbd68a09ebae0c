"""What a checkout has to say: files of a patch, who brought a line, which patch needs which."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import FileNotShown, StackEnd
from pseries.model import ownership
from pseries.model.diff import patch as patch_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pseries.model.diff.patch import Patch
    from pseries.model.stack import Entry
    from pseries.workflows.verbs.stack import Work


class Listed(NamedTuple):
    """A patch of the series: whether it is applied, and whether it is the top one."""

    name: str
    applied: bool
    top: bool


class Touched(NamedTuple):
    """A file that a patch changes: ``A`` added, ``M`` modified, ``D`` deleted."""

    patch: str
    kind: str
    path: str


class Line(NamedTuple):
    """A line of a file, and the patch that brought it; empty for upstream's."""

    number: int
    patch: str
    text: bytes


class Edge(NamedTuple):
    """A patch that needs another one, and the files where that is seen."""

    patch: str
    on: str
    files: tuple[str, ...]


def series(work: Work) -> tuple[Listed, ...]:
    """Return all patches in order."""
    stack = work.stack
    return tuple(
        Listed(entry.name, number < stack.top, number == stack.top - 1)
        for number, entry in enumerate(stack.entries)
    )


def neighbour(work: Work, words: str, step: int) -> str:
    """Return the patch after (+1) or before (-1) another one, by default the top one.

    Raises:
        StackEnd: there is none.
    """
    stack = work.stack
    at = (stack.find(words) if words else stack.top - 1) + step
    if not 0 <= at < len(stack.entries):
        raise StackEnd("there is no patch after that" if step > 0 else "there is none before that")
    return stack.entries[at].name


def files(work: Work, words: str = "", *, everything: bool = False) -> tuple[Touched, ...]:
    """Return the files of a patch, by default the top one, or of all that are applied."""
    chosen = work.stack.applied if everything else (work.stack.entries[work.number(words)],)
    found = []
    for entry, pair in zip(chosen, _trees(work, chosen), strict=True):
        for path, (old, new) in sorted(work.checkout.changes([pair])[0].items()):
            kind = "A" if old is None else "D" if new is None else "M"
            found.append(Touched(entry.name, kind, path))
    return tuple(found)


def patches(work: Work, path: str) -> tuple[str, ...]:
    """Return the patches that change a file, in order, applied or not."""
    entries = work.stack.entries
    changes = work.checkout.changes(_trees(work, entries))
    return tuple(
        entry.name for entry, change in zip(entries, changes, strict=True) if path in change
    )


def annotate(work: Work, path: str) -> tuple[Line, ...]:
    """Return every line of a file, as the top patch leaves it, with the patch it comes from.

    Raises:
        FileNotShown: there is no such file.
    """
    head = work.checkout.tree_of(work.stack.head)
    with work.checkout.merge_store() as store:
        there = store.pick(head, [path])
    if path not in there:
        raise FileNotShown(path)
    entries = work.stack.applied
    traced = ownership.trace(*_history(work, entries))
    lines = there[path][1].split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    owners = traced.lines.get(path, (ownership.UPSTREAM,) * len(lines))
    return tuple(
        Line(number, "" if owner == ownership.UPSTREAM else entries[owner].name, text)
        for number, (owner, text) in enumerate(zip(owners, lines, strict=False), 1)
    )


def graph(work: Work) -> tuple[Edge, ...]:
    """Return which patch needs which, among those that are applied."""
    entries = work.stack.applied
    traced = ownership.trace(*_history(work, entries))
    return tuple(
        Edge(entries[need.patch].name, entries[need.on].name, need.files) for need in traced.needs
    )


def diff(work: Work, names: Sequence[str], *, words: str = "", edits: bool = False) -> bytes:
    """Return the diff of the top patch with the edits on it, of another patch, or of edits alone.

    Args:
        work: the checkout.
        names: the files to show; all where empty.
        words: another patch, shown as it was refreshed last.
        edits: only what no patch has yet.
    """
    stack = work.stack
    if edits:
        return work.checkout.diff(stack.head, None, names)
    number = work.number(words)
    if words and number != stack.top - 1:
        return work.checkout.diff(stack.below(number), stack.entries[number].commit, names)
    return work.checkout.diff(stack.below(number), None, names)


def track(work: Work, names: Sequence[str]) -> None:
    """Let git track files, so that the next refresh takes them.

    Raises:
        FileNotShown: one is not there.
    """
    show(work, names)
    for name in names:
        file = work.checkout.folder / name
        if file.is_symlink() or not file.is_file() or name.split("/")[0] == ".git":
            raise FileNotShown(name)
    work.checkout.add(names)


def show(work: Work, names: Sequence[str]) -> None:
    """Let files of the release that a sparse worktree leaves out appear in it."""
    left_out = [
        name for name in names
        if not (work.checkout.folder / name).exists()
        and not work.checkout.shows(name) and _is_known(work, name)
    ]  # fmt: skip
    work.checkout.widen({name.rpartition("/")[0] for name in left_out})


def remember(work: Work) -> None:
    """Keep the worktree as it is, for :func:`since`."""
    work.checkout.remember(work.checkout.worktree_tree())


def since(work: Work, names: Sequence[str]) -> bytes:
    """Return the diff from what was remembered last to the worktree.

    Raises:
        StackEnd: nothing was.
    """
    tree = work.checkout.remembered()
    if not tree:
        raise StackEnd("there is no snapshot: pseries snapshot makes one")
    return work.checkout.diff(tree, None, names)


def inside(work: Work, path: str, here: Path) -> str:
    """Return a file's canonical path, given relative to the current folder, or as it is.

    Where both could be meant it is the one that is there, in the worktree or in the release.

    Raises:
        FileNotShown: it lies outside the worktree.
    """
    top = work.checkout.folder
    found = os.path.relpath(os.path.normpath(here / path), top)
    if path and found.split("/")[0] not in {"..", "."}:
        if (top / found).exists() or _is_known(work, found):
            return found
        whole = os.path.normpath(path)
        known = whole[0] not in "./" and ((top / whole).exists() or _is_known(work, whole))
        return whole if known else found
    raise FileNotShown(path)


# --- means ------------------------------------------------------------------------------------


def _is_known(work: Work, path: str) -> bool:
    head = work.checkout.tree_of(work.stack.head)
    with work.checkout.merge_store() as store:
        return path in store.pick(head, [path])


def _trees(work: Work, entries: Sequence[Entry]) -> list[tuple[str, str]]:
    commits = work.checkout.read_commits([entry.commit for entry in entries])
    below = work.checkout.read_commits([commit.parents[0] for commit in commits])
    return [(under.tree, commit.tree) for under, commit in zip(below, commits, strict=True)]


def _history(work: Work, entries: Sequence[Entry]) -> tuple[dict[str, bytes], list[Patch]]:
    """Return the touched files of the release, and the patches as their commits have them."""
    with work.checkout.merge_store() as store:
        diffs = store.diffs(_trees(work, entries))
        parsed = [
            patch_files.parse(entry.name, diff)
            for entry, diff in zip(entries, diffs, strict=True)
            if diff
        ]
        touched = {path for patch in parsed for path in patch.paths}
        base = work.checkout.tree_of(work.stack.base)
        before = {path: data for path, (_, data) in store.pick(base, touched).items()}
    empty = patch_files.Patch("", b"", patch_files.Header(b"", "", "", "", "", ()), (), b"", 1)
    by_name = {patch.name: patch for patch in parsed}
    return before, [by_name.get(entry.name, empty) for entry in entries]
