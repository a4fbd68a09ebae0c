"""Strict reading of ``.tar.gz``: ustar, GNU long names and pax headers, regular files and folders.

Our own reader because the standard library's is lenient where it matters here: a damaged header in
the middle ends the archive without a word, and what follows the end is not looked at.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pseries.model import paths
from pseries.upstream.member import CHUNK, MEBIBYTE, Ledger, Member

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = 512
_NUL_BLOCK = bytes(_BLOCK)
_MOST_EXTENDED = MEBIBYTE
"""Bytes of one pax or long-name header: room for any path, little to hold in memory."""
_LENGTH = re.compile(rb"([0-9]{1,7}) ")
_REFUSED = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device",
    b"6": "a named pipe", b"7": "a contiguous file", b"S": "a sparse file", b"K": "a link",
    b"D": "a GNU directory dump", b"M": "a part of another volume", b"V": "a volume label",
}  # fmt: skip


def read(file: BinaryIO, ledger: Ledger) -> Iterator[Member]:
    """Yield the regular files of the gzipped tar ``file``; raises ``ArchiveRefused``."""
    stream = _Inflated(file, ledger)
    extended = _NOTHING
    while (block := stream.exactly(_BLOCK)) != _NUL_BLOCK:
        header = _header(block, ledger)
        if header.kind in b"xgL":
            extended = _extend(extended, header, stream, ledger)
            continue
        path, size = extended.path or header.path, header.size
        if extended.size is not None:
            size = extended.size
        extended = _NOTHING
        if header.kind == b"5":
            if size:
                raise ledger.refuse("a folder has content", path)
            ledger.folder(path.removesuffix("/"))
            continue
        if header.kind not in (b"0", b"\0"):
            what = _REFUSED.get(header.kind, f"of the unknown kind {header.kind!r}")
            raise ledger.refuse(f"the member is {what}: only files and folders are taken", path)
        ledger.file(path, size)
        end = stream.position + size + -size % _BLOCK
        yield Member(path, header.executable, size, stream.chunks(size))
        stream.skip(end - stream.position)
    if extended != _NOTHING:
        raise ledger.refuse("an extended header has no member")
    stream.finish()


# --- headers ----------------------------------------------------------------------------------


class _Header(NamedTuple):
    path: str
    kind: bytes
    size: int
    executable: bool


class _Extended(NamedTuple):
    """What the headers before a member say about it."""

    path: str = ""
    size: int | None = None


_NOTHING = _Extended()


def _header(block: bytes, ledger: Ledger) -> _Header:
    """Read one header (POSIX.1-1988 ustar, as GNU tar and Python write it)."""
    path = paths.decode(_text(block[0:100]))
    checksum = block[148:156]
    if _number(checksum) != sum(block) - sum(checksum) + 8 * 0x20:
        raise ledger.refuse("a header is damaged: its checksum is wrong", path)
    if block[257:263] == b"ustar\0" and block[345]:
        path = f"{paths.decode(_text(block[345:500]))}/{path}"
    mode, size = _number(block[100:108]), _number(block[124:136])
    if mode is None or size is None:
        raise ledger.refuse("a header holds something that is not a number", path)
    return _Header(path, block[156:157], size, bool(mode & 0o100))


def _text(raw: bytes) -> bytes:
    return raw.partition(b"\0")[0]


def _number(raw: bytes) -> int | None:
    """Return a header's number, octal or (GNU) base 256, or ``None``."""
    if raw[0] == 0x80:
        return int.from_bytes(raw[1:], "big")
    digits = raw.strip(b"\0 ")
    return int(digits or b"0", 8) if not digits.strip(b"01234567") else None


def _extend(before: _Extended, header: _Header, stream: _Inflated, ledger: Ledger) -> _Extended:
    """Read a pax header, for the next member or for all of them, or a GNU long name."""
    if header.size > _MOST_EXTENDED:
        raise ledger.refuse("an extended header is too long", header.path)
    raw = b"".join(stream.chunks(header.size))
    stream.skip(-header.size % _BLOCK)
    long_name = header.kind == b"L"
    found = {"path": raw.rstrip(b"\0")} if long_name else _pax(raw, header, ledger)
    for key in found:
        if key.startswith("GNU.sparse."):
            raise ledger.refuse("the member is a sparse file", header.path)
    relevant = found.keys() & {"path", "size", "linkpath"}
    if header.kind == b"g":
        if relevant:
            raise ledger.refuse("a global header renames or resizes members", header.path)
        return before
    if before != _NOTHING and relevant:
        raise ledger.refuse("two extended headers speak of one member", header.path)
    size = found.get("size")
    if size is not None and not re.fullmatch(rb"[0-9]{1,20}", size):
        raise ledger.refuse("an extended header gives a size that is not a number", header.path)
    return _Extended(
        paths.decode(found["path"]) if "path" in found else before.path,
        before.size if size is None else int(size),
    )


def _pax(raw: bytes, header: _Header, ledger: Ledger) -> dict[str, bytes]:
    """Read the records ``LENGTH KEY=VALUE`` of a pax header (POSIX.1-2001)."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(raw):
        length = _LENGTH.match(raw, at)
        end = at + int(length[1]) if length else 0
        key, equals, value = raw[length.end() if length else at : end - 1].partition(b"=")
        if not length or not equals or end > len(raw) or raw[end - 1 : end] != b"\n":
            raise ledger.refuse("an extended header is damaged", header.path)
        name = key.decode("utf-8", "backslashreplace")
        if name in found:
            raise ledger.refuse(f"an extended header says {name!r} twice", header.path)
        found[name] = value
        at = end
    return found


# --- the stream -------------------------------------------------------------------------------


class _Inflated:
    """The bytes inside a gzip file (RFC 1952), a block at a time and within the limits."""

    def __init__(self, file: BinaryIO, ledger: Ledger) -> None:
        self.position = 0
        self._file = file
        self._ledger = ledger
        self._gzip = zlib.decompressobj(wbits=31)
        self._packed = 0
        self._inflated = 0
        self._ready = b""
        self._at = 0

    def exactly(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        piece = self._ready[self._at : self._at + count]
        if len(piece) < count:
            return b"".join(self.chunks(count))
        self._at += count
        self.position += count
        return piece

    def chunks(self, count: int) -> Iterator[bytes]:
        """Yield the next ``count`` bytes in pieces."""
        while count:
            if self._at == len(self._ready) and not self._more():
                raise self._ledger.refuse("the archive is cut short")
            piece = self._ready[self._at : self._at + count]
            self._at += len(piece)
            self.position += len(piece)
            count -= len(piece)
            yield piece

    def skip(self, count: int) -> None:
        """Pass over the next ``count`` bytes."""
        if count <= len(self._ready) - self._at:
            self._at += count
            self.position += count
            return
        for _ in self.chunks(count):
            pass

    def finish(self) -> None:
        """Check that only the end of the archive is left: a second empty block, then padding."""
        if self.exactly(_BLOCK) != _NUL_BLOCK:
            raise self._ledger.refuse("the archive is not closed by two empty blocks")
        while self._at < len(self._ready) or self._more():
            if self._ready[self._at :].strip(b"\0"):
                raise self._ledger.refuse("something follows the end of the archive")
            self._at = len(self._ready)

    def _more(self) -> bool:
        """Inflate some more; ``False`` at the proper end of the file."""
        while not self._gzip.eof:
            waiting = self._gzip.unconsumed_tail or self._read()
            try:
                data = self._gzip.decompress(waiting, MEBIBYTE)
            except zlib.error as error:
                raise self._ledger.refuse(f"the file is damaged or not gzip ({error})") from None
            self._inflated += len(data)
            if self._ledger.limits.bomb(self._inflated, self._packed):
                raise self._ledger.refuse(
                    f"it unpacks to more than {self._ledger.limits.ratio} times its size"
                )
            if data:
                self._ready, self._at = data, 0
                return True
            if not waiting and not self._gzip.eof:
                raise self._ledger.refuse("the file is cut short")
        if self._gzip.unused_data or self._read():
            raise self._ledger.refuse("something follows the end of the gzip data")
        return False

    def _read(self) -> bytes:
        data = self._file.read(CHUNK)
        self._packed += len(data)
        return data
