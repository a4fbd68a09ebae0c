"""Reading and running single definitions of real source files that cannot be imported here.

vLLM, SGLang and FlashInfer need an accelerator to import. The tests of the patched code therefore
take the functions they are about out of the released files, by syntax tree, and run those.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import os
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def torch_or_skip() -> Any:
    """Return PyTorch; without it skip the module, or fail where it is required."""
    try:
        import torch
    except ImportError as error:
        if os.environ.get("PSERIES_REQUIRE_TORCH") == "1":
            raise
        pytest.skip(f"needs PyTorch: {error}", allow_module_level=True)
    return torch


@functools.cache
def tree(source: bytes) -> ast.Module:
    """Return the syntax tree of a file, made once; nobody may change it."""
    return ast.parse(source)


def definition(source: bytes, qualified_name: str) -> ast.FunctionDef:
    """Return a copy of the function or method of that name, for example ``Wrapper.plan``."""
    body: list[ast.stmt] = tree(source).body
    *classes, name = qualified_name.split(".")
    for outer in classes:
        body = next(n.body for n in body if isinstance(n, ast.ClassDef) and n.name == outer)
    found = next(n for n in body if isinstance(n, ast.FunctionDef) and n.name == name)
    return copy.deepcopy(found)


@functools.cache
def module_names(source: bytes) -> frozenset[str]:
    """Return every name that importing the file could bind at its top, also below ``try``."""
    names: set[str] = set()
    waiting: list[ast.AST] = [tree(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return frozenset(names)


def lift(
    source: bytes, qualified_names: Iterable[str], namespace: Mapping[str, Any]
) -> dict[str, Any]:
    """Run only these definitions, without decorators, and return the namespace they are in."""
    functions = [definition(source, name) for name in qualified_names]
    for function in functions:
        function.decorator_list = []
    return execute(functions, namespace)


def execute(statements: Iterable[ast.stmt], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Run statements of a file; annotations are not evaluated."""
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    made = ast.fix_missing_locations(ast.Module([future, *statements], []))
    result = dict(namespace)
    exec(compile(made, "<released file>", "exec"), result)  # noqa: S102 - that is the test
    return result


def signature(source: bytes, qualified_name: str) -> inspect.Signature:
    """Return the signature that a definition would have once imported."""
    name = qualified_name.rpartition(".")[2]
    function = definition(source, qualified_name)
    function.body = [ast.Pass()]
    function.decorator_list = []
    return inspect.signature(execute([function], {})[name])


def parameters_of_cpp(source: bytes, function: str) -> tuple[str, ...]:
    """Return the parameter names of the first C++ function of that name."""
    text = source.decode()
    start = text.index(f"{function}(") + len(function) + 1
    parameters = text[start : text.index(")", start)].split(",")
    return tuple(re.findall(r"\w+", parameter.partition("=")[0])[-1] for parameter in parameters)


class _Placeholder(type):
    """The type of a class that stands for anything a module may want while it is imported."""

    def __call__(cls, *_args: object, **_kwargs: object) -> Any:
        return super().__call__()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return placeholder(name)

    def __getitem__(cls, item: object) -> Any:
        return cls


def placeholder(name: str) -> Any:
    """Return a class that can be called, subscripted, asked for attributes and derived from."""
    return _Placeholder(name, (), {})


def imported(source: bytes, top: str) -> dict[str, dict[str, Any]]:
    """Return placeholders for what a file imports from a package, by module, parents included."""
    modules: dict[str, dict[str, Any]] = {}
    for node in ast.walk(tree(source)):
        if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] != top:
            continue
        parts = str(node.module).split(".")
        for end in range(1, len(parts) + 1):
            modules.setdefault(".".join(parts[:end]), {})
        members = modules[str(node.module)]
        members.update((alias.name, placeholder(alias.name)) for alias in node.names)
    return modules


def module(name: str, members: Mapping[str, Any]) -> ModuleType:
    """Return a module with these members; it counts as a package, so that it may have children."""
    made = ModuleType(name)
    made.__path__ = []
    vars(made).update(members)
    return made


@contextlib.contextmanager
def installed(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Let these modules be imported, in place of any of their top names; afterwards as before."""
    tops = {name.partition(".")[0] for name in modules}
    before = {name: value for name, value in sys.modules.items() if name.partition(".")[0] in tops}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
            del sys.modules[name]
        sys.modules.update(before)


def load(name: str, source: bytes) -> ModuleType:
    """Run a whole file as the module ``name``; its imports must have been :func:`installed`."""
    made = ModuleType(name)
    # dataclasses look their own module up while a class is being made.
    sys.modules[name] = made
    exec(compile(source, name, "exec"), vars(made))  # noqa: S102 - that is the test
    return made
