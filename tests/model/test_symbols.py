"""Scopes of lines, and equal programs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pseries.model import symbols
from pseries.model.verdicts import faults

SOURCE = b"""import os

@mark
class A:
    x = 1

    def f(self):
        def inner():
            return 1
        return inner

    async def g(self):
        if True:
            def deep():
                pass

y = 2
"""


def where(first: int, last: int | None = None) -> str:
    tree = symbols.parse(SOURCE)
    assert tree is not None
    return symbols.enclosing(symbols.scopes(tree), first, last or first)


def test_it_names_the_innermost_scope():
    assert where(1) == symbols.MODULE
    assert where(3) == "A"  # the decorator belongs to the class
    assert where(5) == "A"
    assert where(9) == "A.f.inner"
    assert where(10) == "A.f"
    assert where(15) == "A.g.deep"
    assert where(17) == symbols.MODULE


def test_lines_that_span_two_functions_stand_in_what_holds_both():
    assert where(10, 12) == "A"
    assert where(2, 12) == symbols.MODULE


def test_what_does_not_parse_has_no_tree():
    assert symbols.parse(b"def f(:\n") is None
    assert symbols.parse(b"x = '\0'\n") is None
    assert symbols.parse(b"(" * 5000) is None


def test_layout_and_comments_do_not_make_another_program():
    assert symbols.same_program(b"f(a, b)\n", b"f(\n    a,  # why\n    b,\n)\n")
    assert not symbols.same_program(b"f(a, b)\n", b"f(b, a)\n")
    assert not symbols.same_program(b"f(:\n", b"f(:\n")


@pytest.mark.parametrize("file", [symbols.__file__, faults.__file__, ast.__file__])
def test_nodes_at_lines_are_those_that_a_walk_finds_there(file: str) -> None:
    text = Path(file).read_bytes() + (
        b"class A:\n    @mark(\n        1)\n    async def f(self):\n"
        b"        match x:\n            case {1: y, **rest}:\n                def g(): pass\n"
    )
    tree = symbols.parse(text)
    assert tree is not None
    every = list(ast.walk(tree))
    count = text.count(b"\n")
    for lines in ({1}, {count}, {count - 2}, {count - 5, 3}, set(range(7, count, 60)), set()):
        found = set(map(id, symbols.nodes_at(tree, lines)))
        for node in every:
            first = getattr(node, "lineno", None)
            if first is not None and any(first <= at <= (node.end_lineno or 0) for at in lines):
                assert id(node) in found, ast.dump(node)
        assert len(found) < len(every) / 2


def test_the_search_for_garbage_goes_on_after_a_tree_that_is_none() -> None:
    import gc

    assert symbols.parse(b"def f(:\n# once\n") is None
    assert gc.isenabled()
