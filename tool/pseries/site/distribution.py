"""Installed distributions, by their dist-info folders ("Recording installed projects").

``importlib.metadata`` is not asked: it follows links, reads whole METADATA files, takes the first
of two folders of one name without a word, and costs a fifth of the program's start.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    DistributionNotFound,
    DistributionRefused,
    EditableInstall,
    Problem,
    TargetRefused,
)
from pseries.model import naming, paths, record
from pseries.model.fields import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pseries.model.record import Record
    from pseries.site.fs import SiteTree

SIGNATURES = ("RECORD.jws", "RECORD.p7s")
"""Signatures of RECORD: they stop being true when it changes."""

_SHOWN = 3
_OLD_STYLE = (".egg-info", ".egg-link", ".egg")
_EDITABLE = re.compile(r"(?:.*/)?(?:__editable__.*|[^/]*\.pth)", re.DOTALL)


class Installed(NamedTuple):
    """A distribution by name and version, as METADATA spells them, and its dist-info folder."""

    name: str
    version: str
    info: str


class Distribution(NamedTuple):
    """A distribution that can be patched: plain files, listed in its RECORD.

    Attributes:
        name: as METADATA spells it.
        version: as installed, with its local label.
        info: name of the dist-info folder.
        record: the parsed RECORD.
        direct_url: text of ``direct_url.json`` (PEP 610), ``None`` if there is none.
        signatures: signature files of RECORD that are there, which a change of RECORD breaks.
    """

    name: str
    version: str
    info: str
    record: Record
    direct_url: str | None
    signatures: tuple[str, ...]

    @property
    def record_path(self) -> str:
        """Where RECORD lies."""
        return f"{self.info}/RECORD"

    def modules(self) -> tuple[str, ...]:
        """Return the names that the distribution can be imported by, sorted."""
        found = set()
        for path in self.record.paths():
            first, slash, _ = path.partition("/")
            name = first if slash else first.partition(".")[0]
            if name.isidentifier() and (slash or first.endswith((".py", ".so"))):
                found.add(name)
        return tuple(sorted(found - {"__pycache__"}))


def site_of(given: Path) -> Path:
    """Return the site-packages folder that a path means: itself, or the one of an environment.

    A checkout is itself, too, although somebody made an environment at its top.
    """
    environment = any((given / name).is_dir() for name in ("lib", "lib64"))
    if not environment or (given / ".git").exists() or any(given.glob("*.dist-info")):
        return given
    inside = {found.resolve() for found in given.glob("lib*/python3*/site-packages")}
    return inside.pop() if len(inside) == 1 else given


def find(tree: SiteTree, name: str) -> Distribution:
    """Return the one distribution of that name in a site-packages folder.

    Raises:
        DistributionNotFound: there is none.
        EditableInstall: it is a link to a checkout, whose files are not here.
        DistributionRefused: there are two of the name (a broken upgrade), it was installed
            without a RECORD or in a format older than wheels, its RECORD is malformed, or its
            metadata cannot be read.
        TargetRefused: its metadata are links into a shared cache.
    """
    wanted = naming.normalized(name)
    found = [each for each in _installed(tree, wanted) if naming.normalized(each.name) == wanted]
    if len(found) > 1:
        names = ", ".join(each.info for each in found)
        raise _refused(tree, name, f"it is there more than once ({names}), a broken upgrade")
    if not found:
        for old in tree.names() or ():
            if old.endswith(_OLD_STYLE) and _starts(old, wanted):
                raise _refused(tree, name, f"it is installed as {old}, not from a wheel")
        raise DistributionNotFound(name, (str(tree.root),))
    return _load(tree, found[0])


def all_distributions(tree: SiteTree) -> tuple[Installed, ...]:
    """Return all that have readable metadata, in the order of their folders."""
    return tuple(_installed(tree, None))


def owner_of(tree: SiteTree, files: Iterable[str], besides: str) -> dict[str, str]:
    """Return, for those of ``files`` that another distribution lists too, that distribution.

    Args:
        tree: the site-packages folder.
        files: paths in it.
        besides: the dist-info folder whose own claims do not count.
    """
    wanted = {paths.encode(path) for path in files}
    owners: dict[str, str] = {}
    for info in tree.names() or ():
        if info == besides or not info.endswith(".dist-info"):
            continue
        try:
            found = tree.read(f"{info}/RECORD")
        except TargetRefused:  # links: nothing that we would touch
            continue
        claimed = [] if found is None else list(_claimed(found.data, wanted, str(tree.root)))
        if claimed:
            try:
                installed = _read_metadata(tree, info)
            except TargetRefused:
                installed = None
            name = info if installed is None else installed.name
            owners.update((path, name) for path in claimed)
    return owners


def _claimed(data: bytes, wanted: set[bytes], root: str) -> Iterator[str]:
    """Yield the wanted paths that a RECORD lists; one pass, however many are wanted."""
    quoted = []
    above = paths.encode(root)
    for line in data.splitlines():
        if line.startswith(b'"'):
            quoted.append(line)
        elif (path := record.settled(line.partition(b",")[0], above)) in wanted:
            yield paths.decode(path)
    for entry in record.parse(b"\n".join(quoted), root).entries:
        if paths.encode(entry.path) in wanted:
            yield entry.path


def _installed(tree: SiteTree, wanted: str | None) -> Iterator[Installed]:
    """Yield what is installed; only what may have the normalized name ``wanted`` is opened."""
    for info in tree.names() or ():
        if not info.endswith(".dist-info") or (wanted is not None and not _starts(info, wanted)):
            continue
        try:
            installed = _read_metadata(tree, info)
        except TargetRefused:
            # Fatal where it is the one that is looked for, and not only of a like name.
            folder = info.removesuffix(".dist-info")
            if wanted is not None and naming.normalized(folder.rpartition("-")[0]) == wanted:
                raise
            continue
        if installed is not None:
            yield installed


def _starts(folder: str, wanted: str) -> bool:
    """Whether a dist-info or egg may be of ``wanted``: names and versions both may hold "-"."""
    return f"{naming.normalized(folder)}-".startswith(f"{wanted}-")


def _read_metadata(tree: SiteTree, info: str) -> Installed | None:
    """Return name and version from the header of METADATA, ``None`` if it lacks them."""
    found = tree.read(f"{info}/METADATA")
    if found is None:
        return None
    values: dict[bytes, str] = {}
    for line in found.data.splitlines():
        if not line.strip():
            break  # the description follows
        key, colon, value = line.partition(b":")
        if colon and not key[:1].isspace():
            values.setdefault(key.lower(), value.strip().decode("utf-8", "replace"))
    name, version = values.get(b"name"), values.get(b"version")
    return Installed(name, version, info) if name and version else None


def _load(tree: SiteTree, installed: Installed) -> Distribution:
    info = installed.info
    listed = tree.read(f"{info}/RECORD")
    url = tree.read(f"{info}/direct_url.json")
    text = None if url is None else url.data.decode("utf-8", "replace")
    source = _editable_source(text)
    if source is not None:
        raise EditableInstall(installed.name, str(tree.root), source or None)
    if listed is None:
        reason = "it has no RECORD, so it belongs to another package manager"
        raise _refused(tree, installed.name, reason)
    parsed = record.parse(listed.data, str(tree.root))
    if parsed.malformed:
        shown = "; ".join(str(problem) for problem in parsed.malformed[:_SHOWN])
        more = len(parsed.malformed) - _SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        raise _refused(tree, installed.name, f"its RECORD is malformed: {shown}{rest}")
    package = (
        entry.path
        for entry in parsed.entries
        if not entry.path.startswith(f"{info}/") and not entry.outside
    )
    # The first file of a real package ends the search; a link to a checkout has none.
    first = next(package, None)
    if first is not None and _EDITABLE.fullmatch(first) and all(map(_EDITABLE.fullmatch, package)):
        raise EditableInstall(installed.name, str(tree.root), None)
    inside = tree.names(info) or ()
    signatures = tuple(f"{info}/{name}" for name in SIGNATURES if name in inside)
    return Distribution(installed.name, installed.version, info, parsed, text, signatures)


def _editable_source(direct_url: str | None) -> str | None:
    """Return the address of the checkout of an editable install ("" if unknown), else ``None``."""
    if direct_url is None:
        return None
    problems: list[Problem] = []
    document = parse_json("direct_url.json", direct_url.encode("utf-8", "replace"), problems)
    folder = document.get("dir_info") if isinstance(document, dict) else None
    if not isinstance(folder, dict) or folder.get("editable") is not True:
        return None
    return str(document.get("url") or "")


def _refused(tree: SiteTree, name: str, reason: str) -> DistributionRefused:
    return DistributionRefused(name, str(tree.root), reason)
