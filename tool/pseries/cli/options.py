"""Options that several commands share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

SeriesName = Annotated[
    str, typer.Argument(metavar="SERIES", help="Name of a series, or a path to its folder.")
]
SeriesDir = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
    typer.Option("--series-dir", help="Folder that holds the series folders.", show_default=False),
]
SitePackages = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Argument(
        metavar="[SITE_PACKAGES]",
        help="Installed tree; default: the running interpreter's.",
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
