"""Taking patches that others made into a series, all of them or none.

Each is brought to the form of a series by as little as possible, tried on the release and on the
patches before it, and ends as exactly one of taken, already there, refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import ImportUnclear, Problem
from pseries.git import objects
from pseries.model import manifest as manifests
from pseries.model import naming
from pseries.model import order as orders
from pseries.model import series as series_model
from pseries.model.diff import patch as patch_files
from pseries.upstream.store import Store
from pseries.workflows.exchange import sources
from pseries.workflows.exchange.ground import Fit, Ground
from pseries.workflows.series import catalog, folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pseries.model.diff.patch import Patch, Section
    from pseries.model.series import Series
    from pseries.upstream.release import Release
    from pseries.workflows.exchange.ground import Reading
    from pseries.workflows.exchange.sources import Found, Incoming
    from pseries.workflows.series.catalog import Location
    from pseries.workflows.series.means import Means

_NUMBERED = re.compile(r"(\d{4})-")


class Fate(str, Enum):
    """What became of a patch."""

    TAKEN = "taken"
    THERE = "already there"
    REFUSED = "refused"


class Fits(NamedTuple):
    """A release in the store that a patch fits, and how."""

    version: str
    how: Fit


class Outcome(NamedTuple):
    """What became of one patch.

    Attributes:
        name: its name in the series.
        source: where it was found.
        subject: the first line of its message.
        fate: what became of it.
        how: how it fits the release.
        changes: what was changed of it, in words; its bytes are its own if there is nothing.
        problems: why it is refused.
        beside: where it is already: the name of a patch, or the release.
        fits: the releases in the store that it fits.
    """

    name: str
    source: str
    subject: str
    fate: Fate
    how: Fit
    changes: tuple[str, ...]
    problems: tuple[Problem, ...]
    beside: str
    fits: tuple[Fits, ...]


class Imported(NamedTuple):
    """What an import did.

    Attributes:
        series: name of the series.
        folder: its folder; "" if nothing was written.
        release: distribution and version.
        order: what the order of the patches is taken from, a source each.
        patches: what became of each.
        notes: what was left out, and what a person should look at.
    """

    series: str
    folder: str
    release: str
    order: tuple[str, ...]
    patches: tuple[Outcome, ...]
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether a patch is refused, so that nothing was written."""
        return any(each.fate is Fate.REFUSED for each in self.patches)


@dataclass(frozen=True, slots=True)
class Asked:
    """What an import is asked to do.

    Attributes:
        sources: folders, mailboxes, patch files, one repository.
        between: ``REV..REV`` of the repository.
        into: the series that takes the patches; "" for a new one.
        release: ``DISTRIBUTION==VERSION`` of a new series, or the distribution alone.
        variant: what is added to the name of a new series.
        after: the patch below the new ones; "" for the last one, ``None`` below all.
        strip: the level of all names, instead of what an order file says.
        exclude: canonical paths to leave out, as shell patterns.
        accept_offset: take hunks at the one other place where all their lines stand.
        dry_run: write nothing.
    """

    sources: tuple[Path, ...]
    between: str = ""
    into: str = ""
    release: str = ""
    variant: str = ""
    after: str | None = ""
    strip: int | None = None
    exclude: tuple[str, ...] = ()
    accept_offset: bool = False
    dry_run: bool = False


def start(asked: Asked, location: Location | None, means: Means) -> Imported:
    """Import patches into a series, or make a new series of them.

    Returns:
        What became of each patch. If one is refused nothing was written.

    Raises:
        SourceRefused, RangeRefused: there is nothing to import.
        ImportUnclear: nothing says for which release.
        SeriesExists: the folder of the new series is there.
        PatchNotFound: there is no patch of the name given as ``after``.
        And what reading a series, fetching its release and locking raise; nothing was written.
    """
    found = [sources.find(source, asked.between) for source in asked.sources]
    plan = _into(asked, location, means) if asked.into else _new(asked, found, location, means)
    return _Job(asked, plan, location, means).run(found)


# --- where they go ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where patches go.

    Attributes:
        folder: of the series.
        old: the files that it has; for a new one the files to begin with.
        series: what it is now; its manifest, if any, is the old one.
        beneath: the series that it is made on top of.
        at: number of patches below the new ones.
        store: where the release is.
        release: the release.
        new: whether the folder is to be made.
    """

    folder: Path
    old: dict[str, bytes]
    series: Series
    beneath: tuple[Series, ...]
    at: int
    store: Store
    release: Release
    new: bool


def _into(asked: Asked, location: Location | None, means: Means) -> _Plan:
    from pseries.workflows.series import release as releases  # noqa: PLC0415 - network code

    folder = catalog.folder_of(asked.into, location)
    series = catalog.load(asked.into, location)
    beneath = tuple(catalog.load(name, location) for name in series.spec.after)
    store, release = releases.fetch(series, means)
    at = _position(series, asked.after)
    return _Plan(folder, folders.files_in(folder), series, beneath, at, store, release, new=False)


def _position(series: Series, after: str | None) -> int:
    names = series.order.names
    if after is None:
        return 0
    if not after:
        return len(names)
    return orders.find(names, after) + 1


def _new(asked: Asked, found: Sequence[Found], location: Location | None, means: Means) -> _Plan:
    from pseries.workflows.exchange import init  # noqa: PLC0415 - network code

    distribution, _, version = _parted(asked.release or _hinted(found, location))
    if not distribution:
        raise ImportUnclear(_known(location), "", (), ())
    if not version:
        version = _version_that_fits(distribution, found, asked)
    base = init.released(init.Wanted(distribution, version), location, means)
    folder = init.folder_for(location, base.upstream, asked.variant)
    folders.refuse_existing(folder)
    summary = f"patches imported from {', '.join(each.name for each in asked.sources)}"
    files = init.skeleton(base, summary=summary[:200], name=folder.name)
    series = series_model.assemble(folder.name, str(folder), files)
    return _Plan(folder, files, series, (), 0, base.store, base.release, new=True)


def _hinted(found: Sequence[Found], location: Location | None) -> str:
    """Return the release that a folder is named for (fromager), if it is of something known.

    Any folder may be called ``build-1.0``; no index is asked about a name that nobody gave.
    """
    known = {naming.normalized(name) for name in _known(location)}
    for each in found:
        name, _, version = _parted(each.hint)
        if version and naming.normalized(name) in known:
            return each.hint
    return ""


def _parted(said: str) -> tuple[str, str, str]:
    """Split ``name==1.0``, or ``name-1.0`` as folders are called, if the version looks like one."""
    if "==" in said:
        name, _, version = said.partition("==")
        return name, "==", version
    found = re.fullmatch(r"([A-Za-z][A-Za-z0-9._-]*?)-v?(\d+(?:\.[0-9A-Za-z]+)+)", said)
    return (found[1].replace("_", "-"), "-", found[2]) if found else (said, "", "")


def _known(location: Location | None) -> tuple[str, ...]:
    stored = {store.distribution for store in Store.all()}
    return tuple(sorted(stored | {name for name, _ in catalog.releases(location).values()}))


def _version_that_fits(distribution: str, found: Sequence[Found], asked: Asked) -> str:
    """Return the version of the one release in the store that all patches fit.

    Raises:
        ImportUnclear: none does, or several do equally well.
    """
    store = Store.open(distribution)
    ranked: dict[int, list[str]] = {}
    patches = [each for source in found for each in source.patches]
    for release in store.releases():
        with objects.scratch(store.git_dir) as borrowed:
            ground = _ground(borrowed, release, ())
            fits = list(_each_fit(ground, patches, asked))
        if all(fit is not Fit.NOT for fit in fits):
            ranked.setdefault(fits.count(Fit.IDS), []).append(release.version)
    best = ranked[max(ranked)] if ranked else []
    if len(best) != 1:
        known = tuple(release.version for release in store.releases())
        raise ImportUnclear((), distribution, tuple(best), known)
    return best[0]


def _ground(borrowed: objects.Objects, release: Release, beneath: Sequence[Patch]) -> Ground:
    tree, _ = borrowed.below(release.tree, "")
    if beneath:
        changed = {path for patch in beneath for path in patch.paths}
        picked = {path: tree.pop(path) for path in sorted(changed) if path in tree}
        tree.update(borrowed.apply(picked, beneath))
    return Ground(borrowed, tree, release.recorded.root)


def _each_fit(ground: Ground, patches: Sequence[Incoming], asked: Asked) -> Iterator[Fit]:
    """Try patches one after the other on a release, each on top of those that fit."""
    ground.prefetch(patches)
    for each in patches:
        reading = ground.read(each, accept_offset=asked.accept_offset, exclude=asked.exclude)
        if reading.fit is not Fit.NOT:
            ground.take(reading.after)
        yield reading.fit


# --- the work ---------------------------------------------------------------------------------


@dataclass
class _Job:
    asked: Asked
    plan: _Plan
    location: Location | None
    means: Means
    names: set[str] = field(default_factory=set)

    def run(self, found: Sequence[Found]) -> Imported:
        plan = self.plan
        incoming = [each for source in found for each in source.patches]
        if self.asked.strip is not None:
            incoming = [replace(each, strip=self.asked.strip) for each in incoming]
        notes = [note for source in found for note in source.notes]
        notes += self._about_names(found)
        outcomes, taken = self._tried(incoming)
        outcomes = [each._replace(fits=fits) for each, fits
                    in zip(outcomes, self._fits(incoming, outcomes), strict=True)]  # fmt: skip
        upstream = plan.series.spec.upstream
        report = Imported(
            plan.folder.name, "", f"{upstream.distribution} {upstream.version}",
            tuple(each.how for each in found), tuple(outcomes), tuple(notes),
        )  # fmt: skip
        if report.refused or not taken:
            return report
        files = self._files(taken, outcomes, incoming)
        files[manifests.FILE] = self._manifest(files)
        if self.asked.dry_run:
            return report
        if plan.new:
            folders.create(plan.folder, files)
        else:
            folders.change(plan.folder, plan.old, files)
        return report._replace(folder=str(plan.folder))

    def _about_names(self, found: Sequence[Found]) -> list[str]:
        """Say where a folder's name gives another version than the one that is taken (R04)."""
        version = self.plan.series.spec.upstream.version
        return [
            f"the folder's name says {said[2]}; the patches are for {version}"
            for source in found
            if (said := _parted(source.hint))[2] and said[2] != version
        ]

    # --- reading them ---

    def _tried(self, incoming: Sequence[Incoming]) -> tuple[list[Outcome], list[Patch]]:
        plan = self.plan
        earlier = [patch for each in plan.beneath for patch in each.patches]
        earlier += plan.series.patches[: plan.at]
        there = {_identity(patch): patch.name for patch in plan.series.patches}
        self.names = set(plan.series.order.names)
        outcomes: list[Outcome] = []
        taken: list[Patch] = []
        with objects.scratch(plan.store.git_dir) as borrowed:
            ground = _ground(borrowed, plan.release, earlier)
            ground.prefetch(incoming)
            for each in incoming:
                reading = ground.read(each, accept_offset=self.asked.accept_offset,
                                      exclude=self.asked.exclude)  # fmt: skip
                outcome, patch = self._outcome(each, reading, there)
                outcomes.append(outcome)
                if patch is not None:
                    ground.take(reading.after)
                    taken.append(patch)
                    there[_identity(patch)] = patch.name
        return outcomes, taken

    def _outcome(
        self, incoming: Incoming, reading: Reading, there: dict[object, str]
    ) -> tuple[Outcome, Patch | None]:
        patch = reading.patch
        outcome = Outcome(
            incoming.name, incoming.source, "" if patch is None else patch.header.subject,
            Fate.REFUSED, reading.fit, reading.changes, reading.problems, "", (),
        )  # fmt: skip
        if patch is None:
            return outcome, None
        beside = there.get(_identity(patch), "")
        if not beside and reading.held:
            release = self.plan.release
            beside = f"{release.distribution} {release.version}, by blob ids"
        if beside:
            return outcome._replace(fate=Fate.THERE, beside=beside, problems=()), None
        if reading.fit is Fit.NOT:
            return outcome, None
        name = self._name(incoming)
        changes = reading.changes
        if name != incoming.name:
            changes = (*changes, f"was named {incoming.name}")
        named = patch_files.parse(name, patch.data, patch.strip)
        return outcome._replace(name=name, fate=Fate.TAKEN, changes=changes), named

    def _name(self, incoming: Incoming) -> str:
        """Return a name that the series has not yet: the patch's own where that can be."""
        name = sources.safe_name(incoming.name)
        if name in self.names:
            stem, dot, ending = name.rpartition(".")
            number = _NUMBERED.match(name)
            if number is not None:
                taken = [int(found[1]) for each in self.names if (found := _NUMBERED.match(each))]
                name = f"{max(taken) + 1:04}-{name[number.end() :]}"
            again = 2
            while name in self.names:
                name = f"{stem}-{again}{dot}{ending}"
                again += 1
        self.names.add(name)
        return name

    def _fits(
        self, incoming: Sequence[Incoming], outcomes: Sequence[Outcome]
    ) -> list[tuple[Fits, ...]]:
        """Return, for each patch, the releases in the store that it fits (R04)."""
        plan = self.plan
        found: list[list[Fits]] = [[] for _ in incoming]
        own = plan.release.version
        stacked = bool(plan.beneath or plan.at)
        for release in plan.store.releases():
            if release.version == own:
                fits = [each.how for each in outcomes]
            elif stacked:
                continue  # other releases have nothing of what these patches stand on
            else:
                with objects.scratch(plan.store.git_dir) as borrowed:
                    ground = _ground(borrowed, release, ())
                    fits = list(_each_fit(ground, incoming, self.asked))
            for number, fit in enumerate(fits):
                if fit is not Fit.NOT:
                    found[number].append(Fits(release.version, fit))
        return [tuple(each) for each in found]

    # --- writing them ---

    def _files(
        self, taken: Sequence[Patch], outcomes: Sequence[Outcome], incoming: Sequence[Incoming]
    ) -> dict[str, bytes]:
        plan = self.plan
        files = dict(plan.old)
        files.update({patch.name: patch.data for patch in taken})
        by_name = {patch.name: patch for patch in taken}
        chunks = [
            _lines_for(each.order, None if outcome.fate is not Fate.TAKEN
                       else by_name[outcome.name])
            for each, outcome in zip(incoming, outcomes, strict=True)
        ]  # fmt: skip
        order = plan.series.order
        cut = order.entries[plan.at - 1].line if plan.at else 0
        if plan.at == 0 and order.entries:
            cut = order.entries[0].line - 1
        files[series_model.ORDER_FILE] = _joined(
            b"".join(order.lines[:cut]), *chunks, b"".join(order.lines[cut:])
        )
        return files

    def _manifest(self, files: dict[str, bytes]) -> bytes:
        from pseries.workflows.series import release as releases  # noqa: PLC0415 - network code

        plan, means = self.plan, self.means
        old = {name: data for name, data in files.items() if name != manifests.FILE}
        known = {**old, manifests.FILE: plan.old[manifests.FILE]} if plan.series.manifest else old
        wanted = {name: data for name, data in known.items() if _is_part(name)}
        series = series_model.assemble(plan.folder.name, str(plan.folder), wanted)
        return manifests.render(releases.manifest_of(series, self.location, means))


def _is_part(name: str) -> bool:
    return name in ("series", "series.toml", manifests.FILE) or name.endswith(
        series_model.PATCH_SUFFIXES
    )


def _identity(patch: Patch) -> object:
    """Return what a patch changes, whatever its header, its line numbers and its context say."""
    return tuple(sorted(
        (
            section.kind.value, section.old or "", section.new or "",
            (section.old_mode or 0, section.new_mode or 0) if _changes_mode(section) else (),
            tuple(hunk.lines for hunk in section.hunks),
            section.raw if section.binary else b"",
        )
        for section in patch.sections
    ))  # fmt: skip


def _changes_mode(section: Section) -> bool:
    return section.old_mode != section.new_mode


def _lines_for(chunk: bytes | None, patch: Patch | None) -> bytes:
    """Return the lines of the order file for a patch: those that it came with, as far as they fit.

    Args:
        chunk: comments and line, ``None`` if it came without.
        patch: the patch as it is taken; ``None`` if it is not, so that only comments stay.
    """
    if chunk is None:
        chunk = b"" if patch is None else patch.name.encode() + b"\n"
        return chunk if patch is None else _with(chunk, patch.name, patch)
    order = orders.parse(chunk, [])
    entry = order.entries[0]
    lines = list(order.lines)
    if patch is None:
        del lines[entry.line - 1]
    elif (entry.name, entry.strip) != (patch.name, patch.strip):
        lines[entry.line - 1] = _with(lines[entry.line - 1], entry.name, patch)
    return b"".join(lines)


def _with(line: bytes, name: str, patch: Patch) -> bytes:
    """Return a line of an order file with another name and strip level; its comment stays."""
    before, _, rest = line.partition(name.encode())
    rest = re.sub(rb"^((?:[ \t]+[^\s#]\S*)*?)[ \t]+-p\d(?=\s|$)", rb"\1", rest)
    option = b"" if patch.strip == 1 else b" -p%d" % patch.strip
    return before + patch.name.encode() + option + rest


def _joined(*parts: bytes) -> bytes:
    text = bytearray()
    for part in parts:
        if part and text and not text.endswith(b"\n"):
            text += b"\n"
        text += part
    return bytes(text)
