"""A patch's header as a commit and back: every form of header survives what says the same."""

from __future__ import annotations

import pytest

from pseries.errors import PatchRefused
from pseries.model import commit as commits
from pseries.model.commit import Commit
from pseries.model.diff import mail

MAIL = (
    b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
    b"From: J\xc3\xb6rg <j@example.invalid>\n"
    b"Date: Wed, 21 Oct 2026 09:01:00 -0230\n"
    b"Subject: [PATCH 2/7] Do it\n\nBecause.\n\nBug: https://example.invalid/1\n---\n"
)
DEP3 = (
    b"Description: Do it\n Because.\n .\n And more.\nAuthor: A <a@example.invalid>\n"
    b"Bug: https://example.invalid/1\nLast-Update: 2026-10-21\n---\n"
)
FORMS = {
    "mail": MAIL,
    "dep3": DEP3,
    "text": b"Do it\n\nBecause   \nof this.\n\n\n\nAnd that.\n\n",
    "latin-1": b"Do it, caf\xe9\n\n",
    "none": b"",
    "only a comment of a tool": b"Index: a.py\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_header_that_says_the_same_stays_as_it_is(form: str):
    header = mail.read(FORMS[form])
    commit = commits.of_header(header, "x.patch")
    assert commit.message.strip()
    read = commits.parse("0" * 40, commits.render(commit._replace(tree="1" * 40)))
    assert (read.author, read.date, read.message) == (commit.author, commit.date, commit.message)
    assert commits.header_for(read, header, "x.patch") == FORMS[form]
    trimmed = read._replace(message="\n".join(map(str.rstrip, read.message.split("\n"))))
    assert commits.header_for(trimmed, header, "x.patch") == FORMS[form]


def test_a_mail_becomes_who_when_and_why():
    commit = commits.of_header(mail.read(MAIL), "x.patch")
    assert commit.author == "Jörg <j@example.invalid>"
    assert commit.date == "1792582260 -0230"
    assert commit.message == "Do it\n\nBecause.\n\nBug: https://example.invalid/1\n"


@pytest.mark.parametrize("form", FORMS)
def test_other_words_make_a_new_header(form: str):
    header = mail.read(FORMS[form])
    old = commits.of_header(header, "x.patch")
    new = old._replace(message="Other\nwords\n\nWhy.\n\nOrigin: here\n", author="N <n@x.invalid>")
    read = mail.read(commits.header_for(new, header, "x.patch"))
    assert (read.subject, read.body, read.trailers) == (
        "Other words", "Why.", (("Origin", "here"),),
    )  # fmt: skip
    assert read.author == "N <n@x.invalid>"
    assert commits.of_header(read, "").date == old.date


@pytest.mark.parametrize("line", ["---", "diff --git a/x b/x", "Index: x", "--- a/x"])
def test_a_message_that_would_end_early_is_refused(line: str):
    commit = Commit("1" * 40, "", (), "A <a@x.invalid>", "0 +0000", f"Do it\n\nsee\n{line}\nend\n")
    with pytest.raises(PatchRefused):
        commits.header_for(commit, None, "x.patch")


@pytest.mark.parametrize(
    ("author", "ident"),
    [
        ("", "unknown <unknown@localhost>"),
        ("Ann", "Ann <>"),
        ("a@x.invalid", "a@x.invalid <a@x.invalid>"),
        ("<a@x.invalid>", "a@x.invalid <a@x.invalid>"),
        ("A <<b>\n> <a@x.invalid>", "A b <a@x.invalid>"),
    ],
)
def test_any_author_becomes_one_that_git_takes(author: str, ident: str):
    header = mail.read(b"")
    commit = commits.of_header(header.__class__(b"", "s", author, "nonsense", "", ()), "x")
    assert (commit.author, commit.date) == (ident, "0 +0000")


def test_a_subject_becomes_a_part_of_a_name():
    assert commits.slug("FP8: decode `wo_a` (Δ)!") == "fp8-decode-wo-a"
    assert commits.slug("…") == "patch"
    assert len(commits.slug("word " * 40)) <= 52
