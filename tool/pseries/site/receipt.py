"""``.pseries/state.json``: what is applied to a target, in order, with parser and exact inverse.

A receipt holds every change that applying a series made, which is all that a rollback needs, and it
holds what tells a package that was changed underneath from one that still is what was written:
version, ``direct_url.json`` and the hash of RECORD.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pseries.errors import Problem, StateInvalid
from pseries.model.fields import Fields, parse_json
from pseries.model.paths import CONTROL
from pseries.site.change import Change, FolderChange, Image

if TYPE_CHECKING:
    from pseries.site.fs import SiteTree

PATH = f"{CONTROL}/state.json"
SCHEMA = 1


class Receipt(NamedTuple):
    """One series as it was applied.

    Attributes:
        series: its name.
        digest: the digest of the whole series, from its manifest.
        distribution: name of the distribution as its METADATA spells it.
        version: as installed, local label included.
        applied_at: UTC, ISO 8601.
        tool: version of the program that applied it.
        drift_accepted: the target was not pristine, and that was accepted.
        relocate: name of the ``[[relocate]]`` that was used.
        direct_url: text of ``direct_url.json``, ``None`` if there was none.
        record: what was done to RECORD.
        files: what was done to the distribution's files.
        bytecode: compiled files that were removed because their source changed.
        folders: folders that were made, or went because they were left empty.
    """

    series: str
    digest: str
    distribution: str
    version: str
    applied_at: str
    tool: str
    drift_accepted: bool
    relocate: str | None
    direct_url: str | None
    record: Change
    files: tuple[Change, ...]
    bytecode: tuple[Change, ...] = ()
    folders: tuple[FolderChange, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes in the order in which they take effect: files, bytecode, RECORD."""
        return (*self.files, *self.bytecode, self.record)


class State(NamedTuple):
    """Everything that is applied to one target, the first applied first."""

    applied: tuple[Receipt, ...] = ()

    def backups(self) -> frozenset[str]:
        """Return the sha256 of every content that a rollback would need."""
        return frozenset(
            change.before.sha256
            for each in self.applied
            for change in each.changes
            if change.before is not None
        )


def render(state: State) -> bytes:
    """Return the file that :func:`parse` reads."""
    document = {"schema": SCHEMA, "applied": [_document(each) for each in state.applied]}
    return json.dumps(document, indent=1).encode() + b"\n"


def parse(data: bytes, problems: list[Problem]) -> State:
    """Return the state in ``data``; everything that is wrong is appended to ``problems``."""
    table = Fields(parse_json("state.json", data, problems), "state.json", problems)
    schema = table.number("schema")
    if schema != SCHEMA:
        # What else a later format says is not ours to judge.
        what = f"is {schema}, this program reads {SCHEMA}: use the pseries that wrote it"
        problems.append(Problem("state.json schema", what))
        return State()
    state = State(tuple(_receipt(receipt) for receipt in table.tables("applied")))
    table.finish()
    return state


def read(tree: SiteTree) -> State:
    """Return what is applied to a target; raises :class:`StateInvalid` and ``StateNotOurs``."""
    found = tree.read_own(PATH)
    if found is None:
        return State()
    problems: list[Problem] = []
    state = parse(found.data, problems)
    if problems:
        raise StateInvalid(str(tree.root), tuple(problems))
    return state


def writing(tree: SiteTree, state: State) -> tuple[Change, bytes]:
    """Return the change that makes ``state`` the one of the target, and its content."""
    data = render(state)
    found = tree.read(PATH)
    mode = 0o644 if found is None else found.mode
    return Change(PATH, None if found is None else found.image, Image.of(data, mode)), data


def _document(receipt: Receipt) -> dict[str, Any]:
    return {
        "series": receipt.series,
        "digest": receipt.digest,
        "distribution": receipt.distribution,
        "version": receipt.version,
        "applied_at": receipt.applied_at,
        "tool": receipt.tool,
        "drift_accepted": receipt.drift_accepted,
        "relocate": receipt.relocate,
        "direct_url": receipt.direct_url,
        "record": receipt.record.document(),
        "files": [change.document() for change in receipt.files],
        "bytecode": [change.document() for change in receipt.bytecode],
        "folders": [folder.document() for folder in receipt.folders],
    }


def _receipt(table: Fields) -> Receipt:
    receipt = Receipt(
        table.text("series"),
        table.text("digest"),
        table.text("distribution"),
        table.text("version"),
        table.text("applied_at"),
        table.text("tool"),
        table.flag("drift_accepted"),
        table.optional_text("relocate"),
        table.optional_text("direct_url"),
        Change.read(table.table("record")),
        tuple(Change.read(change) for change in table.tables("files")),
        tuple(Change.read(change) for change in table.tables("bytecode")),
        tuple(FolderChange.read(folder) for folder in table.tables("folders")),
    )
    seen: set[str] = set()
    touched = [change.path for change in receipt.changes]
    for path in touched + [folder.path for folder in receipt.folders]:
        if path in seen or path.split("/")[0] == CONTROL:
            table.refuse("files", f"{path!r} is changed twice, or is not the package's")
        seen.add(path)
    table.finish()
    return receipt
