"""The calls in a Python file, and what of the outside each of them calls, as far as text can tell.

What a name stands for is followed through imports, annotations, assignments that agree, attributes
of ``self`` and, for a function's parameter that says nothing of its type, through all calls of that
function in the same file. Wherever two readings are possible both are returned, and where one of
them is not known, none: what is said about a call holds whichever way the program goes.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pseries.model.calls.signature import Arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_MOST_SITES = 200
"""Calls of a function of a file; what more of them give for a parameter is not followed."""
_DEEPEST = 60
"""Steps from a name to what it stands for; who needs more is not followed."""

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Referent(NamedTuple):
    """What an expression stands for: the object of a dotted name, or an instance of that class."""

    path: str
    instance: bool = False


Meaning = frozenset[Referent] | None
"""All that an expression may stand for, without ``None``; ``None`` where that is not known."""

NOTHING: Meaning = frozenset()


class Call(NamedTuple):
    """A call of something outside the file's own functions.

    Attributes:
        line: where it stands.
        written: the callee as written.
        targets: dotted names of what is called; a method's begins with its class.
        bound: whether Python fills in the first parameter of a plain method.
        arguments: what it gives.
        branches: the ``if`` and ``try`` statements around it, by a number, and in which of their
            parts it stands.
    """

    line: int
    written: str
    targets: tuple[str, ...]
    bound: bool
    arguments: Arguments
    branches: tuple[tuple[int, str], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The last names of what is called."""
        return frozenset(each.rpartition(".")[2] for each in self.targets)


class Alternatives:
    """Calls that a program makes in one part of an ``if`` or ``try``, to be asked for others.

    A call is in it if the program makes either it or one of these, of things of one name.
    """

    def __init__(self, calls: Iterable[Call]) -> None:
        self._parts: dict[frozenset[str], dict[int, set[str]]] = {}
        for call in calls:
            parts = self._parts.setdefault(call.names, {})
            for number, part in call.branches:
                parts.setdefault(number, set()).add(part)

    def __contains__(self, call: Call) -> bool:
        parts = self._parts.get(call.names, {})
        return any(parts.get(number, set()) - {part} for number, part in call.branches)


class Types(Protocol):
    """What is known about classes by the text of the files that define them."""

    def attribute(self, kind: str, name: str) -> Meaning:
        """Return what an attribute of an instance of the class ``kind`` is declared to hold."""

    def is_class(self, path: str) -> bool:
        """Say whether a dotted name is that of a class."""


def calls(
    tree: ast.Module, module: str, types: Types, lines: frozenset[int] | None = None
) -> tuple[Call, ...]:
    """Return the calls of a file whose callee is known, in order of lines.

    Args:
        tree: the file.
        module: its dotted name; that of a package ends in ``.__init__``.
        types: answers about classes, this file's too.
        lines: only calls on these lines; ``None`` for all.
    """
    return tuple(sorted(_File(tree, module, types).calls(lines), key=lambda call: call.line))


def arguments(call: ast.Call) -> Arguments:
    """Return what a call gives."""
    positions: list[str] = []
    rest = False
    for each in call.args:
        if isinstance(each, ast.Starred):
            rest = True
            break  # what follows lands nobody knows where
        positions.append(_word(each))
    names = tuple(each.arg for each in call.keywords if each.arg is not None)
    return Arguments(tuple(positions), rest, names, len(names) < len(call.keywords))


def _word(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr.lstrip("_") if isinstance(node, ast.Attribute) else ""


def dotted(node: ast.expr) -> str | None:
    """Return ``a.b.c`` for an expression that is nothing else, ``None`` for any other."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def declared(annotation: ast.expr | None) -> str | None:
    """Return the name of the one class that an annotation allows besides ``None``, as written.

    ``None`` where it allows several, or none that has a name: containers say nothing of what is
    called on them here.
    """
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return declared(ast.parse(annotation.value.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if isinstance(annotation, ast.Subscript):
        outer = (dotted(annotation.value) or "").rpartition(".")[2]
        return declared(annotation.slice) if outer in {"Optional", "Final", "ClassVar"} else None
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        sides = [each for each in (annotation.left, annotation.right) if not _is_none(each)]
        return declared(sides[0]) if len(sides) == 1 else None
    return None if annotation is None else dotted(annotation)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


class _Binding(NamedTuple):
    """One way in which a name comes by its value: one of these is set, or none if nobody knows.

    Attributes:
        path: the dotted name of an import or a definition.
        value: the expression assigned to it.
        annotation: the type it is declared to have.
        argument: it is this parameter, which has no annotation.
        receiver: it is a method's ``self``.
    """

    path: str | None = None
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    argument: str | None = None
    receiver: bool = False


class _Scope:
    """A function or the module: the names that it binds, and the scope around it."""

    def __init__(self, node: ast.AST, above: _Scope | None, name: str, kind: str | None) -> None:
        self.node = node
        self.above = above
        self.name = name  # qualified, "" for the module
        self.kind = kind  # the qualified name of the class of which this is a method
        self.names: dict[str, list[_Binding]] = {}

    def bind(self, name: str, binding: _Binding) -> None:
        self.names.setdefault(name, []).append(binding)

    @property
    def at_top(self) -> bool:
        return self.above is not None and self.above.above is None and self.kind is None


class _File:
    """One file while its calls are looked for."""

    def __init__(self, tree: ast.Module, module: str, types: Types) -> None:
        self._types = types
        self._package = module.split(".")[:-1]
        self._module = module.removesuffix(".__init__")
        self._found: list[tuple[ast.Call, _Scope]] = []
        self._branches = _branches(tree)
        self._of_self: dict[tuple[str, str], list[tuple[ast.expr, _Scope]]] = {}
        self._sites: dict[str, list[tuple[ast.Call, _Scope]]] = {}
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._known: dict[tuple[object, _Scope], Meaning] = {}
        self._depth = 0
        self._walk(tree, _Scope(tree, None, "", None))
        for call, scope in self._found:
            if isinstance(call.func, ast.Name):
                self._sites.setdefault(call.func.id, []).append((call, scope))

    def calls(self, lines: frozenset[int] | None) -> Iterator[Call]:
        for node, scope in self._found:
            last = node.end_lineno or node.lineno
            if lines is not None and lines.isdisjoint(range(node.lineno, last + 1)):
                continue
            if not isinstance(node.func, (ast.Name, ast.Attribute)):
                continue
            meaning = self._meaning(node.func, scope)
            if not meaning or any(each.instance for each in meaning):
                continue
            targets = tuple(sorted(each.path for each in meaning))
            kinds = self._owners(node.func, scope)
            if len(kinds) == 1:
                bound, written = kinds == {True}, ast.unparse(node.func)
                branches = self._branches.get(node, ())
                yield Call(node.lineno, written, targets, bound, arguments(node), branches)

    def _owners(self, callee: ast.Name | ast.Attribute, scope: _Scope) -> set[bool]:
        """Return whether it is called on an instance; both, where that depends."""
        if isinstance(callee, ast.Name):
            return {False}
        return {each.instance for each in self._meaning(callee.value, scope) or ()}

    # -- names and their bindings ----------------------------------------------------------------

    def _walk(self, top: ast.AST, scope: _Scope, outer: str = "") -> None:
        """Record bindings and calls below a node; ``outer`` is the class around, if any."""
        pending = list(ast.iter_child_nodes(top))[::-1]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Call):
                self._found.append((node, scope))
            if isinstance(node, (*Function, ast.ClassDef, ast.Lambda)):
                self._enter(node, scope, outer)
                continue
            self._bind(node, scope, outer)
            pending.extend(list(ast.iter_child_nodes(node))[::-1])

    def _enter(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda,
        scope: _Scope,
        outer: str,
    ) -> None:
        name = getattr(node, "name", "<lambda>")
        prefix = outer or scope.name
        qualified = f"{prefix}.{name}" if prefix else name
        if not isinstance(node, ast.Lambda) and not outer:
            reached = f"{self._module}.{name}" if scope.above is None else None
            scope.bind(name, _Binding(path=reached))
        for outside in (*getattr(node, "decorator_list", ()), *getattr(node, "bases", ())):
            self._walk(ast.Expr(outside), scope, outer)
        if isinstance(node, ast.ClassDef):
            # only a class at the top can be named from elsewhere
            self._walk(ast.Module(node.body, []), scope, qualified)
            return
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self._walk(ast.Expr(default), scope, outer)
        kind = outer if outer and scope.above is None and not isinstance(node, ast.Lambda) else None
        inner = _Scope(node, scope, qualified, kind)
        if isinstance(node, Function) and inner.at_top:
            self._functions[node.name] = node
        self._parameters(node, inner)
        body: list[ast.stmt] = [ast.Expr(node.body)] if isinstance(node, ast.Lambda) else node.body
        self._walk(ast.Module(body, []), inner)

    def _parameters(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: _Scope
    ) -> None:
        plain = [*node.args.posonlyargs, *node.args.args]
        marks = {dotted(mark) for mark in getattr(node, "decorator_list", ())}
        for each in [*plain, *node.args.kwonlyargs]:
            if scope.kind and plain and each is plain[0] and not marks & {"staticmethod"}:
                known = not marks & {"classmethod"} and node.name != "__new__"  # type: ignore[union-attr]
                scope.bind(each.arg, _Binding(receiver=known))
            elif each.annotation is not None:
                scope.bind(each.arg, _Binding(annotation=each.annotation))
            else:
                scope.bind(each.arg, _Binding(argument=each.arg))
        for star in (node.args.vararg, node.args.kwarg):
            if star is not None:
                scope.bind(star.arg, _Binding())

    def _bind(self, node: ast.AST, scope: _Scope, outer: str) -> None:
        if outer:  # the names of a class body are seen by nobody else
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, scope)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, None, scope)
        elif isinstance(node, ast.AnnAssign):
            self._assign(node.target, node.value, node.annotation, scope)
        elif isinstance(node, ast.NamedExpr):
            self._assign(node.target, node.value, None, scope)
        else:
            for name in _vaguely_bound(node):
                scope.bind(name, _Binding())

    def _import(self, node: ast.Import | ast.ImportFrom, scope: _Scope) -> None:
        above = self._above(node) if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            if isinstance(node, ast.Import) and not alias.asname:
                name = path = alias.name.partition(".")[0]
            else:
                name = alias.asname or alias.name
                path = f"{above}.{alias.name}" if above else alias.name
            scope.bind(name, _Binding(path=path))

    def _above(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        kept = self._package[: len(self._package) - node.level + 1]
        return ".".join([*kept, *filter(None, [node.module])])

    def _assign(
        self, target: ast.expr, value: ast.expr | None, annotation: ast.expr | None, scope: _Scope
    ) -> None:
        if isinstance(target, ast.Name):
            target.assigned = True  # type: ignore[attr-defined] # not bound once more as a Store
            if scope.above is None:
                scope.bind(target.id, _Binding(path=f"{self._module}.{target.id}"))
            elif declared(annotation) is not None:
                scope.bind(target.id, _Binding(annotation=annotation))
            else:
                scope.bind(target.id, _Binding(value=value))
        elif (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and scope.kind
            and any(binding.receiver for binding in scope.names.get(target.value.id, ()))
            and value is not None
        ):
            self._of_self.setdefault((scope.kind, target.attr), []).append((value, scope))

    # -- what an expression stands for -----------------------------------------------------------

    def _meaning(self, node: ast.expr, scope: _Scope) -> Meaning:
        if isinstance(node, ast.Name):
            return self._of_name(node.id, scope)
        if isinstance(node, ast.Attribute):
            return self._once((node, scope), lambda: self._of_attribute(node, scope))
        if isinstance(node, ast.Call):
            return self._once((node, scope), lambda: self._made(node, scope))
        if isinstance(node, ast.IfExp):
            return _all(self._meaning(side, scope) for side in (node.body, node.orelse))
        return NOTHING if _is_none(node) else None

    def _of_name(self, name: str, scope: _Scope) -> Meaning:
        at: _Scope | None = scope
        while at is not None and name not in at.names:
            at = at.above
        if at is None:
            return None
        found = at
        return self._once(
            (name, found), lambda: _all(self._bound(each, found) for each in found.names[name])
        )

    def _once(self, key: tuple[object, _Scope], find: Callable[[], Meaning]) -> Meaning:
        """Return what was found before, else find it; what depends on itself is not known."""
        if key not in self._known:
            self._known[key] = None
            if self._depth < _DEEPEST:
                self._depth += 1
                self._known[key] = find()
                self._depth -= 1
        return self._known[key]

    def _bound(self, binding: _Binding, scope: _Scope) -> Meaning:
        if binding.receiver and scope.kind:
            return frozenset({Referent(f"{self._module}.{scope.kind}", instance=True)})
        if binding.path is not None:
            return frozenset({Referent(binding.path)})
        if binding.annotation is not None:
            return self._declared(binding.annotation, scope)
        if binding.argument is not None:
            return self._given(binding.argument, scope)
        return None if binding.value is None else self._meaning(binding.value, scope)

    def _declared(self, annotation: ast.expr, scope: _Scope) -> Meaning:
        name = declared(annotation)
        if name is None:
            return None
        first, *rest = name.split(".")
        meaning = self._of_name(first, scope)
        for attribute in rest:
            meaning = _all(self._attribute(each, attribute) for each in meaning or ())
        return _instances(meaning) if meaning else None

    def _of_attribute(self, node: ast.Attribute, scope: _Scope) -> Meaning:
        owners = self._meaning(node.value, scope)
        if not owners:
            return None
        return _all(self._attribute(owner, node.attr) for owner in owners)

    def _attribute(self, owner: Referent, name: str) -> Meaning:
        if not owner.instance:
            return frozenset({Referent(f"{owner.path}.{name}")})
        known = self._types.attribute(owner.path, name)
        if known is not None:
            return known
        kind = owner.path.removeprefix(f"{self._module}.")
        assigned = self._of_self.get((kind, name)) if owner.path != kind else None
        if not assigned:
            return None
        return self._once(
            ((kind, name), assigned[0][1]),
            lambda: _all(self._meaning(value, scope) for value, scope in assigned),
        )

    def _made(self, node: ast.Call, scope: _Scope) -> Meaning:
        """Return what a call returns: an instance, where a class is called."""
        meaning = self._meaning(node.func, scope)
        if not meaning or any(each.instance for each in meaning):
            return None
        if not all(self._types.is_class(each.path) for each in meaning):
            return None
        return _instances(meaning)

    def _given(self, name: str, scope: _Scope) -> Meaning:
        """Return what all calls in this file give for a parameter of a function at its top."""
        if not scope.at_top:
            return None
        function = self._functions.get(scope.name)
        sites = self._sites.get(scope.name)
        if function is None or function is not scope.node or not sites:
            return None
        if len(sites) > _MOST_SITES:
            return None
        return _all(self._argument(function, name, call, where) for call, where in sites)

    def _argument(
        self,
        function: ast.FunctionDef | ast.AsyncFunctionDef,
        name: str,
        call: ast.Call,
        scope: _Scope,
    ) -> Meaning:
        if any(isinstance(each, ast.Starred) for each in call.args):
            return None
        places = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        by_name: Mapping[str | None, ast.expr] = {each.arg: each.value for each in call.keywords}
        given = dict(zip(places, call.args, strict=False))
        value = given.get(name) or by_name.get(name)
        return None if value is None else self._meaning(value, scope)


def _vaguely_bound(node: ast.AST) -> Iterable[str]:
    """Return the names to which a node binds nobody knows what: loops, handlers, patterns."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return () if getattr(node, "assigned", False) else (node.id,)
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        return node.names
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        return (node.name,)
    return ()


def _branches(tree: ast.Module) -> dict[ast.Call, tuple[tuple[int, str], ...]]:
    """Return for each call the branching statements around it, and the part that it is in."""
    found: dict[ast.Call, tuple[tuple[int, str], ...]] = {}
    pending: list[tuple[ast.AST, tuple[tuple[int, str], ...]]] = [(tree, ())]
    number = 0
    while pending:
        node, around = pending.pop()
        if isinstance(node, ast.Call):
            found[node] = around
        splits = isinstance(node, (ast.If, ast.IfExp, ast.Try))
        number += splits
        for field, value in ast.iter_fields(node):
            below = (*around, (number, field)) if splits else around
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    pending.append((each, below))
    return found


def _instances(meaning: Iterable[Referent]) -> Meaning:
    known = frozenset(meaning)
    if any(each.instance for each in known):
        return None
    return frozenset(Referent(each.path, instance=True) for each in known)


def _all(meanings: Iterable[Meaning]) -> Meaning:
    """Return the union; unknown where one is, and where nothing but ``None`` is left."""
    union: set[Referent] = set()
    for meaning in meanings:
        if meaning is None:
            return None
        union |= meaning
    return frozenset(union)
