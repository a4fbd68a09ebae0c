"""The upstream release of a series: fetched into the store, and what a lock makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pseries.durable import write_file
from pseries.errors import IndexUnreachable, ReleaseNotFound, SeriesInvalid
from pseries.git import objects
from pseries.model import manifest as manifests
from pseries.model.layout import Layout
from pseries.model.manifest import ArtefactRecord
from pseries.upstream.store import Store
from pseries.workflows.series import catalog
from pseries.workflows.series import lock as locking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.model.diff.splice import File
    from pseries.model.manifest import Manifest
    from pseries.model.series import Series
    from pseries.upstream.release import Artefact, Release
    from pseries.upstream.settings import Settings
    from pseries.workflows.series.catalog import Location
    from pseries.workflows.series.means import Means


class Locked(NamedTuple):
    """A manifest that holds: its series and file, the series' digest, and whether it changed."""

    series: str
    manifest: str
    digest: str
    changed: bool


def fetch(series: Series, means: Means) -> tuple[Store, Release]:
    """Return the store and the release that a series is for, fetched if it is not there yet.

    Files that the manifest pins must match; see :func:`pseries.upstream.fetch.fetch` for what is
    raised.
    """
    upstream = series.spec.upstream
    store = Store.open(upstream.distribution)
    pins = _pins(series)
    found = _stored(series, store)
    if found is not None:
        return store, found
    # the code that reads archives takes as long to import as a small rebase to run
    from pseries.upstream import fetch as fetching  # noqa: PLC0415
    from pseries.upstream import settings as index_settings  # noqa: PLC0415

    release = fetching.fetch(
        upstream,
        store,
        index_settings.configured(means.index_url or ""),
        pins=pins,
        offline=means.offline,
        progress=means.progress,
        report=means.report,
    )
    return store, release


def _pins(series: Series) -> dict[str, str]:
    manifest = series.manifest
    return {} if manifest is None else {a.filename: a.sha256 for a in manifest.upstream.artefacts}


def _stored(series: Series, store: Store) -> Release | None:
    """Return a series' release from the store if a fetch would give the same, else ``None``."""
    upstream = series.spec.upstream
    found = store.find(upstream.version)
    if found is None:
        return None
    artefact = found.artefact
    pinned = "" if artefact is None else _pins(series).get(artefact.filename, artefact.sha256)
    fits = (artefact is None or pinned == artefact.sha256) and (
        found.source == "git" or found.recorded.root == upstream.root
    )
    return found if fits else None


def pristine_files(series: Series) -> dict[str, File] | None:
    """Return the files that a series touches, from the store; ``None`` if it lacks the release.

    A release that is there under other paths, or is another file than the one that is pinned, is
    not the series' release: :func:`fetch` would replace it.
    """
    store = Store.open(series.spec.upstream.distribution)
    release = _stored(series, store)
    if release is None:
        return None
    with objects.scratch(store.git_dir) as borrowed:
        return borrowed.files(borrowed.pick(release.tree, locking.touched(series.patches)))


def lock_folder(name: str, location: Location | None, means: Means) -> Locked:
    """Make ``manifest.json`` of a series folder anew.

    What an earlier manifest pinned of the release stays pinned; offline, what it said of the
    index is taken over.

    Raises: what reading the series, fetching its release and locking raise; nothing was written.
    """
    series = _to_lock(name, location)
    manifest = manifest_of(series, location, means)
    path = Path(series.folder).absolute() / manifests.FILE
    return Locked(series.name, str(path), manifest.digest, _write(path, manifest))


def manifest_of(
    series: Series, location: Location | None, means: Means, earlier: Manifest | None = None
) -> Manifest:
    """Return the manifest of a series as it is; nothing is written.

    Args:
        series: the series, with the manifest that it had so far, if any.
        location: where the series that it is made on top of are.
        means: offline, what the old manifest says of the index is taken over.
        earlier: the manifest of a series that this one was carried from.
    """
    beneath = tuple(catalog.load(other, location) for other in series.spec.after)
    store, release = fetch(series, means)
    listed: tuple[Artefact, ...] = ()
    shipped: Mapping[str, Mapping[str, bytes]] = {}
    if not means.offline:
        from pseries.upstream import settings as index_settings  # noqa: PLC0415 - as in `fetch`

        settings = index_settings.configured(means.index_url or "")
        listed = _listed(series, release, settings)
        shipped = _shipped(series, release, settings, listed)
    return locking.lock(
        series,
        locking.ReleaseTree(store.git_dir, release.tree, release.source),
        tuple(_record(each) for each in listed) or _pinned(series, release),
        shipped,
        beneath,
        earlier,
    )


def _to_lock(name: str, location: Location | None) -> Series:
    """Read a series; a manifest that cannot be read is no obstacle to making a new one."""
    try:
        return catalog.load(name, location)
    except SeriesInvalid as error:
        if not all(problem.where.startswith(manifests.FILE) for problem in error.problems):
            raise
        return catalog.load(name, location, manifest=False)


def _listed(series: Series, release: Release, settings: Settings) -> tuple[Artefact, ...]:
    from pseries.upstream import index as indexes  # noqa: PLC0415 - offline needs no network code

    upstream = series.spec.upstream
    try:
        return indexes.artefacts(upstream.distribution, upstream.version, settings)
    except IndexUnreachable:
        if "git" in upstream.sources:  # a fork that no index has
            return ()
        raise
    except ReleaseNotFound:
        if release.source in ("git", "folder"):  # the same, and the index says so
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
        read = client.members(wheel, lambda names: sorted(names & wanted.keys()))
    if read is None:
        return {}
    return {wheel.artefact.filename: {wanted[name]: data for name, data in read[0].items()}}


def _write(path: Path, manifest: Manifest) -> bool:
    data = manifests.render(manifest)
    if path.is_file() and path.read_bytes() == data:
        return False
    write_file(path, data)
    return True
