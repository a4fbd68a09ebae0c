"""Making a series' manifest: every patch applied to the release in a scratch tree, twice over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import DoesNotApply, Problem, ReadingsDiffer
from pseries.git import objects
from pseries.model import manifest as manifests
from pseries.model import paths, symbols
from pseries.model.diff import opinion, splice
from pseries.model.diff import patch as patch_files
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

    from pseries.git.objects import Objects, Tree
    from pseries.model.diff.patch import Hunk, Patch, Section
    from pseries.model.diff.splice import File
    from pseries.model.manifest import ArtefactRecord, FileImage
    from pseries.model.series import Series

Files = dict[str, "File"]


class ReleaseTree(NamedTuple):
    """A release as the lock needs it: where its objects are, its tree, and where it came from."""

    git_dir: Path
    tree: str
    source: str


def touched(patches: Iterable[Patch]) -> frozenset[str]:
    """Return every canonical path that a patch reads or writes."""
    return frozenset(path for patch in patches for path in patch.paths)


def lock(
    series: Series,
    release: ReleaseTree,
    artefacts: Sequence[ArtefactRecord],
    shipped: Mapping[str, Mapping[str, bytes]],
    beneath: Sequence[Series] = (),
    earlier: Manifest | None = None,
) -> Manifest:
    """Apply the series to the release in a scratch tree and return the manifest of it.

    Args:
        series: the series; its old manifest, if any, does not matter.
        release: the upstream release in the store.
        artefacts: every file of the release on the index.
        shipped: by artefact file name, the touched files as that artefact holds them, by
            canonical path; where those bytes differ from the release tree's, both are recorded.
        beneath: the series that this one is made on top of, in the order in which they go on.
        earlier: the manifest of a series that this one was carried from: where a file is the same
            before and after, so are the symbols of its hunks.

    Raises:
        DoesNotApply: with every patch and hunk that does not fit at its recorded line.
        ReadingsDiffer: git and we read a patch differently, or get different bytes from it.
        PatchRejected: git refuses a patch that we can read.
    """
    below = tuple(patch for each in beneath for patch in each.patches)
    with objects.scratch(release.git_dir) as store:
        released = store.pick(release.tree, touched((*below, *series.patches)))
        _refuse_misread(series.patches)
        states = _states(series, _on_top_of(below, released, store), store)
        others = {
            artefact: _states(series, _on_top_of(below, {**released, **differing}, store), store)
            for artefact, files in shipped.items()
            if (differing := _otherwise(files, released, store))
        }
    known: dict[tuple[object, ...], tuple[HunkRecord, ...]] = {
        (*file[:5], *(each[:2] for each in file.hunks)): file.hunks
        for patch in (earlier.patches if earlier is not None else ())
        for file in patch.files
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
            _patch_record(patch, number, states, others, known)
            for number, patch in enumerate(series.patches)
        ),
    )


def _on_top_of(below: Sequence[Patch], tree: Tree, store: Objects) -> Tree:
    return store.apply(tree, below) if below else tree


def _otherwise(shipped: Mapping[str, bytes], released: Tree, store: Objects) -> Tree:
    """Return those files of the release that an artefact holds with other bytes."""
    return store.add({
        path: (released[path].mode, data)
        for path, data in shipped.items()
        if path in released and manifests.blob_id(data) != released[path].blob
    })  # fmt: skip


def _refuse_misread(patches: Sequence[Patch]) -> None:
    for patch in patches:
        if problems := opinion.second_opinion(patch):
            raise ReadingsDiffer(patch.name, problems)


def _states(series: Series, tree: Tree, store: Objects) -> list[Files]:
    """Return the touched files before the first patch and after each, agreed on by both engines."""
    pristine = store.files(tree)
    opaque = any(section.binary for patch in series.patches for section in patch.sections)
    ours = None if opaque else _own_states(series, pristine)  # only git reads a binary change
    trees = store.apply_each(tree, series.patches)
    # Each content once, however many patches it stays the same through.
    contents = {tree[path].blob: data for path, (_, data) in pristine.items()}
    blobs = {entry.blob for after in trees for entry in after.values()}
    contents |= store.read(blobs - contents.keys())
    states: list[Files] = [pristine]
    for patch, after in zip(series.patches, trees, strict=True):
        state = dict(states[-1])
        for path in patch.paths:
            state.pop(path, None)
            if (entry := after.get(path)) is not None:
                state[path] = entry.mode, contents[entry.blob]
        states.append(state)
    for patch, mine, theirs in zip(series.patches, ours or states[1:], states[1:], strict=True):
        if differing := _differing(touched((patch,)), mine, theirs):
            raise ReadingsDiffer(patch.name, differing)
    if ours:
        last = {path: (mode, contents[blob]) for path, (mode, blob) in trees[-1].items()}
        if odd := _differing(ours[-1].keys() | last.keys(), ours[-1], last):
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
    patch: Patch,
    number: int,
    states: list[Files],
    others: Mapping[str, list[Files]],
    known: Mapping[tuple[object, ...], tuple[HunkRecord, ...]],
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
        source = section.old if section.kind is patch_files.Kind.RENAME else None
        name = section.path, section.kind.value, source
        spans = [_spans(hunk) for hunk in section.hunks]
        hunks = known.get((*name, *images, *spans)) or _hunk_records(section, before, after)
        records.append(FileRecord(*name, *images, tuple(hunks), variants))
    return PatchRecord(patch.name, patch.strip, sha256(patch.data), tuple(records))


def _images(
    section: Section, before: Files, after: Files
) -> tuple[FileImage | None, FileImage | None]:
    return _image(section.old, before), _image(section.new, after)


def _image(path: str | None, files: Files) -> FileImage | None:
    return None if path is None or path not in files else manifests.image(*files[path])


def _hunk_records(section: Section, before: Files, after: Files) -> list[HunkRecord]:
    new = symbols.scopes_of(section.new, after)
    added = new is not None and all(map(splice.added_lines, section.hunks))
    old = None if added else symbols.scopes_of(section.old, before)  # parsing takes its time
    return [HunkRecord(*_spans(hunk), splice.symbol_of(hunk, old, new)) for hunk in section.hunks]


def _spans(hunk: Hunk) -> tuple[tuple[int, int], tuple[int, int]]:
    return (hunk.old_start, hunk.old_count), (hunk.new_start, hunk.new_count)
