"""An image with a patched engine: a kit of the series, applied while the image is built."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from pseries.deploy import builder as builders
from pseries.errors import ImageRefused
from pseries.model.runtime import containerfile
from pseries.model.runtime.containerfile import Recipe
from pseries.workflows.exports.build_kit import build_kit

if TYPE_CHECKING:
    from collections.abc import Callable

    from pseries.errors import Problem
    from pseries.model.series import Series
    from pseries.workflows.series.means import Means

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that was built, and of what."""

    tag: str
    base: str
    builder: str
    series: str
    digest: str
    files: tuple[str, ...]
    skipped: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """An image that can be built."""

    tag: str
    recipe: Recipe

    @property
    def containerfile(self) -> str:
        """The text that a builder reads."""
        return containerfile.render(self.recipe)


def draft(series: Series, base: str, tag: str | None) -> Draft:
    """Return what is to be built, checked.

    Args:
        series: a locked series.
        base: the image that holds the release.
        tag: the name of the new image; ``None`` for one made of release and label.

    Raises:
        ImageRefused: a name cannot be one, or the base would be overwritten.
        ManifestMissing, ManifestStale: the series is not locked.
    """
    upstream = series.spec.upstream
    distribution = str(canonicalize_name(upstream.distribution))
    tag = tag or containerfile.tag(distribution, upstream.version, series.spec.label)
    for what, value in (("base image", base), ("image", tag)):
        if trouble := containerfile.problem(value):
            raise ImageRefused(what, value, trouble)
    if "@" in tag:
        raise ImageRefused("image", tag, "a new image is named by a tag, not by a digest")
    if containerfile.same(base, tag):
        raise ImageRefused("image", tag, "it would overwrite its own base")
    if not _PLAIN.fullmatch(series.name):
        raise ImageRefused(
            "series", series.name, "for an image, its folder's name may hold A-Za-z0-9._- only"
        )
    variables = () if series.spec.serve is None else series.spec.serve.environment
    digest = series.locked().digest
    recipe = Recipe(series.name, digest, distribution, upstream.version, base, variables)
    return Draft(tag, recipe)


def build_image(
    series: Series,
    planned: Draft,
    builder: str,
    *,
    means: Means,
    tell: Callable[[str], None] = lambda _: None,
) -> BuiltImage:
    """Build an image; the kit in it verifies the base before it changes a file.

    Raises:
        ImageNotBuilt: the builder failed, or the base holds something else than the release.
        And what :func:`~pseries.workflows.exports.build_kit.build_kit` raises.
    """
    with tempfile.TemporaryDirectory(prefix="pseries-") as name:
        work, context = Path(name), Path(name) / "context"
        context.mkdir()
        kit = build_kit(series, work / "kits", means=means)
        kit.folder.rename(context / containerfile.KIT)
        (context / builders.CONTAINERFILE).write_text(planned.containerfile)
        builders.build(builder, context, planned.recipe.base, planned.tag, tell)
    return BuiltImage(
        planned.tag,
        planned.recipe.base,
        builder,
        series.name,
        planned.recipe.digest,
        kit.files,
        kit.skipped,
    )
