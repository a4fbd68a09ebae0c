"""The stack of a checkout: its file, what a word means, and which commit is which patch."""

from __future__ import annotations

import pytest

from pseries.errors import PatchNotFound, Problem
from pseries.model import order as orders
from pseries.model import stack as stacks
from pseries.model.commit import Commit
from pseries.model.stack import Entry, Stack

A, B, C, D = (letter * 40 for letter in "abcd")
STACK = Stack("s", "/x", D, (Entry("0001-a.patch", 1, A, A), Entry("0002-b.patch", 0, B, "")), 1)


def commit(name: str, author: str = "A <a@x>", date: str = "1 +0000", subject: str = "s") -> Commit:
    return Commit(name, name, (D,), author, date, f"{subject}\n")


def test_the_file_is_read_as_it_was_written():
    problems: list[Problem] = []
    assert stacks.parse(stacks.render(STACK), problems) == STACK
    pending = STACK._replace(pending="0002-b.patch", locked=False)
    assert stacks.parse(stacks.render(pending), problems) == pending
    assert problems == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"schema": 1', b'"schema": 2'),
        (b'"top": 1', b'"top": 3'),
        (b'"strip": 1', b'"strip": 11'),
        (A.encode(), b"HEAD"),
        (b'"series"', b'"serie"'),
        (b"{", b""),
    ],
)
def test_what_cannot_be_trusted_is_refused(old: bytes, new: bytes):
    problems: list[Problem] = []
    data = stacks.render(STACK)
    assert old in data
    stacks.parse(data.replace(old, new), problems)
    assert problems


@pytest.mark.parametrize(
    ("word", "index"),
    [
        ("0001-a.patch", 0), ("0002-b", 1), ("0002", 1), ("patches/0002-b.patch", 1),
        ("series/x/0001-a", 0),
    ],
)  # fmt: skip
def test_a_word_means_one_patch(word: str, index: int):
    assert STACK.find(word) == index


@pytest.mark.parametrize("word", ["", "000", "b", "0003-a.patch", "/"])
def test_a_word_that_means_none_or_several_is_refused(word: str):
    with pytest.raises(PatchNotFound):
        STACK.find(word)


def test_new_names_follow_the_numbers_there_are():
    assert stacks.new_name("Do it", 3, ["0001-a.patch"]) == "0003-do-it.patch"
    assert stacks.new_name("Do it", 3, ["a.patch"]) == "do-it.patch"
    assert stacks.new_name("Do it", 1, []) == "0001-do-it.patch"
    taken = ["0001-do-it.patch", "0001-do-it-2.patch"]
    assert stacks.new_name("Do it", 1, taken) == "0001-do-it-3.patch"
    assert stacks.subject_of("0001-do-it_now.patch") == "do it now"
    assert stacks.subject_of("0001-.patch") == "0001-.patch"


def test_commits_are_known_again():
    one, two = STACK.entries
    before = [(one, commit(A, date="1 +0000", subject="x")),
              (two, commit(B, date="2 +0000", subject="y"))]  # fmt: skip
    same = [before[0][1], commit(C, date="2 +0000", subject="y")]
    assert stacks.names_of(before, same) == [one.name, two.name]
    assert stacks.names_of(before, list(reversed(same))) == [two.name, one.name]
    reworded = [commit(C, date="2 +0000", subject="z"), commit(D, date="9 +0000", subject="x")]
    assert stacks.names_of(before, reworded) == [two.name, one.name]
    assert stacks.names_of(before, [commit(C, date="9 +0000", subject="new")]) == [""]
    # two halves of one commit: the first that is like it keeps the name
    halves = [commit(C, date="1 +0000", subject="half"), commit(D, date="1 +0000", subject="x")]
    assert stacks.names_of(before, halves) == ["", one.name]


def test_a_commit_that_could_be_several_patches_is_none_of_them():
    one, two = STACK.entries
    before = [(one, commit(A, date="1 +0000", subject="x")),
              (two, commit(B, date="1 +0000", subject="y"))]  # fmt: skip
    # of a series without authors and dates one was dropped, and one got other words
    assert stacks.names_of(before, [commit(C, date="1 +0000", subject="z")]) == [""]
    assert stacks.names_of(before, [commit(C, date="1 +0000", subject="y")]) == [two.name]
    both = [commit(C, date="1 +0000", subject="z"), commit(D, date="1 +0000", subject="y")]
    assert stacks.names_of(before, both) == [one.name, two.name]
    # who, when and words changed, the files did not
    other = commit(C, date="9 +0000", subject="z")._replace(author="B", tree=before[1][1].tree)
    assert stacks.names_of(before, [other]) == [two.name]


ORDER = b"# head\n\n# about a\na.patch # inline\nb.patch -p0\r\n\n# about c\nc.patch\n# tail"


def arranged(data: bytes, *wanted: tuple[str, int]) -> bytes:
    return orders.render(orders.arranged(orders.parse(data, []), wanted))


def test_an_order_that_does_not_change_keeps_its_bytes():
    assert arranged(ORDER, ("a.patch", 1), ("b.patch", 0), ("c.patch", 1)) == ORDER
    assert arranged(b"# only\n# comments\n") == b"# only\n# comments\n"
    assert arranged(b"a.patch", ("a.patch", 1)) == b"a.patch"


def test_lines_move_with_the_comments_above_them():
    assert arranged(ORDER, ("c.patch", 1), ("a.patch", 1)) == (
        b"# head\n\n\n# about c\nc.patch\n# about a\na.patch # inline\n# tail"
    )
    assert arranged(ORDER, ("a.patch", 1), ("n.patch", 0), ("b.patch", 0), ("c.patch", 1)) == (
        ORDER.replace(b"b.patch", b"n.patch -p0\nb.patch")
    )
    assert arranged(b"# head\na.patch", ("n.patch", 1), ("a.patch", 1)) == (
        b"# head\nn.patch\na.patch"
    )
    assert arranged(b"a.patch", ("a.patch", 1), ("n.patch", 1)) == b"a.patch\nn.patch\n"
    assert arranged(b"# x", ("n.patch", 1)) == b"# x\nn.patch\n"
    order = orders.arranged(orders.parse(ORDER, []), [("c.patch", 1), ("a.patch", 1)])
    assert order == orders.parse(orders.render(order), [])
