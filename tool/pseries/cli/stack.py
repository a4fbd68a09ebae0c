"""quilt's verbs on a checkout: a git worktree with one commit a patch."""

from __future__ import annotations

import contextlib
import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from pseries.cli import progress, render
from pseries.cli.options import (
    IndexUrl,
    Json,
    Offline,
    PatchName,
    PatchNeeded,
    SeriesDir,
    SeriesName,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pseries.workflows.verbs.push import Moved
    from pseries.workflows.verbs.refresh import Refreshed
    from pseries.workflows.verbs.stack import Work

Files = Annotated[Optional[list[str]], typer.Argument(metavar="[FILE]...", show_default=False)]  # noqa: UP045


def register(app: typer.Typer) -> None:
    """Add the commands of this family."""
    for verb in (
        checkout, new, add, edit, push, pop, goto, top, applied, unapplied, series, files,
        patches, diff, refresh, fold, split, rename, delete, header, annotate, graph, fork,
        snapshot, undo, redo,
    ):  # fmt: skip
        app.command()(verb)
    app.command("next")(next_patch)
    app.command("previous")(previous_patch)


def checkout(
    name: SeriesName,
    folder: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(metavar="[DIR]", help="Default: the series' name.", show_default=False),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="All files, not just the folders that patches touch.")
    ] = False,
    series_dir: SeriesDir = None,
    offline: Offline = False,
    index_url: IndexUrl = None,
    json: Json = False,
) -> None:
    """Make a git worktree of the release, a commit for each patch."""
    from pseries.workflows.series import catalog
    from pseries.workflows.series import release as releases
    from pseries.workflows.verbs import checkout as checking

    location = catalog.locate(series_dir)
    loaded = catalog.load(name, location)
    loaded.locked()
    with progress.reaching(offline, index_url) as means:
        store, release = releases.fetch(loaded, means)
    where = folder or Path(loaded.name)
    stack = checking.check_out(loaded, location, store, release, where, full=full)
    if json:
        names = [entry.name for entry in stack.entries]
        render.as_json({"series": loaded.name, "folder": where.absolute(), "patches": names})
        return
    count = len(stack.entries)
    render.line(f"{where}: {count} patch{'' if count == 1 else 'es'} applied")
    begin = "" if count else "pseries new NAME, "
    render.note(f"  → cd {where}; {begin}edit, then: pseries refresh")


# --- which patches are applied ----------------------------------------------------------------


def push(
    words: Annotated[
        str, typer.Argument(metavar="[N|PATCH]", help="How many, or up to which.")
    ] = "",
    everything: Annotated[bool, typer.Option("-a", "--all", help="All patches.")] = False,
    json: Json = False,
) -> None:
    """Apply the next patch, N patches, all, or all up to PATCH."""
    from pseries.workflows.verbs import push as pushing

    name, count = _counted(words)
    with _opened() as work:
        moved = pushing.push(work, words=name, count=count, everything=everything)
        _say_moved(moved, json=json)


def pop(
    words: Annotated[
        str, typer.Argument(metavar="[N|PATCH]", help="How many, or down to which.")
    ] = "",
    everything: Annotated[bool, typer.Option("-a", "--all", help="All patches.")] = False,
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Throw away edits; undo brings them back.")
    ] = False,
    json: Json = False,
) -> None:
    """Take the top patch off, N patches, all, or all above PATCH."""
    from pseries.workflows.verbs import push as pushing

    name, count = _counted(words)
    with _opened() as work:
        moved = pushing.pop(work, words=name, count=count, everything=everything, force=force)
        _say_moved(moved, json=json)


def goto(patch: PatchNeeded, json: Json = False) -> None:
    """Push or pop until PATCH is on top."""
    from pseries.workflows.verbs import push as pushing

    with _opened() as work:
        _say_moved(pushing.goto(work, patch), json=json)


def _counted(words: str) -> tuple[str, int]:
    """Tell a count of patches from a patch's name: quilt's rule, digits alone are a count."""
    if not (words.isascii() and words.isdecimal() and len(words) < 4):
        return words, 1
    if not int(words):
        raise typer.BadParameter("give a number of patches from 1 on")
    return "", int(words)


def _say_moved(moved: Moved, *, json: bool) -> None:
    if json:
        render.as_json(moved)
        return
    for name in moved.popped:
        render.line(f"removed {name}")
    for name in moved.pushed:
        render.line(f"applied {name}")
    render.line(f"now at {moved.top}" if moved.top else "no patch is applied")


def top(json: Json = False) -> None:
    """Print the top patch."""
    _print_names(lambda work: (work.stack.entries[work.number("")].name,), json=json)


def next_patch(patch: PatchName = "", json: Json = False) -> None:
    """Print the patch after the top one, or after PATCH."""
    from pseries.workflows.verbs import stack_view

    _print_names(lambda work: (stack_view.neighbour(work, patch, 1),), json=json)


def previous_patch(patch: PatchName = "", json: Json = False) -> None:
    """Print the patch before the top one, or before PATCH."""
    from pseries.workflows.verbs import stack_view

    _print_names(lambda work: (stack_view.neighbour(work, patch, -1),), json=json)


def applied(json: Json = False) -> None:
    """List the patches that are applied; exit 1 where none is."""
    from pseries.errors import StackEnd
    from pseries.workflows.verbs.stack import EMPTY

    def names(work: Work) -> tuple[str, ...]:
        if not work.stack.top:
            raise StackEnd(EMPTY)
        return tuple(entry.name for entry in work.stack.applied)

    _print_names(names, json=json)


def unapplied(json: Json = False) -> None:
    """List the patches that are not applied; exit 1 where all are."""
    from pseries.errors import StackEnd

    def names(work: Work) -> tuple[str, ...]:
        if not work.stack.unapplied:
            raise StackEnd("the series is fully applied")
        return tuple(entry.name for entry in work.stack.unapplied)

    _print_names(names, json=json)


def series(
    verbose: Annotated[
        bool, typer.Option("-v", help="Mark applied patches with +, the top one with =.")
    ] = False,
    json: Json = False,
) -> None:
    """List all patches of the series."""
    from pseries.workflows.verbs import stack_view

    with _opened() as work:
        rows = stack_view.series(work)
    if json:
        render.as_json({"series": rows})
        return
    for row in rows:
        mark = "=" if row.top else "+" if row.applied else " "
        render.line(f"{mark} {row.name}" if verbose else row.name)


def _print_names(names: Callable[[Work], tuple[str, ...]], *, json: bool) -> None:
    with _opened() as work:
        found = names(work)
    if json:
        render.as_json({"patches": found})
        return
    for name in found:
        render.line(name)


# --- what is in them --------------------------------------------------------------------------


def files(
    patch: PatchName = "",
    everything: Annotated[bool, typer.Option("-a", "--all", help="Of all applied.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", help="Show A, M or D: added, modified, deleted.")
    ] = False,
    json: Json = False,
) -> None:
    """List the files that the top patch, or PATCH, changes."""
    from pseries.workflows.verbs import stack_view

    with _opened() as work:
        rows = stack_view.files(work, patch, everything=everything)
    if json:
        render.as_json({"files": rows})
        return
    for row in rows:
        about = f"{row.kind} " if verbose else ""
        render.line(f"{about}{row.path}")


def patches(
    file: Annotated[str, typer.Argument(metavar="FILE")],
    json: Json = False,
) -> None:
    """List the patches that change FILE; exit 1 where none does."""
    from pseries.errors import StackEnd
    from pseries.workflows.verbs import stack_view

    def names(work: Work) -> tuple[str, ...]:
        found = stack_view.patches(work, stack_view.inside(work, file, Path.cwd()))
        if not found:
            raise StackEnd(f"no patch changes {file}")
        return found

    _print_names(names, json=json)


def diff(
    names: Files = None,
    edits: Annotated[bool, typer.Option("-z", help="Only what no patch has yet.")] = False,
    patch: Annotated[str, typer.Option("-P", metavar="PATCH", help="Another patch.")] = "",
    since_snapshot: Annotated[
        bool, typer.Option("--snapshot", help="What changed since `pseries snapshot`.")
    ] = False,
) -> None:
    """Show the top patch with the edits on it."""
    from pseries.workflows.verbs import stack_view

    with _opened() as work:
        shown = [stack_view.inside(work, name, Path.cwd()) for name in names or ()]
        if since_snapshot:
            text = stack_view.since(work, shown)
        else:
            text = stack_view.diff(work, shown, words=patch, edits=edits)
    render.data(text)
    if shown and not text:
        render.note(f"nothing is changed in {', '.join(shown)}")


def annotate(
    file: Annotated[str, typer.Argument(metavar="FILE")],
    json: Json = False,
) -> None:
    """Show which patch each line of FILE comes from."""
    from pseries.model import paths
    from pseries.workflows.verbs import stack_view

    with _opened() as work:
        lines = stack_view.annotate(work, stack_view.inside(work, file, Path.cwd()))
    known = list(dict.fromkeys(line.patch for line in lines if line.patch))
    if json:
        rows = [{**line._asdict(), "text": paths.decode(line.text)} for line in lines]
        render.as_json({"lines": rows})
        return
    for line in lines:
        mark = str(known.index(line.patch) + 1) if line.patch else ""
        render.line(f"{mark}\t{line.text.decode('utf-8', 'backslashreplace')}")
    for number, name in enumerate(known, 1):
        render.note(f"{number}\t{name}")


def graph(
    dot: Annotated[bool, typer.Option("-T", "--dot", help="In the language of Graphviz.")] = False,
    json: Json = False,
) -> None:
    """Show which applied patch needs which.

    One needs another if its hunks cover lines that the other brought.
    """
    from pseries.workflows.verbs import stack_view

    with _opened() as work:
        edges = stack_view.graph(work)
        names = [entry.name for entry in work.stack.applied]
    if json:
        render.as_json({"patches": names, "needs": edges})
    elif dot:
        render.line("digraph series {")
        for name in names:
            render.line(f'  "{name}";')
        for edge in edges:
            render.line(f'  "{edge.patch}" -> "{edge.on}";')
        render.line("}")
    else:
        for name in names:
            render.line(name)
            for edge in edges:
                if edge.patch == name:
                    render.line(f"  needs {edge.on} ({', '.join(edge.files)})")


def snapshot() -> None:
    """Remember the worktree, for `pseries diff --snapshot`."""
    from pseries.workflows.verbs import stack_view

    with _opened() as work:
        stack_view.remember(work)
    render.line("remembered; see what changes from here on: pseries diff --snapshot")


# --- changing them ----------------------------------------------------------------------------


def new(
    name: Annotated[str, typer.Argument(metavar="[PATCH]", help="Name of its file.")] = "",
    subject: Annotated[
        str, typer.Option("-m", "--message", metavar="TEXT", help="Its subject.")
    ] = "",
    json: Json = False,
) -> None:
    """Put a new, empty patch on top.

    Edits in the worktree stay for `pseries refresh`.
    """
    from pseries.workflows.verbs import reshape

    if not name and not subject:
        raise typer.BadParameter("give the patch a name, or a subject with -m")
    with _opened() as work:
        made = reshape.new(work, name, _author(work), subject)
    if json:
        render.as_json({"patch": made})
        return
    render.line(f"{made} is on top")


def add(names: Annotated[list[str], typer.Argument(metavar="FILE...")], json: Json = False) -> None:
    """Let the next refresh take new files.

    Files of the release need no adding.
    """
    from pseries.workflows.verbs import stack_view

    with _opened() as work:
        shown = [stack_view.inside(work, name, Path.cwd()) for name in names]
        stack_view.track(work, shown)
    if json:
        render.as_json({"files": shown})
        return
    for name in shown:
        render.line(f"{name} is tracked")


def edit(names: Annotated[list[str], typer.Argument(metavar="FILE...")]) -> None:
    """Open files in your editor and track them."""
    from pseries.workflows.verbs import stack_view

    with _opened() as work:
        shown = [stack_view.inside(work, name, Path.cwd()) for name in names]
        stack_view.show(work, shown)
        folder = work.checkout.folder
    _run_editor([str(folder / name) for name in shown])
    with _opened() as work:
        stack_view.track(work, [name for name in shown if (folder / name).is_file()])


def refresh(
    patch: PatchName = "",
    everything: Annotated[
        bool, typer.Option("-a", "--all", help="Take over the commits that plain git made.")
    ] = False,
    json: Json = False,
) -> None:
    """Take the edits into the top patch, or PATCH.

    The series folder is written and locked.
    """
    from pseries.workflows.verbs import refresh as refreshing

    if patch and everything:
        raise typer.BadParameter("give a patch or --all, not both")
    with _opened() as work:
        done = refreshing.refresh_all(work) if everything else refreshing.refresh(work, patch)
        _say_refreshed(work, done, json=json)


def fold(
    source: Annotated[
        str, typer.Argument(metavar="[FILE|PATCH]", help="- is standard input.")
    ] = "-",
    strip: Annotated[int, typer.Option("-p", metavar="N", min=0, max=9, help="As patch -p.")] = 1,
    json: Json = False,
) -> None:
    """Apply a diff, or an unapplied patch, to the top patch."""
    from pseries.errors import PatchNotFound
    from pseries.workflows.verbs import reshape

    with _opened() as work:
        if source == "-":
            done = reshape.fold(work, "standard input", sys.stdin.buffer.read(), strip)
        elif Path(source).is_file():
            done = reshape.fold(work, source, Path(source).read_bytes(), strip)
        else:
            try:
                done = reshape.fold_patch(work, source)
            except PatchNotFound as error:
                if error.close:
                    raise
                reason = "no file and no patch has this name"
                raise FileNotFoundError(errno.ENOENT, reason, source) from error
        _say_refreshed(work, done, json=json)


def split(
    name: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new patch.")],
    choices: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE[:HUNKS]...",
            help="What it gets: a/b.py, or its hunks 1, 3, 4: a/b.py:1,3-4",
        ),
    ],
    json: Json = False,
) -> None:
    """Move files or hunks of the top patch to a new one above it."""
    from pseries.workflows.verbs import reshape, stack_view

    with _opened() as work:
        chosen = []
        for word in choices:
            path, hunks = _hunks(word)
            chosen.append(reshape.Choice(stack_view.inside(work, path, Path.cwd()), hunks))
        _say_refreshed(work, reshape.split(work, name, chosen), json=json)


def _hunks(word: str) -> tuple[str, tuple[int, ...]]:
    """Read ``FILE``, or ``FILE:1,3-4``."""
    path, colon, numbers = word.rpartition(":")
    if not colon or not numbers or set(numbers) - set("0123456789,-"):
        return word, ()
    found: list[int] = []
    for part in numbers.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or len(part) > 15:
            raise typer.BadParameter(f"{numbers!r} is no list of hunks such as 1,3-4")
        end = int(last or first)
        if not 1 <= int(first) <= end <= 100_000:
            raise typer.BadParameter(f"{part!r} is no range of hunks")
        found += range(int(first), end + 1)
    return path, tuple(found)


def rename(
    name: Annotated[str, typer.Argument(metavar="NEW")],
    patch: Annotated[str, typer.Option("-P", metavar="PATCH", help="Default: the top patch.")] = "",
    json: Json = False,
) -> None:
    """Give the top patch, or PATCH, another name."""
    from pseries.workflows.verbs import reshape

    with _opened() as work:
        _say_refreshed(work, reshape.rename(work, patch, name), json=json)


def fork(
    name: Annotated[str, typer.Argument(metavar="[NEW]")] = "",
    json: Json = False,
) -> None:
    """Go on with the top patch under a new name.

    The old version is left to git and `pseries undo`.
    """
    from pseries.workflows.verbs import reshape

    with _opened() as work:
        _say_refreshed(work, reshape.fork(work, name), json=json)


def delete(patch: PatchName = "", json: Json = False) -> None:
    """Remove the top patch, or PATCH, from the series.

    `pseries undo` brings it back.
    """
    from pseries.workflows.verbs import reshape

    with _opened() as work:
        _say_refreshed(work, reshape.delete(work, patch), json=json)


def header(
    patch: PatchName = "",
    append: Annotated[bool, typer.Option("-a", help="Append standard input.")] = False,
    replace: Annotated[bool, typer.Option("-r", help="Replace by standard input.")] = False,
    in_editor: Annotated[bool, typer.Option("-e", help="Edit it.")] = False,
    json: Json = False,
) -> None:
    """Print or change what the top patch, or PATCH, says of itself."""
    from pseries.workflows.verbs import reshape

    if append + replace + in_editor > 1:
        raise typer.BadParameter("give one of -a, -r, -e")
    with _opened() as work:
        name = work.stack.entries[work.number(patch)].name
        text = reshape.header(work, name)
        if not (append or replace or in_editor):
            if json:
                render.as_json({"patch": name, "header": text})
            else:
                render.line(text.rstrip("\n"))
            return
        if in_editor:
            text = _edited(text)
        else:
            text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        _say_refreshed(work, reshape.set_header(work, name, text, append=append), json=json)


def undo(
    listed: Annotated[bool, typer.Option("--list", help="Say what can be undone.")] = False,
    json: Json = False,
) -> None:
    """Take the last verb back.

    Checkout and series folder are as they were before it.
    """
    from pseries.workflows.verbs import undo as undoing

    with _opened() as work:
        if listed:
            _print_verbs(undoing.verbs(work), json=json)
            return
        verb = undoing.undo(work)
        _say_turned(work, "undone", verb, json=json)


def redo(json: Json = False) -> None:
    """Do again what was undone last."""
    from pseries.workflows.verbs import undo as undoing

    with _opened() as work:
        verb = undoing.redo(work)
        _say_turned(work, "redone", verb, json=json)


# --- means ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened() -> Iterator[Work]:
    """Give the checkout around the current folder; what was noted on the way is printed last."""
    from pseries.workflows.verbs import stack

    with stack.opened(Path.cwd()) as work:
        try:
            yield work
        finally:
            for note in work.notes:
                render.note(note)


def _author(work: Work) -> str:
    import os

    from pseries.git.checkout import identity

    return identity(os.environ, work.checkout.git_dir)


def _say_refreshed(work: Work, done: Refreshed, *, json: bool) -> None:
    if json:
        render.as_json({**done._asdict(), "top": work.stack.top, "locked": work.stack.locked})
        return
    for patch in done.patches:
        was = f"renamed from {patch.was}" if patch.was else ""
        changed = "" if was and patch.revision.value == "none" else patch.revision.value
        render.line(f"{patch.name}: {', '.join(each for each in (was, changed) if each)}")
    if not done.patches:
        render.line(f"{done.patch}: nothing changed" if done.patch else "nothing changed")
    for name in done.empty:
        render.note(f"{name} changes nothing yet, so it has no file")
    for name in done.untracked:
        render.note(f"{name} is in no patch: pseries add {name}")


def _say_turned(work: Work, what: str, verb: str, *, json: bool) -> None:
    at = work.stack.entries[work.stack.top - 1].name if work.stack.top else ""
    if json:
        render.as_json({what: verb, "top": at})
        return
    render.line(f"{what}: {verb}")
    render.line(f"now at {at}" if at else "no patch is applied")


def _print_verbs(verbs: tuple[str, ...], *, json: bool) -> None:
    if json:
        render.as_json({"verbs": verbs})
        return
    for verb in verbs:
        render.line(verb)


def _edited(text: str) -> str:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="pseries-") as folder:
        file = Path(folder) / "header.txt"
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        _run_editor([str(file)])
        return file.read_bytes().decode("utf-8", "surrogateescape")


def _run_editor(names: list[str]) -> None:
    import os
    import shlex
    import subprocess

    from pseries.errors import EditorFailed

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise EditorFailed("vi", "there is no terminal, and EDITOR is not set")
        editor = "vi"
    try:
        status = subprocess.run([*shlex.split(editor), *names], check=False).returncode
    except (OSError, ValueError) as error:
        raise EditorFailed(editor, str(error)) from error
    if status:
        raise EditorFailed(editor, f"it ended with {status}")
