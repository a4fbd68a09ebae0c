"""Series folders that appear, or change, as a whole."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pseries.errors import FolderChanged, Problem, SeriesExists
from pseries.model import manifest as manifests
from pseries.model import series as series_model
from pseries.workflows.desk import Desk, files_in
from pseries.workflows.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LAST = (series_model.ORDER_FILE, manifests.FILE)


def create(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a new series folder; it appears under its name when it is whole.

    Raises:
        SeriesExists: something has that name.
        RebaseBusy: another process changes a series beside it.
    """
    made = not folder.parent.is_dir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = Desk(folder.parent, folder.name)
    try:
        with place.lock():
            refuse_existing(folder)
            try:
                place.publish(place.stage(folder.name, files))
            finally:
                place.unstage()
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
        RebaseBusy: another process changes a series beside it.
    """
    with Desk(folder.parent, folder.name).lock():
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
                replace_file(folder / name, files[name])
        except BaseException:
            for name in reversed(done):
                with contextlib.suppress(OSError):
                    if name in old:
                        replace_file(folder / name, old[name])
                    else:
                        (folder / name).unlink(missing_ok=True)
            raise
