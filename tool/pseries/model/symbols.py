"""Which function or class a line of Python stands in, and whether two sources are one program."""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_KEPT = 4
"""Trees that are kept: several questions are asked about a file in a row, and trees are large."""
_KNOWN = 1024
"""Files whose scopes are kept: a rebase asks for those of each result, and the lock again."""
MODULE = ""
"""The symbol of lines outside any function or class."""


class Scope(NamedTuple):
    """A function or class: its qualified name and its lines, decorators included, from 1."""

    name: str
    first: int
    last: int


@lru_cache(maxsize=_KEPT)
def parse(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a Python file, ``None`` where it is none to this interpreter.

    Whoever asks gets the same tree: it is only to be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in somebody else's strings
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def nodes_at(tree: ast.AST, lines: Collection[int]) -> Iterator[ast.AST]:
    """Yield the nodes below ``tree`` that hold one of the lines, and those that have no lines."""
    wanted = sorted(lines)
    pending = [tree]
    while pending:
        for node in children_at(pending.pop(), wanted):
            pending.append(node)
            yield node


def children_at(node: ast.AST, lines: Sequence[int] | None) -> Iterator[ast.AST]:
    """Yield the children of a node that hold one of the sorted lines, and those without lines.

    A tree is mostly what nobody asked for: to look at all of it takes as long as to parse it.
    ``None`` stands for every line.
    """
    for child in ast.iter_child_nodes(node):
        last = getattr(child, "end_lineno", None)
        if lines is not None and last is not None:
            at = bisect_left(lines, first_line(child))
            if at == len(lines) or lines[at] > last:
                continue
        yield child


def first_line(node: Any) -> int:
    """Return the first line of a node that has lines, decorators included."""
    marks = getattr(node, "decorator_list", None)
    first: int = node.lineno
    return min(first, marks[0].lineno) if marks else first


def scopes(tree: ast.Module) -> tuple[Scope, ...]:
    """Return every function and class of a module, outer ones before what they hold."""
    found: list[Scope] = []
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        for child in _statements(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                found.append(Scope(name, first_line(child), child.end_lineno or child.lineno))
                pending.append((child, f"{name}."))
            else:
                pending.append((child, prefix))
    return tuple(sorted(found, key=lambda scope: (scope.first, -scope.last)))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may hold a definition: expressions, nearly all there is of a tree, cannot."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        children = getattr(node, block, ())
        if isinstance(children, list):
            yield from children


def scopes_of(path: str | None, files: Mapping[str, tuple[int, bytes]]) -> tuple[Scope, ...] | None:
    """Return the scopes of a Python file, ``None`` where it is none, is absent or does not parse.

    Args:
        path: the file, ``None`` for no file.
        files: git mode and bytes by path.
    """
    if path is None or path not in files or not path.endswith((".py", ".pyi")):
        return None
    return scopes_in(files[path][1])


@lru_cache(maxsize=_KNOWN)
def scopes_in(data: bytes) -> tuple[Scope, ...] | None:
    """Return the scopes of a Python file's bytes, ``None`` where they do not parse."""
    tree = parse(data)
    return None if tree is None else scopes(tree)


def enclosing(known: tuple[Scope, ...], first: int, last: int) -> str:
    """Return the innermost scope that holds the lines ``first`` to ``last``, else the module."""
    name = MODULE
    for scope in known:  # outer before inner, so the last hit is the innermost
        if scope.first <= first and last <= scope.last:
            name = scope.name
    return name


def same_program(one: bytes, other: bytes) -> bool:
    """Say whether two sources have equal syntax trees: they differ in layout and comments only."""
    first, second = parse(one), parse(other)
    return first is not None and second is not None and ast.dump(first) == ast.dump(second)
