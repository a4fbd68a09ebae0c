"""The doctor: what a machine and an environment lack for a series."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pseries.cli import render
from pseries.cli.failures import REFUSED
from pseries.cli.options import Interpreter, Json, SeriesDir, SitePackages, is_site, named_site

if TYPE_CHECKING:
    from pseries.workflows.runtime.calls import Compared
    from pseries.workflows.runtime.doctor import Check, Report

_MOST_UNKNOWN = 8


def register(app: typer.Typer) -> None:
    """Add the command of this family."""
    app.command()(doctor)


def doctor(
    series: Annotated[
        Optional[str],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
        typer.Argument(
            metavar="[SERIES]",
            help="Default: say which series fit, and the facts.",
            show_default=False,
        ),
    ] = None,
    site_packages: SitePackages = None,
    python: Interpreter = None,
    all_files: Annotated[
        bool,
        typer.Option(
            "--all-files",
            help="Compare the calls of all files of the engine: up to half a minute.",
        ),
    ] = False,
    series_dir: SeriesDir = None,
    json: Json = False,
) -> None:
    """Say what a machine and an environment lack.

    Packages and calls into them, accelerators, limits, disk, git. Exit 1 if a need is not met.
    """
    from pseries.workflows.runtime import doctor as doctors
    from pseries.workflows.series import catalog

    if site_packages is None and series is not None and is_site(series):
        site_packages, series = Path(series), None  # `pseries doctor SITE_PACKAGES`
    site_packages = named_site(site_packages, python)
    if all_files and series is None:
        raise typer.BadParameter("--all-files needs a SERIES, which says what packages count")
    location = catalog.locate(series_dir)
    report = doctors.examine(
        None if series is None else catalog.load(series, location),
        catalog.releases(location),
        site=site_packages,
        python=python,
        every_file=all_files,
    )
    if json:
        render.as_json({**report._asdict(), "met": report.met})
    else:
        _print(report)
    if not report.met:
        raise typer.Exit(REFUSED)


def _print(report: Report) -> None:
    render.note(f"{report.series or 'no series'}: {report.site}")
    render.table((check.verdict.value, check.name, _said(check)) for check in report.checks)
    for check in report.checks:
        if check.remedy:
            render.line(f"  → {check.name}: {render.short(check.remedy, 400)}")
    if report.calls is not None:
        _print_calls(report.calls)


def _said(check: Check) -> str:
    """Return what was found, and what was wanted unless that is the same."""
    found = render.short(check.found)
    if not check.wanted or check.wanted in check.found:
        return found
    return f"{found}; wanted: {render.short(check.wanted)}"


def _print_calls(compared: Compared) -> None:
    for misfit in compared.bound.misfits:
        for each in misfit.misfits:
            text = f"{misfit.callee}(): {each.fault.value}: {each.what}"
            render.line(f"{misfit.path}:{misfit.line}: {text}")
    for misfit in compared.mended:
        what = "; ".join(each.what for each in misfit.misfits)
        render.note(f"the series mends {misfit.path}:{misfit.line}: {misfit.callee}(): {what}")
    unknown = Counter(problem.what for problem in compared.bound.unknown)
    for what, times in unknown.most_common(_MOST_UNKNOWN):
        render.note(f"not compared: {render.short(what)}{f', {times} times' if times > 1 else ''}")
    if len(unknown) > _MOST_UNKNOWN:
        render.note(f"not compared: and {len(unknown) - _MOST_UNKNOWN} others (--json has all)")
