"""The stack of a checkout: which commit each patch of a series is, and how many are applied.

Pure values; git keeps them (``git.checkout``), and verbs change them (``workflows``).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pseries.model import order as orders
from pseries.model.commit import slug
from pseries.model.fields import Fields, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pseries.errors import Problem
    from pseries.model.commit import Commit

FILE = "stack.json"
SCHEMA = 1
_ID = re.compile(r"[0-9a-f]{40}")
_NUMBERED = re.compile(r"(\d{4})-")
SUFFIX = ".patch"


class Entry(NamedTuple):
    """One patch: its name and ``-pN``, its commit, and the commit that its file was written from.

    ``written`` is empty while the series folder does not hold the patch.
    """

    name: str
    strip: int
    commit: str
    written: str


class Stack(NamedTuple):
    """The state of a checkout.

    Attributes:
        series: name of the series.
        folder: its folder.
        base: commit of the release, with the series that this one is made on top of.
        entries: the patches in order.
        top: how many of them are applied.
        pending: the patch that stopped with a conflict while it was pushed; else empty.
        locked: whether the folder's manifest is of these patches.
    """

    series: str
    folder: str
    base: str
    entries: tuple[Entry, ...]
    top: int
    pending: str = ""
    locked: bool = True

    @property
    def applied(self) -> tuple[Entry, ...]:
        """The patches that are applied, in order."""
        return self.entries[: self.top]

    @property
    def unapplied(self) -> tuple[Entry, ...]:
        """The patches that are not, in order."""
        return self.entries[self.top :]

    @property
    def head(self) -> str:
        """The commit that the worktree stands on."""
        return self.entries[self.top - 1].commit if self.top else self.base

    def below(self, number: int) -> str:
        """Return the commit below the patch at an index."""
        return self.entries[number - 1].commit if number else self.base

    def find(self, word: str) -> int:
        """Return the index of the patch that a word means, as :func:`pseries.model.order.find`."""
        return orders.find([entry.name for entry in self.entries], word)


def render(stack: Stack) -> bytes:
    """Return the stack as JSON, the exact inverse of :func:`parse`."""
    document = {
        "schema": SCHEMA,
        **stack._asdict(),
        "entries": [entry._asdict() for entry in stack.entries],
    }
    return (json.dumps(document, indent=1) + "\n").encode("ascii")


def parse(data: bytes, problems: list[Problem]) -> Stack:
    """Read a stack; what is wrong is appended to ``problems``."""
    fields = Fields(parse_json(FILE, data, problems), FILE, problems)
    if fields.number("schema") > SCHEMA:
        fields.refuse("schema", "a newer pseries wrote this")
        return Stack("", "", "", (), 0)
    entries = []
    for each in fields.tables("entries"):
        entries.append(
            Entry(
                each.text("name"),
                each.number("strip", most=9),
                each.text("commit", matching=_ID, meaning="an object id"),
                each.text("written", default=""),
            )
        )
        each.finish()
    stack = Stack(
        fields.text("series"),
        fields.text("folder"),
        fields.text("base", matching=_ID, meaning="an object id"),
        tuple(entries),
        fields.number("top", most=len(entries)),
        fields.text("pending", default=""),
        fields.flag("locked"),
    )
    fields.finish()
    return stack


def new_name(subject: str, number: int, taken: Iterable[str]) -> str:
    """Return a name for a new patch: as ``git format-patch`` would number it where others are.

    Args:
        subject: of the patch.
        number: its place in the series, from 1.
        taken: the names there are.
    """
    names = set(taken)
    numbered = all(_NUMBERED.match(name) for name in names)
    stem = f"{number:04}-{slug(subject)}" if numbered else slug(subject)
    name, again = f"{stem}{SUFFIX}", 1
    while name in names:
        again += 1
        name = f"{stem}-{again}{SUFFIX}"
    return name


def subject_of(name: str) -> str:
    """Return a subject for a patch that has only a name: the words of it."""
    words = _NUMBERED.sub("", name.removesuffix(SUFFIX)).replace("-", " ").replace("_", " ").strip()
    return words or name


def names_of(before: Sequence[tuple[Entry, Commit]], now: Sequence[Commit]) -> list[str]:
    """Return which patch each commit is after a person worked with plain git; "" for new ones.

    A commit that git rewrote keeps its author's name and date (``commit --amend``, ``rebase -i``),
    and mostly its subject; one that only got other words keeps its tree. So it is, in this order:
    the same commit; the one of the same author, date and subject; and, as far as only one can be
    meant, of the same author and date; of the same tree; of the same subject. Each patch is found
    once.

    Args:
        before: the patches that were applied, with their commits as they were.
        now: the commits there are, the lowest first.
    """
    found = [""] * len(now)
    left = list(before)
    keys: tuple[tuple[bool, Callable[[Commit], object]], ...] = (
        (False, lambda commit: commit.id),
        (False, lambda commit: (commit.author, commit.date, commit.subject)),
        (True, lambda commit: (commit.author, commit.date)),
        (True, lambda commit: commit.tree),
        (True, lambda commit: commit.subject),
    )
    for alone, key in keys:
        of_old = Counter(key(each[1]) for each in left)
        of_new = Counter(key(each) for each, name in zip(now, found, strict=True) if not name)
        for number, commit in enumerate(now):
            said = key(commit)
            if found[number] or (alone and (of_old[said] > 1 or of_new[said] > 1)):
                continue
            match = next((each for each in left if key(each[1]) == said), None)
            if match is not None:
                found[number] = match[0].name
                left.remove(match)
    return found
