"""From the files of a release to the files after a series: what every use of a series shares.

``apply`` gives the bytes of an installed tree, ``build-wheel`` those of a wheel's members; both get
back post-images that git computed and that the manifest vouches for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import (
    DoesNotApply,
    NeedsBuild,
    NothingToApply,
    PatchRefused,
    Problem,
    ReadingsDiffer,
    UnknownRelocation,
    Unplaceable,
)
from pseries.git import objects
from pseries.model import manifest as manifests
from pseries.model import paths, symbols
from pseries.model.diff import patch as patch_files
from pseries.model.diff import splice
from pseries.model.diff.heading import Kind
from pseries.model.diff.lines import split_lines
from pseries.model.layout import Layout, Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pseries.model.diff.patch import Patch, Section
    from pseries.model.diff.splice import File
    from pseries.model.manifest import Manifest, NetChange
    from pseries.model.series import Series

Files = Mapping[str, "File"]


class Fitted(NamedTuple):
    """A series cut down to the files that a layout carries.

    ``skipped`` says of every other file why it is left out.
    """

    patches: tuple[Patch, ...]
    skipped: tuple[Problem, ...]


class PostImages(NamedTuple):
    """The changed files by canonical path, ``None`` for deleted ones; and what was skipped."""

    files: Mapping[str, File | None]
    skipped: tuple[Problem, ...]


def layout_for(series: Series, relocate: str | None, holds: Callable[[str], bool]) -> Layout:
    """Return the layout of a tree or a wheel.

    It is the plain one, unless only one relocation's has every pre-image that a relocation moves.

    Args:
        series: a locked series.
        relocate: name of the relocation to use; ``None`` to find out.
        holds: says whether a file is there, by its installed path.

    Raises:
        UnknownRelocation: there is no such relocation.
    """
    root = series.spec.upstream.root
    layouts = {each.name: Layout(root, each) for each in series.spec.relocations}
    if relocate is not None:
        if relocate not in layouts:
            raise UnknownRelocation(series.name, relocate, tuple(layouts))
        return layouts[relocate]
    wanted = _relocatable(series)

    def has_all(layout: Layout) -> bool:
        places = map(layout.installed, wanted)
        return all(place is not None and holds(place) for place in places)

    plain = Layout(root)
    if has_all(plain):
        return plain
    fitting = [layout for layout in layouts.values() if has_all(layout)]
    return fitting[0] if len(fitting) == 1 else plain


def _relocatable(series: Series) -> list[str]:
    """Return the paths that a relocation may move and that must be there before the series."""
    created: set[str] = set()
    needed = []
    for patch in series.locked().patches:
        for file in patch.files:
            source = file.source or file.path
            if file.before is not None and source not in created:
                needed.append(source)
            created.add(file.path)
    moved = tuple(f"{each.source}/" for each in series.spec.relocations)
    return [path for path in needed if path.startswith(moved)]


def fit(series: Series, layout: Layout, packages: Collection[str]) -> Fitted:
    """Cut a series down to what ``layout`` carries.

    Args:
        series: the series.
        layout: how canonical paths map to installed ones.
        packages: the top-level names that the distribution installs.

    Raises:
        PatchRefused: a patch holds what may never go into an installed tree.
        NeedsBuild: a compiled source is touched.
        Unplaceable: a new module has no sure place, or a rename is half inside.
        NothingToApply: no file of the series is carried.
    """
    refusals = [problem for patch in series.patches for problem in patch_files.refusals(patch)]
    if refusals:
        raise PatchRefused(series.name, tuple(refusals))
    kept: list[Patch] = []
    skipped: list[Problem] = []
    compiled: list[Problem] = []
    unsure: list[Problem] = []
    for patch in series.patches:
        sections = []
        for section in patch.sections:
            places = _placements(section, layout, packages)
            where = f"{patch.name}:{section.line} {paths.display(section.path)}"
            if Placement.COMPILED in places:
                compiled.append(Problem(where, "a source of a compiled part"))
            elif places == {Placement.INSTALLED}:
                sections.append(section)
            elif Placement.UNSURE in places:
                unsure.append(Problem(where, "a new module outside the packages installed here"))
            elif Placement.INSTALLED in places:
                unsure.append(Problem(where, "a rename into or out of what is installed"))
            else:
                skipped.append(Problem(where, "not carried by an installed package"))
        if sections:
            kept.append(replace(patch, sections=tuple(sections)))
    if compiled:
        raise NeedsBuild(series.name, tuple(compiled))
    if unsure:
        raise Unplaceable(series.name, tuple(unsure))
    if series.patches and not kept:
        raise NothingToApply(series.name, tuple(skipped))
    return Fitted(tuple(kept), tuple(skipped))


def _placements(
    section: Section, layout: Layout, packages: Collection[str]
) -> frozenset[Placement]:
    sides = ((section.old, False), (section.new, section.old != section.new))
    return frozenset(
        layout.placement(path, packages, new=new) for path, new in sides if path is not None
    )


def _paths(section: Section) -> list[str]:
    return [path for path in (section.old, section.new) if path is not None]


def expected(manifest: Manifest, files: Files, carried: Collection[str]) -> tuple[NetChange, ...]:
    """Return the net changes whose pre-images are ``files``, else those of the release tree.

    A release can be recorded with more than one set of bytes, when a file is generated for the
    wheel; the set that fits is taken.

    Args:
        manifest: of the series.
        files: what is there now, by canonical path.
        carried: the canonical paths that the layout carries.
    """
    artefacts = sorted(
        {
            variant.artefact
            for patch in manifest.patches
            for file in patch.files
            for variant in file.variants
        }
    )
    nets = [
        tuple(change for change in manifests.net(manifest.patches, name) if change.path in carried)
        for name in (None, *artefacts)
    ]
    return next((net for net in nets if all(_pristine(files, change) for change in net)), nets[0])


def _pristine(files: Files, change: NetChange) -> bool:
    there = files.get(change.path)
    if there is None or change.before is None:
        return there is None and change.before is None
    return manifests.blob_id(there[1]) == change.before.blob


def post_images(
    series: Series, pristine: Files, layout: Layout, packages: Collection[str]
) -> PostImages:
    """Apply a series to the files of a release and return what changed, checked by the manifest.

    Args:
        series: a locked series.
        pristine: git mode and bytes of the touched files that are there, by canonical path.
        layout: how canonical paths map to installed ones.
        packages: the top-level names that the distribution installs.

    Raises:
        ManifestMissing, ManifestStale: the series is not locked.
        PatchRefused, NeedsBuild, NothingToApply: see :func:`fit`.
        DoesNotApply: a pre-image is not the manifest's.
        PatchRejected, ReadingsDiffer: git does not agree.
    """
    manifest = series.locked()
    fitted = fit(series, layout, packages)
    net = expected(manifest, pristine, carried(fitted))
    odd = [change.path for change in net if not _pristine(pristine, change)]
    if odd:
        problems = tuple(Problem(paths.display(path), "not the manifest's file") for path in odd)
        raise DoesNotApply(series.name, release_name(series), problems)
    modes = {change.path: change.before.mode for change in net if change.before is not None}
    with_modes = {path: (modes.get(path, mode), data) for path, (mode, data) in pristine.items()}
    changed = _engine(fitted.patches, with_modes)
    _vouch(series, net, changed)
    return PostImages(changed, fitted.skipped)


def release_name(series: Series) -> str:
    """Return the release that a series is for, for people: ``vllm 0.26.0``."""
    return f"{series.spec.upstream.distribution} {series.spec.upstream.version}"


def carried(fitted: Fitted) -> frozenset[str]:
    """Return the canonical paths that a fitted series reads or writes."""
    return frozenset(
        path for patch in fitted.patches for section in patch.sections for path in _paths(section)
    )


def _engine(patches: Sequence[Patch], files: Files) -> dict[str, File | None]:
    """Run git on the files in a scratch store and return what changed."""
    if not patches:
        return {}
    with objects.scratch() as store:
        before = store.add(files)
        after = store.apply(before, patches)
        changed = {path: entry for path, entry in after.items() if before.get(path) != entry}
        contents: dict[str, File | None] = dict(store.files(changed))
    contents.update(dict.fromkeys(before.keys() - after.keys()))
    return contents


def _vouch(series: Series, net: Sequence[NetChange], changed: Mapping[str, File | None]) -> None:
    """Refuse a result that is not the manifest's, to the byte."""
    wanted = {change.path: change.after for change in net}
    found = {
        path: None if file is None else manifests.image(*file) for path, file in changed.items()
    }
    differing = sorted(
        path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path)
    )
    if differing:
        problems = tuple(
            Problem(paths.display(path), "the result is not the manifest's") for path in differing
        )
        raise ReadingsDiffer(series.name, problems)


# --- a target that drifted ----------------------------------------------------------------------


def drifted_images(
    series: Series, files: Files, layout: Layout, packages: Collection[str]
) -> PostImages:
    """Apply a series to files that are not the release's, if that leaves no room for doubt.

    Every hunk's lines must stand exactly once in the file (or at their recorded line), and what it
    adds must stand in the same function or class as in the release: no fuzz, no guess.

    Raises:
        DoesNotApply: with every hunk for which that does not hold.
    """
    manifest = series.locked()
    fitted = fit(series, layout, packages)
    symbols_of = {
        (patch.name, file.path): [hunk.symbol for hunk in file.hunks]
        for patch in manifest.patches
        for file in patch.files
    }
    problems: list[Problem] = []
    state = dict(files)
    for patch in fitted.patches:
        moved = (_moved(section, state, patch.name, problems) for section in patch.sections)
        sections = tuple(section for section in moved if section is not None)
        after = splice.apply_patch(state, replace(patch, sections=sections), problems)
        for section in sections:
            recorded = symbols_of.get((patch.name, section.path), [])
            _same_symbols(section, state, after, recorded, patch.name, problems)
        state = after
    if problems:
        raise DoesNotApply(series.name, f"this tree ({release_name(series)})", tuple(problems))
    changed = _engine(fitted.patches, files)
    ours = {path: file for path, file in state.items() if files.get(path) != file}
    theirs = {path: file for path, file in changed.items() if file is not None}
    if ours != theirs:
        odd = sorted(
            path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)
        )
        raise ReadingsDiffer(
            series.name, tuple(Problem(paths.display(path), "git's result differs") for path in odd)
        )
    return PostImages(changed, fitted.skipped)


def _moved(section: Section, files: Files, name: str, problems: list[Problem]) -> Section | None:
    """Return the section with each hunk at the one place where its lines stand.

    Where one has none the file stays as it is: without hunks, ``None`` for a deletion.
    """
    if section.old is None or section.old not in files:
        return section
    source = split_lines(files[section.old][1])
    hunks = splice.placed(source, section.hunks, recorded=True)
    if isinstance(hunks, splice.Unplaced):
        found = f"in {hunks.places} places" if hunks.places else "in no place"
        if hunks.places == 1:
            found = "above the end of the hunk before it"
        line = section.hunks[hunks.number - 1].line
        where = f"{name}:{line} {paths.display(section.path)}"
        problems.append(Problem(where, f"the lines of hunk {hunks.number} stand {found}"))
        if section.kind is Kind.DELETE:
            return None
        hunks = []
    return replace(section, hunks=tuple(hunks))


def _same_symbols(
    section: Section,
    before: Files,
    after: Files,
    recorded: Sequence[str | None],
    name: str,
    problems: list[Problem],
) -> None:
    old = symbols.scopes_of(section.old, before)
    new = symbols.scopes_of(section.new, after)
    for number, (hunk, symbol) in enumerate(zip(section.hunks, recorded, strict=False), 1):
        now = splice.symbol_of(hunk, old, new)
        if now != symbol:
            where = f"{name}:{hunk.line} {paths.display(section.path)}"
            there, here = symbol or "the module", now or "the module"
            problems.append(
                Problem(where, f"hunk {number} would land in {here}; it was made for {there}")
            )
