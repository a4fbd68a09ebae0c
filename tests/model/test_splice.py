"""Where the lines of a hunk stand."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from pseries.model import splice

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
