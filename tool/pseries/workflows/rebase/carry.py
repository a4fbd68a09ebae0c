"""One patch on another release: where its files are there, what the three sides say, the verdicts.

Nothing is written. Base is the old release with the patches before this one, ours the new release
with those that were carried, theirs base with this patch.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pseries.git.merge import Sides
from pseries.git.worktree import Conflict
from pseries.model import paths, symbols
from pseries.model.diff.patch import Kind
from pseries.model.verdicts import exact, faults, follow, judge, source
from pseries.model.verdicts.verdict import FileVerdict, HunkVerdict, Labels, Verdict, overall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from pseries.errors import Problem
    from pseries.git.merge import Merged, MergeStore, Renames
    from pseries.model.calls.signature import Parameter
    from pseries.model.diff.patch import Hunk, Patch, Section
    from pseries.model.diff.splice import File

Files = dict[str, "File"]
_NUL = b"\0"
_TAKEN_BACK = (
    "nothing is left to change: it changes what an earlier patch did, which is not carried"
)
_WORD = re.compile(rb"[A-Za-z_]\w*")
_OWN = re.compile(rb"\bself\.(\w+)")
_LISTED = re.compile(rb"\w+(?: as \w+)?(?:, *\w+(?: as \w+)?)*,?(?: *#.*)?")
"""A line that may stand in the parentheses of an import."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The new release with what was carried so far.

    Attributes:
        changed: files that differ from the release, ``None`` for deleted ones.
        places: where a file that the series makes or renames is, if upstream moved its folder.
    """

    changed: Mapping[str, File | None] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def followed_by(
        self, changed: Mapping[str, File | None], places: Mapping[str, str]
    ) -> Standing:
        """Return what stands after more changes."""
        return Standing({**self.changed, **changed}, {**self.places, **places})


@dataclass(frozen=True, slots=True)
class Carried:
    """What becomes of one patch.

    Attributes:
        verdict: the worst of its files'.
        files: verdicts in the patch's order; more than one for a file that upstream tore apart.
        changed: what it changes in the new release, where taken; ``None`` for deleted files.
        places: where the files are that it makes or renames, if not where the patch says.
        conflicts: the files that a person has to decide on.
        as_is: its text does the same to the new release: it meets there what it was made for.
    """

    verdict: Verdict
    files: tuple[FileVerdict, ...]
    changed: Mapping[str, File | None]
    places: Mapping[str, str]
    conflicts: tuple[Conflict, ...]
    as_is: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """How bold to be, and what the sides are called between conflict markers."""

    weave: bool = True
    strict: bool = False
    base: str = "base"
    upstream: str = "upstream"


class Ground:
    """Both releases: what they hold, read when it is asked for and once.

    Args:
        store: holds both trees.
        trees: ids of the old and the new release's tree.
        root: the folder of the tree that holds the top-level packages.
        wanted: paths that will be asked for, to read them in one go.
        recorded: the symbol of each hunk by patch and path, as far as the old series is locked.
    """

    def __init__(
        self,
        store: MergeStore,
        trees: tuple[str, str],
        root: str,
        wanted: Iterable[str],
        recorded: Mapping[tuple[str, str], tuple[str | None, ...]],
    ) -> None:
        old, new = trees
        self.store = store
        self.recorded = recorded
        self.root = root
        self._old, self._new = old, new
        names = sorted(set(wanted))
        self.released: Files = store.pick(old, names)
        self._read: dict[str, File | None] = dict.fromkeys(names)
        self._read.update(store.pick(new, names))

    def new(self, path: str) -> File | None:
        """Return a file of the new release."""
        if path not in self._read:
            self._read[path] = self.store.pick(self._new, [path]).get(path)
        return self._read[path]

    def load(self, wanted: Iterable[str]) -> None:
        """Read files of the new release that will be asked for."""
        missing = [path for path in wanted if path not in self._read]
        self._read.update(dict.fromkeys(missing))
        self._read.update(self.store.pick(self._new, missing))

    @cached_property
    def renames(self) -> Renames:
        """What upstream renamed: searched for when the first file is missing."""
        return self.store.renames(self._old, self._new)

    @cached_property
    def new_folders(self) -> frozenset[str]:
        """Every folder of the new release."""
        return self.store.folders(self._new)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The folders of the old release that hold top-level packages."""
        depth = self.root.count("/") + 1 if self.root else 0
        return frozenset(
            folder for folder in self.store.folders(self._old) if folder.count("/") == depth
        )

    @cached_property
    def old_names(self) -> frozenset[str]:
        """Every file of the old release."""
        return self.store.names(self._old)

    @cached_property
    def new_names(self) -> frozenset[str]:
        """Every file of the new release."""
        return self.store.names(self._new)

    def search(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """Return the Python files of the new release with a line that matches, and read them."""
        found = self.store.find(self._new, patterns)
        self.load(found)
        missing = [path for path in found if path not in self.released]
        self.released.update(self.store.pick(self._old, missing))
        return found


@dataclass(frozen=True, slots=True)
class _Change:
    """One file of a patch with its three sides, and where it is in the new release.

    ``source`` is where the old file is there now, ``target`` where the result goes.
    """

    section: Section
    base: File | None
    ours: File | None
    theirs: File | None
    source: str | None
    target: str
    note: str = ""

    @property
    def path(self) -> str:
        return self.section.old or self.section.path

    @property
    def sides(self) -> tuple[File | None, File | None, File | None]:
        return self.base, self.ours, self.theirs

    @property
    def opaque(self) -> bool:
        """Whether there is no text to merge."""
        return self.section.binary or any(_NUL in side[1] for side in self.sides if side)

    @property
    def untouched(self) -> bool:
        """Whether upstream's file is byte for byte the one that the patch was made for."""
        return _bytes(self.base) == _bytes(self.ours) and self.base is not None

    @property
    def at_home(self) -> bool:
        """Whether the file is where the patch says, and as the patch says."""
        here = self.source == self.section.old or self.base is None
        return here and self.target == self.section.path and self.base == self.ours

    @property
    def three_texts(self) -> Sides | None:
        """The texts to merge, if all sides are there and both changed something."""
        if self.opaque or self.base is None or self.ours is None or self.theirs is None:
            return None
        base, ours, theirs = self.base[1], self.ours[1], self.theirs[1]
        return None if base in (ours, theirs) or ours == theirs else Sides(base, ours, theirs)


_Judged = tuple[_Change, FileVerdict]
"""A file of the patch and a verdict on it: one, or more where upstream tore the file apart."""


def _homes_last(judged: Sequence[_Judged]) -> list[_Judged]:
    """Order verdicts so that one on a function's new home, made on top of others, comes last."""
    return sorted(judged, key=lambda each: each[1].new_path != each[0].target)


def _bytes(file: File | None) -> bytes | None:
    return None if file is None else file[1]


def carry(
    patch: Patch, sides: tuple[Files, Files], ground: Ground, standing: Standing, rules: Rules
) -> Carried:
    """Return what becomes of one patch on the new release.

    Args:
        patch: the patch, without what the release at hand cannot show.
        sides: base and theirs: the files that the series touches, as this patch finds them and as
            it leaves them.
        ground: both releases.
        standing: ours: the new release with what was carried so far.
        rules: how bold to be.
    """
    attempt = _Attempt(patch, ground, standing, rules, ground.recorded)
    changes = [attempt.change(section, *sides) for section in patch.sections]
    asked = [change for change in changes if change.three_texts is not None]
    merged = ground.store.merge(
        [three for each in asked if (three := each.three_texts)], attempt.labels
    )
    texts = {each.target: result for each, result in zip(asked, merged, strict=True)}
    judged = [(change, attempt.verdict(change, texts.get(change.target))) for change in changes]
    judged = attempt.followed(judged)
    judged = attempt.with_faults(judged, sides[0].keys() | sides[1].keys())
    return attempt.carried(changes, judged)


def expected(
    patches: Sequence[Patch], states: Sequence[Files], ground: Ground, standing: Standing
) -> Iterator[Sides]:
    """Yield the merges that can be foreseen: of the first patch on each file, if it stays there.

    Args:
        patches: the series.
        states: the files that it touches, before the first patch and after each.
        ground: both releases.
        standing: the new release as the first patch finds it.
    """
    seen: set[str] = set()
    for number, patch in enumerate(patches):
        for section in patch.sections:
            path = section.path
            if section.kind is Kind.MODIFY and path not in seen:
                ours = standing.changed.get(path, ground.new(path))
                sides = states[number][path], ours, states[number + 1][path]
                three = _Change(section, *sides, path, path).three_texts
                if three is not None:
                    yield three
        seen |= patch.paths


@dataclass(frozen=True)
class _Attempt:
    """One patch on its way."""

    patch: Patch
    ground: Ground
    standing: Standing
    rules: Rules
    recorded: Mapping[tuple[str, str], tuple[str | None, ...]]

    @property
    def labels(self) -> Labels:
        return Labels(self.rules.base, self.rules.upstream, self.patch.name)

    # --- where things are ---------------------------------------------------------------------

    def ours(self, path: str) -> File | None:
        changed = self.standing.changed
        return changed[path] if path in changed else self.ground.new(path)

    def _where(self, path: str) -> str | None:
        """Return where a file of base is in the new release, ``None`` if it is gone."""
        path = self.standing.places.get(path, path)
        if self.ours(path) is not None:
            return path
        renamed = self.ground.renames.files.get(path)
        return renamed.new if renamed and self.ours(renamed.new) is not None else None

    def _home(self, path: str) -> str:
        """Return where a file that the patch makes belongs, if upstream renamed its folder."""
        folder = path.rpartition("/")[0]
        if not folder or folder in self.ground.new_folders:
            return path
        return self.ground.renames.folder(path) or path

    def change(self, section: Section, before: Files, after: Files) -> _Change:
        """Find the three sides of one file."""
        base = None if section.old is None else before[section.old]
        theirs = None if section.new is None else after[section.new]
        if section.old is None or section.kind is Kind.ADD:
            target = self._home(section.path)
            folder = target.rpartition("/")[0]
            note = ""
            if target != section.path:
                note = f"upstream renamed its folder to {paths.display(folder)}"
            return _Change(section, None, self.ours(target), theirs, None, target, note)
        source = self._where(section.old)
        if section.kind is not Kind.RENAME or section.new is None:
            target = source or section.old
            ours = None if source is None else self.ours(source)
            return _Change(
                section, base, ours, theirs, source, target, self._likeness(section.old, source)
            )
        return self._renaming(section, base, theirs, source)

    def _renaming(
        self, section: Section, base: File | None, theirs: File | None, source: str | None
    ) -> _Change:
        target = self._home(section.path)
        if source is None or source == target:  # gone, or upstream made the same rename
            ours = None if source is None else self.ours(source)
            return _Change(section, base, ours, theirs, source, source or target)
        note = ""
        if source != section.old:
            note = f"upstream renamed it to {paths.display(source)}, the patch to another name"
        elif self.ours(target) is not None:
            note = f"upstream has a file {paths.display(target)}, to which the patch renames"
        return _Change(section, base, self.ours(source), theirs, source, target, note)

    def _likeness(self, old: str, source: str | None) -> str:
        if source is None or source == self.standing.places.get(old, old):
            return ""
        renamed = self.ground.renames.files[self.standing.places.get(old, old)]
        return f"upstream renamed it to {paths.display(source)} ({renamed.likeness}% alike)"

    # --- verdicts -----------------------------------------------------------------------------

    def verdict(self, change: _Change, merged: Merged | None) -> FileVerdict:
        """Judge one file."""
        return self._upstreams_own(change, self._judged(change, merged))

    def _upstreams_own(self, change: _Change, found: FileVerdict) -> FileVerdict:
        """Call nothing *merged upstream* that the old release has too, without the series.

        That takes back what an earlier patch did, and that patch is not carried.
        """
        released = self.ground.released.get(change.path)
        merged = {hunk.number for hunk in found.hunks if hunk.verdict is Verdict.MERGED}
        nothing = not merged and found.verdict is not Verdict.MERGED
        if nothing or released == change.base or change.section.kind is Kind.RENAME:
            return found
        there = self._judged(replace(change, ours=released, target=change.path, note=""), None)
        if not found.hunks:
            if there.verdict is not Verdict.MERGED:
                return found
            return replace(found, verdict=Verdict.CLEAN, evidence=(_TAKEN_BACK,))
        merged &= {hunk.number for hunk in there.hunks if hunk.verdict is Verdict.MERGED}
        hunks = tuple(
            replace(hunk, verdict=Verdict.CLEAN, new_line=None, evidence=(_TAKEN_BACK,))
            if hunk.number in merged
            else hunk
            for hunk in found.hunks
        )
        if found.verdict in (Verdict.MERGED, Verdict.PARTLY):
            found = replace(found, verdict=overall(hunk.verdict for hunk in hunks))
        return replace(found, hunks=hunks)

    def _judged(self, change: _Change, merged: Merged | None) -> FileVerdict:
        if change.section.kind is Kind.RENAME and change.note and change.source != change.target:
            found = self._both_renamed(change)
        elif change.opaque:
            found = _opaque(change)
        elif change.untouched and change.theirs is not None:
            found = self._untouched(change)
        elif (fitting := self._exact(change, merged)) is not None:
            found = fitting
        else:
            found = judge.judge(
                change.path, _bytes(change.base), _bytes(change.ours), _bytes(change.theirs),
                merged=merged.data if merged is not None and merged.clean else None,
                new_path=change.target, labels=self.labels, hunks=change.section.hunks,
            )  # fmt: skip
            if not self.rules.weave and _woven(found) and merged is not None:
                why = "merged by tokens, which --no-weave does not allow"
                found = replace(
                    found, verdict=Verdict.CONFLICT, data=None, conflict=merged.data,
                    evidence=(*found.evidence, why),
                )  # fmt: skip
        if change.note and change.note not in found.evidence:
            found = replace(found, evidence=(change.note, *found.evidence))
        return _with_mode(change, _with_rename(change, found))

    def _exact(self, change: _Change, merged: Merged | None) -> FileVerdict | None:
        """Judge a file in which every hunk fits exactly and once, the short way."""
        if merged is None or not merged.clean or change.ours is None:
            return None
        recorded = self.recorded.get((self.patch.name, change.path), ())
        return exact.fit(
            (change.path, change.target),
            change.ours[1],
            merged.data,
            change.section.hunks,
            recorded,
        )

    def _both_renamed(self, change: _Change) -> FileVerdict:
        return FileVerdict(
            change.path, change.target, Verdict.CONFLICT, None,
            conflict=_bytes(change.theirs), evidence=(change.note,),
        )  # fmt: skip

    def _untouched(self, change: _Change) -> FileVerdict:
        moved = change.target != (change.section.new or change.path)
        verdict = Verdict.MOVED if moved else Verdict.CLEAN
        hunks = tuple(
            HunkVerdict(number, verdict, None, _first_line(hunk), _first_new_line(hunk))
            for number, hunk in enumerate(change.section.hunks, 1)
        )
        return FileVerdict(change.path, change.target, verdict, _bytes(change.theirs), hunks)

    # --- what upstream moved ------------------------------------------------------------------

    def followed(self, judged: Sequence[_Judged]) -> list[_Judged]:
        """Look for functions and classes that upstream moved, where a file stops."""
        result = list(judged)
        for change, verdict in judged:
            if verdict.verdict.stops and not change.opaque and change.base and change.theirs:
                found = self._follow(change, change.base[1], change.theirs[1], result)
                if found is not None:
                    at = result.index((change, verdict))
                    result[at : at + 1] = [(change, each) for each in found]
        return result

    def _follow(
        self, change: _Change, base: bytes, theirs: bytes, judged: Sequence[_Judged]
    ) -> tuple[FileVerdict, ...] | None:
        ours = _bytes(change.ours)
        moved = follow.wanted(change.path, base, ours, theirs)
        made = {
            verdict.new_path: None if verdict.verdict.stops else verdict.data
            for _, verdict in _homes_last(judged)
        }
        candidates = {}
        for path in self.ground.search(each.pattern for each in moved):
            new = _bytes(self.ours(path))
            if path in made and path != change.target:
                new = made[path]  # what the patch itself makes of it, unless that stops
            if new is not None:
                old = _bytes(self.ground.released.get(path))
                candidates[path] = follow.Candidate(old, new)
        return follow.follow(
            change.path, base, ours, theirs, candidates, new_path=change.target,
            labels=self.labels, hunks=change.section.hunks,
        )  # fmt: skip

    # --- what would not run -------------------------------------------------------------------

    def with_faults(self, judged: Sequence[_Judged], known: AbstractSet[str]) -> list[_Judged]:
        """Return the verdicts, *broken* where the result would not run.

        ``known`` are the files that the series has there, this patch's own included.
        """
        results = {
            verdict.new_path: (change, verdict.data)
            for change, verdict in _homes_last(judged)
            if verdict.verdict.taken and verdict.data is not None
        }
        asked = {
            path: frozenset(self._own_imports(change, path, data))
            for path, (change, data) in results.items()
        }
        thorough = {
            path for path, (change, _) in results.items() if asked[path] or _misses_a_word(change)
        }
        found = [
            problem
            for path, (change, data) in results.items()
            if path not in thorough and not change.untouched
            if (problem := _not_compiling(path, _bytes(self.ours(path)), data)) is not None
        ]
        if thorough:
            checked = {path: (_bytes(self.ours(path)), results[path][1]) for path in thorough}
            after = {path: data for path, (_, data) in results.items()}
            modules = _Modules(
                self.ground, self.standing, after, known, frozenset().union(*asked.values()),
                {change.section.path: change.target for change, _ in judged},
            )  # fmt: skip
            found += faults.broken(checked, modules, self.ground.root)
        for path, (change, data) in results.items():
            if _misses_an_attribute(change):
                sides = (_bytes(change.base), _bytes(self.ours(path)), data)
                found += faults.lost(path, *(side or b"" for side in sides))
        by_path: dict[str, list[Problem]] = {}
        for problem in found:
            by_path.setdefault(problem.where.rpartition(":")[0], []).append(problem)
        return [
            (change, _broken(verdict, by_path.get(paths.display(verdict.new_path))))
            for change, verdict in judged
        ]

    def _own_imports(self, change: _Change, path: str, data: bytes | None) -> Iterator[str]:
        """Yield the distribution's own modules that a patch adds an import of."""
        if data is None or not source.is_python(path):
            return
        added = _added(change.section)
        if any(b"import" in line or _LISTED.fullmatch(line) for line in added):
            inside = f"{self.ground.root}/" if self.ground.root else ""
            for module in _imported(path, data, added, self.ground.root):
                if f"{inside}{module.partition('.')[0]}" in self.ground.packages:
                    yield module

    # --- the result ---------------------------------------------------------------------------

    def carried(self, changes: Sequence[_Change], judged: Sequence[_Judged]) -> Carried:
        """Put the verdicts together."""
        changed: dict[str, File | None] = {}
        conflicts: list[Conflict] = []
        for change, verdict in _homes_last(judged):
            if self.stops(verdict):
                conflicts.append(self._conflict(change, verdict))
            elif verdict.verdict.taken:
                changed |= self._result(change, verdict)
        places = {
            change.section.new: change.target
            for change in changes
            if change.section.new is not None and change.target != change.section.new
        }
        files = tuple(verdict for _, verdict in judged)
        worst = overall(each.verdict for each in files)
        as_is = not conflicts and all(change.at_home for change in changes)
        return Carried(worst, files, changed, places, tuple(conflicts), as_is)

    def stops(self, verdict: FileVerdict) -> bool:
        """Say whether a person has to look first."""
        return verdict.verdict.stops or (self.rules.strict and verdict.verdict is Verdict.BROKEN)

    def _conflict(self, change: _Change, verdict: FileVerdict) -> Conflict:
        text = verdict.conflict
        if text is None:
            text = verdict.data or _bytes(change.theirs) or b""
        if verdict.new_path != change.target:  # where upstream moved a part of the file
            home = self.ours(verdict.new_path)
            return Conflict(verdict.new_path, home, home, home, text)
        return Conflict(verdict.new_path, *change.sides, text)

    def _result(self, change: _Change, verdict: FileVerdict) -> dict[str, File | None]:
        """Return what a file that was taken changes in the new release."""
        if verdict.new_path != change.target:
            home = self.ours(verdict.new_path)
            if home is None or verdict.data is None:
                return {}
            return {verdict.new_path: (home[0], verdict.data)}
        changed: dict[str, File | None] = {}
        renamed = change.section.kind is Kind.RENAME and change.source != change.target
        if renamed and change.source is not None:
            changed[change.source] = None
        if change.theirs is None:
            changed[change.target] = None
        elif verdict.data is not None:
            changed[change.target] = (_merged_mode(change) or change.theirs[0], verdict.data)
        return changed


def _woven(found: FileVerdict) -> bool:
    return found.verdict.taken and (
        found.verdict is Verdict.WOVEN or any(hunk.verdict is Verdict.WOVEN for hunk in found.hunks)
    )


def _first_line(hunk: Hunk) -> int:
    return hunk.first_old + hunk.leading


def _first_new_line(hunk: Hunk) -> int:
    return hunk.first_new + hunk.leading


def _opaque(change: _Change) -> FileVerdict:
    """Judge a file that is no text: whole contents count, nothing is merged."""
    base, ours, theirs = (_bytes(side) for side in change.sides)
    if base == ours:  # nor has the patch to change them: it may rename the file
        return FileVerdict(change.path, change.target, Verdict.CLEAN, theirs)
    if ours == theirs:
        what = "upstream's file holds the same bytes"
        return FileVerdict(change.path, change.target, Verdict.MERGED, ours, evidence=(what,))
    if base == theirs:
        return FileVerdict(change.path, change.target, Verdict.CLEAN, ours)
    what = "the file is no text and upstream changed it too"
    return FileVerdict(change.path, change.target, Verdict.CONFLICT, None, evidence=(what,))


def _merged_mode(change: _Change) -> int | None:
    """Return the mode that the file should have; a mode has two values, so sides cannot clash."""
    base, ours, theirs = (None if side is None else side[0] for side in change.sides)
    if ours is None or theirs is None:
        return theirs
    return theirs if base is None or theirs != base else ours


def _with_rename(change: _Change, found: FileVerdict) -> FileVerdict:
    """Recognise a rename that upstream made too, and one that it did not make."""
    if change.section.kind is not Kind.RENAME:
        return found
    if change.source is not None and change.source != change.target:
        if found.verdict is not Verdict.MERGED:
            return found
        what = f"upstream still calls it {paths.display(change.source)}"
        return replace(
            found, verdict=Verdict.PARTLY, data=_bytes(change.ours),
            evidence=(*found.evidence, what),
        )  # fmt: skip
    what = f"upstream renamed it to {paths.display(change.target)} too"
    merged = found.data == _bytes(change.ours)
    return replace(
        found,
        verdict=Verdict.MERGED if merged else found.verdict,
        evidence=(what, *found.evidence),
    )


def _with_mode(change: _Change, found: FileVerdict) -> FileVerdict:
    """Let a change of mode have its say."""
    base, ours, theirs = (None if side is None else side[0] for side in change.sides)
    if None in (base, ours, theirs) or base == theirs:
        return found
    if ours != theirs:
        return replace(found, verdict=Verdict.PARTLY) if found.verdict is Verdict.MERGED else found
    what = f"upstream's file has mode {theirs:o} too"
    merged = not change.section.hunks and change.section.kind is Kind.MODIFY
    return replace(
        found,
        verdict=Verdict.MERGED if merged else found.verdict,
        evidence=(*found.evidence, what),
    )


def _misses_a_word(change: _Change) -> bool:
    """Say whether a patch adds a word to a file that upstream took out of it.

    Only such a name can be missing now that was there before; to look up every name of every file
    would take longer than all the rest.
    """
    if change.untouched or change.theirs is None or not source.is_python(change.section.path):
        return False
    base = _bytes(change.base) or b""
    lacking = _words(b"\n".join(_added(change.section))) - _words(_bytes(change.ours))
    return any(word in base for word in lacking) and not lacking.isdisjoint(_words(base))


def _misses_an_attribute(change: _Change) -> bool:
    """Say whether a patch adds a use of an attribute of ``self`` that upstream has no use of."""
    if change.untouched or not source.is_python(change.section.path):
        return False
    used = set(_OWN.findall(b"\n".join(_added(change.section))))
    used = used and used.intersection(_OWN.findall(_bytes(change.base) or b""))
    return bool(used) and not used.issubset(_OWN.findall(_bytes(change.ours) or b""))


def _added(section: Section) -> frozenset[bytes]:
    """Return the lines that a patch adds to a file, without what indents them."""
    return frozenset(
        line[1:].strip() for hunk in section.hunks for line in hunk.lines if line[:1] == b"+"
    )


def _words(data: bytes | None) -> frozenset[bytes]:
    return frozenset(_WORD.findall(data or b""))


def _not_compiling(path: str, before: bytes | None, after: bytes | None) -> Problem | None:
    if after is None or before == after or not source.is_python(path):
        return None
    return faults.not_compiling(path, before or b"", after)


def _broken(verdict: FileVerdict, problems: Sequence[Problem] | None) -> FileVerdict:
    if not problems:
        return verdict
    return replace(
        verdict, verdict=Verdict.BROKEN, evidence=(*verdict.evidence, *map(str, problems))
    )


def _imported(path: str, data: bytes, added: frozenset[bytes], root: str) -> Iterator[str]:
    """Yield the modules that statements with an added line import."""
    tree = symbols.parse(data)
    named = frozenset(line for line in added if _WORD.search(line))
    lines = [at for at, line in enumerate(data.split(b"\n"), 1) if line.strip() in named]
    package = faults.module_name(path, root).split(".")
    for node in () if tree is None else symbols.nodes_at(tree, lines):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: -node.level] if node.level else []
            yield ".".join([*above, *filter(None, [node.module])])


class _Modules:
    """What can be imported from the new release with the patches so far and this one.

    Only of the modules ``asked`` about anything is known: to look into all that a large file
    imports takes long.
    """

    def __init__(
        self,
        ground: Ground,
        standing: Standing,
        after: Mapping[str, bytes | None],
        known: AbstractSet[str],
        asked: frozenset[str],
        places: Mapping[str, str],
    ) -> None:
        self._asked = asked
        self._places = {**standing.places, **places}
        self._ground = ground
        self._standing = standing
        self._after = after
        self._known = known

    def exists(self, module: str) -> bool | None:
        """Say whether a module is there; ``None`` for one that the old release did not show either.

        Compiled modules are in no tree, and the rest of the world is not ours to judge.
        """
        if not any(module == name or module.startswith(f"{name}.") for name in self._asked):
            return None
        if self._there(module):
            return True
        stem = self._stem(module)
        known = self._ground.old_names | self._known
        gone = any(name in known for name in _files_of(stem)) or any(
            name.startswith(f"{stem}/") for name in known
        )
        return False if gone else None

    def now(self, module: str) -> str | None:
        """Return where a module is that upstream renamed, or whose folder it did."""
        for path in _files_of(self._stem(module)):
            place = self._places.get(path, path)
            renamed = self._ground.renames.files.get(place)
            place = renamed.new if renamed else place
            if place != path and self._has(place):
                return place
        return None

    def _stem(self, module: str) -> str:
        stem = module.replace(".", "/")
        return f"{self._ground.root}/{stem}" if self._ground.root else stem

    def _there(self, module: str) -> bool:
        stem = self._stem(module)
        return any(self._has(name) for name in _files_of(stem)) or (
            stem in self._ground.new_folders
        )

    def _has(self, path: str) -> bool:
        if path in self._after:
            return self._after[path] is not None
        if path in self._standing.changed:
            return self._standing.changed[path] is not None
        return path in self._ground.new_names

    def names(self, module: str) -> frozenset[str] | None:
        """Return the names at a module's top level; ``None`` if that cannot be told."""
        data = self._source(module)
        return None if data is None else faults.exports(data)

    def functions(self, module: str) -> Mapping[str, tuple[Parameter, ...]]:
        """Return the signatures of the plain functions of a module that was asked about."""
        data = self._source(module) if self.exists(module) else None
        return {} if data is None else faults.functions(data)

    def _source(self, module: str) -> bytes | None:
        for path in _files_of(self._stem(module)):
            if path in self._after:
                data = self._after[path]
            elif path in self._standing.changed:
                data = _bytes(self._standing.changed[path])
            else:
                data = _bytes(self._ground.new(path))
            if data is not None:
                return data
        return None


def _files_of(stem: str) -> tuple[str, ...]:
    return f"{stem}.py", f"{stem}/__init__.py", f"{stem}.pyi", f"{stem}/__init__.pyi"
