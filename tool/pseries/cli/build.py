"""Commands that export: build-wheel, build-sdist, build-kit, index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pseries.cli import render
from pseries.cli.options import IndexUrl, Json, Offline, SeriesDir, note_edits
from pseries.cli.progress import reaching

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pseries.errors import Problem
    from pseries.export.wheel import Difference
    from pseries.model.series import Series
    from pseries.workflows.exports.build import BuiltWheel
    from pseries.workflows.series.means import Means

MaybeSeries = Annotated[
    Optional[str],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
    typer.Argument(
        metavar="[SERIES]",
        help="Name of a series, or a path to its folder; default: the only one there is.",
        show_default=False,
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="DIR", file_okay=False, help="Folder that the result goes to."
    ),
]
From = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--from", metavar="WHEEL|URL", help="Use this wheel instead of the index's."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    app.command("build-wheel")(build_wheel)
    app.command("build-sdist")(build_sdist)
    app.command("build-kit")(build_kit)
    app.command("index")(index)


def build_wheel(
    series: MaybeSeries = None,
    given: From = None,
    python_version: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--python-version", metavar="X.Y", help="The wheel for it; default: the running one."
        ),
    ] = None,
    platform: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--platform",
            metavar="TAG",
            help="The wheel for it: aarch64, manylinux_2_28_x86_64; default: this machine.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Patch every wheel of the release.")
    ] = False,
    from_source: Annotated[
        bool,
        typer.Option("--from-source", help="Build from patched sources, with PEP 517."),
    ] = False,
    output: Output = Path("dist"),
    relocate: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--relocate", metavar="NAME", help="Use a [[relocate]] of the series."),
    ] = None,
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Write the official wheel with the series in it.

    All else stays as upstream built it.
    """
    from pseries.workflows.exports import build, platforms

    _check_choice(
        {
            "--from": given is not None,
            "--all": everything,
            "--python-version/--platform": bool(python_version or platform),
            "--from-source": from_source,
        }
    )
    _check_python(python_version)
    loaded = _series(series, series_dir, given)
    if from_source:  # its output is the backend's; a bar would be drawn over it
        with reaching(offline, index_url, bars=False) as means:
            _from_source(loaded, output, means, json=json)
        return
    wanted = platforms.Wanted(python_version, platform, everything)
    built: list[BuiltWheel] = []
    try:
        with reaching(offline, index_url) as means:
            for wheel in build.build_wheels(
                loaded, output, given=given, wanted=wanted, relocate=relocate, means=means
            ):
                built.append(wheel)
    finally:  # what is done is said, also when a later wheel of several fails
        if json and built:
            render.as_json(built)
        for wheel in () if json else built:
            _print_wheel(wheel)
    if not json:
        release = loaded.spec.upstream.version
        render.note(
            f"pins: =={release} takes {built[-1].version}; ==={release} and hashes of requirements"
            " do not"
        )


def _from_source(series: Series, output: Path, means: Means, *, json: bool) -> None:
    from pseries.workflows.exports import build_source

    built = build_source.build_wheel(series, output, means=means)
    if json:
        render.as_json(built)
        return
    render.line(str(built.path))
    _note_skipped(built.skipped)


def _check_choice(options: Mapping[str, bool]) -> None:
    chosen = [name for name, used in options.items() if used]
    if len(chosen) > 1:
        raise typer.BadParameter(f"{' and '.join(chosen)} exclude each other")


def _check_python(version: str | None) -> None:
    if version is None:
        return
    parts = version.split(".")
    if not 1 < len(parts) < 4 or not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(f"{version!r} is not a Python version such as 3.12")


def _series(name: str | None, series_dir: Path | None, given: str | None = None) -> Series:
    from pseries.workflows.exports import build
    from pseries.workflows.rebase import choice
    from pseries.workflows.series import catalog
    from pseries.workflows.verbs.stack import standing_in

    if given is not None:
        build.given_path(given)  # before it is taken for a file of some other release
    location = catalog.locate(series_dir)
    here = standing_in(Path.cwd())
    if name is None and given is None and here is not None:
        name = str(here.folder)
    loaded = catalog.load(name or choice.only_series(location, given), location)
    note_edits(loaded, here)
    return loaded


def _print_wheel(wheel: BuiltWheel) -> None:
    render.line(str(wheel.path))
    _print_differences(wheel.differences)
    _note_skipped(wheel.skipped)
    for signature in wheel.dropped_signatures:
        render.note(f"{signature} was dropped: a signature does not survive a change of RECORD")
    if wheel.replaced:
        render.note(
            "it replaces another wheel of that name, and pip takes equal versions for the same:"
            " pip install --force-reinstall, or raise `label` in series.toml"
        )
    if not wheel.pinned:
        render.note(
            f"{wheel.upstream} is not pinned by the manifest; its RECORD and the hashes of the"
            f" touched files were verified. sha256 {wheel.upstream_sha256}"
        )


def _print_differences(differences: Iterable[Difference]) -> None:
    render.table((difference.what, difference.name) for difference in differences)


def _note_skipped(skipped: Iterable[Problem]) -> None:
    for problem in skipped:
        render.note(f"skipped {problem}")


def build_sdist(
    series: MaybeSeries = None,
    output: Output = Path("dist"),
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Write a source distribution with the series in it."""
    from pseries.workflows.exports import build_sdist

    loaded = _series(series, series_dir)
    with reaching(offline, index_url) as means:
        built = build_sdist.build_sdist(loaded, output, means=means)
    if json:
        render.as_json(built)
        return
    render.line(str(built.path))
    _print_differences(built.differences)
    _note_skipped(built.skipped)
    if built.variables:
        render.note("build it with its version fixed, or pip may refuse what comes out:")
        render.note(f"  {' '.join(built.variables)} pip wheel --no-deps {built.path}")


def build_kit(
    series: MaybeSeries = None,
    given: From = None,
    output: Output = Path("dist"),
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Write a kit, folder and zip, that patches a host.

    It needs Python there, but no network, git or pseries.
    """
    from pseries.workflows.exports import build_kit

    loaded = _series(series, series_dir, given)
    with reaching(offline, index_url) as means:
        built = build_kit.build_kit(loaded, output, given=given, means=means)
    if json:
        render.as_json(built)
        return
    render.line(str(built.folder))
    render.line(str(built.archive))
    render.table((path,) for path in built.files)
    _note_skipped(built.skipped)
    render.note(f"on the host: python3 {built.folder.name}/apply.py --check, then --apply")


def index(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with wheels and sdists.")],
    json: Json = False,
) -> None:
    """Write a package index for the wheels in a folder.

    Any web server can serve it.
    """
    from pseries.export import index as indexes

    files = indexes.build(folder)
    if json:
        render.as_json(files)
        return
    render.line(str(folder / indexes.FOLDER))
    render.table((file.filename, file.sha256) for file in files)
    render.note(f"serve {folder}, then: pip install --extra-index-url URL/{indexes.FOLDER}/ …")
