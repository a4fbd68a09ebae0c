"""Files and folders that appear under their name when they are whole, or not at all.

A file is written beside its name, brought to the disk and renamed: a crash leaves the old one or
the new one. What a killed process was writing stays behind under a hidden name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LETTERS = 8
"""What :mod:`tempfile` ends a name with."""


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[IO[bytes]]:
    """Give a file to be written beside its final name, and renamed once it is safe on disk.

    Whatever leaves the ``with`` block as an exception, a full disk included, leaves nothing behind.
    The mode is 0644 whatever the umask: what is built must not depend on who builds it.
    """
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    descriptor, name = tempfile.mkstemp(prefix=_beginning(target.name), dir=target.parent)
    file = os.fdopen(descriptor, "wb")
    try:
        yield file
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
        file.close()
        Path(name).replace(target)
        sync(target.parent)
    except OSError as error:
        if error.errno in _FULL and error.filename is None:  # a write does not say where
            error.filename = str(target)
        raise
    finally:
        with contextlib.suppress(OSError):  # flushing what a full disk did not take
            file.close()
        Path(name).unlink(missing_ok=True)


def write_file(target: Path, data: bytes) -> None:
    """Write a small file, whole or not at all."""
    with whole_file(target) as file:
        file.write(data)


@contextlib.contextmanager
def whole_folder(target: Path, *, synced: bool = True) -> Iterator[Path]:
    """Give a folder to be filled beside its final name, and renamed when the body is done.

    Args:
        target: its name, at which there is nothing.
        synced: bring all that is in it to the disk first; what can be made again need not be.
    """
    new = Path(tempfile.mkdtemp(prefix=_beginning(target.name), dir=target.parent))
    try:
        yield new
        new.chmod(0o755)
        if synced:
            sync_tree(new)
        new.rename(target)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if synced:
        sync(target.parent)


def is_leftover(name: str, of: Collection[str]) -> bool:
    """Say whether a file is what a killed process left of one of these that it was writing."""
    return name[:1] == "." and name[:-_LETTERS] in map(_beginning, of)


def sync_tree(folder: Path) -> None:
    """Bring the files of a folder, and of the folders in it, to the disk."""
    for path, _, files in os.walk(folder):
        for file in files:
            sync(Path(path) / file)
        sync(Path(path))


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beginning(name: str) -> str:
    return f".{name[:80]}."
