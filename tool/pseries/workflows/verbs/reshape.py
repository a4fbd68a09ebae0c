"""Verbs that change which patches there are: new, delete, rename, header, fold, split, fork."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    DoesNotFold,
    LaterConflicts,
    MessageRefused,
    NameTaken,
    PatchRefused,
    Problem,
    SplitRefused,
    StackEnd,
)
from pseries.model import commit as commits
from pseries.model import order as orders
from pseries.model import paths
from pseries.model import stack as stacks
from pseries.model.commit import Commit
from pseries.model.diff import patch as patch_files
from pseries.model.diff import splice
from pseries.model.stack import SUFFIX, Entry
from pseries.workflows.verbs.checkout import make_ready
from pseries.workflows.verbs.refresh import settled, with_entry
from pseries.workflows.verbs.stack import with_carried

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pseries.model.diff.patch import Patch
    from pseries.model.diff.splice import File
    from pseries.model.stack import Stack
    from pseries.workflows.verbs.refresh import Refreshed
    from pseries.workflows.verbs.stack import Work


_WHOLE = 0
"""Stands for all hunks of a file; they are numbered from 1."""


class Choice(NamedTuple):
    """A file of a patch, and the numbers of hunks in it, from 1; none means the whole file."""

    path: str
    hunks: tuple[int, ...]


def new(work: Work, name: str, author: str, subject: str = "") -> str:
    """Put an empty patch on top and return its name; edits stay, for the next refresh.

    Args:
        work: the checkout.
        name: of its file; made from the subject where it is empty.
        author: ``Name <mail>``.
        subject: what it does, one line; made from the name where it is empty.

    Raises:
        NameTaken: there is such a patch, or no file can have that name.
    """
    make_ready(work, edits=True)
    stack = work.stack
    taken = {entry.name for entry in stack.entries}
    named = _checked_name(work, name) if name else stacks.new_name(subject, stack.top + 1, taken)
    moment = f"{int(time.time())} {time.strftime('%z')}"
    commit = Commit("", "", (), author, moment, f"{subject or stacks.subject_of(named)}\n")
    tree = work.checkout.tree_of(stack.head)
    made = work.checkout.write_commit(commit, tree, stack.head)
    entries = (*stack.applied, Entry(named, 1, made, ""), *stack.unapplied)
    whole, _ = with_carried(work, stack._replace(entries=entries, top=stack.top + 1), stack.top + 1)
    settled(work, f"new {named}", whole, patch=named)
    return named


def delete(work: Work, words: str) -> Refreshed:
    """Remove a patch from the series, applied or not; those above it are carried down.

    Raises:
        LaterConflicts: an applied patch above it needs it.
        Unrefreshed: there are edits.
    """
    make_ready(work)
    stack = work.stack
    number = work.number(words)
    name = stack.entries[number].name
    rest = stack._replace(
        entries=(*stack.entries[:number], *stack.entries[number + 1 :]),
        top=stack.top - (number < stack.top),
    )
    rest, _ = with_carried(work, rest, number)
    return settled(work, f"delete {name}", rest, patch=name)


def rename(work: Work, words: str, name: str) -> Refreshed:
    """Give a patch another name; its place and its bytes stay.

    Raises:
        NameTaken: there is such a patch, or no file can have that name.
    """
    make_ready(work, edits=True)
    number = work.number(words)
    entry = work.stack.entries[number]
    name = _checked_name(work, name)
    entries = list(work.stack.entries)
    entries[number] = entry._replace(name=name)
    stack = work.stack._replace(entries=tuple(entries))
    renamed = {entry.name: name} if entry.written else {}
    return settled(work, f"rename {entry.name} {name}", stack, patch=name, renamed=renamed)


def header(work: Work, words: str) -> str:
    """Return the message of a patch: what its commit says."""
    entry = work.stack.entries[work.number(words)]
    return work.checkout.read_commits([entry.commit])[0].message


def set_header(work: Work, words: str, text: str, *, append: bool = False) -> Refreshed:
    """Replace the message of a patch, or append to it; author and date stay.

    Raises:
        MessageRefused: the text is empty, or would be taken for a diff.
    """
    make_ready(work, edits=True)
    number = work.number(words)
    stack = work.stack
    entry = stack.entries[number]
    commit = work.checkout.read_commits([entry.commit])[0]
    message = f"{commit.message.rstrip()}\n\n{text.strip()}\n" if append else f"{text.strip()}\n"
    if not text.strip():
        raise MessageRefused(entry.name, (Problem(entry.name, "the text is empty"),))
    new = commit._replace(message=message)
    commits.header_for(new, None, entry.name)  # refuses what cannot be a header
    made = work.checkout.write_commit(new, commit.tree, stack.below(number))
    whole = with_entry(work, stack, number, entry._replace(commit=made))
    return settled(work, f"header {entry.name}", whole, patch=entry.name)


def fold(work: Work, name: str, data: bytes, strip: int) -> Refreshed:
    """Apply a diff to the top patch, which takes it in.

    Args:
        work: the checkout; without edits.
        name: of the diff, for messages.
        data: its bytes.
        strip: its ``-pN``.

    Raises:
        DoesNotFold: it does not apply exactly.
        PatchRefused: it cannot be read.
    """
    make_ready(work)
    number = work.number("")
    patch = patch_files.parse(name, data, strip)
    if refused := patch_files.refusals(patch):
        raise PatchRefused(name, refused)
    stack = work.stack
    tree, said = work.checkout.apply(work.checkout.tree_of(stack.head), patch.diff, strip)
    if not tree:
        raise DoesNotFold(said)
    return _with_tree(work, stack, number, tree, f"fold {name}")


def fold_patch(work: Work, words: str) -> Refreshed:
    """Take the next patch, or another unapplied one, into the top patch, and delete it.

    Raises:
        StackEnd: none is applied, or the named one is.
        LaterConflicts: it does not apply on the top patch.
    """
    make_ready(work)
    stack = work.stack
    number, top = stack.find(words), work.number("")
    entry = stack.entries[number]
    if number <= top:
        raise StackEnd(f"{entry.name} is applied: pop it first")
    commit = work.checkout.read_commits([entry.commit])[0]
    below = work.checkout.tree_of(commit.parents[0])
    tree, conflicts = work.checkout.merge(below, work.checkout.tree_of(stack.head), commit.tree)
    if conflicts:
        raise LaterConflicts(entry.name, conflicts)
    rest = tuple(each for each in stack.entries if each.name != entry.name)
    return _with_tree(work, stack._replace(entries=rest), top, tree, f"fold {entry.name}")


def split(work: Work, name: str, choices: Sequence[Choice]) -> Refreshed:
    """Move files or hunks of the top patch into a new patch right above it.

    Args:
        work: the checkout; without edits.
        name: of the new patch.
        choices: what it gets.

    Raises:
        NameTaken: there is such a patch.
        SplitRefused: a choice is not in the patch, or nothing would stay.
    """
    make_ready(work)
    number = work.number("")
    name = _checked_name(work, name)
    stack = work.stack
    entry = stack.entries[number]
    commit = work.checkout.read_commits([entry.commit])[0]
    below = work.checkout.tree_of(stack.below(number))
    diff = _diff(work, below, commit.tree)
    rest = _without(patch_files.parse(entry.name, diff), choices)
    touched = work.checkout.changes([(below, commit.tree)])[0]
    before = work.checkout.files({path: each[0] for path, each in touched.items() if each[0]})
    problems: list[Problem] = []
    after = splice.apply_patch(before, rest, problems)
    if problems:
        raise PatchRefused(entry.name, tuple(problems))
    tree = _tree_with(work, stack.below(number), {path: after.get(path) for path in touched})
    first = work.checkout.write_commit(commit, tree, stack.below(number))
    message = f"{stacks.subject_of(name)}\n"
    second = work.checkout.write_commit(commit._replace(message=message), commit.tree, first)
    entries = (
        *stack.entries[:number], entry._replace(commit=first), Entry(name, 1, second, ""),
        *stack.unapplied,
    )  # fmt: skip
    whole, _ = with_carried(work, stack._replace(entries=entries, top=stack.top + 1), number + 2)
    return settled(work, f"split {entry.name} {name}", whole, patch=entry.name)


def fork(work: Work, name: str) -> Refreshed:
    """Give the top patch a new name and leave its old file out of the series.

    A series folder holds no file that is not listed, so the old version is where ``undo`` and the
    project's git have it.
    """
    number = work.number("")
    entry = work.stack.entries[number]
    if not name:
        stem, _, number_text = entry.name.removesuffix(SUFFIX).rpartition("-")
        again = number_text.isdigit() and stem
        name = f"{stem}-{int(number_text) + 1}" if again else f"{entry.name.removesuffix(SUFFIX)}-2"
    return rename(work, entry.name, name)


# --- means ------------------------------------------------------------------------------------


def _checked_name(work: Work, name: str) -> str:
    if not name.endswith((SUFFIX, ".diff")):
        name = f"{name}{SUFFIX}"
    if name in {entry.name for entry in work.stack.entries} or (work.folder / name).exists():
        raise NameTaken(name, "there is one already")
    problems: list[Problem] = []
    order = orders.parse(f"{name}\n".encode("utf-8", "surrogateescape"), problems)
    if problems or order.names != (name,):
        why = problems[0].what if problems else "it must be one word, and no comment"
        raise NameTaken(paths.display(name), why)
    return name


def _with_tree(work: Work, stack: Stack, number: int, tree: str, verb: str) -> Refreshed:
    """Let the top patch end in another tree; the worktree follows."""
    entry = stack.entries[number]
    commit = work.checkout.read_commits([entry.commit])[0]
    made = work.checkout.write_commit(commit, tree, stack.below(number))
    whole = with_entry(work, stack, number, entry._replace(commit=made))
    return settled(work, verb, whole, patch=entry.name)


def _diff(work: Work, old: str, new: str) -> bytes:
    with work.checkout.merge_store() as store:
        return store.diffs([(old, new)])[0]


def _tree_with(work: Work, parent: str, files: dict[str, File | None]) -> str:
    plain = Commit("", "", (), *commits.NOBODY, "scratch\n")
    return work.checkout.tree_of(work.checkout.import_patches(parent, [(plain, files)])[0])


def _without(patch: Patch, choices: Sequence[Choice]) -> Patch:
    """Return a patch without the files and hunks that were chosen."""
    problems: list[Problem] = []
    chosen: dict[str, set[int]] = {}
    known = {section.path: section for section in patch.sections}
    for choice in choices:
        section = known.get(choice.path)
        numbers = set(choice.hunks)
        if section is None:
            problems.append(Problem(paths.display(choice.path), "the patch does not change it"))
        elif not numbers <= set(range(1, len(section.hunks) + 1)):
            what = f"it has {len(section.hunks)} hunks, so not {sorted(numbers)}"
            problems.append(Problem(paths.display(choice.path), what))
        elif numbers and section.old != section.new:
            what = "only a change can be split by hunks, not a new, deleted or renamed file"
            problems.append(Problem(paths.display(choice.path), what))
        else:
            chosen.setdefault(choice.path, set()).update(numbers or {_WHOLE})
    if problems:
        raise SplitRefused(patch.name, tuple(problems))
    rest = []
    for section in patch.sections:
        numbers = chosen.get(section.path, set())
        kept = tuple(hunk for at, hunk in enumerate(section.hunks, 1) if at not in numbers)
        if _WHOLE in numbers or (section.hunks and not kept):
            continue
        rest.append(replace(section, hunks=kept))
    if not choices or not rest:
        what = "name files or hunks to move" if not choices else "nothing would stay in the patch"
        raise SplitRefused(patch.name, (Problem(patch.name, what),))
    return replace(patch, sections=tuple(rest))
