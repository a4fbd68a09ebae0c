"""Bringing what was found into the store: archives and folders, in canonical paths.

A wheel, an sdist and an installed distribution land under ``root``, so that they have the paths of
the git tree. What a patch series can never touch stays out and is recorded by name: compiled files
(they need a build), links, and files of more than 64 MiB. A wheel's ``.dist-info`` is not part of
the sources; without it a wheel and an installed copy of it give the same tree.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import stat
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pseries.errors import ArtefactMismatch, FolderRefused, Problem, ReleaseTaken, UpstreamInvalid
from pseries.git import process
from pseries.git.pack import File
from pseries.model import paths, record
from pseries.upstream import archive
from pseries.upstream.member import CHUNK, MEBIBYTE, Ledger, Member
from pseries.upstream.release import Artefact, Origin, checked_root, public, version_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pseries.model.record import Entry
    from pseries.upstream.release import Progress, Release
    from pseries.upstream.store import Store

BIGGEST_FILE = 64 * MEBIBYTE
"""Bytes of a file that comes into a tree; no source file is near it."""
_COMPILED = (
    b"\x7fELF", b"!<arch>\n",  # Linux: libraries, programs, CUDA binaries; static libraries
    b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe",  # macOS
)  # fmt: skip
_COMPILED_NAME = re.compile(r"\.(?:pyc|pyo|pyd|dll|exe)$", re.IGNORECASE)
_IGNORED_FOLDERS = frozenset({".git", ".hg", ".svn", "__pycache__"})


def add_archive(
    store: Store,
    version: str,
    path: Path,
    root: str,
    *,
    sha256: str = "",
    url: str = "",
    progress: Progress | None = None,
) -> Release:
    """Import a wheel or an sdist; call it under the store's lock.

    Args:
        store: the store of the distribution.
        version: the version that the archive must be of.
        path: the archive, under its own name.
        root: the folder of the tree that its files land under.
        sha256: what the file must hash to; nothing if that is not known.
        url: where it came from, for the record.
        progress: told the bytes read.

    Raises:
        ArchiveRefused: it breaks a rule, or is of another distribution or version.
        ArtefactMismatch: it hashes to something else.
    """
    version = version_text(version)
    checked_root(root)
    said = archive.named(path.name)
    if said is None or (said.distribution, said.version) != (store.distribution, Version(version)):
        reason = f"the file is not named as a wheel or sdist of {store.distribution} {version}"
        raise UpstreamInvalid("archive", path.name, reason)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = _sha256(file)
        if sha256 and digest != sha256:
            raise ArtefactMismatch(path.name, sha256, digest, "the record of its hash")
        artefact = Artefact(path.name, digest, size, said.kind)
        intake = _Intake("" if said.kind == "sdist" and _holds(file, path.name, root) else root)
        members = archive.members(file, path.name)
        if said.kind == "wheel":
            members = _installed(members, Ledger(path.name))
        if progress is not None:
            members = _told(members, file, size, f"importing {path.name}", progress)
        return store.write(
            version,
            intake.files(members),
            lambda: Origin(said.kind, public(url) or path.name, root, artefact,
                           left_out=intake.listed()),
        )  # fmt: skip


def add_folder(
    store: Store,
    version: str,
    path: Path,
    root: str,
    *,
    accept_changed: bool = False,
    replace: bool = False,
) -> Release:
    """Import a folder as a release; call it under the store's lock.

    A folder with a dist-info of the distribution is a site-packages folder: the files in its RECORD
    count and land under ``root``; one with dist-infos of others alone is refused. Any other folder
    is a checkout: what git tracks counts, as it is on disk; without git, every file. An unpacked
    sdist (``PKG-INFO`` at its top) lands under ``root``.

    Args:
        store: the store of the distribution.
        version: the version to know it by; a local label of the installed one may be left out.
        path: the folder.
        root: the folder of the tree that installs into site-packages.
        accept_changed: take installed files although they are not what RECORD says.
        replace: take the place of a release that came from elsewhere; that of a folder's is always
            taken, so that it can be added again after a change.

    Raises:
        ReleaseTaken: the version is in the store, not from a folder, and is not to be replaced.
        FolderRefused: it is not what it should be; the error says all that is wrong.
    """
    version = version_text(version)
    checked_root(root)
    known = store.find(version)
    if known is not None and known.source != "folder" and not replace:
        raise ReleaseTaken(known.distribution, version, known.origin)
    path = existing_folder(path)
    info = _dist_info(path, store.distribution)
    if info is not None:
        intake = _Intake(root)
        found = _recorded(path, info, version, accept_changed=accept_changed)
    elif any(path.glob("*.dist-info")) and not (path / ".git").exists():
        problem = Problem(store.distribution, "it is not installed in this site-packages folder")
        raise FolderRefused(str(path), (problem,))
    else:
        sdist = (path / "PKG-INFO").is_file() and not (path / ".git").exists()
        if root and not sdist and not (path / root).is_dir():
            problem = Problem(root, "there is no such folder in it: give the top of the checkout")
            raise FolderRefused(str(path), (problem,))
        intake = _Intake(root if sdist else "")
        found = _tracked(path, intake) if (path / ".git").exists() else _walked(path, intake)
    return store.write(
        version,
        _some(intake.files(found), path),
        lambda: Origin("folder", str(path), root, left_out=intake.listed()),
    )


def existing_folder(path: Path) -> Path:
    """Return the absolute path of a folder; raises :class:`FolderRefused` where there is none."""
    path = path.absolute()
    if not path.is_dir():
        what = "it is not a folder" if path.exists() else "there is no such folder"
        raise FolderRefused(str(path), (Problem(str(path), what),))
    return path


def _some(files: Iterator[File], path: Path) -> Iterator[File]:
    """Yield files of a folder, at least one: an empty release is a mistyped path."""
    first = next(files, None)
    if first is None:
        raise FolderRefused(str(path), (Problem(str(path), "it holds no file of a release"),))
    yield first
    yield from files


def _holds(file: BinaryIO, name: str, root: str) -> bool:
    """Say whether an sdist has the folder itself: it was made of the top of the repository.

    One that was made of the folder lies below it (a project in a part of a repository).
    """
    if not root:
        return False
    found = any(member.path.startswith(f"{root}/") for member in archive.members(file, name))
    file.seek(0)
    return found


# --- what comes in ----------------------------------------------------------------------------


@dataclass
class _Intake:
    """Gives files their canonical path and keeps out what no series can touch."""

    root: str
    left_out: list[str] = field(default_factory=list)

    def files(self, members: Iterable[Member]) -> Iterator[File]:
        for member in members:
            path = f"{self.root}/{member.path}" if self.root else member.path
            if member.size > BIGGEST_FILE or _COMPILED_NAME.search(path):
                self.left_out.append(path)
                continue
            first = next(member.chunks, b"")
            if first.startswith(_COMPILED):
                self.left_out.append(path)
                continue
            yield File(path, member.executable, member.size, chain((first,), member.chunks))

    def listed(self) -> tuple[str, ...]:
        return tuple(sorted(self.left_out))


def _installed(members: Iterator[Member], ledger: Ledger) -> Iterator[Member]:
    """Give a wheel's members the paths they get in site-packages (PEP 427, "installing").

    ``.data/purelib`` and ``.data/platlib`` are spread over it; scripts, headers and data go
    elsewhere.
    """
    for member in members:
        path = member.path
        first, _, rest = path.partition("/")
        if rest and first.endswith(".dist-info"):
            continue
        if rest and first.endswith(".data"):
            scheme, _, path = rest.partition("/")
            if scheme not in ("purelib", "platlib"):
                continue
        ledger.file(path, member.size)
        yield Member(path, member.executable, member.size, member.chunks)


def _told(
    members: Iterator[Member], file: BinaryIO, size: int, what: str, progress: Progress
) -> Iterator[Member]:
    for member in members:
        yield member
        progress(what, min(file.tell(), size), size)
    progress(what, size, size)


def _sha256(file: BinaryIO | io.FileIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(MEBIBYTE):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()


# --- folders ----------------------------------------------------------------------------------


def _dist_info(path: Path, distribution: str) -> Path | None:
    for info in sorted(path.glob("*.dist-info")):
        name = info.name.removesuffix(".dist-info").rpartition("-")[0]
        if canonicalize_name(name) == distribution and (info / "RECORD").is_file():
            return info
    return None


def _recorded(path: Path, info: Path, version: str, *, accept_changed: bool) -> Iterator[Member]:
    """Return the files of an installed distribution that lie in site-packages, by RECORD."""
    installed = info.name.removesuffix(".dist-info").rpartition("-")[2]
    problems = []
    if not _fits(installed, version):
        problems.append(Problem(info.name, f"version {installed} is installed, not {version}"))
    listed = record.parse(_text(path, info / "RECORD"), str(path))
    problems += listed.malformed
    wanted = {}
    for entry in listed.entries:
        name = entry.path
        parts = name.split("/")
        if name.startswith(("/", "../")) or parts[0].endswith(".dist-info"):
            continue
        if "__pycache__" in parts or name in wanted:
            continue
        reason = paths.problem(name)
        if reason is None:
            reason = _unlike(path / name, None if accept_changed else entry)
        if reason is not None:
            problems.append(Problem(paths.display(name), reason))
        wanted[name] = entry
    if problems:
        raise FolderRefused(str(path), tuple(problems))
    return _opened(path, wanted, follow=True)


def _text(path: Path, file: Path) -> bytes:
    """Return the bytes of a file that describes a folder; raises :class:`FolderRefused`."""
    try:
        with _regular(file, follow=True) as content:
            data = content.read(BIGGEST_FILE + 1) or b""
    except OSError as error:
        raise FolderRefused(
            str(path), (Problem(file.name, error.strerror or "it cannot be read"),)
        ) from error
    if len(data) > BIGGEST_FILE:
        what = f"it is larger than {BIGGEST_FILE // MEBIBYTE} MiB"
        raise FolderRefused(str(path), (Problem(file.name, what),))
    return data


def _fits(installed: str, version: str) -> bool:
    try:
        found = Version(installed)
    except InvalidVersion:
        return False
    return version in (str(found), found.public)


def _unlike(file: Path, entry: Entry | None) -> str | None:
    """Say what is wrong with an installed file, by its sha256 in RECORD where there is one."""
    try:
        content = _regular(file, follow=True)
    except OSError as error:
        return error.strerror or "it cannot be read"
    with content:
        if entry is None or entry.algorithm != "sha256" or entry.digest == _sha256(content):
            return None
    return "it is not what RECORD says"


def _tracked(path: Path, intake: _Intake) -> Iterator[Member]:
    """Return the files that git tracks in a checkout, as they are on disk.

    The repository is a stranger's: its index is listed and nothing else of it is used.
    """
    said = process.run(
        ["ls-files", "-z", "--cached", "--full-name"],
        git_dir=path / ".git",
        cwd=path,
        extra={"GIT_WORK_TREE": str(path)},
    ).stdout
    names = sorted({paths.decode(name) for name in said.split(b"\0") if name})
    return _opened(path, (name for name in names if _taken(path, name, intake)))


def _walked(path: Path, intake: _Intake) -> Iterator[Member]:
    """Return every file of a folder that is not under version control."""
    names = []
    for folder, below, files in os.walk(path):
        below[:] = sorted(set(below) - _IGNORED_FOLDERS)
        here = os.path.relpath(folder, path)
        names += [name if here == "." else f"{here}/{name}" for name in (*files, *below)]
    links_and_files = (name for name in sorted(names) if not _real_folder(path / name))
    return _opened(path, (name for name in links_and_files if _taken(path, name, intake)))


def _real_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _taken(path: Path, name: str, intake: _Intake) -> bool:
    """Say whether a file of a checkout comes in; links are left out by name, gone files are not."""
    try:
        mode = os.lstat(path / name).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(mode):
        intake.left_out.append(f"{intake.root}/{name}" if intake.root else name)
    return stat.S_ISREG(mode)


def _opened(path: Path, names: Iterable[str], *, follow: bool = False) -> Iterator[Member]:
    """Yield files of a folder; every name is checked."""
    ledger = Ledger(str(path))
    for name in names:
        with _regular(path / name, follow=follow) as file:
            found = os.fstat(file.fileno())
            ledger.file(name, found.st_size)
            executable = bool(found.st_mode & 0o100)
            yield Member(
                name, executable, found.st_size, _chunks(file, found.st_size, name, ledger)
            )


def _regular(path: Path, *, follow: bool) -> io.FileIO:
    """Open a regular file, or a link to one if ``follow``: some installers link to their cache."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    file = io.FileIO(os.open(path, flags))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def _chunks(file: io.FileIO, size: int, name: str, ledger: Ledger) -> Iterator[bytes]:
    left = size
    while left:
        chunk = file.read(min(left, CHUNK))
        if not chunk:
            raise ledger.refuse("the file became shorter while it was read", name)
        left -= len(chunk)
        yield chunk
