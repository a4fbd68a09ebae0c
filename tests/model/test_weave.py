"""Merging by words: what is carried, what is refused, and that all of the text survives."""

from __future__ import annotations

import contextlib
import time

import pytest

from pseries.model.verdicts import weave
from pseries.model.verdicts.weave import Unreadable, Weave


def woven(base: str, ours: str, theirs: str) -> tuple[str, str] | None:
    result = weave.weave(base.encode(), ours.encode(), theirs.encode())
    return None if result is None else (result.how.name, result.text.decode())


CARRIED = {
    "other words of one call": (
        "x = foo(a, b)\n", "x = bar(a, b)\n", "x = foo(a, c)\n", "x = bar(a, c)\n",
    ),
    "arguments of two calls": (
        "x = f(a) + g(b)\n", "x = f(a1) + g(b)\n", "x = f(a) + g(b, 2)\n", "x = f(a1) + g(b, 2)\n",
    ),
    "lines next to each other": (
        "    aa = 1\n    bb = 2\n", "    aa = 10\n    bb = 2\n", "    aa = 1\n    bb = 20\n",
        "    aa = 10\n    bb = 20\n",
    ),
    "keywords at one point": (
        "x = foo(a)\n", "x = foo(a, size=1)\n", "x = foo(a, name=2)\n",
        "x = foo(a, size=1, name=2)\n",
    ),
    "imported names at one point": (
        "from x import (\n    a,\n)\n", "from x import (\n    a,\n    fast,\n)\n",
        "from x import (\n    a,\n    slow,\n)\n",
        "from x import (\n    a,\n    fast,\n    slow,\n)\n",
    ),
    "imports at one point": (
        "import a\n", "import a\nimport json\n", "import a\nimport re\n",
        "import a\nimport json\nimport re\n",
    ),
    "imports before the first line": (
        "from a import b\n", "import json\nfrom a import b\n", "import re\nfrom a import b\n",
        "import json\nimport re\nfrom a import b\n",
    ),
    "methods at one point": (
        "    def f(self):\n        return 1\n",
        "    def f(self):\n        return 1\n\n    def size(self):\n        return len(self.all)\n",
        "    def f(self):\n        return 1\n\n    def name(self):\n        yield from 'abc'\n",
        (
            "    def f(self):\n        return 1\n\n    def size(self):\n"
            "        return len(self.all)\n\n    def name(self):\n        yield from 'abc'\n"
        ),
    ),
    "another condition of one test": (
        "if a and b:\n", "if a and is_new(b):\n", "if a and b and not c:\n",
        "if a and is_new(b) and not c:\n",
    ),
    "an import between others of which some are gone": (
        "from a import (\n    b,\n)\nfrom c import (\n    d,\n)\nfrom f import (\n    g,\n)\n",
        "from c import (\n    d,\n)\n",
        (
            "from a import (\n    b,\n)\nfrom c import (\n    d,\n)\nfrom e import h\n"
            "from f import (\n    g,\n)\n"
        ),
        "from c import (\n    d,\n)\nfrom e import h\n",
    ),
    "an import beside one that is gone": (
        "from a import x\nfrom c import y\n", "from c import y\n",
        "from a import x\nfrom b import z\nfrom c import y\n", "from b import z\nfrom c import y\n",
    ),
    "a comment at the end of the line": (
        "foo(a)  # old\n", "foo(a)  # new\n", "foo(a, b)  # old\n", "foo(a, b)  # new\n",
    ),
    "an else alone": (
        "    else:\n        x = f(1)\n", "    else:\n        x = f(\n            1)\n",
        "    else:\n        x = f(1)\n        y = 2\n",
        "    else:\n        x = f(\n            1)\n        y = 2\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CARRIED)
def test_it_carries(name: str):
    base, ours, theirs, expected = CARRIED[name]
    found = woven(base, ours, theirs)
    assert found is not None
    assert found[1] == expected


REFUSED = {
    "the same word": ("x = 1\n", "x = 2\n", "x = 3\n"),
    "one comparison": ("if a > 5:\n", "if a >= 5:\n", "if a > 6:\n"),
    "one conditional": ("x = a if b else c\n", "x = a if d else c\n", "x = a if b else e\n"),
    "one sum": ("x = a + b\n", "x = a - b\n", "x = a + c\n"),
    "one attribute chain": ("x = a.b.c\n", "x = a.d.c\n", "x = a.b.e\n"),
    "statements at one point": (
        "    a = 1\n    b = 2\n",
        "    a = 1\n    f()\n    b = 2\n",
        "    a = 1\n    g()\n    b = 2\n",
    ),
    "positional parameters": ("def f(a):\n", "def f(a, b):\n", "def f(a, c):\n"),
    "positional arguments at two points": ("f(a)\n", "f(b, a)\n", "f(a, c)\n"),
    "members of a tuple at two points": ("x = (a,)\n", "x = (b, a)\n", "x = (a, c)\n"),
    "a keyword in two spellings": ("f(a)\n", "f(a, timeout=t)\n", "f(a, timeouts=t)\n"),
    "a function in two spellings": (
        "def f():\n    pass\n",
        "def f():\n    pass\n\ndef load(x):\n    y = read(x)\n    return parse(y, x)\n",
        "def f():\n    pass\n\ndef loads(x):\n    y = read(x)\n    return parse(y, x)\n",
    ),
    "an edit of what is gone": ("f(a)\ng(b)\n", "g(b)\n", "f(a, 1)\ng(b)\n"),
    "an insertion beside what is gone": ("f(a)\ng(b)\n", "g(b)\n", "f(a)\nh()\ng(b)\n"),
    "an insertion beside what became another thing": ("foo(a)\n", "bar(b)\n", "foo(a)\nbaz()\n"),
    "a name from a module that changed": (
        "from a import x\n", "from b import x\n", "from a import x, y\n",
    ),
    "a comment where code was added": (
        "    b = 2\n", "    a = 1\n    b = 2\n", "    # about b\n    b = 2\n",
    ),
    "the body of a test that became another test": (
        "if a:\n    f(1)\n", "if b:\n    f(2)\n", "if a:\n    f(1)\n    g()\n",
    ),
    "another call": ("x = f(a, b)\n", "x = g(c, b)\n", "x = f(a, d)\n"),
    "a star import": ("import a\n", "import a\nfrom b import *\n", "import a\nimport c\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(name: str):
    assert woven(*REFUSED[name]) is None


def test_upstream_layout_stays():
    base = "if ready and (a or b):\n    go()\n"
    ours = "# a note\nif (\n    ready  # now\n    and (a or b)\n):\n    go()\n"
    theirs = "if ready and not off and (a or b):\n    go()\n"
    assert woven(base, ours, theirs) == (
        "LAYOUT",
        "# a note\nif (\n    ready  # now\n    and not off and (a or b)\n):\n    go()\n",
    )


def test_what_is_put_before_a_word_that_upstream_moved_to_a_line_of_its_own_stands_there_too():
    ours = "from a import (\n    slow,\n    small,\n)\n"
    assert woven("from a import slow\n", ours, "from a import fast, slow\n") == (
        "WOVEN",
        "from a import (\n    fast,\n    slow,\n    small,\n)\n",
    )


def test_what_upstream_holds_in_another_layout_is_seen():
    base = "if ready and (a or b):\n    go()\n"
    theirs = "if ready and not off and (a or b):\n    go()\n"
    ours = "if (\n    ready\n    and not off\n    and (a or b)\n):\n    # now\n    go()\n"
    assert woven(base, ours, theirs) == ("HELD", ours)
    other = ours.replace("not off", "not on")
    assert woven(base, other, theirs) is None


def test_a_removal_is_not_held_by_something_else_in_its_place():
    assert woven("a = 1\nf(1)\n", "a = 1\ng(2, 3)\n", "a = 1\n") is None
    assert woven("a = 1\nf(1)\n", "a = 1\n", "a = 1\n") == ("HELD", "a = 1\n")


def test_a_block_that_upstream_put_into_another_one_is_not_called_layout():
    base, ours = "    f(a)\n    g(b)\n", "        f(a)\n        g(b)\n"
    assert woven(base, ours, "    f(a)\n    g(c)\n") == ("WOVEN", "        f(a)\n        g(c)\n")
    # what the patch adds keeps its own indentation and would be in another block
    assert woven(base, ours, "    f(a)\n    h()\n    g(b)\n") is None


@pytest.mark.parametrize("text", ["x = (\n", "    try:\n", "@mark\n", "'''open\n"])
def test_what_is_no_piece_of_python_says_so(text: str):
    if text == "    try:\n":
        text = "    try:\n        pass\n"
    with pytest.raises(Unreadable):
        weave.weave(text.encode(), text.encode() + b"\n", text.encode() + b"\n\n")


@pytest.mark.parametrize(
    "text",
    [
        "x = 'a' + f\"{b!r:>{w}}\"  # c\n\tif y:\\\n  z\n",
        "'''open\nnever closed",
        "\x0cclass A: pass\r\n\r\n  \xe9 = 1_000.5e-3j ** ...\n",
        "$ ? \\ `\x00\n",
        "",
    ],
)
def test_tokens_joined_are_the_text(text: str):
    assert "".join(token.gap + token.text for token in weave.tokens(text)) == text


@pytest.mark.parametrize(
    "text", ["'''x" * 15_001, "(" * 60_000, "\\\n" * 60_000, "x" + "'" * 60_001, "[" * 60_000]
)
def test_hostile_text_is_refused_in_time(text: str):
    started = time.process_time()
    with contextlib.suppress(Unreadable):
        assert weave.weave(b"a = 1\n", b"a = 2\n", text.encode()) is None
    assert time.process_time() - started < 5


def test_how_it_came_about_is_said():
    assert {how.name for how in Weave} == {"HELD", "LAYOUT", "WOVEN"}
