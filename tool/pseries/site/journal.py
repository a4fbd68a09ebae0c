"""The journal of one transaction: ``.pseries/journal``, one or two lines of JSON.

The first line is the plan; it appears as a whole, by rename. The second is the commit record, an
appended line that names the sha256 of the first. It is the one moment at which a transaction
changes from "to be undone" to "to be finished": a torn or missing second line means undo.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import JournalInvalid, Problem, TargetNotWritable, TargetRefused
from pseries.model.fields import Fields, parse_json
from pseries.model.paths import CONTROL
from pseries.site.change import Change, FolderChange

if TYPE_CHECKING:
    from pseries.site.fs import SiteTree

PATH = f"{CONTROL}/journal"
NEW_PATH = f"{CONTROL}/journal.new"
SCHEMA = 1


class Plan(NamedTuple):
    """Everything that a transaction does, in order."""

    changes: tuple[Change, ...]
    folders: tuple[FolderChange, ...] = ()


class Journal(NamedTuple):
    """A plan, and whether it was committed."""

    plan: Plan
    committed: bool


def render(plan: Plan) -> bytes:
    """Return the first line of the journal of ``plan``."""
    document = {
        "schema": SCHEMA,
        "changes": [change.document() for change in plan.changes],
        "folders": [folder.document() for folder in plan.folders],
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def commit_record(line: bytes) -> bytes:
    """Return the line that commits the plan in ``line``."""
    return b'{"commit":"%s"}\n' % hashlib.sha256(line).hexdigest().encode()


def parse(data: bytes, problems: list[Problem]) -> Journal:
    """Return the journal in ``data``; what is wrong is appended to ``problems``."""
    end = data.find(b"\n") + 1
    line, rest = data[:end], data[end:]
    if not end:
        problems.append(Problem("journal", "the first line does not end"))
    table = Fields(parse_json("journal", line, problems), "journal", problems)
    schema = table.number("schema")
    if schema != SCHEMA:
        # What else a later format says is not ours to judge.
        what = f"is {schema}, this program reads {SCHEMA}: use the pseries that wrote it"
        problems.append(Problem("journal schema", what))
        return Journal(Plan(()), committed=False)
    plan = Plan(
        tuple(Change.read(change) for change in table.tables("changes")),
        tuple(FolderChange.read(folder) for folder in table.tables("folders")),
    )
    table.finish()
    check(plan, problems)
    record = commit_record(line)
    if not record.startswith(rest):
        problems.append(Problem("journal", "the second line is not the commit of the first"))
    return Journal(plan, committed=rest == record)


def check(plan: Plan, problems: list[Problem]) -> None:
    """Report what no plan may do: change a path twice, or touch the machinery itself."""
    seen: set[str] = set()
    for path in [change.path for change in plan.changes] + [item.path for item in plan.folders]:
        if path in seen:
            problems.append(Problem(path, "is changed twice"))
        seen.add(path)
        if path in _OWN or path.startswith(_OWN_FOLDER):
            problems.append(Problem(path, "belongs to the transaction itself"))


_OWN = frozenset({CONTROL, f"{CONTROL}/lock", PATH, NEW_PATH, f"{CONTROL}/objects"})
_OWN_FOLDER = f"{CONTROL}/objects/"


def read(tree: SiteTree) -> Journal | None:
    """Return the journal of a target, ``None`` if no transaction is under way.

    Raises :class:`JournalInvalid` with everything that is wrong with it, and
    :class:`~pseries.errors.StateNotOurs` where somebody wrote it who must not tell us what to do.
    """
    state = tree.read_own(PATH)
    if state is None:
        return None
    problems: list[Problem] = []
    found = parse(state.data, problems)
    if problems:
        raise JournalInvalid(str(tree.root), tuple(problems))
    return found


def prepare(tree: SiteTree, plan: Plan) -> bytes:
    """Make ``plan`` the journal of the target, durably; returns the line to commit."""
    line = render(plan)
    tree.remove(NEW_PATH)
    tree.create(NEW_PATH, line, 0o644)
    tree.sync(NEW_PATH)
    tree.rename(NEW_PATH, PATH)
    tree.sync(CONTROL)
    return line


def commit(tree: SiteTree, line: bytes) -> None:
    """Append the commit record, durably: from here on the plan is finished, not undone."""
    tree.append(PATH, commit_record(line))


def discard(tree: SiteTree) -> None:
    """Remove the journal: the transaction is over."""
    tree.remove(PATH)
    # If this does not reach the disk, a power cut brings the journal back, and following it once
    # more changes nothing. So it is no reason to call the transaction unfinished.
    with contextlib.suppress(TargetNotWritable, TargetRefused):
        tree.sync(CONTROL)
