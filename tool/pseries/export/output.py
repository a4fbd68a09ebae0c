"""Files that appear under their name when they are whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[IO[bytes]]:
    """Give a file to be written beside its final name, and renamed once it is safe on disk.

    Whatever leaves the ``with`` block as an exception, a full disk included, leaves nothing behind.
    The mode is 0644 whatever the umask: what is built must not depend on who builds it.
    """
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", dir=target.parent)
    file = os.fdopen(descriptor, "wb")
    try:
        yield file
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
        file.close()
        Path(name).replace(target)
        sync_folder(target.parent)
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


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` safe on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
