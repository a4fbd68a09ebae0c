"""A patch's header as a git commit, and back.

A header says more than a commit can (DEP-3 fields, the form of a mail), so it is only written anew
where a commit no longer says what the header does.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import MessageRefused, PatchRefused, Problem
from pseries.model import paths
from pseries.model.diff import mail

if TYPE_CHECKING:
    from pseries.model.diff.mail import Header

NOBODY = ("pseries <pseries@localhost>", "0 +0000")
"""Who makes our commits, and when: always the same, so that their ids are too."""
UNKNOWN = "unknown <unknown@localhost>"
"""The author of a change that nobody has put a name to."""
_NO_DATE = "0 +0000"
_BLANKS = re.compile(r"\n{3,}")
_SLUG = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG = 52
"""As many characters of a subject as git format-patch takes into a file's name."""


class Commit(NamedTuple):
    """A commit: ids of itself, its tree and its parents; who, when and why.

    ``author`` is ``Name <mail>``, ``date`` is ``seconds +hhmm`` as git keeps it (gitformat-commit);
    text is UTF-8 with surrogate escapes.
    """

    id: str
    tree: str
    parents: tuple[str, ...]
    author: str
    date: str
    message: str

    @property
    def subject(self) -> str:
        """The first paragraph on one line, as git shows it."""
        return " ".join(self.message.strip("\n").partition("\n\n")[0].split("\n"))


def parse(name: str, content: bytes) -> Commit:
    """Read a commit object (gitformat-commit); raises ``ValueError`` if it has no author."""
    head, _, message = content.partition(b"\n\n")
    tree, parents, author = "", [], ""
    for line in paths.decode(head).split("\n"):
        key, _, value = line.partition(" ")
        if key == "tree":
            tree = value
        elif key == "parent":
            parents.append(value)
        elif key == "author":
            author = value
    who, seconds, zone = author.rsplit(" ", 2)
    return Commit(name, tree, tuple(parents), who, f"{seconds} {zone}", paths.decode(message))


def render(commit: Commit) -> bytes:
    """Return the commit object; its committer is nobody at no time, so that ids repeat."""
    parents = "".join(f"parent {parent}\n" for parent in commit.parents)
    head = (
        f"tree {commit.tree}\n{parents}author {commit.author} {commit.date}\n"
        f"committer {' '.join(NOBODY)}\n\n"
    )
    return paths.encode(head + commit.message)


def of_header(header: Header, name: str) -> Commit:
    """Return a commit that says what a header says; tree and parents are left empty.

    Args:
        header: the patch's.
        name: the patch's file name, for a message where the header has none.
    """
    trailers = "\n".join(f"{key}: {value}" for key, value in header.trailers)
    parts = (header.subject or name, header.body, trailers)
    message = "\n\n".join(part for part in parts if part) + "\n"
    return Commit("", "", (), _ident(header.author), _date(header.date), message)


def header_for(commit: Commit, old: Header | None, name: str) -> bytes:
    """Return the header of a patch that a commit stands for: the old one if it says the same.

    Args:
        commit: the commit.
        old: the header that the patch has now, if it has one.
        name: the patch's file name.

    Raises:
        MessageRefused: the commit holds what a patch's header cannot, or says nothing.
    """
    if old is not None and _says(of_header(old, name)) == _says(commit):
        return old.raw
    where = f"{name} (commit {commit.id[:12]})" if commit.id else name
    if not commit.message.strip():
        raise MessageRefused(name, (Problem(where, "it has no message"),))
    first, _, rest = commit.message.strip("\n").partition("\n\n")
    subject = " ".join(first.split())
    # The reader of mails tells body and trailers apart; what it is given is not kept.
    read = mail.read(paths.encode(f"Subject: x\n\n{rest.strip()}\n"))
    try:
        raw = mail.render_header(
            subject=subject,
            author=commit.author,
            date=_mail_date(commit.date),
            body=read.body,
            trailers=read.trailers,
        )
    except PatchRefused as refused:
        problems = (Problem(where, each.what) for each in refused.problems)
        raise MessageRefused(name, tuple(problems)) from None
    except (ValueError, OverflowError, OSError):  # a year has as many limits as libraries
        raise MessageRefused(name, (Problem(where, _undated(commit)),)) from None
    wanted = commit._replace(message=f"{subject}\n\n{rest}")
    found = of_header(mail.read(raw), name)
    if _says(found) != _says(wanted):
        what = "a line of the message would be taken for its end (---, diff, Index:)"
        what = _undated(commit) if found.date != commit.date else what
        raise MessageRefused(name, (Problem(where, what),))
    return raw


def _undated(commit: Commit) -> str:
    return f"no mail can have its date, {commit.date[:60]!r}"


def slug(subject: str) -> str:
    """Return a subject as a part of a file name, ``patch`` if nothing of it can be one."""
    return _SLUG.sub("-", subject.lower()).strip("-")[:_LONGEST_SLUG].strip("-") or "patch"


def _says(commit: Commit) -> tuple[str, str, str]:
    lines = "\n".join(line.rstrip() for line in commit.message.split("\n"))
    return commit.author, commit.date, _BLANKS.sub("\n\n", lines).strip("\n")


def _ident(author: str) -> str:
    """Return ``Name <mail>`` in the form that git keeps: no brackets or line ends within."""
    name, bracket, address = author.strip().rpartition("<")
    if not bracket:
        name, address = (address, "") if "@" not in address else ("", address)
    name = re.sub(r"[<>\n\0]", "", name).strip()
    address = re.sub(r"[<>\n\0\s]", "", address)
    return f"{name or address} <{address}>" if name or address else UNKNOWN


def _date(text: str) -> str:
    """Return a mail's date (RFC 5322, 3.3) as git keeps it."""
    from email.utils import parsedate_tz  # noqa: PLC0415 - slow to import

    read = parsedate_tz(text)
    if read is None:
        return _NO_DATE
    offset = read[9] or 0
    try:
        zone = timezone(timedelta(seconds=offset))
        seconds = int(datetime(*read[:6], tzinfo=zone).timestamp())
    except (ValueError, OverflowError):
        return _NO_DATE
    sign = "-" if offset < 0 else "+"
    minutes = abs(offset) // 60
    return f"{seconds} {sign}{minutes // 60:02}{minutes % 60:02}" if seconds >= 0 else _NO_DATE


def _mail_date(date: str) -> str:
    """Return git's ``seconds +hhmm`` as git format-patch writes a date."""
    seconds, _, zone = date.partition(" ")
    minutes = int(zone[1:3]) * 60 + int(zone[3:5])
    offset = timedelta(minutes=-minutes if zone.startswith("-") else minutes)
    moment = datetime.fromtimestamp(int(seconds), timezone(offset))
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    months = (
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    )  # fmt: skip
    return (
        f"{days[moment.weekday()]}, {moment.day} {months[moment.month - 1]} {moment.year}"
        f" {moment:%H:%M:%S} {zone}"
    )
