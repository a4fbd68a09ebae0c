"""Carrying all patches of a series, one after the other: the loop of a rebase.

It reads two trees of the store and the decisions taken so far and writes nothing. It ends when
every patch is carried, or at the first that a person has to look at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pseries.errors import DoesNotApply, Problem
from pseries.git import worktree
from pseries.model import paths
from pseries.model.diff import patch as patch_files
from pseries.model.diff import splice
from pseries.model.layout import Layout, Placement
from pseries.model.rebase import Fate, PatchOutcome, Resolver
from pseries.model.verdicts import faults, source
from pseries.model.verdicts.conflict import has_markers, is_marker, openings
from pseries.workflows.rebase.carry import Ground, Standing, carry, expected
from pseries.workflows.rebase.successor import Grown
from pseries.workflows.series.lock import touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pseries.git.merge import MergeStore
    from pseries.git.worktree import Conflict
    from pseries.model.diff.patch import Hunk, Patch, Section
    from pseries.model.diff.splice import File
    from pseries.model.series import Series
    from pseries.model.verdicts.verdict import FileVerdict, HunkVerdict
    from pseries.upstream.release import Release
    from pseries.workflows.rebase.carry import Carried, Rules

Files = dict[str, "File"]
Changes = dict[str, "File | None"]


@dataclass(frozen=True, slots=True)
class Route:
    """From where to where: the series, what it is made on, and both releases.

    ``beneath`` and ``new_beneath`` are the series that it is made on top of, there and here.
    """

    series: Series
    old: Release
    new: Release
    beneath: tuple[Series, ...] = ()
    new_beneath: tuple[Series, ...] = ()

    @property
    def root(self) -> str:
        """The folder of the tree that holds what installs into site-packages."""
        return self.series.spec.upstream.root


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was decided on a patch before: leave it out, or these files are the result."""

    files: Mapping[str, File | None]
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class ConflictPlace:
    """A place that a person has to decide on: file and line in the worktree, and what is known.

    ``upstream`` is upstream's own change there, as hunks of a diff.
    """

    path: str
    line: int
    evidence: tuple[str, ...]
    upstream: str


@dataclass(frozen=True, slots=True)
class Halt:
    """A patch that waits for a person.

    Attributes:
        patch: its name.
        before: what the patches before it changed in the new release.
        merged: what of it needs no decision.
        conflicts: what does.
        places: every place in those.
        recalled: files that a remembered resolution already resolves.
    """

    patch: str
    before: Mapping[str, File | None]
    merged: Mapping[str, File | None]
    conflicts: tuple[Conflict, ...]
    places: tuple[ConflictPlace, ...]
    recalled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One patch done: the outcome, what to write of it, and what it leaves behind.

    ``resolved`` are conflicts with the bytes that a person made of each: to be remembered.
    """

    outcome: PatchOutcome
    standing: Standing
    grown: Grown | None = None
    resolved: tuple[tuple[Conflict, bytes], ...] = ()
    halt: Halt | None = None


def march(
    route: Route,
    store: MergeStore,
    rulings: Mapping[str, Ruling],
    records: Path,
    rules: Rules,
) -> tuple[Step, ...]:
    """Carry every patch; the last step has a ``halt`` if a person has to look first.

    Args:
        route: from where to where.
        store: holds both releases.
        rulings: decisions on patches, by name.
        records: git's records of resolved conflicts.
        rules: how bold to be.

    Raises:
        DoesNotApply: a patch does not fit the old release at its recorded lines.
    """
    every = [*route.beneath, *route.new_beneath, route.series]
    wanted = touched(patch for series in every for patch in series.patches)
    symbols = _symbols(route.series)
    ground = Ground(store, (route.old.tree, route.new.tree), route.root, wanted, symbols)
    base = _old_side(route, ground, _unseen(route, store))
    standing = Standing(_on_top(route.new_beneath, ground))
    store.prepare(expected(base.patches, base.states, ground, standing))
    steps: list[Step] = []
    left_out: list[Patch] = []
    for number, patch in enumerate(base.patches):
        sides = base.states[number], base.states[number + 1]
        carried = carry(patch, sides, ground, standing, rules)
        files = _named(patch, carried.files, symbols)
        carried = replace(carried, files=_beside(files, left_out))
        whole = route.series.patches[number]
        walker = _Walker(route, ground, standing, patch, whole, base.kept[number], carried, records)
        steps.append(walker.step(rulings.get(patch.name)))
        standing = steps[-1].standing
        left_out += [patch] if steps[-1].outcome.fate is Fate.SKIPPED else []
        if steps[-1].halt is not None:
            break
    return (*steps, *(_untried(patch, standing) for patch in base.patches[len(steps) :]))


def _untried(patch: Patch, standing: Standing) -> Step:
    return Step(PatchOutcome(patch.name, patch.header.subject, None, Fate.UNTRIED), standing)


# --- the old side -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Base:
    """Each patch without what cannot be shown, what that is, and the files between the patches."""

    patches: tuple[Patch, ...]
    kept: tuple[tuple[Section, ...], ...]
    states: tuple[Files, ...]


def _old_side(route: Route, ground: Ground, unseen: Callable[[Section], bool]) -> _Base:
    """Apply the old series to the old release, every hunk at its recorded line."""
    problems: list[Problem] = []
    files = dict(ground.released)
    for patch in (patch for series in route.beneath for patch in series.patches):
        files = _applied(ground.store, files, patch, problems)
    states = [files]
    patches: list[Patch] = []
    kept: list[tuple[Section, ...]] = []
    for patch in route.series.patches:
        hidden = tuple(section for section in patch.sections if unseen(section))
        shown = replace(patch, sections=tuple(s for s in patch.sections if s not in hidden))
        files = _applied(ground.store, files, shown, problems)
        patches.append(shown)
        kept.append(hidden)
        states.append(files)
    if problems:
        release = f"{route.old.distribution} {route.old.version}"
        raise DoesNotApply(route.series.name, release, tuple(problems))
    return _Base(tuple(patches), tuple(kept), tuple(states))


def _applied(store: MergeStore, files: Files, patch: Patch, problems: list[Problem]) -> Files:
    if any(section.binary for section in patch.sections):  # only git can read those
        return store.apply(files, patch)
    return splice.apply_patch(files, patch, problems)


def _on_top(beneath: Sequence[Series], ground: Ground) -> Changes:
    """Return what the series beneath change in the new release."""
    problems: list[Problem] = []
    names = touched(patch for series in beneath for patch in series.patches)
    before: Files = {path: file for path in names if (file := ground.new(path)) is not None}
    after = before
    for series in beneath:
        for patch in series.patches:
            after = _applied(ground.store, after, patch, problems)
        if problems:
            raise DoesNotApply(series.name, "the new release", tuple(problems))
    changed: Changes = dict.fromkeys(before.keys() - after.keys())
    changed.update({path: file for path, file in after.items() if before.get(path) != file})
    return changed


def _unseen(route: Route, store: MergeStore) -> Callable[[Section], bool]:
    """Return a test for sections that a release without its sources (a wheel) cannot show."""
    inside = f"{route.root}/" if route.root else ""
    packages: set[str] = set()
    for release in (route.old, route.new):
        if release.source in ("wheel", "folder"):
            names = store.names(release.tree)
            if not any(f"{inside}{name}" in names for name in ("pyproject.toml", "setup.py")):
                packages |= {
                    name.removeprefix(inside).partition("/")[0]
                    for name in names
                    if name.startswith(inside)
                }
    layout = Layout(route.root)

    def unseen(section: Section) -> bool:
        return bool(packages) and any(
            layout.placement(path, packages) is not Placement.INSTALLED
            for path in (section.old, section.new)
            if path is not None
        )

    return unseen


def _symbols(series: Series) -> dict[tuple[str, str], tuple[str | None, ...]]:
    """Return the symbol of each hunk as the manifest records it, by patch and path."""
    manifest = series.manifest
    if manifest is None or manifest.digest != series.digest:
        return {}
    return {
        (record.name, file.source or file.path): tuple(hunk.symbol for hunk in file.hunks)
        for record in manifest.patches
        for file in record.files
    }


def _named(
    patch: Patch,
    files: Sequence[FileVerdict],
    symbols: Mapping[tuple[str, str], tuple[str | None, ...]],
) -> tuple[FileVerdict, ...]:
    """Fill in the symbols of hunks that were taken without looking at the program."""
    named = []
    for file in files:
        known = symbols.get((patch.name, file.path), ())
        hunks = tuple(
            replace(hunk, symbol=known[hunk.number - 1])
            if hunk.symbol is None and hunk.number <= len(known)
            else hunk
            for hunk in file.hunks
        )
        named.append(replace(file, hunks=hunks))
    return tuple(named)


def _beside(files: Sequence[FileVerdict], left_out: Sequence[Patch]) -> tuple[FileVerdict, ...]:
    """Name, where a file stops, the earlier patches on it that were left out."""

    def named(file: FileVerdict) -> FileVerdict:
        if not file.verdict.stops:
            return file
        why = (
            f"{patch.name}, which is left out, changes it too"
            for patch in left_out
            if file.path in patch.paths
        )
        return replace(file, evidence=(*why, *file.evidence))

    return tuple(map(named, files))


# --- one patch ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Walker:
    """What is needed to take one step.

    ``patch`` is the ``whole`` one without ``kept``, which no release at hand can show.
    """

    route: Route
    ground: Ground
    standing: Standing
    patch: Patch
    whole: Patch
    kept: tuple[Section, ...]
    carried: Carried
    records: Path

    def step(self, ruling: Ruling | None) -> Step:
        """Take the patch, leave it out, or stop."""
        if ruling is not None and ruling.skipped:
            return self._left_out(Fate.SKIPPED)
        if ruling is not None:
            return self._settled(ruling.files, Resolver.PERSON)
        if not self.carried.conflicts:
            return self._by_itself()
        recalled = worktree.recall(self.records, self.carried.conflicts)
        files = self._with(recalled)
        if len(recalled) == len(self.carried.conflicts) and not problems_in(files):
            return self._settled({**self.carried.changed, **files}, Resolver.RECORD)
        return self._halted(recalled)

    def _by_itself(self) -> Step:
        if not self.carried.verdict.taken and not self.kept:
            status = f"Merged [{self.route.new.version}]"
            return self._left_out(Fate.DROPPED, status=status)
        step = self._settled(self.carried.changed, Resolver.NOBODY)
        if step.grown is None or not self.carried.as_is:
            return step
        return replace(step, grown=replace(step.grown, as_is=True))

    def _outcome(self, fate: Fate, resolver: Resolver = Resolver.NOBODY) -> PatchOutcome:
        gone = fate in (Fate.DROPPED, Fate.EMPTY, Fate.SKIPPED)
        return PatchOutcome(
            name=self.patch.name,
            subject=self.patch.header.subject,
            verdict=self.carried.verdict,
            fate=fate,
            files=self.carried.files,
            resolver=resolver,
            unverified=tuple(section.path for section in self.kept),
            dropped=self.patch.data if gone else None,
        )

    def _left_out(self, fate: Fate, status: str = "") -> Step:
        outcome = self._outcome(fate)
        if status:
            data = patch_files.with_trailer(self.patch.data, "Upstream-Status", status)
            outcome = replace(outcome, upstream_status=status, dropped=data)
        return Step(outcome, self.standing)

    def _settled(self, changed: Mapping[str, File | None], resolver: Resolver) -> Step:
        changed = {path: file for path, file in changed.items() if self._ours(path) != file}
        standing = self.standing.followed_by(changed, self.carried.places)
        if not changed and not self.kept:
            return replace(self._left_out(Fate.EMPTY), standing=standing)
        before = {path: file for path in changed if (file := self._ours(path)) is not None}
        after = {path: file for path, file in changed.items() if file is not None}
        sections = _sections(self.patch)
        origins = {each.new_path: sections[each.path].path for each in self.carried.files}
        return Step(
            self._outcome(Fate.KEPT, resolver),
            standing,
            Grown(self.whole, before, after, origins, self.kept),
            self._learnt(changed) if resolver is Resolver.PERSON else (),
        )

    def _ours(self, path: str) -> File | None:
        changed = self.standing.changed
        return changed[path] if path in changed else self.ground.new(path)

    def _learnt(self, changed: Mapping[str, File | None]) -> tuple[tuple[Conflict, bytes], ...]:
        """Pair each conflict with what a person made of it."""
        found = []
        for conflict in self.carried.conflicts:
            file = changed.get(conflict.path, self._ours(conflict.path))
            if file is not None and has_markers(conflict.text):
                found.append((conflict, file[1]))
        return tuple(found)

    def _with(self, recalled: Mapping[str, bytes]) -> Changes:
        modes = {each.path: worktree.mode_of(each) for each in self.carried.conflicts}
        return {path: (modes[path], data) for path, data in recalled.items()}

    def _halted(self, recalled: Mapping[str, bytes]) -> Step:
        conflicts = tuple(
            replace(each, text=recalled.get(each.path, each.text))
            for each in self.carried.conflicts
        )
        halt = Halt(
            patch=self.patch.name,
            before={p: f for p, f in self.standing.changed.items() if self.ground.new(p) != f},
            merged=self.carried.changed,
            conflicts=conflicts,
            places=tuple(self._places(conflicts)),
            recalled=tuple(sorted(recalled)),
        )
        return Step(self._outcome(Fate.STOPPED), self.standing, halt=halt)

    # --- what to show -------------------------------------------------------------------------

    def _places(self, conflicts: Sequence[Conflict]) -> Iterator[ConflictPlace]:
        verdicts = {verdict.new_path: verdict for verdict in self.carried.files}
        sections = _sections(self.patch)
        for conflict in conflicts:
            verdict = verdicts[conflict.path]
            section = sections[verdict.path]
            upstream = self._upstream_hunks(conflict)
            stops = [hunk for hunk in verdict.hunks if hunk.verdict.stops]
            lines = openings(conflict.text) or [_first(stops)]
            for at, line in enumerate(lines):
                one_each = len(stops) == len(lines)
                mine = [stops[at]] if one_each else (stops if at == 0 else [])
                # the text itself stands between the markers, which this is the way to
                told = [what for hunk in mine for what in hunk.evidence if "\n" not in what]
                shown = _overlapping(upstream, section.hunks, mine)
                evidence = (*(verdict.evidence if at == 0 else ()), *told)
                yield ConflictPlace(conflict.path, line, evidence, shown)

    def _upstream_hunks(self, conflict: Conflict) -> tuple[Hunk, ...]:
        """Return what upstream changed in a file, as hunks of a diff."""
        if conflict.base is None or conflict.ours is None:
            return ()
        sides = conflict.base, conflict.ours
        trees = self.ground.store.trees_of([{"file": (0o100644, data)} for _, data in sides])
        (diff,) = self.ground.store.diffs([(trees[0], trees[1])])
        return patch_files.parse("upstream", diff).sections[0].hunks if diff else ()


def _sections(patch: Patch) -> dict[str, Section]:
    """Return the sections by the path that verdicts name them by."""
    return {section.old or section.path: section for section in patch.sections}


def _first(stops: Sequence[HunkVerdict]) -> int:
    return next((hunk.new_line for hunk in stops if hunk.new_line), 1)


def _overlapping(
    upstream: Sequence[Hunk], hunks: Sequence[Hunk], stops: Sequence[HunkVerdict]
) -> str:
    """Return those of upstream's hunks that meet a hunk of the patch, as text."""
    chosen = []
    numbers = [stop.number for stop in stops if stop.number <= len(hunks)]
    spans = [
        (hunks[n - 1].first_old, hunks[n - 1].first_old + hunks[n - 1].old_count) for n in numbers
    ]
    for hunk in upstream:
        begin, end = hunk.first_old, hunk.first_old + hunk.old_count
        if any(begin <= last and first <= end for first, last in spans):
            head = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
            chosen.append(head + "\n" + paths.decode(b"".join(hunk.lines)))
    return "".join(chosen)


def problems_in(files: Mapping[str, File | None]) -> tuple[Problem, ...]:
    """Return what keeps files from being a resolution: markers, Python that does not compile."""
    found: list[Problem] = []
    for path, file in sorted(files.items()):
        if file is None:
            continue
        shown = paths.display(path)
        marked = [
            Problem(f"{shown}:{number}", "a conflict marker is left")
            for number, line in enumerate(file[1].split(b"\n"), 1)
            if is_marker(line)
        ]
        found += marked
        fault = faults.compile_error(file[1]) if source.is_python(path) and not marked else None
        if fault is not None:
            found.append(Problem(f"{shown}:{fault[0]}", f"does not compile: {fault[1]}"))
    return tuple(found)
