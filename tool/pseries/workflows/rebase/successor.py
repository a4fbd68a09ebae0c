"""The new series folder: patches from carried trees, and what people wrote, taken over.

What did not change stays as it was to the byte, so that a diff of both folders shows only what the
new release made necessary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pseries.errors import Problem, ReadingsDiffer
from pseries.model import manifest as manifests
from pseries.model import order as orders
from pseries.model import paths
from pseries.model import series as series_model
from pseries.model import spec as specs
from pseries.model.diff import patch as patch_files
from pseries.model.diff import splice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.git.merge import MergeStore
    from pseries.model.diff.patch import Patch, Section
    from pseries.model.diff.splice import File
    from pseries.model.series import Series

README = "README.md"
_NOTE = "> Carried from `{series}` by `pseries rebase`: what is below was written for {release}"
_AGAIN = ", and nothing of it was verified again on {version}.\n\n"
_CARRIED = re.compile(
    rb"(?P<note>> Carried from `[^`\n]{1,300}` by `pseries rebase`: [^\n]{1,300}?)"
    rb", and nothing of it was verified again on [^\n]{1,100}\n\n"
)
"""The first line of a README that was carried before: it still says what it was written for."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A patch to write: what it was, and the files it changes before and after.

    Attributes:
        patch: as it is in the old series.
        before: the files that it changes on the new release; absent ones are left out.
        after: the same after it.
        origins: for a path of the new release the path it has in the old patch.
        kept: sections that no release at hand can show; they stay as they are.
        as_is: the old text makes the one of the other, and stays.
    """

    patch: Patch
    before: Mapping[str, File]
    after: Mapping[str, File]
    origins: Mapping[str, str]
    kept: tuple[Section, ...] = ()
    as_is: bool = False


def patch_texts(grown: Sequence[Grown], store: MergeStore) -> list[bytes]:
    """Return the patch files, in order.

    Raises:
        ReadingsDiffer: a patch read back does not give the files that it was made from.
    """
    texts = [each.patch.data for each in grown]
    other = [number for number, each in enumerate(grown) if not each.as_is]
    sides = [side for number in other for side in (grown[number].before, grown[number].after)]
    stored = iter(store.trees_of(sides))
    styles: dict[tuple[int, int], dict[int, tuple[str, str]]] = {}
    for number in other:
        patch = grown[number].patch
        trees = styles.setdefault((_context(patch), patch.strip), {})
        trees[number] = next(stored), next(stored)
    for (context, strip), trees in sorted(styles.items()):
        made = store.diffs(list(trees.values()), context=context, strip=strip)
        for number, diff in zip(trees, made, strict=True):
            texts[number] = _assembled(grown[number], diff)
    return texts


def _context(patch: Patch) -> int:
    """Return how many lines of context the patch was written with, at least three."""
    sides = [
        count
        for section in patch.sections
        for hunk in section.hunks
        for count in (hunk.leading, hunk.trailing)
    ]
    return min(max([patch_files.CONTEXT, *sides]), 100)


def _assembled(grown: Grown, diff: bytes) -> bytes:
    """Put header, sections and tail together; sections in the old order, unchanged ones as are."""
    patch = grown.patch
    sections = patch_files.parse(patch.name, diff, patch.strip).sections if diff else ()
    if problems := _misread(grown, sections):
        raise ReadingsDiffer(patch.name, problems)
    rank = {section.path: number for number, section in enumerate(patch.sections)}
    old = {_identity(section): section for section in patch.sections if section.new_blob}
    ordered = sorted(
        (*sections, *grown.kept),
        key=lambda section: rank.get(grown.origins.get(section.path, section.path), len(rank)),
    )
    raw = [old.get(_identity(section), section).raw for section in ordered]
    return patch.header.raw + b"".join(raw) + patch.tail


def _identity(section: Section) -> tuple[object, ...]:
    return (
        section.kind, section.old, section.new, section.old_blob, section.new_blob,
        section.old_mode, section.new_mode,
    )  # fmt: skip


def _misread(grown: Grown, sections: Sequence[Section]) -> tuple[Problem, ...]:
    """Apply the new sections to the files they were made from: they must give the other side."""
    if any(section.binary for section in sections):
        return ()  # only git reads those; the lock compares
    problems: list[Problem] = []
    patch = replace(grown.patch, sections=tuple(sections))
    after = splice.apply_patch(grown.before, patch, problems)
    problems += [
        Problem(paths.display(path), "the new patch does not give the carried file")
        for path in sorted(after.keys() | grown.after.keys())
        if after.get(path) != grown.after.get(path)
    ]
    return tuple(problems)


# --- the folder -------------------------------------------------------------------------------


def folder_name(series: Series, version: str) -> str:
    """Return the name of the series for another version: only the version in it changes."""
    upstream = series.spec.upstream
    expected = f"{upstream.distribution}-{upstream.version}"
    variant = series.name.removeprefix(expected) if series.name.startswith(expected) else ""
    return f"{upstream.distribution}-{version}{variant}"


def tag_of(series: Series, version: str, given: str) -> str:
    """Return the tag of the other version, written as the series writes its own."""
    upstream = series.spec.upstream
    if not upstream.tag:
        return ""
    if upstream.version in upstream.tag:
        return upstream.tag.replace(upstream.version, version)
    return given if given != "latest" else f"v{version}"


def files(
    series: Series,
    old: Mapping[str, bytes],
    release: tuple[str, str],
    patches: Mapping[str, bytes | None],
    renamed: Mapping[str, str],
) -> dict[str, bytes]:
    """Return the files of the new folder by name, all but the manifest.

    Args:
        series: the old series.
        old: the files of its folder.
        release: version and tag of the new release.
        patches: the new patch files by name, ``None`` for those that are left out.
        renamed: series that this one is made on, by their old names.
    """
    version, tag = release
    dropped: dict[str, str | None] = {name: None for name, data in patches.items() if data is None}
    order = orders.renamed(series.order, dropped)
    found = {
        name: data for name, data in old.items() if name not in patches and name != manifests.FILE
    }
    found[series_model.ORDER_FILE] = orders.render(order)
    found[specs.FILE] = _spec(old[specs.FILE], version, tag, renamed)
    if README in found:
        found[README] = readme(found[README], series, version)
    found.update({name: data for name, data in patches.items() if data is not None})
    return found


def readme(data: bytes, series: Series, version: str) -> bytes:
    """Return a README that does not claim for the new release what was verified on the old one."""
    upstream = series.spec.upstream
    again = _AGAIN.format(version=f"{upstream.distribution} {version}").encode()
    found = _CARRIED.match(data)
    if found is not None:
        return found["note"] + again + data[found.end() :]
    release = f"{upstream.distribution} {upstream.version}"
    return _NOTE.format(series=series.name, release=release).encode() + again + data


def _spec(data: bytes, version: str, tag: str, renamed: Mapping[str, str]) -> bytes:
    """Return ``series.toml`` for another release; every other value and comment stays."""
    import tomlkit  # noqa: PLC0415 - only a rewrite needs it

    document = tomlkit.parse(data.decode("utf-8"))
    upstream: Any = document["upstream"]
    upstream["version"] = version
    if "tag" in upstream and tag:
        upstream["tag"] = tag
    after: Any = document.get("after", [])
    for number, name in enumerate(after):
        if name in renamed:
            after[number] = renamed[name]
    return tomlkit.dumps(document).encode("utf-8")
