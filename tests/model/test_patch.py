"""Patch files: what is accepted, with every byte kept, and what is refused (F, P, A08, A09)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pseries.errors import PatchRefused
from pseries.model.diff import lines, opinion, patch
from pseries.model.diff.patch import Kind

DATA = Path(__file__).parent.parent / "data" / "patches"
GENUINE = sorted(DATA.glob("*.patch"))
GIT_EXE = shutil.which("git") or "git"
STRIP_0 = {"git-noprefix.patch"}

GIT = b"diff --git a/eng/mod.py b/eng/mod.py\n"
SIDES = b"--- a/eng/mod.py\n+++ b/eng/mod.py\n"
EDIT = b"@@ -1,2 +1,2 @@\n flag = 0\n-a = 1\n+a = 2\n"
OTHER = (
    b"diff --git a/eng/z.py b/eng/z.py\n--- a/eng/z.py\n+++ b/eng/z.py\n"
    b"@@ -1,2 +1,2 @@\n k = 1\n-l = 1\n+l = 2\n"
)
MAIL = (
    b"From 1111111111111111111111111111111111111111 Mon Sep 17 00:00:00 2001\n"
    b"From: Dev <d@example.org>\nDate: Mon, 2 Nov 2026 10:00:00 +0000\nSubject: [PATCH] set a\n\n"
)


def read(data: bytes, strip: int = 1) -> patch.Patch:
    """Parse, and check the promise that no byte is lost."""
    parsed = patch.parse("t.patch", data, strip)
    sections = b"".join(section.raw for section in parsed.sections)
    assert parsed.header.raw + sections + parsed.tail == data
    return parsed


def only(data: bytes, strip: int = 1) -> patch.Section:
    (section,) = read(data, strip).sections
    return section


def refused(data: bytes, strip: int = 1) -> list[str]:
    with pytest.raises(PatchRefused) as caught:
        patch.parse("t.patch", data, strip)
    assert caught.value.name == "t.patch"
    return [str(problem) for problem in caught.value.problems]


def refusal(data: bytes, strip: int = 1) -> str:
    (problem,) = refused(data, strip)
    return problem


def git_numstat(parsed: patch.Patch) -> tuple[tuple[int | None, int | None, str], ...]:
    said = subprocess.run(
        [GIT_EXE, "apply", "--numstat", "-z", f"-p{parsed.strip}"],
        input=parsed.diff, capture_output=True, check=True, cwd="/",
        env={"PATH": os.environ["PATH"], "GIT_DIR": "/dev/null", "LC_ALL": "C",
             "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"},
    )  # fmt: skip
    return opinion.read_numstat(said.stdout)


# --- genuine patches --------------------------------------------------------------------------


@pytest.mark.parametrize("file", GENUINE, ids=lambda file: file.stem)
def test_genuine_patches_are_read_as_git_and_unidiff_read_them(file):
    parsed = read(file.read_bytes(), 0 if file.name in STRIP_0 else 1)
    assert parsed.sections
    assert git_numstat(parsed) == opinion.numstat(parsed)
    assert opinion.second_opinion(parsed) == ()
    assert parsed.diff == b"".join(section.raw for section in parsed.sections)


def test_f04_git_reports_as_many_files_as_there_are_sections():
    parsed = read((DATA / "mail-git.patch").read_bytes())
    assert len(parsed.sections) == len(git_numstat(parsed)) == 6


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("git-two-hunks", [(Kind.MODIFY, "eng/long.py", "eng/long.py", 0o100644, 0o100644)]),
        (
            "git-rename",
            [
                (Kind.RENAME, "eng/A b.py", "eng/C d.py", None, None),
                (Kind.RENAME, "eng/café.py", "eng/thé.py", None, None),
            ],
        ),
        (
            "git-rename-edit",
            [(Kind.RENAME, "eng/renamed.txt", "eng/new_name.txt", 0o100644, 0o100644)],
        ),
        ("git-rename-mode", [(Kind.RENAME, "eng/run.sh", "eng/go.sh", 0o100644, 0o100755)]),
        (
            "git-rename-swap",
            [
                (Kind.RENAME, "eng/big2.txt", "eng/big1.txt", None, None),
                (Kind.RENAME, "eng/big1.txt", "eng/big2.txt", None, None),
            ],
        ),
        ("git-mode-only", [(Kind.MODIFY, "eng/run.sh", "eng/run.sh", 0o100644, 0o100755)]),
        ("git-mode-edit", [(Kind.MODIFY, "eng/run.sh", "eng/run.sh", 0o100644, 0o100755)]),
        ("git-new-empty", [(Kind.ADD, None, "eng/pk/__init__.py", None, 0o100644)]),
        (
            "git-new",
            [
                (Kind.ADD, None, "eng/new.py", None, 0o100644),
                (Kind.ADD, None, "eng/new.sh", None, 0o100755),
            ],
        ),
        ("git-delete", [(Kind.DELETE, "eng/old.py", None, 0o100644, None)]),
        ("git-delete-empty", [(Kind.DELETE, "eng/empty.py", None, 0o100644, None)]),
        ("git-fill-empty", [(Kind.MODIFY, "eng/empty.py", "eng/empty.py", 0o100644, 0o100644)]),
        ("git-empty-full", [(Kind.MODIFY, "eng/x.txt", "eng/x.txt", 0o100644, 0o100644)]),
        ("git-binary", [(Kind.MODIFY, "eng/blob.bin", "eng/blob.bin", 0o100644, 0o100644)]),
        ("git-binary-new", [(Kind.ADD, None, "eng/n.bin", None, 0o100644)]),
        (
            "git-latin1-path",
            [(Kind.MODIFY, "eng/caf\udce9.py", "eng/caf\udce9.py", 0o100644, 0o100644)],
        ),
        (
            "gnu-diff",
            [
                (Kind.MODIFY, "mod.py", "mod.py", None, None),
                (Kind.ADD, None, "new.py", None, None),
                (Kind.DELETE, "old.py", None, None, None),
            ],
        ),
        (
            "quilt-dep3",
            [
                (Kind.ADD, None, "eng/fresh.py", None, None),
                (Kind.MODIFY, "eng/mod.py", "eng/mod.py", None, None),
            ],
        ),
    ],
)
def test_p05_sections_are_classified_by_their_headers(name, expected):
    parsed = read((DATA / f"{name}.patch").read_bytes())
    assert [(s.kind, s.old, s.new, s.old_mode, s.new_mode) for s in parsed.sections] == expected


def test_p05_header_only_changes_have_no_hunks_but_ids_and_similarity():
    rename = only((DATA / "git-rename-edit.patch").read_bytes())
    assert (rename.similarity, len(rename.hunks)) == (89, 1)
    empty = only((DATA / "git-new-empty.patch").read_bytes())
    assert (empty.hunks, empty.old_blob) == ((), None)
    assert empty.new_blob == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    short = only((DATA / "git-short-ids.patch").read_bytes())
    assert (short.old_blob, short.new_blob) == ("f5e0ff0", "e3ae415")
    assert only((DATA / "git-mode-only.patch").read_bytes()).hunks == ()
    deleted = only((DATA / "git-delete.patch").read_bytes())
    assert (deleted.path, deleted.new_blob) == ("eng/old.py", None)
    assert rename.path == "eng/new_name.txt"
    assert only((DATA / "git-binary.patch").read_bytes()).binary


def test_p03_names_are_unquoted_and_kept_byte_for_byte():
    names = ["eng/A b.py", "eng/E=128,N=768,device_name=AMD Instinct.json", "eng/café.py"]
    assert [s.path for s in read((DATA / "git-odd-names.patch").read_bytes()).sections] == names
    unquoted = read((DATA / "git-unquoted-names.patch").read_bytes())
    assert [s.path for s in unquoted.sections] == ["eng/A b.py", "eng/café.py"]


def test_dates_of_1970_mean_the_same_in_any_time_zone():
    kinds = [Kind.MODIFY, Kind.ADD, Kind.DELETE]
    for name in ("gnu-diff", "gnu-diff-west", "gnu-blank-dates"):
        parsed = read((DATA / f"{name}.patch").read_bytes())
        assert [section.kind for section in parsed.sections] == kinds


# --- hunks ------------------------------------------------------------------------------------


def test_a_hunk_knows_its_place_its_lines_and_both_texts():
    first, second = only((DATA / "git-two-hunks.patch").read_bytes()).hunks
    assert (first.old_start, first.old_count, first.new_start, first.new_count) == (2, 7, 2, 7)
    assert (second.old_start, second.new_start, second.added, second.removed) == (27, 27, 2, 1)
    assert (first.section, first.line) == (b"line_1", 5)
    assert (first.leading, first.trailing) == (3, 3)
    assert first.lines[3] == b"-line_5\n"
    assert first.before == b"".join(b"line_%d\n" % number for number in range(2, 9))
    assert first.after == first.before.replace(b"line_5", b"line_five")


def test_a_patch_knows_its_totals():
    section = only((DATA / "git-two-hunks.patch").read_bytes())
    assert (section.path, section.added, section.removed, section.line) == ("eng/long.py", 3, 2, 1)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("both", b"last line\nwithout newline", b"last line\nstill without"),
        ("before", b"last line\nwithout newline", b"last line\nwithout newline\n"),
        ("after", b"x\n", b"x"),
    ],
)
def test_f06_the_last_newline_is_exact(name, before, after):
    (hunk,) = only((DATA / f"git-no-newline-{name}.patch").read_bytes()).hunks
    assert (hunk.before, hunk.after) == (before, after)


def test_f06_a_marker_may_stand_below_a_context_line_and_in_any_language():
    body = GIT + SIDES + b"@@ -1,2 +1,2 @@\n-a\n+b\n c\n\\ Kein Zeilenumbruch am Dateiende.\n"
    (hunk,) = only(body).hunks
    assert (hunk.before, hunk.after, hunk.trailing) == (b"a\nc", b"b\nc", 1)


@pytest.mark.parametrize(
    "body",
    [
        b"@@ -1,2 +1,2 @@\n\\ No newline at end of file\n-a\n+b\n c\n",
        b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n" + b"\\ No newline at end of file\n" * 2,
        b"@@ -1,2 +1,2 @@\n a\n\\ No newline at end of file\n-b\n+c\n",
        b"@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No\n",
        b"@@ -1,2 +1,2 @@\n a\n-b\n" + b"\\ No newline at end of file\n" * 2 + b"+c\n",
        b"@@ -1,2 +1,2 @@\n a\n-b\n\\No newline at end of file\n+c\n",
        b"@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n b\n+c\n",
        b"@@ -1,2 +1,2 @@\n-a\n\\ No newline at end of file\n-b\n+c\n+d\n",
    ],
)
def test_f06_a_misplaced_or_damaged_marker_is_refused(body):
    problem = refusal(GIT + SIDES + body)
    assert "end-of-file marker" in problem or "No newline" in problem


def test_f06_nothing_follows_the_end_of_a_file():
    body = EDIT + b"\\ No newline at end of file\n@@ -9,2 +9,2 @@\n x\n-y\n+z\n"
    assert "ends its file, but another hunk follows" in refusal(GIT + SIDES + body)


def test_f07_an_empty_line_in_the_counted_body_is_an_empty_context_line():
    body = b"@@ -1,5 +1,5 @@\n a = 1\n\n-b = 2\n+b = 3\n\n\n"
    (hunk,) = only(GIT + SIDES + body).hunks
    assert hunk.before == b"a = 1\n\nb = 2\n\n\n"
    assert hunk.after == b"a = 1\n\nb = 3\n\n\n"
    assert hunk.lines[1] == b"\n"
    assert hunk.trailing == 2
    assert opinion.second_opinion(read(GIT + SIDES + body)) == ()


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("after", [b"", OTHER, b"-- \n2.39.5\n"], ids=["end", "file", "signature"])
def test_f07_a_hunk_that_ends_early_is_named(lost, after):
    body = b"@@ -1,5 +1,5 @@\n a = 1\n\n-b = 2\n+b = 3\n" + b"\n" * (2 - lost)
    assert refusal(GIT + SIDES + body + after) == (
        "t.patch:4: hunk 1 of eng/mod.py announces 5 old and 5 new lines, "
        f"contains {5 - lost} and {5 - lost} "
        "(an editor may have trimmed blank context lines at its end)"
    )


UNDER = b"@@ -1,3 +1,4 @@\n a = 1\n b = 2\n c = 3\n+guard_1()\n+guard_2()\n+guard_3()\n"


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        (UNDER, "announces 3 old and 4 new lines, contains 3 and 6"),
        (UNDER + OTHER, "announces 3 old and 4 new lines, contains 3 and 6"),
        (
            UNDER + b"@@ -4,2 +7,2 @@\n d\n-e\n+f\n",
            "announces 3 old and 4 new lines, contains 3 and 6",
        ),
        (
            b"@@ -1,3 +1,5 @@\n a\n b\n+g\n+h\n c\n+i\n",
            "announces 3 old and 5 new lines, contains 3 and 6",
        ),
        (
            b"@@ -1,3 +1,9 @@\n a\n b\n c\n+g\n" + OTHER,
            "announces 3 old and 9 new lines, contains 3 and 4",
        ),
        (b"@@ -1,1 +1,2 @@\n a\n+b\n\n c\n", "announces 1 old and 2 new lines, contains 3 and 4"),
        (b"@@ -1,2 +1,1 @@\n a\n b\n+c\n", "announces 2 old and 1 new lines, contains 2 and 3"),
        (EDIT + b"-- \n", "announces 2 old and 2 new lines, contains 3 and 2"),
        (EDIT + b"-- \n+x\n", "announces 2 old and 2 new lines, contains 3 and 3"),
        (EDIT + b"--\n", "announces 2 old and 2 new lines, contains 3 and 2"),
        (EDIT + b"--- a/x\n", "announces 2 old and 2 new lines, contains 3 and 2"),
        (EDIT + b"\n\n-x\n", "announces 2 old and 2 new lines, contains 5 and 4"),
        (EDIT + b"-- \n\n", "announces 2 old and 2 new lines, contains 3 and 2"),
        (EDIT + b"---\n" + OTHER, "announces 2 old and 2 new lines, contains 3 and 2"),
        (b"@@ -1,1 +1,4 @@\n a\n+b\n\n", "announces 1 old and 4 new lines, contains 1 and 2"),
        (b"@@ -1,4 +1,1 @@\n a\n-b\n\n", "announces 4 old and 1 new lines, contains 2 and 1"),
    ],
)
def test_f08_counts_that_do_not_match_the_body_are_refused(body, counts):
    problem = refused(GIT + SIDES + body)[0]
    assert problem == f"t.patch:4: hunk 1 of eng/mod.py {counts}"


def test_f08_every_bad_hunk_is_told():
    problems = refused(GIT + SIDES + UNDER + b"@@ -9 +9,2 @@\n+x\n" + OTHER + UNDER)
    assert [problem.split(" announces")[0] for problem in problems] == [
        "t.patch:4: hunk 1 of eng/mod.py",
        "t.patch:11: hunk 2 of eng/mod.py",
        "t.patch:20: hunk 2 of eng/z.py",
    ]


@pytest.mark.parametrize("header", [b"@@", b"@@ ... @@", b"@@ -1 @@", b"@@ -a,1 +1 @@"])
@pytest.mark.parametrize("after", [b"", OTHER], ids=["end", "file"])
def test_f08_a_bare_hunk_header_is_refused(header, after):
    body = header + b"\n a = 1\n-b = 2\n+b = 20\n c = 3\n"
    for start in (GIT + SIDES, SIDES):
        problem = refusal(start + body + after)
        assert "hunk 1 of eng/mod.py has no line numbers that can be read" in problem


@pytest.mark.parametrize(
    "after",
    [
        b"",
        b"\n",
        b"\n\n",
        b"-- \n2.39.5\n\n",
        b"--\n2.39.5\n",
        b"\n" + OTHER,
        OTHER,
        b"-- \nDev\nhttps://example.org\n",
        b"Index: eng/z.py\n" + b"=" * 67 + b"\n" + OTHER,
    ],
)
def test_f08_what_may_follow_the_counted_lines(after):
    parsed = read(GIT + SIDES + EDIT + after)
    assert len(parsed.sections) == 1 + (OTHER in after)
    assert len(parsed.diff) == len(parsed.data) - len(parsed.tail)


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (b"2.39.5\n", "text between the files of the patch: '2.39.5'"),
        (b"x\n2.39.5\n", "text between the files of the patch: 'x'"),
        (b"x" * 61 + b"\n", "x" * 60 + "…'"),
        (b"\\ No newline at end of file\n\\ x\n", "text between the files"),
        (b"\n@@ -9,2 +9,2 @@\n a\n-b\n+c\n", "a hunk without a file header"),
        (b"Only in eng: x.py\n", "stands for a change that the patch does not hold"),
        (b"new file mode 100644\n" + SIDES + EDIT, "text between the files"),
        (b"diff --git is prose\n", "text between the files"),
        (b"-- \n2.39.5\n\n" + OTHER, "another diff begins after the mail's signature"),
    ],
)
def test_f08_what_may_not_follow_the_counted_lines(after, what):
    assert what in refused(GIT + SIDES + EDIT + after)[0]


def test_f08_what_follows_a_stray_line_is_looked_at_too():
    assert len(refused(GIT + SIDES + EDIT + b"x\n" + OTHER + b"y\n" + modes(b"a/z b/q"))) == 3


def test_p07_a_signature_swallowed_by_a_hunk_that_counts_too_much():
    body = b"@@ -1,3 +1,2 @@\n flag = 0\n-a = 1\n+a = 2\n-- \n2.39.5\n"
    assert "the mail's signature was counted as part of the hunk" in refusal(GIT + SIDES + body)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"@@ -1,1 +1,1 @@\n a\n", "changes nothing"),
        (b"@@ -0,0 +0,0 @@\n", "changes nothing"),
        (b"@@ -0,2 +1,2 @@\n a\n-b\n+c\n", "begins at line 0 but has lines there"),
        (b"@@ -1,2 +0,2 @@\n a\n-b\n+c\n", "begins at line 0 but has lines there"),
        (EDIT + b"@@ -2,2 +2,2 @@\n b\n-c\n+d\n", "hunk 2 of eng/mod.py begins before the end"),
        (b"@@ -9,2 +9,2 @@\n b\n-c\n+d\n" + EDIT, "hunk 2 of eng/mod.py begins before the end"),
        (
            b"@@ -1,2 +1,3 @@\n a\n+x\n b\n@@ -9,2 +9,2 @@\n b\n-c\n+d\n",
            "begins at new line 9, but the hunks above it shift it to 10",
        ),
        (
            b"@@ -1,2 +3,2 @@\n a\n-b\n+c\n",
            "begins at new line 3, but the hunks above it shift it to 1",
        ),
        (b"@@ -1111111111,2 +1,2 @@\n a\n-b\n+c\n", "a line number of more than nine digits"),
        (
            b"@@ -" + b"1" * 40_000 + b" +1,2 @@\n a\n-b\n+c\n",
            "a line number of more than nine digits",
        ),
    ],
)
def test_hunks_that_make_no_sense_are_refused(body, what):
    assert what in refused(GIT + SIDES + body)[0]


def test_hunks_may_touch_and_empty_sides_count_from_the_line_before():
    body = b"@@ -1,3 +1,2 @@\n a\n-b\n c\n@@ -4,2 +3,3 @@\n d\n+x\n e\n"
    assert len(only(GIT + SIDES + body).hunks) == 2


# --- line ends and encodings ------------------------------------------------------------------


def crlf(data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n")


NEW = (
    b"diff --git a/eng/new.py b/eng/new.py\nnew file mode 100644\n"
    b"--- /dev/null\n+++ b/eng/new.py\n@@ -0,0 +1 @@\n+x = 1\n"
)


@pytest.mark.parametrize(
    "data",
    [
        crlf(GIT + SIDES + EDIT),
        crlf(SIDES + EDIT),
        crlf(NEW),
        crlf(MAIL + b"---\n\n" + GIT + SIDES + EDIT),
        crlf(GIT) + SIDES + EDIT,
        GIT + crlf(SIDES) + EDIT,
        GIT + SIDES + b"@@ -1,2 +1,2 @@\r\n a\n-b\n+c\n",
        GIT + crlf(b"index 1111111..2222222 100644\n") + SIDES + EDIT,
        crlf(GIT + SIDES + b"@@ -1,4 +1,4 @@\n a = 1\n\n-b = 2\n+b = 20\n c = 3\n"),
        crlf((DATA / "git-binary.patch").read_bytes()),
        crlf((DATA / "git-rename.patch").read_bytes()),
    ],
)
def test_f01_a_patch_whose_transport_is_crlf_is_refused_with_what_to_do(data):
    problem = refusal(data)
    assert "the patch itself has CR LF line ends" in problem
    assert "remove every CR" in problem


def test_f01_content_with_crlf_is_fine():
    (hunk,) = only((DATA / "git-crlf-content.patch").read_bytes()).hunks
    assert hunk.before == b"one\r\ntwo\r\n\r\nthree\r\nfour\r\n"
    assert only(GIT + SIDES + b"@@ -1,2 +1,2 @@ def f():\r\n a\r\n-b\r\n+c\r\n").added == 1


def test_f01_a_blank_trimmed_before_a_cr_is_no_context_line():
    body = b"@@ -1,3 +1,3 @@\n a\r\n\r\n-b\r\n+c\r\n"
    assert "contains 1 and 1" in refused(GIT + SIDES + body)[0]


def test_f03_lines_end_at_lf_only():
    (hunk,) = only((DATA / "git-odd-separators.patch").read_bytes()).hunks
    assert hunk.removed == hunk.added == 1
    assert "\u2028".encode() in hunk.before
    assert b"\r" in hunk.before
    assert b"\x0c" in hunk.before


def test_f03_a_forged_file_boundary_inside_a_line_is_content():
    line = b"+x = '\xe2\x80\xa8diff --git a/evil b/evil\rdiff --git a/evil b/evil'\n"
    assert len(read(GIT + SIDES + b"@@ -1 +1,2 @@\n a\n" + line).sections) == 1


def test_f04_a_byte_order_mark_is_refused_with_its_offset():
    assert "at byte 0 stands a UTF-8 byte order mark" in refusal(
        b"\xef\xbb\xbf" + GIT + SIDES + EDIT
    )
    later = MAIL + b"---\n\xef\xbb\xbf" + GIT + SIDES + EDIT
    assert (
        f"at byte {len(MAIL) + 4} a UTF-8 byte order mark hides a file header" in refused(later)[0]
    )
    between = GIT + SIDES + EDIT + b"\xef\xbb\xbf" + OTHER
    assert "byte order mark hides a file header" in refused(between)[0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_f04_utf_16_is_refused_with_the_offset_and_a_suggestion(encoding):
    problem = refusal((GIT + SIDES + EDIT).decode().encode(encoding))
    assert "byte 0" in problem or "byte 1" in problem
    assert "UTF-16" in problem
    assert "make the patch again" in problem


def test_f05_bytes_that_are_not_utf_8_survive():
    (hunk,) = only((DATA / "git-latin1-content.patch").read_bytes()).hunks
    assert hunk.before.startswith(b"# caf\xe9\n")


def test_f06_a_missing_last_newline_is_refused_and_says_whether_one_is_all_it_lacks():
    whole = GIT + SIDES + EDIT
    assert "with exactly one more its counts are right" in refusal(whole[:-1])
    assert refusal(whole[:-1]).startswith("t.patch:7: ")
    problems = refused(GIT + SIDES + b"@@ -1,3 +1,3 @@\n a\n-b\n+c")
    assert any("one more would not make it whole" in problem for problem in problems)
    assert any("announces 3 old" in problem for problem in problems)


def test_f06_difflib_glues_two_lines():
    data = b"--- a/eng/noeol.py\n+++ b/eng/noeol.py\n@@ -1,2 +1,2 @@\n a = 1\n-b = 2+b = 3"
    assert any("would not make it whole" in problem for problem in refused(data))


# --- names ------------------------------------------------------------------------------------


def renamed(old: bytes, new: bytes, line: bytes) -> bytes:
    return (
        b"diff --git " + line + b"\nsimilarity index 100%\n"
        b"rename from " + old + b"\nrename to " + new + b"\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (b"eng/A b.py", b"eng/C d.py", b"a/eng/A b.py b/eng/C d.py"),
        (b"eng/a b/x", b"eng/a b/y", b"a/eng/a b/x b/eng/a b/y"),
        (b"eng/x b/eng/x", b"eng/y", b"a/eng/x b/eng/x b/eng/y"),
        (b'"eng/caf\\303\\251.py"', b"eng/plain.py", b'"a/eng/caf\\303\\251.py" b/eng/plain.py'),
        (b"eng/plain.py", b'"eng/caf\\303\\251.py"', b'a/eng/plain.py "b/eng/caf\\303\\251.py"'),
    ],
)
def test_p03_rename_lines_say_where_the_diff_git_line_is_to_be_split(old, new, line):
    section = only(renamed(old, new, line))
    assert section.kind is Kind.RENAME
    assert section.similarity == 100
    assert (section.old, section.new) == tuple(
        name.decode().replace('"', "").replace("\\303\\251", "é") for name in (old, new)
    )


def modes(line: bytes) -> bytes:
    return b"diff --git " + line + b"\nold mode 100644\nnew mode 100755\n"


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (b"a/eng/x.sh b/eng/x.sh", "eng/x.sh"),
        (b"a/eng/A b.sh b/eng/A b.sh", "eng/A b.sh"),
        (b"a/x b/x b/x b/x", "x b/x"),
        (b'"a/eng/caf\\303\\251.sh" "b/eng/caf\\303\\251.sh"', "eng/café.sh"),
        (b"i/eng/x.sh w/eng/x.sh", "eng/x.sh"),
        (b"old/eng/x.sh new/eng/x.sh", "eng/x.sh"),
    ],
)
def test_p03_without_other_lines_the_diff_git_line_must_name_one_file(line, path):
    assert only(modes(line)).path == path


@pytest.mark.parametrize(
    "line",
    [
        b"a/eng/x.sh b/eng/y.sh",
        b"a/eng/x.sh",
        b"x y",
        b'"a/eng/x.sh b/eng/x.sh',
        b'"a/x\\9" "b/x\\9"',
        b'"a/x"b/x',
        b'a/x "b/x" ',
        b"a/ b/",
        b"a/x b/x b/x",
    ],
)
def test_p03_a_diff_git_line_that_names_no_file_for_certain_is_refused(line):
    assert "no single name can be read" in refused(modes(line))[0]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (
            b"diff --git a/eng/a.py b/eng/a.py\n" + SIDES + EDIT,
            "the 'diff --git' line and the '---' and '+++' lines name different files",
        ),
        (
            GIT + b"--- a/eng/a.py\n+++ b/eng/mod.py\n" + EDIT,
            "the 'diff --git' line and the '---' and '+++' lines name different files",
        ),
        (
            b"diff --git a/eng/a.py b/eng/b.py\n--- a/eng/a.py\n+++ b/eng/b.py\n" + EDIT,
            "two different names without 'rename' lines",
        ),
        (b"--- a/eng/a.py\n+++ b/eng/b.py\n" + EDIT, "two different names without 'rename' lines"),
        (
            renamed(b"eng/a.py", b"eng/b.py", b"a/eng/a.py b/eng/c.py"),
            "the 'diff --git' line and the 'rename' lines name different files",
        ),
        (
            renamed(b"eng/a.py", b"eng/b.py", b"a/eng/a.py b/eng/b.py") + SIDES + EDIT,
            "the 'rename' lines and the '---' and '+++' lines name different files",
        ),
        (renamed(b"eng/a.py", b"eng/a.py", b"a/eng/a.py b/eng/a.py"), "a rename to the same name"),
        (b"diff --git a/x b/y\nrename from x\n", "a rename needs two readable names"),
        (b"diff --git a/x b/y\nrename to y\n", "a rename needs two readable names"),
        (
            b"diff --git a/x.orig b/x\n--- a/x.orig\n+++ b/x\n" + EDIT,
            "two different names without 'rename' lines",
        ),
        (b'diff --git a/x b/y\nrename from "x\nrename to y\n', "a rename needs two readable names"),
        (
            GIT + b"--- /dev/null\n+++ b/eng/mod.py\n@@ -0,0 +1 @@\n+x\n",
            "'/dev/null' and a 'new file'",
        ),
        (GIT + b"new file mode 100644\n" + SIDES + EDIT, "'/dev/null' and a 'new file'"),
        (GIT + b"deleted file mode 100644\n" + SIDES + EDIT, "'/dev/null' and a 'new file'"),
        (b"--- /dev/null\n+++ /dev/null\n" + EDIT, "both sides are '/dev/null'"),
        (GIT + b'--- "a/eng/mod.py\n+++ b/eng/mod.py\n' + EDIT, "cannot be read for certain"),
        (GIT + b'--- "a/eng/mod.py"x\n+++ b/eng/mod.py\n' + EDIT, "cannot be read for certain"),
        (GIT + b"--- a/eng/mod.py\n" + EDIT, "no '+++' line follows"),
        (
            GIT + b"--- a/eng/mod.py\n+++ b/eng/mod.py\n\n" + EDIT,
            "no hunk follows the '---' and '+++'",
        ),
        (GIT + EDIT, "have no '---' and '+++' lines above them"),
        (GIT + b"old mode 100644\nold mode 100644\nnew mode 100755\n", "a second 'old mode' line"),
    ],
)
def test_p03_headers_of_one_file_that_disagree_are_refused(data, what):
    assert any(what in problem for problem in refused(data)), refused(data)


ESCAPES = [
    (b"../../outside/new.py", "leaves the tree"),
    (b"eng/../../../outside/new.py", "leaves the tree"),
    (b".git/hooks/pre-commit", ".git folder"),
    (b"eng/.GIT/config", ".git folder"),
    (b"/etc/passwd", "absolute"),
    (b"C:/x.py", "absolute"),
    (b"eng//x.py", "empty or '.' component"),
    (b"eng/./x.py", "empty or '.' component"),
    (b"eng/" + b"x" * 256, "longer than 255 bytes"),
]


@pytest.mark.parametrize(("path", "what"), ESCAPES)
@pytest.mark.parametrize(
    "form",
    [
        lambda p: (
            b"diff --git a/%b b/%b\nnew file mode 100644\n--- /dev/null\n+++ b/%b\n"
            b"@@ -0,0 +1 @@\n+x\n" % (p, p, p)
        ),
        lambda p: b"--- a/%b\n+++ b/%b\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n" % (p, p),
        lambda p: modes(b"a/%b b/%b" % (p, p)),
        lambda p: renamed(b"eng/ok.py", p, b"a/eng/ok.py b/%b" % p),
        lambda p: renamed(p, b"eng/ok.py", b"a/%b b/eng/ok.py" % p),
        lambda p: b'diff --git "a/%b" "b/%b"\nold mode 100644\nnew mode 100755\n' % (p, p),
    ],
    ids=["new", "plain", "mode", "rename-to", "rename-from", "quoted"],
)
def test_a09_paths_that_leave_the_tree_are_refused_in_every_header(path, what, form):
    assert any(what in problem for problem in refused(form(path)))


@pytest.mark.parametrize("escape", [b"\\t", b"\\n", b"\\\\", b"\\001", b"\\000"])
def test_a09_quoting_hides_no_control_character_and_no_backslash(escape):
    name = b'"a/eng/x%b.py" "b/eng/x%b.py"' % (escape, escape)
    (problem,) = refused(modes(name))
    assert "control character" in problem or "backslash" in problem


def test_a09_the_dropped_components_are_checked_too():
    assert "leaves the tree" in refused(b"--- ../eng/mod.py\n+++ ../eng/mod.py\n" + EDIT)[0]
    assert "absolute" in refused(b"--- /x/eng/mod.py\n+++ /x/eng/mod.py\n" + EDIT, 2)[0]


def test_a_strip_level_drops_components_and_leaves_at_least_one():
    section = only(GIT + SIDES + EDIT, 2)
    assert (section.old, section.new) == ("mod.py", "mod.py")
    assert "nothing is left of the name after dropping 3" in refused(GIT + SIDES + EDIT, 3)[0]
    moved = renamed(b"python/eng/a.py", b"python/eng/b.py", b"a/python/eng/a.py b/python/eng/b.py")
    assert only(moved, 2).old == "eng/a.py"
    assert git_numstat(read(moved, 2)) == ((0, 0, "eng/b.py"),)
    for old, new in ((b"python/a.py", b"b.py"), (b"b.py", b"python/a.py")):
        short = renamed(old, new, b"a/" + old + b" b/" + new)
        assert "nothing is left of the name" in refusal(short, 2)
    assert refusal(modes(b"a/x b/y"), 0).endswith("from 'diff --git a/x b/y'")
    unprefixed = renamed(b"eng/a.py", b"eng/b.py", b"eng/a.py eng/b.py")
    assert only(unprefixed, 0).old == "eng/a.py"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a/eng/mod.py\t2026-02-14 08:00:00.000000000 +0800", b"b/eng/mod.py\tMon Feb 14"),
        (b"a/eng/mod.py 2026-02-14 08:00:00", b"b/eng/mod.py 2026-02-14 08:00:01"),
        (b"a/eng/mod.py  2026-02-14 08:00:00.123 +0100", b"b/eng/mod.py"),
        (b"a/eng/mod.py.orig\t2026-02-14 08:00:00", b"b/eng/mod.py\t2026-02-14 08:00:01"),
        (b"a/eng/mod.py~", b"b/eng/mod.py"),
        (b"eng-1.0.orig/eng/mod.py", b"eng-1.0/eng/mod.py"),
        (b"a/eng/mod.py\t(revision 3)", b"b/eng/mod.py\t(working copy)"),
        (b'"a/eng/mod.py"\t2026-02-14 08:00:00', b'"b/eng/mod.py" 2026-02-14 08:00:00'),
    ],
)
def test_p04_dates_and_decorations_are_no_part_of_the_name(old, new):
    parsed = read(b"--- " + old + b"\n+++ " + new + b"\n" + EDIT)
    assert [(s.kind, s.old, s.new) for s in parsed.sections] == [
        (Kind.MODIFY, "eng/mod.py", "eng/mod.py")
    ]
    assert git_numstat(parsed) == opinion.numstat(parsed)
    assert opinion.second_opinion(parsed) == ()


@pytest.mark.parametrize("date", [b" 2026-02-14", b" 26-02-14 08:00", b" 2026-02-14 08:00"])
def test_p04_half_a_date_cannot_be_told_from_the_name(date):
    data = b"--- a/eng/mod.py" + date + b"\n+++ b/eng/mod.py\n" + EDIT
    assert "cannot be read for certain" in refused(data)[0]


def test_p04_a_file_may_really_be_called_orig():
    assert only(b"--- a/x.orig\n+++ b/x.orig\n" + EDIT).path == "x.orig"


def test_p04_a_date_is_part_of_the_name_in_a_diff_of_git_s():
    name = b"eng/mod 2026-02-14 08:00:00"
    data = b"diff --git a/%b b/%b\n--- a/%b\t\n+++ b/%b\t\n" % (name, name, name, name) + EDIT
    assert only(data).path == name.decode()


EPOCH = b"\t1970-01-01 00:00:00.000000000 +0000"
NOW = b"\t2026-02-14 08:00:00.000000000 +0000"


@pytest.mark.parametrize(
    "stamp",
    [
        EPOCH,
        b"\t1969-12-31 16:00:00.000000000 -0800",
        b"\t1970-01-01 08:00:00 +0800",
        b"\t1970-01-01 00:00:00",
        b"\tThu Jan 01 00:00:00 1970 +0000",
        b"\t(revision 0)",
        b"\t(nonexistent)",
    ],
)
def test_p04_the_epoch_means_absent_together_with_an_empty_side(stamp):
    gone = only(b"--- a/x.py%b\n+++ b/x.py%b\n@@ -1 +0,0 @@\n-a\n" % (NOW, stamp))
    assert (gone.kind, gone.old, gone.new) == (Kind.DELETE, "x.py", None)
    data = b"--- a/x.py%b\n+++ b/x.py%b\n@@ -0,0 +1 @@\n+a\n" % (stamp, NOW)
    made = only(data)
    assert made.diff == data
    assert (made.kind, made.old, made.new) == (Kind.ADD, None, "x.py")


def test_p04_the_epoch_on_a_file_that_is_there_means_nothing_and_git_never_sees_it():
    data = b"--- a/eng/mod.py%b\n+++ b/eng/mod.py%b\n" % (EPOCH, EPOCH) + EDIT
    parsed = read(data)
    assert parsed.sections[0].kind is Kind.MODIFY
    assert parsed.diff == SIDES + EDIT
    assert git_numstat(parsed) == opinion.numstat(parsed)
    assert opinion.second_opinion(parsed) == ()


def test_p04_git_s_own_headers_are_fed_to_git_as_they_are():
    data = GIT + b"--- a/eng/mod.py%b\n+++ b/eng/mod.py%b\n" % (EPOCH, EPOCH) + EDIT
    assert read(data).diff == data


def test_p04_another_hour_of_1970_is_a_date_like_any_other():
    data = b"--- a/x.py\t1970-01-01 02:00:00 +0100\n+++ b/x.py\n@@ -0,0 +1 @@\n+a\n"
    assert only(data).kind is Kind.MODIFY


def test_plain_diffs_are_accepted_with_the_lines_that_tools_put_around_them():
    index = b"Index: eng/mod.py\n" + b"=" * 67 + b"\n"
    parsed = read(
        b"Words.\n\n" + index + SIDES + EDIT + b"diff -urN a/x b/x\n--- a/x\n+++ b/x\n" + EDIT
    )
    assert parsed.header.raw == b"Words.\n\n"
    assert parsed.sections[0].raw.startswith(index)
    assert [section.line for section in parsed.sections] == [5, 12]
    assert git_numstat(parsed) == opinion.numstat(parsed)


# --- kinds of change --------------------------------------------------------------------------

INDEX = b"index 1111111..2222222 100644\n"
ONE_LINE = b"--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+target\n"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", "a copy"),
        (b"diff --git a/x b/x\ncopy from x\n", "a copy"),
        (b"diff --git a/x b/x\ncopy to x\n", "a copy"),
        (b"diff --git a/x b/x\nnew file mode 120000\n" + ONE_LINE, "a symbolic link"),
        (b"diff --git a/x b/x\nnew file mode 160000\n" + ONE_LINE, "a submodule"),
        (b"diff --git a/x b/x\nold mode 100644\nnew mode 104755\n", "mode 104755"),
        (b"diff --git a/x b/x\nold mode 100644\nnew mode 120000\n", "a symbolic link"),
        (b"diff --git a/x b/x\nnew file mode 100664\n", "mode 100664"),
        (b"diff --git a/x b/x\nnew file mode rw\n", "not a file mode"),
        (b"diff --git a/x b/x\nold mode 100644\n", "'old mode' and 'new mode' go together"),
        (GIT + b"index 1111111..2222222 120000\n" + SIDES + EDIT, "a symbolic link"),
        (
            GIT
            + b"old mode 100644\nnew mode 100755\nindex 1111111..2222222 100644\n"
            + SIDES
            + EDIT,
            "give different modes",
        ),
        (GIT + b"index xyz\n" + SIDES + EDIT, "the 'index' line is not"),
        (GIT + b"new file mode 100644\ndeleted file mode 100644\n", "contradict each other"),
        (GIT + b"similarity index 101%\n" + SIDES + EDIT, "not a per cent"),
        (GIT + b"similarity index x\n" + SIDES + EDIT, "not a per cent"),
        (GIT, "nothing of it changes"),
        (GIT + b"index 1111111..2222222 100644\n", "nothing of it changes"),
        (GIT + b"old mode 100644\nnew mode 100644\n", "nothing of it changes"),
        (
            GIT + b"new file mode 100644\n--- /dev/null\n+++ b/eng/mod.py\n" + EDIT,
            "hunks show lines of both",
        ),
        (
            GIT + b"new file mode 100644\n--- /dev/null\n+++ b/eng/mod.py\n@@ -0,0 +1 @@\n+x\n"
            b"@@ -0,0 +2 @@\n+y\n",
            "hunks show lines of both",
        ),
        (b"--- a/x\n+++ /dev/null\n" + EDIT, "hunks show lines of both"),
        (
            GIT + b"index 1111111..2222222\nBinary files a/eng/mod.py and b/eng/mod.py differ\n",
            "t.patch:3: eng/mod.py is binary, and the patch lacks its data",
        ),
        (GIT + INDEX + b"GIT binary patch\nwhat\n", "begins with neither 'literal' nor 'delta'"),
        (GIT + INDEX + b"GIT binary patch\nliteral 4\nLcmZQzWMT#Y01f~L\nx\n", "is damaged"),
        (GIT + INDEX + b"GIT binary patch\nliteral 4\n\n", "is damaged"),
        (GIT + b"GIT binary patch\nliteral 4\nLcmZQzWMT#Y01f~L\n\n", "has no 'index' line"),
    ],
)
def test_p05_what_cannot_be_put_into_a_tree_safely_is_refused(data, what):
    assert any(what in problem for problem in refused(data)), refused(data)


def test_the_name_in_messages_is_the_one_that_counts():
    stub = b"Binary files x and y differ\n"
    moved = renamed(b"a.py", b"b.py", b"a/a.py b/b.py") + stub
    assert ": b.py is binary" in refusal(moved)
    quoted = b'diff --git "a/caf\\303\\251" "b/caf\\303\\251"\n' + INDEX + stub
    assert ": café is binary" in refused(quoted)[0]
    gone = b"--- a/eng/old.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n"
    assert "hunk 1 of eng/old.py" in refusal(gone)
    made = b"--- /dev/null\n+++ b/eng/new.py\n@@ -0,0 +1,2 @@\n+a\n"
    assert "hunk 1 of eng/new.py" in refusal(made)


def test_a_new_file_has_no_mode_before_whatever_the_index_line_says():
    data = b"diff --git a/x b/x\nnew file mode 100644\nindex 0000..1111 100644\n" + ONE_LINE
    assert (only(data).old_mode, only(data).new_mode) == (None, 0o100644)
    gone = b"diff --git a/x b/x\ndeleted file mode 100644\nindex 1111..0000 100644\n"
    assert (only(gone).old_mode, only(gone).new_mode) == (0o100644, None)


def test_binary_data_below_hunks_belongs_to_nothing():
    data = GIT + INDEX + SIDES + EDIT + b"GIT binary patch\nliteral 4\nLcmZQzWMT#Y01f~L\n\n"
    assert "text between the files" in refusal(data)


@pytest.mark.parametrize("start", [b"diff --cc eng/m.py\n", b"diff --combined eng/m.py\n"])
def test_p06_a_combined_diff_is_refused(start):
    combined = start + (
        b"index 1..2\n--- a/eng/m.py\n+++ b/eng/m.py\n"
        b"@@@ -1,3 -1,3 +1,3 @@@\n  a\n- B2\n -B1\n++B12\n  c\n"
    )
    for data in (combined + OTHER, OTHER + combined, MAIL + b"---\n" + combined):
        assert any("combined diff (of a merge)" in problem for problem in refused(data))
    loose = SIDES + b"@@@ -1,3 -1,3 +1,3 @@@\n  a\n- B2\n -B1\n++B12\n  c\n"
    assert "is one of a combined diff" in refused(loose)[0]


@pytest.mark.parametrize(
    "second",
    [
        GIT + SIDES + EDIT,
        SIDES + EDIT,
        modes(b"a/eng/mod.py b/eng/mod.py"),
        b"diff --git a/eng/mod.py b/eng/mod.py\ndeleted file mode 100644\n",
        renamed(b"eng/mod.py", b"eng/n.py", b"a/eng/mod.py b/eng/n.py"),
        renamed(b"eng/n.py", b"eng/mod.py", b"a/eng/n.py b/eng/mod.py"),
    ],
)
def test_the_same_path_in_two_sections_is_refused(second):
    for data in (GIT + SIDES + EDIT + second, second + GIT + SIDES + EDIT):
        assert "eng/mod.py is named twice, first on line 1" in refusal(data)


def test_a_path_that_goes_in_one_section_and_comes_in_another_is_refused():
    gone = b"diff --git a/x b/x\ndeleted file mode 100644\n"
    made = b"diff --git a/x b/x\nnew file mode 100644\n"
    moved_away = renamed(b"x", b"y", b"a/x b/y")
    moved_here = renamed(b"y", b"x", b"a/y b/x")
    for one, two in ((gone, made), (gone, moved_here), (made, moved_away)):
        assert "x is named twice" in refusal(one + two)
        assert "x is named twice" in refusal(two + one)


def test_renames_may_swap_or_chain_but_not_meet():
    one = renamed(b"a.py", b"b.py", b"a/a.py b/b.py")
    two = renamed(b"b.py", b"c.py", b"a/b.py b/c.py")
    assert git_numstat(read(one + two)) == ((0, 0, "b.py"), (0, 0, "c.py"))
    meet = renamed(b"c.py", b"b.py", b"a/c.py b/b.py")
    assert "b.py is named twice" in refusal(one + meet)
    fork = renamed(b"a.py", b"d.py", b"a/a.py b/d.py")
    assert "a.py is named twice" in refusal(one + fork)


# --- text around the diff ---------------------------------------------------------------------

QUOTED = OTHER
CONTEXT_DIFF = b"*** a/x\n--- b/x\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n"


def test_p07_only_what_follows_the_separator_counts():
    data = MAIL + b"Why.\n---\n eng/mod.py | 2 +-\n\n" + GIT + SIDES + EDIT + b"-- \n2.39.5\n\n"
    parsed = read(data)
    assert [section.path for section in parsed.sections] == ["eng/mod.py"]
    assert parsed.tail == b"-- \n2.39.5\n\n"
    assert parsed.diff == GIT + SIDES + EDIT


@pytest.mark.parametrize(
    "between", [b"\nInstead:\n---\n", b"\n---\n", b"Signed-off-by: D <d@e>\n---\n"]
)
@pytest.mark.parametrize("start", [MAIL, b"Subject: x\n\n", b"Words.\n\n"])
def test_p07_a_diff_quoted_in_the_message_is_refused(start, between):
    data = start + b"We do NOT do this:\n\n" + QUOTED + between + b"\n" + GIT + SIDES + EDIT
    (problem,) = refused(data)
    assert "the diff above is quoted in it and would be applied; indent it" in problem


def test_p07_an_indented_diff_never_counts():
    indented = b"".join(b"    " + line for line in QUOTED.splitlines(keepends=True))
    parsed = read(MAIL + indented + b"\n---\n" + GIT + SIDES + EDIT)
    assert [section.path for section in parsed.sections] == ["eng/mod.py"]
    assert "it looks like a diff that is only quoted" in refusal(b"Notes only.\n\n" + indented)


def test_p07_prose_that_begins_like_a_file_header_is_prose():
    prose = (
        b"Subject: x\n\n--- before this change\n+++ after this change\n\n"
        b"diff --git is a command.\n\n"
    )
    parsed = read(prose + GIT + SIDES + EDIT)
    assert parsed.header.raw == prose
    assert git_numstat(parsed) == opinion.numstat(parsed)


@pytest.mark.parametrize("head", [b"---x\n+++ b/x\n", b"--- a/x\n\n", b"-- \n+++ b/x\n"])
def test_p07_a_hunk_needs_both_lines_above_it(head):
    assert "a hunk without a file header" in refusal(head + EDIT)


def test_p07_a_message_may_speak_of_other_diffs_above_the_separator():
    message = b"@@ -1 +1 @@\nOnly in eng: x.py\n1c1\n< a\n---\n> b\n***************\n"
    assert read(MAIL + message + b"---\n" + GIT + SIDES + EDIT).sections
    assert len(refused(MAIL + message + GIT + SIDES + EDIT)) == 4


@pytest.mark.parametrize(
    "words",
    [b"\xef\xbb\xbfwords\n", b"-> diff --git a/x b/x\n", b"1c1\nwords\n", b"***\n", b"@ x\n"],
)
def test_p07_words_that_only_resemble_a_diff_are_words(words):
    assert read(b"Subject: x\n\n" + words + b"\n" + SIDES + EDIT).sections


def test_a_patch_may_begin_and_end_with_the_lines_around_a_file():
    parsed = read(b"Index: eng/mod.py\n" + SIDES + EDIT + b"=== end\n")
    assert (parsed.header.raw, parsed.tail) == (b"", b"=== end\n")


def test_p07_a_mail_without_a_separator_begins_at_its_first_file():
    parsed = read((DATA / "mail-no-separator.patch").read_bytes())
    assert len(parsed.sections) == 6
    assert read(b"Subject: x\nFrom: D <d@e>\n\nWhy.\n" + SIDES + EDIT).header.body == "Why."


@pytest.mark.parametrize("encoding", [b"quoted-printable", b"base64", b"Quoted-Printable"])
def test_p07_an_encoded_mail_is_refused(encoding):
    head = MAIL[:-1] + b"Content-Transfer-Encoding: " + encoding + b"\n\n---\n"
    assert "decode it first" in refusal(head + GIT + SIDES + EDIT)


@pytest.mark.parametrize(
    "data",
    [
        MAIL + b"---\n" + GIT + SIDES + EDIT + b"-- \n2.39.5\n\n" + MAIL + b"---\n" + OTHER,
        MAIL + b"---\n" + GIT + SIDES + EDIT + b"\n" + MAIL + b"---\n" + OTHER,
        MAIL + b"cover letter\n\n" + MAIL + b"---\n" + OTHER,
        b"commit %b\nAuthor: D <d@e>\n\n    x\n\n" % (b"1" * 40)
        + OTHER
        + b"\ncommit %b\n" % (b"2" * 40),
    ],
)
def test_p08_several_messages_in_one_file_are_refused(data):
    assert "one patch file is one message" in refusal(data)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"<!DOCTYPE html><html><body>Too Many Requests</body></html>\n", "a web page"),
        (b"\n<html>\n", "a web page"),
        (b"\n\n", "an empty file"),
        (b"\n\n# disabled\n", "text without a diff"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
            "a Git LFS pointer",
        ),
        (b'{"message": "Not Found"}\n', "JSON"),
        (b"\x1f\x8b\x08\0\0\n", "a compressed file"),
        (b"> diff --git a/x b/x\n> --- a/x\n", "a diff that is only quoted"),
        (b"2a\nnew line\n.\n", "an ed script"),
        (CONTEXT_DIFF, "a context diff"),
        (b"1c1\n< a = 1\n---\n> a = 2\n", "a normal diff"),
        (b"@@ -1 +1 @@\n-a\n+b\n", "a hunk without a file header"),
        (b"@@@ -1 -1 +1 @@@\n++a\n", "a hunk of a combined diff"),
        (MAIL + b"cover letter\n---\n file | 2 +-\n", "text without a diff"),
    ],
)
def test_p09_what_is_no_patch_is_refused_and_named(data, what):
    assert what in refusal(data)


def test_p09_an_empty_file_is_refused():
    assert refusal(b"") == "t.patch:1: the file is empty"


def test_p09_a_header_line_that_lost_its_diff_git_line_is_refused():
    assert "without the 'diff --git' line" in refusal(b"new file mode 100755\n" + SIDES + EDIT)


def test_p09_other_kinds_of_diff_above_a_good_one_are_not_lost_without_a_word():
    for lost in (CONTEXT_DIFF, b"1c1\n< a\n---\n> b\n", b"Binary files a/x and b/x differ\n"):
        assert refused(lost + GIT + SIDES + EDIT)


@pytest.mark.parametrize(
    "body",
    [
        b"@@ -1,0 +2 @@\n+a2 = 2\n",
        b"@@ -4,1 +4,1 @@\n-l4\n+L4\n",
        b"@@ -5 +4,0 @@\n-x\n",
        b"@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n",
    ],
)
def test_p09_hunks_without_any_context_are_refused(body):
    problems = refused(GIT + SIDES + body)
    assert len(problems) == body.count(b"@@ -")
    assert all("has no context" in problem for problem in problems)


@pytest.mark.parametrize(
    "body",
    [b"@@ -1 +1 @@\n-a\n+b\n", b"@@ -0,0 +1,2 @@\n+a\n+b\n", b"@@ -1,2 +0,0 @@\n-a\n-b\n"],
)
def test_p09_a_hunk_that_is_its_whole_file_needs_no_context(body):
    assert only(GIT + SIDES + body).kind is Kind.MODIFY


# --- size -------------------------------------------------------------------------------------


def test_sizes_are_bounded(monkeypatch):
    monkeypatch.setattr(patch, "LARGEST", 1000)
    assert "larger than" in refusal(b"x" * 1001)
    monkeypatch.setattr(patch, "MOST_LINES", 50)
    assert "more than 50 lines" in refusal(b"\n" * 51)
    monkeypatch.setattr(patch, "MOST_SECTIONS", 2)
    three = b"".join(modes(b"a/%d b/%d" % (number, number)) for number in range(3))
    assert "more than 2 files" in refusal(three)
    monkeypatch.setattr(lines, "LONGEST_HEADER", 60)
    assert "longer than 60 bytes" in refusal(modes(b"a/" + b"x" * 60))


def test_problems_are_bounded():
    bad = b"".join(b"diff --git a/%d b/%d\n" % (number, number) for number in range(300))
    assert len(refused(bad)) == lines.MOST_PROBLEMS


def test_all_problems_are_told_in_the_order_of_the_lines():
    data = modes(b"a/../x b/../x") + GIT + SIDES + UNDER + modes(b"a/y b/z")
    assert [problem.split(":")[1] for problem in refused(data)] == ["1", "7", "14"]


# --- A08, A09: what is sound, but not wanted --------------------------------------------------


def warnings(body: bytes) -> list[str]:
    parsed = read(b"--- a/eng/m.py\n+++ b/eng/m.py\n" + body)
    return [problem.what for problem in patch.context_warnings(parsed)]


FURTHER = b"@@ -19,7 +19,7 @@\n a\n b\n c\n-d\n+D\n e\n f\n g\n"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"@@ -1,5 +1,5 @@\n l1\n l2\n l3\n-l4\n+L4\n l5\n", ["1 lines of context below"]),
        (b"@@ -3,5 +3,5 @@\n l3\n-l4\n+L4\n l5\n l6\n l7\n", ["1 lines of context above"]),
        (
            b"@@ -2,3 +2,3 @@\n l2\n l3\n-l4\n+L4\n",
            ["2 lines of context above and 0 lines of context below"],
        ),
        (b"@@ -1,7 +1,7 @@\n l1\n l2\n l3\n-l4\n+L4\n l5\n l6\n l7\n", []),
        (b"@@ -1,4 +1,4 @@\n-l1\n+L1\n l2\n l3\n l4\n", []),
    ],
)
def test_a08_short_context_is_warned_of_unless_the_file_starts_there(body, what):
    assert warnings(body + FURTHER) == [f"hunk 1 of eng/m.py has {each}" for each in what]


def test_a08_a_last_hunk_is_believed_to_reach_the_end():
    assert warnings(b"@@ -1,5 +1,5 @@\n l1\n l2\n l3\n-l4\n+L4\n l5\n") == []
    above = ["hunk 1 of eng/m.py has 0 lines of context above"]
    assert warnings(b"@@ -4,2 +4,2 @@\n-l4\n+L4\n l5\n") == above


def test_a08_genuine_patches_give_no_warning():
    for file in GENUINE:
        parsed = read(file.read_bytes(), 0 if file.name in STRIP_0 else 1)
        assert patch.context_warnings(parsed) == ()


@pytest.mark.parametrize(
    "path",
    [
        "evil.pth",
        "python/evil.PTH",
        "sitecustomize.py",
        "python/usercustomize.py",
        "eng-1.0.dist-info/RECORD",
        "eng.egg-info",
        "eng.egg-info/PKG-INFO",
        "eng-1.0.data/scripts/x",
        ".pseries/state.json",
    ],
)
def test_a09_files_that_are_not_a_distribution_s_own_code_are_not_wanted(path):
    name = path.encode()
    parsed = read(modes(b"a/%b b/%b" % (name, name)))
    (problem,) = patch.refusals(parsed)
    assert problem.where == "t.patch:1"
    assert problem.what.startswith(path)
    moved = read(renamed(b"ok.py", name, b"a/ok.py b/" + name))
    assert len(patch.refusals(moved)) == 1


def test_a09_ordinary_files_are_wanted_and_binary_ones_are_not():
    for file in GENUINE:
        parsed = read(file.read_bytes(), 0 if file.name in STRIP_0 else 1)
        binary = sum(section.binary for section in parsed.sections)
        assert len(patch.refusals(parsed)) == binary
    assert patch.refusals(read(modes(b"a/data/weights.data b/data/weights.data"))) == ()


# --- the second opinion -----------------------------------------------------------------------


def test_unidiff_disagreement_is_told():
    parsed = read(GIT + SIDES + EDIT)
    (section,) = parsed.sections

    def differing(**changes: object) -> list[str]:
        from dataclasses import replace

        other = replace(parsed, sections=(replace(section, **changes),))
        return [problem.what for problem in opinion.second_opinion(other)]

    assert "reads the hunks as" in differing(hunks=section.hunks * 2)[0]
    assert "reads the name 'a/eng/mod.py' where we read 'eng/x.py'" in differing(old="eng/x.py")[0]
    assert "2 files in one section" in differing(raw=section.raw + OTHER)[0]
    assert "cannot read eng/mod.py" in differing(raw=section.raw.replace(b" flag = 0\n", b""))[0]
    assert differing(hunks=()) == []
    decorated = section.raw.replace(b"a/eng/mod.py\n+++", b"a/eng/mod.py.orig\n+++")
    assert "reads the name 'a/eng/mod.py.orig'" in differing(raw=decorated)[0]
    plain = decorated[len(GIT) :]
    assert differing(raw=plain) == []
    assert "where we read 'eng/x.py'" in differing(raw=plain, new="eng/x.py")[0]


def test_unidiff_is_not_asked_how_to_split_a_diff_git_line():
    name = b"eng/A b.py"
    data = b"diff --git %b %b\n--- %b\t\n+++ %b\t\n" % (name, name, name, name) + EDIT
    assert opinion.second_opinion(read(data, 0)) == ()


def test_unidiff_reads_lines_with_other_separators_and_bytes_as_we_do():
    body = b"@@ -1 +1,2 @@\n a\x0c\r\xe2\x80\xa8\xe9\n+b\r\n"
    assert opinion.second_opinion(read(GIT + SIDES + body)) == ()


def test_numstat_reads_git_s_answer():
    assert opinion.read_numstat(b"1\t2\teng/a b\0-\t-\tcaf\xe9\0") == (
        (1, 2, "eng/a b"), (None, None, "caf\udce9"),
    )  # fmt: skip
    assert opinion.read_numstat(b"") == ()
