"""The ground that patches are tried on: a release and what earlier patches made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import PatchRefused, PatchRejected, Problem, ReadingsDiffer
from pseries.model import manifest as manifests
from pseries.model import paths, symbols
from pseries.model.diff import dialect, splice
from pseries.model.diff import patch as patch_files
from pseries.model.diff.heading import Kind
from pseries.model.diff.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pseries.git.objects import Objects, Tree
    from pseries.model.diff.dialect import Transport, Way
    from pseries.model.diff.patch import Patch, Section
    from pseries.model.diff.splice import File
    from pseries.workflows.exchange.sources import Incoming

_MOST_WAYS = 6
"""Ways to read the names of one patch that are tried on a release."""
_MOST_PACKAGES = 20
"""Packages of a release that names may be from within."""
_SHORTEST = 7
"""Digits of a blob id that tell a file from others."""


class Fit(str, Enum):
    """How a patch fits a release."""

    IDS = "by blob ids"
    """The ids before, that it names, are those of the release's files."""
    LINES = "by its lines"
    """Every hunk stands at its recorded line."""
    MOVED = "at other lines"
    """Every hunk stands, whole, at one other place of its file."""
    NOT = "not"


class Reading(NamedTuple):
    """A patch as it is understood on a release.

    Attributes:
        patch: in the form of a series; ``None`` if it cannot be read.
        fit: how it fits.
        changes: what had to be changed, in words.
        problems: why it does not fit.
        held: the release has its result already, by blob ids.
        after: the files that it changes, ``None`` for one that goes.
    """

    patch: Patch | None
    fit: Fit
    changes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    held: bool = False
    after: Mapping[str, File | None] = {}


class _Leave(NamedTuple):
    """What a person allows: hunks at another line, files to leave out."""

    offset: bool
    exclude: tuple[str, ...]

    def out(self, patch: Patch) -> frozenset[str]:
        """Return the files of a patch that are to be left out."""
        return frozenset(each.path for each in patch.sections if self.leaves(each.path))

    def leaves(self, path: str) -> bool:
        """Say whether a file is to be left out."""
        return any(fnmatchcase(path, pattern) for pattern in self.exclude)


@dataclass
class Ground:
    """A release and what earlier patches made of it.

    Args:
        store: reads the objects of the release.
        tree: every file of it.
        root: the folder that installs into site-packages.
    """

    store: Objects
    tree: Tree
    root: str
    _changed: dict[str, File | None] = field(default_factory=dict)
    _cache: dict[str, bytes] = field(default_factory=dict)
    known: set[str] = field(init=False)
    folders: set[str] = field(init=False)
    above: str = field(init=False)
    """What an installed path lacks before it is canonical: the root."""
    packages: tuple[str, ...] = field(init=False)
    """Its packages, each as what a path from within it lacks."""

    def __post_init__(self) -> None:
        self.known = set(self.tree)
        self.folders = set()
        for path in self.known:
            self._add_folders(path)
        self.above = f"{self.root}/" if self.root else ""
        self.packages = self._find_packages()

    def _add_folders(self, path: str) -> None:
        folder = path.rpartition("/")[0]
        while folder and folder not in self.folders:
            self.folders.add(folder)
            folder = folder.rpartition("/")[0]

    def _find_packages(self) -> tuple[str, ...]:
        found = sorted(
            path.removesuffix("__init__.py")
            for path in self.known
            if path.endswith("/__init__.py") and path.startswith(self.above)
            and path.count("/") == self.above.count("/") + 1
        )  # fmt: skip
        return tuple(found[:_MOST_PACKAGES])

    def load(self, wanted: Iterable[str]) -> None:
        """Read files of the release that will be asked for, in one go."""
        blobs = {self.tree[path].blob for path in wanted if path in self.tree}
        self._cache.update(self.store.read(blobs - self._cache.keys()))

    def prefetch(self, patches: Iterable[Incoming]) -> None:
        """Read at once what patches may be about."""
        prefixes = ("", self.above, *self.packages)
        named = (
            dialect.names_in(each.name, each.ways[0].data, prefixes) & self.known
            for each in patches
        )
        self.load(frozenset().union(*named))

    def file(self, path: str) -> File | None:
        """Return mode and bytes of a file as it is now."""
        if path in self._changed:
            return self._changed[path]
        entry = self.tree.get(path)
        if entry is None:
            return None
        if entry.blob not in self._cache:
            self._cache.update(self.store.read([entry.blob]))
        return entry.mode, self._cache[entry.blob]

    def files(self, wanted: Iterable[str]) -> dict[str, File]:
        """Return those of some files that there are."""
        found = {path: self.file(path) for path in wanted}
        return {path: file for path, file in found.items() if file is not None}

    def blob(self, path: str) -> str | None:
        """Return the blob id of a file as it is now."""
        if path not in self._changed:
            return self.tree[path].blob if path in self.tree else None
        file = self._changed[path]
        return None if file is None else manifests.blob_id(file[1])

    def take(self, after: Mapping[str, File | None]) -> None:
        """Let files be what a patch made of them."""
        for path, file in after.items():
            self._changed[path] = file
            if file is None:
                self.known.discard(path)
            else:
                self.known.add(path)
                self._add_folders(path)

    # --- reading a patch on it ----------------------------------------------------------------

    def read(
        self, incoming: Incoming, *, accept_offset: bool = False, exclude: Sequence[str] = ()
    ) -> Reading:
        """Read a patch that comes from anywhere, and say how it fits.

        Args:
            incoming: the patch.
            accept_offset: take hunks at the one other place where all their lines stand.
            exclude: canonical paths that are left out, as shell patterns.
        """
        leave = _Leave(accept_offset, tuple(exclude))
        readings: list[Reading] = []
        refused: list[Reading] = []
        for transport in incoming.ways:
            try:
                found = self._ways(incoming, transport.data, leave)
            except PatchRefused as error:
                refused.append(Reading(None, Fit.NOT, problems=error.problems))
                continue
            tried = [self._read(incoming, transport, way, leave) for way in found]
            fitting = [each for each in tried if each.fit is not Fit.NOT or each.held]
            if len(fitting) > 1:
                fitting = self._told_apart(incoming, fitting, found, tried)
            readings += fitting[:1]
            refused += [each for each in tried if each not in fitting]
            if fitting and not transport.unproven:
                break
        proven = [each for each in readings if self._is_proven(each)]
        several = len(incoming.ways) > 1 and all(way.unproven for way in incoming.ways)
        if several and len(readings) > 1:
            readings = proven
            if len(proven) != 1:
                what = (
                    "its transport has CR LF line ends, and nothing tells whether the new files in"
                    " it had them: remove every CR from it, or make it anew"
                )
                return Reading(None, Fit.NOT, problems=(Problem(incoming.name, what),))
        if readings:
            return readings[0]._replace(changes=(*incoming.changes, *readings[0].changes))
        return max(refused, key=lambda each: each.patch is not None)

    def _ways(self, incoming: Incoming, data: bytes, leave: _Leave) -> list[Way]:
        """Return the ways to read its names that come into question, best first."""
        found = dialect.ways(
            incoming.name, data, self.known, self.folders,
            root=self.above, packages=self.packages, asked=incoming.strip,
        )  # fmt: skip
        if not found:
            patch_files.parse(incoming.name, data)  # says why
            raise PatchRefused(incoming.name, (Problem(incoming.name, "its names make no sense"),))
        best = [way for way in found if all(map(leave.leaves, way.unknown))]
        if best:
            deepest = max(way.depth for way in best)
            new_only = [way for way in best if not way.changes]
            if new_only:
                best = [way for way in best if way.depth == deepest]
                if not deepest:
                    best = [way for way in best if way.asked or way.natural]
        if not best:  # then the names themselves say what is missing
            plain = [way for way in found if way.asked or way.natural]
            best = sorted(plain or found, key=lambda way: len(way.unknown))[:1]
        return best[:_MOST_WAYS]

    def _told_apart(
        self, incoming: Incoming, fitting: list[Reading], found: Sequence[Way],
        tried: Sequence[Reading],
    ) -> list[Reading]:  # fmt: skip
        """Choose among several ways that fit: blob ids, then what the names themselves say."""
        by_ids = [each for each in fitting if each.fit is Fit.IDS]
        if len(by_ids) == 1:
            return by_ids
        among = by_ids or fitting
        natural = [
            each for way, each in zip(found, tried, strict=True)
            if each in among and way.natural and (incoming.strip is None or way.asked)
        ]  # fmt: skip
        if len(natural) == 1:
            return natural
        readings = "; ".join(
            ", ".join(sorted(paths.display(path) for path in each.patch.paths)[:2])
            for each in among if each.patch is not None
        )  # fmt: skip
        what = f"its names can be read in several ways, each of which fits: {readings}"
        problem = Problem(incoming.name, what)
        return [Reading(among[0].patch, Fit.NOT, problems=(problem,))]

    def _read(self, incoming: Incoming, transport: Transport, way: Way, leave: _Leave) -> Reading:
        changes = transport.changes
        try:
            patch = dialect.read(incoming.name, transport.data, way)
            left = leave.out(patch)
            if len(left) == len(patch.sections):
                what = "nothing is left of it: all its files are left out"
                return Reading(patch, Fit.NOT, problems=(Problem(incoming.name, what),))
            if left:
                data = dialect.without(patch, left)
                patch = patch_files.parse(patch.name, data, patch.strip)
                shown = ", ".join(sorted(paths.display(path) for path in left))
                changes = (*changes, f"left out as asked: {shown}")
        except PatchRefused as error:
            return Reading(None, Fit.NOT, problems=error.problems)
        missing = [path for path in way.unknown if path not in left]
        if missing:
            problems = tuple(
                Problem(incoming.name, f"the release has no {paths.display(path)}")
                for path in missing
            )
            return Reading(patch, Fit.NOT, problems=problems, held=self._is_held(patch))
        if way.words:
            changes = (*changes, way.words)
        reading = self.trial(patch)._replace(changes=changes)
        if reading.fit is Fit.MOVED:
            if not leave.offset:
                return reading._replace(fit=Fit.NOT)
            words = tuple(str(problem) for problem in reading.problems)
            reading = reading._replace(changes=(*changes, *words), problems=())
        if reading.fit is not Fit.NOT and not self._leads_to(incoming, reading, left):
            what = "what it makes of its files is not what its commit holds"
            return reading._replace(fit=Fit.NOT, problems=(Problem(incoming.name, what),))
        return reading

    @staticmethod
    def _leads_to(incoming: Incoming, reading: Reading, left: Collection[str]) -> bool:
        """Say whether a patch makes what its commit holds, wherever in the tree that may be."""
        made = {manifests.blob_id(file[1]) for file in reading.after.values() if file is not None}
        return bool(left) or incoming.expected is None or incoming.expected <= made

    def _is_proven(self, reading: Reading) -> bool:
        """Say whether the files prove how line ends were meant: an old side, or an id after."""
        if reading.patch is None:
            return False
        return all(
            section.old is not None or not section.hunks or (
                section.new_blob is not None and _is_blob(section.new_blob, reading.after, section)
            )
            for section in reading.patch.sections
        )  # fmt: skip

    # --- trying a patch -----------------------------------------------------------------------

    def trial(self, patch: Patch) -> Reading:
        """Say how a patch in the form of a series fits; nothing is changed."""
        files = self.files(patch.paths)
        held = self._is_held(patch)
        problems: list[Problem] = []
        if any(section.binary for section in patch.sections):
            return self._by_git(patch, files, held=held)
        after = splice.apply_patch(files, patch, problems)
        if problems:
            moved = _moved(patch, files)
            if moved is None:
                return Reading(patch, Fit.NOT, problems=tuple(problems), held=held)
            placed, said = moved
            after = splice.apply_patch(files, placed, [])
            return Reading(placed, Fit.MOVED, (), said, held, _difference(patch, files, after))
        fit = Fit.IDS if self._by_ids(patch) else Fit.LINES
        return Reading(patch, fit, held=held, after=_difference(patch, files, after))

    def _by_git(self, patch: Patch, files: Mapping[str, File], *, held: bool) -> Reading:
        try:
            tree = self.store.apply(self.store.add(files), [patch])
        except (PatchRejected, ReadingsDiffer) as error:
            return Reading(patch, Fit.NOT, problems=(Problem(patch.name, str(error)),), held=held)
        fit = Fit.IDS if self._by_ids(patch) else Fit.LINES
        return Reading(patch, fit, (), (), held, _difference(patch, files, self.store.files(tree)))

    def _by_ids(self, patch: Patch) -> bool:
        named = [each for each in patch.sections if each.old and (each.hunks or each.binary)]
        return bool(named) and all(
            each.old_blob is not None and self._has(each.old, each.old_blob) for each in named
        )

    def _has(self, path: str | None, blob: str) -> bool:
        return len(blob) >= _SHORTEST and (self.blob(path or "") or "").startswith(blob)

    def _is_held(self, patch: Patch) -> bool:
        """Say whether every file is what the patch makes of it: by the ids that it names alone.

        That its lines could be taken off again proves nothing.
        """
        for section in patch.sections:
            gone = section.kind in (Kind.DELETE, Kind.RENAME)
            if gone and section.old in self.known:
                return False
            if section.kind is Kind.DELETE:
                continue
            if section.new_blob is None or not self._has(section.new, section.new_blob):
                return False
        return any(section.new_blob for section in patch.sections)


def _difference(
    patch: Patch, before: Mapping[str, File], after: Mapping[str, File]
) -> dict[str, File | None]:
    return {path: after.get(path) for path in patch.paths if before.get(path) != after.get(path)}


def _is_blob(name: str, after: Mapping[str, File | None], section: Section) -> bool:
    file = after.get(section.new or "")
    return file is not None and manifests.blob_id(file[1]).startswith(name)


# --- hunks that stand elsewhere ---------------------------------------------------------------


def _moved(patch: Patch, files: Mapping[str, File]) -> tuple[Patch, tuple[Problem, ...]] | None:
    """Return the patch with each hunk where all its lines stand, if that is one place each.

    The numbers in the hunks' headings are all that changes. ``None``: there is any doubt.
    """
    lines = split_lines(patch.data)
    said: list[Problem] = []
    for section in patch.sections:
        if section.old is None or section.old not in files or not section.hunks:
            if section.old is not None and section.old not in files:
                return None
            continue
        source = split_lines(files[section.old][1])
        found = splice.placed(source, section.hunks, recorded=True)
        if isinstance(found, splice.Unplaced):
            return None
        for number, (was, hunk) in enumerate(zip(section.hunks, found, strict=True), 1):
            if hunk.old_start != was.old_start:
                said.append(Problem(
                    f"{patch.name}:{hunk.line} {paths.display(section.path)}",
                    f"hunk {number} stands at line {hunk.old_start} instead of {was.old_start}"
                    f"{_where(section.old, files, hunk.old_start)}",
                ))  # fmt: skip
            heading = lines[hunk.line - 1]
            lines[hunk.line - 1] = _numbered(heading, hunk.old_start, hunk.new_start)
    try:
        placed = patch_files.parse(patch.name, b"".join(lines), patch.strip)
    except PatchRefused:
        return None
    problems: list[Problem] = []
    splice.apply_patch(files, placed, problems)
    return None if problems else (placed, tuple(said))


def _where(path: str, files: Mapping[str, File], line: int) -> str:
    scopes = symbols.scopes_of(path, files)
    name = None if scopes is None else symbols.enclosing(scopes, line + 3, line + 3)
    return f", in {name}" if name else ""


def _numbered(line: bytes, old: int, new: int) -> bytes:
    """Return a hunk's heading with other starts; its counts and its end stay."""
    head, _, rest = line[3:].partition(b" @@")
    before, after = head.split(b" ")
    counts = [side.partition(b",")[1:] for side in (before, after)]
    starts = (b"-%d" % old, b"+%d" % new)
    sides = [start + b"".join(count) for start, count in zip(starts, counts, strict=True)]
    return b"@@ " + b" ".join(sides) + b" @@" + rest
