"""Sources written to make whoever reads them recurse, multiply or wait: an answer, and soon."""

from __future__ import annotations

import time

import pytest

from pseries.model.calls import binding
from pseries.model.calls.binding import Bound
from pseries.model.calls.definitions import Definitions

FI = "def run(q, k, *, scale=1): ...\nclass K:\n    def go(self, a): ...\n"


def bind(text: str | bytes, fi: str | bytes = FI, **more: str) -> Bound:
    files = {"fi/__init__.py": fi, **{f"fi/{name}.py": data for name, data in more.items()}}

    def read(path: str) -> bytes | None:
        data = files.get(path)
        return data.encode() if isinstance(data, str) else data

    data = text.encode() if isinstance(text, str) else text
    definitions = Definitions(read, lambda path: path == "fi")
    return binding.bind("eng/x.py", data, "eng.x", {"fi"}, definitions)


USE = "import fi\nfi.run(1, 2)\n"
DEEP = 900


@pytest.mark.parametrize("text", [
    USE + "x = " + "lambda: " * 300 + "fi.run(1)\n",
    USE + "x = " + "(" * 150 + "fi.run(1)" + ")" * 150 + "\n",
    USE + "fi" + ".a" * 3000 + "()\n",
    USE + "fi" + "()" * 900 + ".run()\n",
    USE + "y = " + "fi if 1 else " * DEEP + "fi\ndef f():\n    z = " + "fi if 1 else " * DEEP
    + "fi\n    z.run(1, 2)\n",
    USE + "def f(a: " + "'x' | " * DEEP + "fi.K):\n    a.go(1, 2)\n",
    USE + "def f(a: " + "fi.K | " + "None | " * DEEP + "None):\n    a.go(1, 2)\n",
    USE + "def f(a: " + "Optional[" * 150 + "fi.K" + "]" * 150 + "):\n    a.go(1, 2)\n",
    USE + "if 1:\n    pass\n" + "elif 1:\n    fi.run(1)\n" * DEEP,
    USE + "import " + ".".join(["fi"] * 3000) + "\n",
    USE + "from " + "." * 3000 + "fi import run as r\nr(1)\n",
    USE + "x = " + "-" * 3000 + "1\n",
    USE + "x = " + "1 + " * 20_000 + "fi.run(1)\n",
    USE + "\0",
    b"# coding: nope\n" + USE.encode(),
    b"# coding: utf-7\n" + USE.encode(),
    b"\xff\xfe" + USE.encode("utf-16-le"),
    USE + "x = '" + "a" * 1_000_000 + "'\n",
    USE + "fi.run(" + "1, " * 100_000 + ")\n",
], ids=range(19))  # fmt: skip
def test_callers(text: str | bytes) -> None:
    bound = bind(text)
    assert bound.calls or bound.unknown


@pytest.mark.parametrize("fi", [
    "run = " + "(" * 150 + "x" + ")" * 150,
    "run = x" + ".a" * 3000,
    "run = x" + "()" * 900,
    "run = " + "lambda: " * 900 + "1",
    "run = " + "1 + " * 5000 + "1",
    "run = " + "a if 1 else " * DEEP + "b",
    "def run(q, k=" + "-" * 900 + "1): ...",
    "def run(q: " + "x[" * 150 + "1" + "]" * 150 + ", k): ...",
    "@d" + "()" * 900 + "\ndef run(q, k): ...",
    "def d(f):\n    return " + "-" * 900 + "f\n@d\ndef run(q, k): ...",
    "from fi import run",
    "from .a import run",
    "from .a import *\nfrom fi import *",
    "run = go\ngo = run",
    "class run(run): ...",
    "class run(A): ...\nclass A(run): ...",
    "run: run",
    "def __getattr__(name): ...",
    "\0",
    "# coding: nope\ndef run(q, k): ...",
    "def run(q, q): ...",
    "def run(q, k): ...\n" * 5000,
    "match 1:\n    case run: ...",
    "type run = int",
    "class run[T]: ...",
    "async def run(q, k): ...",
    "@property\ndef run(self): ...",
    "import fi.a as run",
    "run, k = 1, 2",
    "for run in (): ...",
    "with open('') as run: ...",
    "del run",
    "global run",
    "run += 1",
    "(run := 1)",
    "try: ...\nexcept* E as run: ...",
    "from . import *",
    "from .... import run",
    "__all__ = ['run'] + [*x]",
    "@run\ndef run(q, k): ...",
    "@overload\ndef run(q): ...",
], ids=range(41))  # fmt: skip
def test_definitions(fi: str) -> None:
    bound = bind(USE + "fi.K().go(1)\nfrom fi import run\nrun(1, 2)\n", fi, a="from . import run")
    assert bound.calls or bound.unknown


def timed(*words: str, **more: str) -> float:
    begun = time.process_time()
    bind(*words, **more)
    return time.process_time() - begun


def test_classes_that_inherit_one_name_in_many_ways() -> None:
    lines = ["class A0: ...", "class B0: ..."]
    for at in range(1, 24):
        lines += [f"class {side}{at}(A{at - 1}, B{at - 1}): ..." for side in "AB"]
    assert timed("from fi import A23\ndef f(a: A23):\n    a.go(1)\nA23()\n", "\n".join(lines)) < 5


@pytest.mark.parametrize("made", [
    lambda n: "import fi\n" + "fi.run(1)\n" * n + "fi.run(1, 2)\n" * n,
    lambda n: "import fi\ntry:\n" + "    fi.run(1)\n" * n
    + "except E:\n" + "    fi.run(1, 2)\n" * n,
    lambda n: "import fi\ndef f(" + ", ".join(f"a{at}" for at in range(n)) + "):\n"
    + "".join(f"    a{at}.go(1)\n" for at in range(n)) + "f()\n" * n,
    lambda n: "import fi\n" + "def f(a):\n    a.go(1)\n" * n + "f(fi)\n" * n,
    lambda n: "import fi\ndef f(a):\n" + "    x = fi.K()\n    x.go(1)\n" * n,
    lambda n: "import fi\nclass C:\n    def f(self):\n"
    + "        self.x = fi.K()\n        self.x.go(1)\n" * n,
    lambda n: "".join(f"from fi import run as r{at}\nr{at}(1)\n" for at in range(n)),
], ids=range(7))  # fmt: skip
def test_time_grows_with_the_size(made: object) -> None:
    took = [timed(made(size)) for size in (500, 4000)]  # type: ignore[operator]
    assert took[1] < took[0] * 32 + 1, took  # with the square it would be 64 times


def test_a_package_of_many_names_takes_time_that_grows_with_it() -> None:
    def package(size: int) -> tuple[str, str]:
        names = [f"run{at}" for at in range(size)]
        fi = "".join(f"def {name}(q): ...\n" for name in names)
        return "import fi\n" + "".join(f"fi.{name}(1, 2)\n" for name in names), fi

    took = [timed(*package(size)) for size in (500, 4000)]
    assert took[1] < took[0] * 32 + 1, took
