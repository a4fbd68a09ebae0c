"""The calls of an engine into the packages that a series requires, against what is installed."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import PseriesError, TargetRefused
from pseries.model.calls import binding
from pseries.model.calls.binding import Bound
from pseries.model.calls.definitions import available
from pseries.model.verdicts import faults, source
from pseries.site import distribution as distributions
from pseries.workflows.series import patching
from pseries.workflows.target.survey import Condition, git_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pseries.model.calls.definitions import Definitions
    from pseries.model.series import Series
    from pseries.site.fs import SiteTree
    from pseries.workflows.target.survey import Target

__all__ = ["Compared", "available", "compare"]

_MOST_SOURCE = 8 << 20
"""Bytes of one Python file."""

_AS_INSTALLED = "as installed"
_AS_PATCHED = "as the series makes them"


class Compared(NamedTuple):
    """The comparison.

    Attributes:
        packages: the required distributions that are installed.
        files: how many files were looked at.
        state: whether as installed, or as the series would make them.
        bound: the result.
        mended: calls that do not fit in the files as installed, and that the series changes.
    """

    packages: tuple[str, ...]
    files: int
    state: str
    bound: Bound
    mended: tuple[binding.CallMisfit, ...]


def compare(
    series: Series,
    target: Target,
    trees: Sequence[SiteTree],
    required: Collection[str],
    *,
    every_file: bool = False,
) -> Compared:
    """Compare calls with signatures.

    Where the series is not applied, the files are taken as it would make them.

    Args:
        series: the series.
        target: the distribution, as surveyed.
        trees: where packages are looked for, the target's own folder first.
        required: distributions.
        every_file: look at every file of the distribution that names a required package.

    Raises:
        What making the post-images raises.
    """
    tops = {name: found for name in required if (found := _tops(trees, name))}
    packages = frozenset(top for found in tops.values() for top in found)
    before: dict[str, bytes | None] = {
        file.path: state.data
        for file in target.files
        if (state := target.found.get(file.canonical)) is not None
    }
    after = before
    pristine = bool(target.files) and target.all_are(Condition.PRISTINE)
    if pristine:
        after = dict(before)
        images = patching.post_images(
            series, git_files(target.found), target.layout, target.packages
        ).files
        for canonical, file in images.items():
            after[target.layout.installed(canonical) or ""] = None if file is None else file[1]
    files = {path: data for path, data in after.items() if data is not None}
    if every_file:
        files = {**dict(_naming(trees[0], target, packages)), **files}
    files = {path: data for path, data in files.items() if source.is_python(path)}
    bound = _bind(files, after, trees, packages)
    mended: tuple[binding.CallMisfit, ...] = ()
    if pristine:
        old = {path: data for path, data in before.items() if data and source.is_python(path)}
        left = {(each.path, each.callee, each.misfits) for each in bound.misfits}
        mended = tuple(
            each
            for each in _bind(old, before, trees, packages).misfits
            if (each.path, each.callee, each.misfits) not in left
        )
    how = _AS_PATCHED if pristine else _AS_INSTALLED
    return Compared(tuple(tops), len(files), how, bound, mended)


def _bind(
    files: Mapping[str, bytes],
    overlay: Mapping[str, bytes | None],
    trees: Sequence[SiteTree],
    packages: Collection[str],
) -> Bound:
    found = definitions(trees, overlay)
    bound = Bound()
    for path, data in sorted(files.items()):
        bound += binding.bind(path, data, faults.module_name(path), packages, found)
    return bound


def definitions(trees: Sequence[SiteTree], overlay: Mapping[str, bytes | None]) -> Definitions:
    """Return the definitions of installed packages, with some files replaced."""
    from pseries.model.calls.definitions import Definitions  # noqa: PLC0415

    def read(path: str) -> bytes | None:
        if path in overlay:
            return overlay[path]
        return next((data for tree in trees if (data := _read(tree, path)) is not None), None)

    def is_folder(path: str) -> bool:
        return any(
            (found := _status(tree, path)) is not None and stat.S_ISDIR(found) for tree in trees
        )

    return Definitions(read, is_folder)


def _read(tree: SiteTree, path: str) -> bytes | None:
    try:
        found = tree.read(path, _MOST_SOURCE)
    except TargetRefused:  # a link, or too large: nothing is known of it
        return None
    return None if found is None else found.data


def _status(tree: SiteTree, path: str) -> int | None:
    try:
        found = tree.status(path)
    except TargetRefused:
        return None
    return None if found is None else found.st_mode


def _tops(trees: Sequence[SiteTree], name: str) -> tuple[str, ...]:
    """Return the names that a distribution is imported by, none where it is not installed."""
    for tree in trees:
        try:
            return distributions.find(tree, name).modules()
        except PseriesError:
            continue
    return ()


def _naming(
    tree: SiteTree, target: Target, packages: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    words = [package.encode() for package in packages]
    for path in target.distribution.record.paths():
        if not source.is_python(path):
            continue
        data = _read(tree, path)
        if data is not None and any(word in data for word in words):
            yield path, data
