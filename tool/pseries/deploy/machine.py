"""What a machine offers an engine besides its accelerators. Looked at, not changed."""

from __future__ import annotations

import json
import os
import resource
from typing import TYPE_CHECKING, NamedTuple

from pseries.deploy import probe, process
from pseries.errors import MemlockRefused

if TYPE_CHECKING:
    from pathlib import Path

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where Linux has it
_PYTHON_SECONDS = 60.0
_VERSION = "import json, platform; print(json.dumps(platform.python_version()))"


class Room(NamedTuple):
    """Bytes of a file system: those that are free to us, and all."""

    free: int
    total: int


class Memlock(NamedTuple):
    """RLIMIT_MEMLOCK in bytes, ``None`` for unlimited; and whether what is wanted can be had."""

    soft: int | None
    hard: int | None
    enough: bool


def room(folder: Path | str) -> Room | None:
    """Return how much room a folder's file system has, ``None`` where that cannot be asked."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return Room(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def memlock(wanted: str) -> Memlock:
    """Return the limit on locked memory, after trying whether it can be raised.

    Args:
        wanted: as :func:`pseries.deploy.process.raise_memlock` takes it.
    """
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    try:
        process.raise_memlock(wanted)
        enough = True
    except MemlockRefused:
        enough = False
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)
    soft, hard = (None if each == resource.RLIM_INFINITY else each for each in before)
    return Memlock(soft, hard, enough)


def python_version(python: str) -> str | None:
    """Return the version of an interpreter, ``None`` where it does not say."""
    said = probe.ask([python, "-I", "-c", _VERSION], timeout=_PYTHON_SECONDS)
    try:
        version = json.loads(said.stdout.strip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        return None
    return version[:60] if isinstance(version, str) and not said.trouble else None
