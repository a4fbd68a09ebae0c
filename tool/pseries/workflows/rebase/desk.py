"""What a rebase keeps on disk while it is under way, and what it leaves behind.

``.pseries/rebase/<series>/`` beside the series folder, where git ignores it: the state, the files
that a person resolved (by sha256) and the worktree of the patch that stopped. Every file appears
whole or not at all. ``<series folder>/.resolutions/`` holds what git remembers of resolved
conflicts: it is part of the project, for the next release and for others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pseries import durable
from pseries.errors import NoRebase, Problem, RebaseInvalid, RebaseNotOurs, SeriesUnclear
from pseries.git import checkout as checkouts
from pseries.model import paths, rebase
from pseries.workflows.series import folders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pseries.model.rebase import Creation, State

RESOLUTIONS = ".resolutions"


@dataclass(frozen=True, slots=True)
class Desk:
    """The place where one series is being rebased.

    Args:
        series_dir: the folder that holds the series folders.
        series: the name of the series.
    """

    series_dir: Path
    series: str

    @property
    def folder(self) -> Path:
        """Where the state is kept."""
        return self.series_dir.parent / paths.CONTROL / "rebase" / self.series

    @property
    def resolutions(self) -> Path:
        """Where git's records of resolved conflicts are."""
        return self.series_dir / RESOLUTIONS

    def worktree(self, name: str) -> Path:
        """Return the folder of the worktree of a patch that stopped."""
        return self.folder / name

    # --- the state ----------------------------------------------------------------------------

    def load(self) -> State | None:
        """Return the state to act on, ``None`` if no rebase is under way.

        Raises:
            RebaseNotOurs: another user made it, or a worktree beside it.
            RebaseInvalid: as :meth:`read`.
        """
        if self.folder.is_dir():
            made = (self.folder / rebase.FILE, *self.folder.glob("*/.git"))
            parts = [self.folder, *(part for part in made if part.exists())]
            if (owner := checkouts.stranger(self.folder, parts, os.environ)) is not None:
                raise RebaseNotOurs(str(self.folder), owner)
        return self.read()

    def read(self) -> State | None:
        """Return the state to show, whoever made it, ``None`` if no rebase is under way.

        Raises:
            RebaseInvalid: the file is not one that can be understood.
        """
        try:
            data = (self.folder / rebase.FILE).read_bytes()
        except FileNotFoundError:
            return None
        problems: list[Problem] = []
        state = rebase.parse(data, problems)
        if problems:
            raise RebaseInvalid(str(self.folder), tuple(problems))
        return state

    def save(self, state: State) -> None:
        """Write the state; afterwards it survives whatever happens to this process."""
        self._prepare()
        durable.write_file(self.folder / rebase.FILE, rebase.render(state))

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        ignore = self.series_dir.parent / paths.CONTROL / ".gitignore"
        if not ignore.exists():
            durable.write_file(ignore, b"*\n")

    def keep(self, data: bytes) -> str:
        """Keep the bytes of a resolved file and return their sha256."""
        name = hashlib.sha256(data).hexdigest()
        self._prepare()
        file = self.folder / "resolved" / name
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            durable.write_file(file, data)
        return name

    def kept(self, sha256: str) -> bytes:
        """Return bytes that :meth:`keep` was given.

        Raises:
            RebaseInvalid: they are gone or damaged.
        """
        file = self.folder / "resolved" / sha256
        data = file.read_bytes() if file.is_file() else b""
        if hashlib.sha256(data).hexdigest() != sha256:
            raise RebaseInvalid(str(self.folder), (Problem(sha256, "a resolved file is damaged"),))
        return data

    def forget(self, name: str) -> None:
        """Remove a worktree that no state names: what a killed process left."""
        shutil.rmtree(self.worktree(name), ignore_errors=True)

    def clear(self) -> None:
        """Forget the rebase, the state first; empty folders that are ours go as well."""
        (self.folder / rebase.FILE).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        control = self.series_dir.parent / paths.CONTROL
        with contextlib.suppress(OSError):  # other rebases are under way
            (control / "rebase").rmdir()
            (control / ".gitignore").unlink()
            control.rmdir()

    # --- the result ---------------------------------------------------------------------------

    def remember(self, records: Mapping[str, bytes]) -> None:
        """Write records of resolved conflicts, by path within their folder."""
        for name, data in sorted(records.items()):
            file = self.resolutions / name
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                # by way of a folder that is swept, whatever becomes of this process
                part = self.series_dir / folders.STAGING / file.name
                durable.write_file(part, data)
                part.replace(file)
                durable.sync(file.parent)

    def undo(self, creations: tuple[Creation, ...]) -> tuple[str, ...]:
        """Remove what was created, unless somebody changed it since; return what stays."""
        stays = []
        for creation in creations:
            path = self.series_dir / creation.path
            if path.exists() and folders.content_digest(path) != creation.sha256:
                stays.append(creation.path)
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            if path.parent != self.series_dir:
                with contextlib.suppress(OSError):
                    path.parent.rmdir()
        with contextlib.suppress(OSError):
            self.resolutions.rmdir()
        folders.unstage(self.series_dir)
        return tuple(stays)


def under_way(series_dir: Path) -> tuple[str, ...]:
    """Return the names of the series that are being rebased."""
    found = (series_dir.parent / paths.CONTROL / "rebase").glob(f"*/{rebase.FILE}")
    return tuple(sorted(file.parent.name for file in found))


def find(series_dir: Path, name: str | None) -> Desk:
    """Return where a series is being rebased; without a name the only one.

    Raises:
        NoRebase: none is.
        SeriesUnclear: several are, and none was named.
    """
    known = under_way(series_dir)
    if name is not None and name not in known:
        raise NoRebase(name)
    if not known:
        raise NoRebase("")
    if name is None and len(known) > 1:
        raise SeriesUnclear("of those being rebased", known)
    return Desk(series_dir, name or known[0])
