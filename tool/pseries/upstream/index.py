"""Asking a package index: which files a release has, the files, and single members of a wheel.

The simple repository API, HTML (PEP 503) or JSON (PEP 691, PEP 700), yanked files (PEP 592).
This module imports the network libraries: import it where the network is needed, not before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
import urllib3
from filelock import FileLock
from packaging.version import Version
from pypi_simple import (
    PYPI_SIMPLE_ENDPOINT,
    NoSuchProjectError,
    ProjectPage,
    PyPISimple,
    UnsupportedContentTypeError,
    UnsupportedRepoVersionError,
)
from remotezip import RangeNotSupported, RemoteFetcher, RemoteIOError, RemoteZip, RemoteZipError

from pseries.errors import (
    ArchiveRefused,
    ArtefactMismatch,
    IndexInvalid,
    IndexUnreachable,
    Problem,
    RangesUnsupported,
    ReleaseNotFound,
    ReleaseUnreachable,
)
from pseries.model import paths
from pseries.upstream import net
from pseries.upstream.archive import named
from pseries.upstream.member import CHUNK, LIMITS, MEBIBYTE
from pseries.upstream.release import (
    Artefact,
    distribution_name,
    local_path,
    public,
    version_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pseries.upstream.release import Kind, Progress
    from pseries.upstream.settings import Settings

BIGGEST_MEMBER = 64 * MEBIBYTE
"""Bytes of a member that is read from a remote wheel into memory."""
MOST_RANGES = 256 * MEBIBYTE
"""Bytes received for one remote wheel: a server that sends more answers something else."""
_TAIL = 640 * 1024
"""Bytes read from the end of a remote wheel at first: all of a large central directory."""
_NEAREST = 5


@dataclass(frozen=True)
class Listed:
    """A file of a release as an index lists it.

    ``yanked`` is ``None``, or why the file was yanked (PEP 592): still served to who names it.
    """

    artefact: Artefact
    version: Version
    url: str
    yanked: str | None = None


@dataclass(frozen=True)
class Project:
    """All wheels and sdists of a distribution that the indexes list.

    ``silent`` names the indexes that could not be asked, and why.
    """

    distribution: str
    files: tuple[Listed, ...]
    silent: tuple[Problem, ...] = ()

    def versions(self) -> tuple[Version, ...]:
        """Return every version, in order, that has a file which is not yanked."""
        return tuple(sorted({file.version for file in self.files if file.yanked is None}))

    def release(self, version: str) -> tuple[Listed, ...]:
        """Return the files of one version, yanked ones included: who pins it may have it."""
        wanted = Version(version)
        return tuple(file for file in self.files if file.version == wanted)

    def nearest(self, version: str) -> tuple[str, ...]:
        """Return a few versions around one that does not exist."""
        wanted = Version(version)
        below = [known for known in self.versions() if known < wanted][-(_NEAREST // 2) :]
        above = [known for known in self.versions() if known > wanted]
        return tuple(str(known) for known in (below + above)[:_NEAREST])


class Client:
    """A way to the configured indexes; a context manager that owns its connections."""

    def __init__(self, settings: Settings, *, offline: bool = False) -> None:
        self.session = net.Session(settings, offline=offline)
        self._indexes = [index.url or PYPI_SIMPLE_ENDPOINT for index in settings.indexes]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def project(self, distribution: str) -> Project:
        """Return what the indexes list for ``distribution``; of one file name, the first index's.

        Raises:
            IndexUnreachable: no index could be asked.
            IndexInvalid: an index answers something that is not the simple repository API.
        """
        name = distribution_name(distribution)
        files: dict[str, Listed] = {}
        silent = []
        for url in self._indexes:
            try:
                page = self._page(url, name)
            except IndexUnreachable as error:
                silent.append(Problem(error.where, error.reason))
                continue
            for file in _listed(page, name, local=url.startswith("file:")):
                files.setdefault(file.artefact.filename, file)
        if len(silent) == len(self._indexes):
            raise IndexUnreachable(silent[0].where, "; ".join(item.what for item in silent))
        return Project(name, tuple(files.values()), tuple(silent))

    def _page(self, url: str, name: str) -> ProjectPage | None:
        where = public(url)
        try:
            return PyPISimple(url, session=self.session).get_project_page(name)
        except NoSuchProjectError:
            return None
        except (UnsupportedContentTypeError, UnsupportedRepoVersionError) as error:
            said = "an unknown content type" if isinstance(error, ValueError) else str(error)
            raise IndexInvalid(where, said) from None
        except requests.exceptions.JSONDecodeError:
            raise IndexInvalid(where, "it is not JSON") from None
        except requests.RequestException as error:
            raise IndexUnreachable(where, net.reason(error)) from None
        except ValueError as error:
            raise IndexInvalid(where, str(error).splitlines()[0]) from None

    def download(
        self, file: Listed, folder: Path, *, expected: str = "", progress: Progress | None = None
    ) -> Path:
        """Download a file into ``folder`` and return its path there, verified by sha256.

        A file that is already there and verifies is taken as it is. It appears under its name
        only when it is whole: it is written beside, hashed on the way, and renamed. What an
        interrupted download left is thrown away, never gone on with.

        Args:
            file: as the index lists it.
            folder: made if it is missing.
            expected: the sha256 that somebody pinned; the index's own is verified in any case.
            progress: told the bytes received.

        Raises:
            ArtefactMismatch: the file is not the pinned or announced one; nothing is kept.
            IndexUnreachable: the server gave no answer, or stopped in the middle.
        """
        artefact = file.artefact
        target = folder / _plain(artefact.filename)
        folder.mkdir(parents=True, exist_ok=True)
        if expected and artefact.sha256 and expected != artefact.sha256:
            raise ArtefactMismatch(artefact.filename, expected, artefact.sha256, "the pin")
        wanted = expected or artefact.sha256
        with FileLock(folder / f".{target.name}.lock"):
            if wanted and target.is_file() and sha256(target) == wanted:
                return target
            partial = folder / f".{target.name}.part"
            try:
                found = self._receive(file, partial, progress)
                if wanted and found != wanted:
                    raise ArtefactMismatch(artefact.filename, wanted, found, _announcer(expected))
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
        return target

    def _receive(self, file: Listed, target: Path, progress: Progress | None) -> str:
        """Write the file to ``target``; return its sha256."""
        artefact, digest, done = file.artefact, hashlib.sha256(), 0
        try:
            with (
                self.session.get(file.url, stream=True, headers=net.WHOLE_FILE) as answer,
                target.open("wb") as out,
            ):
                answer.raise_for_status()
                said = answer.headers.get("Content-Length", "")
                total = artefact.size or (int(said) if said.isdecimal() else None)
                for chunk in answer.raw.stream(CHUNK, decode_content=False):
                    out.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    if artefact.size is not None and done > artefact.size:
                        break
                    if progress is not None:
                        progress(f"downloading {artefact.filename}", done, total)
                out.flush()
                os.fsync(out.fileno())
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            where = f"{artefact.filename} on {urlsplit(file.url).hostname or 'this machine'}"
            stopped = f" after {done} bytes" if done else ""
            raise IndexUnreachable(where, net.reason(error) + stopped) from None
        if total is not None and done != total:
            where = f"{artefact.filename} on {urlsplit(file.url).hostname or 'this machine'}"
            raise IndexUnreachable(where, f"{done} of {total} bytes came")
        return digest.hexdigest()

    def wheel(self, file: Listed) -> RemoteWheel:
        """Open a wheel on its server to read single members of it.

        Raises:
            RangesUnsupported: the server sends whole files only.
            IndexUnreachable: it gave no answer.
            ArchiveRefused: what it sends is not a wheel that can be read.
        """
        return RemoteWheel(file, self.session)

    def members(
        self, file: Listed, choose: Callable[[frozenset[str]], Iterable[str]]
    ) -> tuple[dict[str, bytes], frozenset[str]] | None:
        """Read some members of a wheel without the rest of it.

        Args:
            file: the wheel, as the index lists it.
            choose: is given the names of all members and returns those to read.

        Returns:
            The members that there are, and the names of all; ``None`` if its server sends whole
            files only.

        Raises:
            IndexUnreachable, ArchiveRefused: as :meth:`wheel` and :meth:`RemoteWheel.read`.
        """
        try:
            with self.wheel(file) as remote:
                return remote.read(choose(remote.names)), remote.names
        except RangesUnsupported:
            return None


class RemoteWheel:
    """A wheel that stays where it is; a context manager.

    Its members are read by HTTP range requests and verified by the checksum in the zip file. That
    guards against damage, not against a wheel that was replaced: nothing is installed from it.
    """

    def __init__(self, file: Listed, session: requests.Session) -> None:
        self.filename = file.artefact.filename
        self.received = 0
        parts = urlsplit(file.url)
        with _remote_errors(self.filename, parts.hostname):
            if parts.scheme == "file":
                self._zip: zipfile.ZipFile = zipfile.ZipFile(local_path(parts.path))
            else:
                self._zip = RemoteZip(
                    file.url,
                    initial_buffer_size=_TAIL,
                    session=session,
                    fetcher=self._fetcher,
                    headers=net.WHOLE_FILE,
                )
        self._host = parts.hostname
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            if info.filename in self._members:
                self._zip.close()
                raise ArchiveRefused(
                    self.filename, paths.display(info.filename), "two members have this name"
                )
            self._members[info.filename] = info

    def __enter__(self) -> RemoteWheel:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def names(self) -> frozenset[str]:
        """The paths of all files in the wheel."""
        return frozenset(name for name in self._members if not name.endswith("/"))

    def read(self, wanted: Iterable[str]) -> dict[str, bytes]:
        """Return the members among ``wanted`` that the wheel has, by path.

        Raises:
            ArchiveRefused: a member is damaged, encrypted, a link, or far too large.
            IndexUnreachable: the server stopped answering.
        """
        found = {}
        for path in wanted:
            info = self._members.get(path)
            if info is None or path.endswith("/"):
                continue
            reason = _unreadable(info)
            if reason is not None:
                raise ArchiveRefused(self.filename, paths.display(path), reason)
            with _remote_errors(self.filename, self._host):
                found[path] = self._zip.read(info)
        return found

    def _fetcher(self, *args: Any, **options: Any) -> RemoteFetcher:
        wheel = self

        class Counting(RemoteFetcher):  # type: ignore[misc]
            def fetch(self, data_range: Any, stream: bool = False) -> Any:
                part = super().fetch(data_range, stream)
                wheel.received += len(part)
                if wheel.received > MOST_RANGES:
                    raise RemoteZipError(f"more than {MOST_RANGES} bytes were needed")
                return part

        return Counting(*args, **options)


def artefacts(distribution: str, version: str, settings: Settings) -> tuple[Artefact, ...]:
    """Return all wheels and sdists of a release, sorted by file name.

    Raises:
        ReleaseNotFound: the index lists none.
        IndexUnreachable: it cannot be asked.
        IndexInvalid: its answer cannot be used.
    """
    with Client(settings) as client:
        project = client.project(distribution)
        files = project.release(version_text(version))
        if not files and project.silent:
            raise ReleaseUnreachable(project.distribution, version, project.silent)
        if not files:
            raise ReleaseNotFound(project.distribution, version, (), project.nearest(version))
        return tuple(sorted((file.artefact for file in files), key=lambda each: each.filename))


def sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(MEBIBYTE):
            digest.update(chunk)
    return digest.hexdigest()


# --- what a page says -------------------------------------------------------------------------


def _listed(page: ProjectPage | None, name: str, *, local: bool) -> Iterable[Listed]:
    """Yield the wheels and sdists of a page.

    Other kinds of file are passed over, and other projects'; and files of this machine unless the
    page is one, too.
    """
    for package in page.packages if page is not None else ():
        said = named(package.filename)
        if said is None or said.distribution != name or paths.problem(package.filename):
            continue
        if package.url.startswith("file:") and not local:
            continue
        kind: Kind = said.kind
        digest = package.digests.get("sha256", "").lower()
        yanked = (package.yanked_reason or "no reason given") if package.is_yanked else None
        artefact = Artefact(package.filename, digest, package.size, kind)
        yield Listed(artefact, said.version, package.url, yanked)


def _plain(filename: str) -> str:
    if paths.name_problem(filename) is not None:
        raise IndexInvalid("the index", f"{paths.display(filename)!r} is no name of a file")
    return filename


def _announcer(expected: str) -> str:
    return "the pin" if expected else "the index"


def _unreadable(info: zipfile.ZipInfo) -> str | None:
    if info.flag_bits & 1:
        return "the member is encrypted"
    if info.file_size > BIGGEST_MEMBER:
        return f"the member has more than {BIGGEST_MEMBER // MEBIBYTE} MiB"
    if LIMITS.bomb(info.file_size, info.compress_size):
        return f"it unpacks to more than {LIMITS.ratio} times its size"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
        return "the member is a link or device"
    return None


@contextlib.contextmanager
def _remote_errors(filename: str, host: str | None) -> Any:
    where = f"{filename} on {host or 'this machine'}"
    try:
        yield
    except RangeNotSupported:
        raise RangesUnsupported(where) from None
    except RemoteIOError as error:
        cause = error.__context__
        said = net.reason(cause) if isinstance(cause, Exception) else "the connection failed"
        raise IndexUnreachable(where, said) from None
    except requests.RequestException as error:
        raise IndexUnreachable(where, net.reason(error)) from None
    except (
        zipfile.BadZipFile, zlib.error, RemoteZipError, NotImplementedError, RuntimeError, EOFError,
    ) as error:  # fmt: skip
        raise ArchiveRefused(filename, "", f"it cannot be read ({error})") from None
    except OSError as error:
        raise IndexUnreachable(where, error.strerror or "the connection failed") from None
