"""Following a function or class that upstream moved: to another file, or within its own.

A home is found by the qualified name and by likeness, never by likeness alone, and only where the
old release had nothing of that name: a look-alike in a sibling module has always been there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pseries.model import paths
from pseries.model.diff.lines import split_lines
from pseries.model.verdicts import align, conflict, faults, reading, source
from pseries.model.verdicts.judge import judge
from pseries.model.verdicts.verdict import FileVerdict, HunkVerdict, Labels, Verdict, overall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pseries.model.diff.hunk import Hunk
    from pseries.model.symbols import Scope
    from pseries.model.verdicts.align import Edit, Span
    from pseries.model.verdicts.source import Source

_LIKENESS = 0.6
"""Share of lines that a moved function must have in common with what it was."""
_LEAD = 0.15
"""By how much the best home must be better than the next one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A function or class of the patch that the new release does not have where it was.

    ``pattern`` is a POSIX extended regular expression for ``git grep -l -E``: files of the new
    release with a line that matches are the candidates.
    """

    name: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file in which a moved function may be.

    Attributes:
        old: its bytes in the old release, ``None`` if there was no such file.
        new: its bytes in the new release, earlier patches made.
    """

    old: bytes | None
    new: bytes


@dataclass(frozen=True, slots=True)
class _Home:
    """Where a scope of the base is now."""

    path: str
    old: Scope
    new: Scope
    likeness: float


@dataclass(frozen=True, slots=True)
class _Move:
    """What all moved scopes of a file have in common."""

    path: str
    new_path: str
    old: Source
    patched: Source
    labels: Labels
    spans: Sequence[Span]


def wanted(path: str, base: bytes, ours: bytes | None, theirs: bytes) -> tuple[Wanted, ...]:
    """Return what a patch changes in a file and upstream no longer has there.

    Args:
        path: the file in the old release.
        base: the file as the patch finds it.
        ours: the file in the new release, ``None`` if it is gone.
        theirs: the file as the patch leaves it.
    """
    if not source.is_python(path):
        return ()
    old, new, patched = (source.read(side or b"", python=True) for side in (base, ours, theirs))
    if old.outline is None or patched.outline is None or new.outline is None:
        return ()
    kept = {scope.name for scope in new.outline.scopes}
    tops = {_top(place) for edit in _edits(old, patched) for place in _places(old, patched, edit)}
    names = sorted(top for top in tops if top and top not in kept)
    return tuple(
        Wanted(name, rf"^[[:space:]]*(async +def|def|class) +{name} *[(:[]") for name in names
    )


def follow(
    path: str,
    base: bytes,
    ours: bytes | None,
    theirs: bytes,
    candidates: Mapping[str, Candidate],
    *,
    new_path: str | None = None,
    labels: Labels | None = None,
    hunks: Sequence[Hunk] = (),
) -> tuple[FileVerdict, ...] | None:
    """Carry changes to functions and classes to where upstream moved them.

    To be asked where :func:`pseries.model.verdicts.judge.judge` stops; ``None`` means that nothing
    is to be followed and its verdict stands.

    Args:
        path: the file in the old release.
        base: the file as the patch finds it.
        ours: the file in the new release, ``None`` if it is gone.
        theirs: the file as the patch leaves it.
        candidates: files of the new release that match a pattern of :func:`wanted`, by path.
        new_path: where the file is in the new release, if upstream renamed it.
        labels: what the three sides are called.
        hunks: the patch's hunks for this file, for their numbers.

    Returns:
        A verdict on each file concerned: first the file itself, with what of the patch stays
        there, then the new homes.
    """
    here = new_path or path
    labels = labels or Labels()
    old, new, patched = (source.read(side or b"", python=True) for side in (base, ours, theirs))
    python = source.is_python(path) and source.is_python(here)
    if not python or None in (old.outline, new.outline, patched.outline):
        return None
    edits = _edits(old, patched)
    moves: dict[_Home, list[Edit]] = {}
    rest: list[Edit] = []
    for edit in edits:
        home = _home(here, edit, (old, new, patched), candidates)
        if home is None:
            rest.append(edit)
        else:
            moves.setdefault(home, []).append(edit)
    if not moves:
        return None
    spans = [
        (hunk.first_old - 1, hunk.first_old - 1 + hunk.old_count) for hunk in hunks
    ] or reading.hunk_spans(edits)
    texts = {home.path: candidates[home.path].new for home in moves if home.path != here}
    texts[here] = ours or b""
    move = _Move(path, here, old, patched, labels, spans)
    stays = _stay(move, ours, rest)
    verdicts = {here: _renumbered(stays, spans)}
    if stays.data is not None:
        texts[here] = stays.data
    for home in sorted(moves, key=lambda one: (one.path, -one.new.first)):
        said = _carry(move, home, texts[home.path])
        if said.data is not None:
            texts[home.path] = said.data
        verdicts[home.path] = _joined(verdicts.get(home.path), said)
    if ours is None and not rest:
        verdicts[here] = replace(verdicts[here], data=None)
    return tuple(verdicts[one] for one in [here, *(other for other in verdicts if other != here)])


# --- where things are -------------------------------------------------------------------------


def _edits(old: Source, new: Source) -> list[Edit]:
    return reading.edits_between(old, new, placed=True, upward=False)


def _top(place: str) -> str:
    return source.symbol(place).partition(".")[0]


def _places(old: Source, new: Source, edit: Edit) -> frozenset[str]:
    return new.places_in(edit.new) | old.places_in(edit.old)


def _home(
    path: str,
    edit: Edit,
    sides: tuple[Source, Source, Source],
    candidates: Mapping[str, Candidate],
) -> _Home | None:
    """Return where the scope that an edit is in has moved to, ``None`` if it has not."""
    old, new, patched = sides
    places = _places(old, patched, edit)
    names = _common([source.symbol(place) for place in places])
    if not names or not places:
        return None
    if _scope(new, names[0]) is not None:
        return _within(path, names, old, new)
    top = names[0]
    was = _scope(old, top)
    if was is None or _scope(patched, top) is None:
        return None
    homes = []
    for other, candidate in candidates.items():
        there = _scope(source.read(candidate.new, python=True), top)
        before = source.read(candidate.old or b"", python=True)
        if other == path or there is None or top in before.names():
            continue
        likeness = _likeness(old, was, source.read(candidate.new, python=True), there)
        homes.append(_Home(other, was, there, likeness))
    homes.sort(key=lambda home: -home.likeness)
    if not homes or homes[0].likeness < _LIKENESS:
        return None
    if len(homes) > 1 and homes[0].likeness - homes[1].likeness < _LEAD:
        return None
    return homes[0]


def _within(path: str, names: list[str], old: Source, new: Source) -> _Home | None:
    """Return where in its own file a scope has moved to."""
    match = align.align(old.lines, new.lines, (old.places, new.places))
    for length in range(len(names), 0, -1):
        name = ".".join(names[:length])
        was, now = _scope(old, name), _scope(new, name)
        if was is None or now is None:
            continue
        kept = sum(match[at] >= 0 for at in range(was.first - 1, was.last))
        likeness = _likeness(old, was, new, now)
        if 2 * kept < was.last - was.first + 1 and likeness >= _LIKENESS:
            return _Home(path, was, now, likeness)
        return None
    return None


def _common(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    common, *others = (name.split(".") for name in names)
    for other in others:
        same = [one == two for one, two in zip(common, other, strict=False)]
        common = common[: same.index(False) if False in same else len(same)]
    return [part for part in common if part]


def _scope(side: Source, name: str) -> Scope | None:
    """Return the one scope of that name, ``None`` if there is none or more than one."""
    scopes = side.outline.scopes if side.outline else ()
    found = [scope for scope in scopes if source.symbol(scope.name) == name]
    return found[0] if len(found) == 1 else None


def _likeness(old: Source, was: Scope, new: Source, now: Scope) -> float:
    one = [line.strip() for line in old.lines[was.first - 1 : was.last] if align.solid(line)]
    other = [line.strip() for line in new.lines[now.first - 1 : now.last] if align.solid(line)]
    shared = sum(partner >= 0 for partner in align.align(one, other))
    return 2 * shared / max(1, len(one) + len(other))


# --- carrying ---------------------------------------------------------------------------------


def _stay(move: _Move, ours: bytes | None, rest: list[Edit]) -> FileVerdict:
    """Judge what is not followed."""
    if not rest:
        return FileVerdict(move.path, move.new_path, Verdict.CLEAN, ours or b"")
    lines: list[bytes] = []
    done = 0
    for edit in rest:
        lines += [*move.old.lines[done : edit.old[0]], *move.patched.lines[slice(*edit.new)]]
        done = edit.old[1]
    theirs = b"".join([*lines, *move.old.lines[done:]])
    return judge(
        move.path, move.old.data, ours, theirs,
        merged=None, new_path=move.new_path, labels=move.labels,
    )  # fmt: skip


def _carry(move: _Move, home: _Home, text: bytes) -> FileVerdict:
    """Merge one moved scope where it is now."""
    there = source.read(text, python=True)
    name = source.symbol(home.old.name)
    now, new = _scope(there, name), _scope(move.patched, name)
    why = (
        f"{name} moved from {paths.display(move.path)} to {paths.display(home.path)}:"
        f"{home.new.first}; "
        f"{home.likeness:.0%} of its lines are the same"
    )
    if now is None or new is None:
        return FileVerdict(move.path, home.path, Verdict.CONFLICT, None, evidence=(why,))
    around = [
        b" " * depth + b"class " + paths.encode(part) + b":\n"
        for depth, part in enumerate(name.split(".")[:-1])
    ]
    pieces = [
        list(side.lines[scope.first - 1 : scope.last])
        for side, scope in ((move.old, home.old), (there, now), (move.patched, new))
    ]
    base, ours, theirs = (b"".join(around + piece) for piece in pieces)
    above = home.old.first - 1 - len(around), now.first - 1 - len(around)
    said = judge(
        move.path, base, ours, theirs,
        merged=None, new_path=home.path, labels=move.labels, above=above,
    )  # fmt: skip

    def embedded(piece: bytes) -> bytes:
        inner = split_lines(piece)[len(around) :]
        return b"".join([*there.lines[: now.first - 1], *inner, *there.lines[now.last :]])

    data = None if said.data is None else embedded(said.data)
    text_shown = None if said.conflict is None else embedded(said.conflict)
    if data is not None and said.verdict is not Verdict.MERGED:
        sides = text, move.patched.data
        known = {use.name for side in sides for use in faults.undefined(side)}
        missing = sorted({use.name for use in faults.undefined(data)} - known)
        if missing:
            why += f"; there {missing[0]!r} is not defined"
            marked = conflict.marked(pieces[0], pieces[1], pieces[2], move.labels)
            data, text_shown = None, embedded(b"".join([*around, *marked]))
            said = replace(said, verdict=Verdict.CONFLICT)
    hunks = tuple(_followed(hunk, why) for hunk in _renumbered(said, move.spans).hunks)
    verdict = said.verdict if data is None else overall(hunk.verdict for hunk in hunks)
    return FileVerdict(move.path, home.path, verdict, data, hunks, text_shown, (why,))


def _followed(hunk: HunkVerdict, why: str) -> HunkVerdict:
    carried = not hunk.verdict.stops and hunk.verdict is not Verdict.MERGED
    verdict = Verdict.FOLLOWED if carried else hunk.verdict
    return replace(hunk, verdict=verdict, evidence=(why, *hunk.evidence))


def _renumbered(said: FileVerdict, spans: Sequence[Span]) -> FileVerdict:
    """Return a verdict on a piece with the hunk numbers of the whole."""

    def number(line: int) -> int:
        away = [max(low + 1 - line, line - high, 0) for low, high in spans]
        return away.index(min(away)) + 1

    hunks = tuple(replace(hunk, number=number(hunk.old_line)) for hunk in said.hunks)
    return replace(said, hunks=hunks)


def _joined(one: FileVerdict | None, other: FileVerdict) -> FileVerdict:
    """Return one verdict on a file from those on two of its pieces; the later text counts."""
    if one is None or not one.hunks:
        return other
    verdict = overall([one.verdict, other.verdict])
    return FileVerdict(
        other.path,
        other.new_path,
        verdict,
        None if verdict.stops else other.data,
        tuple(sorted((*one.hunks, *other.hunks), key=lambda hunk: hunk.number)),
        other.conflict or one.conflict,
        (*one.evidence, *other.evidence),
    )
