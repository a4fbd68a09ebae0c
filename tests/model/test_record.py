"""RECORD: read in full, all mistakes at once; rewritten row by row, the rest byte for byte."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.site import trees
from tests.support import records

from pseries.model import record
from pseries.site import distribution, interpreter
from pseries.site.fs import SiteTree

if TYPE_CHECKING:
    from pathlib import Path

NEW = (hashlib.sha256(b"new").hexdigest(), 3)
NEW_ROW = (
    b"sha256=" + base64.urlsafe_b64encode(hashlib.sha256(b"new").digest()).rstrip(b"=") + b",3"
)
DATA = (
    b"../../../bin/eng,sha256=AAAA,12\r\n"
    b"/etc/absolute,,\r\n"
    b"eng/__init__.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\r\n"
    b"eng/__pycache__/mod.cpython-311.pyc,,\r\n"
    b'"eng/a,b.py",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\r\n'
    b'"eng/say ""hi"".py",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\r\n'
    b"eng/mod.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\r\n"
    b"eng-1.0.dist-info/RECORD,,\r\n"
)


def test_every_row_is_read_as_the_csv_module_reads_it() -> None:
    parsed = record.parse(DATA)
    assert parsed.problems == ()
    rows = list(csv.reader(io.StringIO(DATA.decode(), newline="")))
    assert [entry.path for entry in parsed.entries] == [row[0] for row in rows]
    init = parsed.entries[2]
    assert (init.algorithm, init.digest, init.size) == ("sha256", hashlib.sha256().hexdigest(), 0)
    assert parsed.entries[-1] == record.Entry("eng-1.0.dist-info/RECORD", None, None)
    assert [entry.path for entry in parsed.entries if entry.outside] == [
        "../../../bin/eng",
        "/etc/absolute",
    ]


def test_all_malformed_rows_are_named_at_once() -> None:
    parsed = record.parse(
        b"a.py,sha256=AAAA\nb.py,sha256=A,1\nc.py,,x\n,,\nd.py,,\nd.py,,\n\ne.py,,\xc2\xb2\n"
    )
    assert [str(problem) for problem in parsed.problems] == [
        "RECORD row 1: has 2 fields, not 3",
        "RECORD row 2: has the hash 'sha256=A'",
        "RECORD row 3: has the size 'x'",
        "RECORD row 4: has no path",
        "RECORD row 6: lists d.py again",
        "RECORD row 8: has the size '²'",
    ]


def test_a_real_installation_is_what_it_says() -> None:
    """Of what runs this; a file that is changed, gone or linked is seen."""
    site = interpreter.locate(None, "pluggy")
    with SiteTree(site) as tree:
        listed = distribution.find(tree, "pluggy").record
    assert records.differing(site, listed) == []
    assert len(listed.entries) > 10


def test_what_is_not_as_listed_is_seen(tmp_path: Path) -> None:
    site = trees.make(tmp_path / "site")
    listed = record.parse((site / trees.RECORD).read_bytes())
    assert records.differing(site, listed) == []
    (site / "eng/mod.py").write_bytes(b"a = 2\n")
    (site / "eng/tool.py").unlink()
    (site / "eng/gone/old.py").rename(tmp_path / "old.py")
    (site / "eng/gone/old.py").symlink_to(tmp_path / "old.py")
    assert sorted(records.differing(site, listed)) == [
        "eng/gone/old.py",
        "eng/mod.py",
        "eng/tool.py",
    ]


def test_only_the_rows_concerned_change() -> None:
    changed = record.rewrite(
        DATA,
        {"eng/mod.py": NEW, "eng/a,b.py": NEW, 'eng/say "hi".py': NEW, "eng/__init__.py": None},
    )
    expected = DATA.splitlines(keepends=True)
    expected[4] = b'"eng/a,b.py",' + NEW_ROW + b"\r\n"
    expected[5] = b'"eng/say ""hi"".py",' + NEW_ROW + b"\r\n"
    expected[6] = b"eng/mod.py," + NEW_ROW + b"\r\n"
    del expected[2]
    assert changed == b"".join(expected)


def test_added_rows_stand_behind_their_sibling_and_go_without_a_trace() -> None:
    added = record.rewrite(DATA, {"eng/moe.py": NEW, "eng/zoo,1.py": NEW, "eng/mod_b.py": NEW})
    lines = added.splitlines(keepends=True)
    place = lines.index(DATA.splitlines(keepends=True)[6])
    assert lines[place + 1 : place + 3] == [
        b"eng/mod_b.py," + NEW_ROW + b"\r\n",
        b"eng/moe.py," + NEW_ROW + b"\r\n",
    ]
    assert b'"eng/zoo,1.py",' + NEW_ROW + b"\r\n" in lines
    gone = dict.fromkeys(["eng/moe.py", "eng/zoo,1.py", "eng/mod_b.py"])
    assert record.rewrite(added, gone) == DATA


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_are_kept_and_a_missing_last_one_too(end: str) -> None:
    data = f"a.py,,{end}b.py,,{end}c.py,,".encode()
    assert record.rewrite(data, {}) == data
    assert record.rewrite(data, {"c.py": NEW}) == data[:-1] + NEW_ROW
    assert record.rewrite(data, {"d.py": NEW}) == data + end.encode() + b"d.py," + NEW_ROW + (
        end.encode()
    )
    assert record.rewrite(data, {"c.py": None}) == f"a.py,,{end}b.py,,{end}".encode()
    assert record.rewrite(b"", {"a.py": NEW}) == b"a.py," + NEW_ROW + b"\n"


_PATHS = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f\x85\\"),
    min_size=1,
).filter(lambda path: record.settled(path.encode()) == path.encode())


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(_PATHS, st.booleans()), st.dictionaries(_PATHS, st.booleans()), st.booleans()
)
def test_any_record_says_afterwards_what_it_should(
    there: dict[str, bool], changes: dict[str, bool], windows: bool
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n" if windows else "\n")
    writer.writerows([path, "sha256=AAAA" if hashed else "", "1"] for path, hashed in there.items())
    new = {path: NEW if kept else None for path, kept in changes.items()}
    data = text.getvalue().encode()
    changed = record.rewrite(data, new)
    after = {entry.path: entry for entry in record.parse(changed).entries}
    assert set(after) == {path for path in {**there, **changes} if changes.get(path, True)}
    for path, kept in changes.items():
        if kept:
            assert (after[path].digest, after[path].size) == NEW
    untouched = [row for row in data.splitlines(keepends=True) if _path(row) not in changes]
    assert [
        row for row in changed.splitlines(keepends=True) if _path(row) not in changes
    ] == untouched
    readable = list(csv.reader(io.StringIO(changed.decode(), newline="")))
    assert [row[0] for row in readable] == list(after)


def _path(row: bytes) -> str:
    return next(csv.reader([row.decode()]))[0]


def test_rows_of_odd_names_are_found_again() -> None:
    data = b"eng/caf\xe9.py,,\n"
    assert record.parse(data).entries[0].path == "eng/caf\udce9.py"
    assert record.rewrite(data, {"eng/caf\udce9.py": NEW}) == b"eng/caf\xe9.py," + NEW_ROW + b"\n"


def test_pip_still_knows_every_file_after_a_series(tmp_path: Path) -> None:
    site = trees.make(tmp_path / "site")
    with SiteTree(site) as tree:
        trees.apply(tree)
        found = distribution.find(tree, "eng")
        assert records.differing(site, found.record) == []
        assert "eng/new/deep/x.py" in found.record.paths()
        assert "eng/gone/old.py" not in found.record.paths()


def test_a_quote_that_is_not_closed_hides_nothing_and_takes_no_time() -> None:
    rows = b"".join(b"eng/%06d.py,,\n" % number for number in range(100_000))
    started = time.process_time()
    parsed = record.parse(b'"eng/odd.py,,1\n' + rows + b'eng/"odd,,\n')
    assert time.process_time() - started < 10  # it was minutes
    assert len(parsed.entries) == 100_001
    assert [problem.where for problem in parsed.malformed] == ["RECORD row 1"]
    rewritten = record.rewrite(b'"eng/odd.py,,1\n' + rows, {"eng/000001.py": NEW})
    assert rewritten.startswith(b'"eng/odd.py,,1\neng/000000.py,,\neng/000001.py,' + NEW_ROW)


def test_a_second_open_quote_does_not_make_it_a_name_of_several_lines() -> None:
    parsed = record.parse(b'"eng/a.py,,\neng/b.py,,\n"eng/c.py,,\neng/d.py,,\n')
    assert "is not CSV" in parsed.malformed[0].what
    parsed = record.parse(b'a,"b"c,\n' + b'"' * 3 + b"\n" + b'"x\ry,,\n')
    assert parsed.malformed
    assert record.parse(b'"eng/a\nb.py",,3\n').entries == (record.Entry("eng/a\nb.py", None, 3),)
    assert record.parse(b"d.py,,\nd.py,,\n").malformed == ()


@pytest.mark.parametrize(
    "spelled", ["./eng/mod.py", "eng//mod.py", "./eng/./mod.py", "{}/eng/mod.py"]
)
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_file_has_one_row_however_its_path_is_written(
    tmp_path: Path, spelled: str, quote: str
) -> None:
    root = str(tmp_path)
    path = f"{quote}{spelled.format(root)}{quote}".encode()
    data = b"a.py,,\n" + path + b",sha256=AAAA,1\nz.py,,\n"
    assert [entry.path for entry in record.parse(data, root).entries] == [
        "a.py", "eng/mod.py", "z.py"
    ]  # fmt: skip
    changed = record.rewrite(data, {"eng/mod.py": NEW}, root)
    assert changed == b"a.py,,\n" + path + b"," + NEW_ROW + b"\nz.py,,\n"
    assert record.rewrite(data, {"eng/mod.py": None}, root) == b"a.py,,\nz.py,,\n"
    assert record.parse(b"/etc/x,,\n../x,,\n", root).entries[0].path == "/etc/x"
