"""Series in the forms of other tools: what their files are, and how they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pseries.durable import whole_folder, write_file
from pseries.errors import ExportInTheWay, ExportRefused, Problem
from pseries.model import order as orders
from pseries.model import paths
from pseries.model import series as series_model
from pseries.model.diff import dialect, mbox

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pseries.model.series import Series


def quilt_files(series: Series) -> dict[str, bytes]:
    """Return quilt's folder of patches: they and the order file, each to the byte."""
    files = {patch.name: patch.data for patch in series.patches}
    return {series_model.ORDER_FILE: orders.render(series.order), **files}


def mailbox(series: Series) -> tuple[bytes, tuple[str, ...]]:
    """Return a mailbox that ``git am`` takes, and what a person should know of it."""
    messages: list[bytes] = []
    notes: list[str] = []
    chunks = orders.chunks(series.order)
    for number, (patch, chunk) in enumerate(zip(series.patches, chunks, strict=True), 1):
        usual = mbox.usual_name(number, patch.header.subject)
        message = mbox.wrapped(patch.name, patch.data, patch.header, chunk, usual)
        messages.append(message)
        if patch.strip != 1:
            notes.append(f"{patch.name}: git am needs -p{patch.strip} for it")
        if not patch.header.author:
            notes.append(f"{patch.name} names no author: git am will say {mbox.NOBODY}")
    return mbox.joined(messages), tuple(notes)


def fromager_files(series: Series) -> tuple[str, dict[str, bytes], tuple[str, ...]]:
    """Return fromager's folder of patches, its name, and what a person should know of it.

    Fromager runs ``patch -p1`` on every ``*.patch``, in the order of names. The order file, which
    it passes over, keeps what names alone do not say.

    Raises:
        ExportRefused: a patch is none that GNU patch can apply.
    """
    upstream = series.spec.upstream
    problems = tuple(
        Problem(f"{patch.name}:{section.line}", f"{paths.display(section.path)} is binary")
        for patch in series.patches
        for section in patch.sections
        if section.binary
    )
    if problems:
        raise ExportRefused(series.name, "fromager", problems)
    names = _sorted_names([patch.name for patch in series.patches])
    notes = [
        f"{old} is {new}: fromager takes patches in the order of their names"
        for old, new in names.items()
        if old != new
    ]
    files: dict[str, bytes] = {}
    for patch in series.patches:
        data = patch.data
        if patch.strip != 1:
            data = dialect.rewritten(patch.name, data, patch.strip)
            notes.append(f"{patch.name}: its -p{patch.strip} names became a/ and b/")
        files[names[patch.name]] = data
    entries = [(names[patch.name], 1) for patch in series.patches]
    order = orders.renamed(series.order, dict(names))
    if any(patch.strip != 1 for patch in series.patches):
        order = orders.arranged(orders.parse(b"", []), entries)
    files[series_model.ORDER_FILE] = orders.render(order)
    folder = f"{upstream.distribution.replace('-', '_').lower()}-{upstream.version}"
    return folder, files, tuple(notes)


def _sorted_names(names: list[str]) -> dict[str, str]:
    """Return names that sort in the order of the series: their own if they do."""
    plain = {name: name if name.endswith(".patch") else f"{name.rpartition('.')[0]}.patch"
             for name in names}  # fmt: skip
    kept = list(plain.values())
    if sorted(kept) == kept and len(set(kept)) == len(kept):
        return plain
    return {name: f"{number:04}-{plain[name]}" for number, name in enumerate(names, 1)}


# --- writing ----------------------------------------------------------------------------------


def write_mailbox(target: Path, data: bytes) -> None:
    """Write a file that is not there yet; raises :class:`ExportInTheWay`."""
    refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, data)


def write_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder that is not there yet, whole or not at all; raises as above."""
    refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(target) as new:
        for name, data in files.items():
            (new / name).write_bytes(data)
            (new / name).chmod(0o644)


def refuse_existing(target: Path) -> None:
    """Raise :class:`ExportInTheWay` where there is something, if only an empty folder."""
    if target.is_symlink() or target.exists():
        raise ExportInTheWay(str(target))
