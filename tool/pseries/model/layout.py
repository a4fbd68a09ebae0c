"""Canonical paths (the git tree's) and where a build of them ends up in site-packages."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from pseries.model.spec import Relocation

_COMPILED = (
    ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hip", ".inl", ".inc",
    ".m", ".mm", ".metal", ".pyx", ".pxd", ".pxi", ".rs", ".f90", ".s", ".asm", ".cmake",
)  # fmt: skip
_COMPILED_NAMES = ("CMakeLists.txt", "Cargo.toml", "Cargo.lock", "setup.py")


_NEVER_INSTALLED = (
    "test", "tests", "testing", "doc", "docs", "example", "examples", "bench", "benchmark",
    "benchmarks", "tool", "tools", "script", "scripts", "ci", "docker", "requirements", "cmake",
)  # fmt: skip
"""Folders at the top of a repository that packages are not made of, by custom."""


class Placement(Enum):
    """What becomes of a canonical path in an installed tree."""

    INSTALLED = "installed"
    """It is a file of the distribution in site-packages."""
    ABSENT = "absent"
    """A wheel does not carry it (tests, docs, …): skipped there, and said so."""
    COMPILED = "compiled"
    """It is a source of a compiled part: changing it needs a build."""
    UNSURE = "unsure"
    """It is a new module beside the packages: only a build would tell whether it is installed."""


class Layout(NamedTuple):
    """How canonical paths map to installed ones.

    Args:
        root: the folder of the git tree that installs into site-packages; "" for the top.
        relocation: a build that ships one folder elsewhere, or ``None``.
    """

    root: str = ""
    relocation: Relocation | None = None

    def installed(self, path: str) -> str | None:
        """Return where the canonical ``path`` is installed; ``None`` if outside ``root``."""
        if self.relocation is not None:
            path = _moved(path, self.relocation.source, self.relocation.target)
        if not self.root:
            return path
        return path.removeprefix(f"{self.root}/") if path.startswith(f"{self.root}/") else None

    def canonical(self, installed: str) -> str:
        """Return the canonical path of an installed one: the inverse of :meth:`installed`."""
        path = f"{self.root}/{installed}" if self.root else installed
        if self.relocation is not None:
            path = _moved(path, self.relocation.target, self.relocation.source)
        return path

    def placement(self, path: str, packages: Collection[str], *, new: bool = False) -> Placement:
        """Say what becomes of a canonical path.

        Args:
            path: the canonical path.
            packages: the top-level names that the distribution installs, for example ``{"vllm"}``.
            new: the file is not in the release, so that RECORD says nothing about it.
        """
        installed = self.installed(path)
        if installed is not None and installed.split("/", 1)[0] in packages:
            return Placement.INSTALLED
        name = path.rpartition("/")[2]
        if name in _COMPILED_NAMES or name.lower().endswith(_COMPILED):
            return Placement.COMPILED
        top = (installed or "").partition("/")[0].lower()
        importable = installed is not None and name.endswith((".py", ".pyi"))
        if new and importable and not top.startswith(".") and top not in _NEVER_INSTALLED:
            return Placement.UNSURE
        return Placement.ABSENT


def _moved(path: str, source: str, target: str) -> str:
    return target + path[len(source) :] if path.startswith(f"{source}/") else path
