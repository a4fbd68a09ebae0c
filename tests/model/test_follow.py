"""Functions and classes that moved: followed where it is sure, left alone where it is not."""

from __future__ import annotations

import re

from pseries.model.verdicts.follow import Candidate, follow, wanted
from pseries.model.verdicts.verdict import FileVerdict, Verdict

HELPER = """\
def helper(tensor, scale):
    rows = tensor.shape[0]
    columns = tensor.shape[1]
    if rows > columns:
        tensor = tensor.transpose()
    total = tensor.sum() * scale
    return total / (rows + columns)
"""
CLASS = """\
class Layer:
    def __init__(self, size):
        self.size = size
        self.weights = [0] * size

    def forward(self, values):
        paired = zip(values, self.weights)
        return sum(value * weight for value, weight in paired)
"""
TOP = "import math\n\n\ndef first():\n    return math.pi\n\n\n"
BASE = f"{TOP}{HELPER}\n\n{CLASS}"
PATCHED = BASE.replace("rows > columns", "rows > columns and not math.isnan(scale)")
WITHOUT = f"{TOP}{CLASS}"
HOME = f"import math\n\nSTEP = 2\n\n\n{HELPER}"


def followed(
    ours: str | None, theirs: str = PATCHED, old_home: str | None = "STEP = 1\n", **homes: str
) -> tuple[FileVerdict, ...] | None:
    old = None if old_home is None else old_home.encode()
    candidates = {f"{name}.py": Candidate(old, data.encode()) for name, data in homes.items()}
    return follow(
        "m.py", BASE.encode(), None if ours is None else ours.encode(), theirs.encode(), candidates
    )


def test_what_is_gone_is_wanted_with_a_pattern_that_finds_it():
    (found,) = wanted("m.py", BASE.encode(), WITHOUT.encode(), PATCHED.encode())
    assert found.name == "helper"
    pattern = found.pattern.replace("[[:space:]]", r"\s")
    for line in ("def helper(tensor):", "    async def helper (x):", "class helper:"):
        assert re.search(pattern, line)
    for line in ("def helpers(x):", "helper(1)", "# def helper(x)"):
        assert not re.search(pattern, line)
    assert wanted("m.py", BASE.encode(), BASE.encode(), PATCHED.encode()) == ()
    assert [one.name for one in wanted("m.py", BASE.encode(), None, PATCHED.encode())] == ["helper"]
    assert wanted("m.txt", BASE.encode(), b"", PATCHED.encode()) == ()


def test_a_function_is_followed_to_another_file_and_merged_there():
    home = HOME.replace("total = tensor.sum() * scale", "total = tensor.mean() * scale")
    found = followed(WITHOUT, home=home)
    assert found is not None
    here, there = found
    assert (here.path, here.verdict, here.data) == ("m.py", Verdict.CLEAN, WITHOUT.encode())
    assert (there.path, there.new_path, there.verdict) == ("m.py", "home.py", Verdict.FOLLOWED)
    assert (
        there.data
        == home.replace("rows > columns", "rows > columns and not math.isnan(scale)").encode()
    )
    (hunk,) = there.hunks
    assert (hunk.number, hunk.symbol, hunk.old_line, hunk.new_line) == (1, "helper", 11, 9)
    assert "helper moved from m.py to home.py:6; 86% of its lines are the same" in hunk.evidence


def test_it_is_followed_out_of_a_file_that_is_gone():
    found = followed(None, home=HOME)
    assert found is not None
    assert [one.verdict for one in found] == [Verdict.CLEAN, Verdict.FOLLOWED]
    assert found[0].data is None


def test_what_stays_is_judged_where_it_stays():
    theirs = PATCHED.replace("return math.pi", "return math.tau")
    found = followed(WITHOUT, theirs, home=HOME)
    assert found is not None
    assert found[0].data == WITHOUT.replace("math.pi", "math.tau").encode()
    assert [(one.number, one.symbol) for one in found[0].hunks] == [(1, "first")]
    assert found[1].verdict is Verdict.FOLLOWED


def test_a_change_that_is_in_the_new_home_is_merged_upstream():
    home = HOME.replace("rows > columns", "rows > columns and not math.isnan(scale)")
    found = followed(WITHOUT, home=home)
    assert found is not None
    assert found[1].verdict is Verdict.MERGED
    assert found[1].data == home.encode()


def test_a_conflict_in_the_new_home_is_shown_there():
    found = followed(WITHOUT, home=HOME.replace("rows > columns", "rows >= columns"))
    assert found is not None
    assert found[1].verdict is Verdict.CONFLICT
    assert found[1].data is None
    assert found[1].conflict is not None
    assert found[1].conflict.startswith(b"import math\n")
    assert b"<<<<<<<" in found[1].conflict
    said = [what for hunk in found[1].hunks for what in hunk.evidence]
    assert "both changed line 9 of home.py:" in said  # of the file, not of the function


def test_a_change_in_the_new_home_is_told_with_the_lines_of_both_files():
    home = HOME.replace("total = tensor.sum()", "total = tensor.mean()")
    theirs = BASE.replace("tensor.shape[0]", "tensor.shape[-2]")
    found = followed(WITHOUT, theirs, home=home)
    assert found is not None
    (hunk,) = found[1].hunks
    assert (hunk.old_line, hunk.new_line) == (9, 7)
    assert "from m.py:9 to home.py:7" in hunk.evidence


def test_a_look_alike_that_was_always_there_is_no_home():
    assert followed(WITHOUT, old_home=HOME, home=HOME) is None


def test_two_homes_are_none():
    assert followed(WITHOUT, home=HOME, other=HOME) is None


def test_the_same_name_for_something_else_is_no_home():
    assert followed(WITHOUT, home="def helper(path):\n    return open(path).read()\n") is None


def test_a_function_that_was_split_is_not_followed():
    split = HOME.replace(
        "    if rows > columns:\n        tensor = tensor.transpose()\n",
        "    tensor = turn(tensor)\n",
    )
    split += "\n\ndef turn(tensor):\n    return tensor.transpose()\n"
    found = followed(WITHOUT, home=split)
    assert found is not None
    assert found[1].verdict is Verdict.CONFLICT


def test_a_name_that_the_new_home_lacks_stops_it():
    found = followed(WITHOUT, home=HOME.replace("import math\n", ""))
    assert found is not None
    assert found[1].verdict is Verdict.CONFLICT
    assert "'math' is not defined" in found[1].evidence[0]
    assert found[1].conflict is not None
    assert b"<<<<<<<" in found[1].conflict


def test_a_method_is_followed_with_its_class():
    theirs = BASE.replace("value * weight", "value * weight * 2")
    found = followed(f"{TOP}{HELPER}", theirs, home=f"import math\n\n\n{CLASS}")
    assert found is not None
    assert found[1].verdict is Verdict.FOLLOWED
    assert found[1].hunks[0].symbol == "Layer.forward"
    assert found[1].data == f"import math\n\n\n{CLASS}".replace("weight f", "weight * 2 f").encode()


def test_a_function_that_moved_in_its_own_file_is_followed():
    ours = f"{TOP}{CLASS}\n\ndef more():\n    yield 1\n\n\n{HELPER}".replace(
        "tensor.sum()", "tensor.mean()"
    )
    found = followed(ours)
    assert found is not None
    (here,) = found
    assert here.verdict is Verdict.FOLLOWED
    assert (
        here.data
        == ours.replace("rows > columns", "rows > columns and not math.isnan(scale)").encode()
    )


def test_nothing_to_follow():
    assert followed(BASE) is None
    assert followed(WITHOUT) is None
