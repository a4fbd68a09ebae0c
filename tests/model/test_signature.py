"""Calls against signatures: Python's own rules, and arguments that an insertion shifted."""

from __future__ import annotations

import ast
import inspect

import pytest

from pseries.model.calls import signature
from pseries.model.calls.call import arguments
from pseries.model.calls.signature import Fault, Kind, Parameter

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: Kind.POSITION,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: Kind.EITHER,
    inspect.Parameter.KEYWORD_ONLY: Kind.KEYWORD,
    inspect.Parameter.VAR_POSITIONAL: Kind.REST,
    inspect.Parameter.VAR_KEYWORD: Kind.MAPPING,
}


def parameters(text: str) -> tuple[Parameter, ...]:
    space: dict[str, object] = {}
    exec(f"def f({text}): pass", space)  # noqa: S102 - the test's own text
    return tuple(
        Parameter(each.name, _KINDS[each.kind], each.default is each.empty)
        for each in inspect.signature(space["f"]).parameters.values()  # type: ignore[arg-type]
    )


def faults(parameter_list: str, call: str, known: frozenset[str] = frozenset()) -> list[Fault]:
    node = ast.parse(f"f({call})", mode="eval").body
    assert isinstance(node, ast.Call)
    found = signature.misfits(arguments(node), parameters(parameter_list), known)
    return [each.fault for each in found]


@pytest.mark.parametrize(
    "parameter_list",
    ["a, b=1", "a, /, b", "a, *, b", "*a, b=2", "**a", "a, /, **b", "a, *b, c", ""],
)
@pytest.mark.parametrize(
    "call", ["", "1", "1, 2", "1, 2, 3", "a=1", "1, b=2", "1, a=2", "b=1", "c=3", "1, 2, c=3"]
)
def test_it_agrees_with_python(parameter_list: str, call: str):
    space: dict[str, object] = {}
    exec(f"def f({parameter_list}): pass", space)  # noqa: S102 - the test's own text
    try:
        eval(f"f({call})", space)  # noqa: S307
        fits = True
    except TypeError:
        fits = False
    assert (faults(parameter_list, call) == []) is fits


def test_it_says_which():
    assert faults("a, b", "1, b=2, c=3") == [Fault.UNEXPECTED]
    assert faults("a, b", "1, b=2, c=3", frozenset({"c"})) == []
    assert faults("a, b", "1") == [Fault.MISSING]
    assert faults("a, b", "1, 2, 3") == [Fault.TOO_MANY]
    assert faults("a, b", "1, 2, a=3") == [Fault.TWICE]


@pytest.mark.parametrize(
    ("call", "expected"),
    [("*x", []), ("**x", []), ("1, *x", []), ("*x, d=1", [Fault.UNEXPECTED]),
     ("**x, d=1", [Fault.UNEXPECTED]), ("*x, c=1", [])],
)  # fmt: skip
def test_stars_leave_open_what_they_may_give(call: str, expected: list[Fault]):
    assert faults("a, b, c=0", call) == expected
    assert faults("a, *, key", "*x") == [Fault.MISSING]
    assert faults("a, *, key", "1, **x") == []


PLAN = "indptr, pages, q_type=1, o_type=2, data_type=3, scale=4, theta=5"


@pytest.mark.parametrize(
    ("call", "shifted"),
    [
        ("indptr, pages, q_type, data_type, scale, theta", True),  # o_type was inserted
        ("indptr, pages, q_type, data_type, self._scale", True),
        ("indptr, pages, q_type, data_type, 0.5, theta", True),
        ("indptr, pages, q_type, o_type, data_type, scale", False),
        ("indptr, pages, q_type, data_type", False),  # one alone may be meant
        ("indptr, pages, q_type, data_type, o_type", False),  # swapped
        ("pages, q_type", False),  # nothing is in its place: about something else
        ("indptr, pages, q_type, scale, data_type, o_type", False),  # in any order
        ("indptr, q_type, o_type, pages", False),  # turned round
        ("indptr, *rest", False),
    ],
)
def test_arguments_that_an_insertion_shifted(call: str, shifted: bool):
    assert (Fault.SHIFTED in faults(PLAN, call)) is shifted


def test_arguments_that_a_removal_shifted():
    assert faults("a, b, c, d", "a, gone, b, c, d") == [Fault.TOO_MANY, Fault.SHIFTED]
    assert faults("a, b, c, d=1", "a, gone, b, c") == [Fault.SHIFTED]
