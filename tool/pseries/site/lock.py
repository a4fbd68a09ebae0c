"""One writer at a time in a target: ``flock`` on ``.pseries/lock``.

Not ``filelock``, although other parts use it: it opens its file by path, which here may be led
through a link; where the file system has no ``flock`` it falls back to a marker file, which
survives a crash and does not exclude older versions; and importing it takes as long as all the
rest of ``status``. What is needed are these few calls.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from typing import TYPE_CHECKING

from pseries.errors import LockedByOther, PurgeRefused, TargetNotWritable
from pseries.model.paths import CONTROL
from pseries.site import journal, objects, receipt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pseries.site.fs import SiteTree

PATH = f"{CONTROL}/lock"
PATIENCE = 60.0
"""Seconds to wait for another process by default; an ``apply`` takes well under one."""
_PAUSE = 0.02


@contextlib.contextmanager
def exclusive(tree: SiteTree, patience: float = PATIENCE) -> Iterator[None]:
    """Keep every other pseries out of a target, from reading its state to having changed it.

    The lock goes with the process, however it ends, and is not passed on to programs that it
    starts. The file stays: whoever waits for it holds it open, and would lock a file without a
    name while the next one makes a new one.

    Raises:
        LockedByOther: somebody else had it for all of ``patience`` seconds.
        TargetNotWritable: the lock file cannot be made, or locks do not work here.
        StateNotOurs: the folder was made by somebody who must not tell us what to do.
    """
    fd = _acquire(tree, patience)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # also where a fork still holds the descriptor
        os.close(fd)


def _acquire(tree: SiteTree, patience: float) -> int:
    """Return a descriptor that holds the lock."""
    deadline = time.monotonic() + patience
    while True:
        if tree.make_folder(CONTROL, tree.folder_mode("")):
            tree.sync("")
        tree.require_own()
        with contextlib.suppress(FileNotFoundError):  # purged in this very moment: once more
            fd = tree.lock_file(PATH)
            try:
                while not _locked(tree, fd):
                    if time.monotonic() >= deadline:
                        raise LockedByOther(str(tree.root), patience)
                    time.sleep(_PAUSE)
                now = tree.status(PATH)
                # Whoever purged the folder while we waited left us the lock of a nameless file.
                if now is not None and os.path.samestat(now, os.fstat(fd)):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)


def purge(tree: SiteTree) -> None:
    """Remove all that pseries keeps in a target, its lock last; nothing may be applied.

    Raises :class:`PurgeRefused` while a series is applied, a transaction is unfinished, or
    versions that were set aside for the user are there; and what :func:`exclusive` raises.
    """
    if tree.status(CONTROL) is None:
        return
    with exclusive(tree):
        if journal.read(tree) is not None:
            raise PurgeRefused(str(tree.root), "an interrupted change is not recovered")
        if receipt.read(tree).applied:
            raise PurgeRefused(str(tree.root), "a series is applied")
        ours = {path.rpartition("/")[2] for path in _OURS}
        others = sorted(set(tree.names(CONTROL) or ()) - ours)
        if others:
            raise PurgeRefused(str(tree.root), f"it holds {', '.join(others)}, which is yours")
        objects.sweep(tree, ())
        tree.remove_folder(objects.FOLDER)
        for path in (journal.NEW_PATH, receipt.PATH, PATH):
            tree.remove(path)
        tree.remove_folder(CONTROL)
        tree.sync("")


_OURS = (objects.FOLDER, journal.PATH, journal.NEW_PATH, receipt.PATH, PATH)


def _locked(tree: SiteTree, fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        reason = f"the file system does not lock files ({error.strerror})"
        raise TargetNotWritable(str(tree.root), PATH, reason) from error
    return True
