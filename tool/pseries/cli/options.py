"""Options that several commands share, spelled once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pseries.cli import render

if TYPE_CHECKING:
    from pseries.model.series import Series
    from pseries.workflows.verbs.stack import Standing


def _series_names(incomplete: str) -> list[str]:
    """Complete the name of a series in a shell."""
    from pseries.workflows.series import catalog

    return [name for name in catalog.names(catalog.locate()) if name.startswith(incomplete)]


def _patch_names(incomplete: str) -> list[str]:
    """Complete the name of a patch of the checkout around the current folder."""
    from pseries.errors import PseriesError
    from pseries.workflows.verbs import stack

    try:
        with stack.opened(Path.cwd()) as work:
            names = [entry.name for entry in work.stack.entries]
    except PseriesError:
        return []
    return [name for name in names if name.startswith(incomplete)]


SeriesName = Annotated[
    str,
    typer.Argument(
        metavar="SERIES",
        help="Name of a series, or a path to its folder.",
        autocompletion=_series_names,
    ),
]
PatchName = Annotated[
    str,
    typer.Argument(metavar="[PATCH]", help="Default: the top patch.", autocompletion=_patch_names),
]
PatchNeeded = Annotated[
    str, typer.Argument(metavar="PATCH", help="A patch.", autocompletion=_patch_names)
]
SeriesDir = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
    typer.Option(
        "--series-dir",
        help="Folder that holds the series folders; default: see pseries list.",
        show_default=False,
    ),
]
SitePackages = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Argument(
        metavar="[SITE_PACKAGES]",
        help="Installed tree, or its environment; default: the running interpreter's.",
        show_default=False,
    ),
]
Interpreter = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--python", metavar="EXE", help="Use the site-packages of this interpreter."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Offline = Annotated[bool, typer.Option("--offline", help="Forbid the network.")]
IndexUrl = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--index-url", metavar="URL", help="Package index; default: as pip is configured."
    ),
]


def is_site(word: str) -> bool:
    """Whether a lone word means a folder; the folder of a series is named for the series."""
    return Path(word).is_dir() and not (Path(word) / "series.toml").exists()


def named_site(site: Path | None, python: Path | None) -> Path | None:
    """Return the site-packages folder that is named: by its path, or its environment's."""
    if site is None:
        return None
    if python is not None:
        raise typer.BadParameter("give SITE_PACKAGES or --python, not both")
    from pseries.site.distribution import site_of

    return site_of(site)


def chosen_site(site: Path | None, python: Path | None, distribution: str | None) -> Path:
    """Return the site-packages folder that is meant.

    With a distribution, the folder in which the interpreter finds it; else its ``purelib``.
    """
    named = named_site(site, python)
    if named is not None:
        return named
    if python is None:
        _note_environment()
    from pseries.site import interpreter

    if distribution is not None:
        return interpreter.locate(python, distribution)
    return interpreter.purelib(python)


def _note_environment() -> None:
    """Say so where an environment is activated that is not the one pseries runs in."""
    active = os.environ.get("VIRTUAL_ENV", "")
    if active and Path(active).resolve() != Path(sys.prefix).resolve():
        render.note(
            "this is about the environment that pseries runs in; the active one is another:"
            f" --python {active}/bin/python"
        )


def note_edits(series: Series, here: Standing | None) -> None:
    """Say so where the current folder is a checkout of the series with edits in no patch."""
    if here is not None and here.edits and here.folder.resolve() == Path(series.folder).resolve():
        render.note(f"edits that are in no patch are left out: {', '.join(here.edits[:5])}")
        render.note("  → pseries refresh")
