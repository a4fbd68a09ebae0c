"""Git's own merge of one file, and patches made of single hunks, for tests of verdicts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pseries.git import process
from pseries.model.diff.lines import split_lines

if TYPE_CHECKING:
    import random
    from pathlib import Path

_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_WORD = re.compile(rb"\b(?:[A-Za-z_]\w*|\d+)\b")


def merge_file(folder: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return git's merge of three texts, ``None`` where it sees a conflict."""
    names = []
    for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
        (folder / name).write_bytes(data)
        names.append(str(folder / name))
    statuses = range(128)  # the number of conflicts, or 0
    said = process.run(["merge-file", "-p", "--zdiff3", *names], git_dir=None, accept=statuses)
    return said.stdout if said.status == 0 else None


@dataclass(frozen=True)
class Piece:
    """One hunk of git's diff: the first line it replaces, from 0, how many, and its lines."""

    start: int
    count: int
    lines: tuple[bytes, ...]

    def apply(self, base: bytes) -> bytes:
        """Return ``base`` with this hunk alone."""
        lines = split_lines(base)
        new = [line[1:] for line in self.lines if line[:1] in b" +"]
        return b"".join([*lines[: self.start], *new, *lines[self.start + self.count :]])

    def changed(self, chance: random.Random) -> Piece | None:
        """Return it with one word of its added code changed, comments and strings aside."""
        places = [
            (at, found)
            for at, line in enumerate(self.lines)
            if line[:1] == b"+" and not set(b"#\"'") & set(line)
            for found in _WORD.finditer(line)
        ]
        if not places:
            return None
        at, found = chance.choice(places)
        lines = list(self.lines)
        lines[at] = lines[at][: found.start()] + b"other_" + lines[at][found.start() :]
        return Piece(self.start, self.count, tuple(lines))


def pieces(folder: Path, old: bytes, new: bytes) -> list[Piece]:
    """Return git's diff of two texts as hunks; none if a last line has no end."""
    names = []
    for name, data in (("old", old), ("new", new)):
        (folder / name).write_bytes(data)
        names.append(str(folder / name))
    command = ["diff", "--no-index", "--no-color", "--no-ext-diff", *names]
    said = process.run(command, git_dir=None, accept=(0, 1)).stdout
    found: list[tuple[int, int, list[bytes]]] = []
    for line in split_lines(said):
        if header := _HEADER.match(line):
            count = 1 if header[2] is None else int(header[2])
            found.append((int(header[1]) - (count > 0), count, []))
        elif found and line[:1] == b"\\":
            return []
        elif found:
            found[-1][2].append(line)
    return [Piece(start, count, tuple(lines)) for start, count, lines in found]
