"""Beginning a series: the release found, where its packages lie, and a folder to start from."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from pseries.errors import (
    ArchiveRefused,
    GitFailed,
    GitLimit,
    IndexInvalid,
    IndexUnreachable,
    Problem,
    ReleaseNotFound,
    ReleaseUnreachable,
    TagUnclear,
    UpstreamInvalid,
)
from pseries.git import objects
from pseries.model import manifest as manifests
from pseries.model import series as series_model
from pseries.model import spec as specs
from pseries.model.spec import SOURCES, Upstream
from pseries.site.distribution import site_of
from pseries.upstream import fetch as fetching
from pseries.upstream import imports
from pseries.upstream import settings as index_settings
from pseries.upstream.release import distribution_name, version_text
from pseries.upstream.store import Store
from pseries.workflows.rebase.successor import README, tag_of
from pseries.workflows.series import catalog, folders

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pseries.upstream.index import Client, Listed
    from pseries.upstream.release import Release
    from pseries.upstream.settings import Settings
    from pseries.workflows.series.catalog import Location
    from pseries.workflows.series.means import Means

_VARIANT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,60}[A-Za-z0-9])?")
_TAG = re.compile(r"(?:(?P<before>.*?)[-_/])??v?(?P<version>\d.*)")
_BEFORE = ("", "release", "releases", "version", "rel", "tag")
_REPOSITORY = re.compile(
    r"^Project-URL:[ \t]*(?:source|source code|repository|github|gitlab|code|homepage)[ \t]*,"
    r"[ \t]*(?P<url>https://(?:github|gitlab)\.com/[\w.-]+/[\w.-]+?)(?:\.git)?/?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_HOME = re.compile(
    r"^Home-page:[ \t]*(?P<url>https://(?:github|gitlab)\.com/[\w.-]+/[\w.-]+?)(?:\.git)?/?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_UNUSABLE = (
    GitFailed, GitLimit, ReleaseNotFound, ReleaseUnreachable, TagUnclear, UpstreamInvalid,
)  # fmt: skip
"""What going to a repository may raise that the index can make up for."""
_SAMPLE = 400
"""Files of a wheel that are looked for in a source tree."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The release that a series is to be for.

    Attributes:
        distribution: its name on the index.
        version: its version.
        git: a repository with tags.
        path: a folder that is the release.
        tag: its tag, where that cannot be found out.
        root: the folder that installs into site-packages; ``None`` to find out.
    """

    distribution: str
    version: str
    git: str = ""
    path: Path | None = None
    tag: str = ""
    root: str | None = None


class Begun(NamedTuple):
    """A new series: its folder, the release and where that came from, and what to know of it."""

    series: str
    folder: str
    distribution: str
    version: str
    source: str
    origin: str
    root: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Base:
    """A release, and what was found out about it.

    Attributes:
        upstream: what a series says of it.
        store: where it is.
        release: the release there.
        notes: what a person should know.
        repository: what its metadata names, where that was not used; "" for none.
    """

    upstream: Upstream
    store: Store
    release: Release
    notes: tuple[str, ...] = ()
    repository: str = ""


def begin(wanted: Wanted, variant: str, location: Location | None, means: Means) -> Begun:
    """Make the folder of a new series, locked and empty, and fetch its release.

    Args:
        wanted: the release.
        variant: what is added to the series' name, "" for nothing.
        location: where series are.
        means: how to reach the index.

    Raises:
        SeriesExists: there is a series of that name.
        UpstreamInvalid: a name, version or address has no allowed form.
        And what fetching a release raises. Nothing was written then.
    """
    early = Upstream(distribution_name(wanted.distribution), version_text(wanted.version))
    folders.refuse_existing(folder_for(location, early, variant))
    base = released(wanted, location, means)
    upstream, release = base.upstream, base.release
    folder = folder_for(location, upstream, variant)
    files = skeleton(base, summary="", name=folder.name, variant=variant)
    files[manifests.FILE] = locked(folder, files, location, means)
    folders.create(folder, files)
    return Begun(
        folder.name, str(folder), upstream.distribution, upstream.version, release.source,
        release.origin, upstream.root, base.notes,
    )  # fmt: skip


def folder_for(location: Location | None, upstream: Upstream, variant: str) -> Path:
    """Return where a new series goes: beside the others, or in ``series`` here if there are none.

    The series that ship with the program are none to put one beside.

    Raises:
        UpstreamInvalid: the variant cannot be a part of a folder's name.
    """
    if variant and not _VARIANT.fullmatch(variant):
        raise UpstreamInvalid("variant", variant, "letters, digits, '.', '_' and '-' make one")
    if location is None or location.reason == catalog.SHIPPED:
        parent = Path.cwd() / catalog.FOLDER
    else:
        parent = location.folder
    name = f"{distribution_name(upstream.distribution)}-{upstream.version}"
    return parent / (f"{name}-{variant}" if variant else name)


def locked(
    folder: Path, files: Mapping[str, bytes], location: Location | None, means: Means
) -> bytes:
    """Return the manifest of a series that is about to be written."""
    from pseries.workflows.series import release as releases  # noqa: PLC0415 - network code

    wanted = {
        name: data for name, data in files.items()
        if name in (specs.FILE, series_model.ORDER_FILE)
        or name.endswith(series_model.PATCH_SUFFIXES)
    }  # fmt: skip
    series = series_model.assemble(folder.name, str(folder), wanted)
    return manifests.render(releases.manifest_of(series, location, means))


# --- finding out ------------------------------------------------------------------------------


def released(wanted: Wanted, location: Location | None, means: Means) -> Base:
    """Find out what there is to say of a release, and fetch it into the store."""
    distribution = distribution_name(wanted.distribution)
    version = version_text(wanted.version)
    store = Store.open(distribution)
    notes: list[str] = []
    if wanted.path is not None:
        return Base(*_from_folder(wanted, store, version))
    settings = index_settings.configured(means.index_url or "")
    known = _like_another(distribution, version, location)
    if known is not None and not wanted.git and wanted.root is None and not wanted.tag:
        return Base(known, store, _fetch(known, store, settings, means))
    upstream = Upstream(distribution, version, wanted.git, wanted.tag, wanted.root or "")
    stored = store.find(version)
    if stored is not None and not wanted.git and wanted.root is None:
        root = stored.recorded.root
        root = root or _root(store, stored, [], distribution)
        upstream = upstream._replace(root=root, sources=_sources(stored))
        return Base(upstream, store, _fetch(upstream, store, settings, means))
    found = _Listing.of(upstream, settings, means, notes)
    if wanted.git:
        release, upstream = _from_git(upstream, store, settings, means)
    else:
        release, upstream = _from_index(upstream, found, store, settings, means, notes)
    if wanted.root is None:
        root = _root(store, release, found.installed, distribution)
        if root != upstream.root:
            upstream = upstream._replace(root=root)
            release = _fetch(upstream, store, settings, means)
    elif not _has_folder(store, release, wanted.root):
        raise UpstreamInvalid("root", wanted.root, "the release has no such folder")
    hint = "" if upstream.git else _repository(found.metadata)
    return Base(upstream, store, release, tuple(notes), hint)


def _fetch(upstream: Upstream, store: Store, settings: Settings, means: Means) -> Release:
    return fetching.fetch(
        upstream, store, settings, offline=means.offline, progress=means.progress,
        report=means.report,
    )  # fmt: skip


def _like_another(distribution: str, version: str, location: Location | None) -> Upstream | None:
    """Return what another series says of the distribution, for this version.

    One beside the new series knows best, then one that ships with the program.
    """
    for place in (location, catalog.shipped()):
        others = catalog.versions(distribution, place)
        best = min(others, key=lambda name: (others[name] != version, name), default=None)
        if best is not None:
            series = catalog.load(best, place, manifest=False)
            tag = tag_of(series, version, f"v{version}")
            return series.spec.upstream._replace(version=version, tag=tag)
    return None


def _sources(release: Release) -> tuple[str, ...]:
    """Return where to look for a release that was found: first where it came from."""
    if release.source == "git":
        return SOURCES
    return ("wheel", "sdist") if release.source == "wheel" else ("sdist", "wheel")


class _Listing(NamedTuple):
    """What the index has of a release.

    Attributes:
        sdist: its file, if there is one.
        installed: paths that a wheel of it installs.
        metadata: the wheel's METADATA.
    """

    sdist: Listed | None
    installed: list[str]
    metadata: str

    @classmethod
    def of(cls, upstream: Upstream, settings: Settings, means: Means, notes: list[str]) -> _Listing:
        """Ask the index; where it cannot be asked, nothing is known."""
        if means.offline:
            return cls(None, [], "")
        from pseries.upstream import index  # noqa: PLC0415 - hundreds of ms

        try:
            with index.Client(settings) as client:
                project = client.project(upstream.distribution)
                files = project.release(upstream.version)
                sdist = next((file for file in files if file.artefact.kind == "sdist"), None)
                wheels = [file for file in files if file.artefact.kind == "wheel"]
                installed, metadata = cls._wheel(client, wheels)
        except (IndexUnreachable, IndexInvalid) as error:
            if not upstream.git:
                raise
            notes.append(f"the index was not asked: {error}")
            return cls(None, [], "")
        if not files and not upstream.git:
            problem = Problem("index", f"it has no {upstream.distribution} {upstream.version}")
            raise ReleaseNotFound(
                upstream.distribution, upstream.version, (problem,),
                project.nearest(upstream.version),
            )  # fmt: skip
        return cls(sdist, installed, metadata)

    @staticmethod
    def _wheel(client: Client, wheels: Iterable[Listed]) -> tuple[list[str], str]:
        smallest = min(wheels, key=lambda file: file.artefact.size or 0, default=None)
        if smallest is None:
            return [], ""
        try:
            read = client.members(smallest, _metadata)
        except ArchiveRefused:
            return [], ""
        members, names = ({}, frozenset()) if read is None else read
        metadata = next(iter(members.values()), None)
        return (
            ([], "") if metadata is None else (sorted(names), metadata.decode("utf-8", "replace"))
        )


def _metadata(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.endswith(".dist-info/METADATA")][:1]


def _from_index(
    upstream: Upstream, found: _Listing, store: Store, settings: Settings, means: Means,
    notes: list[str],
) -> tuple[Release, Upstream]:  # fmt: skip
    address = _repository(found.metadata)
    if found.sdist is None and address and not means.offline:
        # What a wheel holds is not laid out as its repository is, which patches are sent to.
        try:
            return _from_git(upstream._replace(git=address), store, settings, means)
        except _UNUSABLE as error:
            notes.append(
                f"{address} could not be used ({_why(error)}): paths are those of the wheel;"
                " with --git URL they are the repository's"
            )
    upstream = upstream._replace(sources=("sdist", "wheel"))
    if found.sdist is None and not address:
        notes.append(
            "paths are those of the wheel, and nothing says where they lie in the repository:"
            " with --git URL or --root DIR they are the repository's"
        )
    return _fetch(upstream, store, settings, means), upstream


def _why(error: Exception) -> str:
    problems: tuple[Problem, ...] = getattr(error, "problems", ())
    return "; ".join(problem.what for problem in problems) or str(error)


def _repository(metadata: str) -> str:
    head = metadata.partition("\n\n")[0]
    found = _REPOSITORY.search(head) or _HOME.search(head)
    return found["url"] if found is not None else ""


def _from_git(
    upstream: Upstream, store: Store, settings: Settings, means: Means
) -> tuple[Release, Upstream]:
    if not upstream.tag:
        tags = fetching.tags(upstream.git, settings, offline=means.offline)
        upstream = upstream._replace(tag=tag_for(upstream, tags))
    return _fetch(upstream._replace(sources=("git",)), store, settings, means), upstream


def tag_for(upstream: Upstream, tags: Collection[str]) -> str:
    """Return the tag of a version: ``v1.2``, ``1.2``, ``release-1.2``, ``name-1.2``.

    Raises:
        TagUnclear: no tag is of that version, or several are.
    """
    for usual in (f"v{upstream.version}", upstream.version):
        if usual in tags:
            return usual
    version = Version(upstream.version)
    found: list[tuple[int, str]] = []
    names = (upstream.distribution, upstream.distribution.replace("-", "_"))
    known = (*_BEFORE, *names)
    for tag in tags:
        said = _TAG.fullmatch(tag)
        before = "" if said is None else (said["before"] or "").lower()
        if said is None or (before and before not in known):
            continue
        try:
            same = Version(said["version"].replace("_", ".")) == version
        except ValueError:  # InvalidVersion, or a number of thousands of digits
            continue
        if same:
            found.append((known.index(before), tag))
    found.sort()
    ranks = [rank for rank, _ in found]
    if not found or ranks.count(ranks[0]) > 1:
        close = tuple(tag for _, tag in found) or _close(upstream.version, tags)
        raise TagUnclear(upstream.git, upstream.version, close)
    return found[0][1]


def _close(version: str, tags: Collection[str]) -> tuple[str, ...]:
    import difflib  # noqa: PLC0415 - only a failure pays for it

    return tuple(difflib.get_close_matches(version, sorted(tags), n=5, cutoff=0.5))


def _from_folder(wanted: Wanted, store: Store, version: str) -> tuple[Upstream, Store, Release]:
    folder = site_of(imports.existing_folder(Path(wanted.path or "")))
    root = wanted.root
    with store.lock():
        if root is None:
            release = imports.add_folder(store, version, folder, "")
            root = _root(store, release, [], store.distribution)
        release = imports.add_folder(store, version, folder, root)
    upstream = Upstream(
        store.distribution, version, wanted.git, wanted.tag, root, _sources(release)
    )
    return upstream, store, release


# --- where the packages lie -------------------------------------------------------------------


def _root(store: Store, release: Release, installed: list[str], distribution: str) -> str:
    """Return the folder of a release that holds what installs into site-packages.

    It is where the files of the wheel lie; without a wheel, where the package of that name does.
    """
    with objects.scratch(store.git_dir) as borrowed:
        tree, _ = borrowed.below(release.tree, "")
    if release.source == "wheel":
        return release.recorded.root
    return root_of(tree, installed or _guessed(distribution))


def root_of(names: Collection[str], installed: Iterable[str]) -> str:
    """Return the folder below which most of some installed paths lie in a source tree.

    Args:
        names: every path of the source tree.
        installed: paths in site-packages.
    """
    wanted = [path for path in installed if path.endswith(".py") and ".d" not in path][:_SAMPLE]
    by_name: dict[str, list[str]] = {}
    for path in names:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    votes: Counter[str] = Counter()
    for path in wanted:
        for found in by_name.get(path.rpartition("/")[2], ()):
            if found == path or found.endswith(f"/{path}"):
                votes[found[: -len(path)].rstrip("/")] += 1
    if not votes:
        return ""
    most = max(votes.values())
    return min((root for root in votes if votes[root] == most), key=lambda r: (r.count("/"), r))


def _guessed(distribution: str) -> list[str]:
    name = distribution.replace("-", "_")
    names = dict.fromkeys((name, name.lower(), name.removeprefix("python_")))
    return [path for each in names for path in (f"{each}/__init__.py", f"{each}.py")]


def _has_folder(store: Store, release: Release, root: str) -> bool:
    with objects.scratch(store.git_dir) as borrowed:
        return not root or bool(borrowed.below(release.tree, root)[0])


# --- the folder -------------------------------------------------------------------------------

_TOML = """\
schema = 1
summary = {summary}                      # one line: what this series is for
label = {label}                          # the wheel built with it is {version}+{bare}
after = []                               # series of the same distribution that this one stands on

[upstream]
distribution = {distribution}
version = {version_text}
{git}root = {root}   # the folder that installs into site-packages, "" for the top
sources = {sources}                      # where to look for the release, in this order

[requires]                               # checked by `pseries doctor`
packages = []                            # such as "flashinfer-python>=0.6.14"

[hardware]
name = ""
compute_capability = []                  # such as "12.0"
"""

_README = """\
# {name}

For {distribution} {version}. What the patches are for, and on which hardware: say it here.

## Verified

- Nothing yet.

## Not verified

- Everything.

## Links
"""


def skeleton(base: Base, *, summary: str, name: str, variant: str = "") -> dict[str, bytes]:
    """Return the files of a series without patches, all but the manifest.

    Args:
        base: the release.
        summary: one line; something to replace if empty.
        name: of the series.
        variant: what the label begins with.
    """
    import json  # noqa: PLC0415 - JSON's strings are TOML's

    upstream = base.upstream
    label = re.sub(r"[^A-Za-z0-9]+", ".", variant).strip(".") or "patched"
    lines = [f"git = {json.dumps(upstream.git)}\n"] if upstream.git else []
    lines += [f"tag = {json.dumps(upstream.tag)}\n"] if upstream.tag else []
    if base.repository:
        hint = f"# git = {json.dumps(f'{base.repository}.git')}"
        lines.append(f"{hint}   # its metadata names it; not tried\n")
    text = _TOML.format(
        summary=json.dumps(summary or f"local changes to {upstream.distribution}"),
        label=json.dumps(f"{label}.1"), bare=f"{label}.1", version=upstream.version,
        distribution=json.dumps(upstream.distribution), version_text=json.dumps(upstream.version),
        git="".join(lines), root=json.dumps(upstream.root),
        sources=json.dumps(list(upstream.sources)),
    )  # fmt: skip
    text = re.sub(r"^([^#\n]*?\S) {2,}#", _aligned, text, flags=re.MULTILINE)
    readme = _README.format(name=name, distribution=upstream.distribution, version=upstream.version)
    return {
        specs.FILE: text.encode("utf-8"),
        series_model.ORDER_FILE: b"",
        README: readme.encode("utf-8"),
    }


def _aligned(found: re.Match[str]) -> str:
    return f"{found[1]:<40} #" if len(found[1]) < 40 else f"{found[1]}  #"
