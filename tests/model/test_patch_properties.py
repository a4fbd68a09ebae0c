"""Patch files: what holds for every diff that git writes, and for every file at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pseries.errors import PatchRefused
from pseries.model.diff import opinion, patch
from pseries.model.diff.patch import Kind

GIT_EXE = shutil.which("git") or "git"
DATA = Path(__file__).parent.parent / "data" / "patches"
GENUINE = [file.read_bytes() for file in sorted(DATA.glob("*.patch"))]
ENVIRONMENT = {
    "PATH": os.environ["PATH"], "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1",
}  # fmt: skip

Tree = dict[bytes, tuple[int, bytes]]
"""Mode and content by path."""


def git(git_dir: str, *arguments: str, stdin: bytes = b"", check: bool = True) -> bytes | None:
    """Return what a git command prints, ``None`` if it fails and may."""
    said = subprocess.run(
        [GIT_EXE, *arguments], input=stdin, capture_output=True, check=check, cwd="/",
        env={**ENVIRONMENT, "GIT_DIR": git_dir},
    )  # fmt: skip
    return said.stdout if said.returncode == 0 else None


def numstat(parsed: patch.Patch) -> object:
    """Return git's reading of the patch, ``None`` if git refuses it."""
    arguments = ("apply", "--numstat", "-z", f"-p{parsed.strip}")
    said = git("/dev/null", *arguments, stdin=parsed.diff, check=False)
    return None if said is None else opinion.read_numstat(said)


# --- trees and git's diff of them -------------------------------------------------------------

NAMES = [
    b"eng/a.py", b"eng/A b.py", b"eng/caf\xe9.py", "eng/é.py".encode(), b'eng/q"uote.py',
    b"x b/x", b"top", b"eng/E=128,N=768,device_name=AMD Instinct.json", b"eng/-- x",
]  # fmt: skip
LINES = st.sampled_from([
    b"a = 1", b"b = 2", b"", b"\r", b"two\r", b"caf\xe9", b"-- ", b"++ x", b"--- a/x", b"+++ b/x",
    b"@@ -1 +1 @@", b"diff --git a/x b/x", b"\\ No newline at end of file", b"\xe2\x80\xa8",
    b"\x0c", b"x\ry",
    b"From 1111111111111111111111111111111111111111 x", b"---", b"def f():", b"    pass",
])  # fmt: skip


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    text = b"\n".join(draw(st.lists(LINES, max_size=30)))
    return text + draw(st.sampled_from([b"", b"\n", b"\n"]))


@st.composite
def edits(draw: st.DrawFn, content: bytes) -> bytes:
    lines = content.split(b"\n")
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines)))
        lines[at : at + draw(st.integers(0, 2))] = draw(st.lists(LINES, max_size=2))
    return b"\n".join(lines)


MODES = st.sampled_from([0o100644, 0o100644, 0o100755])


@st.composite
def trees(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """Two trees: files that are kept, edited, made executable, moved, added, deleted, emptied."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    old: Tree = {}
    new: Tree = {}
    for name in names:
        mode, content = draw(MODES), draw(contents())
        fate = draw(st.sampled_from(["edit", "edit", "mode", "move", "add", "delete", "empty"]))
        if fate != "add":
            old[name] = (mode, content)
        if fate == "add":
            new[name] = (mode, content)
        elif fate == "edit":
            new[name] = (mode, draw(edits(content)))
        elif fate == "mode":
            new[name] = (draw(MODES), content)
        elif fate == "move":
            new[b"moved/" + name] = (mode, draw(edits(content)))
        elif fate == "empty":
            new[name] = (mode, b"")
    return old, new


def quoted(path: bytes) -> bytes:
    return b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'


def commits(git_dir: str, old: Tree, new: Tree) -> None:
    """Write both trees as commits ``old`` and ``new``."""
    stream = []
    for ref, tree in ((b"old", old), (b"new", new)):
        stream.append(b"commit refs/heads/%b\ncommitter c <c@e> 0 +0000\ndata 0\n" % ref)
        for path, (mode, content) in tree.items():
            stream.append(
                b"M %o inline %b\ndata %d\n%b\n" % (mode, quoted(path), len(content), content)
            )
    git(git_dir, "fast-import", "--quiet", "--force", stdin=b"".join(stream))


@pytest.fixture(scope="module")
def git_dir():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([GIT_EXE, "init", "-q", "--bare", folder], check=True, env=ENVIRONMENT)
        yield folder


def applied(content: bytes, section: patch.Section) -> bytes:
    """Return the content after the hunks, each of which must stand at its recorded line."""
    lines = content.split(b"\n")
    source = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    result: list[bytes] = []
    done = 0
    for hunk in section.hunks:
        start = hunk.first_old - 1
        end = start + hunk.old_count
        assert b"".join(source[start:end]) == hunk.before
        result += source[done:start]
        assert b"".join(result).count(b"\n") == hunk.first_new - 1
        result.append(hunk.after)
        done = end
    return b"".join([*result, *source[done:]])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pair=trees(), options=st.sampled_from([(), ("-B",), ("--no-renames",), ("-U5",)]))
def test_every_diff_of_git_is_read_completely_and_means_what_it_changed(git_dir, pair, options):
    old, new = pair
    assume(old != new)
    commits(git_dir, old, new)
    data = git(git_dir, "diff", "-M", "--text", "--full-index", *options, "old", "new")
    assert data
    parsed = patch.parse("p", data)
    assert parsed.header.raw == parsed.tail == b""
    assert b"".join(section.raw for section in parsed.sections) == parsed.diff == data
    assert numstat(parsed) == opinion.numstat(parsed)
    assert opinion.second_opinion(parsed) == ()
    after = dict(old)
    for section in parsed.sections:
        if section.old is not None:
            after.pop(section.old.encode("utf-8", "surrogateescape"), None)
    for section in parsed.sections:
        mode, content = (0, b"")
        if section.old is not None:
            mode, content = old[section.old.encode("utf-8", "surrogateescape")]
            assert section.old_mode in (mode, None)
        if section.new is not None:
            path = section.new.encode("utf-8", "surrogateescape")
            after[path] = (section.new_mode or mode, applied(content, section))
        else:
            assert applied(content, section) == b""
        assert (section.kind is Kind.RENAME) == (None is not section.old != section.new is not None)
    assert after == new


# --- any file at all --------------------------------------------------------------------------

TOKENS = [
    b"\n", b"\r\n", b"\r", b" ", b"+", b"-", b"\\ No newline at end of file\n", b"@@", b"\t", b'"',
    b"@@ -1,2 +1,2 @@\n", b"diff --git a/x b/x\n", b"--- a/x\n", b"+++ b/x\n", b"---\n", b"-- \n",
    b"2.39\n", b"/dev/null", b"new file mode 100644\n", b"deleted file mode 100644\n", b"\\", b"a/",
    b"old mode 100644\n", b"new mode 100755\n", b"rename from x\n", b"rename to y\n", b"0", b"9",
    b"index 1234..5678\n", b"\xef\xbb\xbf", b"GIT binary patch\n", b"literal 3\n", b"Index: x\n",
    b" 1970-01-01 00:00:00", b"\t1970-01-01 00:00:00.000000000 +0000", b"..", b"/", b",",
    b"From 1111111111111111111111111111111111111111 x\n", b"diff --cc x\n", b"copy from x\n",
    b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", b"similarity index 100%\n", b"Subject: x\n", b"\0",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A genuine patch file with one to three accidents."""
    data = draw(st.sampled_from(GENUINE))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        accident = draw(st.sampled_from(["cut", "insert", "line lost", "line twice", "byte"]))
        if accident == "cut":
            data = data[:at] + data[at + draw(st.integers(1, 40)) :]
        elif accident == "insert":
            data = data[:at] + draw(st.sampled_from(TOKENS)) + data[at:]
        elif accident == "byte":
            data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
        else:
            lines = data.split(b"\n")
            which = draw(st.integers(0, len(lines) - 1))
            lines[which : which + 1] = (
                [] if accident == "line lost" else lines[which : which + 1] * 2
            )
            data = b"\n".join(lines)
    return data


def check_any(data: bytes) -> patch.Patch | None:
    """Parse: either refused, or no byte is lost and git reads the same, if it reads it at all."""
    try:
        parsed = patch.parse("p", data)
    except PatchRefused as refused:
        said = str(refused)
    else:
        said = ""
    if said:
        assert not set(said.encode()) & {*range(10), *range(11, 32), 127}
        return None
    assert parsed.header.raw + b"".join(s.raw for s in parsed.sections) + parsed.tail == data
    assert numstat(parsed) in (opinion.numstat(parsed), None)
    patch.refusals(parsed)
    patch.context_warnings(parsed)
    opinion.second_opinion(parsed)
    return parsed


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged())
def test_a_damaged_patch_is_refused_or_read_as_git_reads_it(data):
    check_any(data)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS) | st.binary(max_size=6), max_size=40).map(b"".join))
def test_anything_else_is_refused_or_read_as_git_reads_it(data):
    check_any(data)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(TOKENS) | st.binary(max_size=6), max_size=20).map(b"".join))
def test_a_trailer_is_only_ever_added_or_refused(data):
    try:
        changed = patch.with_trailer(data + b"\n", "Bug", "1")
    except PatchRefused:
        return
    assert b"Bug: 1\n" in changed


# --- headers ----------------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=90)
KEYS = st.from_regex(r"\A[A-Za-z][A-Za-z0-9-]{0,20}\Z")


@settings(max_examples=200, deadline=None)
@given(
    subject=WORDS, author=WORDS, date=WORDS,
    body=st.lists(WORDS | st.just("")).map("\n".join),
    trailers=st.lists(st.tuples(KEYS, WORDS), max_size=3).map(tuple),
)  # fmt: skip
def test_a_written_header_is_read_back_or_refused(subject, author, date, body, trailers):
    parts = {"subject": subject, "author": author, "date": date, "body": body}
    try:
        head = patch.render_header(**parts, trailers=trailers)
    except PatchRefused:
        return
    diff = b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    found = patch.parse("p", head + diff).header
    assert found.raw == head
    assert {part: getattr(found, part) for part in parts} == parts
    assert found.trailers == trailers


@settings(max_examples=100, deadline=None)
@given(
    subject=WORDS.map(str.strip).filter(bool),
    body=st.lists(st.from_regex(r"\A[ -~]{1,70}\Z"), max_size=5).map("\n\n".join).map(str.strip),
)
def test_ordinary_headers_are_not_refused(subject, body):
    assume(not any(line.startswith(("---", "diff -", "Index: ")) for line in body.split("\n")))
    assume(": " not in body and ":\n" not in f"{body}\n" and ":\t" not in body)
    assume(not subject.startswith("[") and subject.isprintable() and "  " not in subject)
    patch.render_header(subject=subject, author="D <d@e>", date="now", body=body)


# --- time (T22) -------------------------------------------------------------------------------

MEGABYTE = 1_000_000
GIT = b"diff --git a/x b/x\n"
SIDES = b"--- a/x\n+++ b/x\n"
HOSTILE = {
    "names of blanks": b"diff --git a/" + b" " * 30_000 + b"b\n",
    "names of slashes": b"diff --git " + b"a/ " * 12_000 + b"\n",
    "quoted names": b'diff --git "' + b"\\101" * 9_000 + b'" b\nold mode 100644\n',
    "dates": b"--- a/" + b" 2020-01-01" * 3_000 + b"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
    "file headers": b"--- a\n",
    "hunks that count too much": SIDES + b"@@ -1,999999 +1,999999 @@\n",
    "byte order marks": b"x\xef\xbb\xbfdiff --git a/x b/x\n",
    "fields": b"A: b\n",
    "encoded words": b"Subject: =?UTF-8?q?x?= \n",
    "almost messages": b"From 111111111111111\n",
    "brackets": b"[PATCH",
    "blanks": b" ",
    "quotations": b"> ",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize(
    "start",
    [b"", b"Subject: x\n ", b"Subject: x\n\n", GIT + SIDES + b"@@ -1 +1 @@\n-a\n+b\n",
     GIT + SIDES + b"@@ -1 +1 @@\n-", GIT + b"index 1234..5678\nGIT binary patch\nliteral 1\n"],
    ids=["alone", "field", "message", "after a hunk", "in a hunk", "binary"],
)  # fmt: skip
def test_t22_a_megabyte_of_hostile_input_takes_seconds_at_most(start, unit):
    data = start + unit * (MEGABYTE // len(unit)) + b"\n"
    began = time.monotonic()
    with contextlib.suppress(PatchRefused):
        patch.parse("p", data)
    assert time.monotonic() - began < 20
