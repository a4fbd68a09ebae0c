"""Strict reading of zip files: one list of members, one way to read each of them.

Our own reader because the standard library's takes the central directory's word: it accepts data
before, between and after the members, overlapping members, and local headers that say something
else, which other tools read instead. Format: PKWARE's APPNOTE 6.3.
"""

from __future__ import annotations

import stat
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from pseries.model import paths
from pseries.upstream.member import CHUNK, MEBIBYTE, Ledger, Member

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")

_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _SIZES_FOLLOW, _PATCH, _STRONG, _UTF8, _MASKED = 1, 8, 32, 64, 0x800, 0x2000
_EXTRA_ZIP64, _EXTRA_UNICODE_NAME = 0x0001, 0x7075
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_MOST_CENTRAL = 256 * MEBIBYTE
"""Bytes of a central directory: 200,000 members with paths of over a thousand bytes."""


@dataclass(frozen=True)
class Entry:
    """What the central directory says of one member."""

    path: str
    raw: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    mode: int
    offset: int

    @property
    def folder(self) -> bool:
        """Whether it is a folder: its name ends in a slash."""
        return self.raw.endswith(b"/")


@dataclass(frozen=True)
class Span:
    """Where a member lies in the file: its local header, its packed data, and where it ends.

    ``end`` includes the data descriptor; the spans of an archive follow each other without a gap.
    """

    entry: Entry
    start: int
    data: int
    end: int


def spans(file: BinaryIO, ledger: Ledger) -> tuple[list[Span], int]:
    """Return every member in the order of its data, and where the central directory starts.

    All names, kinds, sizes and headers are checked; no member's data is read.

    Raises:
        ArchiveRefused: the archive breaks a rule.
    """
    entries, start = _central_directory(file, ledger)
    entries.sort(key=lambda entry: entry.offset)
    for entry in entries:
        _check(entry, ledger)
    found = []
    position = 0
    for index, entry in enumerate(entries):
        if entry.offset != position:
            what = "overlaps the one before" if entry.offset < position else "follows a gap"
            raise ledger.refuse(f"the member {what}", entry.path)
        data = position + _local_header(file, entry, ledger)
        following = entries[index + 1].offset if index + 1 < len(entries) else start
        position = _after(file, entry, data + entry.packed, following, ledger)
        found.append(Span(entry, entry.offset, data, position))
    if position != start:
        raise ledger.refuse("something lies between the last member and the central directory")
    return found, start


def read(file: BinaryIO, ledger: Ledger) -> Iterator[Member]:
    """Yield the regular files of the zip ``file`` in the order of their data.

    Raises:
        ArchiveRefused: the archive breaks a rule.
    """
    for span in spans(file, ledger)[0]:
        entry = span.entry
        if not entry.folder:
            executable = bool(entry.mode & 0o100)
            yield Member(entry.path, executable, entry.size, contents(file, span, ledger))


def _check(entry: Entry, ledger: Ledger) -> None:
    """Check a member by what the central directory says of it, and enter it."""
    if entry.flags & (_ENCRYPTED | _STRONG | _MASKED):
        raise ledger.refuse("the member is encrypted", entry.path)
    if entry.flags & _PATCH or entry.method not in (_STORED, _DEFLATED):
        raise ledger.refuse("the member is neither stored nor deflated", entry.path)
    if not entry.raw.isascii() and not entry.flags & _UTF8:
        raise ledger.refuse("the name is not marked as UTF-8", entry.path)
    if entry.method == _STORED and entry.packed != entry.size:
        raise ledger.refuse("the member is stored, but its two sizes differ", entry.path)
    if ledger.limits.bomb(entry.size, entry.packed):
        raise ledger.refuse(f"it unpacks to more than {ledger.limits.ratio} times its size")
    kind = stat.S_IFMT(entry.mode)
    if entry.folder:
        if entry.size or kind not in (0, stat.S_IFDIR):
            raise ledger.refuse("the name is a folder's, the member is not", entry.path)
        ledger.folder(entry.path.removesuffix("/"))
    else:
        if kind not in (0, stat.S_IFREG):
            raise ledger.refuse("the member is a link or device: only files are taken", entry.path)
        ledger.file(entry.path, entry.size)


# --- the central directory --------------------------------------------------------------------


def _central_directory(file: BinaryIO, ledger: Ledger) -> tuple[list[Entry], int]:
    """Return the entries and the offset where the central directory starts."""
    count, size, start = _end(file, ledger)
    if count > ledger.limits.members or size > _MOST_CENTRAL:
        raise ledger.refuse(f"the archive has more than {ledger.limits.members} members")
    file.seek(start)
    raw = _exactly(file, size, ledger)
    entries = []
    at = 0
    while at < len(raw):
        entry, at = _central_entry(raw, at, ledger)
        entries.append(entry)
    if len(entries) != count:
        raise ledger.refuse(f"the archive has {len(entries)} members and says {count}")
    return entries, start


def _end(file: BinaryIO, ledger: Ledger) -> tuple[int, int, int]:
    """Return count, size and start of the central directory, which must end the file."""
    length = file.seek(0, 2)
    if length < _END.size:
        raise ledger.refuse("not a zip file")
    end = length - _END.size
    file.seek(end)
    magic, disk, first, here, count, size, start, comment = _END.unpack(file.read(_END.size))
    if magic != b"PK\5\6" or comment:
        raise ledger.refuse("not a zip file, cut short, or something follows its end")
    if _FULL16 in (here, count) or _FULL32 in (size, start):
        return _end64(file, end, ledger)
    if disk or first or here != count:
        raise ledger.refuse("a part of an archive in several parts")
    if start + size != end:
        raise ledger.refuse("something lies before the archive or before its end record")
    return count, size, start


def _end64(file: BinaryIO, end: int, ledger: Ledger) -> tuple[int, int, int]:
    """The same from the zip64 records, which stand between the directory and the end record."""
    position = end - _LOCATOR64.size - _END64.size
    if position < 0:
        raise ledger.refuse("the zip64 end record is missing")
    file.seek(position)
    record = _END64.unpack(file.read(_END64.size))
    magic, length, _, _, disk, first, here, count, size, start = record
    locator_magic, record_disk, offset, disks = _LOCATOR64.unpack(file.read(_LOCATOR64.size))
    if magic != b"PK\6\6" or locator_magic != b"PK\6\7" or length != _END64.size - 12:
        raise ledger.refuse("the zip64 end record is missing or damaged")
    if disk or first or record_disk or disks > 1 or here != count:
        raise ledger.refuse("a part of an archive in several parts")
    if offset != position or start + size != position:
        raise ledger.refuse("something lies before the archive or before its end record")
    return count, size, start


def _central_entry(raw: bytes, at: int, ledger: Ledger) -> tuple[Entry, int]:
    if at + _CENTRAL.size > len(raw):
        raise ledger.refuse("the central directory is damaged")
    (
        magic, _, _, flags, method, _, _, crc, packed, size,
        name_length, extra_length, comment_length, disk, _, attributes, offset,
    ) = _CENTRAL.unpack_from(raw, at)  # fmt: skip
    at += _CENTRAL.size
    name = raw[at : at + name_length]
    extra = raw[at + name_length : at + name_length + extra_length]
    at += name_length + extra_length + comment_length
    if magic != b"PK\1\2" or at > len(raw):
        raise ledger.refuse("the central directory is damaged")
    path = paths.decode(name)
    numbers = _widen(extra, [size, packed, offset], path, ledger)
    if disk:
        raise ledger.refuse("the member lies in another part of the archive", path)
    mode = attributes >> 16  # whatever system made it: pip goes by it, too
    return Entry(path, name, flags, method, crc, numbers[1], numbers[0], mode, numbers[2]), at


def _widen(extra: bytes, numbers: list[int], path: str, ledger: Ledger) -> list[int]:
    """Replace each full 32-bit number by the zip64 field's, which holds just those, in order."""
    wide = _zip64_field(extra, path, ledger)
    needed = numbers.count(_FULL32)
    if needed == 0:
        return numbers
    if len(wide) < needed:
        raise ledger.refuse("the zip64 field is missing or too short", path)
    following = iter(wide)
    return [next(following) if number == _FULL32 else number for number in numbers]


def _zip64_field(extra: bytes, path: str, ledger: Ledger) -> tuple[int, ...]:
    """Return the numbers of the zip64 field; every field must keep the form ID, length, data."""
    wide: tuple[int, ...] = ()
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        field = extra[at + 4 : at + 4 + length]
        at += 4 + length
        if len(field) != length or (kind == _EXTRA_ZIP64 and wide):
            raise ledger.refuse("the extra fields are damaged", path)
        if kind == _EXTRA_UNICODE_NAME:
            raise ledger.refuse("the member has a second name", path)
        if kind == _EXTRA_ZIP64:
            wide = struct.unpack_from(f"<{min(length // 8, 3)}Q", field)
    if extra[at:].strip(b"\0"):
        raise ledger.refuse("the extra fields are damaged", path)
    return wide


# --- members ----------------------------------------------------------------------------------


def _local_header(file: BinaryIO, entry: Entry, ledger: Ledger) -> int:
    """Check the local header against the central directory; return its length."""
    file.seek(entry.offset)
    raw = _exactly(file, _LOCAL.size, ledger)
    magic, _, flags, method, _, _, crc, packed, size, names, extras = _LOCAL.unpack(raw)
    if magic != b"PK\3\4":
        raise ledger.refuse("there is no member where the central directory says", entry.path)
    name = _exactly(file, names, ledger)
    extra = _exactly(file, extras, ledger)
    size, packed = _widen(extra, [size, packed], entry.path, ledger)
    said = (crc, packed, size)
    allowed = [(entry.crc, entry.packed, entry.size)]
    if flags & _SIZES_FOLLOW:
        allowed.append((0, 0, 0))
    agree = (flags, method, name) == (entry.flags, entry.method, entry.raw)
    if not agree or said not in allowed:
        raise ledger.refuse("local header and central directory disagree", entry.path)
    return _LOCAL.size + len(name) + len(extra)


def _after(file: BinaryIO, entry: Entry, end: int, following: int, ledger: Ledger) -> int:
    """Return where the member ends, its data descriptor included if it has one (flag bit 3)."""
    if not entry.flags & _SIZES_FOLLOW:
        return end
    file.seek(end)
    raw = file.read(max(0, min(following - end, 24)))
    for sizes in ("2L", "2Q"):
        plain = struct.pack("<L", entry.crc) + _packed(sizes, entry.packed, entry.size)
        if raw in (plain, b"PK\7\10" + plain):
            return following
    raise ledger.refuse("data descriptor and central directory disagree", entry.path)


def _packed(sizes: str, packed: int, size: int) -> bytes:
    most = _FULL32 if sizes == "2L" else (1 << 64) - 1
    return struct.pack(f"<{sizes}", packed & most, size & most)


def contents(file: BinaryIO, span: Span, ledger: Ledger) -> Iterator[bytes]:
    """Yield a member's content in pieces; size and checksum hold when it ends."""
    entry = span.entry
    file.seek(span.data)
    crc = size = 0
    for data in _inflated(file, entry, ledger) if entry.method else _stored(file, entry, ledger):
        crc = zlib.crc32(data, crc)
        size += len(data)
        if size > entry.size:
            break
        yield data
    if size != entry.size or crc != entry.crc:
        raise ledger.refuse("size or checksum is wrong", entry.path)


def _stored(file: BinaryIO, entry: Entry, ledger: Ledger) -> Iterator[bytes]:
    left = entry.packed
    while left:
        yield _exactly(file, min(left, CHUNK), ledger)
        left -= min(left, CHUNK)


def _inflated(file: BinaryIO, entry: Entry, ledger: Ledger) -> Iterator[bytes]:
    inflate = zlib.decompressobj(wbits=-15)
    left = entry.packed
    try:
        while not inflate.eof:
            waiting = inflate.unconsumed_tail
            if not waiting and left:
                waiting = _exactly(file, min(left, CHUNK), ledger)
                left -= len(waiting)
            data = inflate.decompress(waiting, MEBIBYTE)
            if not data and not waiting:
                break
            yield data
    except zlib.error as error:
        raise ledger.refuse(f"the data is damaged ({error})", entry.path) from None
    if not inflate.eof or inflate.unused_data or left:
        raise ledger.refuse("the packed data is longer or shorter than said", entry.path)


def _exactly(file: BinaryIO, count: int, ledger: Ledger) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ledger.refuse("the archive is cut short")
    return data
