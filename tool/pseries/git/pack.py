"""Writing a release into a repository as one pack file: its files, trees, commit and tag.

Why not ``git fast-import``: it puts each byte four times through a SHA-1 that looks for collisions:
that alone costs a third of ``tar``, ``git add`` and ``git commit`` (bench/import_sdist.py).
The format is small and fixed: gitformat-pack(5), pack version 2, index version 2. Objects are
stored, not compressed: this is a cache, and what an older pack holds is not written again.

Files are passed on in chunks as they come: neither an archive nor a large member is ever in memory.
Git sees a pack when its index appears under its name, which is the last step; until then, and when
an exception passes through, there is a temporary file and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Union, cast

from pseries import durable
from pseries.errors import GitFailed
from pseries.git import loose
from pseries.model import commit as commits
from pseries.model import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

_KINDS = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}
_MOST_STORED = 0xFFFF
"""Bytes of a stored block of deflate (RFC 1951)."""
_STORED = struct.Struct("<B2H")
_LAST_BLOCK = b"\1\0\0\xff\xff"
_PIECE = 1 << 20
_HEADER = struct.Struct(">4s2L")


_Folder = dict[bytes, Union[tuple[int, str], "_Folder"]]
"""Git mode and id of each file, and what is in each folder, by name."""


@dataclass(frozen=True)
class File:
    """A regular file for the tree; its ``size`` is known before its ``chunks`` are read."""

    path: str
    executable: bool
    size: int
    chunks: Iterable[bytes]


def write(
    git_dir: Path,
    content: Iterable[File] | str,
    *,
    tag: str,
    subject: str,
    record: Callable[[], bytes],
) -> str:
    """Write a commit without parents and an annotated tag for it; return the tag object's id.

    No ref is touched: until one points to the tag, the repository is as it was.

    Args:
        git_dir: a bare repository; other processes may write to it.
        content: the files, in any order, no path twice; or the id of a tree that is there already.
        tag: the name that the tag object carries.
        subject: the commit's message: with the files all that its id depends on.
        record: gives the tag's message; called once the last file was read.

    Raises:
        GitFailed: a file is not of the size it was said to have.
    """
    with Pack(git_dir) as pack:
        tree = content if isinstance(content, str) else _tree(pack, content).hex()
        commit = pack.add(b"commit", loose.commit(tree, subject.encode() + b"\n"))
        lines = b"object %s\ntype commit\ntag %s\ntagger %s\n\n%s"
        fields = (commit.hex().encode(), tag.encode(), " ".join(commits.NOBODY).encode(), record())
        return pack.add(b"tag", lines % fields).hex()


# --- trees ------------------------------------------------------------------------------------


def _tree(pack: Pack, files: Iterable[File]) -> bytes:
    """Write the files and every folder above them; return the id of the topmost tree."""
    top: _Folder = {}
    for file in files:
        *above, name = paths.encode(file.path).split(b"/")
        folder = top
        for part in above:
            folder = cast("_Folder", folder.setdefault(part, {}))
        mode = 0o100755 if file.executable else 0o100644
        folder[name] = (mode, pack.add_chunks(b"blob", file.size, file.chunks).hex())
    return _folder(pack, top)


def _folder(pack: Pack, entries: _Folder) -> bytes:
    """Write one folder, what is below it first."""
    rows = {
        name: (loose.FOLDER, _folder(pack, entry).hex()) if isinstance(entry, dict) else entry
        for name, entry in entries.items()
    }
    return pack.add(b"tree", loose.tree(rows))


# --- packs ------------------------------------------------------------------------------------


class Pack:
    """A pack in the making; a context manager: whole at its end, or gone.

    Args:
        git_dir: a bare repository.
        durable: bring it to the disk; a scratch store need not outlive the machine.
    """

    def __init__(self, git_dir: Path, *, durable: bool = True) -> None:
        self._durable = durable
        self._folder = git_dir / "objects" / "pack"
        self._known = _packed_ids(self._folder)
        self._written: dict[bytes, tuple[int, int]] = {}
        handle, name = tempfile.mkstemp(prefix="tmp_pack_", dir=self._folder)
        self._temporary = Path(name)
        self._out = os.fdopen(handle, "w+b", buffering=_PIECE)
        self._out.write(bytes(_HEADER.size))
        self._end = _HEADER.size

    def __enter__(self) -> Pack:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._written:
                self._finish()
        finally:
            self._out.close()
            self._temporary.unlink(missing_ok=True)

    def add(self, kind: bytes, data: bytes) -> bytes:
        """Write an object, unless the repository has it in a pack; return its id."""
        return self.add_chunks(kind, len(data), (data,))

    def add_chunks(self, kind: bytes, size: int, chunks: Iterable[bytes]) -> bytes:
        """Write an object whose content comes in chunks; return its id.

        What turns out to be there already is taken back.
        """
        digest = hashlib.sha1(b"%s %d\0" % (kind, size), usedforsecurity=False)
        pieces = iter(chunks)
        first = next(pieces, b"")
        digest.update(first)
        if len(first) == size and self._has(digest.digest()):
            return digest.digest()
        start, count, adler = self._end, len(first), zlib.adler32(first)
        crc = self._put([_entry_header(_KINDS[kind], size), b"\x78\1", *_stored(first)], 0)
        for piece in pieces:
            digest.update(piece)
            count += len(piece)
            adler = zlib.adler32(piece, adler)
            crc = self._put(_stored(piece), crc)
        crc = self._put([_LAST_BLOCK, adler.to_bytes(4, "big")], crc)
        if count != size:
            raise GitFailed(("pack",), 0, f"a file of {size} bytes gave {count}")
        if self._has(digest.digest()):
            self._out.seek(start)
            self._out.truncate()
            self._end = start
        else:
            self._written[digest.digest()] = (start, crc)
        return digest.digest()

    def _has(self, name: bytes) -> bool:
        return name in self._known or name in self._written

    def _put(self, parts: list[bytes], crc: int) -> int:
        for part in parts:
            self._out.write(part)
            self._end += len(part)
            crc = zlib.crc32(part, crc)
        return crc

    def _finish(self) -> None:
        """Give the pack its header, trailer and index, and then its name."""
        self._out.seek(0)
        self._out.write(_HEADER.pack(b"PACK", 2, len(self._written)))
        self._out.seek(0)
        digest = hashlib.sha1(usedforsecurity=False)
        while piece := self._out.read(_PIECE):
            digest.update(piece)
        self._out.write(digest.digest())
        self._settle(self._out)
        stem = self._folder / f"pack-{digest.hexdigest()}"
        with tempfile.NamedTemporaryFile(
            prefix="tmp_idx_", dir=self._folder, delete=False
        ) as index:
            try:
                index.write(_index(self._written, digest.digest()))
                self._settle(index)
                self._temporary.rename(stem.with_suffix(".pack"))
                Path(index.name).rename(stem.with_suffix(".idx"))
            finally:
                Path(index.name).unlink(missing_ok=True)
        if self._durable:
            durable.sync(self._folder)

    def _settle(self, file: IO[bytes]) -> None:
        """Make a file read-only, as git does, and bring it to the disk."""
        file.flush()
        os.fchmod(file.fileno(), 0o444)
        if self._durable:
            os.fsync(file.fileno())


def _entry_header(kind: int, size: int) -> bytes:
    """Return kind and size of an entry: 4 bits of the size, then 7 a byte, lowest first."""
    first, size = kind << 4 | size & 15, size >> 4
    header = bytearray((first,))
    while size:
        header[-1] |= 0x80
        header.append(size & 0x7F)
        size >>= 7
    return bytes(header)


def _stored(data: bytes) -> list[bytes]:
    """Return stored blocks of deflate with ``data``, none of them the last one."""
    blocks: list[bytes] = []
    for start in range(0, len(data), _MOST_STORED):
        block = data[start : start + _MOST_STORED]
        blocks += (_STORED.pack(0, len(block), len(block) ^ 0xFFFF), block)
    return blocks


def _index(written: dict[bytes, tuple[int, int]], checksum: bytes) -> bytes:
    """Return the index of a pack, version 2."""
    names = sorted(written)
    fanout, at = [], 0
    for first in range(256):
        while at < len(names) and names[at][0] == first:
            at += 1
        fanout.append(at)
    near: list[int] = []
    far: list[int] = []
    for name in names:
        offset = written[name][0]
        if offset < 1 << 31:
            near.append(offset)
        else:
            near.append(1 << 31 | len(far))
            far.append(offset)
    count = len(names)
    index = b"".join(
        (
            b"\xfftOc\0\0\0\2",
            struct.pack(">256L", *fanout),
            *names,
            struct.pack(f">{count}L", *(written[name][1] for name in names)),
            struct.pack(f">{count}L", *near),
            struct.pack(f">{len(far)}Q", *far),
            checksum,
        )
    )
    return index + hashlib.sha1(index, usedforsecurity=False).digest()


def _packed_ids(folder: Path) -> set[bytes]:
    """Return the ids of all objects in the packs of a repository; what cannot be read has none."""
    ids: set[bytes] = set()
    for path in folder.glob("pack-*.idx"):
        with contextlib.suppress(OSError, struct.error):
            index = path.read_bytes()
            count = struct.unpack_from(">L", index, 8 + 255 * 4)[0]
            names = index[8 + 1024 : 8 + 1024 + 20 * count]
            if index.startswith(b"\xfftOc\0\0\0\2") and path.with_suffix(".pack").is_file():
                ids.update(names[start : start + 20] for start in range(0, len(names), 20))
    return ids
