"""What a path from a patch, an archive or a manifest may look like.

Paths are ``str`` decoded as UTF-8 with ``surrogateescape``, so that every byte sequence a file
system knows survives; separators are ``/``.
"""

from __future__ import annotations

import re

LONGEST_PATH = 4096
"""PATH_MAX of Linux, in bytes; a longer path cannot be opened."""
LONGEST_NAME = 255
"""NAME_MAX of the common file systems, in bytes."""
CONTROL = ".pseries"
"""The folder of what pseries keeps in a site-packages folder, and beside the series."""

_PLAIN = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.+=-]*/)*[A-Za-z0-9_][A-Za-z0-9_.+=-]*")
"""Nearly every path there is; none that it matches can break a rule but those on length."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNPAIRED = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")
"""Halves of surrogate pairs: JSON can say them, but they are not what ``surrogateescape`` makes."""
_DRIVE = re.compile(r"[A-Za-z]:")


def decode(raw: bytes) -> str:
    """Return a path's bytes as the text used everywhere in the program."""
    return raw.decode("utf-8", "surrogateescape")


def encode(path: str) -> bytes:
    """Return the bytes that :func:`decode` was given.

    Raises:
        UnicodeEncodeError: no bytes decode to ``path``; :func:`problem` says so of such a path.
    """
    return path.encode("utf-8", "surrogateescape")


def display(path: str) -> str:
    """Return ``path`` as text that can always be printed, odd bytes as escapes."""
    raw = path.encode("utf-8", "backslashreplace") if _UNPAIRED.search(path) else encode(path)
    shown = raw.decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", shown)


def problem(path: str) -> str | None:  # noqa: PLR0911 - one reason each
    """Say why ``path`` may not name a file below a root, or ``None`` if it may.

    Strict on purpose: what is refused here is never wanted in a package, and each item has been
    used to leave a tree (absolute names, ``..``), to reach git's own files (``.git`` in any case)
    or to make two readers see two names (empty components, backslashes, control characters).
    """
    if len(path) <= LONGEST_NAME and _PLAIN.fullmatch(path):
        return None
    if not path:
        return "the path is empty"
    if _UNPAIRED.search(path):
        return "the path holds a character that no file name can have"
    if len(encode(path)) > LONGEST_PATH:
        return f"the path is longer than {LONGEST_PATH} bytes"
    if _CONTROL.search(path):
        return "the path holds a control character"
    if path.startswith("/") or _DRIVE.match(path):
        return "the path is absolute"
    if "\\" in path:
        return "the path holds a backslash"
    parts = path.split("/")
    if ".." in parts:
        return "the path leaves the tree ('..')"
    if "" in parts or "." in parts:
        return "the path has an empty or '.' component"
    if any(part.lower() == ".git" for part in parts):
        return "the path lies in a .git folder"
    if any(len(encode(part)) > LONGEST_NAME for part in parts):
        return f"a component is longer than {LONGEST_NAME} bytes"
    return None


def name_problem(name: str) -> str | None:
    """Say why ``name`` may not name a file in a folder that is known, or ``None`` if it may."""
    return "it lies in a folder" if "/" in name else problem(name)
