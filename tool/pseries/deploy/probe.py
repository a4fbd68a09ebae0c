"""Asking a program something: bounded in time and in what it may say.

Drivers hang, wrappers print megabytes, and a tool may be anything that stands on PATH. What asks
here gets an answer or a reason, never an exception.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

_CHUNK = 64 << 10


class Answer(NamedTuple):
    """What a program printed, and the status that it ended with.

    ``trouble`` says why there is no whole answer, "" if there is one.
    """

    status: int
    stdout: str
    stderr: str
    trouble: str = ""


def find(name: str) -> str | None:
    """Return the absolute path of a program; relative entries of PATH are a stranger's to fill."""
    path = os.environ.get("PATH", os.defpath)
    absolute = os.pathsep.join(entry for entry in path.split(os.pathsep) if entry[:1] == "/")
    return shutil.which(name, path=absolute)


def ask(command: Sequence[str], *, timeout: float, most: int = 1 << 20) -> Answer:
    """Run a program from ``/`` without input and return what it said.

    Args:
        command: the program and its words.
        timeout: seconds after which it, and whatever it started, is killed.
        most: bytes that it may print, on both ways out together.
    """
    try:
        process = subprocess.Popen(
            list(command),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Answer(-1, "", "", getattr(error, "strerror", None) or str(error))
    streams = [cast("IO[bytes]", each) for each in (process.stdout, process.stderr)]
    said = [bytearray(), bytearray()]
    try:
        trouble = _listen(streams, said, time.monotonic() + timeout, most)
        if not trouble:
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                trouble = "it does not end"
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for stream in streams:
            stream.close()
        process.wait()
    if trouble == "late":
        trouble = f"it did not answer within {timeout:g} s"
    out, err = (bytes(each).decode("utf-8", "replace") for each in said)
    return Answer(process.returncode, out, err, trouble)


def _listen(
    streams: Sequence[IO[bytes]], said: Sequence[bytearray], deadline: float, most: int
) -> str:
    with selectors.DefaultSelector() as selector:
        for stream, into in zip(streams, said, strict=True):
            selector.register(stream, selectors.EVENT_READ, into)
        while selector.get_map():
            for key, _ in selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(key.fd, _CHUNK)
                if data:
                    key.data.extend(data)
                else:
                    selector.unregister(key.fileobj)
            if sum(map(len, said)) > most:
                return f"it said more than {most >> 10} KiB"
            if selector.get_map() and time.monotonic() > deadline:
                return "late"
    return ""
