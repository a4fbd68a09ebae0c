"""Commands about series: list, show, lint, lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pseries.cli import progress, render
from pseries.cli.failures import REFUSED, fetch_command
from pseries.cli.options import IndexUrl, Json, Offline, SeriesDir, SeriesName, note_edits

if TYPE_CHECKING:
    from pseries.workflows.series.listing import Matrix, SeriesView


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    app.command("list")(list_series)
    app.command()(show)
    app.command()(lint)
    app.command()(lock)


def list_series(series_dir: SeriesDir = None, json: Json = False) -> None:
    """List the series there are, and the folder they are in.

    That folder is --series-dir, else PSERIES_DIR, else the nearest series/ above the current
    folder, else the one that ships with pseries. One alone: they are not added up.
    """
    from pseries.workflows.series import catalog, listing

    location = catalog.locate(series_dir)
    rows = listing.rows(location)
    if json:
        render.as_json({"location": location, "series": rows})
        return
    if location is None:
        render.note("no series folder was found")
        return
    render.note(f"{location.folder} ({location.reason})")
    render.table(
        (
            row.name,
            f"{row.distribution} {row.version}".strip() or "?",
            f"{row.patches} patch{'' if row.patches == 1 else 'es'}",
            f"not valid: {render.short(row.problem)}" if row.problem else render.short(row.summary),
        )
        for row in rows
    )
    if not rows:
        render.note("no series is in it: pseries init begins one, pseries import takes patches in")


def show(series: SeriesName, series_dir: SeriesDir = None, json: Json = False) -> None:
    """Show a series: release, hardware, patches, files, functions."""
    from pseries.workflows.series import catalog, listing

    view = listing.view(catalog.load(series, catalog.locate(series_dir)))
    if json:
        render.as_json(view)
    else:
        _print(view)


def _print(view: SeriesView) -> None:
    render.line(f"{view.name}: {view.summary}")
    render.table(
        row
        for row in (
            ("folder", view.folder),
            ("upstream", f"{view.distribution} {view.version}"),
            ("label", f"+{view.label}"),
            ("digest", view.digest),
            ("locked", view.locked or "yes"),
            ("after", ", ".join(view.after)),
            ("hardware", " ".join([view.hardware, *view.compute_capability]).strip()),
            ("requires", ", ".join(view.requires)),
            ("relocate", ", ".join(view.relocations)),
        )
        if row[1]
    )
    _print_operators(view.operators)
    if not view.patches:
        render.line("  the series is empty: nothing is left to apply")
    for patch in view.patches:
        render.line(f"{patch.name}: {render.short(patch.subject)}")
        if patch.upstream_status:
            render.line(f"  Upstream-Status: {render.short(patch.upstream_status, 80)}")
        render.table(
            (f"+{file.added}", f"-{file.removed}", file.path, ", ".join(file.symbols))
            for file in patch.files
        )


def _print_operators(matrix: Matrix) -> None:
    if not matrix.rows:
        return
    words = {True: "yes", False: "no", None: "?"}
    render.line("operators:")
    render.table(
        (
            ("", *matrix.architectures, ""),
            *(
                (row.name, *(words[runs] for runs in row.runs), render.short(row.note))
                for row in matrix.rows
            ),
        )
    )


def lint(
    series: SeriesName,
    series_dir: SeriesDir = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    json: Json = False,
) -> None:
    """Check headers, trailers, hashes and context of the patches.

    Also hunks whose lines stand in several places. Exit 1 if there is an error.
    """
    from pseries.workflows.series import catalog
    from pseries.workflows.series import lint as linting
    from pseries.workflows.series import release as releases
    from pseries.workflows.verbs.stack import standing_in

    loaded = catalog.load(series, catalog.locate(series_dir))
    note_edits(loaded, standing_in(Path.cwd()))
    pristine = releases.pristine_files(loaded)
    if pristine is None and not json:
        release = loaded.spec.upstream
        render.note(
            f"{release.distribution} {release.version} is not in the store as the series has it,"
            f" so look-alike places were not searched: {fetch_command(release)}"
        )
    findings = linting.lint(loaded, pristine)
    if json:
        render.as_json({"series": loaded.name, "findings": findings})
    else:
        for finding in findings:
            render.line(f"{finding.severity.value}: {finding.where}: {finding.what}")
        if not findings:
            count = len(loaded.patches)
            render.line(f"{loaded.name}: {count} patch{'' if count == 1 else 'es'}, nothing to say")
    if any(strict or finding.severity is linting.Severity.ERROR for finding in findings):
        raise typer.Exit(REFUSED)


def lock(
    series: SeriesName,
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Write manifest.json, after an edit of patches by hand.

    The series is applied to its release in a scratch tree. Verbs of a checkout do it themselves.
    """
    from pseries.workflows.series import catalog
    from pseries.workflows.series import release as releases

    location = catalog.locate(series_dir)
    with progress.reaching(offline, index_url) as means:
        locked = releases.lock_folder(series, location, means)
    if json:
        render.as_json(locked)
        return
    render.line(f"{series}: manifest.json {'written' if locked.changed else 'is up to date'}")
