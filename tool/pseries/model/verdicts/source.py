"""A text as the judges of a change see it: its lines, and where in the program each one stands."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pseries.model import symbols
from pseries.model.diff.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pseries.model.verdicts.align import Span

_KEPT = 32
"""Outlines that are kept: a series changes the same few files again and again."""
_MARK = "@"
"""Between a qualified name and what tells its namesakes apart; no name can hold it."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What the syntax tree says about the lines of a Python file.

    Attributes:
        scopes: its functions and classes, outer ones before what they hold. Namesakes (a property
            and its setter) have their decorators behind the name.
        blocks: ranges of lines, from 0, of its compound statements, outer ones first.
        inside: lines, from 0, that go on with a logical line begun above.
    """

    scopes: tuple[symbols.Scope, ...]
    blocks: tuple[Span, ...]
    inside: frozenset[int]


@dataclass(frozen=True, eq=False)
class Source:
    """A file's lines and the place of each; ``outline`` is ``None`` where only the text counts.

    Compared by identity: :func:`read` gives the same source for the same bytes.
    """

    lines: tuple[bytes, ...]
    places: tuple[str, ...]
    outline: Outline | None

    @property
    def data(self) -> bytes:
        """The text."""
        return b"".join(self.lines)

    def places_in(self, span: Span) -> frozenset[str]:
        """Return the places of those lines of ``span`` that are not blank."""
        return frozenset(
            self.places[at]
            for at in range(*span)
            if at < len(self.lines) and self.lines[at].strip()
        )

    def names(self) -> frozenset[str]:
        """Return the places that there are."""
        return frozenset(self.places) | {
            scope.name for scope in (self.outline.scopes if self.outline else ())
        }


@lru_cache(maxsize=_KEPT)
def read(data: bytes, *, python: bool) -> Source:
    """Return the source of a file; ``python`` says whether its name is one of Python."""
    lines = split_lines(data)
    outline = outline_of(data) if python else None
    places = [symbols.MODULE] * len(lines)
    for scope in outline.scopes if outline else ():
        places[scope.first - 1 : scope.last] = [scope.name] * (scope.last - scope.first + 1)
    return Source(tuple(lines), tuple(places), outline)


def is_python(path: str) -> bool:
    """Say whether a file is Python by its name."""
    return path.endswith((".py", ".pyi"))


def symbol(place: str) -> str:
    """Return the qualified name in a place."""
    return place.partition(_MARK)[0]


@lru_cache(maxsize=_KEPT)
def outline_of(data: bytes) -> Outline | None:
    """Return the outline of a Python file, ``None`` where its lines are not those of its tree.

    That is so where it does not parse, and where a CR alone ends lines for Python but not for git.
    """
    if b"\r" in data and b"\r" in data.replace(b"\r\n", b"\n"):
        return None
    tree = symbols.parse(data)
    return None if tree is None else _outline(tree)


def _outline(tree: ast.Module) -> Outline:
    found: list[tuple[str, ast.AST, Span]] = []
    blocks: list[Span] = []
    inside: set[int] = set()
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        for child in _statements(node):
            low, high = _span(child)
            bodies = [part for part in _parts(child) if part]
            if not bodies:
                inside.update(range(low + 1, high))
                continue
            inside.update(range(low + 1, _span(bodies[0][0])[0]))
            if isinstance(child, ast.stmt):
                blocks.append((low, high))
            name = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.append((f"{prefix}{child.name}", child, (low, high)))
                name = f"{prefix}{child.name}."
            pending.append((child, name))
    return Outline(tuple(_scopes(found)), tuple(sorted(blocks)), frozenset(inside))


def _statements(node: ast.AST) -> Iterator[Any]:
    """Yield the statements in a node, and the handlers and cases that hold others."""
    for part in _parts(node):
        yield from part


def _parts(node: ast.AST) -> Iterator[Sequence[Any]]:
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        part = getattr(node, field, None)
        if isinstance(part, list):
            yield part


def _span(node: Any) -> Span:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno - 1, _span(node.body[-1])[1]
    first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", ()))])
    return first - 1, node.end_lineno


def _scopes(found: list[tuple[str, ast.AST, Span]]) -> list[symbols.Scope]:
    count: dict[str, int] = {}
    for name, _, _ in found:
        count[name] = count.get(name, 0) + 1
    scopes = []
    for name, node, (low, high) in found:
        marks = ",".join(map(ast.unparse, getattr(node, "decorator_list", ())))
        label = f"{name}{_MARK}{marks}" if count[name] > 1 and marks else name
        scopes.append(symbols.Scope(label, low + 1, high))
    return sorted(scopes, key=lambda scope: (scope.first, -scope.last))
