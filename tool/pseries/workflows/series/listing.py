"""What there is to say about series without touching a target or a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import ManifestMissing, ManifestStale, SeriesInvalid
from pseries.model import manifest as manifests
from pseries.model import paths
from pseries.workflows.series import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pseries.model.diff.patch import Patch
    from pseries.model.series import Series
    from pseries.model.spec import Operator
    from pseries.workflows.series.catalog import Location


class SeriesRow(NamedTuple):
    """One series of a list; ``problem`` says why the rest is empty."""

    name: str
    folder: str
    distribution: str = ""
    version: str = ""
    patches: int = 0
    summary: str = ""
    problem: str = ""


class FileRow(NamedTuple):
    """A file that a patch touches, with lines added and removed and the symbols of its hunks."""

    path: str
    kind: str
    added: int
    removed: int
    symbols: tuple[str, ...]


class PatchRow(NamedTuple):
    """A patch of a series."""

    name: str
    subject: str
    upstream_status: str
    files: tuple[FileRow, ...]


class Matrix(NamedTuple):
    """Operators by architectures: ``True`` where it runs, ``False`` where not, ``None`` unknown."""

    architectures: tuple[str, ...]
    rows: tuple[OperatorRow, ...]


class OperatorRow(NamedTuple):
    """An operator, and whether it runs on each architecture of the matrix, in that order."""

    name: str
    runs: tuple[bool | None, ...]
    note: str


class SeriesView(NamedTuple):
    """A series in full; ``locked`` is "" where its manifest is good, else what is wrong."""

    name: str
    folder: str
    summary: str
    label: str
    after: tuple[str, ...]
    distribution: str
    version: str
    digest: str
    locked: str
    hardware: str
    compute_capability: tuple[str, ...]
    requires: tuple[str, ...]
    relocations: tuple[str, ...]
    operators: Matrix
    patches: tuple[PatchRow, ...]


def rows(location: Location | None) -> tuple[SeriesRow, ...]:
    """Return the series of a folder; one that cannot be read is a row that says so."""
    return tuple(_row(name, location) for name in catalog.names(location))


def _row(name: str, location: Location | None) -> SeriesRow:
    folder = str(catalog.folder_of(name, location))
    try:
        spec, order = catalog.load_spec(name, location)
    except SeriesInvalid as error:
        return SeriesRow(name, folder, problem=str(error.problems[0]))
    upstream = spec.upstream
    return SeriesRow(
        name, folder, upstream.distribution, upstream.version, len(order.entries), spec.summary
    )


def view(series: Series) -> SeriesView:
    """Return everything that ``show`` shows of a series."""
    spec = series.spec
    try:
        series.locked()
        locked = ""
    except (ManifestMissing, ManifestStale) as error:
        locked = str(error)
    return SeriesView(
        name=series.name,
        folder=series.folder,
        summary=spec.summary,
        label=spec.label,
        after=spec.after,
        distribution=spec.upstream.distribution,
        version=spec.upstream.version,
        digest=series.digest,
        locked=locked,
        hardware=spec.hardware.name,
        compute_capability=spec.hardware.compute_capability,
        requires=spec.packages,
        relocations=tuple(relocation.name for relocation in spec.relocations),
        operators=matrix(spec.operators),
        patches=tuple(_patch_row(patch, series.manifest) for patch in series.patches),
    )


def matrix(operators: Iterable[Operator]) -> Matrix:
    """Return what is known of operators as a table; architectures in the order they are named."""
    known = tuple(operators)
    names = [name for each in known for name in (*each.runs_on, *each.fails_on)]
    architectures = tuple(dict.fromkeys(names))
    rows = tuple(
        OperatorRow(
            each.name,
            tuple(
                True if name in each.runs_on else False if name in each.fails_on else None
                for name in architectures
            ),
            each.note,
        )
        for each in known
    )
    return Matrix(architectures, rows)


def _patch_row(patch: Patch, manifest: manifests.Manifest | None) -> PatchRow:
    records = {} if manifest is None else {record.name: record for record in manifest.patches}
    symbols = {
        file.path: _unique(hunk.symbol for hunk in file.hunks)
        for file in (records[patch.name].files if patch.name in records else ())
    }
    files = tuple(
        FileRow(
            paths.display(section.path),
            section.kind.value,
            section.added,
            section.removed,
            symbols.get(section.path, ()),
        )
        for section in patch.sections
    )
    status = patch.header.trailer("Upstream-Status") or ""
    return PatchRow(patch.name, patch.header.subject, status, files)


def _unique(names: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
