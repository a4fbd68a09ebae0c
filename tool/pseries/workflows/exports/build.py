"""Patched wheels of a series, and what every kind of export needs."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from pseries.errors import (
    AlreadyPatched,
    ArchiveRefused,
    ArtefactMismatch,
    EpochInvalid,
    FileNotListed,
    FileNotStored,
    NeedsBuild,
    NothingToApply,
    NoWheelFits,
    Problem,
    ReleaseUnreachable,
    Unreachable,
    UpstreamInvalid,
    WheelInvalid,
    WrongWheel,
)
from pseries.export import wheel as wheels
from pseries.export.label import labelled
from pseries.export.sbom import Ancestor, Applied, Provenance
from pseries.export.sbom import render as render_sbom
from pseries.export.wheel import Content, Wheel
from pseries.export.zipcopy import EARLIEST
from pseries.model import manifest as manifests
from pseries.model import naming, paths
from pseries.model.layout import Placement
from pseries.model.series import sha256
from pseries.upstream.release import Artefact, local_path
from pseries.upstream.store import Store, cache_folder
from pseries.workflows.exports import platforms
from pseries.workflows.series import patching
from pseries.workflows.series.lock import touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packaging.version import Version

    from pseries.export.wheel import Difference
    from pseries.model.diff.patch import Patch
    from pseries.model.diff.splice import File
    from pseries.model.layout import Layout
    from pseries.model.manifest import ArtefactRecord, NetChange
    from pseries.model.series import Series
    from pseries.workflows.series.means import Means
    from pseries.workflows.series.patching import PostImages

_SCHEMES = ("https", "http", "file")
EPOCH = "SOURCE_DATE_EPOCH"
MANIFEST = "the manifest"


@dataclass(frozen=True, slots=True)
class BuiltWheel:
    """A patched wheel.

    Attributes:
        path: the file.
        version: with the label.
        upstream: the file name of the wheel it was made of.
        upstream_sha256: the hash of that.
        pinned: whether the manifest knows that hash.
        differences: every member that is not upstream's.
        skipped: files of the series that a wheel does not carry.
        dropped_signatures: signatures of RECORD, which do not survive a change.
        replaced: a wheel of that name was there, with other content.
    """

    path: Path
    version: str
    upstream: str
    upstream_sha256: str
    pinned: bool
    differences: tuple[Difference, ...]
    skipped: tuple[Problem, ...]
    dropped_signatures: tuple[str, ...]
    replaced: bool


def source_date_epoch(environment: Mapping[str, str] | None = None) -> int:
    """Return the date of what is built: ``SOURCE_DATE_EPOCH``, else the first that zip knows.

    Raises:
        EpochInvalid: it is set to something else.
    """
    value = (os.environ if environment is None else environment).get(EPOCH, "")
    if not value:
        return EARLIEST
    if not re.fullmatch(r"[0-9]{1,11}", value):
        raise EpochInvalid(value)
    return int(value)


# --- wheels -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """A file to be patched: where it is, or how to get it; ``sha256`` is what it has to have."""

    filename: str
    sha256: str
    said_by: str
    path: Path | None = None
    url: str = ""


def build_wheels(
    series: Series,
    folder: Path,
    *,
    given: str | None = None,
    wanted: platforms.Wanted | None = None,
    relocate: str | None = None,
    means: Means,
) -> Iterator[BuiltWheel]:
    """Yield each patched wheel once it is written.

    Args:
        series: a locked series.
        folder: where wheels go.
        given: the path or address of a wheel to patch instead of those of the index.
        wanted: which of the release's wheels; the one for this interpreter by default.
        relocate: name of the relocation to use; ``None`` to find out.
        means: how the index may be asked.

    Raises:
        NoWheelFits, WrongWheel: there is no such wheel.
        LabelRefused: the series' label cannot be used.
        NeedsBuild, NothingToApply: the series cannot be put into a wheel.
        ArtefactMismatch, ArchiveRefused, WheelInvalid: the wheel is not what it should be.
        And what fetching and applying raise. Nothing is left behind.
    """
    series.locked()
    epoch = source_date_epoch()
    labelled(series.spec.upstream.version, series.spec.label)  # before anything is downloaded
    if not series.patches:
        raise NothingToApply(series.name, ())
    job = _Job(series, folder, relocate, means, epoch)
    for source in sources(series, given, wanted or platforms.Wanted()):
        yield job.build(source)


@dataclass(frozen=True, slots=True)
class _Job:
    """What all wheels of one call have in common."""

    series: Series
    folder: Path
    relocate: str | None
    means: Means
    epoch: int

    def build(self, source: Source) -> BuiltWheel:
        """Patch one wheel, fetched first if need be."""
        if source.path is not None:
            return self._patch(source, source.path)
        cached = Store.open(self.series.spec.upstream.distribution).downloads / source.filename
        if source.sha256 and cached.is_file():
            # Hashing it now, to hash it again while it is copied, would double the time.
            try:
                return self._patch(source, cached)
            except (ArtefactMismatch, ArchiveRefused, WheelInvalid):
                pass  # damaged since it was downloaded: `download` sees that and fetches it again
        return self._patch(source, download(self.series, source, self.means))

    def _patch(self, source: Source, path: Path) -> BuiltWheel:
        series = self.series
        version = labelled(str(wheel_version(series, source.filename)), series.spec.label)
        with Wheel(path, source.filename) as wheel:
            changes, images, names = _changes(series, wheel, self.relocate)
            expected = source.sha256 or sha256_of(path)
            verified = _verified(expected)
            if not verified.exists():
                told = self._told(f"verifying {source.filename}", wheel.size)
                wheel.verify(progress=told)
            ancestor = Ancestor(str(wheel.version), source.filename, expected)
            report = wheels.repack(
                wheel,
                self.folder,
                version=version,
                changes=changes,
                sbom=render_sbom(provenance(series, version, ancestor, names), self.epoch),
                sha256=expected,
                said_by=source.said_by,
                epoch=self.epoch,
                progress=self._told(f"writing {version}", path.stat().st_size),
            )
        with contextlib.suppress(OSError):  # it saves time; a cache that takes nothing costs some
            verified.parent.mkdir(parents=True, exist_ok=True)
            verified.touch()
        return BuiltWheel(
            report.path,
            version,
            source.filename,
            report.source_sha256,
            bool(source.sha256) and source.said_by == MANIFEST,
            report.differences,
            images.skipped,
            report.dropped_signatures,
            report.replaced,
        )

    def _told(self, what: str, total: int) -> Callable[[int], None]:
        progress = self.means.progress
        return lambda done: None if progress is None else progress(what, done, total)


def sources(series: Series, given: str | None, wanted: platforms.Wanted) -> list[Source]:
    """Return the wheels to patch: a given one, or those of the release that are wanted."""
    pinned = {each.filename: each for each in series.locked().upstream.artefacts}
    if given is not None:
        return [given_source(given, pinned)]
    upstream = series.spec.upstream
    names = sorted(name for name, each in pinned.items() if each.kind == "wheel")
    chosen = platforms.choose(names, wanted)
    if not chosen:
        raise NoWheelFits(upstream.distribution, upstream.version, str(wanted), tuple(names))
    return [Source(name, pinned[name].sha256, MANIFEST) for name in chosen]


def given_source(given: str, pinned: Mapping[str, ArtefactRecord]) -> Source:
    """Return the wheel that a path or an address names, with the hash that it must have.

    Raises:
        UpstreamInvalid: the address is of no kind that is understood.
        OSError: there is no such file, or it is a folder.
    """
    parts = urlsplit(given)
    path = given_path(given)
    if path is not None and parts.scheme != "file":
        known = pinned.get(path.name)
        return Source(path.name or repr(given), known.sha256 if known else "", MANIFEST, path)
    filename = unquote(parts.path).rpartition("/")[2]
    found = re.search(r"(?:^|&)sha256=([0-9a-f]{64})(?:&|$)", parts.fragment)
    if filename in pinned:
        return Source(filename, pinned[filename].sha256, MANIFEST, url=given)
    return Source(filename, found[1] if found else "", "the address", url=given)


def given_path(given: str) -> Path | None:
    """Return the file of this machine that a path or an address names; ``None`` for a remote one.

    Raises:
        UpstreamInvalid: the address is of no kind that is understood.
        OSError: there is no such file, or it is a folder.
    """
    parts = urlsplit(given)
    if parts.scheme not in _SCHEMES and "://" in given:
        reason = f"only {', '.join(_SCHEMES)} and paths are understood"
        raise UpstreamInvalid("address", given, reason)
    if parts.scheme in ("https", "http"):
        return None
    path = local_path(parts.path) if parts.scheme == "file" else Path(given)
    if stat.S_ISDIR(path.stat().st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return path


def download(series: Series, source: Source, means: Means) -> Path:
    """Return a verified file: from the folder of downloads, else from the index or its address.

    Raises:
        FileNotStored: it was not downloaded before, and the network is forbidden.
        FileNotListed: the index does not have it any more.
        And what asking an index and downloading raise.
    """
    cached = Store.open(series.spec.upstream.distribution).downloads / source.filename
    if source.sha256 and cached.is_file() and sha256_of(cached) == source.sha256:
        return cached
    try:
        return _downloaded(series, source, means)
    except Unreachable as error:
        if not means.offline:
            raise
        raise FileNotStored(source.filename) from error


def _downloaded(series: Series, source: Source, means: Means) -> Path:
    from pseries.upstream import fetch, index, settings  # noqa: PLC0415 - the network libraries

    upstream = series.spec.upstream
    with index.Client(settings.configured(means.index_url or ""), offline=means.offline) as client:
        if source.url:
            artefact = Artefact(source.filename, source.sha256, None, "wheel")
            version = wheel_version(series, source.filename)
            listed = index.Listed(artefact, version, source.url.partition("#")[0])
        else:
            project = client.project(upstream.distribution)
            found = [
                file
                for file in project.release(upstream.version)
                if file.artefact.filename == source.filename
            ]
            if not found and project.silent:
                raise ReleaseUnreachable(project.distribution, upstream.version, project.silent)
            if not found:
                release = project.release(upstream.version)
                raise FileNotListed(
                    source.filename, tuple(file.artefact.filename for file in release)
                )
            listed = found[0]
            if means.report is not None:
                fetch.announce(listed, source.sha256, means.report)
        return client.download(
            listed,
            Store.open(upstream.distribution).downloads,
            expected=source.sha256,
            progress=means.progress,
        )


def wheel_version(series: Series, filename: str) -> Version:
    """Return the version that a wheel's name says, if it is of the series' release.

    Raises:
        WrongWheel: it is not, a local label apart.
    """
    upstream = series.spec.upstream
    wanted = f"{upstream.distribution} {upstream.version}"
    version = naming.wheel_version(filename, upstream.distribution, upstream.version)
    if version is None:
        raise WrongWheel(series.name, filename, wanted)
    return version


def _verified(wheel: str) -> Path:
    """Return the file that says "RECORD holds for every member of the wheel with this sha256".

    That is a property of the bytes: once seen it need not be worked out again, which costs three
    times as much as all the rest. The hash itself is checked on every run.
    """
    return cache_folder() / "verified" / wheel


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file."""
    import hashlib  # noqa: PLC0415

    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _changes(
    series: Series, wheel: Wheel, relocate: str | None
) -> tuple[dict[str, Content | None], PostImages, frozenset[str]]:
    """Return what a series makes of a wheel's files by installed path, and its patches' names."""
    layout = patching.layout_for(series, relocate, wheel.installed.__contains__)
    packages = wheel.packages
    fitted = patching.fit(series, layout, packages)
    _refuse_sources(series, wheel, layout, fitted.patches)
    pristine: dict[str, File] = {}
    for canonical in touched(fitted.patches):
        span = wheel.installed.get(layout.installed(canonical) or "")
        if span is not None:
            mode = 0o100755 if span.entry.mode & 0o100 else 0o100644
            pristine[canonical] = (mode, wheel.read(span))
    net = manifests.net(series.locked().patches)
    _refuse_patched(series, wheel, net, pristine)
    images = patching.post_images(series, pristine, layout, packages)
    before = {change.path: change.before.mode for change in net if change.before is not None}
    changes = {
        layout.installed(path) or path: content(file, before.get(path))
        for path, file in images.files.items()
    }
    return changes, images, frozenset(patch.name for patch in fitted.patches)


def _refuse_patched(
    series: Series, wheel: Wheel, net: tuple[NetChange, ...], files: Mapping[str, File]
) -> None:
    """Refuse a wheel that was patched with the series before, by its own name for that."""
    before = {change.path: change.before and change.before.sha256 for change in net}
    after = {change.path: change.after and change.after.sha256 for change in net}
    changed = [path for path in files if before.get(path) != after.get(path)]
    if changed and all(sha256(files[path][1]) == after[path] for path in changed):
        raise AlreadyPatched(series.name, wheel.filename)


def content(file: File | None, mode_before: int | None) -> Content | None:
    """Return a post-image for a wheel: permissions are touched only where the patch does so."""
    if file is None:
        return None
    mode, data = file
    return Content(data, None if mode == mode_before else bool(mode & 0o111))


def _refuse_sources(series: Series, wheel: Wheel, layout: Layout, patches: Sequence[Patch]) -> None:
    """Refuse a change of a compiled source that lies inside the package but not in the wheel."""
    names = {patch.name for patch in patches}
    missing = [
        Problem(f"{patch.name} {paths.display(section.old)}", "a source of a compiled part")
        for patch in series.patches
        if patch.name in names
        for section in patch.sections
        if section.old is not None
        and layout.placement(section.old, wheel.packages) is Placement.INSTALLED
        and layout.installed(section.old) not in wheel.installed
        and layout.placement(section.old, ()) is Placement.COMPILED
        and not any(section.old == other.new for one in series.patches for other in one.sections)
    ]
    if missing:
        raise NeedsBuild(series.name, tuple(missing))


def provenance(
    series: Series, version: str, ancestor: Ancestor, names: frozenset[str]
) -> Provenance:
    """Return what the bill of materials says: of the patches, those among ``names``."""
    upstream = series.spec.upstream
    patches = tuple(
        Applied(patch.name, sha256(patch.data), patch.header.trailers)
        for patch in series.patches
        if patch.name in names
    )
    return Provenance(
        canonicalize_name(upstream.distribution),
        version,
        series.name,
        series.locked().digest,
        ancestor,
        patches,
    )


def placed(series: Series, layout: Layout) -> dict[str, str]:
    """Return the touched canonical paths by where a layout has them."""
    return {
        there: path
        for path in touched(series.patches)
        if (there := layout.installed(path)) is not None
    }
