"""Where a person resolves a conflict: a sparse git worktree, and the resolutions git remembers.

The worktree is a repository of its own that borrows the objects of the store. It holds only the
files of one patch; git believes in all others without seeing them (sparse checkout). Files are
written by us, not by ``git checkout``: attributes of a stranger's tree must not change a byte.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pseries import durable
from pseries.errors import Problem, WorktreeRefused
from pseries.git import loose
from pseries.git.workspace import Workspace
from pseries.model import paths
from pseries.model.verdicts.conflict import has_markers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pseries.model.diff.splice import File

_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = false
\tsparseCheckout = true
\tautocrlf = false
[merge]
\tconflictStyle = diff3
[rerere]
\tenabled = true
[gc]
\tauto = 0
"""
_BRANCH = "refs/heads/rebase"
_START = "refs/pseries/start"
"""The commit that the worktree was made on, also after a person committed there."""
_SUBJECT = b"the new release and the patches so far\n"
_RECORDS = ("preimage", "postimage")
_JUNK = ("__pycache__",)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A file that a person has to decide on: the three sides, and the text that shows them."""

    path: str
    base: File | None
    ours: File | None
    theirs: File | None
    text: bytes


@dataclass(frozen=True, slots=True)
class Edited:
    """What a person made of a worktree: changed files, ``None`` for deleted ones.

    ``untracked`` are new files that were not added (``git add --sparse``): they are not taken.
    """

    changed: Mapping[str, File | None]
    untracked: tuple[str, ...]


def create(
    folder: Path,
    *,
    borrowed: Path,
    tree: str,
    before: Mapping[str, File | None],
    merged: Mapping[str, File | None],
    conflicts: Iterable[Conflict],
) -> None:
    """Make a worktree that stands where a patch stopped; it appears under its name when whole.

    Args:
        folder: the new folder.
        borrowed: a bare repository that holds ``tree``.
        tree: of the new release.
        before: what the patches before this one changed there, ``None`` for deleted files.
        merged: what this patch changes without a conflict; staged.
        conflicts: the files to decide on; unmerged in the index, with markers in the worktree.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with durable.whole_folder(folder, synced=False) as new:
        _fill(_Repository.create(new, borrowed), tree, before, merged, tuple(conflicts))


def _fill(
    repository: _Repository,
    tree: str,
    before: Mapping[str, File | None],
    merged: Mapping[str, File | None],
    conflicts: tuple[Conflict, ...],
) -> None:
    repository.git("read-tree", tree)
    repository.stage(before)
    head = loose.write_commit(repository.git_dir, repository.git("write-tree").text, _SUBJECT)
    for ref in (_BRANCH, _START):
        repository.put(f".git/{ref}", 0o100644, f"{head}\n".encode())
    repository.stage(merged)
    repository.unmerge(conflicts)
    there = {path: file for path, file in merged.items() if file is not None}
    there |= {each.path: (mode_of(each), each.text) for each in conflicts}
    repository.hide_all_but(there)
    for path, (mode, data) in there.items():
        repository.put(path, mode, data)
    repository.git("update-index", "-q", "--refresh", accept=(0, 1))


def read(folder: Path) -> Edited:
    """Return what differs in a worktree from the commit that it was made on.

    Raises:
        WorktreeRefused: it is no worktree any more, or a file in it is not a plain one.
    """
    if not (folder / ".git").is_dir():
        raise WorktreeRefused(
            str(folder), (Problem(str(folder), "is not a git worktree any more"),)
        )
    repository = _Repository(folder)
    committed = repository.entries("ls-tree", "-r", "-z", "--full-tree", _START)
    visible = {
        paths.decode(row[2:])
        for row in repository.git("ls-files", "-t", "-z").stdout.split(b"\0")[:-1]
        if row[:1] != b"S"
    }
    visible |= {
        path for path in committed if (folder / path).is_symlink() or (folder / path).exists()
    }
    tracked = set(committed) | visible
    problems: list[Problem] = []
    changed: dict[str, File | None] = {}
    for path in sorted(visible):
        file = _plain_file(folder, path, problems)
        if file is None and path in committed:
            changed[path] = None
        elif file is not None and committed.get(path) != (file[0], _blob_id(file[1])):
            changed[path] = file
    if problems:
        raise WorktreeRefused(str(folder), tuple(problems))
    return Edited(changed, tuple(sorted(_files_in(folder) - tracked)))


def _files_in(folder: Path) -> set[str]:
    found = set()
    for file in folder.rglob("*"):
        parts = file.relative_to(folder).parts
        if parts[0] != ".git" and not any(part in _JUNK for part in parts) and not file.is_dir():
            found.add("/".join(parts))
    return found


def _plain_file(folder: Path, path: str, problems: list[Problem]) -> File | None:
    file = folder / path
    if (reason := paths.problem(path)) is not None:
        problems.append(Problem(paths.display(path), reason))
        return None
    if any(
        parent.is_symlink() for parent in (file, *file.parents) if parent.is_relative_to(folder)
    ):
        problems.append(Problem(paths.display(path), "a symbolic link is not taken"))
        return None
    if not file.is_file():
        if file.exists():
            problems.append(Problem(paths.display(path), "is not a plain file"))
        return None
    mode = 0o100755 if file.stat().st_mode & 0o100 else 0o100644
    return mode, file.read_bytes()


def _blob_id(data: bytes) -> str:
    from pseries.model.manifest import blob_id  # noqa: PLC0415 - one home for it, and no cycle

    return blob_id(data)


def mode_of(conflict: Conflict) -> int:
    """Return the git mode that a file has after a conflict."""
    sides = (conflict.ours, conflict.theirs, conflict.base)
    return next((side[0] for side in sides if side is not None), 0o100644)


# --- resolutions ------------------------------------------------------------------------------


def recall(records: Path, conflicts: Iterable[Conflict]) -> dict[str, bytes]:
    """Return the texts that an earlier resolution gives, by path: ``git rerere``.

    Args:
        records: a folder of records, as git keeps them in ``rr-cache``; it is only read.
        conflicts: the files to decide on.
    """
    wanted = tuple(conflicts)
    if not wanted or not records.is_dir() or not any(records.iterdir()):
        return {}
    with tempfile.TemporaryDirectory(prefix="pseries-") as name:
        repository = _Repository.create(Path(name), None)
        _copy_records(records, repository.records)
        found = repository.rerere(wanted)
    return {
        each.path: found[each.path] for each in wanted
        if found[each.path] != each.text and not has_markers(found[each.path])
    }  # fmt: skip


def learn(conflict: Conflict, resolved: bytes) -> dict[str, bytes]:
    """Return the records that let :func:`recall` resolve this conflict, by path within the folder.

    Empty where git remembers nothing: a side is missing, or there is no text to compare.
    """
    with tempfile.TemporaryDirectory(prefix="pseries-") as name:
        repository = _Repository.create(Path(name), None)
        repository.rerere((conflict,))
        repository.put(conflict.path, mode_of(conflict), resolved)
        repository.git("rerere")
        return {
            f"{record.name}/{part}": (record / part).read_bytes()
            for record in sorted(repository.records.iterdir())
            if all((record / part).is_file() for part in _RECORDS)
            for part in _RECORDS
        }


def _copy_records(source: Path, target: Path) -> None:
    for record in source.iterdir():
        if all((record / part).is_file() for part in _RECORDS):
            (target / record.name).mkdir(parents=True)
            for part in _RECORDS:
                shutil.copyfile(record / part, target / record.name / part)


# --- the repository ---------------------------------------------------------------------------


class _Repository(Workspace):
    """The repository of a worktree: conflicts in its index, and what git remembers of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.records = self.git_dir / "rr-cache"

    @classmethod
    def create(cls, folder: Path, borrowed: Path | None) -> _Repository:
        """Make an empty repository in an existing folder."""
        repository = cls(folder)
        repository.prepare(_CONFIG, _BRANCH, borrowed)
        repository.records.mkdir()
        return repository

    def stage(self, files: Mapping[str, File | None]) -> None:
        """Put files into the index, ``None`` takes one out."""
        self._index(self._rows(files))

    def _rows(self, files: Mapping[str, File | None]) -> Iterator[bytes]:
        for path, file in files.items():
            if file is None:
                yield b"0 %s\t%s\0" % (b"0" * 40, paths.encode(path))
            else:
                blob = loose.write(self.git_dir, b"blob", file[1])
                yield b"%o %s\t%s\0" % (file[0], blob.encode(), paths.encode(path))

    def unmerge(self, conflicts: Iterable[Conflict]) -> None:
        """Put the sides of conflicts into the index."""
        rows: list[bytes] = []
        for each in conflicts:
            name = paths.encode(each.path)
            rows.append(b"0 %s\t%s\0" % (b"0" * 40, name))
            for stage, side in enumerate((each.base, each.ours, each.theirs), 1):
                if side is not None:
                    blob = loose.write(self.git_dir, b"blob", side[1])
                    rows.append(b"%o %s %d\t%s\0" % (side[0], blob.encode(), stage, name))
        self._index(rows)

    def _index(self, rows: Iterable[bytes]) -> None:
        if stdin := b"".join(rows):
            self.git("update-index", "-z", "--index-info", stdin=stdin)

    def hide_all_but(self, shown: Iterable[str]) -> None:
        """Let git take every other file of the index for granted (sparse checkout)."""
        there = {paths.encode(path) for path in shown}
        names = set(self.git("ls-files", "-z").stdout.split(b"\0")[:-1]) - there
        stdin = b"".join(name + b"\0" for name in sorted(names))
        self.git("update-index", "-z", "--skip-worktree", "--stdin", stdin=stdin)
        patterns = b"".join(b"/%s\n" % _escaped(name) for name in sorted(there))
        (self.git_dir / "info/sparse-checkout").write_bytes(patterns)

    def rerere(self, conflicts: tuple[Conflict, ...]) -> dict[str, bytes]:
        """Let git compare conflicts with its records and return what it makes of the files."""
        self.unmerge(conflicts)
        for each in conflicts:
            self.put(each.path, mode_of(each), each.text)
        self.git("rerere")
        return {each.path: (self.folder / each.path).read_bytes() for each in conflicts}


def _escaped(name: bytes) -> bytes:
    """Return a path as a pattern of sparse checkout that matches it alone."""
    return b"".join(b"\\" + name[at : at + 1] if name[at] in b"*?[]\\" else name[at : at + 1]
                    for at in range(len(name)))  # fmt: skip
