"""A target as a series sees it: which files are pristine, patched or drifted. Reads only."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    ForeignFile,
    MissingBeneath,
    OtherDigest,
    OtherRelocation,
    Overlap,
    Problem,
    SeriesInvalid,
    WrongRelease,
)
from pseries.model import naming, paths
from pseries.site import distribution as distributions
from pseries.workflows.series import patching
from pseries.workflows.target import status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pseries.model.layout import Layout
    from pseries.model.manifest import FileImage, NetChange
    from pseries.model.series import Series
    from pseries.site.distribution import Distribution
    from pseries.site.fs import FileState, SiteTree
    from pseries.site.receipt import Receipt, State
    from pseries.workflows.series.patching import Fitted

_EXECUTABLE = 0o111


class Condition(Enum):
    """What a file of a target is to a series."""

    PRISTINE = "pristine"
    PATCHED = "patched"
    OTHER_RELEASE = "other release"
    BY_HAND = "changed by hand"
    MISSING = "missing"


class Surveyed(NamedTuple):
    """One file: where it is installed, its canonical path, and what it is.

    ``settled``: the series changes only its mode, and the mode is the wanted one already. Wheels
    lose modes, so that says nothing about whether the series is applied.
    """

    path: str
    canonical: str
    condition: Condition
    settled: bool = False


class Target(NamedTuple):
    """A distribution in a site-packages folder, as one series sees it.

    Attributes:
        distribution: the installed distribution.
        state: what is applied there already; receipts that a reinstall made void are not in it.
        void: the names of those.
        layout: where canonical paths are installed; relocated, if that is how it fits.
        packages: the top-level names that the distribution installs.
        fitted: the series, cut down to what is installed.
        net: what the series does to each file.
        found: the files of the series that are there, by canonical path.
        files: the conditions, in order of path.
        record_sha256: of RECORD, as it was read.
    """

    distribution: Distribution
    state: State
    void: tuple[str, ...]
    layout: Layout
    packages: frozenset[str]
    fitted: Fitted
    net: tuple[NetChange, ...]
    found: Mapping[str, FileState]
    files: tuple[Surveyed, ...]
    record_sha256: str

    @property
    def relocation(self) -> str | None:
        """The name of the relocation that is in use."""
        return None if self.layout.relocation is None else self.layout.relocation.name

    @property
    def skipped(self) -> tuple[Problem, ...]:
        """Files of the series that an installed package does not carry."""
        return self.fitted.skipped

    def all_are(self, condition: Condition) -> bool:
        """Whether every file of the series is in that condition."""
        return all(file.settled or file.condition is condition for file in self.files)

    def receipt_of(self, series: str) -> Receipt | None:
        """Return the receipt of a series, ``None`` if it was not applied to this distribution."""
        return _receipt(self.state, self.distribution.name, series)

    def stack(self) -> tuple[Receipt, ...]:
        """Return the receipts of this distribution, the first applied first."""
        return _stack(self.state, self.distribution.name)


def _stack(state: State, distribution: str) -> tuple[Receipt, ...]:
    mine = naming.normalized(distribution)
    return tuple(each for each in state.applied if naming.normalized(each.distribution) == mine)


def _receipt(state: State, distribution: str, series: str) -> Receipt | None:
    return next((each for each in _stack(state, distribution) if each.series == series), None)


def survey(
    series: Series, tree: SiteTree, relocate: str | None, fitting: Callable[[], Mapping[str, str]]
) -> Target:
    """Look at a target.

    Args:
        series: a locked series.
        tree: the site-packages folder.
        relocate: name of the relocation to use; ``None`` to find out.
        fitting: gives the known series of this distribution and the version that each is for, to
            name the right one where this is the wrong one.

    Raises:
        WrongRelease: another version is installed.
        ForeignFile: a file belongs to another distribution as well.
        Overlap, MissingBeneath, OtherDigest, OtherRelocation: it does not go with what is applied
            already.
        And what finding the distribution, choosing its layout and fitting the series raise.
    """
    manifest = series.locked()
    wanted = series.spec.upstream
    installed = distributions.find(tree, wanted.distribution)
    if not naming.same_release(installed.version, wanted.version):
        fits = tuple(
            sorted(
                name
                for name, version in fitting().items()
                if naming.same_release(installed.version, version)
            )
        )
        raise WrongRelease(
            series.name, wanted.distribution, wanted.version, installed.version, fits
        )
    packages = _packages(installed)
    live, void = status.live(tree)
    layout = _layout(series, relocate, tree, _receipt(live, installed.name, series.name))
    fitted = patching.fit(series, layout, packages)
    places = {
        canonical: installed_path
        for canonical in patching.carried(fitted)
        if (installed_path := layout.installed(canonical)) is not None
    }
    _refuse_shared(series, places)
    foreign = distributions.owner_of(tree, places.values(), installed.info)
    if foreign:
        raise ForeignFile(series.name, tuple(sorted(foreign.items())))
    found = {
        canonical: state
        for canonical, path in places.items()
        if (state := tree.read(path)) is not None
    }
    net = patching.expected(manifest, git_files(found), places.keys())
    files = tuple(
        _surveyed(change, found.get(change.path), installed, places[change.path]) for change in net
    )
    listed = tree.read(installed.record_path)
    target = Target(
        distribution=installed,
        state=live,
        void=void,
        layout=layout,
        packages=packages,
        fitted=fitted,
        net=net,
        found=found,
        files=files,
        record_sha256="" if listed is None else listed.sha256,
    )
    _check_stack(series, target)
    return target


def _layout(series: Series, relocate: str | None, tree: SiteTree, own: Receipt | None) -> Layout:
    """Return the layout that a series is applied by, else the one that is asked for or fits.

    What a series was applied to is not what it was: a file that it deleted may be in the other
    folder still. And to apply it there as well would cost the receipt of the first time.
    """
    if own is None:
        return patching.layout_for(series, relocate, lambda path: tree.status(path) is not None)
    if relocate not in (None, own.relocate):
        raise OtherRelocation(series.name, own.relocate or "", relocate)
    return patching.layout_for(series, own.relocate, lambda _: True)


def unchanged(tree: SiteTree, target: Target) -> bool:
    """Whether a target still is as it was surveyed: its files, its RECORD and what is applied."""
    listed = tree.read(target.distribution.record_path)
    return (
        listed is not None
        and listed.sha256 == target.record_sha256
        and status.live(tree)[0] == target.state
        and all(tree.read(file.path) == target.found.get(file.canonical) for file in target.files)
    )


def git_files(found: Mapping[str, FileState]) -> dict[str, tuple[int, bytes]]:
    """Return git mode and bytes of files as they are installed."""
    return {
        path: (0o100755 if state.mode & 0o100 else 0o100644, state.data)
        for path, state in found.items()
    }


def _packages(installed: Distribution) -> frozenset[str]:
    tops = {entry.path.partition("/")[0] for entry in installed.record.entries}
    return frozenset(top for top in tops - {installed.info} if paths.problem(top) is None)


def _refuse_shared(series: Series, places: Mapping[str, str]) -> None:
    """Refuse a relocation that puts two files of the series into one place."""
    by_place: dict[str, list[str]] = {}
    for canonical, place in places.items():
        by_place.setdefault(place, []).append(canonical)
    problems = tuple(
        Problem(paths.display(place), f"would hold both {' and '.join(sorted(sources))}")
        for place, sources in sorted(by_place.items())
        if len(sources) > 1
    )
    if problems:
        raise SeriesInvalid(series.name, problems)


def _surveyed(
    change: NetChange, state: FileState | None, installed: Distribution, path: str
) -> Surveyed:
    only_mode = _changes_mode_alone(change)
    condition = Condition.MISSING
    if _is(state, change.before, only_mode=only_mode):
        condition = Condition.PRISTINE
    elif _is(state, change.after, only_mode=only_mode):
        condition = Condition.PATCHED
    elif state is not None:
        recorded = (entry.digest for entry in installed.record.entries if entry.path == path)
        known = state.sha256 in recorded
        condition = Condition.OTHER_RELEASE if known else Condition.BY_HAND
    settled = only_mode and condition is Condition.PATCHED
    return Surveyed(path, change.path, condition, settled)


def _changes_mode_alone(change: NetChange) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and before.sha256 == after.sha256


def _is(state: FileState | None, image: FileImage | None, *, only_mode: bool) -> bool:
    if state is None or image is None:
        return state is None and image is None
    if state.sha256 != image.sha256:
        return False
    # Installers and people set modes as they like; only where the series changes the executable
    # bit and nothing else does it tell the two sides apart.
    return not only_mode or bool(state.mode & _EXECUTABLE) == bool(image.mode & _EXECUTABLE)


def _check_stack(series: Series, target: Target) -> None:
    mine = {file.path for file in target.files}
    stack = target.stack()
    present = {each.series for each in stack}
    missing = tuple(sorted(set(series.spec.after) - present))
    if missing and not target.all_are(Condition.PRISTINE) and not target.all_are(Condition.PATCHED):
        raise MissingBeneath(series.name, missing)
    own = target.receipt_of(series.name)
    if own is not None:
        if own.digest != series.digest:  # its backups would be lost with its receipt
            raise OtherDigest(series.name, own.digest, series.digest)
        return
    for each in stack:
        common = sorted(mine & {change.path for change in each.files})
        if common and each.series not in series.spec.after:
            raise Overlap(series.name, each.series, tuple(common))
