"""Writing a zip archive out of another one, whose packed bytes are copied as they are.

Nothing is inflated or deflated. New content is *stored*: deflate's output depends on which zlib a
Python was built with (zlib, zlib-ng), and an archive must not depend on who makes it. Headers keep
what they say but for what has to change. Format: PKWARE's APPNOTE 6.3.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import time
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pseries.upstream.zipped import Span

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")

_STORED = 0
_SIZES_FOLLOW, _DEFLATE_LEVEL, _UTF8 = 0x8, 0x6, 0x800
_UNIX, _VERSION_PLAIN, _VERSION_64 = 3, 20, 45
_REGULAR = 0o100000
_EXTRA_ZIP64 = 0x0001
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_MOST16, _MOST32 = _FULL16 - 1, _FULL32 - 1
"""The largest numbers that the old fields hold: all ones means "see the zip64 field"."""

EARLIEST = 315_532_800
"""1980-01-01: the first moment that a zip archive can name."""
LATEST = 4_354_819_198
"""2107-12-31 23:59:58: the last one."""

_CHUNK = 1 << 20
_BUFFERS = 4
_FLUSH = 32 << 20
"""Bytes read between two requests to write out what there is."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A member that keeps its bytes; ``name`` may be another than it had."""

    span: Span
    name: bytes


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A member with new content; ``mode`` is ``None`` where its permissions stay."""

    span: Span
    name: bytes
    data: bytes
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """A member that was not there."""

    name: bytes
    data: bytes
    mode: int


Part = Kept | Rewritten | Added


class _Central(NamedTuple):
    """The fixed fields of a central directory header."""

    magic: bytes
    made_by: int
    needed: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    name_length: int
    extra_length: int
    comment_length: int
    disk: int
    internal: int
    external: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Record:
    """A central directory header: its place in the directory, fields, extra fields and comment."""

    place: int
    fixed: _Central
    extra: bytes
    comment: bytes


def write(
    source: BinaryIO,
    directory: int,
    parts: Sequence[Part],
    target: IO[bytes],
    *,
    epoch: int,
    progress: Callable[[int], None] = lambda _: None,
) -> str:
    """Write the archive of ``parts`` to ``target`` and return the sha256 of ``source``.

    ``source`` is read once, from its first byte to its last, and hashed on the way: what is copied
    is what is hashed. Reading and hashing overlap; both release Python's lock.

    Args:
        source: the archive that the spans are of.
        directory: where its central directory starts.
        parts: in the order in which they are to lie; kept and rewritten ones in that of ``source``.
        target: the new file, empty.
        epoch: when added members were made, in seconds since 1970, brought into zip's range.
        progress: told how many bytes of the source are done.
    """
    records = _records(source, directory)
    bodies, headers = [], []
    position = 0
    for part in parts:
        pieces, header = _PLAN[type(part)](part, position, records, source, epoch)  # type: ignore[operator]
        bodies += pieces
        headers.append(header)
        position += sum(_length(piece) for piece in pieces)
    central = _directory(parts, headers, records)
    bodies.append(central + _end(len(parts), len(central), position))
    return _pump(source, _joined(bodies), target, progress)


# --- planning ---------------------------------------------------------------------------------

Piece = bytes | tuple[int, int]
"""New bytes, or a range of the source."""


def _length(piece: Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]


def _records(source: BinaryIO, directory: int) -> dict[int, _Record]:
    """Return the central headers, which were checked before, by offset of the local header."""
    source.seek(directory)
    raw = source.read()
    records: dict[int, _Record] = {}
    at = 0
    while raw[at : at + 4] == b"PK\1\2":
        fixed = _Central(*_CENTRAL.unpack_from(raw, at))
        extra_at = at + _CENTRAL.size + fixed.name_length
        comment_at = extra_at + fixed.extra_length
        at = comment_at + fixed.comment_length
        record = _Record(len(records), fixed, raw[extra_at:comment_at], raw[comment_at:at])
        records[_offset(record)] = record
    return records


def _offset(record: _Record) -> int:
    if record.fixed.offset != _FULL32:
        return record.fixed.offset
    wide = _zip64(record.extra)
    before = [record.fixed.size, record.fixed.packed].count(_FULL32)
    return int.from_bytes(wide[8 * before : 8 * before + 8], "little")


def _kept(
    part: Kept, position: int, records: dict[int, _Record], source: BinaryIO, _: int
) -> tuple[list[Piece], bytes]:
    span, record = part.span, records[part.span.start]
    header = _central(
        record.fixed, part.name, record, position, packed=span.entry.packed, size=span.entry.size
    )
    if part.name == span.entry.raw:
        return [(span.start, span.end)], header
    fixed, extra = _local(source, span)
    renamed = _LOCAL.pack(*fixed[:9], len(part.name), len(extra)) + part.name + extra
    return [renamed, (span.data, span.end)], header


def _rewritten(
    part: Rewritten, position: int, records: dict[int, _Record], source: BinaryIO, _: int
) -> tuple[list[Piece], bytes]:
    record = records[part.span.start]
    crc, size = zlib.crc32(part.data), len(part.data)
    fixed, extra = _local(source, part.span)
    magic, needed, flags, _method, time_, date = fixed[:6]
    flags &= ~(_SIZES_FOLLOW | _DEFLATE_LEVEL)
    extra = _without_zip64(extra)
    local = _LOCAL.pack(
        magic, needed, flags, _STORED, time_, date, crc, size, size, len(part.name), len(extra)
    )
    external = record.fixed.external
    if part.mode is not None:
        external = (_REGULAR | part.mode) << 16 | external & _FULL16
    central = record.fixed._replace(
        flags=flags, method=_STORED, crc=crc, packed=size, size=size, external=external, offset=0
    )
    plain = _Record(record.place, central, _without_zip64(record.extra), record.comment)
    header = _central(central, part.name, plain, position, packed=size, size=size)
    return [local + part.name + extra + part.data], header


def _added(
    part: Added, position: int, _: dict[int, _Record], __: BinaryIO, epoch: int
) -> tuple[list[Piece], bytes]:
    crc, size = zlib.crc32(part.data), len(part.data)
    flags = 0 if part.name.isascii() else _UTF8
    time_, date = _dos(epoch)
    local = _LOCAL.pack(
        b"PK\3\4", _VERSION_PLAIN, flags, _STORED, time_, date, crc, size, size, len(part.name), 0
    )
    central = _Central(
        b"PK\1\2", _UNIX << 8 | _VERSION_PLAIN, _VERSION_PLAIN, flags, _STORED, time_, date,
        crc, size, size, len(part.name), 0, 0, 0, 0, (_REGULAR | part.mode) << 16, 0,
    )  # fmt: skip
    record = _Record(0, central, b"", b"")
    header = _central(central, part.name, record, position, packed=size, size=size)
    return [local + part.name + part.data], header


_PLAN = {Kept: _kept, Rewritten: _rewritten, Added: _added}


def _local(
    source: BinaryIO, span: Span
) -> tuple[tuple[bytes, int, int, int, int, int, int, int, int, int, int], bytes]:
    source.seek(span.start)
    raw = source.read(span.data - span.start)
    fixed = _LOCAL.unpack_from(raw)
    return fixed, raw[_LOCAL.size + fixed[9] :]


def _central(
    fixed: _Central, name: bytes, record: _Record, offset: int, *, packed: int, size: int
) -> bytes:
    """Return a header with the new name and offset; numbers that do not fit go to a zip64 field."""
    numbers = {"size": size, "packed": packed, "offset": offset}
    wide = [
        key
        for key, value in numbers.items()
        if value > _MOST32 or getattr(record.fixed, key) == _FULL32
    ]
    extra = record.extra
    if wide:
        field = b"".join(numbers[key].to_bytes(8, "little") for key in wide)
        extra = struct.pack("<2H", _EXTRA_ZIP64, len(field)) + field + _without_zip64(extra)
        fixed = fixed._replace(needed=max(fixed.needed, _VERSION_64))
        numbers |= dict.fromkeys(wide, _FULL32)
    fixed = fixed._replace(
        size=numbers["size"],
        packed=numbers["packed"],
        offset=numbers["offset"],
        name_length=len(name),
        extra_length=len(extra),
    )
    return _CENTRAL.pack(*fixed) + name + extra + record.comment


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and whole text of each extra field; padding behind them drops out."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        yield kind, extra[at : at + 4 + length]
        at += 4 + length


def _zip64(extra: bytes) -> bytes:
    return next((field[4:] for kind, field in _fields(extra) if kind == _EXTRA_ZIP64), b"")


def _without_zip64(extra: bytes) -> bytes:
    return b"".join(field for kind, field in _fields(extra) if kind != _EXTRA_ZIP64)


def moment(epoch: int) -> tuple[int, int, int, int, int, int]:
    """Return a moment, brought into zip's range; UTC, of which zip says nothing."""
    return time.gmtime(min(max(epoch, EARLIEST), LATEST))[:6]


def _dos(epoch: int) -> tuple[int, int]:
    """Return time and date as a header has them."""
    year, month, day, hour, minute, second = moment(epoch)
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day


def _directory(
    parts: Sequence[Part], headers: Sequence[bytes], records: dict[int, _Record]
) -> bytes:
    """Return the central directory in the order of the source's, added members behind theirs."""
    keyed = []
    place = -1
    for number, (part, header) in enumerate(zip(parts, headers, strict=True)):
        if not isinstance(part, Added):
            place = records[part.span.start].place
        keyed.append((place, number, header))
    return b"".join(header for _, _, header in sorted(keyed))


def _end(count: int, size: int, start: int) -> bytes:
    narrow = (min(count, _FULL16), min(size, _FULL32), min(start, _FULL32))
    if count <= _MOST16 and size <= _MOST32 and start <= _MOST32:
        return _END.pack(b"PK\5\6", 0, 0, count, *narrow, 0)
    version = _UNIX << 8 | _VERSION_64
    return (
        _END64.pack(
            b"PK\6\6", _END64.size - 12, version, _VERSION_64, 0, 0, count, count, size, start
        )
        + _LOCATOR64.pack(b"PK\6\7", 0, start + size, 1)
        + _END.pack(b"PK\5\6", 0, 0, _FULL16, _FULL16, _FULL32, _FULL32, 0)
    )


# --- copying ----------------------------------------------------------------------------------


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Join ranges that follow each other: a wheel of thousands of members is then a few reads."""
    waiting: tuple[int, int] | None = None
    for piece in pieces:
        if isinstance(piece, tuple) and waiting is not None and waiting[1] == piece[0]:
            waiting = (waiting[0], piece[1])
            continue
        if waiting is not None:
            yield waiting
            waiting = None
        if isinstance(piece, tuple):
            waiting = piece
        else:
            yield piece
    if waiting is not None:
        yield waiting


class _Reader:
    """A file read once from its start, every byte of it hashed beside the work on it."""

    def __init__(
        self, source: BinaryIO, hasher: ThreadPoolExecutor, progress: Callable[[int], None]
    ) -> None:
        self.digest = hashlib.sha256()
        self.done = source.seek(0)
        self._source = source
        self._hasher = hasher  # with one worker, so that updates stay in order
        self._progress = progress
        self._buffers = [bytearray(_CHUNK) for _ in range(_BUFFERS)]
        self._busy: list[Future[None]] = []

    def until(self, end: int | None) -> Iterator[memoryview]:
        """Yield what comes before ``end``, or all there is; a view is good until the next one."""
        while end is None or self.done < end:
            if len(self._busy) == _BUFFERS:
                self._busy.pop(0).result()
            buffer = self._buffers.pop(0)
            self._buffers.append(buffer)
            room = _CHUNK if end is None else min(_CHUNK, end - self.done)
            count: int = self._source.readinto(memoryview(buffer)[:room])  # type: ignore[attr-defined]
            if count == 0:
                if end is not None:
                    raise OSError(errno.EIO, "the file became shorter while it was read")
                return
            view = memoryview(buffer)[:count]
            self._busy.append(self._hasher.submit(self.digest.update, view))
            self.done += count
            self._progress(self.done)
            yield view

    def skip(self, end: int | None) -> None:
        """Read on to ``end``, only to hash it."""
        for _ in self.until(end):
            pass


def _pump(
    source: BinaryIO, pieces: Iterator[Piece], target: IO[bytes], progress: Callable[[int], None]
) -> str:
    """Write the pieces while reading, and hashing, the whole source in one pass.

    What is written goes to the disk meanwhile, or the sync at the end would take as long again.
    """
    with ThreadPoolExecutor(1) as hasher, ThreadPoolExecutor(1) as flusher:
        reader = _Reader(source, hasher, progress)
        flushing: Future[None] | None = None
        flushed = 0
        for piece in pieces:
            if isinstance(piece, bytes):
                target.write(piece)
                continue
            reader.skip(piece[0])
            for view in reader.until(piece[1]):
                target.write(view)
                if reader.done - flushed >= _FLUSH and (flushing is None or flushing.done()):
                    flushing = flusher.submit(os.fdatasync, target.fileno())
                    flushed = reader.done
        reader.skip(None)
    return reader.digest.hexdigest()
