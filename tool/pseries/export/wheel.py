"""A wheel with some of its files replaced, and everything else as upstream built it.

Rules: the binary distribution format (PEP 427), RECORD (PEP 376, PEP 627), core metadata, software
bills of materials in packages (PEP 770), licences (PEP 639). What a patched wheel has to say is
where tools were seen to go wrong: the version stands in the file name, the names of the dist-info
and data folders, METADATA and every path of RECORD, and installers look at different ones.
"""

from __future__ import annotations

import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from pseries.durable import whole_file
from pseries.errors import ArchiveRefused, ArtefactMismatch, Problem, WheelInvalid
from pseries.export.sbom import FILENAME
from pseries.export.zipcopy import Added, Kept, Rewritten, write
from pseries.model import paths
from pseries.model import record as records
from pseries.upstream import zipped
from pseries.upstream.member import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pseries.export.zipcopy import Part
    from pseries.upstream.zipped import Span

SBOM = f"sboms/{FILENAME}"
"""Where our bill of materials lies, below dist-info (PEP 770)."""

_SIGNATURES = ("RECORD.jws", "RECORD.p7s")
_UNHASHED = ("RECORD", *_SIGNATURES)
"""Files that RECORD lists without a hash, or not at all (PEP 427)."""
_SITE_SCHEMES = ("purelib", "platlib")
"""The folders of .data whose content goes into site-packages."""
_SAFE_HASHES = ("sha256", "sha384", "sha512")
_MOST_READ = 256 << 20
"""Bytes of a member that is read into memory: a source file or a RECORD, never a library."""
_MOST_SHOWN = 20
_VERSION_LINE = re.compile(rb"^(Version[ \t]*:[ \t]*)([^\r\n]*)", re.MULTILINE | re.IGNORECASE)
_NAME_LINE = re.compile(rb"^Name[ \t]*:[ \t]*([^\r\n]*)", re.MULTILINE | re.IGNORECASE)
_TAG_LINES = re.compile(rb"(?:^Tag[ \t]*:[^\r\n]*(?:\r?\n|\Z))+", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Content:
    """A file to be put into a wheel; ``executable`` is ``None`` where that stays as it is."""

    data: bytes
    executable: bool | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A member of the new wheel that is not upstream's.

    ``what`` is ``changed``, ``added``, ``removed``, or ``renamed`` for one whose name holds the
    version and whose bytes are upstream's.
    """

    what: str
    name: str


@dataclass(frozen=True, slots=True)
class Report:
    """The wheel that was written, the sha256 of the one it was made of, and all differences.

    ``replaced``: a wheel of that name was there, with other content.
    """

    path: Path
    source_sha256: str
    differences: tuple[Difference, ...]
    dropped_signatures: tuple[str, ...]
    replaced: bool = False


class Wheel:
    """A wheel opened for reading: its names and lists checked, its members by installed path.

    Everything but the members' content is verified on opening: the zip structure, the names of the
    file, dist-info and data folders, and that RECORD lists exactly the members with their sizes.

    Raises:
        ArchiveRefused: the zip file breaks a rule.
        WheelInvalid: the wheel does, with every problem at once.
    """

    def __init__(self, path: Path, filename: str | None = None) -> None:
        self.path = path
        self.filename = filename or path.name
        try:
            name, self.version, *_ = parse_wheel_filename(self.filename)
        except (InvalidWheelFilename, InvalidVersion) as error:
            raise WheelInvalid(self.filename, (Problem("the file name", str(error)),)) from None
        self.distribution = str(name)
        if path.exists() and not path.is_file():  # opening a pipe would wait for ever
            raise ArchiveRefused(self.filename, "", "it is not a regular file")
        self.file = cast("BinaryIO", path.open("rb", buffering=0))
        try:
            self._read()
        except BaseException:
            self.file.close()
            raise

    def __enter__(self) -> Wheel:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    @property
    def dist_info(self) -> str:
        """The name of the dist-info folder."""
        return f"{self.stem}.dist-info"

    @property
    def size(self) -> int:
        """Bytes of all members together, unpacked."""
        return sum(span.entry.size for span in self.spans)

    @property
    def packages(self) -> frozenset[str]:
        """The top-level names that the wheel installs into site-packages."""
        return frozenset(path.partition("/")[0] for path in self.installed)

    def read(self, span: Span) -> bytes:
        """Return the content of a member; size and checksum are verified."""
        if span.entry.size > _MOST_READ:
            raise ArchiveRefused(self.filename, span.entry.path, "the member is too large to patch")
        ledger = Ledger(self.filename)
        return b"".join(zipped.contents(self.file, span, ledger))

    def metadata(self, name: str) -> bytes:
        """Return a file of the dist-info folder."""
        return self.read(self.members[f"{self.dist_info}/{name}"])

    def placed(self, installed: str) -> str:
        """Return the member name for a file that is to be installed at a path.

        A new file goes where its neighbours are: into the same scheme folder of .data, if any.
        """
        if installed in self.installed:
            return self.installed[installed].entry.path
        folder = installed
        while folder:
            folder = folder.rpartition("/")[0]
            prefix = f"{folder}/" if folder else ""
            for path, span in self.installed.items():
                if path.startswith(prefix):
                    return span.entry.path.removesuffix(path) + installed
        return installed

    # --- opening ------------------------------------------------------------------------------

    def _read(self) -> None:
        with open(self.file.fileno(), "rb", closefd=False) as buffered:
            self.spans, self.directory = zipped.spans(buffered, Ledger(self.filename))
        self.members = {span.entry.path: span for span in self.spans if not span.entry.folder}
        self.stem = self._stem()
        data = f"{self.stem}.data/"
        self.installed: dict[str, Span] = {}
        problems: list[Problem] = []
        for path, span in self.members.items():
            where = self._installed(path, data)
            if where is not None and where in self.installed:
                problems.append(Problem(paths.display(path), "a second file is installed there"))
            elif where is not None:
                self.installed[where] = span
        problems += self._metadata_problems()
        self.record = self.metadata("RECORD")
        listed = records.parse(self.record)
        self._rows = {entry.path: entry for entry in listed.entries}
        problems += [*listed.problems, *self._record_problems()]
        if problems:
            raise WheelInvalid(self.filename, _shortened(problems))

    def _stem(self) -> str:
        tops = {path.partition("/")[0] for path in self.members if "/" in path}
        stems = {
            suffix: [top.removesuffix(suffix) for top in sorted(tops) if top.endswith(suffix)]
            for suffix in (".dist-info", ".data")
        }
        problems = []
        if len(stems[".dist-info"]) != 1:
            count = len(stems[".dist-info"])
            problems.append(Problem("the wheel", f"has {count} dist-info folders instead of one"))
            raise WheelInvalid(self.filename, tuple(problems))
        stem = stems[".dist-info"][0]
        if not self._is_ours(stem):
            what = f"does not match the file name {self.filename}"
            problems.append(Problem(f"{stem}.dist-info", what))
        problems += [
            Problem(f"{other}.data", f"does not match {stem}.dist-info")
            for other in stems[".data"]
            if other != stem
        ]
        problems += [
            Problem(f"{stem}.dist-info/{name}", "is missing")
            for name in ("METADATA", "RECORD", "WHEEL")
            if f"{stem}.dist-info/{name}" not in self.members
        ]
        if problems:
            raise WheelInvalid(self.filename, tuple(problems))
        return stem

    def _is_ours(self, stem: str) -> bool:
        name, _, version = stem.rpartition("-")
        try:
            return canonicalize_name(name) == self.distribution and Version(version) == self.version
        except InvalidVersion:
            return False

    def _installed(self, path: str, data: str) -> str | None:
        """Return where a member goes in site-packages; ``None`` for metadata, scripts and data."""
        if path.startswith(f"{self.stem}.dist-info/"):
            return None
        if not path.startswith(data):
            return path
        scheme, _, rest = path[len(data) :].partition("/")
        return rest if scheme in _SITE_SCHEMES else None

    def _metadata_problems(self) -> list[Problem]:
        where = f"{self.dist_info}/METADATA"
        head = _head(self.metadata("METADATA"))
        names, versions = _NAME_LINE.findall(head), _VERSION_LINE.findall(head)
        if len(names) != 1 or len(versions) != 1:
            return [Problem(where, "does not have one line Name: and one line Version:")]
        stem = f"{names[0].decode('utf-8', 'replace')}-{versions[0][1].decode('utf-8', 'replace')}"
        if not self._is_ours(stem.strip()):
            return [Problem(where, f"is about {stem}, not about {self.filename}")]
        return []

    def _record_problems(self) -> list[Problem]:
        """Compare RECORD with the central directory: names, sizes, and that hashes are there."""
        problems: list[Problem] = []
        unhashed = {f"{self.dist_info}/{name}" for name in _UNHASHED}
        for path, span in self.members.items():
            row = self._rows.get(path)
            if path in unhashed:
                continue
            if row is None:
                problems.append(Problem(paths.display(path), "is not listed in RECORD"))
            elif row.algorithm not in _SAFE_HASHES or row.size is None:
                problems.append(Problem(paths.display(path), "RECORD has no safe hash or no size"))
            elif row.size != span.entry.size:
                what = f"has {span.entry.size} bytes, RECORD says {row.size}"
                problems.append(Problem(paths.display(path), what))
        problems += [
            Problem(paths.display(path), "is listed in RECORD but is not in the wheel")
            for path in self._rows
            if path not in self.members and path not in unhashed
        ]
        return problems

    # --- content ------------------------------------------------------------------------------

    def verify(self, progress: Callable[[int], None] | None = None) -> None:
        """Compare the content of every member with RECORD and its checksum.

        Inflating and hashing release Python's lock, so members are shared out over threads, the
        longest first.

        Raises:
            WheelInvalid: with every member that differs.
            ArchiveRefused: a member cannot be read.
        """
        spans = sorted(self.members.values(), key=lambda span: -span.entry.size)
        done = 0
        problems = []
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for span, problem in zip(spans, pool.map(self._verified, spans), strict=True):
                if problem is not None:
                    problems.append(problem)
                done += span.entry.size
                if progress is not None:
                    progress(done)
        if problems:
            raise WheelInvalid(self.filename, _shortened(problems))

    def _verified(self, span: Span) -> Problem | None:
        path = span.entry.path
        row = self._rows.get(path)
        algorithm = row.algorithm if row is not None and row.algorithm else "sha256"
        digest = hashlib.new(algorithm)
        window = cast("BinaryIO", _Window(self.file.fileno()))
        for chunk in zipped.contents(window, span, Ledger(self.filename)):
            digest.update(chunk)
        if row is None or row.digest in (None, digest.hexdigest()):
            return None
        return Problem(paths.display(path), "has another content than RECORD says")


class _Window:
    """A file's bytes with a position of its own, for threads that read one file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0

    def seek(self, position: int) -> None:
        self._position = position

    def read(self, count: int) -> bytes:
        data = os.pread(self._descriptor, count, self._position)
        self._position += len(data)
        return data


def _shortened(problems: list[Problem]) -> tuple[Problem, ...]:
    """Return the problems, or the first of very many: a wheel has thousands of members."""
    if len(problems) <= _MOST_SHOWN:
        return tuple(problems)
    more = Problem("…", f"and {len(problems) - _MOST_SHOWN} more")
    return (*problems[:_MOST_SHOWN], more)


# --- writing ----------------------------------------------------------------------------------


def repack(
    wheel: Wheel,
    folder: Path,
    *,
    version: str,
    changes: Mapping[str, Content | None],
    sbom: bytes | None = None,
    sha256: str | None = None,
    said_by: str = "the manifest",
    epoch: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Report:
    """Write the patched wheel into ``folder`` and return what differs from upstream's.

    Args:
        wheel: upstream's.
        folder: where the new file goes; its name follows from ``version``.
        version: with the label, in normal form.
        changes: by installed path, the new content, or ``None`` for a file that goes.
        sbom: our bill of materials.
        sha256: what the whole input must hash to; checked on the bytes that were copied.
        said_by: whose word ``sha256`` is.
        epoch: the date of new members (``SOURCE_DATE_EPOCH``).
        progress: told how many bytes of the input are done.

    Raises:
        ArtefactMismatch: the input is not the pinned file; nothing is left behind.
    """
    plan = _Plan(wheel, version, changes, sbom)
    target = folder / plan.filename
    folder.mkdir(parents=True, exist_ok=True)
    earlier = _record_of(target)
    with whole_file(target) as out:
        found = write(wheel.file, wheel.directory, plan.parts, out, epoch=epoch, progress=progress)
        if sha256 is not None and found != sha256:
            raise ArtefactMismatch(wheel.filename, sha256, found, said_by)
    replaced = earlier not in (None, plan.record)
    return Report(target, found, tuple(plan.differences), tuple(plan.signatures), replaced)


def _record_of(path: Path) -> bytes | None:
    """Return RECORD of a wheel, which says what every member is; ``None`` if there is no wheel."""
    try:
        with Wheel(path) as wheel:
            return wheel.record
    except (OSError, ArchiveRefused, WheelInvalid):
        return None


class _Plan:
    """What becomes of each member, in order."""

    def __init__(
        self,
        wheel: Wheel,
        version: str,
        changes: Mapping[str, Content | None],
        sbom: bytes | None,
    ) -> None:
        self.parts: list[Part] = []
        self.differences: list[Difference] = []
        self.signatures: list[str] = []
        self._wheel = wheel
        self._old = wheel.stem
        name = self._old.rpartition("-")[0]
        self._new = f"{name}-{version}"
        rest = wheel.filename.split("-")[2:]
        self.filename = "-".join([wheel.filename.split("-")[0], version, *rest])
        self._rows: dict[str, tuple[str, int] | None] = {}
        self._contents = self._all_contents(changes, version, sbom)
        self._lay_out()

    def _all_contents(
        self, changes: Mapping[str, Content | None], version: str, sbom: bytes | None
    ) -> dict[str, Content | None]:
        """Return new contents by upstream's member name, those of the metadata included."""
        wheel, info = self._wheel, self._wheel.dist_info
        contents = {wheel.placed(path): content for path, content in changes.items()}
        for name in _SIGNATURES:
            if f"{info}/{name}" in wheel.members:
                contents[f"{info}/{name}"] = None
                self.signatures.append(f"{info}/{name}")
        metadata = wheel.metadata("METADATA")
        contents[f"{info}/METADATA"] = Content(with_version(metadata, version))
        about = wheel.metadata("WHEEL")
        if (tagged := _with_tags(about, self.filename)) != about:
            contents[f"{info}/WHEEL"] = Content(tagged)
        if sbom is not None:
            contents[f"{info}/{_free(SBOM, info, wheel.members)}"] = Content(sbom, executable=False)
        for name, content in contents.items():
            self._rows[self._renamed(name)] = (
                None
                if content is None
                else (hashlib.sha256(content.data).hexdigest(), len(content.data))
            )
        self.record = self._rewritten()
        contents[f"{info}/RECORD"] = Content(self.record)
        return contents

    def _rewritten(self) -> bytes:
        """Return RECORD with the version in every path, and the rows of what changes."""
        old, new = (re.escape(self._old.encode()), self._new.encode())
        prefix = re.compile(rb'^("?)' + old + rb"(?=\.(?:dist-info|data)/)", re.MULTILINE)
        renamed = prefix.sub(lambda found: found[1] + new, self._wheel.record)
        return records.rewrite(renamed, self._rows)

    def _renamed(self, name: str) -> str:
        for suffix in (".dist-info/", ".data/"):
            if name.startswith(self._old + suffix):
                return self._new + name[len(self._old) :]
        return name

    def _lay_out(self) -> None:
        """Take upstream's members in order; new ones go before dist-info, or before RECORD."""
        info = f"{self._wheel.dist_info}/"
        added = sorted(
            name
            for name, content in self._contents.items()
            if content is not None and name not in self._wheel.members
        )
        packages = [name for name in added if not name.startswith(info)]
        metadata = [name for name in added if name.startswith(info)]
        emptied = self._emptied(added)
        for span in self._wheel.spans:
            name = span.entry.path
            if name.startswith(info):
                self._add(packages)
            if name == f"{info}RECORD":
                self._add(metadata)
            if span.entry.folder and name.rstrip("/") in emptied:
                self.differences.append(Difference("removed", name))
            else:
                self._place(span)
        self._add(packages)

    def _emptied(self, added: Iterable[str]) -> set[str]:
        """Return folders that had files, and lose the last: left, they would be importable."""
        removed = {name for name, content in self._contents.items() if content is None}
        left = _folders([*(self._wheel.members.keys() - removed), *added])
        return _folders(removed) - left

    def _add(self, names: list[str]) -> None:
        for name in names:
            content = self._contents[name]
            if content is not None:
                new = self._renamed(name)
                mode = 0o755 if content.executable else 0o644
                self.parts.append(Added(paths.encode(new), content.data, mode))
                self.differences.append(Difference("added", new))
        names.clear()

    def _place(self, span: Span) -> None:
        name = span.entry.path
        new = self._renamed(name)
        if name not in self._contents:
            self.parts.append(Kept(span, paths.encode(new)))
            if new != name:
                self.differences.append(Difference("renamed", new))
            return
        content = self._contents[name]
        if content is None:
            self.differences.append(Difference("removed", name))
            return
        mode = None
        if content.executable is not None:
            had = span.entry.mode & 0o777 or 0o644
            mode = had | 0o111 if content.executable else had & ~0o111
        self.parts.append(Rewritten(span, paths.encode(new), content.data, mode))
        self.differences.append(Difference("changed", new))


def _folders(names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        folder = name.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _free(name: str, info: str, members: Mapping[str, Span]) -> str:
    """Return ``name``, numbered if it is taken: a bill that is there is not touched (PEP 770)."""
    stem, suffix = name.split(".", 1)
    number, free = 1, name
    while f"{info}/{free}" in members:
        number += 1
        free = f"{stem}-{number}.{suffix}"
    return free


def _head(metadata: bytes) -> bytes:
    """Return the header of a core metadata file: what comes before the first empty line."""
    return re.split(rb"\r?\n\r?\n", metadata, maxsplit=1)[0]


def with_version(metadata: bytes, version: str) -> bytes:
    """Return core metadata with another ``Version``: one line changes, every other byte stays.

    Whoever parses and writes the file again changes a hundred lines of a real one.
    """
    head = _head(metadata)
    changed = _VERSION_LINE.sub(lambda found: found[1] + version.encode(), head, count=1)
    return changed + metadata[len(head) :]


def _with_tags(about: bytes, filename: str) -> bytes:
    """Return WHEEL with the tags of the file name; as it is where they say the same.

    The two contradict each other in official wheels, and tools that write a file name from WHEEL
    then write the wrong one.
    """
    python, abi, platform = filename.removesuffix(".whl").split("-")[-3:]
    wanted = [
        f"{one}-{two}-{three}"
        for one in python.split(".")
        for two in abi.split(".")
        for three in platform.split(".")
    ]
    lines = [line.strip() for line in b"".join(_TAG_LINES.findall(about)).splitlines()]
    said = [line.partition(b":")[2].strip().decode("utf-8", "replace") for line in lines]
    if sorted(said) == sorted(wanted):
        return about
    ending = b"\r\n" if b"\r\n" in about else b"\n"
    tags = b"".join(b"Tag: " + tag.encode() + ending for tag in wanted)
    if not said:
        body = about.rstrip(b"\r\n")
        return body + ending + tags + about[len(body) + len(ending) :]
    first, *rest = list(_TAG_LINES.finditer(about))
    for found in reversed(rest):
        about = about[: found.start()] + about[found.end() :]
    return about[: first.start()] + tags + about[first.end() :]
