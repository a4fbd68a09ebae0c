"""The program's front door: commands in their families, behind one error boundary."""

from __future__ import annotations

from typing import Annotated

import typer

from pseries import __version__
from pseries.cli import build, rebase, render, series, target, upstream
from pseries.cli.failures import Boundary

app = typer.Typer(
    name="pseries",
    help="Keep local changes to fast-moving Python packages alive.",
    cls=Boundary,
    no_args_is_help=True,
    rich_markup_mode=None,  # rich takes longer to import than `status` to run
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
series.register(app)
target.register(app)
upstream.register(app)
rebase.register(app)
build.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        render.line(f"pseries {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an expected failure too.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Keep local changes to fast-moving Python packages alive."""


def run() -> None:
    """Entry point of the ``pseries`` command."""
    app()
