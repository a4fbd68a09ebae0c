"""What is wrong with a file after a change although the change applied: it would not run.

Only what the change brings is reported. Names are looked up generously, anything that might bind
one counts, so that what is reported is really missing.
"""

from __future__ import annotations

import ast
import builtins
import warnings
from collections import Counter
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pseries.errors import Problem
from pseries.model import paths, symbols
from pseries.model.calls import call as calls
from pseries.model.calls import signature
from pseries.model.diff.lines import split_lines
from pseries.model.verdicts import align, source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pseries.model.calls.call import Meaning
    from pseries.model.calls.signature import Parameter

_KNOWN = frozenset(dir(builtins)) | {
    "__file__", "__name__", "__doc__", "__path__", "__spec__", "__loader__", "__package__",
    "__builtins__", "__class__", "__qualname__", "__module__", "__annotations__", "__all__",
    "WindowsError",
}  # fmt: skip
_NAMING = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef,
    ast.ExceptHandler, ast.MatchAs, ast.MatchStar,
)  # fmt: skip
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_FAR = (b'"""', b"'''", b"__future__", b"global ")
"""What has a say in lines further away: quotes make text of them, or code."""


class Resolver(Protocol):
    """What the new release has, as far as imports go."""

    def exists(self, module: str) -> bool | None:
        """Say whether a module is there; ``None`` if it is not one of the distribution's own."""

    def now(self, module: str) -> str | None:
        """Return the file that a module that is not there has become, ``None`` if none has."""

    def names(self, module: str) -> frozenset[str] | None:
        """Return the names at a module's top level; ``None`` if that cannot be told."""

    def functions(self, module: str) -> Mapping[str, tuple[Parameter, ...]]:
        """Return the signatures of a module's plain functions; none where it is not known."""


@dataclass(frozen=True, slots=True)
class Use:
    """A name that is read where nothing binds it."""

    name: str
    line: int


def broken(
    files: Mapping[str, tuple[bytes | None, bytes | None]], resolver: Resolver, root: str = ""
) -> tuple[Problem, ...]:
    """Return what a change breaks in the Python files that it touches.

    Args:
        files: by path, the bytes before the change (``None`` for a new file) and after it
            (``None`` for a deleted one).
        resolver: answers for the new release with the whole change made.
        root: the folder of the tree that holds the top-level packages.
    """
    problems: list[Problem] = []
    for path, (before, after) in sorted(files.items()):
        if source.is_python(path) and after is not None and before != after:
            problems += _file(path, before or b"", after, resolver, root)
    return tuple(problems)


def _file(
    path: str, before: bytes, after: bytes, resolver: Resolver, root: str
) -> Iterator[Problem]:
    shown = paths.display(path)
    if (problem := not_compiling(path, before, after)) is not None:
        yield problem
        return
    tree = symbols.parse(after)
    if tree is None:
        return
    added = _added(before, after)
    missing = _missing_imports(symbols.nodes_at(tree, added), module_name(path, root), resolver)
    for name, line in sorted(missing):
        if line in added:
            yield Problem(f"{shown}:{line}", name)
    for use in undefined(after, added):
        what = f"{use.name!r} is used, but nothing in the file defines it"
        yield Problem(f"{shown}:{use.line}", what)
    yield from _wrong_calls(shown, tree, module_name(path, root), added, resolver)


def not_compiling(path: str, before: bytes, after: bytes) -> Problem | None:
    """Return why a change keeps a Python file from compiling, ``None`` if it does not.

    Functions and classes that the change left alone compile as they did, so the rest is looked at.
    """
    tree = symbols.parse(after)
    fault = _error_in(after if tree is None else _changed(tree, before, after))
    if fault is None or compile_error(before) is not None:
        return None
    return Problem(f"{paths.display(path)}:{fault[0]}", f"does not compile: {fault[1]}")


def _changed(tree: ast.Module, before: bytes, after: bytes) -> ast.Module:
    """Return a module without the functions and classes that stand as they are in ``before``."""
    old, new = split_lines(before), split_lines(after)
    head, tail = align.common_ends(old, new)
    touched = b"".join((*old[head : len(old) - tail], *new[head : len(new) - tail]))
    if any(each in touched for each in _FAR) or _hangs_together(after):
        return tree
    lines = range(head, len(new) - tail + 2)  # from 1, and a line more at either side
    return ast.Module(_statements_at(tree.body, lines), tree.type_ignores)


def _hangs_together(data: bytes) -> bool:
    """Say whether a file cannot be looked at in parts.

    A function with ``nonlocal`` depends on what is around it; and Python ends a line at CR, too.
    """
    return b"nonlocal" in data or data.count(b"\r") != data.count(b"\r\n")


def _statements_at(body: Sequence[ast.stmt], lines: range) -> list[ast.stmt]:
    """Return statements, of functions and classes those that stand in the lines.

    What such a class holds is chosen alike.
    """
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, _SCOPES):
            last = node.end_lineno or node.lineno
            if last < lines.start or symbols.first_line(node) >= lines.stop:
                continue
        found.append(copy(node))
        if isinstance(kept := found[-1], ast.ClassDef):
            kept.body = _statements_at(kept.body, lines) or kept.body
    return found


def compile_error(data: bytes) -> tuple[int, str] | None:
    """Return the line and the reason if a Python file does not compile, ``None`` if it does."""
    return _error_in(symbols.parse(data) or data)


def _error_in(module: ast.Module | bytes) -> tuple[int, str] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in somebody else's strings
            compile(module, "<file>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return 1, str(error)
    return None


def _added(before: bytes, after: bytes) -> frozenset[int]:
    old, new = split_lines(before), split_lines(after)
    found = align.edits(align.align(old, new), len(new))
    return frozenset(at + 1 for edit in found for at in range(*edit.new))


# --- imports ----------------------------------------------------------------------------------


def module_name(path: str, root: str = "") -> str:
    """Return the dotted name of a module; a package's ends in ``.__init__``."""
    inner = path.removeprefix(f"{root}/") if root else path
    return inner.rpartition(".")[0].replace("/", ".")


def exports(data: bytes) -> frozenset[str] | None:
    """Return the names at a module's top level, ``None`` where they cannot be told.

    That is so where it does not parse, imports ``*`` or has a ``__getattr__``.
    """
    tree = symbols.parse(data)
    if tree is None:
        return None
    names = _bound_in(tree)
    return None if "*" in names or "__getattr__" in names else frozenset(names)


def _missing_imports(
    nodes: Iterable[ast.AST], module: str, resolver: Resolver
) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if resolver.exists(alias.name) is False:
                    yield _gone(alias.name, resolver), alias.lineno
        elif isinstance(node, ast.ImportFrom):
            target = _absolute(node, module)
            if resolver.exists(target) is False:
                yield _gone(target, resolver), node.lineno
            elif resolver.exists(target):
                yield from _missing_names(node, target, resolver)


def _gone(module: str, resolver: Resolver) -> str:
    now = resolver.now(module)
    what = f"module {module!r} is not in the release"
    return what if now is None else f"{what}: it is {paths.display(now)} now"


def _absolute(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".")[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def _missing_names(
    node: ast.ImportFrom, target: str, resolver: Resolver
) -> Iterator[tuple[str, int]]:
    names = resolver.names(target)
    for alias in node.names:
        if names is None or alias.name == "*" or alias.name in names:
            continue
        if not resolver.exists(f"{target}.{alias.name}"):
            yield f"{alias.name!r} is not in module {target!r}", alias.lineno


# --- calls ------------------------------------------------------------------------------------


class _NoTypes:
    """Nothing is known of classes: only functions are compared."""

    def attribute(self, kind: str, name: str) -> Meaning:  # noqa: ARG002 - a protocol's
        return None

    def is_class(self, path: str) -> bool:  # noqa: ARG002
        return False


def functions(data: bytes) -> Mapping[str, tuple[Parameter, ...]]:
    """Return the signatures of the functions at a module's top that are what they look like.

    That is those without decorators that nothing else in the module defines anew.
    """
    tree = symbols.parse(data)
    if tree is None:
        return {}
    times = Counter(scope.name for scope in symbols.scopes(tree))
    return {
        node.name: signature.of(node)
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and not node.decorator_list
        and times[node.name] == 1
    }


def _wrong_calls(
    shown: str, tree: ast.Module, module: str, added: frozenset[int], resolver: Resolver
) -> Iterator[Problem]:
    for call in calls.calls(tree, module, _NoTypes(), added):
        if len(call.targets) != 1:
            continue
        where, _, name = call.targets[0].rpartition(".")
        found = resolver.functions(where).get(name)
        for misfit in () if found is None else signature.misfits(call.arguments, found):
            what = f"{call.written}() takes other arguments: {misfit.what}"
            yield Problem(f"{shown}:{call.line}", what)


# --- names ------------------------------------------------------------------------------------


def undefined(data: bytes, lines: frozenset[int] | None = None) -> tuple[Use, ...]:
    """Return the names that a Python file reads, on some lines or all, and that nothing binds.

    Nothing is reported of a file that does not parse or imports ``*``.
    """
    tree = symbols.parse(data)
    if tree is None:
        return ()
    names = _bound_in(tree) | _globals(tree, data)
    if "*" in names:
        return ()
    found: list[Use] = []
    _look(tree, [frozenset(names) | _KNOWN], None if lines is None else sorted(lines), found)
    return tuple(use for use in found if lines is None or use.line in lines)


def lost(path: str, base: bytes, before: bytes, after: bytes) -> Iterator[Problem]:
    """Yield the attributes of ``self`` that a change reads although the file has lost them.

    The old file sets them, the new one does not. Where the new one reads them elsewhere nothing is
    reported: they may come from a class in another file now.

    Args:
        path: where the file is in the new release.
        base: the file that the change was made for.
        before: the new release's.
        after: that with the change.
    """
    old, new = symbols.parse(base), symbols.parse(after)
    if old is None or new is None:
        return
    added = _added(before, after)
    had, _ = _attributes(old, frozenset())
    known, read = _attributes(new, added)
    if not known & {"__getattr__", "__getattribute__"}:
        for name, line in sorted(read.items(), key=lambda use: use[1]):
            if name in had and name not in known:
                what = f"self.{name} is used, but nothing in the file sets it any more"
                yield Problem(f"{paths.display(path)}:{line}", what)


def _attributes(tree: ast.Module, added: frozenset[int]) -> tuple[set[str], dict[str, int]]:
    """Return what may be an attribute, and what of ``self`` is read on some lines alone."""
    known: set[str] = set()
    read: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not isinstance(node.ctx, ast.Load) or (own and node.lineno not in added):
                known.add(node.attr)
            elif own:
                read.setdefault(node.attr, node.lineno)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            known.add(node.name)
            if isinstance(node, ast.ClassDef):
                known |= _bound_in(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            known.add(node.value)  # setattr, __slots__
    return known, read


def _look(
    scope: ast.AST, known: list[frozenset[str]], lines: Sequence[int] | None, found: list[Use]
) -> None:
    """Collect the unbound names below ``scope``; ``known`` are the names of the scopes around."""
    pending = list(symbols.children_at(scope, lines))
    while pending:
        node = pending.pop()
        if isinstance(node, _SCOPES):
            # names of a class body are not seen from its methods, but being generous costs little
            _look(node, [*known, frozenset(_bound_in(node))], lines, found)
            continue
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and not any(node.id in names for names in known)
        ):
            found.append(Use(node.id, node.lineno))
        pending.extend(symbols.children_at(node, lines))


def _bound_in(scope: ast.AST) -> set[str]:
    """Return the names that a scope binds, comprehensions inside it included."""
    names: set[str] = set()
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        names.update(_parameters(scope.args))
    names.update(parameter.name for parameter in getattr(scope, "type_params", ()))
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        names.update(_binds(node))
        if not isinstance(node, _SCOPES):
            pending.extend(ast.iter_child_nodes(node))
    return names


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for parameter in [*every, arguments.vararg, arguments.kwarg]:
        if parameter is not None:
            yield parameter.arg


def _binds(node: Any) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, _NAMING):
        if node.name:
            yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _globals(tree: ast.Module, data: bytes) -> set[str]:
    """Return the names that functions declare global, and so may bind."""
    lines = [at for at, line in enumerate(data.split(b"\n"), 1) if b"global" in line]
    nodes = symbols.nodes_at(tree, lines)
    return {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
