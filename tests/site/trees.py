"""Small installed trees, and the change that the tests make to them."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.site import faults

from pseries.model import record
from pseries.model.paths import CONTROL
from pseries.site import bytecode, objects, receipt, transaction, undo
from pseries.site.change import Change, Image
from pseries.site.fs import SiteTree
from pseries.site.lock import exclusive
from pseries.site.receipt import Receipt, State

if TYPE_CHECKING:
    from collections.abc import Mapping

LONG_AGO = 1_600_000_000_123_456_789


def install(
    site: Path, files: Mapping[str, bytes], name: str = "eng", version: str = "1.0"
) -> Path:
    """Put a distribution into ``site`` as an installer would, long ago; returns its dist-info."""
    info = site / f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info.name}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        "\nName: not this one\n".encode(),
        f"{info.name}/INSTALLER": b"pip\n",
    }
    rows = []
    for path, data in content.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        os.utime(file, ns=(LONG_AGO, LONG_AGO))
        hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        quoted = f'"{path}"' if "," in path else path
        rows.append(f"{quoted},sha256={hashed},{len(data)}\r\n")
    rows.append(f"{info.name}/RECORD,,\r\n")
    (info / "RECORD").write_text("".join(sorted(rows)), newline="")
    os.utime(info / "RECORD", ns=(LONG_AGO, LONG_AGO))
    return info


class Seen(NamedTuple):
    """What a test compares of a file or folder."""

    mode: int
    data: bytes | None
    mtime_ns: int | None


def snapshot(site: Path, *, times: bool = False, control: bool = False) -> dict[str, Seen]:
    """Return everything below ``site``: folders too, ``.pseries`` only if asked for."""
    found = {}
    for folder, folders, names in os.walk(site):
        if not control and CONTROL in folders:
            folders.remove(CONTROL)
        for name in folders + names:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            data, mtime = None, None
            if stat.S_ISREG(status.st_mode):
                data, mtime = Path(path).read_bytes(), status.st_mtime_ns if times else None
            found[path.removeprefix(f"{site}/")] = Seen(status.st_mode, data, mtime)
    return found


def clone(source: Path, target: Path) -> None:
    """Copy a tree by hard links, as uv installs: quick, and it tells who writes in place."""
    target.mkdir(mode=stat.S_IMODE(source.stat().st_mode))
    for entry in os.scandir(source):
        if entry.is_dir(follow_symlinks=False):
            clone(source / entry.name, target / entry.name)
        else:
            os.link(entry.path, target / entry.name, follow_symlinks=False)


BEFORE: Mapping[str, bytes] = {
    "eng/__init__.py": b"",
    "eng/mod.py": b"a = 1\n",
    "eng/tool.py": b"#!/usr/bin/env python3\n",
    "eng/gone/old.py": b"old = 1\n",
}
RECORD = "eng-1.0.dist-info/RECORD"


def make(site: Path) -> Path:
    """Install the tree that :func:`apply` changes, with bytecode as an import leaves it."""
    install(site, BEFORE)
    for cached in ("eng/__pycache__/mod.cpython-311.pyc", "eng/gone/__pycache__/old.pyc.pyc"):
        (site / cached).parent.mkdir()
        (site / cached).write_bytes(b"bytecode of " + cached.encode())
        os.utime(site / cached, ns=(LONG_AGO, LONG_AGO))
    return site


def replacing(tree: SiteTree, path: str, data: bytes | None, mode: int | None = None) -> Change:
    """Return the change from what is at ``path`` now to ``data`` (``None``: delete it)."""
    now = tree.read(path)
    before = None if now is None else now.image
    if data is None:
        return Change(path, before, None)
    kept = 0o644 if now is None else now.mode
    return Change(path, before, Image.of(data, kept if mode is None else mode))


class Wish(NamedTuple):
    """The new files of a change, by path; ``None`` deletes; the mode only where it changes."""

    files: Mapping[str, bytes | None]
    modes: Mapping[str, int]


AFTER = Wish(
    {
        "eng/mod.py": b"a = 2\n",
        "eng/tool.py": b"#!/usr/bin/env python3\n",
        "eng/gone/old.py": None,
        "eng/new/deep/x.py": b"x = 1\n",
    },
    {"eng/tool.py": 0o755},
)


def plan(tree: SiteTree, wish: Wish = AFTER) -> tuple[Receipt, dict[str, bytes]]:
    """Return the receipt of applying ``wish`` to a tree, and the new contents."""
    files = tuple(
        replacing(tree, path, data, wish.modes.get(path)) for path, data in wish.files.items()
    )
    compiled = bytecode.removals(tree, [change.path for change in files])
    rows: dict[str, tuple[str, int] | None] = {change.path: None for change in compiled}
    for change in files:
        image = change.after
        rows[change.path] = None if image is None else (image.sha256, image.size)
    listed = tree.read(RECORD)
    assert listed is not None
    new_record = record.rewrite(listed.data, rows)
    record_change = replacing(tree, RECORD, new_record)
    made = Receipt(
        series="eng-1.0-test",
        digest="0" * 64,
        distribution="eng",
        version="1.0",
        applied_at="2026-01-01T00:00:00Z",
        tool="0.1.0",
        drift_accepted=False,
        relocate=None,
        direct_url=None,
        record=record_change,
        files=files,
        bytecode=compiled,
        folders=transaction.folder_changes(tree, (*files, *compiled, record_change)),
    )
    contents = [data for data in (*wish.files.values(), new_record) if data is not None]
    return made, {hashlib.sha256(data).hexdigest(): data for data in contents}


def apply(tree: SiteTree, wish: Wish = AFTER) -> transaction.Committed:
    """Do what the workflow ``apply`` does, lock included."""
    with exclusive(tree, 10):
        transaction.recover(tree)
        made, contents = plan(tree, wish)
        state = receipt.read(tree)
        state_change, data = receipt.writing(tree, State((*state.applied, made)))
        contents[hashlib.sha256(data).hexdigest()] = data
        return transaction.commit(tree, (*made.changes, state_change), contents, made.folders)


def roll_back(tree: SiteTree) -> transaction.Committed:
    """Do what the workflow ``rollback`` does, lock included."""
    with exclusive(tree, 10):
        transaction.recover(tree)
        state = receipt.read(tree)
        changes, folders = undo.undo(tree, state.applied[-1])
        state_change, data = receipt.writing(tree, State(state.applied[:-1]))
        contents = {hashlib.sha256(data).hexdigest(): data}
        return transaction.commit(tree, (*changes, state_change), contents, folders)


def interrupted(tree: SiteTree) -> None:
    """Leave a committed transaction with nothing renamed yet."""
    names = faults.count(lambda: apply(tree))
    roll_back(tree)
    first = names.index("rename", names.index("rename") + 1)  # the first is the journal's
    with faults.dying_at(first + 1):
        apply(tree)
    assert pending(tree.root) is not None


def recover(site: Path) -> transaction.Recovery:
    """Run ``recover`` as a fresh process would."""
    with SiteTree(site) as tree, exclusive(tree, 10):
        return transaction.recover(tree)


def pending(site: Path) -> tuple[str, ...] | None:
    """Return what ``status`` would say about an unfinished transaction."""
    with SiteTree(site) as tree:
        return transaction.pending(tree)


def stored(site: Path) -> set[str]:
    """Return the names of the stored contents."""
    folder = site / objects.FOLDER
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()
