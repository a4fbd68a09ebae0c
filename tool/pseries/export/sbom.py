"""Where an export comes from, as a CycloneDX bill of materials (ECMA-424, here version 1.6).

One component, the patched distribution; its pedigree names the upstream artefact as ancestor and
every patch. The same input gives the same bytes: no random serial number, no clock, keys sorted.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pseries import __version__
from pseries.model import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cyclonedx.model.component import Component, Patch
    from cyclonedx.model.issue import IssueType

FILENAME = "pseries.cdx.json"
_NAMESPACE = uuid.UUID("6f1d0f0e-6d0b-5e0c-9f2a-5d9c2b7d1a44")
"""Ours, for serial numbers that are made of names (RFC 9562, version 5)."""
_ADDRESS = re.compile(r"https?://[^\s<>\[\]\"]+")
_CVE = re.compile(r"\bCVE-\d{4}-\d{4,}\b", re.IGNORECASE)
_BACKPORTS = ("Backport", "Merged")


@dataclass(frozen=True, slots=True)
class Applied:
    """A patch that went in: its file name, the sha256 of the file in hex, and its trailers."""

    name: str
    sha256: str
    trailers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ancestor:
    """The upstream artefact that was patched; for a git tree its address, and "" for ``sha256``."""

    version: str
    filename: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a bill of materials says of an export."""

    distribution: str
    version: str
    series: str
    digest: str
    ancestor: Ancestor
    patches: tuple[Applied, ...]


def render(provenance: Provenance, epoch: int) -> bytes:
    """Return the document; ``epoch`` is its date in seconds since 1970."""
    from cyclonedx.model.bom import Bom, BomMetaData  # noqa: PLC0415 - only exports need it
    from cyclonedx.model.component import Component, ComponentType  # noqa: PLC0415
    from cyclonedx.model.tool import ToolRepository  # noqa: PLC0415
    from cyclonedx.output.json import JsonV1Dot6  # noqa: PLC0415

    tool = Component(
        name="pseries",
        version=__version__,
        type=ComponentType.APPLICATION,
        bom_ref=f"pseries@{__version__}",
    )
    bom = Bom(
        serial_number=uuid.uuid5(_NAMESPACE, repr(provenance)),
        metadata=BomMetaData(
            component=_component(provenance),
            tools=ToolRepository(components=[tool]),
            timestamp=datetime.fromtimestamp(epoch, timezone.utc),
        ),
    )
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    document["dependencies"] = [{"ref": _purl(provenance.distribution, provenance.version)}]
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode("ascii")


def _component(provenance: Provenance) -> Component:
    from cyclonedx.model import Property  # noqa: PLC0415
    from cyclonedx.model.component import Component, Pedigree  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    name, version = provenance.distribution, provenance.version
    width = len(str(len(provenance.patches)))
    order = [
        Property(
            name=f"pseries:patch:{number:0{width}}", value=f"{_plain(patch.name)} {patch.sha256}"
        )
        for number, patch in enumerate(provenance.patches, 1)
    ]
    return Component(
        name=name,
        version=version,
        bom_ref=_purl(name, version),
        purl=PackageURL("pypi", None, name, version),
        pedigree=Pedigree(
            ancestors=[_ancestor(name, provenance.ancestor)],
            patches=[_patch(patch) for patch in provenance.patches],
        ),
        properties=[
            Property(name="pseries:series", value=provenance.series),
            Property(name="pseries:digest", value=provenance.digest),
            *order,
        ],
    )


def _purl(name: str, version: str) -> str:
    from packageurl import PackageURL  # noqa: PLC0415

    return PackageURL("pypi", None, name, version).to_string()


def _ancestor(name: str, ancestor: Ancestor) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType, Property  # noqa: PLC0415
    from cyclonedx.model.component import Component  # noqa: PLC0415
    from packageurl import PackageURL  # noqa: PLC0415

    key, hashes = "vcs_url", []
    if ancestor.sha256:
        key = "file_name"
        hashes = [HashType(alg=HashAlgorithm.SHA_256, content=ancestor.sha256)]
    purl = PackageURL("pypi", None, name, ancestor.version, {key: ancestor.filename})
    return Component(
        name=name,
        version=ancestor.version,
        bom_ref=purl.to_string(),
        purl=purl,
        hashes=hashes,
        properties=[Property(name="pseries:artefact", value=ancestor.filename)],
    )


def _patch(patch: Applied) -> Patch:
    from cyclonedx.model import XsUri  # noqa: PLC0415
    from cyclonedx.model.component import Diff, Patch, PatchClassification  # noqa: PLC0415

    status = next(iter(_values(patch, "Upstream-Status")), "")
    backport = status.startswith(_BACKPORTS)
    return Patch(
        type=PatchClassification.BACKPORT if backport else PatchClassification.UNOFFICIAL,
        diff=Diff(url=XsUri(named_information(patch.sha256))),
        resolves=list(_issues(patch, status)),
    )


def named_information(sha256: str) -> str:
    """Return the address that names some bytes by their hash (RFC 6920)."""
    return f"ni:///sha-256;{record.urlsafe(sha256)}"


def _issues(patch: Applied, status: str) -> Iterator[IssueType]:
    """Yield the bugs that a patch fixes, each with where it was sent; or just where it was sent."""
    from cyclonedx.model import XsUri  # noqa: PLC0415
    from cyclonedx.model.issue import IssueClassification, IssueType  # noqa: PLC0415

    sent = _addresses([*_values(patch, "Forwarded"), status])
    bugs = list(dict.fromkeys(_values(patch, "Bug")))
    for bug in bugs or sent[:1]:
        cve = _CVE.search(bug)
        references = dict.fromkeys([*_addresses([bug]), *sent])
        yield IssueType(
            type=IssueClassification.SECURITY if cve else IssueClassification.DEFECT,
            id=cve[0].upper() if cve else bug,
            references=[XsUri(address) for address in references],
        )


def _values(patch: Applied, key: str) -> list[str]:
    return [_plain(value) for name, value in patch.trailers if name.lower() == key.lower()]


def _addresses(texts: Iterable[str]) -> list[str]:
    return [address for text in texts for address in _ADDRESS.findall(text)]


def _plain(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace").strip()
