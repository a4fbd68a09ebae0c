"""Lines, the places they stand in, and where a logical line goes on."""

from __future__ import annotations

from pseries.model.diff.lines import split_lines
from pseries.model.verdicts import source
from pseries.model.verdicts.source import outline_of, read

TEXT = b"""\
import os

@mark(
    1,
)
class A:
    @property
    def size(self):
        return f(
            1,
        )

    @size.setter
    def size(self, value):
        if (
            value
        ):
            pass
        match value:
            case 1:
                pass
"""


def test_every_line_has_a_place_and_namesakes_are_told_apart():
    found = read(TEXT, python=True)
    assert found.places[0] == ""
    assert set(found.places[2:6]) == {"A"}
    assert found.places[8] == "A.size@property"
    assert found.places[15] == "A.size@size.setter"
    assert source.symbol(found.places[15]) == "A.size"
    assert found.places_in((1, 8)) == {"A", "A.size@property"}


def test_lines_that_go_on_with_a_logical_line_are_known():
    outline = outline_of(TEXT)
    assert outline is not None
    assert outline.inside == {3, 4, 5, 7, 9, 10, 13, 15, 16}
    assert (2, 21) in outline.blocks
    assert (18, 21) in outline.blocks


def test_lines_end_at_lf_alone():
    assert split_lines(b"a\rb\x0c\nc\r\nd") == [b"a\rb\x0c\n", b"c\r\n", b"d"]
    assert outline_of(b"a = 1\r\nb = 2\r\n") is not None
    # Python would count another line here than git does
    assert outline_of(b"a = 1\rb = 2\r\n") is None
    assert outline_of(b"print 1\n") is None


def test_other_files_have_no_places():
    found = read(b"def f():\n    pass\n", python=False)
    assert found.outline is None
    assert set(found.places) == {""}
