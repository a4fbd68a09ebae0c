"""Patched sdists of a series: of the official one where there is one, else of the git tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pseries.errors import NoSourceTree, NothingToApply, Problem
from pseries.export import sdist as sdists
from pseries.export.label import labelled
from pseries.export.sbom import Ancestor
from pseries.export.sbom import render as render_sbom
from pseries.export.wheel import Content
from pseries.git import objects
from pseries.model import paths
from pseries.model.layout import Layout
from pseries.upstream import archive
from pseries.upstream.member import Member
from pseries.workflows.exports.build import (
    MANIFEST,
    Source,
    content,
    download,
    placed,
    provenance,
    source_date_epoch,
)
from pseries.workflows.series import patching
from pseries.workflows.series import release as releases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pseries.export.wheel import Difference
    from pseries.model.diff.splice import File
    from pseries.model.series import Series
    from pseries.workflows.series.means import Means

_BATCH = 500
"""Files of a git tree that are in memory at a time."""
_PYPROJECT = "pyproject.toml"
_BUILD_FILES = frozenset({_PYPROJECT, "setup.py"})


@dataclass(frozen=True, slots=True)
class BuiltSdist:
    """A patched sdist.

    Attributes:
        path: the file.
        version: with the label.
        upstream: the file name of the official sdist, or the address of the git tree.
        upstream_sha256: the hash of that; "" for a git tree.
        differences: every file that is not upstream's.
        skipped: files that an sdist does not hold.
        variables: what a build of it should have in its environment, as ``NAME=value``.
    """

    path: Path
    version: str
    upstream: str
    upstream_sha256: str
    differences: tuple[Difference, ...]
    skipped: tuple[Problem, ...]
    variables: tuple[str, ...]


def build_sdist(series: Series, folder: Path, *, means: Means) -> BuiltSdist:
    """Write a patched sdist: of the official one where there is one, else of the git tree.

    Raises:
        NoSourceTree: there is neither.
        And what fetching and applying raise. Nothing is left behind.
    """
    epoch = source_date_epoch()
    upstream = series.spec.upstream
    version = labelled(upstream.version, series.spec.label)
    if not series.patches:
        raise NothingToApply(series.name, ())
    official = [each for each in series.locked().upstream.artefacts if each.kind == "sdist"]
    if official:
        source = Source(official[0].filename, official[0].sha256, MANIFEST)
        path = download(series, source, means)
        ancestor = Ancestor(upstream.version, source.filename, source.sha256)
        return _sdist_of(
            series, _Archive(path), folder, version=version, ancestor=ancestor, epoch=epoch
        )
    store, release = releases.fetch(
        series,
        means,
    )
    if release.source != "git":
        raise NoSourceTree(patching.release_name(series), release.source)
    ancestor = Ancestor(upstream.version, f"{upstream.git}@{upstream.tag}", "")
    with objects.scratch(store.git_dir) as borrowed:
        tree = _Checkout(borrowed, release.tree, upstream.root)
        return _sdist_of(series, tree, folder, version=version, ancestor=ancestor, epoch=epoch)


class _Archive:
    """The files of an official sdist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.left_out: tuple[Problem, ...] = ()

    def members(self) -> Iterator[Member]:
        with self._path.open("rb") as file:
            yield from archive.members(file, self._path.name)


class _Checkout:
    """The files of a project in a git tree: below ``root`` if that is where it is built."""

    def __init__(self, store: objects.Objects, tree: str, root: str) -> None:
        self._store = store
        files, others = store.below(tree, root) if root else store.below(tree, "")
        if root and not {f"{root}/pyproject.toml", f"{root}/setup.py"} & files.keys():
            files, others = store.below(tree, "")
            root = ""
        self._prefix = f"{root}/" if root else ""
        self._files = files
        self.left_out = tuple(
            Problem(paths.display(path), "a link or submodule, which an sdist does not hold")
            for path in others
        )

    def members(self) -> Iterator[Member]:
        names = sorted(self._files)
        for start in range(0, len(names), _BATCH):
            batch = {name: self._files[name] for name in names[start : start + _BATCH]}
            for name, (mode, data) in self._store.files(batch).items():
                path = name.removeprefix(self._prefix)
                yield Member(path, bool(mode & 0o100), len(data), iter((data,)))


def _sdist_of(
    series: Series,
    source: _Archive | _Checkout,
    folder: Path,
    *,
    version: str,
    ancestor: Ancestor,
    epoch: int,
) -> BuiltSdist:
    upstream = series.spec.upstream
    layouts = [Layout(), *([Layout(upstream.root)] if upstream.root else [])]
    wanted = {path for layout in layouts for path in placed(series, layout)}
    found: dict[str, File] = {}
    for member in source.members():
        if member.path in wanted or member.path in _BUILD_FILES:
            mode = 0o100755 if member.executable else 0o100644
            found[member.path] = (mode, b"".join(member.chunks))
    layout = max(layouts, key=lambda each: sum(path in found for path in placed(series, each)))
    pristine = {
        path: found[there] for there, path in placed(series, layout).items() if there in found
    }
    # An sdist holds whatever is below its root, so every path there is one of "its packages".
    packages = {there.partition("/")[0] for there in placed(series, layout)}
    images = patching.post_images(series, pristine, layout, packages)
    modes = {path: mode for path, (mode, _) in pristine.items()}
    changes = {
        layout.installed(path) or path: content(file, modes.get(path))
        for path, file in images.files.items()
    }
    build_files = _build_files(found, changes)
    said = build_files.get(_PYPROJECT, b"")
    if (stated := sdists.with_stated_version(said, version)) != said:
        patched = changes.get(_PYPROJECT)
        changes[_PYPROJECT] = Content(stated, patched.executable if patched else None)
    fitted = patching.fit(series, layout, packages)
    names = frozenset(patch.name for patch in fitted.patches)
    report = sdists.repack(
        source.members(),
        folder,
        distribution=upstream.distribution,
        version=version,
        changes=changes,
        sbom=render_sbom(provenance(series, version, ancestor, names), epoch),
        epoch=epoch,
    )
    return BuiltSdist(
        report.path,
        version,
        ancestor.filename,
        ancestor.sha256,
        report.differences,
        (*images.skipped, *source.left_out),
        sdists.version_variables(upstream.distribution, version, build_files),
    )


def _build_files(
    found: Mapping[str, File], changes: Mapping[str, Content | None]
) -> dict[str, bytes]:
    """Return the files that say how it is built, with the series in them."""
    files = {name: found[name][1] for name in _BUILD_FILES if name in found}
    for name in _BUILD_FILES & changes.keys():
        files.pop(name, None)
        if (changed := changes[name]) is not None:
            files[name] = changed.data
    return files
