"""The program's front door: commands in their families, behind one error boundary."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pseries import __version__
from pseries.cli import render
from pseries.cli.failures import Boundary

if TYPE_CHECKING:
    from collections.abc import Sequence


class Family(NamedTuple):
    """Commands of one subject, as a module beside this one adds them; ``title`` heads them."""

    title: str
    commands: tuple[str, ...]


FAMILIES = {
    "target": Family("Installed trees", ("apply", "status", "rollback", "recover")),
    "series": Family("Series", ("list", "show", "lint", "lock")),
    "exchange": Family("Beginnings and exchange", ("init", "capture", "import", "export")),
    "rebase": Family("The next release", ("rebase", "range-diff")),
    "upstream": Family("Releases", ("upstream",)),
    "stack": Family("Working on patches", (
        "checkout", "new", "add", "edit", "push", "pop", "goto", "top", "next", "previous",
        "applied", "unapplied", "series", "files", "patches", "diff", "refresh", "fold", "split",
        "rename", "delete", "header", "annotate", "graph", "fork", "snapshot", "undo", "redo",
    )),
    "build": Family("Exports", ("build-wheel", "build-sdist", "build-kit", "index")),
    "doctor": Family("The machine", ("doctor",)),
    "serve": Family("The engine", ("env", "serve", "smoke", "build-image")),
}  # fmt: skip
"""The modules beside this one, and the commands that each of them adds."""
_FIRST = "The main job: pseries apply SERIES SITE_PACKAGES. A series of your own: capture, or init."
_COLLECTED = 200_000
"""New objects after which Python looks for cycles among them: a syntax tree has many, and none."""


class _Program(Boundary):
    """The program; its help lists commands by family."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - Typer's
        """Write what there is, a section a family."""
        width = max(map(len, self.commands))
        for family in FAMILIES.values():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(formatter.width))
                for name in family.commands
                if name in self.commands
            ]
            if rows:
                with formatter.section(family.title):
                    formatter.write_dl(rows)


def program(words: Sequence[str] = ()) -> typer.Typer:
    """Return the program, with all commands unless ``words`` name one.

    Typer makes every command that is registered before it looks at the first word, which takes
    longer than ``pseries status`` itself; so only the family that is asked for is.
    """
    app = typer.Typer(
        name="pseries",
        help="Keep local changes to fast-moving Python packages alive.",
        cls=_Program,
        epilog=_FIRST,
        no_args_is_help=True,
        rich_markup_mode=None,  # rich takes longer to import than `status` to run
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    command = next((word for word in words if not word.startswith("-")), None)
    asked = [module for module, family in FAMILIES.items() if command in family.commands]
    for module in asked or FAMILIES:
        import_module(f"pseries.cli.{module}").register(app)
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


def expanded(words: Sequence[str]) -> list[str]:
    """Return the command line with an abbreviated command in full, as quilt takes them.

    Raises:
        BadParameter: several commands begin so.
    """
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), None)
    if at is not None and words[at] == "help":
        return [*words[:at], *words[at + 1 :], "--help"]
    known = [command for family in FAMILIES.values() for command in family.commands]
    if at is None or words[at] in known:
        return list(words)
    begun = sorted(command for command in known if command.startswith(words[at]))
    if len(begun) > 1:
        raise typer.BadParameter(f"{words[at]!r} can be {', '.join(begun)}")
    return [*words[:at], *(begun or [words[at]]), *words[at + 1 :]]


def run() -> None:
    """Entry point of the ``pseries`` command."""
    gc.set_threshold(_COLLECTED)
    try:
        words = expanded(sys.argv[1:])
    except typer.BadParameter as error:
        error.show()
        sys.exit(error.exit_code)
    program(words)(words)
