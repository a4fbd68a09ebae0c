"""A series checked out: a git worktree of the release with one commit a patch.

What pseries knows about it lies in its own refs: ``refs/pseries/now`` is the newest of a chain of
snapshots, one a verb, each a commit whose tree holds the stack, the files of the series folder and
the files of the worktree at that moment. So every verb can be undone, and whatever a person does
with plain git stays theirs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from pseries import durable
from pseries.errors import GitFailed, IdentityMissing, InTheWay, Problem, Uncommittable
from pseries.git import loose, objects, process
from pseries.git.merge import MergeStore
from pseries.git.objects import Entry, Objects
from pseries.git.workspace import Workspace
from pseries.model import commit as commits
from pseries.model import manifest as manifests
from pseries.model import paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from pseries.git.objects import Tree
    from pseries.model.commit import Commit
    from pseries.model.diff.splice import File

PURPOSE = "work on a checkout"
MARKER = "pseries"
"""A file in ``.git`` that says whose checkout this is, and that is locked while a verb works."""
_NOW, _NEXT, _NEWEST = "refs/pseries/now", "refs/pseries/next", "refs/pseries/newest"
_SHOT = "refs/pseries/snapshot"
_TEXTS = ("stack.json", "head", "before")
"""What a snapshot holds beside trees, by name in its tree."""
_UNFINISHED = (
    ("rebase-merge", "rebase"), ("rebase-apply/applying", "am"), ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"), ("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"), ("BISECT_LOG", "bisect"),
)  # fmt: skip
"""What git leaves in its folder while a command of several steps is not at its end."""
_ABSENT = "0" * 40
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = false
\tautocrlf = false
\tlogAllRefUpdates = true
[merge]
\tconflictStyle = diff3
[gc]
\tauto = 0
[advice]
\tupdateSparsePath = false
"""
_SETTINGS = ("-c", "merge.conflictStyle=diff3", "-c", "merge.directoryRenames=false")


class Snapshot(NamedTuple):
    """What a verb left: its commit, the words of the verb, and the trees of all that there was."""

    id: str
    verb: str
    before: str
    folder: str
    worktree: str
    head: str
    stack: bytes


class Dirt(NamedTuple):
    """What differs between the worktree and HEAD: tracked paths, and untracked files."""

    changed: tuple[str, ...]
    unmerged: tuple[str, ...]
    untracked: tuple[str, ...]


class Checkout:
    """The worktree of a series.

    Args:
        folder: its top.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._work = Workspace(folder)
        self.git_dir = self._work.git_dir

    def _git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        accept: tuple[int, ...] = (0,),
        index: Path | None = None,
    ) -> process.Completed:
        extra = {"GIT_OPTIONAL_LOCKS": "1"}
        if index is not None:
            extra["GIT_INDEX_FILE"] = str(index)
        return self._work.git(*arguments, stdin=stdin, accept=accept, extra=extra)

    # --- making one ---------------------------------------------------------------------------

    @classmethod
    @contextmanager
    def create(cls, folder: Path, borrowed: Path, branch: str) -> Iterator[Checkout]:
        """Give an empty checkout; it appears under its name when the body is done.

        Args:
            folder: where it goes; must not exist.
            borrowed: the store that holds the release.
            branch: short name of the branch.
        """
        process.require(process.MERGES_TREES, PURPOSE)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with durable.whole_folder(folder, synced=False) as new:
            Workspace(new).prepare(_CONFIG, f"refs/heads/{branch}", borrowed)
            (new / ".git" / MARKER).write_bytes(b"")
            yield cls(new)

    def show_only(self, folders: Iterable[str]) -> None:
        """Let the worktree hold these folders alone, and the files beside and above them.

        Nothing appears before the next :meth:`move`.
        """
        names = "".join(f"{paths.decode(_quoted(folder))}\n" for folder in sorted(set(folders)))
        self._git("sparse-checkout", "set", "--cone", "--stdin", stdin=paths.encode(names))

    def widen(self, folders: Iterable[str]) -> None:
        """Show further folders too, where not all are shown anyway."""
        try:
            lines = set((self.git_dir / "info/sparse-checkout").read_bytes().split(b"\n"))
        except FileNotFoundError:
            return
        missing = [folder for folder in sorted(set(folders)) if not _covered(folder, lines)]
        names = b"".join(_quoted(folder) + b"\n" for folder in missing)
        if names:
            self._git("sparse-checkout", "add", "--stdin", stdin=names)

    def shows(self, path: str) -> bool:
        """Say whether a tracked file is to be seen: not left out of a sparse worktree."""
        return self._git("ls-files", "-t", "-z", "--", path).stdout[:1] not in (b"", b"S")

    def missing_store(self) -> str:
        """Return the folder of borrowed objects that is not there any more; empty if all is."""
        borrowed = (self.git_dir / "objects/info/alternates").read_bytes().split(b"\n")
        names = [paths.decode(name) for name in borrowed if name]
        return next((name for name in names if not Path(name).is_dir()), "")

    # --- commits ------------------------------------------------------------------------------

    def unfinished(self) -> str:
        """Return the command of plain git that stopped half way (git-status(1)); empty if none."""
        there = (command for name, command in _UNFINISHED if (self.git_dir / name).exists())
        return next(there, "")

    def is_detached(self) -> bool:
        """Say whether HEAD stands for a commit and not for a branch."""
        return self._git("symbolic-ref", "-q", "HEAD", accept=(0, 1)).status == 1

    def head(self) -> str:
        """Return the id of the commit that HEAD stands for; empty if there is none."""
        return self._git("rev-parse", "-q", "--verify", "HEAD^{commit}", accept=(0, 1)).text

    def read_commits(self, names: Sequence[str]) -> list[Commit]:
        """Return commits by full id, in order."""
        return [
            commits.parse(name, content)
            for name, content in zip(names, self._read("commit", names), strict=True)
        ]

    def _read(self, kind: str, names: Sequence[str]) -> list[bytes]:
        if not names:
            return []
        stdin = "".join(f"{name}\n" for name in names).encode()
        output = self._git("cat-file", "--batch", stdin=stdin).stdout
        return list(objects.contents(output, names, kind))

    def above(self, base: str, head: str) -> list[Commit] | None:
        """Return the commits from ``base`` (without it) to ``head``, the lowest first.

        ``None`` where ``head`` does not stand on ``base``, or a merge lies between.
        """
        said = self._git("rev-list", "--reverse", "--topo-order", f"{base}..{head}")
        found = self.read_commits(said.text.split())
        below = base
        for each in found:
            if each.parents != (below,):
                return None
            below = each.id
        return found if below == head else None

    def write_commit(self, commit: Commit, tree: str, parent: str) -> str:
        """Write a commit with who, when and why of another, on a parent; return its id."""
        new = commit._replace(tree=tree, parents=(parent,))
        return loose.write(self.git_dir, b"commit", commits.render(new))

    def import_patches(
        self, base: str, patches: Sequence[tuple[Commit, Mapping[str, File | None]]]
    ) -> list[str]:
        """Write a chain of commits on a base, all of them in one process (git-fast-import(1)).

        Args:
            base: id of the commit below the first.
            patches: who, when and why of each, and the files that it changes, ``None`` for deleted.
        """
        if not patches:
            return []
        with tempfile.TemporaryDirectory(prefix="pseries-") as folder:
            marks = Path(folder) / "marks"
            self._git(
                "fast-import", "--quiet", "--date-format=raw-permissive", "--done", "--force",
                f"--export-marks={marks}", stdin=b"".join(_stream(base, patches)),
            )  # fmt: skip
            rows = (line.split() for line in marks.read_text(encoding="ascii").splitlines())
            found = {int(mark.removeprefix(":")): name for mark, name in rows}
        return [found[number] for number in range(1, len(patches) + 1)]

    def tree_of(self, commit: str) -> str:
        """Return the id of a commit's tree."""
        return self.read_commits([commit])[0].tree

    # --- trees --------------------------------------------------------------------------------

    def changes(
        self, pairs: Sequence[tuple[str, str]]
    ) -> list[dict[str, tuple[Entry | None, Entry | None]]]:
        """Return, for each pair of trees, the paths that differ with their entries on both sides.

        Raises:
            Uncommittable: a link or a submodule is among them, which no patch here can hold.
        """
        differing = sorted({pair for pair in pairs if pair[0] != pair[1]})
        found: dict[tuple[str, str], dict[str, tuple[Entry | None, Entry | None]]] = {
            pair: {} for pair in pairs
        }
        if differing:
            said = self._git(
                "diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev",
                stdin="".join(f"{old} {new}\n" for old, new in differing).encode(),
            )  # fmt: skip
            _read_changes(said.stdout, found)
        return [found[pair] for pair in pairs]

    def merge(self, base: str, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
        """Merge three trees with git's own merge; return the tree and the files in conflict."""
        if base == ours:
            return theirs, ()
        if theirs in (base, ours):
            return ours, ()
        below = loose.write_commit(self.git_dir, base, b"")
        sides = [loose.write_commit(self.git_dir, tree, b"", below) for tree in (ours, theirs)]
        said = self._git(
            *_SETTINGS, "merge-tree", "--write-tree", "-z", "--no-messages", "--name-only",
            *sides, accept=(0, 1),
        )  # fmt: skip
        tree, *conflicts = said.stdout.split(b"\0")
        names = tuple(dict.fromkeys(paths.decode(name) for name in conflicts if name))
        return tree.decode("ascii"), names if said.status else ()

    def apply(self, tree: str, diff: bytes, strip: int) -> tuple[str, str]:
        """Apply a diff to a tree, exactly; return the tree, or "" and git's words."""
        with self._index(tree) as index:
            said = self._git(
                "apply", "--cached", "--whitespace=nowarn", f"-p{strip}", "-",
                stdin=diff, accept=(0, 1, 128), index=index,
            )  # fmt: skip
            if said.status:
                return "", said.stderr.decode("utf-8", "backslashreplace").strip()
            return self._git("write-tree", index=index).text, ""

    @contextmanager
    def _index(self, tree: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="pseries-") as folder:
            index = Path(folder) / "index"
            self._git("read-tree", tree, index=index)
            yield index

    @contextmanager
    def merge_store(self) -> Iterator[MergeStore]:
        """Give the means to write diffs between small trees of this repository."""
        with tempfile.TemporaryDirectory(prefix="pseries-") as folder:
            yield MergeStore(Objects(self.git_dir, Path(folder)))

    def files(self, entries: Mapping[str, Entry]) -> dict[str, File]:
        """Return git mode and bytes of files by path."""
        blobs = sorted({entry.blob for entry in entries.values()})
        contents = dict(zip(blobs, self._read("blob", blobs), strict=True))
        return {path: (entry.mode, contents[entry.blob]) for path, entry in entries.items()}

    def tree(self, name: str, folder: str = "") -> Tree:
        """Return every plain file of a tree, or of a folder in it, by path."""
        scope = ("--", f"{folder}/") if folder else ()
        found = self._work.entries("ls-tree", "-r", "-z", "--full-tree", name, *scope)
        return {path: entry for path, entry in found.items() if entry.is_file}

    # --- the worktree -------------------------------------------------------------------------

    def dirt(self) -> Dirt:
        """Return what a person changed and did not commit."""
        said = self._git("status", "--porcelain=v1", "-z", "--no-renames", "-uall").stdout
        changed, unmerged, untracked = [], [], []
        for row in said.split(b"\0")[:-1]:
            code, name = row[:2], paths.decode(row[3:])
            if code == b"??":
                untracked.append(name)
            elif b"U" in code or code in (b"AA", b"DD"):
                unmerged.append(name)
            else:
                changed.append(name)
        return Dirt(tuple(changed), tuple(unmerged), tuple(untracked))

    def worktree_tree(self) -> str:
        """Return the tree of the tracked files as they are in the worktree, added ones included.

        Raises:
            Uncommittable: a tracked path is a link or no plain file now.
        """
        with tempfile.TemporaryDirectory(prefix="pseries-") as folder:
            index = Path(folder) / "index"
            shutil.copyfile(self.git_dir / "index", index)
            self._git("add", "--update", "--sparse", "--", ".", index=index)
            return self._git("write-tree", index=index).text

    def stage_all(self) -> None:
        """Take the worktree's tracked files into the index: what was just made a commit."""
        self._git("add", "--update", "--sparse", "--", ".")

    def add(self, files: Sequence[str]) -> None:
        """Let git track files, given relative to the top."""
        self._git("add", "--sparse", "--force", "--", *files)

    def move(self, old: str, new: str, *, try_only: bool = False) -> None:
        """Bring index and worktree from one tree to another; edits elsewhere stay.

        Raises:
            InTheWay: a file that would change was edited, or an untracked one is in the way.
        """
        self.require_room(old, new)
        how = ["-n"] if try_only else []
        try:
            self._git("read-tree", "-m", "-u", *how, old, new)
        except GitFailed as failed:
            raise InTheWay(failed.stderr.strip()) from failed

    def require_room(self, old: str, new: str) -> None:
        """Refuse where untracked files stand in the place of new ones.

        In a sparse checkout ``git read-tree -m -u`` (2.39) says "will not overwrite", ends with
        status 0, and has overwritten the file.

        Raises:
            InTheWay: one does.
        """
        changed = self.changes([(old, new)])[0]
        leaving = {path for path, (_, after) in changed.items() if after is None}
        for path, (before, _) in changed.items():
            if before is not None:
                continue
            for name in self._at(path):
                if name not in leaving:
                    raise InTheWay(f"{paths.display(name)} is untracked, and {path} would go there")

    def _at(self, path: str) -> Iterator[str]:
        """Give the files that stand at a path: at a folder of it, at itself, or below it."""
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            name = "/".join(parts[:count])
            there = self.folder / name
            if there.is_symlink() or (there.exists() and not there.is_dir()):
                yield name
                return
        for folder, _, files in os.walk(self.folder / path):
            for file in files:
                yield str((Path(folder) / file).relative_to(self.folder))

    def fill(self, tree: str) -> None:
        """Write an empty worktree."""
        self._git("read-tree", "-m", "-u", tree)

    def discard(self, tree: str) -> None:
        """Set index and worktree to a tree, whatever tracked files hold now."""
        self._git("read-tree", "--reset", "-u", tree)

    def pick(self, commit: str) -> None:
        """Put the change of a commit into the worktree; conflicts get markers and stages."""
        self._git(
            *_SETTINGS, "-c", "core.editor=true", "cherry-pick", "--no-commit", commit,
            accept=(0, 1),
        )  # fmt: skip

    def diff(self, old: str, new: str | None, files: Sequence[str]) -> bytes:
        """Return a diff between two trees, or from a tree to the worktree."""
        trees = [old] if new is None else [old, new]
        return self._git(
            "diff", "--no-color", "--no-ext-diff", "--full-index", "--binary", "-M", *trees,
            "--", *files,
        ).stdout  # fmt: skip

    # --- snapshots ----------------------------------------------------------------------------

    def snapshot(self, which: str = _NOW) -> Snapshot | None:
        """Return the newest snapshot that counts, or the one of that id or ref; ``None``: none."""
        name = self._git("rev-parse", "-q", "--verify", f"{which}^{{commit}}", accept=(0, 1)).text
        if not name:
            return None
        commit = self.read_commits([name])[0]
        found = self._work.entries("ls-tree", "-z", commit.tree)
        parts = {name: entry.blob for name, entry in found.items()}
        stack, head, before = self._read("blob", [parts[name] for name in _TEXTS])
        return Snapshot(
            name, commit.message.strip(), before.decode(), parts["folder"], parts["worktree"],
            head.decode(), stack,
        )  # fmt: skip

    def folder_tree(self, files: Mapping[str, bytes]) -> str:
        """Store the files of a series folder and return the id of their tree."""
        return self._tree({paths.encode(name): data for name, data in files.items()})

    def _tree(self, files: Mapping[bytes, bytes], **folders: str) -> str:
        """Write a tree of files, and of folders that are there already."""
        entries = {
            name: (0o100644, loose.write(self.git_dir, b"blob", data))
            for name, data in files.items()
        }
        entries |= {name.encode(): (loose.FOLDER, tree) for name, tree in folders.items()}
        return loose.write_tree(self.git_dir, entries)

    def write_snapshot(self, shot: Snapshot, tips: Iterable[str]) -> str:
        """Store a snapshot and return its id.

        Args:
            shot: all but its id.
            tips: commits that must not be lost while the snapshot is there.
        """
        texts = (shot.stack, shot.head.encode(), shot.before.encode())
        files = {name.encode(): text for name, text in zip(_TEXTS, texts, strict=True)}
        tree = self._tree(files, folder=shot.folder, worktree=shot.worktree)
        parents = dict.fromkeys([*([shot.before] if shot.before else []), shot.head, *tips])
        message = paths.encode(f"{shot.verb}\n")
        return loose.write_commit(self.git_dir, tree, message, *parents)

    def announce(self, shot: str, held: str) -> None:
        """Say what is about to come true, before the first file is written.

        Args:
            shot: the snapshot.
            held: the tree that the worktree holds now.
        """
        self._git("update-ref", _NEXT, loose.write_commit(self.git_dir, held, b"", shot))

    def announced(self) -> tuple[Snapshot, str] | None:
        """Return what a killed process announced: the snapshot, and what the worktree held."""
        name = self._git("rev-parse", "-q", "--verify", _NEXT, accept=(0, 1)).text
        if not name:
            return None
        said = self.read_commits([name])[0]
        shot = self.snapshot(said.parents[0])
        return None if shot is None else (shot, said.tree)

    def put_back(self, held: str, other: str) -> tuple[str, ...]:
        """Bring a worktree that is between two trees back to the first.

        Args:
            held: the tree to go back to.
            other: the tree that somebody was about to go on to.

        Returns:
            The files that are in neither state, so that they were left.
        """
        changed = self.changes([(held, other)])[0]
        left = []
        back = {path: sides[0] for path, sides in changed.items() if sides[0]}
        known = self.files({path: entry for path, entry in back.items() if entry})
        # What goes comes first, so that a folder may become a file again.
        for path in sorted(changed, key=lambda path: path in known):
            there, before = self._entry(path), changed[path][0]
            if there == before:
                continue
            if there not in (None, changed[path][1]):
                left.append(path)
            elif path in known:
                self._work.put(path, *known[path])
            else:
                (self.folder / path).unlink()
                with contextlib.suppress(OSError):  # others have files there
                    (self.folder / path).parent.rmdir()
        names = b"".join(paths.encode(path) + b"\0" for path in changed)
        if names:
            self._git(
                "reset", "-q", held, "--pathspec-from-file=-", "--pathspec-file-nul",
                stdin=names, accept=(0, 1),
            )  # fmt: skip
        return tuple(left)

    def _entry(self, path: str) -> Entry | None:
        """Return what a file of the worktree would be in a tree; ``None``: there is none.

        Of links and folders, there or on the way, it returns what no file is.
        """
        file = self.folder / path
        way = (file, *(self.folder / parent for parent in PurePosixPath(path).parents))
        if any(each.is_symlink() for each in way) or file.is_dir():
            return Entry(0, "")
        if not file.is_file():
            return None
        mode = 0o100755 if file.stat().st_mode & 0o100 else 0o100644
        return Entry(mode, manifests.blob_id(file.read_bytes()))

    def settle(self, now: str, *, head: str = "", newest: bool = True) -> None:
        """Make a snapshot the present one, and move HEAD's branch, all in one step."""
        rows = [f"update {_NOW} {now}"]
        if head:
            rows.append(f"update HEAD {head}")
        if newest:
            rows.append(f"update {_NEWEST} {now}")
        if self._git("rev-parse", "-q", "--verify", _NEXT, accept=(0, 1)).status == 0:
            rows.append(f"delete {_NEXT}")
        stdin = "".join(f"{row}\n" for row in ("start", *rows, "commit")).encode()
        self._git("update-ref", "--stdin", stdin=stdin)

    def retract(self) -> None:
        """Forget what was announced."""
        self._git("update-ref", "-d", _NEXT)

    def later(self, now: str) -> Snapshot | None:
        """Return the snapshot that was undone last: the one above ``now``."""
        shot = self.snapshot(_NEWEST)
        while shot is not None and shot.id != now:
            if shot.before == now:
                return shot
            shot = self.snapshot(shot.before) if shot.before else None
        return None

    def keep(self, commit: str) -> None:
        """Keep a commit from being thrown away by git, under its own id."""
        self._git("update-ref", f"refs/pseries/kept/{commit}", commit)

    def remember(self, tree: str) -> None:
        """Keep a tree for a later :meth:`remembered` (``pseries snapshot``)."""
        self._git("update-ref", _SHOT, loose.write_commit(self.git_dir, tree, b"snapshot\n"))

    def remembered(self) -> str:
        """Return the tree that was kept last; empty if none was."""
        return self._git("rev-parse", "-q", "--verify", f"{_SHOT}^{{tree}}", accept=(0, 1)).text


# --- shapes -----------------------------------------------------------------------------------


def find(start: Path) -> Path | None:
    """Return the top of the checkout that a folder lies in, or ``None``."""
    for folder in (start, *start.parents):
        if (folder / ".git" / MARKER).is_file():
            return folder
        if (folder / ".git").exists():
            return None
    return None


def stranger(folder: Path, parts: Iterable[Path], environment: Mapping[str, str]) -> int | None:
    """Return the other user who made what is in a folder, unless the user's settings trust it.

    Whoever made it has a say in what is done there, so the same rule holds as for git
    (``safe.directory``, git-config(1)).

    Args:
        folder: what the settings name.
        parts: what is asked for its owner.
        environment: of the process.
    """
    ours = {os.geteuid()}
    if not os.geteuid() and (behind := environment.get("SUDO_UID", "")).isdecimal():
        ours.add(int(behind))
    other = next((uid for part in parts if (uid := part.stat().st_uid) not in ours), None)
    if other is None:
        return None
    found: list[str] = []
    for file in _settings(environment, folder / ".git")[1:]:
        found += _configured(file, "safe.directory", "--get-all").split("\n")
    return other if {"*", str(folder)}.isdisjoint(found) else None


def identity(environment: Mapping[str, str], git_dir: Path) -> str:
    """Return ``Name <mail>`` of the person at work, from where git takes it (git-var(1)).

    Raises:
        IdentityMissing: nothing says who that is.
    """
    found = {}
    files = _settings(environment, git_dir)
    for key in ("name", "email"):
        value = environment.get(f"GIT_AUTHOR_{key.upper()}", "")
        for file in files:
            value = value or _configured(file, f"user.{key}")
        found[key] = value.strip()
    if not all(found.values()):
        raise IdentityMissing(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", *map(str, files)))
    return f"{found['name']} <{found['email']}>"


def _settings(environment: Mapping[str, str], git_dir: Path) -> list[Path]:
    home = environment.get("HOME", "/")
    own = environment.get("GIT_CONFIG_GLOBAL")
    settings = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files = [own] if own is not None else [f"{home}/.gitconfig", f"{settings}/git/config"]
    system = [] if environment.get("GIT_CONFIG_NOSYSTEM") else ["/etc/gitconfig"]
    return [git_dir / "config", *map(Path, (*files, *system))]


def _configured(file: Path, key: str, how: str = "--get") -> str:
    if not file.is_file():
        return ""
    return process.run(
        ["config", "--file", str(file), "--includes", how, key], git_dir=None, accept=(0, 1)
    ).text


def _stream(
    base: str, patches: Sequence[tuple[Commit, Mapping[str, File | None]]]
) -> Iterator[bytes]:
    for number, (commit, files) in enumerate(patches, 1):
        message = paths.encode(commit.message)
        author = paths.encode(f"{commit.author} {commit.date}")
        yield b"commit refs/pseries/import\nmark :%d\nauthor %s\n" % (number, author)
        yield b"committer %s\n" % " ".join(commits.NOBODY).encode()
        yield b"data %d\n%s\n" % (len(message), message)
        yield b"from %s\n" % base.encode() if number == 1 else b"from :%d\n" % (number - 1)
        gone = [path for path, file in files.items() if file is None]
        for path in gone:  # first, so that a file may become a folder
            yield b"D %s\n" % _quoted(path)
        for path, file in files.items():
            if file is not None:
                mode, data = file
                yield b"M %o inline %s\ndata %d\n%s\n" % (mode, _quoted(path), len(data), data)
        yield b"\n"
    yield b"reset refs/pseries/import\nfrom %s\n\ndone\n" % _ABSENT.encode()


def _covered(folder: str, lines: Set[bytes]) -> bool:
    """Say whether patterns of a cone show a folder and all below it (git-sparse-checkout(1))."""
    for each in (folder, *map(str, PurePosixPath(folder).parents)):
        name = paths.encode(each)
        if b"/%s/" % name in lines and b"!/%s/*/" % name not in lines:
            return True
    return False


def _quoted(path: str) -> bytes:
    """Return a path in C style quotes, as fast-import and sparse-checkout read it."""
    raw = paths.encode(path)
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _read_changes(
    output: bytes, found: dict[tuple[str, str], dict[str, tuple[Entry | None, Entry | None]]]
) -> None:
    """Read ``diff-tree --stdin -z --raw``: a line of ids, then two fields a path."""
    problems = []
    pair = ("", "")
    fields = iter(output.split(b"\0"))
    for head in fields:
        while b"\n" in head:  # the ids of the next pair stand before its first path
            line, _, head = head.partition(b"\n")  # noqa: PLW2901
            old, new = line.decode("ascii").split()
            pair = (old, new)
        if not head:
            continue
        path = paths.decode(next(fields))
        words = head[1:].split(b" ")
        sides = []
        for mode, blob in zip(words[:2], words[2:4], strict=True):
            entry = None if int(mode, 8) == 0 else Entry(int(mode, 8), blob.decode("ascii"))
            if entry is not None and not entry.is_file:
                problems.append(Problem(paths.display(path), "is a link or a submodule"))
            sides.append(entry)
        found[pair][path] = (sides[0], sides[1])
    if problems:
        raise Uncommittable(tuple(dict.fromkeys(problems)))
