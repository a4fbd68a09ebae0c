"""Mailboxes: cutting them, and carrying in them what a mail has no room for."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from tests.support import engine

from pseries.errors import PatchRefused
from pseries.model.diff import mbox, patch

DATA = Path(__file__).parent.parent / "data" / "patches"
PLAIN = b"--- a/eng/m.py\n+++ b/eng/m.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


def sample(name: str) -> patch.Patch:
    data = (DATA / name).read_bytes()
    for strip in (1, 0):
        try:
            return patch.parse(name, data, strip)
        except PatchRefused:
            continue
    raise AssertionError(name)


ENDS = (b"", b"-- \n2.39.5\n", b"-- \n2.39.5\n\n", b"\n", b"\n\n", b"--\n2.39.5\n\n")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.patch")))
def test_every_kind_of_patch_goes_through_a_mailbox_to_the_byte(name: str, end: bytes) -> None:
    read = sample(name)
    data = read.data + end
    order = f"# why\n{name} -p0   # odd\n\n".encode()
    message = mbox.wrapped(name, data, read.header, order, "0001-x.patch")
    following = engine.message("The next") + PLAIN

    parts = mbox.apart(mbox.joined([message, message, following]))

    assert parts == (message, message, following)
    assert mbox.read(parts[0]) == (data, order, ())


def test_files_that_were_only_joined_keep_the_blank_line_after_the_signature() -> None:
    one = engine.message("One") + PLAIN + b"-- \n2.39.5\n\n"
    assert mbox.apart(one + one) == (one, one)
    assert mbox.apart(one + b"\n" + one) == (one, one)


def test_a_message_that_quotes_a_mail_stays_one() -> None:
    quoted = b"From you Tue Dec  1 09:00:00 2026\nSubject: of another mail\n"
    data = engine.message("One").replace(b"Because the test says so.\n", quoted) + PLAIN
    assert len(mbox.split(data)) == 2  # as any reader of mailboxes would cut it
    header = patch.parse("x", data).header
    message = mbox.wrapped("x.patch", data, header, b"x.patch\n", "x.patch")
    assert mbox.split(message) == (message,)
    assert mbox.read(message).data == data


def test_git_am_takes_a_mailbox_of_patches_without_a_mail_header(tmp_path: Path) -> None:
    engine.write(tmp_path, {"eng/m.py": b"a = 1\n"})
    engine.git(tmp_path, "init", "-q")
    engine.git(tmp_path, "add", "-A")
    engine.git(tmp_path, "commit", "-qm", "base")
    dep3 = (
        b"Description: Keep a at two\n It is needed.\n .\n Twice.\n"
        b"Author: J\xc3\xb6rg <j@example.org>\n---\n" + PLAIN
    )
    later = PLAIN.replace(b"= 2", b"= 4").replace(b"= 1", b"= 3")
    messages = b"".join(
        mbox.wrapped(f"{name}.patch", data, patch.parse(name, data).header, b"x.patch\n", "-")
        for name, data in (
            ("dep3", dep3),
            ("none", PLAIN.replace(b"a = 2", b"a = 3").replace(b"a = 1", b"a = 2")),
            ("words", b"Words\n\nFrom them.\n\n" + later),
        )
    )

    subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.invalid", "am", "-q"],
        cwd=tmp_path, input=messages, check=True,
    )  # fmt: skip

    log = engine.git(tmp_path, "log", "--reverse", "--format=%an|%s|%b").decode()
    assert "Jörg|Keep a at two|It is needed.\n\nTwice." in log
    assert "|none|" in log
    assert "|Words|From them." in log
    assert (tmp_path / "eng/m.py").read_bytes() == b"a = 4\n"


def test_the_real_mailbox_of_git_is_cut_into_its_messages(tmp_path: Path) -> None:
    engine.git(tmp_path, "init", "-q")
    for number in range(3):
        engine.write(tmp_path, {"eng/m.py": b"a = %d\n" % number})
        engine.git(tmp_path, "add", "-A")
        engine.git(tmp_path, "commit", "-qm", f"Step {number}\n\nFrom here it is\nFrom 1 to 2.\n")
    box = engine.git(tmp_path, "format-patch", "--stdout", "--cover-letter", "--root")

    parts = mbox.split(box)

    assert b"".join(parts) == box
    subjects = [patch.mail.read(part).subject for part in parts]
    assert subjects == ["*** SUBJECT HERE ***", "Step 0", "Step 1", "Step 2"]
    assert [mbox.read(part).data for part in parts] == list(parts)


@pytest.mark.parametrize("line", [
    b"From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n",
    b"From you Tue Dec  1 09:00:00 2026\n",
])  # fmt: skip
def test_a_line_that_begins_no_mail_cuts_nothing(line: bytes) -> None:
    data = engine.message("One") + PLAIN
    quoting = data.replace(b"Because the test says so.\n", line + b"was what the log said\n")
    assert mbox.split(quoting) == (quoting,)


def test_a_mail_that_travelled_keeps_what_says_something_of_the_patch() -> None:
    travelled = (
        b"From j@example.org Tue Dec  1 09:00:00 2026\nReceived: from secret.example by here\n"
        b"\tid 7\nFrom: J <j@example.org>\nDate: Tue, 1 Dec 2026 09:00:00 +0000\n"
        b"Subject: [PATCH] Change it\nX-Spam: 0\n\nSince\n>From then on.\n---\n" + PLAIN
    )

    (message,) = mbox.split(travelled)
    read = mbox.read(message)

    assert b"secret" not in read.data
    assert b"Since\nFrom then on.\n---\n" in read.data
    header = patch.parse("x", read.data).header
    assert (header.subject, header.author) == ("Change it", "J <j@example.org>")
    assert read.changes


@pytest.mark.parametrize("encoding", ["base64", "quoted-printable"])
def test_an_encoded_mail_is_decoded(encoding: str) -> None:
    import quopri

    body = "Für alle.\n---\n".encode() + PLAIN
    coded = base64.encodebytes(body) if encoding == "base64" else quopri.encodestring(body)
    mail = (
        b"From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
        b"From: J <j@example.org>\nDate: Tue, 1 Dec 2026 09:00:00 +0000\nSubject: [PATCH] Change\n"
        b"Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: "
        + encoding.encode() + b"\n\n" + coded
    )  # fmt: skip

    read = mbox.read(mail)

    assert read.data.endswith(body)
    assert patch.parse("x", read.data).header.body == "Für alle."
    assert read.changes == ("the mail was decoded",)


def test_a_patch_that_is_attached_is_found() -> None:
    from email.message import EmailMessage

    message = EmailMessage()
    message["From"], message["Subject"] = "J <j@example.org>", "[PATCH] Change"
    message["Date"] = "Tue, 1 Dec 2026 09:00:00 +0000"
    message.set_content("See below.\n")
    message.add_attachment(
        PLAIN, maintype="application", subtype="octet-stream", filename="a.patch"
    )
    box = b"From j@example.org Tue Dec  1 09:00:00 2026\n" + message.as_bytes()

    read = mbox.read(box)

    assert PLAIN in read.data
    assert patch.parse("x", read.data).sections[0].path == "eng/m.py"


@pytest.mark.parametrize(("subject", "name"), [
    ("Fix the engine", "0007-Fix-the-engine.patch"),
    ("sgl: a/b, ..c", "0007-sgl-a-b-.c.patch"),
    ("ö", "0007-patch.patch"),
    ("x" * 80, f"0007-{'x' * 52}.patch"),
])  # fmt: skip
def test_names_are_those_of_git_format_patch(subject: str, name: str) -> None:
    assert mbox.usual_name(7, subject) == name
