"""Calls followed from a file into a package that only exists as text."""

from __future__ import annotations

import pytest

from pseries.model.calls import binding
from pseries.model.calls.binding import Bound
from pseries.model.calls.definitions import Definitions

KERNELS = {
    "fi/__init__.py": "from .decode import Wrapper as Wrapper\nfrom .star import *\n",
    "fi/log.py": (
        "import functools\n"
        "def api(f=None, *, trace=None):\n"
        "    def decorator(f):\n"
        "        @functools.wraps(f)\n"
        "        def wrapper(*args, **kwargs):\n"
        "            kwargs.pop('skip_check', None)\n"
        "            return f(*args, **kwargs)\n"
        "        return wrapper\n"
        "    return decorator(f)\n"
        "def fixed(f):\n"
        "    def wrapper(x):\n"
        "        return f(x, 1)\n"
        "    return wrapper\n"
        "def same(name):\n"
        "    return lambda x: x\n"
        "def method(f):\n"
        "    def wrapper(self, *args, **kwargs):\n"
        "        return f(self, *args, **kwargs)\n"
        "    return wrapper\n"
        "def injects(f):\n"
        "    def wrapper(*args, **kwargs):\n"
        "        return f(0, *args, **kwargs)\n"
        "    return wrapper\n"
    ),
    "fi/decode.py": (
        "from typing import overload\n"
        "from dataclasses import dataclass\n"
        "from .log import api, fixed, same, method, injects\n"
        "from outside import unheard\n"
        "class Base:\n"
        "    def run(self, q, k): ...\n"
        "class Wrapper(Base):\n"
        "    @api\n"
        "    def __init__(self, workspace, layout='NHD'): ...\n"
        "    @overload\n"
        "    def plan(self, a): ...\n"
        "    @method\n"
        "    def plan(self, indptr, pages, o_type=1, data_type=2, scale=3): ...\n"
        "    @classmethod\n"
        "    def make(cls, size): ...\n"
        "    @staticmethod\n"
        "    def bits(value): ...\n"
        "@api\n"
        "def decode(q, k, *, scale=1): ...\n"
        "@api(trace=1)\n"
        "def traced(q): ...\n"
        "@same('x')\n"
        "def named(q): ...\n"
        "@fixed\n"
        "def fixed_one(q, k): ...\n"
        "@injects\n"
        "def injected(q, k): ...\n"
        "@unheard\n"
        "def unheard_of(q): ...\n"
        "@dataclass\n"
        "class Config:\n"
        "    size: int\n"
        "class Odd(Wrapper, metaclass=type): ...\n"
        "class Strange(unheard): ...\n"
        "if unheard:\n"
        "    def either(q): ...\n"
        "else:\n"
        "    def either(q, k): ...\n"
        "alias = decode\n"
    ),
    "fi/star.py": "def starred(a): ...\n",
    "fi/lazy.py": "def __getattr__(name): ...\n",
    "fi/space/inner.py": "def inside(a): ...\n",
    "fi/circle.py": "from fi.circle2 import x\n",
    "fi/circle2.py": "from fi.circle import x\n",
    "fi/broken.py": "def (:\n",
    "eng/wrappers.py": "decode = lazily('fi.decode', 'decode', fallback=None)\n",
    "eng/data.py": "from fi import Wrapper\nclass Meta:\n    wrapper: Wrapper | None = None\n",
}


def bind(text: str, **more: str) -> Bound:
    files = {**KERNELS, **more, "eng/sub/m.py": text}

    def read(path: str) -> bytes | None:
        return files[path].encode() if path in files else None

    def is_folder(path: str) -> bool:
        return any(each.startswith(f"{path}/") for each in files)

    found = Definitions(read, is_folder)
    return binding.bind("eng/sub/m.py", text.encode(), "eng.sub.m", {"fi"}, found)


def said(text: str, **more: str) -> list[str]:
    """Return what does not fit, then what could not be compared, as ``LINE: WORDS``."""
    bound = bind(text, **more)
    wrong = [f"{each.line}: {one.what}" for each in bound.misfits for one in each.misfits]
    return wrong + [f"{each.where.rpartition(':')[2]}? {each.what}" for each in bound.unknown]


NO_W = "it has no parameter 'w'"


@pytest.mark.parametrize(
    "text",
    [
        "from fi.decode import decode\ndecode(1, 2, w=3)",
        "import fi.decode\nfi.decode.decode(1, 2, w=3)",
        "import fi.decode as d\nd.decode(1, 2, w=3)",
        "from fi import decode as d\nd.decode(1, 2, w=3)",
        "from fi.decode import alias\nalias(1, 2, w=3)",
        "from fi import starred\nstarred(1, w=3)",
        "from fi.space.inner import inside\ninside(1, w=3)",
        "from eng.wrappers import decode\ndecode(1, 2, w=3)",
        "from ..wrappers import decode\ndecode(1, 2, w=3)",
        "from fi import Wrapper\nWrapper(1, w=3)",
        "from fi import Wrapper\nWrapper.make(1, w=3)",
        "from fi import Wrapper\nWrapper.bits(1, w=3)",
        "from fi.decode import traced\ntraced(1, w=3)",
        "from fi.decode import named\nnamed(1, w=3)",
    ],
)
def test_names_are_followed(text: str):
    assert said(text) == [f"2: {NO_W}"]


@pytest.mark.parametrize(
    "body",
    [
        "def f():\n    x = Wrapper(1)\n    x.plan(1, 2, w=3)",
        "def f(x: Wrapper):\n    x.plan(1, 2, w=3)",
        "def f(x: Optional[Wrapper] = None):\n    x.plan(1, 2, w=3)",
        "def f(x: 'Wrapper | None' = None):\n    x.plan(1, 2, w=3)",
        "def f(x: fi.Wrapper):\n    x.run(1, 2, w=3)",
        "def f(x=None):\n    x.plan(1, 2, w=3)\nf(Wrapper(1))",
        "def f(x):\n    x.plan(1, 2, w=3)\ndef g(y: Wrapper):\n    f(x=y)",
        (
            "class C:\n    def __init__(self):\n        self.x = None\n"
            "    def late(self):\n        self.x = Wrapper(1)\n"
            "    def use(self):\n        self.x.plan(1, 2, w=3)"
        ),
        "class C:\n    x: Optional[Wrapper] = None\ndef f(c: C):\n    c.x.plan(1, 2, w=3)",
        "from eng.data import Meta\ndef f(m: Meta):\n    m.wrapper.plan(1, 2, w=3)",
        "class Mine(Wrapper):\n    def go(self):\n        self.plan(1, 2, w=3)",
        "def f(flag):\n    x = Wrapper(1) if flag else None\n    x.plan(1, 2, w=3)",
    ],
)
def test_objects_are_followed(body: str):
    text = f"import fi\nfrom typing import Optional\nfrom fi import Wrapper\n{body}\n"
    line = next(at for at, each in enumerate(text.split("\n"), 1) if "w=3" in each)
    assert said(text) == [f"{line}: {NO_W}"]


@pytest.mark.parametrize(
    "body",
    [
        "def f(x):\n    x.plan(1, 2, w=3)",  # nobody says what it is
        "def f(x):\n    x.plan(1, 2, w=3)\nf(Wrapper(1))\nf(other())",
        "def f(x: Wrapper):\n    x = other()\n    x.plan(1, 2, w=3)",
        "def f():\n    for x in Wrapper(1):\n        x.plan(1, 2, w=3)",
        "def f(Wrapper):\n    Wrapper(1, w=3)",
        "def f(x: Wrapper | int):\n    x.plan(1, 2, w=3)",
        "def f(x: list[Wrapper]):\n    x.plan(1, 2, w=3)",
        "class C:\n    def use(self):\n        self.x.plan(1, 2, w=3)",
        "def f():\n    x = x.y\n    x.plan(w=3)",
        "decode(1, 2, w=3)",
    ],
)
def test_what_is_not_known_is_not_reported(body: str):
    assert said(f"from fi import Wrapper\n{body}\n") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("from fi.decode import fixed_one\nfixed_one(1)", "decorator 'fixed' takes is not known"),
        ("from fi.decode import injected\ninjected(1)", "decorator 'injects' takes is not known"),
        ("from fi.decode import unheard_of\nunheard_of(1)", "decorator 'unheard' takes"),
        ("from fi.decode import Config\nConfig(1)", "the class is made by dataclass"),
        ("from fi.decode import Odd\nOdd(1)", "a metaclass"),
        ("from fi.decode import Strange\nStrange(1)", "'outside' is not installed here"),
        ("from fi.decode import gone\ngone(1)", "nothing of that name is defined there"),
        ("from fi.lazy import thing\nthing(1)", "makes its names when they are asked for"),
        ("from fi.circle import x\nx(1)", "round in a circle"),
        ("from fi.broken import x\nx(1)", "fi/broken.py cannot be read: SyntaxError"),
    ],
)
def test_what_cannot_be_told_is_said(text: str, why: str):
    found = said(text)
    assert len(found) == 1
    assert found[0].startswith("2? ")
    assert why in found[0]


def test_a_name_with_two_definitions_is_wrong_only_for_both():
    first = "from fi.decode import either\n"
    assert said(f"{first}either(1)\neither(1, 2)\neither(1, k=2)") == []
    assert said(f"{first}either(1, 2, 3)") == ["2: 3 arguments by position, but it takes 1"]
    text = "try:\n    from fi.decode import decode as d\nexcept ImportError:\n    d = None\n"
    assert said(f"{text}d(1, 2, w=3)") == [f"5: {NO_W}"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("if new:", "else:"), ("try:", "except TypeError:")],
)
def test_a_program_that_asks_what_is_installed(one: str, other: str):
    text = "from fi.decode import decode\n{}\n    decode(1, 2, w=3)\n{}\n    decode({})\n"
    assert said(text.format(one, other, "1, 2")) == []
    assert said(text.format(one, other, "1, 2, v=3")) == [
        f"3: {NO_W}", "5: it has no parameter 'v'"
    ]  # fmt: skip
    assert said(f"{text.format(one, other, '1, 2')}decode(1, w=3, k=2)") == [f"6: {NO_W}"]


def test_keywords_that_a_decorator_takes_out():
    assert said("from fi.decode import decode\ndecode(1, 2, skip_check=True)") == []


def test_counts():
    bound = bind("from fi.decode import decode\ndecode(1, 2)\ndecode(*x)\ndecode(1, **x)\nprint(1)")
    assert (bound.calls, bound.partly, bound.misfits, bound.unknown) == (3, 2, (), ())


def test_a_file_that_does_not_parse():
    assert said("def (") == ["eng/sub/m.py? it does not parse, so its calls are not known"]


def test_nothing_takes_long():
    """Assignments that refer to each other could be followed in more ways than there is time."""
    lines = [f"x{at} = x{at + 1} if a else x{at + 2}" for at in range(200)] * 3
    body = "\n".join(f"    {line}" for line in lines)
    assert said(f"from fi import Wrapper\ndef f(a):\n{body}\n    x0.plan(w=3)\n") == []
    deep = ".".join(["a"] * 900)
    assert said(f"from fi import Wrapper\n{deep}.plan(w=3)\nWrapper(1, w=3)\n") == [f"3: {NO_W}"]
