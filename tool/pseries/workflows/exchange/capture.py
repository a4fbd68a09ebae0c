"""A series out of an installed tree that somebody edited: its differences as patches.

Every file that belongs to the distribution, by its RECORD, is compared with the official release;
files that lie in its packages and in no RECORD were put there by hand. The tree is only read.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from pseries.errors import (
    CaptureRefused,
    IdentityMissing,
    NothingToCapture,
    PatchRefused,
    Problem,
    TargetRefused,
)
from pseries.git import objects
from pseries.git.checkout import identity
from pseries.git.merge import MergeStore
from pseries.model import commit as commits
from pseries.model import manifest as manifests
from pseries.model import naming, paths, symbols
from pseries.model import series as series_model
from pseries.model.diff import patch as patch_files
from pseries.model.diff.heading import Kind
from pseries.model.layout import Layout
from pseries.site import distribution as distributions
from pseries.site.fs import SiteTree
from pseries.workflows.exchange import init
from pseries.workflows.series import folders
from pseries.workflows.target import status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pseries.git.objects import Objects, Tree
    from pseries.model.diff.patch import Section
    from pseries.model.diff.splice import File
    from pseries.site.distribution import Distribution
    from pseries.site.fs import FileState
    from pseries.upstream.release import Release
    from pseries.workflows.series.catalog import Location
    from pseries.workflows.series.means import Means

SPLITS = ("file", "none")
MOST_STRAYS = 5_000
_LARGEST = 64 << 20
_LARGEST_STRAY = 4 << 20
_BYTECODE = (".pyc", ".pyo")
_COMPILED = (".so", ".pyd", ".dll", ".dylib", ".a", ".o", ".cubin", ".fatbin")
_LEFTOVERS = re.compile(
    r"(?:.*(?:~|\.(?:orig|rej|bak|swp|swo|tmp|log|save|old))|\.#.*|#.*#|\.DS_Store)"
)
"""What editors, patch and people leave beside a file that they change."""
_MOST_SHOWN = 20
_LAST_TIME = 253_402_214_400
"""The last day of the year 9999: no date of a mail is later, but that of a file may be."""


class Edit(NamedTuple):
    """A file that differs from the release, or that the release has not.

    ``what`` is "edited", "added", "deleted", "renamed" or "mode".
    """

    path: str
    what: str
    added: int
    removed: int
    symbols: tuple[str, ...]


class PatchMade(NamedTuple):
    """A patch of the new series, and the files in it."""

    name: str
    subject: str
    files: tuple[Edit, ...]


class Captured(NamedTuple):
    """What was captured.

    Attributes:
        series: name of the new series.
        folder: its folder; "" if nothing was written.
        distribution, version: what is installed, as METADATA says.
        release: where the release came from that it was compared with.
        compared: how many files were compared.
        patches: of the new series.
        left_out: what differs and is in no patch, and why.
        verified: whether ``apply --check`` says of the tree that the series is applied.
        notes: what a person should look at.
    """

    series: str
    folder: str
    distribution: str
    version: str
    release: str
    compared: int
    patches: tuple[PatchMade, ...]
    left_out: tuple[Problem, ...]
    verified: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be captured.

    Attributes:
        site: a site-packages folder, or a virtual environment.
        distribution: the name of what was edited.
        variant: what is added to the name of the series.
        split: "file" for a patch a file, "none" for one in all.
        binary: take binary files too, which a series can hold but ``apply`` refuses.
        git: a repository with a tag of the release.
        root: the folder of it that installs into site-packages; ``None`` to find out.
        dry_run: write nothing.
    """

    site: Path
    distribution: str
    variant: str = ""
    split: str = "file"
    binary: bool = False
    git: str = ""
    root: str | None = None
    dry_run: bool = False


def capture(asked: Asked, location: Location | None, means: Means) -> Captured:
    """Make a series of what was edited in an installed tree.

    Raises:
        NothingToCapture: every file is as released.
        CaptureRefused: what is there cannot be compared with the release.
        SeriesExists: there is a series of the name.
        And what finding the distribution, fetching its release and locking raise. Nothing was
        written then, and the tree is never changed.
    """
    site = distributions.site_of(asked.site)
    with SiteTree(site) as tree:
        status.require_finished(tree)
        installed = distributions.find(tree, asked.distribution)
        _refuse_applied(tree, installed)
        version = _public(installed, site)
        wanted = init.Wanted(installed.name, version, asked.git, root=asked.root)
        base = init.released(wanted, location, means)
        folder = init.folder_for(location, base.upstream, asked.variant)
        with objects.scratch(base.store.git_dir) as borrowed:
            layout = Layout(base.upstream.root)
            comparison = _Comparison(
                tree, installed, base.release, layout, borrowed, binary=asked.binary
            )
            comparison.run()
            if not comparison.after:
                if comparison.left_out:
                    raise CaptureRefused(installed.name, str(site), tuple(comparison.left_out))
                raise NothingToCapture(
                    installed.name, installed.version, str(site), comparison.compared
                )
            folders.refuse_existing(folder)
            made = _patches(comparison, asked, installed)
    summary = f"changes found in an installed {installed.name} {installed.version}"
    files = init.skeleton(base, summary=summary, name=folder.name, variant=asked.variant)
    files.update({each.name: data for each, data in made})
    files[series_model.ORDER_FILE] = "".join(f"{each.name}\n" for each, _ in made).encode()
    files[manifests.FILE] = init.locked(folder, files, location, means)
    verified = _verified(folder, files, site) if not asked.binary else False
    if not asked.dry_run:
        folders.create(folder, files)
    return Captured(
        series=folder.name,
        folder="" if asked.dry_run else str(folder),
        distribution=installed.name,
        version=installed.version,
        release=base.release.origin,
        compared=comparison.compared,
        patches=tuple(each for each, _ in made),
        left_out=tuple(comparison.left_out),
        verified=verified,
        notes=(*base.notes, *comparison.notes),
    )


def _refuse_applied(tree: SiteTree, installed: Distribution) -> None:
    live, _ = status.live(tree)
    name = naming.normalized(installed.name)
    for receipt in live.applied:
        if naming.normalized(receipt.distribution) == name:
            what = (
                "is applied there, and an edit of it is a change of it: pseries checkout"
                f" {receipt.series} WORK; copy the files that pseries status calls changed to their"
                " places in WORK; there: pseries refresh"
            )
            raise CaptureRefused(installed.name, str(tree.root), (Problem(receipt.series, what),))


def _public(installed: Distribution, site: Path) -> str:
    try:
        return Version(installed.version).public
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        problem = Problem(installed.info, f"{installed.version[:60]!r} is no version by PEP 440")
        raise CaptureRefused(installed.name, str(site), (problem,)) from None


def _verified(folder: Path, files: Mapping[str, bytes], site: Path) -> bool:
    """Say whether the series is already applied to the tree that it was made of."""
    from pseries.workflows.target import apply  # noqa: PLC0415 - much that only this needs

    known = {name: data for name, data in files.items() if name != "README.md"}
    series = series_model.assemble(folder.name, str(folder), known)
    return apply.apply(series, site, check=True).action is apply.Action.ALREADY


# --- comparing --------------------------------------------------------------------------------


@dataclass
class _Comparison:
    """An installed tree beside the release, file by file.

    Attributes:
        before: the files that differ, as the release has them, by canonical path.
        after: the same as they are installed; ``None`` for one that is gone.
        times: when they were changed, in seconds.
        left_out: what differs and cannot be in a patch, and why.
        notes: what a person should know.
        compared: how many files were looked at.
    """

    tree: SiteTree
    installed: Distribution
    release: Release
    layout: Layout
    store: Objects
    binary: bool
    before: dict[str, File] = field(default_factory=dict)
    after: dict[str, File | None] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    left_out: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: int = 0
    other_build: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Compare everything."""
        released, _ = self.store.below(self.release.tree, "")
        modes = self.release.source == "wheel"  # an sdist has lost them, and git has its own
        listed: set[str] = set()
        for entry in self.installed.record.entries:
            path = entry.path
            listed.add(path)
            if entry.outside or _is_metadata(path, self.installed.info) or _is_bytecode(path):
                continue
            self.compared += 1
            canonical = self.layout.canonical(path)
            if path.endswith(_COMPILED) or canonical in self.release.recorded.left_out:
                self._compiled(path, entry.size)
            else:
                known = released.get(canonical)
                digest = entry.digest if entry.algorithm == "sha256" else None
                self._file(path, canonical, known, digest, modes=modes)
        for path in self._strays(listed):
            self._stray(path)
        self._settle(released)

    def _compiled(self, path: str, size: int | None) -> None:
        """Compare a compiled file by its size alone: no patch could hold it anyway."""
        found = self.tree.status(path)
        if found is None or (size is not None and found.st_size != size):
            what = "is gone" if found is None else f"has {found.st_size} bytes instead of {size}"
            self.left_out.append(Problem(path, f"compiled, and it {what}: no patch can hold that"))

    def _file(
        self, path: str, canonical: str, known: objects.Entry | None, digest: str | None,
        *, modes: bool,
    ) -> None:  # fmt: skip
        try:
            state = self.tree.read(path, _LARGEST)
        except TargetRefused as error:
            self.left_out.append(Problem(path, error.reason))
            return
        if state is not None and known is not None and _blob(state.data) == known.blob:
            mode = _mode(state)
            if modes and mode != known.mode:
                self._differs(canonical, known, (mode, state.data), state)
            return
        if state is not None and digest == state.sha256:
            self.other_build.append(path)  # nobody edited it since it was installed
        elif known is not None:
            self._differs(canonical, known, self._now(state, known, modes=modes), state)
            if digest is not None:
                self.digests[canonical] = digest
        elif state is not None:
            what = (
                f"edited, but {self.release.origin} has no such file: install the release elsewhere"
                " and `pseries upstream add --replace` that folder"
            )
            self.left_out.append(Problem(path, what))

    @staticmethod
    def _now(state: FileState | None, known: objects.Entry, *, modes: bool) -> File | None:
        if state is None:
            return None
        return (_mode(state) if modes else known.mode), state.data

    def _differs(
        self, canonical: str, known: objects.Entry, now: File | None, state: FileState | None
    ) -> None:
        self.before[canonical] = (known.mode, b"")  # read all at once, later
        self.after[canonical] = now
        if state is not None:
            self.times[canonical] = state.mtime_ns // 1_000_000_000

    # --- files that nobody lists ---

    def _strays(self, listed: set[str]) -> Iterator[str]:
        """Yield files in the distribution's packages that its RECORD does not list."""
        tops = {path.partition("/")[0] for path in listed if "/" in path and path[:1] != "."}
        tops = {
            top for top in tops
            if not top.endswith((".dist-info", ".data", ".libs", "__pycache__")) and top != ".."
            and top not in ("bin", "etc", "share", "include")
        }  # fmt: skip
        found: list[str] = []
        pending = sorted(tops, reverse=True)
        while pending:
            folder = pending.pop()
            for name in self.tree.names(folder) or ():
                path = f"{folder}/{name}"
                try:
                    status_ = self.tree.status(path)
                except TargetRefused as error:  # no patch could name it
                    self.left_out.append(Problem(paths.display(path), error.reason))
                    continue
                if status_ is None or name == "__pycache__" or _is_bytecode(path):
                    continue
                if _is_folder(status_):
                    pending.append(path)
                elif path not in listed:
                    found.append(path)
            if len(found) > MOST_STRAYS:  # others may fill a folder that is a namespace's
                found = self._without_foreign(found)
            if len(found) > MOST_STRAYS:
                what = f"more than {MOST_STRAYS} files are in no RECORD: is it the right folder?"
                raise CaptureRefused(
                    self.installed.name, str(self.tree.root), (Problem(folder, what),)
                )
        yield from sorted(self._without_foreign(found))

    def _without_foreign(self, found: list[str]) -> list[str]:
        """Return those of some files that no other distribution lists."""
        foreign = distributions.owner_of(self.tree, found, self.installed.info) if found else {}
        return [path for path in found if path not in foreign]

    def _stray(self, path: str) -> None:
        name = path.rpartition("/")[2]
        if _LEFTOVERS.fullmatch(name):
            self.left_out.append(Problem(path, "looks like what an editor or a tool left behind"))
            return
        reason = paths.problem(path)
        if reason is None and path.endswith(_COMPILED):
            reason = "compiled, and in no RECORD"
        try:
            state = None if reason else self.tree.read(path, _LARGEST_STRAY)
        except TargetRefused as error:
            reason = error.reason
            state = None
        if reason is not None:
            self.left_out.append(Problem(path, reason))
        if state is None:
            return
        self.compared += 1
        canonical = self.layout.canonical(path)
        self.after[canonical] = (_mode(state), state.data)
        self.times[canonical] = state.mtime_ns // 1_000_000_000

    # --- the end of it ---

    def _settle(self, released: Tree) -> None:
        """Read what the release has of the files that differ, and leave out what no patch holds."""
        self.before = self.store.files({path: released[path] for path in self.before})
        for path, digest in self.digests.items():
            if hashlib.sha256(self.before[path][1]).hexdigest() != digest:
                what = (
                    f"edited, but what was installed was not the text of {self.release.origin}:"
                    " another build, so what was changed by hand cannot be told"
                )
                self._leave_out(path, what)
        if not self.binary:
            for path in [path for path in self.after if self._is_binary(path)]:
                self._leave_out(path, "binary, which apply refuses; --binary takes it all the same")
        if self.other_build:
            shown = ", ".join(self.other_build[:3]) + (" …" if len(self.other_build) > 3 else "")
            self.notes.append(
                f"{len(self.other_build)} files are as they were installed but not as"
                f" {self.release.origin} has them (generated, or another build), and count as"
                f" unchanged: {shown}"
            )

    def _leave_out(self, path: str, what: str) -> None:
        self.before.pop(path, None)
        self.after.pop(path)
        self.left_out.append(Problem(self.layout.installed(path) or path, what))

    def _is_binary(self, path: str) -> bool:
        sides = (self.before.get(path), self.after.get(path))
        return any(side is not None and b"\0" in side[1][:8000] for side in sides)


def _is_metadata(path: str, info: str) -> bool:
    first = path.partition("/")[0]
    return first == info or first.endswith((".dist-info", ".data")) or first == ".."


def _is_bytecode(path: str) -> bool:
    return path.endswith(_BYTECODE) or "__pycache__" in path.split("/")


def _is_folder(found: os.stat_result) -> bool:
    import stat  # noqa: PLC0415 - one use

    return stat.S_ISDIR(found.st_mode)


def _blob(data: bytes) -> str:
    return manifests.blob_id(data)


def _mode(state: FileState) -> int:
    return 0o100755 if state.mode & 0o100 else 0o100644


# --- the patches ------------------------------------------------------------------------------


def _patches(
    comparison: _Comparison, asked: Asked, installed: Distribution
) -> list[tuple[PatchMade, bytes]]:
    after = {path: file for path, file in comparison.after.items() if file is not None}
    author = _author(comparison.notes)
    store = MergeStore(comparison.store)
    pair = store.tree_of(comparison.before), store.tree_of(after)
    (diff,) = store.diffs([pair])
    sections = patch_files.parse("capture", diff).sections
    groups = [(each,) for each in sections] if asked.split == "file" else [tuple(sections)]
    made: list[tuple[PatchMade, bytes]] = []
    for number, group in enumerate(groups, 1):
        edits = tuple(_edit(each, comparison, after) for each in group)
        subject = _subject(edits, installed)
        header = commits.header_for(
            commits.Commit("", "", (), author, _date(group, comparison.times),
                           _message(subject, edits, installed, comparison)),
            None, subject,
        )  # fmt: skip
        name = f"{number:04}-{commits.slug(_slug(edits, installed))}.patch"
        data = header + b"".join(each.raw for each in group)
        try:
            patch = patch_files.parse(name, data)
        except PatchRefused as error:
            raise CaptureRefused(
                installed.name, str(comparison.tree.root), error.problems
            ) from error
        if refused := [each for each in patch_files.refusals(patch) if "binary" not in each.what]:
            raise CaptureRefused(installed.name, str(comparison.tree.root), tuple(refused))
        made.append((PatchMade(name, subject, edits), data))
    return made


def _edit(section: Section, comparison: _Comparison, after: Mapping[str, File]) -> Edit:
    what = {Kind.ADD: "added", Kind.DELETE: "deleted", Kind.RENAME: "renamed"}.get(
        section.kind, "edited" if section.hunks or section.binary else "mode"
    )
    found: tuple[str, ...] = ()
    if section.kind is not Kind.DELETE and section.hunks:
        scopes = symbols.scopes_of(section.new, after)
        old = symbols.scopes_of(section.old, comparison.before)
        from pseries.model.diff import splice  # noqa: PLC0415 - beside its one use

        names = (splice.symbol_of(hunk, old, scopes) for hunk in section.hunks)
        found = tuple(dict.fromkeys(name for name in names if name and name != symbols.MODULE))
    return Edit(section.path, what, section.added, section.removed, found)


def _subject(edits: Sequence[Edit], installed: Distribution) -> str:
    if len(edits) == 1:
        return f"{paths.display(edits[0].path).rpartition('/')[2]}: local changes"
    return f"{installed.name}: local changes to {len(edits)} files"


def _slug(edits: Sequence[Edit], installed: Distribution) -> str:
    if len(edits) > 1:
        return f"{installed.name} local changes"
    parts = paths.display(edits[0].path).split("/")[-2:]
    return " ".join(parts).removesuffix(".py")


def _message(
    subject: str, edits: Sequence[Edit], installed: Distribution, comparison: _Comparison
) -> str:
    lines = [
        f"Found in an installed {installed.name} {installed.version}, by comparison with",
        f"{comparison.release.origin}.",
        "",
        "Say here why it is needed, and how that was seen.",
        "",
    ]
    for edit in edits[:_MOST_SHOWN]:
        where = f": {', '.join(edit.symbols[:_MOST_SHOWN])}" if edit.symbols else ""
        lines.append(f"* {paths.display(edit.path)} ({edit.what}){where}")
    if len(edits) > _MOST_SHOWN:
        lines.append(f"* and {len(edits) - _MOST_SHOWN} more")
    text = "\n".join(lines)
    return f"{subject}\n\n{text}\n\nUpstream-Status: Pending\n"


def _date(group: Sequence[Section], times: Mapping[str, int]) -> str:
    """Return when the last of some files was changed, as far as the file system knows."""
    found = [times[each.path] for each in group if times.get(each.path, _LAST_TIME) < _LAST_TIME]
    return f"{max([0, *found])} +0000"


def _author(notes: list[str]) -> str:
    try:
        return identity(os.environ, Path("/nonexistent"))
    except IdentityMissing:
        notes.append(
            "nothing says who made the change, so the patches are by 'unknown': set git's"
            " user.name and user.email, and capture again"
        )
        return commits.UNKNOWN
