"""Reading sdists and wheels member by member, with nothing unpacked and nothing taken on trust.

Two readers of one archive must not see two different releases: whatever is ambiguous in a tar or
zip file is refused, not interpreted. Sdists: PEP 625 (and PEP 527 for ``.zip``); wheels: PEP 427.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    is_normalized_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from pseries.upstream import tarball, zipped
from pseries.upstream.member import LIMITS, Ledger, Limits, Member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pseries.upstream.release import Kind


@dataclass(frozen=True)
class Named:
    """What the name of a wheel or sdist says: PEP 427, PEP 625."""

    kind: Kind
    distribution: str
    version: Version


def named(filename: str) -> Named | None:
    """Return what ``filename`` says, or ``None`` for what is neither a wheel nor an sdist.

    ``.tar.gz`` and ``.zip`` are the only kinds of sdist that indexes accept (PEP 527).
    """
    try:
        if filename.endswith(".whl"):
            name, version, _, _ = parse_wheel_filename(filename)
            return Named("wheel", name, version)
        if filename.endswith((".tar.gz", ".zip")):
            name, version = parse_sdist_filename(filename)
            return Named("sdist", name, version) if is_normalized_name(name) else None
    except (InvalidSdistFilename, InvalidWheelFilename, InvalidVersion):
        pass
    return None


def members(file: BinaryIO, filename: str, limits: Limits = LIMITS) -> Iterator[Member]:
    """Yield the files of a wheel or sdist, an sdist's below its top folder.

    Args:
        file: the archive, opened for reading at its start; it must be seekable.
        filename: its name, which says what it is and what it must hold.
        limits: see :class:`Limits`.

    Raises:
        ArchiveRefused: the archive breaks a rule; what was yielded before must not be used.
    """
    ledger = Ledger(filename, limits)
    said = named(filename)
    if said is None:
        raise ledger.refuse("not the name of a wheel (PEP 427) or of an sdist (PEP 625)")
    if said.kind == "wheel":
        yield from _with_dist_info(zipped.read(file, ledger), said, ledger)
    elif filename.endswith(".zip"):
        yield from _below_top(zipped.read(file, ledger), said, ledger)
    else:
        yield from _below_top(tarball.read(file, ledger), said, ledger)


def _below_top(files: Iterator[Member], said: Named, ledger: Ledger) -> Iterator[Member]:
    """Take the one top folder of an sdist off, which must be ``{name}-{version}`` (PEP 625)."""
    top = ""
    for member in files:
        first, _, rest = member.path.partition("/")
        if not rest:
            raise ledger.refuse("the file lies outside the top folder", member.path)
        if not top:
            top = first
            name, _, version = top.rpartition("-")
            if not _same(name, version, said):
                raise ledger.refuse("the top folder is not NAME-VERSION of the sdist", top)
        if first != top:
            raise ledger.refuse(f"there is a second top folder beside {top!r}", member.path)
        yield Member(rest, member.executable, member.size, member.chunks)
    if not top:
        raise ledger.refuse("the archive holds no file")


def _with_dist_info(files: Iterator[Member], said: Named, ledger: Ledger) -> Iterator[Member]:
    """Pass on the files of a wheel, which must have the dist-info folder of its name (PEP 427)."""
    yield from files
    found = {path.split("/")[0] for path in ledger.files if re.match(r"[^/]+\.dist-info/", path)}
    if len(found) != 1:
        raise ledger.refuse(f"the wheel has {len(found)} dist-info folders instead of one")
    folder = found.pop()
    name, _, version = folder.removesuffix(".dist-info").rpartition("-")
    if not _same(name, version, said):
        raise ledger.refuse("the dist-info folder is another distribution's or version's", folder)
    if f"{folder}/RECORD" not in ledger.files:
        raise ledger.refuse("the wheel has no RECORD")


def _same(name: str, version: str, said: Named) -> bool:
    try:
        return canonicalize_name(name) == said.distribution and Version(version) == said.version
    except InvalidVersion:
        return False
