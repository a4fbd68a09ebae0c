"""Whether the calls that a file makes into given packages fit what is defined there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import Problem
from pseries.model import paths, symbols
from pseries.model.calls import call as calls
from pseries.model.calls import signature

if TYPE_CHECKING:
    from collections.abc import Collection

    from pseries.model.calls.call import Call
    from pseries.model.calls.definitions import Callee, Definitions
    from pseries.model.calls.signature import Misfit


_DEEP = "it is nested too deeply to be followed"


class CallMisfit(NamedTuple):
    """A call that does not fit: where it stands, what it calls, and what is wrong with it."""

    path: str
    line: int
    callee: str
    misfits: tuple[Misfit, ...]


class Bound(NamedTuple):
    """The calls of one or more files into packages.

    Attributes:
        calls: how many were compared with a signature.
        partly: how many of these have a ``*`` or ``**``, so that only the rest was compared.
        misfits: those that do not fit.
        unknown: those that could not be compared, and why.
    """

    calls: int = 0
    partly: int = 0
    misfits: tuple[CallMisfit, ...] = ()
    unknown: tuple[Problem, ...] = ()

    def __add__(self, other: object) -> Bound:
        if not isinstance(other, Bound):
            return NotImplemented
        return Bound(
            self.calls + other.calls,
            self.partly + other.partly,
            self.misfits + other.misfits,
            self.unknown + other.unknown,
        )


def bind(
    path: str, data: bytes, module: str, packages: Collection[str], definitions: Definitions
) -> Bound:
    """Compare a file's calls into packages with their signatures.

    A call that may go to several definitions is reported only if it fits none of them, and not if
    a call of something of that name in the other part of an ``if`` or ``try`` around it fits: the
    program asks there what is installed.

    Args:
        path: the file, for what is reported.
        data: its bytes.
        module: its dotted name; that of a package ends in ``.__init__``.
        packages: the top-level names that count.
        definitions: of these packages, and of the file's own.
    """
    shown = paths.display(path)
    tree = symbols.parse(data)
    if tree is None:
        return Bound(unknown=(Problem(shown, "it does not parse, so its calls are not known"),))
    try:
        found_calls = calls.calls(tree, module, definitions)
    except RecursionError:
        return Bound(unknown=(Problem(shown, f"{_DEEP}, so its calls are not known"),))
    partly = 0
    fitting: list[Call] = []
    wrong: list[tuple[Call, CallMisfit]] = []
    unknown: list[Problem] = []
    for call in found_calls:
        try:
            callees, doubts = definitions.callees(call)
        except RecursionError:
            unknown.append(Problem(f"{shown}:{call.line}", f"{call.written}(): {_DEEP}"))
            continue
        reached = {*(each.path for each in callees), *(each.path for each in doubts)}
        if not any(_top(each) in packages for each in reached):
            continue
        if doubts:
            unknown.append(Problem(f"{shown}:{call.line}", f"{call.written}(): {doubts[0].why}"))
            continue
        partly += call.arguments.rest or call.arguments.mapping
        found = _misfit(call, callees)
        if found:
            wrong.append((call, CallMisfit(shown, call.line, callees[0].path, found)))
        else:
            fitting.append(call)
    alternatives = calls.Alternatives(fitting)
    misfits = tuple(misfit for call, misfit in wrong if call not in alternatives)
    return Bound(len(fitting) + len(wrong), partly, misfits, tuple(unknown))


def _misfit(call: Call, callees: tuple[Callee, ...]) -> tuple[Misfit, ...]:
    found: tuple[Misfit, ...] = ()
    for callee in callees:
        misfits = signature.misfits(call.arguments, callee.signature, callee.keywords)
        if not misfits:
            return ()
        found = found or misfits
    return found


def _top(path: str) -> str:
    return path.partition(".")[0]
