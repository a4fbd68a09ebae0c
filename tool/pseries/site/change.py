"""What a file is before and after, as values that can be checked, stored and turned round."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pseries.model import paths
from pseries.model.fields import SHA256

if TYPE_CHECKING:
    from pseries.model.fields import Fields

_ABSENT = -1
_MODES = 0o777
"""Never setuid, setgid or sticky: files that have those are refused, so no plan names them."""
_FOLDER_MODES = 0o7777
_LARGEST_ID = (1 << 32) - 2
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_ATTRIBUTES = "user."
"""The extended attributes that are recorded: no others may come out of a file."""


class Image(NamedTuple):
    """A file's content by hash and size, its permission bits and, where it matters, the rest.

    ``mtime_ns`` is ``None`` where the time of writing is right. It is given where the old one has
    to come back, because bytecode names the time of the source that it was compiled from.
    ``owner`` (user and group) and ``attributes`` (names and values in hex) are for a file that has
    to be made where there is none: deleted and brought back, or renamed.
    """

    sha256: str
    size: int
    mode: int
    mtime_ns: int | None = None
    owner: tuple[int, int] | None = None
    attributes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, data: bytes, mode: int, mtime_ns: int | None = None) -> Image:
        """Return the image of a file with the content ``data``."""
        return cls(hashlib.sha256(data).hexdigest(), len(data), mode, mtime_ns)

    @classmethod
    def read(cls, table: Fields) -> Image:
        """Return what :meth:`document` described; mistakes are reported to ``table``."""
        mtime = table.number("mtime_ns", default=_ABSENT, most=(1 << 63) - 1)
        uid, gid = (table.number(key, default=_ABSENT, most=_LARGEST_ID) for key in ("uid", "gid"))
        attributes = table.pairs("attributes")
        for name, value in attributes:
            if not name.startswith(_ATTRIBUTES) or not _HEX.fullmatch(value):
                table.refuse("attributes", f"{name[:80]!r} is not one of {_ATTRIBUTES}* in hex")
        image = cls(
            table.text("sha256", matching=SHA256, meaning="a sha256"),
            table.number("size"),
            table.number("mode", most=_MODES),
            None if mtime == _ABSENT else mtime,
            None if _ABSENT in (uid, gid) else (uid, gid),
            attributes,
        )
        table.finish()
        return image

    def document(self) -> dict[str, Any]:
        """Return the form that the journal and the receipts hold."""
        document: dict[str, Any] = {"sha256": self.sha256, "size": self.size, "mode": self.mode}
        if self.mtime_ns is not None:
            document["mtime_ns"] = self.mtime_ns
        if self.owner is not None:
            document["uid"], document["gid"] = self.owner
        if self.attributes:
            document["attributes"] = dict(self.attributes)
        return document


class Change(NamedTuple):
    """One file of a target before and after: created, replaced, deleted or given another mode.

    ``before`` and ``after`` are ``None`` for "no such file". ``derived`` marks bytecode: Python
    rewrites it at any moment, so it is brought to ``after`` whatever it holds by then, while any
    other file with unexpected content stops the transaction.
    """

    path: str
    before: Image | None
    after: Image | None
    derived: bool = False

    @classmethod
    def read(cls, table: Fields) -> Change:
        """Return what :meth:`document` described; mistakes are reported to ``table``."""
        path = read_path(table)
        sides = [table.optional_table(side) for side in ("before", "after")]
        before, after = (None if side is None else Image.read(side) for side in sides)
        if before is None and after is None:
            table.refuse("before", "a change needs a file before or after it")
        change = cls(path, before, after, table.flag("derived"))
        if change.derived and not path.endswith(".pyc"):
            table.refuse("derived", "only bytecode may be replaced whatever it holds")
        table.finish()
        return change

    def document(self) -> dict[str, Any]:
        """Return the form that the journal and the receipts hold."""
        document: dict[str, Any] = {"path": self.path}
        if self.before:
            document["before"] = self.before.document()
        if self.after:
            document["after"] = self.after.document()
        if self.derived:
            document["derived"] = True
        return document

    def inverse(self) -> Change:
        """Return the change that takes this one back."""
        return Change(self.path, self.after, self.before, self.derived)


class FolderChange(NamedTuple):
    """A folder that appears with a new file, or goes with the last one: its mode on either side.

    Folders are values of their own so that a rollback can tell the ones that were made here from
    the ones that were there, and gives those back with their mode.
    """

    path: str
    before: int | None
    after: int | None

    @classmethod
    def read(cls, table: Fields) -> FolderChange:
        """Return what :meth:`document` described; mistakes are reported to ``table``."""
        path = read_path(table)
        sides = ("before", "after")
        modes = [table.number(side, default=_ABSENT, most=_FOLDER_MODES) for side in sides]
        before, after = (None if mode == _ABSENT else mode for mode in modes)
        if (before is None) == (after is None):
            table.refuse("before", "a folder has a mode before the change or after it, not both")
        table.finish()
        return cls(path, before, after)

    def document(self) -> dict[str, Any]:
        """Return the form that the journal and the receipts hold."""
        sides = (("before", self.before), ("after", self.after))
        return {"path": self.path, **{side: mode for side, mode in sides if mode is not None}}

    def inverse(self) -> FolderChange:
        """Return the change that takes this one back."""
        return FolderChange(self.path, self.after, self.before)


def read_path(table: Fields) -> str:
    """Return the value of ``path``, reported if it may not name a file below a root."""
    path = table.text("path")
    wrong = paths.problem(path)
    if path and wrong is not None:
        table.refuse("path", wrong)
    return path
