"""Objects that are written one by one, without git: two lines of code against a process each.

The form is git's (gitformat-loose); :mod:`.pack` writes many at once.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import TYPE_CHECKING

from pseries.model import commit as commits
from pseries.model import paths

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER = 0o40000
"""The mode of a folder in a tree."""


def write(git_dir: Path, kind: bytes, content: bytes) -> str:
    """Write an object into a repository of ours and return its id."""
    whole = b"%s %d\0" % (kind, len(content)) + content
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    folder = git_dir / "objects" / name[:2]
    file = folder / name[2:]
    if not file.exists():
        folder.mkdir(exist_ok=True)
        # Under another name first: half an object, of a full disk, would be taken for a whole one.
        part = folder / f"tmp_obj_{os.getpid()}_{name[2:]}"
        try:
            part.write_bytes(zlib.compress(whole, 1))
            part.replace(file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    return name


def write_commit(git_dir: Path, tree: str, message: bytes, *parents: str) -> str:
    """Write a commit of nobody at no time, so that its id depends on what it holds alone."""
    return write(git_dir, b"commit", commit(tree, message, *parents))


def write_tree(git_dir: Path, entries: Mapping[bytes, tuple[int, str]]) -> str:
    """Write a tree of entries, git mode and id by name, and return its id."""
    return write(git_dir, b"tree", tree(entries))


def commit(tree: str, message: bytes, *parents: str) -> bytes:
    """Return the content of a commit of nobody at no time."""
    said = paths.decode(message)
    return commits.render(commits.Commit("", tree, parents, *commits.NOBODY, said))


def tree(entries: Mapping[bytes, tuple[int, str]]) -> bytes:
    """Return the content of a tree; git sorts a folder as if its name ended in a slash."""
    rows = {
        name + b"/" if mode == FOLDER else name: b"%o %s\0%s" % (mode, name, bytes.fromhex(id_))
        for name, (mode, id_) in entries.items()
    }
    return b"".join(rows[key] for key in sorted(rows))
