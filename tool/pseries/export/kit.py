"""A folder that patches an installed package on a host with neither network nor git nor pseries.

It holds the files before and after, one unified diff to read, a list with every hash, and one
script for Python 3.8 or newer (:mod:`pseries.export.kit_script`) that does the work.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from pseries import durable
from pseries.errors import FolderInTheWay
from pseries.export.zipcopy import moment
from pseries.model import paths
from pseries.model.manifest import image

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pseries.model.diff.splice import File

SCHEMA = 1
LIST = "kit.json"
SCRIPT = "apply.py"
DIFF = "series.diff"
_EXECUTABLE = 0o111


@dataclass(frozen=True, slots=True)
class Tree:
    """The touched files in one place where they can be installed, by installed path.

    ``name`` says which: "" as upstream installs them, else of a relocation or an artefact.
    """

    name: str
    before: Mapping[str, File]
    after: Mapping[str, File]


@dataclass(frozen=True, slots=True)
class Kit:
    """What a kit is made of; the first tree is upstream's."""

    series: str
    digest: str
    distribution: str
    version: str
    trees: tuple[Tree, ...]
    diff: bytes


@dataclass(frozen=True, slots=True)
class Report:
    """The folder and the zip file that were written, and the files that the kit changes."""

    folder: Path
    archive: Path
    files: tuple[str, ...]


def build(kit: Kit, folder: Path, epoch: int) -> Report:
    """Write ``<series>-kit`` and ``<series>-kit.zip`` into ``folder``.

    A folder of that name is replaced if it is a kit, in one step; anything else is left alone.

    Raises:
        FolderInTheWay: something that is no kit has the name.
    """
    name = f"{kit.series}-kit"
    target = folder / name
    if target.is_symlink() or (target.exists() and not (target / LIST).is_file()):
        raise FolderInTheWay(str(target))
    files = _files(kit)
    folder.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder))
    try:
        _write_tree(new, files)
        durable.sync_tree(new)
        archive = folder / f"{name}.zip"
        durable.write_file(archive, _zip(name, files, epoch))
        old = new.with_name(f"{new.name}.old")
        if target.exists():
            target.rename(old)
        new.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        durable.sync(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    touched = sorted(kit.trees[0].before.keys() | kit.trees[0].after.keys())
    return Report(target, archive, tuple(touched))


def _files(kit: Kit) -> dict[str, bytes]:
    """Return the files of the kit by path."""
    files: dict[str, bytes] = {}
    packed: dict[tuple[str, bytes], str] = {}
    layouts = [_layout(tree, files, packed) for tree in kit.trees]
    listed = {
        "schema": SCHEMA,
        "series": kit.series,
        "digest": kit.digest,
        "distribution": kit.distribution,
        "version": kit.version,
        "layouts": layouts,
    }
    files[LIST] = (json.dumps(listed, indent=1) + "\n").encode("ascii")
    files[DIFF] = kit.diff
    script = resources.files("pseries.export").joinpath("kit_script.py")
    files[SCRIPT] = script.read_bytes()
    return files


def _layout(
    tree: Tree, files: dict[str, bytes], packed: dict[tuple[str, bytes], str]
) -> dict[str, object]:
    """List the files of a tree; what has the same bytes in several trees is packed once."""
    top = f"{tree.name}/" if tree.name else ""
    rows: list[dict[str, object]] = []
    for path in sorted(tree.before.keys() | tree.after.keys()):
        row: dict[str, object] = {"path": path}
        for side, folder, there in (
            ("before", "upstream", tree.before),
            ("after", "patched", tree.after),
        ):
            if path not in there:
                row[side] = None
                continue
            mode, data = there[path]
            file = packed.setdefault((folder, data), f"{top}{folder}/{path}")
            files[file] = data
            about = image(mode, data)
            row[side] = {
                "file": file,
                "sha256": about.sha256,
                "size": about.size,
                "executable": bool(mode & _EXECUTABLE),
            }
        rows.append(row)
    return {"name": tree.name, "files": rows}


def _mode(path: str) -> int:
    return 0o755 if path == SCRIPT else 0o644


def _write_tree(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files; names are UTF-8 and modes are ours, whatever locale and umask say."""
    for path, data in files.items():
        place = folder / os.fsdecode(paths.encode(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(_mode(path))
    for below in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        below.chmod(0o755)


def _zip(name: str, files: Mapping[str, bytes], epoch: int) -> bytes:
    """Return the same as an archive that does not depend on the machine."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for path, data in sorted(files.items()):
            info = zipfile.ZipInfo(f"{name}/{path}", moment(epoch))
            info.create_system = 3  # Unix: the mode counts
            info.external_attr = (0o100000 | _mode(path)) << 16
            archive.writestr(info, data)
    return stream.getvalue()
