"""What is applied to a target, and whether every file still is what was written. Reads only."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import NotApplied, RecoveryNeeded
from pseries.model import record
from pseries.site import receipt as receipts
from pseries.site import transaction
from pseries.site.receipt import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pseries.site.change import Image
    from pseries.site.fs import SiteTree
    from pseries.site.receipt import Receipt


class Now(Enum):
    """A file that was written, as it is now."""

    AS_WRITTEN = "as written"
    CHANGED = "changed"
    MISSING = "missing"
    THERE_AGAIN = "there again"
    BENEATH = "changed by a later series"


class FileStatus(NamedTuple):
    """A file that a series wrote or deleted, and what it is now."""

    path: str
    now: Now


class SeriesStatus(NamedTuple):
    """An applied series; ``underneath`` says how the package changed since, "" if it did not."""

    series: str
    digest: str
    distribution: str
    version: str
    applied_at: str
    relocate: str | None
    drift_accepted: bool
    underneath: str
    files: tuple[FileStatus, ...]

    @property
    def clean(self) -> bool:
        """Whether the package and every file are as they were left."""
        fine = (Now.AS_WRITTEN, Now.BENEATH)
        return not self.underneath and all(file.now in fine for file in self.files)


class Status(NamedTuple):
    """Everything that is applied to a target, the first applied first."""

    site: str
    series: tuple[SeriesStatus, ...]

    @property
    def clean(self) -> bool:
        """Whether everything is as it was left."""
        return all(each.clean for each in self.series)


def status(tree: SiteTree) -> Status:
    """Return what is applied to a target; needs no lock, writes nothing.

    Raises:
        RecoveryNeeded: a change is not finished, so nothing can be said of the files.
        StateInvalid, JournalInvalid: what is recorded there cannot be trusted.
    """
    require_finished(tree)
    applied = receipts.read(tree).applied
    return Status(
        str(tree.root),
        tuple(
            SeriesStatus(
                series=each.series,
                digest=each.digest,
                distribution=each.distribution,
                version=each.version,
                applied_at=each.applied_at,
                relocate=each.relocate,
                drift_accepted=each.drift_accepted,
                underneath=underneath(tree, each, applied[number + 1 :]),
                files=_files(tree, each, applied[number + 1 :]),
            )
            for number, each in enumerate(applied)
        ),
    )


def require(found: Status, series: str) -> None:
    """Raise :class:`NotApplied` where a series is not among those that are applied."""
    names = tuple(each.series for each in found.series)
    if series not in names:
        raise NotApplied(found.site, series, names)


def require_finished(tree: SiteTree) -> None:
    """Raise :class:`RecoveryNeeded` where a change was interrupted or is under way."""
    unfinished = transaction.pending(tree)
    if unfinished is not None:
        raise RecoveryNeeded(str(tree.root), unfinished)


def underneath(tree: SiteTree, receipt: Receipt, later: Iterable[Receipt]) -> str:
    """Say how the package changed since a series was applied; "" if it did not."""
    path = receipt.record.path
    if any(each.record.path == path for each in later):
        return ""  # a later series wrote RECORD, and speaks for it
    state = tree.read(path)
    if state is None:
        return f"{receipt.distribution} {receipt.version} is no longer installed"
    wanted = receipt.record.after
    if wanted is None or (state.sha256, state.mode) != (wanted.sha256, wanted.mode):
        return f"{path} is not what was written: the package was reinstalled or changed"
    return ""


def live(tree: SiteTree) -> tuple[State, tuple[str, ...]]:
    """Return the receipts that still mean something, and the names of the series that do not.

    When a package is reinstalled or upgraded, nothing of what was written is left, and the
    receipts of that distribution speak of files that are gone. That is so only when neither a file
    nor its row in RECORD is ours any more: an edit by hand, of RECORD too, makes no receipt void,
    for with it the only copy of the original files would go.
    """
    applied = receipts.read(tree).applied
    void: list[Receipt] = []
    for name in {each.distribution for each in applied}:
        stack = [each for each in applied if each.distribution == name]
        if underneath(tree, stack[-1], ()) and not _ours(tree, stack):
            void += stack
    kept = tuple(each for each in applied if each not in void)
    return State(kept), tuple(each.series for each in void)


def _ours(tree: SiteTree, stack: Iterable[Receipt]) -> bool:
    """Whether anything is left of what a distribution's series wrote: a file, or a row."""
    applied = tuple(stack)
    listed = tree.read(applied[-1].record.path)
    if listed is None:
        return False
    written = {change.path: change.after for each in applied for change in each.files}
    if any(
        image is not None and _now(tree, path, image) is Now.AS_WRITTEN
        for path, image in written.items()
    ):
        return True
    return any(
        (image := written.get(entry.path)) is not None and entry.digest == image.sha256
        for entry in record.parse(listed.data).entries
    )


def _files(tree: SiteTree, receipt: Receipt, later: Iterable[Receipt]) -> tuple[FileStatus, ...]:
    above = {change.path for each in later for change in each.files}
    return tuple(
        FileStatus(
            change.path,
            Now.BENEATH if change.path in above else _now(tree, change.path, change.after),
        )
        for change in receipt.files
    )


def _now(tree: SiteTree, path: str, wanted: Image | None) -> Now:
    state = tree.read(path)
    if wanted is None:
        return Now.AS_WRITTEN if state is None else Now.THERE_AGAIN
    if state is None:
        return Now.MISSING
    same = (state.sha256, state.mode) == (wanted.sha256, wanted.mode)
    return Now.AS_WRITTEN if same else Now.CHANGED
