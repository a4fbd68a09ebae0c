"""A whole series as one value, put together from the files of its folder."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import ManifestMissing, ManifestStale, PatchRefused, Problem, SeriesInvalid
from pseries.model import manifest as manifests
from pseries.model import order as orders
from pseries.model import spec as specs
from pseries.model.diff import patch as patches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pseries.model.diff.patch import Patch
    from pseries.model.manifest import Manifest
    from pseries.model.order import Order
    from pseries.model.spec import Spec

ORDER_FILE = "series"
PATCH_SUFFIXES = (".patch", ".diff")


class Series(NamedTuple):
    """A series: its name, where it lies, and everything its folder says.

    ``manifest`` is ``None`` until ``pseries lock`` made one.
    """

    name: str
    folder: str
    spec: Spec
    order: Order
    patches: tuple[Patch, ...]
    manifest: Manifest | None

    @property
    def digest(self) -> str:
        """The digest of the series as it lies there now."""
        return manifests.digest(
            self.spec.upstream, self.order, (sha256(patch.data) for patch in self.patches)
        )

    def locked(self) -> Manifest:
        """Return the manifest; raises unless there is one and it is of exactly these patches.

        Raises:
            ManifestMissing: the series was never locked.
            ManifestStale: a patch, the order or the release changed since.
        """
        if self.manifest is None:
            raise ManifestMissing(self.name)
        if stale := tuple(_stale(self, self.manifest)):
            raise ManifestStale(self.name, stale)
        return self.manifest


def sha256(data: bytes) -> str:
    """Return the sha256 of ``data`` in hex."""
    return hashlib.sha256(data).hexdigest()


def assemble(
    name: str, folder: str, files: Mapping[str, bytes], known: Iterable[Patch] = ()
) -> Series:
    """Put a series together from the files of its folder, by name.

    Args:
        name: the series'.
        folder: where it is; "" if nowhere yet.
        files: the bytes of each file.
        known: patches that were read before: one whose file is the same is not read again.

    Raises:
        SeriesInvalid: with every problem of every file at once.
    """
    problems: list[Problem] = []
    spec = specs.parse(_needed(files, specs.FILE, problems), problems)
    order = orders.parse(_needed(files, ORDER_FILE, problems), problems)
    problems += _listing_problems(order, files)
    read = {(patch.name, patch.data, patch.strip): patch for patch in known}
    parsed: list[Patch] = []
    for entry in order.entries:
        if entry.name not in files:
            continue
        source = entry.name, files[entry.name], entry.strip
        try:
            parsed.append(read.get(source) or patches.parse(*source))
        except PatchRefused as refused:
            problems += refused.problems
    manifest = None
    if manifests.FILE in files:
        manifest = manifests.parse(files[manifests.FILE], problems)
    if problems:
        raise SeriesInvalid(name, tuple(problems))
    return Series(name, folder, spec, order, tuple(parsed), manifest)


def _needed(files: Mapping[str, bytes], name: str, problems: list[Problem]) -> bytes:
    if name not in files:
        problems.append(Problem(name, "the file is missing"))
    return files.get(name, b"")


def _listing_problems(order: Order, files: Mapping[str, bytes]) -> list[Problem]:
    listed = set(order.names)
    missing = [
        Problem(f"{ORDER_FILE}:{entry.line}", f"{entry.name} is listed but is not in the folder")
        for entry in order.entries
        if entry.name not in files
    ]
    orphans = [
        Problem(name, "the patch is not listed in the series file: list it there, or remove it")
        for name in sorted(files)
        if name.endswith(PATCH_SUFFIXES) and name not in listed
    ]
    return missing + orphans


def _stale(series: Series, manifest: Manifest) -> list[Problem]:
    upstream, pinned = series.spec.upstream, manifest.upstream
    problems = [
        Problem(specs.FILE, f"{key} is {now!r}, but {then!r} was locked")
        for key, now, then in (
            ("distribution", upstream.distribution, pinned.distribution),
            ("version", upstream.version, pinned.version),
            ("root", upstream.root, pinned.root),
        )
        if now != then
    ]
    locked = {record.name: record for record in manifest.patches}
    for entry, patch in zip(series.order.entries, series.patches, strict=True):
        record = locked.pop(entry.name, None)
        if record is None:
            problems.append(Problem(entry.name, "the patch was not there when it was locked"))
        elif (record.sha256, record.strip) != (sha256(patch.data), entry.strip):
            problems.append(Problem(entry.name, "the patch changed since it was locked"))
    problems += [Problem(name, "was locked, but is no longer listed") for name in locked]
    if not problems and manifest.digest != series.digest:
        problems.append(Problem(ORDER_FILE, "the order changed since it was locked"))
    return problems
