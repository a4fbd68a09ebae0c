"""A patched source distribution: the official one, or a git tree, with some files replaced.

Rules: ``{name}-{version}.tar.gz`` with one folder of that name and ``PKG-INFO`` (PEP 625, PEP 643).
Nothing of the machine goes in: owner, group, dates and the gzip header are fixed. The packed bytes
are the same wherever Python uses the same zlib; what is packed is the same everywhere.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import re
import tarfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

from packaging.utils import canonicalize_name

from pseries.durable import whole_file
from pseries.errors import ArchiveRefused
from pseries.export.sbom import FILENAME
from pseries.export.wheel import Content, Difference, with_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pseries.upstream.member import Member

_LEVEL = 6
SBOM = f"sboms/{FILENAME}"
"""Where our bill of materials lies: PEP 770 names the folder for wheels, nobody one for sdists."""

_PKG_INFO = re.compile(r"PKG-INFO|[^/]+\.egg-info/PKG-INFO")
_SCM = re.compile(rb"setuptools[-_]scm|hatch-vcs|hatch_vcs", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Report:
    """The sdist that was written, and the files that are not upstream's."""

    path: Path
    differences: tuple[Difference, ...]


def filename(distribution: str, version: str) -> str:
    """Return the file name of an sdist (PEP 625)."""
    return f"{_stem(distribution, version)}.tar.gz"


def _stem(distribution: str, version: str) -> str:
    return f"{canonicalize_name(distribution).replace('-', '_')}-{version}"


def repack(
    members: Iterable[Member],
    folder: Path,
    *,
    distribution: str,
    version: str,
    changes: Mapping[str, Content | None],
    sbom: bytes,
    epoch: int,
) -> Report:
    """Write a patched sdist into ``folder``.

    Args:
        members: the files of upstream's, below its top folder, in order.
        folder: where the new file goes.
        distribution: its name.
        version: with the label, in normal form.
        changes: new content by path below the top folder, ``None`` for a file that goes.
        sbom: our bill of materials.
        epoch: the date of every file.
    """
    target = folder / filename(distribution, version)
    stem = _stem(distribution, version)
    differences: list[Difference] = []
    left = dict(changes)
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as out, _packed(out) as tar:
        added = _Writer(tar, stem, epoch)
        informed = False
        for member in members:
            path = member.path
            if path == SBOM:
                raise ArchiveRefused(stem, path, "there is a bill of materials of ours already")
            if path in left:
                content = left.pop(path)
                if content is None:
                    differences.append(Difference("removed", path))
                    continue
                executable = member.executable if content.executable is None else content.executable
                added.write(path, content.data, executable=executable)
                differences.append(Difference("changed", path))
            elif _PKG_INFO.fullmatch(path):
                informed = informed or path == "PKG-INFO"
                data = with_version(b"".join(member.chunks), version)
                added.write(path, data, executable=member.executable)
                differences.append(Difference("changed", path))
            else:
                added.stream(path, member)
        if not informed:
            left["PKG-INFO"] = Content(_minimal(distribution, version))
        left[SBOM] = Content(sbom)
        for path, new in sorted(left.items()):
            if new is not None:
                added.write(path, new.data, executable=bool(new.executable))
                differences.append(Difference("added", path))
    return Report(target, tuple(differences))


def _minimal(distribution: str, version: str) -> bytes:
    """Return a PKG-INFO for a tree without one.

    Version 2.1 makes no promise that a wheel built from it says the same (PEP 643 does, from 2.2
    on); what build backends look for is the version.
    """
    return f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n".encode()


def with_stated_version(pyproject: bytes, version: str) -> bytes:
    """Return ``pyproject.toml`` with another version where it states one (PEP 621).

    A build takes it from there, whatever PKG-INFO says: the wheel would carry the patches under
    upstream's own version.
    """
    import tomlkit  # noqa: PLC0415 - only sdists need it here
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    try:
        document = tomlkit.parse(pyproject)
    except (TOMLKitError, UnicodeDecodeError):  # whoever builds it says so better
        return pyproject
    project = document.get("project")
    if not isinstance(project, dict) or not isinstance(project.get("version"), str):
        return pyproject
    project["version"] = version
    return tomlkit.dumps(document).encode()


def version_variables(
    distribution: str, version: str, files: Mapping[str, bytes]
) -> tuple[str, ...]:
    """Return ``NAME=value`` for the variables that a build of the sdist should be given.

    Some builds ask git for the version, or add to it; the wheel then is not of the sdist's version
    and pip refuses it. What can be overridden is found in the build files themselves.

    Args:
        distribution: its name.
        version: the sdist's.
        files: ``pyproject.toml`` and ``setup.py``, as far as they are there.
    """
    prefix = canonicalize_name(distribution).replace("-", "_").upper()
    own = f"{prefix}_VERSION_OVERRIDE"
    found = []
    if re.search(rb"['\"]%s['\"]" % own.encode(), files.get("setup.py", b"")):
        found.append(f"{own}={version}")
    if any(_SCM.search(data) for data in files.values()):
        found.append(f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{prefix}={version}")
    return tuple(found)


# --- writing ----------------------------------------------------------------------------------


class _Writer:
    """Adds files to the archive, all with the same owner, date and one of two modes."""

    def __init__(self, tar: tarfile.TarFile, stem: str, epoch: int) -> None:
        self._tar = tar
        self._stem = stem
        self._epoch = max(0, epoch)

    def write(self, path: str, data: bytes, *, executable: bool) -> None:
        self._add(path, len(data), io.BytesIO(data), executable=executable)

    def stream(self, path: str, member: Member) -> None:
        chunks = cast("IO[bytes]", _Chunks(member.chunks))
        self._add(path, member.size, chunks, executable=member.executable)

    def _add(self, path: str, size: int, data: IO[bytes], *, executable: bool) -> None:
        info = tarfile.TarInfo(f"{self._stem}/{path}")
        info.size, info.mtime = size, self._epoch
        info.mode = 0o755 if executable else 0o644
        self._tar.addfile(info, data)


class _Chunks:
    """Pieces of a file as something to read from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._ready = b""

    def read(self, count: int) -> bytes:
        while len(self._ready) < count:
            piece = next(self._chunks, b"")
            if not piece:
                break
            self._ready += piece
        data, self._ready = self._ready[:count], self._ready[count:]
        return data


@contextlib.contextmanager
def _packed(out: IO[bytes]) -> Iterator[tarfile.TarFile]:
    """Give a tar archive in a gzip stream whose header has neither name nor date."""
    packed = gzip.GzipFile("", "wb", _LEVEL, out, mtime=0)
    tar = tarfile.open(  # noqa: SIM115 - closed only where it is whole
        fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape"
    )
    try:
        yield tar
        tar.close()
        packed.close()
    except BaseException:
        with contextlib.suppress(OSError):  # else it writes on when it is collected, and complains
            packed.close()
        raise
