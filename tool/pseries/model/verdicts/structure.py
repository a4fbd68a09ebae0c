"""Three-way merge of Python by syntax, the check on merges by text.

A syntax tree is turned into a *shape*: nested tuples that compare and hash, without positions and
layout. Two sides are merged part by part, and only where the parts are independent: different
statements, different arguments of a call, different branches. What both sides touched in one
expression, and what has an order that nothing decides, is a clash: no merge is better than a
plausible one.
"""

from __future__ import annotations

import ast
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from pseries.model.verdicts import align

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Shape = tuple[Any, ...]
"""``(kind, part, part, …)``; a list of things has the kind ``"[]"``, a constant ``"Constant"``."""

_CLOSE = 0.8
"""Likeness from which on two names may be one name, changed."""
_STATEMENTS = frozenset(kind.__name__ for kind in ast.stmt.__subclasses__())
_LEAVES = frozenset({"=", "Constant", "Name", "None"})
NOTHING: Shape = ("None",)
_LIST = "[]"

_POSITIONAL = frozenset(
    {"args", "posonlyargs", "bases", "targets", "items", "decorator_list", "members"}
)
"""Lists whose members mean something by their number: two sides may not both change that."""
_UNORDERED = frozenset({"names", "keywords", "kwonlyargs"})

_WHOLE = frozenset(
    {
        "Attribute", "AugAssign", "Await", "BinOp", "Compare", "Delete", "DictComp",
        "FormattedValue", "GeneratorExp", "Global", "IfExp", "ImportFrom", "Interpolation",
        "JoinedStr", "Lambda", "ListComp", "MatchAs", "MatchClass", "MatchMapping", "MatchOr",
        "MatchSequence", "NamedExpr", "Nonlocal", "SetComp", "Slice", "Starred", "Subscript",
        "TemplateStr", "UnaryOp", "alias", "comprehension", "pair", "withitem",
    }
)  # fmt: skip
"""Kinds whose parts make one meaning together: only one of them may have been changed by a side."""

_NAMED = frozenset(
    {
        "AnnAssign", "Assign", "AsyncFor", "AsyncFunctionDef", "AsyncWith", "Call", "ClassDef",
        "ExceptHandler", "For", "FunctionDef", "If", "Match", "While", "With", "match_case",
    }
)  # fmt: skip
"""Kinds whose first part says which one it is: with that and more changed, it is another one."""

_DEFINITIONS = ("FunctionDef", "AsyncFunctionDef", "ClassDef")
_HARMLESS_MARKS = frozenset({"property", "staticmethod", "classmethod", "cached_property"})

_FIELDS: dict[str, tuple[str, ...]] = {
    "Call": ("func", "args", "keywords"),
    "Dict": ("pairs",),
    "pair": ("key", "value"),
    "arguments": ("posonlyargs", "args", "vararg", "kwonlyargs", "kwarg"),
    "param": ("arg", "default"),
    "Module": ("body",),
    "Tuple": ("members",),
}
"""Names of the parts of kinds that are not shaped field by field."""


class Clash(Exception):
    """Both sides changed the same thing, or things that depend on each other."""


def of(node: object) -> Shape:
    """Return the shape of a syntax tree or of a part of one."""
    if isinstance(node, ast.AST):
        special = _SPECIAL.get(type(node))
        if special is not None:
            return special(node)
        name = type(node).__name__
        fields = _fields(name, node)
        return (name, *(of(getattr(node, field, None)) for field in fields))
    if isinstance(node, list):
        return (_LIST, *map(of, node))
    return NOTHING if node is None else ("=", node)


def _fields(name: str, node: ast.AST) -> tuple[str, ...]:
    known = _FIELDS.get(name)
    if known is None:
        # ctx follows from where the node stands; type comments are comments
        known = tuple(field for field in node._fields if field not in {"ctx", "type_comment"})
        _FIELDS[name] = known
    return known


def _constant(node: Any) -> Shape:
    # 1, 1.0 and True are equal to Python, 0.0 and -0.0 too; their written forms are not
    return ("Constant", type(node.value).__name__, repr(node.value))


def _dict(node: Any) -> Shape:
    pairs = zip(node.keys, node.values, strict=True)
    return ("Dict", (_LIST, *(("pair", of(key), of(value)) for key, value in pairs)))


def _arguments(node: Any) -> Shape:
    positional = [*node.posonlyargs, *node.args]
    defaults = [None] * (len(positional) - len(node.defaults)) + node.defaults
    border = len(node.posonlyargs)
    params = _params(positional, defaults)
    return (
        "arguments",
        (_LIST, *params[:border]),
        (_LIST, *params[border:]),
        of(node.vararg),
        (_LIST, *_params(node.kwonlyargs, node.kw_defaults)),
        of(node.kwarg),
    )


def _params(names: Sequence[Any], defaults: Sequence[Any]) -> Shape:
    return tuple(
        ("param", of(name), of(value)) for name, value in zip(names, defaults, strict=True)
    )


_SPECIAL: dict[type[ast.AST], Callable[[Any], Shape]] = {
    ast.Constant: _constant,
    ast.Dict: _dict,
    ast.arguments: _arguments,
    ast.Module: lambda node: ("Module", of(node.body)),
    ast.Tuple: lambda node: ("Tuple", of(node.elts)),
}


def merge(base: Shape, ours: Shape, theirs: Shape) -> Shape:
    """Return the shape that holds the changes of both sides; raises :class:`Clash`."""
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    kind = base[0]
    if not kind == ours[0] == theirs[0] or kind in {_LIST, "=", "Constant", "None"}:
        raise Clash(kind)
    _check_independent(base, ours, theirs)
    names = _FIELDS.get(kind, ())
    return (
        kind,
        *(
            _merge_part(name, *parts)
            for name, *parts in zip(names, base[1:], ours[1:], theirs[1:], strict=True)
        ),
    )


def _check_independent(base: Shape, ours: Shape, theirs: Shape) -> None:
    """Raise :class:`Clash` if the parts that the two sides changed make one meaning together."""
    kind = base[0]
    by_ours, by_theirs = _changed(base, ours), _changed(base, theirs)
    if kind in _WHOLE and by_ours | by_theirs != by_ours & by_theirs:
        within = all(_within_call(base[at], ours[at]) for at in by_ours)
        if not within or not all(_within_call(base[at], theirs[at]) for at in by_theirs):
            raise Clash(kind)
    if kind in _NAMED:
        for one, other in ((by_ours, by_theirs), (by_theirs, by_ours)):
            if 1 in one and len(one) > 1 and other:
                raise Clash(kind)
    if kind == "BoolOp" and 1 in by_ours | by_theirs:
        raise Clash(kind)


def _changed(base: Shape, side: Shape) -> set[int]:
    if len(base) != len(side):
        raise Clash(base[0])
    return {at for at in range(1, len(base)) if base[at] != side[at]}


def _within_call(base: Shape, side: Shape) -> bool:
    """Say whether only the arguments of a call changed: its place in the expression is the same."""
    return base == side or (base[0] == side[0] == "Call" and base[1] == side[1])


def _merge_part(name: str, base: Shape, ours: Shape, theirs: Shape) -> Shape:
    if base[0] == ours[0] == theirs[0] == _LIST:
        return _merge_list(name, base[1:], ours[1:], theirs[1:])
    return merge(base, ours, theirs)


# --- lists ------------------------------------------------------------------------------------


def _merge_list(name: str, base: Shape, ours: Shape, theirs: Shape) -> Shape:
    """Merge members by their partners; what both sides put at one point needs a known order."""
    if theirs in (base, ours):
        return (_LIST, *ours)
    if ours == base:
        return (_LIST, *theirs)
    found = [
        (pairs(base, ours, upward=upward), pairs(base, theirs, upward=upward))
        for upward in (False, True)
    ]
    merged, *others = (
        _merge_by(name, (base, ours, theirs), *partners)
        for partners in found[: 1 + (found[0] != found[1])]
    )
    if others and others[0] != merged:
        raise Clash(name)  # equal members stand beside each other
    return merged


def _merge_by(
    name: str, sides: tuple[Shape, Shape, Shape], mine: list[int], other: list[int]
) -> Shape:
    """Merge members by one opinion on which are the same."""
    base, ours, theirs = sides
    if name in _POSITIONAL and _resized(base, ours, mine) and _resized(base, theirs, other):
        raise Clash(name)
    added_mine, added_other = _added(mine, ours), _added(other, theirs)
    merged: list[Shape] = [*_both_added(name, added_mine[0], added_other[0])]
    for at, member in enumerate(base):
        if mine[at] < 0 and other[at] < 0 and _replaced(member, at, mine, added_mine):
            raise Clash("removed")
        merged += _merge_member(
            member,
            _partner(ours, mine[at]),
            _partner(theirs, other[at]),
            near_ours=_depends(member, added_mine[at] + added_mine[at + 1]),
            near_theirs=_depends(member, added_other[at] + added_other[at + 1]),
        )
        merged += _both_added(name, added_mine[at + 1], added_other[at + 1])
    return (_LIST, *merged)


def _merge_member(
    base: Shape, ours: Shape | None, theirs: Shape | None, *, near_ours: bool, near_theirs: bool
) -> Iterable[Shape]:
    """Merge one member; ``near_…`` says whether that side put something right beside it."""
    if ours is None and theirs is None:
        return ()
    if ours is None:
        if theirs != base or near_theirs:
            raise Clash("removed")
        return ()
    if theirs is None:
        if ours != base or near_ours:
            raise Clash("removed")
        return ()
    return (merge(base, ours, theirs),)


def _depends(member: Shape, beside: Shape) -> bool:
    """Say whether what one side put beside a member may need it; imports do not need each other."""
    kinds = {member[0], *(one[0] for one in beside)}
    return bool(beside) and not kinds <= {"Import", "ImportFrom"}


def _replaced(member: Shape, at: int, partners: Sequence[int], added: Sequence[Shape]) -> bool:
    """Say whether a side put something else for a member, rather than just removing it."""
    while at < len(partners) and partners[at] < 0:
        at += 1
    if member[0] not in {"Import", "ImportFrom"}:
        return any(one[0] == member[0] for one in added[at])
    names = _imported((member,))
    return any(names & _imported((one,)) for one in added[at] if one[0] in {"Import", "ImportFrom"})


def _partner(side: Shape, at: int) -> Shape | None:
    return side[at] if at >= 0 else None


def _resized(base: Shape, side: Shape, partners: Sequence[int]) -> bool:
    return len(base) != len(side) or -1 in partners


def _added(partners: Sequence[int], side: Shape) -> list[Shape]:
    """Return what a side put before each member of the base, and behind the last one."""
    slots: list[Shape] = []
    at = 0
    gap: list[Shape] = []
    for partner in partners:
        if partner >= 0:
            gap += side[at:partner]
            at = partner + 1
        slots.append(tuple(gap))
        gap = []
    slots.append(side[at:])
    return slots


def _both_added(name: str, ours: Shape, theirs: Shape) -> Shape:
    if not ours or not theirs:
        return ours or theirs
    if ours == theirs:
        return ours
    if not _order_is_free(name, ours, theirs):
        raise Clash(name)
    return ours + theirs


def _order_is_free(name: str, ours: Shape, theirs: Shape) -> bool:
    """Say whether members of two sides may follow each other in either order.

    Not so if two of them look like one thing, written twice in different words.
    """
    if any(_similar(one, other) for one in ours for other in theirs):
        return False
    if name in _UNORDERED:
        mine, other = _bound(ours), _bound(theirs)
        return None not in mine | other and not mine & other
    if name != "body":
        return False
    members = (*ours, *theirs)
    kinds = {member[0] for member in members}
    if kinds <= {"Import", "ImportFrom"}:
        mine, other = _imported(ours), _imported(theirs)
        return "*" not in mine | other and not mine & other
    if not kinds <= set(_DEFINITIONS) or not all(_plain(member) for member in members):
        return False
    mine, other = ({member[1][1] for member in side} for side in (ours, theirs))
    return not mine & other


def _similar(one: Shape, other: Shape) -> bool:
    """Say whether all but one of the words of two members are the same, or nearly so."""
    if one[0] != other[0]:
        return False
    words, others = _words(one), _words(other)
    differ = [(mine, its) for mine, its in zip(words, others, strict=False) if mine != its]
    differ += [("", "")] * abs(len(words) - len(others))
    if len(differ) == 1:
        # one argument or name of its own is what tells members apart, so that says nothing yet
        return len(words) > 2 or _close(*differ[0])
    return len(differ) * 10 <= len(words) or (
        len(differ) == 2 and all(_close(mine, its) for mine, its in differ)
    )


def _close(one: str, other: str) -> bool:
    return SequenceMatcher(None, one, other, autojunk=False).ratio() >= _CLOSE


def _words(shape: Shape) -> list[str]:
    """Return the names and constants in a shape, in order."""
    found: list[str] = []
    for part in shape[1:]:
        if isinstance(part, tuple):
            found += _words(part)
        elif isinstance(part, str):
            found.append(part)
    return found


def _bound(members: Shape) -> set[str | None]:
    """Return the names of imported names, of keyword arguments or of keyword-only parameters."""
    found: set[str | None] = set()
    for member in members:
        if member[0] == "alias":
            found.add(_text(member[2]) or _text(member[1]))
        elif member[0] == "keyword":
            found.add(_text(member[1]))
        else:
            found.add(_text(member[1][1]))
    return found


def _imported(members: Shape) -> set[str | None]:
    return {name for member in members for part in member[1:] if part[0] == _LIST
            for name in _bound(part[1:])}  # fmt: skip


def _text(part: Shape) -> str | None:
    return part[1] if part[0] == "=" else None


def _plain(definition: Shape) -> bool:
    """Say whether defining something does nothing else, as far as its decorators tell."""
    marks = definition[_FIELDS[definition[0]].index("decorator_list") + 1]
    return all(mark[0] == "Name" and _text(mark[1]) in _HARMLESS_MARKS for mark in marks[1:])


# --- which members are the same ---------------------------------------------------------------


def pairs(base: Shape, side: Shape, *, upward: bool = False) -> list[int]:
    """Return for each member of ``base`` its partner in ``side``: equal or recognisably changed."""
    match = align.align(base, side, upward=upward)
    for edit in align.edits(list(match), len(side)):
        _pair_changed(base, side, edit, match)
    return match


def _pair_changed(base: Shape, side: Shape, edit: align.Edit, match: list[int]) -> None:
    (old_lo, old_hi), (new_lo, new_hi) = edit.old, edit.new
    if old_lo == old_hi or new_lo == new_hi:
        return
    keys = align.align(
        [_key(member) for member in base[old_lo:old_hi]],
        [_key(member) for member in side[new_lo:new_hi]],
    )
    for rest in [*align.edits(keys, new_hi - new_lo)]:
        old, new = range(*rest.old), range(*rest.new)
        if len(old) == len(new) and all(
            _related(base[old_lo + one], side[new_lo + other])
            for one, other in zip(old, new, strict=True)
        ):
            for one, other in zip(old, new, strict=True):
                keys[one] = other
    for at, partner in enumerate(keys):
        if partner >= 0:
            match[old_lo + at] = new_lo + partner


def _related(base: Shape, side: Shape) -> bool:
    """Say whether a member can be the other one, changed: they have a part in common, or none."""
    if base[0] not in _STATEMENTS and side[0] not in _STATEMENTS:
        return True  # one operand or argument for another
    while base[0] == side[0] and len(base) == len(side) == 2 and isinstance(base[1], tuple):
        base, side = base[1], side[1]
    if base[0] != side[0]:
        return False
    if base[0] in _LEAVES:
        return True
    return any(
        one == other and one not in {NOTHING, (_LIST,)}
        for one, other in zip(base[1:], side[1:], strict=False)
    )


def _key(member: Shape) -> Shape:
    """Return what a member is recognised by when it has changed."""
    kind = member[0]
    if kind in _DEFINITIONS or kind in {"keyword", "alias", "ImportFrom", "If", "While", "Assign",
                                        "AnnAssign", "AugAssign", "pair"}:  # fmt: skip
        return (kind, member[1])
    if kind in {"For", "AsyncFor"}:
        return (kind, member[1], member[2])
    if kind in {"With", "AsyncWith", "ExceptHandler", "match_case"}:
        return (kind, member[1])
    if kind == "param":
        return (kind, member[1][1])
    if kind == "Expr":
        inner = member[1][1] if member[1][0] == "Await" else member[1]
        return (kind, inner[0], inner[1] if inner[0] == "Call" else None)
    return (kind,)
