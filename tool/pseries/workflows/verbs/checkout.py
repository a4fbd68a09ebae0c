"""Checking a series out: a worktree of its release with one commit a patch."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pseries.errors import BaseChanged, CheckoutInTheWay, Problem, ReadingsDiffer, Unwritten
from pseries.git import branch as branches
from pseries.git.checkout import Checkout, Snapshot
from pseries.model import commit as commits
from pseries.model import manifest as manifests
from pseries.model import paths
from pseries.model import stack as stacks
from pseries.model.diff import splice
from pseries.model.stack import Entry, Stack
from pseries.workflows.series import catalog
from pseries.workflows.verbs.stack import Work, files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pseries.model.commit import Commit
    from pseries.model.diff.patch import Patch
    from pseries.model.diff.splice import File
    from pseries.model.manifest import FileImage
    from pseries.model.series import Series
    from pseries.upstream.release import Release
    from pseries.upstream.store import Store
    from pseries.workflows.series.catalog import Location


def check_out(
    series: Series,
    location: Location | None,
    store: Store,
    release: Release,
    folder: Path,
    *,
    full: bool = False,
) -> Stack:
    """Make a worktree in which every patch of a locked series is a commit, all of them applied.

    Args:
        series: the series.
        location: where those that it is made on top of are.
        store: holds the release.
        release: the release.
        folder: where the worktree goes.
        full: show all files of the release, not just the folders that the series touches.

    Raises:
        CheckoutInTheWay: something is there already.
        ManifestMissing, ManifestStale: the series is not locked.
        ReadingsDiffer: a patch does not give what the manifest says.
    """
    series.locked()
    if folder.exists() or folder.is_symlink():
        raise CheckoutInTheWay(str(folder))
    branch = series.name if branches.is_name(series.name) else "series"
    with Checkout.create(folder.absolute(), store.git_dir, branch) as checkout:
        stack = _stack(checkout, series, location, release)
        shown = _folders(series.patches)
        if shown and not full:
            checkout.show_only(shown)
        tree = checkout.tree_of(stack.head)
        checkout.fill(tree)
        files = checkout.folder_tree(files_of(Path(series.folder)))
        shot = Snapshot("", "checkout", "", files, tree, stack.head, stacks.render(stack))
        checkout.settle(checkout.write_snapshot(shot, ()), head=stack.head)
    return stack


def follow_folder(work: Work) -> bool:
    """Check the series out anew where somebody changed its folder; return whether that was so.

    Raises:
        FolderChanged: the checkout holds work that is not in the folder, so both have changed.
        BaseChanged: a series below this one changed, too.
    """
    changed = work.foreign()
    if not changed:
        return False
    dirt = work.checkout.dirt()
    unwritten = any(entry.written != entry.commit for entry in work.stack.entries)
    moved = work.stack.pending or work.checkout.head() != work.stack.head
    if dirt.changed or dirt.unmerged or unwritten or moved:
        work.require_own_folder()
    location = catalog.Location(work.folder.parent, "beside the series")
    series = catalog.load(str(work.folder), location)
    series.locked()
    require_base(work, series, location)
    base = work.stack.base
    new = _on(work.checkout, series, base, work.checkout.tree_of(base))
    top = work.stack.applied[-1].name if work.stack.top else ""
    names = [entry.name for entry in new.entries]
    at = names.index(top) + 1 if top in names else min(work.stack.top, len(names))
    work.checkout.widen(_folders(series.patches))
    work.finish("reload", new._replace(top=at), folder=work.files())
    work.notes.append(f"{work.stack.folder} was changed ({', '.join(changed)}): checked out anew")
    return True


def require_base(work: Work, series: Series, location: Location) -> None:
    """Refuse where a series below this one is not what the checkout stands on.

    Raises:
        BaseChanged: so it is.
        ManifestMissing, ManifestStale: one of them is not locked.
    """
    wanted: dict[str, FileImage | None] = {}
    for name in series.spec.after:
        for patch in catalog.load(name, location).locked().patches:
            wanted |= {file.path: file.after for file in patch.files}
    if not wanted:
        return
    with work.checkout.merge_store() as store:
        there = store.pick(work.checkout.tree_of(work.stack.base), wanted)
    found = {path: manifests.image(*there[path]) if path in there else None for path in wanted}
    if found != wanted:
        raise BaseChanged(series.name, series.spec.after)


def make_ready(work: Work, *, edits: bool = False) -> None:
    """Bring a checkout to where a verb may begin: settled, and as the series folder has it.

    Args:
        work: the checkout.
        edits: whether the verb leaves edits alone, so that there may be some.

    Raises:
        Unrefreshed: there are some, and there may be none.
        PushPending, CommitsMoved, FolderChanged: a person has to say first how to go on.
    """
    if edits:
        work.require_settled()
    else:
        work.require_clean()
    follow_folder(work)


def place_for_import(work: Work) -> tuple[str, str | None]:
    """Return where patches go that are imported in a checkout: its series, above its top patch.

    Returns:
        The series folder, and the name of the top patch, ``None`` for below all.

    Raises:
        Unrefreshed: there are edits.
        Unwritten: the folder lacks patches of the checkout, so that it is not to be changed.
    """
    make_ready(work)
    if behind := tuple(each.name for each in work.stack.entries if each.written != each.commit):
        raise Unwritten(behind)
    return work.stack.folder, work.stack.applied[-1].name if work.stack.top else None


# --- commits ----------------------------------------------------------------------------------


def _stack(
    checkout: Checkout, series: Series, location: Location | None, release: Release
) -> Stack:
    base, tree = release.commit, release.tree
    for name in series.spec.after:
        beneath = catalog.load(name, location)
        for commit in _import(checkout, base, tree, beneath):
            base = commit
        tree = checkout.tree_of(base)
    return _on(checkout, series, base, tree)


def _on(checkout: Checkout, series: Series, base: str, tree: str) -> Stack:
    names = _import(checkout, base, tree, series)
    entries = tuple(
        Entry(patch.name, patch.strip, commit, commit)
        for patch, commit in zip(series.patches, names, strict=True)
    )
    folder = str(Path(series.folder).absolute())
    return Stack(series.name, folder, base, entries, len(entries))


def _import(checkout: Checkout, base: str, tree: str, series: Series) -> list[str]:
    """Write the patches of a locked series as commits on a base; return their ids."""
    manifest = series.locked()
    touched = frozenset(path for patch in series.patches for path in patch.paths)
    chain: list[tuple[Commit, Mapping[str, File | None]]] = []
    with checkout.merge_store() as store:
        files = store.pick(tree, touched)
        for patch, record in zip(series.patches, manifest.patches, strict=True):
            problems: list[Problem] = []
            opaque = any(section.binary for section in patch.sections)
            after = store.apply(files, patch) if opaque else splice.apply_patch(
                files, patch, problems
            )  # fmt: skip
            for file in record.files:
                there = after.get(file.path)
                if (None if there is None else manifests.image(*there)) != file.after:
                    problems.append(Problem(paths.display(file.path), "is not what was locked"))
            if problems:
                raise ReadingsDiffer(patch.name, tuple(problems))
            changed = {path: after.get(path) for path in patch.paths
                       if after.get(path) != files.get(path)}  # fmt: skip
            chain.append((commits.of_header(patch.header, patch.name), changed))
            files = after
    return checkout.import_patches(base, chain)


def _folders(patches: Sequence[Patch]) -> Iterable[str]:
    """Return the folders that patches touch files in, but the top one, which is always shown."""
    found = {str(PurePosixPath(path).parent) for patch in patches for path in patch.paths}
    return sorted(found - {"."})
