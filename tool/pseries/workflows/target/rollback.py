"""Taking a series off again, to the last byte; and finishing what was interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    ChangedSince,
    NotApplied,
    NotOnTop,
    Problem,
    ReplacedUnderneath,
    StillInPlace,
)
from pseries.model import naming, paths
from pseries.site import distribution as distributions
from pseries.site import lock, processes, receipt, transaction, undo
from pseries.site.fs import SiteTree
from pseries.site.receipt import State
from pseries.workflows.target import status

if TYPE_CHECKING:
    from pathlib import Path

    from pseries.site.change import Change, FolderChange
    from pseries.site.receipt import Receipt
    from pseries.site.transaction import Recovery


class RolledBack(NamedTuple):
    """What :func:`rollback` did.

    Attributes:
        series: the series that was taken off.
        site: the target.
        files: the files that were given back.
        forgotten: only the receipt was removed, no file was touched.
        recovered: what an interrupted earlier change was brought to first.
        kept: changed files and where their versions were set aside.
        purged: whether the state folder was removed.
        warnings: owners and attributes that could not be kept.
        running: processes that use the target and have to be restarted.
    """

    series: str
    site: str
    files: tuple[str, ...]
    forgotten: bool = False
    recovered: str = ""
    kept: tuple[tuple[str, str], ...] = ()
    purged: bool = False
    warnings: tuple[Problem, ...] = ()
    running: tuple[int, ...] = ()


def rollback(
    site: Path, series: str | None, *, force: bool = False, forget: bool = False
) -> RolledBack:
    """Take off the series that was applied last, or the one named if it is that.

    Args:
        site: the site-packages folder.
        series: its name; may be left out where only one distribution has series on it.
        force: restore files that were changed since as well, and keep those versions aside.
        forget: touch no file, only drop the receipt: for a package that was replaced underneath.

    Raises:
        NotApplied: there is no such series.
        NotOnTop: another series was applied later and has to come off first.
        ChangedSince: files were changed since; named, and kept.
        ReplacedUnderneath: the package was reinstalled or upgraded since.
    """
    with SiteTree(site) as tree:
        if transaction.pending(tree) is None:
            _choose(tree, series)  # refuse without making a lock file where there is nothing
        with lock.exclusive(tree):
            recovered = transaction.recover(tree)
            chosen, rest = _choose(tree, series)
            outcome = recovered.outcome
            words = "" if outcome is transaction.Outcome.NOTHING else outcome.value
            if forget:
                _refuse_in_place(tree, chosen)
                _write_state(tree, (), State(rest))
                return RolledBack(chosen.series, str(tree.root), (), True, words)
            done = _restore(tree, chosen, State(rest), force=force)
            return done._replace(recovered=words)


def recover(site: Path, *, aside: bool = False) -> Recovery:
    """Finish or undo an interrupted change; see :func:`pseries.site.transaction.recover`."""
    with SiteTree(site) as tree:
        if transaction.pending(tree) is None:
            return transaction.Recovery(transaction.Outcome.NOTHING)
        with lock.exclusive(tree):
            return transaction.recover(tree, aside=aside)


def purge(site: Path) -> None:
    """Remove the state folder of a target to which nothing is applied."""
    with SiteTree(site) as tree:
        lock.purge(tree)


def _choose(tree: SiteTree, name: str | None) -> tuple[Receipt, tuple[Receipt, ...]]:
    """Return the receipt to take off, and all the others."""
    applied = receipt.read(tree).applied
    names = tuple(each.series for each in applied)
    found = [each for each in applied if name in (None, each.series)]
    if not found or (name is None and len({each.distribution for each in applied}) > 1):
        raise NotApplied(str(tree.root), name, names)
    chosen = found[-1]
    later = applied[applied.index(chosen) + 1 :]
    above = tuple(each.series for each in later if each.distribution == chosen.distribution)
    if above:
        raise NotOnTop(chosen.series, above)
    return chosen, tuple(each for each in applied if each is not chosen)


def _restore(tree: SiteTree, chosen: Receipt, rest: State, *, force: bool) -> RolledBack:
    _refuse_replaced(tree, chosen)
    changes, folders = undo.undo(tree, chosen)
    changed = tuple(change for change in changes if not change.derived and _differs(tree, change))
    if changed and not force:
        problems = tuple(
            Problem(paths.display(change.path), _how(tree, change)) for change in changed
        )
        raise ChangedSince(chosen.series, problems)
    kept = []
    for change in changed:
        copy = transaction.set_aside(tree, change.path)
        if copy is not None:
            kept.append((change.path, copy))
    actual = tuple(_from_now(tree, change) if change in changed else change for change in changes)
    actual = tuple(change for change in actual if change.before or change.after)
    committed = _write_state(tree, actual, rest, folders)
    return RolledBack(
        series=chosen.series,
        site=str(tree.root),
        files=tuple(change.path for change in chosen.files),
        kept=tuple(kept),
        warnings=committed.warnings,
        running=processes.running(tree),
    )


def _refuse_replaced(tree: SiteTree, chosen: Receipt) -> None:
    if not _replaced(tree, chosen):
        return
    was = f"{chosen.distribution} {chosen.version}"
    names = [
        f"{each.name} {each.version}"
        for each in distributions.all_distributions(tree)
        if naming.normalized(each.name) == naming.normalized(chosen.distribution)
    ]
    now = ", ".join(names) or "none"
    now = f"a new copy of {now}" if now == was else now
    raise ReplacedUnderneath(chosen.series, chosen.distribution, was, now)


def _refuse_in_place(tree: SiteTree, chosen: Receipt) -> None:
    """Refuse to forget a series whose backups are the only copy of the original files."""
    if not _replaced(tree, chosen):
        raise StillInPlace(chosen.series, chosen.distribution)


def _replaced(tree: SiteTree, chosen: Receipt) -> bool:
    return chosen not in status.live(tree)[0].applied


def _differs(tree: SiteTree, change: Change) -> bool:
    state, expected = tree.read(change.path), change.before
    if state is None or expected is None:
        return not (state is None and expected is None)
    return (state.sha256, state.mode) != (expected.sha256, expected.mode)


def _how(tree: SiteTree, change: Change) -> str:
    state = tree.read(change.path)
    if state is None:
        return "is missing"
    if change.before is None:
        return "was deleted by the series and is there again"
    return "has another content" if state.sha256 != change.before.sha256 else "has another mode"


def _from_now(tree: SiteTree, change: Change) -> Change:
    state = tree.read(change.path)
    return change._replace(before=None if state is None else state.image)


def _write_state(
    tree: SiteTree,
    changes: tuple[Change, ...],
    rest: State,
    folders: tuple[FolderChange, ...] = (),
) -> transaction.Committed:
    state_change, data = receipt.writing(tree, rest)
    image = state_change.after
    contents = {} if image is None else {image.sha256: data}
    return transaction.commit(tree, (*changes, state_change), contents, folders)
