"""Environment variables and a command, as a shell, a container engine and an image read them.

A value holds no control character (``series.toml`` is refused otherwise), so each is one line.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Variables = Iterable[tuple[str, str]]

UNLIMITED = "unlimited"

_SPECIAL = re.compile(r'([\\"$])')


def shell(variables: Variables) -> str:
    """Return lines for a POSIX shell to ``eval``."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables)


def docker(variables: Variables) -> str:
    """Return a file for ``--env-file`` of docker, podman and nerdctl: all behind ``=`` is taken."""
    return "".join(f"{name}={value}\n" for name, value in variables)


def containerfile(variables: Variables) -> str:
    """Return ``ENV`` lines; nothing in a value is expanded, and none ends its line."""
    return "".join(f"ENV {name}={quoted(value)}\n" for name, value in variables)


def quoted(value: str) -> str:
    """Return a value in double quotes, as ``ENV`` and ``LABEL`` of a Containerfile take it."""
    return '"{}"'.format(_SPECIAL.sub(r"\\\1", value))


def script(
    variables: Variables, memlock: str, command: Sequence[str], log: str | None = None
) -> str:
    """Return what a person would type: the environment, ``ulimit -l``, the command."""
    limit = ""
    if memlock:
        # The shell counts in KiB; half of one must not be lost.
        size = UNLIMITED if memlock == UNLIMITED else str(-(-int(memlock) // 1024))
        limit = f"ulimit -l {size}\n"
    target = "" if log is None else f" >>{shlex.quote(log)} 2>&1"
    return f"{shell(variables)}{limit}{shlex.join(command)}{target}\n"
