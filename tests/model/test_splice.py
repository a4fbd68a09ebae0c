"""Where the lines of a hunk stand."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from pseries.model.diff import splice
from pseries.model.diff.hunk import Hunk

LINES = st.lists(st.sampled_from([b"\n", b"a\n", b"ba\n"]), max_size=60)


def plainly(source: list[bytes], wanted: list[bytes]) -> tuple[int, ...]:
    places = range(len(source) - len(wanted) + 1)
    return tuple(at + 1 for at in places if wanted and source[at : at + len(wanted)] == wanted)


@given(LINES, st.lists(st.sampled_from([b"\n", b"a\n"]), max_size=4), st.booleans())
def test_every_place_is_found(source: list[bytes], wanted: list[bytes], open_end: bool):
    if open_end:
        source, wanted = [*source, b"a"], [*wanted, b"a"]
    assert splice.occurrences(source, wanted) == plainly(source, wanted)


def test_many_places_are_found_by_lines():
    source = [b"a\n", b"a\n", b"b\n"] * 50
    for wanted in ([b"a\n"], [b"a\n", b"b\n"], [b"a\n", b"a\n", b"b\n", b"a\n"]):
        assert splice.occurrences(source, wanted) == plainly(source, wanted)


def test_like_lines_take_no_time():
    begun = time.monotonic()
    assert len(splice.occurrences([b"\n"] * 60_000, [b"\n"] * 30_000)) == 30_001
    assert time.monotonic() - begun < 3
    assert splice.some(range(1, 30_000)) == "1, 2, 3, 4, 5 and more"


def hunk(old: int, new: int, *lines: bytes) -> Hunk:
    counts = [sum(line[:1] in (b" ", side) for line in lines) for side in (b"-", b"+")]
    return Hunk(old, counts[0], new, counts[1], b"", lines, 1)


def starts(source: list[bytes], *hunks: Hunk, recorded: bool) -> object:
    placed = splice.placed(source, hunks, recorded=recorded)
    if isinstance(placed, splice.Unplaced):
        return tuple(placed)
    return [(each.old_start, each.new_start) for each in placed]


def test_hunks_are_put_where_all_their_lines_stand():
    more, gone = hunk(1, 1, b" a\n", b"+x\n"), hunk(2, 3, b"-b\n")
    twice = [b"c\n", b"a\n", b"b\n", b"a\n"]
    for recorded in (True, False):
        assert starts([b"c\n", b"a\n", b"b\n"], more, gone, recorded=recorded) == [(2, 2), (3, 3)]
        assert starts(twice, more, recorded=recorded) == (1, 2)
        assert starts([b"a\n"], more, gone, recorded=recorded) == (2, 0)
        assert starts([b"a\n"], hunk(0, 1, b"+x\n"), recorded=recorded) == (1, 0)
    at_its_line = hunk(4, 4, b" a\n", b"+x\n")
    assert starts(twice, at_its_line, recorded=True) == [(4, 4)]
    assert starts(twice, at_its_line, recorded=False) == (1, 2)


def test_hunks_are_put_in_their_order_or_nowhere():
    first, second = hunk(1, 1, b" a\n", b"+x\n"), hunk(2, 3, b" b\n", b"-c\n")
    for recorded in (True, False):
        assert starts([b"a\n", b"b\n", b"c\n"], first, second, recorded=recorded) == [
            (1, 1),
            (2, 3),
        ]
        assert starts([b"b\n", b"c\n", b"a\n"], first, second, recorded=recorded) == (2, 1)
        overlap = hunk(1, 1, b" a\n", b" b\n", b"+x\n")
        assert starts([b"a\n", b"b\n", b"c\n"], overlap, second, recorded=recorded) == (2, 1)


def test_an_empty_file_has_one_place():
    for recorded in (True, False):
        assert starts([], hunk(0, 1, b"+x\n"), recorded=recorded) == [(0, 1)]
