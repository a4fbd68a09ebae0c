"""The program's front door: commands in their families, behind one error boundary."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from pseries import __version__
from pseries.cli import render
from pseries.cli.failures import Boundary

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILIES = {
    "series": ("list", "show", "lint", "lock"),
    "target": ("apply", "status", "rollback", "recover"),
    "upstream": ("upstream",),
    "rebase": ("rebase", "range-diff"),
    "build": ("build-wheel", "build-sdist", "build-kit", "index"),
}
"""The modules beside this one, and the commands that each of them adds."""


def program(words: Sequence[str] = ()) -> typer.Typer:
    """Return the program, with all commands unless ``words`` name one.

    Typer makes every command that is registered before it looks at the first word, which takes
    longer than ``pseries status`` itself; so only the family that is asked for is.
    """
    app = typer.Typer(
        name="pseries",
        help="Keep local changes to fast-moving Python packages alive.",
        cls=Boundary,
        no_args_is_help=True,
        rich_markup_mode=None,  # rich takes longer to import than `status` to run
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    command = next((word for word in words if not word.startswith("-")), None)
    asked = [family for family, commands in FAMILIES.items() if command in commands]
    for family in asked or FAMILIES:
        import_module(f"pseries.cli.{family}").register(app)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        render.line(f"pseries {__version__}")
        raise typer.Exit


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
    program(sys.argv[1:])()
