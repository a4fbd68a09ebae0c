"""Names of files in diffs: C-style quoting, prefixes, dates (cases P03, P04)."""

from __future__ import annotations

import pytest

from pseries.model.diff import filename


@pytest.mark.parametrize(
    ("text", "name", "rest"),
    [
        (b'"a/x"', b"a/x", b""),
        (b'"a/caf\\303\\251" b/x', b"a/caf\xc3\xa9", b" b/x"),
        (b'"\\a\\b\\t\\n\\v\\f\\r\\"\\\\"', b'\a\b\t\n\v\f\r"\\', b""),
        (b'"\\377\\000"', b"\xff\0", b""),
        (b'""', b"", b""),
    ],
)
def test_quoted_names(text, name, rest):
    assert filename.unquoted(text) == (name, rest)


@pytest.mark.parametrize(
    "text", [b'"', b'"a', b'"a\\', b'"\\x41"', b'"\\400"', b'"\\08"', b'"\\1"']
)
def test_broken_quoting(text):
    assert filename.unquoted(text) is None
    assert filename.plain(text) is None


def test_a_whole_line_is_one_name():
    assert filename.plain(b"a b") == b"a b"
    assert filename.plain(b'"a b"') == b"a b"
    assert filename.plain(b'"a" b') is None


@pytest.mark.parametrize(
    ("text", "git", "expected"),
    [
        (b"a/x", False, (b"a/x", b"")),
        (b"a/x\t2026", False, (b"a/x", b"2026")),
        (b"a/x\t2026", True, (b"a/x", b"2026")),
        (b"a/x 2026-02-14 08:00:00", False, (b"a/x", b"2026-02-14 08:00:00")),
        (b"a/x 2026-02-14 08:00:00", True, (b"a/x 2026-02-14 08:00:00", b"")),
        (b"a/x 2026-02-14 08:00:00\tb", False, (b"a/x 2026-02-14 08:00:00", b"b")),
        (b"a/x  2026-02-14 08:00:00.5 +01:00", False, (b"a/x", b"2026-02-14 08:00:00.5 +01:00")),
        (b"a/x 2026-02-14", False, None),
        (b"a/2026-02-14", False, (b"a/2026-02-14", b"")),
        (b'"a/x" 2026', False, (b"a/x", b"2026")),
        (b'"a/x"y', False, None),
        (b'"a/x', False, None),
    ],
)
def test_a_name_ends_at_its_date(text, git, expected):
    assert filename.dated(text, git=git) == expected


@pytest.mark.parametrize(
    ("date", "absent"),
    [
        (b"1970-01-01 00:00:00.000000000 +0000", True),
        (b"1970-01-01 05:30:00 +0530", True),
        (b"1970-01-01 05:00:00 +0530", False),
        (b"1969-12-31 20:30:00 -0330", True),
        (b"1969-12-31 00:00:00 +0000", False),
        (b"1970-01-01 00:00:01 +0000", False),
        (b"1970-01-01 00:00:00.1 +0000", False),
        (b"1970-01-01", False),
        (b" (revision 0) ", True),
        (b"(revision 10)", False),
        (b"", False),
    ],
)
def test_which_dates_mean_that_there_is_no_file(date, absent):
    assert filename.tells_absence(date) is absent


def test_leading_components():
    assert filename.stripped(b"a/b/c", 0) == b"a/b/c"
    assert filename.stripped(b"a/b/c", 2) == b"c"
    assert filename.stripped(b"a/b/c", 3) is None
    assert filename.stripped(b"a/", 1) is None


@pytest.mark.parametrize(
    ("rest", "level", "old", "new", "expected"),
    [
        (b"a/x b/y", 1, b"x", b"y", (b"a/x", b"b/y")),
        (b"a/x b/x b/y", 1, b"x b/x", b"y", (b"a/x b/x", b"b/y")),
        (b"a/x b/x b/y", 1, b"x", b"x b/y", (b"a/x", b"b/x b/y")),
        (b"x y", 0, b"x", b"y", (b"x", b"y")),
        (b"a/x b/y", 1, b"z", b"y", None),
        (b"a/x b/y", 1, b"x", b"z", None),
        (b"a/x_b/y", 1, b"x", b"y", None),
        (b"x y", 1, b"x", b"y", None),
        (b'"a/x" b/y', 1, b"x", b"y", (b"a/x", b"b/y")),
        (b'a/x "b/y"', 1, b"x", b"y", (b"a/x", b"b/y")),
        (b'"a/x" b/y', 1, b"x", b"z", None),
        (b'"a/x" b/y', 1, b"z", b"y", None),
        (b'"a/x b/y', 1, b"x", b"y", None),
        (b'a/x"b/y', 1, b"x", b"y", None),
    ],
)
def test_two_known_names(rest, level, old, new, expected):
    assert filename.both(rest, level, old, new) == expected


@pytest.mark.parametrize(
    ("rest", "level", "expected"),
    [
        (b"a/x b/x", 1, (b"a/x", b"b/x")),
        (b"old/x new/x", 1, (b"old/x", b"new/x")),
        (b"a/b/x c/d/x", 2, (b"a/b/x", b"c/d/x")),
        (b"x x", 0, (b"x", b"x")),
        (b"a b a b", 0, (b"a b", b"a b")),
        (b"a/x b/y", 1, None),
        (b"a/xx b/x", 1, None),
        (b"x x", 1, None),
        (b"a/x", 1, None),
        (b"a/ b/", 1, None),
        (b"", 0, None),
        (b'"a/x" "b/x"', 1, (b"a/x", b"b/x")),
        (b'"a/x" "b/y"', 1, None),
        (b'"a" "b"', 1, None),
        (b'"a/x"', 1, None),
    ],
)
def test_one_name_written_twice(rest, level, expected):
    assert filename.same(rest, level) == expected
