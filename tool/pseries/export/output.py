"""Files that appear under their name when they are whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class Output:
    """A file to be written beside its final name, and renamed once it is safe on disk.

    Whatever leaves the ``with`` block as an exception, a full disk included, leaves nothing behind.
    The mode is 0644 whatever the umask: what is built must not depend on who builds it.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._file: IO[bytes]

    def __enter__(self) -> IO[bytes]:
        folder = self._target.parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{self._target.name[:80]}.", dir=folder)
        self._file = os.fdopen(descriptor, "wb")
        self._temporary = Path(name)
        return self._file

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._file.flush()
                os.fchmod(self._file.fileno(), 0o644)
                os.fsync(self._file.fileno())
                self._file.close()
                self._temporary.replace(self._target)
                sync_folder(self._target.parent)
        finally:
            with contextlib.suppress(OSError):  # flushing what a full disk did not take
                self._file.close()
            self._temporary.unlink(missing_ok=True)


def write_file(target: Path, data: bytes) -> None:
    """Write a small file, whole or not at all."""
    with Output(target) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Make names in ``folder`` safe on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
