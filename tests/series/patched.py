"""The patched files of a series: reading them, importing them alone, and undoing the patch.

An engine needs its whole dependency tree and often an accelerator to be imported. The functions
that a series changes need neither, so their modules are imported by themselves: every other
module of the engine is replaced by a stub that makes up a class for any name asked of it.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pytest

Sources = dict[str, bytes]

SERIES_DIR = Path(__file__).resolve().parents[2] / "series"
FOLDER_VARIABLE = "PSERIES_PATCHED_DIR"

_HUNK = re.compile(r"@@ -[0-9]+,[0-9]+ \+([0-9]+),[0-9]+ @@")
_INDEX = re.compile(r"index ([0-9a-f]{40})\.\.([0-9a-f]{40}) 100644")


def patch_files(series: str) -> list[Path]:
    """The patch files of a series, in order."""
    folder = SERIES_DIR / series
    lines = (folder / "series").read_text(encoding="utf-8").splitlines()
    return [folder / line for line in lines if line and not line.startswith("#")]


def sources(series: str, request: pytest.FixtureRequest) -> Sources:
    """The files that a series touches, patched.

    From the folder that ``PSERIES_PATCHED_DIR`` names, which holds a patched tree, for machines
    without a network; else from the fixture ``patched_release``, which makes them from the release.
    """
    if folder := os.environ.get(FOLDER_VARIABLE):
        touched = [Change.read(file).path for file in patch_files(series)]
        return {path: (Path(folder) / path).read_bytes() for path in touched}
    made: Sources = request.getfixturevalue("patched_release")(series)
    return made


@dataclass(frozen=True)
class Hunk:
    """Lines with their sign, and the line of the new file at which they start."""

    start: int
    lines: tuple[str, ...]

    def side(self, signs: str) -> list[str]:
        """The lines that have one of the signs, without it."""
        return [line[1:] for line in self.lines if line[0] in signs]


@dataclass(frozen=True)
class Change:
    """A patch file that changes one text file: path, blob ids before and after, hunks."""

    path: str
    before: str
    after: str
    hunks: tuple[Hunk, ...]

    @classmethod
    def read(cls, file: Path) -> Change:
        """Read a patch file; one that changes several files is refused."""
        lines = file.read_text(encoding="utf-8").split("\n")
        (start,) = (number for number, line in enumerate(lines) if line.startswith("diff --git "))
        ids = _INDEX.fullmatch(lines[start + 1])
        path = lines[start + 3].removeprefix("+++ b/")
        assert ids, f"{file.name}: no full index ids"
        assert lines[start] == f"diff --git a/{path} b/{path}"
        first = start + 4
        heads = [number for number in range(first, len(lines)) if lines[number].startswith("@@ ")]
        hunks = []
        for head, end in zip(heads, [*heads[1:], len(lines) - 1], strict=True):
            header = _HUNK.match(lines[head])
            assert header, f"{file.name}: {lines[head]}"
            hunks.append(Hunk(int(header[1]), tuple(lines[head + 1 : end])))
        return cls(path, ids[1], ids[2], tuple(hunks))

    def undo(self, data: bytes) -> bytes:
        """The bytes before the patch; every hunk must be exactly where it says."""
        lines = data.decode("utf-8").split("\n")
        for hunk in reversed(self.hunks):
            new = hunk.side(" +")
            here = slice(hunk.start - 1, hunk.start - 1 + len(new))
            assert lines[here] == new, f"{self.path}: the hunk at line {hunk.start} is elsewhere"
            lines[here] = hunk.side(" -")
        return "\n".join(lines).encode("utf-8")


def blob_id(data: bytes) -> str:
    """The id that git gives to a file with these bytes."""
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class _SwitchedOff(ast.NodeTransformer):
    """Evaluates conditions in which a switch makes the outcome certain, the switch being off."""

    def __init__(self, switches: frozenset[str]) -> None:
        self.switches = switches

    def _is_off(self, test: ast.expr) -> bool:
        if isinstance(test, ast.Name):
            return test.id in self.switches
        return (
            isinstance(test, ast.BoolOp)
            and isinstance(test.op, ast.And)
            and self._is_off(test.values[0])  # the first: nothing may be evaluated before it
        )

    def visit_If(self, node: ast.If) -> ast.If | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if self._is_off(node.test) else node


def without(
    source: bytes, switches: Sequence[str], definitions: Sequence[str], imports: Sequence[str]
) -> str:
    """The syntax tree that is left of a module when its switches are off.

    Top-level ``definitions`` and ``imports`` (names that nothing else may use then) are left out,
    and the switches themselves.
    """
    dropped = {*switches, *definitions}
    tree = _SwitchedOff(frozenset(switches)).visit(ast.parse(source))
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [alias for alias in node.names if alias.name not in imports]
            keep = bool(node.names)
        else:
            keep = _defines(node) not in dropped
        if keep:
            body.append(node)
    tree.body = body
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not used & {*dropped, *imports}, "a switched-off module still uses what was added"
    return ast.dump(tree, indent=1)


def _defines(node: ast.stmt) -> str:
    """The name that a top-level function or plain assignment defines."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.name if isinstance(node, ast.FunctionDef) else ""


class _StubModule(ModuleType):
    """Makes up an empty class for every name that is asked of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves the patched modules from memory and stubs for all their neighbours."""

    def __init__(
        self,
        sources: Mapping[str, bytes],
        roots: frozenset[str],
        stubs: Mapping[str, Mapping[str, object]],
    ) -> None:
        names = {path.removesuffix(".py").replace("/", "."): path for path in sources}
        self.roots, self.stubs = roots, stubs
        self.code = {
            name: compile(sources[path], path, "exec", dont_inherit=True)
            for name, path in names.items()
            if name not in stubs
        }

    def find_spec(
        self, fullname: str, *_: object, **__: object
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.roots:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return ModuleType(spec.name) if spec.name in self.code else _StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if code := self.code.get(module.__name__):
            exec(code, module.__dict__)  # noqa: S102 - the code under test
        else:
            module.__dict__.update(self.stubs.get(module.__name__, {}))


@contextmanager
def importable(
    sources: Mapping[str, bytes],
    *,
    roots: Sequence[str],
    environment: Mapping[str, str],
    stubs: Mapping[str, Mapping[str, object]],
) -> Iterator[Callable[[str], ModuleType]]:
    """Import the patched modules alone, under exactly the engine variables given.

    ``roots`` are the top-level packages that are replaced, even where they are installed, and
    whose upper-case name is the prefix of the variables; ``stubs`` gives the content of stub
    modules that must hold more than empty classes. Everything is put back at the end.
    """
    finder = _Finder(sources, frozenset(roots), stubs)
    prefixes = tuple(f"{root.upper()}_" for root in roots)
    hidden = {name for name in sys.modules if name.partition(".")[0] in finder.roots}
    modules = {name: sys.modules.pop(name) for name in hidden}
    outside = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(prefixes)}
    os.environ.update(environment)
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in finder.roots]:
            del sys.modules[name]
        sys.modules.update(modules)
        for name in environment:
            os.environ.pop(name, None)
        os.environ.update(outside)
