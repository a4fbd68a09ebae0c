"""The only error boundary: which exit code a failure means, and what to do next."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from pseries import errors
from pseries.cli import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DONE = 0
REFUSED = 1
USAGE = 2
NEEDS_YOU = 3
DRIFTED = 4
UNREACHABLE = 5
UNHEARD = 6
# Neither 0 (a script would take a missing answer for a whole one) nor 1 (nothing was changed) nor
# 3 (something is left to do): the command ran to its end well, only its answer is lost.
INTERRUPTED = 130

CODES: dict[type[errors.PseriesError], int] = {
    errors.Refused: REFUSED,
    errors.NeedsYou: NEEDS_YOU,
    errors.Drifted: DRIFTED,
    errors.Unreachable: UNREACHABLE,
}

DEBUG_VARIABLE = "PSERIES_DEBUG"


def code_of(error: errors.PseriesError) -> int:
    """Return the exit code of the category that an error belongs to."""
    return next(code for category, code in CODES.items() if isinstance(error, category))


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)


def fetch_command(upstream: Any) -> str:
    """Return the command that fetches a release as a series wants it.

    Args:
        upstream: what says distribution, version, git, tag, root and sources.
    """
    from pseries.model.spec import SOURCES

    words = ["pseries", "upstream", "fetch", upstream.distribution, upstream.version]
    words += ["--git", upstream.git] if upstream.git else []
    words += ["--tag", upstream.tag] if upstream.tag not in ("", f"v{upstream.version}") else []
    words += ["--root", upstream.root] if upstream.root else []
    usual = SOURCES if upstream.git else SOURCES[1:]
    sources = tuple(each for each in upstream.sources if each in usual)
    if sources != usual:
        words += [word for source in sources for word in ("--source", source)]
    return " ".join(map(_quoted, words))


def hint_of(error: errors.PseriesError) -> str:
    """Return what to do next, one sentence."""
    for kind in type(error).__mro__:
        if kind in HINTS:
            return HINTS[kind](error)
    return ""


SELF_EVIDENT = (errors.StackEnd,)
"""What ends with one line, as quilt does: nothing is to be mended."""
_PATCH = "mend the patch file, or make it again with `git format-patch`"
_RECOVER = "pseries recover"
_LOOK = "see that the path exists and is yours to read and write"
_BAD_FILE = "do not use this file: get it anew, and if it stays so, report it to its publisher"
_FREE = "free space there"
_FULL = re.compile("no space left|out of disk ?space|disk quota", re.IGNORECASE)


def _about_absent(error: errors.DistributionNotFound) -> str:
    """Name the folder above, where a package's own folder was given."""
    for folder in map(Path, error.looked_in):
        if (folder / "__init__.py").is_file():
            return f"that is the folder of a package; the one that holds it: {folder.parent}"
    return "give the site-packages folder that holds it"


def _about_unknown(error: errors.SeriesNotFound) -> str:
    """Say what was given instead of a series, else where one of that or a like name is."""
    given = Path(error.name)
    if (given.parent / "series.toml").is_file():
        return f"give the folder of the series: {_quoted(str(given.parent))}"
    if given.is_dir():
        return "it is a folder without series.toml; where both are given, the series comes first"
    if error.hidden:
        return f"--series-dir {_quoted(error.hidden)} takes that one"
    first = f"did you mean {error.close[0]}?" if error.close else "see what there is: pseries list"
    return f"{first} (another folder: --series-dir DIR)"


def _about_refused(error: errors.TargetRefused) -> str:
    """Say what to do about something in a target, by what it is."""
    if error.path.partition("/")[0] == ".pseries" and error.kind != "access":
        return "pseries keeps plain files there: see what it is, and move it away"
    if error.kind == "link":
        return "reinstall the package with copies instead of links (uv: --link-mode=copy)"
    if error.kind == "access":
        return "run it as the owner of the tree, or mend its permissions"
    if error.kind == "bits":
        return f"if nothing needs these bits: chmod ug-s,-t {_quoted(f'{error.site}/{error.path}')}"
    return "see who put that there, and reinstall the package"


HINTS: dict[type[errors.PseriesError], Callable[[Any], str]] = {
    errors.PatchRefused: lambda _: _PATCH,
    errors.SeriesInvalid: lambda e: f"mend these, then: pseries lint {_quoted(e.series)}",
    errors.SeriesNotFound: _about_unknown,
    errors.SeriesFolderMissing: lambda e: (
        f"give the folder that it lies in: {_quoted(e.above)}"
        if e.above
        else f"give a folder that holds series folders, or unset {e.said_by}"
    ),
    errors.ManifestMissing: lambda e: f"pseries lock {_quoted(e.series)}",
    errors.ManifestStale: lambda e: f"if the change is yours: pseries lock {_quoted(e.series)}",
    errors.DoesNotApply: lambda _: (
        "it was made for other files: rebase the series onto this release"
    ),
    errors.NeedsBuild: lambda e: f"pseries build-wheel {_quoted(e.series)} --from-source",
    errors.NothingToApply: lambda _: "this series changes only what no wheel carries",
    errors.GitMissing: lambda _: "install git (2.25 or newer)",
    errors.GitTooOld: lambda e: f"install git {e.needed} or newer",
    errors.GitFailed: lambda e: (
        f"{_FREE}, then run it again"
        if _FULL.search(e.stderr)
        else "run it again with --debug and report it if it stays"
    ),
    errors.GitLimit: lambda _: "see that the machine is not overloaded, then run it again",
    errors.PatchRejected: lambda _: "rebase the series, or make the patch anew on this release",
    errors.ReadingsDiffer: lambda _: _PATCH,
    errors.SiteNotFound: lambda _: "give the site-packages folder, or --python EXE",
    errors.TargetRefused: _about_refused,
    errors.TargetNotWritable: lambda _: (
        "run it again as the owner of the tree, or change the image that it is built from"
    ),
    errors.TargetChanged: lambda _: "see who else changes the tree, then run it again",
    errors.BackupLost: lambda _: "reinstall the package, then: pseries rollback --forget",
    errors.TransactionInterrupted: lambda e: f"{_RECOVER} {_quoted(e.site)}",
    errors.TransactionBlocked: lambda e: f"{_RECOVER} --aside {_quoted(e.site)}",
    errors.JournalInvalid: lambda _: "reinstall the package; its .pseries folder was tampered with",
    errors.StateInvalid: lambda _: "reinstall the package and remove its .pseries folder",
    errors.StateNotOurs: lambda e: (
        f"run it again as the user {e.owner}, or remove {e.site}/.pseries if you trust nobody there"
    ),
    errors.LockedByOther: lambda _: "wait for it, or end it, then run this again",
    errors.PurgeRefused: lambda e: f"pseries status {_quoted(e.site)}",
    errors.DistributionNotFound: _about_absent,
    errors.DistributionRefused: lambda _: "reinstall it with pip or uv",
    errors.EditableInstall: lambda _: "patch the checkout, or install a release",
    errors.WrongTree: lambda _: "give the folder that is imported, or mend PYTHONPATH",
    errors.InterpreterFailed: lambda _: (
        "--python takes an interpreter: ENV/bin/python; or give the site-packages folder"
    ),
    errors.WrongRelease: lambda e: (
        f"series that fit {e.found}: {', '.join(e.fits)}"
        if e.fits
        else f"no known series fits {e.found}: pseries rebase {_quoted(e.series)} --to {e.found}"
        f" makes one, or pip install {e.distribution}=={e.wanted}"
    ),
    errors.UnknownRelocation: lambda e: f"pseries show {_quoted(e.series)}",
    errors.ForeignFile: lambda _: "a series changes files of its own distribution only",
    errors.Overlap: lambda e: f'if it is made on top of it: after = ["{e.other}"] in series.toml',
    errors.MissingBeneath: lambda e: f"pseries apply {_quoted(e.missing[0])}",
    errors.OtherDigest: lambda e: f"pseries rollback {_quoted(e.series)}, then apply this one",
    errors.OtherRelocation: lambda e: f"take it off first: pseries rollback {_quoted(e.series)}",
    errors.Drift: lambda _: (
        "reinstall the package; or, if every hunk still fits exactly, apply --accept-drift"
    ),
    errors.RecoveryNeeded: lambda e: f"{_RECOVER} {_quoted(e.site)}",
    errors.NotApplied: lambda e: f"pseries status {_quoted(e.site)}",
    errors.NotOnTop: lambda e: (
        f"take {e.above[-1]} off first: pseries rollback {_quoted(e.above[-1])}"
    ),
    errors.ChangedSince: lambda _: "put them back, or keep them aside: pseries rollback --force",
    errors.ReplacedUnderneath: lambda e: f"pseries rollback --forget {_quoted(e.series)}",
    errors.StillInPlace: lambda e: f"pseries rollback {_quoted(e.series)}",
    errors.Unplaceable: lambda e: f"pseries build-wheel {_quoted(e.series)} --from-source",
    errors.UpstreamInvalid: lambda _: "correct it and run the command again",
    errors.ArchiveRefused: lambda _: _BAD_FILE,
    errors.FolderRefused: lambda _: "give a checkout, or an untouched site-packages folder",
    errors.ReleaseTaken: lambda e: (
        f"give the folder a version of its own, such as {e.version}.post99; if it is to take that"
        " place for all of them: pseries upstream add --replace …"
    ),
    errors.ReleaseNotFound: lambda _: "check the version, or give --git URL, or add a folder",
    errors.ReleaseUnreachable: lambda _: (
        "check the network (--offline forbids it), --index-url and proxies;"
        " or pseries upstream add … from a folder"
    ),
    errors.NoSuchRelease: lambda _: "see what there is: pseries upstream list",
    errors.ReleaseNotStored: lambda e: (
        f"with the network: {fetch_command(e)}; or add it from a folder: pseries upstream add"
        f" {_quoted(e.distribution)} {_quoted(e.version)} FOLDER"
        + (f" --root {_quoted(e.root)}" if e.root else "")
    ),
    errors.FileNotStored: lambda e: (
        "run it once without --offline, which keeps the file"
        + ("; or give it: --from WHEEL" if e.filename.endswith(".whl") else "")
    ),
    errors.IndexUnreachable: lambda _: "check the network, --index-url, proxies and credentials",
    errors.IndexInvalid: lambda _: "check --index-url and pip's configuration",
    errors.RangesUnsupported: lambda _: "use an index that answers range requests",
    errors.ArtefactMismatch: lambda _: (
        "do not use this file; if upstream replaced it on purpose, remove manifest.json and lock"
    ),
    errors.StoreUnreadable: lambda e: f"remove {_quoted(e.git_dir)}, a cache, and fetch again",
    errors.StoreBusy: lambda _: "wait for the other process, or end it, then run this again",
    errors.LabelRefused: lambda _: "change `label` in series.toml, then run it again",
    errors.WheelInvalid: lambda _: _BAD_FILE,
    errors.NoWheelFits: lambda e: (
        "--python-version and --platform choose another, --all takes every one, --from names a file"
        if e.wheels
        else "give one: --from WHEEL; if the index has some, pseries lock SERIES takes them down"
    ),
    errors.FileNotListed: lambda e: (
        "check --index-url; where the index has lost it, --from WHEEL"
        if e.filename.endswith(".whl")
        else "check --index-url; the index may have lost it"
    ),
    errors.WrongWheel: lambda _: "give a wheel of that release, or name another series",
    errors.AlreadyPatched: lambda _: "use it as it is, or give the official wheel",
    errors.NoSourceTree: lambda _: (
        "put 'git' first in `sources` of series.toml, then fetch the release again"
    ),
    errors.EpochInvalid: lambda _: "unset it, or set it to seconds: git log -1 --format=%ct",
    errors.NothingToIndex: lambda _: "pseries build-wheel --output DIR, then index that folder",
    errors.FolderInTheWay: lambda _: "move it away, or choose another folder with --output",
    errors.BuildFailed: lambda e: (
        "install it, then run it again"
        if "is missing" in e.said
        else "see above what the build printed; its requirements may not be there"
    ),
    errors.SeriesUnclear: lambda _: "name the series: pseries list",
    errors.AlreadyForRelease: lambda _: "give another release: --to TAG",
    errors.SeriesExists: lambda e: f"remove or rename {_quoted(e.folder)}, then run it again",
    errors.BuiltOnOthers: lambda e: f"rebase those first, so that there is {e.missing[0]}",
    errors.RebaseInProgress: lambda e: f"pseries rebase {_quoted(e.series)} --status",
    errors.NoRebase: lambda _: "begin one: pseries rebase [SERIES] --to TAG",
    errors.RebaseNotStopped: lambda e: f"pseries rebase {_quoted(e.series)} --continue",
    errors.RebaseUnresolved: lambda _: "mend these, then: pseries rebase --continue",
    errors.RebaseInvalid: lambda _: "pseries rebase --abort, then begin anew",
    errors.RebaseNotOurs: lambda e: (
        f"run it as that user, who began it; or remove {_quoted(e.folder)} and begin anew"
    ),
    errors.SeriesBusy: lambda _: "wait for the other process, or end it, then run this again",
    errors.WorktreeRefused: lambda _: "mend the worktree, or pseries rebase --abort",
    errors.NotServed: lambda e: f"add it, or name another series: pseries show {_quoted(e.series)}",
    errors.PlaceholderOpen: lambda e: f"give it: --{e.name} {e.name.upper()}",
    errors.NotPatched: lambda e: (
        f"pseries apply {_quoted(e.series)} {_quoted(e.site)} (or serve it as it is: --no-check)"
    ),
    errors.PythonNotFound: lambda _: "name the interpreter instead of the folder: --python EXE",
    errors.MemlockRefused: lambda _: (
        "raise it where the server is started: --ulimit memlock=-1 (docker, nerdctl),"
        " LimitMEMLOCK=infinity (systemd), /etc/security/limits.conf (login)"
    ),
    errors.CommandNotStarted: lambda _: (
        "see that the engine is installed with its scripts, or name its environment: --python EXE"
    ),
    errors.ServerNotUp: lambda _: "see the server's log; while it loads, wait longer: --timeout S",
    errors.ModelUnclear: lambda _: "name the one that is meant: --model NAME",
    errors.SmokeFailed: lambda _: "see the server's log for what it did with these requests",
    errors.BuilderMissing: lambda _: "install buildah, or see what would be built: --print",
    errors.ImageRefused: lambda _: "correct it and run the command again",
    errors.ImageNotBuilt: (
        lambda _: (
            "see above what the builder said; if the base holds another release: name its series"
        )
    ),
    errors.NotACheckout: lambda _: "cd into one, or make one: pseries checkout SERIES",
    errors.CheckoutInvalid: lambda _: "save your work with git, then check the series out anew",
    errors.CheckoutInTheWay: lambda _: (
        "if it is the checkout, cd there; else give another folder: pseries checkout SERIES DIR"
    ),
    errors.CheckoutNotOurs: lambda e: (
        f"run it as that user; or, as for git: git config --global --add safe.directory"
        f" {_quoted(e.folder)}"
    ),
    errors.StoreGone: lambda e: (
        f"pseries checkout {_quoted(e.series)} in another folder fetches it again; this one then"
        " works as before"
    ),
    errors.CheckoutBusy: lambda _: "wait for it, or end it, then run this again",
    errors.PatchNotFound: lambda _: "give a name, or the beginning of just one: pseries series -v",
    errors.NameTaken: lambda _: "give another name",
    errors.Unrefreshed: lambda _: (
        "pseries refresh takes them into the top patch, git stash keeps them aside"
    ),
    errors.Unwritten: lambda _: "pseries refresh writes them; an empty patch can be deleted",
    errors.InTheWay: lambda _: "move those files away, then run this again",
    errors.CommitsMoved: lambda e: (
        f"pseries refresh --all takes them over; git reset --hard {e.expected} drops them"
    ),
    errors.BaseChanged: lambda e: (
        f"lock {_quoted(e.series)}, check it out anew beside this one, and bring the work over:"
        " pseries diff there, pseries fold here"
    ),
    errors.GitUnfinished: lambda e: (
        "go back: git bisect reset"
        if e.command == "bisect"
        else f"git {e.command} --continue, or --abort"
    ),
    errors.HeadAside: lambda _: (
        "go back: git checkout BRANCH (git branch lists them); to drop patches: pseries delete"
    ),
    errors.MessageRefused: lambda _: (
        "give other words: pseries header -e, or git commit --amend where git made the commit"
    ),
    errors.SplitRefused: lambda _: "see its files and hunks: pseries diff",
    errors.CommitsUnusable: lambda _: "make them a row again with git rebase; git reflog has all",
    errors.FolderChanged: lambda _: (
        "put it back with git, or check the series out anew beside this one"
    ),
    errors.LaterConflicts: lambda e: f"pseries goto the patch below {e.patch}, then work there",
    errors.Uncommittable: lambda _: "take it out with git, then run this again",
    errors.DoesNotFold: lambda _: "apply it by hand with git apply --3way, then: pseries refresh",
    errors.IdentityMissing: lambda _: "git config --global user.name NAME, and user.email ADDRESS",
    errors.PushStopped: lambda _: (
        "mend these files, then: pseries refresh; or pseries undo to leave it unapplied"
    ),
    errors.PushPending: lambda _: "mend them, then: pseries refresh; or: pseries undo",
    errors.Unresolved: lambda _: "mend these, then: pseries refresh",
    errors.FileNotShown: lambda _: "give its path in the worktree, or in the release",
    errors.EditorFailed: lambda _: "set EDITOR to a program that edits files",
    errors.SourceRefused: lambda _: (
        "give a folder of patches, an mbox, a patch file, or --range REV..REV of a repository"
    ),
    errors.RangeRefused: lambda e: (
        "give the folder of a git repository, or leave --range out"
        if "no git repository" in e.reason
        else f"see what there is: git -C {_quoted(e.repository)} log --oneline"
    ),
    errors.ImportUnclear: lambda e: (
        f"say it: --for {e.distribution or 'DISTRIBUTION'}==VERSION, or --into SERIES"
    ),
    errors.TagUnclear: lambda _: "give it: --tag TAG",
    errors.ExportRefused: lambda _: "choose another form: quilt holds everything",
    errors.ExportInTheWay: lambda _: "choose another name with --output, or move it away",
    errors.CaptureRefused: lambda _: "see docs/exchange.md, 'A tree that somebody edited'",
    errors.NothingToCapture: lambda e: (
        f"is this the tree that was edited? pseries status {_quoted(e.site)}"
    ),
}
"""What to do next, by kind of error."""


class Boundary(TyperGroup):
    """The command group: whatever a command raises becomes words and an exit code here."""

    def make_context(self, *words: Any, **named: Any) -> Any:
        """Read the command line up to the command; ``--version`` answers here."""
        with reported(debug=bool(os.environ.get(DEBUG_VARIABLE))):
            return super().make_context(*words, **named)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Run the command line and translate failures."""
        with reported(debug=bool(ctx.params.get("debug") or os.environ.get(DEBUG_VARIABLE))):
            return super().invoke(ctx)


@contextlib.contextmanager
def reported(*, debug: bool) -> Iterator[None]:
    """Print a failure of the body and exit with its code; with ``debug`` show the traceback."""
    try:
        with _worded(debug=debug):
            yield
    except typer.Exit as ended:
        _check_heard(ended.exit_code)
        raise
    except BaseException:
        render.lost()  # whatever is said about this says enough
        raise
    _check_heard(DONE)


def _check_heard(code: int) -> None:
    """Say so where the answer was lost; a failure of the command itself keeps its exit code.

    A reader that went away (EPIPE) had enough, so nothing is said.
    """
    error = render.lost()
    if error is None or isinstance(error, BrokenPipeError):
        return
    done = "the command did its work" if code == DONE else f"the command ended with {code}"
    render.note(f"pseries: the answer could not be written: {error.strerror or error}; {done}")
    if code == DONE:
        raise typer.Exit(UNHEARD)


def _is_gone(error: OSError) -> bool:
    """Whether the current folder is what is not there; the system then names no path.

    A pop, too, takes folders along that only patches had.
    """
    if error.errno != errno.ENOENT or error.filename:
        return False
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _about_system(number: int | None) -> str:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return _FREE
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "take another place, or become somebody who may do this there"
    if number in (errno.EEXIST, errno.ENOTDIR):
        return "a file stands where a folder is needed: give another path, or move it away"
    return _LOOK


@contextlib.contextmanager
def _worded(*, debug: bool) -> Iterator[None]:
    try:
        yield
    except errors.PseriesError as error:
        if debug:
            traceback.print_exc()
        render.note(f"pseries: {error}")
        if hint := hint_of(error):
            render.note(f"  → {hint}")
        raise typer.Exit(code_of(error)) from error
    except KeyboardInterrupt:
        render.note("pseries: interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read our output is gone; Python must not complain about it at exit.
        render.silence()
        raise typer.Exit(REFUSED) from None
    except OSError as error:
        if debug:
            traceback.print_exc()
        where = f": {error.filename}" if error.filename else ""
        if _is_gone(error):
            render.note("pseries: the current folder was removed")
            render.note("  → cd to one that is there, then run it again")
        else:
            render.note(f"pseries: {error.strerror or error}{where}")
            render.note(f"  → {_about_system(error.errno)}, then run it again")
        raise typer.Exit(REFUSED) from error
