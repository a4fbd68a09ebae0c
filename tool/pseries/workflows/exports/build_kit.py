"""Kits of a series, for hosts with neither network nor git nor pseries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import Version

from pseries.errors import NothingToApply
from pseries.export import kit as kits
from pseries.export.wheel import Wheel
from pseries.git import objects
from pseries.model import manifest as manifests
from pseries.model.layout import Layout
from pseries.upstream.store import Store
from pseries.workflows.exports.build import (
    MANIFEST,
    Source,
    download,
    given_source,
    placed,
    source_date_epoch,
    wheel_version,
)
from pseries.workflows.series import patching
from pseries.workflows.series import release as releases

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from pseries.errors import Problem
    from pseries.model.diff.splice import File
    from pseries.model.series import Series
    from pseries.workflows.series.means import Means


@dataclass(frozen=True, slots=True)
class BuiltKit:
    """A kit, as a folder and as a zip file."""

    folder: Path
    archive: Path
    files: tuple[str, ...]
    layouts: tuple[str, ...]
    skipped: tuple[Problem, ...]


def build_kit(series: Series, folder: Path, *, means: Means, given: str | None = None) -> BuiltKit:
    """Write a kit for hosts with neither network nor git nor pseries.

    The originals are those of a wheel, because a wheel is what is installed there: the ``given``
    one, one that was downloaded before, else just these members of one on the index.

    Raises: what fetching and applying raise. Nothing is left behind.
    """
    epoch = source_date_epoch()
    series.locked()
    if not series.patches:
        raise NothingToApply(series.name, ())
    plain = Layout(series.spec.upstream.root)
    shipped = _shipped(series, given, means)
    layout = shipped.layout
    images = patching.post_images(series, shipped.files, layout, shipped.packages)
    before = {path: file for path, file in shipped.files.items() if path in images.files}
    modes = {
        change.path: change.before.mode
        for change in manifests.net(series.locked().patches)
        if change.before is not None
    }
    before = {path: (modes.get(path, mode), data) for path, (mode, data) in before.items()}
    after = {path: file for path, file in images.files.items() if file is not None}
    layouts = {"": plain}
    for relocation in series.spec.relocations:
        layouts[relocation.name] = Layout(plain.root, relocation)
    trees = [
        kits.Tree(name, _installed(before, each), _installed(after, each))
        for name, each in layouts.items()
    ]
    distinct = [tree for number, tree in enumerate(trees) if not _known(tree, trees[:number])]
    with objects.scratch() as store:
        diff = store.diff(store.add(trees[0].before), store.add(trees[0].after))
    upstream = series.spec.upstream
    kit = kits.Kit(
        series.name,
        series.locked().digest,
        canonicalize_name(upstream.distribution),
        str(Version(upstream.version)),
        tuple(distinct),
        diff,
    )
    report = kits.build(kit, folder, epoch)
    return BuiltKit(
        report.folder,
        report.archive,
        report.files,
        tuple(tree.name for tree in distinct),
        images.skipped,
    )


def _known(tree: kits.Tree, others: list[kits.Tree]) -> bool:
    return any((tree.before, tree.after) == (other.before, other.after) for other in others)


def _installed(files: Mapping[str, File], layout: Layout) -> dict[str, File]:
    return {layout.installed(path) or path: file for path, file in files.items()}


@dataclass(frozen=True, slots=True)
class _Shipped:
    """The touched files as a wheel has them, by canonical path, and what else it installs."""

    layout: Layout
    files: Mapping[str, File]
    packages: frozenset[str]


def _shipped(series: Series, given: str | None, means: Means) -> _Shipped:
    upstream = series.spec.upstream
    pinned = {each.filename: each for each in series.locked().upstream.artefacts}
    if given is not None:
        source = given_source(given, pinned)
        wheel_version(series, source.filename)
        path = source.path or download(series, source, means)
        return _from_wheel(series, path, source.filename)
    downloads = Store.open(upstream.distribution).downloads
    names = sorted(name for name, each in pinned.items() if each.kind == "wheel")
    for name in names:
        if (downloads / name).is_file():
            return _from_wheel(series, downloads / name, name)
    if names and not means.offline:
        source = Source(names[0], pinned[names[0]].sha256, MANIFEST)
        return _from_index(series, source, means)
    return _from_store(series, means)


def _from_wheel(series: Series, path: Path, filename: str) -> _Shipped:
    with Wheel(path, filename) as wheel:
        layout = _layout_of(series, wheel.installed)
        files = {
            canonical: (0o100644, wheel.read(wheel.installed[there]))
            for there, canonical in placed(series, layout).items()
            if there in wheel.installed
        }
        return _Shipped(layout, files, wheel.packages)


def _layout_of(series: Series, installed: Collection[str]) -> Layout:
    return patching.layout_for(series, None, installed.__contains__)


def _from_index(series: Series, source: Source, means: Means) -> _Shipped:
    """Read the members from a wheel on the index; the manifest's hashes vouch for them.

    The whole wheel is downloaded where its server sends no less.
    """
    from pseries.upstream import fetch, index, settings  # noqa: PLC0415 - the network libraries

    upstream = series.spec.upstream
    with index.Client(settings.configured(means.index_url or "")) as client:
        listed = {
            file.artefact.filename: file
            for file in client.project(upstream.distribution).release(upstream.version)
        }
        if source.filename not in listed:
            return _from_store(series, means)
        wheel = listed[source.filename]
        read = client.members(wheel, lambda names: placed(series, _layout_of(series, names)))
    if read is None:
        return _from_wheel(series, download(series, source, means), source.filename)
    if means.report is not None:
        fetch.announce(wheel, "", means.report)
    members, names = read
    layout = _layout_of(series, names)
    members_of = placed(series, layout)
    tops = {name.partition("/")[0] for name in names}
    packages = frozenset(top for top in tops if not top.endswith((".dist-info", ".data")))
    files = {members_of[name]: (0o100644, data) for name, data in members.items()}
    return _Shipped(layout, files, packages)


def _from_store(series: Series, means: Means) -> _Shipped:
    """Take the files of the release in the store; what is a package is known by its name there."""
    releases.fetch(
        series,
        means,
    )
    upstream = series.spec.upstream
    layout = Layout(upstream.root)
    files = releases.pristine_files(series) or {}
    name = canonicalize_name(upstream.distribution).replace("-", "_")
    tops = {there.partition("/")[0] for there in placed(series, layout)}
    packages = frozenset({name} & tops) or frozenset(
        top for top in tops if top not in {"tests", "docs", "test", "doc", "benchmarks", "examples"}
    )
    return _Shipped(layout, files, packages)
