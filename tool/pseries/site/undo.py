"""Taking a series off: the inverse of its receipt, and of what Python added to it since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pseries.site import bytecode, transaction

if TYPE_CHECKING:
    from pseries.site.change import Change, FolderChange
    from pseries.site.fs import SiteTree
    from pseries.site.receipt import Receipt


def undo(tree: SiteTree, receipt: Receipt) -> tuple[tuple[Change, ...], tuple[FolderChange, ...]]:
    """Return the changes and folders that take a series off a target, in order.

    Whatever was compiled from the patched files goes with them, however it is validated, and so
    does a ``__pycache__`` in a folder that the series made. Bytecode from before comes back.
    """
    changed = [change.path for change in receipt.files]
    changes = (
        *(change.inverse() for change in receipt.files),
        *bytecode.returns(tree, changed, receipt.bytecode),
        receipt.record.inverse(),
    )
    folders = tuple(folder.inverse() for folder in receipt.folders)
    going = tuple(f"{folder.path}/" for folder in folders if folder.after is None)
    within = tuple(
        folder
        for folder in transaction.folder_changes(tree, changes)
        if folder.after is None and folder.path.startswith(going) and folder not in folders
    )
    return changes, (*within, *folders)
