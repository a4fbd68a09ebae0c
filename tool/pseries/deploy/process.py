"""An engine as a child of this process: its limit on locked memory, its signals, its end."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pseries.errors import CommandNotStarted, MemlockRefused
from pseries.model.runtime.environment import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import IO

PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGWINCH,
)


def raise_memlock(wanted: str) -> None:
    """Raise RLIMIT_MEMLOCK of this process, which its children inherit; it is never lowered.

    Args:
        wanted: ``unlimited``, a number of bytes, or "" for what there is.

    Raises:
        MemlockRefused: the hard limit is lower, and only root may raise it.
    """
    if not wanted:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    limit = resource.RLIM_INFINITY if wanted == UNLIMITED else int(wanted)
    if _covers(soft, limit):
        return
    try:
        resource.setrlimit(
            resource.RLIMIT_MEMLOCK, (limit, hard if _covers(hard, limit) else limit)
        )
    except (ValueError, OSError):  # Python's two ways to say EPERM here
        raise MemlockRefused(_words(limit), _words(hard)) from None


def _covers(limit: int, wanted: int) -> bool:
    if limit == resource.RLIM_INFINITY:
        return True
    return wanted != resource.RLIM_INFINITY and limit >= wanted


def _words(limit: int) -> str:
    return UNLIMITED if limit == resource.RLIM_INFINITY else f"{limit} bytes"


def find(word: str, folders: Sequence[Path]) -> Path:
    """Return the program that a command's first word means: only these folders count.

    A program of that name elsewhere on PATH would start another, unpatched, copy of the engine.

    Raises:
        CommandNotStarted: there is none.
    """
    if os.sep in word:
        return Path(word)
    for folder in folders:
        place = folder / word
        if place.is_file() and os.access(place, os.X_OK):
            return place
    there = ", ".join(dict.fromkeys(map(str, folders)))
    raise CommandNotStarted(word, f"there is no such program in {there}")


def run(command: Sequence[str], environment: Mapping[str, str], log: IO[bytes] | None) -> int:
    """Run a command to its end and return its exit status, negative for the signal that ended it.

    The child stands in a session of its own: Ctrl-C reaches it once, through us, and not a second
    time from the terminal, which servers take for "at once". Signals that are ignored here (by
    nohup) stay so there.

    Args:
        command: the program and its words.
        environment: all of the child's environment.
        log: where it writes, instead of to our own standard output and error.

    Raises:
        CommandNotStarted: the system does not start it.
    """
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    before = {each: signal.getsignal(each) for each in PASSED_ON}
    for each, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(each, pass_on)
    try:
        try:
            child = subprocess.Popen(
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CommandNotStarted(command[0], reason or str(error)) from error
        for number in early:
            child.send_signal(number)
        return child.wait()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler if handler is not None else signal.SIG_DFL)
