"""Commands that carry a series on: rebase, range-diff."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from pseries.cli import render
from pseries.cli.failures import NEEDS_YOU
from pseries.cli.options import IndexUrl, Json, Offline, SeriesDir, SeriesName

if TYPE_CHECKING:
    from pseries.model.rebase import PatchOutcome
    from pseries.model.verdicts.verdict import FileVerdict
    from pseries.workflows.rebase.range_diff import Pair
    from pseries.workflows.rebase.session import Aborted, Report, Status, Stopped


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    app.command()(rebase)
    app.command("range-diff")(range_diff)


def rebase(
    series: Annotated[
        Optional[str],  # noqa: UP045 - typer reads annotations at run time on Python 3.10
        typer.Argument(
            metavar="[SERIES]",
            help="Name of a series, or a path to its folder; default: the only one that fits.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="TAG", help="The release: v0.27.0, latest.")
    ] = "",
    onto_path: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--onto-path", metavar="PATH", help="A folder that is the new release."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the table; write nothing.")
    ] = False,
    continue_: Annotated[
        bool, typer.Option("--continue", help="Take what is in the worktree and go on.")
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out the patch that stopped and go on.")
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Give up; everything is as it was before.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Say what is under way, and where it stopped.")
    ] = False,
    no_weave: Annotated[
        bool, typer.Option("--no-weave", help="Stop where only a merge by tokens is clean.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at what applies but would not run.")
    ] = False,
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Carry a series to another release.

    Writes a new series folder beside the old one.
    """
    from pseries.cli.progress import reaching
    from pseries.workflows.rebase import session as rebasing
    from pseries.workflows.series import catalog

    modes = [name for name, given in (("--to", bool(to)), ("--continue", continue_),
             ("--skip", skip), ("--abort", abort), ("--status", status)) if given]  # fmt: skip
    if len(modes) != 1:
        said = f", not {' and '.join(modes)} together" if modes else ""
        raise typer.BadParameter(f"give one of --to, --continue, --skip, --abort, --status{said}")
    beside = [name for name, given in (("--onto-path", onto_path is not None), ("--strict", strict),
              ("--dry-run", dry_run), ("--no-weave", no_weave)) if given]  # fmt: skip
    if beside and not to:
        raise typer.BadParameter(f"{beside[0]} goes with --to; {modes[0]} does as was begun")
    location = catalog.locate(series_dir)
    if status:
        _print_status(rebasing.status(series, location), json=json)
        return
    if abort:
        _print_aborted(rebasing.abort(series, location), json=json)
        return
    with reaching(offline, index_url) as means:
        if continue_:
            report = rebasing.go_on(series, location, means)
        elif skip:
            report = rebasing.skip(series, location, means)
        else:
            asked = rebasing.Asked(
                series, to, onto_path, dry_run=dry_run, weave=not no_weave, strict=strict
            )
            report = rebasing.start(asked, location, means)
    if json:
        render.as_json(_document(report))
    else:
        _print(report, dry_run=dry_run)
    if report.stopped is not None:
        raise typer.Exit(NEEDS_YOU)


# --- the report in words ----------------------------------------------------------------------


def _print(report: Report, *, dry_run: bool) -> None:
    render.line(f"{report.series} → {report.target}: {report.old} → {report.new}")
    for outcome in report.patches:
        _print_outcome(outcome)
    for note in report.notes:
        render.note(note)
    if report.stopped is not None:
        _print_stopped(report.series, report.stopped)
        return
    if any(pair.status.value != "=" for pair in report.range_diff):
        render.line()
        render.line(f"range-diff {report.series} {report.target}:")
        _print_pairs(report.range_diff)
    review = sorted(each.name for each in report.patches if each.verdict and each.verdict.review)
    if review:
        render.line(f"read these before you use the series: {', '.join(review)}")
    if report.unchanged:
        render.line(f"{report.folder} is there already, byte for byte the same")
    elif dry_run:
        render.line("nothing was written: --dry-run")
    else:
        render.line(f"written: {report.folder}")


def _print_outcome(outcome: PatchOutcome) -> None:
    verdict = "not tried" if outcome.verdict is None else str(outcome.verdict)
    words = [verdict, outcome.fate.value]
    if outcome.fate.value == "untried":
        words = ["not tried: it stands behind the patch that stopped"]
    elif outcome.resolver.value:
        words.append(outcome.resolver.value)
    render.line(f"{outcome.name}: {', '.join(words)}: {outcome.subject}")
    if outcome.upstream_status:
        render.line(f"  Upstream-Status: {outcome.upstream_status}")
    for path in outcome.unverified:
        render.line(f"  {path}: kept unverified, no release at hand has it")
    for file in outcome.files:
        _print_file(file)


def _print_file(file: FileVerdict) -> None:
    moved = f" → {file.new_path}" if file.new_path != file.path else ""
    render.line(f"  {file.path}{moved}: {file.verdict}")
    _print_evidence(file.evidence, "    ")
    for hunk in file.hunks:
        symbol = f" in {hunk.symbol}" if hunk.symbol else ""
        now = f" → {hunk.new_line}" if hunk.new_line is not None else ""
        render.line(f"    hunk {hunk.number}, line {hunk.old_line}{now}{symbol}: {hunk.verdict}")
        _print_evidence(hunk.evidence, "      ")


def _print_evidence(evidence: tuple[str, ...], indent: str) -> None:
    for piece in evidence:
        for line in piece.rstrip("\n").split("\n"):
            render.line(f"{indent}{line}".rstrip())


def _print_stopped(series: str, stopped: Stopped) -> None:
    render.line()
    render.line(f"stopped at {stopped.patch}:")
    for place in stopped.places:
        where = f"{stopped.worktree}/{place.path}" if stopped.worktree else place.path
        render.line(f"  {where}:{place.line}")
        _print_evidence(place.evidence, "    ")
        if place.upstream:
            render.line("    upstream changed there:")
            _print_evidence((place.upstream,), "      ")
    for path in stopped.recalled:
        render.line(f"  {path}: resolved as remembered; read it")
    if stopped.worktree:
        render.note(
            f"  → resolve it in {stopped.worktree} (a new file: git add --sparse), then:"
            f" pseries rebase {series} --continue; or --skip, or --abort"
        )
    else:
        render.note("  → without --dry-run it would stop here and give you a worktree")


def _print_status(found: tuple[Status, ...], *, json: bool) -> None:
    if json:
        render.as_json({"rebases": found})
        return
    if not found:
        render.line("no rebase is under way")
    for each in found:
        at = f" at {each.patch}" if each.patch else ""
        render.line(f"{each.series} → {each.target}: {each.phase.value}{at}")
        for path in each.files:
            render.line(f"  {each.worktree}/{path}")
        for decision in each.decisions:
            render.line(f"  {decision.patch}: {'skipped' if decision.skipped else 'resolved'}")
        todo = "--continue, --skip or --abort" if each.patch else "--continue or --abort"
        render.line(f"  → pseries rebase {each.series} {todo}")


def _print_aborted(aborted: Aborted, *, json: bool) -> None:
    if json:
        render.as_json(aborted)
        return
    render.line(f"{aborted.series}: the rebase is given up; everything is as it was before")
    for path in aborted.stays:
        render.note(f"{path} was changed since it was written, and stays")


# --- the report as data -----------------------------------------------------------------------


def _document(report: Report) -> dict[str, Any]:
    """Return the report without the bytes of whole files, which the new series holds."""
    return {
        "series": report.series,
        "target": report.target,
        "folder": report.folder,
        "old": report.old,
        "new": report.new,
        "unchanged": report.unchanged,
        "notes": report.notes,
        "stopped": report.stopped,
        "range_diff": report.range_diff,
        "patches": [_outcome_document(outcome) for outcome in report.patches],
    }


def _outcome_document(outcome: PatchOutcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "subject": outcome.subject,
        "verdict": outcome.verdict,
        "fate": outcome.fate,
        "resolver": outcome.resolver,
        "unverified": outcome.unverified,
        "upstream_status": outcome.upstream_status,
        "dropped": outcome.dropped,
        "files": [
            {
                "path": file.path,
                "new_path": file.new_path,
                "verdict": file.verdict,
                "evidence": file.evidence,
                "hunks": file.hunks,
                "conflict": file.conflict,
            }
            for file in outcome.files
        ],
    }


# --- range-diff -------------------------------------------------------------------------------


def range_diff(
    old: SeriesName,
    new: Annotated[str, typer.Argument(metavar="OTHER", help="The series to compare it with.")],
    series_dir: SeriesDir = None,
    json: Json = False,
) -> None:
    """Compare two series patch by patch.

    = equal, ! changed, < only in SERIES, > only in OTHER.
    """
    from pseries.workflows.rebase import range_diff as comparing
    from pseries.workflows.series import catalog

    location = catalog.locate(series_dir)
    patches = [catalog.load(name, location).patches for name in (old, new)]
    pairs = comparing.range_diff(*patches)
    if json:
        render.as_json({"old": old, "new": new, "pairs": pairs})
    else:
        _print_pairs(pairs)


def _print_pairs(pairs: tuple[Pair, ...]) -> None:
    for pair in pairs:
        sides = [f"{side.number}: {side.name}" if side else "-" for side in (pair.old, pair.new)]
        place = pair.new or pair.old
        subject = place.subject if place else ""
        render.line(f"{sides[0]} {pair.status.value} {sides[1]}  {subject}")
        for line in pair.diff:
            render.line(f"    {line}".rstrip())
