"""Running git, sealed off from the user's settings and from any repository around.

Git decides from its environment, from three levels of configuration and from the folders above
the current one what it does to a tree (measured: a whole patch skipped with status 0, line ends
rewritten, filter programs of a stranger's repository run as root). So it never sees any of them:
the environment is written from scratch, ``GIT_DIR`` is always set, and time and output are bounded.
The settings of the repository it works in remain: hooks, monitors and missing objects, for which
they can name programs, are switched off for every command.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import subprocess
import time
from functools import cache
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from pseries.errors import GitFailed, GitLimit, GitMissing, GitTooOld

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

OLDEST = (2, 25)
"""The oldest git that ``apply`` works with, and all that needs no more."""
MERGES_TREES = (2, 38)
"""``merge-tree --write-tree`` is from git 2.38; its ``--merge-base``, from 2.40, is not used."""
MEBIBYTE = 1 << 20
TIMEOUT = 120.0
"""Seconds that a command may take unless the caller knows better."""
MOST_OUTPUT = 512 * MEBIBYTE
"""Bytes of standard output that a command may print unless the caller knows better."""
_MOST_STDERR = 64 * 1024
_CHUNK = 256 * 1024

_SEALED = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    # Settings of a partial clone name a remote, and a program, to get missing objects from.
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    # Identity of the commits that the store makes: the same everywhere, so that ids are too.
    "GIT_AUTHOR_NAME": "pseries",
    "GIT_AUTHOR_EMAIL": "pseries@localhost",
    "GIT_COMMITTER_NAME": "pseries",
    "GIT_COMMITTER_EMAIL": "pseries@localhost",
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_DATE": "@0 +0000",
}

_TAME = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Programs that a repository's own settings would have git run; ``-c`` because any git knows it."""

_NETWORK = (
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO",
)  # fmt: skip
"""What a fetch takes over from the user's environment: the way out, and whom to trust."""


class Completed(NamedTuple):
    """What a git command printed, and the status it ended with."""

    stdout: bytes
    stderr: bytes
    status: int

    @property
    def text(self) -> str:
        """Standard output without the last newline, for answers that are one line."""
        return self.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


@cache
def executable() -> str:
    """Return the absolute path of git; raises :class:`GitMissing`.

    Relative entries of PATH are passed over: the current folder may be a stranger's.
    """
    path = os.environ.get("PATH", os.defpath)
    absolute = os.pathsep.join(entry for entry in path.split(os.pathsep) if entry[:1] == "/")
    found = shutil.which("git", path=absolute)
    if found is None:
        raise GitMissing(path)
    return found


@cache
def version() -> tuple[int, ...]:
    """Return git's version, for example ``(2, 39, 5)``."""
    said = run(["--version"], git_dir=None).text
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said)
    if found is None:
        raise GitFailed(("--version",), 0, f"unexpected answer {said!r}")
    return tuple(int(number) for number in found.groups() if number)


def require(needed: tuple[int, ...], purpose: str) -> None:
    """Raise :class:`GitTooOld` unless git is at least ``needed``; ``purpose`` is a verb phrase."""
    if version() < needed:
        raise GitTooOld(".".join(map(str, version())), ".".join(map(str, needed)), purpose)


def environment(
    git_dir: Path | None, extra: Mapping[str, str] | None = None, *, network: bool = False
) -> dict[str, str]:
    """Return the whole environment that git gets: nothing of the user's but PATH.

    Args:
        git_dir: the repository; ``None`` for commands that must not find one.
        extra: further variables, such as ``GIT_INDEX_FILE``.
        network: for a fetch: let git reach other repositories, by proxies and certificates of the
            user.
    """
    sealed = dict(_SEALED)
    sealed["PATH"] = os.environ.get("PATH", os.defpath)
    sealed["GIT_DIR"] = os.devnull if git_dir is None else str(git_dir)
    if network:
        sealed["GIT_ALLOW_PROTOCOL"] = "https:file"
        sealed.update({name: os.environ[name] for name in _NETWORK if name in os.environ})
    sealed.update(extra or {})
    return sealed


def run(
    arguments: Sequence[str],
    *,
    git_dir: Path | None,
    stdin: bytes | Iterable[bytes] = b"",
    cwd: Path | None = None,
    extra: Mapping[str, str] | None = None,
    network: bool = False,
    timeout: float = TIMEOUT,
    most_output: int = MOST_OUTPUT,
    accept: Sequence[int] = (0,),
) -> Completed:
    """Run ``git ARGUMENTS`` sealed off and return what it said.

    Args:
        arguments: fixed words, full object ids and checked paths only; never an option that came
            from a patch, a tag or an address.
        git_dir: the repository, or ``None`` for none at all.
        stdin: bytes, or an iterable of chunks that is only advanced as git reads.
        cwd: the current folder, ``/`` by default: never one that a stranger can write to.
        extra: further environment variables.
        network: see :func:`environment`.
        timeout: seconds.
        most_output: bytes of standard output.
        accept: statuses that are answers rather than failures.

    Raises:
        GitMissing: there is no git.
        GitFailed: the status is not in ``accept``.
        GitLimit: ``timeout`` or ``most_output`` was passed.
    """
    command = [executable(), *_TAME, *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd or "/",
        env=environment(git_dir, extra, network=network),
        start_new_session=True,  # Ctrl-C is ours to handle; git must not die in the middle of it
    )
    try:
        stdout, stderr = _converse(process, _chunks(stdin), tuple(arguments), timeout, most_output)
        status = process.wait(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise GitLimit(tuple(arguments), f"{timeout:g} s") from None
    finally:
        if process.poll() is None:
            process.kill()
        _close(process)
        process.wait()
    if status not in accept:
        raise GitFailed(tuple(arguments), status, stderr.decode("utf-8", "backslashreplace"))
    return Completed(stdout, stderr, status)


def _chunks(stdin: bytes | Iterable[bytes]) -> Iterator[memoryview]:
    whole = (stdin,) if isinstance(stdin, bytes) else stdin
    return (memoryview(chunk) for chunk in whole if chunk)


def _converse(
    process: subprocess.Popen[bytes],
    chunks: Iterator[memoryview],
    command: tuple[str, ...],
    timeout: float,
    most_output: int,
) -> tuple[bytes, bytes]:
    """Feed ``chunks`` and collect both outputs at the same time, so that neither side can block."""
    stdin, stdout, stderr = (
        cast("IO[bytes]", stream) for stream in (process.stdin, process.stdout, process.stderr)
    )
    deadline = time.monotonic() + timeout
    collected = {stdout: bytearray(), stderr: bytearray()}
    pending = memoryview(b"")
    with selectors.DefaultSelector() as selector:
        os.set_blocking(stdin.fileno(), False)
        selector.register(stdin, selectors.EVENT_WRITE)
        for stream in collected:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                stream = cast("IO[bytes]", key.fileobj)
                if stream is stdin:
                    try:
                        pending = pending or next(chunks)
                        pending = pending[os.write(stdin.fileno(), pending[:_CHUNK]) :]
                    except BlockingIOError:
                        continue
                    except (StopIteration, BrokenPipeError):
                        selector.unregister(stdin)
                        with contextlib.suppress(BrokenPipeError):
                            stdin.close()
                elif data := os.read(stream.fileno(), _CHUNK):
                    collected[stream] += data
                else:
                    selector.unregister(stream)
            if time.monotonic() > deadline:
                raise GitLimit(command, f"{timeout:g} s")
            if len(collected[stdout]) > most_output:
                raise GitLimit(command, f"{most_output // MEBIBYTE} MiB of output")
            del collected[stderr][:-_MOST_STDERR]
    return bytes(collected[stdout]), bytes(collected[stderr])


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
