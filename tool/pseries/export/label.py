"""The version of what is exported: upstream's, with the series' local version label.

Rules: the version specifiers of PyPA (PEP 440), "local version identifiers", and what installers
and packages were seen to do with them.
"""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from pseries.errors import LabelRefused

_LABEL = re.compile(r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*")
_HASH = re.compile(r"g?[0-9a-f]{7,40}")
_LONGEST = 64
"""Characters of a label: the file name of a wheel has to hold it beside everything else."""
_CPU = "cpu"


def labelled(version: str, label: str) -> str:
    """Return ``version`` with ``label`` as its local version, in normal form.

    A label that upstream put there (``+cu129``) stays and ours is appended, so that what selects by
    upstream's label still finds it.

    Raises:
        LabelRefused: it says why.
    """
    if reason := _reason(label):
        raise LabelRefused(label, reason)
    try:
        release = Version(version)
    except InvalidVersion:
        raise LabelRefused(label, f"{version!r} is not a version that can carry one") from None
    local = f"{release.local}.{label}" if release.local else label
    return str(Version(f"{release.public}+{local}"))


def _reason(label: str) -> str | None:
    """Say why ``label`` may not be used, or ``None`` if it may."""
    if not _LABEL.fullmatch(label):
        return "only letters and digits, in parts joined by single dots, are allowed (PEP 440)"
    if len(label) > _LONGEST:
        return f"it is longer than {_LONGEST} characters"
    if _CPU in label.lower():
        return (
            "it holds 'cpu', and there are packages that take themselves for their own CPU build"
            " when that word is anywhere in their version"
        )
    if (late := _hash_without_number(label.split("."))) is not None:
        return (
            f"the part {late!r} looks like a hash, and no number stands before it: numbers sort"
            " by value and above all words, hashes sort at random, so a later build could count as"
            f" older; write a number that grows first, such as '1.{late}'"
        )
    return None


def _hash_without_number(parts: list[str]) -> str | None:
    """Return a part that looks like a hash, unless a number before it decides the order."""
    for number, part in enumerate(parts):
        mixed = not part.isdecimal() and any(letter.isdecimal() for letter in part)
        looks_like_one = _HASH.fullmatch(part.lower()) and mixed
        if looks_like_one and not any(before.isdecimal() for before in parts[:number]):
            return part
    return None
