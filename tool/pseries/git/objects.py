"""The engine: a patch as a pure function from one tree to another.

Files go into an object store, ``git apply --cached`` works on a private index, and the result is
read back as bytes: no working directory, nothing of the target involved. A *tree* here is a mapping
of canonical path to :class:`Entry`, which may hold just the files that matter.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import GitFailed, PatchRejected, Problem, ReadingsDiffer
from pseries.git import process
from pseries.model import paths
from pseries.model.diff import opinion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pseries.model.diff.opinion import Counts
    from pseries.model.diff.patch import Patch

_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}


class Entry(NamedTuple):
    """An entry of a tree: git mode and id."""

    mode: int
    blob: str

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file, and no link, submodule or folder."""
        return self.mode in (0o100644, 0o100755)


Tree = dict[str, Entry]


class Objects:
    """A git object store with a private index beside it.

    Args:
        git_dir: a bare repository.
        workspace: an empty folder of ours for the index and temporary files.
    """

    def __init__(self, git_dir: Path, workspace: Path) -> None:
        self.git_dir = git_dir
        self._workspace = workspace
        self._index = workspace / "index"

    def _git(
        self,
        *arguments: str,
        stdin: bytes | Iterable[bytes] = b"",
        accept: Sequence[int] = (0,),
    ) -> process.Completed:
        return process.run(
            arguments,
            git_dir=self.git_dir,
            stdin=stdin,
            cwd=self._workspace,
            extra={"GIT_INDEX_FILE": str(self._index), **_LITERAL},
            accept=accept,
        )

    # --- objects ------------------------------------------------------------------------------

    def write(self, contents: Iterable[bytes]) -> list[str]:
        """Store contents as blobs and return their ids, in order."""
        files = []
        for number, content in enumerate(contents):
            file = self._workspace / f"blob-{number}"
            file.write_bytes(content)
            files.append(file)
        if not files:
            return []
        names = "".join(f"{file}\n" for file in files).encode()
        said = self._git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names)
        for file in files:
            file.unlink()
        return said.stdout.decode("ascii").split()

    def read(self, names: Iterable[str], kind: str = "blob") -> dict[str, bytes]:
        """Return the bytes of objects of one kind by id."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        said = self._git(
            "cat-file", "--batch", stdin="".join(f"{id_}\n" for id_ in wanted).encode()
        )
        return dict(zip(wanted, contents(said.stdout, wanted, kind), strict=True))

    def files(self, tree: Tree) -> dict[str, tuple[int, bytes]]:
        """Return git mode and bytes of every file of a tree."""
        contents = self.read(entry.blob for entry in tree.values())
        return {path: (entry.mode, contents[entry.blob]) for path, entry in tree.items()}

    def add(self, files: Mapping[str, tuple[int, bytes]]) -> Tree:
        """Store files, given as git mode and bytes, and return the tree of them."""
        blobs = self.write(data for _, data in files.values())
        return {
            path: Entry(mode, blob)
            for (path, (mode, _)), blob in zip(files.items(), blobs, strict=True)
        }

    def pick(self, tree: str, wanted: Iterable[str]) -> Tree:
        """Return those files of a stored tree (by full id) that are among ``wanted``."""
        names = sorted(set(wanted))
        if not names:
            return {}
        said = self._git("ls-tree", "-r", "-z", "--full-tree", tree, "--", *names)
        found = dict(listed(said.stdout))
        return {path: found[path] for path in names if path in found and found[path].is_file}

    def below(self, tree: str, folder: str) -> tuple[Tree, tuple[str, ...]]:
        """Return all files of a stored tree below ``folder`` ("" for the top), and what is none.

        The second part names links and submodules.
        """
        scope = ("--", f"{folder}/") if folder else ()
        said = self._git("ls-tree", "-r", "-z", "--full-tree", tree, *scope)
        found: Tree = {}
        others = []
        for path, entry in listed(said.stdout):
            if entry.is_file:
                found[path] = entry
            else:
                others.append(path)
        return found, tuple(others)

    # --- patches ------------------------------------------------------------------------------

    def apply(self, tree: Tree, series: Sequence[Patch]) -> Tree:
        """Return the tree after all patches.

        ``git apply --check`` runs first; the whole series goes through one process, and only when
        that fails (a chain of renames, or a patch that does not fit) one by one.

        Raises:
            PatchRejected: names the first patch that does not apply, with git's words.
            ReadingsDiffer: git reads other files or counts in a patch than we do.
        """
        self.compare_readings(series)
        self._load(tree)
        batches = [(strip, list(group)) for strip, group in groupby(series, lambda p: p.strip)]
        for position, (strip, batch) in enumerate(batches):
            diff = [patch.diff for patch in batch]
            checked = self._apply(strip, diff, check=True)
            if checked.status == 0 and self._apply(strip, diff).status == 0:
                continue
            if position:  # start over: earlier batches are in the index already
                self._load(tree)
            return self._one_by_one(series)[-1]
        return self._entries()

    def apply_each(self, tree: Tree, series: Sequence[Patch]) -> list[Tree]:
        """Return the tree after each patch; raises as :meth:`apply` does.

        Patches in a row that touch no file twice go through one process: what each of them did is
        still to be seen afterwards.
        """
        self.compare_readings(series)
        self._load(tree)
        trees: list[Tree] = []
        for strip, batch in _apart(series):
            if self._apply(strip, [patch.diff for patch in batch]).status != 0:
                trees += self._one_by_one(batch)
                continue
            before, after = trees[-1] if trees else tree, self._entries()
            for patch in batch:
                before = dict(before)
                for path in patch.paths:
                    before.pop(path, None)
                    if path in after:
                        before[path] = after[path]
                trees.append(before)
            trees[-1] = after
        return trees

    def _one_by_one(self, series: Sequence[Patch]) -> list[Tree]:
        trees = []
        for patch in series:
            # Without a check first: the index is ours alone and is thrown away on a failure.
            said = self._apply(patch.strip, [patch.diff])
            if said.status != 0:
                words = said.stderr.decode("utf-8", "backslashreplace").strip()
                raise PatchRejected(patch.name, words)
            trees.append(self._entries())
        return trees

    def _apply(self, strip: int, diff: list[bytes], *, check: bool = False) -> process.Completed:
        return self._git(
            "apply",
            "--cached",
            "--whitespace=nowarn",
            f"-p{strip}",
            *(["--check"] if check else []),
            "-",
            stdin=diff,
            accept=(0, 1, 128),
        )

    def compare_readings(self, series: Sequence[Patch]) -> None:
        """Raise :class:`ReadingsDiffer` unless git reads the files and counts that we read."""
        for strip, group in groupby(series, lambda patch: patch.strip):
            batch = list(group)
            diffs = [patch.diff for patch in batch]
            if self._numstat(strip, diffs) == [row for p in batch for row in opinion.numstat(p)]:
                continue
            for patch in batch:
                if (theirs := self._numstat(strip, [patch.diff])) != list(opinion.numstat(patch)):
                    raise ReadingsDiffer(patch.name, _as_problems(patch, theirs))

    def _numstat(self, strip: int, diff: list[bytes]) -> list[Counts] | None:
        arguments = ("apply", "--numstat", "-z", f"-p{strip}", "-")
        said = process.run(
            arguments, git_dir=None, stdin=diff, cwd=self._workspace, accept=(0, 1, 128)
        )
        if said.status != 0:
            return None
        return list(opinion.read_numstat(said.stdout))

    def diff(self, before: Tree, after: Tree) -> bytes:
        """Return one diff from a tree to another, as git writes it: full ids, no renames."""
        trees = []
        for tree in (before, after):
            self._load(tree)
            trees.append(self._git("write-tree").text)
        return self._git(
            "diff-tree", "-p", "--full-index", "--binary", "--no-renames", *trees
        ).stdout

    # --- the private index --------------------------------------------------------------------

    def _load(self, tree: Tree) -> None:
        self._index.unlink(missing_ok=True)
        rows = b"".join(
            b"%06o %s\t%s\0" % (entry.mode, entry.blob.encode(), paths.encode(path))
            for path, entry in tree.items()
        )
        self._git("update-index", "-z", "--add", "--index-info", stdin=rows)

    def _entries(self) -> Tree:
        said = self._git("ls-files", "-s", "-z")
        found: Tree = {}
        for row in said.stdout.split(b"\0")[:-1]:
            head, _, name = row.partition(b"\t")
            mode, blob, stage = head.split(b" ")
            entry = Entry(int(mode, 8), blob.decode("ascii"))
            if not entry.is_file or stage != b"0":
                raise GitFailed(("ls-files",), 0, f"unexpected entry {row!r}")
            found[paths.decode(name)] = entry
        return found


def _apart(series: Sequence[Patch]) -> Iterator[tuple[int, list[Patch]]]:
    """Yield runs of patches of one strip level in which no two touch the same file."""
    batch: list[Patch] = []
    seen: frozenset[str] = frozenset()
    for patch in series:
        if batch and (patch.strip != batch[0].strip or not seen.isdisjoint(patch.paths)):
            yield batch[0].strip, batch
            batch, seen = [], frozenset()
        batch.append(patch)
        seen |= patch.paths
    if batch:
        yield batch[0].strip, batch


def listed(output: bytes) -> Iterator[tuple[str, Entry]]:
    """Read what ``ls-tree -z`` printed: every path with its entry, in order."""
    for row in output.split(b"\0")[:-1]:
        head, _, name = row.partition(b"\t")
        mode, _, id_ = head.split(b" ")
        yield paths.decode(name), Entry(int(mode, 8), id_.decode("ascii"))


def contents(output: bytes, wanted: Sequence[str], kind: str = "blob") -> Iterator[bytes]:
    """Cut the output of ``cat-file --batch`` into contents (git-cat-file(1), BATCH OUTPUT).

    Args:
        output: what git printed.
        wanted: the ids that it was asked for, in order.
        kind: what all of them have to be.

    Raises:
        GitFailed: one is missing, or something else.
    """
    at = 0
    for name in wanted:
        end = output.index(b"\n", at)
        words = output[at:end].split(b" ")
        if len(words) != 3 or words[1] != kind.encode():
            raise GitFailed(("cat-file", "--batch"), 0, f"object {name} is missing or no {kind}")
        size = int(words[2])
        yield output[end + 1 : end + 1 + size]
        at = end + 1 + size + 1


def _as_problems(patch: Patch, theirs: list[Counts] | None) -> tuple[Problem, ...]:
    if theirs is None:
        return (Problem(patch.name, "git cannot read the patch at all"),)
    ours = list(opinion.numstat(patch))
    differing = [
        Problem(paths.display(path), f"git reads +{added} -{removed} there; we read something else")
        for added, removed, path in theirs
        if (added, removed, path) not in ours
    ]
    missed = [
        Problem(paths.display(path), f"we read +{added} -{removed} there; git reads something else")
        for added, removed, path in ours
        if (added, removed, path) not in theirs
    ]
    return tuple(differing + missed) or (Problem(patch.name, "the order of files differs"),)


@contextmanager
def scratch(borrowed: Path | None = None) -> Iterator[Objects]:
    """Give an object store in a private temporary folder, removed afterwards.

    Args:
        borrowed: a bare repository whose objects can be read too (git's alternates); it is never
            written to, so a patch that is only tried leaves nothing behind there.
    """
    folder = Path(tempfile.mkdtemp(prefix="pseries-"))
    try:
        git_dir = folder / "git"
        for name in ("objects/info", "objects/pack", "refs"):
            (git_dir / name).mkdir(parents=True)
        (git_dir / "HEAD").write_text("ref: refs/heads/none\n")
        if borrowed is not None:
            (git_dir / "objects/info/alternates").write_text(f"{borrowed / 'objects'}\n")
        workspace = folder / "work"
        workspace.mkdir()
        yield Objects(git_dir, workspace)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
