"""Whether a call fits a signature, by what is written: names, positions and counts, no values.

The rules are those of Python's own binding ("Calls" in the language reference). One rule is more
than Python's: a parameter that was inserted in the middle makes every later positional argument
mean another parameter, and Python says nothing. It shows in the words of the call: they name
parameters further on.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

_FEWEST = 2
"""Arguments that must name a parameter further on; one alone is named so by chance now and then."""


class Kind(Enum):
    """How a parameter can be given."""

    POSITION = "by position"
    EITHER = "by position or keyword"
    KEYWORD = "by keyword"
    REST = "*"
    MAPPING = "**"


class Parameter(NamedTuple):
    """A parameter of a signature."""

    name: str
    kind: Kind
    required: bool


def of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[Parameter, ...]:
    """Return the signature that a definition is written with."""
    given = function.args
    places = [(each.arg, Kind.POSITION) for each in given.posonlyargs]
    places += [(each.arg, Kind.EITHER) for each in given.args]
    needed = len(places) - len(given.defaults)
    found = [Parameter(name, kind, at < needed) for at, (name, kind) in enumerate(places)]
    if given.vararg is not None:
        found.append(Parameter(given.vararg.arg, Kind.REST, False))
    found += [
        Parameter(each.arg, Kind.KEYWORD, default is None)
        for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg is not None:
        found.append(Parameter(given.kwarg.arg, Kind.MAPPING, False))
    return tuple(found)


class Arguments(NamedTuple):
    """What a call gives.

    Attributes:
        positions: the word by which each positional argument says what it is: the name of a
            variable or of an attribute, "" for any other expression. They end at a ``*``.
        rest: whether there is a ``*``, so that more may follow.
        keywords: the names, in order.
        mapping: whether there is a ``**``, so that more may be given by keyword.
    """

    positions: tuple[str, ...]
    rest: bool = False
    keywords: tuple[str, ...] = ()
    mapping: bool = False


class Fault(Enum):
    """What is wrong with a call."""

    UNEXPECTED = "unexpected keyword"
    TOO_MANY = "too many arguments"
    MISSING = "missing argument"
    TWICE = "argument given twice"
    SHIFTED = "shifted argument"


class Misfit(NamedTuple):
    """One thing about a call that does not fit, and in words which."""

    fault: Fault
    what: str


def misfits(
    call: Arguments, signature: tuple[Parameter, ...], known: frozenset[str] = frozenset()
) -> tuple[Misfit, ...]:
    """Return what of a call does not fit a signature.

    Args:
        call: what is given.
        signature: of the function, without a ``self`` that Python fills in.
        known: further keywords that something around the function takes.
    """
    kinds = {parameter.kind for parameter in signature}
    places = tuple(each for each in signature if each.kind in (Kind.POSITION, Kind.EITHER))
    taken = {each.name for each in places[: len(call.positions)]}
    found: list[Misfit] = []
    if len(call.positions) > len(places) and Kind.REST not in kinds:
        what = f"{len(call.positions)} arguments by position, but it takes {len(places)}"
        found.append(Misfit(Fault.TOO_MANY, what))
    named = {each.name for each in signature if each.kind in (Kind.EITHER, Kind.KEYWORD)}
    for name in call.keywords:
        if name in named:
            if name in taken:
                found.append(Misfit(Fault.TWICE, f"{name!r} is given by position and by keyword"))
            taken.add(name)
        elif Kind.MAPPING not in kinds and name not in known:
            found.append(Misfit(Fault.UNEXPECTED, f"it has no parameter {name!r}"))
    found += [
        Misfit(Fault.MISSING, f"{each.name!r} is not given")
        for each in signature
        if _must_be_given(each, call) and each.name not in taken
    ]
    found += _shifted(call, places)
    return tuple(found)


def _must_be_given(parameter: Parameter, call: Arguments) -> bool:
    if not parameter.required or parameter.kind in (Kind.REST, Kind.MAPPING):
        return False
    by_rest = call.rest and parameter.kind in (Kind.POSITION, Kind.EITHER)
    by_mapping = call.mapping and parameter.kind in (Kind.EITHER, Kind.KEYWORD)
    return not (by_rest or by_mapping)


def _shifted(call: Arguments, places: tuple[Parameter, ...]) -> Iterator[Misfit]:
    """Yield where the arguments begin to name parameters other than those they land in.

    Only where an earlier one is in its place, and from there on every one that names a parameter
    is off in the same direction and never by less than the one before: so do insertions and
    removals look, and neither arguments that were swapped nor a call about other things.
    """
    index = {each.name: at for at, each in enumerate(places)}
    told = [(at, word, index[word] - at) for at, word in enumerate(call.positions) if word in index]
    first = next((number for number, (_, _, off) in enumerate(told) if off), None)
    if not first or len(told) - first < _FEWEST:
        return
    offsets = [off for _, _, off in told[first:]]
    sign = 1 if offsets[0] > 0 else -1
    sizes = [off * sign for off in offsets]
    if min(sizes) <= 0 or sizes != sorted(sizes):
        return
    at, word, _ = told[first]
    lands = f"lands in {places[at].name!r}" if at < len(places) else "is one too many"
    more = len(told) - first - 1
    yield Misfit(
        Fault.SHIFTED,
        f"argument {at + 1}, {word!r}, {lands}, and {more} more after it are shifted likewise",
    )
