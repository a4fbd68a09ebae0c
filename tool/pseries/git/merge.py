"""Carrying changes from one tree to another: three-way merges, renames, diffs of the result.

Everything happens in a scratch store that borrows the objects of the releases. What a patch touches
is put into small trees, which are written without git (:mod:`.loose`); git merges, compares and
searches them.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from pseries.errors import GitFailed
from pseries.git import loose, objects, process
from pseries.git.pack import Pack
from pseries.model import paths
from pseries.model.verdicts.verdict import Labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pseries.git.objects import Objects
    from pseries.model.diff.patch import Patch
    from pseries.model.diff.splice import File

    _Put = Callable[[bytes, bytes], str]

PURPOSE = "rebase a series"
_MERGE_SETTINGS = (
    "-c", "merge.conflictStyle=diff3", "-c", "merge.renames=false", "-c", "diff.renames=false",
)  # fmt: skip
_FOUND, _NOT_FOUND = 0, 1
_SHORTEST_ID = 7
_FEW = 16
"""Files that are stored each as a loose object; more of them go into a pack."""
_PAIR = re.compile(rb"^[0-9a-f]{40} [0-9a-f]{40}\n", re.MULTILINE)
_RENAME = re.compile(rb":[0-7]{6} [0-7]{6} [0-9a-f]{40} [0-9a-f]{40} R(\d{3})")


@dataclass(frozen=True, slots=True)
class Sides:
    """The three texts of a merge: what both sides started from, upstream's, the patch's."""

    base: bytes
    ours: bytes
    theirs: bytes


@dataclass(frozen=True, slots=True)
class Merged:
    """What git makes of three texts; where it is not ``clean``, diff3 markers show all sides."""

    data: bytes
    clean: bool


_Raw = tuple[bytes, bool, tuple[str, str, str]]
"""A merge as git made it: the text, whether it is clean, and the commits ours, base, theirs."""


@dataclass(frozen=True, slots=True)
class Rename:
    """A file that upstream renamed, and how alike both are, in per cent."""

    new: str
    likeness: int


@dataclass(frozen=True)
class Renames:
    """Which files upstream renamed between two releases, and the folders that moved with them."""

    files: Mapping[str, Rename]
    old_folders: frozenset[str]
    new_folders: frozenset[str]
    _votes: dict[str, Counter[str]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for old, rename in self.files.items():
            source, target = old.rpartition("/")[0], rename.new.rpartition("/")[0]
            while source != target:
                self._votes.setdefault(source, Counter())[target] += 1
                source_top, _, source_name = source.rpartition("/")
                target_top, _, target_name = target.rpartition("/")
                if source_name != target_name:
                    break  # the folders above were not renamed by this file
                source, target = source_top, target_top

    def folder(self, path: str) -> str | None:
        """Return where a new file at ``path`` belongs, if its folder was renamed upstream.

        As git's ``merge.directoryRenames``: the folder is gone, and most of its renamed files went
        to one other folder. ``None`` where it was not renamed, or nothing says where to.
        """
        folder, _, rest = path.rpartition("/")
        while folder and folder not in self.old_folders:
            folder, _, name = folder.rpartition("/")
            rest = f"{name}/{rest}"
        if not folder or folder in self.new_folders:
            return None
        ranked = self._votes.get(folder, Counter()).most_common(2)
        if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
            return None
        return f"{ranked[0][0]}/{rest}" if ranked[0][0] else rest


class MergeStore:
    """A scratch store in which changes are carried from one release to another.

    Args:
        store: the scratch store; it reads the objects of the releases too.
    """

    def __init__(self, store: Objects) -> None:
        self._store = store
        self._prepared: dict[Sides, _Raw] = {}
        self.git_dir = store.git_dir

    def _git(
        self, *arguments: str, stdin: bytes = b"", accept: Sequence[int] = (0,)
    ) -> process.Completed:
        return process.run(arguments, git_dir=self.git_dir, stdin=stdin, accept=accept)

    # --- reading ------------------------------------------------------------------------------

    def pick(self, tree: str, wanted: Iterable[str]) -> dict[str, File]:
        """Return git mode and bytes of those files of a stored tree that are among ``wanted``."""
        return self._store.files(self._store.pick(tree, wanted))

    def apply(self, files: Mapping[str, File], patch: Patch) -> dict[str, File]:
        """Return the files after a patch that only git can read (binary data)."""
        return self._store.files(self._store.apply(self._store.add(files), [patch]))

    # --- writing small trees ------------------------------------------------------------------

    def tree_of(self, files: Mapping[str, File]) -> str:
        """Store files, git mode and bytes by path, and return the id of the tree of them."""
        return self.trees_of([files])[0]

    def trees_of(self, trees: Sequence[Mapping[str, File]]) -> list[str]:
        """Store trees, each as :meth:`tree_of` does, and return their ids."""
        with self._writing(sum(map(len, trees))) as put:
            return [self._tree(files, put) for files in trees]

    @contextmanager
    def _writing(self, count: int) -> Iterator[_Put]:
        """Give a function that stores objects; ``count`` files or more than a few share a pack."""
        if count <= _FEW:
            yield partial(loose.write, self.git_dir)
            return
        with Pack(self.git_dir, durable=False) as pack:
            yield lambda kind, content: pack.add(kind, content).hex()

    def _tree(self, files: Mapping[str, File], put: _Put) -> str:
        entries: dict[bytes, tuple[int, str]] = {}
        folders: dict[str, dict[str, File]] = {}
        for path, (mode, data) in files.items():
            name, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(name, {})[rest] = mode, data
            else:
                entries[paths.encode(name)] = mode, put(b"blob", data)
        for name, content in folders.items():
            entries[paths.encode(name)] = loose.FOLDER, self._tree(content, put)
        return put(b"tree", loose.tree(entries))

    # --- merging ------------------------------------------------------------------------------

    def merge(self, sides: Sequence[Sides], labels: Labels = Labels()) -> list[Merged]:  # noqa: B008 - frozen
        """Merge texts, all of them in one go, each on its own; in order.

        ``git merge-tree`` rather than ``git merge-file``: only the former compares by histogram
        before git 2.44, which tears fewer unrelated lines apart.
        """
        self.prepare(sides)
        found = [self._prepared[each] for each in sides]
        for each in set(sides):  # nobody asks twice, and texts are large
            del self._prepared[each]
        return [
            Merged(data if clean else _labelled(data, commits, labels), clean)
            for data, clean, commits in found
        ]

    def prepare(self, sides: Iterable[Sides]) -> None:
        """Merge texts that will be asked for, so that :meth:`merge` has them: once each."""
        wanted = [each for each in dict.fromkeys(sides) if each not in self._prepared]
        self._prepared.update(zip(wanted, self._merge(wanted), strict=True))

    def _merge(self, sides: Sequence[Sides]) -> list[_Raw]:
        if not sides:
            return []
        names = [f"{number:06}" for number in range(len(sides))]
        trees = self.trees_of([
            {name: (0o100644, text) for name, text in zip(names, texts, strict=True)}
            for texts in (
                [side.base for side in sides],
                [side.ours for side in sides],
                [side.theirs for side in sides],
            )
        ])  # fmt: skip
        base = loose.write_commit(self.git_dir, trees[0], b"")
        ours, theirs = (loose.write_commit(self.git_dir, tree, b"", base) for tree in trees[1:])
        said = self._git(
            *_MERGE_SETTINGS, "merge-tree", "--write-tree", "-z", "--no-messages", "--name-only",
            ours, theirs, accept=(0, 1),
        )  # fmt: skip
        tree, *conflicts = said.stdout.split(b"\0")
        merged = self._in_order(tree.decode("ascii"), names)
        stopped = {paths.decode(name) for name in conflicts if name}
        return [
            (data, name not in stopped, (ours, base, theirs))
            for name, data in zip(names, merged, strict=True)
        ]

    def _in_order(self, tree: str, names: Sequence[str]) -> list[bytes]:
        wanted = [f"{tree}:{name}" for name in names]
        found = self._store.read(wanted)
        return [found[name] for name in wanted]

    # --- what upstream did --------------------------------------------------------------------

    def renames(self, old: str, new: str) -> Renames:
        """Return what was renamed between two trees; no limit but likeness ends git's search."""
        said = self._git(
            "diff-tree", "-r", "-z", "-M50%", "-l0", "--diff-filter=R", "--full-index", old, new
        )
        fields = said.stdout.split(b"\0")
        files = {}
        for head, source, target in zip(fields[:-1:3], fields[1::3], fields[2::3], strict=True):
            found = _RENAME.fullmatch(head)
            if found is None:
                raise GitFailed(("diff-tree",), 0, f"unexpected row {head!r}")
            files[paths.decode(source)] = Rename(paths.decode(target), int(found[1]))
        return Renames(files, self.folders(old), self.folders(new))

    def folders(self, tree: str) -> frozenset[str]:
        """Return every folder of a stored tree."""
        said = self._git("ls-tree", "-r", "-d", "-z", "--name-only", "--full-tree", tree)
        return frozenset(paths.decode(name) for name in said.stdout.split(b"\0")[:-1])

    def names(self, tree: str) -> frozenset[str]:
        """Return every file of a stored tree."""
        said = self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)
        return frozenset(paths.decode(name) for name in said.stdout.split(b"\0")[:-1])

    def find(self, tree: str, patterns: Iterable[str]) -> tuple[str, ...]:
        """Return the Python files of a stored tree with a line that matches.

        Args:
            tree: its id.
            patterns: POSIX extended regular expressions; one of them is enough.
        """
        words = [word for pattern in sorted(set(patterns)) for word in ("-e", pattern)]
        if not words:
            return ()
        said = self._git(
            "grep", "-l", "-z", "-E", "--no-color", *words, tree, "--", ":(glob)**/*.py",
            accept=(_FOUND, _NOT_FOUND),
        )  # fmt: skip
        prefix = f"{tree}:"
        return tuple(
            paths.decode(name).removeprefix(prefix) for name in said.stdout.split(b"\0")[:-1]
        )

    # --- new patches --------------------------------------------------------------------------

    def diffs(
        self, pairs: Sequence[tuple[str, str]], *, context: int = 3, strip: int = 1
    ) -> list[bytes]:
        """Return the diff of each pair of trees as ``git format-patch --full-index`` shows it.

        One process for all of them: a series may have hundreds of patches.

        Args:
            pairs: ids of trees, before and after.
            context: lines of context.
            strip: how many leading components the names get, for a reader to strip (``-pN``).
        """
        above = "/".join([*"_" * (strip - 1), ""])
        prefixes = (f"a/{above}", f"b/{above}") if strip else ("", "")
        differing = sorted({pair for pair in pairs if pair[0] != pair[1]})
        if not differing:
            return [b""] * len(pairs)
        said = self._git(
            "diff-tree", "--stdin", "-r", "-p", "--full-index", "--binary", "--no-color",
            "--no-ext-diff", "--no-textconv", f"--src-prefix={prefixes[0]}",
            f"--dst-prefix={prefixes[1]}", f"-U{context}", "-M",
            stdin="".join(f"{old} {new}\n" for old, new in differing).encode(),
        )  # fmt: skip
        cuts = [*(found.span() for found in _PAIR.finditer(said.stdout)), (len(said.stdout),) * 2]
        found = {
            said.stdout[begin:end].decode().strip(): said.stdout[end:following]
            for (begin, end), (following, _) in pairwise(cuts)
        }
        return [b"" if old == new else found[f"{old} {new}"] for old, new in pairs]


def _labelled(data: bytes, commits: tuple[str, str, str], labels: Labels) -> bytes:
    """Replace what git calls the sides (ids of our commits) by words."""
    ours, base, theirs = (commit.encode() for commit in commits)
    said = {
        b"<<<<<<<": (ours, labels.ours),
        b"|||||||": (base, labels.base),
        b">>>>>>>": (theirs, labels.theirs),
    }
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        marker, _, name = line.removesuffix(b"\r").partition(b" ")
        if marker in said and len(name) >= _SHORTEST_ID and said[marker][0].startswith(name):
            end = b"\r" if line.endswith(b"\r") else b""
            lines[number] = marker + b" " + said[marker][1].encode() + end
    return b"\n".join(lines)


@contextmanager
def merge_store(borrowed: Path) -> Iterator[MergeStore]:
    """Give a store to merge in, in a temporary folder; ``borrowed`` holds the releases.

    Raises:
        GitTooOld: ``git merge-tree --write-tree`` is needed.
    """
    process.require(process.MERGES_TREES, PURPOSE)
    with objects.scratch(borrowed) as store:
        yield MergeStore(store)
