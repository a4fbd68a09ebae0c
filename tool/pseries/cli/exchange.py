"""Commands that begin a series and exchange it with other tools: init, capture, import, export."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from pseries.cli import render
from pseries.cli.failures import REFUSED
from pseries.cli.options import (
    IndexUrl,
    Interpreter,
    Json,
    Offline,
    SeriesDir,
    SeriesName,
    chosen_site,
    note_edits,
)

if TYPE_CHECKING:
    from pseries.workflows.exchange.capture import Captured
    from pseries.workflows.exchange.export import Exported
    from pseries.workflows.exchange.import_ import Imported, Outcome

Variant = Annotated[
    str, typer.Option("--variant", metavar="NAME", help="Added to the name of the series.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    app.command()(init)
    app.command()(capture)
    app.command("import")(import_)
    app.command()(export)


def init(
    distribution: Annotated[
        str, typer.Argument(metavar="DISTRIBUTION", help="Name on the package index.")
    ],
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="The release to change; or NAME==VERSION.")
    ] = "",
    variant: Variant = "",
    git: Annotated[
        str, typer.Option("--git", metavar="URL", help="A repository with a tag of the release.")
    ] = "",
    path: Annotated[
        Optional[Path],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
        typer.Option("--from", metavar="PATH", help="A folder that is the release."),
    ] = None,
    tag: Annotated[str, typer.Option("--tag", metavar="TAG", help="Default: found out.")] = "",
    root: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--root",
            metavar="DIR",
            help="Folder that installs into site-packages; default: found out.",
        ),
    ] = None,
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Begin a series for a release, with no patch in it.

    The release is fetched if it is not in the store.
    """
    from pseries.cli.progress import reaching
    from pseries.workflows.exchange import init as beginning
    from pseries.workflows.series import catalog

    if git and path is not None:
        raise typer.BadParameter("--git and --from exclude each other")
    if not version:
        distribution, _, version = distribution.partition("==")
    if not version:
        raise typer.BadParameter(f"which release? init {distribution} VERSION")
    wanted = beginning.Wanted(distribution, version, _address(git), path, tag, root)
    with reaching(offline, index_url) as means:
        begun = beginning.begin(wanted, variant, catalog.locate(series_dir), means)
    if json:
        render.as_json(begun)
        return
    render.line(f"written: {begun.folder}")
    where = f"its packages lie in {begun.root}/" if begun.root else "its packages lie at the top"
    render.line(f"  {begun.distribution} {begun.version} from {begun.origin}; {where}")
    for note in begun.notes:
        render.note(note)
    render.note(
        f"  → pseries checkout {begun.series}; there: pseries new NAME, edit, pseries refresh;"
        f" or: pseries import SOURCE --into {begun.series}"
    )


# --- capture ----------------------------------------------------------------------------------


def capture(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SITE_PACKAGES] DISTRIBUTION",
            help="Installed tree, or its environment, default: the running interpreter's; and what"
            " was edited in it, as pip calls it.",
        ),
    ],
    python: Interpreter = None,
    variant: Variant = "",
    split: Annotated[
        str, typer.Option("--split", metavar="file|none", help="A patch a file, or one in all.")
    ] = "file",
    binary: Annotated[
        bool, typer.Option("--binary", help="Take binary files too, which apply refuses.")
    ] = False,
    git: Annotated[
        str, typer.Option("--git", metavar="URL", help="A repository with a tag of the release.")
    ] = "",
    root: Annotated[
        Optional[str],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
        typer.Option(
            "--root",
            metavar="DIR",
            help="Folder that installs into site-packages; default: found out.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what differs; write nothing.")
    ] = False,
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Make a series of what was edited in an installed tree.

    The tree is only read.
    """
    from pseries.cli.progress import reaching
    from pseries.workflows.exchange import capture as capturing
    from pseries.workflows.series import catalog

    if split not in capturing.SPLITS:
        raise typer.BadParameter(f"{split!r} is none of {', '.join(capturing.SPLITS)}")
    site_packages, distribution = _edited(words)
    site = chosen_site(site_packages, python, distribution)
    asked = capturing.Asked(
        site, distribution, variant, split, binary, _address(git), root, dry_run
    )
    with reaching(offline, index_url) as means:
        captured = capturing.capture(asked, catalog.locate(series_dir), means)
    if json:
        render.as_json(captured)
        return
    _print_captured(captured)


def _edited(words: list[str]) -> tuple[Path | None, str]:
    """Return the folder, if one is given, and the distribution; the folder comes first."""
    from pseries.site.distribution import site_of

    *folders, distribution = words
    if len(folders) > 1:
        raise typer.BadParameter(f"one folder and one distribution, not {len(words)} words")
    if folders:
        if not Path(folders[0]).is_dir() and Path(distribution).is_dir():
            raise typer.BadParameter("the folder comes first: capture SITE_PACKAGES DISTRIBUTION")
        return Path(folders[0]), distribution
    # A name without a slash may also be that of a package's folder below the current one.
    if "/" in distribution or any(site_of(Path(distribution)).glob("*.dist-info")):
        raise typer.BadParameter(f"say what was edited: capture {distribution} DISTRIBUTION")
    return None, distribution


def _print_captured(captured: Captured) -> None:
    render.line(
        f"{captured.distribution} {captured.version}: {captured.compared} files compared with"
        f" {captured.release}"
    )
    for patch in captured.patches:
        render.line(f"  {patch.name}")
        for edit in patch.files:
            where = f"  in {', '.join(edit.symbols[:5])}" if edit.symbols else ""
            path = render.short(edit.path, 1000)
            render.line(f"      {edit.what} {path}  +{edit.added} -{edit.removed}{where}")
    if captured.left_out:
        render.line("  not captured:")
        for problem in captured.left_out:
            render.line(f"      {render.short(str(problem), 400)}")
    for note in captured.notes:
        render.note(render.short(note, 1000))
    if not captured.folder:
        render.line("nothing was written: --dry-run")
        return
    render.line(f"written: {captured.folder}")
    if captured.verified:
        render.line("verified: to that tree the series is already applied")
    render.note(
        f"  → say in each patch why it is there (pseries header), then: pseries lint"
        f" {captured.series}"
    )


def _address(git: str) -> str:
    return str(Path(git).absolute()) if git and Path(git).is_dir() else git


# --- import -----------------------------------------------------------------------------------


def import_(
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE…", help="Folders of patches, an mbox, patch files, or a repository."
        ),
    ],
    between: Annotated[
        str,
        typer.Option("--range", metavar="REV..REV", help="Commits of the repository SOURCE."),
    ] = "",
    into: Annotated[
        str, typer.Option("--into", metavar="SERIES", help="The series that takes them.")
    ] = "",
    release: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="DISTRIBUTION[==VERSION]",
            help="Make a new series of them; without a version the release that they fit.",
        ),
    ] = "",
    variant: Variant = "",
    after: Annotated[
        str, typer.Option("--after", metavar="PATCH", help="Put them above it; default: the last.")
    ] = "",
    first: Annotated[bool, typer.Option("--first", help="Put them below all others.")] = False,
    strip: Annotated[
        Optional[int],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
        typer.Option(
            "-p", metavar="N", min=0, max=12, help="Components that names lose; default: found out."
        ),
    ] = None,
    exclude: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--exclude", metavar="GLOB", help="Leave these files out; may be repeated."),
    ] = None,
    accept_offset: Annotated[
        bool,
        typer.Option(
            "--accept-offset", help="Take hunks whose lines all stand at one other place."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")
    ] = False,
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Take patches of other tools into a series.

    All of them, or none.
    """
    from pseries.cli.progress import reaching
    from pseries.git.checkout import find
    from pseries.workflows.exchange import import_ as importing
    from pseries.workflows.exchange import sources
    from pseries.workflows.series import catalog
    from pseries.workflows.verbs import checkout, stack

    if into and (release or variant):
        raise typer.BadParameter("--into names a series that is there; --for makes a new one")
    if between and len(source) != 1:
        raise typer.BadParameter("--range is of one repository")
    if first and after:
        raise typer.BadParameter("--first and --after exclude each other")
    below: str | None = None if first else after
    here = find(Path.cwd()) is not None and not (into or release or variant)
    with contextlib.ExitStack() as held:  # no other verb comes between place, import and checkout
        if here:
            for each in source:
                sources.is_folder(each)  # before what the checkout lacks for an import
            work = held.enter_context(stack.opened(Path.cwd()))
            into, top = checkout.place_for_import(work)
            below = below if first or after else top
        asked = importing.Asked(
            tuple(source), between, into, release, variant, below, strip,
            tuple(exclude or ()), accept_offset, dry_run,
        )  # fmt: skip
        with reaching(offline, index_url) as means:
            report = importing.start(asked, catalog.locate(series_dir), means)
        if here and report.folder:
            checkout.follow_folder(work)
    if json:
        render.as_json(_document(report))
    else:
        _print_imported(report, dry_run=dry_run)
    if report.refused:
        raise typer.Exit(REFUSED)


def _document(report: Imported) -> dict[str, Any]:
    return {**report._asdict(), "refused": report.refused}


def _print_imported(report: Imported, *, dry_run: bool) -> None:
    order = render.short(", ".join(report.order), 1000)
    render.line(f"{report.series} ({report.release}), order: {order}")
    for outcome in report.patches:
        _print_outcome(outcome)
    for note in report.notes:
        render.note(render.short(note, 1000))
    counts = [
        f"{count} {fate}"
        for fate in ("taken", "already there", "refused")
        if (count := sum(each.fate.value == fate for each in report.patches))
    ]
    if report.refused:
        render.line(f"{', '.join(counts)}: nothing was written")
        render.note(f"  → {_advice(report)}")
    elif report.folder:
        render.line(f"{', '.join(counts)}; written: {report.folder}")
    else:
        why = "--dry-run" if dry_run else "every patch is there"
        render.line(f"{', '.join(counts)}; nothing was written: {why}")


def _print_outcome(outcome: Outcome) -> None:
    words: str = outcome.fate.value
    if outcome.beside:
        words += f" ({render.short(outcome.beside)})"
    elif outcome.fate.value == "taken":
        words += f", fits {outcome.how.value}"
    fits = [f"{fit.version} {fit.how.value}" for fit in outcome.fits]
    subject = render.short(outcome.subject or "no subject", 80)
    render.line(f"  {render.short(outcome.name)}: {words}: {subject}")
    for change in outcome.changes:
        render.line(f"      {render.short(change, 400)}")
    for problem in outcome.problems:
        render.line(f"      {render.short(str(problem), 400)}")
    certain = outcome.how.value == "by blob ids" or outcome.beside
    if (len(fits) > 1 and not certain) or (fits and outcome.fate.value == "refused"):
        render.line(f"      fits {', '.join(fits)}")


def _advice(report: Imported) -> str:
    refused = [each for each in report.patches if each.fate.value == "refused"]
    text = " ".join(str(problem) for each in refused for problem in each.problems)
    elsewhere = {fit.version for each in refused for fit in each.fits}
    for each in refused:
        elsewhere &= {fit.version for fit in each.fits}
    if elsewhere:
        name = report.release.partition(" ")[0]
        return (
            f"all that is refused fits {', '.join(sorted(elsewhere))}: import for it with"
            f" --for {name}=={sorted(elsewhere)[-1]}, then pseries rebase it"
        )
    if "stands at line" in text and "the release has no" not in text:
        return "if those places are right: --accept-offset"
    if "the release has no" in text:
        return (
            "fetch the release from git, which has every file, or leave files out: --exclude GLOB"
        )
    return "mend these patches, or list the others in a `series` file beside them"


# --- export -----------------------------------------------------------------------------------


def export(
    series: SeriesName,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="quilt, mbox, git-branch or fromager.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="The file or folder to write.")
    ],
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Write a series as another tool wants it.

    `pseries import` gets it back to the byte.
    """
    from pseries.cli.progress import reaching
    from pseries.workflows.exchange import export as exporting
    from pseries.workflows.series import catalog
    from pseries.workflows.verbs.stack import standing_in

    if form not in exporting.FORMS:
        raise typer.BadParameter(f"{form!r} is none of {', '.join(exporting.FORMS)}")
    location = catalog.locate(series_dir)
    loaded = catalog.load(series, location)
    note_edits(loaded, standing_in(Path.cwd()))
    with reaching(offline, index_url) as means:
        exported = exporting.export(loaded, form, output, means, location)
    if json:
        render.as_json(exported)
        return
    _print_exported(exported)


def _print_exported(exported: Exported) -> None:
    render.line(exported.path)
    render.table((name,) for name in exported.files)
    for note in exported.notes:
        render.note(note)
    render.note(f"  → {exported.usage}")
