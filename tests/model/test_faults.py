"""What a change breaks: compile errors, vanished modules and names; never upstream's own faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pseries.model.verdicts import faults
from pseries.model.verdicts.faults import broken, exports, functions, lost, module_name, undefined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pseries.model.calls.signature import Parameter


class Release:
    """A release with a package ``eng`` of these modules."""

    def __init__(self, **modules: str) -> None:
        self.modules = {name.replace("__", "."): data.encode() for name, data in modules.items()}

    def exists(self, module: str) -> bool | None:
        if module.partition(".")[0] != "eng":
            return None
        return any(name == module or name.startswith(f"{module}.") for name in self.modules)

    def now(self, module: str) -> str | None:
        return "python/eng/fresh.py" if module == "eng.stale" else None

    def names(self, module: str) -> frozenset[str] | None:
        return exports(self.modules[module]) if module in self.modules else None

    def functions(self, module: str) -> Mapping[str, tuple[Parameter, ...]]:
        return functions(self.modules.get(module, b""))


RELEASE = Release(eng="", eng__ops="def run(): pass\nLIMIT = 3\n", eng__star="from .ops import *\n")


def said(before: str | None, after: str, path: str = "python/eng/m.py") -> list[str]:
    sides = None if before is None else before.encode(), after.encode()
    return [str(problem) for problem in broken({path: sides}, RELEASE, "python")]


def test_a_compile_error_is_the_changes_only_if_it_was_none_before():
    assert said("x = 1\n", "x = (\n") == [
        "python/eng/m.py:1: does not compile: '(' was never closed"
    ]
    assert said("return 1\n", "return 2\n") == []
    assert said("x = 1\n", "x = 1\nreturn x\n") == [
        "python/eng/m.py:2: does not compile: 'return' outside function"
    ]


FUNCTION = "def one():\n    x = 1\n\n\ndef two():\n    y = 2\n\n\nz = 3\n"


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ((("x = 1", "nonlocal x"),), ":2: does not compile: no binding for nonlocal 'x' found"),
        ((("y = 2", "yield 2\n    return 3"),), ""),
        ((("def two():", "class Two:"), ("y = 2", "return y")), ":6: does not compile: "),
        ((("x = 1", "x = 2"), ("z = 3", "return z")), ":9: does not compile: "),
        ((("z = 3", "continue"),), ":9: does not compile: 'continue' not properly in loop"),
        ((("def one", "from __future__ import gone\n\n\ndef one"),), ":1: does not compile: "),
        ((("z = 3", "from __future__ import annotations"),), ":9: does not compile: from __future"),
    ],
)
def test_only_what_a_change_touches_is_compiled(pairs: list[tuple[str, str]], expected: str):
    after = FUNCTION
    for pair in pairs:
        assert pair[0] in after
        after = after.replace(*pair)
    (found,) = said(FUNCTION, after) or [""]
    assert found.startswith(f"python/eng/m.py{expected}" if expected else "")
    assert bool(found) == bool(expected)


def test_of_a_class_only_the_methods_that_a_change_touches_are_compiled():
    apart = "\n    # a\n    # b\n\n"
    before = (
        f"class A:{apart}    def a(self):\n        self.x\n{apart}    def b(self):\n        pass\n"
    )
    assert said(before, before.replace("class A", "class B")) == []  # nothing else is touched
    assert said(before, before.replace("pass", "return 1")) == []
    assert said(before, before.replace("pass", "nonlocal x")) == [
        "python/eng/m.py:12: does not compile: no binding for nonlocal 'x' found"
    ]


def test_a_function_that_was_broken_before_is_no_news():
    before = FUNCTION.replace("x = 1", "nonlocal x")
    assert said(before, before.replace("z = 3", "z = 4")) == []
    assert said(before, before.replace("y = 2", "nonlocal y")) == []  # nor is a second one


NESTED = """def outer():
    x = 0

    y = 1

    def inner():
        nonlocal x
        x = 2

    z = inner
"""


@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        (NESTED, "def outer", "class outer"),
        (NESTED, "    y = 1", "class New:\n    y = 1\n    z = 2"),
        ("class A:\n    y = 1\n\n\n" + NESTED, "\n\ndef outer():\n", ""),
        ("def one():\n    pass\n\n\nx = 1\ny = 2\n", "y = 2", "global one"),
        ("# a\r# b\r# c\r# d\r# e\ndef f(a, b):\n    pass\n\n\nx = 1\n", "(a, b)", "(a, a)"),
    ],
)
def test_what_a_change_breaks_further_away_is_found(before: str, old: str, new: str):
    assert faults.compile_error(before.encode()) is None
    after = before.replace(old, new)
    assert faults.compile_error(after.encode()) is not None
    assert faults.not_compiling("eng/m.py", before.encode(), after.encode()) is not None


def test_text_that_a_change_lets_out_of_its_quotes_is_compiled():
    before = 'x = """\n\n\n\ndef one():\n    nonlocal x\n\'\'\'\n"""\ny = """ \'\'\' # """\n'
    assert said(before, before.replace('"""', "0", 1)) == [
        "python/eng/m.py:6: does not compile: no binding for nonlocal 'x' found"
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from eng.ops import run", []),
        ("from eng.ops import run, walk", ["'walk' is not in module 'eng.ops'"]),
        ("from .ops import walk", ["'walk' is not in module 'eng.ops'"]),
        ("from . import ops", []),
        ("from . import gone", ["'gone' is not in module 'eng'"]),
        ("from ..ops import run", ["module 'ops' is not in the release"]),
        ("from eng.gone import run", ["module 'eng.gone' is not in the release"]),
        ("import eng.gone", ["module 'eng.gone' is not in the release"]),
        (
            "import eng.stale",
            ["module 'eng.stale' is not in the release: it is python/eng/fresh.py now"],
        ),
        ("import eng.ops as ops", []),
        ("from eng.star import whatever", []),
        ("from torch.gone import run", []),
    ],
)
def test_imports_of_the_distributions_own_modules(line: str, expected: list[str]):
    found = said("x = 1\n", f"x = 1\n{line}\n")
    if line.startswith("from ..ops"):
        assert found == []  # out of the package: not ours to know
    else:
        assert found == [f"python/eng/m.py:2: {what}" for what in expected]


def test_what_was_there_before_is_not_reported():
    before = "from eng.gone import a\nx = missing\n"
    assert said(before, before + "y = 1\n") == []
    assert said(None, "x = missing\n") == [
        "python/eng/m.py:1: 'missing' is used, but nothing in the file defines it"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "def f(a, *b, c=1, **d):\n    return a, b, c, d, print, __file__\n",
        "for i in range(3):\n    pass\nprint(i)\n",
        "with open('x') as (a, b):\n    print(a, b)\n",
        "try:\n    pass\nexcept OSError as error:\n    print(error)\n",
        "x = [y for y in range(3) if (z := y)]\nprint(z)\n",
        "class A:\n    size = 1\n    def f(self):\n        return __class__\n    other = size\n",
        "def f():\n    global made\n    made = 1\nprint(made)\n",
        "match [1]:\n    case [a, *b] as c:\n        print(a, b, c)\n",
        "match {}:\n    case {'k': c, **d}:\n        print(c, d)\n",
        "import a.b as c, d.e\nprint(c, d)\n",
        "from a import *\nprint(anything)\n",
        "print = (lambda x, *y: x + y)(1)\n",
        "def f():\n    n = 1\n    def g():\n        nonlocal n\n        n += 1\n    return g\n",
    ],
)
def test_every_way_to_bind_a_name_is_known(source: str):
    assert undefined(source.encode()) == ()


def test_names_of_another_function_are_not_in_sight():
    assert undefined(b"def f():\n    a = 1\ndef g():\n    return a\n") == (faults.Use("a", 4),)


def test_modules_have_names():
    assert module_name("python/eng/a/b.py", "python") == "eng.a.b"
    assert module_name("eng/__init__.py") == "eng.__init__"
    assert exports(b"import a.b\nfrom c import d as e\nX: int\ny = 1\n") == {"a", "e", "X", "y"}
    assert exports(b"def __getattr__(name): ...\n") is None
    assert exports(b"print 1\n") is None


def test_other_files_are_left_alone():
    assert said("x", "y (", path="python/eng/m.txt") == []
    assert broken({"m.py": (b"x = 1\n", None)}, RELEASE) == ()


KERNEL = Release(
    eng="",
    eng__util=(
        "def kernel(q, k, softmax_scale=1): ...\n"
        "@made\ndef marked(q): ...\n"
        "if new:\n    def twice(q): ...\nelse:\n    def twice(q, k): ...\n"
        "def twice(q, k, v): ...\n"
        "class Thing:\n    def __init__(self, q): ...\n"
    ),
)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("kernel(q, k)", None),
        ("kernel(q, k, sm_scale=1.0)", "kernel() takes other arguments: it has no parameter"),
        ("kernel(q)", "kernel() takes other arguments: 'k' is not given"),
        ("kernel(*q)", None),
        ("util.kernel(q, k, sm_scale=1)", "util.kernel() takes other arguments"),
        ("marked(q, k)", None),
        ("twice(q)", None),
        ("Thing(q, k)", None),
        ("(lambda kernel: kernel(1))(q)", None),
    ],
)
def test_calls_of_functions_that_take_other_arguments(call: str, problem: str | None):
    """C01: the patch passes a keyword that the new release renamed in another file."""
    before = "x = 1\n"
    first = "from eng import util\nfrom eng.util import Thing, kernel, marked, twice\n"
    after = f"{first}{before}def run(q, k):\n    return {call}\n"
    found = broken({"eng/m.py": (before.encode(), after.encode())}, KERNEL)
    if problem is None:
        assert found == ()
    else:
        assert [each.where for each in found] == ["eng/m.py:5"]
        assert problem in found[0].what


def test_upstreams_own_calls_are_not_the_changes():
    text = "from eng.util import kernel\nkernel(1, 2, gone=3)\n"
    assert broken({"eng/m.py": (text.encode(), f"{text}y = 1\n".encode())}, KERNEL) == ()


RUNNER = """\
class Runner:
    def __init__(self, size):
        self.size = size

    def run(self):
        return 1
"""
USE = (b"return 1", b"return 1 + self.size")


def lost_in(ours: str, old: str = RUNNER, use: tuple[bytes, bytes] = USE) -> list[str]:
    before = ours.encode()
    assert use[0] in before
    return [str(one) for one in lost("eng/m.py", old.encode(), before, before.replace(*use))]


GONE = RUNNER.replace("self.size = size", "pass")


def test_an_attribute_that_the_file_sets_no_more_is_lost():
    assert lost_in(GONE) == [
        "eng/m.py:6: self.size is used, but nothing in the file sets it any more"
    ]


@pytest.mark.parametrize(
    "ours",
    [
        RUNNER,
        GONE.replace("Runner:", "Runner:\n    size = 1"),
        GONE.replace("Runner:", "Runner:\n    size: int"),
        GONE.replace("    def run", "    def size(self):\n        pass\n\n    def run"),
        GONE.replace(
            "    def run", "    def __getattr__(self, name):\n        pass\n\n    def run"
        ),
        GONE.replace("pass", "setattr(self, 'size', size)"),
        GONE.replace("pass", "print(self.size)"),  # from a class elsewhere, it seems
        GONE + "\n\ndef made():\n    runner = Runner(1)\n    runner.size = 2\n",
    ],
)
def test_an_attribute_that_may_be_there_is_not_lost(ours: str):
    assert lost_in(ours) == []


def test_an_attribute_that_the_file_never_set_or_that_the_change_sets_is_not_lost():
    assert lost_in(GONE, old=GONE) == []
    assert lost_in(GONE, use=(b"return 1", b"self.size = 1\n        return self.size")) == []
    assert lost_in(GONE, use=(b"return 1", b"return self")) == []
    assert [*lost("eng/m.py", b"(", b"(", b"(")] == []
