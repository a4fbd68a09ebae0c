"""Writing a file of ours whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

SCRAP = 8
"""Letters that :mod:`tempfile` ends a name with: a file is written as ``.NAME.XXXXXXXX`` first."""


def replace_file(path: Path, data: bytes, by_way_of: Path | None = None) -> None:
    """Write a file so that it has its old or its new content at any moment, also after a crash.

    Args:
        path: the file.
        data: its new content.
        by_way_of: the folder, of the same file system, to write it in first; its own by default.
    """
    handle, name = tempfile.mkstemp(dir=by_way_of or path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
