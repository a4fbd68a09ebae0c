"""What is installed, held against RECORD: the look that neither pip nor uv takes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pseries.model.record import Entry, Record


def differing(site: Path, record: Record) -> list[str]:
    """Return what is wrong with RECORD, and the files inside the site that are not as listed."""
    wrong = [str(problem) for problem in record.problems]
    return wrong + [entry.path for entry in record.entries if not _as_listed(site, entry)]


def _as_listed(site: Path, entry: Entry) -> bool:
    if entry.outside:
        return True
    file = site / entry.path
    if file.is_symlink() or not file.is_file() or entry.size not in (None, file.stat().st_size):
        return False
    if entry.algorithm is None:
        return True
    found = hashlib.new(entry.algorithm)
    with file.open("rb") as content:
        while chunk := content.read(1 << 20):
            found.update(chunk)
    return found.hexdigest() == entry.digest
