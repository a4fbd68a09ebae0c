"""Contents kept by sha256 under ``.pseries/objects``: backups, and what a change is to write.

They are copies, never hard links: a program that writes into the original in place would write
into its backup as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pseries.model.fields import SHA256
from pseries.model.paths import CONTROL

if TYPE_CHECKING:
    from collections.abc import Collection

    from pseries.site.fs import SiteTree

FOLDER = f"{CONTROL}/objects"


def put(tree: SiteTree, sha256: str, data: bytes, mode: int) -> str:
    """Store ``data`` under its hash and return the path, which the caller has to synchronise.

    Whoever may read a file of ``mode`` may read it. What an interrupted run left half written
    under the name is replaced.
    """
    path = f"{FOLDER}/{sha256}"
    stored = tree.read(path)
    if stored is not None and stored.sha256 != sha256:
        tree.remove(path)
        stored = None
    if stored is None:
        # Never executable, always readable for the owner: mode 0 must not lock us out.
        tree.create(path, data, mode & 0o644 | 0o600)
    return path


def get(tree: SiteTree, sha256: str) -> bytes | None:
    """Return the content with this hash, ``None`` if it is missing or damaged."""
    stored = tree.read(f"{FOLDER}/{sha256}")
    return stored.data if stored is not None and stored.sha256 == sha256 else None


def sweep(tree: SiteTree, keep: Collection[str]) -> None:
    """Remove every content that nothing in ``keep`` names."""
    for name in tree.names(FOLDER) or ():
        if SHA256.fullmatch(name) and name not in keep:
            tree.remove(f"{FOLDER}/{name}")
