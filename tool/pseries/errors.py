"""Every deliberate failure, as data and one sentence.

An error carries facts in its fields and words them in ``__str__``: what, where and why. Which exit
code it means and what to do next is decided at the edge (``pseries.cli.failures``), by category:
each concrete error derives from exactly one of :class:`Refused`, :class:`NeedsYou`,
:class:`Drifted` and :class:`Unreachable`.

The annotations of an error's class are its fields, as in a dataclass; it is none, because making
some hundred of those takes longer than all that ``pseries status`` does (bench/status.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options: Any) -> Any:
        """Stand in for PEP 681's marker, which Python 3.10 does not have."""
        return lambda kind: kind


@dataclass_transform(eq_default=False)
class PseriesError(Exception):
    """Base of every expected failure; never raised itself."""

    def __init__(self, *values: Any, **named: Any) -> None:
        names = type(self).fields()
        given = dict(zip(names, values), **named)  # noqa: B905 - counted on the next line
        if len(values) + len(named) != len(names) or given.keys() != set(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(names) or 'nothing'}")
        super().__init__(*values)
        self.__dict__.update(given)

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Return the names of the facts that an error of this kind carries."""
        return tuple(vars(cls).get("__annotations__", ()))


class Refused(PseriesError):
    """The request was turned down, or a check is negative; nothing was changed."""


class NeedsYou(PseriesError):
    """Work stopped half way in a known state, and a person has to say how to go on."""


class Drifted(PseriesError):
    """The target is not what the manifest says."""


class Unreachable(PseriesError):
    """An upstream source could not be reached."""


class Problem(NamedTuple):
    """One thing that is wrong, and where: a file, a file and line, or a key."""

    where: str
    what: str

    def __str__(self) -> str:
        where = self.where.replace("\n", "\\n")  # a name of a stranger's must not add a line
        return f"{where}: {self.what}"


MOST_LISTED = 50


def listing(problems: tuple[Problem, ...]) -> str:
    """Return the problems one a line, indented to stand below a sentence; many are cut short."""
    shown = "".join(f"\n  {problem}" for problem in problems[:MOST_LISTED])
    more = len(problems) - MOST_LISTED
    return f"{shown}\n  and {more} more" if more > 0 else shown


# --- series folders and patch files -----------------------------------------------------------


class PatchRefused(Refused):
    """A patch file is not one that can be applied safely."""

    name: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"patch {self.name} is refused:{listing(self.problems)}"


class SeriesInvalid(Refused):
    """A series folder breaks the rules of its format."""

    series: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"series {self.series} is not valid:{listing(self.problems)}"


class SeriesNotFound(Refused):
    """No series of that name was found where series are looked for."""

    name: str
    looked_in: tuple[str, ...]
    known: tuple[str, ...]
    close: tuple[str, ...]
    hidden: str
    """The folder of the series that ship with the program, where it is one of those."""

    def __str__(self) -> str:
        places = ", ".join(self.looked_in) or "no folder"
        if self.hidden:
            return (
                f"no series named {self.name!r} in {places}, which hides the one that ships with"
                " pseries"
            )
        if self.close:
            return f"no series named {self.name!r} in {places}; close: {', '.join(self.close)}"
        known = ", ".join(self.known) or "none"
        return f"no series named {self.name!r} in {places}; there are: {known}"


class SeriesFolderMissing(Refused):
    """The folder in which series were to be looked for is none, or is a series itself."""

    folder: str
    said_by: str
    above: str
    """The folder that the series lies in, "" if it is none."""

    def __str__(self) -> str:
        what = "is one series, not the folder of series" if self.above else "is not a folder"
        return f"{self.folder}, given by {self.said_by}, {what}"


class ManifestMissing(Refused):
    """A series has no manifest, so nothing that is written could be checked."""

    series: str

    def __str__(self) -> str:
        return f"series {self.series} has no manifest.json"


class ManifestStale(Refused):
    """A series is not the one that its manifest was made of."""

    series: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"series {self.series} is not what its manifest says:{listing(self.problems)}"


class DoesNotApply(Refused):
    """Patches do not fit the tree they were tried on."""

    series: str
    release: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"series {self.series} does not apply to {self.release}:{listing(self.problems)}"


class NeedsBuild(Refused):
    """A series touches sources of a compiled part, which no installed file shows."""

    series: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"series {self.series} needs a build:{listing(self.problems)}"


class NothingToApply(Refused):
    """No file of a series is carried by the layout it is to be applied to."""

    series: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"series {self.series} has nothing for an installed package:{listing(self.problems)}"


# --- git --------------------------------------------------------------------------------------


class GitMissing(Refused):
    """There is no git to run."""

    path: str

    def __str__(self) -> str:
        return f"git was not found on PATH ({self.path or 'PATH is empty'})"


class GitTooOld(Refused):
    """The git that was found lacks what the command needs."""

    found: str
    needed: str
    purpose: str

    def __str__(self) -> str:
        return f"git {self.found} is too old to {self.purpose}: {self.needed} or newer is needed"


class GitFailed(Refused):
    """A git command ended with an unexpected status."""

    command: tuple[str, ...]
    status: int
    stderr: str

    def __str__(self) -> str:
        said = self.stderr.strip() or "it said nothing"
        return f"git {' '.join(self.command[:3])} … ended with status {self.status}: {said}"


class GitLimit(Refused):
    """A git command was stopped because it took too long or printed too much."""

    command: tuple[str, ...]
    limit: str

    def __str__(self) -> str:
        return (
            f"git {' '.join(self.command[:3])} … was stopped: it passed the limit of {self.limit}"
        )


class PatchRejected(Refused):
    """Git refuses to apply a patch to the tree it was given."""

    name: str
    said: str

    def __str__(self) -> str:
        return f"patch {self.name} does not apply: {self.said or 'git gives no reason'}"


class ReadingsDiffer(Refused):
    """Git and pseries read different things in one patch, so neither reading is trusted."""

    name: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"patch {self.name} is ambiguous:{listing(self.problems)}"


# --- installed trees --------------------------------------------------------------------------


class SiteNotFound(Refused):
    """A folder that was named as site-packages cannot be opened."""

    site: str
    reason: str

    def __str__(self) -> str:
        return f"{self.site} cannot be used as a site-packages folder: {self.reason}"


class TargetRefused(Refused):
    """Something in a target is not a plain file in plain folders, or may not be read.

    ``kind`` is "link", "access" (it cannot be read), "bits" (setuid and the like) or "other".
    """

    site: str
    path: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{_place(self.site, self.path)} is refused: it {self.reason}"


class TargetNotWritable(Refused):
    """The system does not let a change be made; everything was left, or put back, as it was."""

    site: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{_place(self.site, self.path)} cannot be written: {self.reason}"


class TargetChanged(Drifted):
    """Files are not, or no longer, what a change was planned for; nothing was changed."""

    site: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"files in {self.site} are not what they were:{listing(self.problems)}"


class BackupLost(Refused):
    """The stored content that a file has to get back is not there, or is damaged."""

    site: str
    path: str
    sha256: str

    def __str__(self) -> str:
        place = _place(self.site, self.path)
        return f"the backup of {place} (sha256 {self.sha256}) is missing or damaged"


class TransactionInterrupted(NeedsYou):
    """A change of a target was decided, begun, and could not be finished."""

    site: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"a change of {self.site} is unfinished: {self.path}: {self.reason}"


class TransactionBlocked(NeedsYou):
    """An interrupted change cannot be finished because somebody else changed its files since."""

    site: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return (
            f"the interrupted change of {self.site} cannot be finished, these files are neither"
            f" what they were nor what they were to become:{listing(self.problems)}"
        )


class JournalInvalid(NeedsYou):
    """The journal of an interrupted change is not one that can be trusted."""

    site: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"the journal in {self.site} cannot be used:{listing(self.problems)}"


class StateInvalid(Refused):
    """The record of what is applied is not one that can be trusted."""

    site: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"the record of what is applied in {self.site} is not valid:{listing(self.problems)}"


class StateNotOurs(Refused):
    """What pseries keeps in a target was written by somebody who could use our rights by it."""

    site: str
    path: str
    owner: int

    def __str__(self) -> str:
        place = _place(self.site, self.path)
        return f"{place} is not trusted: it belongs to the user {self.owner}"


class LockedByOther(Refused):
    """Another process is changing the same target and did not finish in time."""

    site: str
    seconds: float

    def __str__(self) -> str:
        return f"another process has been changing {self.site} for more than {self.seconds:g} s"


class PurgeRefused(Refused):
    """What pseries keeps in a target is still needed."""

    site: str
    reason: str

    def __str__(self) -> str:
        return f"{self.site}/.pseries stays: {self.reason}"


class DistributionNotFound(Refused):
    """No installed distribution of that name was found."""

    name: str
    looked_in: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} is not installed in {', '.join(self.looked_in) or 'any folder'}"


class DistributionRefused(Refused):
    """A distribution is installed in a way that cannot be patched."""

    name: str
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} in {self.where} cannot be patched: {self.reason}"


class EditableInstall(Refused):
    """A distribution is installed as a link to a checkout."""

    name: str
    where: str
    source: str | None

    def __str__(self) -> str:
        source = f" of {self.source}" if self.source else ""
        return f"{self.name} in {self.where} is an editable install{source}: patch that checkout"


class WrongTree(Refused):
    """A distribution lies in one place, but Python imports another copy."""

    name: str
    where: str
    module: str
    imported: str
    python: str

    def __str__(self) -> str:
        return (
            f"{self.name} is installed in {self.where}, but {self.python} imports"
            f" {self.module} from {self.imported}"
        )


class InterpreterFailed(Refused):
    """A Python interpreter did not say where its packages are."""

    python: str
    reason: str

    def __str__(self) -> str:
        return f"{self.python} could not be asked for its packages: {self.reason}"


class WrongRelease(Refused):
    """A series is for another release than the one that is installed."""

    series: str
    distribution: str
    wanted: str
    found: str
    fits: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"series {self.series} is for {self.distribution} {self.wanted},"
            f" but {self.found} is installed"
        )


class UnknownRelocation(Refused):
    """A series has no ``[[relocate]]`` of that name."""

    series: str
    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        return f"series {self.series} has no relocation named {self.name!r}; there are: {known}"


class ForeignFile(Refused):
    """A series touches files that another distribution owns."""

    series: str
    owners: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        files = tuple(Problem(path, f"belongs to {owner}") for path, owner in self.owners)
        return f"series {self.series} touches files of another distribution:{listing(files)}"


class Overlap(Refused):
    """Two series touch the same file and neither says that it is made on top of the other."""

    series: str
    other: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"series {self.series} and {self.other}, which is applied, both touch"
            f" {', '.join(self.paths)}"
        )


class MissingBeneath(Refused):
    """A series is made on top of others that are not applied."""

    series: str
    missing: tuple[str, ...]

    def __str__(self) -> str:
        return f"series {self.series} is made on top of {', '.join(self.missing)}, not applied here"


class OtherDigest(Refused):
    """A series of this name is applied already, but not this state of it."""

    series: str
    applied: str
    wanted: str

    def __str__(self) -> str:
        return (
            f"another state of series {self.series} is applied"
            f" (digest {self.applied[:12]}, this one is {self.wanted[:12]})"
        )


class OtherRelocation(Refused):
    """A series is applied already, but to another folder; "" stands for no relocation."""

    series: str
    applied: str
    wanted: str

    def __str__(self) -> str:
        how = f"relocated by {self.applied}" if self.applied else "without a relocation"
        return f"series {self.series} is applied {how}, so not by {self.wanted} as well"


class Drift(Drifted):
    """Files of a target are neither what a series starts from nor what it ends with.

    ``rows`` holds, for every file of the series, its path and its state.
    """

    series: str
    site: str
    rows: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        width = max(len(state) for _, state in self.rows)
        table = "".join(f"\n  {state:{width}}  {path}" for path, state in self.rows)
        return f"{self.site} is not what series {self.series} was made for:{table}"


class RecoveryNeeded(NeedsYou):
    """A change of a target was interrupted, or is under way at this moment."""

    site: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"a change of {self.site} is not finished ({len(self.paths)} files)"


class NotApplied(Refused):
    """There is nothing to take off."""

    site: str
    series: str | None
    applied: tuple[str, ...]

    def __str__(self) -> str:
        what = f"series {self.series} is not" if self.series else "no series is"
        others = f"; applied: {', '.join(self.applied)}" if self.applied else ""
        return f"{what} applied to {self.site}{others}"


class NotOnTop(Refused):
    """Series come off in reverse order, and others were applied later."""

    series: str
    above: tuple[str, ...]

    def __str__(self) -> str:
        return f"series {self.series} is below {', '.join(self.above)}"


class ChangedSince(Refused):
    """Files were changed after a series was applied; taking it off would lose that."""

    series: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"files were changed since {self.series} was applied:{listing(self.problems)}"


class ReplacedUnderneath(Refused):
    """The distribution was reinstalled or upgraded after a series was applied."""

    series: str
    distribution: str
    was: str
    now: str

    def __str__(self) -> str:
        return (
            f"{self.distribution} was changed underneath: {self.series} was applied to"
            f" {self.was}, now there is {self.now}"
        )


class StillInPlace(Refused):
    """A series was to be forgotten although its package was not replaced."""

    series: str
    distribution: str

    def __str__(self) -> str:
        return (
            f"{self.distribution} was not replaced since {self.series} was applied: forgetting it"
            " would lose the only copy of the original files"
        )


class Unplaceable(Refused):
    """Nobody can say whether an installed package would carry files of a series."""

    series: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"series {self.series} has files without a sure place:{listing(self.problems)}"


def _place(site: str, path: str) -> str:
    return f"{site}/{path}".encode("utf-8", "backslashreplace").decode() if path else site


# --- upstream ---------------------------------------------------------------------------------


class UpstreamInvalid(Refused):
    """A name, version, address or tag has a shape that is not allowed."""

    what: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {self.value!r} is refused: {self.reason}"


class ArchiveRefused(Refused):
    """A wheel or sdist breaks a rule that keeps its reading safe and unambiguous."""

    archive: str
    member: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.archive}, member {self.member!r}" if self.member else self.archive
        return f"{where}: {self.reason}"


class FolderRefused(Refused):
    """A folder cannot serve as a release."""

    folder: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"{self.folder} cannot serve as a release:{listing(self.problems)}"


class ReleaseTaken(Refused):
    """A folder would take the place of a release that came from an index or from git."""

    distribution: str
    version: str
    origin: str

    def __str__(self) -> str:
        what = f"{self.distribution} {self.version} is in the store from {self.origin}"
        return f"{what}, and every series for it goes by that"


class ReleaseNotFound(Refused):
    """The sources answered, and none of them has the release."""

    distribution: str
    version: str
    reasons: tuple[Problem, ...]
    nearest: tuple[str, ...]

    def __str__(self) -> str:
        near = f"; nearest versions: {', '.join(self.nearest)}" if self.nearest else ""
        return f"no release {self.distribution} {self.version}{near}{listing(self.reasons)}"


class ReleaseUnreachable(Unreachable):
    """No source that may have the release could be asked."""

    distribution: str
    version: str
    reasons: tuple[Problem, ...]

    def __str__(self) -> str:
        what = f"{self.distribution} {self.version}".strip()
        return f"{what} could not be fetched:{listing(self.reasons)}"


class NoSuchRelease(Refused):
    """A release that is to be taken out of the store is not in it."""

    distribution: str
    version: str
    known: tuple[str, ...]
    close: tuple[str, ...]

    def __str__(self) -> str:
        others = f"close: {', '.join(self.close)}" if self.close else ""
        others = others or f"there are: {', '.join(self.known) or 'none'}"
        return f"{self.distribution} {self.version} is not in the store; {others}"


class ReleaseNotStored(Unreachable):
    """A release is not in the store, and the network is forbidden."""

    distribution: str
    version: str
    git: str
    tag: str
    root: str
    sources: tuple[str, ...]
    reasons: tuple[Problem, ...]

    def __str__(self) -> str:
        what = f"{self.distribution} {self.version}"
        return f"{_not_stored(what)}:{listing(self.reasons)}"


class FileNotStored(Unreachable):
    """A file of a release was not downloaded before, and the network is forbidden."""

    filename: str

    def __str__(self) -> str:
        return _not_stored(self.filename)


def _not_stored(what: str) -> str:
    return f"{what} is not in the store, and --offline forbids to fetch it"


class IndexUnreachable(Unreachable):
    """The package index gave no answer, or one that says to come back with other credentials."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where} could not be reached: {self.reason}"


class IndexInvalid(Refused):
    """The package index answered something that breaks its protocol."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"the answer of {self.where} cannot be used: {self.reason}"


class RangesUnsupported(Refused):
    """The server sends whole files only, so that single members cannot be read from a wheel."""

    where: str

    def __str__(self) -> str:
        return f"{self.where} cannot be read in part: the server does not answer range requests"


class ArtefactMismatch(Refused):
    """A file is not the one that was pinned or announced."""

    filename: str
    expected: str
    found: str
    said_by: str

    def __str__(self) -> str:
        return (
            f"{self.filename} is not the file that {self.said_by} names: "
            f"{self.expected} was expected, {self.found} found"
        )


class StoreUnreadable(Refused):
    """An entry of the upstream store was not written by this program, or by a newer one."""

    git_dir: str
    tag: str
    reason: str

    def __str__(self) -> str:
        return f"{self.git_dir}, tag {self.tag}: {self.reason}"


class StoreBusy(Refused):
    """Another process kept the upstream store of a distribution locked for too long."""

    git_dir: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.git_dir} has been in use by another process for {self.seconds:g} s"


# --- exports ----------------------------------------------------------------------------------


class LabelRefused(Refused):
    """A local version label cannot be used."""

    label: str
    reason: str

    def __str__(self) -> str:
        return f"label {self.label!r} is refused: {self.reason}"


class WheelInvalid(Refused):
    """A wheel contradicts itself or breaks a rule of its format."""

    wheel: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"wheel {self.wheel} is not valid:{listing(self.problems)}"


class NothingToIndex(Refused):
    """A folder holds no wheel and no sdist."""

    folder: str

    def __str__(self) -> str:
        return f"{self.folder} holds no wheel and no sdist"


# --- rebase -----------------------------------------------------------------------------------


class SeriesUnclear(Refused):
    """No series was named, and more than one, or none, could be meant.

    ``what`` says what for, or of which; "" where that needs no saying.
    """

    what: str
    candidates: tuple[str, ...]

    def __str__(self) -> str:
        meant = f"could be meant {self.what}".rstrip()
        if not self.candidates:
            return f"no series is there that {meant}"
        return f"no series was named, and several {meant}: {', '.join(self.candidates)}"


class AlreadyForRelease(Refused):
    """A series is to be carried to the release that it is for."""

    series: str
    version: str

    def __str__(self) -> str:
        return f"series {self.series} is for {self.version} already"


class SeriesExists(Refused):
    """The folder of the new series is there and holds something else than would be written."""

    folder: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"{self.folder} exists and is left as it is:{listing(self.problems)}"


class BuiltOnOthers(Refused):
    """A series is made on top of others that are not there for the new release yet."""

    series: str
    missing: tuple[str, ...]

    def __str__(self) -> str:
        return f"series {self.series} is made on top of series not there: {', '.join(self.missing)}"


class RebaseInProgress(Refused):
    """A series is being rebased already."""

    series: str
    target: str
    patch: str

    def __str__(self) -> str:
        where = f", stopped at {self.patch}" if self.patch else ""
        return f"series {self.series} is being rebased to {self.target}{where}"


class NoRebase(Refused):
    """There is no rebase to go on with, to skip in or to abort."""

    series: str

    def __str__(self) -> str:
        return f"no rebase of {self.series or 'any series'} is in progress here"


class RebaseNotStopped(Refused):
    """A decision is given, but no patch waits for one."""

    series: str

    def __str__(self) -> str:
        return f"the rebase of {self.series} is not stopped at a patch: it was interrupted"


class RebaseUnresolved(NeedsYou):
    """A patch is to be taken as resolved, but what is in its worktree cannot be."""

    patch: str
    folder: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"{self.patch} is not resolved in {self.folder}:{listing(self.problems)}"


class RebaseInvalid(NeedsYou):
    """The record of a rebase that is in progress is not one that can be trusted."""

    folder: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"the rebase in {self.folder} cannot go on:{listing(self.problems)}"


class RebaseNotOurs(Refused):
    """Another user began a rebase, and what is kept of it would decide what is done here."""

    folder: str
    owner: int

    def __str__(self) -> str:
        return f"the rebase in {self.folder} belongs to another user ({self.owner})"


class SeriesBusy(Refused):
    """Another process rebases, imports or makes a series in the same folder."""

    folder: str

    def __str__(self) -> str:
        return f"another process is changing a series of {self.folder}"


class WorktreeRefused(NeedsYou):
    """What a person left in the worktree of a stopped patch cannot be taken."""

    folder: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"the worktree {self.folder} cannot be read:{listing(self.problems)}"


class FolderInTheWay(Refused):
    """Something has the name of a folder that is to be written, and is not one of ours."""

    folder: str

    def __str__(self) -> str:
        return f"{self.folder} is there already and is not a kit"


class NoWheelFits(Refused):
    """None of a release's wheels is for the platform that was asked for."""

    distribution: str
    version: str
    platform: str
    wheels: tuple[str, ...]

    def __str__(self) -> str:
        what = f"{self.distribution} {self.version}"
        if not self.wheels:
            return f"no wheel of {what} is known: none is in the manifest"
        there = "".join(f"\n  {name}" for name in self.wheels)
        return f"no wheel of {what} is for {self.platform}; it has:{there}"


class FileNotListed(Refused):
    """The index does not have a file that it had when the series was locked."""

    filename: str
    listed: tuple[str, ...]

    def __str__(self) -> str:
        listed = ", ".join(self.listed) or "no file"
        return (
            f"the index has no {self.filename}, which the manifest names; of that release it has:"
            f" {listed}"
        )


class WrongWheel(Refused):
    """A wheel is not of the release that a series is for."""

    series: str
    wheel: str
    wanted: str

    def __str__(self) -> str:
        return f"series {self.series} is for {self.wanted}; {self.wheel} is not of that release"


class AlreadyPatched(Refused):
    """A wheel that is to be patched holds the series already."""

    series: str
    wheel: str

    def __str__(self) -> str:
        return f"{self.wheel} holds series {self.series} already"


class NoSourceTree(Refused):
    """There is neither an sdist nor a whole source tree to make one of."""

    release: str
    source: str

    def __str__(self) -> str:
        return (
            f"{self.release} has no sdist, and the store has it from a {self.source}, which does"
            " not hold all that a build needs"
        )


class EpochInvalid(Refused):
    """``SOURCE_DATE_EPOCH`` is not a number of seconds."""

    value: str

    def __str__(self) -> str:
        return f"SOURCE_DATE_EPOCH is {self.value!r}, not a whole number of seconds since 1970"


class BuildFailed(Refused):
    """The build backend of a release did not make a wheel."""

    release: str
    said: str

    def __str__(self) -> str:
        return f"{self.release} could not be built: {self.said}"


# --- working on a series ----------------------------------------------------------------------


class NotACheckout(Refused):
    """The folder is not in a checkout of a series."""

    folder: str

    def __str__(self) -> str:
        return f"{self.folder} is not in a checkout of a series"


class CheckoutInvalid(Refused):
    """What pseries keeps in a checkout's git cannot be read."""

    folder: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"the checkout {self.folder} cannot be used:{listing(self.problems)}"


class CheckoutInTheWay(Refused):
    """Something has the name of the folder that a checkout is to become."""

    folder: str

    def __str__(self) -> str:
        return f"{self.folder} is there already"


class CheckoutNotOurs(Refused):
    """A checkout belongs to another user, whose settings could run anything."""

    folder: str
    owner: int

    def __str__(self) -> str:
        return f"the checkout {self.folder} belongs to another user ({self.owner})"


class StoreGone(Refused):
    """The store that a checkout reads its release from is not there any more."""

    series: str
    store: str

    def __str__(self) -> str:
        return f"the release below {self.series} is gone: it was in the store {self.store}"


class CheckoutBusy(Refused):
    """Another process works on the same checkout."""

    folder: str

    def __str__(self) -> str:
        return f"another process is working on the checkout {self.folder}"


class PatchNotFound(Refused):
    """A word means no patch of the series, or several."""

    name: str
    close: tuple[str, ...]

    def __str__(self) -> str:
        close = f"; there are {', '.join(self.close)}" if self.close else ""
        return f"{self.name!r} is the name of no patch, or of several{close}"


class StackEnd(Refused):
    """There is no patch in the direction that was asked for."""

    what: str

    def __str__(self) -> str:
        return self.what


class NameTaken(Refused):
    """A patch of that name is there already, or the name cannot be one."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name!r} cannot be the name of a new patch: {self.why}"


class Unrefreshed(Refused):
    """The worktree holds changes that are in no patch yet, which this would lose."""

    files: tuple[str, ...]

    def __str__(self) -> str:
        shown = "".join(f"\n  {name}" for name in self.files[:MOST_LISTED])
        return f"these files hold changes that are in no patch yet:{shown}"


class Unwritten(Refused):
    """Patches of a checkout are not in the series folder as they are in it."""

    patches: tuple[str, ...]

    def __str__(self) -> str:
        return f"the series folder does not hold these as they are: {', '.join(self.patches)}"


class InTheWay(Refused):
    """Untracked files stand where a patch would put its own, or git refused to change a file."""

    said: str

    def __str__(self) -> str:
        return f"the worktree was not changed: {self.said}"


class CommitsMoved(Refused):
    """HEAD is not where the stack has it: somebody worked with plain git."""

    found: str
    expected: str

    def __str__(self) -> str:
        return f"the commits were changed with git: HEAD is {self.found}, not {self.expected}"


class BaseChanged(Refused):
    """A series that others are made on top of is not what their checkout stands on any more."""

    series: str
    beneath: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.beneath)} changed since {self.series} was checked out on it"


class GitUnfinished(Refused):
    """A command of plain git stopped half way and waits for a person."""

    command: str

    def __str__(self) -> str:
        return f"a git {self.command} is half done in this checkout"


class HeadAside(Refused):
    """HEAD is detached at a commit below the top patch: somebody looks at it."""

    found: str

    def __str__(self) -> str:
        return f"HEAD is detached at {self.found}, below the top patch, with nothing new on it"


class MessageRefused(PatchRefused):
    """The message of a commit cannot become the header of a patch."""

    name: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"this cannot be the header of a patch:{listing(self.problems)}"


class SplitRefused(PatchRefused):
    """What is to be split off a patch is not in it, or is all of it."""

    name: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"{self.name} cannot be split so:{listing(self.problems)}"


class CommitsUnusable(Refused):
    """The commits above the release are no plain row of patches."""

    why: str

    def __str__(self) -> str:
        return f"the commits cannot be taken over: {self.why}"


class FolderChanged(Refused):
    """Files of the series folder are not what the checkout wrote or read."""

    folder: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.folder} was changed by somebody else: {', '.join(self.files[:MOST_LISTED])}"


class LaterConflicts(Refused):
    """A change to a patch would conflict with a patch above it."""

    patch: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.patch} would no longer apply, in {', '.join(self.files)}"


class Uncommittable(Refused):
    """A change that no patch of a series can hold."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"this cannot become part of a patch:{listing(self.problems)}"


class DoesNotFold(Refused):
    """A diff does not apply to the worktree."""

    said: str

    def __str__(self) -> str:
        return f"the diff does not apply: {self.said}"


class IdentityMissing(Refused):
    """Nothing says who makes a new patch."""

    looked_in: tuple[str, ...]

    def __str__(self) -> str:
        return (
            "git does not know your name and mail address, which a new patch says; looked in"
            f" {', '.join(self.looked_in)}"
        )


class PushStopped(NeedsYou):
    """A patch that was pushed conflicts with what is below it now."""

    patch: str
    places: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"{self.patch} conflicts with what is below it now:{listing(self.places)}"


class PushPending(NeedsYou):
    """A push stopped at a conflict, which comes first."""

    patch: str

    def __str__(self) -> str:
        return f"{self.patch} is being pushed and has conflicts to resolve"


class Unresolved(NeedsYou):
    """Conflict markers are left in what is to become the patch."""

    patch: str
    places: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"{self.patch} is not resolved yet:{listing(self.places)}"


# --- around the engine ------------------------------------------------------------------------


class NotServed(Refused):
    """A series does not say how its engine is served, or what it must answer."""

    series: str
    table: str

    def __str__(self) -> str:
        return f"series {self.series} has no {self.table} in series.toml"


class PlaceholderOpen(Refused):
    """A placeholder of a series has no value."""

    series: str
    name: str
    where: str

    def __str__(self) -> str:
        return f"{self.where} of series {self.series} needs a value for {{{self.name}}}"


class NotPatched(Refused):
    """A target does not hold the series that it is to be served with."""

    series: str
    site: str
    applied: tuple[str, ...]

    def __str__(self) -> str:
        others = f"; applied: {', '.join(self.applied)}" if self.applied else ""
        return f"{self.site} is not patched with series {self.series}{others}"


class PythonNotFound(Refused):
    """No interpreter belongs to a site-packages folder."""

    site: str

    def __str__(self) -> str:
        return f"no Python was found that {self.site} belongs to"


class MemlockRefused(Refused):
    """The limit on locked memory may not be raised."""

    wanted: str
    limit: str

    def __str__(self) -> str:
        limit = f"it is limited to {self.limit}"
        return f"locked memory (RLIMIT_MEMLOCK) must be {self.wanted}; {limit}"


class CommandNotStarted(Refused):
    """The command of an engine could not be started."""

    command: str
    reason: str

    def __str__(self) -> str:
        return f"{self.command} could not be started: {self.reason}"


class ServerNotUp(Refused):
    """A server did not answer at all in the time it was given."""

    url: str
    seconds: float
    reason: str

    def __str__(self) -> str:
        return f"no server answers at {self.url} after {self.seconds:g} s: {self.reason}"


class ModelUnclear(Refused):
    """Nobody said which of a server's models is meant, and it does not serve exactly one."""

    url: str
    models: tuple[str, ...]

    def __str__(self) -> str:
        there = ", ".join(self.models[:20]) or "none that it tells"
        return f"it is not clear which model of {self.url} is meant; it has: {there}"


class SmokeFailed(Refused):
    """A served engine did not answer as it must."""

    series: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"the server of series {self.series} failed:{listing(self.problems)}"


class BuilderMissing(Refused):
    """There is no program that builds images."""

    tried: tuple[str, ...]

    def __str__(self) -> str:
        return f"no builder of images was found on PATH: {', '.join(self.tried)}"


class ImageRefused(Refused):
    """An image cannot have that name, or cannot be made of that series."""

    what: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what} {self.value!r} is refused: {self.reason}"


class ImageNotBuilt(Refused):
    """A builder did not make the image; what it said was told as it came."""

    base: str
    builder: str
    status: int

    def __str__(self) -> str:
        return f"no image was built on {self.base}: {self.builder} ended with status {self.status}"


class FileNotShown(Refused):
    """A file is not in the release, or lies outside the checkout."""

    path: str

    def __str__(self) -> str:
        return f"{self.path} is no file of this checkout"


class EditorFailed(Refused):
    """The editor could not be started, or said that something went wrong."""

    editor: str
    said: str

    def __str__(self) -> str:
        return f"the editor {self.editor!r} failed: {self.said}"


# --- exchange ---------------------------------------------------------------------------------


class SourceRefused(Refused):
    """What is to be imported holds no patches, or its order file breaks the format's rules."""

    source: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"nothing can be imported from {self.source}:{listing(self.problems)}"


class RangeRefused(Refused):
    """A range of commits cannot be read as patches."""

    repository: str
    between: str
    reason: str

    def __str__(self) -> str:
        return f"the range {self.between!r} of {self.repository} is refused: {self.reason}"


class ImportUnclear(Refused):
    """Nothing says for which release, or into which series, patches are to be imported."""

    distributions: tuple[str, ...]
    distribution: str
    fitting: tuple[str, ...]
    known: tuple[str, ...]

    def __str__(self) -> str:
        if not self.distribution:
            known = f"; in the store: {', '.join(self.distributions)}" if self.distributions else ""
            return f"nothing says which distribution the patches are for{known}"
        if self.fitting:
            return f"the patches fit {self.distribution} {', '.join(self.fitting)} equally well"
        known = ", ".join(self.known) or "none"
        return f"the patches fit no {self.distribution} in the store, which has: {known}"


class TagUnclear(Refused):
    """No tag of a repository, or not a single one, is of a version."""

    repository: str
    version: str
    close: tuple[str, ...]

    def __str__(self) -> str:
        close = f"; close: {', '.join(self.close)}" if self.close else ""
        return f"{self.repository} has not just one tag for {self.version}{close}"


class ExportRefused(Refused):
    """A series holds what another form has no room for."""

    series: str
    form: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return f"series {self.series} cannot be exported as {self.form}:{listing(self.problems)}"


class ExportInTheWay(Refused):
    """Something has the name that an export is to have."""

    path: str

    def __str__(self) -> str:
        return f"{self.path} is there already"


class CaptureRefused(Refused):
    """What is installed cannot be compared with the official release."""

    distribution: str
    site: str
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        where = f"{self.distribution} in {self.site}"
        return f"the edits of {where} cannot be captured:{listing(self.problems)}"


class NothingToCapture(Refused):
    """Every installed file is as the official release has it."""

    distribution: str
    version: str
    site: str
    files: int

    def __str__(self) -> str:
        return (
            f"nothing is to be captured: all {self.files} files of {self.distribution}"
            f" {self.version} in {self.site} are as released"
        )
