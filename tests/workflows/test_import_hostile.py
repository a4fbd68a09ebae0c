"""Repositories, mailboxes and folders of strangers as the source of an import."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import engine
from tests.workflows.test_import import FIRST, NET, SECOND, Desk, fates
from tests.workflows.test_import import desk as desk  # noqa: PLC0414 - a fixture

from pseries.errors import PseriesError, RangeRefused, SourceRefused
from pseries.git import history
from pseries.model.diff import mbox

if TYPE_CHECKING:
    from collections.abc import Callable


def repository(tmp: Path, name: str = "theirs") -> Path:
    folder = tmp / name
    folder.mkdir()
    engine.git(folder, "init", "-q", "-b", "main")
    for number, files in enumerate((engine.FILES, FIRST, SECOND)):
        engine.write(folder, files)
        engine.git(folder, "add", "-A")
        engine.git(folder, "commit", "-q", "-m", f"change {number}")
    return folder


def commit(folder: Path, content: bytes) -> str:
    """Write a commit object as no git would, and return its id."""
    file = folder / ".git" / "raw"
    file.write_bytes(content)
    return engine.git(
        folder, "hash-object", "-t", "commit", "-w", "--literally", str(file)
    ).decode().strip()  # fmt: skip


# --- repositories ------------------------------------------------------------------------------


def test_no_program_that_a_repository_names_is_run(desk: Desk) -> None:
    """Objects that a partial clone lacks are fetched by git itself, through its settings."""
    desk.release(engine.FILES)
    folder = repository(desk.tmp)
    ran = desk.tmp / "ran"
    evil = desk.tmp / "evil"
    evil.write_text(f"#!/bin/sh\necho run >>{ran}\nexit 1\n")
    evil.chmod(0o755)
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"file://{desk.tmp}/elsewhere",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": str(evil),
        "core.fsmonitor": str(evil),
        "core.alternateRefsCommand": str(evil),
        "core.gitProxy": str(evil),
        "core.sshCommand": str(evil),
        "diff.external": str(evil),
        "log.showSignature": "true",
        "gpg.program": str(evil),
    }.items():
        engine.git(folder, "config", key, value)
    tree = engine.git(folder, "rev-parse", "HEAD~1").decode().strip()
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()

    with pytest.raises(PseriesError):
        desk.take(folder, between="HEAD~2..HEAD")

    assert not ran.exists()


@pytest.mark.parametrize("author", [
    b"author A <a@example.invalid> 99999999999999999 +0000",
    b"author A <a@example.invalid> 9999999999999999999999999999999999 +0000",
    b"author A <a@example.invalid> 1 +9999",
    b"author A <a@example.invalid> 1 -99999999",
    b"author A <a@example.invalid> -1 +0000",
    b"author A <a@example.invalid> x +0000",
    b"author A <a@example.invalid>",
    b"author ",
    b"author \xff\x1b[31m <\xff> 1 +0000",
    b"nobody x",
])  # fmt: skip
def test_odd_commits_are_taken_or_refused(desk: Desk, author: bytes) -> None:
    desk.release(engine.FILES)
    folder = repository(desk.tmp)
    tree, below = (engine.git(folder, "rev-parse", name) for name in ("HEAD~1^{tree}", "HEAD~2"))
    made = commit(folder, b"tree " + tree + b"parent " + below + author
                  + b"\ncommitter C <c@example.invalid> 1 +0000\n\nsubject\n")  # fmt: skip
    engine.git(folder, "update-ref", "refs/heads/odd", made)
    try:
        assert fates(desk.take(folder, between="HEAD~2..odd")) == ["taken"]
    except PseriesError as refused:
        words = str(refused)
        assert "no mail can have its date" in words or "no author, or no date" in words


@pytest.mark.parametrize("encoding", [
    "punycode", "idna", "undefined", "unicode_escape", "utf-7", "zlib", "utf-16", "a\0b", "rot13",
])  # fmt: skip
def test_a_commit_in_any_encoding(desk: Desk, encoding: str) -> None:
    desk.release(engine.FILES)
    folder = repository(desk.tmp)
    tree, below = (engine.git(folder, "rev-parse", name) for name in ("HEAD~1^{tree}", "HEAD~2"))
    made = commit(folder, b"tree " + tree + b"parent " + below
                  + b"author A <a@example.invalid> 1 +0000\n"
                  + b"committer C <c@example.invalid> 1 +0000\nencoding " + encoding.encode()
                  + b"\n\nsubject \\ud800 +2AA- \xff\n")  # fmt: skip
    assert fates(desk.take(folder, between=f"HEAD~2..{made}")) == ["taken"]


@pytest.mark.parametrize("between", [
    "..", "...", "HEAD..", "HEAD~2...HEAD", "--output=x..HEAD", "HEAD~2..--all", "HEAD~2..HEAD^@",
    "HEAD~2..HEAD\n", "HEAD~2..:/change", "HEAD~2..HEAD^{/(((}", "HEAD^{tree}..HEAD",
    "HEAD~9..HEAD",
])  # fmt: skip
def test_odd_ranges(desk: Desk, between: str) -> None:
    with pytest.raises(RangeRefused):
        history.changes(repository(desk.tmp), between)


def test_a_repository_whose_objects_are_broken(desk: Desk) -> None:
    desk.release(engine.FILES)
    folder = repository(desk.tmp)
    blob = engine.git(folder, "rev-parse", f"HEAD~1:{NET}").decode().strip()
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(PseriesError):
        desk.take(folder, between="HEAD~2..HEAD")
    assert not (desk.tmp / "series").exists()


# --- mailboxes ---------------------------------------------------------------------------------

HEAD = (b"From a@b.example Tue Dec  1 09:00:00 2026\nFrom: A <a@example.invalid>\n"
        b"Subject: [PATCH] x\nDate: Tue, 1 Dec 2026 09:00:00 +0000\n")  # fmt: skip


def nested(depth: int) -> bytes:
    text = b"".join(b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (at, at)
                    for at in range(depth))  # fmt: skip
    return HEAD + text + b"Content-Type: text/plain\n\nhello\n"


@pytest.mark.parametrize("mail", [
    nested(3000),
    HEAD + b"Content-Type: multipart/mixed; boundary=\n\n--\n--- a\n",
    HEAD + b"Content-Type: multipart/mixed; boundary*0*=x; boundary*=y''%ff\n\n--x\n",
    HEAD + b"Content-Transfer-Encoding: base64\n\n!!!!\n",
    HEAD + b"Content-Transfer-Encoding: quoted-printable\n"
    b"Content-Type: text/plain; charset=nope\n\n=\n",
    HEAD + b'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: application/x\n'
    b"Content-Disposition: attachment; filename*0*=nope''%ff.patch; filename*1=x\n\nx\n--b--\n",
    HEAD + b'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: application/x\n'
    b"Content-Disposition: attachment; filename*=undefined'x'%ff.patch\n\nx\n--b--\n",
    HEAD + b'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/plain\n'
    b"Content-Transfer-Encoding: x-uuencode\n\nbegin 644 x\n\xff\xff\n--b--\n",
], ids=range(8))  # fmt: skip
def test_odd_mails_are_refused(desk: Desk, mail: bytes) -> None:
    desk.release(engine.FILES)
    with contextlib.suppress(SourceRefused):
        assert desk.take(desk.source({"x.mbox": mail}) / "x.mbox").refused


def test_an_empty_file_is_refused(desk: Desk) -> None:
    desk.release(engine.FILES)
    report = desk.take(desk.source({"x.mbox": b"", "y.patch": b""}) / "y.patch")
    assert report.refused
    assert desk.take(desk.tmp / "in" / "x.mbox").refused


# --- folders -----------------------------------------------------------------------------------


def test_names_that_are_not_utf8(desk: Desk) -> None:
    desk.release(engine.FILES)
    folder = desk.source({"series": b"caf\xe9.patch  # caf\xe9\n"})
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.patch")).write_bytes(
        desk.diff(engine.FILES, FIRST)
    )
    with pytest.raises(SourceRefused, match="series:1"):
        desk.take(folder)


def test_links_and_pipes_in_a_folder(desk: Desk) -> None:
    desk.release(engine.FILES)
    folder = desk.source({"one.patch": desk.diff(engine.FILES, FIRST)})
    os.mkfifo(folder / "pipe.patch")
    (folder / "zero.patch").symlink_to("/dev/zero")
    (folder / "gone.patch").symlink_to("nowhere")
    (folder / "loop.patch").symlink_to("loop.patch")
    assert fates(desk.take(folder)) == ["taken"]


# --- time --------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def moved(lines: int) -> tuple[dict[str, bytes], bytes]:
    text = "".join(f"X{number} = {number}\n" for number in range(lines))
    files = {**engine.FILES, "eng/big.py": text.encode()}
    hunks = "".join(
        f"@@ -{at + 2},1 +{at + 2},1 @@\n-X{at} = {at}\n+X{at} = 0\n"
        for at in range(0, lines - 2, 3)
    )
    return files, f"--- a/eng/big.py\n+++ b/eng/big.py\n{hunks}".encode()


def test_many_hunks_elsewhere_take_time_that_grows_with_their_number(desk: Desk) -> None:
    took = []
    for number, lines in enumerate((4_000, 16_000)):
        files, patch = moved(lines)
        desk.release(files, f"1.{number}")
        source = desk.source({"x.patch": patch}, f"in{number}")
        took.append(seconds(lambda s=source, n=number: desk.take(s, release=f"eng==1.{n}")))  # type: ignore[misc]
    assert took[1] < took[0] * 12 + 1, took


def test_many_messages_of_one_name(desk: Desk) -> None:
    took = []
    for count in (500, 4000):
        message = engine.message().replace(b"\n", b"\nX-Pseries-Order: 0001-a.patch%0A\n", 1)
        data = (message + b"--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n\n") * count
        took.append(seconds(lambda d=data: mbox.apart(d)))  # type: ignore[misc]
    assert took[1] < took[0] * 32 + 1, took


def test_a_name_with_a_line_end_adds_no_line(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    from pseries.cli import exchange

    desk.release(engine.FILES)
    folder = desk.source({"0001-a\npseries: all is well.patch": b"nothing\n"})
    report = desk.take(folder)
    exchange._print_imported(report, dry_run=False)
    assert "\npseries: all is well" not in capsys.readouterr().out
