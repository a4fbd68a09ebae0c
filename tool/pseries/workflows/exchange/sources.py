"""What is to be imported: patches out of folders, mailboxes, files and ranges of commits.

Only read and put in order here; what they mean is found out against a release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import PatchRefused, Problem, SourceRefused
from pseries.git import history
from pseries.model import commit as commits
from pseries.model import order as orders
from pseries.model import paths
from pseries.model import series as series_model
from pseries.model.diff import dialect, mail, mbox
from pseries.model.diff import patch as patch_files
from pseries.model.diff.dialect import Transport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pseries.git.history import Change

ORDER_FILES = ("series", "patches/series", "debian/patches/series")
"""Where order files lie: quilt's and StGit's folders, a tree with quilt's, a Debian package."""
MOST_FILE = 256 << 20
_NUMBER = re.compile(r"(\d{1,18})(?:\D|$)")
_BAD = re.compile(r"[^A-Za-z0-9._+=@,~-]+")
_FIRST_WORD = re.compile(rb"[ \t]*([^\s#][^\s]*)")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A patch that is to be imported.

    Attributes:
        name: the file name that it has, or is to have.
        source: where it was found, for messages.
        ways: the bytes that may be meant, the likelier first.
        strip: the level that an order file gives.
        order: its lines of an order file: comments above it and its own; ``None`` without one.
        expected: blob ids of the files that it must lead to; ``None`` if nobody says.
        changes: what was changed already, in words.
    """

    name: str
    source: str
    ways: tuple[Transport, ...]
    strip: int | None = None
    order: bytes | None = None
    expected: frozenset[str] | None = None
    changes: tuple[str, ...] = ()


class Found(NamedTuple):
    """What a source holds.

    Attributes:
        patches: in order.
        how: what the order is taken from, in words.
        notes: what was left out, and what a person should look at.
        hint: ``NAME-VERSION`` that the name of a folder says (fromager), "" if nothing.
    """

    patches: tuple[Incoming, ...]
    how: str
    notes: tuple[str, ...] = ()
    hint: str = ""


def find(source: Path, between: str = "") -> Found:
    """Read a source: a folder with or without an order file, a mailbox, a patch file, a repository.

    Args:
        source: its path.
        between: ``REV..REV`` of a repository.

    Raises:
        SourceRefused: there is no patch in it, or its order file breaks the format's rules.
        RangeRefused: the range names no straight line of commits.
    """
    if between:
        return _of_range(source, between)
    if is_folder(source):
        return _of_folder(source)
    patches, notes = _of_file(source.name, str(source), _content(source))
    if not patches:
        raise SourceRefused(str(source), (Problem(source.name, "no message in it has a diff"),))
    how = "of the messages" if len(patches) > 1 else "one file"
    return Found(tuple(patches), how, tuple(notes))


def is_folder(source: Path) -> bool:
    """Say whether a source is a folder or a file; raises :class:`SourceRefused` if neither."""
    if source.is_dir():
        return True
    if not source.is_file():
        what = "it is not a plain file" if source.exists() else "there is no such file"
        raise SourceRefused(str(source), (Problem(str(source), what),))
    return False


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MOST_FILE + 1)
    if len(data) > MOST_FILE:
        raise SourceRefused(str(path), (Problem(path.name, f"larger than {MOST_FILE >> 20} MiB"),))
    return data


# --- folders ----------------------------------------------------------------------------------


def _of_folder(folder: Path) -> Found:
    order = next((folder / name for name in ORDER_FILES if (folder / name).is_file()), None)
    if order is not None:
        return _ordered(order)
    listed = [path for path in folder.iterdir() if path.is_file() and _is_patch(path.name)]
    if not listed:
        raise SourceRefused(str(folder), (Problem(folder.name, _about_empty(folder)),))
    listed.sort(key=lambda path: _place(path.name))
    patches: list[Incoming] = []
    notes: list[str] = []
    for path in listed:
        more, said = _of_file(path.name, str(path), _content(path))
        patches += more
        notes += said
    notes += _doubtful([path.name for path in listed])
    return Found(tuple(patches), "by the numbers in the names",
                 tuple(notes), folder.name)  # fmt: skip


def _about_empty(folder: Path) -> str:
    inside = sorted(path.name for path in folder.iterdir() if path.is_dir()
                    and any(_is_patch(each.name) for each in path.iterdir()))  # fmt: skip
    if inside:
        return f"no patch lies in it, but in its folders {', '.join(inside[:5])}: name one"
    if history.git_dir_of(folder) is not None:
        return "it is a git repository: say which commits, as in --range v1.0..mine"
    return "neither an order file nor a .patch or .diff lies in it"


def _is_patch(name: str) -> bool:
    return name.endswith(series_model.PATCH_SUFFIXES) and not name.startswith(".")


def _place(name: str) -> tuple[object, ...]:
    """Return where a file without an order file goes: by number, then by name without its ending.

    A glob would take 10 before 2, and ``0028-x-again`` before ``0028-x``.
    """
    number = _NUMBER.match(name)
    stem = name.rpartition(".")[0]
    return (
        number is None,
        int(number[1]) if number else 0,
        stem.encode("utf-8", "surrogateescape"),
    )


def _doubtful(names: Sequence[str]) -> list[str]:
    numbers: dict[int, list[str]] = {}
    plain = [name for name in names if not _NUMBER.match(name)]
    for name in names:
        if found := _NUMBER.match(name):
            numbers.setdefault(int(found[1]), []).append(name)
    notes = [f"several have the number {number}, and were taken by name: {', '.join(each)}"
             for number, each in numbers.items() if len(each) > 1]  # fmt: skip
    if len(plain) > 1:
        notes.append(f"{len(plain)} names have no number, and were taken in the order of names")
    return notes


def _ordered(file: Path) -> Found:
    folder = file.parent
    data, inside = _flattened(_content(file))
    problems: list[Problem] = []
    order = orders.parse(data, problems)
    patches: list[Incoming] = []
    notes: list[str] = []
    for entry, chunk in zip(order.entries, orders.chunks(order), strict=True):
        path = folder / inside.get(entry.name, entry.name)
        if not path.is_file():
            shown = inside.get(entry.name, entry.name)
            problems.append(Problem(f"{file.name}:{entry.line}", f"{shown} is not in {folder}"))
            continue
        more, said = _of_file(entry.name, str(path), _content(path))
        notes += said
        if len(more) == 1:
            changes = () if entry.name == path.name else (f"{inside[entry.name]} was in a folder",)
            more = [replace(more[0], strip=entry.strip, order=chunk, changes=changes)]
        patches += more
    if not order.entries and not problems:
        problems.append(Problem(file.name, "it lists no patch"))
    if problems:
        raise SourceRefused(str(file), tuple(problems))
    listed = {str(folder / inside.get(name, name)) for name in order.names}
    left = sorted(
        path.name for path in folder.iterdir()
        if path.is_file() and _is_patch(path.name) and str(path) not in listed
    )  # fmt: skip
    if left:
        notes.append(f"not in the order file, and left out: {', '.join(left)}")
    return Found(tuple(patches), str(file), tuple(notes), folder.name)


def _flattened(data: bytes) -> tuple[bytes, dict[str, str]]:
    """Return an order file without folders in its names, and the paths by their new names.

    Patches of a series lie beside its order file; Debian's may lie in folders below it.
    """
    inside: dict[str, str] = {}
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        found = _FIRST_WORD.match(line)
        if found is None or b"/" not in found[1]:
            continue
        path = paths.decode(found[1].rstrip(b"\r"))
        if paths.problem(path) is None:
            name = path.replace("/", "-")
            inside[name] = path
            lines[number] = line.replace(paths.encode(path), paths.encode(name), 1)
    return b"\n".join(lines), inside


# --- files ------------------------------------------------------------------------------------


def _of_file(name: str, source: str, data: bytes) -> tuple[list[Incoming], list[str]]:
    """Return the patches of a file, and notes: a mailbox has several."""
    messages = mbox.apart(data)
    plain = not mbox.is_mailbox(data) or _is_patch(name)
    if len(messages) == 1 and plain and mbox.read(data).order is None:
        return [Incoming(name, source, _meant(data))], []
    found: list[Incoming] = []
    notes: list[str] = []
    for number, message in enumerate(messages, 1):
        ways = _meant(message)
        if not any(dialect.has_diff(name, way.data) for way in ways):
            subject = mail.read(mbox.read(message).data).subject or "no subject"
            notes.append(f"message {number} ({subject[:60]}) has no diff, and was left out")
            continue
        order = mbox.read(message).order
        entries = orders.parse(order or b"", []).entries
        subject = mail.read(mbox.read(ways[0].data).data).subject
        named = entries[0].name if entries else mbox.usual_name(len(found) + 1, subject)
        where = f"{source}, message {number}"
        strip = entries[0].strip if entries else None
        found.append(Incoming(named, where, ways, strip, order if entries else None))
    return found, notes


def _meant(message: bytes) -> tuple[Transport, ...]:
    """Return the ways to read one message: line ends, then the mail's encoding."""
    found: list[Transport] = []
    for outer in dialect.transports(message):
        read = mbox.read(outer.data)
        for inner in dialect.transports(read.data):
            changes = (*outer.changes, *read.changes, *inner.changes)
            found.append(Transport(inner.data, changes, outer.unproven or inner.unproven))
    return tuple(found)


def safe_name(name: str) -> str:
    """Return a name that an order file can hold: no blanks, no controls, an ending."""
    plain = _BAD.sub("-", name.rpartition("/")[2]).lstrip("-.#") or "patch"
    plain = plain[:200]
    return plain if plain.endswith(series_model.PATCH_SUFFIXES) else f"{plain}.patch"


# --- commits ----------------------------------------------------------------------------------


def _of_range(repository: Path, between: str) -> Found:
    found: list[Incoming] = []
    notes: list[str] = []
    for change in history.changes(repository, between):
        if not change.diff:
            notes.append(f"{change.commit.id[:12]} ({change.commit.subject[:60]}) changes nothing")
            continue
        found.append(_of_commit(change, len(found) + 1))
    if not found:
        raise SourceRefused(str(repository), (Problem(between, "no commit in it has a diff"),))
    return Found(tuple(found), f"of the commits {between}", tuple(notes))


def _of_commit(change: Change, number: int) -> Incoming:
    commit = change.commit
    name = mbox.usual_name(number, commit.subject)
    header, changes = _header(change, name)
    ways = [Transport(header + change.diff, changes)]
    order = None
    strip: int | None = 1
    if change.note is not None:
        lines, _, data = change.note.partition(b"\n\n")
        order = mbox.unescaped(lines)
        entries = orders.parse(order, []).entries
        if len(entries) == 1:
            name, strip = entries[0].name, entries[0].strip
            ways.insert(0, Transport(data))
        else:
            order = None
    return Incoming(
        name, f"commit {commit.id[:12]}", tuple(ways), strip, order, _expected(change.diff)
    )


def _header(change: Change, name: str) -> tuple[bytes, tuple[str, ...]]:
    commit = change.commit
    try:
        return commits.header_for(commit, None, name), ()
    except PatchRefused:
        subject, _, body = commit.message.partition("\n")
        lines = "\n".join(f"> {line}" if line.strip() else "" for line in body.split("\n"))
        words = "its message holds lines that would end it, and was quoted with >"
        return commits.header_for(commit._replace(message=f"{subject}\n{lines}"), None, name), (
            words,
        )


def _expected(diff: bytes) -> frozenset[str]:
    sections = patch_files.parse("commit", diff).sections
    return frozenset(each.new_blob for each in sections if each.new_blob is not None)
