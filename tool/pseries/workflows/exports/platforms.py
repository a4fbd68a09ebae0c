"""Which wheels of a release are meant: for this interpreter, another one, or all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging import tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.tags import Tag

_MANYLINUX = re.compile(
    r"(?P<libc>manylinux|musllinux)_(?P<major>\d+)_(?P<minor>\d+)_(?P<machine>\w+)"
)
_LEGACY = {"manylinux2014": 17, "manylinux2010": 12, "manylinux1": 5}
"""The names before PEP 600, and the glibc 2.x that each stands for."""
_NEWEST_GLIBC = 60
"""Of ``--platform x86_64``, which names no libc: any that there is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which wheels to take: a Python such as ``3.12``, a platform, or all of them."""

    python: str | None = None
    platform: str | None = None
    everything: bool = False

    def __str__(self) -> str:
        if self.everything:
            return "any platform"
        python = f"Python {self.python}" if self.python else "this interpreter"
        return f"{python} on {self.platform or 'this platform'}"


def choose(filenames: Sequence[str], wanted: Wanted) -> tuple[str, ...]:
    """Return the wheels that are wanted: all of them, or the one that an installer would prefer."""
    if wanted.everything:
        return tuple(filenames)
    rank = {tag: number for number, tag in reversed(list(enumerate(_supported(wanted))))}
    best = min(
        ((rank[tag], filename) for filename in filenames for tag in _tags(filename) if tag in rank),
        default=None,
    )
    return () if best is None else (best[1],)


def _tags(filename: str) -> frozenset[Tag]:
    """Return the tags in a wheel's name; none if it is no such name, which then fits nothing."""
    try:
        return parse_wheel_filename(filename)[3]
    except InvalidWheelFilename:
        return frozenset()


def _supported(wanted: Wanted) -> Iterator[Tag]:
    """Yield what an installer of the wanted kind takes, best first."""
    if wanted.python is None and wanted.platform is None:
        yield from tags.sys_tags()
        return
    platforms = list(_platforms(wanted.platform)) if wanted.platform else None
    version = None
    if wanted.python:
        version = [int(part) for part in wanted.python.split(".")[:2]]
    yield from tags.cpython_tags(version, platforms=platforms)
    interpreter = f"cp{''.join(map(str, version))}" if version else None
    yield from tags.compatible_tags(version, interpreter, platforms)


def _platforms(platform: str) -> Iterator[str]:
    """Yield a platform and what runs there as well: ``manylinux_2_34`` takes ``_2_28`` too."""
    yield platform
    legacy, _, machine = platform.partition("_")
    found = _MANYLINUX.fullmatch(platform)
    if found is not None:
        libc, major, newest, machine = (
            found["libc"],
            found["major"],
            int(found["minor"]),
            found["machine"],
        )
    elif legacy in _LEGACY:
        libc, major, newest = "manylinux", "2", _LEGACY[legacy]
    elif platform in {"x86_64", "aarch64", "ppc64le", "s390x", "riscv64", "i686", "armv7l"}:
        libc, major, newest, machine = "manylinux", "2", _NEWEST_GLIBC, platform
    else:
        return
    for minor in range(newest, -1, -1):
        yield f"{libc}_{major}_{minor}_{machine}"
        for name, glibc in _LEGACY.items():
            if (libc, glibc) == ("manylinux", minor):
                yield f"{name}_{machine}"
    if libc == "manylinux":
        yield f"linux_{machine}"
