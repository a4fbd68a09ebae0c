"""Patched wheels built from source, for series that touch compiled parts."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pseries.errors import BuildFailed
from pseries.export import wheel as wheels
from pseries.export.label import labelled
from pseries.export.sbom import Ancestor
from pseries.export.sbom import render as render_sbom
from pseries.export.wheel import Wheel
from pseries.model import naming
from pseries.workflows.exports.build import provenance, sha256_of, source_date_epoch
from pseries.workflows.exports.build_sdist import build_sdist
from pseries.workflows.series import patching

if TYPE_CHECKING:
    from packaging.version import Version

    from pseries.errors import Problem
    from pseries.model.series import Series
    from pseries.workflows.series.means import Means


@dataclass(frozen=True, slots=True)
class BuiltFromSource:
    """A wheel that a build backend made of the patched sources."""

    path: Path
    version: str
    sources: str
    skipped: tuple[Problem, ...]


def build_wheel(series: Series, folder: Path, *, means: Means) -> BuiltFromSource:
    """Build a wheel of the release with the series in its sources, as PEP 517 says.

    ``build`` runs the release's own backend in an environment of its own, on the tree of the
    patched sdist. What the backend prints goes to standard error. The bill of materials is put
    into the wheel afterwards.

    Raises:
        BuildFailed: there is no ``build``, or the backend fails.
        And what :func:`~pseries.workflows.exports.build_sdist.build_sdist` raises.
    """
    release = patching.release_name(series)
    if importlib.util.find_spec("build") is None:
        raise BuildFailed(release, "the package `build` is missing: pip install 'pseries[build]'")
    with tempfile.TemporaryDirectory(prefix="pseries-") as name:
        work = Path(name)
        sdist = build_sdist(series, work / "sdist", means=means)
        tree = _unpack(sdist.path, work)
        variables = dict(variable.split("=", 1) for variable in sdist.variables)
        done = subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--outdir", str(work / "wheel"), str(tree)],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            check=False,
        )
        if done.returncode != 0:
            raise BuildFailed(release, f"its build backend ended with status {done.returncode}")
        (built,) = (work / "wheel").glob("*.whl")
        epoch = source_date_epoch()
        names = frozenset(patch.name for patch in series.patches)
        with Wheel(built) as wheel:
            ancestor = Ancestor(series.spec.upstream.version, sdist.upstream, sdist.upstream_sha256)
            version = _labelled(series, wheel.version, release)
            report = wheels.repack(
                wheel,
                folder,
                version=version,
                changes={},
                sbom=render_sbom(provenance(series, version, ancestor, names), epoch),
                sha256=sha256_of(built),
                epoch=epoch,
            )
    return BuiltFromSource(report.path, version, sdist.upstream, sdist.skipped)


def _labelled(series: Series, built: Version, release: str) -> str:
    """Return the version for a wheel that a backend built: it may have left the label out.

    Raises:
        BuildFailed: it is another version altogether.
    """
    upstream = series.spec.upstream.version
    wanted = labelled(upstream, series.spec.label)
    if not naming.same_release(str(built), upstream):
        raise BuildFailed(release, f"its build backend made version {built} instead of {wanted}")
    has_it = f"{built}.".startswith(f"{wanted}.")  # a backend may append what it was built for
    return str(built) if has_it else labelled(str(built), series.spec.label)


def _unpack(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist that we wrote just now."""
    with tarfile.open(sdist) as tar:
        for member in tar:
            place = folder / member.name
            place.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            if source is not None:
                place.write_bytes(source.read())
                place.chmod(member.mode)
    return folder / sdist.name.removesuffix(".tar.gz")
