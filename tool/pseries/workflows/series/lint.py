"""What a careful reviewer would say of a series before it is used or sent upstream."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pseries.errors import ManifestMissing, ManifestStale, Problem
from pseries.model import commit, paths
from pseries.model.diff import opinion, splice
from pseries.model.diff import patch as patch_files
from pseries.model.diff.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pseries.model.diff.patch import Patch
    from pseries.model.diff.splice import File
    from pseries.model.series import Series

STATUSES = {
    "Pending": None,
    "Submitted": "an address",
    "Backport": "an address",
    "Inappropriate": "a reason",
    "Merged": "a version",
    "Denied": "an address",
}
"""The values of ``Upstream-Status:`` and what must stand in brackets behind them."""

_STATUS = re.compile(r"(?P<word>[A-Za-z]+)(?:\s*\[(?P<detail>[^\]]+)\])?")
_LEFTOVER = re.compile(r"(?:^|/)__pycache__/|\.(?:orig|rej|pyc|sw[op])$|~$")
"""Names of what patch, Python and editors leave behind."""
_SHOWN = 80
_ZERO_COMMIT = b"From " + b"0" * 40 + b" "


class Severity(Enum):
    """How bad a finding is: an error keeps a series from being applied, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """One thing that lint has to say."""

    severity: Severity
    where: str
    what: str


def lint(series: Series, pristine: Mapping[str, File] | None) -> tuple[Finding, ...]:
    """Return what is wrong or doubtful with a series that can be read.

    Args:
        series: the series, with all its patches.
        pristine: the touched files of the release, by canonical path, to look for hunks whose
            lines stand in more than one place; ``None`` where the release is not at hand.
    """
    findings = [*_about_spec(series), *_about_manifest(series)]
    for patch in series.patches:
        findings += _about_header(patch)
        findings += (_warning(problem) for problem in patch_files.context_warnings(patch))
        findings += (_error(problem) for problem in patch_files.refusals(patch))
        findings += (_error(problem) for problem in opinion.second_opinion(patch))
    if pristine is not None:
        findings += _ambiguous(series, pristine)
    return tuple(findings)


def _error(problem: Problem) -> Finding:
    return Finding(Severity.ERROR, problem.where, problem.what)


def _warning(problem: Problem) -> Finding:
    return Finding(Severity.WARNING, problem.where, problem.what)


def _about_spec(series: Series) -> Iterator[Finding]:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - lint only
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415

    where = "series.toml"
    spec = series.spec
    try:
        if Version(spec.upstream.version).local is not None:
            yield Finding(Severity.ERROR, where, "upstream.version carries a local label")
        Version(f"{spec.upstream.version}+{spec.label}")
    except InvalidVersion as error:
        yield Finding(Severity.ERROR, where, str(error))
    for requirement in spec.packages:
        try:
            Requirement(requirement)
        except InvalidRequirement as error:
            yield Finding(Severity.ERROR, where, f"requires {requirement!r}: {error}")
    expected = f"{spec.upstream.distribution}-{spec.upstream.version}"
    if series.name != expected and not series.name.startswith(f"{expected}-"):
        yield Finding(
            Severity.WARNING, series.name, f"the folder's name does not start with {expected}"
        )
    if not spec.summary.strip():
        yield Finding(Severity.WARNING, where, "the summary is empty")


def _about_manifest(series: Series) -> Iterator[Finding]:
    try:
        series.locked()
    except ManifestMissing as error:
        yield Finding(Severity.ERROR, "manifest.json", str(error))
    except ManifestStale as error:
        yield from (_error(problem) for problem in error.problems)


def _about_header(patch: Patch) -> Iterator[Finding]:
    header = patch.header
    if not header.subject.strip():
        yield Finding(Severity.WARNING, patch.name, "there is no subject")
    if header.author == commit.UNKNOWN:
        yield Finding(Severity.WARNING, patch.name, "its author is unknown: From: NAME <MAIL>")
    if not header.body.strip():
        yield Finding(Severity.WARNING, patch.name, "the body does not say why")
    if header.raw and not header.raw.startswith(_ZERO_COMMIT):
        yield Finding(
            Severity.WARNING, patch.name, "not in the form of `git format-patch --zero-commit`"
        )
    statuses = [value for key, value in header.trailers if key.lower() == "upstream-status"]
    if not statuses:
        yield Finding(Severity.WARNING, patch.name, "there is no Upstream-Status trailer")
    for status in statuses:
        if (trouble := _about_status(status)) is not None:
            yield Finding(Severity.ERROR, patch.name, f"Upstream-Status {trouble}")
    for section in patch.sections:
        if section.new is not None and _LEFTOVER.search(section.new):
            yield Finding(
                Severity.WARNING,
                f"{patch.name}:{section.line}",
                f"{paths.display(section.new)} looks like what a program left behind",
            )
        if section.new_blob is not None and len(section.new_blob) < 40:
            yield Finding(
                Severity.WARNING,
                f"{patch.name}:{section.line}",
                f"{paths.display(section.path)}: the index line has abbreviated ids",
            )


def _about_status(status: str) -> str | None:
    found = _STATUS.fullmatch(status.strip())
    word = found["word"] if found else status
    if found is None or word not in STATUSES:
        shown = status if len(status) <= _SHOWN else f"{status[:_SHOWN]}…"
        return f"{shown!r} is none of {', '.join(STATUSES)}"
    needed = STATUSES[word]
    if needed is not None and found["detail"] is None:
        return f"{word} needs {needed} in brackets"
    return None


def _ambiguous(series: Series, pristine: Mapping[str, File]) -> Iterator[Finding]:
    """Find hunks whose lines stand more than once in the file they are for."""
    files = dict(pristine)
    problems: list[Problem] = []
    for patch in series.patches:
        for section in patch.sections:
            if section.old is None or section.old not in files:
                continue
            source = split_lines(files[section.old][1])
            for number, hunk in enumerate(section.hunks, 1):
                places = splice.occurrences(source, split_lines(hunk.before))
                if len(places) > 1:
                    yield Finding(
                        Severity.WARNING,
                        f"{patch.name}:{hunk.line}",
                        f"hunk {number} of {paths.display(section.path)} also fits at line "
                        f"{splice.some([p for p in places if p != hunk.old_start])}",
                    )
        files = splice.apply_patch(files, patch, problems)
    yield from (_error(problem) for problem in problems)
