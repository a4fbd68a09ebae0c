"""quilt's series file: what is understood, what is refused, and that no byte is lost (case Q01)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pseries.errors import Problem
from pseries.model import order


def read(data: bytes) -> tuple[order.Order, list[Problem]]:
    problems: list[Problem] = []
    return order.parse(data, problems), problems


def test_it_reads_names_strip_levels_and_lines():
    parsed, problems = read(b"# header\n\n1.patch\n  2-p0.patch -p0   # no prefix\n4.patch\n")
    assert problems == []
    assert parsed.entries == (
        order.Entry("1.patch", 1, 3),
        order.Entry("2-p0.patch", 0, 4),
        order.Entry("4.patch", 1, 5),
    )


def test_it_reads_crlf_and_a_missing_last_newline():
    parsed, problems = read(b"1.patch\r\n2-p0.patch -p0\r\n3.patch")
    assert problems == []
    assert [(entry.name, entry.strip) for entry in parsed.entries] == [
        ("1.patch", 1),
        ("2-p0.patch", 0),
        ("3.patch", 1),
    ]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"1.patch\n1.patch\n", "listed already at line 1"),
        (b"3-rev.patch -R\n", "-R is not supported"),
        (b"my fix.patch\n", "names with blanks are not supported"),
        (b"1.patch --fuzz=3\n", "neither a -pN option nor a comment"),
        (b"-p1\n", "looks like an option"),
        (b"../1.patch\n", "lies in a folder"),
        (b"caf\xe9.patch\n", "not UTF-8"),
        (b"a\rb.patch\n", "cannot be read"),
    ],
)
def test_it_refuses(line: bytes, what: str):
    _, problems = read(line)
    assert what in " ".join(map(str, problems))


def test_it_reports_everything_at_once():
    _, problems = read(b"a.patch\na.patch\nb.patch -R\n../c\n")
    assert [problem.where for problem in problems] == ["series:2", "series:3", "series:4"]


def test_a_rename_changes_the_name_alone():
    parsed, _ = read(b"# keep\r\n  old.patch -p0\t# why\nlast.patch")
    changed = order.renamed(parsed, {"old.patch": "new.patch", "last.patch": None})
    assert order.render(changed) == b"# keep\r\n  new.patch -p0\t# why\n"
    assert changed.entries == (order.Entry("new.patch", 0, 2),)


@given(st.binary(max_size=200))
def test_any_bytes_survive_a_round_trip(data: bytes):
    parsed, _ = read(data)
    assert order.render(parsed) == data


@given(st.lists(st.sampled_from([b"a.patch", b"b.patch -p0 # x", b"# c", b"", b" d.patch\r"])))
def test_entries_point_at_their_lines(lines: list[bytes]):
    parsed, _ = read(b"\n".join(lines))
    for entry in parsed.entries:
        assert entry.name.encode() in parsed.lines[entry.line - 1]
