"""Series folders: what is part of one, and how they appear, or change, as a whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from pseries.durable import sync, sync_tree, write_file
from pseries.errors import FolderChanged, Problem, SeriesBusy, SeriesExists
from pseries.model import manifest as manifests
from pseries.model import series as series_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

STAGING = ".staging"
"""Two levels above the files of a series, so that no one takes it for one."""
_LAST = (series_model.ORDER_FILE, manifests.FILE)


@contextlib.contextmanager
def lock(series_dir: Path) -> Iterator[None]:
    """Keep another process from making or changing a series; raises :class:`SeriesBusy` at once.

    The folder that holds the series folders is locked: it is there anyway and is never removed.
    """
    descriptor = os.open(series_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SeriesBusy(str(series_dir)) from None
        yield
    finally:
        os.close(descriptor)


# --- a new one --------------------------------------------------------------------------------


def create(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a new series folder; it appears under its name when it is whole.

    Raises:
        SeriesExists: something has that name.
        SeriesBusy: another process changes a series beside it.
    """
    made = not folder.parent.is_dir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with lock(folder.parent):
            refuse_existing(folder)
            try:
                publish(stage(folder.parent, folder.name, files))
            finally:
                unstage(folder.parent)
    except BaseException:
        if made:
            with contextlib.suppress(OSError):
                folder.parent.rmdir()
        raise


def refuse_existing(folder: Path) -> None:
    """Raise :class:`SeriesExists` where there is something of that name."""
    if folder.is_symlink() or folder.exists():
        what = "is there already; --variant NAME gives the new series a name of its own"
        raise SeriesExists(str(folder), (Problem(folder.name, what),))


def stage(series_dir: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Write the files of a new series where nobody looks for series, and return the folder."""
    unstage(series_dir)
    folder = series_dir / STAGING / name
    folder.mkdir(parents=True)
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return folder


def unstage(series_dir: Path) -> None:
    """Remove what was staged; a link in its place goes, never what it leads to."""
    staging = series_dir / STAGING
    if staging.is_symlink():
        staging.unlink()
    shutil.rmtree(staging, ignore_errors=True)


def publish(staged: Path) -> Path:
    """Put a staged series in its place, all of it at once, and return its folder."""
    sync_tree(staged)
    series_dir = staged.parent.parent
    folder = series_dir / staged.name
    staged.rename(folder)
    sync(series_dir)
    return folder


# --- one that is there ------------------------------------------------------------------------


def change(folder: Path, old: Mapping[str, bytes], files: Mapping[str, bytes]) -> None:
    """Write what is new or changed in a series folder: all of it, or nothing if that fails.

    Patches come first, then the order file, the manifest last: a process that is killed on the way
    leaves a folder that is refused, not one that is misread.

    Args:
        folder: the folder.
        old: its files when the change was planned.
        files: what it is to hold beside what is not named here.

    Raises:
        FolderChanged: somebody changed it meanwhile.
        SeriesBusy: another process changes a series beside it.
    """
    with lock(folder.parent):
        now = files_in(folder)
        changed = tuple(sorted(name for name in {*old, *now} if old.get(name) != now.get(name)))
        if changed:
            raise FolderChanged(str(folder), changed)
        todo = sorted(
            (name for name in files if files[name] != old.get(name)),
            key=lambda name: (_LAST.index(name) if name in _LAST else -1, name),
        )
        done: list[str] = []
        try:
            for name in todo:
                done.append(name)
                write_file(folder / name, files[name])
        except BaseException:
            for name in reversed(done):
                with contextlib.suppress(OSError):
                    if name in old:
                        write_file(folder / name, old[name])
                    else:
                        (folder / name).unlink(missing_ok=True)
            raise


# --- what is in one ---------------------------------------------------------------------------


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the plain files of a series folder by name.

    Hidden ones are not part of it, nor is what editors and ``patch`` leave behind.
    """
    return {
        file.name: file.read_bytes()
        for file in sorted(folder.iterdir())
        if file.is_file() and not file.is_symlink() and not is_scrap(file.name)
    }


def is_scrap(name: str) -> bool:
    """Say whether a file is hidden, or what an editor or ``patch`` leaves behind."""
    return name.startswith((".", "#")) or name.endswith(("~", ".bak", ".orig", ".rej"))


def content_digest(path: Path) -> str:
    """Return a sha256 of a file's bytes, or of a folder's files with their names."""
    if path.is_file():
        return digest_of_file(path.read_bytes())
    return _digest_of({
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file()
    })  # fmt: skip


def digest_of_file(data: bytes) -> str:
    """Return the :func:`content_digest` of a file with these bytes."""
    return hashlib.sha256(data).hexdigest()


def _digest_of(files: Mapping[str, bytes]) -> str:
    lines = [f"{digest_of_file(data)}  {name}\n" for name, data in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
