"""The series folder, written from the commits of a checkout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import ReleaseNotFound, Unreachable
from pseries.model import commit as commits
from pseries.model import manifest as manifests
from pseries.model import order as orders
from pseries.model import series as series_model
from pseries.model import spec as specs
from pseries.model.diff import mail
from pseries.model.diff import patch as patch_files
from pseries.model.revision import Revision, revision
from pseries.workflows.rebase.successor import Grown, patch_texts
from pseries.workflows.series import catalog
from pseries.workflows.series.means import Means
from pseries.workflows.verbs.checkout import require_base
from pseries.workflows.verbs.stack import first_behind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.model.commit import Commit
    from pseries.model.diff.patch import Patch
    from pseries.model.manifest import Manifest
    from pseries.model.stack import Entry, Stack
    from pseries.workflows.verbs.stack import Work


class Written(NamedTuple):
    """What became of the file of a patch; ``was`` is the name that it had, if it has another."""

    name: str
    revision: Revision
    was: str = ""


class Published(NamedTuple):
    """The new stack and files of the folder, and what was said of them."""

    stack: Stack
    files: Mapping[str, bytes]
    patches: tuple[Written, ...]
    notes: tuple[str, ...]


def publish(work: Work, stack: Stack, renamed: Mapping[str, str] | None = None) -> Published:
    """Return what the series folder holds once it says what the commits say; nothing is written.

    A patch whose commit is the one that its file was written from keeps its bytes. One that changes
    nothing has no file. The manifest is made anew where every patch stands on the one below it.

    Args:
        work: the checkout.
        stack: the new stack.
        renamed: new names by old ones.

    Raises:
        PatchRefused: a message cannot be a patch's header.
        Uncommittable: a commit holds a link or a submodule.
        BaseChanged: a series that this one is made on top of changed meanwhile.
    """
    old = work.files()
    earlier = {new: before for before, new in (renamed or {}).items()}
    made = work.checkout.read_commits([entry.commit for entry in stack.entries])
    texts = _texts(work, stack, made, old, earlier)
    names = {entry.name for entry in stack.entries if texts[entry.name] is not None}
    files = {name: data for name, data in old.items() if not _is_patch(name)}
    files |= {name: data for name, data in texts.items() if data is not None}
    order = orders.parse(old[series_model.ORDER_FILE], [])
    order = orders.renamed(order, dict((renamed or {}).items()))
    kept = [(entry.name, entry.strip) for entry in stack.entries if entry.name in names]
    files[series_model.ORDER_FILE] = orders.render(orders.arranged(order, kept))
    entries = tuple(
        entry._replace(written=entry.commit if entry.name in names else "")
        for entry in stack.entries
    )
    behind = first_behind(stack, made)
    stack = stack._replace(entries=entries, locked=behind is None)
    notes = []
    if behind is not None:
        notes.append(
            f"{entries[behind].name} does not apply as it is: push it and resolve the conflict;"
            " until then the series is not locked"
        )
    if stack.locked and (files != old or not work.stack.locked):
        files[manifests.FILE] = manifests.render(_manifest(work, files, notes))
    return Published(stack, files, _report(old, files, earlier), tuple(notes))


def _is_patch(name: str) -> bool:
    return name.endswith(series_model.PATCH_SUFFIXES)


# --- the patches ------------------------------------------------------------------------------


def _texts(
    work: Work,
    stack: Stack,
    made: list[Commit],
    old: Mapping[str, bytes],
    earlier: Mapping[str, str],
) -> dict[str, bytes | None]:
    """Return the file of every patch, ``None`` for one that changes nothing."""
    found: dict[str, bytes | None] = {}
    todo: list[tuple[Entry, Commit]] = []
    for entry, commit in zip(stack.entries, made, strict=True):
        before = earlier.get(entry.name, entry.name)
        if entry.written == entry.commit and before in old:
            found[entry.name] = old[before]
        else:
            found[entry.name] = None
            todo.append((entry, commit))
    if not todo:
        return found
    below = work.checkout.read_commits([commit.parents[0] for _, commit in todo])
    pairs = [(under.tree, commit.tree) for under, (_, commit) in zip(below, todo, strict=True)]
    grown = []
    same = _unmoved(work, todo, pairs)
    for (entry, commit), change in zip(todo, work.checkout.changes(pairs), strict=True):
        if not change:
            continue
        if entry.name in same and (kept := _kept(entry, commit, old, earlier)):
            found[entry.name] = kept
            continue
        sides = [
            work.checkout.files({path: each[side] for path, each in change.items() if each[side]})  # type: ignore[misc]
            for side in (0, 1)
        ]
        patch = _before(entry, commit, old, earlier)
        grown.append(Grown(patch, sides[0], sides[1], {}))
    with work.checkout.merge_store() as store:
        for each, text in zip(grown, patch_texts(grown, store), strict=True):
            found[each.patch.name] = text
    return found


def _unmoved(
    work: Work, todo: Sequence[tuple[Entry, Commit]], pairs: Sequence[tuple[str, str]]
) -> set[str]:
    """Return the patches that change the same files from the same to the same as when written."""
    before = [(entry, pair) for (entry, _), pair in zip(todo, pairs, strict=True) if entry.written]
    tops = work.checkout.read_commits([entry.written for entry, _ in before])
    below = work.checkout.read_commits([commit.parents[0] for commit in tops])
    was = [(under.tree, commit.tree) for under, commit in zip(below, tops, strict=True)]
    changes = work.checkout.changes([*was, *(pair for _, pair in before)])
    both = zip(changes[: len(was)], changes[len(was) :], strict=True)
    return {entry.name for (entry, _), (a, b) in zip(before, both, strict=True) if a == b}


def _kept(
    entry: Entry, commit: Commit, old: Mapping[str, bytes], earlier: Mapping[str, str]
) -> bytes | None:
    """Return the bytes of a patch whose files are as they were, unless its header is to change."""
    data = old.get(earlier.get(entry.name, entry.name))
    if data is None:
        return None
    header = patch_files.parse(entry.name, data, entry.strip).header
    new = commits.header_for(commit, header, entry.name)
    return new + data.removeprefix(header.raw)


def _before(
    entry: Entry, commit: Commit, old: Mapping[str, bytes], earlier: Mapping[str, str]
) -> Patch:
    """Return the patch as it was, under the header that its commit asks for."""
    name = earlier.get(entry.name, entry.name)
    if entry.written and name in old:
        patch = patch_files.parse(name, old[name], entry.strip)
        header = commits.header_for(commit, patch.header, name)
        return replace(patch, name=entry.name, header=mail.read(header))
    header = commits.header_for(commit, None, entry.name)
    return patch_files.Patch(entry.name, header, mail.read(header), (), b"", entry.strip)


def _report(
    old: Mapping[str, bytes], new: Mapping[str, bytes], earlier: Mapping[str, str]
) -> tuple[Written, ...]:
    names = sorted(name for name in {*old, *new} if _is_patch(name))
    gone = set(earlier.values())
    said = []
    for name in names:
        before, after = old.get(earlier.get(name, name)), new.get(name)
        if name in gone and after is None:
            continue  # said under its new name
        kind = revision(before, after)
        if kind is not Revision.NONE or name in earlier:
            said.append(Written(name, kind, earlier.get(name, "")))
    return tuple(said)


# --- the manifest -----------------------------------------------------------------------------


def _manifest(work: Work, files: Mapping[str, bytes], notes: list[str]) -> Manifest:
    """Lock the series as it will lie there.

    The index is only asked where it may have something new to say: a file that was not touched
    before may be another one in a wheel.
    """
    from pseries.workflows.series import release as releases  # noqa: PLC0415 - network code

    folder = Path(work.stack.folder)
    location = catalog.Location(folder.parent, "beside the series")
    whole = {specs.FILE: (folder / specs.FILE).read_bytes(), **files}
    series = series_model.assemble(folder.name, str(folder), whole)
    require_base(work, series, location)
    known = series.manifest
    touched = {path for patch in series.patches for path in patch.paths}
    before = {file.path for patch in known.patches for file in patch.files} if known else set()
    plain = known is not None and touched <= before and not any(
        file.variants for patch in known.patches for file in patch.files
    )  # fmt: skip
    try:
        return releases.manifest_of(series, location, Means(offline=plain))
    except (ReleaseNotFound, Unreachable) as error:  # a release from a folder is on no index
        if isinstance(error, Unreachable):
            notes.append(f"locked without asking the index: {error}")
        return releases.manifest_of(series, location, Means(offline=True))
