"""One file, one patch, one verdict: each of them, and what must never happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.merging import merge_file

from pseries.model.verdicts import judge as judging
from pseries.model.verdicts.judge import judge
from pseries.model.verdicts.verdict import FileVerdict, Labels, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = """\
import os
import re


class Loader:
    def first(self, kind):
        value = load(kind)
        check(value)
        return value

    def second(self, kind):
        value = load(kind)
        check(value)
        return value


def main(arguments):
    loader = Loader()
    return loader.first(arguments)
"""


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., FileVerdict]:
    """Return a judge that asks git first, as the rebase does."""

    def ask(base: str, ours: str, theirs: str, path: str = "m.py", **more: object) -> FileVerdict:
        sides = [side.encode() for side in (base, ours, theirs)]
        merged = merge_file(tmp_path, *sides)
        found = judge(path, *sides, merged=merged, **more)  # type: ignore[arg-type]
        assert (found.data is None) == found.verdict.stops
        assert (found.conflict is None) != found.verdict.stops
        return found

    return ask


def swap(text: str, old: str, new: str, which: int = 0) -> str:
    """Return ``text`` with occurrence ``which`` of ``old`` replaced."""
    parts = text.split(old)
    assert len(parts) > which + 1
    return old.join(parts[: which + 1]) + new + old.join(parts[which + 1 :])


EDITED = swap(BASE, "check(value)", "check(value, kind)", which=1)


def text_of(found: FileVerdict) -> str:
    assert found.data is not None
    return found.data.decode()


# --- taken ------------------------------------------------------------------------------------


def test_clean(judged: Callable[..., FileVerdict]):
    ours = swap(BASE, "loader.first(arguments)", "loader.first(arguments.kind)")
    found = judged(BASE, ours, EDITED)
    assert found.verdict is Verdict.CLEAN
    assert text_of(found) == swap(ours, "check(value)", "check(value, kind)", which=1)
    (hunk,) = found.hunks
    assert (hunk.number, hunk.symbol, hunk.old_line, hunk.new_line) == (1, "Loader.second", 13, 13)


def test_moved_to_another_line(judged: Callable[..., FileVerdict]):
    ours = swap(BASE, "class Loader:", "LIMIT = 3\nSTEP = 1\n\n\nclass Loader:")
    found = judged(BASE, ours, EDITED)
    assert found.verdict is Verdict.MOVED
    assert text_of(found) == swap(ours, "check(value)", "check(value, kind)", which=1)
    assert found.hunks[0].evidence == ("from line 13 to line 17",)
    assert (found.hunks[0].old_line, found.hunks[0].new_line) == (13, 17)


def test_moved_to_a_renamed_file(judged: Callable[..., FileVerdict]):
    found = judged(BASE, BASE, EDITED, new_path="n.py")
    assert found.verdict is Verdict.MOVED
    assert (found.path, found.new_path) == ("m.py", "n.py")
    assert found.hunks[0].evidence == ("from m.py:13 to n.py:13",)


def test_moved_into_a_renamed_class(judged: Callable[..., FileVerdict]):
    ours = BASE.replace("Loader", "Reader")
    found = judged(BASE, ours, EDITED)
    assert found.verdict is Verdict.MOVED
    assert found.hunks[0].evidence == ("Loader.second is now Reader.second",)
    assert text_of(found) == EDITED.replace("Loader", "Reader")


def test_several_hunks_are_told_apart(judged: Callable[..., FileVerdict]):
    theirs = swap(EDITED, "import os\n", "import os\nimport sys\n")
    ours = swap(BASE, "    loader = Loader()\n", "    loader = Loader()\n    loader.start()\n")
    found = judged(BASE, ours, theirs)
    assert [(hunk.number, hunk.symbol, hunk.new_line) for hunk in found.hunks] == [
        (1, "", 2),
        (2, "Loader.second", 14),
    ]


def test_reformatted(judged: Callable[..., FileVerdict]):
    base = swap(BASE, "load(kind)", "load(kind, deep=True, size=1)", which=1)
    ours = swap(
        base,
        "load(kind, deep=True, size=1)",
        "load(\n            kind, deep=True, size=1\n        )",
    )
    theirs = swap(base, "size=1", "size=2")
    found = judged(base, ours, theirs)
    assert found.verdict is Verdict.REFORMATTED
    assert text_of(found) == swap(ours, "size=1", "size=2")
    assert "<<<<<<<" in "".join(found.hunks[0].evidence)


def test_woven(judged: Callable[..., FileVerdict]):
    base = swap(BASE, "load(kind)", "load(kind, deep=True)", which=1)
    ours = swap(base, "load(kind, deep=True)", "load_all(kind, deep=True)")
    theirs = swap(base, "deep=True", "deep=False")
    found = judged(base, ours, theirs)
    assert found.verdict is Verdict.WOVEN
    assert found.verdict.review
    assert text_of(found) == swap(ours, "deep=True", "deep=False")
    shown = "".join(found.hunks[0].evidence)
    assert "load_all(kind, deep=True)" in shown
    assert "load_all(kind, deep=False)" in shown


def test_keywords_on_lines_of_their_own_are_woven_as_parts_of_their_call(
    judged: Callable[..., FileVerdict],
):
    base = swap(
        BASE, "load(kind)", "load(\n            kind,\n            deep=True,\n        )", 1
    )
    ours = swap(base, "deep=True,\n", "deep=True,\n            size=size_of(kind),\n")
    theirs = swap(base, "deep=True,\n", "deep=True,\n            name='x',\n")
    found = judged(base, ours, theirs)
    assert found.verdict is Verdict.WOVEN
    assert text_of(found) == swap(
        base, "deep=True,\n", "deep=True,\n            size=size_of(kind),\n            name='x',\n"
    )


def test_two_methods_added_at_one_place_are_woven(judged: Callable[..., FileVerdict]):
    ours = swap(
        BASE, "\n\ndef main", "\n    def size(self):\n        return len(self.all)\n\n\ndef main"
    )
    theirs = swap(
        BASE, "\n\ndef main", "\n    def names(self):\n        yield from 'abc'\n\n\ndef main"
    )
    found = judged(BASE, ours, theirs)
    assert found.verdict is Verdict.WOVEN
    assert text_of(found).count("def size") == text_of(found).count("def names") == 1


# --- in already -------------------------------------------------------------------------------


def test_merged_upstream_by_text(judged: Callable[..., FileVerdict]):
    ours = swap(EDITED, "import os\n", "import os\nimport sys\n")
    found = judged(BASE, ours, EDITED)
    assert found.verdict is Verdict.MERGED
    assert text_of(found) == ours
    assert found.hunks[0].evidence == ("upstream line 14 of m.py holds it",)
    assert found.hunks[0].new_line == 14


def test_merged_upstream_with_more_beside_it(judged: Callable[..., FileVerdict]):
    ours = swap(EDITED, "check(value, kind)\n", "check(value, kind)\n        log(value, kind)\n")
    found = judged(BASE, ours, EDITED)
    assert found.verdict is Verdict.MERGED
    assert text_of(found) == ours


def test_merged_upstream_by_equal_trees(judged: Callable[..., FileVerdict]):
    ours = swap(
        BASE, "check(value)", "check(\n            value,\n            kind,\n        )", which=1
    )
    found = judged(BASE, ours, EDITED)
    assert found.verdict is Verdict.MERGED
    assert text_of(found) == ours
    assert "syntax tree" in found.hunks[0].evidence[0]


def test_partly_merged(judged: Callable[..., FileVerdict]):
    theirs = swap(EDITED, "import os\n", "import io\n")
    found = judged(BASE, EDITED, theirs)
    assert found.verdict is Verdict.PARTLY
    assert [hunk.verdict for hunk in found.hunks] == [Verdict.CLEAN, Verdict.MERGED]
    assert text_of(found) == theirs


def test_a_removal_is_merged_only_where_it_was_made(judged: Callable[..., FileVerdict]):
    theirs = swap(BASE, "        check(value)\n", "", which=1)
    assert judged(BASE, theirs, theirs).verdict is Verdict.MERGED
    sibling = swap(BASE, "        check(value)\n", "", which=0)
    assert text_of(judged(BASE, sibling, theirs)) == BASE.replace("        check(value)\n", "")
    gone = BASE.replace(BASE[BASE.index("    def second") : BASE.index("\ndef main")], "")
    assert judged(BASE, gone, theirs).verdict.stops


def test_a_removal_is_not_merged_if_upstream_only_moved_the_line(
    judged: Callable[..., FileVerdict],
):
    base = "def run(x):\n    one()\n    check(x)\n    two()\n    three()\n"
    ours = "def run(x):\n    one()\n    three()\n    four()\n    check(x)\n"
    assert judged(base, ours, swap(base, "    check(x)\n", "")).verdict is Verdict.CONFLICT


def test_a_line_that_is_only_indented_is_not_taken_for_an_added_one(
    judged: Callable[..., FileVerdict],
):
    base = "def run(x):\n    one()\n    check(x)\n    two()\n    three()\n    four()\n"
    theirs = swap(base, "    check(x)\n", "    if x:\n        check(x)\n")
    ours = base + "    check(x)\n"
    assert text_of(judged(base, ours, theirs)) == theirs + "    check(x)\n"


def test_the_sibling_having_the_change_proves_nothing(judged: Callable[..., FileVerdict]):
    ours = swap(BASE, "check(value)", "check(value, kind)", which=0)
    found = judged(BASE, ours, EDITED)
    assert found.verdict is Verdict.CLEAN
    assert text_of(found) == BASE.replace("check(value)", "check(value, kind)")


def test_a_function_that_upstream_added_elsewhere_is_not_added_again(
    judged: Callable[..., FileVerdict],
):
    added = "\n    def third(self, kind):\n        return load(kind, third=True)\n"
    theirs = swap(BASE, "\n\ndef main", f"{added}\n\ndef main")
    ours = swap(BASE, "\n    def second", f"{added}\n    def second")
    found = judged(BASE, ours, theirs)
    assert found.verdict.stops
    assert "third" in " ".join(found.hunks[0].evidence)


def test_a_line_that_upstream_added_elsewhere_is_not_added_again(
    judged: Callable[..., FileVerdict],
):
    theirs = swap(BASE, "import re\n", "import re\nimport json\n")
    ours = swap(BASE, "import os\n", "import json\nimport os\n")
    found = judged(BASE, ours, theirs)
    assert found.verdict is Verdict.CONFLICT
    assert "elsewhere in the module's top level, at line 1" in found.hunks[0].evidence[0]


def test_upstream_having_it_in_other_words_is_seen_by_half_of_its_lines(
    judged: Callable[..., FileVerdict],
):
    base = "def options(group):\n    group.add(\n        'last',\n    )\n"
    ours = swap(base, "    group.add(\n", "    group.add(\n        'new',\n    )\n    group.add(\n")
    theirs = swap(
        base, "    group.add(\n", "    group.put(\n        'new',\n    )\n    group.add(\n"
    )
    found = judged(base, ours, theirs)
    assert found.verdict is Verdict.CONFLICT


def test_a_patch_that_changes_comments_alone_needs_its_text(judged: Callable[..., FileVerdict]):
    theirs = swap(BASE, "        check(value)\n", "        check(value)  # twice\n", which=1)
    other = swap(BASE, "        check(value)\n", "        check(value)  # once\n", which=1)
    assert judged(BASE, theirs, theirs).verdict is Verdict.MERGED
    assert judged(BASE, other, theirs).verdict is Verdict.CONFLICT


# --- stops ------------------------------------------------------------------------------------


def test_conflict(judged: Callable[..., FileVerdict]):
    ours = swap(BASE, "check(value)", "check(value, self)", which=1)
    labels = Labels("0.26.0", "0.27.0", "0001-x.patch")
    found = judged(BASE, ours, EDITED, labels=labels)
    assert found.verdict is Verdict.CONFLICT
    assert found.conflict is not None
    assert found.conflict.decode() == swap(
        BASE,
        "        check(value)\n",
        "<<<<<<< 0.27.0\n        check(value, self)\n||||||| 0.26.0\n        check(value)\n"
        "=======\n        check(value, kind)\n>>>>>>> 0001-x.patch\n",
        which=1,
    )


def test_a_conflict_leaves_the_other_hunks_merged(judged: Callable[..., FileVerdict]):
    theirs = swap(EDITED, "import os\n", "import io\n")
    ours = swap(BASE, "check(value)", "check(value, self)", which=1)
    found = judged(BASE, ours, theirs)
    assert [hunk.verdict for hunk in found.hunks] == [Verdict.CLEAN, Verdict.CONFLICT]
    assert found.conflict is not None
    assert b"import io" in found.conflict
    assert found.conflict.count(b"<<<<<<<") == 1


def test_displaced(tmp_path: Path):
    base, theirs = BASE.encode(), EDITED.encode()
    ours = (BASE[: BASE.index("    def second")] + BASE[BASE.index("\ndef main") :]).encode()
    # what a merge without an eye for functions may come to
    wrong = ours.replace(b"check(value)", b"check(value, kind)")
    found = judge("m.py", base, ours, theirs, merged=wrong)
    assert found.verdict is Verdict.DISPLACED
    assert "it was in Loader.second" in found.hunks[0].evidence[0]
    assert judge("m.py", base, ours, theirs, merged=None).verdict.stops


SPLIT = """\
class Runner:
    def run(self):
        one()
        two()
        three()
        four()
        five()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        four()\n", "        four()\n        log()\n"),
        ("        four()\n", "        four(1)\n"),
        ("        four()\n", ""),
    ],
)
def test_displaced_by_a_function_that_upstream_split(
    judged: Callable[..., FileVerdict], old: str, new: str
):
    ours = swap(SPLIT, "        two()\n", "        two()\n\n    def more(self):\n")
    found = judged(SPLIT, ours, swap(SPLIT, old, new))
    assert found.verdict is Verdict.DISPLACED
    assert found.hunks[0].evidence[0] == (
        "applies as text, but in Runner.more; it was in Runner.run"
    )


def test_the_same_text_in_another_function_is_not_merged_upstream(
    judged: Callable[..., FileVerdict],
):
    body = "    one()\n    two()\n"
    base = f"def first():\n{body}\n\ndef second():\n{body}\n\nend()\n"
    theirs = swap(base, "    two()\n", "    two()\n    three()\n")
    # which of the two became which cannot be told
    ours = theirs.replace("first", "new_one").replace("second", "new_two")
    found = judged(base, ours, theirs)
    assert found.verdict is Verdict.CONFLICT


def test_two_functions_of_one_name_are_not_both_taken(judged: Callable[..., FileVerdict]):
    theirs = swap(BASE, "\n\ndef main", "\n    def third(self):\n        return 3\n\n\ndef main")
    added = "    def third(self, kind, more):\n        log(kind)\n        return load(more)\n\n"
    ours = swap(BASE, "    def first", f"{added}    def first")
    found = judged(BASE, ours, theirs)
    assert found.verdict is Verdict.CONFLICT
    assert "both define Loader.third" in found.hunks[0].evidence[0]


def test_brackets_and_blank_lines_are_no_place(judged: Callable[..., FileVerdict]):
    base, ours, theirs = "alpha\n)\n\nbeta\n", "gamma\n)\n\ndelta\n", "alpha\n)\nnew\n\nbeta\n"
    assert judged(base, ours, theirs, "m.txt").verdict is Verdict.CONFLICT
    assert judged(base, base + "more\n", theirs, "m.txt").verdict is Verdict.CLEAN


def test_git_may_do_again_what_is_merged_upstream_but_nothing_else():
    theirs = swap(EDITED, "import os\n", "import io\n")
    right = swap(EDITED, "import os\n", "import io\n")
    again = swap(right, "check(value, kind)\n", "check(value, kind)\n        check(value, kind)\n")
    sides = BASE.encode(), EDITED.encode(), theirs.encode()
    assert judge("m.py", *sides, merged=right.encode()).verdict is Verdict.PARTLY
    assert judge("m.py", *sides, merged=again.encode()).data == right.encode()
    wrong = swap(EDITED, "import re\n", "import io\n")
    assert judge("m.py", *sides, merged=wrong.encode()).verdict.stops
    nothing = judge("m.py", *sides, merged=EDITED.encode())
    assert nothing.verdict.stops


def body(*lines: str) -> str:
    text = "".join(f"    {line}".rstrip() + "\n" for line in lines)
    return f"import os\n\n\ndef run(x, kind):\n{text}"


def test_what_git_merges_to_upstreams_own_text_is_merged_upstream(
    judged: Callable[..., FileVerdict],
):
    base = body("log(x)", "check(x)", "return x", "return x", "x = load(kind)", "emit(x)")
    theirs = swap(base, "    return x\n", "    return x\n    check(x)\n", which=1)
    ours = body(
        "log(x)", "x = load(kind)", "return x", "return x", "check(x)", "x = load(kind)",
        "emit(x)", "check(x)",
    )  # fmt: skip
    found = judged(base, ours, theirs)
    assert (found.verdict, text_of(found)) == (Verdict.MERGED, ours)
    (hunk,) = found.hunks
    assert hunk.evidence == ("upstream's m.py holds it: git merges it to upstream's own text",)
    # one more of upstream's lines is another's: then its text proves nothing
    fewer = swap(ours, "    check(x)\n", "", which=1)
    assert judged(base, fewer, theirs).verdict is not Verdict.MERGED


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "renamed"),
    [
        pytest.param("e c l c", "+ + c l c", "+ c l c", False, id="added twice: which is it?"),
        pytest.param("+ c c", "+ c", "+ c", True, id="a removal from what is gone"),
        pytest.param("e + l l e", "e + + l", "e + l l", False, id="a removal at a look-alike"),
        pytest.param("r e r", "l r", "l r e r", True, id="in a function of another name"),
        pytest.param("l c l _ _", "l c _ e l _", "l c _ _", True, id="a removed line is there"),
    ],
)
def test_what_may_be_upstreams_own_doing_is_not_merged(
    judged: Callable[..., FileVerdict], base: str, ours: str, theirs: str, renamed: bool
):
    words = {"+": "x += 1", "c": "check(x)", "l": "log(x)", "e": "emit(x)", "r": "return x"}
    first, second, third = (
        body(*(words.get(letter, "") for letter in side.split())) for side in (base, ours, theirs)
    )
    if renamed:
        second = second.replace("run", "other")
    assert judged(first, second, third).verdict.stops


def test_one_reading_alone_places_nothing(judged: Callable[..., FileVerdict]):
    base = body("x += 1", "emit(x)", "x = load(kind)", "x += 1", "if x:", "    emit(x)", "emit(x)")
    ours = swap(base, "x = load(kind)", "new(x)")
    theirs = swap(base, "    emit(x)\n", "    emit(x)\n    emit(x)\n")
    assert judged(base, ours, theirs).verdict is Verdict.CONFLICT


def test_beside_a_clash_a_change_among_equal_lines_is_ambiguous():
    """The clash might be woven; what it leaves undecided beside it must not be guessed."""
    base = body("y = load(x)", "start()", "step()", "step()", "stop()")
    ours = swap(base, "load(x)", "load_all(x)").replace("    stop()", "    step()\n    stop()")
    theirs = swap(swap(base, "load(x)", "load(x, 1)"), "    step()\n", "    step()\n    log()\n")
    sides = base.encode(), ours.encode(), theirs.encode()
    case = judging._case(("m.py", "m.py"), sides, None, Labels(), ())
    clash, beside = (one for one in case.readings[0].regions if one.by_theirs)
    assert (clash.by_ours, beside.by_ours) == (True, False)
    found = judging._either(case, beside)
    assert found.verdict is Verdict.CONFLICT
    assert "equal lines stand in several places" in found.evidence[0]


def test_equal_blocks_in_one_function_are_ambiguous(judged: Callable[..., FileVerdict]):
    block = "    if ready:\n        step(one)\n        wait(one)\n"
    base = f"def run(ready, one):\n{block}{block}    return one\n"
    ours = f"def run(ready, one):\n{block}{block}{block}    return one\n"
    theirs = swap(base, "step(one)", "step(one, two=2)", which=1)
    found = judged(base, ours, theirs)
    assert found.verdict.stops


def test_what_does_not_compile_is_broken(judged: Callable[..., FileVerdict]):
    theirs = swap(BASE, "        return value\n", "        return value)\n", which=1)
    found = judged(BASE, swap(BASE, "import os\n", "import os\nimport sys\n"), theirs)
    assert found.verdict is Verdict.BROKEN
    assert "does not compile" in found.evidence[0]


def test_woven_words_stand_in_the_symbol_that_the_patch_changes(
    judged: Callable[..., FileVerdict],
):
    base = "def f(x):\n    log(x)\n\n\ndef g(x):\n    x += 1\n    y = load(x)\n    return y\n"
    ours = "def f(x):\n    log(x)\n    x += 1\n    y = load_all(x)\n    return y\n"
    found = judged(base, ours, swap(base, "load(x)", "load(x, deep=True)"))
    assert found.verdict is Verdict.CONFLICT
    assert "in another symbol" in found.hunks[0].evidence[0]


def test_weaving_puts_nothing_of_upstreams_into_another_symbol(
    judged: Callable[..., FileVerdict],
):
    base = "class Old:\n    def one(self):\n        return 1\n"
    ours = swap(base, "Old:\n", "Old:\n    def two(self):\n        yield 2\n\n")
    found = judged(base, ours, swap(base, "Old", "New"))
    assert found.verdict is Verdict.CONFLICT
    assert "in another symbol" in found.hunks[0].evidence[0]


def test_stretches_that_touch_are_not_both_woven(judged: Callable[..., FileVerdict]):
    """What upstream put between them would be in both, and twice in the result."""
    lines = [
        "    x = (",
        "        f(a) + g(b)",
        "    )",
        "    y = (",
        "        h(a) + k(b)",
        "    )",
    ]
    base = body(*(line.removeprefix("    ") for line in lines))
    ours = (
        swap(base, "f(a)", "f(a, 1)")
        .replace("h(a)", "h(a, 1)")
        .replace("    y", "    log()\n    y")
    )
    theirs = swap(base, "g(b)", "g(b, 2)").replace("k(b)", "k(b, 2)")
    found = judged(base, ours, theirs)
    assert found.verdict is Verdict.CONFLICT
    assert "hangs together with another hunk" in found.hunks[0].evidence[0]


def test_a_function_is_not_renamed_if_most_of_its_lines_stand_elsewhere(
    judged: Callable[..., FileVerdict],
):
    steps = [f"    step_{letter}(x)\n" for letter in "abcd"]
    rest = "    keep(x)\n    last(x)\n    return 1\n"
    other = "\n\ndef other(x):\n    return x\n"
    base = f"def load(x):\n{''.join(steps)}{rest}{other}"
    ours = (
        f"def copy(x):\n{''.join(steps)}    go()\n    return 5\n\n\n"
        f"def fetch(x):\n{''.join(steps[::-1])}{rest}{other}"
    )
    found = judged(base, ours, swap(base, "last(x)", "last(x, 2)"))
    assert found.verdict is Verdict.DISPLACED


def test_a_woven_name_must_still_be_there(judged: Callable[..., FileVerdict]):
    base = "def f(a, b):\n    x = a\n    return g(x, b)\n"
    ours = "def f(a, c):\n    x = a\n    return g(x, c)\n"
    theirs = "def f(a, b):\n    x = a\n    return g(x, b, last=b)\n"
    found = judged(base, ours, theirs)
    assert found.verdict is Verdict.CONFLICT
    assert "'b', which is gone" in found.hunks[0].evidence[0]


# --- files of every kind ----------------------------------------------------------------------


def test_crlf_files_keep_their_line_ends(judged: Callable[..., FileVerdict]):
    base, theirs = BASE.replace("\n", "\r\n"), EDITED.replace("\n", "\r\n")
    ours = base.replace("import os", "import os\r\nimport sys")
    found = judged(base, ours, theirs)
    assert found.verdict is Verdict.MOVED
    assert text_of(found).count("\n") == text_of(found).count("\r\n")
    clash = swap(base, "check(value)", "check(value, self)", which=1)
    stopped = judged(base, clash, theirs)
    assert stopped.conflict is not None
    assert stopped.conflict.count(b"\n") == stopped.conflict.count(b"\r\n")
    laid_out = swap(base, "check(value)", "check(\r\n            value, kind\r\n        )", which=1)
    assert judged(base, laid_out, theirs).verdict is Verdict.MERGED


def test_the_last_line_may_have_no_end(judged: Callable[..., FileVerdict]):
    base, ours = "a = 1\nb = 2\nc = 3", "a = 0\nb = 2\nc = 3"
    found = judged(base, ours, "a = 1\nb = 2\nc = 4")
    assert text_of(found) == "a = 0\nb = 2\nc = 4"
    stopped = judged(base, "a = 1\nb = 2\nc = 5", "a = 1\nb = 2\nc = 4")
    assert stopped.conflict is not None
    assert b"\nc = 5\n|||||||" in stopped.conflict


def test_a_source_in_another_encoding():
    base = b"# -*- coding: latin-1 -*-\nname = '\xe9'\n\n\ndef f(a):\n    return g(a, name)\n"
    ours = base.replace(b"g(a, name)", b"h(a, name)")
    theirs = base.replace(b"g(a, name)", b"g(a, '\xe8')")
    found = judge("m.py", base, ours, theirs, merged=None)
    assert found.verdict is Verdict.WOVEN
    assert found.data == base.replace(b"g(a, name)", b"h(a, '\xe8')")


def test_a_file_that_does_not_parse_is_text(judged: Callable[..., FileVerdict]):
    base = "print 'old python'\nx = f(a, b)\n"
    ours, theirs = base.replace("f(", "g("), base.replace("b)", "c)")
    assert judged(base, ours, theirs).verdict is Verdict.CONFLICT
    found = judged(base + "\n\n\nlast\n", base + "\n\n\nfinal\n", theirs + "\n\n\nlast\n")
    assert found.verdict is Verdict.CLEAN
    assert found.hunks[0].symbol is None


def test_other_files_are_text(judged: Callable[..., FileVerdict]):
    base = "[a]\nx = f(1, 2)\n\n[b]\ny = 3\n\n[c]\nz = 4\n"
    theirs = base.replace("y = 3", "y = 5")
    assert judged(base, base.replace("z = 4", "z = 6"), theirs, "m.toml").verdict is Verdict.CLEAN
    assert judged(base, theirs.replace("z", "q"), theirs, "m.toml").verdict is Verdict.MERGED
    other = judged(base, base.replace("y = 3", "y = 4"), theirs, "m.toml")
    assert other.verdict is Verdict.CONFLICT
    assert other.hunks[0].symbol is None


def test_an_empty_patch(judged: Callable[..., FileVerdict]):
    found = judged(BASE, EDITED, BASE)
    assert (found.verdict, found.data, found.hunks) == (Verdict.CLEAN, EDITED.encode(), ())


A, B, C = b"a = 1\n", b"a = 2\n", b"a = 3\n"


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "verdict", "data"),
    [
        (None, None, A, Verdict.CLEAN, A),  # a new file
        (None, A, A, Verdict.MERGED, A),
        (None, b"a = 1  # one\n", A, Verdict.MERGED, b"a = 1  # one\n"),
        (None, B, A, Verdict.CONFLICT, None),
        (A, A, None, Verdict.CLEAN, None),  # a deleted file
        (A, None, None, Verdict.MERGED, None),
        (A, B, None, Verdict.CONFLICT, None),
        (A, None, B, Verdict.CONFLICT, None),  # deleted upstream
    ],
)
def test_whole_files(
    base: bytes | None,
    ours: bytes | None,
    theirs: bytes | None,
    verdict: Verdict,
    data: bytes | None,
):
    found = judge("m.py", base, ours, theirs, merged=None)
    assert (found.verdict, found.data) == (verdict, data)
    assert found.evidence or verdict is Verdict.CLEAN
    assert (found.conflict is not None) == verdict.stops
