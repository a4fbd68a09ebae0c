"""What stands before the first file of a patch: a mail, a DEP-3 header, or plain words.

Read leniently, since nothing is decided by it, and changed by single lines only: whoever wrote it
finds every other byte again.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import NamedTuple

from pseries.errors import PatchRefused, Problem
from pseries.model import paths
from pseries.model.diff.lines import is_message, is_separator

TRAILERS = (
    "Upstream-Status", "Bug", "Forwarded", "Applied-Upstream", "Origin", "Signed-off-by",
    "Reviewed-by", "Acked-by", "Tested-by", "Last-Update",
)  # fmt: skip
"""Keys that are trailers at the top of a header too, where DEP-3 has its fields."""

_WIDTH = 78
"""Column at which git format-patch folds the subject."""
_FIELD = re.compile(rb"([A-Za-z][A-Za-z0-9-]{0,99}):(?:[ \t]|\n)")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
_KNOWN = {key.lower() for key in TRAILERS} | {
    "from", "subject", "date", "author", "description", "to", "cc", "message-id",
}  # fmt: skip
"""At least one of these makes a first paragraph of ``Key: value`` lines a block of fields."""
_LONGEST_ENCODED = 4096
"""The decoder takes time that grows with the square of what it is given."""
_MARK = re.compile(r"\A\[[^\[\]]{0,99}PATCH[^\[\]]{0,99}\]\s*")
_SPECIAL = re.compile(r'[()<>\[\]:;@\\,."]')
_FIRST_LINE = b"From " + b"0" * 40 + b" Mon Sep 17 00:00:00 2001\n"
_EIGHT_BIT = (
    b"MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n"
)
_ENDS_MESSAGE = re.compile(r"diff -|Index: |--- \S|---\s*$")
"""What makes git am take the rest of a message for the patch (``patchbreak`` in mailinfo.c)."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the first file; :attr:`raw` is the truth, the rest is read from it.

    Text is UTF-8 with surrogate escapes. ``author`` is ``Name <mail>`` as git knows it, ``date``
    is as written. ``body`` is the message without its trailers and without blank lines around it.
    """

    raw: bytes
    subject: str
    author: str
    date: str
    body: str
    trailers: tuple[tuple[str, str], ...]

    def trailer(self, key: str) -> str | None:
        """Return the value of the last trailer ``key`` in any case, or ``None``."""
        values = [value for name, value in self.trailers if name.lower() == key.lower()]
        return values[-1] if values else None


class _Field(NamedTuple):
    """A ``Key: value`` and the lines it takes, as indices, the end exclusive."""

    key: str
    value: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class _Outline:
    """Where the parts of a header are, as indices of lines; each end is exclusive."""

    lines: list[bytes]
    top: tuple[int, int]
    """The fields of a mail or of DEP-3, if there are any."""
    message: tuple[int, int]
    """Without blank lines around."""
    closing: int
    """Where the last paragraph begins, if it is made of trailers; else the end of the message."""

    def fields(self) -> list[_Field]:
        """Return the fields at the top."""
        return self._keyed(*self.top)

    def trailers(self) -> list[_Field]:
        """Return the trailers: those among the fields at the top, then those at the end."""
        understood = tuple(key.lower() for key in TRAILERS)
        top = [
            each
            for each in self.fields()
            if each.key.lower() in understood or each.key.lower().startswith("bug-")
        ]
        return top + self._keyed(self.closing, self.message[1])

    def _keyed(self, begin: int, end: int) -> list[_Field]:
        starts = [at for at in range(begin, end) if _FIELD.match(self.lines[at])]
        found: list[_Field] = []
        for at, behind in zip(starts, [*starts[1:], end], strict=False):
            key, _, value = _text(b"".join(self.lines[at:behind])).partition(":")
            found.append(_Field(key, value.strip(), at, behind))
        return found


def read(raw: bytes) -> Header:
    """Read a patch's header; takes anything, empty parts where there is nothing."""
    outline = _outline(raw)
    fields = {field.key.lower(): field.value for field in outline.fields()}
    message = [_text(line) for line in outline.lines[outline.message[0] : outline.closing]]
    body = "".join(message).strip("\n")
    subject = fields.get("subject")
    if subject is not None:
        subject = _MARK.sub("", _decoded(subject))
    elif "description" in fields:
        subject, _, more = fields["description"].partition("\n")
        more = "\n".join(_dep3_line(line) for line in more.split("\n")).strip("\n")
        body = f"{more}\n\n{body}".strip("\n")
    else:
        subject, _, body = body.partition("\n")
        subject, body = subject.strip(), body.strip("\n")
    return Header(
        raw=raw,
        subject=subject,
        author=_unquoted_author(_decoded(fields.get("from", fields.get("author", "")))),
        date=fields.get("date", ""),
        body=body,
        trailers=tuple((field.key, field.value) for field in outline.trailers()),
    )


def transfer_encoding(raw: bytes) -> str:
    """Return how the mail says that it is encoded, in small letters; empty if it does not say."""
    for field in _outline(raw).fields():
        if field.key.lower() == "content-transfer-encoding":
            return field.value.lower()
    return ""


def render_header(
    *,
    subject: str,
    author: str,
    date: str,
    body: str = "",
    trailers: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """Return a header in the one form that series folders have: a mail as git format-patch writes.

    Deterministic: commit id zero, names not encoded, no diffstat. It ends with the ``---`` line,
    so that the diff follows directly, and :func:`read` gives the same parts back.

    Raises:
        PatchRefused: a part holds what would be read back differently, such as a ``---`` line.
    """
    fields = [
        _from(author),
        f"Date: {date}\n",
        _folded("Subject: [PATCH] ", _encoded(subject)),
    ]
    message = [f"{body}\n"] if body else []
    if trailers:
        message.append("".join(f"{key}: {value}\n" for key, value in trailers))
    text = "\n".join(message)
    mime = b"" if "".join((*fields, text)).isascii() else _EIGHT_BIT
    head = _FIRST_LINE + _bytes("".join(fields)) + mime + b"\n"
    raw = head + _bytes(text) + b"---\n"
    wanted = Header(raw, subject, author, date, body, trailers)
    _check_read_back(wanted)
    return raw


def set_trailer(raw: bytes, key: str, value: str) -> bytes:
    """Return the header ``raw`` with the trailer ``key`` set; no other line changes.

    The last trailer of that key is replaced where it stands. A new one goes below the others, at
    the end of the message, or below the fields of a DEP-3 header that has no message.

    Raises:
        PatchRefused: ``key`` is not one, or ``value`` is not one line.
    """
    if not _KEY.fullmatch(key) or "\n" in value or not value.strip():
        raise PatchRefused("header", (Problem(key, "a trailer is 'Key: value' on one line"),))
    outline = _outline(raw)
    lines = outline.lines
    new = _bytes(f"{key}: {value}\n")
    same = [field for field in outline.trailers() if field.key.lower() == key.lower()]
    if same:
        return b"".join((*lines[: same[-1].begin], new, *lines[same[-1].end :]))
    at, added = _placed(outline, new)
    return b"".join((*lines[:at], *added, *lines[at:]))


def _placed(outline: _Outline, new: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Return where a new trailer goes, and the line with the blank lines it needs around it."""
    begin, end = outline.message
    fields_end = outline.top[1]
    is_mail = any(field.key.lower() == "subject" for field in outline.fields())
    if outline.closing < end:
        return end, (new,)
    if begin < end:
        return end, (b"\n", new)
    if fields_end == outline.top[0]:
        return fields_end, (new, b"\n")
    if not is_mail:
        return fields_end, (new,)
    if outline.lines[fields_end : fields_end + 1] == [b"\n"]:
        return fields_end + 1, (new,)
    return fields_end, (b"\n", new)


# --- the parts of a header --------------------------------------------------------------------


def _outline(raw: bytes) -> _Outline:
    lines = io.BytesIO(raw).readlines()
    begin = 1 if lines and is_message(lines[0]) else 0
    end = _fields_end(lines, begin)
    first, last = end, end
    while last < len(lines) and not is_separator(lines[last]):
        last += 1
    while first < last and _is_blank(lines[first]):
        first += 1
    while last > first and _is_blank(lines[last - 1]):
        last -= 1
    trailers = _trailers_begin(lines, first, last)
    if trailers == first and end == begin:
        trailers = last  # without fields the first paragraph is the subject
    return _Outline(lines, (begin, end), (first, last), trailers)


def _fields_end(lines: list[bytes], begin: int) -> int:
    """Return the index behind the fields at the top, ``begin`` if there are none."""
    known = False
    for at in range(begin, len(lines)):
        if _is_blank(lines[at]) or is_separator(lines[at]):
            return at if known else begin
        field = _FIELD.match(lines[at])
        if field is None and (at == begin or lines[at][:1] not in b" \t"):
            return begin
        known = known or (field is not None and field[1].decode().lower() in _KNOWN)
    return len(lines) if known else begin


def _trailers_begin(lines: list[bytes], first: int, last: int) -> int:
    """Return where the last paragraph begins if it is made of trailers, else ``last``."""
    at = last
    while at > first and not _is_blank(lines[at - 1]):
        at -= 1
        if not _FIELD.match(lines[at]) and lines[at][:1] not in b" \t":
            return last
    return at if at < last and _FIELD.match(lines[at]) else last


def _is_blank(line: bytes) -> bool:
    return not line.strip()


def _dep3_line(line: str) -> str:
    line = line.removeprefix(" ")
    return "" if line == "." else line


def _text(raw: bytes) -> str:
    return paths.decode(raw)


def _bytes(text: str) -> bytes:
    return paths.encode(text)


def _decoded(value: str) -> str:
    """Unfold a field and decode its encoded words (RFC 2047); as it is if broken or too long."""
    value = re.sub(r"\n[ \t]", " ", value)
    if "=?" not in value or len(value) > _LONGEST_ENCODED or not value.isascii():
        return value
    from email.errors import MessageError  # noqa: PLC0415 - rare, and slow to import
    from email.header import decode_header, make_header  # noqa: PLC0415

    try:
        return str(make_header(decode_header(value)))
    except (ValueError, LookupError, MessageError):
        return value


def _encoded(value: str) -> str:
    """Return ``value``, as an encoded word if it would be taken for one."""
    if _decoded(value) == value:
        return value
    return "=?UTF-8?q?" + "".join(f"={byte:02X}" for byte in _bytes(value)) + "?="


def _unquoted_author(author: str) -> str:
    name, bracket, mail = author.rpartition(" <")
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return f"{name}{bracket}{mail}"


def _from(author: str) -> str:
    name, bracket, mail = author.rpartition(" <")
    if bracket and _SPECIAL.search(name):
        name = '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return f"From: {_encoded(f'{name}{bracket}{mail}')}\n"


def _folded(start: str, text: str) -> str:
    """Return a field, folded as git does: at single blanks, before the word that is too much."""
    folded, width = start, len(start)
    for number, word in enumerate(re.split(r"(?<=\S) (?=\S)", text)):
        blank = " " if number else ""
        fits = width + len(blank + word) <= _WIDTH
        folded += f"{blank}{word}" if fits else f"\n {word}"
        width = width + len(blank + word) if fits else 1 + len(word)
    return f"{folded}\n"


def _check_read_back(wanted: Header) -> None:
    """Raise :class:`PatchRefused` unless the header is read as it was meant."""
    found = read(wanted.raw)
    problems = [
        Problem(part, "cannot be written so that it is read back the same")
        for part in ("subject", "author", "date", "body", "trailers")
        if getattr(found, part) != getattr(wanted, part)
    ]
    problems += [
        Problem(f"line {number} of the message", f"{line[:60]!r} would end the message")
        for number, line in enumerate(wanted.body.split("\n"), 1)
        if _ENDS_MESSAGE.match(line) or is_message(_bytes(line))
    ]
    if problems:
        raise PatchRefused("header", tuple(problems))
