"""``manifest.json``: what ``pseries lock`` recorded of a series, with parser and exact inverse.

It pins the upstream release by artefact, each patch by sha256, and each file a patch touches
before and after it, so that everything the program writes later can be compared with a result
that was computed once, in a scratch tree. Sorted and stable: locking twice gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pseries.model import paths
from pseries.model.fields import OBJECT_ID, SHA256, Fields, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pseries.errors import Problem
    from pseries.model.order import Order
    from pseries.model.spec import Upstream

FILE = "manifest.json"
SCHEMA = 1
MODES = (0o100644, 0o100755)
KINDS = ("modify", "add", "delete", "rename")
ARTEFACT_KINDS = ("sdist", "wheel")
_RANGE = re.compile(r"[0-9]{1,9},[0-9]{1,9}")


class FileImage(NamedTuple):
    """A file at one moment: git mode, sha256 (hex), size in bytes, git blob id."""

    mode: int
    sha256: str
    size: int
    blob: str


class HunkRecord(NamedTuple):
    """Where a hunk stands: ``(start, count)`` before and after, and the symbol it stands in.

    ``symbol`` is a Python qualified name, "" for the module itself, ``None`` where the file is
    not Python.
    """

    old: tuple[int, int]
    new: tuple[int, int]
    symbol: str | None


class Variant(NamedTuple):
    """The same change on an artefact whose bytes differ from the release tree's."""

    artefact: str
    before: FileImage | None
    after: FileImage | None


class FileRecord(NamedTuple):
    """What one patch does to one file, by canonical path; ``source`` is a rename's old path."""

    path: str
    kind: str
    source: str | None
    before: FileImage | None
    after: FileImage | None
    hunks: tuple[HunkRecord, ...]
    variants: tuple[Variant, ...] = ()


class PatchRecord(NamedTuple):
    """One patch: file name, strip level, sha256 of its bytes, the files it touches."""

    name: str
    strip: int
    sha256: str
    files: tuple[FileRecord, ...]


class ArtefactRecord(NamedTuple):
    """One file of the upstream release on the index."""

    filename: str
    kind: str
    sha256: str
    size: int


class UpstreamRecord(NamedTuple):
    """The release: which source served its tree, and every artefact with its sha256."""

    distribution: str
    version: str
    root: str
    source: str
    tree: str
    artefacts: tuple[ArtefactRecord, ...]


class Manifest(NamedTuple):
    """The whole file."""

    series: str
    digest: str
    upstream: UpstreamRecord
    patches: tuple[PatchRecord, ...]


class NetChange(NamedTuple):
    """What the whole series does to one canonical path."""

    path: str
    before: FileImage | None
    after: FileImage | None


def image(mode: int, data: bytes) -> FileImage:
    """Return the image of a file with these bytes and git mode."""
    return FileImage(mode, hashlib.sha256(data).hexdigest(), len(data), blob_id(data))


def blob_id(data: bytes) -> str:
    """Return the id that git gives these bytes (``git hash-object``)."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def digest(upstream: Upstream, order: Order, patch_sha256: Iterable[str]) -> str:
    """Return the sha256 that stands for the whole series: the release and every patch in order.

    The text that is hashed has one line for the release and one a patch, so that two people can
    compute it with ``sha256sum`` and nothing else.
    """
    lines = [f"{upstream.distribution}=={upstream.version} {upstream.root or '.'}\n"]
    lines += [
        f"{sha256} -p{entry.strip} {entry.name}\n"
        for entry, sha256 in zip(order.entries, patch_sha256, strict=True)
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def net(patches: Iterable[PatchRecord], artefact: str | None = None) -> tuple[NetChange, ...]:
    """Fold the patches into one change a path, in order of path; paths left as they were drop out.

    Args:
        patches: the records in order.
        artefact: take the images that were recorded for this artefact where it has its own.
    """
    first: dict[str, FileImage | None] = {}
    last: dict[str, FileImage | None] = {}
    for patch in patches:
        for file in patch.files:
            before, after = _images(file, artefact)
            if file.source is not None:
                first.setdefault(file.source, before)
                last[file.source] = None
                before = None
            first.setdefault(file.path, before)
            last[file.path] = after
    return tuple(
        NetChange(path, first[path], last[path])
        for path in sorted(first)
        if first[path] != last[path]
    )


def _images(file: FileRecord, artefact: str | None) -> tuple[FileImage | None, FileImage | None]:
    for variant in file.variants:
        if variant.artefact == artefact:
            return variant.before, variant.after
    return file.before, file.after


# --- writing ----------------------------------------------------------------------------------


def render(manifest: Manifest) -> bytes:
    """Return the bytes of the file; :func:`parse` is the inverse."""
    upstream = manifest.upstream
    document = {
        "schema": SCHEMA,
        "series": manifest.series,
        "digest": manifest.digest,
        "upstream": {
            "distribution": upstream.distribution,
            "version": upstream.version,
            "root": upstream.root,
            "source": upstream.source,
            "tree": upstream.tree,
            "artefacts": [
                {"filename": a.filename, "kind": a.kind, "sha256": a.sha256, "size": a.size}
                for a in sorted(upstream.artefacts, key=lambda artefact: artefact.filename)
            ],
        },
        "patches": [_patch_document(patch) for patch in manifest.patches],
    }
    return (json.dumps(document, indent=1) + "\n").encode("ascii")


def _patch_document(patch: PatchRecord) -> dict[str, Any]:
    return {
        "name": patch.name,
        "strip": patch.strip,
        "sha256": patch.sha256,
        "files": [_file_document(file) for file in patch.files],
    }


def _file_document(file: FileRecord) -> dict[str, Any]:
    document: dict[str, Any] = {"path": file.path, "kind": file.kind}
    if file.source is not None:
        document["source"] = file.source
    document["before"] = _image_document(file.before)
    document["after"] = _image_document(file.after)
    document["hunks"] = [
        {"old": _range(hunk.old), "new": _range(hunk.new), "symbol": hunk.symbol}
        for hunk in file.hunks
    ]
    if file.variants:
        document["variants"] = [
            {
                "artefact": variant.artefact,
                "before": _image_document(variant.before),
                "after": _image_document(variant.after),
            }
            for variant in file.variants
        ]
    return document


def _range(lines: tuple[int, int]) -> str:
    """Return start and count as a hunk header has them, on one line of the file."""
    return f"{lines[0]},{lines[1]}"


def _image_document(image: FileImage | None) -> dict[str, Any] | None:
    if image is None:
        return None
    return {
        "mode": f"{image.mode:06o}",
        "sha256": image.sha256,
        "size": image.size,
        "blob": image.blob,
    }


# --- reading ----------------------------------------------------------------------------------


def parse(data: bytes, problems: list[Problem]) -> Manifest:
    """Read a manifest; what is wrong is appended to ``problems``, everything at once."""
    top = Fields(parse_json(FILE, data, problems), FILE, problems)
    if (schema := top.number("schema")) != SCHEMA:
        top.refuse("schema", f"{schema} is not known; this pseries reads {SCHEMA}")
    manifest = Manifest(
        series=top.text("series"),
        digest=top.text("digest", matching=SHA256, meaning="a sha256"),
        upstream=_upstream(top.table("upstream")),
        patches=tuple(_patch(table) for table in top.tables("patches")),
    )
    top.finish()
    return manifest


def _upstream(table: Fields) -> UpstreamRecord:
    record = UpstreamRecord(
        distribution=table.text("distribution"),
        version=table.text("version"),
        root=table.text("root"),
        source=table.text("source"),
        tree=table.text("tree", matching=OBJECT_ID, meaning="an object id"),
        artefacts=tuple(_artefact(artefact) for artefact in table.tables("artefacts")),
    )
    table.finish()
    return record


def _artefact(table: Fields) -> ArtefactRecord:
    record = ArtefactRecord(
        filename=table.text("filename"),
        kind=table.text("kind"),
        sha256=table.text("sha256", matching=SHA256, meaning="a sha256"),
        size=table.number("size"),
    )
    if (trouble := paths.name_problem(record.filename)) is not None:
        table.refuse("filename", f"{record.filename!r} is not the name of a file: {trouble}")
    if record.kind not in ARTEFACT_KINDS:
        table.refuse("kind", f"{record.kind!r} is none of {', '.join(ARTEFACT_KINDS)}")
    table.finish()
    return record


def _patch(table: Fields) -> PatchRecord:
    record = PatchRecord(
        name=table.text("name"),
        strip=table.number("strip"),
        sha256=table.text("sha256", matching=SHA256, meaning="a sha256"),
        files=tuple(_file(file) for file in table.tables("files")),
    )
    table.finish()
    return record


def _file(table: Fields) -> FileRecord:
    record = FileRecord(
        path=_path(table, "path", table.text("path")),
        kind=table.text("kind"),
        source=table.optional_text("source"),
        before=_image(table.optional_table("before")),
        after=_image(table.optional_table("after")),
        hunks=tuple(_hunk(hunk) for hunk in table.tables("hunks")),
        variants=tuple(_variant(variant) for variant in table.tables("variants")),
    )
    if record.kind not in KINDS:
        table.refuse("kind", f"{record.kind!r} is none of {', '.join(KINDS)}")
    if record.source is not None:
        _path(table, "source", record.source)
    table.finish()
    return record


def _path(table: Fields, key: str, path: str) -> str:
    if path and (trouble := paths.problem(path)):
        table.refuse(key, trouble)
    return path


def _variant(table: Fields) -> Variant:
    variant = Variant(
        artefact=table.text("artefact"),
        before=_image(table.optional_table("before")),
        after=_image(table.optional_table("after")),
    )
    table.finish()
    return variant


def _hunk(table: Fields) -> HunkRecord:
    hunk = HunkRecord(_lines(table, "old"), _lines(table, "new"), table.optional_text("symbol"))
    table.finish()
    return hunk


def _lines(table: Fields, key: str) -> tuple[int, int]:
    text = table.text(key, matching=_RANGE, meaning="start and count of lines")
    if not _RANGE.fullmatch(text):
        return 0, 0
    start, count = text.split(",")
    return int(start), int(count)


def _image(table: Fields | None) -> FileImage | None:
    if table is None:
        return None
    mode = table.text("mode")
    known = {f"{each:06o}": each for each in MODES}
    if mode not in known:
        table.refuse("mode", f"{mode!r} is neither of {', '.join(known)}")
    image = FileImage(
        mode=known.get(mode, MODES[0]),
        sha256=table.text("sha256", matching=SHA256, meaning="a sha256"),
        size=table.number("size"),
        blob=table.text("blob", matching=OBJECT_ID, meaning="an object id"),
    )
    table.finish()
    return image
