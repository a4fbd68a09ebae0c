"""Carrying a series to another release: begin, go on, skip, abort.

What is computed (:mod:`~pseries.workflows.rebase.march`) depends on the series, two releases and
the decisions taken so far, and on nothing else. So going on is beginning again with one decision
more, and nothing is written before the end: then either the new series, all at once, or the state
and a worktree for the patch that stopped.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pseries.errors import (
    AlreadyForRelease,
    BuiltOnOthers,
    DoesNotApply,
    NoRebase,
    Problem,
    RebaseInProgress,
    RebaseInvalid,
    RebaseUnresolved,
    SeriesExists,
)
from pseries.git import merge, worktree
from pseries.model import manifest as manifests
from pseries.model import paths, rebase
from pseries.model import series as series_model
from pseries.model.rebase import Creation, Fate, Plan, ResolvedFile, Stop
from pseries.workflows.rebase import choice, desk, successor
from pseries.workflows.rebase.carry import Rules
from pseries.workflows.rebase.desk import Desk
from pseries.workflows.rebase.march import Route, Ruling, march, problems_in
from pseries.workflows.rebase.range_diff import range_diff
from pseries.workflows.series import catalog, folders
from pseries.workflows.series import release as releases
from pseries.workflows.series.catalog import Location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.model.manifest import Manifest
    from pseries.model.rebase import Decision, PatchOutcome, Phase, State
    from pseries.model.series import Series
    from pseries.upstream.release import Release
    from pseries.upstream.store import Store
    from pseries.workflows.rebase.march import ConflictPlace, Halt, Step
    from pseries.workflows.rebase.range_diff import Pair
    from pseries.workflows.series.means import Means


@dataclass(frozen=True, slots=True)
class Asked:
    """What a rebase is asked to do.

    ``onto_path`` is a folder that serves as the new release: one that is on no index.
    """

    series: str | None
    to: str
    onto_path: Path | None = None
    dry_run: bool = False
    weave: bool = True
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """Where a rebase stopped: the patch, the worktree to resolve it in, and every place in it.

    ``worktree`` is "" where nothing was written. ``recalled`` are files in it that a remembered
    resolution resolved already.
    """

    patch: str
    worktree: str
    places: tuple[ConflictPlace, ...]
    recalled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a rebase.

    Attributes:
        series: the old series.
        target: the new one.
        folder: the new one's folder; "" while it is not written.
        old: the old release, for people.
        new: the new release, for people.
        patches: one outcome a patch, in order.
        stopped: where it stopped; ``None`` if every patch is carried.
        range_diff: the old series and the new one, compared.
        unchanged: the new series was there already, byte for byte.
        notes: what else a person should know.
    """

    series: str
    target: str
    folder: str
    old: str
    new: str
    patches: tuple[PatchOutcome, ...]
    stopped: Stopped | None
    range_diff: tuple[Pair, ...] = ()
    unchanged: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Aborted:
    """A rebase that was given up; ``stays`` is what somebody changed since it was written."""

    series: str
    stays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """A rebase that is under way; ``worktree`` and ``files`` are of the patch that stopped."""

    series: str
    target: str
    phase: Phase
    patch: str
    worktree: str
    files: tuple[str, ...]
    decisions: tuple[Decision, ...]


# --- commands ---------------------------------------------------------------------------------


def start(asked: Asked, location: Location | None, means: Means) -> Report:
    """Begin a rebase.

    Raises:
        SeriesUnclear, SeriesNotFound: which series is meant cannot be told.
        RebaseInProgress: of this series; it has to be ended first.
        AlreadyForRelease: the series is for that release.
        SeriesExists: the new folder is there and holds something else.
        DoesNotApply: the series does not fit its own release.
    """
    series = catalog.load(choice.series_for(asked.series, asked.to, location), location)
    place = Desk(Path(series.folder).resolve().parent, series.name)
    with folders.lock(place.series_dir):
        if (state := place.load()) is not None:
            patch = "" if state.stop is None else state.stop.patch
            raise RebaseInProgress(series.name, state.plan.target, patch)
        version = choice.version_for(series, asked.to, means)
        own = series.spec.upstream.version
        there, here = choice.version_of(version), choice.version_of(own)
        if there == here or (asked.to == choice.LATEST and there < here):
            raise AlreadyForRelease(series.name, own)
        tag = successor.tag_of(series, version, asked.to)
        job = _job(series, location, means, (version, tag), asked.onto_path)
        state = rebase.begin(
            Plan(
                series.name,
                series.digest,
                successor.folder_name(series, version),
                version,
                tag,
                job.route.old.tree,
                job.route.new.tree,
                asked.weave,
                asked.strict,
            )
        )
        return _Run(job, place, writes=not asked.dry_run).run(state)


def go_on(name: str | None, location: Location | None, means: Means) -> Report:
    """Take what is in the worktree of the patch that stopped, and go on.

    Raises:
        NoRebase: none is under way.
        RebaseUnresolved: markers or syntax errors remain; each with its place.
        RebaseInvalid: the series or a release is not what it was at the beginning.
        RebaseNotOurs: another user began it.
    """
    place = _place(name, location)
    with folders.lock(place.series_dir):
        state, job = _resume(place, location, means)
        if state.stop is not None and place.worktree(state.stop.worktree).is_dir():
            state = rebase.resolved(state, _resolution(state.stop, place))
            place.save(state)
        return _Run(job, place).run(state)


def skip(name: str | None, location: Location | None, means: Means) -> Report:
    """Leave out the patch that stopped, and go on; raises as :func:`go_on` does."""
    place = _place(name, location)
    with folders.lock(place.series_dir):
        state, job = _resume(place, location, means)
        state = rebase.skipped(state)
        place.save(state)
        return _Run(job, place).run(state)


def abort(name: str | None, location: Location | None) -> Aborted:
    """Give a rebase up: everything is as it was before.

    Raises :class:`NoRebase` and :class:`RebaseNotOurs`.
    """
    place = _place(name, location)
    with folders.lock(place.series_dir):
        try:
            state = place.load()
        except RebaseInvalid:  # this is the way out of it
            state = None
        stays = place.undo(() if state is None else state.creations)
        place.clear()
    return Aborted(place.series, stays)


def status(name: str | None, location: Location | None) -> tuple[Status, ...]:
    """Return the rebases that are under way: of one series, or all."""
    folder, name = _whose(name, location)
    names = desk.under_way(folder)
    if name is not None and name not in names:
        catalog.folder_of(name, Location(folder, ""))  # none of that name is no answer
        return ()
    found = []
    for each in names if name is None else [name]:
        place = Desk(folder, each)
        if (state := place.read()) is not None:
            stop = state.stop or Stop("", "", ())
            tree = str(place.worktree(stop.worktree)) if stop.worktree else ""
            found.append(
                Status(
                    place.series,
                    state.plan.target,
                    state.phase,
                    stop.patch,
                    tree,
                    stop.files,
                    state.decisions,
                )
            )
    return tuple(found)


def _place(name: str | None, location: Location | None) -> Desk:
    return desk.find(*_whose(name, location))


def _whose(name: str | None, location: Location | None) -> tuple[Path, str | None]:
    """Return the folder of the series folders and the series' name, which may come as a path."""
    if name is not None and os.sep in name:
        folder = Path(name).resolve()
        return folder.parent, folder.name
    if location is None:
        raise NoRebase(name or "")
    return location.folder.resolve(), name


def _resume(place: Desk, location: Location | None, means: Means) -> tuple[State, _Job]:
    """Return the state of a rebase and its inputs, which must be those it began with."""
    state = place.load()
    if state is None:
        raise NoRebase(place.series)
    plan = state.plan
    series = catalog.load(str(place.series_dir / plan.series), location)
    job = _job(series, location, means, (plan.version, plan.tag), None)
    differing = tuple(
        Problem(what, "is not what it was when the rebase began")
        for what, now, then in (
            (f"series {series.name}", series.digest, plan.digest),
            (f"the tree of {job.route.old.version}", job.route.old.tree, plan.old_tree),
            (f"the tree of {job.route.new.version}", job.route.new.tree, plan.new_tree),
        )
        if now != then
    )
    if differing:
        raise RebaseInvalid(str(place.folder), differing)
    return state, job


def _resolution(stop: Stop, place: Desk) -> tuple[ResolvedFile, ...]:
    """Read what a person made of a patch that stopped."""
    folder = place.worktree(stop.worktree)
    edited = worktree.read(folder)
    unknown = (
        Problem(paths.display(path), "git does not know it: git add --sparse it, or remove it")
        for path in edited.untracked
        if not folders.is_scrap(path.rpartition("/")[2])
    )
    problems = (*problems_in(edited.changed), *_parted(edited.changed), *unknown)
    if problems:
        raise RebaseUnresolved(stop.patch, str(folder), problems)
    return tuple(
        ResolvedFile(path, None, None)
        if file is None
        else ResolvedFile(path, file[0], place.keep(file[1]))
        for path, file in sorted(edited.changed.items())
    )


def _parted(changed: Mapping[str, tuple[int, bytes] | None]) -> tuple[Problem, ...]:
    """Return the lines that parted a conflict, where nothing else of it is left."""
    return tuple(
        Problem(f"{paths.display(path)}:{number}", "the line that parts a conflict is left")
        for path, file in sorted(changed.items())
        if file is not None and path.endswith((".py", ".pyi"))
        for number, line in enumerate(file[1].split(b"\n"), 1)
        if line.rstrip(b"\r") == b"======="
    )


# --- inputs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    """The way to go and the means: what does not change while a rebase is under way."""

    route: Route
    store: Store
    location: Location | None
    means: Means
    renamed: Mapping[str, str]


def _job(
    series: Series,
    location: Location | None,
    means: Means,
    wanted: tuple[str, str],
    onto_path: Path | None,
) -> _Job:
    version, tag = wanted
    store, old = releases.fetch(series, means)
    upstream = series.spec.upstream._replace(version=version, tag=tag)
    moved = series._replace(spec=series.spec._replace(upstream=upstream), manifest=None)
    if onto_path is not None:
        _add(store, version, onto_path, upstream.root)
    _, new = releases.fetch(moved, means)
    beneath = tuple(catalog.load(name, location) for name in series.spec.after)
    renamed = {
        name: successor.folder_name(each, version)
        for name, each in zip(series.spec.after, beneath, strict=True)
    }
    known = catalog.names(location)
    if missing := tuple(name for name in renamed.values() if name not in known):
        raise BuiltOnOthers(series.name, missing)
    new_beneath = tuple(catalog.load(name, location) for name in renamed.values())
    return _Job(Route(series, old, new, beneath, new_beneath), store, location, means, renamed)


def _add(store: Store, version: str, folder: Path, root: str) -> None:
    from pseries.site.distribution import site_of  # noqa: PLC0415 - only for what is on no index
    from pseries.upstream import imports  # noqa: PLC0415

    folder = site_of(imports.existing_folder(folder))
    with store.lock():
        imports.add_folder(store, version, folder, root)


# --- the run ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """One run over all patches, and the writing of what it comes to."""

    job: _Job
    place: Desk
    writes: bool = True

    def run(self, state: State) -> Report:
        """Carry every patch, then write the new series, or stop."""
        route, plan = self.job.route, state.plan
        rules = Rules(
            plan.weave, plan.strict, f"base {route.old.version}", f"upstream {plan.version}"
        )
        with merge.merge_store(self.job.store.git_dir) as store:
            rulings = {each.patch: self._ruling(each) for each in state.decisions}
            steps = march(route, store, rulings, self.place.resolutions, rules)
            halt = next((step.halt for step in steps if step.halt is not None), None)
            if halt is not None:
                return self._stopped(state, steps, halt)
            grown = [step.grown for step in steps if step.grown is not None]
            texts = dict(
                zip(
                    [each.patch.name for each in grown],
                    successor.patch_texts(grown, store),
                    strict=True,
                )
            )
        return self._finished(state, steps, texts)

    def _ruling(self, decision: Decision) -> Ruling:
        files = {
            file.path: None
            if file.mode is None or file.sha256 is None
            else (file.mode, self.place.kept(file.sha256))
            for file in decision.files
        }
        return Ruling(files, decision.skipped)

    def _report(
        self, state: State, steps: Sequence[Step], stopped: Stopped | None = None
    ) -> Report:
        route = self.job.route
        return Report(
            series=route.series.name,
            target=state.plan.target,
            folder="",
            old=_named(route.old),
            new=_named(route.new),
            patches=tuple(step.outcome for step in steps),
            stopped=stopped,
            notes=_notes(route, steps),
        )

    # --- a stop -------------------------------------------------------------------------------

    def _stopped(self, state: State, steps: Sequence[Step], halt: Halt) -> Report:
        tree = ""
        if self.writes:
            target = self.place.series_dir / state.plan.target
            if target.exists():
                problem = Problem(halt.patch, "stops, so the result is not what is there")
                raise SeriesExists(str(target), (problem,))
            tree = str(self._worktree(state, halt))
        stopped = Stopped(halt.patch, tree, halt.places, halt.recalled)
        return self._report(state, steps, stopped)

    def _worktree(self, state: State, halt: Halt) -> Path:
        """Make the worktree, then the state that names it; what is not named is nobody's."""
        name = halt.patch.rpartition(".")[0] or halt.patch
        stop = Stop(halt.patch, name, tuple(each.path for each in halt.conflicts))
        folder = self.place.worktree(name)
        if state.stop != stop or not folder.is_dir():
            self.place.forget(name)
            worktree.create(
                folder,
                borrowed=self.job.store.git_dir,
                tree=self.job.route.new.tree,
                before=halt.before,
                merged=halt.merged,
                conflicts=halt.conflicts,
            )
        self.place.save(rebase.stopped(state, stop))
        return folder

    # --- the end ------------------------------------------------------------------------------

    def _finished(self, state: State, steps: Sequence[Step], texts: Mapping[str, bytes]) -> Report:
        plan, series = state.plan, self.job.route.series
        patches = {patch.name: texts.get(patch.name) for patch in series.patches}
        old = folders.files_in(Path(series.folder))
        files = successor.files(
            series, old, (plan.version, plan.tag), patches, self.job.renamed,
        )  # fmt: skip
        carried = series_model.assemble(plan.target, "", files, series.patches)
        report = replace(
            self._report(state, steps), range_diff=range_diff(series.patches, carried.patches)
        )
        if left := sorted({each.name for each in Path(series.folder).iterdir()} - old.keys()):
            note = f"not taken over: {', '.join(map(paths.display, left))}"
            report = replace(report, notes=(*report.notes, note))
        folder = self.place.series_dir / plan.target
        if os.path.lexists(folder):
            try:
                _refuse_other(folder, files)
            except SeriesExists as error:
                if self.writes:
                    raise
                return replace(report, notes=(*report.notes, str(error)))
            report = replace(report, unchanged=True, folder=str(folder))
            if self.writes:
                self.place.clear()
            return report
        if not self.writes:
            return report
        manifest, unlocked = self._locked(carried, steps)
        if manifest is not None:
            files[manifests.FILE] = manifests.render(manifest)
        folder = self._published(state, steps, files)
        return replace(report, folder=str(folder), notes=(*report.notes, *unlocked))

    def _published(self, state: State, steps: Sequence[Step], files: Mapping[str, bytes]) -> Path:
        """Put the new series in its place; the state says what is coming, so it can be undone."""
        staged = folders.stage(self.place.series_dir, state.plan.target, files)
        try:
            records = {
                name: data
                for step in steps
                for conflict, resolved in step.resolved
                for name, data in worktree.learn(conflict, resolved).items()
                if not (self.place.resolutions / name).exists()
            }
            creations = [
                Creation(f"{desk.RESOLUTIONS}/{name}", folders.digest_of_file(data))
                for name, data in sorted(records.items())
            ]
            creations.append(Creation(staged.name, folders.content_digest(staged)))
            self.place.save(rebase.writing(state, tuple(creations)))
            self.place.remember(records)
            folder = folders.publish(staged)
            self.place.clear()
        finally:
            folders.unstage(self.place.series_dir)
        return folder

    def _locked(
        self, carried: Series, steps: Sequence[Step]
    ) -> tuple[Manifest | None, tuple[str, ...]]:
        """Return the manifest of the new series, or why there is none."""
        means = self.job.means
        try:
            manifest = releases.manifest_of(
                carried, self.job.location, means, earlier=self._manifest(),
            )  # fmt: skip
        except DoesNotApply:
            if not any(step.outcome.unverified for step in steps):
                raise
            why = (
                "the new series is not locked: the release at hand does not hold every file that"
                " its patches name"
            )
            return None, (why,)
        return manifest, ()

    def _manifest(self) -> Manifest | None:
        """Return the old series' manifest, if it is of the series as it is now."""
        series = self.job.route.series
        manifest = series.manifest
        return manifest if manifest and manifest.digest == series.digest else None


def _named(release: Release) -> str:
    return f"{release.distribution} {release.version} ({release.origin})"


def _notes(route: Route, steps: Sequence[Step]) -> tuple[str, ...]:
    notes = []
    unverified = sorted({path for step in steps for path in step.outcome.unverified})
    if unverified:
        shown = ", ".join(map(paths.display, unverified))
        notes.append(f"kept as they were, unverified, for no release at hand has them: {shown}")
    if not steps:
        notes.append(f"{route.series.name} is empty: there was nothing to carry")
    fates = {step.outcome.fate for step in steps}
    if steps and fates <= {Fate.DROPPED, Fate.EMPTY}:
        notes.append(f"nothing is left to carry: {route.new.version} needs no patch of the series")
    elif steps and fates <= {Fate.DROPPED, Fate.EMPTY, Fate.SKIPPED}:
        notes.append("nothing is left in the new series: what was not upstream was skipped")
    return tuple(notes)


def _refuse_other(folder: Path, files: Mapping[str, bytes]) -> None:
    """Raise unless a folder holds these files, and a manifest perhaps."""
    if not folder.is_dir():
        raise SeriesExists(str(folder), (Problem(folder.name, "is no folder"),))
    there = folders.files_in(folder)
    there.pop(manifests.FILE, None)
    differing = tuple(
        Problem(name, "is not what the rebase gives" if name in files else "is not of the rebase")
        for name in sorted(there.keys() | files.keys())
        if there.get(name) != files.get(name)
    )
    if differing:
        raise SeriesExists(str(folder), differing)
