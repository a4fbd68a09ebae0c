"""The header lines of one file in a patch, and what they say when they are read together.

Several lines name the file, its mode and what happens to it. Tools prefer different ones; so they
must all agree, and then it does not matter whose choice is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pseries.model import paths
from pseries.model.diff import filename
from pseries.model.diff.filename import DEV_NULL
from pseries.model.diff.lines import GIT_HEADERS, shown

if TYPE_CHECKING:
    from pseries.model.diff.hunk import Hunk
    from pseries.model.diff.lines import Lines

REGULAR_MODES = (0o100644, 0o100755)
"""The modes that git writes for files; anything else is a link, a submodule or an accident."""

_ODD_MODES = {
    0o120000: "a symbolic link, and what is written through it lands elsewhere",
    0o160000: "a submodule, of which there is no file to patch",
}
_NO_FILE = "only 100644 and 100755 are files"
_MODE = re.compile(rb"[0-7]{6}")
_INDEX = re.compile(rb"([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: ([0-7]{6}))?")
_SIMILARITY = re.compile(rb"(\d{1,3})%")
_TRANSITIONS = (b"new file mode ", b"deleted file mode ", b"rename from ", b"old mode ")
_TOGETHER = {b"rename from ", b"old mode "}
"""The only two of :data:`_TRANSITIONS` that one file can have at once."""
DECORATED = (b".orig", b"~")
"""Endings of the old name that git and GNU patch leave out of a plain diff's path (P04)."""


class Kind(str, Enum):
    """What a section does to its file; a change of mode alone is a ``MODIFY`` without hunks."""

    MODIFY = "modify"
    ADD = "add"
    DELETE = "delete"
    RENAME = "rename"


_TELLING = (
    (b"rename from ", Kind.RENAME),
    (b"rename to ", Kind.RENAME),
    (b"new file mode ", Kind.ADD),
    (b"deleted file mode ", Kind.DELETE),
)
"""Git's headers that tell the kind."""


class Side(NamedTuple):
    """What a ``---`` or ``+++`` line holds."""

    name: bytes
    date: bytes


@dataclass(slots=True)
class Heading:
    """The header lines of a section as they were read."""

    at: int
    """Line index of the first."""
    git: bytes | None = None
    """What follows ``diff --git``; ``None`` in a plain diff."""
    said: dict[bytes, bytes] = field(default_factory=dict)
    """The values of git's extended headers, by the header with its last blank."""
    sides: tuple[Side, Side] | None = None
    """The ``---`` and the ``+++`` line, if there are any."""

    def label(self, level: int) -> str:
        """Return the file's name for messages, whether or not it will do."""
        if self.sides is None:
            pair = filename.same(self.git or b"", level)
            name = pair[1] if pair else self.said.get(b"rename to ") or self.git or b""
        else:
            old, new = self.sides
            name = old.name if new.name == DEV_NULL else new.name
        return paths.display(paths.decode(filename.stripped(name, level) or name))

    def is_misdated(self) -> bool:
        """Say whether git would take a date of this plain diff for "there is no file"."""
        return self.git is None and any(filename.tells_absence(s.date) for s in self.sides or ())


class _DisagreementError(Exception):
    """The header lines of a section do not name its file together; says why."""


class _Claim(NamedTuple):
    """Two names that header lines give, and how many leading components are to go."""

    words: str
    old: bytes
    new: bytes
    level: int

    def paths(self) -> tuple[bytes, bytes]:
        """Return what the names mean; raises :class:`_DisagreementError` if nothing is left."""
        old, new = (filename.stripped(name, self.level) for name in (self.old, self.new))
        if old is None or new is None:
            raise _DisagreementError(f"nothing is left of the name{_dropped(self.level)}")
        return old, new


# --- reading ----------------------------------------------------------------------------------


def read(lines: Lines) -> Heading:
    """Read the headers of the section that begins at the next line; problems go to ``lines``."""
    heading = Heading(lines.at)
    if lines.peek().startswith(b"diff --git "):
        heading.git = lines.header()[len(b"diff --git ") :]
        _read_extended(lines, heading)
    if lines.peek().startswith(b"--- "):
        _read_sides(lines, heading)
    return heading


def _read_extended(lines: Lines, heading: Heading) -> None:
    while True:
        prefix = next((each for each in GIT_HEADERS if lines.peek().startswith(each)), None)
        if prefix is None:
            return
        if prefix in heading.said:
            lines.refuse(f"a second {prefix.decode().strip()!r} line for one file")
        heading.said[prefix] = lines.header()[len(prefix) :]


def _read_sides(lines: Lines, heading: Heading) -> None:
    sides = []
    for marker in (b"--- ", b"+++ "):
        if not lines.peek().startswith(marker):
            lines.refuse("no '+++' line follows the '---' line")
            return
        line = lines.header()
        side = filename.dated(line[4:], git=heading.git is not None)
        if side is None:
            lines.refuse(f"the name on {shown(line)} cannot be read for certain", lines.at - 1)
            side = (line[4:], b"")
        sides.append(Side(*side))
    heading.sides = (sides[0], sides[1])
    if not lines.peek().startswith(b"@@"):
        lines.refuse("no hunk follows the '---' and '+++' lines")


# --- what they say together -------------------------------------------------------------------


def kind(heading: Heading, hunks: list[Hunk]) -> Kind:
    """Classify a section: by git's extended headers (P05), or by names and dates (P04)."""
    for header, what in _TELLING:
        if header in heading.said:
            return what
    if heading.git is not None or heading.sides is None:
        return Kind.MODIFY
    old, new = heading.sides
    if _is_absent(old, empty=all(hunk.old_count == 0 for hunk in hunks)):
        return Kind.ADD
    if _is_absent(new, empty=all(hunk.new_count == 0 for hunk in hunks)):
        return Kind.DELETE
    return Kind.MODIFY


def _is_absent(side: Side, *, empty: bool) -> bool:
    return side.name == DEV_NULL or (empty and filename.tells_absence(side.date))


def names(lines: Lines, heading: Heading, what: Kind) -> tuple[str, str] | None:
    """Return the path before and after, once all headers agree and both may be used.

    Of a file that is added or deleted both are its path. Every name is checked twice, as it is
    written and without the leading components that the strip level drops.
    """
    try:
        claims = _claims(heading, what, lines.strip)
        old, new = claims[0].paths()
    except _DisagreementError as disagreement:
        lines.refuse(str(disagreement), heading.at)
        return None
    written = [name for claim in claims for name in (claim.old, claim.new)]
    faults = _path_faults([old, new], written)
    for fault in faults:
        lines.refuse(fault, heading.at)
    return None if faults else (paths.decode(old), paths.decode(new))


def _path_faults(used: list[bytes], written: list[bytes]) -> list[str]:
    """Say what is wrong with the paths, and with the written names where the paths are not."""
    found: dict[str, str] = {}
    told: set[str | None] = {None}
    for names in (used, written):
        faults = {name: paths.problem(paths.decode(name)) for name in names}
        for name, fault in faults.items():
            if fault not in told:
                shown_name = paths.display(paths.decode(name[:200]))
                found[shown_name] = f"{shown_name!r}: {fault}"
        told.update(faults.values())
    return list(found.values())


def _claims(heading: Heading, what: Kind, level: int) -> list[_Claim]:
    """Collect what all header lines say of the names; raises unless it is the same."""
    claims: list[_Claim] = []
    if what is Kind.RENAME:
        claims.append(_claim_of_rename(heading, level))
    if heading.sides is not None:
        claims.append(_claim_of_sides(heading, heading.sides, what, level))
    if heading.git is not None:
        claims.append(_claim_of_git_line(heading.git, claims, level))
    first = claims[0]
    for claim in claims[1:]:
        if claim.paths() != first.paths():
            raise _DisagreementError(f"{first.words} and {claim.words} name different files")
    old, new = first.paths()
    if what is Kind.RENAME and old == new:
        raise _DisagreementError("a rename to the same name")
    if what is not Kind.RENAME and old != new:
        raise _DisagreementError("two different names without 'rename' lines")
    return claims


def _claim_of_rename(heading: Heading, level: int) -> _Claim:
    """Read the rename lines: they have no prefix, so git drops one component less from them."""
    old, new = (
        filename.plain(heading.said.get(key, b"")) for key in (b"rename from ", b"rename to ")
    )
    if not old or not new:
        raise _DisagreementError("a rename needs two readable names, 'rename from' and 'rename to'")
    return _Claim("the 'rename' lines", old, new, max(level - 1, 0))


def _claim_of_sides(heading: Heading, sides: tuple[Side, Side], what: Kind, level: int) -> _Claim:
    old, new = (side.name for side in sides)
    if old == new == DEV_NULL:
        raise _DisagreementError("both sides are '/dev/null'")
    if heading.git is not None and (
        (old == DEV_NULL) != (what is Kind.ADD) or (new == DEV_NULL) != (what is Kind.DELETE)
    ):
        raise _DisagreementError("'/dev/null' and a 'new file' or 'deleted file' line go together")
    if old == DEV_NULL:
        old = new
    elif new == DEV_NULL:
        new = old
    elif heading.git is None:
        old = _undecorated(old, new, level)
    return _Claim("the '---' and '+++' lines", old, new, level)


def _undecorated(old: bytes, new: bytes, level: int) -> bytes:
    target = filename.stripped(new, level)
    for ending in DECORATED:
        if filename.stripped(old.removesuffix(ending), level) == target:
            return old.removesuffix(ending)
    return old


def _claim_of_git_line(git: bytes, claims: list[_Claim], level: int) -> _Claim:
    """Split the ``diff --git`` line with the help of what is known; alone it must name one file."""
    words = "the 'diff --git' line"
    if claims:
        pair = filename.both(git, level, *claims[0].paths())
        fault = f"{words} and {claims[0].words} name different files"
    else:
        pair = filename.same(git, level)
        fault = f"no single name can be read from {shown(b'diff --git ' + git)}{_dropped(level)}"
    if pair is None:
        raise _DisagreementError(fault)
    return _Claim(words, *pair, level)


def _dropped(level: int) -> str:
    return f" after dropping {level} leading components (-p{level})" if level else ""


def modes(lines: Lines, heading: Heading, what: Kind) -> tuple[int | None, int | None]:
    """Return the mode before and after as far as the headers say it; refuse all but plain files."""
    said = heading.said
    at_once = {key for key in _TRANSITIONS if key in said}
    if len(at_once) > 1 and at_once != _TOGETHER:
        lines.refuse("the headers contradict each other about what happens to the file", heading.at)
    if (b"old mode " in said) != (b"new mode " in said):
        lines.refuse("'old mode' and 'new mode' go together", heading.at)
    if b"copy from " in said or b"copy to " in said:
        lines.refuse(
            "a copy: git takes its source from anywhere, even outside of the tree; "
            "make the diff without -C, so that it is a new file",
            heading.at,
        )
    index = _INDEX.fullmatch(said.get(b"index ", b""))
    both = _mode(lines, heading, index[3]) if index is not None else None
    old = _mode(lines, heading, said.get(b"old mode ", said.get(b"deleted file mode ")))
    new = _mode(lines, heading, said.get(b"new mode ", said.get(b"new file mode ")))
    if both is not None and not {old, new} <= {None, both}:
        lines.refuse("the 'index' line and another line give different modes", heading.at)
    return (
        None if what is Kind.ADD else old or both,
        None if what is Kind.DELETE else new or both,
    )


def _mode(lines: Lines, heading: Heading, text: bytes | None) -> int | None:
    if text is None:
        return None
    if not _MODE.fullmatch(text):
        lines.refuse(f"{shown(text)} is not a file mode", heading.at)
        return None
    mode = int(text, 8)
    if mode not in REGULAR_MODES:
        lines.refuse(f"mode {mode:o}: {_ODD_MODES.get(mode, _NO_FILE)}", heading.at)
    return mode


def blobs(lines: Lines, heading: Heading) -> tuple[str | None, str | None]:
    """Return both ids of the ``index`` line; git writes zeros where there is no blob."""
    if b"index " not in heading.said:
        return None, None
    found = _INDEX.fullmatch(heading.said[b"index "])
    if found is None:
        lines.refuse("the 'index' line is not 'OLD..NEW' or 'OLD..NEW MODE'", heading.at)
        return None, None
    old, new = found[1].decode(), found[2].decode()
    return old if old.strip("0") else None, new if new.strip("0") else None


def similarity(lines: Lines, heading: Heading) -> int | None:
    """Return the per cent of a rename's ``similarity index`` line."""
    text = heading.said.get(b"similarity index ")
    if text is None:
        return None
    found = _SIMILARITY.fullmatch(text)
    if found is None or int(found[1]) > 100:
        lines.refuse(f"{shown(text)} is not a per cent", heading.at)
        return None
    return int(found[1])
