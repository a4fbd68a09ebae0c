"""Writing a series in the form of another tool, so that an import gives back every byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import ExportRefused, Problem
from pseries.export import exchange
from pseries.git import branch, objects
from pseries.model import commit as commits
from pseries.model import order as orders
from pseries.model.diff import mbox
from pseries.workflows.series import lock as locking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pseries.model.diff.patch import Patch
    from pseries.model.diff.splice import File
    from pseries.model.series import Series
    from pseries.workflows.series.catalog import Location
    from pseries.workflows.series.means import Means


_NO_UPSTREAM = (
    "the release in the store is from an archive, so the branch stands on a commit of its own:"
    " rebase it onto upstream's tag in a checkout"
)


class Exported(NamedTuple):
    """What was written.

    Attributes:
        series: the series.
        form: of :data:`FORMS`.
        path: the file or folder.
        files: names of what is in it: files, or branches and tags.
        notes: what a person should know.
        usage: the command that uses it.
    """

    series: str
    form: str
    path: str
    files: tuple[str, ...]
    notes: tuple[str, ...]
    usage: str


def export(
    series: Series, form: str, target: Path, means: Means, location: Location | None
) -> Exported:
    """Write a series as another tool wants it.

    Args:
        series: it need not be locked.
        form: one of :data:`FORMS`.
        target: what is to be written; must not be there.
        means: how the release is reached, which only a branch needs.
        location: where the series are that this one stands on.

    Raises:
        ExportInTheWay: the target is there.
        ExportRefused: the form has no room for what the series holds.
        And what fetching a release and applying raise. Nothing is left behind.
    """
    if form == _BRANCH:
        return _git_branch(series, target, means, location)
    return _OF_FILES[form](series, target)


def _quilt(series: Series, target: Path) -> Exported:
    files = exchange.quilt_files(series)
    exchange.write_folder(target, files)
    notes = [
        f"{patch.name}: quilt cannot apply {what}; git can"
        for patch in series.patches
        if (what := _beyond_quilt(patch))
    ]
    usage = f"in a tree of the release: QUILT_PATCHES={target.absolute()} quilt push -a"
    return Exported(series.name, "quilt", str(target), tuple(files), tuple(notes), usage)


def _beyond_quilt(patch: Patch) -> str:
    """Say what of a patch GNU patch has no hand for."""
    if any(section.binary for section in patch.sections):
        return "binary data"
    return ""


def _mbox(series: Series, target: Path) -> Exported:
    data, notes = exchange.mailbox(series)
    exchange.write_mailbox(target, data)
    names = tuple(patch.name for patch in series.patches)
    usage = f"in a checkout of the release: git am {target}"
    return Exported(series.name, "mbox", str(target), names, notes, usage)


def _fromager(series: Series, target: Path) -> Exported:
    name, files, notes = exchange.fromager_files(series)
    exchange.write_folder(target / name, files)
    usage = f"fromager --patches-dir {target}"
    return Exported(series.name, "fromager", str(target / name), tuple(files), notes, usage)


# --- a branch ---------------------------------------------------------------------------------


def _git_branch(series: Series, target: Path, means: Means, location: Location | None) -> Exported:
    from pseries.workflows.series import catalog  # noqa: PLC0415 - not on the way of the others
    from pseries.workflows.series import release as releases  # noqa: PLC0415 - network code

    exchange.refuse_existing(target)
    if not branch.is_name(series.name):
        problem = Problem(series.name, "the name of the series cannot be a branch's")
        raise ExportRefused(series.name, "git-branch", (problem,))
    beneath = [
        patch for name in series.spec.after for patch in catalog.load(name, location).patches
    ]
    store, release = releases.fetch(series, means)
    patches = [*beneath, *series.patches]
    with objects.scratch(store.git_dir) as scratch:
        changes = _changes(scratch, release.tree, patches)
    chunks = orders.chunks(series.order)
    notes = [
        mbox.escaped(chunk) + b"\n\n" + patch.data
        for patch, chunk in zip(series.patches, chunks, strict=True)
    ]
    made = [
        (commits.of_header(patch.header, patch.name), change)
        for patch, change in zip(patches, changes, strict=True)
    ]
    base = f"pseries/{series.name}"
    found = branch.write(
        target, store.git_dir, branch.Base(release.commit, release.recorded.upstream),
        made, branch.Named(series.name, base), notes,
    )  # fmt: skip
    said = () if found else (_NO_UPSTREAM,)
    usage = f"in a checkout: git fetch {target.absolute()} {series.name} {base}"
    return Exported(series.name, "git-branch", str(target), (series.name, base), said, usage)


def _changes(
    store: objects.Objects, tree: str, patches: Sequence[Patch]
) -> list[dict[str, File | None]]:
    """Return what each patch makes of the files that it touches, ``None`` for one that goes."""
    before = store.pick(tree, locking.touched(patches))
    found: list[dict[str, File | None]] = []
    for patch, after in zip(patches, store.apply_each(before, patches), strict=True):
        changed = {path for path in patch.paths if before.get(path) != after.get(path)}
        files = store.files({path: after[path] for path in changed if path in after})
        found.append({path: files.get(path) for path in sorted(changed)})
        before = after
    return found


_OF_FILES: dict[str, Callable[[Series, Path], Exported]] = {
    "quilt": _quilt,
    "mbox": _mbox,
    "fromager": _fromager,
}
_BRANCH = "git-branch"
FORMS = (*_OF_FILES, _BRANCH)
"""The forms there are, by the words of ``--as``."""
