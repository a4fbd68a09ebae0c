"""Base images made of this machine's own Python, and a buildah that keeps to one folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

# What the interpreter needs to run a script of the standard library, and nothing more.
_LEFT_OUT = {
    "site-packages", "dist-packages", "test", "tests", "idlelib", "ensurepip", "tkinter",
    "turtledemo", "pydoc_data", "lib2to3", "distutils", "unittest", "__pycache__", "asyncio",
}  # fmt: skip
# Of its compiled modules: those that come with libraries of their own.
_HEAVY = ("_ssl", "_hashlib", "_tkinter", "_sqlite3", "_curses", "_ctypes", "_test", "_lzma",
          "_bz2", "_dbm", "_gdbm", "_codecs_", "_decimal", "readline", "_elementtree")  # fmt: skip


@dataclass(frozen=True)
class Buildah:
    """The program, with storage in a folder of its own and no need of namespaces."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "STORAGE_DRIVER": "vfs",
            "BUILDAH_ISOLATION": "chroot",
        }

    def __call__(self, *words: str) -> str:
        """Run it and return what it prints."""
        done = subprocess.run(
            ["buildah", *words], env={**os.environ, **self.environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


def buildah(folder: Path) -> Buildah:
    """Return a buildah that keeps everything below ``folder``."""
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    return Buildah(folder)


def interpreter(root: Path) -> Path:
    """Copy this Python below ``root``; return where site-packages is in there, as a path."""
    program = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib"))
    home = _below(root, standard)
    shutil.copytree(
        standard,
        home,
        ignore=lambda _, names: [
            name for name in names if name in _LEFT_OUT or name.startswith("config-")
        ],
        symlinks=True,
    )
    modules = []
    for file in (home / "lib-dynload").iterdir():
        if file.name.startswith(_HEAVY):
            file.unlink()
        else:
            modules.append(file)
    for file in {program, *_libraries(program), *(each for m in modules for each in _libraries(m))}:
        place = _below(root, file)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy2(file, place)
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    if not (root / "usr/bin/python3").exists():
        (root / "usr/bin/python3").symlink_to(program)
    for name in ("tmp", "proc", "sys", "dev", "etc"):
        (root / name).mkdir(exist_ok=True)
    return standard / "site-packages"


def _libraries(program: Path) -> list[Path]:
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", said)]


def _below(root: Path, path: Path) -> Path:
    return root / str(path).lstrip("/")
