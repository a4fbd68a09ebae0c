"""A small made-up package ``eng``, its release, a series for it, and installed copies of it."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pseries.upstream import imports
from pseries.upstream.store import Store
from pseries.workflows.series import catalog, release
from pseries.workflows.series.means import Means

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pseries.model.series import Series

MODULE = b"""# The engine.


def load(path):
    handle = open(path)
    data = handle.read()
    handle.close()
    return data


def save(path, data):
    handle = open(path, "w")
    handle.write(data)
    handle.close()
    return path
"""

FILES: dict[str, bytes] = {
    "eng/__init__.py": b"VERSION = 1\n",
    "eng/core.py": MODULE,
    "eng/net.py": b"TIMEOUT = 10\nRETRIES = 2\nHOST = 'a'\nPORT = 1\nPATH = '/'\n",
    "eng/old.py": b"GONE = True\n",
    "eng/tool.sh": b"#!/bin/sh\necho hello\n",
    "eng/nvidia/ops.py": b"A = 1\nB = 2\nC = 3\nD = 4\nE = 5\nF = 6\n",
}
"""The release: installed paths, which are the canonical ones too."""

EXTRA: dict[str, bytes] = {
    "tests/test_core.py": b"def test():\n    assert True\n",
    "csrc/fast.cu": b"int fast;\n",
}
"""What the release's repository has and its wheel has not."""

_LARGE = 4 << 20

TOML = """schema = 1
summary = "a test"
label = "t.1"
{top}
[upstream]
distribution = "{distribution}"
version = "{version}"
{rest}
"""


def git(repository: Path, *arguments: str) -> bytes:
    """Run the real git in a repository of the test's own."""
    return subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", *arguments],
        cwd=repository, check=True, capture_output=True,
    ).stdout  # fmt: skip


def diff(before: Mapping[str, bytes], after: Mapping[str, bytes], folder: Path) -> bytes:
    """Return git's own diff between two sets of files, with full ids, renames and binaries."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for files in (before, after):
        for path in folder.iterdir():
            if path.name != ".git":
                subprocess.run(["rm", "-rf", str(path)], check=True)
        write(folder, files)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return git(folder, "diff", "--full-index", "--binary", "-M", "HEAD~1", "HEAD")


def message(subject: str = "Change the engine") -> bytes:
    """Return the head of a patch as `git format-patch --zero-commit` writes it."""
    return (
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001\n"
        "From: A Tester <t@example.invalid>\n"
        "Date: Tue, 1 Dec 2026 09:00:00 +0000\n"
        f"Subject: [PATCH] {subject}\n\nBecause the test says so.\n\n"
        "Upstream-Status: Pending\n---\n"
    ).encode()


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder; scripts are executable."""
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o755 if path.endswith(".sh") else 0o644)


def install(
    site: Path, files: Mapping[str, bytes] = FILES, version: str = "1.0", name: str = "eng"
) -> Path:
    """Make an installed distribution of files: what pip would have left."""
    write(site, files)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    extra = {f"{info}/METADATA": metadata, f"{info}/INSTALLER": b"pip\n"}
    write(site, extra)
    rows = [record_row(path, data) for path, data in sorted({**files, **extra}.items())]
    (site / info / "RECORD").write_text("".join([*rows, f"{info}/RECORD,,\n"]))
    return site


def record_row(path: str, data: bytes) -> str:
    """Return the row of RECORD for a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def make_series(
    folder: Path,
    patches: Mapping[str, bytes],
    *,
    name: str = "eng-1.0",
    version: str = "1.0",
    top: str = "",
    rest: str = "",
    order: str | None = None,
    distribution: str = "eng",
) -> Path:
    """Write a series folder below ``folder`` and return it."""
    series = folder / name
    series.mkdir(parents=True)
    (series / "series.toml").write_text(
        TOML.format(version=version, top=top, rest=rest, distribution=distribution)
    )
    (series / "series").write_text(
        "".join(f"{each}\n" for each in patches) if order is None else order
    )
    for each, data in patches.items():
        (series / each).write_bytes(data)
    return series


def add_release(
    files: Mapping[str, bytes], folder: Path, version: str = "1.0", name: str = "eng"
) -> None:
    """Put a release into the store that ``PSERIES_CACHE`` names."""
    write(folder, files)
    store = Store.open(name)
    with store.lock():
        imports.add_folder(store, version, folder, "")


def locked(series: Path) -> Series:
    """Lock a series folder and return the series."""
    location = catalog.Location(series.parent, "the test's")
    release.lock_folder(series.name, location, Means(offline=True))
    return catalog.load(series.name, location)


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return kind, mode, time and content of everything below a folder, for comparison."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            found[str(path.relative_to(folder))] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[str(path.relative_to(folder))] = ("folder", status.st_mode)
        else:
            # Nothing ever touches the large compiled files; their inode says as much as a hash.
            large = status.st_size > _LARGE
            content = status.st_ino if large else hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(folder))] = (content, status.st_mode, status.st_mtime_ns)
    return found
