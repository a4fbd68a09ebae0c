"""Finding series folders and reading them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pseries
from pseries.errors import Problem, SeriesFolderMissing, SeriesInvalid, SeriesNotFound
from pseries.model import manifest as manifests
from pseries.model import naming
from pseries.model import order as orders
from pseries.model import series as series_model
from pseries.model import spec as specs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pseries.model.series import Series

VARIABLE = "PSERIES_DIR"
FOLDER = "series"
SHIPPED = "shipped with pseries"
_MOST_FILE = 64 << 20
_MOST_FILES = 25_000
_STRUCTURED = (specs.FILE, series_model.ORDER_FILE, manifests.FILE)


class Location(NamedTuple):
    """A folder that holds series folders, and why it was chosen."""

    folder: Path
    reason: str


def locate(
    option: Path | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Location | None:
    """Return the folder in which series are looked for, or ``None`` where there is none.

    The first of: ``--series-dir``, ``PSERIES_DIR``, the nearest ``series/`` above the current
    folder, the series that ship with the program.

    Raises:
        SeriesFolderMissing: the first or the second names something that is not a folder, or one
            series.
    """
    environment = os.environ if environment is None else environment
    if option is not None:
        return _given(option, "--series-dir")
    if environment.get(VARIABLE):
        return _given(Path(environment[VARIABLE]), VARIABLE)
    here = Path.cwd() if cwd is None else cwd
    for parent in (here, *here.parents):
        if any(parent.glob(f"{FOLDER}/*/{series_model.ORDER_FILE}")):
            return Location(parent / FOLDER, "the nearest series folder above this one")
    return shipped()


def _given(folder: Path, said_by: str) -> Location:
    if not folder.is_dir():
        raise SeriesFolderMissing(str(folder), said_by, "")
    if (folder / specs.FILE).is_file():
        raise SeriesFolderMissing(str(folder), said_by, str(folder.absolute().parent))
    return Location(folder, said_by)


def shipped() -> Location | None:
    """Return where the series lie that ship with the program."""
    package = Path(pseries.__file__).resolve().parent
    for folder in (package / FOLDER, package.parent.parent / FOLDER):  # a wheel; a checkout
        if folder.is_dir():
            return Location(folder, SHIPPED)
    return None


def names(location: Location | None) -> tuple[str, ...]:
    """Return the names of the series in a folder, sorted."""
    if location is None:
        return ()
    found = location.folder.glob(f"*/{series_model.ORDER_FILE}")
    return tuple(sorted(file.parent.name for file in found))


def folder_of(name: str, location: Location | None) -> Path:
    """Return the folder of a series given by name, or by a path to it.

    Raises:
        SeriesNotFound: with the names that are close.
    """
    given = Path(name)
    if "/" in name and (given / series_model.ORDER_FILE).is_file():
        return given
    known = names(location)
    if location is not None and name in known:
        return location.folder / name
    import difflib  # noqa: PLC0415 - only a failure pays for it

    looked_in = () if location is None else (str(location.folder),)
    close = tuple(difflib.get_close_matches(name, known))
    others = shipped()
    hidden = str(others.folder) if others is not None and name in names(others) else ""
    raise SeriesNotFound(name, looked_in, known, close, hidden)


def load(name: str, location: Location | None, *, manifest: bool = True) -> Series:
    """Read a series with all its patches, and with its manifest unless that is not wanted.

    Raises:
        SeriesNotFound: there is none of that name.
        SeriesInvalid: with everything that is wrong with it.
    """
    folder = folder_of(name, location)
    files = _read(folder)
    if not manifest:
        files.pop(manifests.FILE, None)
    return series_model.assemble(folder.resolve().name, str(folder), files)


def load_spec(name: str, location: Location | None) -> tuple[specs.Spec, orders.Order]:
    """Read only what people wrote about a series and the order of its patches: what a list needs.

    Raises:
        SeriesNotFound: there is none of that name.
        SeriesInvalid: with everything that is wrong with these two files.
    """
    folder = folder_of(name, location)
    problems: list[Problem] = []
    try:
        files = {
            file: _content(folder / file) if (folder / file).is_file() else b""
            for file in (specs.FILE, series_model.ORDER_FILE)
        }
    except OSError as error:  # a neighbour's: a list must show the others
        unread = Problem(Path(error.filename or folder).name, f"cannot be read: {error.strerror}")
        raise SeriesInvalid(name, (unread,)) from error
    spec = specs.parse(files[specs.FILE], problems)
    order = orders.parse(files[series_model.ORDER_FILE], problems)
    if problems:
        raise SeriesInvalid(name, tuple(problems))
    return spec, order


def versions(distribution: str, location: Location | None) -> dict[str, str]:
    """Return the series for a distribution and the upstream version that each is for."""
    wanted = naming.normalized(distribution)
    return {
        name: version
        for name, (patched, version) in releases(location).items()
        if naming.normalized(patched) == wanted
    }


def releases(location: Location | None) -> dict[str, tuple[str, str]]:
    """Return the distribution and version that each series is for; those not valid are left out."""
    found: dict[str, tuple[str, str]] = {}
    for name in names(location):
        try:
            upstream = load_spec(name, location)[0].upstream
        except SeriesInvalid:
            continue
        found[name] = upstream.distribution, upstream.version
    return found


def _read(folder: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path in sorted(folder.iterdir()):
        wanted = path.name in _STRUCTURED or path.name.endswith(series_model.PATCH_SUFFIXES)
        if not wanted:
            continue
        if path.is_symlink() or not path.is_file():
            problems.append(Problem(path.name, "not a regular file"))
        elif path.stat().st_size > _MOST_FILE:
            problems.append(Problem(path.name, f"larger than {_MOST_FILE >> 20} MiB"))
        else:
            files[path.name] = _content(path)
    if len(files) > _MOST_FILES:
        problems.append(Problem(str(folder), f"more than {_MOST_FILES} files"))
    if problems:
        raise SeriesInvalid(folder.name, tuple(problems))
    return files


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_FILE + 1)
