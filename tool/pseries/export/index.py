"""A package index as files: any web server that can serve a folder can serve it.

The simple repository API in HTML (PEP 503) and JSON (PEP 691, PEP 700), with hashes and with core
metadata beside each wheel (PEP 658, PEP 714), so that installers resolve without downloading one.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.metadata import parse_email
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from pseries.durable import write_file
from pseries.errors import ArchiveRefused, NothingToIndex
from pseries.export.wheel import Wheel
from pseries.upstream.archive import named

if TYPE_CHECKING:
    from collections.abc import Set
    from pathlib import Path

FOLDER = "simple"
_HTML, _JSON = "index.html", "index.json"
_CHUNK = 1 << 20
_SIMPLE_API = "1.1"
"""Of PEP 700: file sizes and the list of versions."""


@dataclass(frozen=True, slots=True)
class File:
    """A wheel or sdist of the index; ``metadata`` is the sha256 of the core metadata beside it."""

    filename: str
    distribution: str
    version: str
    sha256: str
    size: int
    requires_python: str
    metadata: str


def build(folder: Path) -> tuple[File, ...]:
    """Write ``simple/`` and the ``.metadata`` files for all wheels and sdists in ``folder``.

    The same files give the same index, and what is there already is replaced file by file, so that
    it can be rebuilt while it is being served. Pages of projects that are gone go, too.

    Raises:
        NothingToIndex: the folder holds no wheel and no sdist.
        ArchiveRefused, WheelInvalid: a wheel there breaks a rule; the index is as it was.
    """
    listed = [path for path in sorted(folder.iterdir()) if named(path.name) is not None]
    for path in listed:
        if not path.is_file():
            raise ArchiveRefused(path.name, "", "it is not a regular file")
    found = [_file(path) for path in listed]
    if not found:
        raise NothingToIndex(str(folder))
    projects: dict[str, list[File]] = {}
    for file in found:
        projects.setdefault(file.distribution, []).append(file)
    for name, files in projects.items():
        _write_page(folder / FOLDER / name, _project_html(name, files), _project_json(name, files))
    names = sorted(projects)
    _write_page(folder / FOLDER, _root_html(names), _root_json(names))
    _prune(folder / FOLDER, projects.keys())
    return tuple(found)


def _write_page(folder: Path, page: str, document: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / _HTML, page.encode())
    write_file(folder / _JSON, (json.dumps(document, indent=1) + "\n").encode())


def _prune(pages: Path, projects: Set[str]) -> None:
    """Remove our pages of projects that are gone: installers would go after their files."""
    for page in pages.iterdir():
        if page.name not in projects and _is_ours(page):
            for name in (_HTML, _JSON):
                (page / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # there is something else in it
                page.rmdir()


def _is_ours(page: Path) -> bool:
    try:
        files = json.loads((page / _JSON).read_bytes())["files"]
        return all(file["url"] == _address(file["filename"]) for file in files)
    except (OSError, ValueError, LookupError, TypeError):  # another program's
        return False


def _file(path: Path) -> File:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    filename, size = path.name, path.stat().st_size
    if not filename.endswith(".whl"):
        name, version = parse_sdist_filename(filename)
        return File(filename, str(name), str(version), digest.hexdigest(), size, "", "")
    name, version = parse_wheel_filename(filename)[:2]
    with Wheel(path) as wheel:
        metadata = wheel.metadata("METADATA")
    write_file(path.with_name(f"{filename}.metadata"), metadata)
    requires = parse_email(metadata)[0].get("requires_python", "")
    sha256 = hashlib.sha256(metadata).hexdigest()
    return File(filename, str(name), str(version), digest.hexdigest(), size, requires, sha256)


# --- pages ------------------------------------------------------------------------------------


def _address(filename: str) -> str:
    return f"../../{quote(filename)}"


def _root_html(names: list[str]) -> str:
    return _html("Simple index", [f'<a href="{name}/">{name}</a>' for name in names])


def _root_json(names: list[str]) -> dict[str, object]:
    meta = {"api-version": _SIMPLE_API}
    return {"meta": meta, "projects": [{"name": name} for name in names]}


def _project_html(name: str, files: list[File]) -> str:
    return _html(f"Links for {name}", [_link(file) for file in files])


def _link(file: File) -> str:
    attributes = {"href": f"{_address(file.filename)}#sha256={file.sha256}"}
    if file.requires_python:
        attributes["data-requires-python"] = file.requires_python
    if file.metadata:
        # The first name is what older installers read: PEP 714.
        attributes["data-dist-info-metadata"] = f"sha256={file.metadata}"
        attributes["data-core-metadata"] = f"sha256={file.metadata}"
    shown = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<a {shown}>{html.escape(file.filename)}</a>"


def _project_json(name: str, files: list[File]) -> dict[str, object]:
    versions = sorted({file.version for file in files}, key=Version)
    return {
        "meta": {"api-version": _SIMPLE_API},
        "name": name,
        "versions": versions,
        "files": [_entry(file) for file in files],
    }


def _entry(file: File) -> dict[str, object]:
    entry: dict[str, object] = {
        "filename": file.filename,
        "url": _address(file.filename),
        "hashes": {"sha256": file.sha256},
        "size": file.size,
    }
    if file.requires_python:
        entry["requires-python"] = file.requires_python
    if file.metadata:
        entry["core-metadata"] = {"sha256": file.metadata}
        entry["dist-info-metadata"] = {"sha256": file.metadata}
    return entry


def _html(title: str, links: list[str]) -> str:
    body = "".join(f"{link}<br>\n" for link in links)
    return (
        "<!DOCTYPE html>\n<html>\n<head>\n"
        '<meta charset="utf-8">\n'
        f'<meta name="pypi:repository-version" content="{_SIMPLE_API}">\n'
        f"<title>{title}</title>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
