"""What the source text of installed packages defines: functions, classes and their signatures.

griffe reads the text (the extra ``semantic``); nothing is imported or run. Modules are read when
something in them is asked about. A name that is bound more than once, as in the branches of ``if``
and ``try``, means all that it may be bound to.
"""

from __future__ import annotations

import ast
import builtins
import logging
import re
import textwrap
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pseries.model.calls import call as calls
from pseries.model.calls.call import Referent
from pseries.model.calls.signature import Kind, Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import griffe

    from pseries.model.calls.call import Call, Meaning

_MOST_STEPS = 40
"""From one name to the next until something is defined; more is a circle."""
_MOST_MEANINGS = 16
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_KINDS = {
    "positional-only": Kind.POSITION,
    "positional or keyword": Kind.EITHER,
    "keyword-only": Kind.KEYWORD,
    "variadic positional": Kind.REST,
    "variadic keyword": Kind.MAPPING,
}
_TRANSPARENT = frozenset(
    {
        "staticmethod", "classmethod",
        "abc.abstractmethod",
        "functools.cache", "functools.lru_cache",
        "contextlib.contextmanager", "contextlib.asynccontextmanager",
        "typing.final", "typing.override", "typing_extensions.final", "typing_extensions.override",
        "typing_extensions.deprecated", "warnings.deprecated",
        "torch.no_grad", "torch.inference_mode", "torch.compile",
        "torch.compiler.disable", "torch.jit.ignore", "torch.jit.export",
    }
)  # fmt: skip
"""Decorators whose result takes the same arguments, and whose text is not looked at."""


def available() -> bool:
    """Say whether the library that reads definitions is installed."""
    return find_spec("griffe") is not None


class Unknown(NamedTuple):
    """Where the way from a name to what it stands for ends, and why."""

    path: str
    why: str


class Callee(NamedTuple):
    """Something that can be called.

    ``keywords`` are taken besides the signature's, by a decorator.
    """

    path: str
    signature: tuple[Parameter, ...]
    keywords: frozenset[str]


class Definitions:
    """The definitions of the packages of a site-packages folder.

    Args:
        read: returns the bytes of a file by installed path such as ``eng/core.py``, ``None`` where
            there is none.
        is_folder: says whether a path is that of a folder: packages can do without __init__.py.
    """

    def __init__(
        self, read: Callable[[str], bytes | None], is_folder: Callable[[str], bool]
    ) -> None:
        import griffe  # noqa: PLC0415 - an extra, and slow to import

        self._read = read
        self._is_folder = is_folder
        self._griffe = griffe
        self._modules: dict[str, griffe.Module | Unknown | None] = {}
        self._bound: dict[str, list[Any]] = {}
        self._texts: dict[str, list[str]] = {}
        self._found: dict[str, tuple[Any, ...]] = {}
        self._inherited: dict[tuple[int, str], tuple[Any, ...]] = {}
        bound = self._bound

        class Recorder(griffe.Extension):
            """Keeps every binding of a name; griffe itself keeps the last."""

            def on_instance(self, *, obj: Any, **_: Any) -> None:
                if not _is_beside(obj):
                    bound.setdefault(obj.path, []).append(obj)

            def on_alias_instance(self, *, alias: Any, **_: Any) -> None:
                bound.setdefault(alias.path, []).append(alias)

        self._extensions = griffe.Extensions(Recorder())
        logging.getLogger("griffe").setLevel(logging.CRITICAL)

    # -- answers -----------------------------------------------------------------------------------

    def callees(self, call: Call) -> tuple[tuple[Callee, ...], tuple[Unknown, ...]]:
        """Return what a call may call, and what cannot be told about it."""
        found: list[Callee] = []
        doubts: list[Unknown] = []
        for target in call.targets:
            for each in self.find(target):
                callee = each if isinstance(each, Unknown) else self._callee(each, call.bound)
                if isinstance(callee, Unknown):
                    doubts.append(callee)
                elif callee not in found:
                    found.append(callee)
        return tuple(found), tuple(doubts)

    def attribute(self, kind: str, name: str) -> Meaning:
        """Return what an attribute of an instance holds: a method, or a declared instance."""
        meaning: set[Referent] = set()
        for each in self._members(self.find(kind), name):
            if isinstance(each, Unknown):
                return None
            if each.kind.value == "function":
                meaning.add(Referent(f"{kind}.{name}"))
                continue
            annotation = getattr(each, "annotation", None)
            if "property" in each.labels or annotation is None:
                return None
            path = self._declared(each, str(annotation))
            if path is None:
                return None
            meaning.add(Referent(path, instance=True))
        return frozenset(meaning) or None

    def is_class(self, path: str) -> bool:
        """Say whether a dotted name is that of a class, whichever way the program goes."""
        found = self.find(path)
        return bool(found) and all(
            not isinstance(each, Unknown) and each.kind.value == "class" for each in found
        )

    def find(self, path: str) -> tuple[Any, ...]:
        """Return all that a dotted name may stand for, and an :class:`Unknown` where it is lost."""
        return self._find(path, _MOST_STEPS)

    # -- names -------------------------------------------------------------------------------------

    def _find(self, path: str, steps: int) -> tuple[Any, ...]:
        if path not in self._found:
            self._found[path] = (Unknown(path, "names go round in a circle"),)
            if steps > 0:
                above, _, name = path.rpartition(".")
                self._found[path] = (
                    self._members(self._find(above, steps - 1), name, steps - 1)
                    if above
                    else (self._module(name) or Unknown(path, f"{name!r} is not installed here"),)
                )
        return self._found[path]

    def _members(
        self, owners: Iterable[Any], name: str, steps: int = _MOST_STEPS
    ) -> tuple[Any, ...]:
        found: list[Any] = []
        for owner in owners:
            for each in (
                (owner,) if isinstance(owner, Unknown) else self._member(owner, name, steps)
            ):
                if not any(each is one or each == one for one in found):
                    found.append(each)
        return tuple(found[:_MOST_MEANINGS])

    def _member(self, owner: Any, name: str, steps: int) -> tuple[Any, ...]:
        path = f"{owner.path}.{name}"
        kind = owner.kind.value
        if kind == "attribute":
            return (Unknown(path, "what holds it is made when the program runs"),)
        if steps <= 0:
            return (Unknown(path, "names go round in a circle"),)
        own = self._bound.get(path)
        if own is not None:
            return tuple(one for each in own for one in self._settled(each, steps))
        if kind == "module":
            return self._in_module(owner, name, steps)
        if kind == "class":
            return self._inherited_by(owner, name, steps)
        return (Missing(path),)

    def _inherited_by(self, owner: Any, name: str, steps: int) -> tuple[Any, ...]:
        """Look a name up in the bases of a class, once: there may be many ways to each of them."""
        key = (id(owner), name)  # a class may be defined twice under one name
        if key not in self._inherited:
            self._inherited[key] = (Missing(f"{owner.path}.{name}"),)
            for base in owner.bases:
                above = self._base(owner, base, steps)
                found = self._members(above, name, steps - 1)
                if not all(isinstance(each, Missing) for each in found):
                    self._inherited[key] = found
                    break
        return self._inherited[key]

    def _base(self, owner: Any, base: Any, steps: int) -> tuple[Any, ...]:
        text = str(base).partition("[")[0]
        path = self._expanded(owner.parent, text) if _MODULE.fullmatch(text) else None
        if path is None:
            if text == "object":
                return ()
            return (Unknown(owner.path, f"its base class {text!r} is not known"),)
        return self._find(path, steps - 1)

    def _in_module(self, owner: Any, name: str, steps: int) -> tuple[Any, ...]:
        path = f"{owner.path}.{name}"
        below = self._module(path)
        if below is not None:
            return (below,)
        doubt: tuple[Any, ...] = (Missing(path),)
        for star in [member for key, member in owner.members.items() if key.endswith("/*")]:
            found = self._find(f"{star.target_path}.{name}", steps - 1)
            if found and not any(isinstance(each, (Unknown, Missing)) for each in found):
                return found
            if any(isinstance(each, Unknown) for each in found):
                doubt = found
        if f"{owner.path}.__getattr__" in self._bound:
            return (Unknown(path, "the module makes its names when they are asked for"),)
        return doubt

    def _settled(self, each: Any, steps: int) -> tuple[Any, ...]:
        """Follow an import or an assignment to what is defined."""
        if each.is_alias:
            return self._find(each.target_path, steps - 1)
        if each.kind.value != "attribute":
            return (each,)
        if each.annotation is not None and "property" not in each.labels and each.parent.is_class:
            return (each,)
        if each.value is None or "property" in each.labels:
            return (each,)
        text = str(each.value)
        if text == "None":
            return ()
        lazy = _lazily_imported(text)
        path = lazy or (self._expanded(each.parent, text) if _MODULE.fullmatch(text) else None)
        return (each,) if path is None else self._find(path, steps - 1)

    def _expanded(self, scope: Any, name: str) -> str | None:
        """Return the dotted name with its first part resolved in a module or class."""
        first, dot, rest = name.partition(".")
        while scope is not None:
            for member in self._bound.get(f"{scope.path}.{first}", ())[-1:]:
                path = member.target_path if member.is_alias else member.path
                return f"{path}{dot}{rest}"
            scope = scope.parent
        return None

    def _declared(self, attribute: Any, annotation: str) -> str | None:
        try:
            name = calls.declared(ast.parse(annotation, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return None if name is None else self._expanded(attribute.parent, name)

    # -- modules -----------------------------------------------------------------------------------

    def _module(self, name: str) -> Any:
        if name not in self._modules:
            self._modules[name] = None
            self._modules[name] = self._visited(name)
        return self._modules[name]

    def _visited(self, name: str) -> griffe.Module | Unknown | None:
        if not _MODULE.fullmatch(name):
            return None
        above, _, last = name.rpartition(".")
        parent = self._module(above) if above else None
        if isinstance(parent, Unknown):
            return parent
        stem = name.replace(".", "/")
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            data = self._read(path)
            if data is None:
                continue
            try:
                text = data.decode("utf-8-sig")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # invalid escapes in somebody else's strings
                    module = self._griffe.visit(
                        last,
                        filepath=Path(path),
                        code=text,
                        parent=parent,
                        extensions=self._extensions,
                    )
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                return Unknown(name, f"{path} cannot be read: {type(error).__name__}")
            self._texts[name] = text.split("\n")
            return module
        if self._is_folder(stem):
            return self._griffe.Module(last, filepath=Path(stem, "__init__.py"), parent=parent)
        return None

    # -- callables ---------------------------------------------------------------------------------

    def _callee(self, found: Any, bound: bool) -> Callee | Unknown:
        kind = found.kind.value
        if kind == "function":
            return self._function(found, bound)
        if kind == "class":
            return self._constructor(found)
        return Unknown(found.path, "what it is is only known when the program runs")

    def _function(self, function: Any, bound: bool) -> Callee | Unknown:
        keywords: set[str] = set()
        for decorator in function.decorators:
            around = self._decorated(function, decorator)
            if isinstance(around, Unknown):
                return around
            keywords |= around
        signature = tuple(
            Parameter(
                each.name.lstrip("*"),
                _KINDS[each.kind.value],
                each.default is None,
            )
            for each in function.parameters
        )
        in_class = function.parent.kind.value == "class"
        given = bound or "classmethod" in function.labels or function.name == "__new__"
        if in_class and given and "staticmethod" not in function.labels:
            if signature and signature[0].kind in (Kind.POSITION, Kind.EITHER):
                signature = signature[1:]
            elif not signature or signature[0].kind is not Kind.REST:
                return Unknown(function.path, "it takes no instance")
        return Callee(function.path, signature, frozenset(keywords))

    def _constructor(self, kind: Any) -> Callee | Unknown:
        why = self._made_otherwise(kind)
        found = self._members((kind,), "__init__")
        first = found[0] if len(found) == 1 else None
        if why:
            return Unknown(kind.path, why)
        if first is None or isinstance(first, Missing):
            return Unknown(kind.path, "it has no __init__ of its own")
        if isinstance(first, Unknown):
            return Unknown(kind.path, first.why)
        return self._function(first, bound=True)

    def _made_otherwise(self, kind: Any) -> str:
        """Say what else than ``__init__`` decides what a class takes, "" if nothing does."""
        if kind.decorators:
            return f"the class is made by {kind.decorators[0].value}"
        metaclass = str(kind.keywords.get("metaclass", "ABCMeta")).rpartition(".")[2]
        if metaclass != "ABCMeta" or {*kind.keywords} - {"metaclass"}:
            return "the class has a metaclass or takes words of its own"
        makers = (*self._members((kind,), "__new__"), *self._members((kind,), "__init__"))
        for each in makers:
            if not isinstance(each, Unknown) and each.name == "__new__":
                return "its __new__ decides what it takes"
            if not isinstance(each, Unknown) and each.kind.value != "function":
                return "its __init__ is not a function"
        return ""

    def _decorated(self, function: Any, decorator: Any) -> frozenset[str] | Unknown:
        """Return the further keywords that a decorator takes, if it leaves the rest as it is."""
        name = str(decorator.value).partition("(")[0]
        path = self._expanded(function.parent, name) or name
        if path in _TRANSPARENT or (path == name and name in vars(builtins)):
            return frozenset()
        doubt = Unknown(function.path, f"what its decorator {name!r} takes is not known")
        if not _MODULE.fullmatch(path):
            return doubt
        keywords: set[str] = set()
        definitions = self.find(path)
        for each in definitions:
            if isinstance(each, (Unknown, Missing)) or each.kind.value != "function":
                return doubt
            lines = self._texts[each.module.path][each.lineno - 1 : each.endlineno]
            passed = _passes_on("\n".join(lines))
            if passed is None:
                return doubt
            keywords |= passed
        return frozenset(keywords) if definitions else doubt


class Missing(Unknown):
    """A name that nothing defines."""

    def __new__(cls, path: str) -> Missing:
        """Return it with the reason that all of them have."""
        return super().__new__(cls, path, "nothing of that name is defined there")


def _is_beside(defined: Any) -> bool:
    """Whether a function does not take its name: an overload, or the setter of a property."""
    return any(
        str(each.callable_path).rpartition(".")[2] in {"overload", "setter", "getter", "deleter"}
        for each in getattr(defined, "decorators", ())
    )


def _lazily_imported(text: str) -> str | None:
    """Return the name that ``wrapper("package.module", "name", …)`` stands for.

    Engines put imports off until the first call in this way. Whether there is such a module is
    seen when it is looked for.
    """
    if '"' not in text and "'" not in text:
        return None
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    words = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
    if len(words) != 2 or not all(isinstance(word, str) for word in words):
        return None
    module, name = map(str, words)
    return f"{module}.{name}" if _MODULE.fullmatch(module) and name.isidentifier() else None


def _passes_on(text: str) -> frozenset[str] | None:
    """Return the words of a decorator if what it makes passes its arguments on as they are.

    It does if it returns the function itself, or one that takes ``*args, **kwargs`` and calls
    something with just these. It may take keywords out of them; those are words in its text.
    """
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    inner = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    ]
    if not any(_returns_its_own(node) or _is_wrapper(node) for node in inner):
        return None
    words = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    named = {each.arg for node in inner if _is_wrapper(node) for each in node.args.kwonlyargs}
    return frozenset(word for word in words if word.isidentifier()) | named


def _returns_its_own(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether it returns the only argument it has."""
    names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    results = [node.body] if isinstance(node, ast.Lambda) else list(_returned(node))
    return bool(names) and any(
        isinstance(each, ast.Name) and each.id == names[0] for each in results
    )


def _returned(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    pending: list[ast.AST] = list(node.body)
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Return) and each.value is not None:
            yield each.value
        elif not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(each))


def _is_wrapper(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    rest, mapping = node.args.vararg, node.args.kwarg
    if rest is None or mapping is None:
        return False
    first = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]  # most often self
    wanted = [*first, f"*{rest.arg}"]
    body = node.body if isinstance(node.body, list) else [node.body]
    return any(
        isinstance(each, ast.Call)
        and [ast.unparse(argument) for argument in each.args] == wanted
        and any(
            word.arg is None and ast.unparse(word.value) == mapping.arg for word in each.keywords
        )
        for part in body
        for each in ast.walk(part)
    )
