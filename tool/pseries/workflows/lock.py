"""Making a series' manifest: every patch applied to the release in a scratch tree, twice over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import DoesNotApply, Problem, ReadingsDiffer
from pseries.git import objects
from pseries.model import manifest as manifests
from pseries.model import patch as patch_files
from pseries.model import paths, splice, symbols
from pseries.model.manifest import (
    FileRecord,
    HunkRecord,
    Manifest,
    PatchRecord,
    UpstreamRecord,
    Variant,
)
from pseries.model.series import sha256

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pseries.git.objects import Objects
    from pseries.model.manifest import ArtefactRecord, FileImage
    from pseries.model.patch import Patch, Section
    from pseries.model.series import Series
    from pseries.model.splice import File

Files = dict[str, "File"]


class ReleaseTree(NamedTuple):
    """A release as the lock needs it: where its objects are, its tree, and where it came from."""

    git_dir: Path
    tree: str
    source: str


def touched(patches: Iterable[Patch]) -> frozenset[str]:
    """Return every canonical path that a patch reads or writes."""
    return frozenset(
        path
        for patch in patches
        for section in patch.sections
        for path in (section.old, section.new)
        if path is not None
    )


def lock(
    series: Series,
    release: ReleaseTree,
    artefacts: Sequence[ArtefactRecord],
    shipped: Mapping[str, Mapping[str, bytes]],
    beneath: Sequence[Series] = (),
) -> Manifest:
    """Apply the series to the release in a scratch tree and return the manifest of it.

    Args:
        series: the series; its old manifest, if any, does not matter.
        release: the upstream release in the store.
        artefacts: every file of the release on the index.
        shipped: by artefact file name, the touched files as that artefact holds them, by
            canonical path; where those bytes differ from the release tree's, both are recorded.
        beneath: the series that this one is made on top of, in the order in which they go on.

    Raises:
        DoesNotApply: with every patch and hunk that does not fit at its recorded line.
        ReadingsDiffer: git and we read a patch differently, or get different bytes from it.
        PatchRejected: git refuses a patch that we can read.
    """
    earlier = tuple(patch for each in beneath for patch in each.patches)
    with objects.scratch(release.git_dir) as store:
        released = store.files(store.pick(release.tree, touched((*earlier, *series.patches))))
        _refuse_misread(series.patches)
        states = _states(series, _on_top_of(earlier, released, store), store)
        others = {
            artefact: _states(
                series,
                _on_top_of(earlier, {**released, **_with_modes(files, released)}, store),
                store,
            )
            for artefact, files in shipped.items()
            if any(path in released and released[path][1] != data for path, data in files.items())
        }
    upstream = series.spec.upstream
    return Manifest(
        series=series.name,
        digest=series.digest,
        upstream=UpstreamRecord(
            distribution=upstream.distribution,
            version=upstream.version,
            root=upstream.root,
            source=release.source,
            tree=release.tree,
            artefacts=tuple(sorted(artefacts, key=lambda artefact: artefact.filename)),
        ),
        patches=tuple(
            _patch_record(patch, number, states, others)
            for number, patch in enumerate(series.patches)
        ),
    )


def _on_top_of(earlier: Sequence[Patch], files: Files, store: Objects) -> Files:
    return store.files(store.apply(store.add(files), earlier)) if earlier else files


def _with_modes(files: Mapping[str, bytes], pristine: Files) -> Files:
    return {path: (pristine[path][0], data) for path, data in files.items() if path in pristine}


def _refuse_misread(patches: Sequence[Patch]) -> None:
    for patch in patches:
        if problems := patch_files.second_opinion(patch):
            raise ReadingsDiffer(patch.name, problems)


def _states(series: Series, pristine: Files, store: Objects) -> list[Files]:
    """Return the touched files before the first patch and after each, agreed on by both engines."""
    opaque = any(section.binary for patch in series.patches for section in patch.sections)
    ours = None if opaque else _own_states(series, pristine)  # only git reads a binary change
    trees = store.apply_each(store.add(pristine), series.patches)
    # Each content once, however many patches it stays the same through.
    contents = store.read(entry.blob for tree in trees for entry in tree.values())
    states: list[Files] = [pristine]
    for tree in trees:
        states.append({path: (entry.mode, contents[entry.blob]) for path, entry in tree.items()})
    for patch, mine, theirs in zip(series.patches, ours or states[1:], states[1:], strict=True):
        if differing := _differing(touched((patch,)), mine, theirs):
            raise ReadingsDiffer(patch.name, differing)
    if ours and (odd := _differing(ours[-1].keys() | states[-1].keys(), ours[-1], states[-1])):
        raise ReadingsDiffer(series.patches[-1].name, odd)
    return states


def _own_states(series: Series, pristine: Files) -> list[Files]:
    states: list[Files] = []
    problems: list[Problem] = []
    files = pristine
    for patch in series.patches:
        files = splice.apply_patch(files, patch, problems)
        states.append(files)
    if problems:
        upstream = series.spec.upstream
        release = f"{upstream.distribution} {upstream.version}"
        raise DoesNotApply(series.name, release, tuple(problems))
    return states


def _differing(where: Iterable[str], mine: Files, theirs: Files) -> tuple[Problem, ...]:
    return tuple(
        Problem(paths.display(path), "git's result is not ours")
        for path in sorted(where)
        if mine.get(path) != theirs.get(path)
    )


# --- records ----------------------------------------------------------------------------------


def _patch_record(
    patch: Patch, number: int, states: list[Files], others: Mapping[str, list[Files]]
) -> PatchRecord:
    before, after = states[number], states[number + 1]
    records = []
    for section in sorted(patch.sections, key=lambda section: section.path):
        images = _images(section, before, after)
        variants = tuple(
            Variant(artefact, *found)
            for artefact, other in sorted(others.items())
            if (found := _images(section, other[number], other[number + 1])) != images
        )
        renamed = section.kind is patch_files.Kind.RENAME
        records.append(
            FileRecord(
                path=section.path,
                kind=section.kind.value,
                source=section.old if renamed else None,
                before=images[0],
                after=images[1],
                hunks=tuple(_hunk_records(section, before, after)),
                variants=variants,
            )
        )
    return PatchRecord(patch.name, patch.strip, sha256(patch.data), tuple(records))


def _images(
    section: Section, before: Files, after: Files
) -> tuple[FileImage | None, FileImage | None]:
    return _image(section.old, before), _image(section.new, after)


def _image(path: str | None, files: Files) -> FileImage | None:
    return None if path is None or path not in files else manifests.image(*files[path])


def _hunk_records(section: Section, before: Files, after: Files) -> list[HunkRecord]:
    old = symbols.scopes_of(section.old, before)
    new = symbols.scopes_of(section.new, after)
    return [
        HunkRecord(
            (hunk.old_start, hunk.old_count),
            (hunk.new_start, hunk.new_count),
            splice.symbol_of(hunk, old, new),
        )
        for hunk in section.hunks
    ]
