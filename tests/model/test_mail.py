"""Patch headers: what is read from them, and how one line of them is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from pseries.errors import PatchRefused
from pseries.model.diff import mail, patch

DATA = Path(__file__).parent.parent / "data" / "patches"
GIT_EXE = shutil.which("git") or "git"
DIFF = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"


def header(name: str) -> patch.Header:
    return patch.parse(name, (DATA / f"{name}.patch").read_bytes()).header


# --- reading ----------------------------------------------------------------------------------


def test_a_mail_of_git_format_patch():
    found = header("mail-git")
    assert found.subject == (
        "[Bugfix] keep the naïve prefill off SM120, "
        "since its kernel is made for SM90a and SM100f only"
    )
    assert found.author == "Jörg Müller <jm@example.org>"
    assert found.date == "Mon, 21 Sep 2026 16:13:20 +0200"
    assert found.body.startswith("It raises at 11673 tokens.\n\n    diff --git a/indented.py")
    assert found.body.endswith("    +b")
    assert found.trailers == (
        ("Upstream-Status", "Submitted [https://example.org/1]"),
        ("Signed-off-by", "Jörg Müller <jm@example.org>"),
    )
    assert found.trailer("upstream-status") == "Submitted [https://example.org/1]"
    assert found.trailer("Bug") is None


def test_names_that_are_not_encoded_read_the_same():
    plain, encoded = header("mail-no-separator"), header("mail-git")
    for part in ("subject", "author", "date", "body", "trailers"):
        assert getattr(plain, part) == getattr(encoded, part)


def test_a_mail_without_a_body():
    found = header("mail-subject-only")
    assert (found.subject, found.body, found.trailers) == ("Short subject", "", ())


def test_git_show():
    found = header("git-show")
    assert (found.subject, found.author) == ("Short subject", "Jörg Müller <jm@example.org>")


def test_a_dep3_header():
    found = header("quilt-dep3")
    assert found.subject == "keep save() from failing"
    assert found.author == "Jörg Müller <jm@example.org>"
    assert found.body == "It is called at exit, when\n\nnobody catches anything."
    assert found.trailers == (
        ("Forwarded", "not-needed"),
        ("Bug-Debian", "https://bugs.debian.org/1"),
        ("Last-Update", "2026-10-01"),
    )


def test_plain_words():
    found = header("quilt-ab")
    assert (found.subject, found.body) == ("Keep save() from failing", "It is called at exit.")
    assert (found.author, found.date, found.trailers) == ("", "", ())


@pytest.mark.parametrize(
    ("raw", "subject", "body", "trailers"),
    [
        (b"", "", "", ()),
        (b"\n\n", "", "", ()),
        (
            b"Fix: one line that looks like a field\n",
            "Fix: one line that looks like a field",
            "",
            (),
        ),
        (b"\nFix: one\n", "Fix: one", "", ()),
        (b"Fix: one\n\nWhy.\n", "Fix: one", "Why.", ()),
        (b"  Words\nSubject: T\n\nWhy.\n", "Words", "Subject: T\n\nWhy.", ()),
        (b"Foo: x\n more\nOrigin: y\n\nT\n", "T", "", (("Origin", "y"),)),
        (b"Description: T\n more\n\nWhy.\n", "T", "more\n\nWhy.", ()),
        (b"Description: T\n\nWhy.\n", "T", "Why.", ()),
        (b"Subject: T\n---\n", "T", "", ()),
        (b"Subject: \xc3\xa9 =?utf-8?q?a?=\n", "é =?utf-8?q?a?=", "", ()),
        (b"Title\n\nWhy.\n\nBug: 1\nFoo: 2\n", "Title", "Why.", (("Bug", "1"), ("Foo", "2"))),
        (b"Title\n\nWhy.\n\nBug: 1\nnot one\n", "Title", "Why.\n\nBug: 1\nnot one", ()),
        (b"Subject: T\n\nBug: 1\n more\n", "T", "", (("Bug", "1\n more"),)),
        (b"Subject: T\n\nWhy\n---\nBug: 1\n", "T", "Why", ()),
        (b"Subject: [PATCH] [Bugfix] T\n", "[Bugfix] T", "", ()),
        (b"Subject: [RFC PATCH v2 1/3] T\n", "T", "", ()),
        (b"Subject: [Bugfix] T\n", "[Bugfix] T", "", ()),
        (b"Subject: T of [PATCH] files\n", "T of [PATCH] files", "", ()),
        (b"Subject: =?utf-8?q?caf=C3=A9?=\n", "café", "", ()),
        (b"Subject: =?nonsense?q?caf=C3=A9?=\n", "=?nonsense?q?caf=C3=A9?=", "", ()),
        (b"Subject: =?utf-8?b?a?=\n", "=?utf-8?b?a?=", "", ()),
        (b"Subject: caf\xe9\n", "caf\udce9", "", ()),
    ],
)
def test_other_headers(raw, subject, body, trailers):
    found = mail.read(raw)
    assert (found.raw, found.subject, found.body) == (raw, subject, body)
    assert found.trailers == trailers


def test_authors_with_special_characters_are_unquoted():
    assert mail.read(b'Subject: x\nFrom: "J. \\"Q\\" Doe" <d@e>\n').author == 'J. "Q" Doe <d@e>'
    assert mail.read(b"Subject: x\nFrom: d@e\n").author == "d@e"
    assert mail.read(b'Subject: x\nFrom: " <d@e>\n').author == '" <d@e>'


# --- writing ----------------------------------------------------------------------------------


def format_patch(folder: Path, author: tuple[str, str], message: str) -> bytes:
    """Return what git writes for an empty change, up to the end of the message."""
    environment = {
        "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": author[0], "GIT_AUTHOR_EMAIL": author[1],
        "GIT_COMMITTER_NAME": "c", "GIT_COMMITTER_EMAIL": "c@e",
        "GIT_AUTHOR_DATE": "1790000000 +0200", "GIT_COMMITTER_DATE": "1790000000 +0200",
    }  # fmt: skip

    def git(*arguments: str, stdin: bytes = b"") -> bytes:
        return subprocess.run(
            [GIT_EXE, *arguments], cwd=folder, env=environment, input=stdin, check=True,
            capture_output=True,
        ).stdout  # fmt: skip

    git("init", "-q")
    (folder / "x").write_text("a\n")
    git("add", "x")
    git("commit", "-qm", "base")
    (folder / "x").write_text("b\n")
    git("commit", "-qa", "-F", "-", stdin=message.encode())
    options = ("--zero-commit", "--no-encode-email-headers", "--no-signature")
    written = git("format-patch", "--stdout", "-1", *options)
    return written[: written.index(b"---\n") + 4]


@pytest.mark.parametrize(
    ("author", "subject", "body", "trailers"),
    [
        (("D", "d@e"), "Short", "", ()),
        (("D", "d@e"), "Short", "Why.\n\n  Indented.", ()),
        (("J. Doe", "d@e"), "Short", "", (("Bug", "1"), ("Signed-off-by", "D <d@e>"))),
        (("Jörg", "d@e"), "[Bugfix] kürzer", "Wörter.", (("Bug", "1"),)),
        (("D", "d@e"), " ".join(["word"] * 40), "Why.", ()),
        (("D", "d@e"), "a" * 30 + " " + "b" * 30 + " c", "Why.", ()),
        (("D", "d@e"), "a" * 30 + " " + "b" * 31 + " c", "Why.", ()),
        (("D", "d@e"), "a" * 70 + " " + "b" * 90 + " c", "Why.", ()),
        (("D", "d@e"), "é" * 30 + " " + "é" * 31 + " " + "é" * 40, "Why.", ()),
        (('D "Q" (x), Jr', "d@e"), "Short", "", ()),
    ],
)
def test_a_header_is_written_as_git_format_patch_writes_it(
    tmp_path, author, subject, body, trailers
):
    written = patch.render_header(
        subject=subject,
        author=f"{author[0]} <{author[1]}>",
        date="Mon, 21 Sep 2026 16:13:20 +0200",
        body=body,
        trailers=trailers,
    )
    paragraphs = [subject, body, "\n".join(f"{key}: {value}" for key, value in trailers)]
    message = "\n\n".join(filter(None, paragraphs))
    assert written == format_patch(tmp_path, author, message)


def test_what_is_written_is_read_back_and_carries_a_diff():
    old = patch.parse("x", (DATA / "mail-git.patch").read_bytes())
    parts = old.header
    head = patch.render_header(
        subject=parts.subject, author=parts.author, date=parts.date, body=parts.body,
        trailers=parts.trailers,
    )  # fmt: skip
    new = patch.parse("x", head + old.diff)
    assert new.header.raw == head
    assert new.tail == b""
    assert new.diff == old.diff
    assert new.header.subject == parts.subject
    assert head + new.diff == new.data


@pytest.mark.parametrize(
    "changed",
    [
        {"body": "Why.\n---\nmore"},
        {"body": "diff --git a/x b/x"},
        {"body": "Index: x"},
        {"body": "--- a/x"},
        {"body": "From " + "1" * 40 + " Mon"},
        {"body": "Why.\n\nBug: 1"},
        {"body": "\nWhy."},
        {"subject": ""},
        {"subject": "two\nlines"},
        {"subject": " blank"},
        {"author": "D <d@e>\nSubject: other"},
        {"date": "now\nthen"},
        {"trailers": (("Not a key", "1"),)},
        {"trailers": (("Bug", "1\n\n2"),)},
    ],
)
def test_a_header_that_would_be_read_differently_is_refused(changed):
    parts = {"subject": "s", "author": "D <d@e>", "date": "now", **changed}
    if changed == {"subject": ""}:
        assert mail.read(patch.render_header(**parts)).subject == ""
        return
    with pytest.raises(PatchRefused):
        patch.render_header(**parts)


def test_a_subject_that_looks_encoded_is_encoded():
    raw = patch.render_header(subject="x =?utf-8?q?a?= y", author="D <d@e>", date="now")
    assert mail.read(raw).subject == "x =?utf-8?q?a?= y"


# --- one trailer ------------------------------------------------------------------------------

TOP = b"From: D <d@e>\nSubject: s\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # replaced where it stands, in any case, with its continuation; the last of several
        (TOP + b"\nWhy.\n\nBug: 1\nUpstream-Status: Pending\nFoo: 2\n---\n",
         TOP + b"\nWhy.\n\nBug: 1\nUpstream-Status: NEW\nFoo: 2\n---\n"),
        (TOP + b"\nupstream-status: Pending\n it goes on\nFoo: 2\n---\n",
         TOP + b"\nUpstream-Status: NEW\nFoo: 2\n---\n"),
        (TOP + b"\nUpstream-Status: a\nUpstream-Status: b\n---\n",
         TOP + b"\nUpstream-Status: a\nUpstream-Status: NEW\n---\n"),
        # added below the others, or in a paragraph of its own
        (TOP + b"\nWhy.\n\nBug: 1\n---\n", TOP + b"\nWhy.\n\nBug: 1\nUpstream-Status: NEW\n---\n"),
        (TOP + b"\nWhy.\n---\n stat\n\n", TOP + b"\nWhy.\n\nUpstream-Status: NEW\n---\n stat\n\n"),
        (TOP + b"\nWhy.\n\n\n", TOP + b"\nWhy.\n\nUpstream-Status: NEW\n\n\n"),
        (TOP + b"\n---\n", TOP + b"\nUpstream-Status: NEW\n---\n"),
        (TOP + b"---\n", TOP + b"\nUpstream-Status: NEW\n---\n"),
        (b"Words.\n\n", b"Words.\n\nUpstream-Status: NEW\n\n"),
        (b"Upstream-Status in words.\n", b"Upstream-Status in words.\n\nUpstream-Status: NEW\n"),
        # among the fields of DEP-3
        (b"Description: d\n more\nForwarded: no\n\n",
         b"Description: d\n more\nForwarded: no\nUpstream-Status: NEW\n\n"),
        (b"Upstream-Status: Pending\nDescription: d\n\nMore.\n",
         b"Upstream-Status: NEW\nDescription: d\n\nMore.\n"),
        (b"", b"Upstream-Status: NEW\n\n"),
        (b"\n", b"Upstream-Status: NEW\n\n\n"),
    ],
)  # fmt: skip
def test_setting_a_trailer_touches_one_line(before, after):
    data = patch.with_trailer(before + DIFF, "Upstream-Status", "NEW")
    assert data == after + DIFF
    parsed = patch.parse("x", data)
    assert parsed.header.trailer("Upstream-Status") == "NEW"
    assert patch.with_trailer(data, "Upstream-Status", "NEW") == data


def test_a_trailer_that_only_stands_in_the_diff_or_the_diffstat_is_not_touched():
    diff = DIFF.replace(b" a\n", b" Upstream-Status: Pending\n")
    data = TOP + b"\nWhy.\n---\nUpstream-Status: Pending\n" + diff
    assert patch.with_trailer(data, "Upstream-Status", "NEW").count(b"Pending") == 2


@pytest.mark.parametrize("file", sorted(DATA.glob("*.patch")), ids=lambda file: file.stem)
def test_setting_a_trailer_keeps_every_other_byte(file):
    data = file.read_bytes()
    changed = patch.with_trailer(data, "Upstream-Status", "Pending")
    again = patch.with_trailer(changed, "Upstream-Status", "Inappropriate [local]")
    assert changed.count(b"Upstream-Status: Pending\n") == 1
    assert again == changed.replace(
        b"Upstream-Status: Pending\n", b"Upstream-Status: Inappropriate [local]\n"
    )
    removed = set(data.split(b"\n")) - set(changed.split(b"\n"))
    assert removed <= {b"Upstream-Status: Submitted [https://example.org/1]"}


@pytest.mark.parametrize(
    ("key", "value"), [("Bug", "a\nb"), ("Bug", " "), ("No key", "a"), ("", "a"), ("A\n", "a")]
)
def test_what_cannot_be_a_trailer_is_refused(key, value):
    with pytest.raises(PatchRefused):
        patch.with_trailer(DIFF, key, value)


def test_very_many_encoded_words_take_no_time():
    raw = b"Subject: " + b"=?utf-8?q?a?= " * 100_000 + b"\n\nwhy\n"
    begun = time.monotonic()
    assert mail.read(raw).subject.startswith("=?utf-8?q?a?=")
    assert time.monotonic() - begun < 2
