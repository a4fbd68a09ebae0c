"""Wheels and sdists for tests: proper ones, and tar and zip files with any field made wrong."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BLOCK = 512

# --- proper ones ------------------------------------------------------------------------------


def wheel(
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    executable: Iterable[str] = (),
    record: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return a wheel with the files, its dist-info and a true RECORD."""
    info = f"{name}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members = {**files, **metadata}
    rows = [f"{path},{digest(data)},{len(data)}\n" for path, data in (record or members).items()]
    members[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in members.items():
            entry = zipfile.ZipInfo(path)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if path in executable else 0o100644) << 16
            archive.writestr(entry, data)
    return out.getvalue()


def digest(data: bytes) -> str:
    """Return the hash as RECORD has it."""
    raw = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={raw}"


def sdist(
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    executable: Iterable[str] = (),
    flavour: int = tarfile.PAX_FORMAT,
    mtime: int = 0,
    backwards: bool = False,
) -> bytes:
    """Return an sdist as Python's tarfile writes it; the last three must not matter."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=flavour) as archive:
        for path in sorted(files, reverse=backwards):
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(files[path])
            entry.mode = 0o755 if path in executable else 0o644
            entry.mtime = mtime
            archive.addfile(entry, io.BytesIO(files[path]))
    return out.getvalue()


# --- tar --------------------------------------------------------------------------------------


def tar_entry(
    name: bytes,
    data: bytes = b"",
    *,
    kind: bytes = b"0",
    mode: bytes = b"0000644\0",
    size: bytes | None = None,
    prefix: bytes = b"",
    magic: bytes = b"ustar\x0000",
    link: bytes = b"",
    checksum: int | None = None,
) -> bytes:
    """Return a header and its data; every field can be what no tool writes."""
    length = b"%011o\0" % len(data) if size is None else size
    fields = (
        name.ljust(100, b"\0"), mode, b"0000000\0", b"0000000\0", length, b"00000000000\0",
        b" " * 8, kind, link.ljust(100, b"\0"), magic, bytes(32), bytes(32), bytes(16),
        prefix.ljust(155, b"\0"), bytes(12),
    )  # fmt: skip
    header = b"".join(fields)
    assert len(header) == BLOCK
    total = sum(header) if checksum is None else checksum
    header = header[:148] + b"%06o\0 " % total + header[156:]
    return header + data + bytes(-len(data) % BLOCK)


def pax(records: Mapping[str, bytes], *, kind: bytes = b"x") -> bytes:
    """Return a pax header."""
    lines = []
    for key, value in records.items():
        body = b" " + key.encode() + b"=" + value + b"\n"
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length = len(str(length)) + len(body)
        lines.append(str(length).encode() + body)
    return tar_entry(b"PaxHeader", b"".join(lines), kind=kind)


def tar_gz(*entries: bytes, end: bytes = bytes(2 * BLOCK), after: bytes = b"") -> bytes:
    """Return a gzipped tar of the entries."""
    return gzip.compress(b"".join(entries) + end + after, mtime=0)


# --- zip --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ZipMember:
    """A member of a zip file; what is ``None`` is made to be true."""

    name: bytes
    data: bytes = b""
    mode: int = 0o100644
    flags: int = 0
    method: int = 8
    crc: int | None = None
    size: int | None = None
    packed: bytes | None = None
    extra: bytes = b""
    local_name: bytes | None = None
    local_flags: int | None = None
    local_method: int | None = None
    local_crc: int | None = None
    local_size: int | None = None
    local_extra: bytes = b""
    descriptor: bytes = b""
    gap: bytes = b""
    offset: int | None = None
    disk: int = 0


def zip_file(
    *members: ZipMember,
    before: bytes = b"",
    between: bytes = b"",
    after: bytes = b"",
    comment: bytes = b"",
    count: int | None = None,
    zip64: bool = False,
) -> bytes:
    """Return a zip file of the members, with anything anywhere."""
    out = bytearray(before)
    central = bytearray()
    for member in members:
        out += member.gap
        offset = len(out) if member.offset is None else member.offset
        packed = _deflate(member.data) if member.method == 8 else member.data
        packed = packed if member.packed is None else member.packed
        crc = _or(member.crc, zlib.crc32(member.data))
        size = _or(member.size, len(member.data))
        local_name = member.name if member.local_name is None else member.local_name
        streamed = bool(member.flags & 8)
        out += struct.pack(
            "<4s5H3L2H", b"PK\3\4", 20, _or(member.local_flags, member.flags),
            _or(member.local_method, member.method), 0, 0x21,
            _or(member.local_crc, 0 if streamed else crc), 0 if streamed else len(packed),
            _or(member.local_size, 0 if streamed else size), len(local_name),
            len(member.local_extra),
        )  # fmt: skip
        out += local_name + member.local_extra + packed + member.descriptor
        central += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 3 << 8 | 20, 20, member.flags, member.method, 0, 0x21, crc,
            len(packed), size, len(member.name), len(member.extra), 0, member.disk, 0,
            member.mode << 16, offset,
        )  # fmt: skip
        central += member.name + member.extra
    out += between
    start = len(out)
    out += central
    number = _or(count, len(members))
    if zip64:
        position = len(out)
        out += struct.pack(
            "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, number, number, len(central), start
        )
        out += struct.pack("<4sLQL", b"PK\6\7", 0, position, 1)
        out += struct.pack(
            "<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, len(comment)
        )
    else:
        out += struct.pack(
            "<4s4H2LH", b"PK\5\6", 0, 0, number, number, len(central), start, len(comment)
        )
    return bytes(out) + comment + after


def wheel_members(*members: ZipMember) -> tuple[ZipMember, ...]:
    """Return the members with what makes them a wheel of ``eng`` 1.0 before them."""
    return (
        ZipMember(b"eng-1.0.dist-info/METADATA", b"Name: eng\nVersion: 1.0\n"),
        ZipMember(b"eng-1.0.dist-info/RECORD", b""),
        *members,
    )


def _or(given: int | None, true: int) -> int:
    return true if given is None else given


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()
