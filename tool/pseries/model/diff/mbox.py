"""Mailboxes: several patches in one file, as ``git format-patch --stdout`` and mailers write them.

What an mbox has no room for (the lines of the order file, a header that is no mail) travels in two
fields of its own, which ``git am`` passes over: ``X-Pseries-Order`` and ``X-Pseries-Header``, both
percent-encoded. They are there only where something would be lost without them, and are taken out
again when the mailbox is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from pseries.errors import PatchRefused
from pseries.model import paths
from pseries.model.diff import mail
from pseries.model.diff.lines import is_message, is_separator, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

NOBODY = "pseries <pseries@localhost>"
"""The author of a patch that names none; git am needs one."""
NO_DATE = "Thu, 1 Jan 1970 00:00:00 +0000"
_FIRST_LINE = b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001\n"
_BEGINS = re.compile(
    rb"From (?:[0-9a-f]{40,64}|\S{1,320}) {1,2}[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d"
    rb"(?::\d\d)?(?: [A-Z+-][A-Z0-9]{1,5})? \d{4}(?: [+-]\d{4})?\r?\n"
)
"""The ``From_`` line (RFC 4155), asctime with or without a zone as mailers write it."""
_FIELD = re.compile(rb"[!-9;-~]{1,100}:(?:[ \t]|\r?\n)")
_SIGNED = re.compile(rb"(?:^|\n)-- \n[^\n]*\n\n\Z")
"""The end of a message that git signed, with the one blank line that git writes after it."""
_LONGEST_SIGNATURE = 1000
_ORDER, _HEADER = b"X-Pseries-Order: ", b"X-Pseries-Header: "
_KEPT = ("from", "subject", "date", "message-id")
"""Fields of a mail that say something of the patch; the others tell how it travelled."""
_ENCODED = ("base64", "quoted-printable")
_SAFE = " /+=,:@#"


class Message(NamedTuple):
    """A patch out of a mailbox.

    Attributes:
        data: the patch file.
        order: its lines of the order file, where the mailbox says them.
        changes: what had to be changed to read it, in words.
    """

    data: bytes
    order: bytes | None
    changes: tuple[str, ...]


def split(data: bytes) -> tuple[bytes, ...]:
    """Cut a file before each message; joined again the parts are ``data``.

    A line begins a message if it is a ``From_`` line and a field of a mail follows: such a line
    within a message would be told from it by no other reader either.
    """
    lines = split_lines(data)
    cuts = [
        at
        for at, line in enumerate(lines)
        if line.startswith(b"From ") and _begins(lines, at)
    ]  # fmt: skip
    if not cuts or cuts[0] != 0:
        cuts.insert(0, 0)
    parts = [b"".join(lines[begin:end]) for begin, end in zip(cuts, [*cuts[1:], None], strict=True)]
    return tuple(part for part in parts if part) or (data,)


def apart(data: bytes) -> tuple[bytes, ...]:
    """Return the messages of a mailbox without the blank line that separates each from the next.

    ``git format-patch --stdout`` puts one there; in files that were only joined the blank line
    after git's signature is the message's own.
    """
    *first, last = split(data)
    return (*(_without_separator(message) for message in first), last)


def _without_separator(message: bytes) -> bytes:
    separated = message.endswith(b"\n\n") and not _SIGNED.search(message[-_LONGEST_SIGNATURE:])
    return message[:-1] if separated else message


def joined(messages: Sequence[bytes]) -> bytes:
    """Return a mailbox of messages, the inverse of :func:`apart`."""
    if not messages:
        return b""
    *first, last = messages
    parts = [
        each if _SIGNED.search(each[-_LONGEST_SIGNATURE:] + b"\n") else each + b"\n"
        for each in first
    ]
    return b"".join((*parts, last))


def _begins(lines: list[bytes], at: int) -> bool:
    follows = at + 1 < len(lines) and _FIELD.match(lines[at + 1]) is not None
    return follows and (_BEGINS.fullmatch(lines[at]) is not None or is_message(lines[at]))


def is_mailbox(data: bytes) -> bool:
    """Say whether a file begins as a mailbox does."""
    first, _, rest = data[:4096].partition(b"\n")
    return _begins([first + b"\n", rest], 0)


def read(message: bytes) -> Message:
    """Return the patch that a message of :func:`apart` holds.

    An encoded mail is decoded, and of a mail that travelled only the fields that say something of
    the patch are kept; any other message stays as it is.
    """
    wrapped = _unwrapped(message)
    if wrapped is not None:
        return wrapped
    first, _, rest = message.partition(b"\n")
    if not first.startswith(b"From "):
        rest = message
    head, _, _ = rest.partition(b"\n\n")
    encoded = mail.transfer_encoding(_FIRST_LINE + head + b"\n\n") in _ENCODED
    parted = re.search(rb"^content-type:[ \t]*multipart/", head, re.IGNORECASE | re.MULTILINE)
    if encoded or parted is not None:
        try:
            return Message(_decoded(rest), None, ("the mail was decoded",))
        except (ValueError, LookupError, TypeError, RecursionError):
            # What the library raises on fields that are no MIME: no patch is in such a mail.
            return Message(message, None, ("the mail could not be decoded",))
    if is_message(first + b"\n") or not first.startswith(b"From "):
        return Message(message, None, ())
    return Message(_untravelled(rest), None, ("fields about the mail's transport were left out",))


# --- ours: what an mbox has no room for -------------------------------------------------------


def wrapped(name: str, data: bytes, header: mail.Header, order: bytes, usual: str) -> bytes:
    """Return a patch as a message that ``git am`` takes and :func:`read` gives back to the byte.

    Args:
        name: the patch's.
        data: the patch file.
        header: its header.
        order: its lines of the order file.
        usual: the name that a reader would give it.
    """
    body = data[len(header.raw) :]
    fields = [] if order == f"{usual}\n".encode() else [_field(_ORDER, order)]
    if not _is_whole(data, header):
        fields.append(_field(_HEADER, header.raw))
        first, rest = _FIRST_LINE, _mail(name, header)[len(_FIRST_LINE) :]
        return b"".join((first, *fields, rest, body, b"" if body.endswith(b"\n") else b"\n"))
    first, _, rest = data.partition(b"\n")
    return b"".join((first, b"\n", *fields, rest))


def _is_whole(data: bytes, header: mail.Header) -> bool:
    first, _, rest = data.partition(b"\n")
    return (
        is_message(first + b"\n")
        and not rest.startswith((_ORDER, _HEADER))
        and split(data) == (data,)
        and bool(header.author and header.date and header.subject)
        and any(map(is_separator, split_lines(header.raw)))
        and data.endswith(b"\n")
    )


def _field(key: bytes, value: bytes) -> bytes:
    return key + escaped(value) + b"\n"


def escaped(value: bytes) -> bytes:
    """Return bytes as one line of ASCII (percent-encoded), which :func:`unescaped` reads."""
    return quote_from_bytes(value, safe=_SAFE).encode("ascii")


def unescaped(line: bytes) -> bytes:
    """Return the bytes that :func:`escaped` was given."""
    return unquote_to_bytes(line)


def _mail(name: str, header: mail.Header) -> bytes:
    """Return a mail's header that says what ``header`` says as far as a mail can."""
    known = {
        "subject": " ".join(header.subject.split()) or name.rpartition(".")[0] or name,
        "author": header.author if "<" in header.author else NOBODY,
        "date": header.date or NO_DATE,
    }
    for body, trailers in (
        (header.body, header.trailers),
        (_indented(header.body), header.trailers),
        ("", ()),
    ):
        try:
            found = mail.render_header(**known, body=body, trailers=trailers)
        except PatchRefused:
            continue
        if len(split(found)) == 1:  # no line of it begins another message
            return found
    plain = name.rpartition(".")[0] or name
    return mail.render_header(subject=plain, author=NOBODY, date=NO_DATE)


def _indented(body: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in body.split("\n"))


def _unwrapped(message: bytes) -> Message | None:
    first, _, rest = message.partition(b"\n")
    found: dict[bytes, bytes] = {}
    for key in (_ORDER, _HEADER):
        if rest.startswith(key):
            line, _, rest = rest.partition(b"\n")
            found[key] = unescaped(line.removesuffix(b"\r")[len(key) :])
    if not found:
        return None
    data = first + b"\n" + rest
    if _HEADER in found:
        _, _, body = rest.partition(b"\n---\n")
        data = found[_HEADER] + body
    return Message(data, found.get(_ORDER), ())


# --- mails that travelled ---------------------------------------------------------------------


def _untravelled(rest: bytes) -> bytes:
    head, blank, body = rest.partition(b"\n\n")
    kept: list[bytes] = []
    keep = False
    for line in split_lines(head + b"\n"):
        if line[:1] not in b" \t":
            keep = line.partition(b":")[0].decode("latin-1").lower() in _KEPT
        if keep:
            kept.append(line)
    body = re.sub(rb"^>(>*From )", rb"\1", body, flags=re.MULTILINE)  # mboxrd
    return _FIRST_LINE + b"".join(kept) + (blank[1:] or b"\n") + body


def _decoded(rest: bytes) -> bytes:
    """Decode an encoded mail, or one of several parts: texts and patches that are attached."""
    from email import policy  # noqa: PLC0415 - rare, and slow to import
    from email.parser import BytesParser  # noqa: PLC0415

    document = BytesParser(policy=policy.compat32).parsebytes(rest)
    fields = b"".join(
        key.encode("ascii", "replace") + b": " + paths.encode(str(value)) + b"\n"
        for key, value in document.items()
        if key.lower() in _KEPT
    )
    texts: list[bytes] = []
    for part in document.walk():
        name = part.get_filename("") or ""
        if part.get_content_maintype() == "text" or name.endswith((".patch", ".diff")):
            payload = part.get_payload(decode=True)
            if isinstance(payload, bytes) and part.get_content_subtype() != "html":
                texts.append(payload)
    body = b"\n".join(text if text.endswith(b"\n") else text + b"\n" for text in texts)
    return _FIRST_LINE + fields.replace(b"\r\n", b"\n") + b"\n" + body


# --- names ------------------------------------------------------------------------------------


def usual_name(number: int, subject: str) -> str:
    """Return the file name that ``git format-patch`` gives the patch of that number and subject."""
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", subject)
    slug = re.sub(r"\.{2,}", ".", slug).strip("-.")[:52].rstrip("-.")
    return f"{number:04}-{slug or 'patch'}.patch"
