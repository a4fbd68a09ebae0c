"""The main job: a series into an installed tree, checked before and after, as one transaction."""

from __future__ import annotations

from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pseries import __version__
from pseries.errors import Drift
from pseries.model import paths, record
from pseries.site import bytecode, lock, processes, receipt, transaction
from pseries.site.change import Change, Image
from pseries.site.fs import SiteTree
from pseries.site.receipt import Receipt, State
from pseries.workflows.series import patching
from pseries.workflows.target import status
from pseries.workflows.target.survey import Condition, git_files, survey, unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pseries.errors import Problem
    from pseries.model.diff.splice import File
    from pseries.model.series import Series
    from pseries.site.distribution import Distribution
    from pseries.site.fs import FileState
    from pseries.workflows.target.survey import Surveyed, Target

_READ = 0o444
_EXECUTE = 0o111


class Action(Enum):
    """What came of it."""

    APPLIED = "applied"
    ALREADY = "already applied"
    FITS = "applies"
    NOTHING = "nothing to apply"


class Applied(NamedTuple):
    """What :func:`apply` did or would do.

    Attributes:
        action: the outcome.
        series, digest, site, distribution, version: what was applied to what.
        relocate: the relocation that was used.
        files: every file and its condition before.
        skipped: files that an installed package does not carry.
        receipt: whether the target has a receipt of the series (a patched wheel has none).
        recovered: what an interrupted earlier change was brought to first.
        void: series whose receipts a reinstall made void; they were dropped.
        unlinked: files that had other names, which keep the old content.
        signatures: signatures of RECORD that its change broke, so they were removed.
        warnings: owners and attributes that could not be kept.
        running: processes that use the target and have to be restarted.
    """

    action: Action
    series: str
    digest: str
    site: str
    distribution: str
    version: str
    relocate: str | None
    files: tuple[Surveyed, ...]
    skipped: tuple[Problem, ...]
    receipt: bool
    recovered: str = ""
    void: tuple[str, ...] = ()
    unlinked: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()
    running: tuple[int, ...] = ()


def apply(
    series: Series,
    site: Path,
    *,
    relocate: str | None = None,
    accept_drift: bool = False,
    check: bool = False,
    fitting: Callable[[], Mapping[str, str]] = dict,
) -> Applied:
    """Put a series into an installed tree, or with ``check`` only say whether it would go in.

    Args:
        series: a locked series.
        site: the site-packages folder.
        relocate: name of the ``[[relocate]]`` to use; ``None`` to find out.
        accept_drift: go on where files are not the release's, if every hunk still fits exactly.
        check: change nothing.
        fitting: see :func:`pseries.workflows.target.survey.survey`.

    Raises:
        Drift: a file is neither pristine nor patched.
        RecoveryNeeded: with ``check``, where an earlier change is not finished.
        And everything that surveying, the engine, the lock and the transaction raise; nothing
        was changed then, except after :class:`~pseries.errors.NeedsYou`.
    """
    with SiteTree(site) as tree:
        # Looked at without the lock first: where nothing is to be done, or is refused, not even a
        # lock file may be made; a tree that is patched already can be one that nobody may write.
        seen: Target | None = None
        files: Mapping[str, File | None] = {}
        if check or transaction.pending(tree) is None:
            status.require_finished(tree)
            seen = survey(series, tree, relocate, fitting)
            if (action := _nothing_to_do(seen)) is not None:
                return _report(action, series, tree, seen)
            files = _post_images(series, tree, seen, accept_drift=accept_drift)
            if check:
                return _report(Action.FITS, series, tree, seen)
        with lock.exclusive(tree):
            recovered = transaction.recover(tree)
            if seen is not None and unchanged(tree, seen):
                return _commit(series, tree, seen, files, recovered)
            target = survey(series, tree, relocate, fitting)  # somebody was faster
            if (action := _nothing_to_do(target)) is not None:
                return _report(action, series, tree, target, recovered=recovered)
            files = _post_images(series, tree, target, accept_drift=accept_drift)
            return _commit(series, tree, target, files, recovered)


def _nothing_to_do(target: Target) -> Action | None:
    if not target.files:  # a rebase found all of it merged upstream, or it undoes itself
        return Action.NOTHING
    if target.all_are(Condition.PATCHED) and not target.void:
        return Action.ALREADY
    return None


def _post_images(
    series: Series, tree: SiteTree, target: Target, *, accept_drift: bool
) -> Mapping[str, File | None]:
    files = git_files(target.found)
    if target.all_are(Condition.PRISTINE):
        return patching.post_images(series, files, target.layout, target.packages).files
    if accept_drift:
        return patching.drifted_images(series, files, target.layout, target.packages).files
    rows = tuple((paths.display(file.path), file.condition.value) for file in target.files)
    raise Drift(series.name, str(tree.root), rows)


def _report(
    action: Action,
    series: Series,
    tree: SiteTree,
    target: Target,
    *,
    recovered: transaction.Recovery | None = None,
    committed: transaction.Committed | None = None,
) -> Applied:
    outcome = transaction.Outcome.NOTHING if recovered is None else recovered.outcome
    changed = committed is not None
    return Applied(
        action=action,
        series=series.name,
        digest=series.digest,
        site=str(tree.root),
        distribution=target.distribution.name,
        version=target.distribution.version,
        relocate=target.relocation,
        files=target.files,
        skipped=target.skipped,
        receipt=changed or target.receipt_of(series.name) is not None,
        recovered="" if outcome is transaction.Outcome.NOTHING else outcome.value,
        void=target.void,
        unlinked=committed.unlinked if committed else (),
        signatures=target.distribution.signatures if changed else (),
        warnings=committed.warnings if committed else (),
        running=processes.running(tree, tuple(target.packages)) if changed else (),
    )


# --- what is written --------------------------------------------------------------------------


def _commit(
    series: Series,
    tree: SiteTree,
    target: Target,
    files: Mapping[str, File | None],
    recovered: transaction.Recovery,
) -> Applied:
    contents: dict[str, bytes] = {}
    changes = tuple(
        _change(series, target, canonical, file, contents)
        for canonical, file in sorted(files.items())
    )
    changes += _broken_signatures(tree, target.distribution)
    stale = bytecode.removals(tree, [change.path for change in changes])
    listed = _record_change(tree, target.distribution, (*changes, *stale), contents)
    folders = transaction.folder_changes(tree, (*changes, *stale))
    new = Receipt(
        series=series.name,
        digest=series.digest,
        distribution=target.distribution.name,
        version=target.distribution.version,
        applied_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tool=__version__,
        drift_accepted=not target.all_are(Condition.PRISTINE),
        relocate=target.relocation,
        direct_url=target.distribution.direct_url,
        record=listed,
        files=changes,
        bytecode=stale,
        folders=folders,
    )
    own = target.receipt_of(series.name)  # of files that were put back by hand since
    others = tuple(each for each in target.state.applied if each is not own)
    state_change, state_data = receipt.writing(tree, State((*others, new)))
    contents[state_change.after.sha256] = state_data  # type: ignore[union-attr]
    committed = transaction.commit(tree, (*new.changes, state_change), contents, folders)
    return _report(Action.APPLIED, series, tree, target, recovered=recovered, committed=committed)


def _change(
    series: Series,
    target: Target,
    canonical: str,
    file: File | None,
    contents: dict[str, bytes],
) -> Change:
    path = target.layout.installed(canonical)
    if path is None:
        raise AssertionError(canonical)  # a fitted series has no other paths
    state = target.found.get(canonical)
    before = None if state is None else state.image
    if file is None:
        return Change(path, before, None)
    mode, data = file
    model = state
    if model is None and (source := _renamed(series).get(canonical)) is not None:
        model = target.found.get(source)
    image = Image.of(data, _permissions(model, executable=mode == 0o100755))
    if state is None and model is not None:
        image = image._replace(owner=model.image.owner, attributes=model.image.attributes)
    contents[image.sha256] = data
    return Change(path, before, image)


def _renamed(series: Series) -> Mapping[str, str]:
    """Return for each path that a file is renamed to the path that it has in the release."""
    origins: dict[str, str] = {}
    for patch in series.locked().patches:
        before = dict(origins)
        for file in patch.files:
            if file.source is not None:
                origins[file.path] = before.get(file.source, file.source)
    return origins


def _permissions(state: FileState | None, *, executable: bool) -> int:
    """Return the bits of a new file: the old one's, with execution where reading is allowed."""
    mode = 0o644 if state is None else state.mode
    if executable == bool(mode & 0o100):
        return mode
    return mode | (mode & _READ) >> 2 if executable else mode & ~_EXECUTE


def _broken_signatures(tree: SiteTree, installed: Distribution) -> tuple[Change, ...]:
    found = ((path, tree.read(path)) for path in installed.signatures)
    return tuple(Change(path, state.image, None) for path, state in found if state is not None)


def _record_change(
    tree: SiteTree,
    installed: Distribution,
    changes: tuple[Change, ...],
    contents: dict[str, bytes],
) -> Change:
    """Return the change of RECORD that goes with the others ("Recording installed projects")."""
    state = tree.read(installed.record_path)
    if state is None:
        raise AssertionError(installed.record_path)  # it was read when the distribution was found
    rows = {
        change.path: None if change.after is None else (change.after.sha256, change.after.size)
        for change in changes
    }
    data = record.rewrite(state.data, rows, str(tree.root))
    image = Image.of(data, state.mode)
    contents[image.sha256] = data
    return Change(installed.record_path, state.image, image)
