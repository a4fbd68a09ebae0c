"""A series as a branch of a repository of its own: one commit a patch, on the release."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pseries.git import loose, process
from pseries.git.checkout import Checkout
from pseries.git.history import NOTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.model.commit import Commit
    from pseries.model.diff.splice import File

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]*(?:\.[A-Za-z0-9_+-]+)*")
_LONGEST_NAME = 200
"""The file of a branch has to hold its name and what git adds to it, such as ``.lock``."""
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_REPACK_TIMEOUT = 600.0


class Base(NamedTuple):
    """The commits that stand for a release: the store's own, and upstream's where that is known."""

    own: str
    upstream: str


class Named(NamedTuple):
    """What the branch is called, and the tag of the commit below its first patch."""

    branch: str
    base: str


def is_name(name: str) -> bool:
    """Say whether a series' name can be a branch's (git-check-ref-format(1), and stricter)."""
    fits = len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) is not None
    return fits and not name.endswith(".lock")


def write(
    target: Path,
    borrowed: Path,
    base: Base,
    patches: Sequence[tuple[Commit, Mapping[str, File | None]]],
    named: Named,
    notes: Sequence[bytes],
) -> bool:
    """Write a bare repository; it appears under its name when it is whole.

    Args:
        target: its folder, which must not be there.
        borrowed: the store that holds the release.
        base: the release.
        patches: who, when and why of each, and what it makes of the files it changes.
        named: branch and tag.
        notes: what is noted of the last of the commits, one each; the others are below the tag.

    Returns:
        Whether it stands on upstream's own commit, so that a clone of upstream can fetch it.
    """
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name[:80]}.", dir=target.parent) as name:
        folder = Path(name) / "work"
        with Checkout.create(folder, borrowed, named.branch) as work:
            git_dir = work.git_dir
            upstream = bool(base.upstream) and _has(git_dir, base.upstream)
            start = base.upstream if upstream else base.own
            if upstream:
                (git_dir / "shallow").write_text(f"{start}\n")
            ids = [start, *work.import_patches(start, patches)]
            below = ids[-len(notes) - 1]
            _point(git_dir, f"refs/heads/{named.branch}", ids[-1])
            _point(git_dir, f"refs/tags/{named.base}", below)
            if notes:
                _point(git_dir, NOTES, _noted(git_dir, ids[-len(notes) :], notes))
            _settle(git_dir)
            whole = Path(name) / "whole"
            git_dir.rename(whole)
        shutil.rmtree(folder, ignore_errors=True)
        whole.rename(target)
    return upstream


def _has(git_dir: Path, commit: str) -> bool:
    said = process.run(
        ["cat-file", "-e", f"{commit}^{{commit}}"], git_dir=git_dir, accept=(0, 1, 128)
    )
    return said.status == 0


def _point(git_dir: Path, ref: str, target: str) -> None:
    process.run(["update-ref", "--no-deref", "--", ref, target], git_dir=git_dir)


def _noted(git_dir: Path, ids: Sequence[str], notes: Sequence[bytes]) -> str:
    """Write the notes (git-notes(1)): a tree of blobs by the commits' ids; return its commit."""
    blobs = {
        name.encode(): (0o100644, loose.write(git_dir, b"blob", note))
        for name, note in zip(ids, notes, strict=True)
    }
    tree = loose.write_tree(git_dir, blobs)
    return loose.write_commit(git_dir, tree, b"the patches that the commits were made from\n")


def _settle(git_dir: Path) -> None:
    """Copy what is borrowed, so that the repository stands alone, and make it a bare one."""
    process.run(["repack", "-a", "-d", "-q"], git_dir=git_dir, timeout=_REPACK_TIMEOUT)
    (git_dir / "objects/info/alternates").unlink()
    (git_dir / "config").write_text(_CONFIG)
    for name in ("index", "pseries"):
        (git_dir / name).unlink(missing_ok=True)
