"""A file that is wrong in very many places costs neither time nor screens full of text."""

from __future__ import annotations

import time

from pseries.errors import Problem, SeriesInvalid
from pseries.model.fields import MOST_PROBLEMS, Fields


def test_many_unknown_keys():
    problems: list[Problem] = []
    begun = time.monotonic()
    Fields({f"key{'x' * 50}{n}": 1 for n in range(20_000)}, "file", problems).finish()
    assert time.monotonic() - begun < 2
    assert len(problems) == MOST_PROBLEMS + 1
    assert "and more" in problems[-1].what


def test_many_bad_tables_share_the_limit():
    problems: list[Problem] = []
    top = Fields({"t": [{}] * 100_000, "u": 3}, "file", problems)
    seen = [table.text("name") for table in top.tables("t")]
    assert len(seen) == MOST_PROBLEMS + 1 == len(problems)
    assert top.text("u") == ""
    assert len(problems) == MOST_PROBLEMS + 1


def test_long_values_are_cut():
    problems: list[Problem] = []
    top = Fields({"k" * 10_000: 1, "name": 3}, "file", problems)
    top.text("name")
    top.finish()
    assert max(len(str(problem)) for problem in problems) < 700


def test_a_long_list_of_problems_is_cut():
    shown = str(SeriesInvalid("s", (Problem("a", "b"),) * 1000))
    assert shown.count("\n") == 51
    assert shown.endswith("\n  and 950 more")
