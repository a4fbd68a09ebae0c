"""Reading commits of a repository that others made: what a range of them changes, patch by patch.

Its objects are read through a scratch store that borrows them, so that no setting, filter or
attribute of the repository has a say; git runs in it only to find commits by their names.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import RangeRefused
from pseries.git import objects, process
from pseries.git.merge import MergeStore
from pseries.model import commit as commits
from pseries.model import paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pseries.model.commit import Commit

MOST_COMMITS = 20_000
NOTES = "refs/notes/pseries"
"""Notes on the commits of an exported series: the patch that each was made from."""
_REVISION = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_./@{}^~+-]{0,254}")
_ID = re.compile(r"[0-9a-f]{40}")


class Change(NamedTuple):
    """A commit and what it changes, as ``git format-patch`` shows it with full ids.

    ``note`` is what :data:`NOTES` has for it, ``None`` if nothing.
    """

    commit: Commit
    diff: bytes
    note: bytes | None


def git_dir_of(folder: Path) -> Path | None:
    """Return the repository of a checkout, or the bare one that a folder is; ``None`` if neither.

    A worktree's ``.git`` is a file; git follows it.
    """
    if (folder / ".git").exists():
        return folder / ".git"
    if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        return folder
    return None


def changes(folder: Path, between: str) -> tuple[Change, ...]:
    """Return what a range of commits changes, the oldest first.

    Args:
        folder: a checkout or a bare repository.
        between: ``REV..REV``; a side that is left out is HEAD.

    Raises:
        RangeRefused: it names no straight line of commits, or none at all.
    """
    folder = folder.absolute()
    git_dir = git_dir_of(folder)
    if git_dir is None:
        raise RangeRefused(str(folder), between, "there is no git repository")
    first, dots, last = between.partition("..")
    if not dots or last.startswith("."):
        raise RangeRefused(str(folder), between, "a range is two revisions, as in v1.0..mine")
    begin, end = (_resolved(folder, git_dir, name or "HEAD", between) for name in (first, last))
    listed = _git(git_dir, "rev-list", "--reverse", "--topo-order", "--parents",
                  f"--max-count={MOST_COMMITS}", end, f"^{begin}")  # fmt: skip
    rows = [row.split() for row in listed.decode("ascii").splitlines()]
    reason = _crooked(rows)
    if reason is not None:
        raise RangeRefused(str(folder), between, reason)
    try:
        return _read(git_dir, rows[0][1], [row[0] for row in rows])
    except ValueError:  # no git writes such a commit
        what = "a commit in it has no author, or no date, that can be read"
        raise RangeRefused(str(folder), between, what) from None


def _crooked(rows: Sequence[Sequence[str]]) -> str | None:
    """Say why rows of a commit and its parents are no straight line, ``None`` if they are one."""
    if not rows:
        return "it holds no commit: the second revision has nothing that the first has not"
    if len(rows) == MOST_COMMITS:
        return f"it holds {MOST_COMMITS} commits or more"
    merge = next((row[0] for row in rows if len(row) > 2), None)
    if merge is not None:
        return f"{merge[:12]} is a merge: a patch is against one parent; rebase the branch"
    before = rows[0][1:2]
    for commit, *parents in rows:
        if not parents or parents != list(before):
            return f"{commit[:12]} does not stand on the commit before it"
        before = [commit]
    return None


def _git(git_dir: Path, *arguments: str, accept: Sequence[int] = (0,)) -> bytes:
    said = process.run(
        arguments, git_dir=git_dir, accept=accept, extra={"GIT_NO_REPLACE_OBJECTS": "1"}
    )
    return said.stdout if said.status == 0 else b""


def _resolved(folder: Path, git_dir: Path, name: str, between: str) -> str:
    if not _REVISION.fullmatch(name) or ".." in name:
        raise RangeRefused(str(folder), between, f"{name!r} cannot name a commit")
    said = _git(git_dir, "rev-parse", "--verify", "--quiet", "--end-of-options",
                f"{name}^{{commit}}", accept=(0, 1, 128))  # fmt: skip
    found = said.decode("ascii", "replace").strip()
    if not _ID.fullmatch(found):
        raise RangeRefused(str(folder), between, f"there is no commit {name!r}")
    return found


def _read(git_dir: Path, below: str, ids: Sequence[str]) -> tuple[Change, ...]:
    common = _git(git_dir, "rev-parse", "--path-format=absolute", "--git-common-dir")
    notes = _notes(git_dir)
    with objects.scratch(Path(paths.decode(common.rstrip(b"\n")))) as store:
        contents = store.read([below, *ids], "commit")
        found = [commits.parse(name, _utf8(contents[name])) for name in (below, *ids)]
        trees = [each.tree for each in found]
        diffs = MergeStore(store).diffs(list(pairwise(trees)))
        said = store.read(notes[name] for name in ids if name in notes)
    return tuple(
        Change(each, diff, said.get(notes.get(each.id, "")))
        for each, diff in zip(found[1:], diffs, strict=True)
    )


def _notes(git_dir: Path) -> dict[str, str]:
    """Return the notes of an exported series: the blob of each commit."""
    said = _git(git_dir, "ls-tree", "-r", "-z", "--full-tree", NOTES, accept=(0, 128))
    named = ((path.replace("/", ""), entry) for path, entry in objects.listed(said))
    return {name: entry.blob for name, entry in named if _ID.fullmatch(name) and entry.is_file}


def _utf8(content: bytes) -> bytes:
    """Return a commit as UTF-8 where it says that it is something else (i18n.commitEncoding)."""
    named = re.search(rb"^encoding (\S{1,60})$", content.partition(b"\n\n")[0], re.MULTILINE)
    if named is None:
        return content
    try:
        return content.decode(named[1].decode("ascii")).encode("utf-8")
    except (LookupError, ValueError):  # not every codec says so in the same way
        return content
