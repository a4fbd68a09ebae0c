"""Commands on an installed tree: apply, status, rollback, recover."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pseries.cli import render
from pseries.cli.failures import DRIFTED
from pseries.cli.options import (
    Interpreter,
    Json,
    SeriesDir,
    SeriesName,
    SitePackages,
    chosen_site,
    is_site,
)

_SHOWN = 5
"""Names in a note, at most."""

if TYPE_CHECKING:
    from pseries.workflows.target.apply import Applied
    from pseries.workflows.target.rollback import RolledBack
    from pseries.workflows.target.status import Status


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    for command in (apply, status, rollback, recover):
        app.command()(command)


def apply(
    series: SeriesName,
    site_packages: SitePackages = None,
    python: Interpreter = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say whether it would go in; change nothing.")
    ] = False,
    relocate: Annotated[
        Optional[str],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
        typer.Option("--relocate", metavar="NAME", help="Use this [[relocate]] of the series."),
    ] = None,
    accept_drift: Annotated[
        bool,
        typer.Option(
            "--accept-drift",
            help="Go on where files are not the release's, if every hunk still fits exactly.",
        ),
    ] = False,
    series_dir: SeriesDir = None,
    json: Json = False,
) -> None:
    """Put a series into an installed tree, verified and reversible.

    All of it goes in, or nothing; `pseries rollback` takes it off.
    """
    from pseries.workflows.series import catalog
    from pseries.workflows.target import apply as applying

    location = catalog.locate(series_dir)
    loaded = catalog.load(series, location)
    distribution = loaded.spec.upstream.distribution
    done = applying.apply(
        loaded,
        chosen_site(site_packages, python, distribution),
        relocate=relocate,
        accept_drift=accept_drift,
        check=check,
        fitting=lambda: catalog.versions(distribution, location),
    )
    if json:
        render.as_json(done)
    else:
        _print_applied(done)


def _print_applied(done: Applied) -> None:
    for problem in done.skipped:
        render.note(f"skipped {problem}")
    if done.recovered:
        render.note(f"an interrupted change was {done.recovered} first")
    for name in done.void:
        render.note(f"the receipt of {name} was dropped: the package was reinstalled since")
    where = f"{done.distribution} {done.version} in {done.site}"
    relocated = f", relocated by {done.relocate}" if done.relocate else ""
    files = _counted(len(done.files))
    render.line(f"{done.series}: {done.action.value} ({files}{relocated}): {where}")
    if done.action.value == "already applied" and not done.receipt:
        render.note("these files came patched: there is no receipt here, so nothing to roll back")
    if done.unlinked:
        render.note(
            f"{_counted(len(done.unlinked))} had other names (a package cache, another"
            f" environment), which keep the old content: {', '.join(done.unlinked[:_SHOWN])}"
        )
    for path in done.signatures:
        render.note(f"{path} signed the old RECORD and was removed; a rollback brings it back")
    _print_aftermath(done)


def _counted(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _print_aftermath(done: Applied | RolledBack) -> None:
    for problem in done.warnings:
        render.note(f"not kept: {problem}")
    if done.running:
        pids = ", ".join(map(str, done.running))
        render.note(f"restart what runs from this tree, it still has the old code: {pids}")


def status(
    site_packages: SitePackages = None,
    python: Interpreter = None,
    expect: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--expect", metavar="SERIES", help="Exit 1 where this one is not applied."),
    ] = None,
    json: Json = False,
) -> None:
    """Say what is applied, and whether every file is as written.

    Exit 4 where a file is not.
    """
    from pseries.site.fs import SiteTree
    from pseries.workflows.target import status as statuses

    with SiteTree(chosen_site(site_packages, python, None)) as tree:
        found = statuses.status(tree)
    if json:
        render.as_json({"clean": found.clean, "site": found.site, "series": found.series})
    else:
        _print_status(found)
    if expect is not None:
        statuses.require(found, Path(expect).name)
    if not found.clean:
        raise typer.Exit(DRIFTED)


def _print_status(found: Status) -> None:
    if not found.series:
        render.line(f"no series is applied to {found.site}")
        if not any(Path(found.site).glob("*.dist-info")):
            render.note("no package is installed there at all: is it a site-packages folder?")
    for each in found.series:
        marks = [f"digest {each.digest[:12]}", f"since {each.applied_at}"]
        marks += [f"relocated by {each.relocate}"] if each.relocate else []
        marks += ["drift was accepted"] if each.drift_accepted else []
        verdict = "clean" if each.clean else "CHANGED"
        render.line(f"{each.series}: {verdict} ({each.distribution} {each.version})")
        render.line(f"  {', '.join(marks)}")
        if each.underneath:
            render.line(f"  {each.underneath}")
        render.table((file.now.value, file.path) for file in each.files)


def rollback(
    series: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="[SERIES]", help="Default: the one applied last.", show_default=False
        ),
    ] = None,
    site_packages: SitePackages = None,
    python: Interpreter = None,
    force: Annotated[
        bool, typer.Option("--force", help="Restore also files changed since; keep yours aside.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Touch no file: drop the receipt of a replaced package."),
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove .pseries too, if no series is left.")
    ] = False,
    json: Json = False,
) -> None:
    """Take a series off again.

    Every byte, mode and RECORD is as before.
    """
    from pseries.errors import NotApplied
    from pseries.workflows.target import rollback as rolling

    if site_packages is None and python is None and series is not None and is_site(series):
        site_packages, series = Path(series), None  # `pseries rollback SITE_PACKAGES`
    elif series is not None and is_site(series) and site_packages and not site_packages.is_dir():
        raise typer.BadParameter("the series comes first: rollback SERIES SITE_PACKAGES")
    elif series is not None and "/" in series:
        series, site_packages = _by_path(Path(series), site_packages)
    site = chosen_site(site_packages, python, None)
    try:
        done = rolling.rollback(site, series, force=force, forget=forget)
    except NotApplied as error:
        if not purge or series is not None or error.applied:
            raise
        done = rolling.RolledBack("", str(site), ())
    if purge:
        rolling.purge(site)
        done = done._replace(purged=True)
    if json:
        render.as_json(done)
        return
    if not done.series:
        render.line(f"nothing is applied to {site}, and no state folder is left there")
        return
    if done.recovered:
        render.note(f"an interrupted change was {done.recovered} first")
    for path, copy in done.kept:
        render.note(f"the changed {path} is kept as {copy}")
    what = "forgotten" if done.forgotten else f"rolled back ({_counted(len(done.files))})"
    render.line(f"{done.series}: {what}: {done.site}")
    _print_aftermath(done)


def _by_path(path: Path, site: Path | None) -> tuple[str | None, Path | None]:
    """Return series and folder where a path stands for one: a series' own, else site-packages."""
    if (path / "series.toml").exists():
        return path.resolve().name, site
    if site is None:
        return None, path
    return str(path), site


def recover(
    site_packages: SitePackages = None,
    python: Interpreter = None,
    aside: Annotated[
        bool,
        typer.Option("--aside", help="Keep files that somebody changed meanwhile, and go on."),
    ] = False,
    json: Json = False,
) -> None:
    """Finish or undo an interrupted change: all old, or all new."""
    from pseries.workflows.target import rollback as rolling

    site = chosen_site(site_packages, python, None)
    done = rolling.recover(site, aside=aside)
    if json:
        render.as_json(done)
        return
    for path, copy in done.kept:
        render.note(f"the changed {path} is kept as {copy}")
    for problem in done.warnings:
        render.note(f"not kept: {problem}")
    count = f" ({len(done.paths)} files)" if done.paths else ""
    nothing = "nothing was interrupted in"
    render.line(f"{nothing} {site}" if not done.paths else f"{done.outcome.value}{count}: {site}")
