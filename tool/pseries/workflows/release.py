"""The upstream release of a series: fetched into the store, and what a lock makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pseries.errors import IndexUnreachable, RangesUnsupported, SeriesInvalid
from pseries.git import objects
from pseries.model import manifest as manifests
from pseries.model.layout import Layout
from pseries.model.manifest import ArtefactRecord
from pseries.upstream import fetch as fetching
from pseries.upstream import settings as index_settings
from pseries.upstream.store import Store
from pseries.workflows import catalog
from pseries.workflows import lock as locking
from pseries.workflows.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.model.manifest import Manifest
    from pseries.model.series import Series
    from pseries.model.splice import File
    from pseries.upstream.fetch import Report
    from pseries.upstream.release import Artefact, Progress, Release
    from pseries.upstream.settings import Settings
    from pseries.workflows.catalog import Location


def fetch(
    series: Series,
    *,
    offline: bool = False,
    index_url: str | None = None,
    progress: Progress | None = None,
    report: Report | None = None,
) -> tuple[Store, Release]:
    """Return the store and the release that a series is for, fetched if it is not there yet.

    Files that the manifest pins must match; see :func:`pseries.upstream.fetch.fetch` for what is
    raised.
    """
    upstream = series.spec.upstream
    store = Store.open(upstream.distribution)
    manifest = series.manifest
    pins = {} if manifest is None else {a.filename: a.sha256 for a in manifest.upstream.artefacts}
    release = fetching.fetch(
        upstream,
        store,
        index_settings.configured(index_url or ""),
        pins=pins,
        offline=offline,
        progress=progress,
        report=report,
    )
    return store, release


def pristine_files(series: Series) -> dict[str, File] | None:
    """Return the files that a series touches, from the store; ``None`` if it lacks the release."""
    upstream = series.spec.upstream
    store = Store.open(upstream.distribution)
    release = store.find(upstream.version)
    if release is None:
        return None
    with objects.scratch(store.git_dir) as borrowed:
        return borrowed.files(borrowed.pick(release.tree, locking.touched(series.patches)))


def lock_folder(
    name: str,
    location: Location | None,
    *,
    offline: bool = False,
    index_url: str | None = None,
    progress: Progress | None = None,
    report: Report | None = None,
) -> bool:
    """Make ``manifest.json`` of a series folder anew; return whether it changed.

    What an earlier manifest pinned of the release stays pinned; offline, what it said of the
    index is taken over.

    Raises: what reading the series, fetching its release and locking raise; nothing was written.
    """
    series = _to_lock(name, location)
    beneath = tuple(catalog.load(other, location) for other in series.spec.after)
    store, release = fetch(
        series, offline=offline, index_url=index_url, progress=progress, report=report
    )
    settings = index_settings.configured(index_url or "")
    listed = _listed(series, settings, offline=offline)
    manifest = locking.lock(
        series,
        locking.ReleaseTree(store.git_dir, release.tree, release.source),
        tuple(_record(each) for each in listed) or _pinned(series, release),
        {} if offline else _shipped(series, release, settings, listed),
        beneath,
    )
    return _write(Path(series.folder) / manifests.FILE, manifest)


def _to_lock(name: str, location: Location | None) -> Series:
    """Read a series; a manifest that cannot be read is no obstacle to making a new one."""
    try:
        return catalog.load(name, location)
    except SeriesInvalid as error:
        if not all(problem.where.startswith(manifests.FILE) for problem in error.problems):
            raise
        return catalog.load(name, location, manifest=False)


def _listed(series: Series, settings: Settings, *, offline: bool) -> tuple[Artefact, ...]:
    if offline:
        return ()
    from pseries.upstream import index as indexes  # noqa: PLC0415 - offline needs no network code

    upstream = series.spec.upstream
    try:
        return indexes.artefacts(upstream.distribution, upstream.version, settings)
    except IndexUnreachable:
        if "git" in upstream.sources:  # a fork that no index has
            return ()
        raise


def _record(artefact: Artefact) -> ArtefactRecord:
    return ArtefactRecord(artefact.filename, artefact.kind, artefact.sha256, artefact.size or 0)


def _pinned(series: Series, release: Release) -> tuple[ArtefactRecord, ...]:
    """Return what is known of the artefacts without asking the index."""
    if series.manifest is not None:
        return series.manifest.upstream.artefacts
    return () if release.artefact is None else (_record(release.artefact),)


def _shipped(
    series: Series, release: Release, settings: Settings, listed: Sequence[Artefact]
) -> Mapping[str, Mapping[str, bytes]]:
    """Return the touched files as a wheel holds them, read in part from the index.

    One wheel speaks for all: those of one release differ in compiled files alone.
    """
    if release.source == "wheel" or not any(each.kind == "wheel" for each in listed):
        return {}
    from pseries.upstream import index as indexes  # noqa: PLC0415 - offline needs no network code

    upstream = series.spec.upstream
    layout = Layout(upstream.root)
    wanted = {
        installed: path
        for path in locking.touched(series.patches)
        if (installed := layout.installed(path)) is not None
    }
    with indexes.Client(settings) as client:
        files = client.project(upstream.distribution).release(upstream.version)
        wheel = next(file for file in files if file.artefact.kind == "wheel")
        try:
            with client.wheel(wheel) as remote:
                there = sorted(remote.names & wanted.keys())
                members = remote.read(there)
        except RangesUnsupported:
            return {}
    return {wheel.artefact.filename: {wanted[name]: data for name, data in members.items()}}


def _write(path: Path, manifest: Manifest) -> bool:
    data = manifests.render(manifest)
    if path.is_file() and path.read_bytes() == data:
        return False
    replace_file(path, data)
    return True
