"""Which function or class a line of Python stands in, and whether two sources are one program."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MODULE = ""
"""The symbol of lines outside any function or class."""


class Scope(NamedTuple):
    """A function or class: its qualified name and its lines, decorators included, from 1."""

    name: str
    first: int
    last: int


def parse(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a Python file, ``None`` where it is none to this interpreter."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in somebody else's strings
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def scopes(tree: ast.Module) -> tuple[Scope, ...]:
    """Return every function and class of a module, outer ones before what they hold."""
    found: list[Scope] = []
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        for child in _statements(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([child.lineno, *(mark.lineno for mark in child.decorator_list)])
                name = f"{prefix}{child.name}"
                found.append(Scope(name, first, child.end_lineno or child.lineno))
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
    tree = parse(files[path][1])
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
