"""The files of an archive, and the rules that every archive keeps whatever its format."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pseries.errors import ArchiveRefused
from pseries.model import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

MEBIBYTE = 1 << 20
CHUNK = 256 * 1024
"""Bytes read or inflated at a time: what bounds the memory that a member takes."""


@dataclass(frozen=True)
class Limits:
    """How much an archive may hold; far above what any release needs.

    Attributes:
        members: entries of all kinds.
        total: bytes of all members together, unpacked.
        ratio: bytes unpacked for each byte packed, looked at from ``ratio_from`` bytes on.
        ratio_from: below this many bytes a high ratio is a file of blanks, not an attack.
    """

    members: int = 200_000
    total: int = 8 << 30
    ratio: int = 200
    ratio_from: int = MEBIBYTE

    def bomb(self, unpacked: int, packed: int) -> bool:
        """Say whether this much should not come out of that little."""
        return unpacked > self.ratio_from and unpacked > self.ratio * packed


LIMITS = Limits()


@dataclass(frozen=True)
class Member:
    """A regular file of an archive.

    ``chunks`` can be read once, and only before the next member is asked for; what is left of it
    then is passed over. Sizes and checksums are verified by the time ``chunks`` ends.
    """

    path: str
    executable: bool
    size: int
    chunks: Iterator[bytes]


@dataclass
class Ledger:
    """The names and sizes seen so far in one archive, and the rules that they keep."""

    archive: str
    limits: Limits = LIMITS
    total: int = 0
    entries: int = 0
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def refuse(self, reason: str, member: str = "") -> ArchiveRefused:
        """Return the error that says so."""
        return ArchiveRefused(self.archive, paths.display(member), reason)

    def file(self, path: str, size: int) -> None:
        """Enter a file; raises :class:`ArchiveRefused` for a bad, doubled or clashing name."""
        self._entry(path)
        self.total += size
        if self.total > self.limits.total:
            raise self.refuse(f"the archive unpacks to more than {self.limits.total} bytes", path)
        if path in self.files:
            raise self.refuse("the archive has two members of this name", path)
        if path in self.folders:
            raise self.refuse("a file has the name of a folder", path)
        self.files.add(path)
        self._above(path)

    def folder(self, path: str) -> None:
        """Enter a folder; the same folder may come twice, for nothing depends on it."""
        self._entry(path)
        if path in self.files:
            raise self.refuse("a folder has the name of a file", path)
        self.folders.add(path)
        self._above(path)

    def _entry(self, path: str) -> None:
        self.entries += 1
        if self.entries > self.limits.members:
            raise self.refuse(f"the archive has more than {self.limits.members} members")
        reason = paths.problem(path)
        if reason is not None:
            raise self.refuse(reason, path)

    def _above(self, path: str) -> None:
        above = posixpath.dirname(path)
        while above and above not in self.folders:
            if above in self.files:
                raise self.refuse("a file has the name of a folder", above)
            self.folders.add(above)
            above = posixpath.dirname(above)
