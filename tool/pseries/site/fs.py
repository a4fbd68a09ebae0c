"""Every read and write in a target, below one open folder and never through a link.

A path is walked one component at a time from a descriptor of the root, each opened with
``O_NOFOLLOW``: a check of the whole path followed by an open was led out of the tree thousands of
times by a process that swapped a folder for a link; this walk never was. Symbolic links are
refused rather than followed because their files are shared with other environments.

Files are never written in place. uv, conda and pnpm hard-link site-packages to a cache, so bytes
written into a file would change it everywhere; a new file renamed over the name changes it here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    Problem,
    SiteNotFound,
    StateNotOurs,
    TargetNotWritable,
    TargetRefused,
)
from pseries.model import paths
from pseries.model.paths import CONTROL
from pseries.site import signals
from pseries.site.change import Image

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

MEBIBYTE = 1 << 20
LARGEST_FILE = 256 * MEBIBYTE
"""A file that a patch touches is text; whatever is larger than this is refused, not read."""

_CHUNK = MEBIBYTE
_FLUSHERS = 8
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# O_NONBLOCK: opening a named pipe must be answered, not waited for.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

_GETFLAGS = 0x80086601  # FS_IOC_GETFLAGS of linux/fs.h
_IMMUTABLE, _APPEND_ONLY = 0x10, 0x20
_NOT_EMPTY = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)
_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR)
"""What opening a link, or something below a file, answers under ``O_NOFOLLOW``."""
_PERMISSIONS = 0o777

_BOUND_TO_CONTENT = frozenset({"security.capability", "security.ima", "security.evm"})
"""Extended attributes that the kernel drops or that stop being true when the content changes."""


class FileState(NamedTuple):
    """A regular file as it was found: content and what has to survive its replacement."""

    data: bytes
    sha256: str
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    links: int
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Length of the content in bytes."""
        return len(self.data)

    @property
    def image(self) -> Image:
        """The file as one side of a change, its time included."""
        # A time before 1970 cannot be told from a broken clock, and no tool needs it back.
        mtime_ns = self.mtime_ns if self.mtime_ns >= 0 else None
        return Image(self.sha256, len(self.data), self.mode, mtime_ns)._replace(
            owner=(self.uid, self.gid), attributes=self.attributes
        )


class SiteTree:
    """A site-packages folder held open by descriptor; a context manager.

    All paths are relative to it, with ``/``, as :mod:`pseries.model.paths` decodes them. Reading
    raises :class:`TargetRefused` for what is not a plain file in plain folders; writing raises
    :class:`TargetNotWritable` for whatever the system says no to.
    """

    def __init__(self, root: Path) -> None:
        """Open ``root``, itself through links if need be; raises :class:`SiteNotFound`."""
        self.root = root.resolve()
        try:
            self._fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise SiteNotFound(str(root), _reason(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the folder; closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # -- reading -------------------------------------------------------------------------------

    def read(self, path: str, most: int = LARGEST_FILE) -> FileState | None:
        """Return the file at ``path``, ``None`` if there is none.

        Raises :class:`TargetRefused` for a symbolic link at the file or at any folder above it,
        for anything but a regular file, for one with setuid, setgid or sticky bits, which must not
        go over to another content, for more than ``most`` bytes and for what may not be read.
        """
        try:
            with self._file(path) as (fd, status):
                if status.st_size > most:
                    raise self._refused(path, "other", f"is larger than {most >> 20} MiB")
                if stat.S_IMODE(status.st_mode) & ~_PERMISSIONS:
                    raise self._refused(path, "bits", "is setuid, setgid or sticky")
                data = b"".join(_chunks(fd))
                attributes = tuple(_attributes(fd))
        except FileNotFoundError:
            return None
        return FileState(
            data,
            hashlib.sha256(data).hexdigest(),
            stat.S_IMODE(status.st_mode),
            status.st_uid,
            status.st_gid,
            status.st_mtime_ns,
            status.st_nlink,
            attributes,
        )

    def read_own(self, path: str) -> FileState | None:
        """Return a file that says what to do, from our own folder; only from somebody we trust.

        Raises :class:`StateNotOurs` unless it and the folder belong to root or, where we are not
        root, to us: whoever wrote it decides what is written with our rights. And as :meth:`read`.
        """
        self.require_own()
        found = self.read(path)
        if found is not None:  # asked of the open file: the folder may be another by now
            self._require_trusted(path, found.uid)
        return found

    def require_own(self) -> None:
        """Raise :class:`StateNotOurs` where our folder was made by somebody we do not trust."""
        status = self.status(CONTROL)
        if status is not None and stat.S_ISDIR(status.st_mode):
            self._require_trusted(CONTROL, status.st_uid)

    def _require_trusted(self, path: str, uid: int) -> None:
        if uid not in (0, os.geteuid()):
            raise StateNotOurs(str(self.root), path, uid)

    def names(self, folder: str = "") -> tuple[str, ...] | None:
        """Return the sorted names in a folder ("" is the root), ``None`` if there is no folder.

        Raises :class:`TargetRefused` for a link at the folder or above it, or for another kind.
        """
        try:
            with self.descriptor(folder, _FOLDER) as fd:
                names = os.listdir(fd)  # noqa: PTH208 - by descriptor
                return tuple(sorted(paths.decode(os.fsencode(name)) for name in names))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(folder, error) from error

    def status(self, path: str) -> os.stat_result | None:
        """Return what ``lstat`` says of ``path``, ``None`` if nothing is there."""
        try:
            with self._parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(path, error) from error

    def folder_mode(self, folder: str) -> int:
        """Return the permission bits of a folder ("" is the root), 0755 if there is none."""
        status = self.status(folder) if folder else os.fstat(self._fd)
        return 0o755 if status is None else stat.S_IMODE(status.st_mode)

    def room(self) -> tuple[int | None, int | None]:
        """Return the bytes and the files that can still be made here, ``None`` if unknown."""
        numbers = os.fstatvfs(self._fd)
        blocks, files = numbers.f_bavail, numbers.f_favail
        if os.geteuid() == 0:  # the reserve is for root
            blocks, files = numbers.f_bfree, numbers.f_ffree
        room = blocks * numbers.f_frsize if numbers.f_blocks else None
        return room, files if numbers.f_files else None

    def obstacles(self, files: Iterable[str]) -> Iterator[Problem]:
        """Yield why one of these files could not be replaced or removed.

        These are the reasons that only show when the name is renamed over, which happens when a
        transaction can no longer be undone; so they are looked for before it begins.
        """
        points = _mount_points()
        for path in files:
            if f"{self.root}/{path}" in points:
                yield Problem(path, "is a mount point: a file bound into a container")
            with contextlib.suppress(FileNotFoundError), self._parent(path) as (folder, name):
                above, flags = os.fstat(folder), _flags(folder)
                owners = [0, above.st_uid]
                with contextlib.suppress(FileNotFoundError):
                    fd = os.open(name, _FILE, dir_fd=folder)
                    owners.append(os.fstat(fd).st_uid)
                    flags |= _flags(fd)
                    os.close(fd)
                if flags & (_IMMUTABLE | _APPEND_ONLY):
                    yield Problem(path, "is, or its folder is, immutable or append-only (chattr)")
                if above.st_mode & stat.S_ISVTX and os.geteuid() not in owners:
                    yield Problem(path, "belongs to someone else, and so does its sticky folder")

    @contextlib.contextmanager
    def descriptor(self, path: str, flags: int, mode: int = 0) -> Iterator[int]:
        """Open ``path`` below the root; raises ``OSError`` as ``os.open`` does."""
        if not path:
            yield self._fd
            return
        with self._parent(path) as (folder, name):
            fd = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
        try:
            yield fd
        finally:
            os.close(fd)

    # -- writing -------------------------------------------------------------------------------

    def create(
        self,
        path: str,
        data: bytes,
        mode: int,
        *,
        mtime_ns: int | None = None,
        like: str = "",
        otherwise: Image | None = None,
    ) -> tuple[Problem, ...]:
        """Write a new file as a whole; its name must be free. It is durable after :meth:`sync`.

        Args:
            path: where; the folder must exist.
            data: its content.
            mode: permission bits, whatever the umask is; no others are ever set.
            mtime_ns: time of last change; now by default.
            like: a file whose owner and extended attributes it gets.
            otherwise: says both where there is no ``like``. Without either, a file that root makes
                belongs to the owner of its folder.

        Returns:
            What of owner and attributes could not be kept.
        """
        notes: list[Problem] = []
        with self._writing(path), self._parent(path) as (folder, name):
            fd = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
            try:
                _write(fd, data)
                model = like and self.status(like)
                if not model and otherwise is not None and otherwise.owner is not None:
                    uid, gid = otherwise.owner
                else:
                    owner = model or (os.fstat(folder) if os.geteuid() == 0 else os.fstat(fd))
                    uid, gid = owner.st_uid, owner.st_gid
                if not _give(fd, uid, gid):
                    what = f"its owner {uid}:{gid} could not be kept"
                    notes.append(Problem(like or path, what))
                if model:
                    notes.extend(self._copy_attributes(like, fd))
                elif otherwise is not None:
                    notes.extend(_set_attributes(fd, like or path, otherwise.attributes))
                # Last of the three: giving a file away clears bits, an access list sets some.
                os.fchmod(fd, mode & _PERMISSIONS)
                if mtime_ns is not None:
                    os.utime(fd, ns=(mtime_ns, mtime_ns))
            finally:
                os.close(fd)
        return tuple(notes)

    def lock_file(self, path: str) -> int:
        """Return a descriptor of a file to be locked, made if need be; the caller closes it.

        Raises ``FileNotFoundError`` if its folder is gone. Programs that are started do not
        inherit the descriptor.
        """
        flags = os.O_NOFOLLOW | os.O_NONBLOCK
        with self._writing(path, errno.ENOENT), self._parent(path) as (folder, name):
            try:
                fd = os.open(name, os.O_RDWR | os.O_CREAT | flags, 0o600, dir_fd=folder)
            except PermissionError:  # made by another user: to lock it, reading it is enough
                return os.open(name, os.O_RDONLY | flags, dir_fd=folder)
            now = os.fstat(fd)
            # Another name of it, or another owner: then it is not the one that was made here.
            ours = now.st_nlink == 1 and now.st_uid == os.geteuid()
            if ours and stat.S_IMODE(now.st_mode) != 0o644:
                with contextlib.suppress(OSError):
                    os.fchmod(fd, 0o644)
            return fd

    def append(self, path: str, data: bytes) -> None:
        """Add to the end of a file, durably; for files of our own only."""
        flags = os.O_WRONLY | os.O_APPEND
        with self._writing(path), self.descriptor(path, flags) as fd:
            _write(fd, data)
            os.fsync(fd)

    def rename(self, source: str, target: str) -> None:
        """Put ``source`` in the place of ``target`` in the same folder, in one step."""
        with self._writing(target), self._parent(target) as (folder, name):
            old = paths.encode(source.rpartition("/")[2])
            os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, path: str) -> bool:
        """Remove the name of a file; false if there was none."""
        if self.status(path) is None:  # on a read-only file system unlink would not say so
            return False
        try:
            with self._writing(path, errno.ENOENT), self._parent(path) as (folder, name):
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return False
        return True

    def make_folder(self, path: str, mode: int) -> bool:
        """Make a folder with just these permission bits; false if there is one already.

        One that root makes goes to the owner of the folder above, but for our own: what is in it
        decides what root does next time, so nobody else may write there.
        """
        as_root = os.geteuid() == 0
        if as_root and path == CONTROL:
            mode &= 0o755
        try:
            with self._writing(path, errno.EEXIST), self._parent(path) as (above, name):
                os.mkdir(name, 0o700, dir_fd=above)
                # Our own folder may be purged by another process before it is open.
                with contextlib.suppress(FileNotFoundError):
                    fd = os.open(name, _FOLDER, dir_fd=above)
                    try:
                        if as_root and path != CONTROL:
                            owner = os.fstat(above)
                            _give(fd, owner.st_uid, owner.st_gid)
                        os.fchmod(fd, mode)
                    finally:
                        os.close(fd)
        except FileExistsError:
            return False
        return True

    def remove_folder(self, path: str) -> bool:
        """Remove a folder if it is empty; false if it is not, or is not there."""
        if self.status(path) is None:
            return False
        try:
            with self._writing(path, *_NOT_EMPTY), self._parent(path) as (folder, name):
                os.rmdir(name, dir_fd=folder)
        except OSError:
            return False
        return True

    def sync(self, *found: str) -> None:
        """Make files, or the names in folders, survive a power cut; they may be gone.

        All at the same time: the disk is flushed once for everybody who waits for it, which makes
        it five times as fast as one by one where a flush takes milliseconds.
        """
        left = iter(sorted(set(found)))
        failures: list[BaseException] = []

        def work() -> None:
            try:
                while not failures and (path := next(left, None)) is not None:
                    self._sync(path)
            except BaseException as error:
                failures.append(error)

        others = []
        # Otherwise a thread that ends might still take a signal meant for whoever holds it.
        with signals.held():
            if len(found) > 1:
                import threading  # noqa: PLC0415 - `status` has nothing to write

                count = min(len(found), _FLUSHERS) - 1
                others = [threading.Thread(target=work) for _ in range(count)]
            for other in others:
                other.start()
            work()
            for other in others:
                other.join()
        if failures:
            raise failures[0]

    def _sync(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_NONBLOCK
        with (
            contextlib.suppress(FileNotFoundError),
            self._writing(path, errno.ENOENT),
            self.descriptor(path, flags) as fd,
        ):
            os.fsync(fd)

    # -- the walk ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, bytes]]:
        """Yield a descriptor of the folder that holds ``path``, and the last name as bytes."""
        wrong = paths.problem(path)
        if wrong is not None:
            raise self._refused(path, "other", f"cannot be reached: {wrong}")
        *folders, name = paths.encode(path).split(b"/")
        fd = self._fd
        try:
            for folder in folders:
                below = os.open(folder, _FOLDER, dir_fd=fd)
                if fd != self._fd:
                    os.close(fd)
                fd = below
            yield fd, name
        finally:
            if fd != self._fd:
                os.close(fd)

    @contextlib.contextmanager
    def _file(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """Open a regular file to be read; what is in the way becomes :class:`TargetRefused`."""
        try:
            with self.descriptor(path, _FILE) as fd:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    raise self._refused(path, "other", f"is {_kind(status.st_mode)}, not a file")
                yield fd, status
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._unreadable(path, error) from error

    @contextlib.contextmanager
    def _writing(self, path: str, *answers: int) -> Iterator[None]:
        """Turn what the system says no to into an error that names the file.

        ``answers`` are error numbers that the caller asked for and handles.
        """
        try:
            yield
        except OSError as error:
            if error.errno in answers:
                raise
            if error.errno in _IN_THE_WAY:
                raise self._unreadable(path, error) from error
            raise TargetNotWritable(str(self.root), path, _reason(error)) from error

    def _unreadable(self, path: str, error: OSError) -> TargetRefused:
        """Say why ``path`` could not be opened: what is in the way, else what the system says."""
        found = self._in_the_way(path) if error.errno in _IN_THE_WAY else None
        kind, reason = found or ("access", f"cannot be read: {_reason(error)}")
        return self._refused(path, kind, reason)

    def _in_the_way(self, path: str) -> tuple[str, str] | None:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            part = "/".join(parts[:depth])
            with contextlib.suppress(OSError):
                found = os.stat(paths.encode(part), dir_fd=self._fd, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    where = "is" if part == path else f"lies behind {paths.display(part)},"
                    return "link", f"{where} a symbolic link: what it shows may be shared"
                if not stat.S_ISDIR(found.st_mode) and part != path:
                    return "other", f"lies below {paths.display(part)}, which is not a folder"
        return None

    def _refused(self, path: str, kind: str, reason: str) -> TargetRefused:
        return TargetRefused(str(self.root), path, kind, reason)

    def _copy_attributes(self, source: str, target: int) -> Iterator[Problem]:
        """Copy extended attributes, access lists among them; yield those that do not go over."""
        with self.descriptor(source, _FILE) as fd:
            try:
                names = os.listxattr(fd)
            except OSError:  # a file system without them
                return
            for name in set(os.listxattr(target)) - set(names):
                if name.startswith("system.posix_acl_"):  # handed down by the folder
                    os.removexattr(target, name)
            for name in names:
                try:
                    if name in _BOUND_TO_CONTENT:
                        raise OSError(errno.EPERM, "it is bound to the old content")
                    value = os.getxattr(fd, name)
                    # A label that the system gave by itself need not, and often may not, be set.
                    if name not in os.listxattr(target) or os.getxattr(target, name) != value:
                        os.setxattr(target, name, value)
                except OSError as error:
                    if error.errno in (errno.ENOSPC, errno.EDQUOT):
                        raise
                    what = f"its attribute {name} could not be kept: {_reason(error)}"
                    yield Problem(source, what)


def _attributes(fd: int) -> Iterator[tuple[str, str]]:
    """Yield the extended attributes that users set, by name, with their values in hex."""
    with contextlib.suppress(OSError):  # a file system without them
        for name in sorted(os.listxattr(fd)):
            if name.startswith("user."):
                yield name, os.getxattr(fd, name).hex()


def _set_attributes(fd: int, path: str, attributes: Iterable[tuple[str, str]]) -> Iterator[Problem]:
    for name, value in attributes:
        try:
            os.setxattr(fd, name, bytes.fromhex(value))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            yield Problem(path, f"its attribute {name} could not be kept: {_reason(error)}")


def _chunks(fd: int) -> Iterator[bytes]:
    while chunk := os.read(fd, _CHUNK):
        yield chunk


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _give(fd: int, uid: int, gid: int) -> bool:
    """Give a file to its owner and group, or at least to the group; false if not both went."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) == (uid, gid):
        return True
    for owner, group in ((uid, gid), (-1, gid)):
        try:
            os.fchown(fd, owner, group)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
        else:
            return uid in (owner, now.st_uid)
    return False


def _flags(fd: int) -> int:
    try:
        return int.from_bytes(fcntl.ioctl(fd, _GETFLAGS, bytes(8))[:4], "little")
    except OSError:  # a file system without them
        return 0


def _mount_points() -> frozenset[str]:
    """Return every mount point of this process, as absolute paths."""
    try:
        with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123 - not below a target
            lines = file.read().splitlines()
    except OSError:
        return frozenset()
    points = (line.split(b" ", 5)[4] for line in lines if line.count(b" ") >= 5)
    return frozenset(
        paths.decode(re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), point))
        for point in points
    )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a device, socket or pipe"


def _reason(error: OSError) -> str:
    if error.errno == errno.EROFS:
        return "the file system is read-only"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}: free some space"
    return error.strerror or str(error)
