"""Lines, which end at LF; those of a patch file: how far they are read, what was wrong."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import NoReturn

from pseries.errors import PatchRefused, Problem
from pseries.model import paths
from pseries.model.diff import filename

MOST_PROBLEMS = 100
"""After so many problems the rest of the file is not looked at."""
LONGEST_HEADER = 40_000
"""Bytes of a header line: two paths of PATH_MAX, every byte of them written as an octal escape."""

GIT_HEADERS = (
    b"old mode ", b"new mode ", b"deleted file mode ", b"new file mode ", b"copy from ",
    b"copy to ", b"rename from ", b"rename to ", b"similarity index ", b"dissimilarity index ",
    b"index ",
)  # fmt: skip
"""Git's extended header lines (gitformat-diff, "Generating patch text with -p")."""

_AFTER_GIT_LINE = (*GIT_HEADERS, b"--- ", b"GIT binary patch", b"Binary files ")
_COMBINED = (b"diff --cc ", b"diff --combined ")
_MESSAGE = re.compile(rb"(?:From [0-9a-f]{40,64} |commit [0-9a-f]{40,64}$)")
_VERSION = re.compile(rb"\d+\.\d")
_CRLF = (
    "the patch itself has CR LF line ends, here in a header: a mailer or autocrlf converted it on "
    "its way. Get it again as it was made; or, where the files it changes have LF, remove every CR "
    "from it (only content lines of a CR LF file may end in CR LF)"
)


def split_lines(data: bytes) -> list[bytes]:
    """Split at LF only, line ends kept; the last line may have none."""
    return io.BytesIO(data).readlines()


@dataclass(slots=True)
class Lines:
    """The lines of one patch file, the next one to read, and the problems found so far.

    Lines end at LF and nowhere else: CR, FF or U+2028 are content.
    """

    name: str
    lines: list[bytes]
    strip: int
    at: int = 0
    found: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, data: bytes, strip: int) -> Lines:
        """Return the lines of ``data``, each with its LF."""
        return cls(name, split_lines(data), strip)

    def get(self, at: int) -> bytes:
        """Return the line at index ``at``; nothing past the end."""
        return self.lines[at] if at < len(self.lines) else b""

    def peek(self) -> bytes:
        """Return the next line to read; nothing past the end."""
        return self.get(self.at)

    def refuse(self, what: str, at: int | None = None) -> None:
        """Note a problem at line index ``at``, by default the next line to read."""
        self.found.append(((self.at if at is None else at) + 1, what))
        if len(self.found) >= MOST_PROBLEMS:
            raise self.refusal()

    def stop(self, what: str, at: int | None = None) -> NoReturn:
        """Note a problem after which nothing that follows can be judged; raises PatchRefused."""
        self.refuse(what, at)
        raise self.refusal()

    def refusal(self) -> PatchRefused:
        """Return the error that tells all problems, in the order of the lines."""
        return PatchRefused(
            self.name,
            tuple(Problem(f"{self.name}:{line}", what) for line, what in sorted(self.found)),
        )

    def header(self) -> bytes:
        """Read a header line and return it without its LF; stops at CR LF (F01) and at giants."""
        line = self.peek().removesuffix(b"\n")
        if line.endswith(b"\r"):
            self.stop(_CRLF)
        if len(line) > LONGEST_HEADER:
            self.stop(f"a header line is longer than {LONGEST_HEADER} bytes")
        self.at += 1
        return line

    def skip_to_file(self) -> None:
        """Go on to where the next file of the patch begins, or to the end."""
        while self.at < len(self.lines) and not begins_file(self, self.at):
            self.at += 1


def shown(line: bytes) -> str:
    """Return the beginning of ``line`` as text that can be printed."""
    text = line.rstrip(b"\n")
    return repr(paths.display(paths.decode(text[:60])) + ("…" if len(text) > 60 else ""))


def is_combined(line: bytes) -> bool:
    """Say whether ``line`` begins a file of a combined diff, which shows a merge (P06)."""
    return line.startswith(_COMBINED)


def is_message(line: bytes) -> bool:
    """Say whether ``line`` begins a message of a mailbox or of ``git log``."""
    return line[:1] in b"Fc" and _MESSAGE.match(line) is not None


def is_separator(line: bytes) -> bool:
    """Say whether ``line`` is the ``---`` that ends the message of a mail, as git am reads it."""
    return line.startswith(b"---") and not line[3:].strip()


def begins_file(lines: Lines, at: int) -> bool:
    """Say whether a file of the patch begins at line index ``at``, outside of a hunk.

    A ``--- ``/``+++ `` pair counts only if a hunk follows, as for git: without one it is prose
    (P07). So is a line that begins with ``diff --git`` but neither names files nor is followed by
    what follows such a line.
    """
    line = lines.lines[at]
    first = line[:1]
    if first == b"-":
        return (
            line.startswith(b"--- ")
            and lines.get(at + 1).startswith(b"+++ ")
            and lines.get(at + 2).startswith(b"@@")
        )
    if first != b"d":
        return False
    if line.startswith(b"diff --git "):
        if lines.get(at + 1).startswith(_AFTER_GIT_LINE):
            return True
        rest = line[11:].rstrip(b"\r\n")
        return any(filename.same(rest, level) for level in (1, 0))
    return is_combined(line)


def begins_signature(lines: Lines, at: int) -> bool:
    """Say whether a mail's signature begins at line index ``at``.

    That is ``-- `` and some text. An editor that trims blanks leaves ``--``: that counts before a
    version number, as git writes one. Otherwise the line is a removed one that no hunk counted.
    """
    line, following = lines.get(at), lines.get(at + 1)
    if line == b"-- \n":
        return bool(following.strip()) and following[:1] not in b"+- @\\"
    return line == b"--\n" and _VERSION.match(following) is not None
