"""Which series and which release is meant, where a person did not say it in full."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pseries.errors import (
    Problem,
    ReleaseNotFound,
    SeriesInvalid,
    SeriesUnclear,
    UpstreamInvalid,
)
from pseries.model import naming
from pseries.model import series as series_model
from pseries.workflows.series import catalog

if TYPE_CHECKING:
    from packaging.version import Version

    from pseries.model.series import Series
    from pseries.workflows.series.catalog import Location
    from pseries.workflows.series.means import Means

LATEST = "latest"
_BEFORE_VERSION = re.compile(r"[A-Za-z_/-]{0,40}(?=[0-9])")


def only_series(location: Location | None, given: str | None = None) -> str:
    """Return the one series that can be meant: the only one, or the only one for a given wheel.

    Args:
        location: where series are.
        given: the path or address of a wheel.

    Raises:
        SeriesUnclear: there are several, or none.
    """
    if given is None:
        fits, what = catalog.names(location), ""
    else:
        filename = unquote(urlsplit(given).path).rpartition("/")[2]
        known = catalog.releases(location)
        fits = tuple(
            name
            for name, release in known.items()
            if naming.wheel_version(filename, *release) is not None
        )
        what = f"for {filename}"
    if len(fits) != 1:
        raise SeriesUnclear(what, fits)
    return fits[0]


def series_for(name: str | None, tag: str, location: Location | None) -> str:
    """Return the series that is meant: the one named, the current folder, or the nearest.

    Without a name or a series folder around, it is the only series there is; or, for a tag that is
    a version, the only one whose release is nearest to that version: of ``sglang-0.5.15``,
    ``vllm-0.11.0-sm120`` and ``vllm-0.26.0`` that is the last for ``v0.27.0``.

    Raises:
        SeriesUnclear: none or several could be meant.
    """
    if name is not None:
        return name
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / series_model.ORDER_FILE).is_file() and (folder / "series.toml").is_file():
            return str(folder)
    known = catalog.names(location)
    if len(known) == 1:
        return known[0]
    candidates = known if tag == LATEST else _nearest(known, tag, location)
    if len(candidates) != 1:
        raise SeriesUnclear(f"for {tag}", candidates or known)
    return candidates[0]


def _nearest(known: tuple[str, ...], tag: str, location: Location | None) -> tuple[str, ...]:
    wanted = version_of(tag)
    distances: dict[str, tuple[int, ...]] = {}
    for name in known:
        try:
            spec, _ = catalog.load_spec(name, location)
            own = version_of(spec.upstream.version)
        except (SeriesInvalid, UpstreamInvalid):
            continue
        if own != wanted:
            distances[name] = _distance(own, wanted)
    least = min(distances.values(), default=())
    return tuple(name for name, distance in distances.items() if distance == least)


def _distance(one: Version, other: Version) -> tuple[int, ...]:
    """Return how far two versions are apart, part by part, the first part counting most."""
    width = max(len(one.release), len(other.release), 4)
    padded = [(*each.release, *(0,) * (width - len(each.release))) for each in (one, other)]
    return tuple(abs(a - b) for a, b in zip(*padded, strict=True))


def version_of(tag: str) -> Version:
    """Return the version in a tag such as ``v0.27.0`` or ``release/0.27.0``.

    Raises:
        UpstreamInvalid: there is none.
    """
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - not for `--help`

    before = _BEFORE_VERSION.match(tag)
    try:
        return Version(tag[before.end() :] if before else tag)
    except InvalidVersion:
        raise UpstreamInvalid("tag", tag, "no version in it; or say 'latest'") from None


def version_for(series: Series, tag: str, means: Means) -> str:
    """Return the version that a series is to be carried to.

    Raises:
        UpstreamInvalid: the tag holds no version, or one with a local label.
        ReleaseNotFound: there is no newest release.
        IndexUnreachable: the index cannot be asked for the newest one.
    """
    if tag != LATEST:
        version = version_of(tag)
        if version.local:
            raise UpstreamInvalid("tag", tag, f"a series is for a public version: {version.public}")
        return str(version)
    distribution = series.spec.upstream.distribution
    known = _stored(distribution) if means.offline else _listed(distribution, means.index_url)
    finals = [version for version in known if not version.is_prerelease]
    if not finals:
        where, why = "index", ""
        if means.offline:
            where, why = "store", ", and --offline forbids the index"
        problem = Problem(where, f"it has no final release of it{why}")
        raise ReleaseNotFound(distribution, LATEST, (problem,), ())
    return str(max(finals))


def _stored(distribution: str) -> list[Version]:
    from packaging.version import Version  # noqa: PLC0415

    from pseries.upstream.store import Store  # noqa: PLC0415 - takes a tenth of a second

    return [Version(release.version) for release in Store.open(distribution).releases()]


def _listed(distribution: str, index_url: str | None) -> list[Version]:
    from pseries.upstream import index, settings  # noqa: PLC0415 - half a second of network code

    with index.Client(settings.configured(index_url or "")) as client:
        return list(client.project(distribution).versions())
