"""The values of this package: an artefact, a release, and the record kept with a release."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

from pseries.errors import UpstreamInvalid
from pseries.model import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["sdist", "wheel"]
Source = Literal["git", "sdist", "wheel", "folder"]

Progress = Callable[[str, int, "int | None"], None]
"""Told what goes on, how many bytes are done, and of how many (``None``: not known)."""

SCHEMA = 1
"""Version of the record that is kept with each release."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Artefact:
    """One file of a release, as a package index offers it.

    ``sha256`` is empty and ``size`` is ``None`` where an index does not say; both are always known
    for a file that was downloaded.
    """

    filename: str
    sha256: str
    size: int | None
    kind: Kind


@dataclass(frozen=True)
class Origin:
    """Where a release came from: all that is recorded besides its files.

    Attributes:
        source: what kind of place it was.
        url: the address without credentials, or the folder.
        root: the folder of the tree that holds what installs into site-packages.
        artefact: the file it was read from, for a wheel or an sdist.
        upstream: the commit id upstream, for git.
        left_out: canonical paths that the release has and the tree has not: compiled files, links.
    """

    source: Source
    url: str
    root: str
    artefact: Artefact | None = None
    upstream: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Release:
    """A release in the store: its tree in canonical paths, and where it came from."""

    distribution: str
    version: str
    tree: str
    commit: str
    recorded: Origin

    @property
    def source(self) -> Source:
        """The kind of place it came from."""
        return self.recorded.source

    @property
    def artefact(self) -> Artefact | None:
        """The wheel or sdist it was read from."""
        return self.recorded.artefact

    @property
    def origin(self) -> str:
        """Where it came from, in words: a file's name, an address and commit, a folder."""
        if self.artefact is not None:
            return self.artefact.filename
        upstream = self.recorded.upstream
        return f"{self.recorded.url} at {upstream[:12]}" if upstream else self.recorded.url


def distribution_name(name: str) -> str:
    """Return ``name`` as package indexes spell it (PEP 503).

    Raises:
        UpstreamInvalid: it is not a name (PEP 508); it could be a path.
    """
    try:
        return canonicalize_name(name, validate=True)
    except InvalidName:
        raise UpstreamInvalid("distribution", name, "not a name of a distribution") from None


def version_text(version: str) -> str:
    """Return ``version`` in its one normal form (PEP 440); raises :class:`UpstreamInvalid`."""
    try:
        return str(Version(version))
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        raise UpstreamInvalid("version", version[:60], "not a version by PEP 440") from None


def checked_root(root: str) -> str:
    """Return ``root`` if it may be the folder that a release lands under, or raise."""
    reason = paths.problem(root) if root else None
    if reason is not None:
        raise UpstreamInvalid("root", root, reason)
    return root


def public(url: str) -> str:
    """Return ``url`` without what may be secret in it: user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def local_path(path: str) -> Path:
    """Return the file that the path of a ``file://`` address means, in any locale."""
    return Path(os.fsdecode(unquote_to_bytes(path)))


# --- the record -------------------------------------------------------------------------------


def write_record(origin: Origin) -> bytes:
    """Return the record as the text that a tag of the store carries: JSON, sorted, one schema."""
    artefact = origin.artefact
    fields = {
        "schema": SCHEMA,
        "source": origin.source,
        "url": origin.url,
        "root": origin.root,
        "artefact": None
        if artefact is None
        else {
            "filename": artefact.filename,
            "sha256": artefact.sha256,
            "size": artefact.size,
            "kind": artefact.kind,
        },
        "upstream": origin.upstream,
        "left_out": list(origin.left_out),
    }
    return json.dumps(fields, indent=1, sort_keys=True).encode() + b"\n"


def read_record(text: str) -> Origin:
    """Return what :func:`write_record` was given.

    Raises:
        ValueError: anything is missing, added or of the wrong kind; the message says what.
    """
    fields = _members(_object(text), {
        "schema": int, "source": str, "url": str, "root": str, "artefact": (dict, type(None)),
        "upstream": str, "left_out": list,
    })  # fmt: skip
    if fields["source"] not in ("git", "sdist", "wheel", "folder"):
        raise ValueError(f"unknown source {fields['source']!r}")
    if not re.fullmatch(r"([0-9a-f]{40})?", fields["upstream"]):
        raise ValueError("'upstream' is not a commit id")
    if not all(isinstance(path, str) for path in fields["left_out"]):
        raise ValueError("'left_out' holds something that is not a path")
    artefact = None if fields["artefact"] is None else _read_artefact(fields["artefact"])
    return Origin(
        source=cast("Source", fields["source"]),
        url=fields["url"],
        root=fields["root"],
        artefact=artefact,
        upstream=fields["upstream"],
        left_out=tuple(fields["left_out"]),
    )


def _object(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the record is not JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("the record is not a JSON object")
    schema = fields.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise ValueError(f"the record has schema {schema}: written by a newer pseries")
    if schema != SCHEMA:
        raise ValueError(f"the record has schema {schema!r} instead of {SCHEMA}")
    return fields


def _read_artefact(fields: dict[str, Any]) -> Artefact:
    known = _members(fields, {"filename": str, "sha256": str, "size": int, "kind": str})
    if known["kind"] not in ("sdist", "wheel"):
        raise ValueError(f"unknown kind of artefact {known['kind']!r}")
    if not _SHA256.fullmatch(known["sha256"]):
        raise ValueError("'sha256' is not a digest")
    return Artefact(known["filename"], known["sha256"], known["size"], cast("Kind", known["kind"]))


def _members(fields: dict[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
    if fields.keys() != kinds.keys():
        odd = ", ".join(sorted(fields.keys() ^ kinds.keys()))
        raise ValueError(f"missing or unknown keys: {odd}")
    for key, kind in kinds.items():
        if not isinstance(fields[key], kind) or isinstance(fields[key], bool):
            raise ValueError(f"{key!r} is of the wrong kind")
    return fields
