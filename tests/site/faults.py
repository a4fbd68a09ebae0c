"""Dying, or being refused, at the n-th call that changes a file.

Each system call through which the program can change a file is counted. A process that ends at
such a call leaves behind exactly what one that is killed there leaves: nothing is buffered in it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHANGING = (
    "write", "fsync", "rename", "replace", "link", "symlink", "unlink", "mkdir", "rmdir",
    "truncate", "ftruncate", "fchmod", "chmod", "fchown", "chown", "utime", "setxattr",
    "removexattr", "copy_file_range", "sendfile",
)  # fmt: skip
TAKING_ROOM = ("open", "write", "mkdir", "fsync", "setxattr")
KILLED = 77


class Died(BaseException):
    """A process that was killed, played inside one that goes on."""


@contextlib.contextmanager
def at_calls(
    react: Callable[[int, str, Callable[[], Any], tuple[Any, ...]], Any],
) -> Iterator[None]:
    """Let ``react(number, name, call, arguments)`` stand in for each call that changes a file."""
    count = 0
    counting = threading.Lock()
    real = {name: getattr(os, name) for name in (*CHANGING, "open")}

    def standing_in(name: str) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            call = real[name]
            if name == "open" and not arguments[1] & (os.O_CREAT | os.O_TRUNC):
                return call(*arguments, **options)
            with counting:  # several files are synchronised at the same time
                count += 1
                number = count
            return react(number, name, lambda: call(*arguments, **options), arguments)

        return counted

    for name in real:
        setattr(os, name, standing_in(name))
    try:
        yield
    finally:
        for name, call in real.items():
            setattr(os, name, call)


def count(work: Callable[[], object]) -> list[str]:
    """Return the names of the file-changing calls that ``work`` makes."""
    names = []

    def note(number: int, name: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        names.append(name)
        return call()

    with at_calls(note):
        work()
    return names


def in_child(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked process; returns its number, 0 for none, 1 for an exception."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            answer = work()
            code = answer if isinstance(answer, int) else 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(number: int, work: Callable[[], object], *, torn: bool = False) -> bool:
    """Run ``work`` in a process that ends before its call ``number``; false if it got through.

    With ``torn``, a write is done by half first.
    """

    def die(now: int, name: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if now == number:
            if torn and name == "write":
                half = bytes(arguments[1])[: len(arguments[1]) // 2]
                os.pwrite(arguments[0], half, os.lseek(arguments[0], 0, os.SEEK_END))
            os._exit(KILLED)
        return call()

    def child() -> None:
        with at_calls(die):
            work()

    code = in_child(child)
    assert code in (0, KILLED), f"the work itself failed with {code}"
    return code == KILLED


@contextlib.contextmanager
def dying_at(number: int) -> Iterator[None]:
    """Let everything from call ``number`` on come to nothing, as if the process had been killed.

    The body ends with :class:`Died`, which is swallowed; clean-up code that runs on the way can
    no more change a file than a dead process can.
    """

    def die(now: int, name: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if now >= number:
            raise Died
        return call()

    with contextlib.suppress(Died), at_calls(die):
        yield


@contextlib.contextmanager
def refused_at(
    number: int, code: int, *, only: tuple[str, ...] = (), lasting: bool = False
) -> Iterator[None]:
    """Let call ``number`` fail with the error ``code``; with ``lasting``, all later ones too.

    With ``only``, just the calls of these names fail.
    """

    def refuse(now: int, name: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        if (now == number or (lasting and now > number)) and (not only or name in only):
            raise OSError(code, os.strerror(code))
        return call()

    with at_calls(refuse):
        yield


class Disk:
    """What of a tree would survive a power cut: only what was synchronised.

    A file holds what it held at its last ``fsync``, a folder the names it had at its own. Both
    are noted while the calls are made; :meth:`left_after_a_cut` writes down what is left.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[int, tuple[bytes, os.stat_result]] = {}
        self._folders: dict[int, dict[str, int]] = {}
        for folder, _, names in os.walk(root):  # whatever was there before is on disk
            self._keep(folder)
            for name in names:
                self._keep(f"{folder}/{name}")

    def _keep(self, path: str) -> None:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            self._folders[status.st_ino] = {each.name: each.inode() for each in os.scandir(path)}
        else:
            self._files[status.st_ino] = (Path(path).read_bytes(), status)

    def dying_at(self, number: int) -> contextlib.AbstractContextManager[None]:
        """Do as :func:`dying_at`, and watch what is synchronised until then."""

        def watch(now: int, name: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
            if now >= number:
                raise Died
            answer = call()
            if name == "fsync":
                self._keep(str(Path(f"/proc/self/fd/{arguments[0]}").readlink()))
            return answer

        @contextlib.contextmanager
        def watching() -> Iterator[None]:
            with contextlib.suppress(Died), at_calls(watch):
                yield

        return watching()

    def left_after_a_cut(self, target: Path, *, names: bool) -> None:
        """Write to ``target`` what is on disk now.

        With ``names``, all new names got there as well, but not what is in the files: the file
        systems that reorder like that are those that leave empty files behind.
        """
        self._write(self._root.stat().st_ino, str(self._root), target, names)

    def _write(self, inode: int, now: str, target: Path, names: bool) -> None:
        target.mkdir()
        entries = self._folders.get(inode, {})
        if names:
            entries = {each.name: each.inode() for each in os.scandir(now)}
        for name, below in entries.items():
            path = target / name
            if below in self._files:
                data, status = self._files[below]
                path.write_bytes(data)
                path.chmod(stat.S_IMODE(status.st_mode))
                os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
            elif below in self._folders or os.path.isdir(f"{now}/{name}"):  # noqa: PTH112
                self._write(below, f"{now}/{name}", path, names)
            else:
                path.touch(0o600)
