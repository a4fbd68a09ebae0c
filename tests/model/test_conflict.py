"""Conflict markers as git writes them with zdiff3."""

from __future__ import annotations

from pseries.model.verdicts import conflict
from pseries.model.verdicts.verdict import Labels

LABELS = Labels("0.26.0", "0.27.0", "0001-x.patch")


def marked(base: str, ours: str, theirs: str) -> str:
    sides = [[f"{word}\n".encode() for word in side.split()] for side in (base, ours, theirs)]
    return b"".join(conflict.marked(*sides, LABELS)).decode()


def test_what_both_sides_begin_and_end_with_stands_outside():
    assert marked("b", "x one y", "x two y") == (
        "x\n<<<<<<< 0.27.0\none\n||||||| 0.26.0\nb\n=======\ntwo\n>>>>>>> 0001-x.patch\ny\n"
    )
    assert marked("b", "x", "x x").count("x\n") == 2


def test_a_side_may_be_empty_and_a_last_line_have_no_end():
    lines = conflict.marked([b"a\n"], [], [b"b"], LABELS)
    assert b"".join(lines) == (
        b"<<<<<<< 0.27.0\n||||||| 0.26.0\na\n=======\nb\n>>>>>>> 0001-x.patch\n"
    )


def test_whole_files():
    assert conflict.whole(None, b"a\n", b"b\n", LABELS) == (
        b"<<<<<<< 0.27.0\na\n||||||| 0.26.0\n=======\nb\n>>>>>>> 0001-x.patch\n"
    )


def test_markers_are_known_again():
    shown = marked("b", "one", "two").encode()
    text = b"before\n" + shown + b"after\n" + shown
    assert conflict.has_markers(text)
    assert conflict.openings(text) == [2, 10]
    found = [line[:1] for line in shown.split(b"\n") if conflict.is_marker(line)]
    assert found == [b"<", b"|", b">"]
    assert not conflict.has_markers(b"Title\n=======\n<<<<<<<<<\n>>> x\n")
